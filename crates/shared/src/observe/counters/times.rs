//! Times: the durations and failures of Redis commands on one event loop.
//!
//! Commands of constant time are sampled, as [`Calls::add`](super::Calls::add) decides; all others
//! are always timed. Totals are extrapolated: the measured times, multiplied by calls over timed
//! calls.
//!
//! Why, and how large the error is: docs/decisions/0049. Tests: at the end of this file,
//! server/tests/resp_times.rs.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use cellar_protocol::resp::Verb;

use super::Counter;

/// Bins of one doubling, as bits.
const FINE_BITS: u32 = 2;
/// The first bin ends above this power of two of nanoseconds.
const FIRST_BITS: u32 = 6;
/// The last but one bin ends at this power of two: about a second.
const LAST_BITS: u32 = 30;
/// Bins of times: four to a doubling, from 64 ns to 1.07 s, and one for what takes longer.
const BINS: usize = ((LAST_BITS - FIRST_BITS) << FINE_BITS) as usize + 1;

/// Upper bounds that LATENCY HISTOGRAM shows: 1 us and each doubling up to a second.
const SHOWN_BOUNDS: usize = 21;
/// The first of them, as a power of two of nanoseconds.
const SHOWN_BITS: u32 = 10;

/// One loop's records; only the loop itself writes.
#[derive(Debug)]
pub struct Times([OnceLock<Box<Record>>; Verb::COUNT]);

/// One loop's record of one command.
#[derive(Debug)]
struct Record {
    rejected: Counter,
    failed: Counter,
    timed: Counter,
    ns: Counter,
    bins: [Counter; BINS],
}

/// The statistics of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTimes {
    /// Requests that were refused before they ran.
    pub rejected: u64,
    /// Calls that ended with an error.
    pub failed: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// Their total time, in nanoseconds.
    ns: u64,
    bins: [u64; BINS],
}

/// The commands with statistics, by `verb as usize`.
pub type TimesByCommand = BTreeMap<usize, Box<CommandTimes>>;

impl Default for Times {
    fn default() -> Times {
        Times(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl Times {
    /// Records a timed call.
    pub fn note(&self, verb: Verb, ns: u64) {
        let record = self.record(verb);
        record.timed.add(1);
        record.ns.add(ns);
        record.bins[bin_of(ns)].add(1);
    }

    /// Counts a call that ended with an error.
    pub fn note_failed(&self, verb: Verb) {
        self.record(verb).failed.add(1);
    }

    /// Counts a request that was refused before it ran.
    pub fn note_rejected(&self, verb: Verb) {
        self.record(verb).rejected.add(1);
    }

    fn record(&self, verb: Verb) -> &Record {
        self.0[verb as usize].get_or_init(|| {
            Box::new(Record {
                rejected: Counter::default(),
                failed: Counter::default(),
                timed: Counter::default(),
                ns: Counter::default(),
                bins: std::array::from_fn(|_| Counter::default()),
            })
        })
    }

    /// The sums of all event loops.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Times>) -> TimesByCommand {
        let mut sums = TimesByCommand::new();
        for Times(records) in all {
            for (verb, record) in records.iter().enumerate() {
                if let Some(record) = record.get() {
                    sums.entry(verb).or_default().add(record);
                }
            }
        }
        sums
    }
}

impl Default for CommandTimes {
    fn default() -> CommandTimes {
        CommandTimes {
            rejected: 0,
            failed: 0,
            timed: 0,
            ns: 0,
            bins: [0; BINS],
        }
    }
}

impl CommandTimes {
    fn add(&mut self, record: &Record) {
        self.rejected += record.rejected.read();
        self.failed += record.failed.read();
        self.timed += record.timed.read();
        self.ns = self.ns.wrapping_add(record.ns.read());
        for (sum, bin) in self.bins.iter_mut().zip(&record.bins) {
            *sum += bin.read();
        }
    }

    /// Takes away what was known earlier.
    pub fn subtract(&mut self, earlier: &CommandTimes) {
        self.rejected = self.rejected.saturating_sub(earlier.rejected);
        self.failed = self.failed.saturating_sub(earlier.failed);
        self.timed = self.timed.saturating_sub(earlier.timed);
        self.ns = self.ns.wrapping_sub(earlier.ns);
        for (bin, before) in self.bins.iter_mut().zip(earlier.bins) {
            *bin = bin.saturating_sub(before);
        }
    }

    /// The extrapolated total time of `calls`, in microseconds.
    #[must_use]
    pub fn total_us(&self, calls: u64) -> u64 {
        let ns = u128::from(self.ns) * u128::from(calls) / u128::from(self.timed.max(1));
        u64::try_from(ns / 1_000).unwrap_or(u64::MAX)
    }

    /// The average time of a call, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.ns / self.timed.max(1)
    }

    /// The time that `percent` of all calls stay within, in nanoseconds: the end of a bin, so at
    /// most a quarter too long.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let wanted = percent / 100.0 * self.timed as f64;
        let mut seen = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            seen += count;
            if *count > 0 && seen as f64 >= wanted {
                return start_ns(bin + 1);
            }
        }
        0
    }

    /// The cumulative distribution of `calls`: how many took at most each bound in microseconds,
    /// for those of Redis's bounds where the number grows.
    ///
    /// Source: Redis 7, `fillCommandCDF`; its bounds are those of a histogram of two digits.
    #[must_use]
    pub fn within_us(&self, calls: u64) -> Vec<(u64, u64)> {
        let (mut shown, mut seen, mut told, mut next) = (Vec::new(), 0, 0, 0);
        for step in 0..SHOWN_BOUNDS {
            let bits = SHOWN_BITS + u32::try_from(step).unwrap_or(u32::MAX);
            let is_last = step + 1 == SHOWN_BOUNDS;
            let end = if is_last { BINS } else { bin_of(1 << bits) };
            seen += self.bins[next..end].iter().sum::<u64>();
            next = end;
            let scaled = u128::from(seen) * u128::from(calls) / u128::from(self.timed.max(1));
            let within = u64::try_from(scaled).unwrap_or(u64::MAX);
            if within > told {
                shown.push((((1 << bits) + (8 << step) - 1) / 1_000, within));
            }
            told = within;
        }
        shown
    }
}

