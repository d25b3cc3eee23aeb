//! Door: where the first event loop accepts connections for all loops.

use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use crate::counters::Counters;
use crate::listener::{Listener, Protocol, is_of_this_machine};
use crate::mailbox::{Arrival, Mailbox};
use crate::poller::{Interest, Poller};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::state::State;

/// Connections accepted from one address before the loop turns to its requests again.
const ACCEPTS_PER_TURN_MAX: usize = 64;
/// How long the door stays shut when the system has no room for a connection.
const SHUT_MS: u64 = 100;
/// What a client beyond the limit is told.
///
/// Sources: memcached 1.6.45, `maxconns_fast`; Redis 7, `maxclients`.
fn refusal(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Memcached => b"ERROR Too many open connections\r\n",
        Protocol::Resp => b"-ERR max number of clients reached\r\n",
        Protocol::Http => {
            b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
              Content-Type: application/json\r\nContent-Length: 66\r\n\r\n\
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

/// Listeners and signals.
pub(crate) struct Door {
    listeners: Vec<Listener>,
    signals: Signals,
    shut_until_ms: Option<u64>,
    /// Whether the last attempt failed, so that one line in the log tells of a whole series.
    failing: bool,
}

impl Door {
    pub(crate) fn new(listeners: Vec<Listener>, signals: Signals) -> Door {
        Door {
            listeners,
            signals,
            shut_until_ms: None,
            failing: false,
        }
    }

    /// Registers all listeners, counting tokens down from `first_token`, and the signals.
    pub(super) fn register(
        &self,
        poller: &Poller,
        first_token: u64,
        signal_token: u64,
    ) -> Result<(), Errno> {
        poller.add(&self.signals, signal_token, Interest::Reads)?;
        self.open(poller, first_token)
    }

    fn open(&self, poller: &Poller, first_token: u64) -> Result<(), Errno> {
        for (token, listener) in self.listeners.iter().enumerate() {
            poller.add(listener, first_token - token as u64, Interest::Level)?;
        }
        Ok(())
    }

    /// Accepts what waits at one listener.
    pub(super) fn accept(
        &mut self,
        index: usize,
        (state, counters, mailboxes): (&State, &Counters, &[Mailbox]),
        poller: &Poller,
        now_ms: u64,
    ) {
        if self.shut_until_ms.is_some() {
            return;
        }
        let Some(listener) = self.listeners.get(index) else {
            return;
        };
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            match listener.accept() {
                Ok(socket) => {
                    self.failing = false;
                    let peer = listener.peer_of(&socket);
                    if listener.protocol == Protocol::Resp && is_denied(&state.settings, &peer) {
                        counters.connections_rejected.add(1);
                        refuse(&socket, DENIED.as_bytes());
                        continue;
                    }
                    let most = state.settings.max_connections as u64;
                    // Relaxed: only this loop adds, so the limit is exact.
                    if state.connections.load(Ordering::Relaxed) >= most {
                        counters.connections_rejected.add(1);
                        refuse(&socket, refusal(listener.protocol));
                        continue;
                    }
                    counters.connections_total.add(1);
                    state.connections.fetch_add(1, Ordering::Relaxed);
                    let arrival = Arrival {
                        peer,
                        socket,
                        transport: listener.transport,
                        protocol: listener.protocol,
                    };
                    Mailbox::post(mailboxes, arrival);
                }
                Err(Errno::AGAIN) => return,
                // The client gave up while it waited.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO | Errno::PERM) => {}
                Err(errno) => {
                    counters.accept_failures.add(1);
                    if !std::mem::replace(&mut self.failing, true) {
                        tracing::warn!(error = %errno, "no room for connections; trying on");
                    }
                    self.shut(poller, now_ms);
                    return;
                }
            }
        }
    }

    /// Looks away from the listeners, which would be reported again and again.
    fn shut(&mut self, poller: &Poller, now_ms: u64) {
        for listener in &self.listeners {
            let _ = poller.remove(listener);
        }
        self.shut_until_ms = Some(now_ms + SHUT_MS);
    }

    /// Looks at the listeners again when it is time.
    pub(super) fn reopen(&mut self, poller: &Poller, first_token: u64, now_ms: u64) {
        if self.shut_until_ms.is_some_and(|until| until <= now_ms) {
            let opened = self.open(poller, first_token);
            self.shut_until_ms = opened.is_err().then_some(now_ms + SHUT_MS);
        }
    }
}

/// Whether a client of the Redis protocol that comes from `peer` may not come in: it is of another
/// machine and there is no password.
fn is_denied(settings: &Settings, peer: &str) -> bool {
    settings.protected_mode && settings.password.is_empty() && !is_of_this_machine(peer)
}

/// Tells a client why it may not come in.
fn refuse(socket: &impl std::os::fd::AsFd, why: &[u8]) {
    let _ = rustix::net::send(socket, why, SendFlags::NOSIGNAL);
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    // Unread bytes would turn the close into a reset, which can overtake the message.
    let _ = rustix::net::recv(socket, &mut [0; 4096], RecvFlags::empty());
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
            assert!(is_denied(&Settings::default(), peer), "{peer}");
            assert!(
                !is_denied(&open, peer) && !is_denied(&guarded, peer),
                "{peer}"
            );
        }
        for peer in [
            "127.0.0.1:1000",
            "127.9.9.9:1",
            "[::1]:1000",
            "[::ffff:127.0.0.1]:9",
        ] {
            assert!(!is_denied(&Settings::default(), peer), "{peer}");
        }
        assert!(DENIED.starts_with("-DENIED Redis is running in protected mode"));
        assert_eq!(DENIED.matches("\r\n").count(), 1);
    }
}
