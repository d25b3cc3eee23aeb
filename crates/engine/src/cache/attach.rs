//! Attach: how a cache continues with the memory of another process.
//!
//! [`Plan::of`] compares the file's header with the settings before anything is mapped. Then each
//! shard is restored from the saved state of a clean stop, or rebuilt from its index
//! ([`Store::rebuild`]). If neither works, an empty cache starts in the same file, and [`Restored`]
//! has the reason. Rebuilt shards are checked before the cache is used, or meanwhile
//! (`cache/check.rs`).
//!
//! The number of shards and the size of segments stay those of the file, whatever the settings
//! say. A cache with less memory shrinks as a running one does (`cache/resize.rs`), one with more
//! grows.
//!
//! Why: docs/decisions/0058. Tests: tests/restart.rs.

use std::sync::{Arc, Mutex, PoisonError};

use super::attached::AttachedState;
use super::dictionaries::SavedDictionaries;
use super::geometry::Geometry;
use super::memory::Memory;
use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::base::serialize::{Deserializer, Serialize};
use crate::index::Index;
use crate::insight::Insight;
use crate::interface::config::Config;
use crate::key::random_seed;
use crate::log::metadata::{Metadata, SEGMENT_RECORD_BYTES, SHARD_RECORD_BYTES, sums_bytes};
use crate::memory::arena::Pin;
use crate::memory::{FileRange, HUGE_PAGE_BYTES, PAGE_BYTES, Region, whole_pages};
use crate::shard::evict::Reclaimer;
use crate::state::{FileHeader, LiveHeader, Restored, StateDir, StateOptions, header_bytes};
use crate::store::{CheckProgress, Rebuilt, Store};

/// So many times the memory that a cache was made with it may be given later: its addresses reach
/// for that.
const GROWTH_MAX: usize = 4;

/// Where the parts of one shard begin in the file.
#[derive(Clone, Copy, Debug)]
struct ShardRanges {
    records_at: usize,
    sums_at: usize,
    index_at: usize,
    arena_at: usize,
}

/// The file that holds the memory of a cache, mapped.
pub(super) struct StateFile {
    dir: Arc<StateDir>,
    shard_records: Arc<Region>,
    shard_ranges: Vec<ShardRanges>,
    pub(super) header: FileHeader,
    progress: Arc<CheckProgress>,
    /// The process before, if this one continues with its memory.
    pub(super) before: Option<PreviousProcess>,
}

/// The process that used the memory before.
#[derive(Clone, Debug)]
pub(super) struct PreviousProcess {
    was_clean_stop: bool,
    away_ms: u64,
    /// The state that it saved, if the memory is unchanged since.
    known: Option<Arc<Vec<u8>>>,
}

/// The restored state of one shard.
#[derive(Debug)]
pub(super) struct RestoredShard {
    /// No version above this one was ever assigned.
    pub(super) versions: u64,
    pub(super) flush_at: Option<Instant>,
    rebuilt: Rebuilt,
    pins: Vec<Pin>,
    /// The state of eviction, and the bytes for which space was still to be reclaimed.
    pub(super) reclaiming: Option<(Reclaimer, usize)>,
}

/// How a new process uses the memory of the previous one.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    Restore(PreviousProcess),
    StartEmpty(String),
}

impl Plan {
    /// Decides whether a cache like `config` can restore the existing memory; then makes `config`
    /// fit it.
    pub(super) fn of(options: &StateOptions, config: &mut Config, now: Instant) -> Plan {
        match Plan::going_on(options, config, now) {
            Ok(before) => Plan::Restore(before),
            Err(why) => Plan::StartEmpty(why),
        }
    }

    /// The same plan without the saved state: every item is checked. `None` if it has none already.
    pub(super) fn without_known(&self) -> Option<Plan> {
        match self {
            Plan::Restore(before) if before.known.is_some() => {
                Some(Plan::Restore(PreviousProcess {
                    known: None,
                    ..before.clone()
                }))
            }
            _ => None,
        }
    }

