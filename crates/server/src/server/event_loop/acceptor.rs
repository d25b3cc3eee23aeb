//! Acceptor: accepts connections for all event loops, on its own thread.
//!
//! It also handles SIGTERM, so neither new clients nor an operator wait for an event loop that
//! executes a long command. After SIGTERM it accepts for `--lame-duck`, then empties the backlogs,
//! closes the listeners, and only then lets the loops drain: a disconnected client does not
//! reconnect to this server. A new process gets the open listeners ([`takeover`]).
//!
//! Why: docs/decisions/0026, 0056. Tests: tests/turns.rs, tests/drain.rs, tests/connections.rs,
//! tests/takeover.rs.

pub(crate) mod takeover; // how a new process takes over

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use cellar_config::settings::units::show_duration_ms;
use cellar_net::listener::{BACKLOG, Listener};
use cellar_net::mailbox::{Arrival, ClientSetup, Mailbox};
use cellar_net::stream::Stream;
use cellar_system::clock::LoopClock;
use cellar_system::poller::{Interest, Poller, Waker};
use cellar_system::signals::Signals;
use rustix::io::Errno;

use self::takeover::Takeover;
use crate::server::event_loop::admission::Admission;
use crate::server::event_loop::handshakes::Antechamber;
use crate::upgrade::notify::{self, Notice};

/// Token of the waker.
const WAKE_TOKEN: u64 = u64::MAX;
/// Token of the signals; a listener's is its number.
const SIGNAL_TOKEN: u64 = u64::MAX - 1;
/// Token of the socket of --control.
const CONTROL_SOCKET_TOKEN: u64 = u64::MAX - 2;
/// Token of a new process.
const SUCCESSOR_TOKEN: u64 = u64::MAX - 3;
/// Most listeners.
pub(crate) const LISTENERS_MAX: usize = 64;
/// Connections accepted from one listener before it is closed: the length of its backlog.
const LAST_ACCEPTS_MAX: usize = BACKLOG as usize;
/// Longest sleep.
const SLEEP_MS: u32 = 60_000;
/// How long it accepts no connections after the system has refused one.
const SHUT_MS: u64 = 100;

/// Listeners and signals.
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    /// Polled, and never read: the first byte is enough.
    _signals: Signals,
    /// Wakes it when the drain has begun; polled as well.
    _waker: Arc<Waker>,
    admission: Admission,
    /// Queue of new TLS connections to the handshake thread, if TLS is configured.
    handshakes: Option<Antechamber>,
    poller: Poller,
    shut_until_ms: Option<u64>,
    /// When the drain begins, after SIGTERM.
    leave_ms: Option<u64>,
    /// The hot restart, if one is possible.
    takeover: Option<Takeover>,
    /// Whether the last attempt failed, so that a series of failures gives one log line.
    failing: bool,
}

