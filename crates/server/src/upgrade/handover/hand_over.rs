//! Hand over: the old server's side, on the acceptor's thread, which never blocks here.
//!
//! ```text
//!  nobody --ask--> Offered --take--> Yielding --all loops have settled--> Given --mine--> over
//!     ^               |                 |                                   |
//!     +---------------+-----------------+--- gone, too slow, not understood +
//! ```
//!
//! One new process at a time; a second one is refused.

use std::os::fd::{AsFd, BorrowedFd};

use cellar_config::logging::printable;
use cellar_net::listener::Listener;
use cellar_net::mailbox::Arrival;
use rustix::io::Errno;
use rustix::process::{geteuid, getpid};

use super::control_socket::ControlSocket;
use super::wire::{Channel, FILES_MAX, Heard, SETUP_VERSION, ToldClient, VERSIONS, Word};

/// Longest time from the connection to the first message.
const ASK_MS: u64 = 2_000;
/// Longest time for a new process to get ready, while this server continues.
const OFFER_MS: u64 = 60_000;
/// Longest time until it says that it can serve, while no process serves.
const GIVEN_MS: u64 = 10_000;
/// Added to `--drain-timeout` for the time that this server says it needs.
const GRACE_MS: u64 = 1_000;

/// The progress of a new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is there.
    Greeted,
    /// It has the listeners, and gets ready.
    Offered,
    /// It waits until this server has settled.
    Yielding,
    /// It has everything.
    Given,
}

impl Phase {
    /// Whether this server accepts no connections.
    pub(crate) fn is_quiet(self) -> bool {
        matches!(self, Phase::Yielding | Phase::Given)
    }
}

/// The process that takes over.
#[derive(Debug)]
struct Successor {
    channel: Channel,
    pid: i32,
    server: String,
    /// The version of the conversation.
    version: u32,
    stage: Phase,
    until_ms: u64,
    clients_max: usize,
    /// Copies of the connections that it has.
    clients: Vec<Arrival>,
}

/// The consequence of a new process's message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing for now.
    Nothing,
    /// This server has to settle.
    Yield,
    /// The new process serves; this server ends.
    Over,
    /// The hand-over has failed, for this reason.
    Abandon(String),
}

/// The socket of `--control`, and the process that takes over by it.
#[derive(Debug)]
pub(crate) struct TakeoverPeer {
    control_socket: ControlSocket,
    drain_ms: u64,
    successor: Option<Successor>,
}

impl TakeoverPeer {
    /// Creates it without a new process. `drain_ms` is `--drain-timeout`.
    pub(crate) fn new(control_socket: ControlSocket, drain_ms: u64) -> TakeoverPeer {
        TakeoverPeer {
            control_socket,
            drain_ms,
            successor: None,
        }
    }

    /// Makes the socket file this process's, which it was not before it had taken over.
    pub(crate) fn adopt_file(&mut self) {
        self.control_socket.adopt_file();
    }

