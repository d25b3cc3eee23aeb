//! Default TTLs: the time to live of items that are stored without one.
//!
//! A store with a time to live does not use them, nor does a change that keeps an item's deadline.
//! A protocol whose clients see one database uses that of database 0.
//!
//! Page: docs/guide/expiry.md. Tests: tests/default_ttl.rs, with every command that stores.

use std::sync::atomic::{AtomicU64, Ordering};

use cellar_engine::{Deadline, Instant};

use crate::config::protocol::Protocol;
use crate::config::settings::default_ttl::DefaultTtl;

/// The setting `--default-ttl` in the form for stores; each time is in milliseconds, 0 for none.
#[derive(Debug)]
pub struct DefaultTtls {
    memcached: AtomicU64,
    http: AtomicU64,
    /// One a database.
    resp: Box<[AtomicU64]>,
}

impl DefaultTtls {
    /// The settings at the start, for this number of databases.
    #[must_use]
    pub fn new(ttl: &DefaultTtl, databases: usize) -> DefaultTtls {
        let default_ttls = DefaultTtls {
            memcached: AtomicU64::default(),
            http: AtomicU64::default(),
            resp: (0..databases).map(|_| AtomicU64::default()).collect(),
        };
        default_ttls.change(ttl);
        default_ttls
    }

    /// Changes them, for items stored from now on.
    pub fn change(&self, ttl: &DefaultTtl) {
        let set = |place: &AtomicU64, protocol, database| {
            // Relaxed: a store beside the change gets the old number or the new.
            place.store(ttl.ttl_ms(protocol, database), Ordering::Relaxed);
        };
        set(&self.memcached, Protocol::Memcached, 0);
        set(&self.http, Protocol::Http, 0);
        (0..)
            .zip(&self.resp)
            .for_each(|(database, place)| set(place, Protocol::Resp, database));
    }

    /// The deadline of an item that is stored `now` without a time to live.
    ///
    /// # Panics
    /// If there is no database with this number.
    #[inline]
    #[must_use]
    pub fn deadline(&self, protocol: Protocol, database: u32, now: Instant) -> Deadline {
        let place = match protocol {
            Protocol::Memcached => &self.memcached,
            Protocol::Http => &self.http,
            Protocol::Resp => &self.resp[database as usize],
        };
        // Relaxed: the number stands alone.
        match place.load(Ordering::Relaxed) {
            0 => Deadline::NEVER,
            ttl_ms => now.plus_ms(ttl_ms),
        }
    }
}
