//! Insight: the curve and the reasons of one cache, their memory and their limits.
//!
//! The insights belong to all shards and have a lock of their own. An operation that finds its
//! shard's buffer well filled empties it, if that lock is free; a request for statistics waits for
//! it. How many keys are sampled follows from the records of the simulations and from the time they
//! may take.
//!
//! Lock order: the insights' lock before a shard's. A thread that holds a shard only tries.
//! Why: docs/decisions/0011. Tests: tests/insight.rs.

pub(crate) mod sample; // the sample of requests for the insights
pub(crate) mod history; // stores and deletes of sampled keys
pub(crate) mod simulation; // a miniature of this cache at another memory size, fed with the sample
pub(crate) mod small_queue_tuner; // which share of memory the small queue should have
pub(crate) mod curve; // what more memory would buy
pub(crate) mod reasons; // why a read missed
pub(crate) mod hot; // which keys are hot
pub(crate) mod watch; // a shard's records of requests for the insights

use self::curve::{Curve, QUARTERS, SIZES};
use self::history::History;
use self::reasons::Reasons;
use self::sample::{Coarse, Event};
use self::simulation::Capacity;
use crate::base::clock::Instant;
use std::sync::Arc;

use crate::base::serialize::{Deserializer, Serialize, Serializer};
use crate::interface::stats::{CurvePoint, MissRatioCurve, MissReasons};
use crate::log::policy::SmallShare;
use crate::memory::Budget;

/// The insights' memory: a share of the cache's, at least a useful size, and bounded.
const MEMORY_DIVISOR: usize = 256;
const BYTES_USEFUL: usize = 512 << 10;
const USEFUL_DIVISOR: usize = 8;
const BYTES_MAX: usize = 2 << 20;
/// Records of a simulation in the smallest cache.
const RECORDS_MIN: usize = 8;
/// Keys whose fate is remembered for each record of a simulation.
const FATES_PER_RECORD: usize = 4;
/// Most steps of simulations in a second of the cache's clock; beyond that the rate is lowered. A
/// clock that does not advance, as in replays of traces without times, limits nothing.
const STEPS_PER_S_MAX: u64 = 50_000;
/// Least time over which the load is judged.
const LOAD_SPAN_MIN: Coarse = Coarse::span_ms(100);
/// Batches between two looks at whether the reasons' memory still fits.
const BATCHES_PER_FIT: u64 = 64;

/// Statistics and simulations of the requests of one cache.
#[derive(Debug)]
pub(crate) struct Insight {
    memory_bytes: usize,
    /// Knows how much of that the cache has come to hold.
    budget: Arc<Budget>,
    curve: Curve,
    /// How much of memory the small queue may have, as the curve's tuner says.
    small: Arc<SmallShare>,
    reasons: Reasons,
    /// Buffer for the events that are being processed.
    batch: Vec<Event>,
    batches: u64,
    /// The last flush: earlier stores are void. And a delayed one.
    flushed: Coarse,
    flush_at: Option<Instant>,
    /// Steps done since the load was last judged, and when that was.
    steps: u64,
    judged: Coarse,
    /// The values reported last: counts must not decrease.
    shown: [f64; SIZES],
}

impl Insight {
    /// Insights into a cache of `memory_bytes`, whose logs draw on a budget; `capacity_at` returns
    /// the capacity of a cache of another size.
    pub(crate) fn new(
        memory_bytes: usize,
        capacity_at: impl Fn(usize) -> Capacity,
        budget: &Arc<Budget>,
        now: Instant,
    ) -> Insight {
        let records = Insight::records(memory_bytes);
        Insight {
            memory_bytes,
            budget: Arc::clone(budget),
            curve: Curve::new(
                QUARTERS.map(|quarters| capacity_at(memory_bytes / 4 * quarters)),
                records,
                u32::MAX,
            ),
            small: Arc::default(),
            reasons: Reasons::new(records * FATES_PER_RECORD, u32::MAX),
            batch: Vec::new(),
            batches: 0,
            flushed: Coarse(0),
            flush_at: None,
            steps: 0,
            judged: Coarse::moment(now),
            shown: [0.0; SIZES],
        }
    }

    /// Serializes the records of keys.
    pub(crate) fn serialize(&self, out: &mut Serializer) {
        self.curve.serialize(out);
        self.reasons.serialize(out);
        (self.flushed.0, self.flush_at).serialize(out);
    }

