//! Attach: how a cache goes on with the memory that another process left.
//!
//! What may be gone on with is decided before anything is mapped; what is left is then made out
//! shard by shard ([`Store::rebuild`]). Whoever finds that it cannot be begins an empty cache in
//! the same file, and says why. A number of threads is no part of the shape: the shards stay as
//! many as they were. Less memory is taken as by [`Cache::set_memory_bytes`].
//!
//! Why: docs/decisions/0058. Tests: tests/restart.rs.

use std::sync::Arc;

use super::cell::Locked;
use super::geometry::Geometry;
use super::{Cache, INDEX_HEADROOM, ITEM_BYTES_MIN};
use crate::anchor::{Anchor, LINE_BYTES, MARK_BYTES};
use crate::clock::Instant;
use crate::config::Config;
use crate::error::Error;
use crate::index::Index;
use crate::key::random_seed;
use crate::memory::{HUGE_PAGE_BYTES, PAGE_BYTES, Place, Region, whole_pages};
use crate::state::{FileHeader, Living, Restored, StateDir, StateOptions, header_bytes};
use crate::store::{Rebuilt, Store};

/// Where the parts of one shard lie in the file.
#[derive(Clone, Copy, Debug)]
struct Plot {
    marks_at: usize,
    index_at: usize,
    arena_at: usize,
}

/// A file that a cache is made on.
pub(super) struct Ground {
    dir: Arc<StateDir>,
    lines: Arc<Region>,
    plots: Vec<Plot>,
    pub(super) header: FileHeader,
    /// What is known of those before, if theirs is to be gone on with.
    pub(super) before: Option<Before>,
}

/// Who used the memory before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    was_sealed: bool,
    away_ms: u64,
}

/// What a cache keeps of its ground.
#[derive(Debug)]
pub(super) struct Footing {
    dir: Arc<StateDir>,
    living: Living,
    id: u64,
    pub(super) restored: Restored,
}

/// What was found of one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// Versions above this one were never given out.
    pub(super) versions: u64,
    pub(super) flush_at: Option<Instant>,
    rebuilt: Rebuilt,
}

/// What is to be done with what was left.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    GoOn(Before),
    BeginAnew(String),
}

impl Plan {
    /// Decides whether a cache like `config` can go on with what is left; then makes `config` fit
    /// it.
    pub(super) fn of(options: &StateOptions, config: &mut Config, now: Instant) -> Plan {
        match Plan::going_on(options, config, now) {
            Ok(before) => Plan::GoOn(before),
            Err(why) => Plan::BeginAnew(why),
        }
    }

    /// Whether what was left is gone on with.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Plan::GoOn(_))
    }

    /// Why not.
    pub(super) fn why(self) -> Option<String> {
        match self {
            Plan::GoOn(_) => None,
            Plan::BeginAnew(why) => Some(why),
        }
    }

    fn going_on(
        options: &StateOptions,
        config: &mut Config,
        now: Instant,
    ) -> Result<Before, String> {
        let left = options.dir.left()?;
        if let Some(why) = &options.refused {
            return Err(why.clone());
        }
        if left.clock_origin != options.clock_origin {
            return Err("its time counts from another moment".to_owned());
        }
        let keep: Vec<u64> = config.keep.iter().map(|&bytes| bytes as u64).collect();
        if left.keep != keep {
            return Err("other databases had memory of their own (--keep)".to_owned());
        }
        let memory = left.memory_bytes as usize;
        let sharing = memory.saturating_sub(config.kept_bytes());
        let least = config.kept_bytes() + Cache::least_memory_bytes(sharing);
        if !(least..=memory).contains(&config.memory_bytes) {
            return Err(format!(
                "it has {memory} bytes of memory, {} are asked for; {least} to {memory} would do",
                config.memory_bytes
            ));
        }
        let (was_sealed, alive) = FileHeader::before(options.dir.file());
        let Some(away_ms) = now.0.checked_sub(alive.0) else {
            return Err("its time is ahead of the machine's".to_owned());
        };
        if away_ms > options.downtime_ms_max {
            return Err(format!(
                "it was away for {} ms, longer than {}",
                away_ms, options.downtime_ms_max
            ));
        }
        config.memory_bytes = memory;
        config.shards = usize::try_from(left.shards).ok();
        config.seed = Some(left.seed);
        Ok(Before {
            was_sealed,
            away_ms,
        })
    }
}

