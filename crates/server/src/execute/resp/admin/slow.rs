//! SLOWLOG: which commands took long ([`crate::slow_log`]).

use cellar_protocol::resp::number::parse_integer;

use crate::execute::resp::call::{Call, DONE, Outcome};
use crate::execute::resp::failure::Failure;

/// Entries of SLOWLOG GET if no number is given.
const ENTRIES: usize = 10;

/// SLOWLOG GET
pub(in crate::execute::resp) fn get(call: &mut Call<'_>) -> Outcome {
    let count = match call.args {
        [_, _] => ENTRIES,
        [_, _, count] => match parse_integer(count) {
            Some(-1) => usize::MAX,
            Some(count @ 0..) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => {
                return Err(Failure::text(
                    "ERR count should be greater than or equal to -1",
                ));
            }
        },
        _ => {
            let word = String::from_utf8_lossy(call.args[1]);
            let text = format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try SLOWLOG \
                 HELP."
            );
            return Err(Failure::Text(text.into()));
        }
    };
    let entries = call.context.state.slow_log.newest(count);
    let mut reply = call.reply();
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.integer(entry.id);
        reply.integer(i64::try_from(entry.unix_s).unwrap_or(i64::MAX));
        reply.integer(i64::try_from(entry.us).unwrap_or(i64::MAX));
        reply.array(entry.args.len());
        for arg in &entry.args {
            reply.bulk(arg);
        }
        reply.bulk(&entry.peer);
        reply.bulk(&entry.name);
    }
    DONE
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
