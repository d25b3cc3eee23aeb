//! Spaces of a whole cache: what each holds, and how one is emptied.
//!
//! Why: docs/decisions/0015. Tests: tests/space.rs.

use super::cell::ShardCell;
use super::shards::Shards;
use crate::base::clock::Instant;
use crate::base::space::Space;
use crate::interface::stats::SpaceStats;

/// Buckets that are emptied under each lock.
const BUCKETS: usize = 64;

/// How many items a space has.
pub(super) fn stats(shards: &Shards, space: Space) -> SpaceStats {
    let now = shards.now();
    let (mut sum, mut left_ms) = (SpaceStats::default(), 0);
    shards.each(|shard| {
        shard.begin(now);
        let count = shard.store.tally.of(space, now);
        sum.items += count.items;
        sum.with_deadline += count.timed.ahead;
        left_ms += count.timed.left_ms;
    });
    let mean_ms = left_ms / u128::from(sum.with_deadline.max(1));
    sum.mean_ttl_ms = u64::try_from(mean_ms).unwrap_or(u64::MAX);
    sum
}

/// Whether most items are in a space.
pub(super) fn has_most(shards: &Shards, space: Space, now: Instant) -> bool {
    let mut items = 0;
    shards.each(|shard| items += shard.store.live_items(now));
    2 * stats(shards, space).items >= items
}

/// Makes every item of a space a miss whose number is not used again; it is not the main space.
pub(super) fn retire(shards: &Shards, space: Space) {
    let now = shards.now();
    for cell in shards.iter() {
        let mut shard = cell.lock();
        shard.begin(now);
        shard.store.retire_space(space);
    }
}

/// Makes every item of a space a miss.
pub(super) fn flush(shards: &Shards, space: Space) {
    let now = shards.now();
    for cell in shards.iter() {
        if space == Space::MAIN {
            let mut shard = cell.lock();
            shard.begin(now);
            shard.store.flush_main();
        } else {
            empty(cell, space, shards.now());
        }
    }
}

/// Removes all items of a space from a shard, a stretch of the index under each lock.
fn empty(cell: &ShardCell, space: Space, now: Instant) {
    // Entries move from home to partner only: the second round finds those that the first one
    // misses.
    for _ in 0..2 {
        let mut reversed = Some(0);
        while let Some(mut at) = reversed {
            let mut shard = cell.lock();
            shard.begin(now);
            reversed = None;
            for _ in 0..BUCKETS {
                let Some(next) = shard.store.remove_of_space(space, at, now) else {
                    break;
                };
                (at, reversed) = (next, Some(next));
            }
        }
    }
}
