//! Wire: a connection to an old server, and its replies, with limits on time and size.
//!
//! Tests: at the end of this file; tests/migrate.rs.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cellar_config::dial::{PeerStream, connect, encrypt};
use cellar_config::logging::printable;
use cellar_config::settings::migrate::{MigrateOptions, OldProtocol};
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::value::{self, Value};
use memchr::memmem;

/// Time limit for all queries together.
pub const TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of a reply at most.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Values in a reply at most.
pub const VALUES_MAX: usize = 1 << 16;
/// Nesting depth of a reply at most.
const DEPTH_MAX: usize = 8;
/// Longest line that is a status, an error or a length.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Characters of the server's errors that are shown at most.
const REASON_LETTERS_MAX: usize = 200;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// A RESP reply.
#[derive(Clone, Debug, PartialEq)]
pub enum OldReply {
    /// Text or bytes; invalid UTF-8 is replaced.
    Text(String),
    /// A whole number.
    Number(i64),
    /// An error.
    Refused(String),
    /// Null, or a type that no query needs.
    Nothing,
    /// An array; a map has keys and values in turn.
    List(Vec<OldReply>),
}

impl OldReply {
    /// The text, empty if it is none.
    #[must_use]
    pub fn text(&self) -> &str {
        if let OldReply::Text(text) = self {
            text
        } else {
            ""
        }
    }

    /// The values inside, none if it is no list.
    #[must_use]
    pub fn list(&self) -> &[OldReply] {
        if let OldReply::List(all) = self {
            all
        } else {
            &[]
        }
    }
}

/// A connection whose reads and writes have a time limit.
struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(into)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "no cache runs in this process, and no clock of one"
)]
fn now() -> Instant {
    Instant::now()
}

/// A connection to an old server.
pub struct OldLink {
    dial: Box<dyn PeerStream>,
    /// Received bytes that are not parsed yet.
    input: Vec<u8>,
}

impl OldLink {
    /// Connects.
    ///
    /// # Errors
    /// Why the connection fails, in one line.
    pub fn open(options: &MigrateOptions) -> Result<OldLink, String> {
        let stream = Timed {
            stream: connect(&options.host, options.usual_port())?,
            until: now() + TIME_MAX,
        };
        let dial: Box<dyn PeerStream> = match options.protocol {
            OldProtocol::Rediss => Box::new(encrypt(stream, &options.host, &options.trust)?),
            OldProtocol::Redis | OldProtocol::Memcached => Box::new(stream),
        };
        let input = Vec::new();
        Ok(OldLink { dial, input })
    }

