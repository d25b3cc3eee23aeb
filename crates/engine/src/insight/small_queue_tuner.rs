//! Small queue tuner: which share of memory the small queue should have.
//!
//! It runs one simulation of this cache for each candidate share ([`SMALL_PERCENTS`]), all with the
//! same few sampled keys. For each candidate it counts how many misses fewer there would have been
//! than with the present share. A candidate becomes the present share once that number exceeds the
//! cost of the change: the queues approach their new sizes by evictions, and one of them loses
//! items that the new share alone would have kept.
//!
//! A cache whose simulations would have too few records to distinguish two shares has none.
//! Why: docs/decisions/0065, 0068. Tests: at the end of this file, and tests/insight.rs.

use crate::base::serialize::serialize;
use crate::insight::history::History;
use crate::insight::sample::{Event, part};
use crate::insight::simulation::{Capacity, Simulation};
use crate::log::policy::SMALL_PERCENTS;

/// Records of a simulation: one for each so many that a simulation of the curve has, and most.
const RECORDS_DIVISOR: usize = 5;
const RECORDS_MAX: usize = 500;
/// With fewer, chance decides.
const RECORDS_MIN: usize = 100;
/// Misses that a change costs for each item by which a queue gets shorter.
const MISSES_PER_ITEM: f64 = 0.5;
/// Fewest sampled requests between two looks.
const REQUESTS_MIN: usize = 64;

/// The simulations, and what would have been gained with each.
#[derive(Debug)]
pub(crate) struct SmallQueueTuner {
    /// One for each share, or none.
    simulations: Vec<Simulation>,
    /// How many misses fewer each would have had than the present one. A negative sum is reset to
    /// zero: misses of a share long ago do not show its present value.
    gains: Vec<u32>,
    /// Which share is in force.
    present: usize,
    /// Whether that is new since the last call of [`SmallQueueTuner::has_changed`].
    changed: bool,
    /// Sampled requests since the last look.
    requests: usize,
}

serialize!(SmallQueueTuner {
    simulations,
    gains,
    present,
    changed,
    requests,
});

impl SmallQueueTuner {
    /// The tuner of a cache of such a capacity, where a simulation of the curve has so many
    /// records.
    pub(crate) fn new(capacity: Capacity, curve_records: usize, below: u32) -> SmallQueueTuner {
        let records = SmallQueueTuner::records(curve_records);
        let count = if records > 0 { SMALL_PERCENTS.len() } else { 0 };
        let simulations = SMALL_PERCENTS.iter().take(count).map(|&percent| {
            let mut simulation = Simulation::new(capacity, records, below);
            simulation.set_small_percent(percent);
            simulation
        });
        SmallQueueTuner {
            simulations: simulations.collect(),
            gains: vec![0; count],
            present: 0,
            changed: false,
            requests: 0,
        }
    }

    /// Records of each; none where they would be too few.
    const fn records(curve_records: usize) -> usize {
        let records = curve_records / RECORDS_DIVISOR;
        if records < RECORDS_MIN {
            0
        } else if records > RECORDS_MAX {
            RECORDS_MAX
        } else {
            records
        }
    }

    /// About how many bytes it takes.
    pub(crate) const fn bytes_for(curve_records: usize) -> usize {
        match SmallQueueTuner::records(curve_records) {
            0 => 0,
            records => SMALL_PERCENTS.len() * Simulation::bytes_for(records),
        }
    }

    /// Whether another one simulates the same cache with as many records.
    pub(crate) fn is_like(&self, other: &SmallQueueTuner) -> bool {
        let mut both = self.simulations.iter().zip(&other.simulations);
        self.simulations.len() == other.simulations.len()
            && other.gains.len() == other.simulations.len()
            && other.present < SMALL_PERCENTS.len()
            && both.all(|(one, theirs)| one.is_like(theirs))
    }

    /// Keys whose part lies below this are in its sample.
    pub(crate) fn below(&self) -> u32 {
        self.simulations.first().map_or(0, Simulation::below)
    }

    /// Lowers the sampling rate to at most this, and the gains in proportion.
    pub(crate) fn lower(&mut self, below: u32) {
        self.lower_from(self.below(), below);
    }

    /// The same where some simulations may have lowered theirs already; `before` is the old rate.
    fn lower_from(&mut self, before: u32, below: u32) {
        if below >= before {
            return;
        }
        let all = self.simulations.iter_mut();
        all.for_each(|simulation| simulation.lower(below));
        for gain in &mut self.gains {
            *gain = (u64::from(*gain) * u64::from(below) / u64::from(before)) as u32;
        }
    }

    /// The share in force, in percent.
    pub(crate) fn small_percent(&self) -> usize {
        SMALL_PERCENTS[self.present]
    }

    /// Whether another share is in force than at the last call.
    pub(crate) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Shows it a request if the key is in its sample; how many steps that took.
    pub(crate) fn see(&mut self, event: &Event, ttls: &mut History) -> u64 {
        let before = self.below();
        if part(event.hash) >= before {
            return 0;
        }
        let mut missed = [false; SMALL_PERCENTS.len()];
        for (simulation, missed) in self.simulations.iter_mut().zip(&mut missed) {
            *missed = simulation.show(event, ttls);
        }
        for (gain, missed_there) in self.gains.iter_mut().zip(missed) {
            match (missed[self.present], missed_there) {
                (true, false) => *gain = gain.saturating_add(1),
                (false, true) => *gain = gain.saturating_sub(1),
                _ => {}
            }
        }
        // Keys for which one simulation has no records no longer count for the others either.
        let all = self.simulations.iter();
        if let Some(below) = all.map(Simulation::below).min() {
            self.lower_from(before, below);
        }
        self.requests += 1;
        let held = self.simulations[self.present].sampled_items();
        if self.requests >= (held / 2).max(REQUESTS_MIN) {
            self.requests = 0;
            self.look();
        }
        self.simulations.len() as u64
    }

