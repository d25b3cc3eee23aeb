//! MEMORY: what memory is used for.

use std::fmt::Write as _;

use cellar_protocol::resp::Reply;
use cellar_protocol::resp::number::parse_integer;
use cellar_system::process;

use super::used_bytes;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

/// MEMORY DOCTOR
pub(in crate::resp) fn doctor(call: &mut Call<'_>) -> Outcome {
    let engine = call.cache().stats();
    let (used, _) = used_bytes(call, &engine);
    let share = |bytes: u64| as_f64(bytes) * 100.0 / as_f64(used.max(1));
    let mut text = if engine.evicted > 0 {
        format!(
            "{} items have been evicted so far. INFO and memcached's `stats mrc` tell what more \
             memory would buy.\n",
            engine.evicted
        )
    } else {
        "No item has been evicted so far.\n".to_owned()
    };
    let (reclaimable, overdue) = (engine.dead_bytes, engine.overdue_bytes);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{reclaimable} bytes ({:.1} % of the used memory) are reclaimable: of expired, deleted or \
         overwritten items. Of these, {overdue} bytes ({:.1} %) are of expired items.",
        share(reclaimable),
        share(overdue)
    );
    call.reply().verbatim(&text);
    DONE
}

/// MEMORY PURGE: background maintenance reclaims memory and returns it to the system, beside
/// requests, for the next ten seconds; `--release-memory` does so permanently.
pub(in crate::resp) fn purge(call: &mut Call<'_>) -> Outcome {
    call.cache().purge();
    call.ok()
}

/// MEMORY USAGE: header, key, value and bookkeeping in the item; its entry in the index is not
/// counted.
pub(in crate::resp) fn usage(call: &mut Call<'_>) -> Outcome {
    for option in call.args[3..].chunks(2) {
        let [name, samples] = option else {
            return Err(Failure::Syntax);
        };
        if !name.eq_ignore_ascii_case(b"SAMPLES") {
            return Err(Failure::Syntax);
        }
        let samples = parse_integer(samples).ok_or(Failure::NotInteger)?;
        if samples < 0 {
            return Err(Failure::Syntax);
        }
    }
    let key = call.key_at(2)?;
    let bytes = call.cache().facts(key, |facts| facts.stored_bytes);
    match bytes {
        Some(bytes) => call.integer(i64::try_from(bytes).unwrap_or(i64::MAX)),
        None => {
            call.reply().null();
            DONE
        }
    }
}

/// A value of MEMORY STATS.
enum Figure {
    Bytes(u64),
    Share(f64),
}

/// MEMORY STATS
pub(in crate::resp) fn stats(call: &mut Call<'_>) -> Outcome {
    let engine = call.cache().stats();
    let (used, peak) = used_bytes(call, &engine);
    let resident = process::resident_bytes().unwrap_or(used);
    let overhead = engine.index_bytes + engine.overhead_bytes;
    let active = used + engine.free_bytes;
    let (bytes, share) = (Figure::Bytes, |part: u64, whole: u64| {
        Figure::Share(as_f64(part) / as_f64(whole.max(1)))
    });
    let percent =
        |part: u64, whole: u64| Figure::Share(as_f64(part) * 100.0 / as_f64(whole.max(1)));
    let figures = [
        ("peak.allocated", bytes(peak.bytes)),
        ("total.allocated", bytes(used)),
        ("startup.allocated", bytes(0)),
        ("replication.backlog", bytes(0)),
        ("clients.slaves", bytes(0)),
        ("clients.normal", bytes(0)),
        ("cluster.links", bytes(0)),
        ("aof.buffer", bytes(0)),
        ("lua.caches", bytes(0)),
        ("functions.caches", bytes(0)),
        ("overhead.total", bytes(overhead)),
        ("keys.count", bytes(engine.items)),
        (
            "keys.bytes-per-key",
            bytes(engine.live_bytes / engine.items.max(1)),
        ),
        ("dataset.bytes", bytes(engine.live_bytes)),
        ("dataset.percentage", percent(engine.live_bytes, used)),
        ("peak.percentage", percent(used, peak.bytes)),
        ("reclaimable.bytes", bytes(engine.dead_bytes)),
        ("overdue.bytes", bytes(engine.overdue_bytes)),
        ("allocator.allocated", bytes(used)),
        ("allocator.active", bytes(active)),
        ("allocator.resident", bytes(resident)),
        ("allocator-fragmentation.ratio", share(active, used)),
        ("allocator-fragmentation.bytes", bytes(engine.free_bytes)),
        // `allocator.resident` is the whole process, so the overhead is zero.
        ("allocator-rss.ratio", share(resident, active)),
        (
            "allocator-rss.bytes",
            bytes(resident.saturating_sub(active)),
        ),
        ("rss-overhead.ratio", share(resident, resident)),
        ("rss-overhead.bytes", bytes(0)),
        ("fragmentation", share(resident, used)),
        ("fragmentation.bytes", bytes(resident.saturating_sub(used))),
    ];
    write(&mut call.reply(), &figures);
    DONE
}

fn write(reply: &mut Reply<'_>, figures: &[(&str, Figure)]) {
    reply.map(figures.len());
    for (name, figure) in figures {
        reply.bulk(name);
        match figure {
            Figure::Bytes(bytes) => reply.integer(i64::try_from(*bytes).unwrap_or(i64::MAX)),
            Figure::Share(share) => reply.double(*share),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio to look at")]
fn as_f64(number: u64) -> f64 {
    number as f64
}
