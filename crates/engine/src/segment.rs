//! Segment: what is known about a stretch of the log without looking at its items.
//!
//! ```text
//! unused --take--> open --seal--> sealed --emptied--> free --take--> open
//!    ^                              |                   |
//!    |                              +--still read--> draining --last reader gone--> free
//!    +--release (memory goes back to the budget, first in transit)--+
//! ```
//!
//! How segments are taken, filled and given back is in `log.rs`.

use crate::clock::{Deadline, Instant};
use crate::expire::Deaths;
use crate::timescale::Timescale;

const STAMPS: usize = 4;

/// The two FIFO queues of S3-FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Items that have yet to prove themselves.
    Small = 0,
    /// Items that were used while in the small queue, or came back soon after leaving it.
    Main = 1,
}

/// What a segment is used for.
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
    /// Empty; its memory is being touched, or given back to the system.
    InTransit,
    /// Part of the extent that begins at a segment before it.
    Continued,
}

/// Facts about one segment. What every read of an item needs lies in the first cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Segment {
    pub(crate) scale: Timescale,
    /// Everything in it was flushed.
    pub(crate) flushed: bool,
    pub(crate) used: Use,
    pub(crate) queue: Queue,
    /// Live items, expired ones that nobody met included.
    pub(crate) items: u32,
    /// No item lives longer.
    pub(crate) last_deadline: Deadline,
    /// Bytes of holes and drafts.
    pub(crate) hole_bytes: usize,
    pub(crate) written_bytes: usize,
    /// Bytes that may be written: the segment's size, or an extent's whole pages.
    pub(crate) room_bytes: usize,
    /// Segments this one spans; more than one only for extents.
    pub(crate) span: u32,
    pub(crate) deaths: Deaths,
    pub(crate) stamps: Stamps,
}

const _: () = assert!(size_of::<Segment>() == 192, "three cache lines");

impl Segment {
    /// A segment without memory or content.
    pub(crate) fn unused() -> Segment {
        Segment {
            used: Use::Unused,
            queue: Queue::Small,
            scale: Timescale {
                base_ms: 0,
                width: 0,
            },
            span: 1,
            room_bytes: 0,
            written_bytes: 0,
            hole_bytes: 0,
            items: 0,
            last_deadline: Deadline::PASSED,
            flushed: false,
            deaths: Deaths::new(),
            stamps: Stamps::default(),
        }
    }

    /// About how many of its bytes are dead at `now`.
    pub(crate) fn dead_bytes(&self, now: Instant) -> usize {
        if self.is_all_dead(now) {
            return self.written_bytes;
        }
        (self.hole_bytes + self.expired_bytes(now)).min(self.written_bytes)
    }

    /// About how many bytes of its items are over at `now`, while some item is alive.
    fn expired_bytes(&self, now: Instant) -> usize {
        // A single item is alive until all is dead.
        if self.items == 1 {
            return 0;
        }
        self.deaths.dead_bytes(now, self.scale)
    }

    /// About how many of its items are over at `now` and still have an entry in the index.
    pub(crate) fn dead_items(&self, now: Instant) -> usize {
        let items = self.items as usize;
        if self.is_all_dead(now) {
            return items;
        }
        let held = self.written_bytes.saturating_sub(self.hole_bytes).max(1);
        (items * self.expired_bytes(now) / held).min(items)
    }

    /// Whether no item in it can be alive at `now`.
    pub(crate) fn is_all_dead(&self, now: Instant) -> bool {
        self.flushed || self.items == 0 || self.last_deadline.has_passed(now)
    }

    /// The second in which the item `offset` bytes into it was stored, about.
    pub(crate) fn stored_s(&self, offset: usize) -> u64 {
        self.stamps.second_at(offset)
    }
}

/// About when each stretch of a segment was written: a few (offset, second) pairs, thinned out when
/// they run out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps {
    pairs: [(u32, u32); STAMPS],
    len: u8,
}

impl Stamps {
    /// Notes that bytes from `offset` into the segment on are written in `second`.
    #[inline]
    pub(crate) fn note(&mut self, offset: usize, second: u64) {
        let (len, second) = (usize::from(self.len), second as u32);
        if len > 0 && self.pairs[len - 1].1 == second {
            return;
        }
        self.push((offset as u32, second));
    }

    fn push(&mut self, pair: (u32, u32)) {
        if usize::from(self.len) == STAMPS {
            for place in 0..STAMPS / 2 {
                self.pairs[place] = self.pairs[place * 2];
            }
            self.len = STAMPS as u8 / 2;
        }
        self.pairs[usize::from(self.len)] = pair;
        self.len += 1;
    }

    fn second_at(&self, offset: usize) -> u64 {
        let known = &self.pairs[..usize::from(self.len)];
        let latest_before = known.iter().rev().find(|pair| pair.0 as usize <= offset);
        latest_before
            .or(known.first())
            .map_or(0, |pair| u64::from(pair.1))
    }
}
