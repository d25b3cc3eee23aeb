//! The client's side of HTTP, as far as needed: GET and PUT of a key.
//!
//! Responses are scanned as they arrive, cut at any place; values are handed on in pieces.
//!
//! Invariant: after an error the scanner is of no use, because the border between two responses is
//! lost.
//!
//! Source: RFC 9112; docs/http.md for the paths.

use std::io::Write;
use std::sync::OnceLock;

use cellar_protocol::http::target::encode_percent;
use cellar_protocol::memcached::base64;
use memchr::memmem;

use super::Event;
use crate::clock::{NS_PER_S, unix_ns};
use crate::quantity::TtlMix;

/// Longest head of a response, and most fields in it.
const HEAD_BYTES_MAX: usize = 4096;
const FIELDS_MAX: usize = 32;
const HEAD_END: &[u8] = b"\r\n\r\n";
/// What stands behind the request line and ends a request without a body.
const HOST: &[u8] = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n";

/// The field that names the user of all requests of this process, if they have one.
static AUTHORIZATION: OnceLock<Vec<u8>> = OnceLock::new();

/// Names the user of all requests from now on; the first to come remains.
pub(super) fn authorize(name: &str, password: &str) {
    AUTHORIZATION.get_or_init(|| {
        let mut field = b"Authorization: Basic ".to_vec();
        base64::encode(&mut field, format!("{name}:{password}").as_bytes());
        field.extend_from_slice(b"\r\n");
        field
    });
}

fn push_host(out: &mut Vec<u8>) {
    out.extend_from_slice(HOST);
    if let Some(field) = AUTHORIZATION.get() {
        out.extend_from_slice(field);
    }
}

fn push_target(out: &mut Vec<u8>, method: &[u8], key: &[u8]) {
    out.extend_from_slice(method);
    out.extend_from_slice(b" /v1/cache/");
    encode_percent(out, key);
}

/// Appends `GET /v1/cache/KEY`.
pub(crate) fn push_get(out: &mut Vec<u8>, key: &[u8]) {
    push_target(out, b"GET", key);
    push_host(out);
    out.extend_from_slice(b"\r\n");
}

/// Appends what a server answers to a get that hits, as long as Cellar's answer.
pub(crate) fn push_hit(out: &mut Vec<u8>, value: &[u8]) {
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Content-Type: application/octet-stream\r\nETag: \"0123456789abcdef\"\r\n\
         Content-Length: {}\r\n\r\n",
        value.len()
    );
    out.extend_from_slice(value);
}

/// Appends `PUT /v1/cache/KEY`, with a time to live as memcached reads it: none for zero, above 30
/// days a moment.
pub(crate) fn push_put(out: &mut Vec<u8>, key: &[u8], ttl_s: u32, value: &[u8]) {
    push_target(out, b"PUT", key);
    let mut left_s = u64::from(ttl_s);
    if left_s > TtlMix::TTL_S_MAX {
        left_s = left_s.saturating_sub(unix_ns() / NS_PER_S).max(1);
    }
    if left_s > 0 {
        let _ = write!(out, "?ttl={left_s}");
    }
    push_host(out);
    let _ = write!(out, "Content-Length: {}\r\n\r\n", value.len());
    out.extend_from_slice(value);
}

/// What a response is, by its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Value,
    Stored,
    Missing,
    Refused,
}

/// Cuts the received bytes of one connection into responses.
#[derive(Clone, Debug, Default)]
pub struct ResponseScanner {
    /// The head that is arriving.
    head: Vec<u8>,
    /// The body that is arriving, and how much of it is left.
    body: Option<(Kind, usize)>,
    refusal: Vec<u8>,
}

