//! Grow: values that are edited in place, and grow there.
//!
//! A value that has grown has slack behind it: in a segment a hole, in an extent unwritten memory.
//! A move of the item drops the slack. A value that is being read is never written to: its item is
//! copied first.
//!
//! Tests: tests/edit.rs, tests/model.rs.

use super::{Located, Room, Store};
use crate::base::clock::Deadline;
use crate::interface::options::{Splice, ValueBytes};
use crate::log::item::{self, Layout, Spec};
use crate::memory::PAGE_BYTES;
use crate::memory::arena::Pin;

/// Slack behind an edited value in an extent: a part of its length, at most so many bytes; up to
/// twice as much may stay.
const EDITED_SLACK_SHARE: usize = 8;
const EDITED_SLACK_BYTES_MAX: usize = 512 << 10;

/// The zeros written where a value grows.
const ZEROS: [u8; 4096] = [0; 4096];

impl Store {
    /// Whether the value of an item can be edited in place, if it is not being read: whether it can
    /// grow by so many bytes, and the item can get this deadline.
    pub(crate) fn can_edit(&self, located: &Located, more: usize, deadline: Deadline) -> bool {
        let layout = &located.layout;
        let segment = self.log.segment(located.segment);
        let is_timed = deadline == layout.deadline
            || (segment.accepts(deadline)
                && layout
                    .patch_deadline(deadline, segment.encoding())
                    .is_some());
        let grows = || {
            let patch = layout.patch_value_bytes(layout.value_bytes + more);
            patch.is_some() && more <= self.room_behind(located)
        };
        is_timed && (more == 0 || grows())
    }

    /// Has `apply` change a value for which [`Store::can_edit`] holds.
    pub(crate) fn edit(
        &mut self,
        located: &Located,
        spec: &Spec,
        more: usize,
        apply: impl FnOnce(&mut EditedValue<'_>),
    ) -> Located {
        let old = located.layout;
        let hole_bytes = self.hole_behind(located);
        self.in_place(located, |store| {
            let mut value = EditedValue {
                store,
                at: old.value_at(),
                len: old.value_bytes,
                len_max: old.value_bytes + more,
            };
            apply(&mut value);
            let len = value.len;
            let mut layout = old;
            let version = spec.version.and_then(|version| old.patch_version(version));
            let access = spec.access_s.and_then(|second| old.patch_access(second));
            let length = (len != old.value_bytes).then(|| old.patch_value_bytes(len));
            let patches = [
                length.flatten(),
                version,
                old.patch_lease(spec.lease),
                access,
            ];
            patches
                .iter()
                .flatten()
                .for_each(|patch| store.patch(patch));
            (layout.value_bytes, layout.deadline) = (len, spec.deadline);
            store.settle_edited(located, &layout, hole_bytes);
            Located { layout, ..*located }
        })
    }

    /// Updates the counts of an item, and the slack behind it, to its new length and deadline.
    fn settle_edited(&mut self, old: &Located, new: &Layout, hole_bytes: usize) {
        let number = old.segment;
        let (old_bytes, new_bytes) = (old.layout.total_bytes(), new.total_bytes());
        if new.deadline != old.layout.deadline {
            let segment = self.log.segment(number);
            let patch = old.layout.patch_deadline(new.deadline, segment.encoding());
            let (before, after) = (segment.due(old.layout.deadline), segment.due(new.deadline));
            self.patch(&patch.expect("the deadline fits"));
            self.tally.retime(new.space(), before, after);
        }
        self.log
            .uncount_item(number, old_bytes, old.layout.deadline);
        self.log.count_item(number, new_bytes, new.deadline);
        let end = new.offset + new_bytes;
        if self.log.is_extent(number) {
            let start = self.log.start_of(number);
            let segment = self.log.segment_mut(number);
            segment.set_written(end - start);
            segment.change_holes(0, hole_bytes);
            let wanted = end - start + edited_slack(new_bytes);
            if segment.room_bytes() > wanted + edited_slack(new_bytes).max(PAGE_BYTES) {
                self.log.trim_extent(number, wanted);
            }
            return;
        }
        let rest = old_bytes + hole_bytes - new_bytes;
        if rest > 0 {
            self.log.write(end, item::hole(rest).bytes());
        }
        self.log.segment_mut(number).change_holes(rest, hole_bytes);
    }

    /// Has the extent of an item grow where it lies, if the item has one, so that its value can
    /// become longer by `more`; `false` if there is not enough memory left, or no addresses.
    pub(crate) fn extend(&mut self, located: &Located, more: usize) -> bool {
        let bytes = located.layout.total_bytes() + more;
        let wanted = bytes + edited_slack(bytes);
        self.log.is_extent(located.segment) && self.log.extend_extent(located.segment, wanted)
    }

    /// Whether [`Store::extend`] can do so once there is memory.
    pub(crate) fn can_extend(&self, located: &Located, more: usize) -> bool {
        let bytes = located.layout.total_bytes() + more;
        let wanted = bytes + edited_slack(bytes) + PAGE_BYTES;
        self.log.is_extent(located.segment)
            && self.log.has_addresses_behind(located.segment, wanted)
    }

    /// As [`Log::leave_addresses`].
    pub(crate) fn leave_addresses(&mut self, is_left: bool) -> bool {
        self.log.leave_addresses(is_left)
    }

    /// A use of an item's segment, so that it stays as it is.
    pub(crate) fn pin(&self, located: &Located) -> Pin {
        Pin::on(self.log.arena(), located.segment)
    }

    /// Whether an item of `spec`, which is at least as long, can be written over this one without a
    /// move of its value, which is not being read.
    pub(crate) fn grows_in_place(&self, located: &Located, spec: &Spec) -> bool {
        let encoding = self.log.segment(located.segment).encoding();
        let (layout, bytes) = (&located.layout, spec.total_bytes(encoding));
        let old_bytes = layout.total_bytes();
        // The old header may be longer than a new one would be: it is as it was stored.
        let header_bytes = bytes - spec.key_bytes - spec.value_bytes;
        header_bytes == layout.key_at - layout.offset
            && spec.deadline == layout.deadline
            && !self.log.is_pinned(located.segment)
            && bytes >= old_bytes
            && bytes - old_bytes <= self.room_behind(located)
    }

    /// Writes an item for which [`Store::grows_in_place`] holds; `fill` writes the added part of
    /// the value.
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

    /// Writes parts of `bytes` over parts of a value that is not being read.
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

    /// Writes over a part of a value that is not being read.
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

/// Slack behind an edited item of so many bytes.
fn edited_slack(bytes: usize) -> usize {
    (bytes / EDITED_SLACK_SHARE).min(EDITED_SLACK_BYTES_MAX)
}

/// A value that is being edited where it lies, under the shard's lock.
#[derive(Debug)]
pub(crate) struct EditedValue<'a> {
    store: &'a mut Store,
    at: usize,
    len: usize,
    len_max: usize,
}

impl ValueBytes for EditedValue<'_> {
    fn bytes(&self) -> &[u8] {
        self.store.log.bytes(self.at, self.len)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len, "beyond the value");
        self.store.log.write(self.at + at, bytes);
    }

    fn resize(&mut self, len: usize) {
        assert!(len <= self.len_max, "longer than was foreseen");
        self.len = len;
    }
}
