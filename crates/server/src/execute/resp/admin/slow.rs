//! SLOWLOG and COMMANDLOG: which commands took long ([`crate::command_log`]).
//!
//! Of COMMANDLOG's three logs there is the one of slow commands alone.

use cellar_protocol::resp::Reply;
use cellar_protocol::resp::number::parse_integer;

use crate::command_log::LoggedCommand;
use crate::execute::resp::call::steps::{Progress, STEP_BYTES};
use crate::execute::resp::call::{Call, Outcome};
use crate::execute::resp::failure::Failure;

/// Entries of SLOWLOG GET if no number is given.
const ENTRIES: usize = 10;

/// SLOWLOG GET
pub(in crate::execute::resp) fn get(call: &mut Call<'_>) -> Outcome {
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
    list(call, count)
}

/// COMMANDLOG GET
pub(in crate::execute::resp) fn get_typed(call: &mut Call<'_>) -> Outcome {
    check_type(call.args[3])?;
    let count = count_of(call.args[2])?;
    list(call, count)
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

/// Whether a log of COMMANDLOG is the one that there is.
fn check_type(name: &[u8]) -> Result<(), Failure> {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    if is(b"slow") {
        Ok(())
    } else if is(b"large-request") || is(b"large-reply") {
        Err(Failure::text(
            "ERR large requests and replies are not logged here, only slow commands",
        ))
    } else {
        Err(Failure::text(
            "ERR type should be one of the following: slow, large-request, large-reply",
        ))
    }
}

/// Answers the newest entries.
fn list(call: &mut Call<'_>, count: usize) -> Outcome {
    let entries = call.context.state.slow_log.newest(count);
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
    reply.integer(i64::try_from(entry.us).unwrap_or(i64::MAX));
    reply.array(entry.args.len());
    entry.args.iter().for_each(|arg| reply.bulk(arg));
    reply.bulk(&entry.peer);
    reply.bulk(&entry.name);
}

/// SLOWLOG LEN
pub(in crate::execute::resp) fn len(call: &mut Call<'_>) -> Outcome {
    let count = call.context.state.slow_log.len();
    call.integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// SLOWLOG RESET
pub(in crate::execute::resp) fn reset(call: &mut Call<'_>) -> Outcome {
    call.context.state.slow_log.clear();
    call.ok()
}

/// COMMANDLOG LEN
pub(in crate::execute::resp) fn len_typed(call: &mut Call<'_>) -> Outcome {
    check_type(call.args[2])?;
    len(call)
}

/// COMMANDLOG RESET
pub(in crate::execute::resp) fn reset_typed(call: &mut Call<'_>) -> Outcome {
    check_type(call.args[2])?;
    reset(call)
}
