//! Latency: every request's time in a histogram, and the percentiles of interest.
//!
//! Three digits from 1 ns to [`LATENCY_NS_MAX`], in about 200 KB whatever the number of requests.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest time that is told apart; longer ones count as this.
pub(crate) const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Requests beyond a percentile, so that it is told.
pub(crate) const BEYOND_MIN: u64 = 100;

/// Times of requests.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    /// None yet.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts.
    pub fn new() -> Latencies {
        let histogram =
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid");
        Latencies { histogram }
    }

    /// Adds one request.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns.max(1));
    }

    /// Adds all requests of `other`.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn merge(&mut self, other: &Latencies) {
        self.histogram
            .add(&other.histogram)
            .expect("the bounds are the same");
    }

    /// How many requests there were.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean of all requests, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        round(self.histogram.mean() / 1e6)
    }

    /// The longest request, in milliseconds.
    pub fn max_ms(&self) -> f64 {
        microseconds(self.histogram.max()) / 1000.0
    }

    /// The time in milliseconds that this share of the requests kept to; none if fewer than
    /// [`BEYOND_MIN`] took longer, which say little about how many would.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let beyond = self.count() as f64 * (1.0 - share);
        let ns = self.histogram.value_at_quantile(share);
        // What is left of a share in binary digits is no request.
        (beyond.round() >= BEYOND_MIN as f64).then(|| microseconds(ns) / 1000.0)
    }

    /// The percentiles; all zero if there were no requests.
    pub fn summary(&self) -> LatencySummary {
        let at = |quantile| microseconds(self.histogram.value_at_quantile(quantile));
        LatencySummary {
            latency_us_mean: round(self.histogram.mean() / 1000.0),
            latency_us_min: microseconds(self.histogram.min()),
            latency_us_p50: at(0.5),
            latency_us_p90: at(0.9),
            latency_us_p95: at(0.95),
            latency_us_p99: at(0.99),
            latency_us_p99_9: at(0.999),
            latency_us_p99_99: at(0.9999),
            latency_us_p99_999: at(0.99999),
            latency_us_max: microseconds(self.histogram.max()),
        }
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

/// Percentiles of the time between sending a request (open loop: the moment it was due) and its
/// whole reply, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names say all")]
pub struct LatencySummary {
    pub latency_us_mean: f64,
    pub latency_us_min: f64,
    pub latency_us_p50: f64,
    pub latency_us_p90: f64,
    pub latency_us_p95: f64,
    pub latency_us_p99: f64,
    pub latency_us_p99_9: f64,
    pub latency_us_p99_99: f64,
    pub latency_us_p99_999: f64,
    pub latency_us_max: f64,
}

fn microseconds(ns: u64) -> f64 {
    round(ns as f64 / 1000.0)
}

/// Three digits behind the point.
fn round(us: f64) -> f64 {
    (us * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_equals_recording_everything_in_one() {
        let (mut a, mut b, mut all) = (Latencies::new(), Latencies::new(), Latencies::new());
        for n in 1..=100_000u64 {
            let part = if n % 3 == 0 { &mut a } else { &mut b };
            part.record(n * 1000);
            all.record(n * 1000);
        }
        a.merge(&b);
        assert_eq!(a.summary(), all.summary());
        let summary = a.summary();
        for (found, expected) in [
            (summary.latency_us_min, 1.0),
            (summary.latency_us_p50, 50_000.0),
            (summary.latency_us_p95, 95_000.0),
            (summary.latency_us_p99, 99_000.0),
            (summary.latency_us_p99_999, 99_999.0),
            (summary.latency_us_max, 100_000.0),
            (summary.latency_us_mean, 50_000.5),
        ] {
            assert!(
                (found / expected - 1.0).abs() < 0.002,
                "{found} instead of {expected}"
            );
        }
    }

    #[test]
    fn a_percentile_is_told_from_a_hundred_requests_beyond_it() {
        let mut latencies = Latencies::new();
        (0..99_999).for_each(|_| latencies.record(1_000_000));
        assert_eq!(latencies.quantile_ms(0.999).map(f64::round), Some(1.0));
        latencies.record(1_000_000);
        assert!(latencies.quantile_ms(0.999).is_some());
        assert_eq!(latencies.quantile_ms(0.9999), None);
    }

    #[test]
    fn extremes_are_clamped_not_lost() {
        let mut latencies = Latencies::new();
        latencies.record(0);
        latencies.record(u64::MAX);
        let summary = latencies.summary();
        assert!(summary.latency_us_p50 < 0.01);
        assert!(summary.latency_us_max >= 99e6);
        assert_eq!(Latencies::new().summary(), LatencySummary::default());
    }
}
