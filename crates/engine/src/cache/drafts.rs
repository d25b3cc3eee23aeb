//! Drafts: values that arrive in pieces, or are made in place, in the memory of the cache.
//!
//! ```text
//! Cache::reserve ---> reserving ---> reserved ---> complete ---> Cache::commit: an item
//!   step        Draft::extend_       Draft::buffer,
//!   by step     reservation          Draft::advance
//! ```
//!
//! A short value has all its memory at once, a long one step by step (reservation.rs). A draft
//! counts as reclaimable until it is committed; when it is dropped, its memory is released.
//!
//! Why: docs/decisions/0009 and 0053. Tests: tests/room.rs, tests/handles.rs, tests/model.rs.

use super::Cache;
use super::reservation::{DraftPart, Reservation};
use crate::base::clock::{Deadline, Instant};
use crate::base::error::Error;
use crate::base::space::Space;
use crate::interface::config::Config;
use crate::interface::observer::Happened;
use crate::interface::options::SetOptions;
use crate::interface::outcome::Stored;
use crate::key::Key;
use crate::log::item::{HEADER_BYTES_MAX, Spec};
use crate::log::segment::Queue;
use crate::log::{Room, is_better_off_alone};
use crate::memory::arena::Pin;
use crate::memory::table::Hint;
use crate::shard::Shard;
use crate::store::Located;

/// A value that is not complete yet, in the memory of the cache: it is being reserved, received or
/// made.
///
/// Stored by [`Cache::commit`], released when dropped.
pub struct Draft {
    key: Box<[u8]>,
    space: Space,
    value_bytes: usize,
    /// Bytes of the value that were received.
    received_bytes: usize,
    memory: DraftMemory,
    /// Its part of the memory of all drafts; none once its memory is released.
    part: Option<DraftPart>,
}

/// The memory of a draft.
enum DraftMemory {
    /// Being reserved.
    Reserving(Box<Reservation>),
    /// Reserved.
    Reserved(DraftRange),
    /// Released, because no more could be reserved.
    Released,
}

/// Bytes of the arena that belong to one draft alone.
struct DraftRange {
    pin: Pin,
    /// Where the item's space begins.
    offset: usize,
    /// Bytes between `offset` and the value: header and key, which are written at the commit.
    prefix_bytes: usize,
    value_bytes: usize,
}

impl Draft {
    /// Length of the value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Whether all its memory is reserved.
    #[inline]
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        matches!(self.memory, DraftMemory::Reserved(_))
    }

    /// Takes the next step towards its memory, if some is missing: for about a millisecond.
    ///
    /// # Errors
    /// As [`Cache::reserve`]; then everything that was reserved is released, and the draft is of no
    /// further use.
    pub fn extend_reservation(&mut self, cache: &Cache) -> Result<(), Error> {
        let DraftMemory::Reserving(reservation) = &mut self.memory else {
            return Ok(());
        };
        let now = cache.now();
        match cache.enlarge(reservation, now) {
            Ok(None) => {}
            Ok(Some(extent)) => {
                let number = reservation.number();
                let mut shard = cache.shards[number].lock_beside_claims();
                let range = shard.draft_in(&extent, self.key.len(), self.value_bytes, now);
                drop(shard);
                self.memory = DraftMemory::Reserved(range);
            }
            Err(error) => {
                self.memory = DraftMemory::Released;
                self.part = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Bytes of the value that were received.
    #[must_use]
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// Whether all bytes of the value were received.
    #[inline]
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.received_bytes == self.value_bytes
    }

    /// The memory for the next bytes; empty when the value is complete.
    ///
    /// # Panics
    /// If not all memory is reserved.
    pub fn buffer(&mut self) -> &mut [u8] {
        let received_bytes = self.received_bytes;
        &mut self.value_mut()[received_bytes..]
    }

    /// Records that the first `bytes` of [`Draft::buffer`] are filled.
    ///
    /// # Panics
    /// If that is more than the buffer holds.
    pub fn advance(&mut self, bytes: usize) {
        let missing_bytes = self.value_bytes - self.received_bytes;
        assert!(
            bytes <= missing_bytes,
            "more was received than the value has"
        );
        self.received_bytes += bytes;
    }

    /// Receives what it can from `input`; returns how many bytes that was.
    ///
    /// # Panics
    /// If not all memory is reserved.
    pub fn fill_from(&mut self, input: &[u8]) -> usize {
        let buffer = self.buffer();
        let bytes = buffer.len().min(input.len());
        buffer[..bytes].copy_from_slice(&input[..bytes]);
        self.advance(bytes);
        bytes
    }

    /// The whole value, to be made in place; bytes that were not written are unspecified.
    ///
    /// # Panics
    /// If not all memory is reserved.
    pub fn value_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            DraftMemory::Reserved(range) => range.value_mut(),
            _ => panic!("a value is written when its memory is reserved"),
        }
    }
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft")
            .field("value_bytes", &self.value_bytes)
            .field("is_reserved", &self.is_reserved())
            .field("received_bytes", &self.received_bytes)
            .finish_non_exhaustive()
    }
}

impl DraftRange {
    /// A range that the shard, under its lock, has reserved for one draft alone.
    fn new(pin: Pin, offset: usize, prefix_bytes: usize, value_bytes: usize) -> DraftRange {
        let end = offset + prefix_bytes + value_bytes;
        assert!(end <= pin.arena().region().bytes(), "outside the arena");
        DraftRange {
            pin,
            offset,
            prefix_bytes,
            value_bytes,
        }
    }

