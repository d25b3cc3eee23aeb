//! The report of a load: figures for people and for programs.

use std::fmt;

use serde::Serialize;

use crate::clock::seconds;
use crate::drive::Driven;
use crate::latency::LatencySummary;
use crate::plan::Plan;
use crate::source::{Source, Tally};
use crate::usage::CpuSource;

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
    pub sent_bytes: u64,
    pub received_bytes: u64,
    #[serde(flatten)]
    pub latency: LatencySummary,
    /// What the load generator itself spends on a request.
    pub load_cpu_us_per_request: f64,
    pub get: GetReport,
    pub set: SetReport,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<ServerCpu>,
}

/// The gets of a load.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say all")]
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
#[expect(missing_docs, reason = "the names say all")]
pub struct SetReport {
    pub requests: u64,
    pub stored: u64,
    pub not_stored: u64,
    #[serde(flatten)]
    pub latency: LatencySummary,
}

/// Processor time of the server during the load.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say all")]
pub struct ServerCpu {
    pub server_cpu_us_per_request: f64,
    pub server_cpu_s: f64,
    pub requests_per_server_cpu_s: f64,
    pub server_cpu_source: CpuSource,
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
            throughput_per_s: ratio(requests as f64, elapsed_s),
            errors: get.refused + set.refused,
            first_error: sources
                .iter()
                .find_map(|source| source.first_refusal.clone()),
            mismatches: sources.iter().map(|source| source.mismatches).sum(),
            unsent_requests: driven.unsent,
            sent_bytes: driven.sent_bytes,
            received_bytes: driven.received_bytes,
            latency: all.summary(),
            load_cpu_us_per_request: ratio(driven.own_cpu_ns as f64 / 1000.0, requests as f64),
            get: GetReport {
                requests: get.requests(),
                hits: get.yes,
                misses: get.no,
                hit_ratio: ratio(get.yes as f64, (get.yes + get.no) as f64),
                latency: get.latencies.summary(),
            },
            set: SetReport {
                requests: set.requests(),
                stored: set.yes,
                not_stored: set.no,
                latency: set.latencies.summary(),
            },
            server_cpu: driven.server_cpu.map(|cpu| ServerCpu {
                server_cpu_us_per_request: ratio(cpu.ns as f64 / 1000.0, requests as f64),
                server_cpu_s: seconds(cpu.ns),
                requests_per_server_cpu_s: ratio(requests as f64, seconds(cpu.ns)),
                server_cpu_source: cpu.source,
            }),
        }
    }

    /// The server's processor time per request in microseconds; zero if it was not measured.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        self.server_cpu
            .map_or(0.0, |cpu| cpu.server_cpu_us_per_request)
    }
}

/// `a / b`, zero if `b` is.
fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (elapsed_s, per_s) = (self.elapsed_s, self.throughput_per_s);
        writeln!(f, "{} {}", self.protocol, self.target)?;
        writeln!(
            f,
            "requests    {} in {elapsed_s:.2} s = {per_s:.0}/s",
            self.requests
        )?;
        if self.get.requests > 0 {
            let GetReport {
                hits,
                misses,
                hit_ratio,
                ..
            } = self.get;
            let verified = if self.verified {
                ", values verified"
            } else {
                ""
            };
            writeln!(
                f,
                "gets        {hits} hits, {misses} misses, {hit_ratio:.4}{verified}"
            )?;
        }
        if self.set.requests > 0 {
            let SetReport {
                stored, not_stored, ..
            } = self.set;
            writeln!(f, "sets        {stored} stored, {not_stored} not")?;
        }
        writeln!(
            f,
            "latency us  {}",
            COLUMNS.map(|name| format!("{name:>10}")).concat()
        )?;
        if self.get.requests > 0 {
            writeln!(f, "  get       {}", figures(&self.get.latency))?;
        }
        if self.set.requests > 0 {
            writeln!(f, "  set       {}", figures(&self.set.latency))?;
        }
        writeln!(
            f,
            "load CPU    {:.3} us/request",
            self.load_cpu_us_per_request
        )?;
        if let Some(cpu) = &self.server_cpu {
            let (us, cpu_s) = (cpu.server_cpu_us_per_request, cpu.server_cpu_s);
            let percent = 100.0 * ratio(cpu_s, elapsed_s);
            writeln!(
                f,
                "server CPU  {us:.3} us/request, {cpu_s:.2} s ({percent:.0} %)"
            )?;
        }
        self.show_failures(f)
    }
}

impl Report {
    fn show_failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = &self.first_error {
            writeln!(
                f,
                "ERRORS      {} requests refused, the first: {first}",
                self.errors
            )?;
        }
        if self.unsent_requests > 0 {
            let unsent = self.unsent_requests;
            writeln!(f, "TOO SLOW    {unsent} requests were due but never sent")?;
        }
        if self.mismatches > 0 {
            writeln!(
                f,
                "MISMATCHES  {} values are not what was stored",
                self.mismatches
            )?;
        }
        Ok(())
    }
}

const COLUMNS: [&str; 8] = [
    "mean", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max",
];

fn figures(latency: &LatencySummary) -> String {
    let figures = [
        latency.latency_us_mean,
        latency.latency_us_p50,
        latency.latency_us_p90,
        latency.latency_us_p99,
        latency.latency_us_p99_9,
        latency.latency_us_p99_99,
        latency.latency_us_p99_999,
        latency.latency_us_max,
    ];
    figures.map(|us| format!("{us:>10.1}")).concat()
}
