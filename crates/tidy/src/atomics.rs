//! The rule for atomics: what each of them orders stands beside it.
//!
//! A use of `Ordering::Release` is explained by a comment that names `Release`: on its line, above
//! it in its function, or at the declaration of the atomic anywhere in the crate; the crates of the
//! server count as one. Which atomic is used is read off the call: `self.keys.load(..)` is about
//! `keys`. One without a name of its own (`.0`) has to be declared in the same file.

use std::collections::BTreeSet;

use crate::layers::SERVER;
use crate::source::{Source, line_at, words};
use crate::tree::{File, Finding, Tree};

/// The orders that an atomic may be used with.
const ORDERS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Lines above a use in which its comment is looked for, at most.
const LINES_ABOVE: usize = 12;

/// A declared atomic, and one order that the comment at its declaration names.
type Explained = BTreeSet<(String, &'static str)>;

/// Checks all crates, their tests left out.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut crates: Vec<&str> = tree.rust().filter_map(File::crate_name).collect();
    crates.sort_unstable();
    crates.dedup();
    crates.retain(|name| !SERVER.contains(name));
    let server = SERVER.into_iter().flat_map(|name| tree.sources_of(name));
    let mut findings = check_together(server);
    for name in crates {
        findings.extend(check_together(tree.sources_of(name)));
    }
    findings
}

/// Checks the files of one crate, or of several that share their atomics.
fn check_together<'a>(files: impl Iterator<Item = &'a File>) -> Vec<Finding> {
    let cut: Vec<(&File, Source)> = files.map(|file| (file, Source::cut(&file.text))).collect();
    let mut everywhere = Explained::new();
    for (_, source) in &cut {
        let declared = declarations(source).into_iter();
        everywhere.extend(declared.filter(|(name, _)| !is_number(name)));
    }
    let mut findings = Vec::new();
    for (file, source) in &cut {
        let mut known = everywhere.clone();
        known.extend(declarations(source));
        findings.extend(check_file(file, source, &known));
    }
    findings
}

fn check_file(file: &File, source: &Source, known: &Explained) -> Vec<Finding> {
    let comments: Vec<&str> = source.without_literals.lines().map(comment).collect();
    let code: Vec<&str> = source.code.lines().collect();
    let mut findings = Vec::new();
    for (offset, order) in uses(&source.code) {
        let line = line_at(&source.code, offset);
        let is_declared = receiver(&source.code[..offset])
            .is_some_and(|name| known.contains(&(name.to_owned(), order)));
        if !is_declared && !is_explained(&code[..line], &comments[..line], order) {
            let what = format!("a comment beside this atomic says what `{order}` orders");
            findings.push(Finding::new(file, line, what));
        }
    }
    findings
}

/// Where code names an order, and which.
fn uses(code: &str) -> impl Iterator<Item = (usize, &'static str)> {
    words(code).filter_map(|(offset, word)| {
        let order = ORDERS.into_iter().find(|order| *order == word)?;
        code[..offset]
            .ends_with("Ordering::")
            .then_some((offset, order))
    })
}

/// Whether the last line or one above it in the same function has a comment that names the order.
fn is_explained(code: &[&str], comments: &[&str], order: &str) -> bool {
    let lines = code.iter().zip(comments).rev().take(LINES_ABOVE + 1);
    for (index, (code, comment)) in lines.enumerate() {
        if words(comment).any(|(_, word)| word == order) {
            return true;
        }
        let ends_above = index > 0 && (*code == "    }" || *code == "}");
        if ends_above || words(code).any(|(_, word)| word == "fn") {
            return false;
        }
    }
    false
}

/// The declared atomics of a file whose comments name an order.
fn declarations(source: &Source) -> Explained {
    let lines: Vec<&str> = source.without_literals.lines().collect();
    let mut found = Explained::new();
    for (index, line) in source.code.lines().enumerate() {
        let Some(name) = declared(line) else { continue };
        let above = lines[..index].iter().rev();
        let above = above.take_while(|line| line.trim_start().starts_with(['#', '/']));
        for line in above.chain([&lines[index]]) {
            let named = words(comment(line)).filter_map(|(_, word)| {
                let order = ORDERS.into_iter().find(|order| *order == word)?;
                Some((name.to_owned(), order))
            });
            found.extend(named);
        }
    }
    found
}

