//! INFO: the server's metrics in sections, with the names that Redis monitoring reads.
//!
//! Fields without a counterpart here that exporters or libraries read have a neutral value: no
//! replica, nothing saved, not loading.

mod key_sizes; // how long values are, counted when it is asked for
mod recent; // fields of later versions

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use cellar_config::memory;
use cellar_config::parameters::REDIS_VERSION;
use cellar_config::settings::address::Address;
use cellar_engine::Stats;
use cellar_protocol::memcached::reply::percent_escaped;
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::command::TABLE;
use cellar_shared::clients::pause::Paused;
use cellar_shared::keyspace::compression;
use cellar_shared::observe::counters::Totals;
use cellar_shared::observe::counters::times::CommandTimes;
use cellar_shared::observe::statistics::PeakMemory;
use cellar_system::process;

use super::used_bytes;
use crate::resp::call::{Call, DONE, Outcome};

/// Key prefixes shown of those that compression has sampled.
const PREFIXES_MAX: usize = 64;
/// Initial capacity of one reply.
const TEXT_BYTES: usize = 8 << 10;

/// The data that the sections are written from.
struct InfoFacts<'c> {
    call: &'c Call<'c>,
    engine: Stats,
    /// The counters since the last reset.
    totals: Totals,
    used_bytes: u64,
    peak: PeakMemory,
}

/// A section: its name, whether it is shown unless asked for, and what writes it.
type Section = (&'static str, bool, fn(&InfoFacts<'_>, &mut InfoText));

const SECTIONS: [Section; 15] = [
    ("Server", true, server),
    ("TLS", true, recent::tls),
    ("Clients", true, clients),
    ("Memory", true, memory_section),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _| {}),
    ("Commandstats", false, command_stats),
    ("Latencystats", false, latency_stats),
    ("Errorstats", true, error_stats),
    ("Cluster", true, |facts, text| {
        let is_node = facts.call.context.state.cluster.is_some();
        text.field("cluster_enabled", u8::from(is_node));
    }),
    ("Keyspace", true, keyspace),
    ("Hotkeys", true, |facts, text| {
        let is_active = facts.call.context.state.records.hot_keys.is_active();
        text.field("hotkeys-tracking-active", u8::from(is_active));
    }),
];

/// The answer as it grows.
struct InfoText(String);

impl InfoText {
    fn field(&mut self, name: &str, value: impl Display) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    fn fields<V: Display>(&mut self, fields: impl IntoIterator<Item = (&'static str, V)>) {
        for (name, value) in fields {
            self.field(name, value);
        }
    }

    /// A number of bytes, also in human-readable form.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.field(&format!("{name}_human"), human(bytes));
    }
}

/// INFO
pub(in crate::resp) fn info(call: &mut Call<'_>) -> Outcome {
    let wanted: Vec<String> = call.args[1..]
        .iter()
        .map(|word| String::from_utf8_lossy(word).to_lowercase())
        .collect();
    let has = |word: &str| wanted.iter().any(|one| one == word);
    let all = has("all") || has("everything");
    let usual = wanted.is_empty() || has("default");
    let text = {
        let facts = InfoFacts::of(call);
        let mut text = InfoText(String::with_capacity(TEXT_BYTES));
        for (name, is_usual, write) in SECTIONS {
            if all || (usual && is_usual) || has(&name.to_lowercase()) {
                let gap = if text.0.is_empty() { "" } else { "\r\n" };
                let _ = write!(text.0, "{gap}# {name}\r\n");
                write(&facts, &mut text);
            }
        }
        text
    };
    if has("keysizes") {
        return key_sizes::append(call, text.0);
    }
    call.reply().verbatim(&text.0);
    DONE
}

