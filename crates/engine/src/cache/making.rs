//! Making: how a cache is put together of shards, those that share its memory and those of spaces'
//! own.
//!
//! Tests: tests/evict.rs, tests/keep.rs.

use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex};

use super::cell::{Lock, PREFETCH_BYTES_MIN, ShardCell};
use super::geometry::Geometry;
use super::kept::Kept;
use super::optimistic::Hits;
use super::resize::Ballast;
use super::upkeep::Wishes;
use super::{Cache, INDEX_HEADROOM, ITEM_BYTES_MIN};
use crate::arena::{Arena, DraftShare};
use crate::clock::Instant;
use crate::config::Config;
use crate::error::Error;
use crate::hot::Hot;
use crate::index::Index;
use crate::insight::Insight;
use crate::key::{Hasher, random_seed};
use crate::log::Log;
use crate::memory::Budget;
use crate::observer::Report;
use crate::sequence::Sequence;
use crate::shard::Shard;
use crate::store::Store;
use crate::watch::Watch;

/// Least memory of a cache.
const MEMORY_BYTES_MIN: usize = 16 << 10;

/// What all shards of a cache are made with.
struct Making<'c> {
    config: &'c Config,
    hasher: Hasher,
    seed: u64,
    insight: Arc<Mutex<Insight>>,
    first_version: u64,
    /// Shards in all.
    count: usize,
    now: Instant,
}

impl Cache {
    /// Makes a cache; reserves address space but touches no memory yet, save for the insights'.
    ///
    /// # Errors
    /// [`Error::MemoryTooSmall`] below 16 KiB, [`Error::Keep`] if the shares of spaces' own are
    /// none, [`Error::Reserve`] if the system refuses the address space.
    pub fn new(config: Config) -> Result<Cache, Error> {
        let bytes = config.memory_bytes;
        if bytes < MEMORY_BYTES_MIN {
            let min = MEMORY_BYTES_MIN;
            return Err(Error::MemoryTooSmall { bytes, min });
        }
        Kept::check(&config)?;
        let memory = bytes - config.kept_bytes();
        let geometry = Geometry::of(&config, memory);
        let now = config.clock.now();
        let capacity_at = |memory| Geometry::of(&config, memory).capacity();
        let insight = Insight::new(memory, capacity_at, now);
        let below = insight.below();
        let seed = config.seed.unwrap_or_else(random_seed);
        let hasher = Hasher::with_seed(seed);
        let making = Making {
            config: &config,
            seed,
            insight: Arc::new(Mutex::new(insight)),
            first_version: hasher.hash(b"first version") >> 16,
            count: geometry.shards + config.keep.len(),
            hasher,
            now,
        };
        let budget = Arc::new(Budget::new(memory.saturating_sub(geometry.fixed_bytes)));
        let kept: Box<[Kept]> = config.keep.iter().map(|&bytes| Kept::of(bytes)).collect();
        let sharing = (0..geometry.shards).map(|number| {
            let store = making.store(&geometry, &budget)?;
            Ok(making.cell(number, &geometry, store, below))
        });
        let own = kept.iter().enumerate().map(|(share, kept)| {
            let mut store = making.store(&kept.geometry, &kept.budget)?;
            store.keep_all();
            // What is kept is no part of what the insights tell of the cache.
            Ok(making.cell(geometry.shards + share, &kept.geometry, store, 0))
        });
        let shards = sharing.chain(own).collect::<Result<Box<[_]>, Error>>()?;
        let Making {
            hasher, insight, ..
        } = making;
        Ok(Cache {
            shards,
            kept,
            shard_shift: 64 - geometry.shards.ilog2(),
            hasher,
            wishes: Wishes::of(&config),
            ballast: Ballast::default(),
            budget,
            drafts: Arc::new(DraftShare::of(memory)),
            segment_bytes: 1 << geometry.segment_shift,
            insight,
            hits: Hits::default(),
            config,
        })
    }
}

impl Making<'_> {
    /// An empty store that draws on a budget.
    fn store(&self, geometry: &Geometry, budget: &Arc<Budget>) -> Result<Store, Error> {
        let shift = geometry.segment_shift;
        let arena = Arena::reserve(geometry.reach >> shift, shift, self.now)?;
        let index = Index::reserve(geometry.share / ITEM_BYTES_MIN * INDEX_HEADROOM)?;
        // The smallest table is there from the start.
        let _ = budget.take(index.bytes());
        let log = Log::new(arena, Arc::clone(budget), geometry.shards, geometry.share);
        let report = Report::to(self.config.observer.clone());
        Ok(Store::new(index, log, self.hasher.clone(), report))
    }

    /// Shard `number` over a store, of which the insights see keys with parts below `below`.
    fn cell(&self, number: usize, geometry: &Geometry, store: Store, below: u32) -> ShardCell {
        let (table, arena) = (Arc::clone(store.table()), Arc::clone(store.arena()));
        let version = self.first_version + number as u64;
        let hot = Hot::new(geometry.hot_keys(), self.seed ^ version, self.now);
        let watch = Watch::new(Arc::clone(&self.insight), below, hot);
        let shard = Shard::new(store, watch, version, self.count as u64);
        ShardCell {
            table,
            arena,
            prefetch_bytes: AtomicUsize::new(PREFETCH_BYTES_MIN),
            sampled_below: AtomicU32::new(below),
            lock: Lock {
                sequence: Sequence::new(),
                shard: Mutex::new(shard),
            },
        }
    }
}
