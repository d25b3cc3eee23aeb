//! Timeline: how many items and bytes expire in the next minute, hour and day.
//!
//! An estimate from the segments' expiry histograms (`expiry_histogram.rs`), without a look at any
//! item. A shard's histograms are copied under its lock, and spread over the steps without it.
//!
//! Accuracy: the bytes of a bin count as expiring evenly between its first and last moment. The
//! bytes that expire by some moment are exact to about 1 % of all that the cache holds if items are
//! stored once with one TTL, to 6 % if a segment has TTLs of all lengths, and to 25 % if most items
//! were overwritten in place. Items are counted by their segment's mean size. A delayed flush is
//! not taken into account.
//!
//! Tests: tests/timeline.rs.

use super::shards::Shards;
use crate::base::clock::Instant;
use crate::deadlines::expiry_histogram::ExpiringBytes;
use crate::shard::Shard;

const SECOND_MS: f64 = 1_000.0;
const MINUTE_MS: f64 = 60.0 * SECOND_MS;
const HOUR_MS: f64 = 60.0 * MINUTE_MS;
/// Bins that there is room for before a shard is locked: all of most shards.
const BINS_AT_FIRST: usize = 4_096;

/// Items, and their bytes with header and key; estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// How many.
    pub items: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// When the items of a cache expire, unless they are removed before; each of the three spans begins
/// now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryTimeline {
    /// Past their deadline, with their memory not yet taken back.
    pub overdue: Leaving,
    /// The next minute, by second.
    pub minute: [Leaving; 60],
    /// The next hour, by minute.
    pub hour: [Leaving; 60],
    /// The next day, by hour.
    pub day: [Leaving; 24],
    /// After that.
    pub later: Leaving,
    /// Without a deadline.
    pub never: Leaving,
}

impl ExpiryTimeline {
    /// That of all shards.
    pub(super) fn of(shards: &Shards) -> ExpiryTimeline {
        let mut sums = Sums::from(shards.now());
        let mut expiring = Vec::with_capacity(BINS_AT_FIRST);
        for cell in shards.iter() {
            expiring.clear();
            let never = copy_out(&cell.lock_beside_claims(), &mut expiring);
            sums.never.add(never);
            expiring.iter().for_each(|expiring| sums.spread(expiring));
        }
        sums.timeline()
    }
}

/// Items and bytes as they are summed up.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    items: f64,
    bytes: f64,
}

impl Amount {
    fn add(&mut self, more: Amount) {
        self.items += more.items;
        self.bytes += more.bytes;
    }

    fn times(self, factor: f64) -> Amount {
        Amount {
            items: self.items * factor,
            bytes: self.bytes * factor,
        }
    }

    fn leaving(self) -> Leaving {
        // Sums of differences may come out a little below zero, which the conversion makes zero.
        Leaving {
            items: self.items.round() as u64,
            bytes: self.bytes.round() as u64,
        }
    }
}

/// Items that expire between two moments.
#[derive(Clone, Copy, Debug)]
struct ExpiringItems {
    amount: Amount,
    from_ms: f64,
    until_ms: f64,
}

/// Copies a shard's expiry histograms; returns the amount that does not expire.
fn copy_out(shard: &Shard, bins: &mut Vec<ExpiringItems>) -> Amount {
    let mut never = Amount::default();
    for (_, segment) in shard.store.log().segments() {
        let held = segment
            .written_bytes()
            .saturating_sub(segment.hole_bytes())
            .max(1);
        let items_per_byte = f64::from(segment.items) / held as f64;
        let amount = |bytes: usize| Amount {
            items: items_per_byte * bytes as f64,
            bytes: bytes as f64,
        };
        let rest = segment.each_expiring(|expiring: ExpiringBytes| {
            bins.push(ExpiringItems {
                amount: amount(expiring.bytes),
                from_ms: expiring.from_ms,
                until_ms: expiring.until_ms,
            });
        });
        never.add(amount(rest));
    }
    never
}

/// The timeline while it is summed up.
struct Sums {
    now_ms: f64,
    overdue: Amount,
    never: Amount,
    later: Amount,
    minute: Steps<60>,
    hour: Steps<60>,
    day: Steps<24>,
}

impl Sums {
    fn from(now: Instant) -> Sums {
        Sums {
            now_ms: now.0 as f64,
            overdue: Amount::default(),
            never: Amount::default(),
            later: Amount::default(),
            minute: Steps::of(SECOND_MS),
            hour: Steps::of(MINUTE_MS),
            day: Steps::of(HOUR_MS),
        }
    }

    fn spread(&mut self, expiring: &ExpiringItems) {
        let ahead = ExpiringItems {
            from_ms: expiring.from_ms - self.now_ms,
            until_ms: expiring.until_ms - self.now_ms,
            ..*expiring
        };
        // A deadline passes at its millisecond, and moments are whole milliseconds.
        self.overdue
            .add(ahead.within(f64::NEG_INFINITY, f64::EPSILON));
        self.minute.add(&ahead);
        self.hour.add(&ahead);
        self.day.add(&ahead);
        self.later.add(ahead.within(24.0 * HOUR_MS, f64::INFINITY));
    }

