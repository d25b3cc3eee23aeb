//! Runs tests: `runner test` what `make test` promises, `runner all` that and the deep tier,
//! `runner rust` the Rust tests of the first alone, `runner word WORD` the Rust tests whose name
//! has a word.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use cellar_runner::compile::{Compiled, Status};
use cellar_runner::groups::{Counts, Group, Progress, Row, report, run};
use cellar_runner::process::now;
use cellar_runner::targets::{Target, Workspace};
use cellar_runner::{compile, suite, targets, tiers};

/// What installs the tools of the groups below; it runs while Rust is compiled.
const TOOLS: Group = Group {
    name: "tools",
    command: ".ci/install",
    needs: &[],
    shows: Some(""),
};
/// The same for both tiers: the deep Rust tests need etcd and others, too.
const ALL_TOOLS: Group = Group {
    command: ".ci/install --all",
    ..TOOLS
};
/// What runs beside the Rust tests, one after the other.
const TEST_GROUPS: &[Group] = &[
    Group {
        name: "format",
        command: "cargo fmt --all --check &&
            cargo fmt --manifest-path bench/Cargo.toml --all --check",
        needs: &["rustfmt"],
        shows: None,
    },
    Group {
        name: "dependencies",
        command: "deny/check",
        needs: &["python3"],
        shows: Some("installing"),
    },
    Group {
        name: "java",
        command: ".ci/java",
        needs: &["javac", "mvn", "memcached", "redis-server"],
        shows: None,
    },
    Group {
        name: "clients",
        command: "BINARIES=debug foreign-clients/run --tier test",
        needs: &["python3"],
        shows: None,
    },
];
/// What the deep tier has besides.
const DEEP_GROUPS: &[Group] = &[
    Group {
        name: "smoke",
        command: "make --no-print-directory smoke",
        needs: &[],
        shows: None,
    },
    Group {
        name: "instructions",
        command: "make --no-print-directory instructions",
        needs: &["python3", "valgrind"],
        shows: None,
    },
    Group {
        name: "deep-java",
        command: ".ci/java --deep",
        needs: &["javac", "mvn"],
        shows: None,
    },
    Group {
        name: "deep-clients",
        command: "BINARIES=debug foreign-clients/run --tier deep",
        needs: &["python3", "node", "go", "javac", "mvn"],
        shows: None,
    },
];
/// Rust tests at once for each processor: most of them wait most of the time.
const JOBS_PER_PROCESSOR: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["rust"] => rust_alone(),
        ["test"] => all(false),
        ["all"] => all(true),
        ["word", word] => with_word(word),
        _ => Err("usage: runner test | all | rust | word WORD".to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("runner: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where the logs of tests and groups are.
fn logs() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let logs = Path::new(&target).join("tests");
    std::fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    Ok(logs)
}

fn jobs() -> usize {
    let asked = std::env::var("TEST_JOBS")
        .ok()
        .and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| {
        JOBS_PER_PROCESSOR * thread::available_parallelism().map_or(1, usize::from)
    })
}

/// Runs a tier; whether all is well.
fn all(with_deep: bool) -> Result<bool, String> {
    let (start, logs) = (now(), logs()?);
    let table = tiers::read()?;
    let progress = Progress::start();
    let is_wanted = |test: &str| suite::is_in(&table, test, with_deep);
    let mut rows = Vec::new();
    let compiled = thread::scope(|scope| {
        let tools = if with_deep { &ALL_TOOLS } else { &TOOLS };
        let tools = scope.spawn(|| run(tools, &logs, &progress));
        let compiling = now();
        let programs = progress.while_running("compile", |status| all_programs(with_deep, status));
        rows.push(row("compile", programs.is_ok(), compiling));
        if let Ok(compiled) = &programs {
            rows.push(lints(compiled));
        }
        rows.push(tools.join().expect("a group does not panic"));
        programs
    });
    if let Ok(compiled) = compiled {
        let groups = TEST_GROUPS.iter();
        let groups: Vec<&Group> = match with_deep {
            true => groups.chain(DEEP_GROUPS).collect(),
            false => groups.collect(),
        };
        thread::scope(|scope| -> Result<(), String> {
            let beside = scope.spawn(|| {
                let run_one = |group: &&Group| run(group, &logs, &progress);
                groups.iter().map(run_one).collect::<Vec<Row>>()
            });
            let tests = suite::tests(&compiled.programs, is_wanted)?;
            rows.push(rust(tests, &logs, &progress)?);
            rows.push(run(&EXAMPLES, &logs, &progress));
            rows.extend(beside.join().expect("a group does not panic"));
            Ok(())
        })?;
    }
    drop(progress);
    let forbids_skips = !with_deep && std::env::var_os("CI").is_some();
    Ok(report(&rows, start, forbids_skips))
}

