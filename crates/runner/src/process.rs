//! Process: runs one child process with a time limit and keeps what it prints.
//!
//! The child leads a process group of its own, so what it started ends with it when its time is
//! over.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two looks at a running child.
const LOOK: Duration = Duration::from_millis(4);

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// Whether it ended in time and with status 0.
    pub is_ok: bool,
    /// How long it ran.
    pub took: Duration,
    /// What it printed, and why it was ended if it was.
    pub output: String,
}

/// Runs a command until it ends or `limit` has passed. What it prints goes to `log`.
///
/// # Errors
/// The system's, when the command does not start or `log` cannot be read.
pub fn run(command: &mut Command, log: File, limit: Duration) -> std::io::Result<Ended> {
    let start = now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .process_group(0)
        .spawn()?;
    let status = wait(&mut child, start, limit)?;
    let took = start.elapsed();
    let mut output = read(log)?;
    match status {
        None => output.push_str(&format!(
            "\nended after its limit of {} s\n",
            limit.as_secs()
        )),
        Some(status) if !status.success() => output.push_str(&format!("\n{status}\n")),
        Some(_) => {}
    }
    Ok(Ended {
        is_ok: status.is_some_and(|status| status.success()),
        took,
        output,
    })
}

/// Waits for a child; none if its time was over.
fn wait(child: &mut Child, start: Instant, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            end_group(child);
            child.wait()?;
            return Ok(None);
        }
        sleep(LOOK);
    }
}

/// Ends a child and all in its process group.
fn end_group(child: &mut Child) {
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-KILL", "--", &group]).status();
    if sent.is_err() {
        // Without the program `kill`, the child alone ends.
        let _ = child.kill();
    }
}

fn read(mut log: File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    log.seek(SeekFrom::Start(0))?;
    log.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The machine's clock: what is measured here is how long children take.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing else tells how long a child runs"
)]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        let name = format!("runner-process-{}-{}", std::process::id(), script.len());
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        let log = options.create(true).truncate(true).read(true).write(true);
        let log = log.open(&path).unwrap();
        let ended = run(Command::new("sh").args(["-c", script]), log, limit).unwrap();
        std::fs::remove_file(path).unwrap();
        ended
    }

    #[test]
    fn what_a_child_prints_is_kept_and_its_status_counts() {
        let ended = shell("echo out; echo err >&2", Duration::from_secs(60));
        assert!(ended.is_ok);
        assert_eq!(ended.output, "out\nerr\n");
        let ended = shell("exit 3", Duration::from_secs(60));
        assert!(!ended.is_ok && ended.output.contains("3"));
    }

    #[test]
    fn a_child_that_hangs_ends_with_all_that_it_started() {
        let ended = shell("sleep 1000 & sleep 1000", Duration::from_millis(50));
        assert!(!ended.is_ok && ended.output.contains("limit"), "{ended:?}");
    }
}
