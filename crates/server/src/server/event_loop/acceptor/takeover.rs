//! Takeover: the hot restart as the old process runs it.
//!
//! [`handover`](crate::upgrade::handover) defines the messages. This server stops watching its
//! listeners, whose backlogs hold new clients from then on, lets the loops hand over their
//! connections, and gives up everything at `go`. If a step before `go` fails, it watches the
//! listeners again and takes the connections back.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_config::settings::address::Address;
use cellar_net::listener::Listener;
use cellar_net::mailbox::{Arrival, Mailbox};
use cellar_net::open_sockets::place_of;
use cellar_shared::state::State;
use cellar_system::poller::Interest;

use super::{Acceptor, SUCCESSOR_TOKEN};
use crate::server::event_loop::admission::refuse;
use crate::upgrade::client_handover::ClientHandover;
use crate::upgrade::handover::hand_over::{Phase, Reaction, TakeoverPeer};
use crate::upgrade::notify::{self, Notice};

/// State of a possible hot restart.
pub(crate) struct Takeover {
    takeover_peer: TakeoverPeer,
    client_handover: Arc<ClientHandover>,
    /// Whether background maintenance was paused before it began.
    maintenance_was_paused: bool,
    is_over: bool,
}

impl Takeover {
    /// Creates it from this conversation and the loops' hand-over.
    pub(crate) fn new(
        takeover_peer: TakeoverPeer,
        client_handover: Arc<ClientHandover>,
    ) -> Takeover {
        Takeover {
            takeover_peer,
            client_handover,
            maintenance_was_paused: false,
            is_over: false,
        }
    }

    pub(super) fn control_socket(&self) -> BorrowedFd<'_> {
        self.takeover_peer.control_socket()
    }

    pub(super) fn until_ms(&self) -> Option<u64> {
        self.takeover_peer.until_ms()
    }

    fn is_quiet(&self) -> bool {
        self.takeover_peer.stage().is_some_and(Phase::is_quiet)
    }

    /// Prepares the items after the last command and before the new process gets them: pauses
    /// background maintenance and writes down the cache's state.
    fn hand_over_items(&mut self, state: &State) {
        self.maintenance_was_paused = state.maintenance_paused.swap(true, Ordering::Relaxed);
        state.cache.hand_over();
    }

    /// Undoes [`Takeover::hand_over_items`].
    fn take_back_items(&self, state: &State) {
        state.cache.take_back();
        state.databases.renew_names();
        state
            .maintenance_paused
            .store(self.maintenance_was_paused, Ordering::Relaxed);
    }
}

impl Acceptor {
    /// Takes over from the old process: its Unix socket files and its clients.
    pub(crate) fn take_over(&mut self, clients: Vec<Arrival>) {
        if let Some(takeover) = &mut self.takeover {
            takeover.takeover_peer.adopt_file();
        }
        let state = &self.admission.state;
        for listener in &mut self.listeners {
            listener.adopt_file(state.settings.unix_mode);
        }
        let may_stay = |client: &Arrival| self.has_place_for(client);
        let (clients, others): (Vec<_>, Vec<_>) = clients.into_iter().partition(may_stay);
        for client in clients {
            self.admission.admit(client, &state.statistics.acceptor);
        }
        if !others.is_empty() {
            let clients = others.len();
            tracing::info!(
                clients,
                "closed clients whose addresses are not in the settings"
            );
        }
        for mut client in others {
            refuse(&mut client.stream, b"");
        }
    }

    /// Whether a client can be taken over: by the listener of the address that it connected to, or,
    /// if no listener has that address, by any of the same protocol and transport.
    fn has_place_for(&self, client: &Arrival) -> bool {
        let place = place_of(&client.stream);
        let is_there = |one: &&Listener| place.as_ref().is_some_and(|place| takes_in(one, place));
        let is_its_own = |one: &Listener| {
            let is_same = one.protocol == client.protocol;
            is_same && !one.is_tls() && one.transport == client.stream.transport()
        };
        match self.listeners.iter().find(is_there) {
            Some(listener) => is_its_own(listener),
            None => self.listeners.iter().any(is_its_own),
        }
    }

    /// Whether no connections are accepted because a new process is taking over.
    pub(super) fn is_quiet(&self) -> bool {
        self.takeover.as_ref().is_some_and(Takeover::is_quiet)
    }

