//! Rules for words: links and other pointers, decisions, the change log, forbidden words.

use crate::tree::{File, Finding, Tree};

/// Most lines of a decision.
const DECISION_LINES_MAX: usize = 60;

/// What every decision tells, in this order.
const DECISION_SECTIONS: [&str; 5] = [
    "Question",
    "Decision",
    "Why",
    "Rejected",
    "What would change our mind",
];

const DECISIONS: &str = "docs/decisions/";

/// The list of all decisions, which is not a decision itself.
const DECISION_LIST: &str = "docs/decisions/README.md";

/// Written in two halves, so that this file does not mention them itself.
const FORBIDDEN: [(&str, &str); 11] = [
    (
        concat!("TO", "DO"),
        "unfinished work is done or left out, not announced",
    ),
    (
        concat!("FIX", "ME"),
        "unfinished work is done or left out, not announced",
    ),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("crates", ".io"), "the host of a package registry"),
    (concat!("pypi", ".org"), "the host of a package registry"),
    (concat!("maven", ".org"), "the host of a package registry"),
    (
        concat!("maven.", "apache.org/maven2"),
        "the host of a package registry",
    ),
    (concat!("npm", "js.org"), "the host of a package registry"),
    (
        concat!("proxy.", "golang"),
        "the host of a package registry",
    ),
];

/// Name of the files that cargo writes and nobody words.
const LOCK_FILE: &str = "Cargo.lock";

/// All rules for words.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        findings.extend(forbidden_words(file));
        findings.extend(decision_references(tree, file));
    }
    for file in tree.rust() {
        findings.extend(test_references(tree, file));
    }
    for file in tree.markdown() {
        findings.extend(links(tree, file));
        findings.extend(make_commands(tree, file));
    }
    findings.extend(change_log(tree));
    findings.extend(decisions(tree));
    findings
}

fn forbidden_words(file: &File) -> Vec<Finding> {
    if file.path.ends_with(LOCK_FILE) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (word, why) in FORBIDDEN {
            if line.contains(word) {
                findings.push(Finding::new(file, index + 1, format!("`{word}`: {why}")));
            }
        }
    }
    findings
}

/// A header that says `Tests: tests/topic.rs` names a file of its crate or of the repository.
fn test_references(tree: &Tree, file: &File) -> Vec<Finding> {
    let own = file.path.find("/src/").map_or("", |end| &file.path[..end]);
    let header = file
        .text
        .lines()
        .enumerate()
        .take_while(|(_, line)| line.starts_with("//!"));
    let mut findings = Vec::new();
    for (index, line) in header {
        for word in line.split([' ', ',', ';', '(', ')', '`']) {
            let path = word.trim_end_matches('.');
            let is_test =
                path.ends_with(".rs") && (path.starts_with("tests/") || path.contains("/tests/"));
            // Its own test, another crate's (`server/tests/a.rs`), or a path from the root.
            let places = [path, &format!("{own}/{path}"), &format!("crates/{path}")];
            if is_test && !places.iter().any(|place| tree.has(place)) {
                findings.push(Finding::new(file, index + 1, format!("there is no {path}")));
            }
        }
    }
    findings
}

/// Comments and pages name decisions by path or number; there must be such a decision.
fn decision_references(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (start, _) in line.match_indices(DECISIONS) {
            let path = line[start..].split(|c: char| !c.is_alphanumeric() && !"/-.".contains(c));
            let path = path
                .into_iter()
                .next()
                .unwrap_or_default()
                .trim_end_matches('.');
            let named = path[DECISIONS.len()..].starts_with(|c: char| c.is_ascii_digit());
            if named && !tree.files().any(|file| file.path.starts_with(path)) {
                findings.push(Finding::new(file, index + 1, format!("there is no {path}")));
            }
        }
    }
    findings
}

fn links(tree: &Tree, file: &File) -> Vec<Finding> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (index, line) in prose(&file.text) {
        for target in line.split("](").skip(1) {
            let target = target.split([')', ' ']).next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if path.is_empty() || elsewhere || tree.has(&format!("{folder}/{path}")[..]) {
                continue;
            }
            if folder.is_empty() && tree.has(path) {
                continue;
            }
            findings.push(Finding::new(
                file,
                index + 1,
                format!("dead link to {target}"),
            ));
        }
    }
    findings
}

/// The lines of a page that are not in a fenced code block, with their index.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// A page that says `make something` names a target of the Makefile.
fn make_commands(tree: &Tree, file: &File) -> Vec<Finding> {
    let Some(makefile) = tree.file("Makefile") else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for command in line.split("`make ").skip(1) {
            let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
            let name = command.split(|c| !is_name(c)).next().unwrap_or_default();
            let declared = makefile
                .text
                .lines()
                .any(|row| row.starts_with(&format!("{name}:")));
            if !name.is_empty() && !declared {
                let what = format!("the Makefile has no target {name}");
                findings.push(Finding::new(file, index + 1, what));
            }
        }
    }
    findings
}

