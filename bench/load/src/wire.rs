//! The wire: how requests are written and replies read in each protocol that is measured.
//!
//! Three things are asked over a protocol, a get, a set and a count, and each is answered by the
//! same pieces in all of them ([`Event`]).

pub(crate) mod resp; // the client's side of RESP
mod web; // the client's side of HTTP, as far as needed: GET and PUT of a key

use std::str::FromStr;

use cellar_protocol::memcached::client;
use clap::ValueEnum;

/// Flags of the stored items.
const FLAGS: u32 = 0;

/// A protocol that a server may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    /// memcached's classic text protocol
    Memcached,
    /// Redis' protocol
    Resp,
    /// HTTP
    Http,
}

impl Wire {
    /// Its name on the command line; that of the option by which Cellar is told where to listen.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Memcached => "memcached",
            Wire::Resp => "resp",
            Wire::Http => "http",
        }
    }

    /// Appends a request for the value of `key`.
    #[inline]
    pub fn push_get(self, out: &mut Vec<u8>, key: &[u8]) {
        match self {
            Wire::Memcached => client::push_get(out, key),
            Wire::Resp => resp::push_get(out, key),
            Wire::Http => web::push_get(out, key),
        }
    }

    /// Appends a store of `value` for `ttl_s` seconds, zero without limit; above 30 days it is a
    /// moment, in seconds since 1970.
    #[inline]
    pub fn push_set(self, out: &mut Vec<u8>, key: &[u8], ttl_s: u32, value: &[u8]) {
        match self {
            Wire::Memcached => client::push_set(out, key, FLAGS, ttl_s, value),
            Wire::Resp => resp::push_set(out, key, ttl_s, value),
            Wire::Http => web::push_put(out, key, ttl_s, value),
        }
    }

    /// Appends the name and password of a connection's user; returns how many replies that brings.
    /// Over HTTP they come with all later requests of this process instead.
    pub fn push_login(self, out: &mut Vec<u8>, login: &Login) -> u64 {
        let Login { name, password } = login;
        match self {
            Wire::Memcached => {
                client::push_set(out, b"auth", 0, 0, format!("{name} {password}").as_bytes());
            }
            Wire::Resp => {
                resp::push_command(out, &[b"AUTH", name.as_bytes(), password.as_bytes()]);
            }
            Wire::Http => {
                web::authorize(name, password);
                return 0;
            }
        }
        1
    }

    /// Appends what adds one to a number, which begins at zero if it is missing; returns how many
    /// replies that brings.
    pub fn push_count(self, out: &mut Vec<u8>, key: &[u8]) -> u64 {
        match self {
            Wire::Memcached => {
                for part in [
                    b"add ".as_slice(),
                    key,
                    b" 0 0 1\r\n0\r\nincr ",
                    key,
                    b" 1\r\n",
                ] {
                    out.extend_from_slice(part);
                }
                2
            }
            Wire::Resp => {
                resp::push_count(out, key);
                1
            }
            // No measurement counts over HTTP.
            Wire::Http => 0,
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
            Wire::Http => web::push_hit(out, value),
        }
    }

    /// A scanner for the replies of one connection.
    pub fn scanner(self) -> Scanner {
        match self {
            Wire::Memcached => Scanner::Memcached(client::ReplyScanner::new()),
            Wire::Resp => Scanner::Resp(resp::ReplyScanner::default()),
            Wire::Http => Scanner::Http(web::ResponseScanner::default()),
        }
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Login {
    name: String,
    password: String,
}

impl FromStr for Login {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Login, &'static str> {
        let parts = text.split_once(':').ok_or("write NAME:PASSWORD")?;
        let (name, password) = (parts.0.to_owned(), parts.1.to_owned());
        Ok(Login { name, password })
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
    /// The reply to a count: the new number; none if the key was gone.
    CountDone {
        /// The number.
        number: Option<u64>,
    },
    /// The server refused the request with this text; the reply is complete.
    Refused(&'a [u8]),
}

impl Event<'_> {
    /// Whether the reply is complete with this piece.
    pub fn is_last(self) -> bool {
        !matches!(self, Event::Value { .. } | Event::Data(_))
    }
}

/// Cuts the received bytes of one connection into events.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each connection, and it stays where it is"
)]
pub enum Scanner {
    /// memcached's classic text protocol.
    Memcached(client::ReplyScanner),
    /// Redis' protocol.
    Resp(resp::ReplyScanner),
    /// HTTP.
    Http(web::ResponseScanner),
}

