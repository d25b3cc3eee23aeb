//! Expiration: how an item leaves the cache because its time is over.
//!
//! Exact for the reader: [`Store::find`] compares the item's own deadline with the clock, to the
//! millisecond, and removes an item that it meets too late. Bulk for the memory: reclaiming takes
//! whole segments by what their histograms tell (`deaths.rs`, `survey.rs`, `evict.rs`). One by one
//! for who wants to hear of each: the [`Sweep`] goes through the index, bucket by bucket.
//!
//! Invariant: whichever way an item is found to be over, [`Store::remove_expired`] removes it,
//! counts it, tells of it, and notes how long after its deadline that was.
//!
//! Why: docs/decisions/0004 and 0013. Tests: tests/expiry.rs, tests/observer.rs.

use crate::clock::{Deadline, Instant};
use crate::index::SlotRef;
use crate::key::Key;
use crate::observer::Happened;
use crate::stats::ReclaimLag;
use crate::store::{Located, Store};

/// How often the sweep takes a step.
const STEP_MS: u64 = 100;
/// Steps in which it goes through a shard: some ten seconds, unless there are too many buckets.
const STEPS_PER_ROUND: usize = 100;
/// Fewest and most buckets that one step looks at, so that the lock is held briefly.
const BUCKETS_MIN: usize = 64;
const BUCKETS_MAX: usize = 512;

impl Store {
    /// Finds the live item of `key`. One that is over is removed on the way and counted.
    #[inline]
    pub(crate) fn find(&mut self, key: Key<'_>, now: Instant) -> Option<Located> {
        let located = self.find_stored(key)?;
        if self.is_over(&located, now) {
            self.remove_when_met(located.slot, now);
            return None;
        }
        Some(located)
    }

    /// Whether the item's time is over, by its deadline or by a flush.
    #[inline]
    pub(crate) fn is_over(&self, located: &Located, now: Instant) -> bool {
        located.layout.deadline.has_passed(now) || self.is_flushed(located)
    }

    /// Removes an item that is over and was asked for.
    ///
    /// It is read anew from its slot: handed over, its layout would have to lie in memory for every
    /// read that finds a live item.
    #[cold]
    #[inline(never)]
    fn remove_when_met(&mut self, slot: SlotRef, now: Instant) {
        let located = self.located_at(slot);
        self.counts.misses_expired += u64::from(!self.is_flushed(&located));
        self.remove_expired(&located, now);
    }

    /// Removes an item whose time is over. One that was flushed has not expired: it only goes.
    pub(crate) fn remove_expired(&mut self, located: &Located, now: Instant) {
        if !self.is_flushed(located) {
            self.counts.expired += 1;
            self.counts.reclaim_lag.note(located.layout.deadline, now);
            self.counts.expired_unfetched += u64::from(!self.is_fetched(located));
            self.report_item(&located.layout, Happened::Expired);
        }
        self.remove(located);
    }
}

/// The search for expired items that nobody asks for and whose memory nobody needs.
///
/// It goes on only while somebody wants to hear of each item that expires: memory alone comes back
/// cheaper by whole segments.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The bucket to go on with.
    bucket: usize,
    next_at: Instant,
}

impl Sweep {
    pub(crate) fn new() -> Sweep {
        Sweep {
            bucket: 0,
            next_at: Instant(0),
        }
    }

    /// Removes what has expired in the next stretch of buckets, if it is time for it.
    pub(crate) fn step(&mut self, store: &mut Store, now: Instant) {
        if !store.report.is_wanted() || now < self.next_at {
            return;
        }
        self.next_at = Instant(now.0 + STEP_MS);
        let buckets = store.buckets();
        let looked_at = (buckets / STEPS_PER_ROUND).clamp(BUCKETS_MIN, BUCKETS_MAX);
        for _ in 0..looked_at.min(buckets) {
            // The index may have shrunk since the last step.
            let bucket = self.bucket % buckets;
            self.bucket = bucket + 1;
            for slot in store.slots_in(bucket).into_iter().flatten() {
                let located = store.located_at(slot);
                if located.layout.deadline.has_passed(now) {
                    store.remove_expired(&located, now);
                }
            }
        }
    }
}

impl ReclaimLag {
    /// Counts an item whose memory is taken back at `now`.
    fn note(&mut self, deadline: Deadline, now: Instant) {
        let passed = deadline.instant();
        let lag_ms = passed.map_or(0, |at| now.0.saturating_sub(at.0));
        self.items[ReclaimLag::bin_of(lag_ms)] += 1;
    }

    /// Adds the counts of another shard.
    pub(crate) fn add(&mut self, other: &ReclaimLag) {
        for (sum, items) in self.items.iter_mut().zip(other.items) {
            *sum += items;
        }
    }
}