    /// The socket where new processes connect.
    pub(crate) fn control_socket(&self) -> BorrowedFd<'_> {
        self.control_socket.as_fd()
    }

    /// The progress of the new process; none without one.
    pub(crate) fn stage(&self) -> Option<Phase> {
        self.successor.as_ref().map(|successor| successor.stage)
    }

    /// When the new process has taken too long.
    pub(crate) fn until_ms(&self) -> Option<u64> {
        self.successor.as_ref().map(|successor| successor.until_ms)
    }

    /// The new process's process.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.successor.as_ref().map(|successor| successor.pid)
    }

    /// Accepts a process that wants to take over, unless there is a reason to refuse it; returns
    /// the connection to listen to.
    ///
    /// # Errors
    /// The system's, when it lacks resources for the connection.
    pub(crate) fn greet(
        &mut self,
        refusal: Option<&str>,
        now_ms: u64,
    ) -> Result<Option<BorrowedFd<'_>>, Errno> {
        let channel = match self.control_socket.accept() {
            Ok(channel) => channel,
            // The process has disconnected.
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let refuse = |reason: &str| {
            tracing::warn!("not handing over: {reason}");
            let _ = channel.say(&Word::Refused(reason.to_owned()), &[]);
        };
        let Ok(peer) = channel.peer() else {
            return Ok(None);
        };
        if peer.uid != geteuid() {
            let (theirs, ours) = (peer.uid.as_raw(), geteuid().as_raw());
            refuse(&format!(
                "the new server runs as user {theirs}, this one as {ours}"
            ));
        } else if let Some(reason) = refusal {
            refuse(reason);
        } else if self.successor.is_some() {
            refuse("another takeover is in progress");
        } else {
            let successor = Successor {
                channel,
                pid: peer.pid.as_raw_nonzero().get(),
                server: String::new(),
                version: 0,
                stage: Phase::Greeted,
                until_ms: now_ms + ASK_MS,
                clients_max: 0,
                clients: Vec::new(),
            };
            let successor = self.successor.insert(successor);
            return Ok(Some(successor.channel.as_fd()));
        }
        Ok(None)
    }

    /// Receives a message of the new process; `listeners` are offered to it.
    pub(crate) fn hear(&mut self, listeners: &[Listener], now_ms: u64) -> Reaction {
        let Some(successor) = &mut self.successor else {
            return Reaction::Nothing;
        };
        let heard = successor.channel.listen();
        match (successor.stage, heard) {
            (_, Heard::Nothing) => Reaction::Nothing,
            (Phase::Greeted, Heard::Said(Word::Ask { versions, server }, _)) => {
                let version = *versions.end().min(VERSIONS.end());
                if !versions.contains(&version) || !VERSIONS.contains(&version) {
                    return Reaction::Abandon(format!(
                        "version {} supports takeover {} to {}, this one {} to {}",
                        printable(&server),
                        versions.start(),
                        versions.end(),
                        VERSIONS.start(),
                        VERSIONS.end(),
                    ));
                }
                let offer = Word::Offer {
                    version,
                    server: env!("CARGO_PKG_VERSION").to_owned(),
                    patience_ms: self.drain_ms.saturating_add(GRACE_MS),
                    pid: Some(getpid().as_raw_nonzero().get()),
                };
                let mut files = vec![self.control_socket.as_fd()];
                files.extend(listeners.iter().map(AsFd::as_fd));
                successor.server = printable(&server);
                successor.version = version;
                successor.stage = Phase::Offered;
                successor.until_ms = now_ms + OFFER_MS;
                after(successor.channel.say(&offer, &files), Reaction::Nothing)
            }
            (Phase::Offered, Heard::Said(Word::Take(clients_max), _)) => {
                let (pid, version) = (successor.pid, &successor.server);
                tracing::info!(pid, version, "handing over to the new server");
                successor.stage = Phase::Yielding;
                successor.clients_max = clients_max;
                successor.until_ms = now_ms.saturating_add(self.drain_ms);
                Reaction::Yield
            }
            (Phase::Given, Heard::Said(Word::Mine, _)) => {
                after(successor.channel.say(&Word::Go, &[]), Reaction::Over)
            }
            (_, Heard::Gone) => Reaction::Abandon("it has exited".to_owned()),
            (_, Heard::Said(..) | Heard::Garbled) => {
                Reaction::Abandon("its message is not valid".to_owned())
            }
        }
    }

    /// Gives the new process these clients, the memory that outlives this process and everything
    /// else, now that this server has settled; returns the clients that do not fit there.
    pub(crate) fn give(
        &mut self,
        mut clients: Vec<Arrival>,
        memory: Option<BorrowedFd<'_>>,
        now_ms: u64,
    ) -> (Vec<Arrival>, Reaction) {
        let Some(successor) = &mut self.successor else {
            return (clients, Reaction::Nothing);
        };
        let mut others = Vec::new();
        if successor.version < SETUP_VERSION {
            let is_plain = |one: &Arrival| one.setup.is_empty();
            (clients, others) = clients.into_iter().partition(is_plain);
        }
        others.extend(clients.split_off(clients.len().min(successor.clients_max)));
        successor.clients = clients;
        successor.stage = Phase::Given;
        successor.until_ms = now_ms + GIVEN_MS;
        for some in successor.clients.chunks(FILES_MAX) {
            let told = some.iter().map(ToldClient::of);
            let files: Vec<BorrowedFd<'_>> = some.iter().map(|one| one.stream.as_fd()).collect();
            let said = successor
                .channel
                .say(&Word::Clients(told.collect()), &files);
            if said.is_err() {
                return (others, after(said, Reaction::Nothing));
            }
        }
        let memory: Vec<BorrowedFd<'_>> = memory.into_iter().collect();
        let said = successor.channel.say(&Word::Yours, &memory);
        (others, after(said, Reaction::Nothing))
    }

    /// Ends the connection, with a reason; returns the clients that had been handed over.
    pub(crate) fn abandon(&mut self, reason: &str) -> Vec<Arrival> {
        let Some(successor) = self.successor.take() else {
            return Vec::new();
        };
        let _ = successor
            .channel
            .say(&Word::Refused(reason.to_owned()), &[]);
        let pid = successor.pid;
        tracing::warn!(pid, "continuing to serve, the takeover failed: {reason}");
        successor.clients
    }

    /// Releases what the new process has taken over; returns how many clients that were.
    pub(crate) fn let_go(mut self) -> usize {
        self.control_socket.keep_file();
        self.successor
            .map_or(0, |successor| successor.clients.len())
    }
}

/// The reaction after a message was sent, or not.
fn after(said: Result<(), Errno>, next: Reaction) -> Reaction {
    match said {
        Ok(()) => next,
        Err(errno) => Reaction::Abandon(format!(
            "it cannot be reached: {}",
            std::io::Error::from(errno)
        )),
    }
}
