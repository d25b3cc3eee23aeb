//! Upkeep: what a cache needs besides requests, in steps that a thread of its owner calls.
//!
//! Locks are held briefly. What takes longer, giving memory to the system or putting it on huge
//! pages, is done between two locks, on memory that the shard sets aside meanwhile.
//!
//! Why: docs/decisions/0014. Tests: tests/evict.rs.

use std::time::Duration;

use super::{Cache, Slot};
use crate::clock::Instant;

/// Pause between two steps when there was something to do, now or a few steps ago.
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// Steps without work after which the pauses get longer.
const IDLE_STEPS: u32 = 100;
/// Pause between two steps when more memory waits for huge pages.
const HUGE_PAUSE: Duration = Duration::from_millis(10);

/// A cache's upkeep at the right pace, for a thread that serves nobody: short steps, so that it
/// never takes a large part of a processor that others want.
#[derive(Debug, Default)]
pub struct Upkeep {
    idle_steps: u32,
}

impl Upkeep {
    /// The pause between two steps when nothing is left to do.
    pub const PAUSE: Duration = Duration::from_millis(100);

    /// Does one step, [`Cache::tick`] or [`Cache::use_huge_pages`], and says how long to pause
    /// before the next.
    pub fn step(&mut self, cache: &Cache) -> Duration {
        self.idle_steps = if cache.tick() {
            0
        } else {
            self.idle_steps.saturating_add(1)
        };
        if self.idle_steps < IDLE_STEPS {
            SHORT_PAUSE
        } else if cache.use_huge_pages() {
            HUGE_PAUSE
        } else {
            Upkeep::PAUSE
        }
    }
}

impl Cache {
    /// A bounded piece of upkeep in each shard: empties segments whose items have all expired,
    /// shrinks an index that has become too large, touches the memory that a growing shard needs
    /// next, and with
    /// [`Config::release_memory`](crate::Config::release_memory) compacts what is partly dead and
    /// gives free memory back to the system. Whether more of it is waiting.
    ///
    /// To be called as [`Upkeep`] does: ten times a second, and every millisecond while more is
    /// waiting. Holds each shard's lock for some 128 items at most.
    pub fn tick(&self) -> bool {
        let now = self.now();
        let release = self.config.release_memory;
        let mut is_left = false;
        for slot in &self.shards {
            is_left |= self.lock(slot).tick(release, now);
            is_left |= self.touch_ahead(slot, now);
            is_left |= release && self.release_segment(slot, now);
        }
        is_left
    }

    /// Makes memory resident that a growing shard will need next, without the lock; whether there
    /// was any.
    fn touch_ahead(&self, slot: &Slot, now: Instant) -> bool {
        let mut shard = self.lock(slot);
        let index = shard.store.index.begin_touch();
        let open = shard.store.log.touch_open(now);
        let segment = shard.store.log.begin_touch(now);
        drop(shard);
        // If the open segment is given back meanwhile, some pages of it come back early.
        if let Some((at, bytes)) = open {
            slot.arena.region().populate(at, bytes);
        }
        if let Some((at, bytes)) = index {
            slot.table.region().populate(at, bytes);
        }
        if let Some(segment) = segment {
            let start = segment as usize * self.segment_bytes;
            slot.arena.region().populate(start, self.segment_bytes);
            self.lock(slot).store.log.end_touch(segment);
        }
        index.is_some() || open.is_some() || segment.is_some()
    }

    /// Gives one free segment of a shard back to the system, without the lock; whether there was
    /// one.
    fn release_segment(&self, slot: &Slot, now: Instant) -> bool {
        let Some(segment) = self.lock(slot).store.log.begin_release(now) else {
            return false;
        };
        let start = segment as usize * self.segment_bytes;
        slot.arena.region().release(start, self.segment_bytes);
        self.lock(slot).store.log.end_release(segment);
        true
    }

    /// Puts memory that is in full use on huge pages: in each shard one stretch of the index and
    /// one of the log at most. Whether there was any; none while the cache grows, because the
    /// system makes all who touch fresh memory wait meanwhile.
    ///
    /// To be called now and then from a thread that serves nobody: it holds no lock for long but
    /// may itself take milliseconds.
    pub fn use_huge_pages(&self) -> bool {
        let now = self.now();
        let is_growing = |slot: &Slot| self.lock(slot).store.log.is_growing(now);
        if self.shards.iter().any(is_growing) {
            return false;
        }
        let mut was_any = false;
        for slot in &self.shards {
            was_any |= self.make_huge(slot);
        }
        was_any
    }

    fn make_huge(&self, slot: &Slot) -> bool {
        let mut shard = self.lock(slot);
        let (index, log) = (shard.store.index.begin_huge(), shard.store.log.begin_huge());
        drop(shard);
        if let Some(stretch) = index {
            slot.table.region().make_huge(stretch);
        }
        if let Some(stretch) = log {
            slot.arena.region().make_huge(stretch);
        }
        let mut shard = self.lock(slot);
        shard.store.index.end_huge();
        shard.store.log.end_huge();
        index.is_some() || log.is_some()
    }
}
