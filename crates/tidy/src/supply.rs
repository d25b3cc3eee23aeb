//! Rules for what Cellar is built from: C code in crates, and Java's dependencies.
//!
//! What crates say about themselves `cargo deny` checks (deny.toml). It does not see the C code
//! that they carry, nor Java; these stand in tables in deny/, each row with its version, so that no
//! version changes without somebody looking up what is known of it.

use std::collections::BTreeSet;

use crate::tree::{File, Finding, Tree};

/// What is built: the product, and its measurements.
const LOCKS: [&str; 2] = ["Cargo.lock", "bench/Cargo.lock"];
/// The table of crates that compile C.
const C_TABLE: &str = "deny/embedded-c.md";
/// The table of Java's dependencies.
/// Programs of libraries stand for those of users; nothing of ours is built from them.
const LIBRARIES: &str = "foreign-clients/libraries/";
const JAVA_TABLE: &str = "deny/java.tsv";
/// The crate by which others compile C.
const C_COMPILER: &str = "cc";
/// What is ours in Java.
const OUR_ARTIFACTS: [&str; 2] = ["cellar-", "client-tests"];

/// Licences that Java's dependencies may have.
const LICENCES: [&str; 4] = ["Apache-2.0", "BSD-2-Clause", "CC0-1.0", "MIT"];
/// Licences that only what is not shipped may have besides.
const LICENCES_BESIDE: [&str; 3] = ["EPL-2.0", "GPL-2.0-with-classpath-exception", "LGPL-3.0"];
/// What is not shipped.
const BESIDE: [&str; 2] = ["tests", "measurements"];
/// What no pom names, because it comes with what one does; the client's tests compare these rows
/// with what Maven finds.
const BROUGHT: &str = "brought";

/// A name and its version.
type Pair = (String, String);

/// All rules for what Cellar is built from.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let locks = LOCKS.iter().filter_map(|path| tree.file(path));
    let locks: String = locks.map(|lock| lock.text.as_str()).collect();
    match tree.file(C_TABLE) {
        Some(table) => findings.extend(embedded_c(&locks, table)),
        None => findings.push(missing(C_TABLE)),
    }
    let is_ours = |path: &str| path.ends_with("pom.xml") && !path.starts_with(LIBRARIES);
    let poms = tree.files().filter(|file| is_ours(&file.path));
    match tree.file(JAVA_TABLE) {
        Some(table) => findings.extend(java(&poms.collect::<Vec<_>>(), table)),
        None => findings.push(missing(JAVA_TABLE)),
    }
    findings
}

fn missing(path: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        line: 0,
        what: "the table is missing".to_owned(),
    }
}

/// The crates of lock files that compile C, against their table.
fn embedded_c(locks: &str, table: &File) -> Vec<Finding> {
    let rows: Vec<Pair> = table
        .text
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
        })
        .filter(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    compare(&compiling_c(locks), &rows, table)
}

/// The packages of lock files that depend on the compiler's crate, each once.
fn compiling_c(locks: &str) -> Vec<Pair> {
    let value = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_matches('"').to_owned())
    };
    let packages = locks.split("[[package]]\n").skip(1);
    let compiling = packages.filter(|package| {
        let dependencies = package.lines().map(str::trim);
        dependencies
            .map(|line| line.trim_matches([' ', ',', '"']))
            .any(|name| name == C_COMPILER || name.starts_with("cc "))
    });
    let pairs = compiling
        .filter_map(|package| Some((value(package, "name = ")?, value(package, "version = ")?)));
    let pairs: BTreeSet<Pair> = pairs.collect();
    pairs.into_iter().collect()
}

/// What Java's build names, against the table: artifact, version, licence, the lowest version
/// without a known weakness or `-`, what it is for.
fn java(poms: &[&File], table: &File) -> Vec<Finding> {
    let mut found: Vec<Pair> = poms.iter().flat_map(|pom| artifacts(&pom.text)).collect();
    found.sort();
    found.dedup();
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for (at, line) in table.text.lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        let cells: Vec<&str> = line.split('\t').collect();
        let [artifact, version, licence, floor, usage] = cells[..] else {
            findings.push(Finding::new(table, at + 1, "a row has five cells"));
            continue;
        };
        let is_beside = BESIDE.contains(&usage) && LICENCES_BESIDE.contains(&licence);
        if !LICENCES.contains(&licence) && !is_beside {
            let what = format!("{artifact}: the licence {licence} is not among the allowed");
            findings.push(Finding::new(table, at + 1, what));
        }
        if floor != "-" && numbers(version) < numbers(floor) {
            let what = format!("{artifact} {version}: weaknesses are known below {floor}");
            findings.push(Finding::new(table, at + 1, what));
        }
        if usage != BROUGHT {
            rows.push((artifact.to_owned(), version.to_owned()));
        }
    }
    findings.extend(compare(&found, &rows, table));
    findings
}

