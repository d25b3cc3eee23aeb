//! Claims: whose turn it is, among many processes, to make a missing value.
//!
//! An origin with leases (Cellar, memcached) lets one of the clients that claim a key make its
//! value and tells the others to wait. One without leases lets every client make it that finds
//! none.

use std::time::Duration;

use super::{Answer, Loaded};

/// The options of a request by a client that can make the value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ClaimOptions {
    /// After this time the origin lets another client make it.
    pub lease_timeout: Duration,
    /// Less time than this left is as good as no value, for the one whose turn it is.
    pub early: Option<Duration>,
}

impl ClaimOptions {
    /// A claim that lasts for so long, of a key without a value.
    #[must_use]
    pub fn new(lease_timeout: Duration) -> ClaimOptions {
        ClaimOptions {
            lease_timeout,
            early: None,
        }
    }

    /// The same, also of a value that has less time left than this.
    #[must_use]
    pub fn early(mut self, early: Option<Duration>) -> ClaimOptions {
        self.early = early;
        self
    }
}

/// Whose turn it is to make a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No client's: a value exists that is valid for a while.
    Nobody,
    /// The asker's. The number is the lease, at an origin that has leases.
    Ours(Option<u64>),
    /// Another client's, in this or another process.
    Theirs,
}

/// The answer to a claim.
#[derive(Clone, Debug)]
pub struct Claimed<V> {
    /// The value that the origin has.
    pub loaded: Loaded<V>,
    /// Which client is to make a missing value.
    pub turn: Turn,
}

impl<V> Claimed<V> {
    /// The answer of an origin without leases: the client makes a value that is missing or about to
    /// expire.
    #[must_use]
    pub fn without_leases(loaded: Loaded<V>, options: ClaimOptions) -> Claimed<V> {
        let is_early = |early| loaded.ttl.is_some_and(|ttl| ttl <= early);
        let turn = match loaded.answer {
            Answer::Absent => Turn::Ours(None),
            _ if options.early.is_some_and(is_early) => Turn::Ours(None),
            _ => Turn::Nobody,
        };
        Claimed { loaded, turn }
    }
}
