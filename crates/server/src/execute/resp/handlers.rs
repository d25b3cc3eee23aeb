//! Handlers: which function runs a command.

use cellar_protocol::resp::Verb;

use super::call::{Call, Outcome};
use super::{connection, strings, transaction};

/// What runs one command.
pub(super) type Handler = fn(&mut Call<'_>) -> Outcome;

/// The function that runs a command.
pub(super) fn handler(verb: Verb) -> Handler {
    match verb {
        Verb::Get => strings::get,
        Verb::Set => strings::set,
        Verb::Multi => transaction::multi,
        Verb::Exec => transaction::exec,
        Verb::Discard => transaction::discard,
        Verb::Ping => connection::ping,
        Verb::Echo => connection::echo,
        Verb::Select => connection::select,
        Verb::Hello => connection::hello,
        Verb::Auth => connection::auth,
        Verb::Quit => connection::quit,
        Verb::Reset => connection::reset,
        _ => not_yet,
    }
}

fn not_yet(call: &mut Call<'_>) -> Outcome {
    Err(super::unknown(call.args))
}
