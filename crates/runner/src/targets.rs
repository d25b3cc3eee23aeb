//! Targets: which test programs there are, and which of them has a test that a word names.
//!
//! `make test T=word` compiles only the programs whose sources have a test with that word in its
//! name or in its file's name. If there is none, as for the name of most commands, it takes the
//! tests that have the word in their text, in either case: `T=hset` those that send `HSET`. The
//! sources are searched as text, so a test that a macro makes is found by its file's name alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A workspace of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workspace {
    /// What users run, and what checks it.
    Product,
    /// The load generator and the measurements; only the deep tier compiles it.
    Bench,
}

impl Workspace {
    /// All of them.
    pub const ALL: [Workspace; 2] = [Workspace::Product, Workspace::Bench];

    /// The manifest, from the root of the repository.
    #[must_use]
    pub fn manifest(self) -> &'static str {
        match self {
            Workspace::Product => "Cargo.toml",
            Workspace::Bench => "bench/Cargo.toml",
        }
    }

    /// The folder of its packages, from the root of the repository.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Workspace::Product => "crates",
            Workspace::Bench => "bench",
        }
    }
}

/// What Cargo compiles to one test program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The workspace of its package.
    pub workspace: Workspace,
    /// The package's folder, by its last name.
    pub folder: String,
    /// The name of the test program; none for the library's own tests.
    pub program: Option<String>,
}

impl Target {
    /// The name of its test program: `server/server`, or `server/lib` for the library's own tests.
    #[must_use]
    pub fn name(&self) -> String {
        format!(
            "{}/{}",
            self.folder,
            self.program.as_deref().unwrap_or("lib")
        )
    }
}

/// Where a word is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the names of tests and of their files.
    Name,
    /// In the text of tests, in either case.
    Text,
}

/// What a word names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The targets to compile.
    pub targets: BTreeSet<Target>,
    /// The functions to run; none if the names of tests have the word.
    pub functions: BTreeSet<String>,
}

impl Found {
    /// Whether a test is named, by its full name.
    #[must_use]
    pub fn has(&self, test: &str, word: &str) -> bool {
        let function = test.rsplit("::").next().unwrap_or(test);
        match self.functions.is_empty() {
            true => test.contains(word),
            false => self.functions.contains(function),
        }
    }
}

/// What `word` names in the workspace at `root`: tests by their names, or if there are none by
/// their text.
///
/// # Errors
/// The system's, when a source cannot be read.
pub fn with_word(root: &Path, word: &str) -> std::io::Result<Found> {
    let mut found = look(root, word, Place::Name)?;
    found.functions.clear();
    if found.targets.is_empty() {
        found = look(root, word, Place::Text)?;
    }
    Ok(found)
}

fn look(root: &Path, word: &str, place: Place) -> std::io::Result<Found> {
    let mut found = Found::default();
    let mut folders = Vec::new();
    for workspace in Workspace::ALL {
        let all = subfolders(&root.join(workspace.folder()))?;
        folders.extend(all.into_iter().map(|folder| (workspace, folder)));
    }
    for (workspace, folder) in folders {
        let name = name_of(&folder);
        let mut sources = Vec::new();
        walk(&folder.join("src"), &mut sources)?;
        let functions = named(&sources, word, place)?;
        if !functions.is_empty() {
            found.functions.extend(functions);
            found.targets.insert(Target {
                workspace,
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
            let functions = named(&sources, word, place)?;
            let is_named = place == Place::Name && program.name.contains(word);
            if is_named || !functions.is_empty() {
                found.functions.extend(functions);
                found.targets.insert(Target {
                    workspace,
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

/// The test functions of sources that a word names.
fn named(sources: &[PathBuf], word: &str, place: Place) -> std::io::Result<Vec<String>> {
    let mut all = Vec::new();
    for source in sources {
        let text = fs::read_to_string(source)?;
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let of_file = functions(&text)
            .into_iter()
            .filter(|(name, body)| match place {
                Place::Name => name.contains(word) || stem.contains(word),
                Place::Text => body.to_lowercase().contains(&word.to_lowercase()),
            });
        all.extend(of_file.map(|(name, _)| name.to_owned()));
    }
    Ok(all)
}

/// The test functions of a source: name, and text up to the next test.
fn functions(text: &str) -> Vec<(&str, &str)> {
    let marks = ["#[test]", "#[tokio::test"];
    let begins = |line: &str| marks.iter().any(|mark| line.trim_start().starts_with(mark));
    let mut starts = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if begins(line) {
            starts.push(offset);
        }
        offset += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let bodies = starts
        .iter()
        .zip(ends)
        .map(|(start, end)| &text[*start..end]);
    bodies
        .filter_map(|body| {
            let (_, rest) = body.split_once("fn ")?;
            Some((rest.split('(').next()?.trim(), body))
        })
        .collect()
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
    fn the_tests_of_a_source_have_names_and_text() {
        let text = "fn helper() {}\n#[test]\nfn a_field_is_set() {\n    run(\"HSET h f v\");\n}\n\
                    #[tokio::test]\nasync fn other() {}\n";
        let names: Vec<&str> = functions(text).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["a_field_is_set", "other"]);
        assert!(functions(text)[0].1.contains("HSET"));
        assert!(!functions(text)[1].1.contains("HSET"));
    }

    #[test]
    fn a_command_without_a_test_of_its_name_is_found_in_the_text_of_tests() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = with_word(&root, "hincrbyfloat").unwrap();
        let server = Target {
            workspace: Workspace::Product,
            folder: "server".to_owned(),
            program: Some("server".to_owned()),
        };
        assert!(found.targets.contains(&server) && !found.functions.is_empty());
        let function = found.functions.first().unwrap();
        assert!(found.has(&format!("server/server::any::{function}"), "hincrbyfloat"));
    }

    #[test]
    fn this_package_is_found_by_the_name_of_this_test() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = with_word(&root, "this_package_is_found").unwrap();
        let own = Target {
            workspace: Workspace::Product,
            folder: "runner".to_owned(),
            program: None,
        };
        assert_eq!(found.targets.into_iter().collect::<Vec<_>>(), [own]);
    }
}
