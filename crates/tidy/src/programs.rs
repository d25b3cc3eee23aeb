//! Programs of tests: where a crate lists them itself, no file of tests is left out.
//!
//! With `autotests = false` Cargo compiles what Cargo.toml names; another file in `tests/` is run
//! only as a module of one of those.

use crate::tree::{File, Finding, Tree};

/// Files of tests that no program has.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files().filter(|file| {
        file.path.ends_with("/Cargo.toml") && file.text.contains("autotests = false")
    });
    manifests
        .flat_map(|manifest| left_out(tree, manifest))
        .collect()
}

fn left_out(tree: &Tree, manifest: &File) -> Vec<Finding> {
    let folder = manifest.path.replace("Cargo.toml", "tests/");
    let beside = |file: &&File| stem(file, &folder).is_some();
    let files: Vec<&File> = tree.rust().filter(beside).collect();
    let is_run = |name: &str| {
        manifest.text.contains(&format!("name = \"{name}\""))
            || files.iter().any(|file| {
                let row = format!("mod {name};");
                file.text.lines().any(|line| line == row)
            })
    };
    let missing = files.iter().filter_map(|file| {
        let name = stem(file, &folder)?;
        let what = "no program of tests has it: name it in Cargo.toml, or as a module of one";
        (!is_run(name)).then(|| Finding::new(file, 0, what))
    });
    missing.collect()
}

/// The name of a file that stands in `folder` itself.
fn stem<'a>(file: &'a File, folder: &str) -> Option<&'a str> {
    let name = file.path.strip_prefix(folder)?.strip_suffix(".rs")?;
    (!name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_neither_named_nor_a_module_is_found() {
        let folder = std::env::temp_dir().join(format!("tidy-programs-{}", std::process::id()));
        let tests = folder.join("crates/one/tests");
        std::fs::create_dir_all(&tests).unwrap();
        let manifest = "autotests = false\n[[test]]\nname = \"all\"\n";
        std::fs::write(folder.join("crates/one/Cargo.toml"), manifest).unwrap();
        for (name, text) in [("all", "mod part;\n"), ("part", ""), ("lost", "")] {
            std::fs::write(tests.join(name).with_extension("rs"), text).unwrap();
        }
        let findings = check(&Tree::open(&folder).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        let paths: Vec<&str> = findings.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["crates/one/tests/lost.rs"]);
    }
}
