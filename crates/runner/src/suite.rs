//! Suite: runs the Rust tests, several at once, each in a process of its own.
//!
//! A process of its own means that a test can change what belongs to a process (limits, signals,
//! environment) and that one which hangs or crashes is one failed test. Those that took longest
//! last time begin first.

use std::collections::HashMap;
use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::compile::{Program, Status};
use crate::process::{self, Ended};
use crate::tiers::{Row, Tier, tier_of};

/// Longest time that a test may take: many times what any takes on a busy machine.
const TEST_LIMIT: Duration = Duration::from_secs(300);
/// How many of the slowest tests are shown.
const SLOWEST_SHOWN: usize = 8;

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    program: Program,
    /// Its name in the program.
    name: String,
}

impl Test {
    /// `server/server::resp_sets::a_set_has_members`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}::{}", self.program.name, self.name)
    }
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Tests that passed.
    pub passed: usize,
    /// Full names of those that failed.
    pub failed: Vec<String>,
}

/// The tests of the programs that `is_wanted` by their full names.
///
/// # Errors
/// The first program that does not list its tests.
pub fn tests(programs: &[Program], is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Test>, String> {
    let mut all = Vec::new();
    for program in programs {
        let output = Command::new(&program.file)
            .args(["--list", "--format", "terse"])
            .current_dir(&program.folder)
            .output()
            .map_err(|error| format!("{}: {error}", program.name))?;
        if !output.status.success() {
            return Err(format!("{} does not list its tests", program.name));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        for name in text.lines().filter_map(|line| line.strip_suffix(": test")) {
            let test = Test {
                program: program.clone(),
                name: name.to_owned(),
            };
            if is_wanted(&test.full_name()) {
                all.push(test);
            }
        }
    }
    Ok(all)
}

/// Whether a test is in one of the tiers that are run.
///
/// # Panics
/// If no row of the table begins its name; the house rules find that earlier.
#[must_use]
pub fn is_in(rows: &[Row], test: &str, with_deep: bool) -> bool {
    let tier = tier_of(rows, test);
    let tier = tier.unwrap_or_else(|| panic!("tests.tsv has no row for {test}"));
    with_deep || tier == Tier::Test
}

/// Runs tests, `jobs` at once. What a failed one printed is shown when it has ended.
///
/// # Errors
/// The system's, when a test cannot be started.
pub fn run(
    mut tests: Vec<Test>,
    jobs: usize,
    logs: &Path,
    status: &Status,
) -> std::io::Result<Outcome> {
    fs::create_dir_all(logs)?;
    let earlier = Durations::read(logs);
    tests.sort_by_key(|test| std::cmp::Reverse(earlier.ms(&test.full_name())));
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Outcome::default(), Durations::default()));
    let work = || -> std::io::Result<()> {
        // Relaxed: a number that orders nothing.
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ended = run_one(test, logs)?;
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            let (outcome, durations) = &mut *done;
            durations.note(test.full_name(), ended.took);
            if ended.is_ok {
                outcome.passed += 1;
            } else {
                println!("FAILED {}\n{}", test.full_name(), ended.output);
                outcome.failed.push(test.full_name());
            }
            let (ran, failed) = (outcome.passed + outcome.failed.len(), outcome.failed.len());
            status.set(format!(
                "{ran} of {}, {failed} failed, last {}",
                tests.len(),
                test.full_name()
            ));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| worker.join());
        let mut ends = ends.map(|end| end.unwrap_or_else(|panic| resume_unwind(panic)));
        ends.try_for_each(|end| end)
    })?;
    let (outcome, durations) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    durations.show_slowest();
    earlier.with(durations).write(logs)?;
    Ok(outcome)
}

fn run_one(test: &Test, logs: &Path) -> std::io::Result<Ended> {
    // One file for each worker thread, written anew for each test.
    let name = format!("{:?}.log", thread::current().id());
    let mut options = File::options();
    let log = options.create(true).truncate(true).read(true).write(true);
    let log = log.open(logs.join(name))?;
    let folder = &test.program.folder;
    let mut command = Command::new(&test.program.file);
    command
        .args(["--exact", &test.name, "--nocapture"])
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder);
    process::run(&mut command, log, TEST_LIMIT)
}

/// How long tests took, in milliseconds.
#[derive(Debug, Default)]
struct Durations(HashMap<String, u64>);

impl Durations {
    fn path(logs: &Path) -> PathBuf {
        logs.join("durations.tsv")
    }

    /// Those of earlier runs; none is no error, for they only order the tests.
    fn read(logs: &Path) -> Durations {
        let text = fs::read_to_string(Durations::path(logs)).unwrap_or_default();
        let rows = text.lines().filter_map(|line| line.split_once('\t'));
        Durations(
            rows.filter_map(|(name, ms)| Some((name.to_owned(), ms.parse().ok()?)))
                .collect(),
        )
    }

    fn ms(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn note(&mut self, name: String, took: Duration) {
        self.0
            .insert(name, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    fn with(mut self, newer: Durations) -> Durations {
        self.0.extend(newer.0);
        self
    }

    fn write(&self, logs: &Path) -> std::io::Result<()> {
        let mut rows: Vec<String> = self
            .0
            .iter()
            .map(|(name, ms)| format!("{name}\t{ms}\n"))
            .collect();
        rows.sort();
        fs::write(Durations::path(logs), rows.concat())
    }

    fn show_slowest(&self) {
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(_, ms)| std::cmp::Reverse(**ms));
        for (name, ms) in rows.into_iter().take(SLOWEST_SHOWN) {
            println!("slowest: {}.{} s {name}", ms / 1_000, ms % 1_000 / 100);
        }
    }
}
