//! The client's side of HTTP, as far as needed: GET and PUT of a key, POST of a message, counts.
//!
//! Responses are scanned as they arrive, cut at any place; values are handed on in pieces. Values
//! of messages travel as text: two hexadecimal digits for each byte.
//!
//! Invariant: after an error the scanner is of no use, because the border between two responses is
//! lost.
//!
//! Source: RFC 9112; docs/http.md for the paths.

use std::io::Write;

use cellar_protocol::http::target::encode_percent;
use memchr::memchr;

use crate::clock::{NS_PER_S, unix_ns};
use crate::quantity::TtlMix;

/// Longest line of a response's head.
const LINE_BYTES_MAX: usize = 4096;
/// Longest body that tells something other than a value.
const TEXT_BYTES_MAX: usize = 4096;
/// Line ends of a request for a value.
pub const LINES_PER_GET: usize = 3;
/// What stands behind the request line and ends a request without a body.
const HOST: &[u8] = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n";

fn push_target(out: &mut Vec<u8>, method: &[u8], key: &[u8]) {
    out.extend_from_slice(method);
    out.extend_from_slice(b" /v1/cache/");
    encode_percent(out, key);
}

/// Appends `GET /v1/cache/KEY`.
pub fn push_get(out: &mut Vec<u8>, key: &[u8]) {
    push_target(out, b"GET", key);
    out.extend_from_slice(HOST);
    out.extend_from_slice(b"\r\n");
}

/// Appends what a server answers to a get that hits, as long as Cellar's answer.
pub fn push_hit(out: &mut Vec<u8>, value: &[u8]) {
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Content-Type: application/octet-stream\r\nETag: \"0123456789abcdef\"\r\n\
         Content-Length: {}\r\n\r\n",
        value.len()
    );
    out.extend_from_slice(value);
}

/// The seconds that a time to live as memcached reads it has left; `None` for ever.
fn left_s(ttl_s: u32) -> Option<u64> {
    let ttl_s = u64::from(ttl_s);
    if ttl_s > TtlMix::TTL_S_MAX {
        return Some(ttl_s.saturating_sub(unix_ns() / NS_PER_S).max(1));
    }
    (ttl_s > 0).then_some(ttl_s)
}

/// Appends `PUT /v1/cache/KEY`, with a time to live as memcached reads it.
pub fn push_put(out: &mut Vec<u8>, key: &[u8], ttl_s: u32, value: &[u8]) {
    push_target(out, b"PUT", key);
    if let Some(left_s) = left_s(ttl_s) {
        let _ = write!(out, "?ttl={left_s}");
    }
    out.extend_from_slice(HOST);
    let _ = write!(out, "Content-Length: {}\r\n\r\n", value.len());
    out.extend_from_slice(value);
}

/// Appends `POST /v1/cache` of a message.
pub fn push_message(out: &mut Vec<u8>, key: &[u8], ttl_s: u32, value: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let ttl = left_s(ttl_s).map_or_else(String::new, |left_s| format!(",\"ttl\":{left_s}"));
    let body_bytes =
        "{\"id\":\"\",\"content\":\"\"}".len() + key.len() + 2 * value.len() + ttl.len();
    let _ = write!(
        out,
        "POST /v1/cache HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Content-Length: {body_bytes}\r\n\r\n{{\"id\":\""
    );
    out.extend_from_slice(key);
    out.extend_from_slice(b"\",\"content\":\"");
    for byte in value {
        let digits = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
        out.extend_from_slice(&digits);
    }
    let _ = write!(out, "\"{ttl}}}");
}

/// Appends `POST /v1/cache/KEY/incr`.
pub fn push_count(out: &mut Vec<u8>, key: &[u8]) {
    push_target(out, b"POST", key);
    out.extend_from_slice(b"/incr");
    out.extend_from_slice(HOST);
    out.extend_from_slice(b"\r\n");
}

/// One piece of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A value of so many bytes begins.
    Value {
        /// Its length.
        bytes: usize,
    },
    /// The next bytes of the value.
    Data(&'a [u8]),
    /// The value is complete, or there is none.
    End,
    /// 201 or 204.
    Stored,
    /// The new number of a count.
    Number(u64),
    /// The status line of any other response, whose body is left out.
    Refused(&'a [u8]),
}

/// What a response is, by its status and the type of its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Value,
    Document,
    Stored,
    Missing,
    Refused,
}

/// Where the scanner stands between two pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Status,
    Fields,
    Value { left: usize },
    Text { left: usize },
}

/// Cuts the received bytes of one connection into responses.
#[derive(Clone, Debug)]
pub struct ReplyScanner {
    state: State,
    kind: Kind,
    body_bytes: Option<usize>,
    /// The line that is arriving, or the body of a document.
    text: Vec<u8>,
    status_line: Vec<u8>,
    /// Whether values are hexadecimal digits.
    is_hexadecimal: bool,
    /// The first digit of a byte whose second has not come.
    digit: Option<u8>,
    bytes: Vec<u8>,
}

