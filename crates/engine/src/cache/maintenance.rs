//! Maintenance: background work of a cache, in steps that a thread of its owner calls.
//!
//! Locks are held briefly. Work that takes longer, such as giving memory back to the system or
//! making huge pages, is done between two locks, on memory that the shard has set aside or that is
//! not used yet. The longest hold of a lock is for copying 2 MiB to a huge page, and not while the
//! cache grows.
//!
//! Why: docs/decisions/0010, 0014 and 0102. Tests: tests/maintenance.rs, tests/evict.rs.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::Cache;
use super::cell::ShardCell;
use super::shards::Shards;
use crate::base::clock::Instant;
use crate::interface::config::{Config, Effort};
use crate::shard::evict::background::ENTRIES_PER_TICK;
use crate::shard::expire::Excess;
use crate::store::SumBudget;

/// Pause between two steps while there is something to do, or memory grows, which is touched ahead
/// of its use.
const SHORT_PAUSE: Duration = Duration::from_millis(2);
/// Shortest pause otherwise. Waking the thread costs as much as moving dozens of items.
const IDLE_PAUSE: Duration = Duration::from_millis(10);
/// Pause while a segment is partly emptied: its moved items take memory twice until it is empty.
const EMPTYING_PAUSE: Duration = Duration::from_micros(100);
/// Shortest pause, while very many items are expired: a step in four shards takes some 40 us.
const HASTY_PAUSE: Duration = Duration::from_micros(50);
/// Steps of one tick that the shard may have whose turn it is to empty segments.
const STEPS_PER_TURN: usize = 4;
/// Time in which steps at the present pace should remove the expired items.
const GONE_WITHIN: Duration = Duration::from_millis(50);
/// Time in which steps at the present pace should release all memory that is to go back to the
/// system.
const RELEASED_WITHIN: Duration = Duration::from_millis(150);
/// While nothing is to do, a pause is this part of the time since there was.
const PAUSE_SHARE: u32 = 100;
/// Time without work before memory is put on huge pages, and the pause between two of them.
const QUIET: Duration = Duration::from_millis(100);
const HUGE_PAUSE: Duration = Duration::from_millis(10);
/// Time without any work after which a cache counts as settled: longer than growth holds up huge
/// pages.
const SETTLED: Duration = Duration::from_secs(1);
/// Pieces of extents that hold nothing which one step gives back to the system.
const PIECES_PER_TICK: usize = 8;
/// Checksums that one step makes, at most, and fewer while there is something else to do: some 0.4
/// microseconds each.
const SUMS_PER_TICK: usize = 32;
const SUMS_PER_BUSY_TICK: usize = 4;
/// Segments and blocks that one step looks at for such as have none.
const SUM_LOOKS_PER_TICK: usize = 1 << 14;
/// How long background maintenance releases memory after one request: longer than a free segment
/// keeps its memory.
const PURGE_MS: u64 = 10_000;

/// Settings of background maintenance, which the cache's owner may change at any time, and where
/// it goes on.
#[derive(Debug)]
pub(super) struct MaintenanceState {
    // Relaxed, all of them: background maintenance sees a change a moment later, and nothing else
    // depends on it.
    expire_effort: AtomicU8,
    release_memory: AtomicBool,
    /// The moment until which memory is released, even if `release_memory` is off.
    purge_until_ms: AtomicU64,
    /// The shard whose turn it is to empty segments, by its number.
    turn: AtomicUsize,
    /// The shard that gets checksums next, by its number.
    summed: AtomicUsize,
}

impl MaintenanceState {
    pub(super) fn of(config: &Config) -> MaintenanceState {
        MaintenanceState {
            expire_effort: AtomicU8::new(config.expire_effort),
            release_memory: AtomicBool::new(config.release_memory),
            purge_until_ms: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            summed: AtomicUsize::new(0),
        }
    }

    /// Changes how hard it looks for expired items.
    pub(super) fn set_expire_effort(&self, effort: u8) {
        // Relaxed: see above.
        self.expire_effort.store(effort, Ordering::Relaxed);
    }

    /// Changes whether memory without live items goes back to the system soon.
    pub(super) fn set_release_memory(&self, release: bool) {
        // Relaxed: see above.
        self.release_memory.store(release, Ordering::Relaxed);
    }

