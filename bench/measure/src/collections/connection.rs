//! A connection of the Redis protocol that takes any reply: batches of commands are sent, and
//! their replies are counted without being kept, so that large ones cost little.
//!
//! Invariant: all replies to a batch are read before the next is sent, so server and client never
//! wait for each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use cellar_load::{Address, Error, now_ns};

/// Commands and bytes that are sent before their replies are read.
const BATCH_COMMANDS: usize = 256;
const BATCH_BYTES: usize = 64 << 10;
const BUFFER_BYTES: usize = 256 << 10;

/// A reply with all that it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// A string of either kind; `None` is none.
    Text(Option<String>),
    /// A number.
    Number(i64),
    /// The text of an error.
    Refused(String),
    /// Several replies.
    List(Vec<Reply>),
}

impl Reply {
    /// Its text, if it is one.
    pub(crate) fn text(&self) -> &str {
        match self {
            Reply::Text(Some(text)) => text,
            _ => "",
        }
    }

    /// The replies it holds, if it holds several.
    pub(crate) fn list(&self) -> &[Reply] {
        match self {
            Reply::List(all) => all,
            _ => &[],
        }
    }
}

/// One connection.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
    line: Vec<u8>,
    output: Vec<u8>,
    /// Commands in `output`.
    unsent: usize,
    /// The first error reply since it was asked for last.
    refused: Option<String>,
}

impl Connection {
    /// Connects to a server.
    /// [`Error::System`] if it does not listen.
    pub(crate) fn connect(address: &Address) -> Result<Connection, Error> {
        let stream = TcpStream::connect(("127.0.0.1", address.port())).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(Connection {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream),
            line: Vec::new(),
            output: Vec::new(),
            unsent: 0,
            refused: None,
        })
    }

    /// Adds a command that `push` appends to the batch, and sends the batch if it is full.
    /// [`Error`] if the connection fails.
    pub(crate) fn add(&mut self, push: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        push(&mut self.output);
        self.unsent += 1;
        if self.unsent < BATCH_COMMANDS && self.output.len() < BATCH_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Sends what was added and takes all replies.
    /// [`Error`] if the connection fails.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.reader
            .get_mut()
            .write_all(&self.output)
            .map_err(broken)?;
        self.output.clear();
        for _ in 0..std::mem::take(&mut self.unsent) {
            self.skip()?;
        }
        Ok(())
    }

    /// Sends one command that `push` writes, and returns how long its reply took.
    /// [`Error`] if the connection fails, [`Error::Wrong`] if the server refuses it.
    pub(crate) fn time(&mut self, push: impl FnOnce(&mut Vec<u8>)) -> Result<u64, Error> {
        push(&mut self.output);
        self.unsent += 1;
        let begun_ns = now_ns();
        self.flush()?;
        let ns = now_ns() - begun_ns;
        match self.refused() {
            Some(error) => Err(Error::Wrong(error)),
            None => Ok(ns),
        }
    }

    /// The first error that was replied since this was asked last.
    pub(crate) fn refused(&mut self) -> Option<String> {
        self.refused.take()
    }

    /// Sends one command and returns its reply.
    /// [`Error`] if the connection fails.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Reply, Error> {
        self.flush()?;
        let mut command = Vec::new();
        push_command(&mut command, words);
        self.reader.get_mut().write_all(&command).map_err(broken)?;
        self.reply()
    }

    fn read_line(&mut self) -> Result<(u8, String), Error> {
        self.line.clear();
        let bytes = self.reader.read_until(b'\n', &mut self.line);
        if bytes.map_err(broken)? == 0 {
            return Err(Error::Closed { replies: 0 });
        }
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end();
        let kind = line.bytes().next().unwrap_or(b' ');
        Ok((kind, line.get(1..).unwrap_or_default().to_owned()))
    }

    /// Takes one reply, however deep, and remembers an error.
    fn skip(&mut self) -> Result<(), Error> {
        let mut left = 1_u64;
        while left > 0 {
            left -= 1;
            let (kind, rest) = self.read_line()?;
            match (kind, rest.parse::<i64>()) {
                (b'-', _) => {
                    self.refused.get_or_insert(rest);
                }
                (b'+' | b':', _) => {}
                (b'$', Ok(bytes)) => self.skip_bytes(bytes)?,
                (b'*', Ok(replies)) => left += replies.max(0).unsigned_abs(),
                _ => return Err(garbled(&rest)),
            }
        }
        Ok(())
    }

    fn skip_bytes(&mut self, bytes: i64) -> Result<(), Error> {
        let mut left = if bytes < 0 {
            0
        } else {
            bytes.unsigned_abs() + 2
        };
        while left > 0 {
            let there = self.reader.fill_buf().map_err(broken)?.len();
            if there == 0 {
                return Err(Error::Closed { replies: 0 });
            }
            let used = there.min(usize::try_from(left).unwrap_or(usize::MAX));
            self.reader.consume(used);
            left -= used as u64;
        }
        Ok(())
    }

    fn reply(&mut self) -> Result<Reply, Error> {
        let (kind, rest) = self.read_line()?;
        let number = rest.parse::<i64>();
        match (kind, number) {
            (b'-', _) => Ok(Reply::Refused(rest)),
            (b'+', _) => Ok(Reply::Text(Some(rest))),
            (b':', Ok(number)) => Ok(Reply::Number(number)),
            (b'$' | b'*', Ok(..0)) => Ok(Reply::Text(None)),
            (b'$', Ok(bytes)) => {
                let mut text = vec![0; usize::try_from(bytes).unwrap_or(0) + 2];
                self.reader.read_exact(&mut text).map_err(broken)?;
                text.truncate(text.len() - 2);
                let text = String::from_utf8_lossy(&text).into_owned();
                Ok(Reply::Text(Some(text)))
            }
            (b'*', Ok(replies)) => {
                let replies = (0..replies).map(|_| self.reply());
                Ok(Reply::List(replies.collect::<Result<_, _>>()?))
            }
            _ => Err(garbled(&rest)),
        }
    }
}

/// Appends a command: an array of bulk strings.
pub(crate) fn push_command(out: &mut Vec<u8>, words: &[&str]) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n{word}\r\n", word.len());
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::system("talking to the server", error)
}

fn garbled(rest: &str) -> Error {
    Error::Garbled(format!("no reply of the Redis protocol: {rest:?}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A connection to a server that has sent this.
    fn connection(replies: &[u8]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let connection = Connection::connect(&address).unwrap();
        listener.accept().unwrap().0.write_all(replies).unwrap();
        connection
    }

    #[test]
    fn replies_of_any_depth_are_skipped_and_an_error_in_them_is_told() {
        let mut it = connection(b"*2\r\n$2\r\na\n\r\n*2\r\n:1\r\n*-1\r\n$-1\r\n-ERR no\r\n+OK\r\n");
        for _ in 0..4 {
            it.add(|out| push_command(out, &["x"])).unwrap();
        }
        it.flush().unwrap();
        assert_eq!(it.refused().as_deref(), Some("ERR no"));
        assert_eq!(it.refused(), None);
        assert!(it.ask(&["x"]).is_err(), "the server has gone");
    }

    #[test]
    fn a_reply_that_is_asked_for_is_read_whole() {
        let mut it = connection(b"*3\r\n$1\r\na\r\n:-2\r\n*1\r\n$-1\r\n");
        let inner = Reply::List(vec![Reply::Text(None)]);
        let text = Reply::Text(Some("a".to_owned()));
        let list = Reply::List(vec![text, Reply::Number(-2), inner]);
        assert_eq!(it.ask(&["x"]).unwrap(), list);
    }
}
