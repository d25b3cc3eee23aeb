//! Admission: which connections are accepted, and what the others are told.
//!
//! The acceptor shows plain clients in, and where handshakes are made those of TLS, when they speak
//! it: both ask here, so that what bounds clients holds for both.
//!
//! Tests: tests/connections.rs, tests/tls.rs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::protocol::Protocol;
use crate::net::mailbox::{Arrival, Mailbox};
use crate::net::stream::Stream;
use crate::observe::counters::Counters;
use crate::state::State;

/// What a client beyond the limit is told.
///
/// Sources: memcached 1.6.45, `maxconns_fast`; Redis 7, `maxclients`.
fn refusal(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Memcached => b"ERROR Too many open connections\r\n",
        Protocol::Resp => b"-ERR max number of clients reached\r\n",
        Protocol::Http => {
            b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
              Content-Type: application/json\r\nContent-Length: 66\r\n\
              X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\r\n\
              {\"error\":{\"code\":\"unavailable\",\"message\":\"too many connections\"}}\n"
        }
    }
}

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
            return refuse(&mut arrival.stream, refusal(arrival.protocol));
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
