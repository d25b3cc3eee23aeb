//! Handlers: which function runs a command, by the group it belongs to.

use super::call::{Call, DONE, Outcome};

/// What runs one command.
pub(super) type Handler = fn(&mut Call<'_>) -> Outcome;

/// Answers a command that the table knows and nobody runs.
pub(super) fn unknown(call: &mut Call<'_>) -> Outcome {
    Err(super::unknown(call.args))
}

/// Answers lines of help.
pub(super) fn write_help(call: &mut Call<'_>, lines: &[&str]) -> Outcome {
    let mut reply = call.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
    DONE
}
