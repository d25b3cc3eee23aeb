//! Target: the path and the query of a request, and their percent-encoding.
//!
//! Source: RFC 3986, sections 2.1 and 3.4; RFC 9112, section 3.2.

use std::borrow::Cow;

use crate::search::position;

/// Why path and query are text.
const TEXT: &str = "a target is made of text";

/// Path and query, as they were sent: both are text, which most requests need not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// From the first slash to the query; `*` for a request about the server as a whole.
    path: &'a [u8],
    /// The query after the question mark; empty without one.
    query: &'a [u8],
}

impl<'a> Target<'a> {
    /// Takes a request's target apart; `None` if it is none that this server serves.
    ///
    /// Besides a path it may be a whole `http://` address, whose host plays no part.
    #[must_use]
    pub fn of(text: &'a str) -> Option<Target<'a>> {
        let text = match text.as_bytes() {
            [b'/', ..] | b"*" => text,
            _ => path_of_address(text)?,
        };
        Some(Target::of_path(text.as_bytes()))
    }

    /// The same of text that begins with a slash.
    #[inline]
    pub(super) fn of_path(text: &'a [u8]) -> Target<'a> {
        let (path, query) = match position(b'?', text) {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &b""[..]),
        };
        Target { path, query }
    }

    /// A target of these parts.
    #[must_use]
    pub fn of_parts(path: &'a str, query: &'a str) -> Target<'a> {
        let (path, query) = (path.as_bytes(), query.as_bytes());
        Target { path, query }
    }

    /// The bytes of the path.
    #[inline]
    #[must_use]
    pub fn path_bytes(&self) -> &'a [u8] {
        self.path
    }

    /// From the first slash to the query; `*` for a request about the server as a whole.
    ///
    /// # Panics
    /// Never: a target is made of text.
    #[must_use]
    pub fn path(&self) -> &'a str {
        std::str::from_utf8(self.path).expect(TEXT)
    }

    /// Whether there is a query with anything in it.
    #[inline]
    #[must_use]
    pub fn has_query(&self) -> bool {
        !self.query.is_empty()
    }

    /// The query after the question mark; empty without one.
    ///
    /// # Panics
    /// Never, as [`Target::path`].
    #[must_use]
    pub fn query(&self) -> &'a str {
        std::str::from_utf8(self.query).expect(TEXT)
    }

    /// The parameters of the query, as they were sent.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.query().split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }
}

/// The path and query in `http://host/path?query`.
fn path_of_address(text: &str) -> Option<&str> {
    const SCHEME: &str = "http://";
    let scheme = text.get(..SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let rest = &text[SCHEME.len()..];
    let host = rest.find(['/', '?']).unwrap_or(rest.len());
    match &rest[host..] {
        _ if host == 0 => None,
        "" => Some("/"),
        path if path.starts_with('/') => Some(path),
        _ => None,
    }
}

/// Puts bytes in the place of percent codes; `None` if a percent sign is followed by anything but
/// two hexadecimal digits. Text without percent signs is not copied.
#[must_use]
pub fn decode_percent(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(first) = memchr::memchr(b'%', text) else {
        return Some(Cow::Borrowed(text));
    };
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend_from_slice(&text[..first]);
    let mut rest = &text[first..];
    while let [byte, tail @ ..] = rest {
        if *byte != b'%' {
            bytes.push(*byte);
            rest = tail;
            continue;
        }
        let [high, low, tail @ ..] = tail else {
            return None;
        };
        bytes.push(digit(*high)? << 4 | digit(*low)?);
        rest = tail;
    }
    Some(Cow::Owned(bytes))
}

fn digit(byte: u8) -> Option<u8> {
    let value = char::from(byte).to_digit(16)?;
    u8::try_from(value).ok()
}

/// Bytes that are never percent-encoded.
const UNRESERVED: [bool; 256] = letters_digits_and(b"-._~");

/// A table of bytes in which letters, digits and `others` are true.
pub(super) const fn letters_digits_and(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut place = 0;
    while place < others.len() {
        table[others[place] as usize] = true;
        place += 1;
    }
    table
}

/// Appends bytes, percent-encoded as one segment of a path.
pub fn encode_percent(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| !UNRESERVED[usize::from(*byte)]) {
        let (high, low) = (usize::from(rest[at] >> 4), usize::from(rest[at] & 15));
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_path_or_a_whole_address() {
        let of = |text| Target::of(text).map(|target| (target.path(), target.query()));
        assert_eq!(of("/"), Some(("/", "")));
        assert_eq!(of("/a?b=c&d?e"), Some(("/a", "b=c&d?e")));
        assert_eq!(of("*"), Some(("*", "")));
        assert_eq!(of("http://h:80/a?b"), Some(("/a", "b")));
        assert_eq!(of("HTTP://h"), Some(("/", "")));
        for text in [
            "",
            "a",
            "http://",
            "http:///a",
            "http://h?b",
            "https://h/a",
            "h:80",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn parameters_come_in_their_order() {
        let target = Target::of("/?a=1&&b&c==").unwrap();
        let all: Vec<_> = target.parameters().collect();
        assert_eq!(all, [("a", "1"), ("b", ""), ("c", "=")]);
    }

    #[test]
    fn percent_codes_are_two_hexadecimal_digits() {
        let of = |text: &'static str| decode_percent(text.as_bytes()).map(Cow::into_owned);
        assert_eq!(of("plain+text"), Some(b"plain+text".to_vec()));
        assert_eq!(of("%00%ff%Fe/x"), Some(b"\x00\xff\xfe/x".to_vec()));
        assert_eq!(of("%25"), Some(b"%".to_vec()));
        for text in ["%", "%1", "%g0", "%0g", "a%", "%+1", "% 1"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        let all: Vec<u8> = (0..=255).collect();
        let mut text = Vec::new();
        encode_percent(&mut text, &all);
        assert!(
            text.iter()
                .all(|byte| byte.is_ascii_graphic() && *byte != b'/')
        );
        assert_eq!(decode_percent(&text).unwrap(), all);
    }
}
