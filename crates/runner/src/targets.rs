//! Targets: which test programs there are, and which of them has a test that a word names.
//!
//! `make test T=word` compiles only the programs whose sources have a test with that word in its
//! name or in its file's name. The sources are searched as text, so a test that a macro makes is
//! found by its file's name alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What Cargo compiles to one test program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The package's folder below `crates/`.
    pub folder: String,
    /// The name of the test program; none for the library's own tests.
    pub program: Option<String>,
}

/// The targets that have a test with `word` in its name, in the workspace at `root`.
///
/// # Errors
/// The system's, when a source cannot be read.
pub fn with_word(root: &Path, word: &str) -> std::io::Result<BTreeSet<Target>> {
    let mut found = BTreeSet::new();
    for folder in subfolders(&root.join("crates"))? {
        let name = name_of(&folder);
        let mut sources = Vec::new();
        walk(&folder.join("src"), &mut sources)?;
        if any_has(&sources, word)? {
            found.insert(Target {
                folder: name.clone(),
                program: None,
            });
        }
        for program in programs(&folder)? {
            let mut sources = vec![program.root.clone()];
            for module in modules(&fs::read_to_string(&program.root)?) {
                sources.push(program.home.join(format!("{module}.rs")));
                walk(&program.home.join(module), &mut sources)?;
            }
            sources.retain(|path| path.exists());
            if program.name.contains(word) || any_has(&sources, word)? {
                found.insert(Target {
                    folder: name.clone(),
                    program: Some(program.name),
                });
            }
        }
    }
    Ok(found)
}

/// A test program: its name, its root file, and where its modules are.
struct Program {
    name: String,
    root: PathBuf,
    home: PathBuf,
}

/// The test programs of a package: files named in its manifest, or all in `tests/`.
fn programs(folder: &Path) -> std::io::Result<Vec<Program>> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let is_listed = manifest.contains("autotests = false");
    let tests = folder.join("tests");
    let mut found = Vec::new();
    for entry in entries(&tests)? {
        let name = entry
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let (root, home) = if entry.is_dir() {
            (entry.join("main.rs"), entry.clone())
        } else {
            (entry.clone(), tests.clone())
        };
        let named = manifest.contains(&format!("name = \"{name}\""));
        if root.exists() && root.extension().is_some_and(|end| end == "rs") && (named || !is_listed)
        {
            found.push(Program { name, root, home });
        }
    }
    Ok(found)
}

/// The modules that a root file declares.
fn modules(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
}

fn any_has(sources: &[PathBuf], word: &str) -> std::io::Result<bool> {
    for source in sources {
        let text = fs::read_to_string(source)?;
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        if has_test(&text, &stem, word) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a source has a test with the word in its name or in the file's.
fn has_test(text: &str, stem: &str, word: &str) -> bool {
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            if stem.contains(word) {
                return true;
            }
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ").or(line.strip_prefix("async fn "))
            && is_test
        {
            let name = rest.split('(').next().unwrap_or_default();
            if name.contains(word) {
                return true;
            }
            is_test = false;
        }
    }
    false
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in entries(folder)? {
        if entry.is_dir() {
            walk(&entry, found)?;
        } else if entry.extension().is_some_and(|end| end == "rs") {
            found.push(entry);
        }
    }
    Ok(())
}

fn subfolders(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut all = entries(folder)?;
    all.retain(|path| path.join("Cargo.toml").exists());
    Ok(all)
}

/// What is in a folder, sorted; nothing if there is no such folder.
fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        all.push(entry?.path());
    }
    all.sort();
    Ok(all)
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_finds_tests_by_their_name_and_by_their_file() {
        let text = "fn hset_helper() {}\n#[test]\nfn a_field_is_set() {}\n";
        assert!(has_test(text, "resp_hashes", "field_is"));
        assert!(has_test(text, "resp_hashes", "hashes"));
        assert!(!has_test(text, "resp_hashes", "hset"));
        assert!(!has_test("fn other() {}", "resp_hashes", "hashes"));
    }

    #[test]
    fn this_package_is_found_by_the_name_of_this_test() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = with_word(&root, "this_package_is_found").unwrap();
        let own = Target {
            folder: "runner".to_owned(),
            program: None,
        };
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [own]);
    }
}
