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

use crate::memory::Budget;

/// The part of the memory that is not to be used.
#[derive(Debug, Default)]
pub(super) struct Balloon {
    // Relaxed: background maintenance sees a change a moment later.
    wanted: AtomicUsize,
    taken: Mutex<usize>,
}

impl Balloon {
    /// Bytes that it is to take out of the budget.
    #[inline]
    pub(super) fn wanted(&self) -> usize {
        // Relaxed: see the field.
        self.wanted.load(Ordering::Relaxed)
    }

    /// Has it take so many bytes out of the budget, step by step.
    pub(super) fn want(&self, bytes: usize) {
        // Relaxed: see the field.
        self.wanted.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that it has taken out of the budget.
    pub(super) fn bytes(&self) -> usize {
        *self.taken()
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes nearer to what is wanted, by one segment; whether more is to be done. `collect` makes
    /// shards release memory until so many bytes are left in the budget.
    pub(super) fn step(
        &self,
        budget: &Budget,
        segment_bytes: usize,
        collect: impl FnOnce(usize),
    ) -> bool {
        let wanted = self.wanted();
        let mut taken = self.taken();
        if *taken >= wanted {
            budget.give(*taken - wanted);
            *taken = wanted;
            return false;
        }
        let piece = (wanted - *taken).min(segment_bytes);
        if budget.left() < piece {
            collect(piece);
        }
        // Requests may have taken some of it meanwhile: the rest comes with the next step.
        let piece = piece.min(budget.left());
        if piece > 0 && budget.take(piece) {
            *taken += piece;
        }
        *taken < wanted
    }
}
