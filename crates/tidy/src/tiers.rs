//! The rule for tiers: each file with tests has a row in tests.tsv, and each row has its file.
//!
//! What runs the tests reads the same table, so a test that no tier has is found here. A Java class
//! carries its tier as a tag, which has to say the same.

use cellar_runner::tiers::{Row, Tier, parse};

use crate::tree::{File, Finding, Tree};

/// The table.
const TABLE: &str = "tests.tsv";

/// Files without a row, rows without a file, tags that contradict a row.
///
/// # Panics
/// If there is no table.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let table = tree.file(TABLE).expect("tests.tsv stands at the root");
    let rows = match parse(&table.text) {
        Ok(rows) => rows,
        Err(why) => return vec![Finding::new(table, 0, why)],
    };
    let mut findings = Vec::new();
    let has = |kind: &str, name: &str| rows.iter().any(|row| row.kind == kind && row.name == name);
    let named = named(tree);
    for (file, name) in &named {
        if !rust_names(name).any(|name| has("rust", name)) {
            findings.push(Finding::new(
                file,
                0,
                format!("tests.tsv has no row `rust {name}`"),
            ));
        }
    }
    for file in tree.files().filter(|file| is_java_test(file)) {
        findings.extend(check_java(file, &rows));
    }
    for suite in suites(tree) {
        if !has("client", &suite) {
            findings.push(Finding::new(table, 0, format!("no row `client {suite}`")));
        }
    }
    findings.extend(
        rows.iter()
            .filter(|row| !exists(tree, &named, row))
            .map(|row| {
                let what = format!("`{} {}` names nothing that is there", row.kind, row.name);
                Finding::new(table, 0, what)
            }),
    );
    findings
}

/// The Rust files with tests, and their names.
fn named(tree: &Tree) -> Vec<(&File, String)> {
    let files = tree.rust().filter(|file| has_rust_tests(file));
    files
        .filter_map(|file| Some((file, rust_name(tree, file)?)))
        .collect()
}

fn has_rust_tests(file: &File) -> bool {
    file.package().is_some()
        && (file.text.contains("#[test]\n") || file.text.contains("#[tokio::test"))
}

/// The test program of a file and its module there: `server/server::resp_sets`; for sources
/// `server/lib` or `server/main`.
fn rust_name(tree: &Tree, file: &File) -> Option<String> {
    let (home, package, rest) = file.package()?;
    if rest == "src/main.rs" {
        return Some(format!("{package}/main"));
    }
    if rest.starts_with("src/") {
        return Some(format!("{package}/lib"));
    }
    let path = rest.strip_prefix("tests/")?.strip_suffix(".rs")?;
    let (first, inner) = path.split_once('/').unwrap_or((path, ""));
    if tree.has(&format!("{home}tests/{first}/main.rs")) {
        let module = inner
            .strip_suffix("main")
            .unwrap_or(inner)
            .replace('/', "::");
        return Some(join(&format!("{package}/{first}"), &module));
    }
    let manifest = tree.file(&format!("{home}Cargo.toml"))?;
    let is_program = |stem: &str| {
        let is_listed = manifest.text.contains("autotests = false");
        !is_listed || manifest.text.contains(&format!("name = \"{stem}\""))
    };
    let root = tree.rust().find(|root| {
        let folder = format!("{home}tests/");
        let stem = root.path.strip_prefix(&folder);
        let stem = stem.and_then(|name| name.strip_suffix(".rs"));
        let is_root = stem.is_some_and(|stem| !stem.contains('/') && is_program(stem));
        // The text of few files is looked at.
        is_root
            && root
                .text
                .lines()
                .any(|line| line == format!("mod {first};"))
    });
    let inner = inner.replace('/', "::");
    match root {
        Some(root) => {
            let program = root.path.rsplit('/').next()?.strip_suffix(".rs")?;
            Some(join(&join(&format!("{package}/{program}"), first), &inner))
        }
        None => Some(join(&format!("{package}/{first}"), &inner)),
    }
}

