//! Times: how long the origin and loaders take, as histograms of a fixed size.
//!
//! Microseconds are counted in buckets: each power of two is cut into [`PARTS`], so reported times
//! are off by a sixteenth at most. Recording one costs one atomic addition, and hits record none.
//!
//! Tests: at the end of this file, tests/without_server/metrics.rs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Into how many parts each power of two is cut, and the power of two that this is.
const PARTS: u64 = 1 << PARTS_LOG;
const PARTS_LOG: u32 = 3;
/// The largest power of two with buckets of its own: 2^36 microseconds, 19 hours.
const POWER_MAX: u32 = 36;
const BUCKETS: usize = ((POWER_MAX - PARTS_LOG + 2) as usize) << PARTS_LOG;

/// The source that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The origin.
    Origin,
    /// A loader.
    Loader,
}

/// How long each took.
#[derive(Debug, Default)]
pub(crate) struct Times {
    origin: Histogram,
    loader: Histogram,
}

impl Times {
    /// Notes that an answer, or an error, took so long.
    pub(crate) fn note(&self, asked: Asked, time: Duration) {
        let histogram = self.of(asked);
        // Relaxed: a count orders nothing.
        histogram.0[bucket_of(time)].fetch_add(1, Ordering::Relaxed);
    }

    /// Reports how often each time was recorded since the last report; times in seconds.
    #[cfg(any(test, feature = "metrics"))]
    pub(crate) fn tell(&self, asked: Asked, mut each: impl FnMut(f64, u64)) {
        for (number, bucket) in (0..).zip(&self.of(asked).0) {
            // Relaxed: a count orders nothing.
            let count = bucket.swap(0, Ordering::Relaxed);
            if count > 0 {
                each(middle_s(number), count);
            }
        }
    }

    fn of(&self, asked: Asked) -> &Histogram {
        match asked {
            Asked::Origin => &self.origin,
            Asked::Loader => &self.loader,
        }
    }
}

#[derive(Debug)]
struct Histogram([AtomicU64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram([const { AtomicU64::new(0) }; BUCKETS])
    }
}

fn bucket_of(time: Duration) -> usize {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let us = us.min((1 << (POWER_MAX + 1)) - 1);
    let bucket = match us.checked_ilog2() {
        Some(power) if power >= PARTS_LOG => {
            let power = power - PARTS_LOG;
            u64::from(power) * PARTS + (us >> power)
        }
        _ => us,
    };
    usize::try_from(bucket).unwrap_or(BUCKETS - 1)
}

/// The middle of a bucket, in seconds.
#[cfg(any(test, feature = "metrics"))]
fn middle_s(bucket: u64) -> f64 {
    let power = (bucket / PARTS).saturating_sub(1);
    let part = bucket - power * PARTS;
    let middle_ns = (part << power) * 1_000 + (1_000 << power) / 2;
    Duration::from_nanos(middle_ns).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_once_and_about_as_it_was() {
        let times = Times::default();
        let all_us = (0..40).map(|number| 3_u64.pow(number.min(22)) + u64::from(number));
        for us in all_us {
            let time = Duration::from_micros(us);
            times.note(Asked::Loader, time);
            let mut told = Vec::new();
            times.tell(Asked::Loader, |seconds, count| told.push((seconds, count)));
            let [(seconds, 1)] = told[..] else {
                panic!("{us}: {told:?}");
            };
            let off = (seconds - time.as_secs_f64()).abs();
            let most = time.as_secs_f64() / 16.0 + 0.000_001;
            assert!(off <= most, "{us}: {seconds}");
        }
        times.tell(Asked::Loader, |_, _| panic!("it was told"));
        times.tell(Asked::Origin, |_, _| panic!("it was not asked"));
    }

    #[test]
    fn the_longest_time_has_a_bucket() {
        let times = Times::default();
        times.note(Asked::Origin, Duration::MAX);
        let mut count = 0;
        times.tell(Asked::Origin, |_, more| count += more);
        assert_eq!((count, bucket_of(Duration::MAX)), (1, BUCKETS - 1));
    }
}
