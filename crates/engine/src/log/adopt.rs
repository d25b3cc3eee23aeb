//! Adopt: segments that another process has filled and that this process continues with.
//!
//! After a clean stop the log reads its whole state as the other process serialized it. The arena's
//! own tables (deadline encodings, young segments, pins) are derived from that again.
//!
//! After a kill, the log reserves the memory of each segment to which entries of the index lead.
//! A segment whose items have been checked is adopted: it is sealed, at its place in the order in
//! which segments were opened. The bytes between the known items become holes.
//!
//! Invariant: the log takes the memory of all these segments from its own budget.
//! Why: docs/decisions/0058, 0085. Tests: tests/restart.rs, tests/unchecked.rs.

use super::{Log, TABLE_ENTRY_BYTES, TOUCH_BYTES, extent_bytes};
use crate::base::serialize::{Deserializer, Serialize, Serializer};
use crate::log::item::{self, Layout};
use crate::log::metadata::SegmentMetadata;
use crate::log::segment::{Flushed, HISTOGRAM_BYTES, Queue, Segment, Use};
use crate::memory::arena::Pin;

impl Log {
    /// Records a segment that was opened, before any entry leads to an item of it.
    pub(super) fn record_opened(&mut self, number: u32) {
        if !self.metadata.is_persistent() {
            return;
        }
        self.opened += 1;
        let segment = self.segment(number);
        let recorded = SegmentMetadata {
            encoding: segment.encoding(),
            queue: segment.queue,
            room_bytes: segment.room_bytes(),
            order: self.opened,
            flushed: Flushed::None,
        };
        self.metadata.open(number, &recorded);
    }

    /// Whether there is memory for the beginning of a fresh segment, and in it for an item of about
    /// `item_bytes`: if the file system has no space for it, the segment is useless, and the caller
    /// reclaims space otherwise.
    pub(super) fn can_begin(&self, segment: u32, item_bytes: usize) -> bool {
        let region = self.arena.region();
        // As much again as `take_room` touches behind an item, for what its header may differ by.
        let bytes = (item_bytes + 2 * TOUCH_BYTES).min(self.segment_bytes());
        !region.is_shared() || region.populate(self.start_of(segment), bytes)
    }

    /// Whether all memory of a segment is there, which its budget alone does not say where it is a
    /// file's.
    pub(super) fn is_resident(&self, segment: u32) -> bool {
        let region = self.arena.region();
        let room_bytes = self.segment(segment).room_bytes();
        !region.is_shared() || region.populate(self.start_of(segment), room_bytes)
    }

    /// The metadata of a segment, if it is plausible.
    pub(crate) fn recorded(&self, segment: u32) -> Option<SegmentMetadata> {
        if segment as usize >= self.arena.segments().min(self.metadata.segments_max()) {
            return None;
        }
        let recorded = self.metadata.segment(segment)?;
        let is_whole = recorded.room_bytes == self.segment_bytes()
            || recorded.room_bytes == extent_bytes(recorded.room_bytes, self.segment_bytes());
        let end = self.start_of(segment).checked_add(recorded.room_bytes)?;
        let is_inside = end <= self.arena.region().bytes();
        let is_known = u32::try_from(recorded.room_bytes).is_ok();
        (is_whole && is_inside && is_known).then_some(recorded)
    }

    /// Sees to it that the memory of a recorded segment and of its checksums is there: to read what
    /// is not would take it.
    pub(crate) fn has_memory(&self, segment: u32, recorded: &SegmentMetadata) -> bool {
        let start = self.start_of(segment);
        let span = recorded.room_bytes.div_ceil(self.segment_bytes());
        self.metadata.reach(segment as usize + span)
            && self.arena.region().populate(start, recorded.room_bytes)
    }