/// The atomic that a line declares: a field, a static, or the only field of a tuple.
fn declared(line: &str) -> Option<&str> {
    line.find("Atomic")?;
    let mut names = words(line).filter(|(_, word)| !is_modifier(word));
    let (offset, name) = names.next()?;
    if name == "struct" {
        let (offset, name) = names.next()?;
        return line[offset + name.len()..].starts_with('(').then_some("0");
    }
    line[offset + name.len()..].starts_with(':').then_some(name)
}

fn is_modifier(word: &str) -> bool {
    matches!(word, "pub" | "crate" | "super" | "static")
}

fn is_number(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit())
}

/// The comment of a line without its literals.
fn comment(line: &str) -> &str {
    line.find("//").map_or("", |start| &line[start..])
}

/// What the method is called on whose arguments `code` ends in the middle of.
fn receiver(code: &str) -> Option<&str> {
    let call = &code[..opening(code)?];
    let method = call.trim_end_matches(is_word);
    let mut rest = method.strip_suffix('.')?.trim_end();
    while rest.ends_with([']', ')', '?']) {
        let inner = &rest[..rest.len() - 1];
        let group = if rest.ends_with('?') {
            inner
        } else {
            &inner[..opening(inner)?]
        };
        rest = group.trim_end();
    }
    let start = rest.trim_end_matches(is_word).len();
    (start < rest.len()).then(|| &rest[start..])
}

/// Where the last bracket stands that is not closed.
fn opening(code: &str) -> Option<usize> {
    let mut closed = 0;
    for (offset, c) in code.char_indices().rev() {
        match c {
            ')' | ']' | '}' => closed += 1,
            '(' | '[' | '{' if closed == 0 => return Some(offset),
            '(' | '[' | '{' => closed -= 1,
            _ => {}
        }
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).into(),
            text: (*text).into(),
        };
        let files: Vec<File> = files.iter().map(file).collect();
        let found = check_together(files.iter());
        let show = |finding: &Finding| format!("{}:{}", finding.path, finding.line);
        found.iter().map(show).collect()
    }

    #[test]
    fn an_order_without_a_comment_is_found() {
        let text = "fn a() {\n    one.store(1, Ordering::Release);\n}\n";
        assert_eq!(lines(&[("a.rs", text)]), ["a.rs:2"]);
        let other = text.replace("    one", "    // Relaxed: it orders nothing.\n    one");
        assert_eq!(lines(&[("a.rs", &other)]), ["a.rs:3"]);
        assert!(lines(&[("a.rs", "fn a() { b.cmp(c) == Ordering::Less; }\n")]).is_empty());
    }

    #[test]
    fn a_comment_explains_its_line_and_what_is_below_in_its_function() {
        let text = "fn a() {\n    // Relaxed: a count.\n    one\n        \
            .two(|| Ordering::Relaxed);\n}\n\
            fn b() {\n    one.load(Ordering::Relaxed); // Relaxed: a count.\n}\n\
            fn c() {\n    one.load(Ordering::Relaxed);\n}\n";
        assert_eq!(lines(&[("a.rs", text)]), ["a.rs:10"]);
    }

    #[test]
    fn a_comment_at_the_declaration_explains_all_uses_in_the_crate() {
        let declared = "struct A {\n    /// How many.\n    // Relaxed: a count.\n    \
            pub(crate) many: [AtomicU64; 2],\n    few: AtomicU64,\n}\n";
        let uses = "fn a(a: &A) {\n    a.many[b.c()]\n        .load(Ordering::Relaxed);\n    \
            a.few.load(Ordering::Relaxed);\n}\n";
        assert_eq!(lines(&[("a.rs", declared), ("b.rs", uses)]), ["b.rs:4"]);
    }

    #[test]
    fn an_atomic_without_a_name_is_explained_in_its_file_alone() {
        let declared = "// Acquire and Release: a flag.\nstruct Flag(AtomicBool);\n";
        let used = "fn a(a: &Flag) {\n    a.0.load(Ordering::Acquire);\n}\n";
        let both = format!("{declared}{used}");
        assert!(lines(&[("a.rs", &both)]).is_empty());
        assert_eq!(lines(&[("a.rs", declared), ("b.rs", used)]), ["b.rs:2"]);
    }

    #[test]
    fn tests_may_use_atomics_as_they_like() {
        let text = "#[cfg(test)]\nmod tests {\n    fn a() { b.load(Ordering::SeqCst); }\n}\n";
        assert!(lines(&[("a.rs", text)]).is_empty());
    }
}
