//! A blocking client: requests gathered, sent together, and their replies taken one by one.
//!
//! Invariant: all replies to what was sent are taken before more is sent, so both sides never wait
//! for each other as long as a batch is smaller than what the sockets hold.

use std::time::Duration;

use crate::address::Address;
use crate::error::Error;
use crate::tls::{ROOM_BYTES_MIN, Stream};
use crate::wire::resp;
use crate::wire::{Event, Login, Scanner, Wire};

const READ_BYTES: usize = ROOM_BYTES_MIN;
/// Bytes of figures that a server tells at most.
const FIGURES_BYTES_MAX: usize = 1 << 20;

/// One connection.
pub struct Client {
    wire: Wire,
    stream: Stream,
    scanner: Scanner,
    output: Vec<u8>,
    input: Vec<u8>,
    /// The value that is arriving.
    value: Vec<u8>,
    /// Replies that are still to come.
    waiting: u64,
    /// Replies that have come.
    replies: u64,
}

impl Client {
    /// Connects; no read or write will take longer than `timeout`.
    ///
    /// # Errors
    /// [`Error::System`] if that is not possible.
    pub fn connect(address: &Address, wire: Wire, timeout: Duration) -> Result<Client, Error> {
        let failed = |error| Error::system(format!("connecting to {address}"), error);
        let stream = address.connect().map_err(failed)?;
        let socket = stream.socket();
        socket.set_read_timeout(Some(timeout)).map_err(failed)?;
        socket.set_write_timeout(Some(timeout)).map_err(failed)?;
        Ok(Client {
            wire,
            stream,
            scanner: wire.scanner(),
            output: Vec::new(),
            input: vec![0; READ_BYTES],
            value: Vec::new(),
            waiting: 0,
            replies: 0,
        })
    }

    /// Adds a request for the value of `key`.
    pub fn get(&mut self, key: &[u8]) {
        self.wire.push_get(&mut self.output, key);
        self.waiting += 1;
    }

    /// Adds the name and password of a user.
    pub fn log_in(&mut self, login: &Login) {
        self.waiting += self.wire.push_login(&mut self.output, login);
    }

    /// Adds the choice of a database; the Redis protocol alone has them.
    pub fn select(&mut self, database: usize) {
        let number = database.to_string();
        resp::push_command(&mut self.output, &[b"SELECT", number.as_bytes()]);
        self.waiting += 1;
    }

    /// Adds a store of `value`, with a TTL as [`Wire::push_set`] takes it.
    pub fn set(&mut self, key: &[u8], ttl_s: u32, value: &[u8]) {
        self.wire.push_set(&mut self.output, key, ttl_s, value);
        self.waiting += 1;
    }

    /// Adds a removal of `key`; the Redis protocol alone has its reply among those that are read.
    pub fn delete(&mut self, key: &[u8]) {
        resp::push_command(&mut self.output, &[b"DEL", key]);
        self.waiting += 1;
    }

    /// Adds what adds one to a number.
    pub fn count(&mut self, key: &[u8]) {
        self.waiting += self.wire.push_count(&mut self.output, key);
    }

    /// Bytes that are to be sent, and replies that will come to them.
    pub fn unsent(&self) -> (usize, u64) {
        (self.output.len(), self.waiting)
    }