    /// Whether the memory is restored from its saved state, without a check of its items.
    pub(super) fn is_at_once(&self) -> bool {
        matches!(self, Plan::Restore(before) if before.known.is_some())
    }

    /// Whether existing memory is restored.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Plan::Restore(_))
    }

    /// Why not.
    pub(super) fn why(self) -> Option<String> {
        match self {
            Plan::Restore(_) => None,
            Plan::StartEmpty(why) => Some(why),
        }
    }

    fn going_on(
        options: &StateOptions,
        config: &mut Config,
        now: Instant,
    ) -> Result<PreviousProcess, String> {
        let left = options.dir.left()?;
        if let Some(why) = &options.refused {
            return Err(why.clone());
        }
        if left.clock_origin != options.clock_origin {
            return Err("the file's clock starts at another time".to_owned());
        }
        let keep: Vec<u64> = config.keep.iter().map(|&bytes| bytes as u64).collect();
        if left.keep != keep {
            return Err(
                "the no-eviction databases have changed (--noeviction-databases)".to_owned(),
            );
        }
        let memory = left.memory_bytes as usize;
        let kept = config.kept_bytes();
        let least = kept + Memory::least_bytes(memory.saturating_sub(kept));
        let sharing = (left.shape_bytes as usize).saturating_sub(kept);
        let most = kept + sharing.saturating_mul(GROWTH_MAX);
        if !(least..=most).contains(&config.memory_bytes) {
            return Err(format!(
                "the file has {memory} bytes of memory, but --memory is {}; {least} to {most} \
                 are possible",
                config.memory_bytes
            ));
        }
        let (was_clean_stop, alive) = FileHeader::before(options.dir.file());
        let Some(away_ms) = now.0.checked_sub(alive.0) else {
            return Err("the file's clock is ahead of the machine's".to_owned());
        };
        if away_ms > options.downtime_ms_max {
            return Err(format!(
                "no server ran for {} ms, which is more than {} ms",
                away_ms, options.downtime_ms_max
            ));
        }
        let known = was_clean_stop
            .then(|| options.dir.read_checkpoint(left.id))
            .flatten();
        config.memory_bytes = memory.max(config.memory_bytes);
        config.shape_bytes = Some(left.shape_bytes as usize);
        config.shards = usize::try_from(left.shards).ok();
        config.seed = Some(left.seed);
        Ok(PreviousProcess {
            was_clean_stop,
            away_ms,
            known: known.map(Arc::new),
        })
    }
}

impl StateFile {
    /// Maps the file for a cache like `config`. If the plan is to restore, an error text says why
    /// that is impossible.
    pub(super) fn of(
        options: &StateOptions,
        config: &Config,
        plan: &Plan,
        now: Instant,
    ) -> Result<Result<StateFile, String>, Error> {
        let dir = &options.dir;
        let geometries = Geometry::all(config);
        let (shard_ranges, file_bytes) = lay_out(&geometries);
        let header = match (plan, dir.left()) {
            (Plan::Restore(_), Ok(left)) if left.file_bytes != file_bytes as u64 => {
                return Ok(Err("it is divided otherwise".to_owned()));
            }
            (Plan::Restore(_), Ok(left)) => {
                let header = FileHeader {
                    memory_bytes: config.memory_bytes as u64,
                    ..left.clone()
                };
                dir.check_room(header.memory_bytes)?;
                if header != *left {
                    dir.amend(&header)?;
                }
                header
            }
            _ => {
                let header = FileHeader {
                    id: random_seed(),
                    seed: config.seed.unwrap_or_else(random_seed),
                    clock_origin: options.clock_origin,
                    made: now,
                    memory_bytes: config.memory_bytes as u64,
                    shape_bytes: config.memory_bytes as u64,
                    shards: (geometries.len() - config.keep.len()) as u64,
                    keep: config.keep.iter().map(|&bytes| bytes as u64).collect(),
                    file_bytes: file_bytes as u64,
                };
                dir.begin(&header)?;
                header
            }
        };
        let file_range = FileRange {
            file: Arc::clone(dir.file()),
            at: 0,
        };
        let shard_records =
            Region::reserve_at(Some(file_range), shard_records_bytes(geometries.len()))?;
        if !shard_records.populate(0, shard_records.bytes()) {
            return Err(no_room(dir));
        }
        let shard_records = Arc::new(shard_records);
        LiveHeader::of(&shard_records).begin(now);
        dir.remove_checkpoint();
        Ok(Ok(StateFile {
            dir: Arc::clone(dir),
            shard_records,
            shard_ranges,
            header,
            progress: Arc::default(),
            before: match plan {
                Plan::Restore(before) => Some(before.clone()),
                Plan::StartEmpty(_) => None,
            },
        }))
    }

