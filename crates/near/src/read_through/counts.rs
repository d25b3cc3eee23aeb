//! Counters of a near cache.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the cache was built, and its present contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Reads answered from memory, including those of keys without a value.
    pub hits: u64,
    /// Reads that had to ask or to wait for an answer.
    pub misses: u64,
    /// Questions to the origin, one for each key.
    pub loads: u64,
    /// Misses that waited for another caller's request.
    pub shared: u64,
    /// Questions that failed.
    pub errors: u64,
    /// Values that loaders made while the origin was away.
    pub without_origin: u64,
    /// Entries served out of date because the origin failed.
    pub stale_served: u64,
    /// Entries found but not served: too old, out of touch, or declared changed.
    pub stale_avoided: u64,
    /// Answers that were not kept because a change overtook them.
    pub overtaken: u64,
    /// Answers that were not kept because they are heavier than a shard's part of the bound.
    pub too_heavy: u64,
    /// Entries that the origin confirmed without sending the value.
    pub confirmed: u64,
    /// Questions asked ahead of the end of an entry's life.
    pub refreshes: u64,
    /// Those of them that failed; the next one is asked after a pause.
    pub refreshes_failed: u64,
    /// Keys that the origin has invalidated.
    pub invalidations: u64,
    /// Times that everything read over a connection became void.
    pub flushes: u64,
    /// Entries held.
    pub entries: u64,
    /// Their weight.
    pub weight: u64,
}

/// One number that only grows.
#[derive(Debug, Default)]
// Relaxed: a count orders nothing.
pub(crate) struct Count(AtomicU64);

impl Count {
    /// One more.
    pub(crate) fn up(&self) {
        // Relaxed: a count orders nothing.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of a cache; hits are not among them, the local store counts those.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) misses: Count,
    pub(crate) loads: Count,
    pub(crate) shared: Count,
    pub(crate) errors: Count,
    pub(crate) without_origin: Count,
    pub(crate) stale_served: Count,
    pub(crate) stale_avoided: Count,
    /// Entries that the local store has found, but for no reader.
    pub(crate) looked_up: Count,
    pub(crate) overtaken: Count,
    pub(crate) too_heavy: Count,
    pub(crate) confirmed: Count,
    pub(crate) refreshes: Count,
    pub(crate) refreshes_failed: Count,
    pub(crate) invalidations: Count,
    pub(crate) flushes: Count,
}

impl Counts {
    /// The public form; `found` is how often the local store found something.
    pub(crate) fn stats(&self, found: u64, entries: u64, weight: u64) -> Stats {
        let unserved = self.stale_avoided.get() + self.looked_up.get();
        Stats {
            hits: found.saturating_sub(unserved),
            misses: self.misses.get(),
            loads: self.loads.get(),
            shared: self.shared.get(),
            errors: self.errors.get(),
            without_origin: self.without_origin.get(),
            stale_served: self.stale_served.get(),
            stale_avoided: self.stale_avoided.get(),
            overtaken: self.overtaken.get(),
            too_heavy: self.too_heavy.get(),
            confirmed: self.confirmed.get(),
            refreshes: self.refreshes.get(),
            refreshes_failed: self.refreshes_failed.get(),
            invalidations: self.invalidations.get(),
            flushes: self.flushes.get(),
            entries,
            weight,
        }
    }
}
