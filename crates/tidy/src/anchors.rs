//! Rules for the pages of the documentation: links lead to headings, and the site has all pages.
//!
//! A link `page.md#part` needs the heading `part` in that page, by the rule that GitHub and mdBook
//! share: lower case, punctuation left out, a hyphen for each space. Every page below docs/ is in
//! docs/SUMMARY.md, from which the site is built; benchmarks and decisions are added to it there.

use std::collections::BTreeSet;

use crate::documents::prose;
use crate::tree::{File, Finding, Tree};

const SUMMARY: &str = "docs/SUMMARY.md";
/// Folders whose pages the site lists without a row.
const LISTED_BY_THE_SITE: [&str; 2] = ["docs/benchmarks/", "docs/decisions/"];

/// Links to headings that do not exist, and pages that the site lacks.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree
        .markdown()
        .flat_map(|file| dead_anchors(tree, file))
        .collect();
    findings.extend(missing_pages(tree));
    findings
}

fn dead_anchors(tree: &Tree, file: &File) -> Vec<Finding> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (index, line) in prose(&file.text) {
        for target in line.split("](").skip(1) {
            let target = target.split([')', ' ']).next().unwrap_or_default();
            let Some((path, anchor)) = target.split_once('#') else {
                continue;
            };
            if target.contains("://") {
                continue;
            }
            let page = match path {
                "" => Some(file),
                _ => tree.file(&resolved(folder, path)),
            };
            // The rule for links finds a page that does not exist.
            let Some(page) = page.filter(|page| page.path.ends_with(".md")) else {
                continue;
            };
            if !anchors(&page.text).contains(anchor) {
                let what = format!("{} has no heading #{anchor}", page.path);
                findings.push(Finding::new(file, index + 1, what));
            }
        }
    }
    findings
}

/// The path from the root of a link in a page of `folder`.
fn resolved(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a page's headings; a repeated one has a number behind it.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(page) {
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let anchor = anchor(text.trim());
        let repeated = (1..).map(|count| format!("{anchor}-{count}"));
        let mut names = std::iter::once(anchor.clone()).chain(repeated);
        let free = names.find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    // Of a link in a heading, its text counts.
    for (index, part) in heading.split("](").enumerate() {
        let part = match index {
            0 => part,
            _ => part.split_once(')').map_or(part, |(_, rest)| rest),
        };
        text.push_str(part);
    }
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn missing_pages(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.file(SUMMARY) else {
        return Vec::new();
    };
    let pages = tree.markdown().filter(|file| {
        let is_listed_there = LISTED_BY_THE_SITE
            .iter()
            .any(|folder| file.path.starts_with(folder));
        file.path.starts_with("docs/") && file.path != SUMMARY && !is_listed_there
    });
    let missing = pages.filter(|page| {
        let link = format!("]({})", &page.path["docs/".len()..]);
        !summary.text.contains(&link)
    });
    missing
        .map(|page| Finding::new(page, 0, format!("{SUMMARY} does not list this page")))
        .collect()
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
    fn headings_have_the_anchors_of_the_web() {
        let page = "# A page\n## By hand: `--takeover`\n## `SET ... CAS`\n## [a](b.md) b\n\
                    ```sh\n# no heading\n```\n## A page\n#none\n";
        let found: Vec<String> = anchors(page).into_iter().collect();
        let wanted = [
            "a-b",
            "a-page",
            "a-page-1",
            "by-hand---takeover",
            "set--cas",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_link_to_a_missing_heading_is_found() {
        let tree = Tree::of_this_repository();
        let text = "# One\n[a](#one) [b](#two)\n[c](guide/security.md#roles)\n\
                    [d](guide/security.md#no-such-part)\n[e](https://x.example/#y)\n";
        let found = dead_anchors(&tree, &file("docs/a.md", text));
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn a_page_that_the_site_lacks_is_found() {
        let folder = std::env::temp_dir().join(format!("tidy-anchors-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("docs/decisions")).unwrap();
        for (name, text) in [
            ("SUMMARY.md", "- [A](a.md)\n"),
            ("a.md", "# A\n"),
            ("b.md", "# B\n"),
            ("decisions/0001-c.md", "# C\n"),
        ] {
            std::fs::write(folder.join("docs").join(name), text).unwrap();
        }
        let findings = missing_pages(&Tree::open(&folder).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        let paths: Vec<&str> = findings.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["docs/b.md"]);
    }
}
