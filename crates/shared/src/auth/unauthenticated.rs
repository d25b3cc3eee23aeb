//! Unauthenticated: the connections of all event loops that have to log in and have not.
//!
//! At the connection limit one of these is closed for each new connection: the oldest of the source
//! with most of them. Its loop is asked to close it.
//!
//! Tests: server/tests/before_login.rs.

use std::collections::HashMap;

use cellar_net::mailbox::Home;
use parking_lot::Mutex;

use crate::auth::by_source::BySource;
use crate::auth::login_limiter::Source;

/// The unauthenticated connections.
#[derive(Debug, Default)]
pub struct Unauthenticated(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    homes: HashMap<u64, (Source, Home)>,
    by_source: BySource,
    last: u64,
}

impl Waiting {
    fn remove(&mut self, number: u64) -> Option<Home> {
        let (source, home) = self.homes.remove(&number)?;
        self.by_source.remove(source, number);
        Some(home)
    }
}

impl Unauthenticated {
    /// Adds a connection from `source` that has to log in; returns its number.
    pub fn enter(&self, source: Source, home: Home) -> u64 {
        let mut waiting = self.0.lock();
        waiting.last += 1;
        let number = waiting.last;
        waiting.homes.insert(number, (source, home));
        waiting.by_source.add(source, number);
        number
    }

    /// Removes one that is closed, or has logged in.
    pub fn leave(&self, number: u64) {
        self.0.lock().remove(number);
    }

    /// Asks the loop of one connection to close it; returns whether any exists.
    pub fn give_way(&self) -> bool {
        let mut waiting = self.0.lock();
        let oldest = waiting.by_source.oldest_of_most();
        let home = oldest.and_then(|number| waiting.remove(number));
        drop(waiting);
        home.is_some_and(|home| {
            home.give_way();
            true
        })
    }
}
