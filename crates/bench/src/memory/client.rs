//! A plain client: requests in batches, replies counted.
//!
//! It speaks memcached's classic text protocol, and as much of Redis's as a cache needs.

use std::io::{Read, Write};
use std::time::Duration;

use cellar_protocol::memcached::client::{Reply, ReplyScanner, push_get, push_set};

use crate::address::{Address, Stream};
use crate::error::Error;

/// Bytes sent, and replies asked for, before the replies are read.
const BATCH_BYTES: usize = 64 << 10;
const BATCH_REPLIES: usize = 100;
const READ_BYTES: usize = 256 << 10;
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a silent reader waits for its requests to be taken.
const SILENT_TIMEOUT: Duration = Duration::from_millis(50);

/// A server's language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    /// memcached's classic text protocol.
    Memcached,
    /// Redis's protocol.
    Redis,
}

/// What reads have found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) items: u64,
    /// Bytes of keys and values.
    pub(super) user_bytes: u64,
    /// Requests that the server refused.
    pub(super) refused: u64,
}

/// One connection.
pub(super) struct Client {
    stream: Stream,
    speech: Speech,
    requests: Vec<u8>,
    /// Length of the key of each request that waits for its reply.
    waiting: std::collections::VecDeque<usize>,
    replies: Replies,
    value: Vec<u8>,
    held: Held,
    input: Vec<u8>,
}

impl Client {
    pub(super) fn connect(address: &Address, speech: Speech) -> Result<Client, Error> {
        let stream = address.connect().map_err(broken)?;
        stream.set_timeout(Some(TIMEOUT)).map_err(broken)?;
        Ok(Client {
            stream,
            speech,
            requests: Vec::new(),
            waiting: std::collections::VecDeque::new(),
            replies: Replies::of(speech),
            value: Vec::new(),
            held: Held::default(),
            input: vec![0; READ_BYTES],
        })
    }

    /// Stores a value of so many bytes, for `ttl_s` seconds or without limit.
    pub(super) fn set(&mut self, key: &str, ttl_s: u32, bytes: usize) -> Result<(), Error> {
        if self.value.len() < bytes {
            self.value.resize(bytes, b'v');
        }
        let value = &self.value[..bytes];
        match self.speech {
            Speech::Memcached => push_set(&mut self.requests, key.as_bytes(), 0, ttl_s, value),
            Speech::Redis if ttl_s == 0 => {
                push_words(&mut self.requests, &[b"SET", key.as_bytes(), value]);
            }
            Speech::Redis => {
                let ttl_s = ttl_s.to_string();
                let words = [
                    b"SET".as_slice(),
                    key.as_bytes(),
                    value,
                    b"EX",
                    ttl_s.as_bytes(),
                ];
                push_words(&mut self.requests, &words);
            }
        }
        self.asked(key)
    }

    /// Adds one to a number, which is created if it is missing.
    pub(super) fn count(&mut self, key: &str) -> Result<(), Error> {
        match self.speech {
            Speech::Memcached => {
                let requests = format!("add {key} 0 0 1\r\n0\r\nincr {key} 1\r\n");
                self.requests.extend_from_slice(requests.as_bytes());
                self.waiting.push_back(key.len());
            }
            Speech::Redis => push_words(&mut self.requests, &[b"INCR", key.as_bytes()]),
        }
        self.asked(key)
    }

    /// Reads a value; what is found is counted.
    pub(super) fn get(&mut self, key: &str) -> Result<(), Error> {
        self.push_get(key);
        self.asked(key)
    }

    fn push_get(&mut self, key: &str) {
        match self.speech {
            Speech::Memcached => push_get(&mut self.requests, key.as_bytes()),
            Speech::Redis => push_words(&mut self.requests, &[b"GET", key.as_bytes()]),
        }
    }

    /// Asks for a value many times and reads nothing.
    pub(super) fn ask_and_leave(mut self, key: &str, requests: usize) -> Result<Stream, Error> {
        (0..requests).for_each(|_| self.push_get(key));
        self.stream
            .set_timeout(Some(SILENT_TIMEOUT))
            .map_err(broken)?;
        // The server stops reading sooner or later; then this fails, as it should.
        let _ = self.stream.write_all(&self.requests);
        Ok(self.stream)
    }

