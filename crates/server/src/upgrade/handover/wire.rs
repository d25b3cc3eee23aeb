//! Wire: messages with descriptors, each a packet of lines of text.
//!
//! The first line is the type. `ask` and `refused` are the same in all versions, so servers without
//! a common version still understand why; the others follow the version that `offer` names. Unknown
//! lines are skipped.

use std::fmt::Write;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cellar_config::protocol::Protocol;
use cellar_net::mailbox::{Arrival, ClientSetup};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, UCred, recvmsg, sendmsg, sockopt,
};

/// Versions of this protocol that are understood.
pub(super) const VERSIONS: RangeInclusive<u32> = 1..=2;
/// The first version in which clients move with their state.
pub(super) const SETUP_VERSION: u32 = 2;
/// Most descriptors in one message; the system takes 253.
pub(super) const FILES_MAX: usize = 128;
/// Longest message.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// How each begins.
const MARK: &str = "cellar-takeover ";
/// Longest time to wait for space in the socket buffer.
const SEND_MS: u64 = 1_000;

/// A client in a message: a line `PROTOCOL PEER`. If the client has set up something, the version
/// of RESP, database, name, and name and version of the library follow, each behind a tab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToldClient {
    pub(super) protocol: Protocol,
    pub(super) peer: String,
    pub(super) setup: ClientSetup,
}

impl ToldClient {
    pub(super) fn of(arrival: &Arrival) -> ToldClient {
        ToldClient {
            protocol: arrival.protocol,
            // A path may have any bytes.
            peer: arrival.peer.replace(['\n', '\t'], "?"),
            setup: arrival.setup.clone(),
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        write!(text, "\n{} {}", self.protocol.name(), self.peer)?;
        if self.setup.is_empty() {
            return Ok(());
        }
        let version = if self.setup.is_resp3 { 3 } else { 2 };
        write!(text, "\t{version}\t{}", self.setup.database)?;
        let [library, library_version] = &self.setup.library;
        [&self.setup.name, library, library_version]
            .into_iter()
            .try_for_each(|part| write!(text, "\t{}", String::from_utf8_lossy(part)))
    }

    fn parse(line: &str) -> Option<ToldClient> {
        let (client, setup) = line.split_once('\t').unwrap_or((line, ""));
        let (protocol, peer) = client.split_once(' ')?;
        Some(ToldClient {
            protocol: Protocol::named(protocol)?,
            peer: peer.to_owned(),
            setup: match setup {
                "" => ClientSetup::default(),
                setup => parse_setup(setup)?,
            },
        })
    }
}

fn parse_setup(text: &str) -> Option<ClientSetup> {
    let parts: Vec<&str> = text.split('\t').collect();
    let [version, database, name, library, library_version] = parts[..] else {
        return None;
    };
    let bytes = |text: &str| text.as_bytes().to_vec();
    Some(ClientSetup {
        is_resp3: version == "3",
        database: database.parse().ok()?,
        name: bytes(name),
        library: [bytes(library), bytes(library_version)],
    })
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Asks for the listeners; names the versions that the sender understands.
    Ask {
        /// From the oldest to the newest.
        versions: RangeInclusive<u32>,
        /// Its own version.
        server: String,
    },
    /// The version to speak; the descriptors are the control socket's and the listeners'.
    Offer {
        /// Of the protocol.
        version: u32,
        /// The old server's own version.
        server: String,
        /// Longest time for the answer to `take`.
        patience_ms: u64,
        /// Its process, if it names one: the socket has only the process that created it.
        pid: Option<i32>,
    },
    /// The new process wants everything, with at most this many clients.
    Take(usize),
    /// Clients, whose connections are the descriptors.
    Clients(Vec<ToldClient>),
    /// That was all, and no process serves now; the descriptor is that of the items' memory, if it
    /// outlives the old server.
    Yours,
    /// The new process is able to serve.
    Mine,
    /// It serves from now on.
    Go,
    /// The reason for a refusal or failure.
    Refused(String),
}

impl Word {
    fn text(&self) -> String {
        let mut text = MARK.to_owned();
        let told = match self {
            Word::Ask { versions, server } => {
                let (oldest, newest) = (versions.start(), versions.end());
                write!(text, "ask {oldest} {newest}\nserver {server}")
            }
            Word::Offer {
                version,
                server,
                patience_ms,
                pid,
            } => {
                let pid = pid.map_or_else(String::new, |pid| format!("\npid {pid}"));
                write!(
                    text,
                    "offer {version}\nserver {server}\npatience {patience_ms}{pid}"
                )
            }
            Word::Take(clients_max) => write!(text, "take\nclients {clients_max}"),
            Word::Clients(clients) => {
                text.push_str("clients");
                clients
                    .iter()
                    .try_for_each(|client| client.write(&mut text))
            }
            Word::Yours => write!(text, "yours"),
            Word::Mine => write!(text, "mine"),
            Word::Go => write!(text, "go"),
            Word::Refused(reason) => write!(text, "refused {reason}"),
        };
        told.expect("a string takes all that is written to it");
        text
    }

