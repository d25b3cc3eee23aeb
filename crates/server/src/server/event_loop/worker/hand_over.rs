//! Hand over: moves connections to a new process, between two requests.
//!
//! A connection moves as its socket if it has no request in progress and no state that cannot move
//! ([`Connection::setup_to_move`]): the new process reads the unread bytes. All others are drained.
//! When none of them has anything left to execute the loop has settled: it writes pending replies,
//! and executes no further request. The loop does not wait for clients that wait for their peer or
//! for another client, and every wait has a time limit.
//!
//! Why: docs/decisions/0056. Tests: tests/takeover.rs.

use std::sync::atomic::Ordering;

use cellar_net::listener::came_from;
use cellar_net::mailbox::{Arrival, Mailbox};

use super::Worker;
use crate::server::event_loop::connection::{Connection, Ending};

/// Longest wait for the rest of a request.
const REST_MS: u64 = 100;
/// Longest sleep of the loop until it has settled.
const LOOK_MS: u32 = 5;

/// A handover of clients as one loop sees it.
#[derive(Debug, Default)]
pub(super) struct HandingOver {
    /// The number that was seen last, odd while a handover is in progress.
    number: u64,
    /// When the loop stops waiting for incomplete requests and for clients.
    cut_ms: u64,
    /// When the loop stops executing requests that it has read.
    end_ms: u64,
    has_settled: bool,
}

impl HandingOver {
    /// Whether a new process takes over.
    #[inline]
    pub(super) fn is_under_way(&self) -> bool {
        self.number % 2 == 1
    }

    /// Whether the rest of a request is still awaited.
    pub(super) fn waits_for_rest(&self, now_ms: u64) -> bool {
        self.is_under_way() && now_ms < self.cut_ms
    }

    /// How long the loop may sleep.
    #[inline]
    pub(super) fn wait_ms(&self) -> u32 {
        if self.is_under_way() && !self.has_settled {
            LOOK_MS
        } else {
            u32::MAX
        }
    }
}

impl Worker {
    /// Detects the beginning and the end of a handover.
    pub(super) fn note_handover(&mut self) {
        let number = self.common.client_handover.number();
        if number == self.handing_over.number {
            return;
        }
        // The acceptor gives up after the whole time-out, so the last request has the other half.
        let most_ms = self.common.state.settings.drain_timeout_ms / 2;
        self.handing_over = HandingOver {
            number,
            cut_ms: self.now_ms + REST_MS.min(most_ms),
            end_ms: self.now_ms.saturating_add(most_ms),
            has_settled: false,
        };
        if self.handing_over.is_under_way() {
            // Requests received before are answered.
            self.common.state.pause.end();
            for slot in self.table.slots() {
                self.hand_over(slot);
            }
        }
    }

    /// Hands a connection over if it can move; else it ends after its received requests.
    #[cold]
    pub(super) fn hand_over(&mut self, slot: u32) {
        if self.try_to_move(slot) {
            return;
        }
        if !self.handing_over.has_settled {
            return self.begin_ending(slot);
        }
        if let Some(connection) = self.table.get_mut(slot) {
            connection.end_after_output();
            self.try_to_end(slot);
        }
    }

    /// Hands a connection over if it can move; returns whether it did.
    #[cold]
    pub(super) fn try_to_move(&mut self, slot: u32) -> bool {
        let state = &self.common.state;
        let setup = |connection: &mut Connection| connection.setup_to_move(state);
        let Some(setup) = self.table.get_mut(slot).and_then(setup) else {
            return false;
        };
        if self.handing_over.has_settled {
            return false;
        }
        let Some(connection) = self.take_out(slot) else {
            return false;
        };
        // The socket stays open elsewhere, so its events would still be reported.
        let _ = self.poller.remove(&connection.stream);
        let arrival = Arrival {
            protocol: connection.link.protocol(),
            peer: came_from(&connection.stream),
            stream: connection.stream,
            setup,
        };
        if let Some(arrival) = self
            .common
            .client_handover
            .give(self.handing_over.number, arrival)
        {
            // The new process has ended before the move.
            self.common
                .state
                .connections
                .fetch_add(1, Ordering::Relaxed);
            Mailbox::post(&self.common.mailboxes, arrival);
        }
        true
    }

    /// Checks whether the loop has settled.
    #[cold]
    pub(super) fn go_on_handing_over(&mut self) {
        if self.handing_over.has_settled {
            return;
        }
        let is_late = self.handing_over.cut_ms <= self.now_ms;
        let is_over = self.handing_over.end_ms <= self.now_ms;
        // Some may wait in the mailbox.
        let mut is_busy = !is_late && self.mailbox().connections() > self.table.len();
        for slot in self.table.slots() {
            let Some(connection) = self.table.get_mut(slot) else {
                continue;
            };
            let is_open = matches!(connection.ending, Ending::No | Ending::AfterRequests);
            // Requests read before are answered if they wait for no other client; no more is read.
            let goes_on = !is_over && !connection.is_through() && connection.has_work();
            if is_open && is_late && !goes_on {
                connection.end_after_output();
                self.try_to_end(slot);
            } else {
                is_busy |= is_open;
            }
        }
        if !is_busy || is_over {
            self.handing_over.has_settled = true;
            self.common.client_handover.settle(self.handing_over.number);
            self.common.acceptor_waker.wake();
        }
    }
}
