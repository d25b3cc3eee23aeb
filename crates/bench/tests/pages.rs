//! The pages in docs/benchmarks: they are what the raw results in bench/results give, and nothing
//! else.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cellar_bench::pages::{differences, render};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Folders for raw results and pages; they go with the test.
struct Folders(TempDir);

impl Folders {
    fn new() -> Folders {
        let folder = tempfile::tempdir().unwrap();
        for part in ["results", "pages"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        Folders(folder)
    }

    /// With the raw result of one small contest.
    fn with_contest() -> Folders {
        let folders = Folders::new();
        let raw = contest().to_string();
        fs::write(folders.raw("contest"), raw).unwrap();
        folders
    }

    fn raw(&self, part: &str) -> PathBuf {
        self.0.path().join(format!("results/{part}.json"))
    }

    fn page(&self, name: &str) -> PathBuf {
        self.0.path().join("pages").join(name)
    }

    fn pages(&self, options: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cellar-bench"))
            .arg("pages")
            .args(options)
            .args([
                "--results".as_ref(),
                self.0.path().join("results").as_os_str(),
            ])
            .args(["--pages".as_ref(), self.0.path().join("pages").as_os_str()])
            .output()
            .unwrap()
    }

    /// What the check finds fault with.
    fn faults(&self) -> String {
        let output = self.pages(&["--check"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), errors.is_empty(), "{errors}");
        errors
    }
}

/// Two servers on one trace; the peer misses less.
fn contest() -> Value {
    let server = |name: &str, misses: u64| {
        json!({
            "trace": "t", "rss_limit_bytes": 33_554_432, "server": name, "version": "1.0",
            "fits": true, "trials": 1, "memory_bytes": 30_000_000, "rss_end_bytes": 33_000_000,
            "rss_peak_bytes": 33_000_000, "keys": 10, "footprint_bytes": 1000, "requests": 1000,
            "hits": 1000 - misses, "misses": misses, "miss_ratio": 0.5, "refused": 0,
            "seconds": 20.0, "ttl_left_out": false
        })
    };
    json!({
        "setting": {
            "date": "2026-01-31", "command": "cellar-bench contest t.csv", "commit": "abc1234",
            "cpu": "some processor", "cpus": 2, "kernel": "6.1"
        },
        "lasting_s": 20, "footprint_bytes": null, "requests_max": 1000,
        "results": [server("cellar", 500), server("memcached", 400)]
    })
}

#[test]
fn the_stored_pages_are_what_the_raw_results_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (results, pages) = (root.join("bench/results"), root.join("docs/benchmarks"));
    let files = render(&results).unwrap();
    let wrong = differences(&files, &results, &pages).unwrap();
    assert!(
        wrong.is_empty(),
        "{}\n`cellar-bench pages` writes them anew",
        wrong.join("\n")
    );
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
            *passages.last_mut().unwrap() += &format!(" {line}");
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
    words += links.next().unwrap();
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

/// The pages that people write, with their names: the readme, docs and the guide.
fn written(root: &Path) -> Vec<(String, String)> {
    let mut files = vec![root.join("README.md")];
    for folder in ["docs", "docs/guide"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        let entries = entries.map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|file| file.extension().is_some_and(|it| it == "md")));
    }
    let named = |file: &PathBuf| {
        let name = file.strip_prefix(root).unwrap().display().to_string();
        (name, fs::read_to_string(file).unwrap())
    };
    files.iter().map(named).collect()
}

#[test]
fn figures_beside_a_link_to_a_measurement_stand_on_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut claims = Vec::new();
    for (file, text) in written(&root) {
        for passage in passages(&text) {
            let (words, pages) = claim(&passage);
            claims.push((file.clone(), words, pages));
        }
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for (file, words, pages) in claims.iter().filter(|(_, _, pages)| !pages.is_empty()) {
        let shown = pages.iter().flat_map(|page| {
            let page = fs::read_to_string(root.join("docs/benchmarks").join(page)).unwrap();
            let sections = page.split("\n## ");
            // Of earlier runs nothing is quoted.
            let is_newest =
                |it: &&str| !it.starts_with("Earlier runs") && !it.starts_with("All rounds");
            sections
                .filter(is_newest)
                .flat_map(numbers)
                .collect::<Vec<_>>()
        });
        let shown: HashSet<String> = shown.collect();
        for number in numbers(words) {
            count += 1;
            if !shown.contains(&number) {
                wrong.push(format!("{file}: no {number} in {pages:?}:{words}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 90, "{count} figures are compared");
}

#[test]
fn a_raw_result_becomes_a_page_that_begins_with_where_a_peer_wins() {
    let folders = Folders::with_contest();
    assert!(folders.pages(&[]).status.success());
    assert_eq!(folders.faults(), "");
    let page = fs::read_to_string(folders.page("contest.md")).unwrap();
    let lost = "| misses, t, 32.00 MiB | memcached | 400.0 | 500.0 | 1.250 |";
    let lost = page
        .find(lost)
        .or(page.find("| misses, t, 32 MiB | memcached | 400.0 | 500.0"));
    assert!(
        lost.is_some() && lost < page.find("## What was found"),
        "{page}"
    );
    for part in [
        "| command | `cellar-bench contest t.csv` |",
        "| machine | 2 x some processor, Linux 6.1 |",
        "| commit | abc1234 |",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let index = fs::read_to_string(folders.page("README.md")).unwrap();
    assert!(index.contains("- [contest](contest.md): "), "{index}");
    assert!(!index.contains("(growth.md)"), "{index}");
    assert_eq!(index.matches("not measured yet").count(), 5, "{index}");
}

#[test]
fn an_edited_page_and_one_without_raw_result_are_found() {
    let folders = Folders::with_contest();
    assert!(folders.faults().contains("contest.md is missing"));
    assert!(folders.pages(&[]).status.success());
    let page = fs::read_to_string(folders.page("contest.md")).unwrap();
    fs::write(folders.page("contest.md"), page.replace("1.250", "0.950")).unwrap();
    assert!(folders.faults().contains("contest.md differs"));
    assert!(folders.pages(&[]).status.success());
    fs::write(folders.page("growth.md"), "# By hand\n").unwrap();
    assert!(folders.faults().contains("growth.md has no raw result"));
    // Written anew, the folder holds what the raw results give and no more.
    assert!(folders.pages(&[]).status.success());
    assert_eq!(folders.faults(), "");
    assert!(!folders.page("growth.md").exists());
}

#[test]
fn a_raw_result_that_belongs_to_no_part_or_is_none_is_an_error() {
    let folders = Folders::with_contest();
    fs::write(folders.raw("contest-2026-01-31"), "{}").unwrap();
    assert!(folders.pages(&[]).status.success());
    let faults = folders.faults();
    assert!(
        faults.contains("contest-2026-01-31.json is no raw result"),
        "{faults}"
    );
    fs::write(folders.raw("memory"), "{}").unwrap();
    let output = folders.pages(&[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("memory: invalid type"), "{errors}");
}