    /// Has memory be released for the next ten seconds.
    pub(super) fn purge(&self, now: Instant) {
        // Relaxed: see above.
        self.purge_until_ms
            .fetch_max(now.0 + PURGE_MS, Ordering::Relaxed);
    }

    /// A bounded piece of background maintenance in each shard; the work that is left.
    pub(super) fn step(&self, shards: &Shards, now: Instant, makes_sums: bool) -> Waiting {
        let mut waiting = Waiting::default();
        let effort = self.effort(now);
        waiting.is_releasing = effort.release;
        self.tick_in_turn(shards, effort, now, &mut waiting);
        // One segment in all: giving memory back takes longer than anything else here.
        let mut cells = shards.iter();
        let has_surplus = waiting.surplus > 0;
        waiting.is_any |= has_surplus && cells.any(|cell| release_segment(shards, cell));
        waiting.is_any |= shards.resize_step();
        waiting.has_sums = makes_sums && self.make_sums(shards, waiting.is_any);
        waiting
    }

    /// Makes some of the checksums that are missing; whether there may be more.
    fn make_sums(&self, shards: &Shards, is_busy: bool) -> bool {
        let mut budget = SumBudget {
            looks: SUM_LOOKS_PER_TICK,
            sums: match is_busy {
                true => SUMS_PER_BUSY_TICK,
                false => SUMS_PER_TICK,
            },
        };
        // Relaxed: see `MaintenanceState`.
        let first = self.summed.load(Ordering::Relaxed);
        for at in (first..=first + shards.len()).map(|at| at % shards.len()) {
            let Some(mut shard) = shards.lock_own(&shards[at]) else {
                break;
            };
            if !shard.store.make_sums(&mut budget) {
                // Relaxed: see `MaintenanceState`.
                self.summed.store(at, Ordering::Relaxed);
                break;
            }
        }
        budget.sums == 0
    }

    /// A piece of background maintenance in each shard. Only one shard at a time starts to empty a
    /// segment that still has live items, unless very many items are expired, and it has several
    /// steps for it: until the segment is emptied, its moved items take memory twice. So that
    /// happens once in all, and briefly.
    fn tick_in_turn(&self, shards: &Shards, effort: Effort, now: Instant, waiting: &mut Waiting) {
        let count = shards.len();
        // Relaxed: see `MaintenanceState`.
        let turn = self.turn.load(Ordering::Relaxed);
        let mut emptying = None;
        for at in (0..count).map(|step| (turn + step) % count) {
            let begins = emptying.is_none();
            let effort = Effort { begins, ..effort };
            if tick_shard(shards, &shards[at], effort, now, waiting) && begins {
                emptying = Some(at);
            }
        }
        let Some(at) = emptying else {
            return;
        };
        // Relaxed: see `MaintenanceState`.
        self.turn.store(at, Ordering::Relaxed);
        for _ in 1..STEPS_PER_TURN.min(count) {
            let Some(mut shard) = shards.lock_own(&shards[at]) else {
                break;
            };
            shard.tick(effort, now);
            if !shard.is_emptying(now) {
                break;
            }
        }
    }

    fn effort(&self, now: Instant) -> Effort {
        // Relaxed: see above.
        let is_purging = now.0 < self.purge_until_ms.load(Ordering::Relaxed);
        Effort {
            expire: self.expire_effort.load(Ordering::Relaxed),
            release: is_purging || self.release_memory.load(Ordering::Relaxed),
            begins: true,
        }
    }
}

/// Runs a cache's background maintenance at the right pace, on a thread that serves no clients: in
/// short steps, so that it never takes a large part of a processor that others need.
#[derive(Debug, Default)]
pub struct Maintenance {
    /// The pauses since there was work, and since anything was put on a huge page.
    quiet: Duration,
    settled: Duration,
}

impl Maintenance {
    /// The longest pause between two steps.
    pub const PAUSE: Duration = Duration::from_millis(100);

