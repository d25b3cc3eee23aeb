//! The report of a load, in figures.

use serde::Serialize;

use crate::clock::seconds;
use crate::drive::Driven;
use crate::latency::LatencySummary;
use crate::plan::Plan;
use crate::quantity::share;
use crate::source::{Source, Tally};

/// What a load has found; the field names of `--json`.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say all; units come last")]
pub struct Report {
    pub protocol: &'static str,
    pub target: String,
    pub verified: bool,
    pub elapsed_s: f64,
    pub requests: u64,
    pub throughput_per_s: f64,
    pub errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Values that were not what was stored; always zero unless verified.
    pub mismatches: u64,
    /// Requests of an open loop that were due but not sent, because the server fell too far behind.
    pub unsent_requests: u64,
    pub received_bytes: u64,
    #[serde(flatten)]
    pub latency: LatencySummary,
    /// What the load generator itself spends on a request.
    pub load_cpu_us_per_request: f64,
    pub get: GetReport,
    pub set: SetReport,
    /// What the server spends on a request, and on all of them, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_us_per_request: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_s: Option<f64>,
}

/// The gets of a load.
#[derive(Clone, Debug, Serialize)]
pub struct GetReport {
    pub requests: u64,
    pub hits: u64,
    pub misses: u64,
    pub hit_ratio: f64,
    #[serde(flatten)]
    pub latency: LatencySummary,
}

/// The sets of a load.
#[derive(Clone, Debug, Serialize)]
pub struct SetReport {
    pub requests: u64,
    pub stored: u64,
    pub not_stored: u64,
    #[serde(flatten)]
    pub latency: LatencySummary,
}

impl Report {
    /// Adds up what a load did.
    pub(super) fn new(plan: &Plan, sources: &[Source<'_>], driven: Driven) -> Report {
        let (mut get, mut set) = (Tally::default(), Tally::default());
        for source in sources {
            get.merge(&source.gets);
            set.merge(&source.sets);
        }
        let mut all = get.latencies.clone();
        all.merge(&set.latencies);
        let elapsed_s = seconds(driven.ended_ns - driven.started_ns);
        let requests = get.requests() + set.requests();
        Report {
            protocol: plan.drive.wire.name(),
            target: plan.drive.target.to_string(),
            verified: plan.verify,
            elapsed_s,
            requests,
            throughput_per_s: requests as f64 / elapsed_s.max(1e-9),
            errors: get.refused + set.refused,
            first_error: sources
                .iter()
                .find_map(|source| source.first_refusal.clone()),
            mismatches: sources.iter().map(|source| source.mismatches).sum(),
            unsent_requests: driven.unsent,
            received_bytes: driven.received_bytes,
            latency: all.summary(),
            load_cpu_us_per_request: share(driven.own_cpu_ns, requests) / 1e3,
            get: GetReport {
                requests: get.requests(),
                hits: get.yes,
                misses: get.no,
                hit_ratio: share(get.yes, get.yes + get.no),
                latency: get.latencies.summary(),
            },
            set: SetReport {
                requests: set.requests(),
                stored: set.yes,
                not_stored: set.no,
                latency: set.latencies.summary(),
            },
            server_cpu_us_per_request: driven.server_cpu_ns.map(|ns| share(ns, requests) / 1e3),
            server_cpu_s: driven.server_cpu_ns.map(seconds),
        }
    }

    /// The server's processor time per request in microseconds; zero if it was not measured.
    pub fn cpu_us(&self) -> f64 {
        self.server_cpu_us_per_request.unwrap_or(0.0)
    }
}
