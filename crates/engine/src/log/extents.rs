//! Extents: memory for a single item, as many adjacent segments as it needs.
//!
//! A small one is made and released at once. Touching 256 MiB takes a tenth of a second, and
//! releasing them a part of it, so a long one is made piece by piece by the operation that waits
//! for it, which pins it meanwhile, and is released piece by piece. So is an abandoned one. A few
//! empty extents keep their memory for the next long value: new memory costs three times as much as
//! writing the value. They go back when this log or another use needs memory, and when no value has
//! needed them for half a second.
//!
//! Invariant: a partial extent does not count in the memory that the logs share evenly.
//! Why: docs/decisions/0053. Tests: tests/room.rs.

use super::{Log, Room, TABLE_ENTRY_BYTES, extent_bytes, is_better_off_alone};
use crate::base::clock::Instant;
use crate::deadlines::deadline_encoding::DeadlineEncoding;
use crate::log::segment::{Queue, Segment, Use};
use crate::memory::Pledge;
use crate::memory::arena::Pin;

/// Bytes of an extent that are touched, or released to the system, in one call.
pub(crate) const PIECE_BYTES: usize = 2 << 20;
/// Segments that plain items may fill, in quarters of a log's share of memory: extents that may
/// grow are made behind these.
const PLAIN_QUARTERS: usize = 5;
/// Limits of empty extents that keep their memory: their number, and their part of a log's share of
/// memory.
const REUSE_EXTENTS_MAX: usize = 8;
const REUSE_SHARE: usize = 8;
/// How long an empty extent has to be unused before its memory is released.
const REUSE_MS: u64 = 500;

/// Extents that hold no item and still have memory.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    /// The one whose item left last, until that is looked at.
    pub(super) emptied: Option<u32>,
    /// The least bytes that they had together since the last look.
    low_bytes: usize,
    /// Bytes of them that were not used since the last check, and are to be released.
    idle_bytes: usize,
    /// When to look next.
    look_at: Instant,
}

impl Log {
    /// Whether an item of `bytes` is better off with an extent of its own.
    pub(crate) fn wants_extent(&self, bytes: usize) -> bool {
        is_better_off_alone(bytes, self.segment_bytes())
    }

    /// Bytes of memory of an extent for an item.
    pub(crate) fn extent_bytes(&self, bytes: usize) -> usize {
        extent_bytes(bytes, self.segment_bytes())
    }

    /// Whether the segment is an extent: holds one item and is not reused as a segment.
    pub(crate) fn is_extent(&self, segment: u32) -> bool {
        self.segment(segment).room_bytes() != self.segment_bytes()
    }

    /// Makes an extent for one item of `bytes`, sealed at once; `None` without budget or range.
    pub(crate) fn take_extent(
        &mut self,
        queue: Queue,
        bytes: usize,
        encoding: DeadlineEncoding,
        now: Instant,
    ) -> Option<Room> {
        let room_bytes = self.extent_bytes(bytes);
        if let Some(number) = self.take_empty(bytes) {
            self.partial.retain(|&partial| partial != number);
            self.share.count(room_bytes);
            return Some(self.settle(number, queue, bytes, encoding, now));
        }
        if !self.may_take(room_bytes) || !self.share.take(room_bytes) {
            return None;
        }
        let span = bytes.div_ceil(self.segment_bytes());
        let apart = match self.leaves_addresses {
            true => self.find_apart(span),
            false => None,
        };
        let Some(number) = apart.or_else(|| self.find_unused(span)) else {
            self.share.give(room_bytes);
            return None;
        };
        self.claim(number, bytes);
        let start = self.start_of(number);
        self.resident_bytes += room_bytes;
        if !self.arena.region().populate(start, room_bytes) {
            self.segments[number as usize].set_room_bytes(room_bytes);
            self.release(number);
            return None;
        }
        Some(self.settle(number, queue, bytes, encoding, now))
    }

    /// Begins an extent for one item of `bytes`, and how many bytes of it have memory: all or none.
    /// `None` without range.
    pub(crate) fn begin_extent(&mut self, bytes: usize) -> Option<(Pin, usize)> {
        if let Some(number) = self.take_empty(bytes) {
            let grown = self.segment(number).room_bytes();
            return Some((Pin::on(&self.arena, number), grown));
        }
        let number = self.find_unused(bytes.div_ceil(self.segment_bytes()))?;
        self.claim(number, bytes);
        self.partial.push(number);
        Some((Pin::on(&self.arena, number), 0))
    }

