//! Doorstep: connections that have to log in and have not, on all event loops.
//!
//! When there are as many connections as there may be, one of these gives way to who comes then:
//! the oldest of the source that has most of them. Its loop is told and closes it.
//!
//! Tests: tests/before_login.rs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::auth::crowd::Crowd;
use crate::auth::guesses::Source;
use crate::net::mailbox::Home;

/// Who stands there.
#[derive(Debug, Default)]
pub struct Doorstep(Mutex<Standers>);

#[derive(Debug, Default)]
struct Standers {
    homes: HashMap<u64, (Source, Home)>,
    crowd: Crowd,
    last: u64,
}

impl Standers {
    fn remove(&mut self, number: u64) -> Option<Home> {
        let (source, home) = self.homes.remove(&number)?;
        self.crowd.remove(source, number);
        Some(home)
    }
}

impl Doorstep {
    /// Notes a connection from `source` that has to log in; the number by which it leaves.
    pub fn enter(&self, source: Source, home: Home) -> u64 {
        let mut standers = self.lock();
        standers.last += 1;
        let number = standers.last;
        standers.homes.insert(number, (source, home));
        standers.crowd.add(source, number);
        number
    }

    /// Notes that one is gone, or has logged in.
    pub fn leave(&self, number: u64) {
        self.lock().remove(number);
    }

    /// Has one give way; whether there was one.
    pub fn give_way(&self) -> bool {
        let mut standers = self.lock();
        let oldest = standers.crowd.oldest_of_most();
        let home = oldest.and_then(|number| standers.remove(number));
        drop(standers);
        home.is_some_and(|home| {
            home.give_way();
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, Standers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