fn change_log(tree: &Tree) -> Option<Finding> {
    let missing = |line| Finding {
        path: "CHANGELOG.md".into(),
        line,
        what: "the change log has a section `## [Unreleased]`".into(),
    };
    let Some(file) = tree.file("CHANGELOG.md") else {
        return Some(missing(0));
    };
    let found = file
        .text
        .lines()
        .any(|line| line.starts_with("## [Unreleased]"));
    (!found).then(|| missing(1))
}

fn decisions(tree: &Tree) -> Vec<Finding> {
    let in_folder = |file: &&File| file.path.starts_with(DECISIONS) && file.path != DECISION_LIST;
    let mut findings = Vec::new();
    for (index, file) in tree.markdown().filter(in_folder).enumerate() {
        let number = format!("{:04}", index + 1);
        if !file.path[DECISIONS.len()..].starts_with(&format!("{number}-")) {
            let what = format!("decisions are numbered without gaps: {number} is expected here");
            findings.push(Finding::new(file, 0, what));
        }
        findings.extend(decision(file));
    }
    findings
}

fn decision(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    if lines > DECISION_LINES_MAX {
        let what = format!("{lines} lines, at most {DECISION_LINES_MAX} are asked");
        findings.push(Finding::new(file, lines, what));
    }
    let number = &file.path[DECISIONS.len()..][..4];
    if !file.text.starts_with(&format!("# {number} ")) {
        findings.push(Finding::new(
            file,
            1,
            format!("the title starts with `# {number} `"),
        ));
    }
    let sections: Vec<_> = file
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    if sections != DECISION_SECTIONS {
        let what = format!("the sections are {}", DECISION_SECTIONS.join(", "));
        findings.push(Finding::new(file, 0, what));
    }
    if !file
        .text
        .lines()
        .any(|line| line.starts_with("Date: ") && line.contains("Status: "))
    {
        findings.push(Finding::new(
            file,
            0,
            "a line tells `Date: ...` and `Status: ...`",
        ));
    }
    let answer = answer(&file.text);
    if !answer.contains(|c: char| c.is_ascii_digit()) {
        let what = "the first paragraph below `## Decision` answers the question with a number";
        findings.push(Finding::new(file, 0, what));
    }
    findings
}

/// The first paragraph of a decision's answer.
fn answer(decision: &str) -> &str {
    let section = decision.split_once("## Decision\n");
    let section = section.map_or("", |(_, section)| section.trim_start());
    section.split("\n\n").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_dead_link_is_found_and_a_live_one_is_not() {
        let text = "[a](LICENSE) [b](nowhere.md)\n```\n[c](nowhere.md)\n```\n[d](https://x.org/y)";
        let found = links(&Tree::of_this_repository(), &file("A.md", text));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "A.md:1: dead link to nowhere.md");
        assert!(
            links(
                &Tree::of_this_repository(),
                &file("docs/a.md", "[a](../LICENSE#b)")
            )
            .is_empty()
        );
    }

    #[test]
    fn an_unknown_make_target_is_found() {
        let found = make_commands(
            &Tree::of_this_repository(),
            &file("A.md", "`make test` and `make coffee`"),
        );
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_reference_to_a_decision_that_is_not_there_is_found() {
        let text = concat!(
            "//! Why: docs/deci",
            "sions/9999-nothing.md.\n// docs/decisions/NNNN-title.md\n"
        );
        let found = decision_references(&Tree::of_this_repository(), &file("a.rs", text));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].what,
            concat!("there is no docs/deci", "sions/9999-nothing.md")
        );
    }

    #[test]
    fn a_header_that_names_a_missing_test_is_found() {
        let tree = Tree::of_this_repository();
        let text = "//! A. Tests: tests/house.rs, tests/nothing.rs, tidy/tests/house.rs,\n\
                    //! tidy/tests/none.rs.\nfn a() {} // tests/no.rs\n";
        let found = test_references(&tree, &file("crates/tidy/src/a.rs", text));
        let found: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
        let missing = ["tests/nothing.rs", "tidy/tests/none.rs"];
        assert_eq!(found, missing.map(|path| format!("there is no {path}")));
    }

    #[test]
    fn paths_of_one_machine_and_announced_work_are_found() {
        let text = format!("a\n// {}: b\n// see {}b\n", FORBIDDEN[0].0, FORBIDDEN[2].0);
        assert_eq!(forbidden_words(&file("a.rs", &text)).len(), 2);
        assert!(forbidden_words(&file("fuzz/Cargo.lock", &text)).is_empty());
    }

    #[test]
    fn a_decision_without_its_sections_is_found() {
        let sections = DECISION_SECTIONS
            .map(|name| format!("## {name}\nIt takes 2 s.\n\n"))
            .concat();
        let good = format!("# 0001 Crates\nDate: 2026-01-01. Status: accepted\n{sections}");
        assert!(decision(&file("docs/decisions/0001-crates-and-layers.md", &good)).is_empty());
        for bad in [
            good.replace("## Rejected\n", ""),
            good.replacen("2 s", "long", 2),
            good.replace(
                "Decision\nIt takes 2 s.",
                "Decision\nIt does.\n\nIt takes 2 s.",
            ),
        ] {
            let found = decision(&file("docs/decisions/0001-crates-and-layers.md", &bad));
            assert_eq!(found.len(), 1, "{bad}");
        }
    }
}