    /// An empty extent with memory for an item of `bytes` and not twice as much, if there is one;
    /// excess memory is released. It stays among the partial ones.
    fn take_empty(&mut self, bytes: usize) -> Option<u32> {
        if self.leaves_addresses {
            return None;
        }
        let room_bytes = self.extent_bytes(bytes);
        let fits = |&one: &u32| {
            let has_bytes = self.segment(one).room_bytes();
            (room_bytes..room_bytes * 2).contains(&has_bytes) && !self.is_pinned(one)
        };
        let number = *self.partial.iter().rev().find(|&one| fits(one))?;
        let region = self.arena.region();
        if region.is_shared() && !region.populate(self.start_of(number), room_bytes) {
            // Its maker gave up because the file system is full.
            return None;
        }
        let before = self.segment(number).room_bytes();
        if before > room_bytes {
            self.cut_off(number, before, room_bytes);
        }
        let left_bytes = self.leaving_bytes().saturating_sub(room_bytes);
        self.reuse.low_bytes = self.reuse.low_bytes.min(left_bytes);
        Some(number)
    }

    /// Marks unused segments as those of an extent for an item of `bytes`.
    fn claim(&mut self, number: u32, bytes: usize) {
        let encoding = DeadlineEncoding::new(0, 0);
        let segment = Segment::of(Use::Partial, Queue::Small, encoding, self.horizon, 0);
        self.segments[number as usize] = segment;
        let span = bytes.div_ceil(self.segment_bytes());
        for continued in number as usize + 1..number as usize + span {
            self.segments[continued].used = Use::Continued;
        }
    }

    /// Makes a whole extent that of an item, the newest of its queue.
    fn settle(
        &mut self,
        number: u32,
        queue: Queue,
        bytes: usize,
        encoding: DeadlineEncoding,
        now: Instant,
    ) -> Room {
        let room_bytes = self.extent_bytes(bytes);
        let mut segment = Segment::of(Use::Sealed, queue, encoding, self.horizon, room_bytes);
        segment.write(bytes, now.0 / 1000);
        self.segments[number as usize] = segment;
        // It is about to be filled, so it is no longer an emptied one.
        self.reuse.emptied = self.reuse.emptied.filter(|&emptied| emptied != number);
        self.record_opened(number);
        // Long values are pinned, or copied under the lock.
        self.arena.open_to_readers(number, None);
        self.queue_bytes[queue as usize] += room_bytes;
        self.sealed[queue as usize].push_back(number);
        Room {
            segment: number,
            offset: self.start_of(number),
        }
    }

    /// Pledges memory for a part of an extent, if this log may have it.
    pub(crate) fn pledge(&mut self, bytes: usize, pledge: &mut Pledge) -> bool {
        self.may_take(bytes) && self.share.pledge(bytes, pledge)
    }

    /// Puts memory that was pledged behind an extent which is being made: where it lies, to be
    /// touched by its maker.
    pub(crate) fn grow_extent(&mut self, pin: &Pin, bytes: usize, pledge: &mut Pledge) -> usize {
        pledge.spend(bytes);
        self.resident_bytes += bytes;
        let segment = &mut self.segments[pin.segment() as usize];
        let before = segment.room_bytes();
        segment.set_room_bytes(before + bytes);
        self.start_of(pin.segment()) + before
    }

    /// Ends the making of an extent which has all the memory that an item of `bytes` needs.
    pub(crate) fn end_extent(
        &mut self,
        pin: &Pin,
        bytes: usize,
        encoding: DeadlineEncoding,
        now: Instant,
    ) -> Room {
        let number = pin.segment();
        self.partial.retain(|&partial| partial != number);
        self.share.count(self.extent_bytes(bytes));
        self.settle(number, Queue::Small, bytes, encoding, now)
    }

    /// The same for an item that may need less: the memory behind it is released.
    pub(crate) fn fit_extent(
        &mut self,
        number: u32,
        queue: Queue,
        bytes: usize,
        encoding: DeadlineEncoding,
        now: Instant,
    ) -> Room {
        self.partial.retain(|&partial| partial != number);
        let (before, room_bytes) = (self.segment(number).room_bytes(), self.extent_bytes(bytes));
        self.cut_off(number, before, room_bytes);
        self.share.count(room_bytes);
        self.settle(number, queue, bytes, encoding, now)
    }

    /// Notes that an item has left a segment, if that is an extent.
    #[inline]
    pub(super) fn note_emptied(&mut self, number: u32) {
        if self.is_extent(number) {
            self.reuse.emptied = Some(number);
        }
    }

