//! Wrong protocol: detects clients that speak another protocol than their port does.
//!
//! The first bytes of a connection identify the protocol; the server logs it with advice, once a
//! minute for each port and protocol. The check reads one line, once per connection. A connection
//! that begins with an HTTP request line executes nothing, whatever its method: a page from
//! elsewhere in a browser may name its method `set`.
//!
//! Sources: RFC 8446 (TLS's record), RFC 9113 3.4 (HTTP/2's preface), PostgreSQL's "Message
//! Formats" (start and SSLRequest), RFC 4253 4.2 (SSH), HAProxy's "PROXY protocol" 2.1 and 2.2,
//! memcached's doc/protocol.txt and its wiki on the binary protocol.
//! Tests: below, server/tests/connections.rs.

use std::sync::atomic::{AtomicU64, Ordering};

use cellar_config::protocol::{ByProtocol, Protocol};

/// Shortest time between two log lines about the same protocol on the same port.
const TOLD_MS: u64 = 60_000;
/// How many of the first bytes are searched for a line's end.
const LINE_BYTES_MAX: usize = 256;
/// The first bytes of a PROXY protocol version 2 header.
const PROXY_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The code by which a PostgreSQL client requests TLS, and that of its protocol.
const POSTGRES_ASKS_FOR_TLS: [u8; 4] = [0x04, 0xd2, 0x16, 0x2f];
const POSTGRES_VERSION: [u8; 2] = [0, 3];

/// Makes [`Spoken`] of rows: the variant, the protocol of whose ports it is, its name, the advice.
macro_rules! spoken {
    ($($variant:ident $own:expr, $name:literal $advice:literal;)*) => {
        /// The protocol of a client that is not its port's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Spoken {
            $(
                #[doc = $name]
                $variant,
            )*
        }

        impl Spoken {
            const COUNT: usize = [$($name,)*].len();

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Spoken::$variant => $name,)*
                }
            }

            /// The protocol on whose ports it is right.
            fn own(self) -> Option<Protocol> {
                match self {
                    $(Spoken::$variant => $own,)*
                }
            }

            /// The advice for an operator.
            fn advice(self) -> &'static str {
                match self {
                    $(Spoken::$variant => $advice,)*
                }
            }
        }
    };
}

spoken! {
    Tls None, "TLS" "use an address that begins with tls:, with --tls-cert and --tls-key";
    Plain None, "a protocol without TLS"
        "turn on TLS in the client, or add an address without tls:";
    Memcached Some(Protocol::Memcached), "memcached's text protocol" "use the port of --memcached";
    Binary Some(Protocol::Memcached), "memcached's binary protocol" "use the port of --memcached";
    Resp Some(Protocol::Resp), "RESP" "use the port of --resp";
    Http Some(Protocol::Http), "HTTP" "use the port of --http";
    Http2 None, "HTTP/2" "use HTTP/1.1, on the port of --http";
    Proxy None, "the PROXY protocol" "turn it off in the load balancer: Cellar does not support it";
    Postgres None, "PostgreSQL's protocol" "this is a cache: the client has the wrong address";
    Ssh None, "SSH" "this is a cache: the client has the wrong address";
    Unknown None, "an unknown protocol" "check the address and port of the client";
}

/// The state of the detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    /// Nothing was received yet.
    #[default]
    Nothing,
    /// A line of text that has not ended; it may yet be that of an HTTP request.
    Line,
    /// The detection has ended.
    Known,
}

impl Beginning {
    /// Examines all bytes that a connection has sent so far, of which `looked_at` were examined
    /// before; returns its protocol if that is not its port's. Each byte of the first line is
    /// examined once, and no later one.
    #[inline]
    pub fn look(&mut self, protocol: Protocol, so_far: &[u8], looked_at: usize) -> Option<Spoken> {
        if *self == Beginning::Known {
            return None;
        }
        self.look_closely(protocol, so_far, looked_at)
    }

    #[cold]
    fn look_closely(
        &mut self,
        protocol: Protocol,
        so_far: &[u8],
        looked_at: usize,
    ) -> Option<Spoken> {
        let first = *so_far.first()?;
        let is_new = std::mem::replace(self, Beginning::Known) == Beginning::Nothing;
        if is_new && let Some(spoken) = Spoken::recognise(protocol, so_far) {
            return Some(spoken);
        }
        if !(protocol.row().begins_line)(first) {
            return None;
        }
        let Some(end) = memchr::memchr(b'\n', &so_far[looked_at..]) else {
            *self = Beginning::Line;
            return None;
        };
        is_http(&so_far[..looked_at + end]).then_some(Spoken::Http)
    }
}

