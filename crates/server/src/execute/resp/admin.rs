//! Administration: what operators and client libraries ask a server.

use cellar_protocol::resp::Verb;

use super::flush;
use super::handlers::{Handler, unknown};

/// The function that runs a command of this group.
pub(super) fn handler(verb: Verb) -> Handler {
    match verb {
        Verb::Flushall => flush::flushall,
        Verb::Swapdb => flush::swapdb,
        _ => unknown,
    }
}
