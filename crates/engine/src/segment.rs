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

const STAMPS: usize = 3;

/// The two FIFO queues of S3-FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Items that have yet to prove themselves.
    Small = 0,
    /// Items that were used while in the small queue, or came back soon after leaving it.
    Main = 1,
}

/// Which items of a segment were flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// None.
    None,
    /// Those of the main space.
    Main,
    /// All.
    All,
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
    /// Which of its items were flushed.
    pub(crate) flushed: Flushed,
    pub(crate) used: Use,
    pub(crate) queue: Queue,
    /// Stamps in use.
    pub(crate) stamps_len: u8,
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

const _: () = assert!(size_of::<Segment>() == 256, "four cache lines");

impl Segment {
    /// A segment without memory or content.
    pub(crate) fn unused() -> Segment {
        Segment {
            used: Use::Unused,
            queue: Queue::Small,
            scale: Timescale::new(0, 0),
            span: 1,
            room_bytes: 0,
            written_bytes: 0,
            hole_bytes: 0,
            items: 0,
            last_deadline: Deadline::PASSED,
            flushed: Flushed::None,
            deaths: Deaths::new(),
            stamps_len: 0,
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
        self.flushed == Flushed::All || self.items == 0 || self.last_deadline.has_passed(now)
    }

    /// Notes that bytes from `offset` into it on are written in `second`.
    #[inline]
    pub(crate) fn note_second(&mut self, offset: usize, second: u64) {
        self.stamps.note(&mut self.stamps_len, offset, second);
    }

    /// The second in which the item `offset` bytes into it was stored, about.
    pub(crate) fn stored_s(&self, offset: usize) -> u64 {
        self.stamps.second_at(self.stamps_len, offset)
    }
}

/// About when each stretch of a segment was written: a few (offset, second) pairs, of which the
/// first and the latest are kept. How many are in use stands in the segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps {
    pairs: [(u32, u32); STAMPS],
}

impl Stamps {
    /// Notes that bytes from `offset` into the segment on are written in `second`; `len` of the
    /// pairs are in use, also after the call.
    #[inline]
    pub(crate) fn note(&mut self, len: &mut u8, offset: usize, second: u64) {
        let second = second as u32;
        if *len > 0 && self.pairs[usize::from(*len) - 1].1 == second {
            return;
        }
        self.push(len, (offset as u32, second));
    }

    fn push(&mut self, len: &mut u8, pair: (u32, u32)) {
        if usize::from(*len) == STAMPS {
            self.pairs.copy_within(2.., 1);
            *len -= 1;
        }
        self.pairs[usize::from(*len)] = pair;
        *len += 1;
    }

    fn second_at(&self, len: u8, offset: usize) -> u64 {
        let known = &self.pairs[..usize::from(len)];
        let latest_before = known.iter().rev().find(|pair| pair.0 as usize <= offset);
        let pair = latest_before.or(known.first());
        pair.map_or(0, |pair| u64::from(pair.1))
    }
}
