//! For tests of several crates: the files by which Linux tells its limits, in a temporary folder.

use std::fs;

use tempfile::TempDir;

/// A folder with these files, to be read in place of `/`.
pub(crate) fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}
