//! Columns: the metrics of a row, one table row per metric.
//!
//! Counters become rates; gauges have their value at the end of the interval. An unknown metric,
//! such as a hit ratio without reads, is NaN.

use cellar_config::protocol::ByProtocol;
use cellar_engine::Stats;

use super::Snapshot;
use crate::observe::counters::load::{Latencies, quantile_us};

/// One metric of a row.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Computes it from two snapshots.
    read: fn(&Interval<'_>) -> Option<f64>,
}

/// The metrics of a row, in the order of [`COLUMNS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowFigures(pub [f32; COLUMNS.len()]);

/// The interval between two snapshots.
pub(super) struct Interval<'a> {
    now: &'a Snapshot,
    before: &'a Snapshot,
    seconds: f64,
    latency: ByProtocol<Latencies>,
}

macro_rules! columns {
    ($($name:ident $unit:literal $help:literal: $read:expr;)*) => {
        /// All metrics.
        pub const COLUMNS: &[Column] = &[$(Column {
            name: stringify!($name),
            unit: $unit,
            help: $help,
            read: $read,
        },)*];
    };
}

columns! {
    requests "1/s" "Requests of all protocols.": |step| step.rate(|one| one.load.requests());
    memcached "1/s" "Requests of the memcached protocol.":
        |step| step.requests(&step.latency.memcached);
    resp "1/s" "Requests of the Redis protocol.": |step| step.requests(&step.latency.resp);
    http "1/s" "Requests of HTTP.": |step| step.requests(&step.latency.http);
    p50 "us" "Latency that half of all requests did not exceed.": |step| step.all_within(0.5);
    p99 "us" "Latency that 99 of 100 requests did not exceed.": |step| step.all_within(0.99);
    p999 "us" "Latency that 999 of 1,000 requests did not exceed.": |step| step.all_within(0.999);
    memcached_p50 "us" "p50 of the memcached protocol.":
        |step| quantile(&step.latency.memcached, 0.5);
    memcached_p99 "us" "p99 of the memcached protocol.":
        |step| quantile(&step.latency.memcached, 0.99);
    memcached_p999 "us" "p99.9 of the memcached protocol.":
        |step| quantile(&step.latency.memcached, 0.999);
    resp_p50 "us" "p50 of the Redis protocol.": |step| quantile(&step.latency.resp, 0.5);
    resp_p99 "us" "p99 of the Redis protocol.": |step| quantile(&step.latency.resp, 0.99);
    resp_p999 "us" "p99.9 of the Redis protocol.": |step| quantile(&step.latency.resp, 0.999);
    http_p50 "us" "p50 of HTTP.": |step| quantile(&step.latency.http, 0.5);
    http_p99 "us" "p99 of HTTP.": |step| quantile(&step.latency.http, 0.99);
    http_p999 "us" "p99.9 of HTTP.": |step| quantile(&step.latency.http, 0.999);
    gets "1/s" "Keys read.": |step| step.rate(reads);
    hits "1/s" "Keys that reads found.": |step| step.rate(hits);
    misses "1/s" "Keys that reads did not find.": |step| step.rate(|one| one.engine.misses);
    hit_ratio "ratio" "Share of reads that found their key.": |step| step.hit_ratio();
    missed_never_stored "1/s" "Misses of keys never stored, or not recently; an estimate.":
        |step| step.rate(|one| one.engine.missed_never_stored);
    missed_expired "1/s" "Misses of expired items; an estimate.":
        |step| step.rate(|one| one.engine.missed_expired);
    missed_evicted "1/s" "Misses of evicted items; an estimate.":
        |step| step.rate(|one| one.engine.missed_evicted);
    missed_deleted "1/s" "Misses of deleted or flushed items; an estimate.":
        |step| step.rate(|one| one.engine.missed_deleted);
    sets "1/s" "Storage commands.": |step| step.rate(|one| one.totals.cmd_set);
    stored "1/s" "Items stored.": |step| step.rate(|one| one.engine.items_total);
    evicted "1/s" "Live items evicted because memory was needed.":
        |step| step.rate(|one| one.engine.evicted);
    expired "1/s" "Expired items whose memory was reclaimed.":
        |step| step.rate(|one| one.engine.expired);
    items "items" "Current items.": |step| level(step.now.engine.items);
    live_bytes "bytes" "Memory of live items.": |step| level(step.now.engine.live_bytes);
    dead_bytes "bytes" "Reclaimable memory (expired, deleted, overwritten).":
        |step| level(step.now.engine.dead_bytes);
    index_bytes "bytes" "Memory of the index.": |step| level(step.now.engine.index_bytes);
    overhead_bytes "bytes" "Memory of all other bookkeeping.":
        |step| level(step.now.engine.overhead_bytes);
    buffer_bytes "bytes" "Memory of connection buffers.": |step| level(step.now.load.buffer_bytes);
    free_bytes "bytes" "Configured memory that is not in use.":
        |step| level(free(&step.now.engine));
    connections "connections" "Open connections.": |step| level(step.clients().values().sum());
    memcached_clients "connections" "Open connections of the memcached protocol.":
        |step| level(step.clients().memcached);
    resp_clients "connections" "Open connections of the Redis protocol.":
        |step| level(step.clients().resp);
    http_clients "connections" "Open connections of HTTP.": |step| level(step.clients().http);
    busiest "ratio" "Share of time that the busiest event loop spent on work.":
        |step| step.busiest();
}

