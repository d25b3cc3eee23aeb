//! Build: makes a cache of its shards, those that share its memory and those of no-eviction
//! partitions.
//!
//! Tests: tests/evict.rs, tests/keep.rs.

use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex};

use super::Cache;
use super::attach::{Plan, RestoredShard, StateFile};
use super::attached::AttachedState;
use super::cell::{Lock, PREFETCH_BYTES_MIN, ShardCell};
use super::geometry::Geometry;
use super::insights::Insights;
use super::maintenance::MaintenanceState;
use super::memory::Memory;
use super::no_eviction::NoEvictionPartition;
use super::reservation::DraftShare;
use super::shards::Shards;
use super::training::Training;
use crate::base::clock::{Instant, SystemClock};
use crate::base::error::Error;
use crate::cache::claim::{Claim, Mutex as ShardMutex};
use crate::cache::sequence::Sequence;
use crate::index::Index;
use crate::insight::Insight;
use crate::insight::hot::{Hot, HotList};
use crate::insight::watch::Watch;
use crate::interface::config::Config;
use crate::interface::observer::Report;
use crate::key::{Hasher, random_seed};
use crate::log::Log;
use crate::log::policy::SmallShare;
use crate::memory::Budget;
use crate::memory::arena::Arena;
use crate::shard::Shard;
use crate::state::StateOptions;
use crate::store::Store;

/// Least memory of a cache.
const MEMORY_BYTES_MIN: usize = 16 << 10;

/// The parameters that all shards of a cache share.
struct Build<'c> {
    config: &'c Config,
    hasher: Hasher,
    seed: u64,
    insight: Arc<Mutex<Insight>>,
    small: Arc<SmallShare>,
    first_version: u64,
    /// Shards in all.
    count: usize,
    now: Instant,
    /// The state file, if the memory outlives the process.
    state_file: Option<&'c StateFile>,
}

impl Cache {
    /// Checks the sizes that a cache is to have, without building it.
    ///
    /// # Errors
    /// [`Error::MemoryTooSmall`] below 16 KiB, [`Error::Keep`] if the shares of spaces' own are
    /// none.
    pub fn check(config: &Config) -> Result<(), Error> {
        let bytes = config.memory_bytes;
        if bytes < MEMORY_BYTES_MIN {
            let min = MEMORY_BYTES_MIN;
            return Err(Error::MemoryTooSmall { bytes, min });
        }
        NoEvictionPartition::check(config)
    }

    /// Makes a cache; reserves address space but touches no memory yet, save for the insights'.
    /// With [`Config::state`] it restores the memory of the previous process, if it can; see
    /// [`Cache::restored`].
    ///
    /// # Errors
    /// As [`Cache::check`], [`Error::Reserve`] if the system refuses the address space,
    /// [`Error::State`] if the directory's file system has no space.
    pub fn new(config: Config) -> Result<Cache, Error> {
        Cache::check(&config)?;
        match config.state.clone() {
            Some(options) => Cache::with_state(&config, &options),
            None => {
                let made = Cache::on_state_file(config, None)?;
                made.map_err(Error::State)
            }
        }
    }

