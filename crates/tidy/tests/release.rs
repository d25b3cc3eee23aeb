//! A release, made of a copy of the repository: `make release VERSION=...`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What is no source, or too much of it.
const LEFT_OUT: [&str; 5] = [
    "target",
    "./.git",
    "./.tools",
    "node_modules",
    "./bench/results",
];
/// A version that is none of the present ones.
const NEW: &str = "9.8.7-test";

/// A copy with a history of one commit; it goes with its owner.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Copy {
        let folder = std::env::temp_dir().join(format!("cellar-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let copy = Copy(folder);
        let left_out: Vec<String> = LEFT_OUT.map(|one| format!("--exclude={one}")).into();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let tar = format!(
            "tar --create {} . | tar --extract --directory {}",
            left_out.join(" "),
            copy.0.display()
        );
        let copied = Command::new("sh")
            .args(["-c", &tar])
            .current_dir(root)
            .status();
        assert!(copied.unwrap().success());
        copy.must("git init --quiet .");
        copy.commit();
        copy
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.0);
        for part in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{part}_NAME"), "Releaser");
            command.env(format!("GIT_{part}_EMAIL"), "releaser@example");
        }
        // Make's own, where `make test` runs this.
        for name in [
            "MAKEFLAGS",
            "MFLAGS",
            "MAKELEVEL",
            "GIT_DIR",
            "GIT_WORK_TREE",
        ] {
            command.env_remove(name);
        }
        command.output().unwrap()
    }

    fn must(&self, line: &str) -> String {
        let output = self.run(line);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}: {told}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self) {
        self.must("git add --all --force . && git commit --quiet --message copy");
    }

    /// Writes a change log of these sections.
    fn change_log(&self, sections: &str) {
        let text = format!("# Changelog\n\n{sections}");
        std::fs::write(self.0.join("CHANGELOG.md"), text).unwrap();
        self.commit();
    }

    /// What a command that has to fail says.
    fn refused(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(!output.status.success(), "{line}");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_release_writes_its_version_everywhere_and_is_tagged() {
    let copy = Copy::new("release");
    let old = copy.must("packaging/version");
    copy.change_log("## [Unreleased]\n\n- An entry.\n");
    copy.must(&format!("make --silent release VERSION={NEW}"));
    assert_eq!(copy.must("packaging/version"), NEW);
    assert_eq!(copy.must("git status --porcelain"), "");
    assert_eq!(copy.must("git tag --points-at HEAD"), format!("v{NEW}"));
    let changes = std::fs::read_to_string(copy.0.join("CHANGELOG.md")).unwrap();
    let heads: Vec<&str> = changes
        .lines()
        .filter(|line| line.starts_with("## "))
        .collect();
    assert_eq!(heads[0], "## [Unreleased]");
    assert!(
        heads[1].starts_with(&format!("## [{NEW}] - 20")),
        "{}",
        heads[1]
    );
    // Whatever names the product and its old version on one line would have been forgotten.
    let old = old.replace('.', "\\.");
    let left = copy.run(&format!(
        "git grep -nIiE 'cellar[^ ]{{0,20}}[-:= ]\"?v?{old}' -- . ':!CHANGELOG.md' \
         ':!docs/benchmarks'"
    ));
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    let locked = "cargo metadata --locked --offline --no-deps --format-version 1";
    assert!(
        copy.must(locked)
            .contains(&format!("\"version\":\"{NEW}\""))
    );
}

#[test]
fn a_section_that_is_prepared_gets_the_day_of_the_release() {
    let copy = Copy::new("prepared");
    let prepared = format!("## [{NEW}] - unreleased\n\n- An entry.\n");
    copy.change_log(&format!("## [Unreleased]\n\n- Another.\n\n{prepared}"));
    let told = copy.refused(&format!("make --silent release VERSION={NEW}"));
    assert!(told.contains("move them to"), "{told}");
    copy.change_log(&format!("## [Unreleased]\n\n{prepared}"));
    copy.must(&format!("make --silent release VERSION={NEW}"));
    let changes = std::fs::read_to_string(copy.0.join("CHANGELOG.md")).unwrap();
    let heads: Vec<&str> = changes
        .lines()
        .filter(|line| line.starts_with("## "))
        .collect();
    assert_eq!(heads.len(), 2, "{heads:?}");
    assert!(
        heads[1].starts_with(&format!("## [{NEW}] - 20")),
        "{}",
        heads[1]
    );
}

#[test]
fn what_cannot_be_a_release_is_refused_with_a_reason_and_changes_nothing() {
    let copy = Copy::new("no-release");
    copy.change_log("## [Unreleased]\n\n- An entry.\n");
    for (line, reason) in [
        ("make --silent release", "VERSION=1.2.3 is missing"),
        ("make --silent release VERSION=0.0.1", "0.0.1 is before"),
        ("make --silent release VERSION=9.x", "\"9.x\" is no version"),
    ] {
        let told = copy.refused(line);
        assert!(told.contains(reason), "{line}: {told}");
        assert_eq!(copy.must("git status --porcelain"), "", "{line}");
    }
    std::fs::write(copy.0.join("README.md"), "changed").unwrap();
    let told = copy.refused("make --silent release VERSION=9.0.0");
    assert!(told.contains("not committed"), "{told}");
    std::fs::write(
        copy.0.join("deploy/helm/cellar/Chart.yaml"),
        "version: 7.7.7\n",
    )
    .unwrap();
    let told = copy.refused("packaging/version");
    assert!(told.contains("Chart.yaml says 7.7.7"), "{told}");
}

#[test]
fn every_place_says_the_present_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("packaging/version")
        .current_dir(&root)
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let version = String::from_utf8(output.stdout).unwrap();
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
}
