//! Own: the Prometheus metrics beside the tables, by the names of this project.

use std::sync::atomic::{AtomicU64, Ordering};

use cellar_config::logging;
use cellar_engine::{NoEvictionStats, Restored};

use super::facts::{Facts, lag_bounds_ms};
use super::text::{Family, MetricType, Samples};
use crate::auth::users::UserCounts;
use crate::clients::exclusive_lock::ExclusiveReason;
use crate::keyspace::compression;
use crate::observe::counters::load::{BOUNDS_US, LoadTotals};
use crate::observe::counters::pulse::Pulse;

/// The families.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "cellar_build_info",
        kind: MetricType::Gauge,
        labels: "version",
        help: "Always 1; the version is in the label.",
        write: |_, samples| samples.with(&[("version", env!("CARGO_PKG_VERSION"))], 1),
    },
    Family {
        name: "cellar_uptime_seconds",
        kind: MetricType::Gauge,
        labels: "",
        help: "Time since the start.",
        write: |facts, samples| samples.one(seconds(facts.uptime_ms(), 1e3)),
    },
    Family {
        name: "cellar_requests_total",
        kind: MetricType::Count,
        labels: "protocol",
        help: "Requests answered.",
        write: |facts, samples| {
            for (protocol, latency) in facts.load.latency.iter() {
                samples.with(&[("protocol", protocol.name())], latency.count());
            }
        },
    },
    Family {
        name: "cellar_request_duration_seconds",
        kind: MetricType::Histogram,
        labels: "protocol",
        help: "Time from the readiness of a request's connection until the replies of the \
               event-loop iteration were written to their sockets.",
        write: durations,
    },
    Family {
        name: "cellar_tracking_table_bytes",
        kind: MetricType::Gauge,
        labels: "",
        help: "Bytes of tracked key names (CLIENT TRACKING), with those that are not yet freed.",
        write: |facts, samples| samples.one(facts.state.observer.tracking.bytes()),
    },
    Family {
        name: "cellar_open_connections",
        kind: MetricType::Gauge,
        labels: "protocol",
        help: "Open connections by protocol.",
        write: |facts, samples| {
            for (protocol, open) in facts.load.connections.iter() {
                samples.with(&[("protocol", protocol.name())], *open);
            }
        },
    },
    Family {
        name: "cellar_exclusive_sections_total",
        kind: MetricType::Count,
        labels: "reason",
        help: "Stop-the-world sections by reason. command: its keys are unknown before it runs, or \
               it serves blocked clients. script, transaction: contains such a command. \
               undeclared_key: a script used a key that it did not declare.",
        write: |facts, samples| {
            for (reason, name) in ExclusiveReason::ALL {
                let sections = facts.state.exclusive_lock.exclusive_sections(reason);
                samples.with(&[("reason", name)], sections);
            }
        },
    },
    Family {
        name: "cellar_tls_certificate_expiry_timestamp_seconds",
        kind: MetricType::Gauge,
        labels: "certificate",
        help: "Unix time at which a certificate expires, by file.",
        write: |facts, samples| {
            let keys = facts.state.tls.iter();
            for (certificate, expiry_s) in keys.flat_map(|keys| keys.expiries_s()) {
                samples.with(&[("certificate", &certificate)], expiry_s);
            }
        },
    },
    Family {
        name: "cellar_thread_busy_seconds_total",
        kind: MetricType::Count,
        labels: "thread",
        help: "Time that an event loop spent on iterations with work.",
        write: |facts, samples| {
            each_thread(facts, samples, |load| seconds(load.busy_us, 1e6));
        },
    },
    Family {
        name: "cellar_thread_requests_total",
        kind: MetricType::Count,
        labels: "thread",
        help: "Requests answered by an event loop.",
        write: |facts, samples| each_thread(facts, samples, LoadTotals::requests),
    },
    Family {
        name: "cellar_loop_stalls_total",
        kind: MetricType::Count,
        labels: "thread",
        help: "Times an event loop was blocked for a second or more.",
        write: |facts, samples| each_pulse(facts, samples, Pulse::stalls),
    },
    Family {
        name: "cellar_loop_stalled_seconds",
        kind: MetricType::Gauge,
        labels: "thread",
        help: "How long an event loop has been blocked; 0 if it runs.",
        write: |facts, samples| {
            each_pulse(facts, samples, |pulse| seconds(pulse.stalled_ms(), 1e3));
        },
    },
    Family {
        name: "cellar_thread_connections",
        kind: MetricType::Gauge,
        labels: "thread",
        help: "Connections of an event loop.",
        write: |facts, samples| {
            each_thread(facts, samples, |load| {
                load.connections.values().sum::<u64>()
            });
        },
    },
    Family {
        name: "cellar_memory_state_bytes",
        kind: MetricType::Gauge,
        labels: "state",
        help: "Memory by use: live, dead (reclaimable), free (allocated and empty), index, \
               overhead; and connection buffers, which are not part of --memory.",
        write: |facts, samples| {
            let engine = &facts.engine;
            for (state, bytes) in [
                ("live", engine.live_bytes),
                ("dead", engine.dead_bytes),
                ("free", engine.free_bytes),
                ("index", engine.index_bytes),
                ("overhead", engine.overhead_bytes),
                ("buffers", facts.load.buffer_bytes),
            ] {
                samples.with(&[("state", state)], bytes);
            }
        },
    },
    Family {
        name: "cellar_miss_reasons_total",
        kind: MetricType::Count,
        labels: "reason",
        help: "Misses by reason: never_stored, expired, evicted, deleted; estimates.",
        write: |facts, samples| {
            let engine = &facts.engine;
            for (reason, misses) in [
                ("never_stored", engine.missed_never_stored),
                ("expired", engine.missed_expired),
                ("evicted", engine.missed_evicted),
                ("deleted", engine.missed_deleted),
            ] {
                samples.with(&[("reason", reason)], misses);
            }
        },
    },
    Family {
        name: "cellar_curve_misses_total",
        kind: MetricType::Count,
        labels: "factor",
        help: "Miss-ratio curve: reads that would have missed with the memory times this factor. \
               Divide by cellar_gets_total for the miss ratio. Estimates.",
        write: |facts, samples| {
            for (factor, point) in curve_factors().iter().zip(&facts.curve.points) {
                samples.with(&[("factor", factor)], point.misses);
            }
        },
    },
    Family {
        name: "cellar_expiry_lag_seconds",
        kind: MetricType::Histogram,
        labels: "",
        help: "Time from an item's deadline until its memory was reclaimed; the sum is estimated \
               from the bins.",
        write: lags,
    },
    Family {
        name: "cellar_expiring_items",
        kind: MetricType::Gauge,
        labels: "within",
        help: "Items by the time until they expire: minute, hour, day, later, never; overdue: \
               expired, not yet reclaimed. Estimates. The day includes the hour.",
        write: |facts, samples| each_span(facts, samples, |leaving| leaving.0),
    },
    Family {
        name: "cellar_expiring_bytes",
        kind: MetricType::Gauge,
        labels: "within",
        help: "Bytes of the items in cellar_expiring_items.",
        write: |facts, samples| each_span(facts, samples, |leaving| leaving.1),
    },
    Family {
        name: "cellar_default_ttl_seconds",
        kind: MetricType::Gauge,
        labels: "scope",
        help: "Default TTL by protocol, 0 for none. resp:3 is database 3 with its own default.",
        write: |facts, samples| {
            let ttl = facts.state.settings_in_effect().default_ttl;
            for (scope, ttl_ms) in ttl.scopes() {
                samples.with(&[("scope", &scope)], seconds(ttl_ms, 1e3));
            }
        },
    },
    Family {
        name: "cellar_restored",
        kind: MetricType::Gauge,
        labels: "",
        help: "With --state: 1 if the cache was restored at start, 0 if it started empty.",
        write: |facts, samples| {
            each_restored(facts, samples, |restored| u64::from(restored.is_restored()));
        },
    },
    Family {
        name: "cellar_restored_items",
        kind: MetricType::Gauge,
        labels: "",
        help: "Items restored at start.",
        write: |facts, samples| each_restored(facts, samples, |restored| restored.items),
    },
    Family {
        name: "cellar_restored_dropped_items",
        kind: MetricType::Gauge,
        labels: "",
        help: "Items dropped at start because they may be damaged.",
        write: |facts, samples| each_restored(facts, samples, |restored| restored.dropped),
    },
    Family {
        name: "cellar_unchecked_bytes",
        kind: MetricType::Gauge,
        labels: "",
        help: "Memory of a killed server whose items are not checked yet.",
        write: |facts, samples| each_restored(facts, samples, |restored| restored.unchecked_bytes),
    },
    Family {
        name: "cellar_restore_seconds",
        kind: MetricType::Gauge,
        labels: "",
        help: "Time from the start until the cache could be used.",
        write: |facts, samples| {
            if let Some(restored) = facts.state.cache.restored() {
                samples.one(seconds(restored.took_us, 1e6));
            }
        },
    },
    Family {
        name: "cellar_kept_memory_bytes",
        kind: MetricType::Gauge,
        labels: "databases",
        help: "Memory of databases without eviction (--noeviction-databases).",
        write: |facts, samples| each_kept(facts, samples, |kept| kept.memory_bytes),
    },
    Family {
        name: "cellar_kept_used_bytes",
        kind: MetricType::Gauge,
        labels: "databases",
        help: "Used bytes of databases without eviction, with bookkeeping.",
        write: |facts, samples| each_kept(facts, samples, |kept| kept.used_bytes),
    },
    Family {
        name: "cellar_kept_refused_stores_total",
        kind: MetricType::Count,
        labels: "databases",
        help: "Stores refused because a database without eviction was full.",
        write: |facts, samples| each_kept(facts, samples, |kept| kept.refused),
    },
    Family {
        name: "cellar_database_keys",
        kind: MetricType::Gauge,
        labels: "database",
        help: "Keys in each non-empty database.",
        write: |facts, samples| {
            for one in facts.databases() {
                samples.with(&[("database", &one.database.to_string())], one.keys);
            }
        },
    },
    Family {
        name: "cellar_compression_cpu_seconds_total",
        kind: MetricType::Count,
        labels: "",
        help: "Processor time to compress and decompress values and to train dictionaries; an \
               estimate.",
        write: |facts, samples| samples.one(seconds(facts.engine.compression_ns, 1e9)),
    },
    Family {
        name: "cellar_compression_ratio",
        kind: MetricType::Gauge,
        labels: "database,prefix",
        help: "Compressed over plain bytes of the last sample of a key prefix whose values are \
               compressed, 0 to 1; an estimate.",
        write: |facts, samples| {
            let state = facts.state;
            for one in compression::prefixes(&state.cache, &state.databases, None) {
                // Two prefixes that are not text could get the same label.
                if let (true, Some(ratio)) = (one.is_compressed, one.ratio)
                    && let Ok(prefix) = str::from_utf8(&one.prefix)
                {
                    let database = one.database.to_string();
                    samples.with(&[("database", &database), ("prefix", prefix)], ratio);
                }
            }
        },
    },
    Family {
        name: "cellar_hottest_key_ratio",
        kind: MetricType::Gauge,
        labels: "",
        help: "Share of all reads for the most frequently read key, 0 to 1; an estimate.",
        write: |facts, samples| {
            let hottest = facts.hot_keys(1);
            samples.one(hottest.first().map_or(0.0, |key| key.share));
        },
    },
    Family {
        name: "cellar_logins_total",
        kind: MetricType::Count,
        labels: "result",
        help: "Login attempts by result: right, wrong, or refused without a check; with --users.",
        write: |facts, samples| {
            each_user_count(facts, samples, |counts| {
                let UserCounts {
                    right,
                    wrong,
                    refused,
                    ..
                } = counts;
                vec![("right", right), ("wrong", wrong), ("refused", refused)]
            });
        },
    },
    Family {
        name: "cellar_logins_slowed_total",
        kind: MetricType::Count,
        labels: "",
        help: "Login attempts delayed because of earlier failures from the same address.",
        write: |facts, samples| {
            each_user_count(facts, samples, |counts| vec![("", &counts.slowed)])
        },
    },
    Family {
        name: "cellar_password_hashes_total",
        kind: MetricType::Count,
        labels: "",
        help: "Password hash computations.",
        write: |facts, samples| {
            each_user_count(facts, samples, |counts| vec![("", &counts.hashes)])
        },
    },
    Family {
        name: "cellar_users_reloads_total",
        kind: MetricType::Count,
        labels: "result",
        help: "Reloads of the users file, by result; after a refused one the old users stay.",
        write: |facts, samples| {
            each_user_count(facts, samples, |counts| {
                vec![
                    ("done", &counts.reloads),
                    ("refused", &counts.reload_failures),
                ]
            });
        },
    },
    Family {
        name: "cellar_log_lines_dropped_total",
        kind: MetricType::Count,
        labels: "",
        help: "Log lines lost because the log was not read or could not be written.",
        write: |_, samples| samples.one(logging::dropped()),
    },
    Family {
        name: "cellar_keyspace_events_dropped_total",
        kind: MetricType::Count,
        labels: "",
        help: "Keyspace events dropped because too many were pending.",
        write: |facts, samples| samples.one(facts.state.observer.events().dropped()),
    },
    Family {
        name: "process_cpu_seconds_total",
        kind: MetricType::Count,
        labels: "",
        help: "Processor time in user and system mode.",
        write: |facts, samples| {
            samples.one(seconds(facts.cpu.user_us + facts.cpu.system_us, 1e6));
        },
    },
    Family {
        name: "process_resident_memory_bytes",
        kind: MetricType::Gauge,
        labels: "",
        help: "Resident memory of the process.",
        write: |facts, samples| samples.one(facts.resident_bytes),
    },
    Family {
        name: "process_start_time_seconds",
        kind: MetricType::Gauge,
        labels: "",
        help: "Unix time of the start.",
        write: |facts, samples| samples.one(facts.state.start_unix_s()),
    },
];

