//! Acceptor: where connections come in, on a thread of its own, for all event loops.
//!
//! It also hears the signals, so neither a new client nor an operator waits for a loop that is held
//! by a long command. It ends when the drain begins.
//!
//! Why: docs/decisions/0026. Tests: tests/turns.rs, tests/drain.rs, tests/connections.rs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use rustix::io::Errno;

use crate::clock::LoopClock;
use crate::listener::{Listener, is_of_this_machine};
use crate::mailbox::{Arrival, Mailbox};
use crate::poller::{Interest, Poller, Waker};
use crate::protocol::Protocol;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::state::State;
use crate::stream::Stream;

/// Token of the waker.
const WAKE_TOKEN: u64 = u64::MAX;
/// Token of the signals; a listener's is its number.
const SIGNAL_TOKEN: u64 = u64::MAX - 1;
/// Most listeners.
pub(crate) const LISTENERS_MAX: usize = 64;
/// Connections accepted from one address before the next one's turn.
const ACCEPTS_PER_TURN_MAX: usize = 64;
/// Longest sleep.
const SLEEP_MS: u32 = 60_000;
/// How long it takes none in when the system has no room for a connection.
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

/// Listeners and signals.
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    /// Polled, and never read: the first one is enough.
    _signals: Signals,
    /// Wakes it when the drain has begun; polled as well.
    _waker: Arc<Waker>,
    state: Arc<State>,
    mailboxes: Arc<Vec<Mailbox>>,
    poller: Poller,
    shut_until_ms: Option<u64>,
    /// Whether the last attempt failed, so that one line in the log tells of a whole series.
    failing: bool,
}

impl Acceptor {
    /// An acceptor for these listeners, which are not looked at yet.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub(crate) fn new(
        listeners: Vec<Listener>,
        signals: Signals,
        waker: Arc<Waker>,
        (state, mailboxes): (Arc<State>, Arc<Vec<Mailbox>>),
    ) -> Result<Acceptor, Errno> {
        let poller = Poller::new()?;
        poller.add(&waker, WAKE_TOKEN, Interest::Reads)?;
        poller.add(&signals, SIGNAL_TOKEN, Interest::Reads)?;
        let acceptor = Acceptor {
            listeners,
            _signals: signals,
            _waker: waker,
            state,
            mailboxes,
            poller,
            shut_until_ms: None,
            failing: false,
        };
        acceptor.open()?;
        Ok(acceptor)
    }

    /// Lets clients in, on a thread of its own.
    ///
    /// # Errors
    /// The system's, when it has no further thread.
    pub(crate) fn start(
        self,
        clock: LoopClock,
    ) -> Result<JoinHandle<Result<(), Errno>>, std::io::Error> {
        let thread = thread::Builder::new().name("cellar-accept".to_owned());
        thread.spawn(move || self.run(&clock))
    }

    fn run(mut self, clock: &LoopClock) -> Result<(), Errno> {
        // Relaxed: it is woken behind it, and a look too early is followed by another.
        while !self.state.draining.load(Ordering::Relaxed) {
            let now_ms = clock.us() / 1_000;
            self.reopen(now_ms);
            let until = self
                .shut_until_ms
                .map(|until| until.saturating_sub(now_ms) + 1);
            let sleep_ms = until.and_then(|ms| u32::try_from(ms).ok());
            let count = self.poller.wait(sleep_ms.unwrap_or(SLEEP_MS))?;
            for index in 0..count {
                match self.poller.ready(index).token {
                    WAKE_TOKEN => {}
                    SIGNAL_TOKEN => {
                        Mailbox::drain(&self.mailboxes);
                        return Ok(());
                    }
                    listener => self.accept(listener as usize, clock),
                }
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<(), Errno> {
        for (token, listener) in self.listeners.iter().enumerate() {
            self.poller.add(listener, token as u64, Interest::Level)?;
        }
        Ok(())
    }

    /// Accepts what waits at one listener.
    fn accept(&mut self, index: usize, clock: &LoopClock) {
        if self.shut_until_ms.is_some() {
            return;
        }
        let Some(listener) = self.listeners.get(index) else {
            return;
        };
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            match listener.accept() {
                Ok(stream) => {
                    self.failing = false;
                    self.let_in(listener, stream);
                }
                Err(Errno::AGAIN) => return,
                // The client gave up while it waited.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO | Errno::PERM) => {}
                Err(errno) => {
                    self.state.acceptor.accept_failures.add(1);
                    if !std::mem::replace(&mut self.failing, true) {
                        tracing::warn!(error = %errno, "no room for connections; trying on");
                    }
                    return self.shut(clock.us() / 1_000);
                }
            }
        }
    }

    /// Hands a client to the loop with the fewest, unless it may not come in.
    fn let_in(&self, listener: &Listener, mut stream: Stream) {
        let (state, counters) = (&self.state, &self.state.acceptor);
        let peer = listener.peer_of(&stream);
        if listener.protocol == Protocol::Resp && is_denied(&state.settings, &peer) {
            counters.connections_rejected.add(1);
            return refuse(&mut stream, DENIED.as_bytes());
        }
        let most = state.settings.max_connections as u64;
        // Relaxed: only the acceptor adds, so the limit is exact.
        if state.connections.load(Ordering::Relaxed) >= most {
            counters.connections_rejected.add(1);
            return refuse(&mut stream, refusal(listener.protocol));
        }
        counters.connections_total.add(1);
        state.connections.fetch_add(1, Ordering::Relaxed);
        let arrival = Arrival {
            peer,
            stream,
            protocol: listener.protocol,
        };
        Mailbox::post(&self.mailboxes, arrival);
    }

    /// Looks away from the listeners, which would be reported again and again.
    fn shut(&mut self, now_ms: u64) {
        for listener in &self.listeners {
            let _ = self.poller.remove(listener);
        }
        self.shut_until_ms = Some(now_ms + SHUT_MS);
    }

    /// Looks at the listeners again when it is time.
    fn reopen(&mut self, now_ms: u64) {
        if self.shut_until_ms.is_some_and(|until| until <= now_ms) {
            let opened = self.open();
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
fn refuse(stream: &mut Stream, why: &[u8]) {
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
