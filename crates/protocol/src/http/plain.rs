//! Plain: heads as nearly all clients send them, parsed in one pass, eight bytes at a time.
//!
//! Version 1.1, a path, lines that end with CR LF, ASCII without tabs: any other or incomplete head
//! is left to the parser, which gives the same result for plain ones.
//! Tests: at the end of this file; tests/http_decode.rs, where each head comes whole and cut.

use super::request::Method;

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;

/// The end of a plain request line.
const END_OF_LINE: &[u8] = b" HTTP/1.1\r\n";

/// Bytes that are allowed in the name of a field.
const OF_NAME: [bool; 256] = super::target::letters_digits_and(b"!#$%&'*+-.^_`|~");

/// How many of the first bytes lie between `low` and the tilde; `low` is at least a blank.
#[inline]
fn run_of(bytes: &[u8], low: u8) -> usize {
    let mut run = 0;
    for word in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes"));
        // A borrow affects only bytes above one that is too low, so the lowest set bit is right.
        let low = word.wrapping_sub(ONES * u64::from(low)) & !word;
        let delete = word ^ (ONES * 0x7f);
        let delete = delete.wrapping_sub(ONES) & !delete;
        let other = (low | delete | word) & HIGH;
        if other != 0 {
            return run + other.trailing_zeros() as usize / 8;
        }
        run += 8;
    }
    let rest = bytes[run..].iter();
    run + rest.take_while(|byte| (low..=b'~').contains(byte)).count()
}

/// Takes a request line apart: the method, the target, which is ASCII and begins with a slash, and
/// the length of the line with its end.
#[inline]
pub(super) fn request_line(input: &[u8]) -> Option<(Method, &[u8], usize)> {
    let (method, begin) = match input {
        [b'G', b'E', b'T', b' ', b'/', ..] => (Method::Get, 4),
        [b'P', b'U', b'T', b' ', b'/', ..] => (Method::Put, 4),
        [b'H', b'E', b'A', b'D', b' ', b'/', ..] => (Method::Head, 5),
        [b'P', b'O', b'S', b'T', b' ', b'/', ..] => (Method::Post, 5),
        [b'D', b'E', b'L', b'E', b'T', b'E', b' ', b'/', ..] => (Method::Delete, 7),
        _ => return None,
    };
    let (target, rest) = input[begin..].split_at(run_of(&input[begin..], b'!'));
    let line_bytes = begin + target.len() + END_OF_LINE.len();
    rest.starts_with(END_OF_LINE)
        .then_some((method, target, line_bytes))
}

/// Takes a field apart: its name, its value, and the length of its line with its end.
#[inline]
pub(super) fn field(input: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let colon = input.iter().position(|byte| !OF_NAME[usize::from(*byte)])?;
    if colon == 0 || input[colon] != b':' {
        return None;
    }
    let (name, value) = (&input[..colon], &input[colon + 1..]);
    let (value, rest) = value.split_at(run_of(value, b' '));
    rest.starts_with(b"\r\n")
        .then(|| (name, value.trim_ascii(), colon + value.len() + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_first_byte_that_is_out_of_bounds() {
        for low in [b' ', b'!'] {
            for byte in 0..=u8::MAX {
                for place in 0..20 {
                    let mut bytes = [b'~'; 20];
                    bytes[place] = byte;
                    bytes[19] = 0;
                    let is_in = (low..=b'~').contains(&byte) && place < 19;
                    let expected = if is_in { 19 } else { place };
                    assert_eq!(run_of(&bytes, low), expected, "{byte} at {place}");
                }
            }
        }
        assert_eq!((run_of(b"", b' '), run_of(b"abc", b' ')), (0, 3));
    }

    #[test]
    fn what_is_plain_is_taken_apart_and_nothing_else() {
        let line = b"GET /a?b HTTP/1.1\r\nrest";
        assert_eq!(request_line(line), Some((Method::Get, &b"/a?b"[..], 19)));
        for line in [
            "GET /a HTTP/1.0\r\n",
            "GET /a HTTP/1.1\n",
            "GET  /a HTTP/1.1\r\n",
            "GET /a b HTTP/1.1\r\n",
            "GET /\u{e9} HTTP/1.1\r\n",
            "GET a HTTP/1.1\r\n",
            "get /a HTTP/1.1\r\n",
            "GET /a HTTP/1.1",
        ] {
            assert_eq!(request_line(line.as_bytes()), None, "{line}");
        }
        let parts = field(b"Host:  a b \r\nrest");
        assert_eq!(parts, Some((&b"Host"[..], &b"a b"[..], 13)));
        assert_eq!(field(b"a:\r\n"), Some((&b"a"[..], &b""[..], 4)));
        for line in [
            "a: b\n",
            "a: b",
            "a : b\r\n",
            ": b\r\n",
            "a: b\tc\r\n",
            " a: b\r\n",
        ] {
            assert_eq!(field(line.as_bytes()), None, "{line}");
        }
    }
}