/// The artifacts of others that a pom names with a version.
fn artifacts(pom: &str) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut artifact = "";
    for part in pom.split('<').skip(1) {
        let Some((tag, text)) = part.split_once('>') else {
            continue;
        };
        match tag {
            "artifactId" => artifact = text,
            // A part of its plugin, which has a version of its own.
            "googleJavaFormat" => artifact = "google-java-format",
            "version" if !OUR_ARTIFACTS.iter().any(|ours| artifact.starts_with(ours)) => {
                pairs.push((artifact.to_owned(), resolve(text, pom)));
            }
            _ => {}
        }
    }
    pairs
}

/// A version, which may be a property of the same file.
fn resolve(version: &str, pom: &str) -> String {
    let name = version.strip_prefix("${").and_then(|v| v.strip_suffix('}'));
    let value = name.and_then(|name| {
        let (_, rest) = pom.split_once(&format!("<{name}>"))?;
        rest.split('<').next()
    });
    value.unwrap_or(version).to_owned()
}

/// The numbers in a version, as far as they go.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(['.', '-', '+']);
    parts.map_while(|part| part.parse().ok()).collect()
}

/// What is there without a row of its version, and rows of what is not there.
fn compare(found: &[Pair], rows: &[Pair], table: &File) -> Vec<Finding> {
    let missing = found.iter().filter(|pair| !rows.contains(pair));
    let missing = missing.map(|(name, version)| {
        format!("{name} {version} has no row: look up what is known of that version, then write it")
    });
    let stale = rows.iter().filter(|pair| !found.contains(pair));
    let stale = stale.map(|(name, version)| format!("{name} {version} is in no build"));
    missing
        .chain(stale)
        .map(|what| Finding::new(table, 0, what))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> File {
        File {
            path: "table".to_owned(),
            text: text.to_owned(),
        }
    }

    fn told(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|one| one.what.as_str()).collect()
    }

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"c-sys\"\nversion = \"1.2.3\"\n\
                        dependencies = [\n \"cc\",\n \"libc\",\n]\n\n[[package]]\n\
                        name = \"plain\"\nversion = \"0.1.0\"\ndependencies = [\n \"ccc\",\n]\n";

    #[test]
    fn c_code_does_not_change_its_version_unseen() {
        let good = table("# C\n\n| crate | version |\n|---|---|\n| c-sys | 1.2.3 | x |\n");
        assert_eq!(embedded_c(LOCK, &good), []);
        let old = embedded_c(LOCK, &table("| c-sys | 1.2.2 | x |\n"));
        let what = told(&old);
        assert!(what[0].starts_with("c-sys 1.2.3 has no row"), "{what:?}");
        assert_eq!(what[1], "c-sys 1.2.2 is in no build");
        assert_eq!(embedded_c(LOCK, &table("")).len(), 1);
    }

    const POM: &str = "<project><artifactId>cellar-java</artifactId><version>1</version>\
                       <lib.version>2.5</lib.version><dependency><artifactId>lib</artifactId>\
                       <version>${lib.version}</version></dependency></project>";

    #[test]
    fn what_java_is_built_from_is_in_its_table_with_licence_and_floor() {
        let pom = table(POM);
        let of = |row: &str| java(&[&pom], &table(row));
        assert_eq!(of("# artifact\nlib\t2.5\tMIT\t2.4.9\tx\n"), []);
        assert_eq!(of("lib\t2.5\tMIT\t-\tx\n"), []);
        assert_eq!(of("lib\t2.5\tLGPL-3.0\t-\ttests\n"), []);
        assert_eq!(of("lib\t2.5\tMIT\t-\tx\nother\t1\tMIT\t-\tbrought\n"), []);
        for (row, what) in [
            ("", "lib 2.5 has no row"),
            (
                "lib\t2.5\tLGPL-3.0\t-\tclient\n",
                "lib: the licence LGPL-3.0",
            ),
            ("lib\t2.5\tSSPL-1.0\t-\tx\n", "lib: the licence SSPL-1.0"),
            (
                "lib\t2.5\tMIT\t2.10\tx\n",
                "lib 2.5: weaknesses are known below 2.10",
            ),
            ("lib\t2.5\tMIT\n", "a row has five cells"),
            (
                "lib\t2.5\tMIT\t2.10\tbrought\n",
                "lib 2.5: weaknesses are known below 2.10",
            ),
            (
                "lib\t2.5\tMIT\t-\tx\nold\t1\tMIT\t-\tx\n",
                "old 1 is in no build",
            ),
        ] {
            let findings = of(row);
            let first = told(&findings)[0];
            assert!(first.starts_with(what), "{row:?}: {first}");
        }
    }
}
