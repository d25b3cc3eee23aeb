//! State: the directory in which a cache's memory outlives the process.
//!
//! ```text
//! cache           header | a record per shard | per shard: segment records, checksums, index, log
//! sealed          what a clean stop knew of it
//! dictionary-*    dictionaries of compressed values
//! ```
//!
//! One process at a time uses it, by a lock on the file. A file is restored only if its header is
//! valid, of this layout, this boot of the machine and the same user; further conditions are in
//! [`StateOptions`], and are checked when a cache is made.
//!
//! Why: docs/decisions/0058. Tests: tests/restart.rs.

mod header; // the file's first page
mod checkpoint; // the file that a clean stop writes
mod dictionaries; // the files of compressed values' dictionaries

pub(crate) use self::header::{FileHeader, LiveHeader};

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::header::HEADER_BYTES;
use crate::base::error::Error;
use crate::base::space::Space;

/// Dictionaries of a cache at a time.
pub(crate) const DICTIONARIES_MAX: usize = 64;
/// The file that is the memory.
const FILE: &str = "cache";
/// File systems that are memory, by the number the system has for them: tmpfs and ramfs.
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// The file system of huge pages, whose files cannot be written.
const HUGE_FILE_SYSTEM: u64 = 0x9584_58f6;
/// Blocks that the system counts a file's memory in.
const BLOCK_BYTES: u64 = 512;
/// Bits of a file's mode that let others use it.
const OTHERS: u32 = 0o077;

/// A directory for a cache's memory, locked for this process.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    file: Arc<File>,
    left: Result<FileHeader, String>,
    is_memory: bool,
    /// Whether another process has the memory mapped and may still take it over.
    is_inherited: bool,
}

/// How a cache uses a directory for its memory.
#[derive(Clone, Debug)]
pub struct StateOptions {
    /// The directory.
    pub dir: Arc<StateDir>,
    /// The origin of the cache's clock, in the caller's terms. A process that restores the memory
    /// must use a clock with the same origin, [`StateDir::clock_origin`].
    pub clock_origin: u64,
    /// Longest downtime, in milliseconds: the cache does not know what changed elsewhere meanwhile.
    pub downtime_ms_max: u64,
    /// Whether restored memory is audited, entry by entry, before it is used.
    pub verify: bool,
    /// From how many bytes of memory on the items of a killed process are checked while the cache
    /// is in use: when they are asked for, or by
    /// [`Cache::check_left`](crate::Cache::check_left). `None` checks all items before.
    pub checks_later_above: Option<u64>,
    /// The spaces besides the main one that the owner still names: items of others are not
    /// restored. `None` for all.
    pub spaces: Option<Vec<Space>>,
    /// Why the memory must not be restored, if the owner knows a reason.
    pub refused: Option<String>,
}

impl StateOptions {
    /// The usual way to use a directory: at most a minute away, all spaces.
    #[must_use]
    pub fn of(dir: StateDir) -> StateOptions {
        StateOptions {
            dir: Arc::new(dir),
            clock_origin: 0,
            downtime_ms_max: 60_000,
            verify: false,
            checks_later_above: None,
            spaces: None,
            refused: None,
        }
    }
}

/// The result of restoring the memory of the previous process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Why the cache starts empty; `None` if it was restored.
    pub empty_because: Option<String>,
    /// Whether the previous process stopped cleanly instead of being killed.
    pub was_clean_stop: bool,
    /// Restored items, and their bytes.
    pub items: u64,
    /// See `items`.
    pub bytes: u64,
    /// Items that failed the checks and were dropped.
    pub dropped: u64,
    /// Whether every item was checked; `false` if the saved state could be trusted.
    pub was_walked: bool,
    /// Bytes of memory whose items were to be checked, and of those that are still unchecked.
    pub segment_bytes: u64,
    /// See `segment_bytes`.
    pub unchecked_bytes: u64,
    /// How long no process used the memory, in milliseconds.
    pub away_ms: u64,
    /// How long restoring it took, in microseconds.
    pub took_us: u64,
}

impl Restored {
    /// Whether memory was restored.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.empty_because.is_none()
    }
}

impl StateDir {
    /// Opens or makes a directory and locks it.
    ///
    /// # Errors
    /// [`Error::State`] if it is another user's, if others may use it, or if another process does.
    pub fn open(path: &Path) -> Result<StateDir, Error> {
        StateDir::open_with(path, None)
    }

