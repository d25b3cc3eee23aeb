//! Metrics: every figure the daemon keeps, by name; docs/metrics.md is written from here.

use cellar_engine::Stats;

use crate::counters::Counters;

/// How a figure moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from zero at start.
    Count,
    /// Goes up and down.
    Gauge,
}

/// One figure of the engine.
pub struct EngineRow {
    /// The name, as in the engine's [`Stats`].
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
    /// Takes it out of the engine's figures.
    pub read: fn(&Stats) -> u64,
}

macro_rules! engine_rows {
    ($($name:ident $kind:ident: $help:literal;)*) => {
        /// All figures of the engine.
        pub const ENGINE: &[EngineRow] = &[$(EngineRow {
            name: stringify!($name),
            kind: Kind::$kind,
            help: $help,
            read: |stats| stats.$name,
        },)*];
    };
}

engine_rows! {
    items Gauge: "Items now, expired ones that nobody met yet included.";
    items_total Count: "Items stored.";
    live_bytes Gauge: "Bytes of live items with header and key; an estimate while items expire.";
    dead_bytes Gauge: "Bytes of dead items that are not yet reclaimed; an estimate.";
    free_bytes Gauge: "Bytes of resident memory that hold no item.";
    index_bytes Gauge: "Bytes of the index.";
    overhead_bytes Gauge: "Bytes of all other bookkeeping: segment tables and ghosts.";
    memory_bytes Gauge: "The configured memory.";
    evicted Count: "Live items that left because memory was needed.";
    evicted_unfetched Count: "Of those, items that were never fetched.";
    evicted_bytes Count: "Bytes of live items that left because memory was needed.";
    expired Count: "Expired items whose memory was taken back.";
    expired_unfetched Count: "Of those, items that were never fetched.";
    misses_expired Count: "Reads that found an item past its deadline.";
    copied Count: "Items copied to keep them: promotion, second chance and compaction.";
    segments_freed Count: "Segments freed.";
    segments Gauge: "Segments in use.";
    segment_bytes Gauge: "Bytes in one segment.";
    shards Gauge: "Shards.";
    dead_at_eviction_max_ppm Gauge: "Most millionths of memory that were dead at an eviction.";
}

const HEAD: &str = "\
# Metrics

Written from the tables in `crates/server/src/counters.rs` and `crates/server/src/metrics.rs`; do
not edit by hand (`CELLAR_BLESS=1 cargo test -p cellar --test docs` writes it anew).

A count only grows, from zero at start; a gauge goes up and down. docs/commands.md says under which
names memcached's `stats` command prints them.
";

/// The page's text.
#[must_use]
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n## Server\n\n| name | kind | meaning |\n|---|---|---|\n");
    for (name, help) in Counters::TABLE {
        text.push_str(&format!("| `{name}` | count | {help} |\n"));
    }
    text.push_str("| `connections` | gauge | Open connections. |\n");
    text.push_str(
        "| `transfer_bytes` | gauge | Bytes of the cache's memory held by values that are being \
         received or sent. |\n",
    );
    text.push_str("\n## Engine\n\n| name | kind | meaning |\n|---|---|---|\n");
    for row in ENGINE {
        let kind = if row.kind == Kind::Count {
            "count"
        } else {
            "gauge"
        };
        text.push_str(&format!("| `{}` | {kind} | {} |\n", row.name, row.help));
    }
    text
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
            .collect();
        let rows: Vec<&str> = ENGINE.iter().map(|row| row.name).collect();
        assert_eq!(rows, fields);
    }
}
