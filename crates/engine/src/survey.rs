//! Survey: how much of a shard is dead, and which segment should be reclaimed for it.
//!
//! Dead are the bytes of expired, deleted and overwritten items together with the index entries
//! that expired items still have. A segment is worth compacting when a quarter of it is dead, or
//! when it holds the most of a total that nears the promise: at most 6 % of memory is dead whenever
//! a live item is evicted. Only dead bytes count: with the unused ends of segments counted too,
//! compaction copies half-empty segments in a circle.
//!
//! Why: docs/decisions/0005. Tests: tests/evict.rs.

use crate::clock::Instant;
use crate::index::ENTRY_BYTES;
use crate::segment::Use;
use crate::store::Store;

/// A segment of which this much is dead is worth compacting at any time, in percent.
const DEAD_SEGMENT_PERCENT: usize = 25;
/// When more than this much of memory is dead, the deadest segment is compacted if it has at least
/// this much, in percent.
const DEAD_TOTAL_PERCENT: usize = 4;

/// How much of a shard is dead, and where most of it lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survey {
    memory_bytes: usize,
    dead_bytes: usize,
    all_dead: Option<u32>,
    deadest: Option<Deadest>,
}

/// The segment with most dead bytes.
#[derive(Clone, Copy, Debug)]
struct Deadest {
    segment: u32,
    dead_bytes: usize,
    room_bytes: usize,
}

impl Survey {
    /// Looks at all segments, but not at `except`.
    pub(crate) fn of(store: &Store, except: Option<u32>, now: Instant) -> Survey {
        let mut survey = Survey {
            memory_bytes: store.log.resident_bytes() + store.index.bytes(),
            ..Survey::default()
        };
        for number in store.log.in_use().filter(|&number| Some(number) != except) {
            let segment = store.log.segment(number);
            let dead_bytes = segment.dead_bytes(now);
            survey.dead_bytes += dead_bytes + segment.dead_items(now) * ENTRY_BYTES;
            if segment.used != Use::Sealed || store.log.is_pinned(number) {
                continue;
            }
            if segment.is_all_dead(now) {
                survey.all_dead = survey.all_dead.or(Some(number));
            } else if !store.log.is_extent(number)
                && dead_bytes > survey.deadest.map_or(0, |deadest| deadest.dead_bytes)
            {
                survey.deadest = Some(Deadest {
                    segment: number,
                    dead_bytes,
                    room_bytes: segment.room_bytes,
                });
            }
        }
        survey
    }

    /// The segment to be reclaimed before any live item leaves, if there is one.
    pub(crate) fn worth_compacting(&self) -> Option<u32> {
        if self.all_dead.is_some() {
            return self.all_dead;
        }
        let deadest = self.deadest?;
        let share = deadest.dead_bytes * 100;
        let too_much_in_all = self.dead_bytes * 100 > self.memory_bytes * DEAD_TOTAL_PERCENT;
        let is_worth_it = share >= deadest.room_bytes * DEAD_TOTAL_PERCENT;
        let is_very_dead = share >= deadest.room_bytes * DEAD_SEGMENT_PERCENT;
        (is_very_dead || (too_much_in_all && is_worth_it)).then_some(deadest.segment)
    }

    /// Dead share of memory, in millionths.
    pub(crate) fn dead_ppm(&self) -> u64 {
        self.dead_bytes as u64 * 1_000_000 / self.memory_bytes.max(1) as u64
    }
}

/// A segment whose items are all dead, if there is one.
pub(crate) fn all_dead(store: &Store, now: Instant) -> Option<u32> {
    store.log.in_use().find(|&number| {
        let segment = store.log.segment(number);
        segment.used == Use::Sealed && segment.is_all_dead(now) && !store.log.is_pinned(number)
    })
}
