//! The rule for names of types: in a crate, none is given twice.
//!
//! Private ones count as well: who searches a crate for a word finds one thing. Only the three
//! protocols are parallel on purpose, see [`SEAMS`].

use std::collections::{BTreeMap, BTreeSet};

use crate::layers::PROTOCOLS;
use crate::source::{Source, line_at, words};
use crate::tree::{File, Finding, Tree};

/// Words before the name of a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "union", "type"];

/// Rooms of one kind, one for each protocol, and what is the same in them.
struct Seam {
    /// The folder that the rooms are in.
    folder: &'static str,
    /// A file that joins the protocols: for each a variant of a type with the rooms' name for it.
    joint: Option<&'static str>,
    /// Types that each room may have.
    types: &'static [&'static str],
}

/// Where a name may be given again, once in each room and in the joint.
///
/// Every protocol answers the same questions: what stands at the beginning of the input, what is
/// one piece of work, what is kept of a connection. One word for each answer shows that the rooms
/// are built alike; a prefix would say again which room it is. Outside of its room such a type goes
/// by its protocol, as `resp::Task` does. All other names in the rooms are the crate's.
const SEAMS: [Seam; 2] = [
    Seam {
        folder: "crates/protocol/src/",
        joint: None,
        types: &[
            "Command", "Decoded", "Limits", "Refused", "Reply", "Request", "Scan",
        ],
    },
    Seam {
        folder: "crates/server/src/execute/",
        joint: Some("link.rs"),
        types: &[
            "Call", "Codec", "Failure", "Intake", "Outcome", "Prepared", "Task", "Upload",
        ],
    },
];

/// Checks all crates.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let crates: BTreeSet<&str> = tree.rust().filter_map(File::crate_name).collect();
    crates
        .into_iter()
        .flat_map(|name| twice(tree.sources_of(name)))
        .collect()
}

/// The types of a crate whose names are given to another before.
fn twice<'a>(files: impl Iterator<Item = &'a File>) -> Vec<Finding> {
    let mut before: BTreeMap<String, Vec<&File>> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in files.filter(|file| !file.is_test()) {
        let code = Source::cut(&file.text).code;
        for (offset, name) in types(&code) {
            let others = before.entry(name.to_owned()).or_default();
            // In one file it is an implementation for another configuration.
            if others.iter().any(|other| other.path == file.path) {
                continue;
            }
            let is_taken = |other: &&&File| !are_rooms(&other.path, &file.path, name);
            if let Some(other) = others.iter().find(is_taken) {
                let what = format!("`{name}` is also the name of a type in {}", other.path);
                findings.push(Finding::new(file, line_at(&code, offset), what));
            }
            others.push(file);
        }
    }
    findings
}

/// Whether two files are of different rooms that may each have a type of this name.
fn are_rooms(one: &str, other: &str, name: &str) -> bool {
    match (room(one, name), room(other, name)) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    }
}

/// The room, or the joint, that a file belongs to if it may have a type of this name.
fn room<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    SEAMS.iter().find_map(|seam| {
        let inner = path.strip_prefix(seam.folder)?;
        let place = inner.split(['/', '.']).next()?;
        let is_room = PROTOCOLS.contains(&place) || seam.joint == Some(inner);
        (is_room && seam.types.contains(&name)).then_some(place)
    })
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
    fn each_protocol_may_have_a_type_of_the_seam_and_the_joint_as_well() {
        let task = |path| (path, "pub enum Task {}\n");
        let mut files = vec![
            task("crates/server/src/execute/http/intake.rs"),
            task("crates/server/src/execute/link.rs"),
            task("crates/server/src/execute/memcached.rs"),
        ];
        assert!(found(&files).is_empty());
        files.push(task("crates/server/src/execute/http/call.rs"));
        files.push(task("crates/server/src/execute/context.rs"));
        let intake =
            "`Task` is also the name of a type in crates/server/src/execute/http/intake.rs";
        let expected = [
            format!("crates/server/src/execute/http/call.rs:1: {intake}"),
            format!("crates/server/src/execute/context.rs:1: {intake}"),
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn protocols_share_no_other_name() {
        let files = [
            ("crates/protocol/src/http/reply.rs", "pub struct Head;\n"),
            ("crates/protocol/src/resp/decode.rs", "type Head = u8;\n"),
        ];
        assert_eq!(found(&files).len(), 1);
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
            ("src/c/tests.rs", "struct A;\n"),
        ];
        assert!(found(&files).is_empty());
    }
}
