//! redis: metrics by the names of the usual exporter for Redis, so that its dashboards and alerts
//! work with Cellar unchanged.
//!
//! Commands of Redis's protocol count as commands; keys, memory and hits are those of the whole
//! server. The time that each command takes is not counted.
//! Source: oliver006/redis_exporter 1.74, `exporter/exporter.go`.

use cellar_config::memory;
use cellar_config::parameters::REDIS_VERSION;
use cellar_protocol::resp::command::TABLE;
use cellar_system::process;

use super::facts::Facts;
use super::own::seconds;
use super::text::{Family, MetricType, Samples};

macro_rules! families {
    ($($name:literal $kind:ident $help:literal: $value:expr;)*) => {
        /// The families.
        pub const FAMILIES: &[Family] = &[$(Family {
            name: $name,
            kind: MetricType::$kind,
            labels: "",
            help: $help,
            write: |facts, samples| {
                let value: fn(&Facts<'_>) -> _ = $value;
                samples.one(value(facts));
            },
        },)*
        Family {
            name: "redis_instance_info",
            kind: MetricType::Gauge,
            labels: "redis_version,redis_mode,role,os",
            help: "Always 1; the values are in the labels.",
            write: info,
        },
        Family {
            name: "redis_commands_total",
            kind: MetricType::Count,
            labels: "cmd",
            help: "Calls of each command that was called.",
            write: commands,
        },
        Family {
            name: "redis_db_keys",
            kind: MetricType::Gauge,
            labels: "db",
            help: "Keys in each non-empty database.",
            write: |facts, samples| {
                for one in facts.databases() {
                    samples.with(&[("db", &format!("db{}", one.database))], one.keys);
                }
            },
        },
        Family {
            name: "redis_db_keys_expiring",
            kind: MetricType::Gauge,
            labels: "db",
            help: "Keys with a TTL in each non-empty database.",
            write: |facts, samples| {
                for one in facts.databases() {
                    samples.with(&[("db", &format!("db{}", one.database))], one.with_deadline);
                }
            },
        }];
    };
}

families! {
    "redis_up" Gauge "Always 1.": |_| 1;
    "redis_uptime_in_seconds" Gauge "Time since the start.": |facts| facts.uptime_ms() / 1_000;
    "redis_start_time_seconds" Gauge "Unix time of the start.": |facts| facts.state.start_unix_s();
    "redis_connected_clients" Gauge "Open connections.": |facts| facts.connections();
    "redis_blocked_clients" Gauge "Blocked clients.":
        |facts| facts.state.observer.waiters.counts().0;
    "redis_tracking_clients" Gauge "Clients with tracking enabled.":
        |facts| facts.state.observer.tracking.clients();
    "redis_max_clients" Gauge "Maximum number of connections.":
        |facts| facts.state.settings.max_connections;
    "redis_connections_received_total" Count "Connections accepted.":
        |facts| facts.totals.connections_total;
    "redis_rejected_connections_total" Count "Connections refused.":
        |facts| facts.totals.connections_rejected;
    "redis_memory_used_bytes" Gauge "Bytes of items and bookkeeping.": |facts| facts.used_bytes();
    "redis_memory_used_rss_bytes" Gauge "Resident memory of the process.":
        |facts| facts.resident_bytes;
    "redis_memory_max_bytes" Gauge "The configured memory.": |facts| facts.engine.memory_bytes;
    "redis_memory_fragmentation_ratio" Gauge "Resident memory divided by the memory of items.":
        |facts| fragmentation(facts);
    "redis_mem_fragmentation_ratio" Gauge "The same under its newer name.":
        |facts| fragmentation(facts);
    "redis_total_system_memory_bytes" Gauge "The machine's memory.":
        |_| memory::of_machine().unwrap_or(0);
    "redis_commands_processed_total" Count "Commands over the Redis protocol.":
        |facts| facts.state.statistics.calls().iter().sum::<u64>();
    "redis_keyspace_hits_total" Count "Keys found by reads.": |facts| facts.totals.get_hits;
    "redis_keyspace_misses_total" Count "Keys not found by reads.":
        |facts| facts.totals.get_misses;
    "redis_expired_keys_total" Count "Expired items whose memory was reclaimed.":
        |facts| facts.engine.expired;
    "redis_evicted_keys_total" Count "Live items evicted because memory was needed.":
        |facts| facts.engine.evicted;
    "redis_net_input_bytes_total" Count "Bytes read from clients.":
        |facts| facts.totals.bytes_read;
    "redis_net_output_bytes_total" Count "Bytes written to clients.":
        |facts| facts.totals.bytes_written;
    "redis_pubsub_channels" Gauge "Channels with subscribers.":
        |facts| facts.state.observer.pubsub.counts().0;
    "redis_pubsub_patterns" Gauge "Patterns with subscribers.":
        |facts| facts.state.observer.pubsub.counts().1;
    "redis_cpu_user_seconds_total" Count "Processor time in user mode.":
        |facts| seconds(facts.cpu.user_us, 1e6);
    "redis_cpu_sys_seconds_total" Count "Processor time in system mode.":
        |facts| seconds(facts.cpu.system_us, 1e6);
    "redis_connected_slaves" Gauge "Always 0: there is no replication.": |_| 0;
    "redis_cluster_enabled" Gauge "Whether this server is a node of a cluster: 1, or 0.":
        |facts| u64::from(facts.state.cluster.is_some());
    "redis_loading_dump_file" Gauge "Always 0: nothing is loaded.": |_| 0;
    "redis_rdb_changes_since_last_save" Gauge "Always 0: nothing is saved.": |_| 0;
}

fn fragmentation(facts: &Facts<'_>) -> f64 {
    facts.resident_bytes as f64 / facts.used_bytes().max(1) as f64
}

fn info(facts: &Facts<'_>, samples: &mut Samples<'_>) {
    let labels = [
        ("redis_version", REDIS_VERSION),
        ("redis_mode", facts.state.mode()),
        ("role", "master"),
        ("os", &process::system()),
    ];
    samples.with(&labels, 1);
}

fn commands(facts: &Facts<'_>, samples: &mut Samples<'_>) {
    let calls = facts.state.statistics.calls();
    for row in TABLE {
        let subcommands = row.subcommands.iter().map(|sub| calls[sub.verb as usize]);
        let count = calls[row.verb as usize] + subcommands.sum::<u64>();
        if count > 0 {
            samples.with(&[("cmd", row.name)], count);
        }
    }
}
