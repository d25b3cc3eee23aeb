//! What a replay found: one row for each trace and size, the form of `--json`.
//!
//! `overhead_bytes_per_item` is what live items take beyond key and value (headers, deadlines,
//! padding), with the index and all bookkeeping, over the live items. Dead bytes, unused ends of
//! segments and free segments are not in it: they do not grow with the number of items.

use std::collections::BTreeMap;

use serde::Serialize;

use super::baseline::{Baseline, Tally};
use super::play::Played;
use super::size::Size;
use cellar_load::quantity::share;

/// All runs of one call; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
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
#[derive(Debug, Serialize)]
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
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) miss_ratio: f64,
    /// The engine's misses over this policy's.
    pub(crate) engine_misses_ratio: f64,
}

/// A size that the engine cannot work with.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) trace: String,
    pub(crate) size: String,
    pub(crate) memory_bytes: u64,
    pub(crate) reason: String,
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