impl<'c> InfoFacts<'c> {
    fn of(call: &'c Call<'c>) -> InfoFacts<'c> {
        let state = call.context.state;
        let engine = state.cache.stats();
        let (used_bytes, peak) = used_bytes(call, &engine);
        let zero = state.statistics.zero();
        let since = |now: u64, then: u64| now.saturating_sub(then);
        InfoFacts {
            call,
            totals: state.statistics.totals().since(&zero.totals),
            engine: Stats {
                evicted: since(engine.evicted, zero.engine.evicted),
                expired: since(engine.expired, zero.engine.expired),
                ..engine
            },
            used_bytes,
            peak,
        }
    }

    /// Calls `show` for each command used since the last reset, with its name, its calls, and its
    /// statistics.
    fn each_command(&self, mut show: impl FnMut(&str, u64, &CommandTimes)) {
        let (calls, mut times) = (
            self.calls(),
            self.call.context.state.statistics.times_since_reset(),
        );
        let mut show = |name: &str, verb: Verb| {
            let (calls, times) = (calls[verb as usize], times.remove(&(verb as usize)));
            if calls > 0 || times.as_ref().is_some_and(|times| times.rejected > 0) {
                show(name, calls, &times.unwrap_or_default());
            }
        };
        for row in TABLE {
            show(row.name, row.verb);
            for sub in row.subcommands {
                show(&format!("{}|{}", row.name, sub.name), sub.verb);
            }
        }
    }

    /// Calls of each command since the last reset.
    fn calls(&self) -> Vec<u64> {
        self.call.context.state.statistics.calls_since_reset()
    }
}

fn server(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let call = facts.call;
    let (state, settings) = (call.context.state, &call.context.state.settings);
    let now = call.cache().now();
    let uptime_s = (now.0 - state.run.started.0) / 1_000;
    let mut plain = settings
        .listen
        .resp
        .iter()
        .filter(|address| !address.is_tls());
    let port = plain.find_map(Address::host_and_port).map(|(_, port)| port);
    text.fields([
        ("redis_version", REDIS_VERSION),
        ("server_name", "cellar"),
        ("cellar_version", env!("CARGO_PKG_VERSION")),
        ("redis_git_sha1", "00000000"),
        ("redis_git_dirty", "0"),
        ("redis_build_id", "0"),
        ("redis_mode", state.mode()),
    ]);
    text.field("os", process::system());
    text.field("arch_bits", usize::BITS);
    text.field("multiplexing_api", "epoll");
    text.field("process_id", std::process::id());
    text.field("process_supervised", "no");
    text.field("run_id", &state.run.id);
    text.field("tcp_port", port.unwrap_or("0"));
    text.field("server_time_usec", call.unix_ms(now) * 1_000);
    text.field("uptime_in_seconds", uptime_s);
    text.field("uptime_in_days", uptime_s / 86_400);
    text.field("hz", state.parameters.value("hz"));
    text.field("configured_hz", state.parameters.value("hz"));
    text.field("lru_clock", (call.unix_ms(now) / 1_000) & 0xff_ffff);
    text.field("executable", "cellar");
    text.field("config_file", "");
    text.field("io_threads_active", u8::from(settings.threads > 1));
}

fn clients(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    // Relaxed: only reported.
    let connected = state.connections.load(Ordering::Relaxed);
    text.field("connected_clients", connected);
    text.field("cluster_connections", 0);
    text.field("maxclients", state.settings.max_connections);
    let (waiting, timed, keys) = state.observer.waiters.counts();
    text.fields([
        ("client_recent_max_input_buffer", 0),
        ("client_recent_max_output_buffer", 0),
        ("blocked_clients", waiting + state.pause.held()),
        ("tracking_clients", state.observer.tracking.clients()),
        ("clients_in_timeout_table", timed),
        ("total_blocking_keys", keys),
    ]);
    let now = facts.call.now();
    let (reason, what) = match state.pause.in_force(now) {
        None => ("none", "none"),
        Some(Paused::Writes) => ("client_pause", "write"),
        Some(Paused::All) => ("client_pause", "all"),
    };
    text.field("paused_reason", reason);
    text.field("paused_actions", what);
    let left_ms = match reason {
        "none" => 0,
        _ => state.pause.left_ms(now),
    };
    text.field("paused_timeout_milliseconds", left_ms);
    recent::clients(facts, text);
}

