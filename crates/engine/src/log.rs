//! Log: where items are written, and how memory for them is taken and released.
//!
//! A shard's arena is cut into segments. One segment per queue is open and filled from the front;
//! full ones are sealed and wait in their queue, oldest first, until `evict.rs` empties them. An
//! item that would waste too much of a segment gets an extent of its own: as many neighbouring
//! segments as it needs, of which only the touched pages count.
//!
//! Invariant: resident segments and extents are paid for from the shared budget.
//! Why: docs/decisions/0008.

pub(crate) mod item; // the binary layout of an item
pub(crate) mod segment; // the state of a segment
pub(crate) mod metadata; // records of a shard that outlive the process beside its items and index
pub(crate) mod policy; // the numbers of S3-FIFO that eviction and the simulations share
pub(crate) mod ghost; // which keys left the small queue not long ago
mod adopt; // segments that another process has filled
mod extents; // items that have memory of their own, how that is made and given back
mod resident_pages; // memory of free segments: touched, given back, on huge pages
mod share;

pub(crate) use self::extents::PIECE_BYTES;
pub(crate) use self::resident_pages::Touch;

use std::collections::VecDeque;
use std::sync::Arc;

use self::extents::Reuse;
use self::item::{Entry, Layout};
use self::metadata::Metadata;
use self::policy::{SmallShare, young_bytes};
use self::segment::{HISTOGRAM_BYTES, Queue, STREAMS, Segment, Stream, Use};
use self::share::Share;
use crate::base::clock::{Deadline, Instant};
use crate::deadlines::deadline_encoding::{DeadlineEncoding, RecentDeadlines};
use crate::deadlines::timer_wheel::{Horizon, WheelPosition};
use crate::memory::arena::Arena;
use crate::memory::{Budget, PAGE_BYTES, whole_pages};

/// Bytes made resident at a time in a segment that background maintenance has not touched ahead.
const TOUCH_BYTES: usize = 16 << 10;

/// Bytes that an entry of the segment table takes: the facts about the segment, and its pins and
/// encoding.
pub(crate) const TABLE_ENTRY_BYTES: usize = size_of::<Segment>() + Arena::SEGMENT_BYTES;

/// Memory that certainly suffices for an item of `bytes` in an extent: its pages, its part of the
/// segment table, and two segments for the reclaiming of space.
pub(crate) fn memory_for_item(bytes: usize, segment_bytes: usize) -> usize {
    let span = bytes.div_ceil(segment_bytes) + 1;
    whole_pages(bytes) + span * TABLE_ENTRY_BYTES + 2 * segment_bytes
}

/// Whether an item of `bytes` does not fit into a segment, or would leave more of one unused at its
/// end than it loses to whole pages.
pub(crate) fn is_better_off_alone(bytes: usize, segment_bytes: usize) -> bool {
    let unused = extent_bytes(bytes, segment_bytes) - bytes;
    bytes > segment_bytes || (bytes * 8 > segment_bytes && unused * 8 < bytes)
}

/// Bytes of memory of an extent for an item: whole pages, or whole segments if these are smaller,
/// so that no two extents share a page that is given back.
pub(crate) fn extent_bytes(bytes: usize, segment_bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES.min(segment_bytes))
}

/// Space for an item, not yet written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) segment: u32,
    pub(crate) offset: usize,
}

