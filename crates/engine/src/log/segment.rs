//! Segment: the facts about a part of the log that are known without reading its items.
//!
//! ```text
//! unused --take--> open --seal--> sealed --emptied--> free --take--> open
//!    ^                              |                   |
//!    |                              +--still read--> draining --last reader gone--> free
//!    +--release (memory goes back to the budget, first in transit)--+
//! ```
//!
//! `log.rs` takes, fills and releases segments.

use crate::base::clock::{Deadline, Instant};
use crate::base::serialize::{serialize, serialize_enum};
use crate::deadlines::deadline_encoding::DeadlineEncoding;
use crate::deadlines::expiry_histogram::{ExpiringBytes, ExpiryHistogram};
use crate::deadlines::timer_wheel::{Due, Horizon, WheelPosition};

const STAMPS: usize = 2;

/// The two FIFO queues of S3-FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Items that have yet to prove themselves.
    Small = 0,
    /// Items that were used while in the small queue, or came back soon after leaving it.
    Main = 1,
}

/// How items come to be written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Items as they are stored, or moved by an eviction.
    Fresh = 0,
    /// Items moved away from between expired ones, with a short remaining lifetime.
    Brief = 1,
    /// The same with a long remaining lifetime, or none: not mixed with items that expire soon.
    Lasting = 2,
}

/// Selects the open segment of an item: items of a queue that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) queue: Queue,
    pub(crate) flow: Flow,
}

/// How many streams there are.
pub(crate) const STREAMS: usize = 6;

impl Stream {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Stream> {
        [Flow::Fresh, Flow::Brief, Flow::Lasting]
            .into_iter()
            .flat_map(|flow| [Queue::Small, Queue::Main].map(|queue| Stream { queue, flow }))
    }

    /// Its index among all streams: those of fresh items come first.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.flow as usize * 2 + self.queue as usize
    }
}

impl From<Queue> for Stream {
    #[inline]
    fn from(queue: Queue) -> Stream {
        let flow = Flow::Fresh;
        Stream { queue, flow }
    }
}

/// Which items of a segment were flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// None.
    None,
    /// The items of the main space.
    Main,
    /// All.
    All,
}

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// No memory behind it.
    Unused,
    /// Resident, empty.
    Free,
    /// Being filled.
    Open,
    /// Full; in its queue.
    Sealed,
    /// Empty, but a handle or draft still uses its bytes.
    Draining,
    /// Empty; its memory is being touched, or released to the system.
    InTransit,
    /// An extent that is being made, or released piece by piece.
    Partial,
    /// Part of the extent that begins at a segment before it.
    Continued,
    /// Filled by a process that was killed; its items were not checked yet.
    Unchecked,
}

/// Facts about one segment: a cache line, and a histogram if its items have deadlines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Segment {
    /// The encoding's parts, one by one so that they leave no gap.
    base_ms: u64,
    width: u8,
    age_shift: u8,
    /// Which of its items were flushed.
    pub(crate) flushed: Flushed,
    pub(crate) used: Use,
    pub(crate) queue: Queue,
    /// Stamps in use.
    stamps_len: u8,
    /// Up to which moment the deadlines of its items are in the timer wheels.
    pub(crate) horizon: Horizon,
    /// Live items, including expired ones that were not found yet.
    pub(crate) items: u32,
    hole_bytes: u32,
    written_bytes: u32,
    room_bytes: u32,
    /// No item lives longer.
    pub(crate) last_deadline: Deadline,
    /// None for items without deadlines, and none for the single item of an extent.
    histogram: Option<Box<ExpiryHistogram>>,
    stamps: Stamps,
}

const _: () = assert!(size_of::<Segment>() == 64, "one cache line");

serialize_enum!(Queue { 0 => Small, 1 => Main });
serialize_enum!(Flushed { 0 => None, 1 => Main, 2 => All });
serialize_enum!(Use {
    0 => Unused,
    1 => Free,
    2 => Open,
    3 => Sealed,
    4 => Draining,
    5 => InTransit,
    6 => Partial,
    7 => Continued,
    8 => Unchecked,
});
serialize!(Stamps { pairs });
serialize!(Segment {
    base_ms,
    width,
    age_shift,
    flushed,
    used,
    queue,
    stamps_len,
    horizon,
    items,
    hole_bytes,
    written_bytes,
    room_bytes,
    last_deadline,
    histogram,
    stamps,
});

/// Bytes of memory that a segment's histogram takes, including the allocator's overhead.
pub(crate) const HISTOGRAM_BYTES: usize = (size_of::<ExpiryHistogram>() + 8).next_multiple_of(16);

impl Segment {
    /// A segment without memory or content.
    pub(crate) fn unused() -> Segment {
        Segment {
            base_ms: 0,
            width: 0,
            age_shift: 0,
            used: Use::Unused,
            queue: Queue::Small,
            room_bytes: 0,
            written_bytes: 0,
            hole_bytes: 0,
            items: 0,
            last_deadline: Deadline::PASSED,
            flushed: Flushed::None,
            histogram: None,
            stamps_len: 0,
            horizon: WheelPosition::new().horizon(),
            stamps: Stamps::default(),
        }
    }