    /// The dictionaries that are saved beside this memory.
    pub(super) fn dictionaries(&self) -> SavedDictionaries {
        SavedDictionaries::new(Arc::clone(&self.dir), self.header.id)
    }

    /// Where the index and the arena of a shard lie.
    pub(super) fn file_ranges(&self, number: usize) -> (Option<FileRange>, Option<FileRange>) {
        let ranges = self.shard_ranges[number];
        let file_range = |at: usize| {
            Some(FileRange {
                file: Arc::clone(self.dir.file()),
                at: at as u64,
            })
        };
        (file_range(ranges.index_at), file_range(ranges.arena_at))
    }

    /// The metadata of a shard, stored beside its index and arena.
    pub(super) fn metadata(&self, number: usize, geometry: &Geometry) -> Result<Metadata, Error> {
        let file_range = FileRange {
            file: Arc::clone(self.dir.file()),
            at: self.shard_ranges[number].records_at as u64,
        };
        let sums = FileRange {
            file: Arc::clone(self.dir.file()),
            at: self.shard_ranges[number].sums_at as u64,
        };
        let segment_records =
            Region::reserve_at(Some(file_range), segment_records_bytes(geometry))?;
        let sums = Region::reserve_at(Some(sums), sums_bytes(geometry.reach))?;
        let record = (
            &self.shard_records,
            header_bytes() + number * SHARD_RECORD_BYTES,
        );
        let salt = self.header.id ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let metadata = Metadata::of(
            record,
            (segment_records, sums),
            geometry.segment_shift,
            salt,
        );
        // As many as the shard's memory calls for; others are made as they are needed.
        if !metadata.reach(geometry.share >> geometry.segment_shift) {
            return Err(no_room(&self.dir));
        }
        Ok(metadata)
    }

    /// The attached state of a cache whose shards were restored as `left`.
    pub(super) fn attached(&self, left: &mut [RestoredShard]) -> AttachedState {
        let mut restored = Restored::default();
        if let Some(before) = &self.before {
            restored.was_clean_stop = before.was_clean_stop;
            restored.away_ms = before.away_ms;
            restored.was_walked = before.known.is_none();
        }
        let mut pins = Vec::new();
        for left in left {
            restored.items += left.rebuilt.items;
            restored.bytes += left.rebuilt.bytes;
            restored.dropped += left.rebuilt.dropped;
            pins.append(&mut left.pins);
        }
        if !self.dir.is_inherited() {
            // The readers of the previous process have finished.
            pins.clear();
        }
        AttachedState::new(
            (Arc::clone(&self.dir), self.header.id),
            LiveHeader::of(&self.shard_records),
            restored,
            Arc::clone(&self.progress),
            pins,
        )
    }

