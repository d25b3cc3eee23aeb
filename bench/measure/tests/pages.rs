//! The pages in docs/benchmarks: they are what the raw results in bench/results give, and nothing
//! else.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

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
