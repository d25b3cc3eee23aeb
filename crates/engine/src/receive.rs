//! Receive: values that arrive in pieces, written to their final place.
//!
//! A draft is reserved space in the log that counts as reclaimable until it is committed. Why:
//! docs/decisions/0009.
//! Tests: tests/handles.rs, tests/model.rs.

use crate::arena::{Draft, Pin};
use crate::clock::{Deadline, Instant};
use crate::error::Error;
use crate::item::{HEADER_BYTES_MAX, Spec};
use crate::key::Key;
use crate::log::Room;
use crate::observer::Happened;
use crate::options::SetOptions;
use crate::outcome::Stored;
use crate::segment::Queue;
use crate::shard::Shard;
use crate::store::Located;
use crate::table::Hint;

impl Shard {
    /// Space for a value that is still being received.
    pub(crate) fn draft(
        &mut self,
        key: Key<'_>,
        value_bytes: usize,
        now: Instant,
    ) -> Result<Draft, Error> {
        let prefix_bytes = HEADER_BYTES_MAX + key.bytes().len();
        let larger_bytes = value_bytes + HEADER_BYTES_MAX;
        let spec = Spec::plain(key.bytes().len(), larger_bytes, Deadline::NEVER);
        let bytes = prefix_bytes + value_bytes;
        let (stream, deadline) = (Queue::Small.into(), Deadline::NEVER);
        let room = match self.store.take_room_of(stream, deadline, |_| bytes, now) {
            Some(room) => room,
            None => {
                // Space for a slightly larger item suffices as well; the rest becomes a hole.
                let room = self
                    .reclaimer
                    .make_room(&mut self.store, Queue::Small, &spec, now);
                let Some(room) = room else {
                    return Err(self.store.refuse());
                };
                let taken = spec.total_bytes(self.store.log().segment(room.segment).encoding());
                self.store.waste_room(room, taken - bytes);
                Room {
                    offset: room.offset + (taken - bytes),
                    ..room
                }
            }
        };
        self.store.write_draft(room, bytes);
        self.due_bytes += bytes;
        Ok(self.draft_at(room, prefix_bytes, value_bytes, key))
    }

    /// A draft in an extent that was made for it.
    pub(crate) fn draft_in(
        &mut self,
        extent: &Pin,
        key: Key<'_>,
        value_bytes: usize,
        now: Instant,
    ) -> Draft {
        let prefix_bytes = HEADER_BYTES_MAX + key.bytes().len();
        let bytes = prefix_bytes + value_bytes;
        let room = self.store.end_extent(extent, bytes, now);
        self.store.write_draft(room, bytes);
        // The extent's space was reclaimed before, so nothing is added to `due_bytes`.
        self.draft_at(room, prefix_bytes, value_bytes, key)
    }

    fn draft_at(&self, room: Room, prefix_bytes: usize, value_bytes: usize, key: Key<'_>) -> Draft {
        Draft::new(
            self.store.log().arena(),
            room.segment,
            room.offset,
            prefix_bytes,
            value_bytes,
            key,
        )
    }

    /// Stores a received value if the condition holds.
    pub(crate) fn commit(
        &mut self,
        key: Key<'_>,
        draft: &mut Draft,
        options: &SetOptions,
        now: Instant,
    ) -> Result<Stored, Error> {
        let segment = self.store.log().segment(draft.segment);
        let is_flushed = self.store.tally.is_flushed(segment.flushed, key.space());
        if is_flushed || !segment.accepts(options.deadline) {
            return self.set_anywhere(key, Hint::Unknown, draft.value_mut(), options, now);
        }
        let old = self.store.find(key, now);
        let spec = match self.decide(key, draft.value_bytes, old.as_ref(), options, now) {
            Ok(spec) => spec,
            Err(refused) => return Ok(refused),
        };
        let room = Room {
            segment: draft.segment,
            offset: draft.offset,
        };
        let room_bytes = draft.prefix_bytes + draft.value_bytes;
        let layout = self
            .store
            .commit_draft(room, room_bytes, &spec, key.bytes());
        let slot = self.store.link(key, old.as_ref(), &layout, now)?;
        let segment = room.segment;
        let located = Located {
            slot,
            layout,
            segment,
        };
        let happened = Happened::of_store(old.as_ref());
        Ok(self.stored(key, &located, spec.version.unwrap_or(0), happened, now))
    }
}
