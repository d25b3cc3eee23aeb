//! Versions: how an origin is asked whether a value is still the one that is known.

/// The version of a value, as a question may name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The origin's number.
    pub number: u64,
    /// The connection on which it was reported: a restarted server counts from the start.
    pub connection: u64,
}
