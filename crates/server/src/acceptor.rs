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
use crate::entrance::Entrance;
use crate::handshakes::Antechamber;
use crate::listener::Listener;
use crate::mailbox::{Arrival, Mailbox};
use crate::poller::{Interest, Poller, Waker};
use crate::signals::{Hangups, Signals};
use crate::stream::Stream;

/// Token of the waker.
const WAKE_TOKEN: u64 = u64::MAX;
/// Token of the signals; a listener's is its number.
const SIGNAL_TOKEN: u64 = u64::MAX - 1;
/// Token of SIGHUP.
const HANGUP_TOKEN: u64 = u64::MAX - 2;
/// Most listeners.
pub(crate) const LISTENERS_MAX: usize = 64;
/// Connections accepted from one address before the next one's turn.
const ACCEPTS_PER_TURN_MAX: usize = 64;
/// Longest sleep.
const SLEEP_MS: u32 = 60_000;
/// How long it takes none in when the system has no room for a connection.
const SHUT_MS: u64 = 100;
/// Listeners and signals.
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    /// Polled, and never read: the first one is enough.
    _signals: Signals,
    /// SIGHUP, on a server where nobody else hears it.
    hangups: Option<Hangups>,
    /// Wakes it when the drain has begun; polled as well.
    _waker: Arc<Waker>,
    entrance: Entrance,
    /// Where clients of TLS go first, if there are any.
    handshakes: Option<Antechamber>,
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
        (entrance, handshakes): (Entrance, Option<Antechamber>),
    ) -> Result<Acceptor, Errno> {
        let poller = Poller::new()?;
        poller.add(&waker, WAKE_TOKEN, Interest::Reads)?;
        poller.add(&signals, SIGNAL_TOKEN, Interest::Reads)?;
        let reads_files = handshakes.is_some() || entrance.state.users.is_some();
        let hangups = (!reads_files).then(Hangups::take_over).transpose();
        let hangups =
            hangups.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NFILE))?;
        if let Some(hangups) = &hangups {
            poller.add(hangups, HANGUP_TOKEN, Interest::Level)?;
        }
        let acceptor = Acceptor {
            listeners,
            _signals: signals,
            hangups,
            _waker: waker,
            entrance,
            handshakes,
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
        while !self.entrance.state.draining.load(Ordering::Relaxed) {
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
                        Mailbox::drain(&self.entrance.mailboxes);
                        return Ok(());
                    }
                    HANGUP_TOKEN => self.hear_hangup(),
                    listener => self.accept(listener as usize, clock),
                }
            }
        }
        Ok(())
    }

    /// Tells that there is nothing that SIGHUP could have read anew.
    fn hear_hangup(&mut self) {
        if self.hangups.as_mut().is_some_and(Hangups::take) {
            tracing::info!("SIGHUP: there are no certificates and no users to read anew");
        }
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
                    self.entrance.state.acceptor.accept_failures.add(1);
                    if !std::mem::replace(&mut self.failing, true) {
                        tracing::warn!(error = %errno, "no room for connections; trying on");
                    }
                    return self.shut(clock.us() / 1_000);
                }
            }
        }
    }

    /// Shows a client in, or to where TLS is agreed on first.
    fn let_in(&self, listener: &Listener, stream: Stream) {
        let arrival = Arrival {
            peer: listener.peer_of(&stream),
            stream,
            protocol: listener.protocol,
        };
        match &self.handshakes {
            Some(handshakes) if listener.is_tls() => handshakes.post(arrival),
            _ => self.entrance.let_in(arrival, &self.entrance.state.acceptor),
        }
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
