//! Dictionary files: the dictionaries of compressed values, one file each beside the cache's
//! memory.
//!
//! ```text
//! dictionary-NUMBER    magic, form | the cache's id | bytes, hash | check | a saved dictionary
//! ```
//!
//! A file is written under another name first and then renamed, so it is there whole or not at
//! all, also after a kill. One that is damaged, or of another cache, counts as absent.
//!
//! Why: docs/decisions/0087. Tests: tests/compress.rs.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::DICTIONARIES_MAX;
use super::header::check;
use crate::base::serialize::FORM;

const MAGIC: u64 = u64::from_le_bytes(*b"cellar\x1ad");
/// Words before the saved dictionary.
const WORDS: usize = 6;
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

fn path(dir: &Path, number: u8) -> PathBuf {
    dir.join(format!("dictionary-{number}"))
}

/// Writes a dictionary of the cache with this number; whether that could be done.
pub(super) fn write(dir: &Path, id: u64, number: u8, saved: &[u8]) -> bool {
    let path = path(dir, number);
    let unfinished = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&unfinished)?;
        for word in words(id, saved) {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(saved)?;
        std::fs::rename(&unfinished, &path)
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written.is_ok()
}

/// A dictionary that was written for the cache with this number.
pub(super) fn read(dir: &Path, id: u64, number: u8) -> Option<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        // Opening a pipe would block until its other end is opened.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path(dir, number))
        .ok()?;
    read_from(&file, id)
}

fn read_from(file: &File, id: u64) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut found).ok()?;
    let (head, saved) = found.split_at_checked(WORDS * 8)?;
    let is_same = |(found, word): (&[u8], u64)| found == word.to_le_bytes();
    let is_whole = head.chunks_exact(8).zip(words(id, saved)).all(is_same);
    is_whole.then(|| saved.to_vec())
}

/// Removes a dictionary, if there is one.
pub(super) fn remove(dir: &Path, number: u8) {
    let _ = std::fs::remove_file(path(dir, number));
}

/// Removes what another cache has left.
pub(super) fn remove_all(dir: &Path) {
    (0..DICTIONARIES_MAX as u8).for_each(|number| remove(dir, number));
}

/// The header before a saved dictionary.
fn words(id: u64, saved: &[u8]) -> [u64; WORDS] {
    let hash = rapidhash::v3::rapidhash_v3(saved);
    let mut words = [MAGIC, FORM, id, saved.len() as u64, hash, 0];
    words[WORDS - 1] = check(&words[..WORDS - 1]);
    words
}