    /// The connection itself, when all is answered.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    fn asked(&mut self, key: &str) -> Result<(), Error> {
        self.waiting.push_back(key.len());
        if self.requests.len() >= BATCH_BYTES || self.waiting.len() >= BATCH_REPLIES {
            self.finish()?;
        }
        Ok(())
    }

    /// Waits for all replies; what all reads of this connection have found.
    pub(super) fn finish(&mut self) -> Result<Held, Error> {
        self.stream.write_all(&self.requests).map_err(broken)?;
        self.requests.clear();
        while !self.waiting.is_empty() {
            let bytes = self.stream.read(&mut self.input).map_err(broken)?;
            if bytes == 0 {
                return Err(Error::Closed {
                    replies: self.held.items,
                });
            }
            let mut input = &self.input[..bytes];
            while let Some(answer) = self.replies.next(&mut input)? {
                let key_bytes = self.waiting.pop_front();
                let key_bytes = key_bytes.ok_or_else(|| garbled("one reply too many"))?;
                match answer {
                    Answer::Value(bytes) => {
                        self.held.items += 1;
                        self.held.user_bytes += (key_bytes + bytes) as u64;
                    }
                    Answer::Refused => self.held.refused += 1,
                    Answer::Other => {}
                }
            }
        }
        Ok(self.held)
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::system("talking to the server", error)
}

fn garbled(what: &str) -> Error {
    Error::Garbled(what.to_owned())
}

/// Appends a request of Redis's protocol.
fn push_words(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// A value of so many bytes.
    Value(usize),
    /// The server could not do what was asked.
    Refused,
    /// Anything else.
    Other,
}

impl Answer {
    fn of(value_bytes: Option<usize>) -> Answer {
        value_bytes.map_or(Answer::Other, Answer::Value)
    }
}

/// Finds the ends of replies.
enum Replies {
    Memcached {
        scanner: Box<ReplyScanner>,
        /// Length of the value of the reply under way.
        value_bytes: Option<usize>,
    },
    Redis {
        line: Vec<u8>,
        value_bytes: Option<usize>,
        /// Bytes of the value and its line end that are still to come.
        left: usize,
    },
}

impl Replies {
    fn of(speech: Speech) -> Replies {
        match speech {
            Speech::Memcached => Replies::Memcached {
                scanner: Box::default(),
                value_bytes: None,
            },
            Speech::Redis => Replies::Redis {
                line: Vec::new(),
                value_bytes: None,
                left: 0,
            },
        }
    }

    /// Takes the next whole reply off `input`; `None` when that is used up.
    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answer>, Error> {
        match self {
            Replies::Memcached {
                scanner,
                value_bytes,
            } => loop {
                match scanner
                    .next(input)
                    .map_err(|error| garbled(&error.to_string()))?
                {
                    None => return Ok(None),
                    Some(Reply::Value { bytes, .. }) => *value_bytes = Some(bytes),
                    Some(Reply::Data(_)) => {}
                    Some(Reply::Error(_)) => return Ok(Some(Answer::Refused)),
                    Some(_) => return Ok(Some(Answer::of(value_bytes.take()))),
                }
            },
            Replies::Redis {
                line,
                value_bytes,
                left,
            } => loop {
                if *left > 0 {
                    let taken = (*left).min(input.len());
                    *input = &input[taken..];
                    *left -= taken;
                    if *left > 0 {
                        return Ok(None);
                    }
                    return Ok(Some(Answer::of(value_bytes.take())));
                }
                let Some((&byte, rest)) = input.split_first() else {
                    return Ok(None);
                };
                *input = rest;
                line.push(byte);
                if byte != b'\n' {
                    continue;
                }
                let text = String::from_utf8_lossy(line).trim().to_owned();
                line.clear();
                match text.strip_prefix('$') {
                    None if text.starts_with('-') => return Ok(Some(Answer::Refused)),
                    None | Some("-1") => return Ok(Some(Answer::Other)),
                    Some(number) => {
                        let bytes = number.parse::<usize>().map_err(|_| garbled(&text))?;
                        (*value_bytes, *left) = (Some(bytes), bytes + 2);
                    }
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(speech: Speech, bytes: &[u8]) -> Vec<Answer> {
        let mut replies = Replies::of(speech);
        let mut found = Vec::new();
        for mut piece in bytes.chunks(3) {
            while let Some(answer) = replies.next(&mut piece).unwrap() {
                found.push(answer);
            }
        }
        found
    }

    #[test]
    fn replies_are_found_wherever_they_are_cut() {
        use Answer::{Other, Refused, Value};
        let memcached = b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\nEND\r\n7\r\nSERVER_ERROR no\r\n";
        assert_eq!(
            answers(Speech::Memcached, memcached),
            [Other, Value(5), Other, Other, Refused]
        );
        let redis = b"+OK\r\n$5\r\nhello\r\n$-1\r\n:7\r\n$0\r\n\r\n-OOM no\r\n";
        assert_eq!(
            answers(Speech::Redis, redis),
            [Other, Value(5), Other, Other, Value(0), Refused]
        );
    }

    #[test]
    fn a_request_to_redis_counts_its_words() {
        let mut out = Vec::new();
        push_words(&mut out, &[b"GET", b"key"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    }
}
