//! Tables: counters, by the names of this project.
//!
//! Prometheus is shown each row as `cellar_<name>`, a count with `_total` behind it, unless
//! [`super::deprecated`] has a better name.

use cellar_engine::Stats;

use super::deprecated::Deprecated;
use super::facts::Facts;
use super::text::{MetricType, Text};
use crate::observe::counters::Counters;

/// One metric of the engine.
pub struct EngineRow {
    /// The name, as in the engine's [`Stats`].
    pub name: &'static str,
    /// Its name in memcached's `stats`; empty if it is not shown there.
    pub stat: &'static str,
    /// How it moves.
    pub kind: MetricType,
    /// Its description.
    pub help: &'static str,
    /// Reads it from the engine's metrics.
    pub read: fn(&Stats) -> u64,
}

macro_rules! engine_rows {
    ($($name:ident $stat:literal $kind:ident: $help:literal;)*) => {
        /// All metrics of the engine.
        pub const ENGINE: &[EngineRow] = &[$(EngineRow {
            name: stringify!($name),
            stat: $stat,
            kind: MetricType::$kind,
            help: $help,
            read: |stats| stats.$name,
        },)*];
    };
}

engine_rows! {
    items "curr_items" Gauge:
        "Current items. Expired items are counted for at most a quarter of a second.";
    items_total "total_items" Count: "Items stored.";
    live_bytes "bytes" Gauge:
        "Bytes of live items with header and key; an estimate while items expire.";
    dead_bytes "dead_bytes" Gauge:
        "Reclaimable bytes (expired, overwritten, deleted); an estimate.";
    overdue_bytes "overdue_bytes" Gauge:
        "Reclaimable bytes of expired items; an estimate.";
    free_bytes "free_bytes" Gauge: "Bytes of resident memory that hold no item.";
    index_bytes "hash_bytes" Gauge: "Bytes of the index.";
    overhead_bytes "overhead_bytes" Gauge:
        "Bytes of all other bookkeeping: segment tables, ghosts, statistics.";
    memory_bytes "limit_maxbytes" Gauge: "The configured memory.";
    evicted "evictions" Count: "Live items evicted because memory was needed.";
    evicted_unfetched "evicted_unfetched" Count: "Evicted items that were never read.";
    evicted_bytes "evicted_bytes" Count: "Bytes of live items evicted because memory was needed.";
    expired "reclaimed" Count: "Expired items whose memory was reclaimed.";
    expired_unfetched "expired_unfetched" Count: "Expired items that were never read.";
    misses_expired "get_expired" Count: "Reads that found an item past its deadline.";
    misses_flushed "get_flushed" Count: "Reads that found an item that was flushed.";
    copied "items_copied" Count:
        "Items copied by promotion, second chance and compaction.";
    copied_bytes "item_bytes_copied" Count: "Bytes of the items that were copied.";
    compressed "values_compressed" Count: "Values compressed.";
    compressed_from_bytes "value_bytes_before_compression" Count:
        "Bytes of compressed values before their compression.";
    compressed_to_bytes "value_bytes_after_compression" Count:
        "Bytes of compressed values after their compression.";
    decompressed "values_decompressed" Count:
        "Compressed values that were stored plain again: often read, or changed.";
    compressed_gets "get_compressed" Count: "Reads of compressed values.";
    dictionaries "dictionaries" Gauge: "Compression dictionaries.";
    dictionary_bytes "dictionary_bytes" Gauge:
        "Bytes of compression dictionaries; a part of the other bookkeeping.";
    segments_freed "" Count: "Segments freed.";
    segments "segments" Gauge: "Segments in use.";
    segment_bytes "segment_bytes" Gauge: "Bytes in one segment.";
    shards "shards" Gauge: "Shards.";
    small_queue_percent "small_queue_percent" Gauge:
        "Share of memory for the queue of new items, chosen by simulations; in stats a percentage.";
    dead_at_eviction_max_ppm "" Gauge:
        "Maximum share of reclaimable memory at an eviction, 0 to 1.";
    samples_dropped "" Count:
        "Sampled requests that the statistics skipped because they were locked.";
    gets "" Count: "Keys read, of all types; one per requested key.";
    misses "" Count: "Keys that reads did not find; hit ratio = 1 - misses / gets.";
    misses_at_quarter "" Count:
        "Reads that would have missed with a quarter of the memory; an estimate.";
    misses_at_half "" Count: "Reads that would have missed with half of the memory; an estimate.";
    misses_at_double "" Count: "Reads that would have missed with twice the memory; an estimate.";
    misses_at_fourfold "" Count:
        "Reads that would have missed with four times the memory; an estimate.";
    missed_never_stored "misses_never_stored" Count:
        "Misses of keys that were never stored, or not recently; an estimate.";
    missed_expired "misses_expired" Count:
        "Misses of expired items; an estimate.";
    missed_evicted "misses_evicted" Count:
        "Misses of evicted items; an estimate.";
    missed_deleted "misses_deleted" Count:
        "Misses of deleted or flushed items; an estimate.";
}