/// Whether a line is the first of an HTTP request. Which method it has is up to the page that a
/// browser sends it for, if the page has made its own name lead here.
fn is_http(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|byte| *byte == b' ');
    let last = words.next_back();
    last.is_some_and(|last| last.starts_with(b"HTTP/1.")) && words.count() == 2
}

impl Spoken {
    /// The protocol of the first bytes on a port of `protocol`, if that is another one.
    #[must_use]
    pub fn recognise(protocol: Protocol, first: &[u8]) -> Option<Spoken> {
        if (protocol.row().is_usual_start)(*first.first()?) {
            return None;
        }
        Spoken::of(first).filter(|spoken| spoken.own() != Some(protocol))
    }

    /// The protocol of a connection's first bytes, as far as that is certain.
    fn of(first: &[u8]) -> Option<Spoken> {
        Some(match first {
            [0x16, ..] => Spoken::Tls,
            [0x80, ..] => Spoken::Binary,
            [_, _, _, _, rest @ ..]
                if rest.starts_with(&POSTGRES_ASKS_FOR_TLS)
                    || (first[0] == 0 && rest.starts_with(&POSTGRES_VERSION)) =>
            {
                Spoken::Postgres
            }
            _ if first.starts_with(PROXY_SIGNATURE) || first.starts_with(b"PROXY ") => {
                Spoken::Proxy
            }
            _ if first.starts_with(b"PRI * HTTP/2") => Spoken::Http2,
            _ if first.starts_with(b"SSH-") => Spoken::Ssh,
            [b'*', digit, ..] if digit.is_ascii_digit() => Spoken::Resp,
            [byte, ..] if byte.is_ascii_graphic() || byte.is_ascii_whitespace() => {
                return Spoken::of_line(first);
            }
            _ => Spoken::Unknown,
        })
    }

