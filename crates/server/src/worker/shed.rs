//! Shed: which connections are closed when clients hold too much memory.
//!
//! A loop looks at the budget when what its connections hold has grown by [`LOOK_BYTES`]. The one
//! that finds it exceeded wakes the others, and each that holds more than its part closes the
//! largest of its connections: first those that have not got on for [`STALLED_MS`], so that who
//! sends a long request or reads a long answer is not in danger for others that only hold memory;
//! last those that asked not to be closed (CLIENT NO-EVICT).

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use super::Worker;
use crate::connection::Connection;

/// Growth after which a loop looks at the budget.
const LOOK_BYTES: usize = 64 << 10;
/// Time without progress after which memory counts as only held.
const STALLED_MS: u64 = 1_000;
/// A connection that holds less is not closed for it.
const HOLDER_BYTES_MIN: usize = 256;

/// A connection's place in the order of closing: whether it asked to stay, whether it got on, the
/// bytes it holds, the largest first.
type Rank = (bool, bool, Reverse<usize>);

fn rank(connection: &Connection, bytes: usize, now_ms: u64) -> Rank {
    let client = connection.link.client();
    // Relaxed: a wish that orders nothing.
    let asked = client.is_some_and(|one| one.wishes[0].load(Ordering::Relaxed));
    let moves = connection.progress_ms + STALLED_MS > now_ms;
    (asked, moves, Reverse(bytes))
}

impl Worker {
    /// Keeps the loop's sum of what its connections hold.
    #[inline]
    pub(super) fn note_held(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let (before, after) = (connection.noted_bytes, connection.held_beside());
        if before != after {
            connection.noted_bytes = after;
            self.held_bytes = self.held_bytes - before + after;
            if let Some(client) = connection.link.client() {
                client.note_held(after);
            }
            let budget = &self.common.state.budget;
            budget.set_connections(self.index, self.held_bytes);
        }
    }

    /// Looks at the budget if the loop's connections hold more than at the last look.
    #[inline]
    pub(super) fn check_budget(&mut self) {
        self.looked_at_bytes = self.looked_at_bytes.min(self.held_bytes);
        if self.held_bytes >= self.looked_at_bytes + LOOK_BYTES {
            self.looked_at_bytes = self.held_bytes;
            self.keep_to_budget();
        }
    }

    /// Has all loops close connections if clients hold too much.
    #[cold]
    pub(super) fn keep_to_budget(&mut self) {
        if !self.common.state.budget.is_over() {
            return;
        }
        self.shed();
        for (index, mailbox) in self.common.mailboxes.iter().enumerate() {
            if index != self.index {
                mailbox.ask_to_shed();
            }
        }
    }

    /// Closes connections until this loop holds no more than its part.
    #[cold]
    pub(super) fn shed(&mut self) {
        let mut excess = self.common.state.budget.excess_of(self.index);
        if excess == 0 {
            return;
        }
        let mut holders: Vec<(Rank, u32, usize)> = Vec::new();
        for slot in self.table.slots() {
            if let Some(connection) = self.table.get_mut(slot) {
                let client = connection.link.client();
                let inbox = client.map_or(0, |client| client.inbox_bytes());
                let bytes = connection.noted_bytes + inbox;
                if bytes >= HOLDER_BYTES_MIN {
                    holders.push((rank(connection, bytes, self.now_ms), slot, bytes));
                }
            }
        }
        holders.sort_unstable();
        for (_, slot, bytes) in holders {
            self.counters.connections_memory_closed.add(1);
            self.close(slot);
            excess = excess.saturating_sub(bytes);
            if excess == 0 {
                return;
            }
        }
    }
}
