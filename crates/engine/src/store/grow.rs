//! Grow: values that are edited where they lie, and grow there.
//!
//! A value that has grown has slack behind it: in a segment a hole, in an extent memory that
//! nothing is written to yet. What moves the item leaves the slack behind. A value that somebody
//! reads is never written to: its item is copied first.
//!
//! Tests: tests/edit.rs, tests/model.rs.

use super::{Located, Room, Store};
use crate::item::{self, Layout, Spec};
use crate::options::Splice;

/// What is written where a value grows.
const ZEROS: [u8; 4096] = [0; 4096];

impl Store {
    /// Whether an item of `spec`, which is at least as long, can be written where this one lies
    /// without its value being moved, and nobody reads that.
    pub(crate) fn grows_in_place(&self, located: &Located, spec: &Spec) -> bool {
        let scale = self.log.segment(located.segment).scale();
        let (layout, bytes) = (&located.layout, spec.total_bytes(scale));
        let old_bytes = layout.total_bytes();
        // The old header may be longer than one that is written anew: it is as it was stored.
        let header_bytes = bytes - spec.key_bytes - spec.value_bytes;
        header_bytes == layout.key_at - layout.offset
            && spec.deadline == layout.deadline
            && !self.log.is_pinned(located.segment)
            && bytes >= old_bytes
            && bytes - old_bytes <= self.room_behind(located)
    }

    /// Writes an item for which [`Store::grows_in_place`] holds; what the value gets is written by
    /// `fill`.
    pub(crate) fn grow_in_place(
        &mut self,
        located: &Located,
        spec: &Spec,
        key: &[u8],
        fill: impl FnOnce(&mut Store, &Located),
    ) -> Located {
        self.in_place(located, |store| {
            let more = spec.value_bytes - located.layout.value_bytes;
            if more > 0 {
                store.take_behind(located, more);
            }
            let room = Room {
                segment: located.segment,
                offset: located.layout.offset,
            };
            let layout = store.write_front(room, spec, key);
            let grown = Located { layout, ..*located };
            fill(store, &grown);
            grown
        })
    }

    /// Bytes behind an item that it may grow into.
    fn room_behind(&self, located: &Located) -> usize {
        let hole_bytes = self.hole_behind(located);
        let segment = self.log.segment(located.segment);
        let start = self.log.start_of(located.segment);
        let end = located.layout.offset + located.layout.total_bytes() + hole_bytes - start;
        if self.log.is_extent(located.segment) && end == segment.written_bytes() {
            return hole_bytes + segment.room_bytes() - end;
        }
        hole_bytes
    }

    /// Gives an item as many bytes more of the room behind it.
    fn take_behind(&mut self, located: &Located, more: usize) {
        let (number, old_bytes) = (located.segment, located.layout.total_bytes());
        let hole_bytes = self.hole_behind(located);
        let end = located.layout.offset + old_bytes + more;
        let rest = hole_bytes.saturating_sub(more);
        if rest > 0 {
            self.log.write(end, item::hole(rest).bytes());
        }
        let start = self.log.start_of(number);
        let segment = self.log.segment_mut(number);
        segment.change_holes(rest, hole_bytes);
        segment.set_written(segment.written_bytes().max(end - start));
        let deadline = located.layout.deadline;
        self.log.uncount_item(number, old_bytes, deadline);
        self.log.count_item(number, old_bytes + more, deadline);
    }

    /// Leaves what an item does not need of the `room_bytes` that were taken for it to be grown
    /// into.
    pub(crate) fn leave_slack(&mut self, room: Room, layout: &Layout, room_bytes: usize) {
        let slack = room_bytes - layout.total_bytes();
        if slack == 0 {
            return;
        }
        let end = room.offset + layout.total_bytes();
        if self.log.is_extent(room.segment) {
            let start = self.log.start_of(room.segment);
            self.log.segment_mut(room.segment).set_written(end - start);
            return;
        }
        self.log.write(end, item::hole(slack).bytes());
        self.log.segment_mut(room.segment).change_holes(slack, 0);
    }

    /// Writes zeros.
    pub(crate) fn zero(&mut self, at: usize, len: usize) {
        for from in (0..len).step_by(ZEROS.len()) {
            let some = ZEROS.len().min(len - from);
            self.log.write(at + from, &ZEROS[..some]);
        }
    }

    /// Writes parts of `bytes` over parts of a value that nobody reads.
    pub(crate) fn write_parts(&mut self, layout: &Layout, parts: &[Splice], bytes: &[u8]) {
        for part in parts {
            assert!(
                part.at + part.len <= layout.value_bytes,
                "a part lies in the value"
            );
            let bytes = &bytes[part.from..part.from + part.len];
            self.log.write(layout.value_at() + part.at, bytes);
        }
    }

    /// Writes over a part of a value that nobody reads.
    ///
    /// # Panics
    /// If the part reaches beyond the value.
    pub(crate) fn write_value(&mut self, located: &Located, at: usize, bytes: &[u8]) {
        assert!(
            at + bytes.len() <= located.layout.value_bytes,
            "a part lies in the value"
        );
        self.log.write(located.layout.value_at() + at, bytes);
    }
}
