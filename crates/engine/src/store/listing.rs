//! Listing: visits the store's items bucket by bucket, or draws one by number.
//!
//! `index/scan.rs` explains why a listing misses nothing. Tests: tests/listing.rs.

use super::{Located, Store};
use crate::base::clock::Instant;
use crate::index::{Phase, Scan, SlotRef};
use crate::log::item::HEADER_BYTES_MAX;

/// How many buckets ahead of a scan the processor loads them, and the items of those that are
/// closer.
const BUCKETS_AHEAD: usize = 8;
const ITEMS_AHEAD: usize = 4;

/// Up to where, by reversed addresses, a scan's buckets and items are being loaded.
pub(crate) struct LoadedAhead {
    phase: Phase,
    buckets: Option<u64>,
    items: Option<u64>,
}

impl LoadedAhead {
    /// Prefetches the entries that a scan visits first.
    pub(crate) fn of(store: &Store, scan: &Scan) -> LoadedAhead {
        let begins = (scan.phase != Phase::Moved).then_some(scan.at);
        let mut ahead = LoadedAhead {
            phase: scan.phase,
            buckets: begins,
            items: begins,
        };
        for _ in 0..BUCKETS_AHEAD {
            ahead.load_bucket(store);
        }
        for _ in 0..ITEMS_AHEAD {
            ahead.load_items(store);
        }
        ahead
    }

    /// The same of one bucket more, for each that the scan has visited.
    pub(crate) fn load_on(&mut self, store: &Store) {
        self.load_bucket(store);
        self.load_items(store);
    }

    fn load_bucket(&mut self, store: &Store) {
        self.buckets = self.buckets.and_then(|at| store.index.hint_stretch(at));
    }

    fn load_items(&mut self, store: &Store) {
        let load = |slot| {
            let offset = store.index.offset(slot);
            store.log.arena().prefetch(offset, HEADER_BYTES_MAX);
        };
        let next = |at| store.index.each_ahead(self.phase, at, load);
        self.items = self.items.and_then(next);
    }
}

impl Store {
    /// The scan of that number, if it has come that far, or one that begins; to be put back.
    pub(crate) fn take_scan(&mut self, known: Option<(u16, bool, u64)>) -> Scan {
        self.index.take_scan(known)
    }

    /// Keeps a scan until its next step.
    pub(crate) fn put_scan(&mut self, scan: Scan, now: Instant) {
        self.index.put_scan(scan, now);
    }

    /// Drops scans that took no step for long.
    pub(crate) fn forget_scans(&mut self, now: Instant) {
        self.index.forget_scans(now);
    }

    /// Takes a scan on by a bucket, or by a moved item; calls `each` with the items that it shows.
    /// Whether there is more.
    pub(crate) fn scan(&self, scan: &mut Scan, mut each: impl FnMut(&Located)) -> bool {
        self.index.scan(scan, |slot| each(&self.located_at(slot)))
    }

    /// Calls `each` with all items, as their entries lie in memory. Cost: a look at every bucket.
    pub(crate) fn each_item(&self, mut each: impl FnMut(&Located)) {
        for bucket in 0..self.index.buckets() {
            self.index
                .each_in_bucket(bucket, |slot| each(&self.located_at(slot)));
        }
    }

    /// Prefetches the item in the slot of that number.
    pub(crate) fn prefetch_drawn(&self, number: usize) {
        if let Some(slot) = self.index.entry_at(number) {
            let offset = self.index.offset(slot);
            self.log.arena().prefetch(offset, HEADER_BYTES_MAX);
        }
    }

    /// The item with this entry, unless that has gone since.
    pub(crate) fn still_at(&self, slot: SlotRef) -> Option<Located> {
        self.index.is_used(slot).then(|| self.located_at(slot))
    }

    /// The item in the slot of that number, if there is one that is checked.
    pub(crate) fn drawn(&self, number: usize) -> Option<Located> {
        let slot = self.index.entry_at(number)?;
        (!self.is_unchecked_at(slot)).then(|| self.located_at(slot))
    }
}
