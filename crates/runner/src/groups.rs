//! Groups: runs whole groups of tests side by side and shows how far each is.
//!
//! A group is a command of the repository (lints, Maven, real clients) or the Rust tests
//! themselves. Each runs in a lane behind the others of that lane. At least every [`REPORT`] a line
//! shows where each running group is. A group whose tools are missing is skipped with a line that
//! says so.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::compile::Status;
use crate::process::{self, now};

/// Time between two lines of progress.
pub const REPORT: Duration = Duration::from_secs(8);
/// Time between two looks whether all has ended, so that the last line comes soon.
const LOOK: Duration = Duration::from_millis(50);
/// Longest time that a group may take.
const GROUP_LIMIT: Duration = Duration::from_secs(2 * 3_600);

/// A group that is a command.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name, for people.
    pub name: &'static str,
    /// What is run by `bash -c`, at the root of the repository.
    pub command: &'static str,
    /// Programs without which it is skipped.
    pub needs: &'static [&'static str],
    /// Whether its lines that begin with this word are shown when they come: what it installs.
    pub shows: Option<&'static str>,
}

/// What came of a group.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Tests that passed, failed and were skipped.
    pub counts: Counts,
    /// How long it took.
    pub took: Duration,
    /// Whether all is well.
    pub is_ok: bool,
    /// Why it was skipped, if it was.
    pub skipped: Option<String>,
}

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Not run.
    pub skipped: usize,
}

/// Shows at least every [`REPORT`] what runs, until it is dropped.
pub struct Progress {
    running: Arc<Mutex<Vec<(String, Status)>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Progress {
    /// Begins to show what runs.
    #[must_use]
    pub fn start() -> Progress {
        let running: Arc<Mutex<Vec<(String, Status)>>> = Arc::default();
        // Relaxed: a flag that orders nothing.
        let is_over = Arc::new(AtomicBool::new(false));
        let (shown, ends) = (Arc::clone(&running), Arc::clone(&is_over));
        let start = now();
        let thread = thread::spawn(move || {
            let mut last = now();
            // Relaxed: a flag that orders nothing.
            while !ends.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
                if last.elapsed() < REPORT {
                    continue;
                }
                last = now();
                let running = shown.lock().unwrap_or_else(PoisonError::into_inner);
                let words = running
                    .iter()
                    .map(|(name, status)| format!("{name}: {}", status.get()));
                let words = words.collect::<Vec<_>>().join(" | ");
                println!("[{:4} s] {words}", start.elapsed().as_secs());
            }
        });
        Progress {
            running,
            is_over,
            thread: Some(thread),
        }
    }

    /// Shows a status by this name while `work` runs.
    pub fn while_running<T>(&self, name: &str, work: impl FnOnce(&Status) -> T) -> T {
        let status = Status::default();
        status.set("begins");
        let lock = || self.running.lock().unwrap_or_else(PoisonError::into_inner);
        lock().push((name.to_owned(), status.clone()));
        let outcome = work(&status);
        lock().retain(|(other, _)| other != name);
        outcome
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Relaxed: a flag that orders nothing.
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there loses lines of progress and nothing else.
            let _ = thread.join();
        }
    }
}

/// Runs a group and prints what it printed if it failed.
#[must_use]
pub fn run(group: &Group, logs: &Path, progress: &Progress) -> Row {
    let missing: Vec<_> = group
        .needs
        .iter()
        .copied()
        .filter(|tool| !is_there(tool))
        .collect();
    if !missing.is_empty() {
        let why = format!("{} not installed", missing.join(", "));
        println!("skipped {}: {why}", group.name);
        return Row {
            name: group.name.to_owned(),
            counts: Counts::default(),
            took: Duration::ZERO,
            is_ok: true,
            skipped: Some(why),
        };
    }
    let start = now();
    let path = logs.join(format!("{}.log", group.name));
    let ended = progress.while_running(group.name, |status| follow(group, &path, status));
    let (is_ok, output) = match ended {
        Ok(ended) => (ended.is_ok, ended.output),
        Err(error) => (false, error.to_string()),
    };
    if !is_ok {
        println!("FAILED {}\n{output}", group.name);
    }
    let mut counts = counts(&output);
    // A group that counts nothing is one test.
    if counts == Counts::default() || (!is_ok && counts.failed == 0) {
        counts.passed += usize::from(is_ok);
        counts.failed += usize::from(!is_ok);
    }
    let took = start.elapsed();
    println!(
        "{} {}: {} s",
        if is_ok { "done" } else { "FAILED" },
        group.name,
        took.as_secs()
    );
    Row {
        name: group.name.to_owned(),
        counts,
        took,
        is_ok: is_ok && counts.failed == 0,
        skipped: None,
    }
}

