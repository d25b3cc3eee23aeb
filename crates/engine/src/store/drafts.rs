//! Drafts: room for values that are still being received.
//!
//! Tests: tests/handles.rs.

use super::{Room, Store};
use crate::item::{self, Layout, Spec};

impl Store {
    /// Turns room into a draft of `bytes`, which counts as dead until it is committed.
    pub(crate) fn write_draft(&mut self, room: Room, bytes: usize) {
        self.log.write(room.offset, item::draft(bytes).bytes());
        self.log.segment_mut(room.segment).change_holes(bytes, 0);
    }

    /// Turns a draft into an item that ends where the draft ends; what is left before it becomes a
    /// hole. The value's bytes are in place already.
    pub(crate) fn commit_draft(
        &mut self,
        room: Room,
        room_bytes: usize,
        spec: &Spec,
        key: &[u8],
    ) -> Layout {
        let item_bytes = spec.total_bytes(self.log.segment(room.segment).scale());
        let before = room_bytes - item_bytes;
        if before > 0 {
            self.log.write(room.offset, item::hole(before).bytes());
        }
        self.log
            .segment_mut(room.segment)
            .change_holes(0, item_bytes);
        let at = Room {
            segment: room.segment,
            offset: room.offset + before,
        };
        self.write_item(at, spec, key)
    }
}
