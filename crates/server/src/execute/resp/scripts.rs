//! Scripts: Lua programs that run as one step.

use cellar_protocol::resp::Verb;

use super::call::{Call, Outcome};
use super::handlers::{Handler, unknown};

/// The function that runs a command of this group.
pub(super) fn handler(verb: Verb) -> Handler {
    match verb {
        Verb::FunctionFlush => flush_functions,
        _ => unknown,
    }
}

/// FUNCTION FLUSH: there is none to remove.
fn flush_functions(call: &mut Call<'_>) -> Outcome {
    call.ok()
}
