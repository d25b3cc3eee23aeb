//! The repository as text: which files the rules look at, and what a rule reports.
//!
//! Hidden folders (but `.ci`), build outputs, git's own files and binary files are left out.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that hold outputs, at any depth.
const OUTPUT_FOLDERS: [&str; 5] = [
    "target",
    "corpus",
    "artifacts",
    "node_modules",
    "__pycache__",
];

/// Folders of packages.
const PACKAGES: [&str; 2] = ["crates/", "bench/"];

/// One text file.
#[derive(Clone, Debug)]
pub struct File {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path from the repository's root.
    pub path: String,
    /// Line, from 1; 0 means the whole file.
    pub line: usize,
    /// What is wrong, and what is asked instead.
    pub what: String,
}

impl Finding {
    /// A finding in `file` at `line`.
    #[must_use]
    pub fn new(file: &File, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: file.path.clone(),
            line,
            what: what.into(),
        }
    }
}

impl File {
    /// The crate whose sources the file is among, if it is.
    #[must_use]
    pub fn crate_name(&self) -> Option<&str> {
        let (_, name, rest) = self.package()?;
        rest.starts_with("src/").then_some(name)
    }

    /// The package that the file belongs to: its folder with a `/` at the end, its name, and the
    /// rest of the path. Packages stand in `crates/`, those of the measurements in `bench/`.
    #[must_use]
    pub fn package(&self) -> Option<(&str, &str, &str)> {
        let inner = PACKAGES
            .iter()
            .find_map(|home| self.path.strip_prefix(home))?;
        let (name, rest) = inner.split_once('/')?;
        let is_package =
            rest == "Cargo.toml" || rest.starts_with("src/") || rest.starts_with("tests/");
        let folder = &self.path[..self.path.len() - rest.len()];
        is_package.then_some((folder, name, rest))
    }

    /// Whether all of it is tests.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// All text files of the repository.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    files: Vec<File>,
}

impl Tree {
    /// Reads the repository that this crate is part of.
    ///
    /// # Panics
    /// If it cannot be read, or cargo did not start the process.
    #[must_use]
    pub fn of_this_repository() -> Tree {
        let own = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for tests");
        Tree::open(Path::new(&own).join("../..")).expect("the repository is readable")
    }

    /// The sources of a crate.
    pub fn sources_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a File> {
        let files = self.rust();
        files.filter(move |file| file.crate_name() == Some(name))
    }

    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// If a folder or file cannot be read.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Tree> {
        let root = root.into();
        let mut files = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let kind = entry.file_type()?;
                if kind.is_dir() && !is_left_out(&name) {
                    folders.push(entry.path());
                } else if kind.is_file()
                    && name != ".git"
                    && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
                {
                    files.push(File {
                        path: path_from(&root, &entry.path()),
                        text,
                    });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { root, files })
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The Markdown files.
    pub fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }

    /// The file at `path` from the root, if there is one.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or folder of any kind is at `path` from the root.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

fn is_left_out(folder: &str) -> bool {
    (folder.starts_with('.') && folder != ".ci") || OUTPUT_FOLDERS.contains(&folder)
}

fn path_from(root: &Path, path: &Path) -> String {
    let inner = path
        .strip_prefix(root)
        .expect("the walk stays below the root");
    inner.to_string_lossy().replace('\\', "/")
}
