//! Counts: how large the product is, a line for each crate.
//!
//! `cargo run --package cellar-tidy --example counts [FOLDER]` shows lines without tests, types,
//! constants, modules at the top, files, and files that name a protocol. FOLDER is another
//! checkout.
#![expect(
    clippy::expect_used,
    reason = "a program that cannot read its input has failed"
)]

use cellar_tidy::Tree;
use cellar_tidy::source::{Source, words};

/// The crates that users run.
const PRODUCT: [&str; 7] = [
    "engine", "values", "protocol", "script", "server", "near", "capi",
];
/// What makes a type.
const TYPES: [&str; 4] = ["struct", "enum", "trait", "union"];
const PROTOCOLS: [&str; 3] = ["memcached", "resp", "http"];

#[derive(Clone, Copy, Default)]
struct Counts {
    lines: usize,
    types: usize,
    constants: usize,
    modules: usize,
    files: usize,
    protocols: usize,
}

fn main() {
    let tree = match std::env::args().nth(1) {
        Some(folder) => Tree::open(folder).expect("the folder is a checkout"),
        None => Tree::of_this_repository(),
    };
    println!("crate       lines  types  constants  modules  files  naming a protocol");
    let mut sum = Counts::default();
    for name in PRODUCT {
        let counts = count(&tree, name);
        show(name, counts);
        sum.lines += counts.lines;
        sum.types += counts.types;
        sum.constants += counts.constants;
        sum.files += counts.files;
        sum.protocols += counts.protocols;
    }
    show("all", sum);
}

fn show(name: &str, counts: Counts) {
    let Counts {
        lines,
        types,
        constants,
        modules,
        files,
        protocols,
    } = counts;
    println!(
        "{name:<10} {lines:>6} {types:>6} {constants:>10} {modules:>8} {files:>6} {protocols:>18}"
    );
}

fn count(tree: &Tree, name: &str) -> Counts {
    let mut counts = Counts::default();
    for file in tree.sources_of(name).filter(|file| !file.is_test()) {
        let source = Source::cut(&file.text);
        let words: Vec<&str> = words(&source.code).map(|(_, word)| word).collect();
        counts.files += 1;
        counts.lines += source.lines_without_tests;
        counts.types += words.iter().filter(|word| TYPES.contains(word)).count();
        let declares = |pair: &&[&str]| {
            matches!(pair[0], "const" | "static") && pair[1].chars().all(|c| !c.is_lowercase())
        };
        counts.constants += words.windows(2).filter(declares).count();
        counts.protocols += usize::from(words.iter().any(|word| PROTOCOLS.contains(word)));
        if file.path.ends_with("/src/lib.rs") {
            counts.modules = words.iter().filter(|word| **word == "mod").count();
        }
    }
    counts
}