    /// Does one step, [`Cache::tick`] or [`Cache::use_huge_pages`], and says how long to pause
    /// before the next.
    pub fn step(&mut self, cache: &Cache) -> Duration {
        let waiting = cache.maintain();
        let mut pause = match waiting.is_growing {
            true => SHORT_PAUSE,
            false => (self.quiet / PAUSE_SHARE).clamp(IDLE_PAUSE, Maintenance::PAUSE),
        };
        if waiting.is_any {
            (self.quiet, self.settled) = (Duration::ZERO, Duration::ZERO);
            pause = waiting.pause(cache.shards.len());
        }
        if waiting.has_sums {
            self.settled = Duration::ZERO;
            pause = pause.min(SHORT_PAUSE);
        }
        if self.quiet >= QUIET && cache.use_huge_pages() {
            self.settled = Duration::ZERO;
            pause = HUGE_PAUSE;
        }
        self.quiet += pause;
        self.settled += pause;
        pause
    }

    /// Whether there has been nothing to do for a second.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled >= SETTLED
    }
}

/// The work that background maintenance has still to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    /// Whether there is anything besides checksums.
    is_any: bool,
    /// Whether some segment is partly emptied.
    is_emptying: bool,
    /// Whether a shard took fresh memory not long ago.
    is_growing: bool,
    /// Expired items whose memory should have been reclaimed.
    overdue: u64,
    /// Whether some blocks lack a checksum.
    has_sums: bool,
    /// Free segments to return to the system, one in each step.
    surplus: u32,
    /// Whether to return them soon.
    is_releasing: bool,
}

impl Waiting {
    /// Whether there is any work.
    pub(super) fn is_some(self) -> bool {
        self.is_any || self.has_sums
    }

    /// The pause before the next step in so many shards: the shorter, the more items are expired or
    /// the more memory goes back to the system, so that a mass expiration is removed as quickly as
    /// a small one.
    fn pause(self, shards: usize) -> Duration {
        let steps = self.overdue / (shards * ENTRIES_PER_TICK) as u64;
        let steps = u32::try_from(steps.max(1)).unwrap_or(u32::MAX);
        let longest = if self.is_emptying {
            EMPTYING_PAUSE
        } else {
            SHORT_PAUSE
        };
        let gone = (GONE_WITHIN / steps).clamp(HASTY_PAUSE, longest);
        let surplus = u32::from(self.is_releasing) * self.surplus;
        gone.min((RELEASED_WITHIN / surplus.max(1)).max(HASTY_PAUSE))
    }
}

/// One shard's piece of background maintenance; makes memory resident that it will need next,
/// if it grows, without the lock. Adds the remaining work to `waiting`. Returns whether a
/// segment is partly emptied.
fn tick_shard(
    shards: &Shards,
    cell: &ShardCell,
    effort: Effort,
    now: Instant,
    waiting: &mut Waiting,
) -> bool {
    let Some(mut shard) = shards.lock_own(cell) else {
        return false;
    };
    let overdue = Excess::of(&shard.store, effort.expire, now);
    let begins = effort.begins || overdue.is_much();
    let is_left = shard.tick(Effort { begins, ..effort }, now);
    let is_emptying = shard.is_emptying(now);
    waiting.is_emptying |= is_emptying;
    waiting.overdue += overdue.items;
    waiting.surplus += shard.store.surplus(now, effort.release);
    let (index, log) = shard.store.begin_touch(now);
    waiting.is_growing |= shard.store.log().is_growing(now);
    let mean_bytes = shard.store.mean_item_bytes();
    drop(shard);
    cell.set_prefetch(mean_bytes);
    if let Some((at, bytes)) = index {
        let _ = cell.table.region().populate(at, bytes);
    }
    if let Some(touch) = log {
        // If an open segment is given back meanwhile, some pages of it come back early.
        let _ = cell.arena.region().populate(touch.at, touch.bytes);
        cell.lock_beside_claims().store.end_touch(&touch);
    }
    let release = || {
        shards
            .lock_own(cell)
            .is_some_and(|mut one| one.release_idle_piece(now))
    };
    let is_leaving = (0..PIECES_PER_TICK).all(|_| release());
    waiting.is_any |= is_left || is_leaving || index.is_some() || log.is_some();
    is_emptying
}

/// Gives one free segment of a shard back to the system, without the lock; whether there was
/// one.
fn release_segment(shards: &Shards, cell: &ShardCell) -> bool {
    let own = shards.lock_own(cell);
    let Some(segment) = own.and_then(|mut one| one.store.begin_release()) else {
        return false;
    };
    let segment_bytes = 1 << cell.arena.segment_shift();
    let start = segment as usize * segment_bytes;
    cell.arena.region().release(start, segment_bytes);
    cell.lock_beside_claims().store.end_release(segment);
    true
}