fn memory_section(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let InfoFacts {
        engine,
        used_bytes: used,
        peak,
        ..
    } = facts;
    let resident = process::resident_bytes().unwrap_or(*used);
    let overhead = engine.index_bytes + engine.overhead_bytes;
    text.bytes("used_memory", *used);
    text.bytes("used_memory_rss", resident);
    text.bytes("used_memory_peak", peak.bytes);
    text.field("used_memory_peak_time", peak.unix_s);
    text.field("used_memory_peak_perc", percent(*used, peak.bytes));
    text.field("used_memory_overhead", overhead);
    text.field("used_memory_startup", 0);
    text.field("used_memory_dataset", engine.live_bytes);
    text.field(
        "used_memory_dataset_perc",
        percent(engine.live_bytes, *used),
    );
    text.field("used_memory_reclaimable", engine.dead_bytes);
    text.field("used_memory_overdue", engine.overdue_bytes);
    text.field("compressed_values_total", engine.compressed);
    text.field("compressed_from_bytes_total", engine.compressed_from_bytes);
    text.field("compressed_to_bytes_total", engine.compressed_to_bytes);
    text.field("compressed_reads_total", engine.compressed_gets);
    text.field("decompressed_values_total", engine.decompressed);
    text.field("compression_usec_total", engine.compression_ns / 1_000);
    compressed_prefixes(facts, text);
    text.field("used_memory_dictionaries", engine.dictionary_bytes);
    text.field("number_of_dictionaries", engine.dictionaries);
    text.field("allocator_allocated", used);
    text.field("allocator_active", used + engine.free_bytes);
    text.field("allocator_resident", resident);
    let machine = memory::of_machine().map_or(0, |bytes| bytes as u64);
    text.bytes("total_system_memory", machine);
    text.bytes("used_memory_lua", 0);
    let (scripts, scripts_bytes) = facts.call.context.state.scripts.size();
    text.bytes("used_memory_scripts", scripts_bytes as u64);
    text.field("number_of_cached_scripts", scripts);
    let (libraries, functions, bytes) = facts.call.context.state.functions.size();
    text.field("used_memory_functions", bytes);
    text.field("number_of_functions", functions);
    text.field("number_of_libraries", libraries);
    text.bytes("maxmemory", engine.memory_bytes);
    let parameters = &facts.call.context.state.parameters;
    text.field("maxmemory_policy", parameters.value("maxmemory-policy"));
    text.field("default_ttl", parameters.value("default-ttl"));
    let databases = parameters.value("noeviction-databases");
    text.field("keep", &databases);
    text.field("noeviction_databases", databases);
    kept(facts, text);
    text.field("mem_fragmentation_ratio", ratio(resident, *used));
    text.field("mem_fragmentation_bytes", resident.saturating_sub(*used));
    text.fields([
        ("mem_not_counted_for_evict", 0),
        ("mem_replication_backlog", 0),
        ("mem_total_replication_buffers", 0),
        ("mem_clients_slaves", 0),
        ("mem_clients_normal", 0),
        ("mem_cluster_links", 0),
        ("mem_aof_buffer", 0),
        ("active_defrag_running", 0),
        ("lazyfree_pending_objects", 0),
        ("lazyfreed_objects", 0),
    ]);
    text.field("mem_allocator", "cellar");
}

fn persistence(facts: &InfoFacts<'_>, text: &mut InfoText) {
    text.fields([
        ("loading", 0),
        ("async_loading", 0),
        ("rdb_changes_since_last_save", 0),
        ("rdb_bgsave_in_progress", 0),
    ]);
    text.field(
        "rdb_last_save_time",
        facts.call.context.state.start_unix_s(),
    );
    text.field("rdb_last_bgsave_status", "ok");
    text.fields([
        ("rdb_last_bgsave_time_sec", -1),
        ("rdb_current_bgsave_time_sec", -1),
        ("aof_enabled", 0),
        ("aof_rewrite_in_progress", 0),
        ("aof_rewrite_scheduled", 0),
        ("aof_last_rewrite_time_sec", -1),
        ("aof_current_rewrite_time_sec", -1),
    ]);
    text.field("aof_last_bgrewrite_status", "ok");
    text.field("aof_last_write_status", "ok");
    if let Some(restored) = facts.call.cache().restored() {
        let why = restored.empty_because.as_deref().unwrap_or_default();
        text.field("cellar_restored", u8::from(restored.is_restored()));
        text.field("cellar_restored_empty_because", why);
        text.fields([
            ("cellar_restored_items", restored.items),
            ("cellar_restored_dropped_items", restored.dropped),
            ("cellar_unchecked_bytes", restored.unchecked_bytes),
            ("cellar_restored_away_ms", restored.away_ms),
            ("cellar_restore_usec", restored.took_us),
            (
                "cellar_state_refused_stores",
                facts.call.cache().state_refused(),
            ),
        ]);
    }
}

