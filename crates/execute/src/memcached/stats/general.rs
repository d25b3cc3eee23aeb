//! `stats` without an argument, and `stats settings`.

use std::sync::atomic::Ordering;

use cellar_protocol::memcached::reply::stat;
use cellar_system::process;

use super::Figures;
use crate::context::Context;
use crate::memcached::VERSION;

/// stats
pub(super) fn show(figures: &Figures, context: Context<'_>, out: &mut Vec<u8>) {
    process(context, out);
    connections(figures, context, out);
    commands(figures, out);
    restored(context, out);
    server(figures, context, out);
    items(figures, out);
}

fn process(context: Context<'_>, out: &mut Vec<u8>) {
    let state = context.state;
    let now_unix_s = context.unix_s(state.cache.now());
    stat(out, "pid", std::process::id());
    // Tools divide by it.
    stat(
        out,
        "uptime",
        now_unix_s.saturating_sub(state.start_unix_s()).max(1),
    );
    stat(out, "time", now_unix_s);
    stat(out, "version", VERSION);
    stat(out, "pointer_size", usize::BITS);
    let cpu = process::cpu().unwrap_or_default();
    for (name, us) in [
        ("rusage_user", cpu.user_us),
        ("rusage_system", cpu.system_us),
    ] {
        let time = format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        stat(out, name, time);
    }
}

fn connections(figures: &Figures, context: Context<'_>, out: &mut Vec<u8>) {
    let (totals, state) = (&figures.totals, context.state);
    // Relaxed: only reported.
    let open = state.connections.load(Ordering::Relaxed);
    stat(out, "max_connections", state.settings.max_connections);
    stat(out, "curr_connections", open);
    stat(out, "total_connections", totals.connections_total);
    stat(out, "rejected_connections", totals.connections_rejected);
    stat(out, "connection_structures", open);
    stat(out, "client_memory", state.budget.bytes());
    stat(out, "client_memory_max", state.budget.bytes_max());
}

fn commands(figures: &Figures, out: &mut Vec<u8>) {
    let Figures { totals, engine } = figures;
    for (name, value) in [
        ("cmd_get", totals.cmd_get),
        ("cmd_set", totals.cmd_set),
        ("cmd_flush", totals.cmd_flush),
        ("cmd_touch", totals.cmd_touch),
        ("cmd_meta", totals.cmd_meta),
        ("get_hits", totals.get_hits),
        ("get_misses", totals.get_misses),
        ("get_expired", engine.misses_expired),
        ("get_flushed", engine.misses_flushed),
        ("misses_never_stored", engine.missed_never_stored),
        ("misses_expired", engine.missed_expired),
        ("misses_evicted", engine.missed_evicted),
        ("misses_deleted", engine.missed_deleted),
        ("delete_misses", totals.delete_misses),
        ("delete_hits", totals.delete_hits),
        ("incr_misses", totals.incr_misses),
        ("incr_hits", totals.incr_hits),
        ("decr_misses", totals.decr_misses),
        ("decr_hits", totals.decr_hits),
        ("cas_misses", totals.cas_misses),
        ("cas_hits", totals.cas_hits),
        ("cas_badval", totals.cas_badval),
        ("touch_hits", totals.touch_hits),
        ("touch_misses", totals.touch_misses),
        ("store_too_large", totals.store_too_large),
        ("store_no_memory", totals.store_no_memory),
        ("auth_cmds", 0),
        ("auth_errors", 0),
        ("protocol_errors", totals.protocol_errors),
    ] {
        stat(out, name, value);
    }
}

fn server(figures: &Figures, context: Context<'_>, out: &mut Vec<u8>) {
    let (Figures { totals, engine }, settings) = (figures, &context.state.settings);
    for (name, value) in [
        ("idle_kicks", totals.connections_idle_closed),
        ("slow_kicks", totals.connections_slow_closed),
        ("memory_kicks", totals.connections_memory_closed),
        ("pipeline_kicks", totals.connections_pipeline_closed),
        ("login_kicks", totals.connections_login_closed),
        ("bytes_read", totals.bytes_read),
        ("bytes_written", totals.bytes_written),
        ("limit_maxbytes", settings.memory_bytes as u64),
        ("accepting_conns", 1),
        ("listen_disabled_num", totals.accept_failures),
        ("time_in_listen_disabled_us", 0),
        ("threads", settings.threads as u64),
        ("conn_yields", totals.conn_yields),
        (
            "hash_power_level",
            u64::from((engine.index_bytes / 8).max(1).ilog2()),
        ),
        ("hash_bytes", engine.index_bytes),
        ("hash_is_expanding", 0),
        ("lru_crawler_running", 0),
        ("lru_crawler_starts", 0),
        ("malloc_fails", 0),
    ] {
        stat(out, name, value);
    }
}

