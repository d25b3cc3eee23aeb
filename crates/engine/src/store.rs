//! Store: keeps index and log consistent.
//!
//! Every entry of the index points to one live item of the log and every live item has one entry.
//! All code that adds, moves or removes items goes through here, because only this module changes
//! index and log; its children have the methods that eviction, background maintenance, listings
//! and sums need. Client operations are in `shard.rs`, eviction in `evict.rs`, expiration in
//! `expire.rs`.
//!
//! Tests: tests/model.rs.

pub(crate) mod tally; // how many items each space has in a shard, and which spaces are retired
mod facts;
mod counting; // which deadlines come near
mod listing;
mod packing; // values that are compressed
mod memory; // how the index grows, which pages are touched and given back
mod flush;
mod reclaim;
mod bulk_unlink; // many items at once, by whole segments
mod drafts; // values that are still being received
mod sums; // checksums of its memory, where that outlives the process
mod unchecked; // items of a killed process, which are checked while others are served
mod rebuild; // restores a store from the memory of another process
mod no_eviction; // differences in the store of a no-eviction partition
mod in_place; // items that are written over where they lie
mod grow; // values that are edited, and grow, where they lie
mod audit; // exact contents, counted entry by entry

pub use self::audit::{Audit, Inconsistency};
pub(crate) use self::listing::LoadedAhead;
pub(crate) use self::packing::{Form, HOT_READS, Packing};
pub(crate) use self::reclaim::LoadedEntry;
use self::tally::Tally;
pub(crate) use self::{audit::equal, sums::SumBudget};
use self::{counting::Counting, sums::Sums};
pub(crate) use self::{unchecked::CheckProgress, unchecked::Rebuilt};

use crate::base::clock::{Deadline, Instant};
use crate::base::error::Error;
use crate::deadlines::deadline_encoding::DeadlineEncoding;
use crate::deadlines::timer_wheel::WheelPosition;
use crate::index::{Index, SlotRef};
use crate::interface::observer::{Happened, Report};
use crate::interface::options::{End, Splice};
use crate::interface::outcome::Item;
use crate::interface::stats::ReclaimLag;
use crate::key::{Hasher, Key};
use crate::log::item::{self, Entry, Layout, Patch, Spec};
use crate::log::segment::{Flushed, Stream};
use crate::log::{Log, Room};
use crate::memory::arena::Pinner;
use crate::memory::table::Candidate;

/// Counts of what happened to items, since the shard was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) stored: u64,
    pub(crate) evicted: u64,
    pub(crate) evicted_unfetched: u64,
    pub(crate) evicted_bytes: u64,
    pub(crate) expired: u64,
    pub(crate) expired_unfetched: u64,
    pub(crate) misses_expired: u64,
    pub(crate) misses_flushed: u64,
    pub(crate) copied: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) segments_freed: u64,
    pub(crate) dead_at_eviction_max_ppm: u64,
    pub(crate) reclaim_lag: ReclaimLag,
    pub(crate) refused: u64,
}

/// How a deadline is written in an extent that is made at `now`: any later one fits as well.
pub(crate) fn extent_encoding(now: Instant) -> DeadlineEncoding {
    DeadlineEncoding::new(now.0, 5)
}

/// Where an item's new value comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// The caller's bytes.
    Bytes(&'a [u8]),
    /// The old value, unchanged.
    Old,
    /// The old value with the caller's bytes at one end.
    Extended(End, &'a [u8]),
    /// The old value, or none, made longer with zeros, with parts of the caller's bytes over it.
    Edited(&'a [Splice], &'a [u8]),
}

/// A live item and its entry; good until the store next changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub(crate) slot: SlotRef,
    pub(crate) layout: Layout,
    pub(crate) segment: u32,
}

/// One shard's items.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Store {
    index: Index,
    log: Log,
    hasher: Hasher,
    pub(crate) counts: Counts,
    pub(crate) report: Report,
    pub(crate) tally: Tally,
    /// The bucket that is purged next.
    purge_at: usize,
    counting: Counting,
    sums: Sums,
    /// When it looks again whether very much has died at once.
    no_bulk_unlink_until: Instant,
    /// Whether nothing may be evicted.
    never_evicts: bool,
    /// Items that a killed process left and that are not checked; none in any other store.
    unchecked: Option<Box<unchecked::Unchecked>>,
    packing: Packing,
}

