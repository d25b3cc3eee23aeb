//! Handlers: which function runs a command, by the group it belongs to.

use super::call::{Call, Outcome};

/// What runs one command.
pub(super) type Handler = fn(&mut Call<'_>) -> Outcome;

/// Answers a command that the table knows and nobody runs.
pub(super) fn unknown(call: &mut Call<'_>) -> Outcome {
    Err(super::unknown(call.args))
}
