//! memcached: metrics by the names of Prometheus's exporter for memcached, so that its dashboards
//! and alerts work with Cellar unchanged.
//!
//! Commands of all protocols count. Features that do not exist here (slabs, a crawler) are left
//! out.
//! Source: prometheus/memcached_exporter 0.15, `pkg/exporter/exporter.go`.

use super::own::seconds;
use super::text::{Family, MetricType, Samples};
use crate::observe::counters::Totals;

macro_rules! families {
    ($($name:literal $kind:ident $help:literal: $value:expr;)*) => {
        /// The families.
        pub const FAMILIES: &[Family] = &[$(Family {
            name: $name,
            kind: MetricType::$kind,
            labels: "",
            help: $help,
            write: |facts, samples| {
                let value: fn(&super::facts::Facts<'_>) -> _ = $value;
                samples.one(value(facts));
            },
        },)*
        Family {
            name: "memcached_version",
            kind: MetricType::Gauge,
            labels: "version",
            help: "Always 1; the version is in the label.",
            write: |_, samples| samples.with(&[("version", env!("CARGO_PKG_VERSION"))], 1),
        },
        Family {
            name: "memcached_commands_total",
            kind: MetricType::Count,
            labels: "command,status",
            help: "Commands by their outcome: hit, miss or badval.",
            write: |facts, samples| commands(&facts.totals, samples),
        }];
    };
}

families! {
    "memcached_up" Gauge "Always 1.": |_| 1;
    "memcached_uptime_seconds" Gauge "Time since the start.":
        |facts| facts.uptime_ms() / 1_000;
    "memcached_time_seconds" Gauge "Unix time.": |facts| facts.now_unix_ms() / 1_000;
    "memcached_current_bytes" Gauge "Bytes of live items.": |facts| facts.engine.live_bytes;
    "memcached_limit_bytes" Gauge "The configured memory.": |facts| facts.engine.memory_bytes;
    "memcached_malloced_bytes" Gauge "Allocated memory.":
        |facts| facts.used_bytes() + facts.engine.free_bytes;
    "memcached_current_items" Gauge "Current items.": |facts| facts.engine.items;
    "memcached_items_total" Count "Items stored.": |facts| facts.engine.items_total;
    "memcached_items_evicted_total" Count "Live items evicted because memory was needed.":
        |facts| facts.engine.evicted;
    "memcached_items_reclaimed_total" Count "Expired items whose memory was reclaimed.":
        |facts| facts.engine.expired;
    "memcached_item_too_large_total" Count "Stores refused because the value is over the limit.":
        |facts| facts.totals.store_too_large;
    "memcached_item_no_memory_total" Count
        "Stores refused because values in transfer used all memory.":
        |facts| facts.totals.store_no_memory;
    "memcached_direct_reclaims_total" Count "Always 0: stores reclaim in small steps.": |_| 0;
    "memcached_read_bytes_total" Count "Bytes read from clients.":
        |facts| facts.totals.bytes_read;
    "memcached_written_bytes_total" Count "Bytes written to clients.":
        |facts| facts.totals.bytes_written;
    "memcached_current_connections" Gauge "Open connections.": |facts| facts.connections();
    "memcached_max_connections" Gauge "Maximum number of connections.":
        |facts| facts.state.settings.max_connections;
    "memcached_connections_total" Count "Connections accepted.":
        |facts| facts.totals.connections_total;
    "memcached_connections_rejected_total" Count
        "Connections refused because of --max-connections.":
        |facts| facts.totals.connections_rejected;
    "memcached_connections_yielded_total" Count
        "Times a connection yielded to others because it sent too many requests at once.":
        |facts| facts.totals.conn_yields;
    "memcached_connections_listener_disabled_total" Count
        "Times the operating system refused a further connection.":
        |facts| facts.totals.accept_failures;
    "memcached_accepting_connections" Gauge "Whether connections are accepted.": |_| 1;
    "memcached_process_user_cpu_seconds_total" Count "Processor time in user mode.":
        |facts| seconds(facts.cpu.user_us, 1e6);
    "memcached_process_system_cpu_seconds_total" Count "Processor time in system mode.":
        |facts| seconds(facts.cpu.system_us, 1e6);
}

fn commands(totals: &Totals, samples: &mut Samples<'_>) {
    let cas = totals.cas_hits + totals.cas_misses + totals.cas_badval;
    for (command, status, count) in [
        ("get", "hit", totals.get_hits),
        ("get", "miss", totals.get_misses),
        ("set", "hit", totals.cmd_set.saturating_sub(cas)),
        ("delete", "hit", totals.delete_hits),
        ("delete", "miss", totals.delete_misses),
        ("incr", "hit", totals.incr_hits),
        ("incr", "miss", totals.incr_misses),
        ("decr", "hit", totals.decr_hits),
        ("decr", "miss", totals.decr_misses),
        ("cas", "hit", totals.cas_hits),
        ("cas", "miss", totals.cas_misses),
        ("cas", "badval", totals.cas_badval),
        ("touch", "hit", totals.touch_hits),
        ("touch", "miss", totals.touch_misses),
        ("flush", "hit", totals.cmd_flush),
    ] {
        samples.with(&[("command", command), ("status", status)], count);
    }
}
