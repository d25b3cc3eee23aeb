//! What a replay found: one row for each trace and size, the form of `--json`.
//!
//! `overhead_bytes_per_item` is what live items take beyond key and value (headers, deadlines,
//! padding), with the index and all bookkeeping, over the live items. Dead bytes, unused ends of
//! segments and free segments are not in it: they do not grow with the number of items.

use std::collections::BTreeMap;

use serde::Serialize;

use super::baseline::Tally;
use super::play::Played;
use cellar_load::share;

/// All runs of one call; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) baseline_overhead_bytes: u64,
    /// Share of the footprint that every size was made by stretching the values.
    pub(crate) stretch: Option<String>,
    pub(crate) runs: Vec<Run>,
    /// Runs with so much memory that nothing has to leave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) roomy: Vec<Run>,
    pub(crate) skipped: Vec<Skipped>,
}

/// One trace at one size; with [`Played`] flat in it, its fields are a contract.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) trace: String,
    pub(crate) size: String,
    pub(crate) footprint_bytes: u64,
    #[serde(flatten)]
    pub(crate) played: Played,
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

impl Compared {
    /// A policy beside the engine, which had so many misses.
    pub(crate) fn new(tally: Tally, engine_misses: u64) -> Compared {
        Compared {
            hits: tally.hits,
            misses: tally.misses,
            miss_ratio: share(tally.misses, tally.hits + tally.misses),
            engine_misses_ratio: share(engine_misses, tally.misses),
        }
    }
}