/// A gauge of the server.
pub struct GaugeRow {
    /// The name.
    pub name: &'static str,
    /// Its name in memcached's `stats`; empty if it is not shown there.
    pub stat: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Reads it from the facts.
    pub read: fn(&Facts<'_>) -> u64,
}

/// The gauges of the server.
pub const GAUGES: &[GaugeRow] = &[
    GaugeRow {
        name: "connections",
        stat: "curr_connections",
        help: "Open connections.",
        read: |facts| facts.connections(),
    },
    GaugeRow {
        name: "transfer_bytes",
        stat: "",
        help: "Bytes of the cache used by values that are being received or sent.",
        read: |facts| facts.transfer_bytes(),
    },
    GaugeRow {
        name: "client_memory_bytes",
        stat: "client_memory",
        help: "Bytes used for clients outside of the cache's memory.",
        read: |facts| facts.client_memory().0,
    },
    GaugeRow {
        name: "client_memory_limit_bytes",
        stat: "client_memory_max",
        help: "The limit of client_memory_bytes (--client-memory).",
        read: |facts| facts.client_memory().1,
    },
];

/// The name that Prometheus is shown.
#[must_use]
pub fn prometheus_name(name: &str, kind: MetricType) -> String {
    let derived = derived_name(name, kind);
    Deprecated::by_old(&derived).map_or(derived, |old| old.name.to_owned())
}

/// The name that follows from a row's own.
fn derived_name(name: &str, kind: MetricType) -> String {
    let suffix = if kind == MetricType::Count && !name.ends_with("_total") {
        "_total"
    } else {
        ""
    };
    format!("cellar_{name}{suffix}")
}

/// Writes all rows as text for Prometheus.
pub fn write(facts: &Facts<'_>, text: &mut Text) {
    let mut row = |name: &str, kind: MetricType, help: &str, value: u64| {
        let name = derived_name(name, kind);
        let Some(old) = Deprecated::by_old(&name) else {
            return text.samples(&name, kind, help, |samples| samples.one(value));
        };
        let scaled = value as f64 / f64::from(old.per_unit);
        text.samples(old.name, kind, help, |samples| samples.one(scaled));
        text.samples(old.old, kind, &old.help(), |samples| samples.one(value));
    };
    for (counter, value) in Counters::TABLE.iter().zip(facts.totals.values()) {
        row(counter.name, MetricType::Count, counter.help, value);
    }
    for gauge in GAUGES {
        row(
            gauge.name,
            MetricType::Gauge,
            gauge.help,
            (gauge.read)(facts),
        );
    }
    for figure in ENGINE {
        row(
            figure.name,
            figure.kind,
            figure.help,
            (figure.read)(&facts.engine),
        );
    }
}

/// The names that memcached's `stats` shows.
pub fn stat_names() -> impl Iterator<Item = &'static str> {
    let counters = Counters::TABLE.iter().map(|row| row.stat);
    let gauges = GAUGES.iter().map(|row| row.stat);
    let engine = ENGINE.iter().map(|row| row.stat);
    counters
        .chain(gauges)
        .chain(engine)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_the_engine_has_its_row() {
        let shown = format!("{:?}", Stats::default());
        let fields: Vec<&str> = shown
            .trim_start_matches("Stats { ")
            .split(", ")
            .filter_map(|field| field.split(':').next())
            // Shown in seconds, see own.rs.
            .filter(|&field| field != "compression_ns")
            .collect();
        let rows: Vec<&str> = ENGINE.iter().map(|row| row.name).collect();
        assert_eq!(rows, fields);
    }
}
