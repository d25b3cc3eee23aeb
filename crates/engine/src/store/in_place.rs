//! In place: how an item is written over where it lies, with nothing moved and nothing taken.
//!
//! Tests: tests/model.rs, tests/keep.rs.

use super::{Located, Store};
use crate::base::clock::Deadline;
use crate::log::Room;
use crate::log::item::{self, Entry, Layout, Spec};

/// The part of an extent that may become a hole when its item is written over.
const EXTENT_HOLE_SHARE: usize = 32;

impl Store {
    /// Whether an item of `spec` can be written over this one: it fits into the space of the old
    /// one and the hole behind it, and the old value is not being read. An extent is never
    /// compacted, so what its new item leaves unused must be little.
    #[inline]
    pub(crate) fn fits_in_place(&self, located: &Located, spec: &Spec) -> bool {
        let segment = self.log.segment(located.segment);
        let bytes = spec.total_bytes(segment.encoding());
        let old_bytes = located.layout.total_bytes();
        (bytes <= old_bytes || bytes <= old_bytes + self.hole_behind(located))
            && segment.accepts(spec.deadline)
            && !self.log.is_pinned(located.segment)
            && (!self.log.is_extent(located.segment)
                || segment.written_bytes() - bytes <= segment.room_bytes() / EXTENT_HOLE_SHARE)
    }

    /// Bytes of the hole that directly follows an item, which the item may grow into.
    pub(super) fn hole_behind(&self, located: &Located) -> usize {
        let end = located.layout.offset + located.layout.total_bytes();
        let segment = self.log.segment(located.segment);
        let start = self.log.start_of(located.segment);
        if end - start >= segment.written_bytes() {
            return 0;
        }
        match self.log.read(end) {
            Entry::Hole(bytes) => bytes,
            _ => 0,
        }
    }

    /// Writes an item of `spec` over one for which [`Store::fits_in_place`] holds; returns its
    /// layout.
    pub(crate) fn overwrite(
        &mut self,
        located: &Located,
        spec: &Spec,
        key: &[u8],
        value: &[u8],
    ) -> Layout {
        self.in_place(located, |store| store.write_over(located, spec, key, value))
    }

    fn write_over(&mut self, located: &Located, spec: &Spec, key: &[u8], value: &[u8]) -> Layout {
        let (old, segment) = (&located.layout, located.segment);
        let old_bytes = old.total_bytes();
        let bytes = spec.total_bytes(self.log.segment(segment).encoding());
        if bytes != old_bytes {
            // The rest of the item's old space and the hole behind it become one hole.
            let hole_behind = self.hole_behind(located);
            let rest = old_bytes + hole_behind - bytes;
            if rest > 0 {
                self.log.write(old.offset + bytes, item::hole(rest).bytes());
            }
            self.log
                .segment_mut(segment)
                .change_holes(rest, hole_behind);
        }
        if bytes != old_bytes || spec.deadline != old.deadline {
            self.log.uncount_item(segment, old_bytes, old.deadline);
            self.log.count_item(segment, bytes, spec.deadline);
            let due = |deadline| self.log.segment(segment).due(deadline);
            self.tally
                .retime(spec.space, due(old.deadline), due(spec.deadline));
        }
        let offset = old.offset;
        let layout = self.write_front(Room { segment, offset }, spec, key);
        self.log.write(layout.value_at(), value);
        layout
    }

    /// Writes a value of the same length over a plain item's, with another deadline: most stores do
    /// no more. Whether that did; else nothing has changed.
    #[inline]
    pub(crate) fn replace_value(
        &mut self,
        located: &mut Located,
        value: &[u8],
        deadline: Deadline,
    ) -> bool {
        let layout = &located.layout;
        let is_alike = !layout.is_extended() && layout.value_bytes == value.len();
        if !is_alike || self.log.is_pinned(located.segment) {
            return false;
        }
        let is_done = self.in_place(located, |store| {
            let layout = &located.layout;
            let is_done = layout.deadline == deadline || store.set_deadline(located, deadline);
            if is_done {
                store.log.write(layout.value_at(), value);
            }
            is_done
        });
        located.layout.deadline = deadline;
        is_done
    }
}