impl ReplyScanner {
    /// A scanner of values as they are, or as hexadecimal digits.
    #[must_use]
    pub fn new(is_hexadecimal: bool) -> ReplyScanner {
        ReplyScanner {
            state: State::Status,
            kind: Kind::Value,
            body_bytes: None,
            text: Vec::new(),
            status_line: Vec::new(),
            is_hexadecimal,
            digit: None,
            bytes: Vec::new(),
        }
    }

    /// Takes the next piece off the front of `input`; `None` when it is used up.
    ///
    /// # Errors
    /// A sentence, if the bytes are no responses to these requests.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Reply<'a>>, String> {
        loop {
            match self.state {
                State::Status => {
                    if !self.take_line(input)? {
                        return Ok(None);
                    }
                    self.begin()?;
                }
                State::Fields => {
                    if !self.take_line(input)? {
                        return Ok(None);
                    }
                    if !self.text.is_empty() {
                        self.field()?;
                        continue;
                    }
                    if self.end_head()? {
                        let bytes = self.body_bytes.unwrap_or(0);
                        let bytes = if self.is_hexadecimal {
                            bytes / 2
                        } else {
                            bytes
                        };
                        return Ok(Some(Reply::Value { bytes }));
                    }
                }
                State::Value { left: 0 } => {
                    self.state = State::Status;
                    return Ok(Some(Reply::End));
                }
                State::Value { left } => {
                    let taken = left.min(input.len());
                    if taken == 0 {
                        return Ok(None);
                    }
                    let (data, rest) = input.split_at(taken);
                    *input = rest;
                    self.state = State::Value { left: left - taken };
                    if !self.is_hexadecimal {
                        return Ok(Some(Reply::Data(data)));
                    }
                    self.read_digits(data)?;
                    return Ok(Some(Reply::Data(&self.bytes)));
                }
                State::Text { left: 0 } => {
                    self.state = State::Status;
                    return self.end_text().map(Some);
                }
                State::Text { left } => {
                    let taken = left.min(input.len());
                    if taken == 0 {
                        return Ok(None);
                    }
                    let (text, rest) = input.split_at(taken);
                    *input = rest;
                    let room = TEXT_BYTES_MAX.saturating_sub(self.text.len());
                    self.text.extend_from_slice(&text[..taken.min(room)]);
                    self.state = State::Text { left: left - taken };
                }
            }
        }
    }

    /// Gathers a line without its end; whether it is whole.
    fn take_line(&mut self, input: &mut &[u8]) -> Result<bool, String> {
        let end = memchr(b'\n', input);
        let (part, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        *input = rest;
        if self.text.len() + part.len() > LINE_BYTES_MAX {
            return Err("a line of a response has no end".to_owned());
        }
        self.text.extend_from_slice(part);
        if end.is_none() {
            return Ok(false);
        }
        if !self.text.ends_with(b"\r\n") {
            return Err("a line of a response does not end with CR LF".to_owned());
        }
        self.text.truncate(self.text.len() - 2);
        Ok(true)
    }

    /// Notes the status of a response.
    fn begin(&mut self) -> Result<(), String> {
        let code = self
            .text
            .strip_prefix(b"HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        self.kind = match code {
            Some(b"200") => Kind::Value,
            Some(b"201" | b"204") => Kind::Stored,
            Some(b"404") => Kind::Missing,
            Some(_) => Kind::Refused,
            None => {
                let line = String::from_utf8_lossy(&self.text).into_owned();
                return Err(format!("no status line of HTTP/1.1: {line:?}"));
            }
        };
        self.body_bytes = if code == Some(b"204") { Some(0) } else { None };
        self.status_line.clear();
        self.status_line.append(&mut self.text);
        self.state = State::Fields;
        Ok(())
    }

    /// Notes a field of the head.
    fn field(&mut self) -> Result<(), String> {
        let colon = memchr(b':', &self.text).ok_or("a field has no colon")?;
        let (name, value) = (&self.text[..colon], self.text[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let bytes = std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok());
            self.body_bytes = Some(bytes.ok_or("a Content-Length is no number")?);
        } else if name.eq_ignore_ascii_case(b"content-type")
            && self.kind == Kind::Value
            && value.starts_with(b"application/json")
        {
            self.kind = Kind::Document;
        }
        self.text.clear();
        Ok(())
    }

    /// Goes on behind the head; whether a value begins.
    fn end_head(&mut self) -> Result<bool, String> {
        let left = self
            .body_bytes
            .ok_or("a response does not tell its length")?;
        let is_value = self.kind == Kind::Value;
        self.digit = None;
        self.state = if is_value {
            State::Value { left }
        } else {
            State::Text { left }
        };
        Ok(is_value)
    }

    /// What a response without a value was.
    fn end_text(&mut self) -> Result<Reply<'_>, String> {
        let text = std::mem::take(&mut self.text);
        match self.kind {
            Kind::Stored => Ok(Reply::Stored),
            Kind::Missing => Ok(Reply::End),
            Kind::Refused => Ok(Reply::Refused(&self.status_line)),
            Kind::Value | Kind::Document => {
                let text = String::from_utf8_lossy(&text);
                let number = text.trim_end().strip_prefix("{\"value\":");
                let number = number.and_then(|rest| rest.strip_suffix('}'));
                let number = number.and_then(|digits| digits.parse().ok());
                number
                    .map(Reply::Number)
                    .ok_or_else(|| format!("no answer to a count: {text:?}"))
            }
        }
    }

    /// Turns digits into the bytes that they stand for.
    fn read_digits(&mut self, digits: &[u8]) -> Result<(), String> {
        self.bytes.clear();
        for &digit in digits {
            let value = char::from(digit).to_digit(16);
            let value = value.ok_or("a value is not of hexadecimal digits")?;
            // Below sixteen.
            let value = value as u8;
            match self.digit.take() {
                Some(high) => self.bytes.push(high << 4 | value),
                None => self.digit = Some(value),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pieces as text, the data of one value joined.
    fn scan(parts: &[&[u8]], is_hexadecimal: bool) -> Vec<String> {
        let mut scanner = ReplyScanner::new(is_hexadecimal);
        let mut found: Vec<String> = Vec::new();
        for mut part in parts.iter().copied() {
            while let Some(reply) = scanner.next(&mut part).unwrap() {
                match reply {
                    Reply::Data(data) => {
                        let data = data.escape_ascii().to_string();
                        match found.last_mut().filter(|one| one.starts_with('=')) {
                            Some(last) => last.push_str(&data),
                            None => found.push(format!("={data}")),
                        }
                    }
                    Reply::Refused(line) => found.push(String::from_utf8_lossy(line).into_owned()),
                    other => found.push(format!("{other:?}")),
                }
            }
        }
        found
    }

    #[test]
    fn responses_are_the_same_wherever_they_are_cut() {
        let mut bytes = Vec::new();
        push_hit(&mut bytes, b"value");
        bytes.extend_from_slice(
            b"HTTP/1.1 204 No Content\r\nETag: \"x\"\r\n\r\n\
              HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n\
              HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n\
              {\"value\":12}\n\
              HTTP/1.1 507 Full\r\nContent-Length: 2\r\n\r\n{}",
        );
        let expected = [
            "Value { bytes: 5 }",
            "=value",
            "End",
            "Stored",
            "End",
            "Number(12)",
            "HTTP/1.1 507 Full",
        ];
        for cut in 0..=bytes.len() {
            assert_eq!(
                scan(&[&bytes[..cut], &bytes[cut..]], false),
                expected,
                "at {cut}"
            );
        }
    }

    #[test]
    fn values_of_messages_are_digits() {
        let mut message = Vec::new();
        push_message(&mut message, b"k", 60, b"\x00\xffz");
        let text = String::from_utf8(message).unwrap();
        assert!(
            text.ends_with("\r\n\r\n{\"id\":\"k\",\"content\":\"00ff7a\",\"ttl\":60}"),
            "{text}"
        );
        let body = text.split_once("\r\n\r\n").unwrap().1;
        assert!(
            text.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{text}"
        );
        let mut reply = Vec::new();
        push_hit(&mut reply, b"00ff7a");
        for cut in 0..=reply.len() {
            let found = scan(&[&reply[..cut], &reply[cut..]], true);
            assert_eq!(found[0], "Value { bytes: 3 }");
            assert_eq!(found[1].replace('=', ""), "\\x00\\xffz", "at {cut}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            &b"STORED\r\n"[..],
            b"HTTP/1.1 200 OK\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length\r\n",
        ] {
            let (mut scanner, mut input) = (ReplyScanner::new(false), bad);
            assert!(
                scanner.next(&mut input).is_err(),
                "{}",
                String::from_utf8_lossy(bad)
            );
        }
        let long = vec![b'-'; LINE_BYTES_MAX + 1];
        assert!(ReplyScanner::new(false).next(&mut &long[..]).is_err());
    }

    #[test]
    fn requests_name_key_and_time_to_live() {
        let mut out = Vec::new();
        push_get(&mut out, b"a/b");
        assert_eq!(
            out,
            b"GET /v1/cache/a%2Fb HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        );
        assert_eq!(
            out.iter().filter(|byte| **byte == b'\n').count(),
            LINES_PER_GET
        );
        out.clear();
        push_put(&mut out, b"k", 0, b"v");
        push_put(&mut out, b"k", 60, b"");
        let text = String::from_utf8(out).unwrap();
        let expected = "PUT /v1/cache/k HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\nv\
            PUT /v1/cache/k?ttl=60 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(text, expected);
        let mut out = Vec::new();
        push_put(&mut out, b"k", u32::MAX, b"");
        assert!(
            String::from_utf8(out).unwrap().contains("?ttl=2"),
            "seconds until 2106"
        );
    }
}
