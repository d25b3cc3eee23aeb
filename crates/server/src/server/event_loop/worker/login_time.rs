//! Login time: the time limit of unauthenticated connections, and their closing at the limit.
//!
//! Without users, password or token every connection counts as authenticated.
//!
//! Tests: tests/before_login.rs.

use std::sync::Arc;

use cellar_net::mailbox::Home;

use super::Worker;
use crate::server::event_loop::connection::{Connection, Ending};

/// Connections closed for new ones in one iteration.
const LEAVING_MAX: usize = 64;

impl Worker {
    /// Records for all loops that a connection has to log in now, or has logged in.
    #[cold]
    pub(super) fn note_unauthenticated(&mut self, slot: u32) {
        let token = self.table.token(slot);
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let unauthenticated = &self.common.state.access.unauthenticated;
        if connection.unauthenticated_ms.is_none() {
            if let Some(number) = connection.unauthenticated.take() {
                unauthenticated.leave(number);
            }
        } else if connection.unauthenticated.is_none() {
            let home = Home {
                mailboxes: Arc::clone(&self.common.mailboxes),
                index: self.index,
                token,
            };
            connection.unauthenticated = Some(unauthenticated.enter(connection.source, home));
        }
    }

    /// Closes unauthenticated connections in favour of new ones. If one has logged in meanwhile,
    /// another one is closed in its place.
    pub(super) fn let_give_way(&mut self) {
        for left in 0.. {
            if left == LEAVING_MAX {
                return self.mailbox().waker.wake();
            }
            let Some(token) = self.mailbox().take_leaving() else {
                return;
            };
            let Some(slot) = self.table.slot(token) else {
                continue;
            };
            let connection = self.table.get_mut(slot);
            if connection.is_some_and(|connection| connection.unauthenticated_ms.is_some()) {
                self.counters.connections_login_closed.add(1);
                self.close(slot);
            } else {
                self.common.state.access.unauthenticated.give_way();
            }
        }
    }
}

/// Whether the login time-out has passed without a login; it does not apply while a password is
/// being compared.
pub(super) fn is_login_overdue(connection: &Connection, patience_ms: u64, now_ms: u64) -> bool {
    let since_ms = connection.unauthenticated_ms;
    patience_ms > 0
        && connection.ending == Ending::No
        && !connection.is_parked
        && !connection.is_held
        && since_ms.is_some_and(|since_ms| since_ms + patience_ms <= now_ms)
}

/// Records a whole request. Where each request carries its own credentials, requests that need none
/// also restart the login time.
#[inline]
pub(super) fn note_request(connection: &mut Connection, now_ms: u64) {
    if connection.unauthenticated_ms.is_some() && connection.link.logs_in_each_time() {
        connection.unauthenticated_ms = Some(now_ms);
    }
}