    /// The message of these bytes; none if they are not valid.
    fn parse(bytes: &[u8]) -> Option<Word> {
        let text = std::str::from_utf8(bytes).ok()?.strip_prefix(MARK)?;
        let mut lines = text.lines();
        let first = lines.next()?;
        let (verb, rest) = first.split_once(' ').unwrap_or((first, ""));
        let value = |name: &str| {
            let mut pairs = text.lines().skip(1).filter_map(|line| line.split_once(' '));
            pairs
                .find(|pair| pair.0 == name)
                .map(|pair| pair.1.to_owned())
        };
        Some(match verb {
            "ask" => {
                let (oldest, newest) = rest.split_once(' ')?;
                Word::Ask {
                    versions: oldest.parse().ok()?..=newest.parse().ok()?,
                    server: value("server")?,
                }
            }
            "offer" => Word::Offer {
                version: rest.parse().ok()?,
                server: value("server")?,
                patience_ms: value("patience")?.parse().ok()?,
                pid: value("pid").and_then(|pid| pid.parse().ok()),
            },
            "take" => Word::Take(value("clients")?.parse().ok()?),
            "clients" => {
                let clients = lines.map(ToldClient::parse);
                Word::Clients(clients.collect::<Option<_>>()?)
            }
            "yours" => Word::Yours,
            "mine" => Word::Mine,
            "go" => Word::Go,
            "refused" => Word::Refused(rest.to_owned()),
            _ => return None,
        })
    }
}

/// The result of listening.
#[derive(Debug)]
pub(super) enum Heard {
    /// A message with its descriptors.
    Said(Word, Vec<OwnedFd>),
    /// Nothing, for the present.
    Nothing,
    /// The other process has left.
    Gone,
    /// Bytes that are not a valid message.
    Garbled,
}

/// One side of a conversation.
#[derive(Debug)]
pub(super) struct Channel(pub(super) OwnedFd);

impl Channel {
    /// Sends a message; waits shortly for space in the socket buffer.
    ///
    /// # Errors
    /// The other process has ended, or does not listen.
    pub(super) fn say(&self, message: &Word, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        debug_assert!(files.len() <= FILES_MAX, "who says more says it in parts");
        let text = message.text();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        loop {
            let bytes = [IoSlice::new(text.as_bytes())];
            match sendmsg(&self.0, &bytes, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.waits(PollFlags::OUT, SEND_MS) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The next message, without waiting.
    pub(super) fn listen(&self) -> Heard {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let received = loop {
            let mut pieces = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received,
                // It ended without reading the last message; its own last message follows.
                Err(Errno::CONNRESET) => {}
                Err(Errno::AGAIN | Errno::INTR) => return Heard::Nothing,
                Err(_) => return Heard::Gone,
            }
        };
        if received.bytes == 0 {
            return Heard::Gone;
        }
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        let cut = ReturnFlags::CTRUNC | ReturnFlags::TRUNC;
        match Word::parse(&bytes[..received.bytes]) {
            Some(message) if !received.flags.intersects(cut) => Heard::Said(message, files),
            _ => Heard::Garbled,
        }
    }

    /// The next message, within `ms` milliseconds.
    pub(super) fn listen_for(&self, ms: u64) -> Heard {
        if self.waits(PollFlags::IN, ms) {
            return self.listen();
        }
        Heard::Nothing
    }

    /// Waits for an event; returns whether it came in time.
    fn waits(&self, what: PollFlags, ms: u64) -> bool {
        let timeout = Timespec {
            tv_sec: i64::try_from(ms / 1_000).unwrap_or(i64::MAX),
            tv_nsec: (ms % 1_000) as i64 * 1_000_000,
        };
        let mut files = [PollFd::new(&self.0, what)];
        poll(&mut files, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    /// The process at the other end, and its user.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn peer(&self) -> Result<UCred, Errno> {
        sockopt::socket_peercred(&self.0)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (Channel, Channel) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (one, other) = pair.unwrap();
        (Channel(one), Channel(other))
    }

    #[test]
    fn every_message_is_heard_as_it_was_said_with_its_descriptors() {
        let (one, other) = pair();
        let server = "0.1.0".to_owned();
        let clients = [
            (Protocol::Memcached, "127.0.0.1:1", ClientSetup::default()),
            (
                Protocol::Http,
                "/run/with a space.sock:0",
                ClientSetup::default(),
            ),
            (
                Protocol::Resp,
                "127.0.0.1:2",
                ClientSetup {
                    is_resp3: true,
                    database: 3,
                    name: b"worker".to_vec(),
                    library: [b"redis-py".to_vec(), Vec::new()],
                },
            ),
        ]
        .map(|(protocol, peer, setup)| ToldClient {
            protocol,
            peer: peer.to_owned(),
            setup,
        });
        for (message, files) in [
            (
                Word::Ask {
                    versions: 1..=3,
                    server: server.clone(),
                },
                0,
            ),
            (
                Word::Offer {
                    version: 1,
                    server,
                    patience_ms: 5_000,
                    pid: Some(77),
                },
                FILES_MAX,
            ),
            (Word::Take(10_000), 0),
            (Word::Clients(clients.to_vec()), 2),
            (Word::Yours, 0),
            (Word::Mine, 0),
            (Word::Go, 0),
            (
                Word::Refused("another takeover is in progress".to_owned()),
                0,
            ),
        ] {
            assert!(matches!(other.listen(), Heard::Nothing));
            one.say(&message, &vec![one.as_fd(); files]).unwrap();
            let Heard::Said(heard, received) = other.listen() else {
                panic!("{message:?}");
            };
            assert_eq!((heard, received.len()), (message, files));
        }
        drop(one);
        assert!(matches!(other.listen_for(60_000), Heard::Gone));
        assert_eq!(other.say(&Word::Go, &[]), Err(Errno::PIPE));
    }

    #[test]
    fn what_is_no_message_is_garbled_and_unknown_lines_are_skipped() {
        let (one, other) = pair();
        for text in [
            "",
            "hello",
            "cellar-takeover",
            "cellar-takeover ",
            "cellar-takeover ask 1",
            "cellar-takeover ask 1 2",
            "cellar-takeover take\nclients many",
            "cellar-takeover clients\nsmtp 127.0.0.1:1",
            "cellar-takeover clients\nresp 127.0.0.1:1\t3\t0",
            "cellar-takeover sing",
        ] {
            assert_eq!(Word::parse(text.as_bytes()), None, "{text}");
        }
        let text = b"cellar-takeover take\ncolour blue\nclients 7";
        assert_eq!(Word::parse(text), Some(Word::Take(7)));
        let long = [b'x'; MESSAGE_BYTES_MAX + 1];
        rustix::io::write(&one.0, &long).unwrap();
        assert!(matches!(other.listen(), Heard::Garbled));
    }
}