fn stats(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let InfoFacts { totals, engine, .. } = facts;
    let state = facts.call.context.state;
    let rates = state.records.pace.rates();
    let commands: u64 = facts.calls().iter().sum();
    let (channels, patterns) = state.observer.pubsub.counts();
    let (keys, items, prefixes) = state.observer.tracking.counts();
    let wide = |count: usize| count as u64;
    let (channels, patterns) = (wide(channels), wide(patterns));
    let (keys, items, prefixes) = (wide(keys), wide(items), wide(prefixes));
    let errors: u64 = state.records.errors.counts().map(|(_, count)| count).sum();
    let kept = state.cache.no_eviction_stats();
    let blessed: u64 = kept.iter().map(|share| share.items).sum();
    text.fields([
        ("total_connections_received", totals.connections_total),
        ("total_commands_processed", commands),
        ("instantaneous_ops_per_sec", rates.commands),
        ("total_net_input_bytes", totals.bytes_read),
        ("total_net_output_bytes", totals.bytes_written),
        ("total_net_repl_input_bytes", 0),
        ("total_net_repl_output_bytes", 0),
    ]);
    text.field("instantaneous_input_kbps", ratio(rates.bytes_read, 1 << 10));
    text.field(
        "instantaneous_output_kbps",
        ratio(rates.bytes_written, 1 << 10),
    );
    text.fields([
        ("rejected_connections", totals.connections_rejected),
        ("sync_full", 0),
        ("sync_partial_ok", 0),
        ("sync_partial_err", 0),
        ("expired_keys", engine.expired),
        ("expired_fields", state.observer.expired_fields()),
    ]);
    text.field(
        "expired_stale_perc",
        percent_number(engine.overdue_bytes, facts.used_bytes),
    );
    text.fields([
        ("expired_time_cap_reached_count", 0),
        ("evicted_keys", engine.evicted),
        ("blessed_keys", blessed),
        ("evicted_clients", totals.connections_slow_closed),
        ("keyspace_hits", totals.get_hits),
        ("keyspace_misses", totals.get_misses),
        ("pubsub_channels", channels),
        ("pubsub_patterns", patterns),
        ("latest_fork_usec", 0),
        ("total_forks", 0),
        ("migrate_cached_sockets", 0),
        ("slave_expires_tracked_keys", 0),
        ("active_defrag_hits", 0),
        ("active_defrag_misses", 0),
        ("active_defrag_key_hits", 0),
        ("active_defrag_key_misses", 0),
        ("tracking_total_keys", keys),
        ("tracking_total_items", items),
        ("tracking_total_prefixes", prefixes),
        ("unexpected_error_replies", 0),
        ("total_error_replies", errors),
    ]);
    recent::stats(facts, text);
}

fn replication(facts: &InfoFacts<'_>, text: &mut InfoText) {
    text.field("role", "master");
    text.field("connected_slaves", 0);
    text.field("master_failover_state", "no-failover");
    text.field("master_replid", &facts.call.context.state.run.id);
    text.field("master_replid2", "0".repeat(40));
    text.fields([
        ("master_repl_offset", 0),
        ("second_repl_offset", -1),
        ("repl_backlog_active", 0),
        ("repl_backlog_size", 0),
        ("repl_backlog_first_byte_offset", 0),
        ("repl_backlog_histlen", 0),
    ]);
}

fn cpu(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let cpu = process::cpu().unwrap_or_default();
    for (name, us) in [
        ("used_cpu_sys", cpu.system_us),
        ("used_cpu_user", cpu.user_us),
        ("used_cpu_sys_children", 0),
        ("used_cpu_user_children", 0),
    ] {
        let time = format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        text.field(name, time);
    }
    recent::cpu(facts, text);
}

