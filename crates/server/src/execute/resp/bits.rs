//! Bits: GETBIT and SETBIT on strings.

use cellar_protocol::resp::Verb;

use super::handlers::{Handler, unknown};

/// The function that runs a command of this group.
pub(super) fn handler(_verb: Verb) -> Handler {
    unknown
}
