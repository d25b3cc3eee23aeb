//! The rule for the page about errors: each text that it quotes is one that a program prints.
//!
//! The first column of each table has the symptom; its code spans are error texts, in which `...`
//! stands for a name or a number. Each part of a text is looked for in the strings of one Rust
//! file, as they are printed: without escapes, and joined where a string goes on in another line.

use crate::layers::SERVER;
use crate::tree::{File, Finding, Tree};

const PAGE: &str = "docs/guide/troubleshooting.md";
/// Fewest rows that the page has.
const ROWS_MIN: usize = 20;
/// Crates whose texts users see, beside the server's.
const CRATES: [&str; 4] = ["engine", "protocol", "script", "values"];

/// Quoted texts that no source has.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else {
        return Vec::new();
    };
    let sources = CRATES
        .into_iter()
        .chain(SERVER)
        .flat_map(|name| tree.sources_of(name));
    let sources: Vec<String> = sources.map(|file| printed(&file.text)).collect();
    check_page(page, &sources)
}

fn check_page(page: &File, sources: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rows: Vec<(usize, &str)> = rows(&page.text).collect();
    if rows.len() < ROWS_MIN {
        let what = format!("{} rows, at least {ROWS_MIN} are asked", rows.len());
        findings.push(Finding::new(page, 0, what));
    }
    for (line, symptom) in rows {
        for text in symptom.split('`').skip(1).step_by(2) {
            let parts: Vec<&str> = text.split("...").map(str::trim).collect();
            let is_printed = |source: &String| parts.iter().all(|part| source.contains(part));
            if !sources.iter().any(is_printed) {
                let what = format!("no source prints `{text}`");
                findings.push(Finding::new(page, line, what));
            }
        }
    }
    findings
}

/// The first cells of the rows below the heads of tables, each with its line.
fn rows(page: &str) -> impl Iterator<Item = (usize, &str)> {
    page.lines().enumerate().filter_map(|(index, line)| {
        let cell = line.strip_prefix("| ")?.split(" | ").next()?;
        (cell != "symptom").then_some((index + 1, cell))
    })
}

/// A Rust file with its strings as they are printed.
fn printed(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let mut joined = line.to_owned();
        while joined.ends_with('\\') {
            joined.pop();
            joined.push_str(lines.next().unwrap_or_default().trim_start());
        }
        text.push_str(&joined.replace("\\\"", "\""));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_no_source_prints_is_found() {
        let source = "    \"{wanted} open files, the \\\n        limit is {files}; stop\"\n";
        let head = "| symptom | cause | what to do |\n|---|---|---|\n";
        let row = |text: &str| format!("| `{text}` or so | `none` | do |\n");
        let same = row("... open files, the limit is ...; stop").repeat(ROWS_MIN);
        let page = |rows: &str| File {
            path: PAGE.into(),
            text: format!("{head}{rows}"),
        };
        let sources = [printed(source)];
        assert_eq!(check_page(&page(&same), &sources), []);
        let other = same + &row("the limit of files");
        let found = check_page(&page(&other), &sources);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, ROWS_MIN + 3);
    }

    #[test]
    fn a_page_with_few_rows_is_found() {
        let page = File {
            path: PAGE.into(),
            text: "| symptom | cause |\n|---|---|\n| slow | busy |\n".into(),
        };
        assert_eq!(check_page(&page, &[]).len(), 1);
    }
}
