//! The report of a load: figures for people and for programs.

use std::fmt;

use serde::Serialize;

use crate::clock::seconds;
use crate::latency::LatencySummary;
use crate::load::plan::{Keys, Plan};
use crate::load::tally::Tally;
use crate::usage::CpuSource;

/// What a load has found; the field names of `--json`.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say all; units come last")]
pub struct Report {
    pub protocol: &'static str,
    pub target: String,
    pub connections: usize,
    pub threads: usize,
    pub depth: usize,
    pub keys: u64,
    pub key_bytes: usize,
    pub value_bytes_min: usize,
    pub value_bytes_max: usize,
    pub distribution: String,
    pub get_share: f64,
    pub seed: u64,
    /// Requests per second that were asked for; absent in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
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

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
impl Report {
    /// Adds up what a load did; `cpu` is the server's processor time in ns.
    pub(super) fn new(plan: &Plan, tally: &Tally, cpu: Option<(u64, CpuSource)>) -> Report {
        let elapsed_s = seconds(tally.ended_ns - tally.started_ns);
        let requests = tally.replies();
        let mut all = tally.get_latencies.clone();
        all.merge(&tally.set_latencies);
        Report {
            protocol: plan.wire.name(),
            target: plan.target.to_string(),
            connections: plan.connections,
            threads: plan.threads,
            depth: plan.depth,
            keys: plan.records.keys(),
            key_bytes: plan.records.key_bytes(),
            value_bytes_min: plan.records.value_bytes().low,
            value_bytes_max: plan.records.value_bytes().high,
            distribution: match plan.keys {
                Keys::Each => "each".to_owned(),
                Keys::Drawn(popularity) => popularity.to_string(),
            },
            get_share: plan.get_share,
            seed: plan.seed,
            rate_per_s: plan.rate_per_s,
            verified: plan.verify,
            elapsed_s,
            requests,
            throughput_per_s: ratio(requests as f64, elapsed_s),
            errors: tally.gets_refused + tally.sets_refused,
            first_error: tally.first_refusal.clone(),
            mismatches: tally.mismatches,
            unsent_requests: tally.unsent,
            sent_bytes: tally.sent_bytes,
            received_bytes: tally.received_bytes,
            latency: all.summary(),
            load_cpu_us_per_request: ratio(tally.own_cpu_ns as f64 / 1000.0, requests as f64),
            get: GetReport {
                requests: tally.gets(),
                hits: tally.hits,
                misses: tally.misses,
                hit_ratio: ratio(tally.hits as f64, (tally.hits + tally.misses) as f64),
                latency: tally.get_latencies.summary(),
            },
            set: SetReport {
                requests: tally.sets(),
                stored: tally.stored,
                not_stored: tally.not_stored,
                latency: tally.set_latencies.summary(),
            },
            server_cpu: cpu.map(|(ns, source)| ServerCpu {
                server_cpu_us_per_request: ratio(ns as f64 / 1000.0, requests as f64),
                server_cpu_s: seconds(ns),
                requests_per_server_cpu_s: ratio(requests as f64, seconds(ns)),
                server_cpu_source: source,
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
        let loop_kind = match self.rate_per_s {
            Some(rate) => format!("open loop at {rate:.0}/s"),
            None => "closed loop".to_owned(),
        };
        writeln!(
            f,
            "{} {}: {} connections, {} threads, depth {}, {loop_kind}, {} keys {}, {} + {} B",
            self.protocol,
            self.target,
            self.connections,
            self.threads,
            self.depth,
            self.keys,
            self.distribution,
            self.key_bytes,
            span(self.value_bytes_min, self.value_bytes_max),
        )?;
        writeln!(
            f,
            "requests    {} in {:.2} s = {:.0}/s",
            self.requests, self.elapsed_s, self.throughput_per_s
        )?;
        if self.get.requests > 0 {
            writeln!(
                f,
                "gets        {} hits, {} misses, hit ratio {:.4}{}",
                self.get.hits,
                self.get.misses,
                self.get.hit_ratio,
                if self.verified {
                    ", values verified"
                } else {
                    ""
                },
            )?;
        }
        if self.set.requests > 0 {
            writeln!(
                f,
                "sets        {} stored, {} not",
                self.set.stored, self.set.not_stored
            )?;
        }
        writeln!(f, "latency us  {}", heading())?;
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
            writeln!(
                f,
                "server CPU  {:.3} us/request, {:.2} s ({:.0} % of the time), \
                 {:.0} requests per CPU s",
                cpu.server_cpu_us_per_request,
                cpu.server_cpu_s,
                100.0 * ratio(cpu.server_cpu_s, self.elapsed_s),
                cpu.requests_per_server_cpu_s,
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
            writeln!(
                f,
                "TOO SLOW    {} requests were due but never sent: the server cannot keep the rate",
                self.unsent_requests
            )?;
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

fn span(low: usize, high: usize) -> String {
    if low == high {
        low.to_string()
    } else {
        format!("{low}..{high}")
    }
}

const COLUMNS: [&str; 8] = [
    "mean", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max",
];

fn heading() -> String {
    COLUMNS.map(|name| format!("{name:>10}")).concat()
}

fn figures(latency: &LatencySummary) -> String {
    [
        latency.latency_us_mean,
        latency.latency_us_p50,
        latency.latency_us_p90,
        latency.latency_us_p99,
        latency.latency_us_p99_9,
        latency.latency_us_p99_99,
        latency.latency_us_p99_999,
        latency.latency_us_max,
    ]
    .map(|us| format!("{us:>10.1}"))
    .concat()
}
