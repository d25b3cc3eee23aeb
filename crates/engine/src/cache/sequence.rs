//! Sequence: the sequence number of a seqlock, by which a reader without a shard's lock detects a
//! concurrent writer.
//!
//! The number is odd while a writer holds the lock. A reader notes an even number, reads memory
//! that may change meanwhile, and compares the number again: if it is the same, the data read is
//! what the shard held at one moment.
//!
//! Data read between the two must come from [`atomic_memcpy`](crate::memory::atomic_memcpy) or from
//! atomics. It must not be trusted before the comparison: an offset may point anywhere, a length
//! may have any value.
//!
//! Why: docs/decisions/0054. Tests: tests/loom.rs, by `make loom`; tests/optimistic.rs.

#[cfg(cellar_loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(cellar_loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The count; see the module.
#[derive(Debug)]
pub(crate) struct Sequence(AtomicU64);

/// A count that a reader noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(u64);

impl Seen {
    /// The count behind one more change that has ended.
    #[inline]
    pub(crate) fn next(self) -> Seen {
        Seen(self.0 + 2)
    }
}

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence::new()
    }
}

impl Sequence {
    /// Makes an even number: no writer is active.
    pub(crate) fn new() -> Sequence {
        Sequence(AtomicU64::new(0))
    }

    /// Begins a change. Only one thread at a time, which the shard's lock sees to.
    #[inline]
    pub(crate) fn begin(&self) {
        // Relaxed: only the holder of the lock writes the count.
        let count = self.0.load(Ordering::Relaxed) | 1;
        self.0.store(count, Ordering::Relaxed);
        // Release, before all changes: a reader that sees one of them finds the count odd, or
        // later, with the fence in `is_still`.
        fence(Ordering::Release);
    }

    /// Ends a change; the shard stays closed to readers without the lock if it is not `open`.
    #[inline]
    pub(crate) fn end(&self, open: bool) {
        // Relaxed: as in `begin`.
        let count = self.0.load(Ordering::Relaxed);
        // Release: a reader that finds the count even sees all changes.
        self.0.store(count + u64::from(open), Ordering::Release);
    }

    /// Whether it is between [`Sequence::begin`] and an end that opens it, as the holder of the
    /// lock sees it.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: only the holder of the lock writes the count.
        self.0.load(Ordering::Relaxed) & 1 == 1
    }

    /// Whether the change that the holder of the lock has begun is the first one since.
    #[inline]
    pub(crate) fn is_first_since(&self, seen: Seen) -> bool {
        // Relaxed: only the holder of the lock writes the count.
        self.0.load(Ordering::Relaxed) == seen.0 | 1
    }

    /// The count, unless a writer is active.
    #[inline]
    pub(crate) fn seen(&self) -> Option<Seen> {
        // Acquire: pairs with the release in `end`.
        let count = self.0.load(Ordering::Acquire);
        (count & 1 == 0).then_some(Seen(count))
    }

    /// Whether no writer has begun a change since.
    #[inline]
    pub(crate) fn is_still(&self, seen: Seen) -> bool {
        // Acquire, after all reads: pairs with the fence in `begin`.
        fence(Ordering::Acquire);
        // Relaxed: the fence before it orders it.
        self.0.load(Ordering::Relaxed) == seen.0
    }
}
