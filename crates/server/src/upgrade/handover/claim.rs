//! Claim: the new process's side, before it accepts clients.
//!
//! If it fails before [`Predecessor::begin`] the old server continues: it notices the end of this
//! process. If the old server ends first, the new process continues with what it has.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use cellar_config::error::Error;
use cellar_config::logging::printable;
use cellar_config::settings::address::Address;
use cellar_net::listener::connect_to_file;
use cellar_net::mailbox::Arrival;
use cellar_net::open_sockets::OpenSockets;
use cellar_net::stream::{Stream, Transport};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use super::control_socket::{ControlSocket, KIND};
use super::wire::{Channel, Heard, VERSIONS, Word};

/// Longest time for the old server's first answer.
const ANSWER_MS: u64 = 10_000;
/// Added to the time that it says it needs.
const GRACE_MS: u64 = 5_000;
/// How often, and at which interval, to check whether a silent old server has ended.
const LOOKS: usize = 100;
const LOOK: Duration = Duration::from_millis(10);

/// The offer of an old server.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) claim: Predecessor,
    /// The socket for the next new process.
    pub(crate) control_socket: ControlSocket,
    /// Where it listens.
    pub(crate) places: Vec<Address>,
}

/// A connection to the old server.
#[derive(Debug)]
pub(crate) struct Predecessor {
    channel: Channel,
    /// The old server's process.
    pub(crate) pid: i32,
    /// The same as a descriptor that reports its end; none if the server does not name its process.
    process: Option<OwnedFd>,
    /// Its version.
    pub(crate) server: String,
    patience_ms: u64,
    /// Its clients that move to this process.
    clients: Vec<Arrival>,
    /// Whether it has ended during the handover.
    is_alone: bool,
}

fn fail<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Takeover(reason.into()))
}

impl Predecessor {
    /// Asks the server at `path` for its listening sockets, which are added to `open`. It continues
    /// to serve.
    ///
    /// # Errors
    /// [`Error::Takeover`], also if no server answers there.
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
        // The answer tells whether it was received.
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
        let control_socket = ControlSocket::inherited(files.remove(0));
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
            control_socket,
            places,
        })
    }

    /// Stops the old server, and waits until it has stopped: this process has done all that can
    /// fail. Returns the memory of its items, if that outlives it.
    ///
    /// # Errors
    /// [`Error::Takeover`] with the reason why the old server continues.
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

    /// A descriptor that becomes readable when the old server's process has ended.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub(crate) fn process(&self) -> std::io::Result<Option<OwnedFd>> {
        self.process.as_ref().map(OwnedFd::try_clone).transpose()
    }

    /// Announces that this process can serve, and waits for `go`; returns the clients that move.
    ///
    /// # Errors
    /// [`Error::Takeover`] with the reason why the old server continues.
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

    /// Continues without the old server, if that has ended: no process serves.
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

/// The transport of a connection.
fn transport_of(socket: &OwnedFd) -> Transport {
    match sockopt::socket_domain(socket) {
        Ok(AddressFamily::UNIX) => Transport::Unix,
        _ => Transport::Tcp,
    }
}

/// Whether a process keeps running; one that ends takes a moment for it.
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