impl Scanner {
    /// Takes the next piece off the front of `input`; `None` when it is used up.
    ///
    /// # Errors
    /// A sentence, if the bytes are no reply to a get, a set or a count.
    #[inline]
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, String> {
        match self {
            Scanner::Memcached(scanner) => Ok(Some(match scanner.next(input) {
                Ok(None) => return Ok(None),
                Ok(Some(client::Reply::Data(data))) => Event::Data(data),
                Ok(Some(client::Reply::Value { key, bytes, .. })) => Event::Value {
                    key: Some(key),
                    bytes,
                },
                Ok(Some(client::Reply::End)) => Event::GetDone,
                Ok(Some(client::Reply::Stored)) => Event::SetDone { stored: true },
                Ok(Some(client::Reply::NotStored)) => Event::SetDone { stored: false },
                Ok(Some(client::Reply::Number(number))) => Event::CountDone {
                    number: Some(number),
                },
                Ok(Some(client::Reply::NotFound)) => Event::CountDone { number: None },
                Ok(Some(client::Reply::Error(line))) => Event::Refused(line),
                Ok(Some(other)) => return Err(format!("unexpected reply {other:?}")),
                Err(error) => return Err(error.to_string()),
            })),
            Scanner::Resp(scanner) => scanner.next(input),
            Scanner::Http(scanner) => scanner.next(input),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pieces of what comes after the reply to a get that hits, which is the same everywhere
    /// but for the key.
    fn events_after_a_hit(wire: Wire, replies: &[u8]) -> Vec<String> {
        let mut bytes = Vec::new();
        wire.push_hit(&mut bytes, b"k", b"abc");
        bytes.extend_from_slice(replies);
        let mut scanner = wire.scanner();
        let mut input = bytes.as_slice();
        let key: Option<&[u8]> = (wire == Wire::Memcached).then_some(b"k");
        for expected in [
            Event::Value { key, bytes: 3 },
            Event::Data(b"abc"),
            Event::GetDone,
        ] {
            assert_eq!(scanner.next(&mut input), Ok(Some(expected)));
        }
        let mut events = Vec::new();
        while let Some(event) = scanner.next(&mut input).unwrap() {
            assert!(event.is_last(), "{event:?}");
            events.push(match event {
                Event::Refused(line) => String::from_utf8_lossy(line).into_owned(),
                event => format!("{event:?}"),
            });
        }
        events
    }

    #[test]
    fn a_hit_a_miss_a_set_a_count_and_a_refusal_are_told_apart() {
        let replies = b"END\r\nSTORED\r\nNOT_STORED\r\n7\r\nNOT_FOUND\r\nSERVER_ERROR no\r\n";
        let expected = [
            "GetDone",
            "SetDone { stored: true }",
            "SetDone { stored: false }",
            "CountDone { number: Some(7) }",
            "CountDone { number: None }",
            "SERVER_ERROR no",
        ];
        assert_eq!(events_after_a_hit(Wire::Memcached, replies), expected);
        let mut scanner = Wire::Memcached.scanner();
        assert!(scanner.next(&mut &b"TOUCHED\r\n"[..]).is_err());
    }

    #[test]
    fn redis_replies_become_the_same_events() {
        let expected = [
            "GetDone",
            "SetDone { stored: true }",
            "CountDone { number: Some(7) }",
            "-OOM no",
        ];
        let replies = b"$-1\r\n+OK\r\n:7\r\n-OOM no\r\n";
        assert_eq!(events_after_a_hit(Wire::Resp, replies), expected);
    }

    #[test]
    fn responses_over_http_become_the_same_events() {
        let replies = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n\
            HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n\
            HTTP/1.1 507 no\r\nContent-Length: 0\r\n\r\n";
        let expected = [
            "GetDone",
            "SetDone { stored: true }",
            "SetDone { stored: true }",
            "507 no",
        ];
        assert_eq!(events_after_a_hit(Wire::Http, replies), expected);
    }

    #[test]
    fn a_count_brings_as_many_replies_as_it_says() {
        let mut out = Vec::new();
        assert_eq!(Wire::Memcached.push_count(&mut out, b"n"), 2);
        assert_eq!(out, b"add n 0 0 1\r\n0\r\nincr n 1\r\n");
        out.clear();
        assert_eq!(Wire::Resp.push_count(&mut out, b"n"), 1);
    }
}