    /// Restores the saved state of all stores. The error text says why that is impossible.
    fn restore(
        &self,
        known: &[u8],
        stores: &mut [Store],
        options: &StateOptions,
        insight: &Mutex<Insight>,
        now: Instant,
    ) -> Result<Vec<RestoredShard>, String> {
        let mut from = Deserializer::of(known);
        let living = options.spaces.as_deref();
        let mut one = |store: &mut Store| {
            let found = store.log().metadata().shard()?;
            let (rebuilt, pins) = store.restore(&mut from, living, now)?;
            let (reclaimer, due_bytes) = <(Reclaimer, usize)>::deserialize(&mut from)?;
            if !store.take_memory(reclaimer.ghost_bytes()) {
                return None;
            }
            Some(RestoredShard {
                versions: found.versions,
                flush_at: found.flush_at,
                rebuilt,
                pins,
                reclaiming: Some((reclaimer, due_bytes)),
            })
        };
        let left: Option<Vec<RestoredShard>> = stores.iter_mut().map(&mut one).collect();
        let left = left.ok_or_else(|| "what was known of it does not fit it".to_owned())?;
        // A cache of another size begins with none.
        let mut insight = insight.lock().unwrap_or_else(PoisonError::into_inner);
        insight.restore(&mut from);
        Ok(left)
    }

    /// Restores the contents of all stores. The error text says why that is impossible.
    pub(super) fn rebuild(
        &self,
        stores: &mut [Store],
        options: &StateOptions,
        (threads, insight): (usize, &Mutex<Insight>),
        now: Instant,
    ) -> Result<Vec<RestoredShard>, String> {
        let before = self.before.as_ref();
        if let Some(known) = before.and_then(|before| before.known.as_ref()) {
            let left = self.restore(known, stores, options, insight, now)?;
            let agrees = !options.verify || stores.iter().all(Store::agrees_with_sums);
            return match agrees {
                true => Ok(left),
                false => Err("a checksum is wrong".to_owned()),
            };
        }
        let living = options.spaces.as_deref();
        let one = |store: &mut Store| {
            let found = store
                .log()
                .metadata()
                .shard()
                .ok_or("a shard's metadata is damaged")?;
            if !store.rebuild(&found, living, &self.progress, now) {
                return Err("a shard's index is damaged");
            }
            Ok(RestoredShard {
                versions: found.versions,
                flush_at: found.flush_at,
                rebuilt: Rebuilt::default(),
                pins: Vec::new(),
                reclaiming: None,
            })
        };
        let each = stores.len().div_ceil(threads.max(1)).max(1);
        let parts: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = stores
                .chunks_mut(each)
                .map(|part| scope.spawn(|| part.iter_mut().map(one).collect::<Vec<_>>()))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().expect("nothing that is left panics")
            };
            threads.into_iter().flat_map(join).collect()
        });
        let parts: Result<Vec<_>, &str> = parts.into_iter().collect();
        parts.map_err(str::to_owned)
    }
}

fn no_room(dir: &StateDir) -> Error {
    Error::State(format!("{} has no room", dir.path().display()))
}

/// Bytes of the header and the records of all shards.
fn shard_records_bytes(shards: usize) -> usize {
    whole_pages(header_bytes() + shards * SHARD_RECORD_BYTES)
}

fn segment_records_bytes(geometry: &Geometry) -> usize {
    whole_pages((geometry.reach >> geometry.segment_shift) * SEGMENT_RECORD_BYTES)
}

/// Where the parts of shards of these geometries lie, and where all end.
fn lay_out(geometries: &[Geometry]) -> (Vec<ShardRanges>, usize) {
    let mut end = shard_records_bytes(geometries.len());
    let mut take = |bytes: usize, align: usize| {
        let at = end.next_multiple_of(align);
        end = at + whole_pages(bytes);
        at
    };
    let shard_ranges = geometries.iter().map(|geometry| ShardRanges {
        records_at: take(segment_records_bytes(geometry), PAGE_BYTES),
        sums_at: take(sums_bytes(geometry.reach), PAGE_BYTES),
        index_at: take(Index::table_bytes(geometry.index_items), HUGE_PAGE_BYTES),
        arena_at: take(geometry.reach, HUGE_PAGE_BYTES),
    });
    let shard_ranges = shard_ranges.collect();
    (shard_ranges, end.next_multiple_of(HUGE_PAGE_BYTES))
}