    /// A segment of `room_bytes` that is used as said, with deadlines written in `encoding` and
    /// counted up to `horizon`.
    pub(crate) fn of(
        used: Use,
        queue: Queue,
        encoding: DeadlineEncoding,
        horizon: Horizon,
        room_bytes: usize,
    ) -> Segment {
        Segment {
            base_ms: encoding.base_ms,
            width: encoding.width,
            age_shift: encoding.age_shift,
            used,
            queue,
            horizon,
            room_bytes: narrow(room_bytes),
            ..Segment::unused()
        }
    }

    /// How deadlines are written in it.
    #[inline]
    pub(crate) fn encoding(&self) -> DeadlineEncoding {
        DeadlineEncoding {
            base_ms: self.base_ms,
            width: self.width,
            age_shift: self.age_shift,
        }
    }

    /// Bytes of holes and drafts.
    #[inline]
    pub(crate) fn hole_bytes(&self) -> usize {
        self.hole_bytes as usize
    }

    /// Bytes written so far.
    #[inline]
    pub(crate) fn written_bytes(&self) -> usize {
        self.written_bytes as usize
    }

    /// Changes how much memory is behind an extent.
    pub(crate) fn set_room_bytes(&mut self, bytes: usize) {
        self.room_bytes = narrow(bytes);
    }

    /// Bytes that may be written: the segment's size, or an extent's whole pages.
    #[inline]
    pub(crate) fn room_bytes(&self) -> usize {
        self.room_bytes as usize
    }

    /// Takes `bytes` behind the written bytes, at a time when the clock shows `second`.
    #[inline]
    pub(crate) fn write(&mut self, bytes: usize, second: u64) {
        self.stamps.note(
            &mut self.stamps_len,
            self.base_ms,
            self.written_bytes,
            second,
        );
        self.written_bytes += narrow(bytes);
    }

    /// Extends the last item, or marks its unneeded end as unwritten again.
    pub(crate) fn set_written(&mut self, bytes: usize) {
        self.written_bytes = narrow(bytes);
    }

    /// Counts holes or drafts that came and others that went.
    #[inline]
    pub(crate) fn change_holes(&mut self, more: usize, less: usize) {
        self.hole_bytes = narrow(self.hole_bytes() + more - less);
    }

    /// Counts all its items as holes; how many bytes they had.
    pub(crate) fn bury_all(&mut self) -> usize {
        let bytes = self.written_bytes - self.hole_bytes;
        (self.items, self.hole_bytes) = (0, self.written_bytes);
        bytes as usize
    }

    /// Adds the histogram of when its bytes expire, whose memory is already paid for.
    pub(crate) fn add_histogram(&mut self) {
        self.histogram = Some(Box::new(ExpiryHistogram::new()));
    }

    /// Drops the histogram of when its bytes expire; returns whether that releases
    /// [`HISTOGRAM_BYTES`].
    pub(crate) fn drop_histogram(&mut self) -> bool {
        self.histogram.take().is_some()
    }

    /// Whether an item with this deadline may lie in it.
    #[inline]
    pub(crate) fn accepts(&self, deadline: Deadline) -> bool {
        deadline == Deadline::NEVER || self.histogram.is_some() || self.width > 0
    }

    /// When an item in it ends, as the timer wheels count it.
    #[inline]
    pub(crate) fn due(&self, deadline: Deadline) -> Due {
        Due {
            deadline: deadline.max(Deadline::at(Instant(self.base_ms))),
            horizon: self.horizon,
        }
    }

    /// Counts an item as live.
    #[inline]
    pub(crate) fn count(&mut self, bytes: usize, deadline: Deadline) {
        self.items += 1;
        self.last_deadline = self.last_deadline.max(deadline);
        let encoding = self.encoding();
        if let Some(histogram) = &mut self.histogram {
            histogram.add(bytes, deadline, encoding);
        }
    }

    /// Takes an item out of the counts.
    #[inline]
    pub(crate) fn uncount(&mut self, bytes: usize, deadline: Deadline) {
        self.items -= 1;
        if self.items == 0 {
            // The next one, which may be the same with another deadline, is the only one.
            self.last_deadline = Deadline::PASSED;
        }
        let encoding = self.encoding();
        if let Some(histogram) = &mut self.histogram {
            histogram.remove(bytes, deadline, encoding);
        }
    }

    /// Whether its histogram of expiries is consistent with the items in `found`.
    pub(crate) fn agrees_with(&self, found: &ExpiryHistogram) -> bool {
        match &self.histogram {
            Some(histogram) => histogram.agrees_with(found),
            None => self.items <= 1 || found.is_empty(),
        }
    }

    /// An estimate of its reclaimable bytes at `now`.
    pub(crate) fn dead_bytes(&self, now: Instant) -> usize {
        self.dead(now).0
    }