    /// Lets the share take the present one's place that is worth most more than the change costs.
    fn look(&mut self) {
        let held = self.simulations[self.present].sampled_items() as f64;
        let worth = |share: usize| {
            let moved_percent = SMALL_PERCENTS[share].abs_diff(self.small_percent()) as f64;
            f64::from(self.gains[share]) - MISSES_PER_ITEM * held * moved_percent / 100.0
        };
        let all = 0..self.gains.len();
        let best = all.max_by(|&one, &other| worth(one).total_cmp(&worth(other)));
        if let Some(best) = best.filter(|&best| worth(best) > 0.0) {
            self.present = best;
            self.changed = true;
            self.gains.fill(0);
        }
    }

    /// Deletes everything everywhere. Gains measured with more items would be too high.
    pub(crate) fn flush(&mut self) {
        self.gains.fill(0);
        self.simulations.iter_mut().for_each(Simulation::flush);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::serialize::{Deserializer, Serialize, Serializer};
    use crate::insight::sample::{Action, Coarse};

    const CAPACITY: Capacity = Capacity {
        bytes: 40_000,
        segment_bytes: 16 << 10,
    };
    const CURVE_RECORDS: usize = 2_500;

    fn tuner() -> SmallQueueTuner {
        SmallQueueTuner::new(CAPACITY, CURVE_RECORDS, u32::MAX)
    }

    fn show_all(tuner: &mut SmallQueueTuner, number: u64, action: Action) {
        let event = Event {
            hash: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            action,
            bytes: 100,
            deadline: Coarse::NEVER,
            now: Coarse(100),
        };
        tuner.see(&event, &mut History::of(16));
    }

    /// Each key is stored, and read once when so many others were stored behind it.
    fn read_once_after(tuner: &mut SmallQueueTuner, distance: u64, keys: std::ops::Range<u64>) {
        for number in keys {
            show_all(tuner, number, Action::Set);
            show_all(tuner, number.saturating_sub(distance), Action::Hit);
        }
    }

    #[test]
    fn the_share_that_misses_least_takes_the_place_of_the_present_one() {
        let mut tuner = tuner();
        assert_eq!(tuner.small_percent(), 10);
        // Some 350 items fit: an item read after 55 others has been evicted from a small queue of
        // 35.
        read_once_after(&mut tuner, 55, 1..4_000);
        assert_eq!((tuner.small_percent(), tuner.has_changed()), (20, true));
        assert!(!tuner.has_changed());
    }

    #[test]
    fn what_is_better_for_less_than_the_change_costs_takes_no_place() {
        let mut tuner = tuner();
        read_once_after(&mut tuner, 2, 1..2_000);
        let (mut next, mut gained) = (2_000, 0);
        while gained < 5 {
            read_once_after(&mut tuner, 55, next..next + 1);
            next += 1;
            gained = tuner.gains[2];
        }
        // It would be taken at half of a tenth of the stored items, some 17.
        read_once_after(&mut tuner, 2, next..next + 4_000);
        assert_eq!((tuner.small_percent(), tuner.has_changed()), (10, false));
        assert!(tuner.gains[2] >= 5);
    }

    #[test]
    fn what_was_gained_with_more_is_not_what_little_is_worth() {
        let mut tuner = tuner();
        read_once_after(&mut tuner, 2, 1..2_000);
        tuner.gains[2] = 12;
        tuner.lower(tuner.below() / 2);
        assert!(matches!(tuner.gains[2], 5 | 6), "{:?}", tuner.gains);
        tuner.flush();
        for number in 10_000..10_500 {
            show_all(&mut tuner, number, Action::Set);
        }
        assert_eq!((tuner.small_percent(), tuner.has_changed()), (10, false));
    }

    #[test]
    fn what_is_as_good_takes_no_place() {
        let mut tuner = tuner();
        // All of them have it still, or none has.
        read_once_after(&mut tuner, 2, 1..4_000);
        read_once_after(&mut tuner, 1_000, 4_000..8_000);
        assert_eq!((tuner.small_percent(), tuner.has_changed()), (10, false));
    }

    #[test]
    fn where_chance_would_decide_there_are_none() {
        let mut few = SmallQueueTuner::new(CAPACITY, RECORDS_MIN * RECORDS_DIVISOR - 1, u32::MAX);
        read_once_after(&mut few, 55, 1..4_000);
        assert_eq!((few.small_percent(), few.below()), (10, 0));
        assert_eq!(
            SmallQueueTuner::bytes_for(RECORDS_MIN * RECORDS_DIVISOR - 1),
            0
        );
    }

    #[test]
    fn they_go_on_with_what_was_written_down() {
        let mut tuner = tuner();
        read_once_after(&mut tuner, 55, 1..4_000);
        let mut out = Serializer::default();
        tuner.serialize(&mut out);
        let fetched = SmallQueueTuner::deserialize(&mut Deserializer::of(&out.bytes)).unwrap();
        assert!(tuner.is_like(&fetched));
        assert_eq!(fetched.small_percent(), 20);
        let other = SmallQueueTuner::new(CAPACITY, CURVE_RECORDS / 2, u32::MAX);
        assert!(!other.is_like(&fetched));
    }
}