    /// Checks a directory as [`StateDir::open`] does, but neither makes nor locks it.
    ///
    /// # Errors
    /// [`Error::State`] if it is another user's, if others may use it, or if it cannot be created.
    pub fn check(path: &Path) -> Result<(), Error> {
        let metadata = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
                let parent = std::fs::metadata(parent.unwrap_or(Path::new(".")));
                return match parent {
                    Ok(_) => Ok(()),
                    Err(error) => Err(failed(path, "cannot be created", &error)),
                };
            }
            found => found.map_err(|error| failed(path, "cannot be used", &error))?,
        };
        if !metadata.is_dir() {
            return Err(refused(path, "it is not a directory"));
        }
        check_owner(path, &metadata)
    }

    /// As [`StateDir::open`], or with the lock that the previous process shares with this one:
    /// `memory` is its open file ([`Cache::state_file`](crate::Cache::state_file)), which counts if
    /// it belongs to this directory. As long as that process may continue to use the memory, this
    /// one can take it unchanged or not at all.
    ///
    /// # Errors
    /// As [`StateDir::open`].
    pub fn open_with(path: &Path, memory: Option<OwnedFd>) -> Result<StateDir, Error> {
        let made = DirBuilder::new().mode(0o700).recursive(false).create(path);
        match made {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(path, "cannot be created", &error));
            }
            _ => {}
        }
        StateDir::check(path)?;
        let dir = File::open(path).map_err(|error| failed(path, "cannot be used", &error))?;
        if file_system(&dir) == HUGE_FILE_SYSTEM {
            let why = "it is on a hugetlbfs, whose files cannot be written; use a tmpfs, which has \
                       huge pages with the mount option huge=within_size";
            return Err(refused(path, why));
        }
        let file_path = path.join(FILE);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&file_path)
            .map_err(|error| refused(&file_path, &format!("cannot be opened: {error}")))?;
        let metadata = file
            .metadata()
            .map_err(|error| failed(path, "cannot be used", &error))?;
        if !metadata.is_file() {
            return Err(refused(&file_path, "it is not a file"));
        }
        check_owner(&file_path, &metadata)?;
        // Of the same open file description, which holds the lock, whichever descriptor refers to
        // it.
        let is_same = |shared: &File| {
            let shared = shared.metadata();
            shared.is_ok_and(|one| (one.dev(), one.ino()) == (metadata.dev(), metadata.ino()))
        };
        let shared = memory.map(File::from).filter(is_same);
        let is_inherited = shared.is_some();
        let file = shared.unwrap_or(file);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = FileHeader::owner(&file);
                return Err(refused(
                    path,
                    &format!("another server uses it, process {pid}"),
                ));
            }
            Err(TryLockError::Error(error)) => {
                return Err(failed(path, "cannot be locked", &error));
            }
        }
        let left = FileHeader::read(&file);
        Ok(StateDir {
            path: path.to_owned(),
            is_memory: MEMORY_FILE_SYSTEMS.contains(&file_system(&file)),
            file: Arc::new(file),
            left,
            is_inherited,
        })
    }

    /// Whether it lies on a file system that is memory. On a disk's, all stored data is written to
    /// the disk in time.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        self.is_memory
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number that is this memory's alone; `None` if nothing is left that could be used.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        self.left.as_ref().ok().map(|header| header.id)
    }

    /// The clock origin of the cache that used the memory; `None` if it cannot be restored.
    #[must_use]
    pub fn clock_origin(&self) -> Option<u64> {
        self.left.as_ref().ok().map(|header| header.clock_origin)
    }

    /// Prevents any restore of this memory: something that belongs to it was lost.
    pub fn spoil(&self) {
        FileHeader::spoil(&self.file);
    }

    /// Stores a number beside the memory, for its owner: it survives a kill.
    pub fn set_note(&self, note: u64) {
        FileHeader::set_note(&self.file, note);
    }

    /// The number that was stored last; `None` if there is no valid one.
    #[must_use]
    pub fn note(&self) -> Option<u64> {
        FileHeader::note(&self.file)
    }

    /// Whether another process may still take over the memory.
    pub(crate) fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// An error that says why the memory cannot be restored.
    pub(crate) fn refuse(&self, why: &str) -> Error {
        refused(&self.path, &format!("cannot be taken over: {why}"))
    }

    /// The file's header, or why the memory cannot be restored.
    pub(crate) fn left(&self) -> Result<&FileHeader, &str> {
        self.left.as_ref().map_err(String::as_str)
    }

    /// Writes the state of the cache with this number at a clean stop; whether that worked.
    pub(crate) fn write_checkpoint(&self, id: u64, known: &[u8]) -> bool {
        checkpoint::write(&self.path, &self.file, id, known)
    }

    /// The state of the cache with this number, if its memory is unchanged since.
    pub(crate) fn read_checkpoint(&self, id: u64) -> Option<Vec<u8>> {
        checkpoint::read(&self.path, &self.file, id)
    }

    /// Removes that state: the memory is about to change.
    pub(crate) fn remove_checkpoint(&self) {
        checkpoint::remove(&self.path);
    }

    /// Writes a dictionary of the cache with this number; whether that worked.
    pub(crate) fn write_dictionary(&self, id: u64, number: u8, saved: &[u8]) -> bool {
        dictionaries::write(&self.path, id, number, saved)
    }

    /// A dictionary of the cache with this number.
    pub(crate) fn read_dictionary(&self, id: u64, number: u8) -> Option<Vec<u8>> {
        dictionaries::read(&self.path, id, number)
    }

    /// Removes a dictionary.
    pub(crate) fn remove_dictionary(&self, number: u8) {
        dictionaries::remove(&self.path, number);
    }

    /// The file.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Makes the file a sparse one of so many bytes that contains only a header.
    ///
    /// # Errors
    /// [`Error::State`] if its file system has less free space than the cache's memory.
    pub(crate) fn begin(&self, header: &FileHeader) -> Result<(), Error> {
        let failed =
            |source: std::io::Error| refused(&self.path, &format!("cannot be written: {source}"));
        // Checked before the old contents are truncated: they are still available for a start with
        // less memory.
        self.check_room(header.memory_bytes)?;
        dictionaries::remove_all(&self.path);
        self.file.set_len(0).map_err(failed)?;
        self.file.set_len(header.file_bytes).map_err(failed)?;
        self.file.write_all_at(&header.bytes(), 0).map_err(failed)
    }

    /// Writes a new header; the memory stays.
    ///
    /// # Errors
    /// [`Error::State`] if it cannot be written.
    pub(crate) fn amend(&self, header: &FileHeader) -> Result<(), Error> {
        let written = self.file.write_all_at(&header.first_bytes(), 0);
        written.map_err(|source| refused(&self.path, &format!("cannot be written: {source}")))
    }

    /// Whether its file system has space for so many bytes more.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        room(&self.file).is_none_or(|room| room >= bytes as u64)
    }

    /// Checks that its file system has the space that a cache of so much memory may take, including
    /// the space that it already has.
    ///
    /// # Errors
    /// [`Error::State`] if not.
    pub(crate) fn check_room(&self, memory_bytes: u64) -> Result<(), Error> {
        let has = self
            .file
            .metadata()
            .map_or(0, |file| file.blocks() * BLOCK_BYTES);
        match room(&self.file) {
            Some(room) if room + has < memory_bytes => {
                let why = format!(
                    "the file system has {} bytes of free space, but the cache needs \
                     {memory_bytes}",
                    room + has
                );
                Err(refused(&self.path, &why))
            }
            _ => Ok(()),
        }
    }
}

