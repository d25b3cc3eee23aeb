//! The wire: how requests are written and replies read in each protocol that can be loaded.
//!
//! A load asks two things of a protocol, a get and a set, and learns five things back ([`Event`]).

use std::str::FromStr;

use cellar_protocol::memcached::client::{self, Reply, ReplyScanner};

use crate::resp;

/// Flags of the stored items.
const FLAGS: u32 = 0;

/// A protocol that can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// memcached's classic text protocol.
    Memcached,
    /// Redis' protocol.
    Resp,
}

impl Wire {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Wire::Memcached => "memcached",
            Wire::Resp => "resp",
        }
    }

    /// Appends a request for the value of `key`.
    #[inline]
    pub fn push_get(self, out: &mut Vec<u8>, key: &[u8]) {
        match self {
            Wire::Memcached => client::push_get(out, key),
            Wire::Resp => resp::push_get(out, key),
        }
    }

    /// Appends a store of `value` for `ttl_s` seconds, zero without limit; above 30 days it is a
    /// moment, in seconds since 1970.
    #[inline]
    pub fn push_set(self, out: &mut Vec<u8>, key: &[u8], ttl_s: u32, value: &[u8]) {
        match self {
            Wire::Memcached => client::push_set(out, key, FLAGS, ttl_s, value),
            Wire::Resp => resp::push_set(out, key, ttl_s, value),
        }
    }

    /// Appends what a server answers to a get that hits.
    pub fn push_hit(self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        match self {
            Wire::Memcached => client::push_hit(out, key, FLAGS, value),
            Wire::Resp => {
                out.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A scanner for the replies of one connection.
    #[must_use]
    pub fn scanner(self) -> Scanner {
        match self {
            Wire::Memcached => Scanner::Memcached(ReplyScanner::new()),
            Wire::Resp => Scanner::Resp(resp::ReplyScanner::default()),
        }
    }
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(text: &str) -> Result<Wire, String> {
        match text {
            "memcached" => Ok(Wire::Memcached),
            _ => Err("the load generator speaks memcached".to_owned()),
        }
    }
}

/// One piece of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A value of `bytes` bytes begins.
    Value {
        /// The key it was stored under, if the protocol repeats it.
        key: Option<&'a [u8]>,
        /// Its length.
        bytes: usize,
    },
    /// The next bytes of the value.
    Data(&'a [u8]),
    /// The reply to a get is complete; a miss if no value came.
    GetDone,
    /// The reply to a set: whether it was stored.
    SetDone {
        /// Whether the server took the value.
        stored: bool,
    },
    /// The server refused the request with this text; the reply is complete.
    Refused(&'a [u8]),
}

/// Cuts the received bytes of one connection into events.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each connection, and it stays where it is"
)]
pub enum Scanner {
    /// memcached's classic text protocol.
    Memcached(ReplyScanner),
    /// Redis' protocol.
    Resp(resp::ReplyScanner),
}

impl Scanner {
    /// Takes the next piece off the front of `input`; `None` when it is used up.
    ///
    /// # Errors
    /// A sentence, if the bytes are no reply to a get or a set.
    #[inline]
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, String> {
        match self {
            Scanner::Memcached(scanner) => Ok(Some(match scanner.next(input) {
                Ok(None) => return Ok(None),
                Ok(Some(Reply::Data(data))) => Event::Data(data),
                Ok(Some(Reply::Value { key, bytes, .. })) => Event::Value {
                    key: Some(key),
                    bytes,
                },
                Ok(Some(Reply::End)) => Event::GetDone,
                Ok(Some(Reply::Stored)) => Event::SetDone { stored: true },
                Ok(Some(Reply::NotStored)) => Event::SetDone { stored: false },
                Ok(Some(Reply::Error(line))) => Event::Refused(line),
                Ok(Some(other)) => return Err(format!("unexpected reply {other:?}")),
                Err(error) => return Err(error.to_string()),
            })),
            Scanner::Resp(scanner) => Ok(scanner.next(input)?.map(|reply| match reply {
                resp::Reply::Value { bytes } => Event::Value { key: None, bytes },
                resp::Reply::Data(data) => Event::Data(data),
                resp::Reply::End => Event::GetDone,
                resp::Reply::Ok => Event::SetDone { stored: true },
                resp::Reply::Error(line) => Event::Refused(line),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_a_miss_a_set_and_a_refusal_are_told_apart() {
        let wire = Wire::Memcached;
        let mut bytes = Vec::new();
        wire.push_hit(&mut bytes, b"k", b"abc");
        bytes.extend_from_slice(b"END\r\nSTORED\r\nNOT_STORED\r\nSERVER_ERROR no\r\n");
        let mut scanner = wire.scanner();
        let mut input = bytes.as_slice();
        for expected in [
            Event::Value {
                key: Some(b"k"),
                bytes: 3,
            },
            Event::Data(b"abc"),
            Event::GetDone,
            Event::GetDone,
            Event::SetDone { stored: true },
            Event::SetDone { stored: false },
            Event::Refused(b"SERVER_ERROR no"),
        ] {
            assert_eq!(scanner.next(&mut input), Ok(Some(expected)));
        }
        assert_eq!(scanner.next(&mut input), Ok(None));
        assert!(scanner.next(&mut &b"TOUCHED\r\n"[..]).is_err());
        assert!("resp".parse::<Wire>().is_err());
    }

    #[test]
    fn redis_replies_become_the_same_events() {
        let wire = Wire::Resp;
        let mut bytes = Vec::new();
        wire.push_hit(&mut bytes, b"k", b"abc");
        bytes.extend_from_slice(b"$-1\r\n+OK\r\n-OOM no\r\n");
        let mut scanner = wire.scanner();
        let mut input = bytes.as_slice();
        for expected in [
            Event::Value {
                key: None,
                bytes: 3,
            },
            Event::Data(b"abc"),
            Event::GetDone,
            Event::GetDone,
            Event::SetDone { stored: true },
            Event::Refused(b"-OOM no"),
        ] {
            assert_eq!(scanner.next(&mut input), Ok(Some(expected)));
        }
        assert_eq!(scanner.next(&mut input), Ok(None));
    }
}
