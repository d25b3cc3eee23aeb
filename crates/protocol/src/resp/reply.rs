//! Replies: values appended to a buffer in the form of the connection's protocol version.
//!
//! | value | RESP3 | RESP2 |
//! |---|---|---|
//! | null, null array | `_` | `$-1`, `*-1` |
//! | map, set, push | `%` `~` `>` | array |
//! | double, verbatim text | `,` `=` | bulk string |
//! | boolean | `#t` `#f` | `:1` `:0` |
//!
//! Aggregates begin with their length, and that many values follow; a map has two for each pair.

use super::number;
use crate::length_line;

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proto {
    /// RESP2, spoken until HELLO says otherwise.
    #[default]
    V2,
    /// RESP3.
    V3,
}

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Reply<'a> {
    /// Where replies are appended.
    pub out: &'a mut Vec<u8>,
    /// The form they have.
    pub proto: Proto,
}

impl<'a> Reply<'a> {
    /// Replies of this form into `out`.
    #[inline]
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, proto: Proto) -> Reply<'a> {
        Reply { out, proto }
    }

    /// The status OK.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A status, one line.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error, its code first; line ends in it become spaces, those at its end are left out.
    #[cold]
    pub fn error(&mut self, message: impl AsRef<[u8]>) {
        let start = self.out.len();
        let message = message.as_ref();
        let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n');
        let length = message.iter().rposition(is_text).map_or(0, |last| last + 1);
        self.line(b'-', &message[..length]);
        let end = self.out.len() - 2;
        for byte in &mut self.out[start..end] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }

    /// A whole number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    /// Bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.bulk_head(bytes.len());
        self.out.extend_from_slice(bytes);
        self.crlf();
    }

    /// The head of a bulk string whose bytes the caller appends, and then [`Reply::crlf`].
    #[inline]
    pub fn bulk_head(&mut self, bytes: usize) {
        self.head(b'$', bytes);
    }

    /// The end of a bulk string.
    #[inline]
    pub fn crlf(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Nothing, where a string could be.
    #[inline]
    pub fn null(&mut self) {
        let null: &[u8] = match self.proto {
            Proto::V2 => b"$-1\r\n",
            Proto::V3 => b"_\r\n",
        };
        self.out.extend_from_slice(null);
    }

    /// Nothing, where an array could be.
    pub fn null_array(&mut self) {
        let null: &[u8] = match self.proto {
            Proto::V2 => b"*-1\r\n",
            Proto::V3 => b"_\r\n",
        };
        self.out.extend_from_slice(null);
    }

    /// The head of an array of `values` values.
    #[inline]
    pub fn array(&mut self, values: usize) {
        self.head(b'*', values);
    }

    /// The head of a map of `pairs` pairs.
    pub fn map(&mut self, pairs: usize) {
        match self.proto {
            Proto::V2 => self.head(b'*', pairs * 2),
            Proto::V3 => self.head(b'%', pairs),
        }
    }

    /// The head of a set of `values` values.
    pub fn set(&mut self, values: usize) {
        self.aggregate(b'~', values);
    }

    /// The head of a push message of `values` values, which answers no request.
    pub fn push(&mut self, values: usize) {
        self.aggregate(b'>', values);
    }

    /// Puts the head of an array before the `values` values appended since the buffer had `start`
    /// bytes. Costs a move of these bytes; for answers whose length is known only at their end.
    pub fn array_around(&mut self, start: usize, values: usize) {
        self.head_around(b'*', start, values);
    }

    /// Like [`Reply::array_around`] with a map of `pairs` pairs.
    pub fn map_around(&mut self, start: usize, pairs: usize) {
        match self.proto {
            Proto::V2 => self.head_around(b'*', start, pairs * 2),
            Proto::V3 => self.head_around(b'%', start, pairs),
        }
    }

    /// Like [`Reply::array_around`] with a set.
    pub fn set_around(&mut self, start: usize, values: usize) {
        match self.proto {
            Proto::V2 => self.head_around(b'*', start, values),
            Proto::V3 => self.head_around(b'~', start, values),
        }
    }

    /// A number with decimals, as short as it can be read back exactly.
    pub fn double(&mut self, number: f64) {
        let mut text = Vec::with_capacity(number::FLOAT_BYTES_MAX);
        number::write_float(number, &mut text);
        match self.proto {
            Proto::V2 => self.bulk(text),
            Proto::V3 => self.line(b',', &text),
        }
    }

    /// A number with up to 17 decimals, without trailing zeros: as Redis writes coordinates.
    pub fn coordinate(&mut self, number: f64) {
        let text = format!("{number:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        match self.proto {
            Proto::V2 => self.bulk(text),
            Proto::V3 => self.line(b',', text.as_bytes()),
        }
    }

    /// Yes or no.
    pub fn boolean(&mut self, yes: bool) {
        let answer: &[u8] = match (self.proto, yes) {
            (Proto::V2, true) => b":1\r\n",
            (Proto::V2, false) => b":0\r\n",
            (Proto::V3, true) => b"#t\r\n",
            (Proto::V3, false) => b"#f\r\n",
        };
        self.out.extend_from_slice(answer);
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: &str) {
        match self.proto {
            Proto::V2 => self.bulk(text),
            Proto::V3 => {
                const FORMAT: &[u8] = b"txt:";
                self.head(b'=', FORMAT.len() + text.len());
                self.out.extend_from_slice(FORMAT);
                self.out.extend_from_slice(text.as_bytes());
                self.crlf();
            }
        }
    }

    fn aggregate(&mut self, mark: u8, values: usize) {
        match self.proto {
            Proto::V2 => self.head(b'*', values),
            Proto::V3 => self.head(mark, values),
        }
    }

    #[inline]
    fn head(&mut self, mark: u8, length: usize) {
        length_line::append(self.out, mark, length);
    }

    fn head_around(&mut self, mark: u8, start: usize, length: usize) {
        let end = self.out.len();
        self.head(mark, length);
        let head = self.out.len() - end;
        self.out[start..].rotate_right(head);
    }

    #[inline]
    fn line(&mut self, mark: u8, text: &[u8]) {
        self.out.push(mark);
        self.out.extend_from_slice(text);
        self.crlf();
    }
}

