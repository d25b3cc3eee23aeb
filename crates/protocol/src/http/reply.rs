//! Replies: the parts of responses.
//!
//! Every response states the length of its body, or that it is chunked, so that the connection can
//! stay open.
//! Source: RFC 9110, section 8; RFC 9112, section 6.

use super::status::Status;
use super::target::encode_percent;
use crate::length_line;

/// Leave to send a body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Length of a `Date`.
pub const DATE_BYTES: usize = 29;
/// Security fields of every response: browsers must not guess its type, and no page of another
/// origin may load it as an image, a script or a style sheet, by which such a page could read or
/// run it.
macro_rules! guard {
    () => {
        "\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    };
}
/// Approximate bytes of a usual response's head.
const HEAD_BYTES: usize = 512;
/// The last chunk of a body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Whether a connection serves further requests, as far as that has to be said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stay {
    /// As the version has it.
    #[default]
    Silent,
    /// It stays although the version is 1.0.
    KeepAlive,
    /// It ends.
    Close,
}

/// A response's head that is being written.
#[derive(Debug)]
pub struct Head<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Head<'o> {
    /// Begins a response with the fields that all have.
    #[inline]
    pub fn begin(
        out: &'o mut Vec<u8>,
        status: Status,
        stay: Stay,
        date: &[u8; DATE_BYTES],
    ) -> Head<'o> {
        // One capacity check for nearly all responses.
        out.reserve(HEAD_BYTES);
        out.extend_from_slice(status.line_to_date().as_bytes());
        out.extend_from_slice(date);
        out.extend_from_slice(match stay {
            Stay::Silent => guard!().as_bytes(),
            Stay::KeepAlive => concat!(guard!(), "Connection: keep-alive\r\n").as_bytes(),
            Stay::Close => concat!(guard!(), "Connection: close\r\n").as_bytes(),
        });
        Head { out }
    }

    /// A field. Neither part may have a line end; values that come from outside are checked before.
    #[inline]
    pub fn field(&mut self, name: &str, value: &[u8]) -> &mut Head<'o> {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Appends complete fields, each with its line end.
    #[inline]
    pub fn raw(&mut self, fields: &[u8]) -> &mut Head<'o> {
        self.out.extend_from_slice(fields);
        self
    }

    /// The field Location of a created resource: the path that begins as `begin` says and ends with
    /// a segment of these bytes.
    #[inline]
    pub fn location(&mut self, begin: &str, segment: &[u8]) -> &mut Head<'o> {
        self.out.extend_from_slice(b"Location: ");
        self.out.extend_from_slice(begin.as_bytes());
        encode_percent(self.out, segment);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// A field that begins as `begin` says, followed by a number.
    #[inline]
    pub fn number(&mut self, begin: &str, number: u64) -> &mut Head<'o> {
        self.out.extend_from_slice(begin.as_bytes());
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(digits.format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Ends the head of a response with a body of this many bytes.
    #[inline]
    pub fn end(self, body_bytes: usize) {
        self.out.extend_from_slice(b"Content-Length:");
        length_line::append(self.out, b' ', body_bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Ends the head of a response that has no body by its status, or whose body comes in chunks.
    #[inline]
    pub fn end_without_length(self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends a chunk of a body; an empty one is left out, because it would be the last.
pub fn chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    use std::io::Write;
    if bytes.is_empty() {
        return;
    }
    write!(out, "{:x}\r\n", bytes.len()).expect("writing into a vector does not fail");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &[u8; DATE_BYTES] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    #[test]
    fn a_head_tells_date_fields_and_length() {
        let mut out = Vec::new();
        let mut head = Head::begin(&mut out, Status::OK, Stay::Silent, DATE);
        head.field("Content-Type", b"text/plain")
            .number("Cache-Control: max-age=", 60)
            .raw(b"Age: 0\r\n");
        head.end(5);
        let expected = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\
            Content-Type: text/plain\r\nCache-Control: max-age=60\r\nAge: 0\r\n\
            Content-Length: 5\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_location_has_percent_codes() {
        let mut out = Vec::new();
        Head { out: &mut out }.location("/v1/cache/", b"a/b c");
        assert_eq!(out, b"Location: /v1/cache/a%2Fb%20c\r\n");
    }

    #[test]
    fn a_connection_that_does_not_go_as_usual_says_so() {
        for (stay, line) in [
            (Stay::KeepAlive, "Connection: keep-alive"),
            (Stay::Close, "Connection: close"),
        ] {
            let mut out = Vec::new();
            Head::begin(&mut out, Status::NO_CONTENT, stay, DATE).end_without_length();
            let text = String::from_utf8(out).unwrap();
            assert!(text.ends_with(&format!("\r\n{line}\r\n\r\n")), "{text}");
        }
    }

    #[test]
    fn chunks_have_hexadecimal_lengths_and_none_is_empty() {
        let mut out = Vec::new();
        chunk(&mut out, &[b'x'; 17]);
        chunk(&mut out, b"");
        assert_eq!(out, b"11\r\nxxxxxxxxxxxxxxxxx\r\n");
    }
}
