//! Administration: what operators and client libraries ask a server.
//!
//! Source: redis.io/docs/latest/commands, group "server"; the replies of redis-server 7.
//! Tests: server/tests/resp_admin.rs, foreign-clients/.

pub(super) mod info;
pub(super) mod config;
pub(super) mod acl;
pub(super) mod cluster;
mod key_flags; // what commands do with their keys
mod arguments; // what COMMAND DOCS says of arguments
mod tips; // how a cluster's client sends a command
pub(super) mod commands;
pub(super) mod memory;
pub(super) mod slow;
pub(super) mod hot_keys; // HOTKEYS: which keys cost most
pub(super) mod unsupported; // modules and replication, which do not exist here
pub(super) mod latency;
pub(super) mod debug;

pub(super) use self::debug::NOT_ALLOWED as DEBUG_NOT_ALLOWED;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;

use cellar_config::parameters::REDIS_VERSION;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::observe::statistics::PeakMemory;

use crate::context::Flow;

/// TIME
pub(super) fn time(call: &mut Call<'_>) -> Outcome {
    let now_us = call.context.state.wall.unix_us(call.now());
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk((now_us / 1_000_000).to_string());
    reply.bulk((now_us % 1_000_000).to_string());
    DONE
}

/// LASTSAVE: nothing is saved, so it is the start.
pub(super) fn last_save(call: &mut Call<'_>) -> Outcome {
    let start = call.context.state.start_unix_s();
    call.integer(i64::try_from(start).unwrap_or(i64::MAX))
}

/// ROLE
pub(super) fn role(call: &mut Call<'_>) -> Outcome {
    let mut reply = call.reply();
    reply.array(3);
    reply.bulk("master");
    reply.integer(0);
    reply.array(0);
    DONE
}

/// LOLWUT: in Redis, VERSION and the arguments behind it choose a picture.
pub(super) fn lolwut(call: &mut Call<'_>) -> Outcome {
    if let [_, word, number, ..] = call.args
        && word.eq_ignore_ascii_case(b"VERSION")
    {
        parse_integer(number).ok_or(Failure::NotInteger)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let text = format!("Cellar ver. {version}, compatible with Redis ver. {REDIS_VERSION}\n");
    call.reply().verbatim(&text);
    DONE
}

/// MONITOR
pub(super) fn monitor(call: &mut Call<'_>) -> Outcome {
    if call.session.answers_whole {
        return Err(Failure::text(
            "ERR MONITOR isn't allowed for DENY BLOCKING client",
        ));
    }
    let state = call.context.state;
    if !state.monitors.add(&call.session.client) {
        return Err(Failure::text("ERR too many clients monitor already"));
    }
    call.session.monitors = true;
    call.session.client.note_monitor(true);
    state.choose_calls();
    call.ok()
}

/// SHUTDOWN: what has been received is still answered, as after SIGTERM.
pub(super) fn shutdown(call: &mut Call<'_>) -> Outcome {
    let is_one_of = |word: &[u8], words: &[&str]| {
        let mut words = words.iter();
        words.any(|other| word.eq_ignore_ascii_case(other.as_bytes()))
    };
    match &call.args[1..] {
        [abort] if is_one_of(abort, &["ABORT"]) => {
            return Err(Failure::text("ERR No shutdown in progress."));
        }
        options
            if options
                .iter()
                .all(|word| is_one_of(word, &["NOSAVE", "SAVE", "NOW", "FORCE"])) => {}
        _ => return Err(Failure::Syntax),
    }
    tracing::info!(
        client = call.session.client.seat.peer,
        "a client shuts down the server"
    );
    call.session.client.stop_server();
    Ok(Flow::Close)
}

/// Bytes used by items and bookkeeping, and the highest value of all queries so far.
fn used_bytes(call: &Call<'_>, engine: &cellar_engine::Stats) -> (u64, PeakMemory) {
    let items = engine.live_bytes + engine.dead_bytes;
    let used = items + engine.index_bytes + engine.overhead_bytes;
    let unix_s = || call.unix_ms(call.now()) / 1_000;
    let statistics = &call.context.state.statistics;
    (used, statistics.note_used_bytes(used, unix_s))
}
