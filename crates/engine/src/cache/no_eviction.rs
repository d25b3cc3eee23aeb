//! No-eviction partitions: spaces with memory of their own, of which nothing is evicted.
//!
//! Each share of [`Config::keep`](crate::Config::keep) is one more shard with its own budget; the
//! number of a space selects its share. So no other space can take its memory, nor it theirs, and
//! code that visits all shards covers it too. What differs in a shard is in `store/no_eviction.rs`.
//!
//! Why: docs/decisions/0052. Tests: tests/keep.rs.

use std::sync::Arc;

use super::geometry::Geometry;
use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::base::space::Space;
use crate::interface::config::Config;
use crate::interface::stats::Stats;
use crate::memory::Budget;
use crate::shard::Shard;

/// The part of all memory, as a divisor, that shares may have together: the cache is to work.
const KEPT_PART: usize = 2;

/// A share of memory.
#[derive(Debug)]
pub(super) struct NoEvictionPartition {
    pub(super) budget: Arc<Budget>,
    pub(super) geometry: Geometry,
    pub(super) bytes: usize,
}

/// Statistics of a no-eviction share of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoEvictionStats {
    /// Its memory.
    pub memory_bytes: u64,
    /// Bytes of it that hold live items, bookkeeping, and unused gaps. A share refuses stores when
    /// nearly all is used: some segments are reserved for compaction.
    pub used_bytes: u64,
    /// Items now.
    pub items: u64,
    /// Stores that were refused for lack of space.
    pub refused: u64,
}

impl NoEvictionPartition {
    /// Checks that the shares leave enough memory to the rest of the cache.
    pub(super) fn check(config: &Config) -> Result<(), Error> {
        let (bytes, max) = (
            config.kept_bytes(),
            Config::keep_bytes_max(config.memory_bytes),
        );
        let is_small = |bytes: &usize| *bytes < Config::KEEP_BYTES_MIN;
        if bytes > max || config.keep.len() > Space::SHARES_MAX || config.keep.iter().any(is_small)
        {
            return Err(Error::Keep { bytes, max });
        }
        Ok(())
    }

    pub(super) fn of(config: &Config, bytes: usize) -> NoEvictionPartition {
        let geometry = Geometry::alone(config, bytes);
        NoEvictionPartition {
            budget: Arc::new(Budget::new(bytes - geometry.fixed_bytes)),
            geometry,
            bytes,
        }
    }

    /// The statistics of this partition, whose shard is `shard`.
    pub(super) fn stats(&self, shard: &Shard, now: Instant) -> NoEvictionStats {
        let mut stats = Stats::default();
        shard.add_to(&mut stats, now);
        let segment_bytes = 1 << self.geometry.segment_shift;
        let idle = self.budget.left() + shard.store.log().free_segments() * segment_bytes;
        let used = (self.bytes - idle) as u64;
        NoEvictionStats {
            memory_bytes: self.bytes as u64,
            used_bytes: used.saturating_sub(stats.dead_bytes),
            items: stats.items,
            refused: shard.store.counts.refused,
        }
    }
}

impl Config {
    /// Most bytes that shares of so much memory may have together.
    #[must_use]
    pub fn keep_bytes_max(memory_bytes: usize) -> usize {
        memory_bytes / KEPT_PART
    }
}