/// Bytes of a header.
pub(crate) const fn header_bytes() -> usize {
    HEADER_BYTES
}

fn refused(path: &Path, why: &str) -> Error {
    Error::State(format!("{}: {why}", path.display()))
}

fn failed(path: &Path, what: &str, source: &std::io::Error) -> Error {
    refused(path, &format!("{what}: {source}"))
}

/// Checks that a directory or file belongs to this user, and is accessible to no other.
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    // SAFETY: the call takes nothing and always works.
    let user = unsafe { libc::geteuid() };
    if metadata.uid() != user {
        let why = format!(
            "it belongs to user {}, but the server runs as user {user}",
            metadata.uid()
        );
        return Err(refused(path, &why));
    }
    if metadata.mode() & OTHERS != 0 {
        let mode = metadata.mode() & 0o777;
        let why = format!(
            "other users can access it (mode {mode:o}); use a directory of its own with mode 700"
        );
        return Err(refused(path, &why));
    }
    Ok(())
}

/// The kind of file system that a file lies on.
fn file_system(file: &File) -> u64 {
    statfs(file).map_or(0, |system| system.f_type as u64 & 0xffff_ffff)
}

/// Bytes that are free on it; `None` if it has no bound.
fn room(file: &File) -> Option<u64> {
    let system = statfs(file)?;
    let is_bounded = system.f_blocks > 0;
    is_bounded.then(|| system.f_bavail * system.f_bsize as u64)
}

fn statfs(file: &File) -> Option<libc::statfs> {
    let mut system = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the descriptor is open, and the place is valid for writes.
    let status = unsafe { libc::fstatfs(file.as_raw_fd(), system.as_mut_ptr()) };
    // SAFETY: all zeros are a value of it, and the call writes one.
    (status == 0).then(|| unsafe { system.assume_init() })
}
