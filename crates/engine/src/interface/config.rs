//! Config: how a cache is made.

use std::sync::Arc;

use crate::base::clock::{Clock, SystemClock};
use crate::interface::observer::Observer;
use crate::state::StateOptions;

/// How a cache is made.
#[derive(Clone)]
pub struct Config {
    /// Memory for items, index and all bookkeeping together, in bytes.
    pub memory_bytes: usize,
    /// Memory by which it is divided into shards and segments, if another than `memory_bytes`: that
    /// of the cache whose memory this one restores.
    pub shape_bytes: Option<usize>,
    /// Threads that will use the cache at the same time; decides the number of shards.
    pub threads: usize,
    /// Longest value in bytes; at most 512 MiB.
    pub value_bytes_max: usize,
    /// How long a lease blocks others before the next caller may win it, in milliseconds.
    pub lease_ms: u64,
    /// Number of shards, a power of two; `None` chooses by threads and memory.
    pub shards: Option<usize>,
    /// Shares of `memory_bytes` that are spaces' own ([`Space::kept`](crate::Space::kept)), in
    /// bytes: nothing in them is evicted, and a store without enough free space is refused.
    pub keep: Vec<usize>,
    /// Seed of the key hash; `None` draws a random one.
    pub seed: Option<u64>,
    /// Whether memory without live items goes back to the system within a second: background
    /// maintenance then compacts segments with reclaimable bytes even when no memory is needed.
    /// Otherwise memory that was not needed for ten seconds goes back, one segment every two
    /// milliseconds.
    pub release_memory: bool,
    /// How hard background maintenance looks for expired items while their memory is not needed, 1
    /// to [`Config::EXPIRE_EFFORT_MAX`]: with 1 at most 3 % of the stored bytes are overdue, with
    /// more about so many times less, at the cost of more copies of live items beside them
    /// (docs/decisions/0034).
    pub expire_effort: u8,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Receives every change of an item, whichever code path makes it.
    pub observer: Option<Arc<dyn Observer>>,
    /// Where its memory outlives the process; `None` if it does not.
    pub state: Option<StateOptions>,
}

impl Config {
    /// Longest value any cache takes, in bytes.
    pub const VALUE_BYTES_LIMIT: usize = 512 << 20;
    /// Least memory of a share of [`Config::keep`], in bytes.
    pub const KEEP_BYTES_MIN: usize = 1 << 20;
    /// Most of [`Config::expire_effort`].
    pub const EXPIRE_EFFORT_MAX: u8 = 10;

    /// Bytes of all shares that are spaces' own.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.keep
            .iter()
            .fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// A cache of `memory_bytes` with the defaults: one thread, values to 1 MiB, leases of 30 s.
    #[must_use]
    pub fn with_memory(memory_bytes: usize) -> Config {
        Config {
            memory_bytes,
            shape_bytes: None,
            threads: 1,
            value_bytes_max: 1 << 20,
            lease_ms: 30_000,
            shards: None,
            keep: Vec::new(),
            seed: None,
            release_memory: false,
            expire_effort: 1,
            clock: Arc::new(SystemClock::new()),
            observer: None,
            state: None,
        }
    }
}

/// How hard background maintenance tries to reclaim memory that is not needed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// For expired items: [`Config::expire_effort`].
    pub(crate) expire: u8,
    /// Whether memory is to go back to the system.
    pub(crate) release: bool,
    /// Whether it may start on a segment that has to be emptied for its expired items.
    pub(crate) begins: bool,
}