/// A number of parts of a second as seconds.
pub(super) fn seconds(parts: u64, per_second: f64) -> f64 {
    parts as f64 / per_second
}

fn durations(facts: &Facts<'_>, samples: &mut Samples<'_>) {
    let bounds = BOUNDS_US.map(|us| seconds(us, 1e6));
    for (protocol, latency) in facts.load.latency.iter() {
        let sum = seconds(latency.sum_us, 1e6);
        samples.histogram(
            &[("protocol", protocol.name())],
            &bounds,
            &latency.bins,
            sum,
        );
    }
}

fn lags(facts: &Facts<'_>, samples: &mut Samples<'_>) {
    let bounds: Vec<f64> = lag_bounds_ms().iter().map(|&ms| seconds(ms, 1e3)).collect();
    // Bins double, so three quarters of its bound is the middle of a bin; the last is taken for
    // one that ends at twice the last bound.
    let last = bounds.last().copied().unwrap_or(0.0) * 2.0;
    let ends = bounds.iter().copied().chain([last]);
    let sum = ends
        .zip(facts.lag.items)
        .map(|(end, items)| items as f64 * end * 0.75)
        .sum();
    samples.histogram(&[], &bounds, &facts.lag.items, sum);
}

fn each_thread<V: std::fmt::Display>(
    facts: &Facts<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&LoadTotals) -> V,
) {
    for (thread, load) in facts.loads.iter().enumerate() {
        samples.with(&[("thread", &thread.to_string())], value(load));
    }
}

