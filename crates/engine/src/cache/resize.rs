//! Resize: how much of its memory a cache uses while it runs, from a quarter up to all.
//!
//! Memory that the cache must not use moves from the budget that all shards share to a [`Balloon`].
//! Maintenance inflates it, a segment at a time: in each step the shards above their part empty one
//! segment, as for the next insert. To grow, the balloon is deflated at once, and the shards take
//! the memory as they need it.
//!
//! Invariant: the bytes of the balloon and of the shards together never exceed the memory.
//! Tests: tests/resize.rs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Cache;
use crate::error::Error;

/// The least part of its memory that a cache uses, as a divisor.
const LEAST_PART: usize = 4;

/// The part of the memory that is not to be used.
#[derive(Debug, Default)]
pub(super) struct Balloon {
    // Relaxed: background maintenance sees a change a moment later.
    wanted: AtomicUsize,
    taken: Mutex<usize>,
}

impl Balloon {
    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// The memory that it uses, or is about to.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        // Relaxed: see `Balloon`.
        self.config.memory_bytes - self.balloon.wanted.load(Ordering::Relaxed)
    }

    /// Bytes that were taken out of the budget.
    pub(super) fn unused_bytes(&self) -> usize {
        *self.balloon.taken()
    }

    /// The least memory that [`Cache::set_memory_bytes`] takes of a cache that was made with so
    /// much; the most is all, for which addresses are reserved.
    #[must_use]
    pub fn least_memory_bytes(reserved: usize) -> usize {
        reserved.div_ceil(LEAST_PART)
    }

    /// Changes how much memory it uses; with less, the next steps of background maintenance evict
    /// items.
    ///
    /// # Errors
    /// [`Error::MemoryTooSmall`] below a quarter of its original memory plus all no-eviction
    /// shares, [`Error::TooLarge`] above its original memory.
    pub fn set_memory_bytes(&self, bytes: usize) -> Result<(), Error> {
        let max = self.config.memory_bytes;
        let min = self.kept_bytes() + Cache::least_memory_bytes(self.sharing_bytes());
        if bytes < min {
            return Err(Error::MemoryTooSmall { bytes, min });
        }
        if bytes > max {
            return Err(Error::TooLarge { bytes, max });
        }
        // Relaxed: see `Balloon`.
        self.balloon.wanted.store(max - bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Comes nearer to the memory that is wanted, by one segment; whether more is to be done.
    pub(super) fn resize_step(&self) -> bool {
        let wanted = self.balloon.wanted.load(Ordering::Relaxed);
        let mut taken = self.balloon.taken();
        if *taken >= wanted {
            self.budget.give(*taken - wanted);
            *taken = wanted;
            return false;
        }
        let piece = (wanted - *taken).min(self.segment_bytes);
        if self.budget.left() < piece {
            self.collect_memory(None, piece);
        }
        // Requests may have taken some of it meanwhile: the rest comes with the next step.
        let piece = piece.min(self.budget.left());
        if piece > 0 && self.budget.take(piece) {
            *taken += piece;
        }
        *taken < wanted
    }
}
