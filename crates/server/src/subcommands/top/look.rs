//! Look: two statuses of a server, and what happened between them.

use cellar_execute::http::pages::status::{Latency, Operations, Status, Thread};
use cellar_shared::observe::counters::load::quantile;

/// The displayed data: a status and, if any, the status before it.
#[derive(Clone, Debug)]
pub struct Look {
    /// The later status.
    pub now: Status,
    before: Option<Status>,
}

/// Latencies that half of the requests, all but one in 100 and all but one in 1000 stay below, in
/// microseconds; none without requests.
pub type Quantiles = Option<[f64; 3]>;

impl Look {
    /// The first look: rates are averages since the start of the server.
    #[must_use]
    pub fn first(now: Status) -> Look {
        Look { now, before: None }
    }

    /// The next look. After a restart of the server it is a first look.
    #[must_use]
    pub fn next(self, now: Status) -> Look {
        let is_same = self.now.server.pid == now.server.pid
            && self.now.server.uptime_ms <= now.server.uptime_ms;
        Look {
            now,
            before: is_same.then_some(self.now),
        }
    }

    /// Whether the metrics cover the time since the start of the server.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.before.is_none()
    }

    /// Seconds between the statuses.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let before_ms = self
            .before
            .as_ref()
            .map_or(0, |status| status.server.uptime_ms);
        let ms = self.now.server.uptime_ms.saturating_sub(before_ms);
        ms.max(1) as f64 / 1_000.0
    }

    /// By how much a count grew.
    #[must_use]
    pub fn growth(&self, count: impl Fn(&Status) -> u64) -> u64 {
        let before = self.before.as_ref().map_or(0, &count);
        count(&self.now).saturating_sub(before)
    }

    /// By how much a count grows in a second.
    #[must_use]
    pub fn rate(&self, count: impl Fn(&Status) -> u64) -> f64 {
        self.growth(count) as f64 / self.seconds()
    }

    /// Requests of all protocols in a second.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.rate(|status| status.requests.values().sum())
    }

    /// The share of reads that found their key, 0 to 1; none without reads.
    #[must_use]
    pub fn hit_ratio(&self) -> Option<f64> {
        let growth = |count: fn(&Operations) -> u64| self.growth(|one| count(&one.operations));
        let gets = growth(|operations| operations.gets);
        (gets > 0).then(|| growth(|operations| operations.hits) as f64 / gets as f64)
    }

    /// How long requests of one protocol took.
    #[must_use]
    pub fn quantiles(&self, of: impl Fn(&Status) -> &Latency) -> Quantiles {
        let now = &of(&self.now).histogram;
        let before = self
            .before
            .as_ref()
            .map(|status| &of(status).histogram.counts);
        let counts = now.counts.iter().enumerate().map(|(bin, &count)| {
            let earlier = before.and_then(|counts| counts.get(bin));
            count.saturating_sub(earlier.copied().unwrap_or(0))
        });
        let counts: Vec<u64> = counts.collect();
        let all: u64 = counts.iter().sum();
        (all > 0).then(|| [0.5, 0.99, 0.999].map(|share| quantile(&now.bounds, &counts, share)))
    }

    /// The miss ratio at each memory size: its factor, its bytes, and the ratio; none without
    /// reads. It is over the same time as [`Look::hit_ratio`].
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, u64, Option<f64>)> {
        let earlier = self.before.as_ref().map(|status| &status.curve);
        let points = self.now.curve.iter().enumerate().map(|(place, point)| {
            let before = earlier.and_then(|curve| curve.get(place));
            let (gets, misses) = before.map_or((0, 0), |one| (one.gets, one.misses));
            let gets = point.gets.saturating_sub(gets);
            let misses = point.misses.saturating_sub(misses).min(gets);
            let ratio = (gets > 0).then(|| misses as f64 / gets as f64);
            (point.factor, point.memory_bytes, ratio)
        });
        points.collect()
    }

    /// The share of time that each event loop was busy, and its requests per second.
    #[must_use]
    pub fn threads(&self) -> Vec<(f64, f64)> {
        let thread = |place: usize| {
            let of = |status: &Status, count: fn(&Thread) -> u64| {
                status.threads.get(place).map_or(0, count)
            };
            let busy = self.rate(|status| of(status, |thread| thread.busy_us)) / 1e6;
            (
                busy.min(1.0),
                self.rate(|status| of(status, |thread| thread.requests)),
            )
        };
        (0..self.now.threads.len()).map(thread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellar_execute::http::pages::status::Histogram;

    fn status(uptime_ms: u64, requests: u64) -> Status {
        let mut status = Status::default();
        status.server.uptime_ms = uptime_ms;
        status.requests.memcached = requests;
        (status.operations.gets, status.operations.hits) = (requests, requests / 2);
        status.latency_us.memcached.histogram = Histogram {
            bounds: vec![10, 20, 50],
            counts: vec![requests / 2, requests / 2, 0, 0],
        };
        status.threads = vec![Thread {
            busy_us: uptime_ms * 250,
            requests,
            ..Thread::default()
        }];
        status
    }

    #[test]
    fn rates_are_those_between_two_statuses_and_at_first_since_the_start() {
        let look = Look::first(status(10_000, 100));
        assert!(look.is_first() && (look.requests() - 10.0).abs() < 1e-9);
        let look = look.next(status(12_000, 500));
        assert!(!look.is_first() && (look.requests() - 200.0).abs() < 1e-9);
        assert_eq!(look.hit_ratio(), Some(0.5));
        let threads = look.threads();
        assert!((threads[0].0 - 0.25).abs() < 1e-9 && (threads[0].1 - 200.0).abs() < 1e-9);
        let look = look.next(status(13_000, 500));
        assert_eq!(
            (
                look.hit_ratio(),
                look.quantiles(|one| &one.latency_us.memcached)
            ),
            (None, None)
        );
    }

    #[test]
    fn a_server_that_was_started_again_begins_anew() {
        let look = Look::first(status(10_000, 100)).next(status(500, 5));
        assert!(look.is_first() && (look.requests() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn quantiles_lie_on_straight_lines_through_the_bins() {
        let bounds = [10, 20, 50];
        assert!((quantile(&bounds, &[10, 10, 0, 0], 0.5) - 10.0).abs() < 1e-9);
        assert!((quantile(&bounds, &[0, 10, 0, 0], 0.5) - 15.0).abs() < 1e-9);
        assert!((quantile(&bounds, &[0, 0, 0, 9], 0.5) - 50.0).abs() < 1e-9);
        let look = Look::first(status(1, 20)).next(status(2, 40));
        let [half, most, _] = look.quantiles(|one| &one.latency_us.memcached).unwrap();
        assert!((half - 10.0).abs() < 1e-9 && most > 19.0 && most < 20.0);
    }
}
