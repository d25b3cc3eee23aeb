//! Compaction: how much of a shard is reclaimable, and which segment is emptied for it.
//!
//! Reclaimable are the bytes of expired, deleted and overwritten items, together with the index
//! entries that expired items still have. A segment is worth compacting if a quarter of it is
//! reclaimable, or if it holds the most of a total that nears the limit: at most 6 % of memory is
//! reclaimable whenever a live item is evicted. The unused ends of segments do not count;
//! otherwise half-empty segments would be copied again and again.
//!
//! While memory is not needed, background maintenance empties segments, few at a time, as long as
//! more than 4.5 % of the stored bytes are [`Reclaimable`].
//!
//! Why: docs/decisions/0013, 0071 and 0102. Tests: tests/expiry.rs, tests/reclaim.rs.

use crate::base::clock::Instant;
use crate::index::ENTRY_BYTES;
use crate::log::segment::{Segment, Use};
use crate::store::Store;

/// When this much of memory is reclaimable, in millionths, a segment is compacted of which so much
/// is, in percent: the less is reclaimable in all, the more a copy has to gain.
const WORTH_COMPACTING: [(u64, usize); 3] = [(0, 25), (33_000, 12), (37_000, 3)];

/// The reclaimable part of the stored bytes, in millionths, from which on segments are emptied
/// while memory is not needed, and the part of a segment, as a divisor, below which emptying it
/// gains nothing.
const RECLAIMABLE_PPM: u64 = 45_000;
const WORTH_SHARE: usize = 32;
/// In what time the segments would be emptied that are too many, at the pace of the next one: the
/// excess falls by two thirds in that time. And the longest pause between two of them.
const RECLAIMED_WITHIN_MS: u64 = 1_250;
const RECLAIM_PAUSE_MS: u64 = 500;

/// The part of a segment, as a divisor, from which on its unused end is worth moving its items.
const UNUSED_SHARE: usize = 8;

/// The reclaimable part of a shard, and the segment that holds most of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompactionScan {
    memory_bytes: usize,
    dead_bytes: usize,
    all_dead: Option<u32>,
    deadest: Option<Deadest>,
}

/// The segment with most reclaimable bytes.
#[derive(Clone, Copy, Debug)]
struct Deadest {
    segment: u32,
    dead_bytes: usize,
    room_bytes: usize,
}

impl CompactionScan {
    /// Looks at all segments, but not at `except`.
    pub(crate) fn of(store: &Store, except: Option<u32>, now: Instant) -> CompactionScan {
        let mut scan = CompactionScan {
            memory_bytes: store.measured_bytes(),
            ..CompactionScan::default()
        };
        for (number, segment) in store.log().segments() {
            if Some(number) == except {
                continue;
            }
            let (dead_bytes, dead_items) = segment.dead(now);
            scan.dead_bytes += dead_bytes + dead_items * ENTRY_BYTES;
            if !store.log().can_be_emptied(number) {
                continue;
            }
            if segment.is_all_dead(now) {
                scan.all_dead = scan.all_dead.or(Some(number));
            } else if !store.log().is_extent(number)
                && dead_bytes > scan.deadest.map_or(0, |deadest| deadest.dead_bytes)
            {
                scan.deadest = Some(Deadest {
                    segment: number,
                    dead_bytes,
                    room_bytes: segment.room_bytes(),
                });
            }
        }
        scan
    }

    /// The segment to reclaim before any live item is evicted, if there is one.
    pub(crate) fn worth_compacting(&self) -> Option<u32> {
        if self.all_dead.is_some() {
            return self.all_dead;
        }
        let deadest = self.deadest?;
        let worth_it = WORTH_COMPACTING
            .iter()
            .filter(|(total_ppm, _)| self.dead_ppm() >= *total_ppm)
            .map(|(_, percent)| *percent)
            .min()?;
        let is_worth_it = deadest.dead_bytes * 100 >= deadest.room_bytes * worth_it;
        is_worth_it.then_some(deadest.segment)
    }

    /// Reclaimable share of memory, in millionths.
    pub(crate) fn dead_ppm(&self) -> u64 {
        self.dead_bytes as u64 * 1_000_000 / self.memory_bytes.max(1) as u64
    }
}

/// The reclaimable part of the stored bytes, for any reason, while memory is not short.
///
/// Segments without live items are not part of it: they are reclaimed at once, without a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reclaimable {
    held_bytes: usize,
    dead_bytes: usize,
    /// The segment with most of it that can be emptied, and how much that is.
    most: Option<(u32, usize)>,
}

impl Reclaimable {
    /// Looks at all segments.
    pub(crate) fn of(store: &Store, now: Instant) -> Reclaimable {
        let mut all = Reclaimable::default();
        for (number, segment) in store.log().segments() {
            all.held_bytes += segment.written_bytes();
            if segment.is_all_dead(now) || store.log().is_extent(number) {
                continue;
            }
            let bytes = segment.dead_bytes(now);
            all.dead_bytes += bytes;
            let can_be_sealed = segment.used == Use::Open && !store.log().is_pinned(number);
            let is_worth_it = bytes * WORTH_SHARE >= segment.written_bytes()
                && (can_be_sealed || store.log().can_be_emptied(number));
            let is_more = bytes > all.most.map_or(0, |(_, most)| most);
            if is_worth_it && is_more {
                all.most = Some((number, bytes));
            }
        }
        all
    }

    /// The segment to be emptied, if more is reclaimable than may stay so, and how long to pause
    /// before the next one is looked for: the shorter, the more there is.
    pub(crate) fn worth_emptying(&self) -> Option<(u32, u64)> {
        let tolerated = self.held_bytes as u64 * RECLAIMABLE_PPM / 1_000_000;
        let excess = (self.dead_bytes as u64).saturating_sub(tolerated);
        let (segment, bytes) = self.most.filter(|_| excess > 0)?;
        let segments = excess.div_ceil(bytes as u64);
        Some((
            segment,
            (RECLAIMED_WITHIN_MS / segments).min(RECLAIM_PAUSE_MS),
        ))
    }
}

/// The segment with the fewest live bytes, where a store waits for space and nothing may be evicted
/// for it: unused ends count as well, unless they are very small.
pub(crate) fn emptiest(store: &Store, now: Instant) -> Option<u32> {
    let segment_bytes = store.log().segment_bytes();
    let waste = |&(number, segment): &(u32, &Segment)| {
        let (room, dead) = (segment.room_bytes(), segment.dead_bytes(now));
        if store.log().is_extent(number) && !segment.is_all_dead(now) {
            let is_small = segment.written_bytes() - dead <= segment_bytes;
            return if is_small && dead * 4 >= room {
                dead
            } else {
                0
            };
        }
        let unused = room - segment.written_bytes();
        if dead > 0 || unused * UNUSED_SHARE >= room {
            unused + dead
        } else {
            0
        }
    };
    let emptied = |&(number, _): &(u32, &Segment)| store.log().can_be_emptied(number);
    let segments = store.log().segments().filter(emptied);
    let segments = segments.map(|one| (one.0, waste(&one)));
    let emptiest = segments.max_by_key(|(_, waste)| *waste)?;
    (emptiest.1 > 0).then_some(emptiest.0)
}

/// A segment without live items, if there is one.
pub(crate) fn all_dead(store: &Store, now: Instant) -> Option<u32> {
    store
        .log()
        .dead_segments(now)
        .next()
        .map(|(number, _)| number)
}
