//! What came of asking a server: counts, latencies, and the processor time it took.

use super::message::Method;
use cellar_load::clock::{NS_PER_S, seconds};
use cellar_load::drive::Driven;
use cellar_load::latency::{Latencies, LatencySummary};
use cellar_load::wire::Event;
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
    /// Requests with any other answer.
    pub(super) refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_refusal: Option<String>,
}

/// What came of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) counts: Counts,
    pub(super) reads: Latencies,
    pub(super) writes: Latencies,
    /// The longest request of each second, by the moment it was due.
    pub(super) worst_ns: Vec<u64>,
    /// When the first request was sent or due.
    pub(super) first_ns: Option<u64>,
    pub(super) driven: Driven,
}

/// The figures of one run, as they are told.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RunFigures {
    pub(super) requests: u64,
    pub(super) requests_per_s: f64,
    #[serde(flatten)]
    pub(super) all: LatencySummary,
    pub(super) reads: LatencySummary,
    pub(super) writes: LatencySummary,
    pub(super) server_cpu_us_per_request: f64,
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// Requests that were due and never sent, because the server fell too far behind.
    pub(super) unsent: u64,
}

impl Found {
    /// Counts a reply that took so long, to a request that started then.
    pub(super) fn time(&mut self, method: Method, start_ns: u64, ns: u64) {
        match method {
            Method::Get => self.reads.record(ns),
            Method::Put | Method::Post => self.writes.record(ns),
        }
        let first_ns = *self.first_ns.get_or_insert(start_ns);
        let second = start_ns.saturating_sub(first_ns) / NS_PER_S;
        let second = usize::try_from(second).unwrap_or(usize::MAX - 1);
        if self.worst_ns.len() <= second {
            self.worst_ns.resize(second + 1, 0);
        }
        self.worst_ns[second] = self.worst_ns[second].max(ns);
    }

    /// Counts an answer that means neither yes nor no.
    pub(super) fn refuse(&mut self, event: Event<'_>) {
        self.counts.refused += 1;
        let text = || match event {
            Event::Refused(line) => String::from_utf8_lossy(line).into_owned(),
            other => format!("{other:?}"),
        };
        self.counts.first_refusal.get_or_insert_with(text);
    }

    pub(super) fn figures(&self) -> RunFigures {
        let mut all = self.reads.clone();
        all.merge(&self.writes);
        let Counts {
            hits,
            lost,
            expired,
            stored,
            refused,
            ..
        } = self.counts;
        let requests = hits + lost + expired + stored + refused;
        let per_request = |ns: u64| ns as f64 / requests.max(1) as f64;
        let elapsed_s = seconds(self.driven.ended_ns - self.driven.started_ns);
        let server_cpu_ns = self.driven.server_cpu_ns.unwrap_or(0);
        RunFigures {
            requests,
            requests_per_s: requests as f64 / elapsed_s.max(1e-9),
            all: all.summary(),
            reads: self.reads.summary(),
            writes: self.writes.summary(),
            server_cpu_us_per_request: per_request(server_cpu_ns) / 1000.0,
            counts: self.counts.clone(),
            unsent: self.driven.unsent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_second_is_kept_where_it_was_due() {
        let mut found = Found::default();
        found.time(Method::Get, 5 * NS_PER_S, 10);
        found.time(Method::Post, 7 * NS_PER_S + 1, 3 * NS_PER_S);
        found.time(Method::Get, 7 * NS_PER_S + 2, 20);
        assert_eq!(found.worst_ns, [10, 0, 3 * NS_PER_S]);
    }

    #[test]
    fn figures_are_per_request_and_name_the_first_refusal() {
        let mut found = Found::default();
        (found.counts.hits, found.counts.stored) = (3, 4);
        found.driven.ended_ns = 2 * NS_PER_S;
        found.refuse(Event::Refused(b"500 no room"));
        found.refuse(Event::GetDone);
        let figures = found.figures();
        assert_eq!((figures.requests, figures.counts.refused), (9, 2));
        assert!((figures.requests_per_s - 4.5).abs() < 1e-9);
        assert_eq!(figures.counts.first_refusal.as_deref(), Some("500 no room"));
    }
}