/// Compiles all test programs: the product's, and for the deep tier those of the measurements.
fn all_programs(with_deep: bool, status: &Status) -> Result<Compiled, String> {
    let mut compiled = compile::programs(Workspace::Product, &[], status)?;
    if with_deep {
        let bench = compile::programs(Workspace::Bench, &[], status)?;
        compiled.programs.extend(bench.programs);
        compiled.warnings += bench.warnings;
    }
    Ok(compiled)
}

/// Runs the Rust tests of the tier `test` alone; whether all passed.
fn rust_alone() -> Result<bool, String> {
    let start = now();
    let table = tiers::read()?;
    let progress = Progress::start();
    let compiled = progress.while_running("compile", |status| all_programs(false, status))?;
    let tests = suite::tests(&compiled.programs, |test| suite::is_in(&table, test, false))?;
    let row = rust(tests, &logs()?, &progress)?;
    drop(progress);
    Ok(report(&[row], start, false))
}

/// The row of the lints, which ran with the compiler.
fn lints(compiled: &Compiled) -> Row {
    let mut row = row("lints", compiled.warnings == 0, now());
    if compiled.warnings > 0 {
        println!("FAILED lints: {} warnings, shown above", compiled.warnings);
    }
    if !compiled.is_linted {
        row.skipped = Some("clippy not installed".to_owned());
        println!("skipped lints: clippy not installed (rustup component add clippy)");
    }
    row
}

/// The programs in the documentation of crates, with what the tests have compiled.
const EXAMPLES: Group = Group {
    name: "examples",
    command: "command -v clippy-driver >/dev/null && export RUSTC_WORKSPACE_WRAPPER=clippy-driver
        cargo test --locked --doc --workspace --quiet",
    needs: &[],
    shows: None,
};

/// Runs the Rust tests whose name has a word; whether all passed.
fn with_word(word: &str) -> Result<bool, String> {
    let start = now();
    let found = targets::with_word(Path::new("."), word).map_err(|error| error.to_string())?;
    if found.targets.is_empty() {
        return Err(format!(
            "no test has {word:?} in its name, its file's name or its text"
        ));
    }
    let progress = Progress::start();
    let mut programs = Vec::new();
    for workspace in Workspace::ALL {
        let of_it = |target: &&Target| target.workspace == workspace;
        let wanted: Vec<_> = found.targets.iter().filter(of_it).cloned().collect();
        if wanted.is_empty() {
            continue;
        }
        let compile = |status: &_| compile::programs(workspace, &wanted, status);
        programs.extend(progress.while_running("compile", compile)?.programs);
    }
    let tests = suite::tests(&programs, |test| found.has(test, word))?;
    let row = rust(tests, &logs()?, &progress)?;
    drop(progress);
    Ok(report(&[row], start, false))
}

fn rust(tests: Vec<suite::Test>, logs: &Path, progress: &Progress) -> Result<Row, String> {
    let start = now();
    let count = tests.len();
    let outcome = progress.while_running("rust", |status| suite::run(tests, jobs(), logs, status));
    let outcome = outcome.map_err(|error| error.to_string())?;
    for name in &outcome.failed {
        println!("FAILED {name}");
    }
    println!("done rust: {count} tests, {} s", start.elapsed().as_secs());
    let failed = outcome.failed.len();
    let counts = Counts {
        passed: outcome.passed,
        failed,
        skipped: 0,
    };
    Ok(Row {
        counts,
        ..row("rust", failed == 0 && count > 0, start)
    })
}

/// A row for what is one test.
fn row(name: &str, is_ok: bool, start: std::time::Instant) -> Row {
    Row {
        name: name.to_owned(),
        counts: Counts {
            passed: usize::from(is_ok),
            failed: usize::from(!is_ok),
            skipped: 0,
        },
        took: start.elapsed(),
        is_ok,
        skipped: None,
    }
}