    /// Whether [`Log::take_emptied`] has something to look at.
    #[inline]
    pub(crate) fn may_have_emptied(&self) -> bool {
        self.reuse.emptied.is_some()
    }

    /// The extent whose item was removed since the last call. It may still be read.
    pub(crate) fn take_emptied(&mut self) -> Option<u32> {
        let number = self.reuse.emptied.take()?;
        let segment = self.segment(number);
        let is_empty = segment.used == Use::Sealed && segment.items == 0;
        (is_empty && self.is_extent(number)).then_some(number)
    }

    /// Gives an extent back that holds nothing; a small one at once, unless it may stay for the
    /// next value.
    pub(super) fn begin_leaving(&mut self, number: u32) {
        let room_bytes = self.segment(number).room_bytes();
        let may_stay = self.leaving_bytes() + room_bytes <= self.share_bytes() / REUSE_SHARE
            && self.partial.len() < REUSE_EXTENTS_MAX;
        if room_bytes <= PIECE_BYTES && !may_stay {
            return self.release(number);
        }
        self.share.discount(room_bytes);
        self.segments[number as usize].used = Use::Partial;
        self.partial.push(number);
    }

    /// Bytes of extents that are to go back.
    pub(crate) fn leaving_bytes(&self) -> usize {
        let leaving = self.partial.iter().filter(|&&one| !self.is_pinned(one));
        leaving.map(|&one| self.segment(one).room_bytes()).sum()
    }

    /// Gives a piece back of an extent that no value has needed for a while, or of more than may
    /// stay; how many bytes.
    pub(crate) fn release_idle_piece(&mut self, now: Instant) -> usize {
        let leaving_bytes = self.leaving_bytes();
        if now >= self.reuse.look_at {
            self.reuse = Reuse {
                emptied: self.reuse.emptied,
                low_bytes: leaving_bytes,
                idle_bytes: self.reuse.low_bytes.min(leaving_bytes),
                look_at: Instant(now.0 + REUSE_MS),
            };
        }
        let may_stay = leaving_bytes <= self.share_bytes() / REUSE_SHARE;
        if may_stay && self.reuse.idle_bytes == 0 {
            return 0;
        }
        let bytes = self.release_piece();
        self.reuse.idle_bytes = self.reuse.idle_bytes.saturating_sub(bytes);
        let left_bytes = leaving_bytes.saturating_sub(bytes);
        self.reuse.low_bytes = self.reuse.low_bytes.min(left_bytes);
        bytes
    }

    /// Gives back the extents whose last reader has gone, or a piece of one that holds nothing; how
    /// many bytes.
    pub(crate) fn release_piece(&mut self) -> usize {
        let before = self.resident_bytes;
        self.collect_drained();
        if self.resident_bytes < before {
            return before - self.resident_bytes;
        }
        loop {
            let Some(position) = self.partial.iter().rposition(|&one| !self.is_pinned(one)) else {
                return 0;
            };
            let bytes = self.shrink_extent(position);
            // One whose maker left before it had any memory takes none.
            if bytes > 0 {
                return bytes;
            }
        }
    }

    /// Takes the last piece off a partial extent; how many bytes.
    fn shrink_extent(&mut self, position: usize) -> usize {
        let number = self.partial[position];
        let before = self.segment(number).room_bytes();
        let left = before.saturating_sub(1) / PIECE_BYTES * PIECE_BYTES;
        if left == 0 {
            self.partial.swap_remove(position);
        }
        self.cut_off(number, before, left);
        before - left
    }

    /// Whether there are addresses behind an extent for it to hold an item of `bytes`.
    pub(crate) fn has_addresses_behind(&self, number: u32, bytes: usize) -> bool {
        let first = number as usize + self.span_of(self.segment(number).room_bytes());
        let end = number as usize + self.span_of(bytes);
        let known = end.min(self.segments.len());
        let behind = self.segments.get(first..known).unwrap_or_default();
        end <= self.arena.segments() && behind.iter().all(|one| one.used == Use::Unused)
    }

