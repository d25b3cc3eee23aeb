//! Bulk unlink: removes the items of a mass expiration, or of a flush, from index and log together.
//!
//! If many items have expired at once, one pass over the index removes the entries of all segments
//! that have expired wholly (`index/bulk_unlink.rs`). Then their items are removed from the log and
//! the counters, segment by segment. If all items of a segment count alike, none of them is read;
//! otherwise they are read in the order of the log. No key is looked up. The counters include an
//! item until it is removed from the log.
//!
//! No notification is sent for these items. An observer of expirations must be notified of each
//! before its key can be stored again, so no bulk unlink begins while an observer is set, and one
//! under way ends: entries still in the index are removed one by one.
//!
//! Why: docs/decisions/0067. Tests: tests/mass_expiration.rs.

use super::Store;
use crate::base::clock::Instant;
use crate::log::item::{Entry, Layout};
use crate::log::segment::Flushed;

/// A bulk unlink pays when this part of all entries is removed, as a divisor, and this part of the
/// slots of a table that is nearly empty: one lookup takes as long as a sweep over some fifty.
const SHARE: usize = 16;
const SLOTS_SHARE: usize = 50;
/// Fewer items are removed one by one.
const ITEMS_MIN: usize = 1_024;
/// Pause between two looks for a bulk unlink.
const LOOK_MS: u64 = 50;
/// Bytes of the log that are loaded ahead of the item that is looked at; of long values only their
/// beginning is.
const AHEAD_BYTES: usize = 1 << 10;
const FRONT_BYTES: usize = 256;

impl Store {
    /// Begins to remove the items of all segments without live items from the index, if they are so
    /// many that this is cheaper than one by one; returns whether it did.
    pub(crate) fn begin_bulk_unlink(&mut self, now: Instant) -> bool {
        let may_begin = now >= self.no_bulk_unlink_until && !self.index.has_bulk_unlink();
        if !may_begin || self.report.hears_of_expiry() {
            return false;
        }
        self.no_bulk_unlink_until = Instant(now.0 + LOOK_MS);
        let enough = (self.index.items() / SHARE)
            .max(self.index.slots() / SLOTS_SHARE)
            .max(ITEMS_MIN);
        let over = self.tally.over(now) as usize + self.tally.flushed();
        if over < enough {
            return false;
        }
        let dead = self.log.dead_segments(now);
        let dead: Vec<_> = dead.filter(|one| !self.log.is_extent(one.0)).collect();
        let items: usize = dead.iter().map(|one| one.1.items as usize).sum();
        if items < enough {
            return false;
        }
        let segments = dead.iter().map(|one| one.0).collect();
        let shift = self.log.arena().segment_shift();
        self.index.begin_bulk_unlink(segments, shift);
        true
    }

    /// Removes entries of the bulk unlink in the next `buckets` buckets; `false` if there are none.
    pub(crate) fn step_bulk_unlink(&mut self, buckets: usize) -> bool {
        if self.index.is_unlinking() && self.report.hears_of_expiry() {
            self.index.break_bulk_unlink();
        }
        let is_unlinking = self.index.is_unlinking();
        if is_unlinking {
            self.index.step_bulk_unlink(buckets);
        }
        is_unlinking
    }

    /// A segment whose items have left the index, each of them once.
    pub(crate) fn next_unlinked(&mut self) -> Option<u32> {
        self.index.next_unlinked()
    }

    /// Takes all items of an unlinked segment out of the counts without a look at one of them;
    /// `false` if they may count differently.
    pub(crate) fn remove_all_unlinked(&mut self, number: u32, now: Instant) -> bool {
        let segment = self.log.segment(number);
        let items = u64::from(segment.items);
        if segment.flushed == Flushed::All {
            self.tally.take_all_flushed(items as usize);
        } else {
            let last = segment.due(segment.last_deadline);
            if segment.flushed != Flushed::None || !self.tally.take_over(items, last) {
                return false;
            }
            self.counts.expired += items;
            self.counts.expired_unfetched += self.index.forget_unlinked(number);
            self.counts.reclaim_lag.note_all(segment, now);
        }
        self.index.remove_unlinked(items as usize);
        self.log.bury_all(number);
        true
    }

    /// Removes the items of so many entries of an unlinked segment from the log, from an offset on;
    /// returns where the next entry begins, or the last one ends.
    pub(crate) fn remove_unlinked_in(
        &mut self,
        segment: u32,
        from: usize,
        entries: usize,
        now: Instant,
    ) -> usize {
        let (mut at, (_, end)) = (from, self.log.bounds(segment));
        for _ in 0..entries {
            if at >= end {
                break;
            }
            let entry = self.log.read(at);
            let bytes = entry.total_bytes();
            let ahead = bytes.min(FRONT_BYTES);
            self.log.arena().prefetch(at + AHEAD_BYTES, ahead);
            if let Entry::Item(layout) = entry {
                self.remove_unlinked(&layout, segment, now);
            }
            at += bytes;
        }
        at
    }

    /// Takes an item out of the log that has no entry any more. Whether it had been fetched is no
    /// longer known; how many of its segment had not is.
    pub(super) fn remove_unlinked(&mut self, layout: &Layout, segment: u32, now: Instant) {
        if !self.is_flushed_at(layout, segment) {
            self.count_expired(layout, now);
            self.counts.expired_unfetched += u64::from(self.index.take_unfetched(segment));
        }
        self.uncount(layout, segment);
        self.index.remove_unlinked(1);
        self.log.bury(layout);
    }

    /// Ends the use of a segment that was emptied.
    pub(crate) fn retire_segment(&mut self, segment: u32) {
        // The remaining ones belong to flushed items.
        self.index.forget_unlinked(segment);
        self.log.retire(segment);
        self.packing.unmark(segment);
        self.counts.segments_freed += 1;
    }
}