/// The bin of a time.
fn bin_of(ns: u64) -> usize {
    let ns = ns.max(1 << FIRST_BITS);
    let bits = u64::BITS - 1 - ns.leading_zeros();
    let fine = (ns >> (bits - FINE_BITS)) & ((1 << FINE_BITS) - 1);
    let bin = (u64::from(bits - FIRST_BITS) << FINE_BITS) + fine;
    usize::try_from(bin).map_or(BINS - 1, |bin| bin.min(BINS - 1))
}

/// The shortest time of a bin.
fn start_ns(bin: usize) -> u64 {
    let bin = bin.min(BINS - 1) as u64;
    let doublings = bin >> FINE_BITS;
    let fine = (1 << FINE_BITS) + (bin & ((1 << FINE_BITS) - 1));
    fine << (u64::from(FIRST_BITS - FINE_BITS) + doublings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ns: &[u64]) -> CommandTimes {
        let times = Times::default();
        ns.iter().for_each(|&ns| times.note(Verb::Get, ns));
        *Times::sum([&times]).remove(&(Verb::Get as usize)).unwrap()
    }

    #[test]
    fn each_time_is_within_its_bin() {
        for ns in (0..400).map(|step| 1.07_f64.powi(step) as u64) {
            let bin = bin_of(ns);
            let starts_before = bin == 0 || start_ns(bin) <= ns;
            let ends_behind = bin == BINS - 1 || start_ns(bin + 1) > ns;
            assert!(starts_before && ends_behind, "{ns}");
        }
        assert_eq!(start_ns(BINS - 1), 1 << LAST_BITS);
    }

    #[test]
    fn the_steps_are_those_that_redis_shows() {
        let all = times(&[90, 900, 20_000, 30_000, 1_500_000, 9_000_000_000]);
        let steps = [(1, 2), (33, 4), (2_113, 5), (1_082_130, 6)];
        assert_eq!(all.within_us(6), steps);
        let thousandfold = steps.map(|(us, calls)| (us, calls * 1_000));
        assert_eq!(all.within_us(6_000), thousandfold);
        assert_eq!(CommandTimes::default().within_us(0), []);
    }

    #[test]
    fn what_is_told_of_all_calls_is_what_was_measured_of_some() {
        let some = times(&[1_000, 3_000]);
        assert_eq!((some.total_us(128), some.mean_ns()), (256, 2_000));
        assert_eq!(some.percentile_ns(50.0), 1_024);
        assert_eq!(some.percentile_ns(99.0), 3_072);
        assert_eq!(CommandTimes::default().percentile_ns(50.0), 0);
        let mut rest = times(&[1_000, 3_000, 5_000]);
        rest.subtract(&some);
        assert_eq!((rest.total_us(1), rest.percentile_ns(50.0)), (5, 5_120));
    }

    #[test]
    fn failures_are_counted_command_by_command() {
        let times = Times::default();
        times.note_failed(Verb::Set);
        times.note_rejected(Verb::Set);
        times.note_rejected(Verb::Get);
        let sum = Times::sum([&times, &times]);
        let counts = |verb: Verb| (sum[&(verb as usize)].failed, sum[&(verb as usize)].rejected);
        assert_eq!((counts(Verb::Set), counts(Verb::Get)), ((2, 2), (0, 2)));
        assert_eq!(sum.len(), 2);
    }
}