    /// Answers a process that wants to take over.
    pub(super) fn greet(&mut self, now_ms: u64) {
        let refusal = if self.leave_ms.is_some() {
            Some("the server is shutting down")
        } else if self.admission.state.cache.is_read_before() {
            Some("the server before it is still sending values to slow clients")
        } else if self.admission.state.cache.has_unchecked() {
            Some("it still checks the items of a server that was killed")
        } else {
            None
        };
        let Some(takeover) = &mut self.takeover else {
            return;
        };
        match takeover.takeover_peer.greet(refusal, now_ms) {
            Ok(None) => {}
            Ok(Some(channel)) => {
                let added = self.poller.add(channel, SUCCESSOR_TOKEN, Interest::Level);
                if let Err(errno) = added {
                    self.abandon(&std::io::Error::from(errno).to_string());
                }
            }
            Err(errno) => self.shut(errno, now_ms),
        }
    }

    /// Receives and handles a message of the new process.
    pub(super) fn hear(&mut self, now_ms: u64) {
        let Some(takeover) = &mut self.takeover else {
            return;
        };
        match takeover.takeover_peer.hear(&self.listeners, now_ms) {
            Reaction::Nothing => {}
            Reaction::Yield => self.begin_to_yield(),
            Reaction::Over => takeover.is_over = true,
            Reaction::Abandon(reason) => self.abandon(&reason),
        }
    }

    /// Stops accepting, and lets the loops finish their requests.
    fn begin_to_yield(&mut self) {
        let state = &self.admission.state;
        state.run.set_leaving(true);
        for listener in &self.listeners {
            let _ = self.poller.remove(listener);
        }
        if let Some(takeover) = &self.takeover {
            takeover.client_handover.begin(&self.admission.mailboxes);
        }
    }

    /// Continues a hot restart in progress; returns whether the new process serves.
    pub(super) fn go_on_handing_over(&mut self, now_ms: u64) -> bool {
        let Some(takeover) = &mut self.takeover else {
            return false;
        };
        let stage = takeover.takeover_peer.stage();
        let loops = self.admission.mailboxes.len();
        let late = takeover.until_ms().is_some_and(|until| until <= now_ms);
        if takeover.is_over {
            return true;
        } else if stage == Some(Phase::Yielding) && takeover.client_handover.settled() == loops {
            self.give(now_ms);
        } else if late {
            self.abandon("it took too long");
        }
        false
    }

    /// Gives the new process everything, now that no loop runs a request.
    fn give(&mut self, now_ms: u64) {
        let Some(takeover) = &mut self.takeover else {
            return;
        };
        takeover.hand_over_items(&self.admission.state);
        let clients = takeover.client_handover.take();
        let memory = self.admission.state.cache.state_file();
        let (others, next) = takeover.takeover_peer.give(clients, memory, now_ms);
        // The loops end them.
        for client in others {
            self.admission
                .admit(client, &self.admission.state.statistics.acceptor);
        }
        if let Reaction::Abandon(reason) = next {
            self.abandon(&reason);
        }
    }

    /// Resumes service, if a new process had begun to take over.
    pub(super) fn abandon(&mut self, reason: &str) {
        let Some(takeover) = &mut self.takeover else {
            return;
        };
        let Some(stage) = takeover.takeover_peer.stage() else {
            return;
        };
        let mut clients = takeover.takeover_peer.abandon(reason);
        if !stage.is_quiet() {
            return;
        }
        let state = &self.admission.state;
        if stage == Phase::Given {
            takeover.take_back_items(state);
        }
        state.run.set_leaving(self.leave_ms.is_some());
        clients.extend(takeover.client_handover.end(&self.admission.mailboxes));
        for client in clients {
            self.admission
                .admit(client, &self.admission.state.statistics.acceptor);
        }
        let opened = self.open();
        if let Err(errno) = opened {
            tracing::warn!(error = %errno, "cannot accept connections; retrying");
        }
        // It may have paused when the takeover began.
        self.shut_until_ms = opened.is_err().then_some(0);
    }

    /// Releases everything: the new process serves.
    pub(super) fn let_go(mut self) {
        let Some(takeover) = self.takeover.take() else {
            return;
        };
        let pid = takeover.takeover_peer.pid().unwrap_or_default();
        let listeners = self.listeners.len();
        for listener in &mut self.listeners {
            listener.keep_file();
        }
        self.listeners.clear();
        notify::tell(Notice::Successor(pid));
        let clients = takeover.takeover_peer.let_go();
        tracing::info!(pid, listeners, clients, "handed over to the new server");
        Mailbox::drain(&self.admission.mailboxes);
    }
}

/// Whether this listener accepts connections to the local address `place`.
fn takes_in(listener: &Listener, place: &Address) -> bool {
    let socket = |address: &Address| match address {
        Address::Tcp(text) | Address::Tls(text) => text.parse::<SocketAddr>().ok(),
        Address::Unix(_) => None,
    };
    let (Some(own), Some(theirs)) = (socket(&listener.address), socket(place)) else {
        return listener.address == *place;
    };
    let is_any = own.ip().is_unspecified() && own.is_ipv4() == theirs.is_ipv4();
    own == theirs || is_any && own.port() == theirs.port()
}
