//! The plan of a load of gets and sets: which records are asked for how often, and its limits.

use std::sync::Arc;

use clap::Args;

use crate::drive::{Drive, Limit};
use crate::error::Error;
use crate::popularity::Popularity;
use crate::quantity::TtlMix;
use crate::record::Records;
use crate::wire::Wire;

/// Most connections of one load.
pub(crate) const CONNECTIONS_MAX: usize = 60_000;
/// Most threads of one load.
pub(crate) const THREADS_MAX: usize = 256;
/// Most requests in flight on one connection.
pub(crate) const DEPTH_MAX: usize = 4096;
/// Most bytes that all requests in flight may have together.
const IN_FLIGHT_BYTES_MAX: u64 = 4 << 30;
/// Depth of a fill, as far as so many bytes of values allow it.
const FILL_DEPTH: usize = 32;
const FILL_BYTES: usize = 1 << 20;

/// Which keys a load asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Every key once, in scattered order; the limit is their number.
    Each,
    /// Keys drawn at random.
    Drawn(Popularity),
}

/// What a load does; the options of one, as far as it has them.
#[derive(Args, Clone, Debug)]
pub struct Plan {
    #[command(flatten)]
    #[expect(missing_docs, reason = "its options are documented")]
    pub drive: Drive,
    /// Threads of the load generator
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its options are documented")]
    pub records: Records,
    /// The numbers of the records that are asked for, if not all are.
    #[arg(skip)]
    pub only: Option<Arc<[u32]>>,
    /// How requests spread over the keys: zipf:EXPONENT or uniform
    #[arg(
        id = "distribution",
        long,
        value_name = "DISTRIBUTION",
        default_value = "zipf:0.99"
    )]
    #[arg(value_parser = parse_keys)]
    pub keys: Keys,
    /// Share of gets, from 0 to 1; the others are sets.
    #[arg(skip)]
    pub get_share: f64,
    /// Time to live of sets: SECONDS, LOW..HIGH, or a mix such as 60@3,1h..2h@1; 0 = unlimited
    #[arg(long, default_value = "0")]
    pub ttl: TtlMix,
    /// Checks every value that is read; a wrong one makes the exit code 1
    #[arg(long)]
    pub verify: bool,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

fn parse_keys(text: &str) -> Result<Keys, String> {
    text.parse().map(Keys::Drawn)
}

impl Plan {
    /// Gets with Zipf popularity, from one thread.
    pub fn gets(drive: Drive, records: Records) -> Plan {
        Plan {
            drive,
            threads: 1,
            records,
            only: None,
            keys: Keys::Drawn(Popularity::Zipf(0.99)),
            get_share: 1.0,
            ttl: TtlMix::unlimited(),
            verify: false,
            seed: 1,
        }
    }

    /// How many records are asked for.
    pub fn numbers(&self) -> u64 {
        let only = self.only.as_ref();
        only.map_or(self.records.keys(), |only| only.len() as u64)
    }

    /// The number of one of the records that are asked for.
    #[inline]
    pub(crate) fn number(&self, place: u64) -> u64 {
        let only = self.only.as_ref();
        only.map_or(place, |only| only[place as usize].into())
    }

    /// The load that stores every key of this plan once.
    pub fn fill(&self) -> Plan {
        let deep = FILL_DEPTH.min(FILL_BYTES / self.records.value_bytes().high.max(1));
        let drive = Drive {
            limit: Limit::Requests(self.numbers()),
            rate_per_s: None,
            depth: self.drive.depth.max(deep),
            ..self.drive.clone()
        };
        Plan {
            drive,
            keys: Keys::Each,
            get_share: 0.0,
            ..self.clone()
        }
    }

    /// The same with another limit.
    pub fn until(&self, limit: Limit) -> Plan {
        let mut plan = self.clone();
        plan.drive.limit = limit;
        plan
    }

    /// Checks the limits.
    ///
    /// # Errors
    /// [`Error::Usage`] if one is exceeded.
    pub fn check(&self) -> Result<(), Error> {
        self.records.check()?;
        let usage = |text: String| Err(Error::Usage(text));
        if self.numbers() == 0 {
            return usage("there is no record to ask for".to_owned());
        }
        let drive = &self.drive;
        if !(1..=CONNECTIONS_MAX).contains(&drive.connections) {
            return usage(format!("--connections must be 1 to {CONNECTIONS_MAX}"));
        }
        if !(1..=THREADS_MAX.min(drive.connections)).contains(&self.threads) {
            return usage(format!(
                "--threads must be 1 to {THREADS_MAX} and at most the number of connections"
            ));
        }
        if !(1..=DEPTH_MAX).contains(&drive.depth) {
            return usage(format!("--depth must be 1 to {DEPTH_MAX}"));
        }
        if drive
            .rate_per_s
            .is_some_and(|rate| !(rate > 0.0 && rate <= 1e9))
        {
            return usage("--rate must be above 0 and at most 1000000000".to_owned());
        }
        let servers = drive.servers();
        let is_divided = self.numbers().is_multiple_of(servers as u64)
            && drive.connections.is_multiple_of(servers);
        if !is_divided || (servers > 1 && drive.rate_per_s.is_some()) {
            return usage(format!(
                "{servers} servers take equal parts of records and connections, in a closed loop"
            ));
        }
        let databases = &drive.databases;
        if databases.is_empty() || (databases.end > 1 && drive.wire != Wire::Resp) {
            return usage("databases are a matter of the Redis protocol".to_owned());
        }
        let request_bytes = self.records.key_bytes() + self.records.value_bytes().high;
        let in_flight_bytes = (drive.connections * drive.depth) as u64 * request_bytes as u64;
        if in_flight_bytes > IN_FLIGHT_BYTES_MAX {
            return usage(format!(
                "connections x depth x value bytes is {in_flight_bytes}, at most \
                 {IN_FLIGHT_BYTES_MAX} can be in flight"
            ));
        }
        Ok(())
    }
}
