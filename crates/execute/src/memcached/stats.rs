//! Statistics, with the names that monitoring of memcached reads.
//!
//! There are no slabs here; `stats items` and `stats slabs` show all items as one class, 1, because
//! tools expect to find at least one.

mod general;
mod insights;

use std::sync::Arc;

use cellar_engine::ReclaimLag;
use cellar_net::output::Output;
use cellar_protocol::memcached::{Stats, reply};
use cellar_shared::auth::users::User;
use cellar_shared::observe::counters::Totals;

use super::list::CLASS;
use crate::context::Context;

/// Width of the classes that `stats sizes` speaks of, and the size of a slab page, in bytes.
const PAGE_BYTES: u64 = 1 << 20;

/// Counts since the last reset, and the current state.
struct Figures {
    totals: Totals,
    engine: cellar_engine::Stats,
}

impl Figures {
    fn of(context: Context<'_>) -> Figures {
        let state = context.state;
        let zero = state.statistics.zero().clone();
        let totals = state.statistics.totals();
        let mut engine = state.cache.stats();
        for (count, zero) in [
            (&mut engine.items_total, zero.engine.items_total),
            (&mut engine.evicted, zero.engine.evicted),
            (&mut engine.evicted_unfetched, zero.engine.evicted_unfetched),
            (&mut engine.expired, zero.engine.expired),
            (&mut engine.expired_unfetched, zero.engine.expired_unfetched),
            (&mut engine.misses_expired, zero.engine.misses_expired),
            (&mut engine.misses_flushed, zero.engine.misses_flushed),
            (&mut engine.misses, zero.engine.misses),
            (
                &mut engine.missed_never_stored,
                zero.engine.missed_never_stored,
            ),
            (&mut engine.missed_expired, zero.engine.missed_expired),
            (&mut engine.missed_evicted, zero.engine.missed_evicted),
            (&mut engine.missed_deleted, zero.engine.missed_deleted),
        ] {
            *count = count.saturating_sub(zero);
        }
        Figures {
            totals: totals.since(&zero.totals),
            engine,
        }
    }
}

/// stats; lists only the keys that the user, if any, may read.
pub(super) fn show(
    group: Stats,
    user: Option<&Arc<User>>,
    context: Context<'_>,
    output: &mut Output,
) {
    let out = output.bytes();
    append(group, user, context, out);
    out.extend_from_slice(match group {
        Stats::Reset => reply::line::RESET,
        _ => reply::line::END,
    });
}

/// The lines of stats, without the last.
pub(super) fn append(
    group: Stats,
    user: Option<&Arc<User>>,
    context: Context<'_>,
    out: &mut Vec<u8>,
) {
    match group {
        Stats::General => general::show(&Figures::of(context), context, out),
        Stats::Settings => general::settings(context, out),
        Stats::Items => items(&Figures::of(context), out),
        Stats::Slabs => slabs(&Figures::of(context), out),
        Stats::Expiry => expiry(context, out),
        // Not counted unless a flag asks for it there, and never here.
        Stats::Sizes => reply::stat(out, "sizes_status", "disabled"),
        Stats::MissRatioCurve => insights::curve(context, out),
        Stats::Misses => insights::misses(&Figures::of(context), out),
        Stats::HotKeys => insights::hot_keys(user, context, out),
        Stats::Compression => insights::compression(user, context, out),
        // Keys are listed in pieces, see list.rs.
        Stats::Connections | Stats::Empty | Stats::CacheDump { .. } => {}
        Stats::Reset => context.state.reset_stats(),
    }
}

/// stats items
fn items(figures: &Figures, out: &mut Vec<u8>) {
    let Figures { totals, engine } = figures;
    let mut stat = |name: &str, value: u64| {
        reply::stat(out, &format!("items:{CLASS}:{name}"), value);
    };
    stat("number", engine.items);
    for name in ["number_hot", "number_warm"] {
        stat(name, 0);
    }
    stat("number_cold", engine.items);
    for name in ["age_hot", "age_warm", "age"] {
        stat(name, 0);
    }
    stat("mem_requested", engine.live_bytes);
    stat("evicted", engine.evicted);
    stat("evicted_nonzero", 0);
    stat("evicted_time", 0);
    stat("outofmemory", totals.store_no_memory);
    stat("tailrepairs", 0);
    stat("reclaimed", engine.expired);
    stat("expired_unfetched", engine.expired_unfetched);
    stat("evicted_unfetched", engine.evicted_unfetched);
    stat("evicted_active", 0);
    for name in [
        "crawler_reclaimed",
        "crawler_items_checked",
        "lrutail_reflocked",
        "moves_to_cold",
        "moves_to_warm",
        "moves_within_lru",
        "direct_reclaims",
        "hits_to_hot",
        "hits_to_warm",
    ] {
        stat(name, 0);
    }
    stat("hits_to_cold", totals.get_hits);
    stat("hits_to_temp", 0);
}

/// stats slabs: the memory in pages of 1 MiB, with chunks of an item's mean size.
fn slabs(figures: &Figures, out: &mut Vec<u8>) {
    let Figures { totals, engine } = figures;
    let chunk_bytes = engine
        .live_bytes
        .checked_div(engine.items)
        .unwrap_or(0)
        .max(1);
    let held = engine.live_bytes + engine.dead_bytes + engine.free_bytes;
    let free_chunks = (held - engine.live_bytes) / chunk_bytes;
    let mut stat = |name: &str, value: u64| reply::stat(out, &format!("{CLASS}:{name}"), value);
    stat("chunk_size", chunk_bytes);
    stat("chunks_per_page", (PAGE_BYTES / chunk_bytes).max(1));
    stat("total_pages", held.div_ceil(PAGE_BYTES).max(1));
    stat("total_chunks", engine.items + free_chunks);
    stat("used_chunks", engine.items);
    stat("free_chunks", free_chunks);
    stat("free_chunks_end", 0);
    stat("get_hits", totals.get_hits);
    stat("cmd_set", totals.cmd_set);
    stat("delete_hits", totals.delete_hits);
    stat("incr_hits", totals.incr_hits);
    stat("decr_hits", totals.decr_hits);
    stat("cas_hits", totals.cas_hits);
    stat("cas_badval", totals.cas_badval);
    stat("touch_hits", totals.touch_hits);
    reply::stat(out, "active_slabs", 1);
    reply::stat(
        out,
        "total_malloced",
        held + engine.index_bytes + engine.overhead_bytes,
    );
}

/// stats expiry: memory by state now, and for how long expired items held theirs, since start.
fn expiry(context: Context<'_>, out: &mut Vec<u8>) {
    let stats = context.cache().stats();
    for (name, value) in [
        ("live_bytes", stats.live_bytes),
        ("dead_bytes", stats.dead_bytes),
        ("free_bytes", stats.free_bytes),
        ("dead_at_eviction_max_ppm", stats.dead_at_eviction_max_ppm),
        ("expired", stats.expired),
    ] {
        reply::stat(out, name, value);
    }
    let lag = context.cache().reclaim_lag();
    for (bin, items) in lag.items.into_iter().enumerate() {
        let name = ReclaimLag::below_ms(bin).map_or_else(
            || "reclaim_lag_ms:longer".to_owned(),
            |below_ms| format!("reclaim_lag_ms:below_{below_ms}"),
        );
        reply::stat(out, &name, items);
    }
}