    fn value_mut(&mut self) -> &mut [u8] {
        // SAFETY: inside the arena by the assert in `new`; the range belongs to this draft alone,
        // and `&mut self` makes the borrow exclusive.
        unsafe {
            let base = self.pin.arena().region().base();
            let start = base.add(self.offset + self.prefix_bytes);
            std::slice::from_raw_parts_mut(start, self.value_bytes)
        }
    }
}

impl Cache {
    /// Memory for a value of `value_bytes` that is not complete yet, so that large values need no
    /// other buffer. Takes all the steps of [`Cache::reserve`] at once.
    ///
    /// # Errors
    /// As [`Cache::reserve`].
    pub fn draft(&self, key: Key<'_>, value_bytes: usize) -> Result<Draft, Error> {
        let mut draft = self.reserve(key, value_bytes)?;
        while !draft.is_reserved() {
            draft.extend_reservation(self)?;
        }
        Ok(draft)
    }

    /// Begins to reserve memory for a value of `value_bytes` that is not complete yet: for about a
    /// millisecond, or all of it for a short value. [`Draft::extend_reservation`] takes the next
    /// steps; between two of them other threads store, read and evict.
    ///
    /// # Errors
    /// As [`Cache::set`]; [`Error::Busy`] also if this draft and others would hold more than half
    /// of the memory, [`Error::Full`] at once if the value's space never has so much.
    pub fn reserve(&self, key: Key<'_>, value_bytes: usize) -> Result<Draft, Error> {
        self.begin(key, value_bytes, false)
    }

    /// As [`Cache::reserve`] for a caller that can do without: a failure is not counted as a
    /// refusal.
    ///
    /// # Errors
    /// As [`Cache::reserve`].
    pub fn try_reserve(&self, key: Key<'_>, value_bytes: usize) -> Result<Draft, Error> {
        self.begin(key, value_bytes, true)
    }

    fn begin(&self, key: Key<'_>, value_bytes: usize, is_trial: bool) -> Result<Draft, Error> {
        self.shards
            .memory()
            .check_value(value_bytes, Config::VALUE_BYTES_LIMIT)?;
        let part = self.drafts.take(value_bytes).ok_or(Error::Busy)?;
        let segment_bytes = 1 << self.shards.cell(key).arena.segment_shift();
        let item_bytes = HEADER_BYTES_MAX + key.bytes().len() + value_bytes;
        let memory = if is_better_off_alone(item_bytes, segment_bytes) {
            let reservation = self.reservation(key, value_bytes, is_trial)?;
            DraftMemory::Reserving(Box::new(reservation))
        } else {
            DraftMemory::Reserved(self.write_with_room(
                key,
                || value_bytes,
                |shard, now| shard.draft(key, value_bytes, now),
            )?)
        };
        let mut draft = Draft {
            key: key.bytes().into(),
            space: key.space(),
            value_bytes,
            received_bytes: 0,
            memory,
            part: Some(part),
        };
        draft.extend_reservation(self)?;
        Ok(draft)
    }

    /// Stores a value that was received or made, if the condition holds; otherwise its memory is
    /// released.
    ///
    /// # Errors
    /// As [`Cache::set`].
    ///
    /// # Panics
    /// If not all its memory is reserved.
    pub fn commit(&self, mut draft: Draft, options: &SetOptions) -> Result<Stored, Error> {
        let DraftMemory::Reserved(range) = &mut draft.memory else {
            panic!("a value is stored when its memory is reserved");
        };
        let key = self.key_in(draft.space, &draft.key)?;
        self.shards
            .write(key, |shard, now| shard.commit(key, range, options, now))
    }
}

impl Shard {
    /// Space for a value that is still being received.
    fn draft(
        &mut self,
        key: Key<'_>,
        value_bytes: usize,
        now: Instant,
    ) -> Result<DraftRange, Error> {
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
        Ok(self.range_at(room, prefix_bytes, value_bytes))
    }

    /// A draft in an extent that was made for it.
    fn draft_in(
        &mut self,
        extent: &Pin,
        key_bytes: usize,
        value_bytes: usize,
        now: Instant,
    ) -> DraftRange {
        let prefix_bytes = HEADER_BYTES_MAX + key_bytes;
        let bytes = prefix_bytes + value_bytes;
        let room = self.store.end_extent(extent, bytes, now);
        self.store.write_draft(room, bytes);
        // The extent's space was reclaimed before, so nothing is added to `due_bytes`.
        self.range_at(room, prefix_bytes, value_bytes)
    }

    fn range_at(&self, room: Room, prefix_bytes: usize, value_bytes: usize) -> DraftRange {
        let pin = Pin::on(self.store.log().arena(), room.segment);
        DraftRange::new(pin, room.offset, prefix_bytes, value_bytes)
    }

    /// Stores a received value if the condition holds.
    fn commit(
        &mut self,
        key: Key<'_>,
        range: &mut DraftRange,
        options: &SetOptions,
        now: Instant,
    ) -> Result<Stored, Error> {
        let segment = self.store.log().segment(range.pin.segment());
        let is_flushed = self.store.tally.is_flushed(segment.flushed, key.space());
        if is_flushed || !segment.accepts(options.deadline) {
            return self.set_anywhere(key, Hint::Unknown, range.value_mut(), options, now);
        }
        let old = self.store.find(key, now);
        let spec = match self.decide(key, range.value_bytes, old.as_ref(), options, now) {
            Ok(spec) => spec,
            Err(refused) => return Ok(refused),
        };
        let room = Room {
            segment: range.pin.segment(),
            offset: range.offset,
        };
        let room_bytes = range.prefix_bytes + range.value_bytes;
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
