//! The rule for tests that wait: for an event, and not for a fixed time.
//!
//! A test that sleeps and then looks is slow where the machine is idle and wrong where it is busy.
//! Waiting goes through one helper in each language, which looks again and again. A `sleep`
//! anywhere else in a test has a comment with `paced:` and its reason, on its line or the line
//! above: the pace of a load, or a time that has to pass in another process.

use crate::tree::{File, Finding, Tree};

/// The helpers that wait for an event.
const HELPERS: [&str; 8] = [
    "crates/server/tests/support/wait.rs",
    "crates/near/tests/support/wait.rs",
    "java/client/src/test/java/cellar/client/testing/Await.java",
    "foreign-clients/java/src/test/java/cellar/clients/Await.java",
    "foreign-clients/node/waiting.cjs",
    "foreign-clients/servers.py",
    "foreign-clients/node/console_support.cjs",
    "bench/load/src/process.rs",
];

/// The word that begins a reason.
const REASON: &str = "paced:";

/// Sleeps in tests without a reason.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.files()
        .filter(|file| has_tests(file))
        .flat_map(check_file)
        .collect()
}

/// Whether a file is, or ends with, tests in a language that the rule reads.
fn has_tests(file: &File) -> bool {
    let path = file.path.as_str();
    if HELPERS.contains(&path) || path.starts_with("crates/tidy/") {
        return false;
    }
    let is_rust = file.package().is_some() && path.ends_with(".rs");
    let is_java = path.contains("/src/test/") && path.ends_with(".java");
    let is_client = path.starts_with("foreign-clients/")
        && !path.starts_with("foreign-clients/libraries/")
        && (path.ends_with(".py") || path.ends_with(".cjs"));
    is_rust || is_java || is_client
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut above = "";
    let mut is_test = file.is_test() || !file.path.ends_with(".rs");
    for (index, line) in file.text.lines().enumerate() {
        is_test |= line.trim() == "#[cfg(test)]";
        if is_test && sleeps(line) && !line.contains(REASON) && !above.contains(REASON) {
            let what = "a test waits for an event (`wait_until`) or moves the clock; where a \
                        time has to pass, a comment says why behind `paced:`";
            findings.push(Finding::new(file, index + 1, what));
        }
        if !line.trim().is_empty() {
            above = line;
        }
    }
    findings
}

/// Whether a line of code calls a function named `sleep`.
fn sleeps(line: &str) -> bool {
    let code = line.trim_start();
    if code.starts_with("//") || code.starts_with('#') || code.starts_with('*') {
        return false;
    }
    code.match_indices("sleep(").any(|(at, _)| {
        let before = &code[..at];
        let is_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        !is_name && !before.ends_with("fn ") && !before.ends_with("void ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        check_file(&file)
            .into_iter()
            .map(|found| found.line)
            .collect()
    }

    #[test]
    fn a_sleep_needs_a_reason_beside_it() {
        let text = "thread::sleep(SOON);\n// paced: a load\nsleep(A);\n\
                    sleep(B); // paced: b\nasleep(C);\n// sleep(D)\nfn sleep(E) {}\n";
        assert_eq!(lines("crates/a/tests/b.rs", text), [1]);
    }

    #[test]
    fn in_sources_only_what_stands_in_tests_counts() {
        let text = "sleep(A);\n#[cfg(test)]\nmod tests {\n    sleep(B);\n}\n";
        assert_eq!(lines("crates/a/src/b.rs", text), [4]);
        assert_eq!(
            lines("java/a/src/test/java/B.java", "Thread.sleep(1);"),
            [1]
        );
    }
}
