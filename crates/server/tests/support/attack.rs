//! Attack: one request sent in one way on a connection of its own, and the answers judged.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufReader, Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) mod dialect;

pub(crate) use dialect::{Answer, Dialect};

/// Longest time without a byte from the server before it counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Pings before a request, and behind it, that are sent together with it.
const PINGS_BEFORE: usize = 3;
const PINGS_BEHIND: usize = 40;

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In one go.
    Whole,
    /// In so many pieces with pauses.
    Slow(usize),
    /// A part of it, then nothing more, while answers are still read.
    Cut,
    /// Behind others, in one go.
    Behind,
    /// Before others, in one go.
    Before,
    /// A part of it by a client that is gone then.
    Gone,
}

/// One request and how it is sent.
pub(crate) struct Attack<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) address: &'a str,
    pub(crate) request: &'a [u8],
    pub(crate) way: Way,
    /// How many of its bytes are sent if it is cut.
    pub(crate) cut: usize,
    /// Whether the connection may end without an error.
    pub(crate) may_end: bool,
    /// Whether its answer has a head only.
    pub(crate) is_head: bool,
}

impl Attack<'_> {
    /// Sends it and reads what comes back; what was wrong with that.
    pub(crate) fn run(&self) -> Result<(), String> {
        let stream = connect(self.address).map_err(|error| format!("no connection: {error}"))?;
        let ping = self.dialect.ping();
        let part = &self.request[..self.cut.min(self.request.len())];
        match self.way {
            Way::Gone => {
                let _ = (&stream).write_all(part);
                reset_when_closed(&stream);
                Ok(())
            }
            Way::Cut => self.converse(&stream, 0, 0, |mut stream| {
                stream.write_all(part)?;
                stream.shutdown(Shutdown::Write)
            }),
            Way::Whole => self.converse(&stream, 0, 1, |mut stream| {
                stream.write_all(self.request)?;
                stream.write_all(&ping)
            }),
            // The ping comes with the last piece: what was noted of a part must not go to the next.
            Way::Slow(pieces) => self.converse(&stream, 0, 1, |mut stream| {
                let piece = self.request.len().div_ceil(pieces).max(1);
                let begin = self.request.len().saturating_sub(1) / piece * piece;
                for part in self.request[..begin].chunks(piece) {
                    stream.write_all(part)?;
                    // paced: the pieces come one at a time.
                    std::thread::sleep(Duration::from_millis(1));
                }
                stream.write_all(&[&self.request[begin..], &ping].concat())
            }),
            Way::Behind => self.converse(&stream, PINGS_BEFORE, 1, |mut stream| {
                let before = ping.repeat(PINGS_BEFORE);
                stream.write_all(&[&before, self.request, &ping].concat())
            }),
            Way::Before => self.converse(&stream, 0, PINGS_BEHIND, |mut stream| {
                stream.write_all(&[self.request, &ping.repeat(PINGS_BEHIND)].concat())
            }),
        }
    }

    /// Sends while it reads, until so many pings are answered or the connection ends.
    fn converse(
        &self,
        stream: &TcpStream,
        before: usize,
        behind: usize,
        send: impl FnOnce(&TcpStream) -> std::io::Result<()> + Send,
    ) -> Result<(), String> {
        std::thread::scope(|scope| {
            // A server that has refused the request need not take the rest of it.
            scope.spawn(move || drop(send(stream)));
            let outcome = self.judge(BufReader::with_capacity(64 << 10, stream), before, behind);
            // The sender does not wait for a server that is not to be waited for.
            let _ = stream.shutdown(Shutdown::Both);
            outcome
        })
    }

    fn judge(
        &self,
        mut reader: BufReader<impl Read>,
        before: usize,
        behind: usize,
    ) -> Result<(), String> {
        let (mut answers, mut pings, mut last) = (0, 0, Answer::Other);
        // A connection that was cut is read to its end.
        while self.way == Way::Cut || pings < before + behind {
            let to_head = self.is_head && answers == before;
            match self.dialect.read(&mut reader, to_head) {
                Ok(Some(answer)) => {
                    answers += 1;
                    pings += usize::from(answer == Answer::Ping);
                    last = answer;
                }
                Ok(None) if self.may_end || last == Answer::Refusal => return Ok(()),
                Ok(None) => return Err(format!("closed without an error, {answers} answers")),
                Err(error) if is_reset(&error) && last == Answer::Refusal => return Ok(()),
                Err(error) if is_reset(&error) && self.may_end => return Ok(()),
                Err(error) => return Err(format!("{error} behind {answers} answers")),
            }
        }
        Ok(())
    }
}

fn is_reset(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

/// A connection whose reads and writes fail rather than hang.
pub(crate) fn connect(address: &str) -> std::io::Result<TcpStream> {
    let address: SocketAddr = address.parse().map_err(Error::other)?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Lets the connection's end be a reset, as when its program crashes.
pub(crate) fn reset_when_closed(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// Sends one ping and waits for its answer.
pub(crate) fn ping(stream: &TcpStream, dialect: Dialect) -> Result<(), String> {
    let mut sender = stream;
    sender
        .write_all(&dialect.ping())
        .map_err(|error| format!("a ping cannot be sent: {error}"))?;
    match dialect.read(&mut BufReader::new(stream), false) {
        Ok(Some(Answer::Ping)) => Ok(()),
        other => Err(format!("a ping is answered by {other:?}")),
    }
}
