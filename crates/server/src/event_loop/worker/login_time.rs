//! Login time: connections that have to log in, have a time for it, and give way to others.
//!
//! Without users, password or token nobody has to.
//!
//! Tests: tests/before_login.rs.

use std::sync::Arc;

use super::Worker;
use crate::event_loop::connection::{Connection, Ending};
use crate::net::mailbox::Home;

/// Connections closed for others in one turn.
const LEAVING_MAX: usize = 64;

impl Worker {
    /// Notes for all loops that a connection has to log in now, or has.
    #[cold]
    pub(super) fn note_unauthenticated(&mut self, slot: u32) {
        let token = self.table.token(slot);
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let unauthenticated = &self.common.state.unauthenticated;
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

    /// Closes connections that give way to others. In place of one that has logged in meanwhile
    /// another does.
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
                self.common.state.unauthenticated.give_way();
            }
        }
    }

    /// Whether nobody has logged in on a connection in time; one whose password is being compared
    /// has all it takes.
    pub(super) fn is_login_overdue(&mut self, slot: u32) -> bool {
        let (now_ms, patience_ms) = (self.now_ms, self.common.state.settings.login_timeout_ms);
        let Some(connection) = self.table.get_mut(slot) else {
            return false;
        };
        let since_ms = connection.unauthenticated_ms;
        patience_ms > 0
            && connection.ending == Ending::No
            && !connection.is_parked
            && !connection.is_held
            && since_ms.is_some_and(|since_ms| since_ms + patience_ms <= now_ms)
    }
}

/// Notes that a whole request came over a connection. If each says for itself who sends it, some
/// are for everybody, so the time begins anew.
#[inline]
pub(super) fn note_request(connection: &mut Connection, now_ms: u64) {
    if connection.unauthenticated_ms.is_some() && connection.link.logs_in_each_time() {
        connection.unauthenticated_ms = Some(now_ms);
    }
}
