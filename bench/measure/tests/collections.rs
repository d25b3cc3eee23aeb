//! `cellar-bench collections` as a program: that every command of the data types is measured, and
//! that each section tells what it found. What it found depends on the machine and is not checked.

use std::collections::HashSet;

use crate::program::{self, Folder, cellar, figures};
use serde_json::Value;

/// The section of a run in its quick form.
fn section(folder: &Folder, name: &str, options: &str) -> Option<Value> {
    let cellar = cellar()?;
    let common = "collections --quick --memory-mib 256 --redis off --sections";
    let options = format!("{common} {name} --cellar {cellar} {options}");
    let found = figures(folder, &program::run(folder, &options));
    Some(found[name.replace('-', "_")].clone())
}

#[test]
fn every_command_of_the_data_types_is_measured_at_every_size() {
    let folder = Folder::new();
    let Some(cells) = section(&folder, "matrix", "--requests 20 --elements 10,200") else {
        return;
    };
    let cells = cells.as_array().unwrap();
    let names: HashSet<&str> = cells
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    for name in [
        "HSET",
        "SADD, new member",
        "LSET",
        "BITCOUNT, all",
        "PFADD, new",
    ] {
        assert!(names.contains(name), "{name}");
    }
    // Two sizes with values of two lengths each; bitmaps have no values.
    let is_repeated = |it: &&Value| it["family"] != "bitmaps";
    let bitmaps = names.len() - cells.iter().filter(is_repeated).count() / 4;
    assert_eq!(cells.len(), 4 * names.len() - 2 * bitmaps);
    let page = folder.read("page.md");
    for part in ["# Collections", "| HSET | ", "(page-cost.svg)"] {
        assert!(page.contains(part), "{part} in\n{page}");
    }
}

#[test]
fn waits_memory_and_programs_are_told() {
    let folder = Folder::new();
    for (name, rows) in [("memory", 8), ("beside", 6), ("programs", 4)] {
        let Some(found) = section(&folder, name, "") else {
            return;
        };
        assert_eq!(found.as_array().unwrap().len(), rows, "{name}");
    }
    let found = section(&folder, "large", "").unwrap();
    assert_eq!(found["phases"].as_array().unwrap().len(), 8);
    assert!(folder.read("page.md").contains("| built, evicted | "));
}