impl Acceptor {
    /// Creates an acceptor for these listeners, which the poller does not watch yet.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub(crate) fn new(
        listeners: Vec<Listener>,
        signals: Signals,
        waker: Arc<Waker>,
        (admission, handshakes): (Admission, Option<Antechamber>),
        takeover: Option<Takeover>,
    ) -> Result<Acceptor, Errno> {
        let poller = Poller::new()?;
        poller.add(&waker, WAKE_TOKEN, Interest::Reads)?;
        poller.add(&signals, SIGNAL_TOKEN, Interest::Reads)?;
        let acceptor = Acceptor {
            listeners,
            _signals: signals,
            _waker: waker,
            admission,
            handshakes,
            poller,
            shut_until_ms: None,
            leave_ms: None,
            takeover,
            failing: false,
        };
        acceptor.open()?;
        Ok(acceptor)
    }

    /// Accepts clients, on its own thread.
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
        // Relaxed: it is woken afterwards, and a check that is too early is followed by another.
        while !self.admission.state.run.is_draining() {
            let now_ms = clock.us() / 1_000;
            let is_quiet = self.is_quiet();
            if !is_quiet && self.leave_ms.is_some_and(|at| at <= now_ms) {
                break;
            }
            if !is_quiet {
                self.reopen(now_ms);
            }
            let count = self.poller.wait(self.sleep_ms(now_ms))?;
            let mut has_let_in = false;
            for index in 0..count {
                match self.poller.ready(index).token {
                    WAKE_TOKEN => {}
                    SIGNAL_TOKEN => self.begin_to_leave(clock.us() / 1_000),
                    CONTROL_SOCKET_TOKEN => self.greet(clock.us() / 1_000),
                    SUCCESSOR_TOKEN => self.hear(clock.us() / 1_000),
                    // One connection per event: another accept that fails costs more than another
                    // event.
                    listener => has_let_in |= self.accept(listener as usize, clock),
                }
            }
            if !has_let_in {
                self.admission.state.statistics.acceptor.pulse.beat();
            }
            if self.go_on_handing_over(clock.us() / 1_000) {
                self.let_go();
                return Ok(());
            }
        }
        self.leave(clock);
        Ok(())
    }

    fn sleep_ms(&self, now_ms: u64) -> u32 {
        let takeover = self.takeover.as_ref();
        let until = if self.is_quiet() {
            takeover.and_then(Takeover::until_ms)
        } else {
            let until = self.shut_until_ms.into_iter().chain(self.leave_ms);
            until.chain(takeover.and_then(Takeover::until_ms)).min()
        };
        let ms = until.map(|until| until.saturating_sub(now_ms) + 1);
        let ms = ms.and_then(|ms| u32::try_from(ms).ok());
        ms.map_or(SLEEP_MS, |ms| ms.min(SLEEP_MS))
    }

    /// Makes health probes report that the server is no longer ready.
    fn begin_to_leave(&mut self, now_ms: u64) {
        // A hot restart past its commit continues: this server ends in any case.
        if !self.is_quiet() {
            self.abandon("the server is shutting down");
        }
        let state = &self.admission.state;
        let ms = state.settings.lame_duck_ms;
        state.run.set_leaving(true);
        self.leave_ms.get_or_insert(now_ms.saturating_add(ms));
        notify::tell(Notice::Stopping);
        if ms > 0 {
            let ms = show_duration_ms(ms);
            tracing::info!("shutting down: not ready, but serving for {ms}");
        }
    }

    /// Accepts the connections in the backlogs, closes the listeners, and lets the loops drain.
    fn leave(mut self, clock: &LoopClock) {
        self.abandon("the server is shutting down");
        for index in 0..self.listeners.len() {
            for _ in 0..LAST_ACCEPTS_MAX {
                if !self.accept(index, clock) {
                    break;
                }
            }
        }
        self.listeners.clear();
        Mailbox::drain(&self.admission.mailboxes);
    }

    /// Watches all listeners and the socket of --control, or none of them.
    fn open(&self) -> Result<(), Errno> {
        let listeners = self.listeners.iter().map(AsFd::as_fd).zip(0_u64..);
        let control_socket = self
            .takeover
            .as_ref()
            .map(|it| (it.control_socket(), CONTROL_SOCKET_TOKEN));
        for (socket, token) in listeners.chain(control_socket) {
            match self.poller.add(socket, token, Interest::Level) {
                // The poller watches it already.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => {
                    // Accept from all listeners or from none: level-triggered events of one that is
                    // watched but not served would repeat.
                    self.look_away();
                    return Err(errno);
                }
            }
        }
        Ok(())
    }

    /// Stops watching level-triggered sockets.
    fn look_away(&self) {
        for listener in &self.listeners {
            let _ = self.poller.remove(listener);
        }
        if let Some(takeover) = &self.takeover {
            let _ = self.poller.remove(takeover.control_socket());
        }
    }

    /// Accepts the oldest connection in a listener's backlog; returns whether more may wait.
    fn accept(&mut self, index: usize, clock: &LoopClock) -> bool {
        if self.shut_until_ms.is_some() {
            return false;
        }
        let Some(listener) = self.listeners.get(index) else {
            return false;
        };
        match listener.accept() {
            Ok((stream, peer)) => {
                self.failing = false;
                self.admit(listener, stream, peer);
            }
            Err(Errno::AGAIN) => return false,
            // The client disconnected while it waited.
            Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO | Errno::PERM) => {}
            Err(errno) => {
                self.shut(errno, clock.us() / 1_000);
                return false;
            }
        }
        true
    }

    /// Admits a client, or passes it to the TLS handshake thread first.
    fn admit(&self, listener: &Listener, stream: Stream, peer: String) {
        let arrival = Arrival {
            peer,
            stream,
            protocol: listener.protocol,
            setup: ClientSetup::default(),
        };
        match &self.handshakes {
            Some(handshakes) if listener.is_tls() => handshakes.post(arrival),
            _ => self
                .admission
                .admit(arrival, &self.admission.state.statistics.acceptor),
        }
    }

    /// Stops accepting for a while: the system lacks resources for the connection.
    fn shut(&mut self, errno: Errno, now_ms: u64) {
        self.admission
            .state
            .statistics
            .acceptor
            .accept_failures
            .add(1);
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(error = %errno, "cannot accept connections; retrying");
        }
        self.look_away();
        self.shut_until_ms = Some(now_ms + SHUT_MS);
    }

    /// Watches the listeners again when the pause has ended.
    fn reopen(&mut self, now_ms: u64) {
        if self.shut_until_ms.is_some_and(|until| until <= now_ms) {
            let opened = self.open();
            self.shut_until_ms = opened.is_err().then_some(now_ms + SHUT_MS);
        }
    }
}