/// Runs the command; the last line of its log is the status.
fn follow(group: &Group, path: &Path, status: &Status) -> std::io::Result<process::Ended> {
    let mut options = File::options();
    let log = options.create(true).truncate(true).read(true).write(true);
    let log = log.open(path)?;
    // Relaxed: a flag that orders nothing.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut shown = 0;
            loop {
                // Relaxed: a flag that orders nothing. What came before it was set is shown.
                let is_last = is_over.load(Ordering::Relaxed);
                if let Some(line) = last_line(path) {
                    status.set(line);
                }
                if let Some(word) = group.shows {
                    shown = show_lines(path, word, shown);
                }
                if is_last {
                    return;
                }
                thread::sleep(LOOK);
            }
        });
        let mut command = Command::new("bash");
        command.args(["-c", group.command]);
        let ended = process::run(&mut command, log, GROUP_LIMIT);
        // Relaxed: a flag that orders nothing.
        is_over.store(true, Ordering::Relaxed);
        ended
    })
}

/// Prints the whole lines of a log that begin with a word, without the first `shown` bytes of it;
/// how much of the log has been looked at.
fn show_lines(path: &Path, word: &str, shown: usize) -> usize {
    let bytes = std::fs::read(path).unwrap_or_default();
    let fresh = bytes.get(shown..).unwrap_or_default();
    let end = fresh.iter().rposition(|byte| *byte == b'\n');
    let end = end.map_or(0, |place| place + 1);
    for line in String::from_utf8_lossy(&fresh[..end]).lines() {
        if line.starts_with(word) {
            println!("{line}");
        }
    }
    shown + end
}

fn last_line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let tail = &text[text.len().saturating_sub(2_000)..];
    let tail = String::from_utf8_lossy(tail);
    let line = tail.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(70).collect())
}

/// Whether a program is in the path.
fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder: PathBuf| folder.join(tool).is_file())
}

/// The sums of all lines `N passed, N failed[, N skipped]`, also Cargo's, and of Maven's last one.
#[must_use]
pub fn counts(output: &str) -> Counts {
    let mut counts = Counts::default();
    for line in output.lines() {
        let before = |word: &str| -> Option<usize> {
            let (front, _) = line.split_once(word)?;
            front
                .rsplit([' ', ':'])
                .find(|part| !part.is_empty())?
                .parse()
                .ok()
        };
        if let (Some(passed), Some(failed)) = (before(" passed"), before(" failed")) {
            counts.passed += passed;
            counts.failed += failed;
            counts.skipped += before(" skipped").unwrap_or(0);
        }
    }
    counts
}

/// Prints the table of all groups, and the sums as the last line; whether all is well. A group or
/// test that was skipped is a failure where `forbids_skips`.
#[must_use]
pub fn report(rows: &[Row], start: Instant, forbids_skips: bool) -> bool {
    println!(
        "\n{:<24} {:>7} {:>7} {:>8} {:>8}",
        "group", "passed", "failed", "skipped", "seconds"
    );
    let mut sums = Counts::default();
    let mut is_ok = true;
    for row in rows {
        let Counts {
            passed,
            failed,
            skipped,
        } = row.counts;
        let seconds = row.took.as_secs();
        let note = row
            .skipped
            .as_deref()
            .map_or_else(String::new, |why| format!("  skipped: {why}"));
        println!(
            "{:<24} {passed:>7} {failed:>7} {skipped:>8} {seconds:>8}{note}",
            row.name
        );
        sums.passed += passed;
        sums.failed += failed;
        sums.skipped += skipped + usize::from(row.skipped.is_some());
        let is_skipped = row.skipped.is_some() || skipped > 0;
        is_ok &= row.is_ok && !(forbids_skips && is_skipped);
    }
    println!("all {} s", start.elapsed().as_secs());
    println!(
        "{} passed, {} failed, {} skipped",
        sums.passed, sums.failed, sums.skipped
    );
    is_ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_wherever_they_stand() {
        let output = "test result: ok. 3 passed; 1 failed; 0 ignored\n\
            noise\n\
            12 passed, 0 failed\n\
            4 passed, 2 failed, 5 skipped\n";
        let counted = counts(output);
        assert_eq!(
            (counted.passed, counted.failed, counted.skipped),
            (19, 3, 5)
        );
        assert_eq!(counts("nothing here"), Counts::default());
    }

    #[test]
    fn a_group_without_its_tools_is_skipped_and_one_without_counts_is_one_test() {
        let progress = Progress::start();
        let group = |command, needs| Group {
            name: "runner-group",
            command,
            needs,
            shows: None,
        };
        let logs = std::env::temp_dir();
        let row = run(&group("true", &["no-such-program"]), &logs, &progress);
        assert!(row.skipped.is_some());
        assert!(!report(&[row], now(), true));
        let row = run(&group("true", &["sh"]), &logs, &progress);
        assert_eq!((row.is_ok, row.counts.passed), (true, 1));
        let row = run(
            &group("echo '1 passed, 0 failed'; false", &[]),
            &logs,
            &progress,
        );
        assert_eq!((row.is_ok, row.counts.failed), (false, 1));
    }
}