/// What compression saves for the values of each key prefix, the largest savings first.
fn compressed_prefixes(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    let user = facts.call.session.identity.last_user();
    let user = user.map(|user| &**user);
    let prefixes = compression::prefixes(&state.cache, &state.databases, user);
    for (place, one) in (1..=PREFIXES_MAX).zip(prefixes) {
        let mut prefix = Vec::new();
        percent_escaped(&mut prefix, &one.prefix);
        let prefix = String::from_utf8_lossy(&prefix);
        let (database, is_compressed) = (one.database, u8::from(one.is_compressed));
        // Without a sample nothing is saved yet.
        let ratio = one.ratio.unwrap_or(1.0);
        let figures = format_args!(
            "prefix={prefix},database={database},compressed={is_compressed},ratio={ratio:.4}"
        );
        text.field(&format!("compressed_prefix{place}"), figures);
    }
}

/// Calls, how long they take and how they fail, of each command that was asked for.
fn command_stats(facts: &InfoFacts<'_>, text: &mut InfoText) {
    facts.each_command(|name, calls, times| {
        let figures = format_args!(
            "calls={calls},usec={},usec_per_call={},rejected_calls={},failed_calls={}",
            times.total_us(calls),
            ratio(times.mean_ns(), 1_000),
            times.rejected,
            times.failed,
        );
        text.field(&format!("cmdstat_{name}"), figures);
    });
}

/// The times that calls stay within.
fn latency_stats(facts: &InfoFacts<'_>, text: &mut InfoText) {
    facts.each_command(|name, _, times| {
        if times.timed > 0 {
            let us = |percent| times.percentile_ns(percent) as f64 / 1_000.0;
            let (p50, p99, p999) = (us(50.0), us(99.0), us(99.9));
            let figures = format_args!("p50={p50:.3},p99={p99:.3},p99.9={p999:.3}");
            text.field(&format!("latency_percentiles_usec_{name}"), figures);
        }
    });
}

fn error_stats(facts: &InfoFacts<'_>, text: &mut InfoText) {
    for (code, count) in facts.call.context.state.records.errors.counts() {
        text.field(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

/// The contents of the databases with their own memory.
fn kept(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    let shares = state.settings.keep.shares().iter();
    for (number, (share, kept)) in shares.zip(state.cache.no_eviction_stats()).enumerate() {
        let databases = share.names().replace(',', "+");
        let (memory, used) = (kept.memory_bytes, kept.used_bytes);
        let (keys, refused) = (kept.items, kept.refused);
        let figures = format_args!(
            "databases={databases},memory={memory},used={used},keys={keys},refused={refused}"
        );
        text.field(&format!("kept{number}"), figures);
    }
}

/// Databases that are not empty; Datadog divides by these values.
fn keyspace(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    let mut left = facts.engine.items;
    for database in 0..u32::try_from(state.databases.count()).unwrap_or(u32::MAX) {
        if left == 0 {
            break;
        }
        let held = state.cache.space_stats(state.databases.space(database));
        left = left.saturating_sub(held.items);
        if held.items > 0 {
            let (keys, expires, ttl_ms) = (held.items, held.with_deadline, held.mean_ttl_ms);
            let figures = format_args!("keys={keys},expires={expires},avg_ttl={ttl_ms}");
            text.field(&format!("db{database}"), figures);
        }
    }
}

/// A number of bytes in human-readable form.
fn human(bytes: u64) -> String {
    for (unit, shift) in [("G", 30), ("M", 20), ("K", 10)] {
        if bytes >> shift > 0 {
            return format!("{}{unit}", ratio(bytes, 1 << shift));
        }
    }
    format!("{bytes}B")
}

/// A quotient with two decimals.
fn ratio(part: u64, whole: u64) -> String {
    let whole = u128::from(whole.max(1));
    let hundredths = (u128::from(part) * 100 + whole / 2) / whole;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn percent_number(part: u64, whole: u64) -> String {
    ratio(part.saturating_mul(100), whole)
}

fn percent(part: u64, whole: u64) -> String {
    percent_number(part, whole) + "%"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_with_the_unit_that_fits() {
        assert_eq!(human(7), "7B");
        assert_eq!(human(916_912), "895.42K");
        assert_eq!(human(25_276_502_016), "23.54G");
    }

    #[test]
    fn quotients_are_rounded_and_nothing_divides_by_zero() {
        assert_eq!(ratio(2, 3), "0.67");
        assert_eq!(ratio(5, 0), "5.00");
        assert_eq!(percent(1, 8), "12.50%");
    }
}
