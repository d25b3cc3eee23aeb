//! Held: all bytes that a client holds, and the sums of an event loop.
//!
//! ```text
//! Connection::held    buffers, replies, the transport, a blocking command   (below)
//!  + Link::held       the request in progress: a value, a body              execute/PROTOCOL.rs
//!    + Session::held  what a client of Redis's protocol has set up          resp/session.rs
//! Worker::note_held   compares with the bytes noted last, updates the sums  (below)
//! Budget              the sums of all loops and their limit                 clients/budget.rs
//! ```
//!
//! Each of these takes its structure apart field by field. So a new field does not compile until
//! somebody decides whether it counts.
//!
//! Page: docs/design/connections.md. Why: docs/decisions/0096. Tests: tests/client_memory.rs.

use super::Worker;
use crate::clients::budget::Held;
use crate::event_loop::connection::Connection;

impl Connection {
    /// All bytes that are held for its client, apart from its inbox.
    #[inline]
    pub(crate) fn held(&self) -> Held {
        let Connection {
            stream,
            link,
            leftover: _, // in `buffer_bytes`
            output,
            waiter,
            unfinished,
            unfinished_bytes,
            unfinished_pins,
            login: _,
            waits_for: _,
            unauthenticated: _,
            unauthenticated_ms: _,
            source: _,
            beginning: _,
            backlog: _,
            is_waiting: _,
            input: _,
            is_parked: _,
            awaits_memory: _,
            is_held: _,
            losses: _,
            ending: _,
            queued: _,
            blocked: _,
            unsent: _,
            watches_room: _,
            active_ms: _,
            progress_ms: _,
            moved_bytes: _,
            noted: _,
            noted_ahead_bytes: _,
        } = self;
        let of_link = link.held();
        let (mut beside, mut cached) = (of_link.beside, of_link.cached);
        beside += self.buffer_bytes() + stream.held_bytes();
        cached += output.pinned_bytes();
        if let Some(rest) = unfinished {
            beside += rest.waiting_bytes().max(*unfinished_bytes);
            cached += unfinished_pins;
        }
        if let Some(waiter) = waiter {
            beside += waiter.held_bytes();
        }
        Held { beside, cached }
    }
}

impl Worker {
    /// Updates the loop's sums of what clients hold, and the connection's authentication state.
    #[inline]
    pub(super) fn note_held(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let (before, after) = (connection.noted, connection.held());
        if before.cached != after.cached {
            connection.noted.cached = after.cached;
            let state = &self.common.state;
            state.transfers.note(before.cached, after.cached);
        }
        let is_unauthenticated = connection.link.is_unauthenticated();
        let was_unauthenticated = connection.unauthenticated_ms.is_some();
        let (before, after) = (before.beside, after.beside);
        if before == after && is_unauthenticated == was_unauthenticated {
            return;
        }
        connection.noted.beside = after;
        let ahead = connection.stream.ahead_bytes();
        let ahead_before = std::mem::replace(&mut connection.noted_ahead_bytes, ahead);
        if let Some(client) = connection.link.client() {
            client.note_held(after);
        }
        self.held_bytes = self.held_bytes - before + after;
        self.grown_bytes += after.saturating_sub(before);
        if was_unauthenticated {
            self.unauthenticated_bytes -= before;
        }
        if is_unauthenticated {
            self.unauthenticated_bytes += after;
        }
        if is_unauthenticated != was_unauthenticated {
            connection.unauthenticated_ms = is_unauthenticated.then_some(self.now_ms);
            self.note_unauthenticated(slot);
        }
        if ahead != ahead_before {
            self.note_ahead(slot, ahead_before, ahead);
        }
        self.publish_held();
    }

    /// Subtracts a closed connection from the sums.
    pub(super) fn forget_held(&mut self, connection: &Connection) {
        let state = &self.common.state;
        state.transfers.note(connection.noted.cached, 0);
        self.held_bytes -= connection.noted.beside;
        self.ahead_bytes -= connection.noted_ahead_bytes;
        if connection.unauthenticated_ms.is_some() {
            self.unauthenticated_bytes -= connection.noted.beside;
        }
        self.publish_held();
    }

    fn publish_held(&self) {
        let budget = &self.common.state.budget;
        budget.set_connections(self.index, self.held_bytes, self.unauthenticated_bytes);
        budget.set_ahead(self.index, self.ahead_bytes);
    }
}