    /// The same for a line of text.
    fn of_line(first: &[u8]) -> Option<Spoken> {
        let within = &first[..first.len().min(LINE_BYTES_MAX)];
        let line = &within[..memchr::memchr(b'\n', within)?];
        if is_http(line) {
            return Some(Spoken::Http);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        match *words.as_slice() {
            [b"stats" | b"version" | b"mn" | b"verbosity", ..] => Some(Spoken::Memcached),
            [b"gets" | b"mg" | b"ms" | b"md" | b"cas", _, ..] => Some(Spoken::Memcached),
            [b"set" | b"add" | b"replace", _, flags, seconds, bytes, ..]
                if [flags, bytes].iter().all(|word| is_number(word))
                    && is_number(seconds.strip_prefix(b"-").unwrap_or(seconds)) =>
            {
                Some(Spoken::Memcached)
            }
            _ => None,
        }
    }

    /// Whether a connection is ended at once: because nothing that follows can be understood, or,
    /// of HTTP, because it must not be.
    #[must_use]
    pub fn is_hopeless(self) -> bool {
        matches!(
            self,
            Spoken::Tls
                | Spoken::Plain
                | Spoken::Binary
                | Spoken::Http
                | Spoken::Postgres
                | Spoken::Ssh
        )
    }

    /// The error for the client in the protocol of its port, without encryption.
    #[must_use]
    pub fn refusal(self, protocol: Protocol) -> Vec<u8> {
        let what = match self {
            Spoken::Plain => "this port speaks TLS only".to_owned(),
            spoken => format!("this port does not speak {}", spoken.name()),
        };
        (protocol.row().wrong_protocol)(&what).into_bytes()
    }
}

/// Whether a word is a number as memcached's lines have it.
fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// When clients with a wrong protocol were logged, for all threads.
#[derive(Debug, Default)]
pub struct WrongProtocols {
    /// For each port's protocol and each detected one: the earliest time of the next log line.
    // Relaxed: the thread that advances it writes the line; it orders nothing else.
    next_ms: ByProtocol<[AtomicU64; Spoken::COUNT]>,
    /// Clients that were not logged since the last line.
    // Relaxed: only reported.
    untold: ByProtocol<[AtomicU64; Spoken::COUNT]>,
}

impl WrongProtocols {
    /// Logs that a client on a port of `protocol` uses another one, unless that was logged within a
    /// minute. `peer` is called only then.
    pub fn note(
        &self,
        protocol: Protocol,
        spoken: Spoken,
        now_ms: u64,
        peer: impl FnOnce() -> String,
    ) {
        let next = &self.next_ms.of(protocol)[spoken as usize];
        let untold = &self.untold.of(protocol)[spoken as usize];
        // Relaxed: the thread that advances it writes the line; it orders nothing else.
        let due = next.load(Ordering::Relaxed);
        let has_moved = due <= now_ms
            && next
                .compare_exchange(due, now_ms + TOLD_MS, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !has_moved {
            untold.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let more = untold.swap(0, Ordering::Relaxed);
        let peer = peer();
        let (port, speaks, remedy) = (protocol.name(), spoken.name(), spoken.advice());
        tracing::warn!(
            port,
            speaks,
            remedy,
            peer,
            more,
            "a client uses the wrong protocol for the port"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSTGRES_START: &[u8] = b"\0\0\0\x29\0\x03\0\0user\0me\0";

    #[test]
    fn what_a_port_speaks_is_no_stranger() {
        for (protocol, first) in [
            (Protocol::Memcached, b"get k\r\n".as_slice()),
            (Protocol::Memcached, b"set k 0 0 1\r\n"),
            (Protocol::Memcached, b"GET k\r\n"),
            (Protocol::Memcached, b"\x80\x0b\0\0\0\0"),
            (Protocol::Resp, b"*1\r\n$4\r\nPING\r\n"),
            (Protocol::Resp, b"PING\r\n"),
            (Protocol::Resp, b"get k\r\n"),
            (Protocol::Resp, b"set k v EX 10\r\n"),
            (Protocol::Resp, b"\r\n"),
            (Protocol::Http, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            (Protocol::Http, b"OPTIONS * HTTP/1.0\r\n"),
            (Protocol::Http, b"\r\nGET / HTTP/1.1\r\n"),
            (Protocol::Http, b"P"),
            (Protocol::Memcached, b""),
        ] {
            assert_eq!(Spoken::recognise(protocol, first), None, "{first:?}");
        }
    }

    #[test]
    fn strangers_are_known_by_their_first_bytes() {
        for (first, spoken) in [
            (b"\x16\x03\x01\x02\0\x01".as_slice(), Spoken::Tls),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Spoken::Postgres),
            (POSTGRES_START, Spoken::Postgres),
            (b"SSH-2.0-OpenSSH_9\r\n", Spoken::Ssh),
            (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", Spoken::Proxy),
            (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", Spoken::Proxy),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Spoken::Http2),
            (b"\x01\x02\x03\x04\x05", Spoken::Unknown),
        ] {
            for protocol in Protocol::ALL {
                assert_eq!(
                    Spoken::recognise(protocol, first),
                    Some(spoken),
                    "{first:?}"
                );
            }
        }
        for (protocol, first, spoken) in [
            (
                Protocol::Resp,
                b"GET / HTTP/1.1\r\nHost: a\r\n".as_slice(),
                Spoken::Http,
            ),
            (Protocol::Resp, b"\x80\x0b\0\0\0\0", Spoken::Binary),
            (Protocol::Http, b"\x80", Spoken::Binary),
            (Protocol::Memcached, b"GET / HTTP/1.1\r\n", Spoken::Http),
            (Protocol::Memcached, b"*1\r\n$4\r\nPING\r\n", Spoken::Resp),
            (Protocol::Http, b"*1\r\n$4\r\nPING\r\n", Spoken::Resp),
            (
                Protocol::Resp,
                b"set k 0 -1 3\r\nabc\r\n",
                Spoken::Memcached,
            ),
            (Protocol::Resp, b"version\r\n", Spoken::Memcached),
            (Protocol::Http, b"mg k v\r\n", Spoken::Memcached),
        ] {
            assert_eq!(
                Spoken::recognise(protocol, first),
                Some(spoken),
                "{first:?}"
            );
        }
    }

    #[test]
    fn each_refusal_says_what_is_not_spoken() {
        for protocol in Protocol::ALL {
            let text = String::from_utf8(Spoken::Postgres.refusal(protocol)).unwrap();
            assert!(
                text.contains("does not speak PostgreSQL's protocol"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_log_is_told_once_a_minute() {
        let wrong_protocol = WrongProtocols::default();
        let told = std::cell::Cell::new(0);
        let note = |protocol, spoken, now_ms| {
            wrong_protocol.note(protocol, spoken, now_ms, || {
                told.set(told.get() + 1);
                "127.0.0.1:1".to_owned()
            });
        };
        for now_ms in [0, 1, 59_999] {
            note(Protocol::Resp, Spoken::Tls, now_ms);
        }
        assert_eq!(told.get(), 1);
        note(Protocol::Resp, Spoken::Http, 0);
        note(Protocol::Http, Spoken::Tls, 0);
        assert_eq!(told.get(), 3);
        note(Protocol::Resp, Spoken::Tls, 60_000);
        assert_eq!(told.get(), 4);
    }
}
