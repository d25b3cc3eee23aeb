//! Held: all bytes that a client holds, and the sums of an event loop.
//!
//! ```text
//! Connection::held    buffers, replies, the transport, a blocking command   (below)
//!  + Link::held       the request in progress: a value, a body              execute/PROTOCOL.rs
//!    + Session::held  what a client of Redis's protocol has set up          resp/session.rs
//! Worker::note_held   compares with the bytes noted last             (below)
//! LoopHeld            the sums of a loop                               (below)
//! Budget              the sums of all loops and their limit                 clients/budget.rs
//! ```
//!
//! Each of these takes its structure apart field by field. So a new field does not compile until
//! somebody decides whether it counts.
//!
//! Page: docs/design/connections.md. Why: docs/decisions/0096. Tests: tests/client_memory.rs.

use std::sync::Arc;

use cellar_shared::clients::budget::{AheadGrant, Budget, Held};

use super::Worker;
use crate::server::event_loop::connection::Connection;

/// Growth after which a loop checks the budget.
const LOOK_BYTES: usize = 64 << 10;

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

/// What the connections of one loop hold, which the loop reports to the [`Budget`].
pub(super) struct LoopHeld {
    budget: Arc<Budget>,
    /// The loop's index.
    index: usize,
    /// Memory that all connections hold outside of the cache.
    bytes: usize,
    /// That sum at the last check of the budget.
    looked_at_bytes: usize,
    /// Growth of connections since the last check of pending teardowns.
    grown_bytes: usize,
    /// The part of the sum that unauthenticated connections hold.
    unauthenticated_bytes: usize,
    /// The part of it that was read ahead of replies.
    ahead_bytes: usize,
}

impl LoopHeld {
    /// Zeros, for the loop with this index.
    pub(super) fn new(budget: Arc<Budget>, index: usize) -> LoopHeld {
        LoopHeld {
            budget,
            index,
            bytes: 0,
            looked_at_bytes: 0,
            grown_bytes: 0,
            unauthenticated_bytes: 0,
            ahead_bytes: 0,
        }
    }

    /// Memory that all connections hold outside of the cache.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether connections have grown so much since the last budget check that the next check has
    /// to come before another connection is served.
    #[inline]
    pub(super) fn has_grown_much(&self) -> bool {
        self.bytes >= self.looked_at_bytes + self.budget.turn_bytes_max()
    }

    /// Whether the budget has to be checked: connections hold more than at the last check, or a
    /// reply has found too little memory. Such a check counts as made.
    #[inline]
    pub(super) fn begin_check(&mut self) -> bool {
        self.budget.end_reply(self.index);
        self.looked_at_bytes = self.looked_at_bytes.min(self.bytes);
        let has_grown = self.bytes >= self.looked_at_bytes + LOOK_BYTES;
        let is_due = has_grown || self.budget.is_wanting();
        if is_due {
            self.looked_at_bytes = self.bytes;
        }
        is_due
    }

    /// How much connections have grown since the last call.
    #[inline]
    pub(super) fn take_grown(&mut self) -> usize {
        std::mem::take(&mut self.grown_bytes)
    }

    /// Asks for memory to read ahead.
    pub(super) fn grant_ahead(&self, token: u64) -> AheadGrant {
        self.budget.grant_ahead((self.index, token))
    }

    /// Records that a connection needs no more memory for its pipeline.
    pub(super) fn release_ahead(&self, token: u64) {
        self.budget.release_ahead((self.index, token));
    }

    /// Updates the sum of the read-ahead.
    #[cold]
    fn note_ahead(&mut self, token: u64, before: usize, after: usize) {
        self.ahead_bytes = self.ahead_bytes - before + after;
        if after == 0 {
            self.release_ahead(token);
        }
    }

    /// Subtracts a closed connection.
    fn forget(&mut self, connection: &Connection) {
        self.bytes -= connection.noted.beside;
        self.ahead_bytes -= connection.noted_ahead_bytes;
        if connection.unauthenticated_ms.is_some() {
            self.unauthenticated_bytes -= connection.noted.beside;
        }
        self.publish();
    }

    fn publish(&self) {
        self.budget
            .set_connections(self.index, self.bytes, self.unauthenticated_bytes);
        self.budget.set_ahead(self.index, self.ahead_bytes);
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
        let held = &mut self.held;
        held.bytes = held.bytes - before + after;
        held.grown_bytes += after.saturating_sub(before);
        if was_unauthenticated {
            held.unauthenticated_bytes -= before;
        }
        if is_unauthenticated {
            held.unauthenticated_bytes += after;
        }
        if is_unauthenticated != was_unauthenticated {
            connection.unauthenticated_ms = is_unauthenticated.then_some(self.now_ms);
            self.note_unauthenticated(slot);
        }
        if ahead != ahead_before {
            let token = self.table.token(slot);
            self.held.note_ahead(token, ahead_before, ahead);
        }
        self.held.publish();
    }

    /// Subtracts a closed connection from the sums.
    pub(super) fn forget_held(&mut self, connection: &Connection) {
        let state = &self.common.state;
        state.transfers.note(connection.noted.cached, 0);
        self.held.forget(connection);
    }
}
