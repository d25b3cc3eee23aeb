//! Attached: the state file of a running cache, in which its memory outlives the process.
//!
//! How a cache comes to continue with such memory is in `cache/attach.rs`, how it saves its state
//! for the next process in `cache/checkpoint.rs`.
//!
//! Why: docs/decisions/0058. Tests: tests/restart.rs.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::memory::arena::Pin;
use crate::state::{LiveHeader, Restored, StateDir};
use crate::store::{Audit, CheckProgress};

/// The state file of a running cache.
#[derive(Debug)]
pub(super) struct AttachedState {
    dir: Arc<StateDir>,
    live_header: LiveHeader,
    id: u64,
    restored: Restored,
    /// Progress of the check of a killed process's items.
    progress: Arc<CheckProgress>,
    /// Segments in which the process before still reads.
    read_before: Mutex<Vec<Pin>>,
    /// Stores that were refused because the file system was full.
    // Relaxed: a figure to look at.
    refused: AtomicU64,
}

impl AttachedState {
    /// The state file of the memory with the number `id`, with what was restored of it, and where
    /// the process before still reads.
    pub(super) fn new(
        (dir, id): (Arc<StateDir>, u64),
        live_header: LiveHeader,
        restored: Restored,
        progress: Arc<CheckProgress>,
        read_before: Vec<Pin>,
    ) -> AttachedState {
        AttachedState {
            dir,
            live_header,
            id,
            restored,
            progress,
            read_before: Mutex::new(read_before),
            refused: AtomicU64::new(0),
        }
    }

    /// Where the memory outlives the process.
    pub(super) fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// A number that is the memory's alone.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// What a later process reads of this one while it lives.
    pub(super) fn live_header(&self) -> &LiveHeader {
        &self.live_header
    }

    /// The open file.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.dir.file().as_fd()
    }

    /// How far the items of a killed process are checked.
    pub(super) fn progress(&self) -> &CheckProgress {
        &self.progress
    }

    /// What was restored; while items are being checked, those checked so far.
    pub(super) fn restored(&self) -> Restored {
        let (bytes, bytes_left) = self.progress.bytes();
        let found = self.progress.found();
        let known = &self.restored;
        Restored {
            items: known.items + found.items,
            bytes: known.bytes + found.bytes,
            dropped: known.dropped + found.dropped,
            segment_bytes: bytes,
            unchecked_bytes: bytes_left,
            ..known.clone()
        }
    }

    /// Notes why the cache begins empty, if it does, and how long it took to make it.
    pub(super) fn note_restored(&mut self, empty_because: Option<String>, took_us: u64) {
        self.restored.empty_because = empty_because;
        self.restored.took_us = took_us;
    }

    /// Records the exact count, which the saved state has only to a quarter of a second.
    pub(super) fn note_counted(&mut self, audit: &Audit) {
        (self.restored.items, self.restored.bytes) = (0, 0);
        self.progress.set_found(audit.live_items, audit.live_bytes);
    }

    /// Stores that were refused because the file system was full.
    pub(super) fn refused(&self) -> u64 {
        // Relaxed: see the field.
        self.refused.load(Ordering::Relaxed)
    }

    /// Why no memory is left for so many bytes, if live items are not the reason.
    pub(super) fn busy(&self, bytes: usize) -> Error {
        if self.dir.has_room(bytes) {
            return Error::Busy;
        }
        // Relaxed: see the field.
        self.refused.fetch_add(1, Ordering::Relaxed);
        Error::StateFull
    }

    /// Records that the process is alive, from which a later one computes the downtime.
    pub(super) fn beat(&self, now: Instant) {
        self.live_header.beat(now);
    }

    /// Segments in which the process before still reads.
    pub(super) fn read_before(&self) -> MutexGuard<'_, Vec<Pin>> {
        self.read_before
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
