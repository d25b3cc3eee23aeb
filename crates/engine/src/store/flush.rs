//! Flush: removes all items, or those of a space: at once for readers, gradually for their memory.
//!
//! A flush marks segments, whose bytes then count as reclaimable. A space that is retired shares
//! its segments with others, so its items are purged: bucket by bucket, in steps of background
//! maintenance and insertions.
//!
//! Why: docs/decisions/0015. Tests: tests/space.rs, tests/model.rs.

use super::{Located, Store};
use crate::base::clock::Instant;
use crate::base::space::Space;
use crate::deadlines::timer_wheel::Due;
use crate::index::Stretch;
use crate::log::item::Entry;
use crate::log::segment::Flushed;
use crate::memory::table::BUCKET_SLOTS;

impl Store {
    /// Makes every item a miss from here on. The bytes are reclaimed like expired ones, first.
    pub(crate) fn flush(&mut self) {
        self.seal_open();
        let segments: Vec<u32> = self.log.in_use().collect();
        for segment in segments {
            // A segment that holds nothing but a draft stays: its value comes after the flush.
            if self.log.segment(segment).items > 0 {
                self.mark_flushed(segment, Flushed::All);
            }
        }
        self.flush_unchecked(Flushed::All);
        let items = self.index.items() - self.unchecked_items();
        self.tally.flush_all(items);
    }

    /// Notes that items of a segment were flushed: without the lock that is not to be seen.
    fn mark_flushed(&mut self, segment: u32, flushed: Flushed) {
        self.log.segment_mut(segment).flushed = flushed;
        self.log.metadata().flush(segment, flushed);
        self.log.arena().open_to_readers(segment, None);
    }

    /// Makes every item of the main space a miss from here on.
    pub(crate) fn flush_main(&mut self) {
        if !self.tally.has_others() && !self.tally.has_gone() && !self.has_unchecked() {
            self.flush();
            return;
        }
        self.flush_unchecked(Flushed::Main);
        self.seal_open();
        self.flush_extents(Space::MAIN);
        let segments: Vec<u32> = self.log.in_use().collect();
        for segment in segments {
            let known = self.log.segment(segment);
            if known.items > 0 && known.flushed == Flushed::None {
                self.mark_flushed(segment, Flushed::Main);
            }
        }
        self.tally.retire(Space::MAIN);
    }

    /// Makes every item of a retired space a miss.
    pub(crate) fn retire_space(&mut self, space: Space) {
        self.retire_unchecked(space);
        if self.never_evicts && self.tally.has_only(space) && !self.has_unchecked() {
            // Stores are refused until the memory is back, so it is marked at once.
            self.flush();
            return;
        }
        self.flush_extents(space);
        self.tally.retire(space);
    }

    /// Marks the extents whose item is in `space`: the bytes of a long item count as reclaimable at
    /// once.
    fn flush_extents(&mut self, space: Space) {
        let extents = self
            .log
            .in_use()
            .filter(|&number| self.log.is_extent(number));
        let extents: Vec<u32> = extents.collect();
        for number in extents {
            if let Some(due) = self.due_in_extent(number, space) {
                self.tally.flush_one(space, due);
                self.mark_flushed(number, Flushed::All);
            }
        }
    }

    /// When the item of an extent ends, if it is in `space` and was not flushed.
    fn due_in_extent(&self, number: u32, space: Space) -> Option<Due> {
        let segment = self.log.segment(number);
        if segment.items == 0
            || self.index.is_unlinked(number)
            || self.index.is_in_bulk_unlink(number)
        {
            return None;
        }
        let (start, end) = self.log.bounds(number);
        // Space that was reserved for a received value and not needed is a hole before the item.
        let at = match self.log.read(start) {
            Entry::Hole(bytes) if start + bytes < end => start + bytes,
            _ => start,
        };
        let Entry::Item(layout) = self.log.read(at) else {
            return None;
        };
        let is_counted = layout.space() == space && !self.is_flushed_at(&layout, number);
        is_counted.then(|| segment.due(layout.deadline))
    }

    /// Checks so many buckets for items of retired spaces and removes these; starts again after the
    /// last bucket until none is left.
    pub(crate) fn purge(&mut self, buckets: usize) {
        for _ in 0..buckets {
            if !self.tally.has_gone() {
                return;
            }
            let bucket = self.purge_at % self.index.buckets();
            self.purge_at = bucket + 1;
            self.each_in_bucket(bucket, |store, located| {
                if store.is_flushed(located) {
                    store.remove(located);
                }
            });
        }
    }

    /// Removes the items of a space with an entry in the bucket at a reversed address; returns the
    /// next of these, `None` behind the last bucket.
    pub(crate) fn remove_of_space(
        &mut self,
        space: Space,
        reversed: u64,
        now: Instant,
    ) -> Option<u64> {
        let Stretch { bucket, next, .. } = self.index.stretch(reversed)?;
        self.check_bucket(bucket, now);
        self.each_in_bucket(bucket, |store, located| {
            if located.layout.space() == space {
                store.remove(located);
            }
        });
        Some(next)
    }

    /// Calls `each` with the items that have an entry in a bucket, which it may remove; unchecked
    /// items are left out.
    pub(crate) fn each_in_bucket(
        &mut self,
        bucket: usize,
        mut each: impl FnMut(&mut Store, &Located),
    ) {
        let mut slots = [None; BUCKET_SLOTS];
        let mut positions = slots.iter_mut();
        self.index.each_in_bucket(bucket, |slot| {
            if let Some(position) = positions.next() {
                *position = (!self.is_unchecked_at(slot)).then_some(slot);
            }
        });
        for slot in slots.into_iter().flatten() {
            let located = self.located_at(slot);
            each(self, &located);
        }
    }
}
