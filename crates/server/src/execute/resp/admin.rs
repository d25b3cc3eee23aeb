//! Administration: what operators and client libraries ask a server.
//!
//! Source: redis.io/docs/latest/commands, group "server"; the replies of redis-server 7.
//! Tests: tests/resp_admin.rs, clients/.

mod info;
mod config;
mod acl;
mod commands;
mod memory;
mod slow;
mod debug;

use std::sync::atomic::Ordering;

use cellar_protocol::resp::Verb;

pub(super) use self::debug::NOT_ALLOWED as DEBUG_NOT_ALLOWED;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::flush;
use super::handlers::{Handler, unknown};
use crate::execute::context::Flow;

/// The function that runs a command of this group.
pub(super) fn handler(verb: Verb) -> Handler {
    match verb {
        Verb::Dbsize => flush::dbsize,
        Verb::Flushall => flush::flushall,
        Verb::Flushdb => flush::flushdb,
        Verb::Swapdb => flush::swapdb,
        Verb::Info => info::info,
        Verb::ConfigGet => config::get,
        Verb::ConfigSet => config::set,
        Verb::ConfigResetstat => config::reset,
        Verb::ConfigRewrite => config::rewrite,
        Verb::Command | Verb::CommandInfo => commands::info,
        Verb::CommandCount => commands::count,
        Verb::CommandDocs => commands::docs,
        Verb::CommandList => commands::list,
        Verb::CommandGetkeys => commands::keys,
        Verb::CommandGetkeysandflags => commands::keys_and_flags,
        Verb::MemoryDoctor => memory::doctor,
        Verb::MemoryPurge => memory::purge,
        Verb::MemoryStats => memory::stats,
        Verb::MemoryUsage => memory::usage,
        Verb::SlowlogGet => slow::get,
        Verb::SlowlogLen => slow::len,
        Verb::SlowlogReset => slow::reset,
        Verb::LatencyDoctor => slow::doctor,
        Verb::LatencyHistogram => slow::histogram,
        Verb::LatencyHistory | Verb::LatencyLatest => slow::no_events,
        Verb::LatencyReset => slow::reset_events,
        Verb::AclCat => acl::categories,
        Verb::AclList => acl::list,
        Verb::AclWhoami => acl::who_am_i,
        Verb::Debug => debug::debug,
        Verb::Time => time,
        Verb::Lastsave => last_save,
        Verb::Role => role,
        Verb::Shutdown => shutdown,
        Verb::ClusterInfo
        | Verb::ClusterKeyslot
        | Verb::ClusterMyid
        | Verb::ClusterNodes
        | Verb::ClusterShards
        | Verb::ClusterSlots
        | Verb::ClusterHelp => no_cluster,
        _ => unknown,
    }
}

/// TIME
fn time(call: &mut Call<'_>) -> Outcome {
    let now_us = call.context.state.wall.unix_us(call.now());
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk((now_us / 1_000_000).to_string());
    reply.bulk((now_us % 1_000_000).to_string());
    DONE
}

/// LASTSAVE: nothing is saved, so it is the start.
fn last_save(call: &mut Call<'_>) -> Outcome {
    let start = call.context.state.start_unix_s();
    call.integer(i64::try_from(start).unwrap_or(i64::MAX))
}

/// ROLE
fn role(call: &mut Call<'_>) -> Outcome {
    let mut reply = call.reply();
    reply.array(3);
    reply.bulk("master");
    reply.integer(0);
    reply.array(0);
    DONE
}

/// SHUTDOWN: what has been received is still answered, as after SIGTERM.
fn shutdown(call: &mut Call<'_>) -> Outcome {
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
        "a client stops the server"
    );
    call.session.client.stop_server();
    Ok(Flow::Close)
}

fn no_cluster(_call: &mut Call<'_>) -> Outcome {
    Err(Failure::text(
        "ERR This instance has cluster support disabled",
    ))
}

/// Bytes that items and bookkeeping take, and the most they took when somebody asked.
fn used_bytes(call: &Call<'_>, engine: &cellar_engine::Stats) -> (u64, u64) {
    let items = engine.live_bytes + engine.dead_bytes;
    let used = items + engine.index_bytes + engine.overhead_bytes;
    let peak = &call.context.state.used_bytes_peak;
    // Relaxed: a figure to look at.
    let before = peak.fetch_max(used, Ordering::Relaxed);
    (used, before.max(used))
}