    /// The same, and an estimate of its expired items that still have an entry in the index.
    pub(crate) fn dead(&self, now: Instant) -> (usize, usize) {
        let items = self.items as usize;
        if self.is_all_dead(now) {
            return (self.written_bytes(), items);
        }
        let expired_bytes = self.expired_bytes(now);
        let dead_bytes = (self.hole_bytes() + expired_bytes).min(self.written_bytes());
        if expired_bytes == 0 {
            return (dead_bytes, 0);
        }
        let held = self.written_bytes().saturating_sub(self.hole_bytes());
        (dead_bytes, (items * expired_bytes / held.max(1)).min(items))
    }

    /// An estimate of the bytes of items that have expired at `now`, while some item is alive.
    pub(crate) fn expired_bytes(&self, now: Instant) -> usize {
        // A single item is alive until the whole segment has expired.
        if self.items == 1 {
            return 0;
        }
        let encoding = self.encoding();
        let histogram = self.histogram.as_deref();
        histogram.map_or(0, |histogram| histogram.dead_bytes(now, encoding))
    }

    /// Records that an expired item was removed by a lookup.
    pub(crate) fn meet_dead(&mut self, bytes: usize) {
        if let Some(histogram) = &mut self.histogram {
            histogram.meet(bytes);
        }
    }

    /// An estimate of its bytes that belong, or belonged, to items expired at `now`, while some
    /// item is alive.
    pub(crate) fn overdue_bytes(&self, now: Instant) -> usize {
        self.expired_bytes(now) + self.met_bytes()
    }

    /// The same, whether or not some item is alive.
    pub(crate) fn all_overdue_bytes(&self, now: Instant) -> usize {
        let is_over = self.items > 0 && self.last_deadline.has_passed(now);
        if is_over && self.flushed != Flushed::All {
            return self.written_bytes() - self.hole_bytes() + self.met_bytes();
        }
        self.overdue_bytes(now)
    }

    /// Bytes of holes left by expired items that lookups removed.
    fn met_bytes(&self) -> usize {
        let histogram = self.histogram.as_deref();
        histogram.map_or(0, |histogram| histogram.met_bytes(self.hole_bytes()))
    }

    /// When the bytes of its items expire, and how many of them do not; the bytes of flushed items
    /// are in neither.
    pub(crate) fn each_expiring(&self, mut each: impl FnMut(ExpiringBytes)) -> usize {
        let held = self.written_bytes().saturating_sub(self.hole_bytes());
        if self.items == 0 || self.flushed == Flushed::All {
            return 0;
        }
        if self.items == 1
            && self.histogram.is_none()
            && let Some(at) = self.last_deadline.instant()
        {
            each(ExpiringBytes {
                bytes: held,
                from_ms: at.0 as f64,
                until_ms: at.0 as f64,
            });
            return 0;
        }
        let mut expiring = 0;
        if let Some(histogram) = &self.histogram {
            for one in histogram.expiring(self.encoding(), self.last_deadline) {
                expiring += one.bytes;
                each(one);
            }
        }
        held.saturating_sub(expiring)
    }

    /// Whether one of its items may end after `from` and not after `until`.
    pub(crate) fn may_end_between(&self, from: Instant, until: Instant) -> bool {
        match &self.histogram {
            Some(histogram) => histogram.has_between(from, until, self.encoding()),
            // Without a histogram there is one item with a deadline, or none.
            None => self.items > 0 && !self.last_deadline.has_passed(from),
        }
    }

    /// Whether no item in it can be alive at `now`.
    pub(crate) fn is_all_dead(&self, now: Instant) -> bool {
        self.flushed == Flushed::All || self.items == 0 || self.last_deadline.has_passed(now)
    }

    /// The second in which the item `offset` bytes into it was stored, about.
    pub(crate) fn stored_s(&self, offset: usize) -> u64 {
        let later = &self.stamps.pairs[..usize::from(self.stamps_len)];
        let latest_before = later.iter().rev().find(|pair| pair.0 as usize <= offset);
        latest_before.map_or(self.base_ms / 1000, |pair| u64::from(pair.1))
    }
}

/// The number of bytes in a segment or extent, which a value's greatest length bounds.
#[inline]
fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a segment has less than 4 GiB")
}

/// About when each stretch of a segment was written: the segment's base is its first second, and of
/// the later (offset, second) pairs the latest are stored. The segment has the number in use.
#[derive(Clone, Debug, Default)]
struct Stamps {
    pairs: [(u32, u32); STAMPS],
}

impl Stamps {
    /// Notes that bytes from `offset` into a segment opened at `base_ms` are written in `second`;
    /// `len` of the pairs are in use, also after the call.
    #[inline]
    fn note(&mut self, len: &mut u8, base_ms: u64, offset: u32, second: u64) {
        let latest = match usize::from(*len) {
            0 => (base_ms / 1000) as u32,
            used => self.pairs[used - 1].1,
        };
        if latest != second as u32 {
            self.push(len, (offset, second as u32));
        }
    }

    fn push(&mut self, len: &mut u8, pair: (u32, u32)) {
        if usize::from(*len) == STAMPS {
            self.pairs.copy_within(1.., 0);
            *len -= 1;
        }
        self.pairs[usize::from(*len)] = pair;
        *len += 1;
    }
}
