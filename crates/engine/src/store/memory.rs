//! Memory of a store: growth and shrinking of the index, and which pages are touched ahead of their
//! use, released, or moved to huge pages.
//!
//! The index grows and shrinks bucket by bucket, in the step of the insertion or deletion that
//! calls for it, so no request waits for more than a few buckets.
//!
//! Work on pages takes longer than the lock may be held. Background maintenance does it between a
//! `begin` and an `end` under the lock; requests leave that memory alone meanwhile.
//!
//! Why: docs/decisions/0014. Tests: tests/model.rs, tests/evict.rs, tests/maintenance.rs.

use super::Store;
use crate::base::clock::Instant;
use crate::index::{STEP_BYTES, SlotRef};
use crate::log::Touch;

/// Buckets the index may add while an insertion looks for a free slot.
const GROWTH_PER_INSERT_MAX: usize = 8;

impl Store {
    /// Adds the entry of a newly written item. The index frees a slot by moving entries, by
    /// growing, and as a last resort by dropping the least used entry of the buckets; `None` if
    /// nothing may be dropped.
    pub(super) fn add_entry(&mut self, hash: u64, offset: usize, now: Instant) -> Option<SlotRef> {
        self.keep_load();
        for _ in 0..GROWTH_PER_INSERT_MAX {
            let slot = self.index.insert(hash, offset);
            if slot.is_some() {
                return slot;
            }
            if !self.grow_index() {
                break;
            }
        }
        loop {
            let slot = self.index.insert(hash, offset);
            if slot.is_some() || self.never_evicts {
                return slot;
            }
            let least_used = self.index.least_used(hash);
            if self.check_slot(least_used, now) {
                let in_the_way = self.located_at(least_used);
                self.remove_evicted(&in_the_way);
            }
        }
    }

    /// Grows the index by at most two buckets, which is more than one insertion needs.
    fn keep_load(&mut self) {
        for _ in 0..2 {
            if !self.index.wants_growth() || !self.grow_index() {
                return;
            }
        }
    }

    /// Adds a bucket to the index if memory allows: it is paid for from the budget, or with a
    /// free segment.
    fn grow_index(&mut self) -> bool {
        if !self.index.can_grow() {
            return false;
        }
        if !self.index.touch() {
            return false;
        }
        if self.index.growth_takes_memory()
            && !(self.log.may_take(STEP_BYTES) && self.take_memory(STEP_BYTES))
        {
            return false;
        }
        self.index.grow();
        self.note_shape();
        true
    }

    /// Notes the index's shape where it outlives the process: an entry that was moved for it is
    /// found by either, see `store/rebuild.rs`.
    pub(super) fn note_shape(&self) {
        self.log
            .metadata()
            .set_shape(self.index.table().shape().pack());
    }

    /// Shrinks the index by up to `buckets` buckets if it has become too empty; returns whether to
    /// continue. It cannot while the last bucket's entries fit nowhere else: insertions and
    /// removals change that sooner than an immediate retry.
    pub(crate) fn shrink_index(&mut self, buckets: usize) -> bool {
        for _ in 0..buckets {
            let before = self.index.bytes();
            if !self.index.wants_shrinking() || !self.index.shrink() {
                return false;
            }
            self.note_shape();
            let given_back = self.index.release_behind(before);
            self.give_memory(given_back);
        }
        self.index.wants_shrinking()
    }

    /// Memory to be touched ahead of its use: of the index, as offset and length, and of the log.
    pub(crate) fn begin_touch(&mut self, now: Instant) -> (Option<(usize, usize)>, Option<Touch>) {
        (self.index.begin_touch(), self.log.begin_touch(now))
    }

    /// Makes the memory of the log usable that was touched.
    pub(crate) fn end_touch(&mut self, touch: &Touch) {
        self.log.end_touch(touch);
    }

    /// A free segment whose memory is to go back to the system.
    pub(crate) fn begin_release(&mut self) -> Option<u32> {
        self.log.begin_release()
    }

    /// How many free segments are to go back to the system: see [`Log::surplus`].
    pub(crate) fn surplus(&mut self, now: Instant, is_soon: bool) -> u32 {
        self.log.surplus(now, is_soon)
    }

    /// Gives up a segment whose memory has gone back.
    pub(crate) fn end_release(&mut self, segment: u32) {
        self.log.end_release(segment);
    }

    /// A stretch of the index that is to be put on a huge page.
    pub(crate) fn begin_huge_index(&mut self) -> Option<usize> {
        self.index.begin_huge()
    }

    /// Puts that stretch on its huge page, if there is one.
    pub(crate) fn end_huge_index(&mut self, stretch: usize, is_ready: bool) {
        self.index.end_huge(stretch, is_ready);
    }

    /// A stretch of the log that is to be put on a huge page.
    pub(crate) fn begin_huge_log(&mut self) -> Option<usize> {
        self.log.begin_huge()
    }

    /// Puts that stretch on its huge page, if there is one.
    pub(crate) fn end_huge_log(&mut self, is_ready: bool) {
        self.log.end_huge(is_ready);
    }
}