fn reads(snapshot: &Snapshot) -> u64 {
    snapshot.engine.gets
}

fn hits(snapshot: &Snapshot) -> u64 {
    snapshot.engine.gets.saturating_sub(snapshot.engine.misses)
}

fn free(engine: &Stats) -> u64 {
    let used = engine.live_bytes + engine.dead_bytes + engine.index_bytes + engine.overhead_bytes;
    engine.memory_bytes.saturating_sub(used)
}

fn quantile(latency: &Latencies, share: f64) -> Option<f64> {
    quantile_us(&latency.bins, share)
}

fn level(number: u64) -> Option<f64> {
    Some(number as f64)
}

impl<'a> Interval<'a> {
    pub(super) fn new(now: &'a Snapshot, before: &'a Snapshot) -> Interval<'a> {
        Interval {
            now,
            before,
            seconds: now.at_ms.saturating_sub(before.at_ms).max(1) as f64 / 1_000.0,
            latency: ByProtocol::from_fn(|protocol| {
                let (now, before) = (&now.load.latency, &before.load.latency);
                now.of(protocol).since(before.of(protocol))
            }),
        }
    }

    pub(super) fn figures(&self) -> RowFigures {
        RowFigures(std::array::from_fn(|place| {
            (COLUMNS[place].read)(self).map_or(f32::NAN, |figure| figure as f32)
        }))
    }

    fn growth(&self, count: impl Fn(&Snapshot) -> u64) -> f64 {
        count(self.now).saturating_sub(count(self.before)) as f64
    }

    fn rate(&self, count: impl Fn(&Snapshot) -> u64) -> Option<f64> {
        Some(self.growth(count) / self.seconds)
    }

    fn requests(&self, latency: &Latencies) -> Option<f64> {
        Some(latency.count() as f64 / self.seconds)
    }

    fn all_within(&self, share: f64) -> Option<f64> {
        let bins = std::array::from_fn(|bin| self.latency.values().map(|one| one.bins[bin]).sum());
        quantile_us(&bins, share)
    }

    fn hit_ratio(&self) -> Option<f64> {
        let all = self.growth(reads);
        (all > 0.0).then(|| self.growth(hits) / all)
    }

    fn clients(&self) -> &ByProtocol<u64> {
        &self.now.load.connections
    }

    fn busiest(&self) -> Option<f64> {
        let us = self.seconds * 1e6;
        let loops = self.now.loops.iter().zip(&self.before.loops);
        let busy = loops.map(|(now, before)| now.busy_us.saturating_sub(before.busy_us) as f64);
        busy.reduce(f64::max).map(|busy| (busy / us).min(1.0))
    }
}