    /// Makes a cache whose memory outlives the process, out of what another one left if that can
    /// be.
    fn with_state(wanted: &Config, options: &StateOptions) -> Result<Cache, Error> {
        let (stopwatch, now) = (SystemClock::new(), wanted.clock.now());
        let mut config = wanted.clone();
        let mut plan = Plan::of(options, &mut config, now);
        loop {
            if options.dir.is_inherited() && !plan.is_at_once() {
                // Scanning the memory or starting empty would take it away from the process that
                // uses it.
                let why = plan.why();
                let why = why
                    .as_deref()
                    .unwrap_or("the metadata of the clean stop is missing");
                return Err(options.dir.refuse(why));
            }
            let made = match StateFile::of(options, &config, &plan, now)? {
                Ok(state_file) => Cache::on_state_file(config.clone(), Some(state_file))?,
                Err(why) => Err(why),
            };
            if let Ok(cache) = &made
                && !checks_later(cache.attached.as_ref(), options)
            {
                cache.check_left(cache.config().threads, || true);
            }
            let made = made.and_then(|mut cache| match options.verify.then(|| cache.audit()) {
                Some(Err(wrong)) => Err(format!("it is not sound: {wrong}")),
                Some(Ok(audit)) => {
                    if let Some(attached) = &mut cache.attached {
                        attached.note_counted(&audit);
                    }
                    Ok(cache)
                }
                None => Ok(cache),
            });
            match made {
                Ok(mut cache) => {
                    cache.set_memory_bytes(wanted.memory_bytes)?;
                    if let Some(attached) = &mut cache.attached {
                        attached.note_restored(plan.why(), stopwatch.us());
                    }
                    return Ok(cache);
                }
                Err(why) if plan.goes_on() => {
                    if let Some(walk) = plan.without_known() {
                        plan = walk;
                    } else {
                        plan = Plan::StartEmpty(why);
                        config = wanted.clone();
                    }
                }
                Err(why) => return Err(Error::State(why)),
            }
        }
    }

    /// Makes a cache; the error text says why it cannot restore the memory.
    fn on_state_file(
        mut config: Config,
        state_file: Option<StateFile>,
    ) -> Result<Result<Cache, String>, Error> {
        let memory = config.memory_bytes - config.kept_bytes();
        let geometry = Geometry::of(&config, memory);
        // Memory that was added later brings no addresses: values stay as long as they could be.
        config.value_bytes_max = config.value_bytes_max.min(geometry.reach / 2);
        let now = config.clock.now();
        let capacity_at = |memory| Geometry::of(&config, memory).capacity();
        let budget = Arc::new(Budget::new(memory.saturating_sub(geometry.fixed_bytes)));
        let insight = Insight::new(memory, capacity_at, &budget, now);
        let (below, small) = (insight.below(), insight.small_share());
        let seed = state_file.as_ref().map(|state_file| state_file.header.seed);
        let seed = seed.or(config.seed).unwrap_or_else(random_seed);
        let hasher = Hasher::with_seed(seed);
        let build = Build {
            config: &config,
            seed,
            insight: Arc::new(Mutex::new(insight)),
            small,
            first_version: hasher.hash(b"first version") >> 16,
            count: geometry.shards + config.keep.len(),
            hasher,
            now,
            state_file: state_file.as_ref(),
        };
        let partitions = no_eviction_partitions(&config);
        let mut stores = build.stores(&geometry, &budget, &partitions)?;
        let training = build.training(&mut stores, &budget);
        let mut left = match build.rebuild(&mut stores) {
            Ok(left) => left,
            Err(why) => return Ok(Err(why)),
        };
        let attached = build.state_file.map(|file| file.attached(&mut left));
        let mut left = left.into_iter();
        let shards = stores.into_iter().enumerate().map(|(number, store)| {
            let mut shard_cell = match number.checked_sub(geometry.shards) {
                None => build.cell(number, &geometry, store, below),
                // The insights do not cover no-eviction partitions.
                Some(share) => build.cell(number, &partitions[share].geometry, store, 0),
            };
            if build.state_file.is_some() {
                shard_cell.go_on(|shard| match left.next() {
                    Some(left) => shard.go_on(left.versions, left.flush_at, left.reclaiming),
                    None => shard.go_on(0, None, None),
                });
            }
            shard_cell
        });
        let shards: Box<[ShardCell]> = shards.collect();
        let segment_bytes = 1 << geometry.segment_shift;
        let memory_of = Memory::new(&config, segment_bytes, budget, partitions);
        Ok(Ok(Cache {
            drafts: Arc::new(DraftShare::of(memory)),
            insights: Insights::of(build.insight, config.threads),
            training,
            maintenance: MaintenanceState::of(&config),
            attached,
            shards: Shards::new(shards, build.hasher, config, memory_of),
        }))
    }
}

