//! Rules for the pages that describe the code: whatever file, function, type or constant they name
//! exists.
//!
//! The design pages name a file by its path below crates/. ARCHITECTURE.md may leave out the
//! beginning of a path, and may name several files by `{a,b}.rs` or `a*.rs`. Text in code blocks is
//! not checked.

use crate::documents::prose;
use crate::tree::{File, Finding, Tree};

const OVERVIEW: &str = "ARCHITECTURE.md";
const DESIGN: &str = "docs/design/";
/// Endings of the files that are looked for.
const ENDINGS: [&str; 6] = [".rs", ".py", ".md", ".tsv", ".cjs", ".sh"];
/// A part of a path that stands for any name.
const PLACEHOLDER: &str = "NAME";
/// What may stand before the name of a type where it is defined.
const TYPE_WORDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// Names in ARCHITECTURE.md and the design pages that nothing has.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree
        .markdown()
        .filter(|page| page.path == OVERVIEW || page.path.starts_with(DESIGN));
    pages.flat_map(|page| check_page(tree, page)).collect()
}

fn check_page(tree: &Tree, page: &File) -> Vec<Finding> {
    let is_design = page.path != OVERVIEW;
    let mut findings = Vec::new();
    for (index, line) in prose(&page.text) {
        // Code spans are behind every other backquote.
        for span in line.split('`').skip(1).step_by(2) {
            let missing = match is_design {
                true => missing_file(tree, span).or_else(|| missing_name(tree, span)),
                false => missing_somewhere(tree, span),
            };
            findings.extend(missing.map(|what| Finding::new(page, index + 1, what)));
        }
    }
    findings
}

/// What is wrong with a span that is the path of a file below crates/.
fn missing_file(tree: &Tree, span: &str) -> Option<String> {
    let is_missing = span.ends_with(".rs") && !tree.has(&format!("crates/{span}"));
    is_missing.then(|| format!("there is no crates/{span}"))
}

/// What is wrong with a span that is the end of a file's path, or of several ones.
fn missing_somewhere(tree: &Tree, span: &str) -> Option<String> {
    let is_path = ENDINGS.iter().any(|ending| span.ends_with(ending))
        && span
            .chars()
            .all(|c| c.is_alphanumeric() || "_./*-{,}".contains(c))
        && !span.contains(PLACEHOLDER);
    if !is_path {
        return None;
    }
    let missing = alternatives(span)
        .into_iter()
        .find(|path| !tree.files().any(|file| ends_with_path(&file.path, path)))?;
    Some(format!("no file's path ends with {missing}"))
}

/// The paths that `a/{b,c}.rs` stands for.
fn alternatives(span: &str) -> Vec<String> {
    let Some((before, rest)) = span.split_once('{') else {
        return vec![span.to_owned()];
    };
    let (names, after) = rest.split_once('}').unwrap_or((rest, ""));
    names
        .split(',')
        .map(|name| format!("{before}{name}{after}"))
        .collect()
}

/// Whether the last parts of a path are these; a `*` stands for any characters.
fn ends_with_path(path: &str, end: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let ends: Vec<&str> = end.split('/').collect();
    let Some(first) = parts.len().checked_sub(ends.len()) else {
        return false;
    };
    let mut pairs = parts[first..].iter().zip(&ends);
    pairs.all(|(part, end)| match end.split_once('*') {
        None => part == end,
        Some((before, after)) => {
            let rest = part.strip_prefix(before);
            rest.is_some_and(|rest| rest.ends_with(after))
        }
    })
}

/// What is wrong with a span that is the name of something in Rust.
fn missing_name(tree: &Tree, span: &str) -> Option<String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_word);
    let sources = || tree.rust().filter(|file| file.crate_name().is_some());
    let is_there = if let Some((owner, name)) = span.split_once("::") {
        if !is_name(owner) || !is_name(name) {
            return None;
        }
        let module = format!("/{owner}.rs");
        let has_owner = |file: &File| file.path.ends_with(&module) || has_word(&file.text, owner);
        sources().any(|file| has_owner(file) && has_word(&file.text, name))
    } else if !is_name(span) || !span.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    } else if span.contains(|c: char| c.is_ascii_lowercase()) {
        let is_defined = |word: &str| sources().any(|file| defines(&file.text, word, span));
        TYPE_WORDS.into_iter().any(is_defined)
    } else if span.contains('_') {
        sources().any(|file| defines(&file.text, "const", span))
    } else {
        return None;
    };
    (!is_there).then(|| format!("the sources have no `{span}`"))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a text has a name as a whole word.
fn has_word(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + name.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether a text has a name as a whole word behind a keyword.
fn defines(text: &str, keyword: &str, name: &str) -> bool {
    text.match_indices(&format!("{keyword} {name}"))
        .any(|(start, found)| {
            let after = text[start + found.len()..].chars().next();
            !after.is_some_and(is_word)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let page = File {
            path: path.into(),
            text: text.into(),
        };
        let findings = check_page(&Tree::of_this_repository(), &page);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_design_page_that_names_a_file_that_does_not_exist_is_found() {
        let text = "`tidy/src/described.rs` and `tidy/src/nothing.rs`\n```text\n`no.rs`\n```\n";
        let findings = found("docs/design/a.md", text);
        assert_eq!(
            findings,
            ["docs/design/a.md:1: there is no crates/tidy/src/nothing.rs"]
        );
        // The beginning of a path is not left out there.
        assert_eq!(found("docs/design/a.md", "`described.rs`").len(), 1);
    }

    #[test]
    fn a_design_page_that_names_something_that_does_not_exist_is_found() {
        let known = "`Tree::open`, `described::check`, `Finding`, `DECISION_LINES_MAX`, `GET`,";
        // In two halves, so that it is not found here.
        let function = concat!("Tree::fel", "led");
        let text = format!("{known}\n`{function}`, `keeps()`, `Unheard`, `DECISION_LINES`\n");
        let wanted = [function, "Unheard", "DECISION_LINES"]
            .map(|name| format!("docs/design/a.md:2: the sources have no `{name}`"));
        assert_eq!(found("docs/design/a.md", &text), wanted);
    }

    #[test]
    fn the_overview_may_leave_out_the_beginning_of_a_path() {
        let text = "`src/described.rs`, `{tree,page}.rs`, `tests/hou*.rs`, `src/NAME.rs`,\n\
                    `bed.rs`, `{tree,bush}.rs`, `tests/mou*.rs`\n";
        let wanted = ["bed.rs", "bush.rs", "tests/mou*.rs"]
            .map(|path| format!("ARCHITECTURE.md:2: no file's path ends with {path}"));
        assert_eq!(found("ARCHITECTURE.md", text), wanted);
    }
}