    /// Restores the records of keys of another process; returns whether they are of such a cache.
    /// Counts restart at zero.
    pub(crate) fn restore(&mut self, from: &mut Deserializer<'_>) -> bool {
        let mut restore = || {
            self.curve.restore(from)?;
            self.small.set(self.curve.small_percent());
            self.reasons.restore(from)?;
            (self.flushed.0, self.flush_at) = Serialize::deserialize(from)?;
            Some(())
        };
        restore().is_some()
    }

    /// Bytes that the insights into a cache of `memory_bytes` may take, and how many of them come
    /// out of that memory. The rest belongs to the base that every cache has.
    pub(crate) fn bytes(memory_bytes: usize) -> (usize, usize) {
        let all = Insight::bytes_while(memory_bytes, memory_bytes);
        (all, (memory_bytes / MEMORY_DIVISOR).min(all))
    }

    /// Bytes that the insights may take while a cache of `memory_bytes` holds `held_bytes`: a cache
    /// that holds little needs few.
    fn bytes_while(memory_bytes: usize, held_bytes: usize) -> usize {
        let base = BYTES_USEFUL.min(memory_bytes / USEFUL_DIVISOR);
        (held_bytes / MEMORY_DIVISOR + base).min(BYTES_MAX)
    }

    /// The same in thousandths of their memory in a full cache.
    fn permille(memory_bytes: usize, held_bytes: usize) -> usize {
        let (all, _) = Insight::bytes(memory_bytes);
        1_000 * Insight::bytes_while(memory_bytes, held_bytes).min(all) / all.max(1)
    }

    /// Records that so much memory has room for.
    fn records(memory_bytes: usize) -> usize {
        let (bytes, _) = Insight::bytes(memory_bytes);
        let mut records = bytes / Curve::bytes_for(1) * 2;
        while Curve::bytes_for(records) + History::bytes_for(records * FATES_PER_RECORD) > bytes {
            records = records.saturating_sub(records / 64 + 1);
        }
        records.max(RECORDS_MIN)
    }

    /// Keys whose part lies below this are in the sample.
    pub(crate) fn below(&self) -> u32 {
        self.curve.below().max(self.reasons.below())
    }

    /// Buffer for a shard's events, for [`Insight::see_batch`].
    pub(crate) fn batch(&mut self) -> &mut Vec<Event> {
        &mut self.batch
    }

    /// How much of memory the small queue may have; the cache it is for looks there.
    pub(crate) fn small_share(&self) -> Arc<SmallShare> {
        Arc::clone(&self.small)
    }