    fn timeline(self) -> ExpiryTimeline {
        ExpiryTimeline {
            overdue: self.overdue.leaving(),
            minute: self.minute.leaving(),
            hour: self.hour.leaving(),
            day: self.day.leaving(),
            later: self.later.leaving(),
            never: self.never.leaving(),
        }
    }
}

impl ExpiringItems {
    /// The part that expires in `[from_ms, until_ms)`.
    fn within(&self, from_ms: f64, until_ms: f64) -> Amount {
        let width_ms = self.until_ms - self.from_ms;
        if width_ms <= 0.0 {
            let is_inside = self.from_ms >= from_ms && self.from_ms < until_ms;
            return self.amount.times(f64::from(u8::from(is_inside)));
        }
        let common_ms = self.until_ms.min(until_ms) - self.from_ms.max(from_ms);
        self.amount.times((common_ms / width_ms).clamp(0.0, 1.0))
    }
}

/// A number of steps of equal length, starting now.
struct Steps<const N: usize> {
    step_ms: f64,
    /// The amount that expires in each step.
    parts: [Amount; N],
    /// The increase of each step over the one before, for expiries that span whole steps.
    rises: [Amount; N],
}

impl<const N: usize> Steps<N> {
    fn of(step_ms: f64) -> Steps<N> {
        Steps {
            step_ms,
            parts: [Amount::default(); N],
            rises: [Amount::default(); N],
        }
    }

    /// Adds the items that expire in these steps: one by one at both ends, the whole steps between
    /// at once.
    fn add(&mut self, expiring: &ExpiringItems) {
        let end_ms = self.step_ms * N as f64;
        if expiring.until_ms < 0.0 || expiring.from_ms >= end_ms {
            return;
        }
        let step_of = |ms: f64| ((ms / self.step_ms).max(0.0) as usize).min(N - 1);
        let (first, last) = (step_of(expiring.from_ms), step_of(expiring.until_ms));
        let mut add_part = |step: usize| {
            // A deadline at this very moment is overdue.
            let from_ms = (step as f64 * self.step_ms).max(f64::EPSILON);
            let until_ms = (step + 1) as f64 * self.step_ms;
            self.parts[step].add(expiring.within(from_ms, until_ms));
        };
        add_part(first);
        if last > first {
            add_part(last);
            let whole = self.step_ms / (expiring.until_ms - expiring.from_ms);
            self.rises[first + 1].add(expiring.amount.times(whole));
            self.rises[last].add(expiring.amount.times(-whole));
        }
    }

    fn leaving(&self) -> [Leaving; N] {
        let mut whole = Amount::default();
        std::array::from_fn(|step| {
            whole.add(self.rises[step]);
            let mut sum = self.parts[step];
            sum.add(whole);
            sum.leaving()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiring(from_ms: f64, until_ms: f64, bytes: f64) -> ExpiringItems {
        let items = bytes / 10.0;
        ExpiringItems {
            amount: Amount { items, bytes },
            from_ms,
            until_ms,
        }
    }

    fn bytes(steps: &[Leaving]) -> Vec<u64> {
        steps.iter().map(|step| step.bytes).collect()
    }

    #[test]
    fn expiries_are_spread_over_the_steps_they_go_over() {
        for (from_ms, until_ms, expected) in [
            (0.0, 4_000.0, [100, 100, 100, 100]),
            (1_500.0, 3_500.0, [0, 100, 200, 100]),
            (1_200.0, 1_300.0, [0, 400, 0, 0]),
            (2_500.0, 2_500.0, [0, 0, 400, 0]),
            (-4_000.0, 4_000.0, [50, 50, 50, 50]),
            (-8_000.0, -4_000.0, [0, 0, 0, 0]),
            (3_000.0, 7_000.0, [0, 0, 0, 100]),
            (4_000.0, 7_000.0, [0, 0, 0, 0]),
        ] {
            let mut steps = Steps::<4>::of(SECOND_MS);
            steps.add(&expiring(from_ms, until_ms, 400.0));
            let found = bytes(&steps.leaving());
            assert_eq!(found, expected, "{from_ms} to {until_ms}");
        }
    }

    #[test]
    fn all_that_dies_is_overdue_ahead_or_later() {
        let mut sums = Sums::from(Instant(50_000));
        for (from_ms, until_ms) in [
            (0.0, 10_000.0),
            (50_000.0, 50_000.0),
            (40_000.0, 60_000.0),
            (60_000.0, 1e9),
        ] {
            sums.spread(&expiring(from_ms, until_ms, 1e6));
        }
        let timeline = sums.timeline();
        assert_eq!(timeline.overdue.bytes, 2_500_000);
        let day: u64 = bytes(&timeline.day).iter().sum();
        let all = timeline.overdue.bytes + day + timeline.later.bytes;
        assert!(all.abs_diff(4_000_000) < 30, "{timeline:?}");
        let minute: u64 = bytes(&timeline.minute).iter().sum();
        assert!(minute.abs_diff(timeline.hour[0].bytes) < 60);
    }
}