/// The result of restoring an earlier server's cache.
fn restored(context: Context<'_>, out: &mut Vec<u8>) {
    let Some(restored) = context.state.cache.restored() else {
        return;
    };
    stat(out, "restored", u8::from(restored.is_restored()));
    if let Some(why) = &restored.empty_because {
        stat(out, "restored_empty_because", why);
    }
    stat(out, "restored_items", restored.items);
    stat(out, "restored_dropped_items", restored.dropped);
    stat(out, "restored_unchecked_bytes", restored.unchecked_bytes);
    stat(out, "restored_away_ms", restored.away_ms);
    stat(out, "restore_us", restored.took_us);
}

fn items(figures: &Figures, out: &mut Vec<u8>) {
    let engine = &figures.engine;
    for (name, value) in [
        ("bytes", engine.live_bytes),
        ("curr_items", engine.items),
        ("total_items", engine.items_total),
        ("slab_global_page_pool", 0),
        ("expired_unfetched", engine.expired_unfetched),
        ("evicted_unfetched", engine.evicted_unfetched),
        ("evicted_active", 0),
        ("evictions", engine.evicted),
        ("reclaimed", engine.expired),
        ("crawler_reclaimed", 0),
        ("crawler_items_checked", 0),
        ("lrutail_reflocked", 0),
        ("moves_to_cold", 0),
        ("moves_to_warm", 0),
        ("moves_within_lru", 0),
        ("direct_reclaims", 0),
        ("lru_bumps_dropped", 0),
        ("dead_bytes", engine.dead_bytes),
        ("overdue_bytes", engine.overdue_bytes),
        ("free_bytes", engine.free_bytes),
        ("overhead_bytes", engine.overhead_bytes),
        ("evicted_bytes", engine.evicted_bytes),
        ("items_copied", engine.copied),
        ("item_bytes_copied", engine.copied_bytes),
        ("values_compressed", engine.compressed),
        (
            "value_bytes_before_compression",
            engine.compressed_from_bytes,
        ),
        ("value_bytes_after_compression", engine.compressed_to_bytes),
        ("values_decompressed", engine.decompressed),
        ("get_compressed", engine.compressed_gets),
        ("compression_usec", engine.compression_ns / 1_000),
        ("dictionaries", engine.dictionaries),
        ("dictionary_bytes", engine.dictionary_bytes),
        ("segments", engine.segments),
        ("segment_bytes", engine.segment_bytes),
        ("shards", engine.shards),
        ("small_queue_percent", engine.small_queue_percent),
    ] {
        stat(out, name, value);
    }
}

/// stats settings
pub(super) fn settings(context: Context<'_>, out: &mut Vec<u8>) {
    let settings = context.state.settings_in_effect();
    stat(out, "maxbytes", settings.memory_bytes);
    stat(out, "maxconns", settings.max_connections);
    stat(out, "udpport", 0);
    stat(out, "inter", "NULL");
    stat(out, "verbosity", 0);
    stat(out, "oldest", 0);
    stat(out, "evictions", "on");
    let socket = settings.memcached_socket();
    let socket = socket.map_or("NULL".into(), |path| path.to_string_lossy());
    stat(out, "domain_socket", socket);
    stat(out, "shutdown_command", "no");
    stat(out, "num_threads", settings.threads);
    stat(out, "num_threads_per_udp", 0);
    stat(out, "stat_key_prefix", ":");
    stat(out, "detail_enabled", "no");
    stat(out, "cas_enabled", "yes");
    stat(out, "binding_protocol", "auto-negotiate");
    let has_users = context.state.access.users.is_some();
    stat(
        out,
        "auth_enabled_sasl",
        if has_users { "yes" } else { "no" },
    );
    stat(out, "auth_enabled_ascii", "no");
    stat(out, "item_size_max", context.memcached_value_bytes_max());
    stat(out, "maxconns_fast", "yes");
    stat(out, "slab_reassign", "no");
    stat(out, "slab_automove", 0);
    stat(out, "lru_crawler", "no");
    stat(out, "flush_enabled", "yes");
    stat(out, "dump_enabled", "yes");
    stat(out, "hash_algorithm", "rapidhash");
    stat(out, "lru_maintainer_thread", "no");
    stat(out, "lru_segmented", "no");
    stat(out, "idle_timeout", settings.idle_timeout_s);
    stat(out, "track_sizes", "no");
    stat(out, "inline_ascii_response", "no");
    stat(out, "client_flags_size", size_of::<u32>());
    stat(out, "lease_ms", settings.lease_ms);
    let parameters = &context.state.parameters;
    stat(out, "default_ttl", parameters.value("default-ttl"));
    let databases = parameters.value("noeviction-databases");
    stat(out, "keep", &databases);
    stat(out, "noeviction_databases", databases);
}
