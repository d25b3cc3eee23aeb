//! The guide: what its pages say of Cargo agrees with the crate. Its programs are doc tests.

use std::collections::BTreeSet;
use std::path::Path;

const GUIDE: &str = include_str!("../../../../docs/near.md");
const MANIFEST: &str = include_str!("../../Cargo.toml");

/// The lines of a table of the manifest, as name and value.
fn table(name: &str) -> Vec<(&str, &str)> {
    let start = MANIFEST.find(&format!("[{name}]\n")).unwrap();
    let lines = MANIFEST[start..].lines().skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .collect()
}

#[test]
fn the_guide_lists_the_features_that_there_are_and_which_are_on() {
    let listed: BTreeSet<(&str, bool)> = GUIDE
        .lines()
        .skip_while(|line| *line != "## Features")
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let name = cells.next()?.trim_end_matches('`');
            Some((name, cells.next()? == "yes"))
        })
        .collect();
    let features = table("features");
    let (_, default) = features
        .iter()
        .find(|(name, _)| *name == "default")
        .unwrap();
    let known: BTreeSet<(&str, bool)> = features
        .iter()
        // What others are made of, and what is for this crate's own tests.
        .filter(|(name, _)| !["default", "read-through", "faults"].contains(name))
        .map(|(name, _)| (*name, default.contains(&format!("\"{name}\""))))
        .collect();
    assert_eq!(listed, known);
}

#[test]
fn the_lines_for_cargo_name_this_crate_and_what_its_program_needs() {
    let start = GUIDE.find("```toml\n").unwrap() + "```toml\n".len();
    let lines: Vec<&str> = GUIDE[start..]
        .lines()
        .take_while(|line| *line != "```")
        .collect();
    assert_eq!(lines[0], "[dependencies]");
    let named = lines
        .iter()
        .find_map(|line| line.strip_prefix("cellar-near = { path = \""));
    let path = named.unwrap().trim_end_matches("\" }");
    let path = path
        .strip_prefix("../cellar/")
        .expect("a checkout beside the program");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = std::fs::read_to_string(root.join(path).join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"cellar-near\""));
    // The first program of the page uses these two beside the crate.
    for needed in ["serde", "tokio"] {
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with(&format!("{needed} = ")))
        );
    }
}

/// The packages that a program compiles with the crate, by name.
fn packages(features: &[&str]) -> BTreeSet<String> {
    let mut tree = std::process::Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--offline", "--package", "cellar-near"])
        .args(["--edges", "normal,build", "--prefix", "none", "--no-dedupe"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = tree.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn a_first_build_compiles_no_tls_and_no_c_and_the_store_alone_no_tokio() {
    let default = packages(&[]);
    assert!(default.contains("redis") && default.contains("tokio"));
    for heavy in ["rustls", "ring", "cc"] {
        assert!(!default.contains(heavy), "{heavy} is compiled by default");
        let with_tls = packages(&["--features", "tls"]);
        assert!(with_tls.contains(heavy), "{heavy} is not what TLS takes");
    }
    let alone = packages(&["--no-default-features"]);
    assert!(!alone.contains("tokio") && !alone.contains("redis"));
}

#[test]
fn no_feature_of_a_program_lets_a_cache_be_broken() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, features) = manifest.split_once("[features]\n").unwrap();
    let (features, _) = features.split_once("\n\n").unwrap();
    let names: Vec<&str> = features
        .lines()
        .filter(|line| line.contains("faults"))
        .collect();
    assert_eq!(names, ["faults = [\"read-through\"]"]);
}
