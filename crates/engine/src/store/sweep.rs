//! Sweep: how all items leave, or those of a space, at once for their readers and by and by for
//! their memory.
//!
//! Why: docs/decisions/0015. Tests: tests/space.rs, tests/model.rs.

use super::{Located, Store};
use crate::clock::Instant;
use crate::index::SlotRef;
use crate::segment::{Flushed, Queue};
use crate::space::Space;
use crate::table::BUCKET_SLOTS;

/// Calls in which a search for expired items goes through a shard: some ten seconds.
const EXPIRY_ROUND: usize = 100;
/// Fewest and most buckets that one call looks at.
const EXPIRY_BUCKETS_MIN: usize = 64;
const EXPIRY_BUCKETS_MAX: usize = 512;

impl Store {
    /// Makes every item a miss from here on. The bytes are reclaimed like expired ones, first.
    pub(crate) fn flush(&mut self) {
        self.log.seal(Queue::Small);
        self.log.seal(Queue::Main);
        let segments: Vec<u32> = self.log.in_use().collect();
        for segment in segments {
            // A segment that holds nothing but a draft stays: its value comes after the flush.
            if self.log.segment(segment).items > 0 {
                self.log.segment_mut(segment).flushed = Flushed::All;
            }
        }
        self.flushed_items = self.index.items();
        self.tally.clear();
    }

    /// Makes every item of the main space a miss from here on.
    pub(crate) fn flush_main(&mut self) {
        if !self.tally.has_others() && !self.tally.has_gone() {
            self.flush();
            return;
        }
        self.log.seal(Queue::Small);
        self.log.seal(Queue::Main);
        let segments: Vec<u32> = self.log.in_use().collect();
        for segment in segments {
            let segment = self.log.segment_mut(segment);
            if segment.items > 0 && segment.flushed == Flushed::None {
                segment.flushed = Flushed::Main;
            }
        }
        self.flushed_items += self.tally.retire(Space::MAIN) as usize;
    }

    /// Makes every item of a space that nobody names any more a miss.
    pub(crate) fn retire_space(&mut self, space: Space) {
        self.flushed_items += self.tally.retire(space) as usize;
    }

    /// Looks at so many buckets for items that were flushed and removes these; goes round and round
    /// until the last is gone.
    pub(crate) fn sweep(&mut self, buckets: usize) {
        for _ in 0..buckets {
            if !self.tally.has_gone() {
                return;
            }
            let bucket = self.sweep_at % self.index.buckets();
            self.sweep_at = bucket + 1;
            self.remove_in_bucket(bucket, |store, located| store.is_flushed(located));
        }
    }

    /// Removes what has expired in the next stretch of buckets, so that whoever wants to hear of it
    /// need not wait for a reader or for memory to run short; goes round in [`EXPIRY_ROUND`] calls
    /// unless there are too many buckets for that.
    pub(crate) fn sweep_expired(&mut self, now: Instant) {
        let buckets = self.index.buckets();
        let looked_at = (buckets / EXPIRY_ROUND).clamp(EXPIRY_BUCKETS_MIN, EXPIRY_BUCKETS_MAX);
        for _ in 0..looked_at.min(buckets) {
            let bucket = self.expired_at % buckets;
            self.expired_at = bucket + 1;
            for slot in self.slots_in(bucket).into_iter().flatten() {
                let located = self.located_at(slot);
                if located.layout.deadline.has_passed(now) {
                    self.remove_expired(&located, now);
                }
            }
        }
    }

    fn slots_in(&self, bucket: usize) -> [Option<SlotRef>; BUCKET_SLOTS] {
        let mut slots = [None; BUCKET_SLOTS];
        let mut places = slots.iter_mut();
        self.index.each_in_bucket(bucket, |slot| {
            if let Some(place) = places.next() {
                *place = Some(slot);
            }
        });
        slots
    }

    /// Removes the items with an entry in `bucket` that `is_it`.
    pub(crate) fn remove_in_bucket(
        &mut self,
        bucket: usize,
        is_it: impl Fn(&Store, &Located) -> bool,
    ) {
        for slot in self.slots_in(bucket).into_iter().flatten() {
            let located = self.located_at(slot);
            if is_it(self, &located) {
                self.remove(&located);
            }
        }
    }
}