    /// Takes the memory of a segment whose items are not checked yet; `false` if the budget does
    /// not have it, or if another segment has a part of it.
    pub(crate) fn reserve(&mut self, number: u32, recorded: &SegmentMetadata) -> bool {
        let room_bytes = recorded.room_bytes;
        let span = room_bytes.div_ceil(self.segment_bytes());
        let len = number as usize + span;
        let more = len.saturating_sub(self.segments.len());
        let known = self.segments.iter().take(len).skip(number as usize);
        // Part of another extent, if the marks are none of ours.
        if known.into_iter().any(|segment| segment.used != Use::Unused) {
            return false;
        }
        let beside = more * TABLE_ENTRY_BYTES;
        if len > self.arena.segments() || !self.metadata.reach(len) {
            return false;
        }
        if !self.budget().take(beside) {
            return false;
        }
        self.share.set_in_need(true);
        let is_taken = self.share.take(room_bytes);
        self.share.set_in_need(false);
        if !is_taken {
            self.budget().give(beside);
            return false;
        }
        let known = self.segments.len();
        self.segments.resize(known + more, Segment::unused());
        let (queue, encoding) = (recorded.queue, recorded.encoding);
        self.segments[number as usize] =
            Segment::of(Use::Unchecked, queue, encoding, self.horizon, room_bytes);
        for continued in number as usize + 1..len {
            self.segments[continued].used = Use::Continued;
        }
        self.resident_bytes += room_bytes;
        self.queue_bytes[queue as usize] += room_bytes;
        self.opened = self.opened.max(recorded.order);
        true
    }

    /// Whether the items of a segment are not checked yet.
    #[inline]
    pub(crate) fn is_unchecked(&self, segment: u32) -> bool {
        let segment = self.segments.get(segment as usize);
        segment.is_some_and(|segment| segment.used == Use::Unchecked)
    }

    /// Pays for the histogram that a segment may need when it is adopted; `false` if the budget
    /// does not have it.
    pub(crate) fn reserve_histogram(&mut self) -> bool {
        self.budget().take(HISTOGRAM_BYTES)
    }

    /// Releases the memory reserved for a histogram that is not needed.
    pub(crate) fn give_back_reserved_histogram(&mut self) {
        self.budget().give(HISTOGRAM_BYTES);
    }

    /// Seals a reserved segment, still without items, at its place in its queue; its histogram, if
    /// it has one, is paid for.
    pub(crate) fn adopt(&mut self, number: u32, recorded: &SegmentMetadata, is_timed: bool) {
        let mut segment = Segment::of(
            Use::Sealed,
            recorded.queue,
            recorded.encoding,
            self.horizon,
            recorded.room_bytes,
        );
        segment.flushed = recorded.flushed;
        if is_timed {
            segment.add_histogram();
            self.histogram_bytes += HISTOGRAM_BYTES;
        }
        self.segments[number as usize] = segment;
        let is_read_alone = self.is_extent(number) || recorded.flushed != Flushed::None;
        let encoding = (!is_read_alone).then_some(recorded.encoding);
        self.arena.open_to_readers(number, encoding);
        let metadata = &self.metadata;
        let is_before = |one: &u32| {
            let known = metadata.segment(*one);
            known.is_some_and(|known| known.order < recorded.order)
        };
        let sealed = &mut self.sealed[recorded.queue as usize];
        let position = sealed.partition_point(is_before);
        sealed.insert(position, number);
    }

    /// The order of the segment of a queue that was sealed first.
    pub(crate) fn first_order(&self, queue: Queue) -> Option<u64> {
        let first = self.sealed(queue).front()?;
        self.metadata.segment(*first).map(|known| known.order)
    }

    /// Counts the next item of an adopted segment as live; what lies before it is a hole.
    pub(crate) fn adopt_item(&mut self, number: u32, layout: &Layout) {
        let start = self.start_of(number);
        let bytes = layout.total_bytes();
        let segment = &mut self.segments[number as usize];
        let end = start + segment.written_bytes();
        let hole = layout.offset - end;
        // No stamp: about when it was stored, the segment's base says.
        let second = segment.encoding().base_ms / 1000;
        segment.write(hole + bytes, second);
        segment.count(bytes, layout.deadline);
        if hole > 0 {
            segment.change_holes(hole, 0);
            self.write(end, item::hole(hole).bytes());
        }
    }

    /// Gives all memory of the arena back that is no segment's, when all segments with items are
    /// reserved.
    pub(crate) fn release_unreserved(&mut self) {
        let mut free_from = 0;
        let region = self.arena.region();
        for (number, segment) in self.segments.iter().enumerate() {
            if segment.used == Use::Unchecked {
                let start = number << self.arena.segment_shift();
                region.release(free_from, start - free_from);
                free_from = start + segment.room_bytes();
            }
        }
        region.release(free_from, region.bytes() - free_from);
    }
}