impl Ground {
    /// Maps the file for a cache like `config`. With a plan to go on, a text says why that is not
    /// to be.
    pub(super) fn of(
        options: &StateOptions,
        config: &Config,
        plan: &Plan,
        now: Instant,
    ) -> Result<Result<Ground, String>, Error> {
        let dir = &options.dir;
        let geometries = Geometry::all(config);
        let (plots, file_bytes) = lay_out(&geometries);
        let header = match (plan, dir.left()) {
            (Plan::GoOn(_), Ok(left)) if left.file_bytes != file_bytes as u64 => {
                return Ok(Err("it is divided otherwise".to_owned()));
            }
            (Plan::GoOn(_), Ok(left)) => {
                dir.check_room(left.memory_bytes)?;
                left.clone()
            }
            _ => {
                let header = FileHeader {
                    id: random_seed(),
                    seed: config.seed.unwrap_or_else(random_seed),
                    clock_origin: options.clock_origin,
                    made: now,
                    memory_bytes: config.memory_bytes as u64,
                    shards: (geometries.len() - config.keep.len()) as u64,
                    keep: config.keep.iter().map(|&bytes| bytes as u64).collect(),
                    file_bytes: file_bytes as u64,
                };
                dir.begin(&header)?;
                header
            }
        };
        let place = Place {
            file: Arc::clone(dir.file()),
            at: 0,
        };
        let lines = Region::reserve_at(Some(place), lines_bytes(geometries.len()))?;
        if !lines.populate(0, lines.bytes()) {
            return Err(no_room(dir));
        }
        let lines = Arc::new(lines);
        Living::of(&lines).begin(now);
        Ok(Ok(Ground {
            dir: Arc::clone(dir),
            lines,
            plots,
            header,
            before: match plan {
                Plan::GoOn(before) => Some(*before),
                Plan::BeginAnew(_) => None,
            },
        }))
    }

    /// Where the index and the arena of a shard lie.
    pub(super) fn places(&self, number: usize) -> (Option<Place>, Option<Place>) {
        let plot = self.plots[number];
        let place = |at: usize| {
            Some(Place {
                file: Arc::clone(self.dir.file()),
                at: at as u64,
            })
        };
        (place(plot.index_at), place(plot.arena_at))
    }

    /// What stands beside a shard's index and arena.
    pub(super) fn anchor(&self, number: usize, geometry: &Geometry) -> Result<Anchor, Error> {
        let place = Place {
            file: Arc::clone(self.dir.file()),
            at: self.plots[number].marks_at as u64,
        };
        let marks = Region::reserve_at(Some(place), marks_bytes(geometry))?;
        let at = header_bytes() + number * LINE_BYTES;
        let salt = self.header.id ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let anchor = Anchor::of(&self.lines, at, marks, salt);
        // As many as the shard's memory calls for; others are made as they are needed.
        if !anchor.reach(geometry.share >> geometry.segment_shift) {
            return Err(no_room(&self.dir));
        }
        Ok(anchor)
    }

    /// What a cache keeps of it, of whose shards this was found.
    pub(super) fn footing(self, left: &[Left]) -> Footing {
        let mut restored = Restored::default();
        if let Some(before) = self.before {
            restored.was_sealed = before.was_sealed;
            restored.away_ms = before.away_ms;
        }
        for Left { rebuilt, .. } in left {
            restored.items += rebuilt.items;
            restored.bytes += rebuilt.bytes;
            restored.dropped += rebuilt.dropped;
        }
        Footing {
            living: Living::of(&self.lines),
            id: self.header.id,
            dir: self.dir,
            restored,
        }
    }

