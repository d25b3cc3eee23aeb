//! Tables: what a process knew of its memory when it came to its end, in files beside it.
//!
//! ```text
//! sealed    magic, form | id | the memory's file: inode, times, length | check | what was known
//! sums      the same head, then checksums of the memory (`sums.rs`)
//! ```
//!
//! With the first the next process goes on at once, without a look at any item. So it is believed
//! only if it is whole, of this program's form, and if nobody has touched the memory's file since:
//! that is given a moment of change that no clock shows, which every write, cut, hole or copy by
//! the system takes away. What a mapping writes is not seen by that; only this user's programs can
//! have one. Whoever does not believe it looks at every item. The second is believed whatever was
//! done to the memory's file: to find that is what it is for.
//!
//! Why: docs/decisions/0058. Tests: tests/sealed.rs.

use std::fs::{File, FileTimes, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::header::check;
use crate::key::random_seed;
use crate::stow::FORM;

/// Which of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// What was known, which holds for a memory that nobody has touched.
    Known,
    /// Checksums of the memory.
    Sums,
}

impl Which {
    /// Both.
    const ALL: [Which; 2] = [Which::Known, Which::Sums];

    /// The file's place in a directory.
    fn place(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Which::Known => "sealed",
            Which::Sums => "sums",
        })
    }

    /// Words of the head, the first, that must be those of the memory as it is now.
    fn words_of_memory(self) -> usize {
        match self {
            Which::Known => 9,
            Which::Sums => 3,
        }
    }
}

const MAGIC: u64 = u64::from_le_bytes(*b"cellar\x1as");
/// Words before what was known.
const WORDS: usize = 12;
/// Where the length of what was known stands in them, behind what is said of the memory's file.
const LENGTH_AT: usize = 9;
/// The memory's file is said to have changed in the first seconds that clocks count.
const SECONDS: u64 = 1 << 20;
const NANOSECONDS: u64 = 1_000_000_000;

/// Writes down what is known of a cache with this number, whose memory `file` is and which nobody
/// changes any more; whether that could be done.
pub(super) fn write(dir: &Path, which: Which, file: &File, id: u64, known: &[u8]) -> bool {
    let write = || -> std::io::Result<()> {
        if which == Which::Known {
            let draw = random_seed();
            let at = Duration::new(1 + draw % SECONDS, (draw >> 32) as u32 % NANOSECONDS as u32);
            file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + at))?;
        }
        let words = words(file, id, known)?;
        let mut tables = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(which.place(dir))?;
        for word in words {
            tables.write_all(&word.to_le_bytes())?;
        }
        tables.write_all(known)
    };
    let remove = || std::fs::remove_file(which.place(dir));
    let _ = remove();
    let written = write();
    if written.is_err() {
        let _ = remove();
    }
    written.is_ok()
}

/// What was known of the cache with this number, if it can be believed of its memory in `file`.
pub(super) fn read(dir: &Path, which: Which, file: &File, id: u64) -> Option<Vec<u8>> {
    let mut tables = OpenOptions::new()
        .read(true)
        // Whoever opens a pipe would wait for its other end.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(which.place(dir))
        .ok()?;
    let metadata = tables.metadata().ok()?;
    // SAFETY: the call takes nothing and always works.
    let user = unsafe { libc::geteuid() };
    if !metadata.is_file() || metadata.uid() != user {
        return None;
    }
    let mut head = [0; WORDS * 8];
    tables.read_exact(&mut head).ok()?;
    let mut found = [0; WORDS];
    for (word, bytes) in found.iter_mut().zip(head.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    // What is no file of this memory is not read, however long: that would need as much memory.
    let length = metadata.len() - head.len() as u64;
    let of_memory = which.words_of_memory();
    if found[..of_memory] != words(file, id, &[]).ok()?[..of_memory]
        || length > file.metadata().ok()?.len()
    {
        return None;
    }
    let mut known = Vec::with_capacity(usize::try_from(length).ok()?);
    tables.take(length).read_to_end(&mut known).ok()?;
    let is_whole = found[LENGTH_AT..WORDS - 1] == of_known(&known)
        && found[WORDS - 1] == check(&found[..WORDS - 1]);
    is_whole.then_some(known)
}

/// Forgets what was known.
pub(super) fn remove(dir: &Path) {
    for which in Which::ALL {
        let _ = std::fs::remove_file(which.place(dir));
    }
}

/// What the head says of what was known.
fn of_known(known: &[u8]) -> [u64; 2] {
    [known.len() as u64, rapidhash::v3::rapidhash_v3(known)]
}

/// What stands before it.
fn words(file: &File, id: u64, known: &[u8]) -> std::io::Result<[u64; WORDS]> {
    let memory = file.metadata()?;
    let [length, hash] = of_known(known);
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
        length,
        hash,
        0,
    ];
    words[WORDS - 1] = check(&words[..WORDS - 1]);
    Ok(words)
}
