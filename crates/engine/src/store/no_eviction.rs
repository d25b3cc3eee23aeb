//! No eviction: the store of a partition of which nothing is evicted.
//!
//! Some segments are reserved for compaction: stores leave them free, so that the live items of a
//! segment can always be moved and its other bytes reclaimed. A write that does not make an item
//! longer may use one of them, because it leaves as many reclaimable bytes behind.
//!
//! Invariant: a move of an item finds free space for it, or leaves it where it is.
//! Why: docs/decisions/0052. Tests: tests/keep.rs.

use super::{Located, Store};
use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::base::space::Space;
use crate::log::item::{Layout, Spec};

/// Segments of the reserve for stores of new or longer values, and for other writes.
const COMPACTION_RESERVE: usize = 4;
const COMPACTION_RESERVE_OF_REWRITES: usize = 3;
/// Buckets that are purged of items of retired spaces when a store finds no free space.
const PURGED_FOR_ROOM: usize = 512;

impl Store {
    /// Disables eviction.
    pub(crate) fn disable_eviction(&mut self) {
        self.never_evicts = true;
        self.log.set_compaction_reserve(COMPACTION_RESERVE);
    }

    /// Whether nothing may be evicted.
    #[inline]
    pub(crate) fn never_evicts(&self) -> bool {
        self.never_evicts
    }

    /// How many segments are to be free ahead of stores.
    pub(crate) fn free_ahead(&self, usual: usize) -> usize {
        if self.never_evicts {
            COMPACTION_RESERVE + usual
        } else {
            usual
        }
    }

    /// Lets an item of `spec` that replaces a value of at least its length use a part of the
    /// reserve; [`Store::end_rewrite`] ends it.
    #[inline]
    pub(crate) fn begin_rewrite(&mut self, old: Option<&Located>, spec: &Spec) {
        let is_longer = |old: &Located| spec.value_bytes > old.layout.value_bytes;
        if self.never_evicts && old.is_some_and(|old| !is_longer(old)) {
            self.log
                .set_compaction_reserve(COMPACTION_RESERVE_OF_REWRITES);
        }
    }

    /// Sets the reserve for all stores again.
    #[inline]
    pub(crate) fn end_rewrite(&mut self) {
        if self.never_evicts {
            self.log.set_compaction_reserve(COMPACTION_RESERVE);
        }
    }

    /// Whether the memory of an extent for an item of so many bytes may be taken.
    pub(crate) fn may_take_extent(&self, bytes: usize) -> bool {
        self.log.may_take(self.log.extent_bytes(bytes))
    }

    /// Purges some items of retired spaces; returns whether there were any.
    pub(crate) fn purge_for_room(&mut self) -> bool {
        let is_any = self.tally.has_gone();
        self.purge(PURGED_FOR_ROOM);
        is_any
    }

    /// Seals the open segment with most reclaimable bytes, if any has some; returns whether it did.
    pub(crate) fn seal_deadest(&mut self, now: Instant) -> bool {
        self.log.seal_deadest(now)
    }

    /// Whether an item of `spec` can be written over one that is at least as long, whatever that
    /// leaves unused: no other space is free.
    pub(crate) fn fits_by_force(&self, old: &Located, spec: &Spec) -> bool {
        let segment = self.log.segment(old.segment);
        spec.total_bytes(segment.encoding()) <= old.layout.total_bytes()
            && segment.accepts(spec.deadline)
            && !self.log.is_pinned(old.segment)
    }

    /// Takes an item back that was written and has no entry; returns what to say to its owner.
    pub(super) fn take_back(&mut self, space: Space, layout: &Layout) -> Error {
        let segment = self.log.segment(self.log.segment_of(layout.offset));
        self.tally.take(space, segment.due(layout.deadline));
        self.log.bury(layout);
        self.refuse()
    }

    /// Counts a store for which no space was free; returns its error.
    pub(crate) fn refuse(&mut self) -> Error {
        if !self.never_evicts {
            return Error::Busy;
        }
        self.counts.refused += 1;
        Error::Full
    }
}
