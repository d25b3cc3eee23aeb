//! Drafts: space for values that are still being received.
//!
//! Tests: tests/handles.rs.

use super::{Room, Store, extent_encoding};
use crate::base::clock::Instant;
use crate::log::item::{self, Layout, Spec};
use crate::log::segment::Queue;
use crate::memory::Pledge;
use crate::memory::arena::Pin;

impl Store {
    /// Begins an extent for `bytes`, and how many of them have memory; `None` without range.
    pub(crate) fn begin_extent(&mut self, bytes: usize) -> Option<(Pin, usize)> {
        self.log.begin_extent(bytes)
    }

    /// Pledges memory for a part of an extent, if this shard may have it.
    pub(crate) fn pledge(&mut self, bytes: usize, pledge: &mut Pledge) -> bool {
        self.log.pledge(bytes, pledge)
    }

    /// Puts memory that was pledged behind an extent; where it lies.
    pub(crate) fn grow_extent(&mut self, pin: &Pin, bytes: usize, pledge: &mut Pledge) -> usize {
        self.log.grow_extent(pin, bytes, pledge)
    }

    /// Ends the making of an extent that has all the memory for `bytes`.
    pub(crate) fn end_extent(&mut self, pin: &Pin, bytes: usize, now: Instant) -> Room {
        self.log.end_extent(pin, bytes, extent_encoding(now), now)
    }

    /// Space for an item of `spec` in a complete extent, if it fits there; the rest is released.
    pub(crate) fn take_provided(
        &mut self,
        extent: u32,
        queue: Queue,
        spec: &Spec,
        now: Instant,
    ) -> Option<Room> {
        let encoding = extent_encoding(now);
        let bytes = spec.total_bytes(encoding);
        let fits = self.log.extent_bytes(bytes) <= self.log.segment(extent).room_bytes();
        if !fits || !self.log.wants_extent(bytes) {
            return None;
        }
        Some(self.log.fit_extent(extent, queue, bytes, encoding, now))
    }

    /// Lets this shard take all remaining memory, or no more than others.
    pub(crate) fn set_in_need(&mut self, in_need: bool) {
        self.log.set_in_need(in_need);
    }

    /// Turns free space into a draft of `bytes`, which counts as reclaimable until it is committed.
    pub(crate) fn write_draft(&mut self, room: Room, bytes: usize) {
        // They are written without the lock; until the draft ends, its pin keeps the segment from
        // getting checksums.
        let metadata = self.log.metadata();
        metadata.clear_sums(room.offset, room.offset + bytes);
        self.log.write(room.offset, item::draft(bytes).bytes());
        self.log.segment_mut(room.segment).change_holes(bytes, 0);
    }

    /// Turns a draft into an item that ends where the draft ends; the space before it becomes a
    /// hole. The value's bytes are in place already.
    pub(crate) fn commit_draft(
        &mut self,
        room: Room,
        room_bytes: usize,
        spec: &Spec,
        key: &[u8],
    ) -> Layout {
        let item_bytes = spec.total_bytes(self.log.segment(room.segment).encoding());
        let before = room_bytes - item_bytes;
        if before > 0 {
            self.log.write(room.offset, item::hole(before).bytes());
        }
        self.log
            .segment_mut(room.segment)
            .change_holes(0, item_bytes);
        if self.log.is_extent(room.segment) {
            // It is stored now, however long it was received.
            let queue = self.log.segment(room.segment).queue;
            self.log.requeue(room.segment, queue);
        }
        let at = Room {
            segment: room.segment,
            offset: room.offset + before,
        };
        self.write_item(at, spec, key)
    }
}
