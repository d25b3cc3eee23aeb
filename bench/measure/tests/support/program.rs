//! Program: `cellar-bench` run to its end, with a folder for what it writes.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cellar-bench");

/// A folder for what one test writes; it goes with the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap()
    }

    /// Writes a file and returns its path.
    pub(crate) fn put(&self, file: &str, bytes: &[u8]) -> String {
        let path = self.path(file);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Runs a measurement that writes its figures and its page into the folder.
pub(crate) fn run(folder: &Folder, options: &str) -> Output {
    Command::new(PROGRAM)
        .args(options.split_whitespace())
        .arg(format!("--json={}", folder.path("figures.json").display()))
        .arg("--page")
        .arg(folder.path("page.md"))
        .output()
        .unwrap()
}

/// The figures of a run that succeeded.
pub(crate) fn figures(folder: &Folder, output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_str(&folder.read("figures.json")).unwrap()
}

/// Cellar's program, if it is built.
pub(crate) fn cellar() -> Option<String> {
    let program = Path::new(PROGRAM).with_file_name("cellar");
    if program.exists() {
        return Some(program.display().to_string());
    }
    println!("skipped: {} is not built", program.display());
    None
}
