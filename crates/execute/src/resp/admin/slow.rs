//! SLOWLOG and COMMANDLOG: which commands took long or were large
//! ([`cellar_shared::observe::command_log`]).
//!
//! Tests: server/tests/resp_admin.rs, server/tests/resp_command_log.rs.

use cellar_protocol::resp::Reply;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::observe::command_log::{CommandLog, LogKind, LoggedCommand};

use crate::resp::call::steps::{Progress, STEP_BYTES};
use crate::resp::call::{Call, Outcome};
use crate::resp::failure::Failure;

/// Entries of SLOWLOG GET if no number is given.
const ENTRIES: usize = 10;

/// SLOWLOG GET
pub(in crate::resp) fn get(call: &mut Call<'_>) -> Outcome {
    let count = match call.args {
        [_, _] => ENTRIES,
        [_, _, count] => count_of(count)?,
        _ => {
            let word = String::from_utf8_lossy(call.args[1]);
            let text = format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try SLOWLOG \
                 HELP."
            );
            return Err(Failure::Text(text.into()));
        }
    };
    list(call, LogKind::Slow, count)
}

/// COMMANDLOG GET
pub(in crate::resp) fn get_typed(call: &mut Call<'_>) -> Outcome {
    let kind = kind_of(call.args[3])?;
    let count = count_of(call.args[2])?;
    list(call, kind, count)
}

/// How many entries are asked for.
fn count_of(text: &[u8]) -> Result<usize, Failure> {
    match parse_integer(text) {
        Some(-1) => Ok(usize::MAX),
        Some(count @ 0..) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(Failure::text(
            "ERR count should be greater than or equal to -1",
        )),
    }
}

/// The log of this name.
fn kind_of(name: &[u8]) -> Result<LogKind, Failure> {
    let named = [
        (&b"slow"[..], LogKind::Slow),
        (b"large-request", LogKind::LargeRequest),
        (b"large-reply", LogKind::LargeReply),
    ];
    let found = named
        .iter()
        .find(|(other, _)| name.eq_ignore_ascii_case(other));
    found.map(|(_, kind)| *kind).ok_or(Failure::text(
        "ERR type should be one of the following: slow, large-request, large-reply",
    ))
}

fn log<'c>(call: &Call<'c>, kind: LogKind) -> &'c CommandLog {
    call.context.state.records.command_logs.of(kind)
}

/// Answers the newest entries.
fn list(call: &mut Call<'_>, kind: LogKind, count: usize) -> Outcome {
    let entries = log(call, kind).newest(count);
    let proto = call.session.proto;
    call.reply().array(entries.len());
    let mut entries = entries.into_iter();
    call.in_steps(move |_, output| {
        let full = output.bytes().len() + STEP_BYTES;
        for entry in entries.by_ref() {
            write(&mut Reply::new(output.bytes(), proto), &entry);
            if output.bytes().len() >= full {
                return Progress::More;
            }
        }
        Progress::Last
    })
}

fn write(reply: &mut Reply<'_>, entry: &LoggedCommand) {
    reply.array(6);
    reply.integer(entry.id);
    reply.integer(i64::try_from(entry.unix_s).unwrap_or(i64::MAX));
    reply.integer(i64::try_from(entry.amount).unwrap_or(i64::MAX));
    reply.array(entry.args.len());
    entry.args.iter().for_each(|arg| reply.bulk(arg));
    reply.bulk(&entry.peer);
    reply.bulk(&entry.name);
}

/// SLOWLOG LEN
pub(in crate::resp) fn len(call: &mut Call<'_>) -> Outcome {
    count(call, LogKind::Slow)
}

/// SLOWLOG RESET
pub(in crate::resp) fn reset(call: &mut Call<'_>) -> Outcome {
    clear(call, LogKind::Slow)
}

/// COMMANDLOG LEN
pub(in crate::resp) fn len_typed(call: &mut Call<'_>) -> Outcome {
    let kind = kind_of(call.args[2])?;
    count(call, kind)
}

/// COMMANDLOG RESET
pub(in crate::resp) fn reset_typed(call: &mut Call<'_>) -> Outcome {
    let kind = kind_of(call.args[2])?;
    clear(call, kind)
}

fn count(call: &mut Call<'_>, kind: LogKind) -> Outcome {
    let count = log(call, kind).len();
    call.integer(i64::try_from(count).unwrap_or(i64::MAX))
}

fn clear(call: &mut Call<'_>, kind: LogKind) -> Outcome {
    log(call, kind).clear();
    call.ok()
}
