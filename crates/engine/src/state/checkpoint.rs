//! Checkpoint file: the serialized state of a clean stop, in a file beside the cache's memory.
//!
//! ```text
//! sealed    magic, form | id | the memory's file: inode, times, length | check | state
//! ```
//!
//! With it the next process continues without reading any item. So it is used only if it is
//! complete, written by the same form of the program, and if the memory's file has not been touched
//! since. To detect that, the stop sets a modification time that no clock shows; every write,
//! truncation, hole or copy through the kernel replaces it. Writes through a mapping do not, but
//! only programs of the same user can have one. Otherwise the next process looks at every item.
//!
//! Why: docs/decisions/0058. Tests: tests/clean_stop.rs.

use std::fs::{File, FileTimes, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::header::check;
use crate::base::serialize::FORM;
use crate::key::random_seed;

/// The file.
const FILE: &str = "sealed";
const MAGIC: u64 = u64::from_le_bytes(*b"cellar\x1as");
/// Words before the saved state.
const WORDS: usize = 12;
/// The first of them, which identify the memory.
const WORDS_OF_MEMORY: usize = 9;
/// The memory's file is said to have changed in the first seconds that clocks count.
const SECONDS: u64 = 1 << 20;
const NANOSECONDS: u64 = 1_000_000_000;

/// The file's path in a directory.
fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Writes the state of the cache with this number, whose memory is `file` and no longer changes;
/// returns whether that worked.
pub(super) fn write(dir: &Path, file: &File, id: u64, known: &[u8]) -> bool {
    let write = || -> std::io::Result<()> {
        let draw = random_seed();
        let at = Duration::new(1 + draw % SECONDS, (draw >> 32) as u32 % NANOSECONDS as u32);
        file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + at))?;
        let words = words(file, id, known)?;
        let mut saved = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path(dir))?;
        for word in words {
            saved.write_all(&word.to_le_bytes())?;
        }
        saved.write_all(known)
    };
    remove(dir);
    let written = write();
    if written.is_err() {
        remove(dir);
    }
    written.is_ok()
}

/// Reads the saved state of the cache with this number, if it matches the memory in `file`.
pub(super) fn read(dir: &Path, file: &File, id: u64) -> Option<Vec<u8>> {
    let mut saved = OpenOptions::new()
        .read(true)
        // Opening a pipe would block until its other end is opened.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path(dir))
        .ok()?;
    let metadata = saved.metadata().ok()?;
    // SAFETY: the call takes nothing and always works.
    let user = unsafe { libc::geteuid() };
    if !metadata.is_file() || metadata.uid() != user {
        return None;
    }
    let mut head = [0; WORDS * 8];
    saved.read_exact(&mut head).ok()?;
    let is_same = |(found, word): (&[u8], u64)| found == word.to_le_bytes();
    let are_same = |words: &[u64]| head.chunks_exact(8).zip(words.iter().copied()).all(is_same);
    // A file that does not belong to this memory is not read: its length is unbounded, and reading
    // it would need as much memory.
    let length = metadata.len() - head.len() as u64;
    if !are_same(&words(file, id, &[]).ok()?[..WORDS_OF_MEMORY])
        || length > file.metadata().ok()?.len()
    {
        return None;
    }
    let mut known = Vec::with_capacity(usize::try_from(length).ok()?);
    saved.take(length).read_to_end(&mut known).ok()?;
    are_same(&words(file, id, &known).ok()?).then_some(known)
}

/// Removes the saved state.
pub(super) fn remove(dir: &Path) {
    let _ = std::fs::remove_file(path(dir));
}

/// The header before the saved state.
fn words(file: &File, id: u64, known: &[u8]) -> std::io::Result<[u64; WORDS]> {
    let memory = file.metadata()?;
    let mut words = [
        MAGIC,
        FORM,
        id,
        memory.ino(),
        memory.len(),
        memory.mtime() as u64,
        memory.mtime_nsec() as u64,
        memory.ctime() as u64,
        memory.ctime_nsec() as u64,
        known.len() as u64,
        rapidhash::v3::rapidhash_v3(known),
        0,
    ];
    words[WORDS - 1] = check(&words[..WORDS - 1]);
    Ok(words)
}
