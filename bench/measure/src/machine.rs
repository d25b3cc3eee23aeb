//! The machine and the moment of a measurement, which every number must name.

use std::fs;
use std::process::Command;

use clap::Args;
use serde::{Deserialize, Serialize};

use cellar_load::{Error, today};

/// What a commit ends with if files are changed.
pub const DIRTY: &str = "-dirty";

/// Where and when numbers came from.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names say all")]
pub struct Setting {
    pub date: String,
    pub command: String,
    pub commit: String,
    pub cpu: String,
    pub cpus: usize,
    pub kernel: String,
}

impl Setting {
    /// Reads them from the system; what it does not tell is "unknown".
    pub fn here() -> Setting {
        let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Setting {
            date: today(),
            command: own_command(),
            commit: commit(),
            cpu: cpu.unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned()),
        }
    }
}

/// Options of `cellar-bench setting`.
#[derive(Args, Clone, Debug)]
pub struct SettingArgs {
    /// The command whose measurement it is
    #[arg(long = "for", value_name = "COMMAND")]
    command: String,
}

/// Prints where and when a measurement is made by another program.
///
/// # Errors
/// [`Error::System`] if it cannot be told as JSON.
pub fn command(args: &SettingArgs) -> Result<(), Error> {
    let setting = Setting {
        command: args.command.clone(),
        ..Setting::here()
    };
    let text = serde_json::to_string(&setting)
        .map_err(|error| Error::system("writing the setting", error))?;
    println!("{text}");
    Ok(())
}

impl Setting {
    /// The section of a page on where its figures come from.
    pub(crate) fn source(&self) -> String {
        let Setting {
            date,
            command,
            commit,
            cpu,
            cpus,
            kernel,
        } = self;
        let changed = if commit.ends_with(DIRTY) {
            ", with changes to files that are in no commit"
        } else {
            ""
        };
        format!(
            "## Where the figures come from\n\n| | |\n|---|---|\n| command | `{command}` |\n\
             | machine | {cpus} x {cpu}, Linux {kernel} |\n| commit | {commit}{changed} |\n\
             | date | {date} |\n"
        )
    }
}

/// This program's command line, with the names of files but not where they lie.
fn own_command() -> String {
    let words = std::env::args().skip(1).map(|word| without_paths(&word));
    let program = "cellar-bench".to_owned();
    std::iter::once(program)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// An argument in which only the last part of each path is left, behind `=` and a space too.
fn without_paths(argument: &str) -> String {
    let mut text = String::new();
    for piece in argument.split_inclusive(['=', ' ']) {
        let name = piece.trim_end_matches('/').rsplit('/').next();
        text += name.unwrap_or_default();
    }
    text
}

/// What measurements write: a change there is no change of what is measured.
const WRITTEN: [&str; 2] = [
    ":(top,exclude)bench/results",
    ":(top,exclude)docs/benchmarks",
];

/// The last commit that changed anything but results and pages, in the directory this runs in;
/// marked if other files are changed.
pub fn commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git")
            .args(words)
            .args(["--", ":/"])
            .args(WRITTEN)
            .output();
        let text = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(text.stdout).ok()?.trim().to_owned())
    };
    let Some(commit) = git(&["log", "-1", "--format=%h"]).filter(|text| !text.is_empty()) else {
        return "unknown".to_owned();
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    match changed.as_deref() {
        Some("") => commit,
        _ => commit + DIRTY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_table_of_one_line_each() {
        let setting = Setting::here();
        assert!(setting.cpus > 0);
        assert_eq!(setting.source().lines().count(), 8);
    }

    #[test]
    fn a_command_names_files_but_not_where_they_lie() {
        for (argument, shown) in [
            ("../../traces/p3.csv.zst", "p3.csv.zst"),
            ("/some/where/cellar", "cellar"),
            ("target/release/", "release"),
            ("--json=bench/results/a.json", "--json=a.json"),
            ("other=/bin/x -f ./y {port}", "other=x -f y {port}"),
            ("--sizes", "--sizes"),
            ("60@3,1h..2h@1", "60@3,1h..2h@1"),
        ] {
            assert_eq!(without_paths(argument), shown);
        }
    }
}