/// One shard's log. What every operation touches comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Log {
    arena: Arc<Arena>,
    metadata: Metadata,
    segments: Vec<Segment>,
    share: Share,
    free: Vec<u32>,
    /// Fewest free segments since the last check of memory to release.
    free_low: usize,
    draining: Vec<u32>,
    /// Extents that are being made, or released piece by piece.
    partial: Vec<u32>,
    open: [Option<u32>; STREAMS],
    /// Offset up to which the open segment's memory is known to be resident.
    touched: [usize; STREAMS],
    recent: [RecentDeadlines; STREAMS],
    /// Sealed segments, oldest first.
    sealed: [VecDeque<u32>; 2],
    /// Bytes of memory of the open and sealed segments.
    queue_bytes: [usize; 2],
    resident_bytes: usize,
    /// Bytes of the expiry histogram.
    histogram_bytes: usize,
    /// Bytes turned into holes since the start.
    buried_bytes: usize,
    /// The horizon that newly opened segments get.
    horizon: Horizon,
    /// The segments of the small queue that were opened last, oldest first: uses of their items do
    /// not count yet.
    young: VecDeque<u32>,
    /// How much of memory the small queue may have.
    small: Arc<SmallShare>,
    /// Whether a segment was opened since the flag was last taken.
    rolled: bool,
    /// Where the items of all open segments end, added up.
    ends_of_open: u32,
    /// The stretch to be looked at next for a huge page.
    next_stretch: usize,
    /// All segments before this one are in use.
    unused_from: usize,
    /// The free segment of which only the memory before an offset was touched, and when fresh
    /// memory was last taken.
    head: Option<(u32, usize)>,
    grew_at: Option<Instant>,
    /// Free segments that are to be released, and when to look for more.
    surplus: usize,
    surplus_known_until: Instant,
    /// Extents that hold nothing and wait for the next long value.
    reuse: Reuse,
    /// The stretch that is being moved to a huge page: none of it may be released meanwhile.
    growing_huge: Option<u32>,
    /// Segments reserved for compaction, where nothing may be evicted.
    compaction_reserve: usize,
    /// Segments and extents that were opened so far.
    opened: u64,
    /// Whether extents are made where there are addresses behind them.
    leaves_addresses: bool,
    /// The second since which these ends have not changed.
    quiet_since_s: u32,
}

impl Log {
    /// A log over `arena`, one of `sharers` that draw on the budget.
    pub(crate) fn new(
        arena: Arena,
        metadata: Metadata,
        budget: Arc<Budget>,
        sharers: usize,
        share_bytes: usize,
        small: Arc<SmallShare>,
    ) -> Log {
        Log {
            small,
            share: Share::new(budget, sharers, (share_bytes, 1 << arena.segment_shift())),
            // Address space only: the table grows without being copied.
            segments: Vec::with_capacity(arena.segments()),
            arena: Arc::new(arena),
            metadata,
            opened: 0,
            leaves_addresses: false,
            unused_from: 0,
            head: None,
            grew_at: None,
            free: Vec::new(),
            free_low: 0,
            draining: Vec::new(),
            partial: Vec::new(),
            open: [None; STREAMS],
            touched: [0; STREAMS],
            ends_of_open: 0,
            quiet_since_s: 0,
            recent: [RecentDeadlines::default(); STREAMS],
            sealed: [VecDeque::new(), VecDeque::new()],
            queue_bytes: [0; 2],
            resident_bytes: 0,
            histogram_bytes: 0,
            buried_bytes: 0,
            horizon: WheelPosition::new().horizon(),
            young: VecDeque::new(),
            rolled: false,
            next_stretch: 0,
            growing_huge: None,
            compaction_reserve: 0,
            surplus: 0,
            surplus_known_until: Instant(0),
            reuse: Reuse::default(),
        }
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// The shard's metadata, which outlives the process beside its items.
    #[inline]
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(crate) fn budget(&self) -> &Budget {
        self.share.budget()
    }

    /// Bytes in one segment.
    pub(crate) fn segment_bytes(&self) -> usize {
        1 << self.arena.segment_shift()
    }

    /// The segment that `offset` lies in.
    #[inline]
    pub(crate) fn segment_of(&self, offset: usize) -> u32 {
        (offset >> self.arena.segment_shift()) as u32
    }

    #[inline]
    pub(crate) fn segment(&self, segment: u32) -> &Segment {
        &self.segments[segment as usize]
    }

    pub(crate) fn segment_mut(&mut self, segment: u32) -> &mut Segment {
        &mut self.segments[segment as usize]
    }

    /// Numbers of all segments that may hold items: open and sealed.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        let open = self.open.iter().flatten();
        open.chain(self.sealed.iter().flatten()).copied()
    }

