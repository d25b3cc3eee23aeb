//! Entrance: who may come in, and what the others are told.
//!
//! The acceptor shows plain clients in, and where handshakes are made those of TLS, when they speak
//! it: both ask here, so that what bounds clients holds for both.
//!
//! Tests: at the end of this file; tests/connections.rs, tests/tls.rs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::counters::Counters;
use crate::listener::is_of_this_machine;
use crate::mailbox::{Arrival, Mailbox};
use crate::protocol::Protocol;
use crate::settings::Settings;
use crate::state::State;
use crate::stream::Stream;

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

/// What a client of another machine is told while there is no password.
///
/// Source: Redis 7.4, `clientAcceptHandler`.
const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled \
    and no password is set for the default user. In this mode connections are only accepted from \
    the loopback interface. If you want to connect from external computers to Redis you may adopt \
    one of the following solutions: 1) Restart the server with protected mode off. 2) Set up an \
    authentication password for the default user. NOTE: You only need to do one of the above \
    things in order for the server to start accepting connections from the outside.\r\n";

/// How a client and a port misunderstand each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrongPort {
    /// The client speaks TLS, the port does not.
    Plain,
    /// The port speaks TLS, the client does not.
    Encrypted,
}

impl WrongPort {
    /// What the client is told, without encryption.
    pub(crate) fn text(self, protocol: Protocol) -> Vec<u8> {
        let what = match self {
            WrongPort::Plain => "this port does not speak TLS",
            WrongPort::Encrypted => "this port speaks TLS only",
        };
        let text = match protocol {
            Protocol::Memcached => format!("ERROR {what}\r\n"),
            Protocol::Resp => format!("-ERR {what}\r\n"),
            Protocol::Http => {
                let body =
                    format!("{{\"error\":{{\"code\":\"bad_request\",\"message\":\"{what}\"}}}}\n");
                format!(
                    "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\
                     Content-Type: application/json\r\nContent-Length: {}\r\n\
                     X-Content-Type-Options: nosniff\r\n\
                     Cross-Origin-Resource-Policy: same-origin\r\n\r\n{body}",
                    body.len()
                )
            }
        };
        text.into_bytes()
    }
}

/// The way to the event loops.
#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) state: Arc<State>,
    pub(crate) mailboxes: Arc<Vec<Mailbox>>,
}

impl Entrance {
    /// Hands a client to the loop with the fewest, unless it may not come in; `counters` are those
    /// of the calling thread.
    pub(crate) fn let_in(&self, mut arrival: Arrival, counters: &Counters) {
        let state = &self.state;
        if is_denied(&state.settings, &arrival) {
            counters.connections_rejected.add(1);
            return refuse(&mut arrival.stream, DENIED.as_bytes());
        }
        let most = state.settings.max_connections as u64;
        // Relaxed: each that comes in has a number of its own, so the limit is exact.
        if state.connections.fetch_add(1, Ordering::Relaxed) >= most {
            state.connections.fetch_sub(1, Ordering::Relaxed);
            counters.connections_rejected.add(1);
            return refuse(&mut arrival.stream, refusal(arrival.protocol));
        }
        counters.connections_total.add(1);
        Mailbox::post(&self.mailboxes, arrival);
    }
}

/// Whether a client of the Redis protocol may not come in: it is of another machine, there is no
/// password, and no certificate says who it is.
fn is_denied(settings: &Settings, arrival: &Arrival) -> bool {
    let is_known = arrival.stream.identity().is_some();
    arrival.protocol == Protocol::Resp && !is_known && is_from_outside(settings, &arrival.peer)
}

/// Whether a peer is of another machine, while those are not to come without a password.
fn is_from_outside(settings: &Settings, peer: &str) -> bool {
    settings.protected_mode && settings.password.is_empty() && !is_of_this_machine(peer)
}

/// Tells a client why it may not come in.
pub(crate) fn refuse(stream: &mut Stream, why: &[u8]) {
    let _ = stream.write(why);
    stream.end_writing();
    // Unread bytes would turn the close into a reset, which can overtake the message.
    let _ = stream.read(&mut [0; 4096]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_come_in_with_a_password_or_without_protection() {
        let open = Settings {
            protected_mode: false,
            ..Settings::default()
        };
        let guarded = Settings {
            password: "secret".to_owned(),
            ..Settings::default()
        };
        for peer in [
            "192.0.2.7:1000",
            "[2001:db8::1]:1000",
            "[::ffff:192.0.2.7]:9",
            "",
        ] {
            assert!(is_from_outside(&Settings::default(), peer), "{peer}");
            assert!(
                !is_from_outside(&open, peer) && !is_from_outside(&guarded, peer),
                "{peer}"
            );
        }
        for peer in [
            "127.0.0.1:1000",
            "127.9.9.9:1",
            "[::1]:1000",
            "[::ffff:127.0.0.1]:9",
        ] {
            assert!(!is_from_outside(&Settings::default(), peer), "{peer}");
        }
        assert!(DENIED.starts_with("-DENIED Redis is running in protected mode"));
        assert_eq!(DENIED.matches("\r\n").count(), 1);
    }
}
