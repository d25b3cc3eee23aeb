//! The plan of a load: what is asked of which server, and the limits of it.

use std::ops::Range;

use crate::address::Address;
use crate::error::Error;
use crate::popularity::Popularity;
use crate::quantity::TtlMix;
use crate::record::Records;
use crate::wire::Wire;

/// Most connections of one load.
pub const CONNECTIONS_MAX: usize = 60_000;
/// Most threads of one load.
pub const THREADS_MAX: usize = 256;
/// Most requests in flight on one connection.
pub const DEPTH_MAX: usize = 4096;
/// Most bytes that all requests in flight may have together.
const IN_FLIGHT_BYTES_MAX: u64 = 4 << 30;
/// Depth of a fill, as far as so many bytes of values allow it.
const FILL_DEPTH: usize = 32;
const FILL_BYTES: usize = 1 << 20;

/// Which keys a load asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Every key once, in scattered order.
    Each,
    /// Keys drawn at random.
    Drawn(Popularity),
}

/// When a load ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// After so many requests.
    Requests(u64),
    /// After so many nanoseconds; requests in flight are still waited for.
    Nanoseconds(u64),
}

/// What a load does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Protocol.
    pub wire: Wire,
    /// The server.
    pub target: Address,
    /// Connections, spread over the threads.
    pub connections: usize,
    /// Threads.
    pub threads: usize,
    /// Requests in flight per connection.
    pub depth: usize,
    /// Keys and values.
    pub records: Records,
    /// Which keys.
    pub keys: Keys,
    /// Share of gets, from 0 to 1; the others are sets.
    pub get_share: f64,
    /// Times to live of sets.
    pub ttl: TtlMix,
    /// When it ends.
    pub limit: Limit,
    /// Databases of the Redis protocol, each with the connections that come next in turn; `0..1` is
    /// the one that a connection has anyway.
    pub databases: Range<usize>,
    /// Requests per second of all threads together, for an open loop.
    pub rate_per_s: Option<f64>,
    /// Whether the values read are checked.
    pub verify: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Processors the threads are bound to, in turn; empty = not bound.
    pub cpus: Vec<usize>,
    /// Process whose processor time is measured.
    pub server_pid: Option<u32>,
    /// Whether a line on stderr shows the progress.
    pub progress: bool,
}

impl Plan {
    /// The load that stores every key of this plan once.
    #[must_use]
    pub fn fill(&self) -> Plan {
        let deep = FILL_DEPTH.min(FILL_BYTES / self.records.value_bytes().high.max(1));
        Plan {
            keys: Keys::Each,
            get_share: 0.0,
            limit: Limit::Requests(self.records.keys()),
            rate_per_s: None,
            depth: self.depth.max(deep),
            ..self.clone()
        }
    }

    /// Checks the limits.
    pub(super) fn check(&self) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return usage(format!("--connections must be 1 to {CONNECTIONS_MAX}"));
        }
        if !(1..=THREADS_MAX.min(self.connections)).contains(&self.threads) {
            return usage(format!(
                "--threads must be 1 to {THREADS_MAX} and at most the number of connections"
            ));
        }
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            return usage(format!("--depth must be 1 to {DEPTH_MAX}"));
        }
        if self
            .rate_per_s
            .is_some_and(|rate| !(rate > 0.0 && rate <= 1e9))
        {
            return usage("--rate must be above 0 and at most 1000000000".to_owned());
        }
        if self.databases.is_empty() || (self.databases.end > 1 && self.wire != Wire::Resp) {
            return usage("databases are a matter of the Redis protocol".to_owned());
        }
        let request_bytes = self.records.key_bytes() + self.records.value_bytes().high;
        let in_flight_bytes = (self.connections * self.depth) as u64 * request_bytes as u64;
        if in_flight_bytes > IN_FLIGHT_BYTES_MAX {
            return usage(format!(
                "connections x depth x value bytes is {in_flight_bytes}, at most \
                 {IN_FLIGHT_BYTES_MAX} can be in flight"
            ));
        }
        Ok(())
    }
}