    /// Sealed segments of a queue, oldest first.
    pub(crate) fn sealed(&self, queue: Queue) -> &VecDeque<u32> {
        &self.sealed[queue as usize]
    }

    pub(crate) fn queue_bytes(&self, queue: Queue) -> usize {
        self.queue_bytes[queue as usize]
    }

    /// Bytes of memory of a queue's sealed segments.
    pub(crate) fn sealed_bytes(&self, queue: Queue) -> usize {
        let open = self.open.iter().flatten();
        let open = open.map(|&number| self.segment(number));
        let open = open.filter(|segment| segment.queue == queue);
        self.queue_bytes(queue) - open.map(Segment::room_bytes).sum::<usize>()
    }

    /// Bytes of memory behind all segments.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.resident_bytes
    }

    /// Bytes of items turned into holes since the start.
    pub(crate) fn buried_bytes(&self) -> usize {
        self.buried_bytes
    }

    /// Whether little fresh memory is left for this log and the others.
    pub(crate) fn is_budget_short(&self) -> bool {
        self.share.is_short()
    }

    /// This log's share of all memory, in bytes.
    pub(crate) fn share_bytes(&self) -> usize {
        self.share.bytes()
    }

    /// Sets whether this log may take all remaining memory, because it has nothing left to evict.
    pub(crate) fn set_in_need(&mut self, in_need: bool) {
        self.share.set_in_need(in_need);
    }

    /// Bytes that it holds of the memory that the logs share evenly.
    pub(crate) fn held_bytes(&self) -> usize {
        self.share.held()
    }

    /// Whether a segment or extent of `bytes` counts in the memory that the logs share evenly.
    pub(crate) fn counts(&self, bytes: usize) -> bool {
        self.share.counts(bytes)
    }

    /// Whether this log holds so much more than others that some of it should go to them.
    pub(crate) fn holds_much(&self) -> bool {
        self.share.is_much()
    }

    /// Bytes of bookkeeping for the segments.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.segments.len() * TABLE_ENTRY_BYTES + self.histogram_bytes
    }

    /// Segments that have an entry in the table.
    pub(crate) fn table_len(&self) -> usize {
        self.segments.len()
    }

    /// Offset at which a segment begins.
    #[inline]
    pub(crate) fn start_of(&self, segment: u32) -> usize {
        (segment as usize) << self.arena.segment_shift()
    }

    /// The segments that may hold items, with their numbers.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u32, &Segment)> {
        self.in_use().map(|number| (number, self.segment(number)))
    }

    /// The segments without live items that can be emptied.
    pub(crate) fn dead_segments(&self, now: Instant) -> impl Iterator<Item = (u32, &Segment)> {
        self.segments().filter(move |(number, segment)| {
            segment.is_all_dead(now) && self.can_be_emptied(*number)
        })
    }

    /// Whether the segment can be emptied: it is full, and has no lock-free readers.
    pub(crate) fn can_be_emptied(&self, segment: u32) -> bool {
        self.segment(segment).used == Use::Sealed && !self.is_pinned(segment)
    }

    /// The segment of several items behind `after`, or the first one.
    pub(crate) fn next_sampled(&self, after: Option<u32>) -> Option<u32> {
        let has_items = |&number: &u32| {
            let used = self.segment(number).used;
            matches!(used, Use::Open | Use::Sealed) && !self.is_extent(number)
        };
        let all = || self.in_use().filter(has_items);
        let is_behind = |&number: &u32| after.is_some_and(|after| number > after);
        all().filter(is_behind).min().or_else(|| all().min())
    }

    /// Calls `each` with the items among so many first entries of a segment.
    pub(crate) fn each_of_first(
        &self,
        segment: u32,
        entries: usize,
        mut each: impl FnMut(&Layout),
    ) {
        let (mut at, end) = self.bounds(segment);
        for _ in 0..entries {
            if at >= end {
                break;
            }
            let entry = self.read(at);
            at += entry.total_bytes();
            if let Entry::Item(layout) = entry {
                each(&layout);
            }
        }
    }

    /// The offsets at which a segment begins and its last entry ends.
    pub(crate) fn bounds(&self, segment: u32) -> (usize, usize) {
        let start = self.start_of(segment);
        (start, start + self.segment(segment).written_bytes())
    }

    /// Reads the entry at `offset`.
    #[inline(always)]
    pub(crate) fn read(&self, offset: usize) -> Entry {
        let encoding = self.segment(self.segment_of(offset)).encoding();
        item::read(&self.arena, offset, encoding)
    }

    /// The layout of the item at `offset`, if it has none of the rare fields and is not long.
    #[inline(always)]
    pub(crate) fn read_plain(&self, offset: usize) -> Option<Layout> {
        let encoding = self.segment(self.segment_of(offset)).encoding();
        item::read_short(self.arena.first_bytes(offset), offset, encoding)
    }

    /// The bytes `[offset, offset + len)`, which belong to an item.
    #[inline]
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: the borrow of the log, which the shard's lock guards, keeps `write` away; drafts
        // are not part of any item.
        unsafe { self.arena.slice(offset, len) }
    }

    /// Writes bytes of an item or hole; never into a pinned value, see the callers in store.rs.
    #[inline]
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.metadata.clear_sums(offset, offset + bytes.len());
        // SAFETY: `&mut self` under the shard's lock excludes slices from `bytes`; callers write
        // only rooms they reserved, headers, and values in segments without pins.
        unsafe { self.arena.write(offset, bytes) };
    }

    /// Writes eight bytes, little end first, as [`Log::write`] does.
    #[inline]
    pub(crate) fn write_word(&mut self, offset: usize, word: u64) {
        self.metadata.clear_sums(offset, offset + 8);
        // SAFETY: as for `write`.
        unsafe { self.arena.write_word(offset, word) };
    }

    /// Copies bytes from one item to room for another.
    pub(crate) fn copy(&mut self, from: usize, to: usize, len: usize) {
        self.metadata.clear_sums(to, to + len);
        // SAFETY: as for `write` and `bytes`.
        unsafe { self.arena.copy_within(from, to, len) };
    }

    /// Whether a handle or draft uses the segment.
    pub(crate) fn is_pinned(&self, segment: u32) -> bool {
        self.arena.is_pinned(segment)
    }

    /// How deadlines are written in the stream's open segment, if there is one that takes items
    /// with this deadline.
    #[inline]
    pub(crate) fn open_encoding(
        &self,
        stream: Stream,
        deadline: Deadline,
    ) -> Option<DeadlineEncoding> {
        let segment = self.segment(self.open[stream.index()]?);
        segment.accepts(deadline).then(|| segment.encoding())
    }

    /// Sets up to where the deadlines are counted of items in segments that are opened from now on.
    pub(crate) fn set_horizon(&mut self, horizon: Horizon) {
        self.horizon = horizon;
    }

    /// Takes space for an item of `bytes` in the open segment, if it has that much left.
    pub(crate) fn take_room(&mut self, stream: Stream, bytes: usize, now: Instant) -> Option<Room> {
        let number = self.open[stream.index()]?;
        let start = self.start_of(number);
        let segment = &mut self.segments[number as usize];
        if segment.written_bytes() + bytes > segment.room_bytes() {
            return None;
        }
        let offset = start + segment.written_bytes();
        let end = offset + bytes;
        let touched = &mut self.touched[stream.index()];
        // Some pages in one call cost less than a fault for each of them.
        if end > *touched {
            let upto = (end + TOUCH_BYTES).min(start + segment.room_bytes());
            if !self.arena.region().populate(*touched, upto - *touched) {
                return None;
            }
            *touched = upto;
        }
        segment.write(bytes, now.0 / 1000);
        Some(Room {
            segment: number,
            offset,
        })
    }

    /// Notes an item's deadline for the choice of the next segment's encoding.
    #[inline]
    pub(crate) fn note_deadline(&mut self, stream: Stream, deadline: Deadline, now: Instant) {
        self.recent[stream.index()].note(deadline, now);
    }

    /// Counts an item as live in its segment.
    #[inline]
    pub(crate) fn count_item(&mut self, segment: u32, bytes: usize, deadline: Deadline) {
        self.segments[segment as usize].count(bytes, deadline);
    }

    /// Takes an item out of its segment's counts without touching its bytes.
    #[inline]
    pub(crate) fn uncount_item(&mut self, segment: u32, bytes: usize, deadline: Deadline) {
        self.segments[segment as usize].uncount(bytes, deadline);
    }

    /// Turns a counted item into a hole.
    pub(crate) fn bury(&mut self, layout: &Layout) {
        let number = self.segment_of(layout.offset);
        let bytes = layout.total_bytes();
        self.uncount_item(number, bytes, layout.deadline);
        self.segments[number as usize].change_holes(bytes, 0);
        self.buried_bytes += bytes;
        // A hole's header is never longer than the item's header and key, so a value that a handle
        // still reads stays as it is. Eight bytes at once are written if they are not either.
        let hole = item::hole(bytes);
        if layout.value_at() - layout.offset >= 8 {
            self.write_word(layout.offset, hole.word());
        } else {
            self.write(layout.offset, hole.bytes());
        }
        self.note_emptied(number);
    }

    /// Takes all items of a segment out of its counts that is about to be retired.
    pub(crate) fn bury_all(&mut self, segment: u32) {
        self.buried_bytes += self.segments[segment as usize].bury_all();
    }

    /// Seals the stream's open segment, if any.
    pub(crate) fn seal(&mut self, stream: Stream) {
        if let Some(number) = self.open[stream.index()].take() {
            self.segments[number as usize].used = Use::Sealed;
            self.sealed[stream.queue as usize].push_back(number);
        }
    }

    /// Seals a segment if it is an open one.
    pub(crate) fn seal_if_open(&mut self, segment: u32) {
        let mut streams = Stream::all();
        let filled = streams.find(|stream| self.open[stream.index()] == Some(segment));
        if let Some(stream) = filled {
            self.seal(stream);
        }
    }

    /// Seals open segments without live items, so that they are reclaimed.
    pub(crate) fn seal_all_dead(&mut self, now: Instant) {
        for stream in Stream::all() {
            let open = self.open[stream.index()].map(|number| self.segment(number));
            if open.is_some_and(|segment| segment.items > 0 && segment.is_all_dead(now)) {
                self.seal(stream);
            }
        }
    }

    /// Seals the stream's open segment and opens another, which takes items with this deadline;
    /// `false` if there is no memory for one.
    pub(crate) fn roll(
        &mut self,
        stream: Stream,
        deadline: Deadline,
        item_bytes: usize,
        now: Instant,
    ) -> bool {
        if !self.may_take(self.segment_bytes() + HISTOGRAM_BYTES) {
            return false;
        }
        let at = stream.index();
        let is_timed = deadline != Deadline::NEVER || self.recent[at].had_deadlines();
        // Paid first, because it may cost a free segment.
        if is_timed && !self.pay_for_histogram() {
            return false;
        }
        let Some((number, touched)) = self.take_segment(item_bytes) else {
            self.give_back_histogram(is_timed);
            return false;
        };
        // Sealed only when its successor is there: without one it still takes small items.
        self.seal(stream);
        let encoding = self.recent[at].take_encoding(now);
        let room_bytes = self.segment_bytes();
        let mut segment = Segment::of(Use::Open, stream.queue, encoding, self.horizon, room_bytes);
        if is_timed {
            segment.add_histogram();
        }
        self.segments[number as usize] = segment;
        self.record_opened(number);
        self.arena.open_to_readers(number, Some(encoding));
        self.open[at] = Some(number);
        self.touched[at] = touched;
        self.queue_bytes[stream.queue as usize] += room_bytes;
        self.rolled = true;
        self.update_young(stream, number);
        true
    }

    /// Whether a segment was opened since the last call.
    pub(crate) fn take_rolled(&mut self) -> bool {
        std::mem::take(&mut self.rolled)
    }

    /// Segments that could be opened without reclaiming, counted up to `enough`: the free ones,
    /// those that extents release, and this log's part of the remaining budget.
    #[inline]
    pub(crate) fn available(&self, enough: usize) -> usize {
        if self.free.len() >= enough {
            return enough;
        }
        let fresh = (self.share.left() + self.leaving_bytes()) >> self.arena.segment_shift();
        (self.free.len() + fresh).min(enough)
    }

    /// Segments that are resident and empty.
    pub(crate) fn free_segments(&self) -> usize {
        self.free.len()
    }

    /// An empty segment, and the offset up to which its memory was touched.
    fn take_segment(&mut self, item_bytes: usize) -> Option<(u32, usize)> {
        self.collect_drained();
        if let Some(number) = self.free.pop() {
            self.free_low = self.free_low.min(self.free.len());
            let head = self.head.take_if(|(head, _)| *head == number);
            let end = self.start_of(number) + self.segment_bytes();
            return Some((number, head.map_or(end, |(_, touched)| touched)));
        }
        let number = self.take_fresh(item_bytes)?;
        Some((number, self.start_of(number)))
    }

    /// A segment without memory, which is paid for from here on.
    fn take_fresh(&mut self, item_bytes: usize) -> Option<u32> {
        let bytes = self.segment_bytes();
        let is_taken = self.share.take(bytes) || self.release_piece() > 0 && self.share.take(bytes);
        if !is_taken {
            return None;
        }
        let number = self.find_unused(1);
        let Some(number) = number.filter(|&number| self.can_begin(number, item_bytes)) else {
            self.share.give(bytes);
            return None;
        };
        self.resident_bytes += self.segment_bytes();
        Some(number)
    }

    /// The first of `span` neighbouring segments without memory or content.
    fn find_unused(&mut self, span: usize) -> Option<u32> {
        let is_unused = |segment: &Segment| segment.used == Use::Unused;
        // Segments are seldom given back, so the search does not begin at the front each time.
        let skipped = self.segments[self.unused_from..].iter();
        self.unused_from += skipped.take_while(|&segment| !is_unused(segment)).count();
        let mut run = 0;
        for number in self.unused_from..self.segments.len() {
            run = if is_unused(&self.segments[number]) {
                run + 1
            } else {
                0
            };
            if run == span {
                return Some((number + 1 - span) as u32);
            }
        }
        // The run begins with the unused segments at the end; memory for the table's entries is
        // never returned.
        let first = self.segments.len() - run;
        self.reach_segments(first + span).then_some(first as u32)
    }

    /// Moves a sealed segment to the back of a queue.
    pub(crate) fn requeue(&mut self, segment: u32, queue: Queue) {
        self.unqueue(segment);
        self.segments[segment as usize].queue = queue;
        self.queue_bytes[queue as usize] += self.segments[segment as usize].room_bytes();
        self.sealed[queue as usize].push_back(segment);
    }

    fn unqueue(&mut self, segment: u32) {
        let queue = self.segments[segment as usize].queue as usize;
        let position = self.sealed[queue]
            .iter()
            .position(|&number| number == segment);
        self.sealed[queue].remove(position.expect("a sealed segment is in its queue"));
        self.queue_bytes[queue] -= self.segments[segment as usize].room_bytes();
    }

    /// Ends the use of a sealed segment without live items.
    pub(crate) fn retire(&mut self, segment: u32) {
        assert!(
            self.segment(segment).items == 0,
            "a segment with live items is retired"
        );
        self.unqueue(segment);
        self.segments[segment as usize].used = Use::Draining;
        if self.is_pinned(segment) {
            // A reader without the lock needs the bytes; `collect_drained` comes back for it.
            self.draining.push(segment);
        } else {
            self.set_free(segment);
        }
    }

    /// Frees the segments whose last reader has gone.
    pub(crate) fn collect_drained(&mut self) {
        let mut position = 0;
        while position < self.draining.len() {
            let number = self.draining[position];
            if self.is_pinned(number) {
                position += 1;
            } else {
                self.draining.swap_remove(position);
                self.set_free(number);
            }
        }
    }

    fn set_free(&mut self, segment: u32) {
        let was_timed = self.segments[segment as usize].drop_histogram();
        self.give_back_histogram(was_timed);
        if self.is_extent(segment) {
            self.begin_leaving(segment);
        } else if !self.is_resident(segment) {
            self.release(segment);
        } else {
            self.segments[segment as usize].used = Use::Free;
            self.free.push(segment);
        }
    }

    /// Marks a segment that was just opened as young, and older ones as not young any more: reads
    /// of items in young segments do not count, because they often come with the store.
    fn update_young(&mut self, stream: Stream, opened: u32) {
        let is_young = stream == Stream::from(Queue::Small);
        self.arena.set_young(opened, is_young);
        // It may have been emptied while it was young.
        self.young.retain(|&number| number != opened);
        if !is_young {
            return;
        }
        self.young.push_back(opened);
        let queue_bytes = self.queue_bytes.iter().sum();
        let young_bytes = young_bytes(queue_bytes, self.small.percent());
        let young_max = young_bytes >> self.arena.segment_shift();
        while self.young.len() > young_max {
            if let Some(grown) = self.young.pop_front() {
                self.arena.set_young(grown, false);
            }
        }
    }

    /// Logs that draw on the same budget.
    pub(crate) fn sharers(&self) -> usize {
        self.share.sharers()
    }

    /// How much of memory the small queue may have, in percent.
    pub(crate) fn small_percent(&self) -> usize {
        self.small.percent()
    }

    /// Sets how many segments stores leave free for compaction; returns the number before.
    #[inline]
    pub(crate) fn set_compaction_reserve(&mut self, segments: usize) -> usize {
        std::mem::replace(&mut self.compaction_reserve, segments)
    }

    /// Whether the compaction reserve is left when `bytes` have been taken.
    #[inline]
    pub(crate) fn may_take(&self, bytes: usize) -> bool {
        self.compaction_reserve == 0 || self.leaves_compaction_reserve(bytes)
    }

    /// Whether that can ever be.
    pub(crate) fn may_ever_take(&self, bytes: usize) -> bool {
        bytes + self.compaction_reserve * self.segment_bytes() <= self.share_bytes()
    }

    #[cold]
    fn leaves_compaction_reserve(&self, bytes: usize) -> bool {
        let idle = self.free.len() * self.segment_bytes();
        let left = (self.budget().left() + idle).checked_sub(bytes);
        left.is_some_and(|left| left >= self.compaction_reserve * self.segment_bytes())
    }

    /// Seals the open segment with most reclaimable bytes, if any has some; returns whether it did.
    pub(crate) fn seal_deadest(&mut self, now: Instant) -> bool {
        let open = Stream::all().filter_map(|stream| Some((stream, self.open[stream.index()]?)));
        let dead = open.map(|(stream, number)| (stream, self.segment(number).dead_bytes(now)));
        let deadest = dead.max_by_key(|(_, bytes)| *bytes);
        match deadest {
            Some((stream, bytes)) if bytes > 0 => self.seal(stream),
            _ => return false,
        }
        true
    }
}
