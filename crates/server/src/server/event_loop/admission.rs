//! Admission: decides which connections are accepted, and sends the others an error.
//!
//! The acceptor calls it for plain connections and the handshake thread for TLS, so the connection
//! limit holds for both.
//!
//! Tests: tests/connections.rs, tests/tls.rs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_net::mailbox::{Arrival, Mailbox};
use cellar_net::stream::Stream;
use cellar_shared::observe::counters::Counters;
use cellar_shared::state::State;

/// The way to the event loops.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) state: Arc<State>,
    pub(crate) mailboxes: Arc<Vec<Mailbox>>,
}

impl Admission {
    /// Hands a connection to the loop with the fewest, unless the limit is reached. At the limit an
    /// unauthenticated connection is closed in its favour, if one exists. `counters` are those of
    /// the calling thread.
    pub(crate) fn admit(&self, mut arrival: Arrival, counters: &Counters) {
        let state = &self.state;
        let most = state.settings.max_connections as u64;
        // Relaxed: each connection gets its own number, so the limit is exact.
        let is_full = state.connections.fetch_add(1, Ordering::Relaxed) >= most;
        // The unauthenticated connection closes when its loop handles the request.
        if is_full && !state.access.unauthenticated.give_way() {
            state.connections.fetch_sub(1, Ordering::Relaxed);
            counters.connections_rejected.add(1);
            let why = arrival.protocol.row().too_many_connections;
            return refuse(&mut arrival.stream, why);
        }
        counters.connections_total.add(1);
        Mailbox::post(&self.mailboxes, arrival);
    }
}

/// Sends a client the reason for the refusal.
pub(crate) fn refuse(stream: &mut Stream, why: &[u8]) {
    let _ = stream.write(why);
    stream.end_writing();
    // Unread bytes would turn the close into a reset, which can overtake the message.
    let _ = stream.read(&mut [0; 4096]);
}