    /// Has an extent grow where it lies to hold an item of `bytes`; `false` without memory or
    /// addresses.
    pub(crate) fn extend_extent(&mut self, number: u32, bytes: usize) -> bool {
        let (before, after) = (self.segment(number).room_bytes(), self.grown_bytes(bytes));
        let more = after.saturating_sub(before);
        if more == 0 {
            return true;
        }
        let (first, end) = (
            number as usize + self.span_of(before),
            number as usize + self.span_of(after),
        );
        if !self.may_take(more)
            || !self.has_addresses_behind(number, bytes)
            || !self.reach_segments(end)
            || !self.share.grow(before, after)
        {
            return false;
        }
        let at = self.start_of(number) + before;
        if !self.arena.region().populate(at, more) {
            self.share.shrink(after, before);
            return false;
        }
        for continued in first..end {
            self.segments[continued].used = Use::Continued;
        }
        self.set_extent_bytes(number, before, after);
        self.resident_bytes += more;
        true
    }

    /// Releases the memory of a sealed extent that an item of `bytes` does not need.
    pub(crate) fn trim_extent(&mut self, number: u32, bytes: usize) {
        let (before, after) = (self.segment(number).room_bytes(), self.grown_bytes(bytes));
        if after < before {
            self.share.discount(before);
            self.cut_off(number, before, after);
            self.share.count(after);
            self.set_extent_bytes(number, before, after);
        }
    }

    /// Bytes of an extent for an item that may grow and shrink: never those of a segment, because
    /// that length distinguishes the two.
    fn grown_bytes(&self, bytes: usize) -> usize {
        match self.extent_bytes(bytes) {
            same if same == self.segment_bytes() => self.extent_bytes(bytes + 1),
            other => other,
        }
    }

    fn set_extent_bytes(&mut self, number: u32, before: usize, after: usize) {
        let segment = &mut self.segments[number as usize];
        segment.set_room_bytes(after);
        let queue_bytes = &mut self.queue_bytes[segment.queue as usize];
        *queue_bytes = *queue_bytes + after - before;
        self.record_opened(number);
    }

    /// Segments that an extent of so many bytes takes.
    fn span_of(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.segment_bytes())
    }

    /// Has the table know the segments before this one; `false` without memory for it.
    pub(super) fn reach_segments(&mut self, end: usize) -> bool {
        let more = end.saturating_sub(self.segments.len());
        if more == 0 {
            return true;
        }
        if end > self.arena.segments()
            || !self.metadata.reach(end)
            || !self.budget().take(more * TABLE_ENTRY_BYTES)
        {
            return false;
        }
        self.segments.resize(end, Segment::unused());
        true
    }

    /// Has extents be made where there are addresses behind them, so that they can grow; whether
    /// they were before.
    pub(crate) fn leave_addresses(&mut self, is_left: bool) -> bool {
        std::mem::replace(&mut self.leaves_addresses, is_left)
    }

    /// The first of `span` segments without memory, behind what plain segments take: in the middle
    /// of the longest run of such, so that what lies before it can grow, too.
    fn find_apart(&mut self, span: usize) -> Option<u32> {
        let share = self.share_bytes() >> self.arena.segment_shift();
        let plain = share * PLAIN_QUARTERS / 4;
        let is_used = |&number: &usize| self.segments[number].used != Use::Unused;
        let used = (plain..self.segments.len()).filter(is_used);
        let (mut longest, mut begin) = (0..0, plain);
        // All behind the table are unused.
        for end in used.chain([self.arena.segments()]) {
            if end.saturating_sub(begin) > longest.len() {
                longest = begin..end;
            }
            begin = end + 1;
        }
        if longest.len() < 2 * span {
            return None;
        }
        // No further off than a share, for the table reaches up to there and is paid for.
        let first = match longest.start == plain {
            true => plain,
            false => longest.start + ((longest.len() - span) / 2).min(share / 2),
        };
        self.reach_segments(first + span).then_some(first as u32)
    }

    /// Gives the end of an extent back, of which so much is left.
    fn cut_off(&mut self, number: u32, before: usize, left: usize) {
        let at = self.start_of(number) + left;
        self.arena.region().release(at, before - left);
        self.resident_bytes -= before - left;
        self.share.give_piece(before - left);
        self.segments[number as usize].set_room_bytes(left);
        let first = number as usize + left.div_ceil(self.segment_bytes());
        if left == 0 {
            self.segments[number as usize] = Segment::unused();
        }
        self.forget_from(first.max(number as usize + 1));
        self.unused_from = self.unused_from.min(first);
    }

    /// Makes the segments unused that continue an extent from one on.
    fn forget_from(&mut self, first: usize) {
        let rest = self.segments.iter_mut().skip(first);
        for segment in rest.take_while(|segment| segment.used == Use::Continued) {
            *segment = Segment::unused();
        }
    }
}
