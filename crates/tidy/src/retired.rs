//! The rule for names: those that the field has a word for do not come back.
//!
//! Each row is a word that the code once had for something, and the field's word. A part
//! of an identifier counts: `doorstep` is in `note_doorstep`. Comments and tests may use the words.

use crate::layers::SERVER;
use crate::source::{Source, line_at, words};
use crate::tree::{File, Finding, Tree};

/// The crates that the rule is for, beside the server's.
const CRATES: [&str; 5] = ["engine", "values", "script", "near", "capi"];

/// Words that went, and what is said instead.
const RETIRED: &[(&str, &str)] = &[
    ("cession", "handover"),
    ("ceded", "handed over"),
    ("ceremony", "takeover"),
    ("succession", "takeover"),
    ("heir", "takeover"),
    ("crowd", "by source"),
    ("doorstep", "unauthenticated"),
    ("stranger", "unauthenticated, or wrong protocol"),
    ("strangers", "unauthenticated, or wrong protocol"),
    ("doorkeeper", "login worker"),
    ("entrance", "admission"),
    ("guesses", "login limiter, attempts"),
    ("standing", "identity"),
    ("gates", "exclusive lock"),
    ("denials", "ACL log"),
    ("exposure", "open addresses"),
    ("lifetimes", "default TTLs"),
    ("lineup", "run queue"),
    ("herald", "reporter"),
    ("sketch", "HyperLogLog"),
    ("carrier", "transport"),
    ("clocked", "timing"),
    ("untouched", "no-touch, or unchanged"),
    ("foresight", "preparation"),
    ("chore", "task"),
    ("chores", "tasks"),
    ("anchor", "metadata"),
    ("rope", "metadata"),
    ("stow", "serialize"),
    ("stowed", "saved, checkpoint"),
    ("chest", "serializer"),
    ("unseal", "resume"),
    ("calendar", "timer wheel"),
    ("calendars", "timer wheels"),
    ("deaths", "expiry histogram"),
    ("dying", "expiring"),
    ("timescale", "deadline encoding"),
    ("survey", "compaction scan"),
    ("surveyed", "scanned"),
    ("rival", "small queue tuner"),
    ("rivals", "small queue tuner"),
    ("racing", "atomic memcpy"),
    ("glimpse", "optimistic read"),
    ("wave", "bulk unlink, mass expiration"),
    ("waves", "bulk unlink, mass expiration"),
    ("residence", "resident pages"),
    ("upkeep", "maintenance"),
    ("ballast", "balloon"),
    ("givers", "donors"),
    ("hindrance", "failure"),
    ("youth", "young segments"),
    ("spared", "compaction reserve"),
    ("provision", "extent reservation"),
    ("provisions", "extent reservations"),
    ("footing", "attached state"),
    ("plot", "ranges"),
    ("departed", "removed"),
    ("boarding", "load in flight"),
    ("landing", "entry update"),
    ("landed", "finished"),
    ("doomed", "overtaken"),
];

/// Retired words in the code of the product, and files that are called so.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources = CRATES
        .into_iter()
        .chain(SERVER)
        .flat_map(|name| tree.sources_of(name));
    sources.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let code = Source::cut(&file.text).code;
    let stem = file.path.rsplit(['/', '.']).nth(1).unwrap_or_default();
    let in_code = words(&code).map(|(offset, word)| (line_at(&code, offset), word));
    let all = [(0, stem)].into_iter().chain(in_code);
    let found = all.flat_map(|(line, word)| {
        let parts = parts(word);
        let retired = RETIRED
            .iter()
            .filter(move |(old, _)| parts.iter().any(|part| part == old));
        retired.map(move |(old, new)| (line, word, old, new))
    });
    let mut findings: Vec<Finding> = found
        .map(|(line, word, old, new)| {
            Finding::new(file, line, format!("`{word}`: say {new} instead of {old}"))
        })
        .collect();
    findings.dedup();
    findings
}

/// The words of an identifier, in small letters: of `note_doorstep` and `NoteDoorstep` note and
/// doorstep.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_small = false;
    for letter in identifier.chars() {
        let begins = letter == '_' || (letter.is_uppercase() && was_small);
        if begins {
            parts.push(String::new());
        }
        if letter != '_'
            && let Some(last) = parts.last_mut()
        {
            last.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_words_are_found_in_any_identifier_and_in_no_comment() {
        let text = "//! A doorstep.\nfn note_doorstep(a: Doorstep) {} // the crowd\n";
        let file = |path: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let found = check_file(&file("crates/server/src/crowd.rs"));
        let lines: Vec<usize> = found.iter().map(|one| one.line).collect();
        assert_eq!(lines, [0, 2, 2], "{found:?}");
        assert_eq!(parts("understanding"), ["understanding"]);
    }
}