impl Log {
    /// Whether nothing is half done outside of the shard's lock.
    pub(crate) fn is_quiescent(&self) -> bool {
        let is_moving = |segment: &Segment| segment.used == Use::InTransit;
        self.growing_huge.is_none() && !self.segments.iter().any(is_moving)
    }

    /// Serializes its state.
    pub(crate) fn serialize(&self, out: &mut Serializer) {
        self.segments.serialize(out);
        let pinned = (0..).zip(&self.segments).map(|(number, _)| number);
        let pinned: Vec<u32> = pinned.filter(|&number| self.is_pinned(number)).collect();
        pinned.serialize(out);
        (self.resident_bytes, self.histogram_bytes).serialize(out);
        self.share.serialize(out);
        self.free.serialize(out);
        self.free_low.serialize(out);
        self.draining.serialize(out);
        self.partial.serialize(out);
        self.open.serialize(out);
        self.touched.serialize(out);
        self.recent.serialize(out);
        self.sealed.serialize(out);
        self.queue_bytes.serialize(out);
        self.buried_bytes.serialize(out);
        self.horizon.serialize(out);
        self.young.serialize(out);
        (self.unused_from, self.grew_at).serialize(out);
        (self.surplus, self.surplus_known_until).serialize(out);
        (self.compaction_reserve, self.opened).serialize(out);
    }

    /// Goes on with what another log wrote down over the same memory; the segments in which that
    /// one's process still reads, held as long as these pins are.
    pub(crate) fn restore(&mut self, from: &mut Deserializer<'_>) -> Option<Vec<Pin>> {
        let segments = Vec::<Segment>::deserialize(from)?;
        let pinned = Vec::<u32>::deserialize(from)?;
        if segments.len() > self.arena.segments() || !self.metadata.reach(segments.len()) {
            return None;
        }
        self.segments.extend(segments);
        (self.resident_bytes, self.histogram_bytes) = Serialize::deserialize(from)?;
        let beside = self.segments.len() * TABLE_ENTRY_BYTES + self.histogram_bytes;
        if !self.budget().take(self.resident_bytes.checked_add(beside)?) {
            return None;
        }
        self.share.restore(from)?;
        self.free = Serialize::deserialize(from)?;
        self.free_low = Serialize::deserialize(from)?;
        self.draining = Serialize::deserialize(from)?;
        self.partial = Serialize::deserialize(from)?;
        self.open = Serialize::deserialize(from)?;
        self.touched = Serialize::deserialize(from)?;
        self.recent = Serialize::deserialize(from)?;
        self.sealed = Serialize::deserialize(from)?;
        self.queue_bytes = Serialize::deserialize(from)?;
        self.buried_bytes = Serialize::deserialize(from)?;
        self.horizon = Serialize::deserialize(from)?;
        self.young = Serialize::deserialize(from)?;
        (self.unused_from, self.grew_at) = Serialize::deserialize(from)?;
        (self.surplus, self.surplus_known_until) = Serialize::deserialize(from)?;
        (self.compaction_reserve, self.opened) = Serialize::deserialize(from)?;
        if !self.is_quiescent() || !self.all_are_known(&pinned) {
            return None;
        }
        self.tell_readers();
        let pins = pinned.into_iter();
        Some(pins.map(|number| Pin::on(&self.arena, number)).collect())
    }

    /// Whether every segment that is named has an entry in the table.
    fn all_are_known(&self, pinned: &[u32]) -> bool {
        let lists = self.free.iter().chain(&self.draining).chain(&self.partial);
        let queues = self.in_use_numbers().chain(&self.young).chain(pinned);
        lists
            .chain(queues)
            .all(|&number| (number as usize) < self.segments.len())
    }

    fn in_use_numbers(&self) -> impl Iterator<Item = &u32> {
        let open = self.open.iter().flatten();
        open.chain(self.sealed.iter().flatten())
    }

    /// Has the arena know what readers without the lock ask it.
    fn tell_readers(&self) {
        for &number in self.in_use_numbers() {
            let segment = self.segment(number);
            let is_read_alone = self.is_extent(number) || segment.flushed != Flushed::None;
            let encoding = (!is_read_alone).then(|| segment.encoding());
            self.arena.open_to_readers(number, encoding);
        }
        for &number in &self.young {
            self.arena.set_young(number, true);
        }
    }
}
