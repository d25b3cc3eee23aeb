//! What a replay found: one row for each trace and size, as a table and as JSON.
//!
//! `overhead_bytes_per_item` is what live items take beyond key and value (headers, deadlines,
//! padding), with the index and all bookkeeping, over the live items. Dead bytes, unused ends of
//! segments and free segments are not in it: they do not grow with the number of items.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use super::baseline::{Baseline, Tally};
use super::play::Played;
use super::remote::Served;
use super::size::{Size, binary};
use super::trace::Trace;
use crate::machine::Setting;

/// All runs of one call; the form of `--json`.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    pub(crate) setting: Setting,
    /// Heading of the page.
    pub(crate) title: String,
    /// Policies that were simulated beside the engine.
    pub(crate) baselines: Vec<Baseline>,
    pub(crate) baseline_overhead_bytes: u64,
    /// Share of the footprint that every size was made by stretching the values.
    pub(crate) stretch: Option<String>,
    pub(crate) runs: Vec<Run>,
    pub(crate) skipped: Vec<Skipped>,
}

/// One trace at one size. The first fields up to `overhead_bytes_per_item` are a contract.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Run {
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) miss_ratio: f64,
    pub(crate) items: u64,
    pub(crate) live_bytes: u64,
    pub(crate) dead_at_eviction_max_pct: f64,
    pub(crate) dead_mean_pct: f64,
    pub(crate) evicted: u64,
    pub(crate) expired: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) overhead_bytes_per_item: f64,
    pub(crate) trace: String,
    pub(crate) size: String,
    pub(crate) memory_bytes: u64,
    pub(crate) footprint_bytes: u64,
    pub(crate) sets: u64,
    pub(crate) stores: u64,
    pub(crate) refused: u64,
    /// Gets of keys that were never stored before.
    pub(crate) misses_absent: u64,
    pub(crate) misses_expired: u64,
    pub(crate) misses_evicted: u64,
    pub(crate) copies_per_store: f64,
    pub(crate) dead_max_pct: f64,
    pub(crate) segment_bytes: u64,
    pub(crate) shards: u64,
    pub(crate) seconds: f64,
    pub(crate) baselines: BTreeMap<String, Compared>,
}

/// Another policy on the same trace in the same bytes.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Compared {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) miss_ratio: f64,
    /// The engine's misses over this policy's.
    pub(crate) engine_misses_ratio: f64,
}

/// A size that the engine cannot work with.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Skipped {
    pub(crate) trace: String,
    pub(crate) size: String,
    pub(crate) memory_bytes: u64,
    pub(crate) reason: String,
}

/// One trace against a running server.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RemoteRun {
    requests: u64,
    hits: u64,
    misses: u64,
    miss_ratio: f64,
    trace: String,
    sets: u64,
    stores: u64,
    refused: u64,
    /// Whether the trace has TTLs, which a server was not told.
    ttl_left_out: bool,
    seconds: f64,
}

impl RemoteRun {
    pub(crate) fn of(trace: &Trace, served: &Served) -> RemoteRun {
        RemoteRun {
            requests: served.requests,
            hits: served.hits,
            misses: served.misses,
            miss_ratio: share(served.misses, served.hits + served.misses),
            trace: trace.name.clone(),
            sets: served.sets,
            stores: served.stores,
            refused: served.refused,
            ttl_left_out: trace.has_ttl(),
            seconds: served.seconds,
        }
    }
}

impl fmt::Display for RemoteRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| trace | requests | misses | miss % | stores | refused |\n|---|---|---|---|---|---|\n\
             | {} | {} | {} | {:.2} | {} | {} |",
            self.trace,
            self.requests,
            self.misses,
            self.miss_ratio * 100.0,
            self.stores,
            self.refused
        )?;
        if self.ttl_left_out {
            writeln!(
                f,
                "\nThe trace's TTLs were left out: a server's clock is not the trace's."
            )?;
        }
        Ok(())
    }
}