    /// Makes out what is left in all stores. The text says why that cannot be done.
    pub(super) fn rebuild(
        &self,
        stores: &mut [Store],
        options: &StateOptions,
        threads: usize,
        now: Instant,
    ) -> Result<Vec<Left>, String> {
        let living = options.spaces.as_deref();
        let one = |store: &mut Store| {
            let found = store.anchor().found().ok_or("a shard's line is damaged")?;
            let rebuilt = store.rebuild(&found, living, now);
            let rebuilt = rebuilt.ok_or("a shard's index is damaged")?;
            Ok(Left {
                versions: found.versions,
                flush_at: found.flush_at,
                rebuilt,
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

/// Bytes of the header and all lines.
fn lines_bytes(shards: usize) -> usize {
    whole_pages(header_bytes() + shards * LINE_BYTES)
}

fn marks_bytes(geometry: &Geometry) -> usize {
    whole_pages((geometry.reach >> geometry.segment_shift) * MARK_BYTES)
}

/// Where the parts of shards of these geometries lie, and where all end.
fn lay_out(geometries: &[Geometry]) -> (Vec<Plot>, usize) {
    let mut end = lines_bytes(geometries.len());
    let mut take = |bytes: usize, align: usize| {
        let at = end.next_multiple_of(align);
        end = at + whole_pages(bytes);
        at
    };
    let plots = geometries.iter().map(|geometry| {
        let items_max = geometry.share / ITEM_BYTES_MIN * INDEX_HEADROOM;
        Plot {
            marks_at: take(marks_bytes(geometry), PAGE_BYTES),
            index_at: take(Index::table_bytes(items_max), HUGE_PAGE_BYTES),
            arena_at: take(geometry.reach, HUGE_PAGE_BYTES),
        }
    });
    let plots = plots.collect();
    (plots, end.next_multiple_of(HUGE_PAGE_BYTES))
}

/// A cache that nobody changes any more, whose memory another process may go on with.
///
/// Dropped, it gives the cache back to its users.
#[must_use]
pub struct Sealed<'c> {
    footing: &'c Footing,
    locks: Vec<Locked<'c>>,
}

impl Sealed<'_> {
    /// Leaves the memory to whoever opens its directory next. Whoever uses this cache from now on
    /// waits for ever: the process is to end.
    pub fn leave(self) {
        // The lock ends with the process in any case.
        let _ = self.footing.dir.file().unlock();
        std::mem::forget(self);
    }
}

impl Drop for Sealed<'_> {
    fn drop(&mut self) {
        self.footing.living.unseal();
    }
}

impl std::fmt::Debug for Sealed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealed")
            .field("shards", &self.locks.len())
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// Makes all that is stored ready for another process; `None` of a cache whose memory does not
    /// outlive this one. Holds all shards, so that nothing changes any more.
    pub fn seal(&self) -> Option<Sealed<'_>> {
        let footing = self.footing.as_ref()?;
        // The one place where several shards are locked at once; nobody who has one waits for
        // another.
        let mut locks: Vec<Locked<'_>> = self.shards.iter().map(|cell| self.lock(cell)).collect();
        for shard in &mut locks {
            shard.note_versions();
        }
        footing.living.seal(self.now());
        Some(Sealed { footing, locks })
    }

    /// What became of what a process before this one left; `None` if the memory does not outlive
    /// this process.
    #[must_use]
    pub fn restored(&self) -> Option<&Restored> {
        self.footing.as_ref().map(|footing| &footing.restored)
    }

    /// A number that is its memory's alone, if that outlives this process.
    #[must_use]
    pub fn state_id(&self) -> Option<u64> {
        self.footing.as_ref().map(|footing| footing.id)
    }

    /// Notes why the cache begins empty, if it does, and how long it took to make it.
    pub(super) fn note_restored(&mut self, empty_because: Option<String>, took_us: u64) {
        if let Some(footing) = &mut self.footing {
            footing.restored.empty_because = empty_because;
            footing.restored.took_us = took_us;
        }
    }

    /// Notes that the process is alive, for who asks how long nobody was.
    pub(super) fn beat(&self, now: Instant) {
        if let Some(footing) = &self.footing {
            footing.living.beat(now);
        }
    }
}
