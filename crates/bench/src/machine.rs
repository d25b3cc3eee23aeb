//! The machine and the moment of a measurement, which every number must name.

use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::clock::today;

/// Where and when numbers came from.
#[derive(Clone, Debug, Serialize)]
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
    #[must_use]
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

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}`, {}, commit {}, {} x {}, Linux {}",
            self.command, self.date, self.commit, self.cpus, self.cpu, self.kernel
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

/// The commit of the directory this runs in, marked if files are changed.
fn commit() -> String {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .output();
    let text = git.ok().filter(|output| output.status.success());
    let text = text.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_one_line() {
        let setting = Setting::here();
        assert!(setting.cpus > 0);
        assert_eq!(setting.to_string().lines().count(), 1);
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