impl Run {
    /// Puts together what the engine and the baselines did.
    pub(crate) fn of(
        trace: &str,
        size: Size,
        footprint_bytes: u64,
        played: &Played,
        tallies: &[(Baseline, Tally)],
    ) -> Run {
        let stats = &played.stats;
        let misses = played.misses.all();
        let compared = tallies.iter().map(|&(baseline, tally)| {
            let compared = Compared {
                hits: tally.hits,
                misses: tally.misses,
                miss_ratio: share(tally.misses, tally.hits + tally.misses),
                engine_misses_ratio: share(misses, tally.misses),
            };
            (baseline.name().to_owned(), compared)
        });
        Run {
            requests: played.requests,
            hits: played.hits,
            misses,
            miss_ratio: share(misses, played.hits + misses),
            items: stats.items,
            live_bytes: stats.live_bytes,
            dead_at_eviction_max_pct: share(stats.dead_at_eviction_max_ppm, 10_000),
            dead_mean_pct: played.dead_mean_pct,
            evicted: stats.evicted,
            expired: stats.expired,
            rss_bytes: played.rss_bytes,
            overhead_bytes_per_item: played.overhead_bytes_per_item,
            trace: trace.to_owned(),
            size: size.to_string(),
            memory_bytes: stats.memory_bytes,
            footprint_bytes,
            sets: played.sets,
            stores: played.stores,
            refused: played.refused,
            misses_absent: played.misses.absent,
            misses_expired: played.misses.expired,
            misses_evicted: played.misses.evicted,
            copies_per_store: share(stats.copied, played.stores),
            dead_max_pct: played.dead_max_pct,
            segment_bytes: stats.segment_bytes,
            shards: stats.shards,
            seconds: played.seconds,
            baselines: compared.collect(),
        }
    }
}

/// A quotient; zero if there is nothing to divide by.
#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The table for people, in Markdown.
pub(crate) fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(report, &mut text);
    text
}

fn write_table(report: &Report, text: &mut String) -> std::fmt::Result {
    let baselines = &report.baselines;
    let ratios: String = baselines
        .iter()
        .map(|baseline| format!(" / {} |", baseline.name()))
        .collect();
    let columns = 12 + baselines.len();
    writeln!(
        text,
        "| trace | memory | requests | misses | miss % |{ratios} dead at eviction max % | \
         dead mean % | copies/store | evicted | expired | RSS | overhead B/item |\n{}|",
        "|---".repeat(columns)
    )?;
    for run in &report.runs {
        write!(
            text,
            "| {} | {} | {} | {} | {:.2} |",
            run.trace,
            memory(&run.size, run.memory_bytes),
            run.requests,
            run.misses,
            run.miss_ratio * 100.0,
        )?;
        for compared in baselines
            .iter()
            .filter_map(|baseline| run.baselines.get(baseline.name()))
        {
            write!(text, " {:.3} |", compared.engine_misses_ratio)?;
        }
        writeln!(
            text,
            " {:.2} | {:.2} | {:.2} | {} | {} | {} | {:.1} |",
            run.dead_at_eviction_max_pct,
            run.dead_mean_pct,
            run.copies_per_store,
            run.evicted,
            run.expired,
            binary(run.rss_bytes),
            run.overhead_bytes_per_item,
        )?;
    }
    if !report.skipped.is_empty() {
        writeln!(text)?;
    }
    for skipped in &report.skipped {
        writeln!(
            text,
            "- {} is left out at {}: {}",
            skipped.trace,
            memory(&skipped.size, skipped.memory_bytes),
            skipped.reason
        )?;
    }
    if !baselines.is_empty() {
        writeln!(
            text,
            "\n/ NAME: the engine's misses over those of NAME in the same bytes."
        )?;
    }
    Ok(())
}

/// The size as it was asked for, and what it came to.
pub(crate) fn memory(size: &str, memory_bytes: u64) -> String {
    let bytes = binary(memory_bytes);
    if size == bytes {
        bytes
    } else {
        format!("{size} = {bytes}")
    }
}