fn join(front: &str, back: &str) -> String {
    match back {
        "" => front.to_owned(),
        back => format!("{front}::{back}"),
    }
}

/// A name and all that it begins with: a row for one of them is one for it.
fn rust_names(name: &str) -> impl Iterator<Item = &str> {
    let ends = name.match_indices("::").map(|(at, _)| at);
    ends.chain([name.len()]).map(|end| &name[..end])
}

fn is_java_test(file: &File) -> bool {
    file.path.starts_with("java/")
        && file.path.contains("/src/test/")
        && file.path.ends_with("Test.java")
}

fn check_java(file: &File, rows: &[Row]) -> Option<Finding> {
    let class = file.path.rsplit('/').next()?.strip_suffix(".java")?;
    let row = rows
        .iter()
        .find(|row| row.kind == "java" && row.name == class);
    let is_deep = file.text.contains("@Tag(\"deep\")\nclass")
        || file.text.contains("@Tag(\"deep\")\npublic")
        || file.text.contains("@Tag(\"deep\")\nabstract")
        || file.text.contains("@Tag(\"deep\")\nfinal");
    let what = match row {
        None => format!("tests.tsv has no row `java {class}`"),
        Some(row) if (row.tier == Tier::Deep) != is_deep => {
            format!("its tag `deep` and its row `java {class}` in tests.tsv contradict each other")
        }
        Some(_) => return None,
    };
    Some(Finding::new(file, 0, what))
}

/// The suites of foreign-clients/run, from its table `ALL`.
fn suites(tree: &Tree) -> Vec<String> {
    let program = tree
        .file("foreign-clients/run")
        .expect("the program that runs real clients");
    let table = program
        .text
        .split_once("\nALL = (\n")
        .map_or("", |(_, rest)| rest);
    let table = table.split_once("\n)\n").map_or("", |(table, _)| table);
    let names = table.lines().map(|line| line.trim().trim_end_matches(','));
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether what a row names is there.
fn exists(tree: &Tree, named: &[(&File, String)], row: &Row) -> bool {
    match row.kind.as_str() {
        "rust" => rust_exists(named, &row.name),
        "java" => {
            let end = format!("/{}.java", row.name);
            tree.files()
                .any(|file| is_java_test(file) && file.path.ends_with(&end))
        }
        "client" => suites(tree).contains(&row.name),
        _ => false,
    }
}

/// Whether a file has this name, or a test of a file with the name before its last part.
fn rust_exists(named: &[(&File, String)], name: &str) -> bool {
    let has = |name: &str, whole: &str| rust_names(whole).any(|part| part == name);
    if named.iter().any(|(_, whole)| has(name, whole)) {
        return true;
    }
    let Some((front, test)) = name.rsplit_once("::") else {
        return false;
    };
    let test = format!("fn {test}(");
    // The modules of a library have no names of their own here.
    let is_of = |whole: &str| has(front, whole) || rust_names(front).any(|part| part == whole);
    let mut of_front = named.iter().filter(|(_, whole)| is_of(whole));
    of_front.any(|(file, _)| file.text.contains(&test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_its_program_and_module() {
        let tree = Tree::of_this_repository();
        let name = |path: &str| rust_name(&tree, tree.file(path).unwrap()).unwrap();
        assert_eq!(
            name("crates/server/tests/resp_sets.rs"),
            "server/server::resp_sets"
        );
        assert_eq!(name("crates/tidy/tests/house.rs"), "tidy/house");
        assert_eq!(name("crates/tidy/src/tree.rs"), "tidy/lib");
        assert_eq!(
            name("crates/near/tests/coherence/live.rs"),
            "near/coherence::live"
        );
    }

    #[test]
    fn the_suites_of_real_clients_are_found() {
        let suites = suites(&Tree::of_this_repository());
        assert!(
            suites.len() > 20 && suites.iter().any(|suite| suite == "pymemcache"),
            "{suites:?}"
        );
    }
}