fn each_pulse<V: std::fmt::Display>(
    facts: &Facts<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&Pulse) -> V,
) {
    for (thread, counters) in facts.state.statistics.loops.iter().enumerate() {
        samples.with(&[("thread", &thread.to_string())], value(&counters.pulse));
    }
}

/// Writes the counters of users, if users are configured.
fn each_user_count(
    facts: &Facts<'_>,
    samples: &mut Samples<'_>,
    counts: fn(&UserCounts) -> Vec<(&'static str, &AtomicU64)>,
) {
    let users = facts.state.access.users.as_ref();
    for (result, count) in users.map(|users| counts(&users.counts)).unwrap_or_default() {
        // Relaxed: only reported.
        let count = count.load(Ordering::Relaxed);
        match result {
            "" => samples.one(count),
            result => samples.with(&[("result", result)], count),
        }
    }
}

fn each_restored(facts: &Facts<'_>, samples: &mut Samples<'_>, value: impl Fn(&Restored) -> u64) {
    if let Some(restored) = facts.state.cache.restored() {
        samples.one(value(&restored));
    }
}

fn each_kept(
    facts: &Facts<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&NoEvictionStats) -> u64,
) {
    let shares = facts.state.settings.keep.shares();
    for (share, kept) in shares.iter().zip(facts.state.cache.no_eviction_stats()) {
        samples.with(&[("databases", &share.names())], value(&kept));
    }
}

fn each_span(facts: &Facts<'_>, samples: &mut Samples<'_>, value: impl Fn((u64, u64)) -> u64) {
    let timeline = &facts.timeline;
    let sum = |steps: &[cellar_engine::Leaving]| {
        steps.iter().fold((0, 0), |(items, bytes), step| {
            (items + step.items, bytes + step.bytes)
        })
    };
    let alone = |leaving: cellar_engine::Leaving| (leaving.items, leaving.bytes);
    for (within, leaving) in [
        ("overdue", alone(timeline.overdue)),
        ("minute", sum(&timeline.minute)),
        ("hour", sum(&timeline.hour)),
        ("day", sum(&timeline.day)),
        ("later", alone(timeline.later)),
        ("never", alone(timeline.never)),
    ] {
        samples.with(&[("within", within)], value(leaving));
    }
}

fn curve_factors() -> [String; 5] {
    cellar_engine::MissRatioCurve::FACTORS.map(|factor| factor.to_string())
}
