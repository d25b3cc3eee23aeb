//! Programs of tests: where a crate lists them itself, no file of tests or example is left out.
//!
//! With `autotests = false` Cargo compiles what Cargo.toml names; another file in `tests/` is run
//! only as a module of one of those. With `doctest = false` it does not look for examples in the
//! documentation, which takes as long as to compile the crate once more.

use crate::tree::{File, Finding, Tree};

/// What a fence in the documentation says of code that is no example to compile.
const NO_EXAMPLES: [&str; 5] = ["text", "json", "sh", "toml", "ignore"];

/// Files of tests, and examples, that no program has.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = |what: &'static str| {
        let all = tree.files();
        all.filter(move |file| file.path.ends_with("/Cargo.toml") && file.text.contains(what))
    };
    let files = manifests("autotests = false").flat_map(|manifest| left_out(tree, manifest));
    let examples = manifests("doctest = false").flat_map(|manifest| examples_of(tree, manifest));
    files.chain(examples).collect()
}

/// Examples in the documentation of a crate.
fn examples_of(tree: &Tree, manifest: &File) -> Vec<Finding> {
    let folder = manifest.path.replace("Cargo.toml", "src/");
    let own = tree.rust().filter(|file| file.path.starts_with(&folder));
    own.filter_map(|file| {
        let line = first_example(&file.text)?;
        let what = "Cargo.toml has `doctest = false`, so nobody compiles this example";
        Some(Finding::new(file, line, what))
    })
    .collect()
}

/// The line, from 1, at which the first example in a file's documentation begins.
fn first_example(text: &str) -> Option<usize> {
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(words) = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))
        else {
            continue;
        };
        let Some(info) = words.trim_start().strip_prefix("```") else {
            continue;
        };
        let is_example = !is_inside && !NO_EXAMPLES.contains(&info.trim());
        if is_example {
            return Some(number + 1);
        }
        is_inside = !is_inside;
    }
    None
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

    #[test]
    fn an_example_that_nobody_compiles_is_found() {
        let shown = "//! One.\n//!\n//! ```text\n//! a drawing\n//! ```\nfn one() {}\n";
        assert_eq!(first_example(shown), None);
        let example = format!("{shown}\n/// Two.\n/// ```\n/// one();\n/// ```\n");
        assert_eq!(first_example(&example), Some(9));
        assert_eq!(first_example("    /// ```no_run\n"), Some(1));
    }
}