impl Build<'_> {
    /// The empty stores of all shards: those that share the memory, then those of partitions.
    fn stores(
        &self,
        geometry: &Geometry,
        budget: &Arc<Budget>,
        partitions: &[NoEvictionPartition],
    ) -> Result<Vec<Store>, Error> {
        let sharing = (0..geometry.shards).map(|number| self.store(number, geometry, budget));
        let own = (geometry.shards..).zip(partitions);
        let own = own.map(|(number, partition)| {
            let mut store = self.store(number, &partition.geometry, &partition.budget)?;
            store.disable_eviction();
            Ok(store)
        });
        sharing.chain(own).collect()
    }

    /// An empty store that draws on a budget.
    fn store(
        &self,
        number: usize,
        geometry: &Geometry,
        budget: &Arc<Budget>,
    ) -> Result<Store, Error> {
        let shift = geometry.segment_shift;
        let (index_range, arena_range) = self
            .state_file
            .map_or((None, None), |state_file| state_file.file_ranges(number));
        let made = self
            .state_file
            .map_or(self.now, |state_file| state_file.header.made);
        let arena = Arena::reserve(geometry.reach >> shift, shift, made, arena_range)?;
        let index = Index::reserve(geometry.index_items, index_range)?;
        // The smallest table is there from the start.
        let _ = budget.take(index.bytes());
        let metadata = self
            .state_file
            .map(|state_file| state_file.metadata(number, geometry));
        let metadata = metadata.transpose()?.unwrap_or_default();
        let (sharers, share) = (geometry.shards, geometry.share);
        let log = Log::new(
            arena,
            metadata,
            Arc::clone(budget),
            sharers,
            share,
            Arc::clone(&self.small),
        );
        let report = Report::to(self.config.observer.clone());
        Ok(Store::new(index, log, self.hasher.clone(), report))
    }

    /// The dictionaries that were left, which the stores have then.
    fn training(&self, stores: &mut [Store], budget: &Budget) -> Training {
        match self.state_file {
            Some(file) if file.before.is_some() => {
                Training::restored(file.dictionaries(), stores, &self.hasher, budget, self.now)
            }
            file => Training::new(file.map(StateFile::dictionaries)),
        }
    }

    /// Restores stores over existing memory, or makes them empty ones that outlive the process. The
    /// error text says why that is impossible.
    fn rebuild(&self, stores: &mut [Store]) -> Result<Vec<RestoredShard>, String> {
        match (self.state_file, &self.config.state) {
            (Some(state_file), Some(options)) if state_file.before.is_some() => {
                let helpers = (self.config.threads, &*self.insight);
                state_file.rebuild(stores, options, helpers, self.now)
            }
            (Some(_), _) if !stores.iter_mut().all(Store::begin) => {
                Err("its directory has no room".to_owned())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Shard `number` over a store, of which the insights see keys with parts below `below`.
    fn cell(&self, number: usize, geometry: &Geometry, store: Store, below: u32) -> ShardCell {
        let (table, arena) = (
            Arc::clone(store.index().table()),
            Arc::clone(store.log().arena()),
        );
        let version = self.first_version + number as u64;
        let hot = Hot::new(geometry.hot_keys(), self.seed ^ version, self.now);
        let hot = Arc::new(HotList::new(hot));
        let watch = Watch::new(Arc::clone(&self.insight), below, Arc::clone(&hot));
        let shard = Shard::new(store, watch, version, self.count as u64);
        ShardCell {
            table,
            arena,
            hot,
            prefetch_bytes: AtomicUsize::new(PREFETCH_BYTES_MIN),
            sampled_below: AtomicU32::new(below),
            lock: Lock {
                sequence: Sequence::new(),
                claim: Claim::default(),
                shard: ShardMutex::new(shard),
            },
        }
    }
}

/// Whether items are checked while the cache is in use.
fn checks_later(attached: Option<&AttachedState>, options: &StateOptions) -> bool {
    let bytes = attached.map_or(0, |attached| attached.progress().bytes().1);
    options.checks_later_above.is_some_and(|most| bytes > most) && !options.verify
}

fn no_eviction_partitions(config: &Config) -> Box<[NoEvictionPartition]> {
    let bytes = config.keep.iter();
    bytes
        .map(|&bytes| NoEvictionPartition::of(config, bytes))
        .collect()
}
