//! Program: `cellar-bench` run to its end, with a folder for what it writes.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cellar-bench");

/// A folder for what one test writes; it goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("cellar-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a measurement that writes its figures and its page into the folder.
pub(crate) fn run(folder: &Folder, options: &str) -> Output {
    Command::new(PROGRAM)
        .args(options.split_whitespace())
        .arg("--json")
        .arg(folder.0.join("figures.json"))
        .arg("--page")
        .arg(folder.0.join("page.md"))
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
