//! What came of asking a server: counts, latencies, and the processor time it took.

use std::collections::BTreeMap;

use super::message::Method;
use crate::spread::Spread;
use cellar_load::{Driven, Event, Latencies, share};
use serde::Serialize;

/// What became of requests.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Counts {
    /// Reads that were answered with a content.
    pub(super) hits: u64,
    pub(super) stored: u64,
    /// Reads of the message acknowledged last.
    pub(super) read_back: u64,
    /// Reads of messages that should have been there.
    pub(super) lost: u64,
    /// Reads that were answered so late that the message's time was over.
    pub(super) expired: u64,
    /// Contents that were not what was written.
    pub(super) wrong: u64,
    /// Answers that have nothing to do with messages.
    pub(super) healthy: u64,
    /// Requests with any other answer.
    pub(super) refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_refusal: Option<String>,
}

/// What came of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) reads: Latencies,
    pub(super) writes: Latencies,
    pub(super) health: Latencies,
    pub(super) driven: Driven,
}

impl Counts {
    /// Counts an answer that means neither yes nor no.
    pub(super) fn refuse(&mut self, event: Event<'_>) {
        self.refused += 1;
        let text = || match event {
            Event::Refused(line) => String::from_utf8_lossy(line).into_owned(),
            other => format!("{other:?}"),
        };
        self.first_refusal.get_or_insert_with(text);
    }
}

impl Found {
    /// Counts a reply that took so long.
    pub(super) fn time(&mut self, method: Method, ns: u64) {
        match method {
            Method::Get => self.reads.record(ns),
            Method::Post => self.writes.record(ns),
            Method::Health => self.health.record(ns),
        }
    }

    /// Over the requests that were answered, whatever with.
    pub(super) fn server_cpu_us_per_request(&self) -> f64 {
        let requests = self.reads.count() + self.writes.count() + self.health.count();
        share(self.driven.server_cpu_ns.unwrap_or(0), requests) / 1000.0
    }
}

/// What tails tell beside mean and longest.
const SHARES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p99", 0.99),
    ("p99_9", 0.999),
    ("p99_99", 0.9999),
    ("p99_999", 0.99999),
];

/// How long requests took in several runs, in milliseconds, by `mean`, `p99_9` and the like: each
/// run's, or that of all runs together where single ones have too few requests beyond it; none
/// where all have.
pub(super) fn tail(runs: &[&Latencies]) -> BTreeMap<&'static str, Spread> {
    let mut all = Latencies::new();
    runs.iter().for_each(|run| all.merge(run));
    let mut tail = BTreeMap::from([
        ("mean", Spread::over(runs, |run| run.mean_ms())),
        ("max", Spread::over(runs, |run| run.max_ms())),
    ]);
    for (name, share) in SHARES {
        let each: Option<Vec<f64>> = runs.iter().map(|run| run.quantile_ms(share)).collect();
        let told = each.or_else(|| Some(vec![all.quantile_ms(share)?]));
        if let Some(told) = told {
            tail.insert(name, Spread::of(told));
        }
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_answers_are_requests() {
        let mut found = Found::default();
        for method in [Method::Get, Method::Post, Method::Health, Method::Get] {
            found.time(method, 10);
        }
        found.driven.server_cpu_ns = Some(8_000);
        assert!((found.server_cpu_us_per_request() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_refusal_is_named() {
        let mut counts = Counts::default();
        counts.refuse(Event::Refused(b"500 no room"));
        counts.refuse(Event::GetDone);
        assert_eq!(counts.refused, 2);
        assert_eq!(counts.first_refusal.as_deref(), Some("500 no room"));
    }

    #[test]
    fn what_a_single_run_is_too_short_for_is_told_of_all() {
        let mut run = Latencies::new();
        (0..60_000).for_each(|_| run.record(1_000_000));
        let tail = tail(&[&run, &run]);
        let runs = |name: &str| tail.get(name).map_or(0, |spread| spread.rounds.len());
        assert_eq!([runs("p99"), runs("p99_9"), runs("p99_99")], [2, 1, 0]);
    }
}
