//! Client eviction: closes connections when clients hold too much memory.
//!
//! A loop checks the budget when its connections have grown enough ([`held`](super::held)). The
//! loop that finds it exceeded wakes the others, and each loop above its part closes its largest
//! connections in this order: unauthenticated ones; connections without progress for
//! [`STALLED_MS`], so that a client in the middle of a long request or reply outlasts those that
//! only hold memory; all others; last those with CLIENT NO-EVICT.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use cellar_execute::{Context, Refusal};

use super::Worker;
use crate::server::event_loop::connection::Connection;

/// Time without progress after which memory counts as only held.
const STALLED_MS: u64 = 1_000;
/// A connection that holds less is not closed for it.
const HOLDER_BYTES_MIN: usize = 256;

/// Shortest time between two log lines.
const TOLD_MS: u64 = 60_000;

/// A connection's rank for closing: whether it is authenticated where that is required, has
/// NO-EVICT, and made progress; then its size, the largest first.
type Rank = (bool, bool, bool, Reverse<usize>);

fn rank(connection: &Connection, bytes: usize, now_ms: u64) -> Rank {
    let client = connection.link.client();
    // Relaxed: a wish that orders nothing.
    let asked = client.is_some_and(|one| one.wishes[0].load(Ordering::Relaxed));
    let moves = connection.progress_ms + STALLED_MS > now_ms;
    let is_known = connection.unauthenticated_ms.is_none();
    (is_known, asked, moves, Reverse(bytes))
}

/// Closed connections that were not logged yet.
#[derive(Debug, Default)]
pub(super) struct ClientEvictionReport {
    unauthenticated: u64,
    others: u64,
    next_ms: u64,
}

impl ClientEvictionReport {
    /// Writes a log line, unless one was written within a minute.
    #[cold]
    fn tell(&mut self, held_bytes: usize, now_ms: u64) {
        let (not_logged_in, others) = (self.unauthenticated, self.others);
        if not_logged_in + others == 0 || now_ms < self.next_ms {
            return;
        }
        *self = ClientEvictionReport {
            next_ms: now_ms + TOLD_MS,
            ..ClientEvictionReport::default()
        };
        tracing::warn!(
            not_logged_in,
            others,
            held_bytes,
            "closed connections: clients used too much memory"
        );
    }
}

impl Worker {
    /// Checks the budget if the loop's connections hold more than at the last check, or a reply has
    /// found too little memory.
    #[inline]
    pub(super) fn check_budget(&mut self) {
        if self.held.begin_check() {
            self.keep_to_budget();
        }
    }

    /// Makes all loops close connections if clients hold too much.
    #[cold]
    pub(super) fn keep_to_budget(&mut self) {
        self.client_eviction_report
            .tell(self.held.bytes(), self.now_ms);
        if !self.common.state.budget.is_over() {
            return;
        }
        self.evict_clients();
        for (index, mailbox) in self.common.mailboxes.iter().enumerate() {
            if index != self.index {
                mailbox.ask_to_evict();
            }
        }
    }

    /// Closes connections until this loop holds no more than its part, unauthenticated connections
    /// first.
    #[cold]
    pub(super) fn evict_clients(&mut self) {
        let budget = &self.common.state.budget;
        let mut of_unauthenticated = budget.excess_of_unauthenticated(self.index);
        let mut of_others = budget.excess_of(self.index);
        if of_unauthenticated + of_others == 0 {
            return;
        }
        let held_bytes = self.held.bytes();
        let mut holders: Vec<(Rank, u32, usize)> = Vec::new();
        for slot in self.table.slots() {
            if let Some(connection) = self.table.get_mut(slot) {
                let client = connection.link.client();
                let inbox = client.map_or(0, |client| client.inbox_bytes());
                let bytes = connection.noted.beside + inbox;
                if bytes >= HOLDER_BYTES_MIN {
                    holders.push((rank(connection, bytes, self.now_ms), slot, bytes));
                }
            }
        }
        holders.sort_unstable();
        for (rank, slot, bytes) in holders {
            let is_known = rank.0;
            let (excess, closed) = if is_known {
                (&mut of_others, &mut self.client_eviction_report.others)
            } else {
                (
                    &mut of_unauthenticated,
                    &mut self.client_eviction_report.unauthenticated,
                )
            };
            if *excess == 0 {
                continue;
            }
            *excess = excess.saturating_sub(bytes);
            *closed += 1;
            self.counters.connections_memory_closed.add(1);
            self.evict(slot);
        }
        self.client_eviction_report.tell(held_bytes, self.now_ms);
    }

    /// Frees what a connection holds and closes it: with an error, if its client waits for a reply
    /// of which nothing was sent.
    #[cold]
    fn evict(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if !connection.awaits_whole_reply() {
            return self.close(slot);
        }
        let mut buffers = vec![
            std::mem::take(&mut connection.leftover),
            std::mem::take(&mut connection.output).into_bytes(),
        ];
        buffers.extend(connection.stream.take_ahead());
        let (unfinished, bytes) = (connection.unfinished.take(), connection.noted.beside);
        connection.unsent = true;
        self.teardowns.add_requests(buffers, unfinished, bytes);
        self.refuse(slot, Refusal::ClientMemory);
    }

    /// Sends a client the reason for closing it, after its pending replies, unless a reply is
    /// incomplete; nothing more of it is executed.
    pub(super) fn refuse(&mut self, slot: u32, refusal: Refusal) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.unfinished.is_none() {
            let pass = self.common.state.exclusive_lock.enter(self.index);
            let context = Context::new(&self.common.state, &self.counters, &pass);
            let output = &mut connection.output;
            connection.link.refuse(refusal, context, output);
        }
        connection.end_after_output();
        connection.start_transfer(self.now_ms);
        self.note_held(slot);
        self.enqueue(slot);
    }
}