impl Store {
    pub(crate) fn new(index: Index, log: Log, hasher: Hasher, report: Report) -> Store {
        Store {
            index,
            log,
            hasher,
            counts: Counts::default(),
            report,
            tally: Tally::new(WheelPosition::new()),
            counting: Counting::default(),
            sums: Sums::default(),
            no_bulk_unlink_until: Instant(0),
            purge_at: 0,
            never_evicts: false,
            unchecked: None,
            packing: Packing::default(),
        }
    }

    /// How keys are found. Only the store changes it.
    #[inline]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Where the items lie. Only the store changes it.
    #[inline]
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Stored items, including expired ones that were not found yet.
    pub(crate) fn items(&self) -> usize {
        self.index.items() - self.tally.flushed() - self.unchecked_items()
    }

    /// The same, including unchecked items.
    pub(crate) fn all_items(&self) -> usize {
        self.items() + self.unchecked_items()
    }

    /// Items whose time is not over at `now`, to a quarter of a second.
    pub(crate) fn live_items(&self, now: Instant) -> u64 {
        (self.items() as u64).saturating_sub(self.tally.over(now))
    }

    /// Bytes of memory for each item, about.
    pub(crate) fn mean_item_bytes(&self) -> usize {
        self.log.resident_bytes() / self.all_items().max(1)
    }

    /// The item of `key`, over or not, if it lies where a candidate points to and has none of the
    /// rare fields.
    #[inline(always)]
    pub(crate) fn plain_at(&self, key: Key<'_>, candidate: Candidate) -> Option<Located> {
        if self.has_unchecked() || !self.index.table().is_still(candidate) {
            return None;
        }
        let layout = self.log.read_plain(candidate.offset())?;
        if layout.key_word != key.word() || !self.log.arena().are_at(layout.key_at, key.bytes()) {
            return None;
        }
        Some(self.located(SlotRef::of(candidate), layout))
    }

    /// Finds the item of `key`, whether it has expired or not.
    #[inline]
    pub(crate) fn find_stored(&mut self, key: Key<'_>, now: Instant) -> Option<Located> {
        if self.has_unchecked() {
            self.check_hash(key.hash(), now);
        }
        let mut found = None;
        let slot = self.index.find(key.hash(), |offset| {
            found = self.layout_of(key, offset);
            found.is_some()
        })?;
        Some(self.located(slot, found.expect("the slot was found by this layout")))
    }

    /// The layout of the item at `offset`, if it is the one of `key`.
    #[inline]
    fn layout_of(&self, key: Key<'_>, offset: usize) -> Option<Layout> {
        match self.log.read(offset) {
            Entry::Item(layout)
                if layout.key_word == key.word()
                    && self.log.arena().are_at(layout.key_at, key.bytes())
                    && (!layout.is_packed() || self.is_sound(&layout)) =>
            {
                Some(layout)
            }
            _ => None,
        }
    }

    #[inline]
    fn located(&self, slot: SlotRef, layout: Layout) -> Located {
        let segment = self.log.segment_of(layout.offset);
        Located {
            slot,
            layout,
            segment,
        }
    }

    /// Whether the item was flushed: with all others, or with its space.
    #[inline]
    pub(crate) fn is_flushed(&self, located: &Located) -> bool {
        self.is_flushed_at(&located.layout, located.segment)
    }

    /// The same of an item that need not have an entry.
    #[inline]
    pub(crate) fn is_flushed_at(&self, layout: &Layout, segment: u32) -> bool {
        let flushed = self.log.segment(segment).flushed;
        let is_plain = (flushed == Flushed::None) & !layout.has_space_field();
        !is_plain && self.tally.is_flushed(flushed, layout.space())
    }

    /// Takes an item out of the counts of items and spaces.
    fn uncount(&mut self, layout: &Layout, segment: u32) {
        let space = layout.space();
        let is_flushed = self.is_flushed_at(layout, segment);
        let segment = self.log.segment(segment);
        match is_flushed {
            false => self.tally.take(space, segment.due(layout.deadline)),
            true => self.tally.take_flushed(space, segment.flushed),
        }
    }

