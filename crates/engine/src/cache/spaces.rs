//! Spaces of a whole cache: what each holds, and how one is emptied.
//!
//! Why: docs/decisions/0015. Tests: tests/space.rs.

use super::Cache;
use crate::observer::Report;
use crate::space::Space;
use crate::stats::SpaceStats;

impl Cache {
    /// How many items a space has; locks one shard after the other. Expired items are not counted,
    /// as long as [`Cache::tick`] is called.
    #[must_use]
    pub fn space_stats(&self, space: Space) -> SpaceStats {
        let now = self.shards.now();
        let (mut sum, mut left_ms) = (SpaceStats::default(), 0);
        for cell in self.shards.iter() {
            let mut shard = cell.lock_beside_claims();
            shard.begin(now);
            let count = shard.store.tally.of(space, now);
            sum.items += count.items;
            sum.with_deadline += count.timed.ahead;
            left_ms += count.timed.left_ms;
        }
        let mean_ms = left_ms / u128::from(sum.with_deadline.max(1));
        sum.mean_ttl_ms = u64::try_from(mean_ms).unwrap_or(u64::MAX);
        sum
    }

    /// Retires a space: its items become misses, and its number must not be used again. The main
    /// space is flushed instead.
    ///
    /// Cost: a moment in each shard, however many items there are. They are purged by
    /// [`Cache::tick`], by insertions while memory is short, and when a lookup finds one; only
    /// purged items count as reclaimable ([`Stats::dead_bytes`](crate::Stats::dead_bytes)).
    pub fn retire_space(&self, space: Space) {
        if space == Space::MAIN {
            self.flush_space(space);
            return;
        }
        let now = self.shards.now();
        for cell in self.shards.iter() {
            let mut shard = cell.lock();
            shard.begin(now);
            shard.store.retire_space(space);
        }
        self.report_flushed(space);
    }

    /// Makes every item of a space a miss; the space may be used again at once.
    ///
    /// Cost for the main space: a mark on each segment. Another space is emptied item by item:
    /// rather take a new one and end this ([`Cache::retire_space`]).
    pub fn flush_space(&self, space: Space) {
        let now = self.shards.now();
        if space == Space::MAIN && 2 * self.space_stats(space).items >= self.stats_items() {
            self.flush_insights(now, now);
        }
        for cell in self.shards.iter() {
            if space == Space::MAIN {
                let mut shard = cell.lock();
                shard.begin(now);
                shard.store.flush_main();
            } else {
                self.empty_space(cell, space);
            }
        }
        self.report_flushed(space);
    }

    /// Removes all items of a space from a shard, a stretch of the index under each lock.
    fn empty_space(&self, cell: &super::ShardCell, space: Space) {
        const BUCKETS: usize = 64;
        let now = self.shards.now();
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

    fn stats_items(&self) -> u64 {
        let (mut items, now) = (0, self.shards.now());
        self.shards
            .each(|shard| items += shard.store.live_items(now));
        items
    }

    fn report_flushed(&self, space: Space) {
        Report::to(self.shards.config().observer.clone()).tell_flushed(Some(space));
    }
}