#[cfg(test)]
mod tests {
    use super::{Proto, Reply};

    fn check(write: impl Fn(&mut Reply<'_>), resp2: &str, resp3: &str) {
        for (proto, expected) in [(Proto::V2, resp2), (Proto::V3, resp3)] {
            let mut out = Vec::new();
            write(&mut Reply::new(&mut out, proto));
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{proto:?}");
        }
    }

    #[test]
    fn plain_values_look_alike_in_both_versions() {
        check(|reply| reply.ok(), "+OK\r\n", "+OK\r\n");
        check(|reply| reply.simple("PONG"), "+PONG\r\n", "+PONG\r\n");
        check(|reply| reply.integer(-7), ":-7\r\n", ":-7\r\n");
        check(
            |reply| reply.bulk(b"a\r\n"),
            "$3\r\na\r\n\r\n",
            "$3\r\na\r\n\r\n",
        );
        check(|reply| reply.array(0), "*0\r\n", "*0\r\n");
    }

    #[test]
    fn a_coordinate_has_all_its_decimals() {
        for (number, text) in [
            (13.361389338970184, "13.36138933897018433"),
            (-180.0, "-180"),
            (0.5, "0.5"),
            (-1e-18, "0"),
            (100.0, "100"),
        ] {
            check(
                |reply| reply.coordinate(number),
                &format!("${}\r\n{text}\r\n", text.len()),
                &format!(",{text}\r\n"),
            );
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        let expected = "-ERR unknown command 'a  b'\r\n";
        check(
            |reply| reply.error("ERR unknown command 'a\r\nb'"),
            expected,
            expected,
        );
        check(|reply| reply.error("ERR x\r\n"), "-ERR x\r\n", "-ERR x\r\n");
    }

    #[test]
    fn values_that_only_resp3_has_become_what_resp2_has() {
        check(|reply| reply.null(), "$-1\r\n", "_\r\n");
        check(|reply| reply.null_array(), "*-1\r\n", "_\r\n");
        check(|reply| reply.map(2), "*4\r\n", "%2\r\n");
        check(|reply| reply.set(2), "*2\r\n", "~2\r\n");
        check(|reply| reply.push(3), "*3\r\n", ">3\r\n");
        check(|reply| reply.boolean(true), ":1\r\n", "#t\r\n");
        check(|reply| reply.boolean(false), ":0\r\n", "#f\r\n");
        check(|reply| reply.double(3.5), "$3\r\n3.5\r\n", ",3.5\r\n");
        check(
            |reply| reply.verbatim("hi"),
            "$2\r\nhi\r\n",
            "=6\r\ntxt:hi\r\n",
        );
    }

    #[test]
    fn a_head_may_be_put_before_what_is_there() {
        let around = |reply: &mut Reply<'_>| {
            reply.ok();
            let start = reply.out.len();
            reply.integer(1);
            reply.integer(2);
            reply.set_around(start, 2);
            reply.map_around(start, 1);
            reply.array_around(start, 3);
        };
        check(
            around,
            "+OK\r\n*3\r\n*2\r\n*2\r\n:1\r\n:2\r\n",
            "+OK\r\n*3\r\n%1\r\n~2\r\n:1\r\n:2\r\n",
        );
    }
}
