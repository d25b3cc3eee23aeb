//! Listing: the store's items seen bucket by bucket, or drawn by number.
//!
//! Why a listing misses nothing stands in `index/scan.rs`. Tests: tests/listing.rs.

use super::{Located, Store};
use crate::clock::Instant;
use crate::index::{Half, SlotRef};
use crate::item::HEADER_BYTES_MAX;

impl Store {
    /// Notes that a scan takes a step in the epoch it knows, or `None` to begin. Whether it goes on
    /// from where it was, and the present epoch.
    pub(crate) fn step_scan(&mut self, epoch: Option<u16>, now: Instant) -> (bool, u16) {
        let goes_on = self.index.step_scan(epoch, now);
        (goes_on, self.index.epoch())
    }

    /// Forgets what is kept for scans if nobody has scanned for long.
    pub(crate) fn forget_scans(&mut self, now: Instant) {
        self.index.forget_scans(now);
    }

    /// Calls `each` with the items of one half in the bucket at a reversed address; returns the
    /// next of these, `None` behind the last bucket.
    pub(crate) fn scan(
        &self,
        reversed: u64,
        half: Half,
        mut each: impl FnMut(&Located),
    ) -> Option<u64> {
        let (bucket, next) = self.index.scan(reversed)?;
        self.index
            .each_of_half(bucket, half, |slot| each(&self.located_at(slot)));
        Some(next)
    }

    /// Calls `each` with every item that moved back to its home bucket during a scan.
    pub(crate) fn each_returned(&self, mut each: impl FnMut(&Located)) {
        self.index
            .each_returned(|slot| each(&self.located_at(slot)));
    }

    /// Buckets of the index.
    pub(crate) fn buckets(&self) -> usize {
        self.index.buckets()
    }

    /// Slots that may hold an item.
    pub(crate) fn slots(&self) -> usize {
        self.index.slots()
    }

    /// Has the processor load what is needed of the item in the slot of that number.
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

    /// The item in the slot of that number, if there is one.
    pub(crate) fn drawn(&self, number: usize) -> Option<Located> {
        let slot = self.index.entry_at(number)?;
        Some(self.located_at(slot))
    }
}
