//! Default TTLs: the time to live of items that are stored without one.
//!
//! A store with a time to live does not use them, nor does a change that keeps an item's deadline.
//! A protocol whose clients see one database uses that of database 0.
//!
//! Page: docs/guide/expiry.md. Tests: server/tests/default_ttl.rs, with every command that stores.

use std::sync::atomic::{AtomicU64, Ordering};

use cellar_config::protocol::{PerProtocol, Protocol};
use cellar_config::settings::default_ttl::DefaultTtl;
use cellar_engine::{Deadline, Instant};

/// The setting `--default-ttl` in the form for stores: for each protocol, the TTL in each database
/// that its clients see, in milliseconds; 0 for none.
#[derive(Debug)]
pub struct DefaultTtls(PerProtocol<Box<[AtomicU64]>>);

impl DefaultTtls {
    /// The settings at the start, for this number of databases.
    #[must_use]
    pub fn new(ttl: &DefaultTtl, databases: usize) -> DefaultTtls {
        let default_ttls = DefaultTtls(Protocol::ALL.map(|protocol| {
            let seen = if protocol.row().has_databases {
                databases
            } else {
                1
            };
            (0..seen).map(|_| AtomicU64::default()).collect()
        }));
        default_ttls.change(ttl);
        default_ttls
    }

    /// Changes them, for items stored from now on.
    pub fn change(&self, ttl: &DefaultTtl) {
        for (protocol, databases) in Protocol::ALL.into_iter().zip(&self.0) {
            for (database, ttl_ms) in (0..).zip(databases) {
                // Relaxed: a store beside the change gets the old number or the new.
                ttl_ms.store(ttl.ttl_ms(protocol, database), Ordering::Relaxed);
            }
        }
    }

    /// The deadline of an item that is stored `now` without a time to live.
    ///
    /// # Panics
    /// If clients of this protocol see no database with this number.
    #[inline]
    #[must_use]
    pub fn deadline(
        &self,
        protocol: Protocol,
        database: u32,
        now: impl FnOnce() -> Instant,
    ) -> Deadline {
        // Relaxed: the number stands alone.
        match self.0[protocol as usize][database as usize].load(Ordering::Relaxed) {
            0 => Deadline::NEVER,
            ttl_ms => now().plus_ms(ttl_ms),
        }
    }
}
