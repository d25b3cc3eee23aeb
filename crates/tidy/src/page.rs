//! Rules for one Rust file: its header, its size, its characters, its `unsafe`.
//!
//! Function length, missing documentation and `unwrap` are clippy's part.

use crate::source::{Source, line_at, words};
use crate::tree::{File, Finding};

/// Most lines of a file's header.
pub const HEADER_LINES_MAX: usize = 15;
/// Most lines of a file without its tests.
pub const FILE_LINES_MAX: usize = 1_000;
/// Most characters of a line.
pub const LINE_CHARS_MAX: usize = 100;

/// Where `unsafe` may stand: a folder ends with `/`.
const UNSAFE_PLACES: [&str; 2] = ["crates/capi/src/", "crates/engine/"];

/// All rules for one file.
#[must_use]
pub fn check(file: &File) -> Vec<Finding> {
    let source = Source::cut(&file.text);
    let mut findings = Vec::new();
    findings.extend(header(file));
    findings.extend(size(file, &source));
    findings.extend(characters(file, &source));
    findings.extend(unsafe_code(file, &source));
    findings
}

fn header(file: &File) -> Option<Finding> {
    let lines = file
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .count();
    match lines {
        0 => Some(Finding::new(
            file,
            1,
            "the file starts with a `//!` header that says what it is",
        )),
        1..=HEADER_LINES_MAX => None,
        _ => {
            let what =
                format!("the header has {lines} lines, at most {HEADER_LINES_MAX} are asked");
            Some(Finding::new(file, lines, what))
        }
    }
}

fn size(file: &File, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.lines_without_tests;
    if lines > FILE_LINES_MAX && !file.is_test() {
        let what = format!("{lines} lines without tests, at most {FILE_LINES_MAX}: split the file");
        findings.push(Finding::new(file, 0, what));
    }
    for (index, line) in file.text.lines().enumerate() {
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX {
            let what = format!("{chars} characters in a line, at most {LINE_CHARS_MAX}");
            findings.push(Finding::new(file, index + 1, what));
        }
    }
    findings
}

fn characters(file: &File, source: &Source) -> Vec<Finding> {
    let lines = source.without_literals.lines().enumerate();
    lines
        .filter(|(_, line)| !line.is_ascii())
        .map(|(index, _)| Finding::new(file, index + 1, "only ASCII outside strings"))
        .collect()
}

fn unsafe_code(file: &File, source: &Source) -> Vec<Finding> {
    if UNSAFE_PLACES
        .iter()
        .any(|place| file.path.starts_with(place))
    {
        return Vec::new();
    }
    let code = &source.code_with_tests;
    words(code)
        .filter(|(_, word)| *word == "unsafe")
        .map(|(offset, _)| {
            let what = format!("`unsafe` stands only in {}", UNSAFE_PLACES.join(" and "));
            Finding::new(file, line_at(code, offset), what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<usize> {
        let file = File {
            path: path.into(),
            text: text.into(),
        };
        check(&file).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_good_file_has_no_findings() {
        assert_eq!(
            findings("crates/x/src/a.rs", "//! A.\nfn a() { \"\u{e9}\"; }\n"),
            []
        );
    }

    #[test]
    fn a_missing_or_long_header_is_found() {
        assert_eq!(findings("crates/x/src/a.rs", "fn a() {}\n"), [1]);
        assert_eq!(findings("crates/x/src/a.rs", &"//! A.\n".repeat(16)), [16]);
    }

    #[test]
    fn long_files_and_lines_are_found_but_tests_are_not_counted() {
        let long = format!("//! A.\n{}", "fn a() {}\n".repeat(FILE_LINES_MAX));
        assert_eq!(findings("crates/x/src/a.rs", &long), [0]);
        assert_eq!(findings("crates/x/src/a/tests.rs", &long), []);
        assert_eq!(
            findings(
                "crates/x/src/a.rs",
                &format!("//! A.\n//{}", "-".repeat(99))
            ),
            [2]
        );
    }

    #[test]
    fn foreign_characters_and_unsafe_are_found_outside_strings() {
        assert_eq!(
            findings("crates/x/src/a.rs", "//! A.\n// \u{2192} b\n"),
            [2]
        );
        assert_eq!(
            findings("crates/x/src/a.rs", "//! A.\nunsafe fn a() {}\n"),
            [2]
        );
        assert_eq!(
            findings("crates/engine/src/a.rs", "//! A.\nunsafe fn a() {}\n"),
            []
        );
        assert_eq!(
            findings(
                "crates/x/src/a.rs",
                "//! unsafe.\n#![forbid(unsafe_code)]\n"
            ),
            []
        );
    }
}
