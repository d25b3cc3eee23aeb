//! Insights of a whole cache: what its shards noted, put together on request.
//!
//! Why: docs/decisions/0011. Tests: tests/insight.rs.

use std::sync::{MutexGuard, PoisonError};

use super::Cache;
use crate::clock::Instant;
use crate::hot::GAP_MEAN;
use crate::insight::Insight;
use crate::key::Key;
use crate::stats::{HotKey, MissRatioCurve, MissReasons, Stats};

impl Cache {
    /// How many reads would have missed with a quarter to four times the memory, since the cache
    /// was made.
    ///
    /// An estimate from simulations of this cache on a sample of the keys, with the items' sizes
    /// and TTLs; typically within 0.02 of the true miss ratio, and exact at the present size.
    /// Always on. Takes each shard's lock for a moment.
    #[must_use]
    pub fn miss_ratio_curve(&self) -> MissRatioCurve {
        let mut insight = self.lock_insight();
        let (gets, misses) = self.gather(&mut insight);
        insight.curve(self.shards.memory().sharing_bytes(), gets, misses)
    }

    /// Why reads missed, since the cache was made: estimated counts from a sample of the keys.
    ///
    /// Always on. Takes each shard's lock for a moment.
    #[must_use]
    pub fn miss_reasons(&self) -> MissReasons {
        let mut insight = self.lock_insight();
        self.gather(&mut insight);
        insight.reasons()
    }

    /// The `most` keys that were read most in the last minute or so, the hottest first.
    ///
    /// Estimates from one read in 128; keys of more than 250 bytes are not listed. A key that gets
    /// less than about a hundredth of its shard's reads may be missing. Takes the lock of each
    /// shard's list for a moment, and no shard's.
    #[must_use]
    pub fn hottest_keys(&self, most: usize) -> Vec<HotKey> {
        let now = self.shards.now();
        let (mut keys, mut total) = (Vec::new(), 0);
        for cell in self.shards.iter() {
            let mut hot = cell.hot.lock();
            let (listed, counted, window_ms) = hot.list(now);
            total += counted;
            let gets = |count: u32| f64::from(count) * f64::from(GAP_MEAN);
            keys.extend(listed.iter().map(|known| HotKey {
                key: known.key.to_vec(),
                space: known.space,
                gets_per_s: gets(known.sure()) * 1000.0 / window_ms.max(1) as f64,
                share: f64::from(known.sure()),
            }));
        }
        keys.sort_unstable_by(|a, b| b.share.total_cmp(&a.share).then(a.key.cmp(&b.key)));
        keys.truncate(most);
        for key in &mut keys {
            key.share /= total.max(1) as f64;
        }
        keys
    }

    /// Reads of a key in the last minute or so, if it is among those that are read most; else 0.
    ///
    /// An estimate as in [`Cache::hottest_keys`]. Cost: a walk over the list of one shard.
    #[must_use]
    pub fn recent_gets(&self, key: Key<'_>) -> u64 {
        let mut hot = self.shards.cell(key).hot.lock();
        u64::from(hot.sure_of(key, self.shards.now())) * u64::from(GAP_MEAN)
    }

    /// Hands over what all shards noted, and sums up their reads and misses.
    fn gather(&self, insight: &mut Insight) -> (u64, u64) {
        let (mut gets, mut misses) = (self.hits.sum(), 0);
        for cell in self.shards.iter() {
            let mut shard = cell.lock_beside_claims();
            shard.watch.hand_over(insight);
            let counts = shard.watch.counts();
            (gets, misses) = (gets + counts.0, misses + counts.1);
        }
        (gets, misses)
    }

    /// Adds the insights' statistics to `stats`.
    pub(super) fn add_insights_to(&self, stats: &mut Stats) {
        let mut insight = self.lock_insight();
        let (gets, misses) = self.gather(&mut insight);
        let curve = insight.curve(self.shards.memory().sharing_bytes(), gets, misses);
        let reasons = insight.reasons();
        let [quarter, half, present, double, fourfold] = curve.points.map(|point| point.misses);
        (stats.gets, stats.misses) = (curve.gets, present);
        (stats.misses_at_quarter, stats.misses_at_half) = (quarter, half);
        (stats.misses_at_double, stats.misses_at_fourfold) = (double, fourfold);
        (stats.missed_never_stored, stats.missed_expired) = (reasons.never_stored, reasons.expired);
        (stats.missed_evicted, stats.missed_deleted) = (reasons.evicted, reasons.deleted);
        stats.small_queue_percent = insight.small_share().percent() as u64;
        stats.overhead_bytes += Insight::bytes(self.shards.memory().sharing_bytes()).1 as u64;
    }

    /// Flushes the insights: requests before it count as before.
    pub(super) fn flush_insights(&self, at: Instant, now: Instant) {
        let mut insight = self.lock_insight();
        self.gather(&mut insight);
        insight.flush_at(at, now);
    }

    fn lock_insight(&self) -> MutexGuard<'_, Insight> {
        // Statistics are useful even after a panic.
        self.insight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
