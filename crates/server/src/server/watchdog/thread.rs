//! Thread: what the system knows about an event loop's thread.

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// All threads of this process.
const THREADS: &str = "/proc/self/task";

/// The state of the thread of event loop `index`, in words for the log: its number, its state (R:
/// it computes; S, D: it waits), its processor time, its wait channel, its system call.
pub(super) fn facts(index: usize) -> String {
    let Some(folder) = folder(&format!("cellar-{index}")) else {
        return "no such thread".to_owned();
    };
    let number = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut facts = format!("thread={number}");
    if let Some((state, ticks)) = state(&folder) {
        facts.push_str(&format!(" state={state} processor_ticks={ticks}"));
    }
    for name in ["wchan", "syscall"] {
        if let Ok(text) = read_to_string(folder.join(name)) {
            facts.push_str(&format!(" {name}={}", text.trim().replace(' ', ",")));
        }
    }
    facts
}

/// The folder of the thread with this name.
fn folder(name: &str) -> Option<PathBuf> {
    let is_it = |folder: &PathBuf| {
        read_to_string(folder.join("comm")).is_ok_and(|text| text.trim_end() == name)
    };
    let threads = read_dir(THREADS).ok()?;
    threads.flatten().map(|entry| entry.path()).find(is_it)
}

/// The thread's state, and its time on the processor in ticks.
fn state(folder: &Path) -> Option<(String, u64)> {
    let text = read_to_string(folder.join("stat")).ok()?;
    // The second field is the name in parentheses, which may hold spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(((*fields.first()?).to_owned(), ticks(11)? + ticks(12)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_by_its_name_with_what_it_does() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("cellar-9999".to_owned());
        let thread = thread.spawn(move || ended.recv()).unwrap();
        // The name is set by the thread itself.
        while folder("cellar-9999").is_none() {
            std::thread::yield_now();
        }
        let found = facts(9_999);
        assert!(
            found.starts_with("thread=") && found.contains(" state="),
            "{found}"
        );
        drop(end);
        thread.join().unwrap().unwrap_err();
        assert_eq!(facts(9_998), "no such thread");
    }
}