    /// Sends one query over RESP.
    ///
    /// # Errors
    /// Why there is no reply, in one line; an error of the server is a reply.
    pub fn ask(&mut self, words: &[&str]) -> Result<OldReply, String> {
        let mut question = format!("*{}\r\n", words.len());
        for word in words {
            question.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.send(question.as_bytes())?;
        loop {
            let mut rest = self.input.as_slice();
            let mut values_left = VALUES_MAX;
            if let Some(told) = take(&mut rest, DEPTH_MAX, &mut values_left)? {
                let used = self.input.len() - rest.len();
                self.input.drain(..used);
                return Ok(told);
            }
            self.receive()?;
        }
    }

    /// Sends one query in memcached's text protocol. Returns the reply before one of these lines.
    ///
    /// # Errors
    /// Why there is no reply, in one line, or an error of the server.
    pub fn ask_lines(&mut self, question: &str, end: &str) -> Result<Vec<String>, String> {
        self.send(question.as_bytes())?;
        let mut lines = Vec::new();
        loop {
            let Some(bytes) = memmem::find(&self.input, b"\r\n") else {
                self.receive()?;
                continue;
            };
            let line: Vec<u8> = self.input.drain(..bytes + 2).collect();
            let line = String::from_utf8_lossy(&line[..bytes]).into_owned();
            if line == end {
                return Ok(lines);
            }
            if line.contains("ERROR") && !line.starts_with("STAT ") {
                return Err(refusal(&line));
            }
            let is_answer = ["STAT ", "VERSION "].iter().any(|it| line.starts_with(it));
            if !is_answer || lines.len() == VALUES_MAX {
                return Err("the server does not speak the memcached protocol".to_owned());
            }
            lines.push(line);
            if end.is_empty() {
                return Ok(lines);
            }
        }
    }

    fn send(&mut self, question: &[u8]) -> Result<(), String> {
        let sent = self.dial.write_all(question);
        sent.and_then(|()| self.dial.flush()).map_err(reason)
    }

    fn receive(&mut self) -> Result<(), String> {
        if self.input.len() >= ANSWER_BYTES_MAX {
            let most = ANSWER_BYTES_MAX >> 20;
            return Err(format!("its answer has more than {most} MiB"));
        }
        let start = self.input.len();
        self.input.resize(start + PIECE_BYTES, 0);
        let got = self.dial.read(&mut self.input[start..]);
        self.input.truncate(start + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => Err("it closed the connection".to_owned()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(reason(error)),
        }
    }
}

/// An error of the server, made safe for a terminal.
#[must_use]
pub fn refusal(text: &str) -> String {
    let text: String = text.chars().take(REASON_LETTERS_MAX).collect();
    format!("it answers {}", printable(&text))
}

fn reason(error: io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("it does not answer within {} s", TIME_MAX.as_secs())
        }
        ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

/// Takes one reply from the front; `None` if it is incomplete.
fn take(
    input: &mut &[u8],
    depth_left: usize,
    values_left: &mut usize,
) -> Result<Option<OldReply>, String> {
    let too_large = || "its answer has too many values".to_owned();
    *values_left = values_left.checked_sub(1).ok_or_else(too_large)?;
    let before = *input;
    let Some(value) = value::read(input) else {
        return match is_broken(before) {
            true => Err("the server does not speak the Redis protocol".to_owned()),
            false => Ok(None),
        };
    };
    let text = |bytes: &[u8]| OldReply::Text(String::from_utf8_lossy(bytes).into_owned());
    let count = match value {
        Value::Simple(bytes) | Value::Bulk(bytes) => return Ok(Some(text(bytes))),
        Value::Verbatim { text: bytes, .. } => return Ok(Some(text(bytes))),
        Value::Error(bytes) => {
            let words = String::from_utf8_lossy(bytes).into_owned();
            return Ok(Some(OldReply::Refused(words)));
        }
        Value::Integer(number) => return Ok(Some(OldReply::Number(number))),
        Value::Array(count) | Value::Set(count) | Value::Push(count) => count,
        Value::Map(count) => count.saturating_mul(2),
        Value::Null | Value::Double(_) | Value::Boolean(_) | Value::BigNumber(_) => {
            return Ok(Some(OldReply::Nothing));
        }
    };
    if count > *values_left || depth_left == 0 {
        return Err(too_large());
    }
    let mut all = Vec::new();
    for _ in 0..count {
        match take(input, depth_left - 1, values_left)? {
            Some(told) => all.push(told),
            None => return Ok(None),
        }
    }
    Ok(Some(OldReply::List(all)))
}

/// Whether these bytes can never become a valid reply.
fn is_broken(input: &[u8]) -> bool {
    let Some((mark, rest)) = input.split_first() else {
        return false;
    };
    if !b"+-:$=_#,(*%~>".contains(mark) {
        return true;
    }
    match memchr::memchr(b'\r', rest) {
        None => rest.len() > LINE_BYTES_MAX,
        // The second byte of the line end may still arrive.
        Some(end) if end + 1 == rest.len() => false,
        Some(end) if b"$=".contains(mark) => {
            let bytes = parse_integer(&rest[..end]).and_then(|it| usize::try_from(it).ok());
            match bytes {
                Some(bytes) if bytes <= ANSWER_BYTES_MAX => rest.len() >= end + 2 + bytes + 2,
                _ => true,
            }
        }
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<OldReply>, String> {
        take(&mut &bytes[..], DEPTH_MAX, &mut VALUES_MAX.clone())
    }

    #[test]
    fn an_answer_is_read_whole_or_not_yet() {
        let whole = b"*3\r\n$2\r\nab\r\n:7\r\n*1\r\n-ERR no\r\n";
        let text = |text: &str| OldReply::Text(text.to_owned());
        let inner = OldReply::List(vec![OldReply::Refused("ERR no".to_owned())]);
        let expected = OldReply::List(vec![text("ab"), OldReply::Number(7), inner]);
        assert_eq!(read(whole), Ok(Some(expected)));
        for bytes in 0..whole.len() {
            assert_eq!(read(&whole[..bytes]), Ok(None), "{bytes}");
        }
    }

    #[test]
    fn what_cannot_become_an_answer_is_refused_at_once() {
        let line = format!("+{}", "x".repeat(LINE_BYTES_MAX + 1));
        for bytes in [
            &b"HTTP/1.1 400\r\n"[..],
            b"$x\r\n",
            b"$99999999999\r\n",
            b"*99999999\r\n",
            b"%40000\r\n",
            b"$1\r\nabcde",
            b":x\r\n",
            line.as_bytes(),
            &b"*1\r\n".repeat(DEPTH_MAX + 1),
        ] {
            assert!(read(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
