//! Claim: the new process's side, before it accepts anybody.
//!
//! Whatever ends it before [`Predecessor::begin`] leaves the old server serving: it hears that this
//! process is gone. If the old one dies first, the new process goes on with what it has.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use super::control_socket::{ControlSocket, KIND};
use super::wire::{Channel, Heard, VERSIONS, Word};
use crate::config::error::Error;
use crate::config::logging::printable;
use crate::config::settings::address::Address;
use crate::net::listener::connect_to_file;
use crate::net::mailbox::Arrival;
use crate::net::open_sockets::OpenSockets;
use crate::net::stream::{Stream, Transport};

/// Longest time that an old server takes to say who it is.
const ANSWER_MS: u64 = 10_000;
/// What is added to the time that it says it needs.
const GRACE_MS: u64 = 5_000;
/// How often, and how long apart, it is looked whether an old server that says nothing more ends.
const LOOKS: usize = 100;
const LOOK: Duration = Duration::from_millis(10);

/// What an old server has offered.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) claim: Predecessor,
    /// Where the next new process asks.
    pub(crate) door: ControlSocket,
    /// Where it listens.
    pub(crate) places: Vec<Address>,
}

/// A conversation with the old server.
#[derive(Debug)]
pub(crate) struct Predecessor {
    channel: Channel,
    /// The old server's process.
    pub(crate) pid: i32,
    /// The same, as what tells its end; none of a server that does not say which it is.
    process: Option<OwnedFd>,
    /// Its version.
    pub(crate) server: String,
    patience_ms: u64,
    /// Its clients that come over.
    clients: Vec<Arrival>,
    /// Whether it died on the way.
    is_alone: bool,
}

fn fail<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Takeover(reason.into()))
}

impl Predecessor {
    /// Asks the server at `path` for its listening sockets, which come into `open`. It serves on.
    ///
    /// # Errors
    /// [`Error::Takeover`], also that no server is there.
    pub(crate) fn ask(path: &Path, open: &mut OpenSockets) -> Result<Offer, Error> {
        let shown = path.display();
        let socket = connect_to_file(path, KIND).map_err(|errno| {
            Error::Takeover(match errno {
                Errno::NOENT | Errno::CONNREFUSED => format!("no server listens on {shown}"),
                Errno::ACCESS => format!("{shown} belongs to another user"),
                Errno::PROTOTYPE => format!("{shown} is not a socket of --control"),
                other => format!("{shown}: {}", std::io::Error::from(other)),
            })
        })?;
        let channel = Channel(socket);
        let old = channel
            .peer()
            .map_err(Error::system("asking who listens at --control"))?;
        if old.uid != geteuid() {
            let (theirs, ours) = (old.uid.as_raw(), geteuid().as_raw());
            return fail(format!(
                "the server at {shown} runs as user {theirs}, this one as {ours}"
            ));
        }
        let ask = Word::Ask {
            versions: VERSIONS,
            server: env!("CARGO_PKG_VERSION").to_owned(),
        };
        // Whether it was heard tells the answer.
        let _ = channel.say(&ask, &[]);
        let (message, mut files) = match channel.listen_for(ANSWER_MS) {
            Heard::Said(message, files) => (message, files),
            Heard::Nothing => return fail(format!("the server at {shown} does not answer")),
            Heard::Gone => return fail(format!("the server at {shown} closed the connection")),
            Heard::Garbled => {
                return fail(format!("the server at {shown} sent an invalid offer"));
            }
        };
        let (server, patience_ms, pid) = match message {
            Word::Offer {
                version,
                server,
                patience_ms,
                pid,
            } if VERSIONS.contains(&version) && !files.is_empty() => (server, patience_ms, pid),
            Word::Refused(reason) => return refused(&reason),
            _ => return fail(format!("the server at {shown} sent an invalid offer")),
        };
        let door = ControlSocket::inherited(files.remove(0));
        let places = files.into_iter().map(|file| open.add(file));
        let places = places.collect::<Result<_, _>>().map_err(Error::Takeover)?;
        let pid = pid.and_then(Pid::from_raw).unwrap_or(old.pid);
        let claim = Predecessor {
            channel,
            process: pidfd_open(pid, PidfdFlags::empty()).ok(),
            pid: pid.as_raw_nonzero().get(),
            server,
            patience_ms,
            clients: Vec::new(),
            is_alone: false,
        };
        Ok(Offer {
            claim,
            door,
            places,
        })
    }