impl ResponseScanner {
    /// Takes the next piece off the front of `input`; `None` when it is used up,
    /// a sentence if the bytes are no responses to these requests.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, String> {
        let (kind, left) = match self.body {
            Some(body) => body,
            None => {
                let Some((kind, bytes)) = self.take_head(input)? else {
                    return Ok(None);
                };
                self.body = Some((kind, bytes));
                if kind == Kind::Value {
                    return Ok(Some(Event::Value { key: None, bytes }));
                }
                (kind, bytes)
            }
        };
        let taken = left.min(input.len());
        let (data, rest) = input.split_at(taken);
        *input = rest;
        if kind == Kind::Value && taken > 0 {
            self.body = Some((kind, left - taken));
            return Ok(Some(Event::Data(data)));
        }
        self.body = (left > taken).then_some((kind, left - taken));
        Ok(match kind {
            _ if left > taken => None,
            Kind::Value | Kind::Missing => Some(Event::GetDone),
            Kind::Stored => Some(Event::SetDone { stored: true }),
            Kind::Refused => Some(Event::Refused(&self.refusal)),
        })
    }

    /// Takes a head off the front of the input: what it says, and the length of the body.
    fn take_head(&mut self, input: &mut &[u8]) -> Result<Option<(Kind, usize)>, String> {
        if self.head.is_empty()
            && let Some(end) = memmem::find(input, HEAD_END)
        {
            let (head, rest) = input.split_at(end + HEAD_END.len());
            *input = rest;
            return self.read_head(head).map(Some);
        }
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.head.push(byte);
            if self.head.ends_with(HEAD_END) {
                let head = std::mem::take(&mut self.head);
                return self.read_head(&head).map(Some);
            }
            if self.head.len() > HEAD_BYTES_MAX {
                return Err("the head of a response has no end".to_owned());
            }
        }
        Ok(None)
    }

    fn read_head(&mut self, bytes: &[u8]) -> Result<(Kind, usize), String> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        let parsed = head.parse(bytes);
        parsed.map_err(|error| format!("no known response of HTTP: {error}"))?;
        let status = head.code.unwrap_or(0);
        let kind = match status {
            200 => Kind::Value,
            201 | 204 => Kind::Stored,
            404 => Kind::Missing,
            _ => {
                self.refusal.clear();
                let _ = write!(self.refusal, "{status} {}", head.reason.unwrap_or(""));
                Kind::Refused
            }
        };
        let mut fields = head.headers.iter();
        let length = fields.find(|field| field.name.eq_ignore_ascii_case("Content-Length"));
        let length = match length {
            Some(field) => std::str::from_utf8(field.value)
                .ok()
                .and_then(|it| it.parse().ok()),
            None => (status == 204).then_some(0),
        };
        let length = length.ok_or("a response does not tell its length")?;
        Ok((kind, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(parts: &[&[u8]]) -> Result<Vec<String>, String> {
        let mut scanner = ResponseScanner::default();
        let (mut pieces, mut data) = (Vec::new(), Vec::new());
        for part in parts {
            let mut input = *part;
            while let Some(reply) = scanner.next(&mut input)? {
                match reply {
                    Event::Data(bytes) => data.extend_from_slice(bytes),
                    Event::Refused(text) => pieces.push(String::from_utf8_lossy(text).into()),
                    Event::GetDone => pieces.push(format!("{:?}", std::mem::take(&mut data))),
                    other => pieces.push(format!("{other:?}")),
                }
            }
        }
        Ok(pieces)
    }

    #[test]
    fn responses_are_the_same_wherever_they_are_cut() {
        let mut bytes = Vec::new();
        push_hit(&mut bytes, b"ab");
        push_hit(&mut bytes, b"");
        bytes.extend_from_slice(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\nHTTP/1.1 204 No Content\r\n\
              \r\nHTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 429 Too Many\r\n\
              Content-Length: 0\r\n\r\n",
        );
        let expected = [
            "Value { key: None, bytes: 2 }",
            "[97, 98]",
            "Value { key: None, bytes: 0 }",
            "[]",
            "[]",
            "SetDone { stored: true }",
            "SetDone { stored: true }",
            "429 Too Many",
        ];
        assert_eq!(scan(&[&bytes]).unwrap(), expected);
        for cut in 0..bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(scan(&[first, second]).unwrap(), expected, "{cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_responses_are_errors() {
        for bytes in [
            b"VALUE k 0 3\r\n\r\n".as_slice(),
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            &[b'x'; HEAD_BYTES_MAX + 2],
        ] {
            assert!(scan(&[bytes]).is_err());
        }
    }
}