    /// Looks at the events of a batch.
    pub(crate) fn see_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        for event in &batch {
            self.flush_if_due(event.now);
            if event.now < self.flushed {
                continue;
            }
            self.steps += self.curve.see(event);
            self.reasons.see(event);
        }
        if let Some(last) = batch.last() {
            self.judge_load(last.now);
        }
        let permille = Insight::permille(self.memory_bytes, self.budget.held());
        self.curve.fit(permille);
        self.small.set(self.curve.small_percent());
        self.batch = batch;
        self.batches += 1;
        if self.batches.is_multiple_of(BATCHES_PER_FIT) {
            self.reasons.fit(self.curve.items());
        }
    }

    /// Everything will be gone from `at` on, or from now on if that has passed.
    pub(crate) fn flush_at(&mut self, at: Instant, now: Instant) {
        self.flush_at = Some(at);
        self.flush_if_due(Coarse::moment(now));
    }

    fn flush_if_due(&mut self, now: Coarse) {
        if let Some(at) = self.flush_at
            && Coarse::moment(at) <= now
        {
            self.flush_at = None;
            self.flushed = Coarse::moment(at);
            self.curve.flush();
            self.reasons.flush();
        }
    }

    /// Lowers the rate if more was done since the last look than the insights may cost.
    fn judge_load(&mut self, now: Coarse) {
        let elapsed = now.since(self.judged);
        if elapsed < LOAD_SPAN_MIN {
            return;
        }
        let most = STEPS_PER_S_MAX * elapsed.ms() / 1000;
        if self.steps > most {
            let below = (u64::from(self.below()) * most / self.steps) as u32;
            self.curve.lower(below);
            self.reasons.lower(below);
        }
        (self.steps, self.judged) = (0, now);
    }

    /// The curve over `gets` reads, `misses` of which missed.
    pub(crate) fn curve(&mut self, memory_bytes: usize, gets: u64, misses: u64) -> MissRatioCurve {
        let difference = self.curve.difference();
        let points = std::array::from_fn(|size| {
            let is_present = size == SIZES / 2;
            let difference = if is_present { 0.0 } else { difference[size] };
            let estimate = misses as f64 + difference;
            let shown = &mut self.shown[size];
            *shown = estimate.max(*shown).min(gets as f64);
            CurvePoint {
                memory_bytes: (memory_bytes / 4 * QUARTERS[size]) as u64,
                misses: shown.round() as u64,
            }
        });
        MissRatioCurve { gets, points }
    }

    /// Why reads missed.
    pub(crate) fn reasons(&self) -> MissReasons {
        self.reasons.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight::sample::{Action, part};

    const MIB: usize = 1 << 20;

    fn insight() -> Insight {
        let capacity = |bytes| Capacity {
            bytes,
            segment_bytes: 16 << 10,
        };
        let budget = Arc::new(Budget::new(64 * MIB));
        Insight::new(64 * MIB, capacity, &budget, Instant(0))
    }

    fn read(insight: &mut Insight, hashes: impl Iterator<Item = u64>, now_ms: u64) {
        for hash in hashes {
            let hash = (hash + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if part(hash) < insight.below() {
                let event = Event {
                    hash,
                    action: Action::Miss,
                    bytes: 0,
                    deadline: Coarse::NEVER,
                    now: Coarse::moment(Instant(now_ms)),
                };
                insight.batch().clear();
                insight.batch().push(event);
                insight.see_batch();
            }
        }
    }

    #[test]
    fn what_the_insights_take_is_bounded_and_mostly_paid_for() {
        for mib in [1, 4, 8, 64, 256, 4_096] {
            let (all, paid) = Insight::bytes(mib * MIB);
            assert!(paid <= mib * MIB / 64 && all - paid <= MIB / 2, "{mib} MiB");
            assert!(all <= 2 * MIB && all >= mib.min(4) * MIB / 8);
            let records = Insight::records(mib * MIB);
            let used = Curve::bytes_for(records) + History::bytes_for(records * FATES_PER_RECORD);
            assert!(used <= all && used > all / 2, "{mib} MiB: {used} of {all}");
        }
    }

    #[test]
    fn while_a_cache_holds_little_few_records_are_in_use() {
        let share = |mib, held_mib| Insight::permille(mib * MIB, held_mib * MIB);
        assert_eq!((share(64, 64), share(4_096, 4_096)), (1_000, 1_000));
        assert_eq!((share(4_096, 0), share(4_096, 64)), (250, 375));
        let capacity = |bytes| Capacity {
            bytes,
            segment_bytes: 16 << 10,
        };
        let budget = Arc::new(Budget::new(4_096 * MIB));
        let mut insight = Insight::new(4_096 * MIB, capacity, &budget, Instant(0));
        let records = Insight::records(4_096 * MIB) as f64;
        for number in 0..100_000_u64 {
            let hash = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            insight.batch().push(Event {
                hash,
                action: Action::Set,
                bytes: 50,
                deadline: Coarse::NEVER,
                now: Coarse::moment(Instant(0)),
            });
            insight.see_batch();
            insight.batch().clear();
        }
        let share = insight.curve.items() / 100_000.0;
        assert!((0.8..1.2).contains(&share), "{share}");
        let below = f64::from(insight.curve.below()) / f64::from(u32::MAX);
        assert!(below * 100_000.0 <= records * 0.251 * 1.2, "{below}");
    }

    #[test]
    fn much_in_little_time_lowers_the_rate() {
        let mut insight = insight();
        read(&mut insight, 0..100_000, 50);
        assert_eq!(insight.below(), u32::MAX);
        read(&mut insight, 0..1, 1_000);
        let below = insight.below();
        assert!(below < u32::MAX / 8, "{below}");
        for second in 1..20 {
            read(&mut insight, 0..100_000, 1_000 * second);
        }
        // 100,000 reads in a second and all simulations together, 50,000 steps.
        let share = f64::from(insight.below()) / f64::from(u32::MAX);
        assert!(share < 0.12, "{share}");
    }

    #[test]
    fn a_clock_that_stands_still_limits_nothing() {
        let mut insight = insight();
        read(&mut insight, 0..200_000, 0);
        assert_eq!(insight.below(), u32::MAX);
    }
}