    /// Has the old server stop, and waits until it has: this process has done all that can fail.
    /// The memory of its items, if that outlives it.
    ///
    /// # Errors
    /// [`Error::Takeover`] with the reason for which it goes on.
    pub(crate) fn take(&mut self, clients_max: usize) -> Result<Option<OwnedFd>, Error> {
        let _ = self.channel.say(&Word::Take(clients_max), &[]);
        loop {
            match self
                .channel
                .listen_for(self.patience_ms.saturating_add(GRACE_MS))
            {
                Heard::Said(Word::Clients(clients), files) if clients.len() == files.len() => {
                    let arrivals = clients.into_iter().zip(files);
                    self.clients.extend(arrivals.map(|(client, file)| {
                        let transport = transport_of(&file);
                        Arrival {
                            stream: Stream::plain(file, transport),
                            protocol: client.protocol,
                            peer: client.peer,
                            setup: client.setup,
                        }
                    }));
                }
                Heard::Said(Word::Yours, files) => return Ok(files.into_iter().next()),
                Heard::Said(Word::Refused(reason), _) => return refused(&reason),
                Heard::Gone => return self.go_alone().map(|()| None),
                Heard::Nothing => return fail("the old server does not finish its requests"),
                Heard::Said(..) | Heard::Garbled => {
                    return fail("the old server sent an invalid message");
                }
            }
        }
    }

    /// What is ready to be read once the old server's process has come to its end.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub(crate) fn process(&self) -> std::io::Result<Option<OwnedFd>> {
        self.process.as_ref().map(OwnedFd::try_clone).transpose()
    }

    /// Says that this process can serve, and waits until it may; the clients that come over.
    ///
    /// # Errors
    /// [`Error::Takeover`] with the reason for which the old server goes on.
    pub(crate) fn begin(mut self) -> Result<Vec<Arrival>, Error> {
        if !self.is_alone {
            let _ = self.channel.say(&Word::Mine, &[]);
            match self.channel.listen_for(ANSWER_MS) {
                Heard::Said(Word::Go, _) => {}
                Heard::Said(Word::Refused(reason), _) => return refused(&reason),
                Heard::Gone => self.go_alone()?,
                Heard::Nothing => return fail("the old server does not release its sockets"),
                Heard::Said(..) | Heard::Garbled => {
                    return fail("the old server sent an invalid message");
                }
            }
        }
        Ok(self.clients)
    }

    /// Goes on without the old server, if it is dead: nobody serves.
    fn go_alone(&mut self) -> Result<(), Error> {
        if is_alive(self.pid) {
            return fail("the old server closed the connection");
        }
        tracing::warn!(pid = self.pid, "the old server exited during the takeover");
        self.is_alone = true;
        Ok(())
    }
}

fn refused<T>(reason: &str) -> Result<T, Error> {
    fail(format!("the old server continues: {}", printable(reason)))
}

/// What carries a connection.
fn transport_of(socket: &OwnedFd) -> Transport {
    match sockopt::socket_domain(socket) {
        Ok(AddressFamily::UNIX) => Transport::Unix,
        _ => Transport::Tcp,
    }
}

/// Whether a process stays; one that ends takes a moment for it.
fn is_alive(pid: i32) -> bool {
    for _ in 0..LOOKS {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        if state.is_empty() || state.starts_with(['Z', 'X']) {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}
