//! Insights of a whole cache: what its shards noted, put together on request.
//!
//! Why: docs/decisions/0011. Tests: tests/insight.rs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::optimistic::Hits;
use super::shards::Shards;
use crate::base::clock::Instant;
use crate::insight::Insight;
use crate::interface::stats::{MissRatioCurve, MissReasons, Stats};

/// The insights of a cache.
pub(super) struct Insights {
    insight: Arc<Mutex<Insight>>,
    hits: Hits,
}

impl Insights {
    /// Those that the shards share as `insight`, of a cache for so many threads.
    pub(super) fn of(insight: Arc<Mutex<Insight>>, threads: usize) -> Insights {
        Insights {
            insight,
            hits: Hits::of(threads),
        }
    }

    /// Hits of reads without the lock, which no shard counts.
    #[inline]
    pub(super) fn hits(&self) -> &Hits {
        &self.hits
    }

    /// How many reads would have missed with less and with more memory.
    pub(super) fn miss_ratio_curve(&self, shards: &Shards) -> MissRatioCurve {
        let mut insight = self.lock();
        let (gets, misses) = self.gather(&mut insight, shards);
        insight.curve(shards.memory().sharing_bytes(), gets, misses)
    }

    /// Why reads missed.
    pub(super) fn miss_reasons(&self, shards: &Shards) -> MissReasons {
        let mut insight = self.lock();
        self.gather(&mut insight, shards);
        insight.reasons()
    }

    /// Adds the insights' statistics to `stats`.
    pub(super) fn add_to(&self, stats: &mut Stats, shards: &Shards) {
        let mut insight = self.lock();
        let (gets, misses) = self.gather(&mut insight, shards);
        let memory_bytes = shards.memory().sharing_bytes();
        let curve = insight.curve(memory_bytes, gets, misses);
        let reasons = insight.reasons();
        let [quarter, half, present, double, fourfold] = curve.points.map(|point| point.misses);
        (stats.gets, stats.misses) = (curve.gets, present);
        (stats.misses_at_quarter, stats.misses_at_half) = (quarter, half);
        (stats.misses_at_double, stats.misses_at_fourfold) = (double, fourfold);
        (stats.missed_never_stored, stats.missed_expired) = (reasons.never_stored, reasons.expired);
        (stats.missed_evicted, stats.missed_deleted) = (reasons.evicted, reasons.deleted);
        stats.small_queue_percent = insight.small_share().percent() as u64;
        stats.overhead_bytes += Insight::bytes(memory_bytes).1 as u64;
    }

    /// Flushes the insights: requests before it count as before.
    pub(super) fn flush_at(&self, shards: &Shards, at: Instant, now: Instant) {
        let mut insight = self.lock();
        self.gather(&mut insight, shards);
        insight.flush_at(at, now);
    }

    /// Keeps the shards from handing over more.
    pub(super) fn lock(&self) -> MutexGuard<'_, Insight> {
        // Statistics are useful even after a panic.
        self.insight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what all shards noted, and sums up their reads and misses.
    fn gather(&self, insight: &mut Insight, shards: &Shards) -> (u64, u64) {
        let (mut gets, mut misses) = (self.hits.sum(), 0);
        shards.each(|shard| {
            shard.watch.hand_over(insight);
            let counts = shard.watch.counts();
            (gets, misses) = (gets + counts.0, misses + counts.1);
        });
        (gets, misses)
    }
}
