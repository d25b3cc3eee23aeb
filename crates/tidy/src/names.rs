//! The rule for names of types: in the crates that keep it, none is given twice.
//!
//! Private ones count as well: who searches a crate for a word finds one thing.

use std::collections::BTreeMap;

use crate::source::{Source, line_at, words};
use crate::tree::{File, Finding, Tree};

/// The crates in which every type has a name of its own.
const CRATES: [&str; 3] = ["engine", "near", "tidy"];

/// Words before the name of a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "union", "type"];

/// Checks the crates that keep the rule.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let crates = CRATES.iter();
    crates
        .flat_map(|name| twice(tree.sources_of(name)))
        .collect()
}

/// The types of a crate whose names are given to another before.
fn twice<'a>(files: impl Iterator<Item = &'a File>) -> Vec<Finding> {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in files {
        let code = Source::cut(&file.text).code;
        for (offset, name) in types(&code) {
            match first.get(name) {
                // An implementation for another configuration, or types of an implementation.
                Some(path) if *path == file.path => {}
                Some(path) => {
                    let what = format!("`{name}` is also the name of a type in {path}");
                    findings.push(Finding::new(file, line_at(&code, offset), what));
                }
                None => drop(first.insert(name.to_owned(), file.path.clone())),
            }
        }
    }
    findings
}

/// The names of the types that code declares at the outermost level of a module.
fn types(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut before = "";
    words(code).filter(move |&(offset, word)| {
        let line = code[..offset].rfind('\n').map_or(0, |end| end + 1);
        let is_outermost = !code[line..].starts_with(' ');
        let is_name = KEYWORDS.contains(&before) && is_outermost;
        before = word;
        is_name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).into(),
            text: (*text).into(),
        };
        let files: Vec<File> = files.iter().map(file).collect();
        twice(files.iter())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_name_given_in_two_files_is_found() {
        let files = [
            ("a.rs", "pub struct Room;\nenum Use { A }\n"),
            ("b.rs", "use a::Room;\nstruct Use;\nimpl Room {}\n"),
        ];
        let expected = ["b.rs:2: `Use` is also the name of a type in a.rs"];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn types_of_implementations_and_of_tests_do_not_count() {
        let files = [
            (
                "a.rs",
                "struct A;\nimpl Deref for A {\n    type Target = B;\n}\n",
            ),
            (
                "b.rs",
                "struct B;\nimpl Deref for B {\n    type Target = A;\n}\n",
            ),
            ("c.rs", "#[cfg(test)]\nmod tests {\n    struct A;\n}\n"),
        ];
        assert!(found(&files).is_empty());
    }
}