    /// The item with its value as it is stored; readers see it by [`Store::with_item`].
    #[inline]
    fn item(&self, located: &Located) -> Item<'_> {
        let arena = self.log.arena();
        Item {
            value: self
                .log
                .bytes(located.layout.value_at(), located.layout.value_bytes),
            kind: located.layout.kind(arena),
            flags: located.layout.flags(arena),
            deadline: located.layout.deadline,
            pinner: Pinner::Segment(arena, located.segment),
        }
    }

    /// The item's key in its space, hashed.
    fn hashed_key_of(&self, layout: &Layout) -> Key<'_> {
        let space = layout.space();
        self.hasher.known(space, self.key_of(layout))
    }

    /// The item's key.
    fn key_of(&self, layout: &Layout) -> &[u8] {
        self.log.bytes(layout.key_at, layout.key_bytes())
    }

    /// The item at an entry, read again.
    pub(crate) fn located_at(&self, slot: SlotRef) -> Located {
        let offset = self.index.offset(slot);
        let Entry::Item(layout) = self.log.read(offset) else {
            unreachable!("an entry of the index points to an item")
        };
        self.located(slot, layout)
    }

    /// Removes an item and turns its bytes into a hole.
    pub(crate) fn remove(&mut self, located: &Located) {
        self.uncount(&located.layout, located.segment);
        // The entry first: a process that restores this memory must not take a hole for an item.
        self.index.remove(located.slot);
        self.log.bury(&located.layout);
    }

    /// Removes a live item because memory is needed.
    pub(crate) fn remove_evicted(&mut self, located: &Located) {
        self.counts.evicted += 1;
        self.counts.evicted_unfetched += u64::from(!self.index.is_fetched(located.slot));
        self.counts.evicted_bytes += located.layout.total_bytes() as u64;
        self.report_gone(located, Happened::Evicted);
        self.remove(located);
    }

    /// Writes header and key into reserved space; returns where everything lies.
    #[inline]
    fn write_front(&mut self, room: Room, spec: &Spec, key: &[u8]) -> Layout {
        let layout = self.write_header(room, spec);
        self.log.write(layout.key_at, key);
        layout
    }

    #[inline]
    fn write_header(&mut self, room: Room, spec: &Spec) -> Layout {
        let encoding = self.log.segment(room.segment).encoding();
        let Some((word, bytes)) = spec.short_header(encoding) else {
            return self.write_long_header(room, spec);
        };
        if bytes + spec.key_bytes >= 8 {
            // Eight bytes at once may reach into the key, which is written after, but never into
            // the value: a draft's value is in place already.
            self.log.write_word(room.offset, word);
        } else {
            self.log.write(room.offset, &word.to_le_bytes()[..bytes]);
        }
        Layout::of_short(spec, room.offset, bytes, encoding)
    }

    #[inline(never)]
    fn write_long_header(&mut self, room: Room, spec: &Spec) -> Layout {
        let header = spec.header(self.log.segment(room.segment).encoding());
        self.log.write(room.offset, header.bytes());
        match self.log.read(room.offset) {
            Entry::Item(layout) => layout,
            _ => unreachable!("an item was just written here"),
        }
    }

    /// Writes an item without rare fields at the end of a stream, and counts it as live; also its
    /// segment. `None`, and nothing has happened, if its header is not short or the stream's open
    /// segment has no room for it.
    #[inline(always)]
    pub(crate) fn append_plain(
        &mut self,
        stream: Stream,
        (key, value): (&[u8], &[u8]),
        deadline: Deadline,
        now: Instant,
    ) -> Option<(Layout, u32)> {
        let spec = Spec::plain(key.len(), value.len(), deadline);
        let encoding = self.log.open_encoding(stream, deadline)?;
        let (word, header_bytes) = spec.short_header(encoding)?;
        let front_bytes = header_bytes + key.len();
        let bytes = front_bytes + value.len();
        // See `write_header`.
        if front_bytes < 8 || self.log.wants_extent(bytes) {
            return None;
        }
        let room = self.log.take_room(stream, bytes, now)?;
        self.log.note_deadline(stream, deadline, now);
        self.log.write_word(room.offset, word);
        let layout = Layout::of_short(&spec, room.offset, header_bytes, encoding);
        self.log.write(layout.key_at, key);
        self.log.write(layout.value_at(), value);
        self.count_in(room.segment, &layout, &spec);
        Some((layout, room.segment))
    }

    /// Takes space for an item of `spec` without reclaiming anything; `None` if there is none.
    pub(crate) fn take_room(&mut self, stream: Stream, spec: &Spec, now: Instant) -> Option<Room> {
        self.log.note_deadline(stream, spec.deadline, now);
        self.take_room_of(
            stream,
            spec.deadline,
            |encoding| spec.total_bytes(encoding),
            now,
        )
    }

    /// Whether an item of `spec` is better off with an extent of its own.
    pub(crate) fn wants_extent(&self, spec: &Spec, now: Instant) -> bool {
        self.log
            .wants_extent(spec.total_bytes(extent_encoding(now)))
    }

    /// Takes room for as many bytes as `bytes_in` says of a segment for items with this deadline.
    pub(crate) fn take_room_of(
        &mut self,
        stream: Stream,
        deadline: Deadline,
        bytes_in: impl Fn(DeadlineEncoding) -> usize,
        now: Instant,
    ) -> Option<Room> {
        if let Some(encoding) = self.log.open_encoding(stream, deadline) {
            let bytes = bytes_in(encoding);
            if !self.log.wants_extent(bytes)
                && let Some(room) = self.log.take_room(stream, bytes, now)
            {
                return Some(room);
            }
        }
        let encoding = extent_encoding(now);
        let bytes = bytes_in(encoding);
        if self.log.wants_extent(bytes) {
            return self.log.take_extent(stream.queue, bytes, encoding, now);
        }
        if !self.log.roll(stream, deadline, bytes, now) {
            return None;
        }
        let encoding = self.log.open_encoding(stream, deadline)?;
        self.log.take_room(stream, bytes_in(encoding), now)
    }

    /// Writes an item's header and key, and counts it as live; the caller writes its value.
    pub(crate) fn write_item(&mut self, room: Room, spec: &Spec, key: &[u8]) -> Layout {
        let layout = self.write_front(room, spec, key);
        self.count_in(room.segment, &layout, spec);
        layout
    }

    /// Counts an item as live that was written.
    #[inline]
    fn count_in(&mut self, segment: u32, layout: &Layout, spec: &Spec) {
        let due = self.log.segment(segment).due(spec.deadline);
        self.tally.add(spec.space, due);
        self.log
            .count_item(segment, layout.total_bytes(), spec.deadline);
    }

    /// Fills a newly written item's value.
    pub(crate) fn fill(&mut self, layout: &Layout, old: Option<&Located>, content: Content<'_>) {
        let to = layout.value_at();
        let old = old.map(|old| (old.layout.value_at(), old.layout.value_bytes));
        match (content, old) {
            (Content::Bytes(value), _) => self.log.write(to, value),
            (Content::Old, Some((from, len))) => {
                self.log.copy(from, to, len);
                if layout.is_packed() {
                    self.mark_packed(self.log.segment_of(to), to);
                }
            }
            (Content::Extended(End::Back, bytes), Some((from, len))) => {
                self.log.copy(from, to, len);
                self.log.write(to + len, bytes);
            }
            (Content::Extended(End::Front, bytes), Some((from, len))) => {
                self.log.write(to, bytes);
                self.log.copy(from, to + bytes.len(), len);
            }
            (Content::Edited(parts, bytes), old) => {
                let kept = old.map_or(0, |(from, len)| {
                    self.log.copy(from, to, len);
                    len
                });
                self.zero(to + kept, layout.value_bytes - kept);
                self.write_parts(layout, parts, bytes);
            }
            (_, None) => unreachable!("the old value was checked to be there"),
        }
    }

    /// Points the index to a newly written item and marks the old one as reclaimable.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no slot for it and nothing may be evicted; then the new item is
    /// removed again.
    pub(crate) fn link(
        &mut self,
        key: Key<'_>,
        old: Option<&Located>,
        new: &Layout,
        now: Instant,
    ) -> Result<SlotRef, Error> {
        if let Some(old) = old {
            let frequency = self.frequency(old);
            self.replace(old, new, frequency);
            return Ok(old.slot);
        }
        match self.add_entry(key.hash(), new.offset, now) {
            Some(slot) => Ok(slot),
            None => Err(self.take_back(key.space(), new)),
        }
    }

    /// Points the old entry at the item's new offset and marks the old bytes as reclaimable.
    fn replace(&mut self, old: &Located, new: &Layout, frequency: u8) {
        self.uncount(&old.layout, old.segment);
        // In this order one of the two is whole at any time.
        self.index.relocate(old.slot, new.offset, frequency);
        self.log.bury(&old.layout);
    }

    /// Copies a live item to the end of a stream; `false` if there is no space without reclaiming.
    pub(crate) fn move_to(
        &mut self,
        located: &Located,
        stream: Stream,
        frequency: u8,
        form: Form,
        now: Instant,
    ) -> bool {
        let spec = located.layout.spec(self.log.arena());
        let packed = match form {
            Form::Kept => None,
            Form::Packed => self.pack_moved(located, &spec),
        };
        let spec = packed.unwrap_or(spec);
        let compaction_reserve = self.log.set_compaction_reserve(0);
        let room = self.take_room(stream, &spec, now);
        self.log.set_compaction_reserve(compaction_reserve);
        let Some(room) = room else {
            return false;
        };
        let old = located.layout;
        let new = self.write_header(room, &spec);
        if packed.is_some() {
            self.log.copy(old.key_at, new.key_at, old.key_bytes());
            self.log.write(new.value_at(), self.packing.packed());
        } else {
            let bytes = old.key_bytes() + old.value_bytes;
            self.log.copy(old.key_at, new.key_at, bytes);
        }
        if new.is_packed() {
            self.mark_packed(room.segment, new.value_at());
        }
        self.count_in(room.segment, &new, &spec);
        self.replace(located, &new, frequency);
        self.counts.copied += 1;
        self.counts.copied_bytes += old.total_bytes() as u64;
        true
    }

    /// Turns space that was taken but will not be used into a hole.
    pub(crate) fn waste_room(&mut self, room: Room, bytes: usize) {
        self.log.write(room.offset, item::hole(bytes).bytes());
        self.log.segment_mut(room.segment).change_holes(bytes, 0);
    }

    /// Changes the header of an item from `before` to `after`, of which version, access, lease and
    /// deadline may differ; `None`, and nothing has changed, if the header has no space for that.
    pub(crate) fn amend(
        &mut self,
        located: &Located,
        before: &Spec,
        after: &Spec,
    ) -> Option<Located> {
        if (before.version, before.access_s) != (after.version, after.access_s) {
            return None;
        }
        let lease = if before.lease == after.lease {
            None
        } else {
            Some(located.layout.patch_lease(after.lease)?)
        };
        let is_kept = before.deadline == after.deadline;
        let is_done = self.in_place(located, |store| {
            let is_done = is_kept || store.set_deadline(located, after.deadline);
            if let Some(lease) = lease.filter(|_| is_done) {
                store.patch(&lease);
            }
            is_done
        });
        if !is_done {
            return None;
        }
        Some(self.located_at(located.slot))
    }

    /// Gives an item another deadline where it lies; `false` if it does not fit there.
    pub(crate) fn retime(&mut self, located: &Located, deadline: Deadline) -> bool {
        self.in_place(located, |store| store.set_deadline(located, deadline))
    }

    /// Changes bytes of an item in place: until that is done, the item is doubtful for a process
    /// that restores this memory.
    #[inline]
    pub(crate) fn in_place<R>(
        &mut self,
        located: &Located,
        change: impl FnOnce(&mut Store) -> R,
    ) -> R {
        self.log.metadata().begin_change(located.layout.offset);
        let result = change(self);
        self.log.metadata().end_change();
        result
    }

    /// As [`Store::retime`], as a part of a change in place.
    fn set_deadline(&mut self, located: &Located, deadline: Deadline) -> bool {
        let segment = self.log.segment(located.segment);
        let patch = located.layout.patch_deadline(deadline, segment.encoding());
        let Some(patch) = patch.filter(|_| segment.accepts(deadline)) else {
            return false;
        };
        let bytes = located.layout.total_bytes();
        self.log
            .uncount_item(located.segment, bytes, located.layout.deadline);
        self.patch(&patch);
        self.log.count_item(located.segment, bytes, deadline);
        let segment = self.log.segment(located.segment);
        let (before, after) = (segment.due(located.layout.deadline), segment.due(deadline));
        self.tally.retime(located.layout.space(), before, after);
        true
    }

    /// Counts a use of the item: for eviction, and its last access if that is recorded.
    #[inline]
    pub(crate) fn mark_used(&mut self, located: &Located, now: Instant) {
        let counts = || !self.log.arena().is_young(located.layout.offset);
        self.index.mark_used(located.slot, counts);
        if located.layout.is_extended()
            && let Some(patch) = located.layout.patch_access((now.0 / 1000) as u32)
        {
            self.patch(&patch);
        }
    }

    /// Forgets that the item was fetched and used: it holds a new value.
    pub(crate) fn reset_fetched(&mut self, slot: SlotRef) {
        self.index.reset_fetched(slot);
    }

    /// Turns the timer wheels to `now`, and goes through one segment for deadlines that have come
    /// near; whether others are still to be looked at.
    pub(crate) fn count_deadlines(&mut self, now: Instant) -> bool {
        self.counting.step(&mut self.log, &mut self.tally, now)
    }

    /// Computes missing checksums, from where the last call ended; returns whether it reached the
    /// last segment.
    pub(crate) fn make_sums(&mut self, budget: &mut SumBudget) -> bool {
        self.sums.make(&self.log, budget)
    }

    /// Whether all blocks that have a checksum agree with it. Cost: a look at every byte.
    pub(crate) fn agrees_with_sums(&self) -> bool {
        sums::agree(&self.log)
    }

    /// Changes header bytes of an item in place.
    fn patch(&mut self, patch: &Patch) {
        self.log.write(patch.at, patch.bytes());
    }
}
