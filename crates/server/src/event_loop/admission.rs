//! Admission: which connections are accepted, and what the others are told.
//!
//! The acceptor shows plain clients in, and where handshakes are made those of TLS, when they speak
//! it: both ask here, so that what bounds clients holds for both.
//!
//! Tests: tests/connections.rs, tests/tls.rs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::net::mailbox::{Arrival, Mailbox};
use crate::net::stream::Stream;
use crate::observe::counters::Counters;
use crate::state::State;

/// The way to the event loops.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) state: Arc<State>,
    pub(crate) mailboxes: Arc<Vec<Mailbox>>,
}

impl Admission {
    /// Hands a client to the loop with the fewest, unless it may not come in: when there are as
    /// many as there may be, one that has not logged in gives way to it. `counters` are those of
    /// the calling thread.
    pub(crate) fn admit(&self, mut arrival: Arrival, counters: &Counters) {
        let state = &self.state;
        let most = state.settings.max_connections as u64;
        // Relaxed: each that comes in has a number of its own, so the limit is exact.
        let is_full = state.connections.fetch_add(1, Ordering::Relaxed) >= most;
        // One that gives way is gone as soon as its loop hears of it.
        if is_full && !state.unauthenticated.give_way() {
            state.connections.fetch_sub(1, Ordering::Relaxed);
            counters.connections_rejected.add(1);
            let why = arrival.protocol.row().too_many_connections;
            return refuse(&mut arrival.stream, why);
        }
        counters.connections_total.add(1);
        Mailbox::post(&self.mailboxes, arrival);
    }
}

/// Tells a client why it may not come in.
pub(crate) fn refuse(stream: &mut Stream, why: &[u8]) {
    let _ = stream.write(why);
    stream.end_writing();
    // Unread bytes would turn the close into a reset, which can overtake the message.
    let _ = stream.read(&mut [0; 4096]);
}
