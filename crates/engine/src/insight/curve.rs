//! Curve: how many reads would miss with less or more memory.
//!
//! Five simulations, from a quarter of the memory to four times as much, see the same sampled
//! requests. Each has its own sampling rate, as its records allow: a small cache is simulated on a
//! larger share of its keys. A read that a simulation misses is followed by a store there: by the
//! client's own if the real cache missed too, else at once, with the size of the real item and the
//! TTL that it was stored with.
//!
//! A [`SmallQueueTuner`] runs beside them; all five simulate the small queue's share that it has
//! chosen for the real cache.
//!
//! The simulations estimate the difference from the real cache on the same sampled keys, which
//! varies far less than the misses themselves. The real cache's misses are counted exactly.
//! Why: docs/decisions/0011. Tests: tests/insight.rs.

use crate::base::serialize::{Deserializer, Serialize, Serializer};
use crate::insight::history::History;
use crate::insight::sample::{Action, Coarse, Event, part};
use crate::insight::simulation::{Capacity, Simulation};
use crate::insight::small_queue_tuner::SmallQueueTuner;

/// Sizes of the imagined caches, in quarters of the real one.
pub(crate) const QUARTERS: [usize; SIZES] = [1, 2, 4, 8, 16];
pub(crate) const SIZES: usize = 5;
/// Keys whose TTL is remembered for each record of a simulation: more than the real cache holds of
/// the smallest simulation's sample.
const TTLS_PER_RECORD: usize = 6;

/// The simulations and their counts.
#[derive(Debug)]
pub(crate) struct Curve {
    simulations: [Simulation; SIZES],
    tuner: SmallQueueTuner,
    ttls: History,
    /// Misses there, and misses of the real cache among the same keys; each sampled one counts for
    /// all keys that it represents.
    misses: [f64; SIZES],
    real_misses: [f64; SIZES],
}

impl Curve {
    /// Simulations of caches with such capacities, in `records_max` records each.
    pub(crate) fn new(capacities: [Capacity; SIZES], records_max: usize, below: u32) -> Curve {
        Curve {
            simulations: capacities.map(|capacity| Simulation::new(capacity, records_max, below)),
            tuner: SmallQueueTuner::new(capacities[SIZES / 2], records_max, below),
            ttls: History::of(records_max * TTLS_PER_RECORD),
            misses: [0.0; SIZES],
            real_misses: [0.0; SIZES],
        }
    }

    /// Serializes the simulated caches.
    pub(crate) fn serialize(&self, out: &mut Serializer) {
        self.simulations.serialize(out);
        self.tuner.serialize(out);
        self.ttls.serialize(out);
    }

    /// Restores the simulated caches of another process, if they are of the same sizes. Counts
    /// restart at zero.
    pub(crate) fn restore(&mut self, from: &mut Deserializer<'_>) -> Option<()> {
        let simulations = <[Simulation; SIZES]>::deserialize(from)?;
        let tuner = SmallQueueTuner::deserialize(from)?;
        let ttls = History::deserialize(from)?;
        let mut both = self.simulations.iter().zip(&simulations);
        if !both.all(|(one, other)| one.is_like(other)) || !self.tuner.is_like(&tuner) {
            return None;
        }
        (self.simulations, self.tuner, self.ttls) = (simulations, tuner, ttls);
        Some(())
    }

    /// Bytes that a curve with so many records takes.
    pub(crate) const fn bytes_for(records_max: usize) -> usize {
        SIZES * Simulation::bytes_for(records_max)
            + SmallQueueTuner::bytes_for(records_max)
            + History::bytes_for(records_max * TTLS_PER_RECORD)
    }

    /// Keys whose part lies below this are in the sample of at least one simulation.
    pub(crate) fn below(&self) -> u32 {
        let below = self.simulations.iter().map(Simulation::below);
        below.max().unwrap_or(0).max(self.tuner.below())
    }

    /// Lowers all rates to at most this.
    pub(crate) fn lower(&mut self, below: u32) {
        for simulation in &mut self.simulations {
            simulation.lower(below);
        }
        self.tuner.lower(below);
    }

    /// Lowers the rates at which more than so many thousandths of the records are in use.
    pub(crate) fn fit(&mut self, permille: usize) {
        for simulation in &mut self.simulations {
            simulation.fit(permille);
        }
    }

    /// The share of memory that the small queue should have, in percent.
    pub(crate) fn small_percent(&self) -> usize {
        self.tuner.small_percent()
    }

    /// About how many items the real cache holds.
    pub(crate) fn items(&self) -> f64 {
        self.simulations[SIZES / 2].items()
    }

    /// Misses that a cache of each size would have had, relative to those of the real one.
    pub(crate) fn difference(&self) -> [f64; SIZES] {
        std::array::from_fn(|size| self.misses[size] - self.real_misses[size])
    }

    /// Shows a request to all simulations that have its key in their sample; returns how many.
    pub(crate) fn see(&mut self, event: &Event) -> u64 {
        let Event {
            hash,
            deadline,
            now,
            ..
        } = *event;
        let part = part(hash);
        if matches!(event.action, Action::Set | Action::Touch) && deadline != Coarse::NEVER {
            let below = self.below();
            self.ttls.store(hash, below, deadline, now);
        }
        let mut steps = self.tuner.see(event, &mut self.ttls);
        if self.tuner.has_changed() {
            let percent = self.tuner.small_percent();
            let all = self.simulations.iter_mut();
            all.for_each(|simulation| simulation.set_small_percent(percent));
        }
        for (size, simulation) in self.simulations.iter_mut().enumerate() {
            if part >= simulation.below() {
                continue;
            }
            steps += 1;
            let weight = simulation.weight();
            if event.action == Action::Miss {
                self.real_misses[size] += weight;
            }
            if simulation.show(event, &mut self.ttls) {
                self.misses[size] += weight;
            }
        }
        steps
    }

    /// Deletes everything everywhere.
    pub(crate) fn flush(&mut self) {
        self.simulations.iter_mut().for_each(Simulation::flush);
        self.tuner.flush();
    }
}
