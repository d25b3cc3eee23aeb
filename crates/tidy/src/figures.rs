//! The rule for figures: beside a link to a measurement stand only numbers of its page.
//!
//! A measurement that is repeated changes its page; what README, docs and guide quote from it has
//! to follow. Of earlier runs nothing is quoted.

use std::collections::HashSet;

use crate::tree::{File, Finding, Tree};

/// The pages of measurements.
const MEASURED: &str = "docs/benchmarks/";

/// Figures that stand beside a link to a measurement and not on its page.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let written = tree.markdown().filter(|file| is_written(&file.path));
    written.flat_map(|file| wrong_figures(tree, file)).collect()
}

/// Whether people write the page: the readme, docs and the guide.
fn is_written(path: &str) -> bool {
    let inner = path
        .strip_prefix("docs/guide/")
        .or(path.strip_prefix("docs/"));
    path == "README.md" || inner.is_some_and(|name| !name.contains('/'))
}

fn wrong_figures(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for passage in passages(&file.text) {
        let (words, pages) = claim(&passage);
        let shown: HashSet<String> = pages.iter().flat_map(|page| figures(tree, page)).collect();
        let missing = numbers(&words).into_iter().filter(|it| !shown.contains(it));
        if !pages.is_empty() {
            findings.extend(missing.map(|number| {
                let what = format!("no {number} in {}:{words}", pages.join(", "));
                Finding::new(file, 0, what)
            }));
        }
    }
    findings
}

/// The numbers of the newest run on a page of a measurement.
fn figures(tree: &Tree, page: &str) -> Vec<String> {
    let page = tree.file(&format!("{MEASURED}{page}"));
    let sections = page.map_or("", |page| &page.text).split("\n## ");
    let is_newest = |it: &&str| !it.starts_with("Earlier runs") && !it.starts_with("All rounds");
    sections.filter(is_newest).flat_map(numbers).collect()
}

/// The numbers of a text, as they are written but for the commas of thousands.
fn numbers(text: &str) -> Vec<String> {
    let text = text.replace(',', "");
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let words = words.map(|word| word.trim_matches('.').to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

/// The paragraphs, list items and table cells of a page, without its blocks of code.
fn passages(page: &str) -> Vec<String> {
    let mut passages = vec![String::new()];
    let mut is_code = false;
    for line in page.lines().map(str::trim_start) {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_fence || is_code || line.is_empty() {
            passages.push(String::new());
        } else if line.starts_with('|') {
            passages.extend(line.split('|').map(str::to_owned));
            passages.push(String::new());
        } else {
            if line.starts_with("- ") {
                passages.push(String::new());
            }
            if let Some(last) = passages.last_mut() {
                *last += &format!(" {line}");
            }
        }
    }
    passages
}

/// What a passage says in its own words, and the measurements that it links to: neither code,
/// nor targets of links, nor the text of links to anything else.
fn claim(passage: &str) -> (String, Vec<String>) {
    let prose: Vec<&str> = passage.split('`').step_by(2).collect();
    let prose = prose.concat();
    let (mut words, mut pages) = (String::new(), Vec::new());
    let mut links = prose.split("](");
    words += links.next().unwrap_or_default();
    for link in links {
        let (target, rest) = link.split_once(')').unwrap_or((link, ""));
        match target.split_once("benchmarks/").map(|(_, name)| name) {
            Some(name) if name.ends_with(".md") => pages.push(name.to_owned()),
            _ => words.truncate(words.rfind('[').unwrap_or(0)),
        }
        words += rest;
    }
    (words, pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_beside_a_link_has_to_stand_on_the_page() {
        let folder = std::env::temp_dir().join(format!("tidy-figures-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let file = folder.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write(
            "docs/benchmarks/cost.md",
            "# Cost\n\n| get | 1,234 | 0.5 |\n\n## Earlier runs\n\n| get | 99 |\n",
        );
        write(
            "docs/guide/a.md",
            "1234 ns and 0.5 ([cost](../benchmarks/cost.md)), `7` in code.\n\n\
             Here 8 is no claim.\n\nIt was 99 ([cost](../benchmarks/cost.md)).\n",
        );
        let found = check(&Tree::open(&folder).unwrap());
        let _ = std::fs::remove_dir_all(&folder);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.starts_with("no 99 in cost.md"), "{found:?}");
    }

    #[test]
    fn the_pages_of_this_repository_quote_figures() {
        let tree = Tree::of_this_repository();
        let written = tree.markdown().filter(|file| is_written(&file.path));
        let claims = written.flat_map(|file| passages(&file.text));
        let claims = claims.map(|passage| claim(&passage));
        let quoted = claims.filter(|(_, pages)| !pages.is_empty());
        let count: usize = quoted.map(|(words, _)| numbers(&words).len()).sum();
        assert!(count > 90, "{count} figures are compared");
    }
}