    /// Sends what was added and hands the end of each reply to `take`, with the value if one came.
    ///
    /// # Errors
    /// [`Error`] if the connection fails, the bytes are no replies, or `take` says so.
    pub fn exchange(
        &mut self,
        mut take: impl FnMut(Event<'_>, Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.stream.send_all(&self.output).map_err(broken)?;
        self.output.clear();
        let mut is_there = false;
        while self.waiting > 0 {
            let bytes = self.receive()?;
            let mut input = &self.input[..bytes];
            while let Some(event) = self.scanner.next(&mut input).map_err(Error::Garbled)? {
                match event {
                    Event::Value { .. } => {
                        is_there = true;
                        self.value.clear();
                    }
                    Event::Data(data) => self.value.extend_from_slice(data),
                    last => {
                        self.replies += 1;
                        self.waiting = self.waiting.checked_sub(1).ok_or_else(|| {
                            Error::Garbled("a reply came that nothing had asked for".to_owned())
                        })?;
                        let is_there = std::mem::take(&mut is_there);
                        take(last, is_there.then_some(&self.value))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits for bytes; returns how many have come.
    fn receive(&mut self) -> Result<usize, Error> {
        let replies = self.replies;
        match self.stream.receive(&mut self.input).map_err(broken)? {
            (0, _) => Err(Error::Closed { replies }),
            (bytes, _) => Ok(bytes),
        }
    }

    /// Sends what was added, as far as the server takes it within `timeout`, and never reads.
    ///
    /// # Errors
    /// [`Error::System`] if the timeout cannot be set.
    pub fn send_and_leave(mut self, timeout: Duration) -> Result<Stream, Error> {
        let socket = self.stream.socket();
        socket.set_write_timeout(Some(timeout)).map_err(broken)?;
        // The server stops reading sooner or later; then this fails, as it should.
        let _ = self.stream.send_all(&self.output);
        Ok(self.stream)
    }

    /// The connection itself, when all is answered.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// All that the server tells about itself, in lines: memcached's `stats`, Redis' `INFO`.
    ///
    /// # Errors
    /// As [`Client::exchange`].
    pub fn figures(&mut self) -> Result<String, Error> {
        match self.wire {
            Wire::Memcached => self.lines(b"stats\r\n", |line| line == "END\r\n"),
            Wire::Resp => self.text(&["INFO"]),
            Wire::Http => Err(Error::Usage(
                "figures are not asked for over HTTP".to_owned(),
            )),
        }
    }

    /// The text that a server of the Redis protocol answers to this command.
    ///
    /// # Errors
    /// As [`Client::exchange`].
    pub fn text(&mut self, words: &[&str]) -> Result<String, Error> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut text = Vec::new();
        resp::push_command(&mut self.output, &words);
        self.waiting += 1;
        self.exchange(|_, value| {
            text.extend_from_slice(value.unwrap_or_default());
            Ok(())
        })?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The server's version.
    ///
    /// # Errors
    /// As [`Client::exchange`], and [`Error::Garbled`] if it tells none.
    pub fn version(&mut self) -> Result<String, Error> {
        let (text, names) = match self.wire {
            Wire::Memcached => (self.lines(b"version\r\n", |_| true)?, ["VERSION "; 2]),
            // Valkey tells the version of Redis that it is compatible with, too.
            Wire::Resp => (self.figures()?, ["valkey_version:", "redis_version:"]),
            // HTTP has no common way to ask.
            Wire::Http => return Ok(String::new()),
        };
        let told = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let version = names.into_iter().find_map(told);
        let version = version.map(|version| version.trim().to_owned());
        version.ok_or_else(|| Error::Garbled(format!("no version in {text:?}")))
    }

    /// Sends a request that is answered in lines, and returns all up to the last.
    fn lines(&mut self, request: &[u8], is_last: fn(&str) -> bool) -> Result<String, Error> {
        self.stream.send_all(request).map_err(broken)?;
        let mut text = Vec::new();
        while text.len() < FIGURES_BYTES_MAX {
            let bytes = self.receive()?;
            text.extend_from_slice(&self.input[..bytes]);
            // The server says no more than it was asked.
            let shown = String::from_utf8_lossy(&text);
            if shown.ends_with('\n') && shown.split_inclusive('\n').next_back().is_some_and(is_last)
            {
                return Ok(shown.into_owned());
            }
        }
        Err(Error::Garbled("figures that have no end".to_owned()))
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::system("talking to the server", error)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// A server that reads `asked` bytes and answers them with `reply`, in pieces of three.
    fn server(asked: usize, reply: &'static [u8]) -> (Address, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut request = vec![0; asked];
            stream.read_exact(&mut request).unwrap();
            for piece in reply.chunks(3) {
                stream.write_all(piece).unwrap();
            }
            request
        });
        (address, thread)
    }

    fn client(address: &Address, wire: Wire) -> Client {
        Client::connect(address, wire, Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn all_replies_to_a_batch_are_taken() {
        for (wire, asked, reply) in [
            (
                Wire::Memcached,
                "get k\r\nset k 0 0 1\r\nv\r\nadd n 0 0 1\r\n0\r\nincr n 1\r\n".len(),
                &b"VALUE k 0 1\r\nv\r\nEND\r\nSTORED\r\nNOT_STORED\r\n7\r\n"[..],
            ),
            (
                Wire::Resp,
                "*2|$3|GET|$1|k|*3|$3|SET|$1|k|$1|v|*2|$4|INCR|$1|n|"
                    .replace('|', "\r\n")
                    .len(),
                b"$1\r\nv\r\n+OK\r\n:7\r\n",
            ),
        ] {
            let (address, thread) = server(asked, reply);
            let mut client = client(&address, wire);
            client.get(b"k");
            client.set(b"k", 0, b"v");
            client.count(b"n");
            let (bytes, replies) = client.unsent();
            assert_eq!(bytes, asked);
            let mut last = 0;
            let mut number = None;
            client
                .exchange(|event, value| {
                    last += 1;
                    assert_eq!(value, (event == Event::GetDone).then_some(&b"v"[..]));
                    if let Event::CountDone { number: found } = event {
                        number = found;
                    }
                    Ok(())
                })
                .unwrap();
            assert_eq!((last, number), (replies, Some(7)), "{wire:?}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_reply_too_many_and_an_early_end_are_errors() {
        for (reply, part) in [
            (&b"END\r\nEND\r\n"[..], "nothing had asked"),
            (b"VALUE k 0 5\r\nab", "after 0 replies"),
        ] {
            // Both replies come in one piece, so that the second is seen at once.
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = Address::Tcp(listener.local_addr().unwrap());
            let mut client = client(&address, Wire::Memcached);
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(reply).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            client.get(b"k");
            let error = client.exchange(|_, _| Ok(())).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn figures_and_versions_are_read_over_either_protocol() {
        for (info, version) in [
            (
                &b"$36\r\n# Server\r\nredis_version:8.0.2\r\na:1\r\n\r\n"[..],
                "8.0.2",
            ),
            (
                b"$43\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n\r\n",
                "9.1.2",
            ),
        ] {
            let (address, thread) = server(14, info);
            assert_eq!(client(&address, Wire::Resp).version().unwrap(), version);
            assert_eq!(thread.join().unwrap(), b"*1\r\n$4\r\nINFO\r\n");
        }

        let (address, thread) = server(9, b"VERSION 1.6.38\r\n");
        let version = client(&address, Wire::Memcached).version();
        assert_eq!(version.unwrap(), "1.6.38");
        thread.join().unwrap();

        let (address, thread) = server(7, b"STAT a 1\r\nSTAT b 2\r\nEND\r\n");
        let text = client(&address, Wire::Memcached).figures().unwrap();
        assert_eq!(text, "STAT a 1\r\nSTAT b 2\r\nEND\r\n");
        thread.join().unwrap();

        let (address, thread) = server(9, b"ERROR\r\n");
        assert!(client(&address, Wire::Memcached).version().is_err());
        thread.join().unwrap();
    }
}
