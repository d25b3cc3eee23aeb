//! The client's side of RESP, Redis' protocol, as far as needed: GET, SET, INCR and INFO.
//!
//! Replies are scanned as they arrive, cut at any place; values are handed on in pieces.
//!
//! Invariant: after an error the scanner is of no use, because the border between two replies is
//! lost.
//!
//! Source: the Redis serialization protocol specification, RESP2.

use std::io::Write;

use memchr::memchr;

use super::Event;
use crate::quantity::TtlMix;

/// Longest reply line; Redis' error lines are far below.
const LINE_BYTES_MAX: usize = 4096;

/// Appends a command: an array of bulk strings.
pub(crate) fn push_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends `GET key`.
pub(crate) fn push_get(out: &mut Vec<u8>, key: &[u8]) {
    push_command(out, &[b"GET", key]);
}

/// Appends `SET key value`, with a time to live as memcached reads it: none for zero, a duration up
/// to 30 days, above that a moment in seconds since 1970.
pub(crate) fn push_set(out: &mut Vec<u8>, key: &[u8], ttl_s: u32, value: &[u8]) {
    if ttl_s == 0 {
        return push_command(out, &[b"SET", key, value]);
    }
    let option: &[u8] = if u64::from(ttl_s) > TtlMix::TTL_S_MAX {
        b"EXAT"
    } else {
        b"EX"
    };
    push_command(
        out,
        &[b"SET", key, value, option, ttl_s.to_string().as_bytes()],
    );
}

/// Appends `INCR key`.
pub(crate) fn push_count(out: &mut Vec<u8>, key: &[u8]) {
    push_command(out, &[b"INCR", key]);
}

/// Cuts the received bytes of one connection into events.
#[derive(Clone, Debug, Default)]
pub struct ReplyScanner {
    /// Bytes of a value, with its line end, that are still to come.
    left: usize,
    line: Vec<u8>,
    /// The line was returned, or used, and is free.
    is_line_over: bool,
}

const END: &[u8] = b"\r\n";

impl ReplyScanner {
    /// Takes the next piece off the front of `input`; `None` when it is used up,
    /// a sentence if the bytes are no reply to these commands.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, String> {
        if self.left == 0 {
            return self.line(input);
        }
        if input.is_empty() {
            return Ok(None);
        }
        if self.left > END.len() {
            let (data, rest) = input.split_at(input.len().min(self.left - END.len()));
            *input = rest;
            self.left -= data.len();
            return Ok(Some(Event::Data(data)));
        }
        let expected = &END[END.len() - self.left..];
        let (end, rest) = input.split_at(input.len().min(self.left));
        if !expected.starts_with(end) {
            return Err("a value does not end with a line end".to_owned());
        }
        *input = rest;
        self.left -= end.len();
        Ok((self.left == 0).then_some(Event::GetDone))
    }

    fn line(&mut self, input: &mut &[u8]) -> Result<Option<Event<'_>>, String> {
        if std::mem::take(&mut self.is_line_over) {
            self.line.clear();
        }
        let end = memchr(b'\n', input);
        let (part, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        *input = rest;
        if self.line.len() + part.len() > LINE_BYTES_MAX {
            return Err("a reply line has no end".to_owned());
        }
        self.line.extend_from_slice(part);
        if end.is_none() {
            return Ok(None);
        }
        self.is_line_over = true;
        let line = self.line.strip_suffix(b"\r\n").unwrap_or_default();
        match line {
            b"$-1" | b"_" => return Ok(Some(Event::GetDone)),
            b"+OK" => return Ok(Some(Event::SetDone { stored: true })),
            [b'-', ..] => return Ok(Some(Event::Refused(line))),
            _ => {}
        }
        let text = String::from_utf8_lossy(line);
        if let Some(number) = text.strip_prefix(':').and_then(|text| text.parse().ok()) {
            return Ok(Some(Event::CountDone {
                number: Some(number),
            }));
        }
        match text.strip_prefix('$').and_then(|text| text.parse().ok()) {
            Some(bytes) => {
                self.left = bytes + END.len();
                Ok(Some(Event::Value { key: None, bytes }))
            }
            None => Err(format!("no known reply of Redis: {text:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pieces as text, the data of one value joined.
    fn scan(parts: &[&[u8]]) -> Vec<String> {
        let mut scanner = ReplyScanner::default();
        let mut found: Vec<String> = Vec::new();
        for mut part in parts.iter().copied() {
            while let Some(reply) = scanner.next(&mut part).unwrap() {
                match reply {
                    Event::Data(data) => match found.last_mut().filter(|one| one.contains('=')) {
                        Some(last) => last.push_str(&String::from_utf8_lossy(data)),
                        None => found.push(format!("={}", String::from_utf8_lossy(data))),
                    },
                    Event::Refused(line) => found.push(String::from_utf8_lossy(line).into_owned()),
                    other => found.push(format!("{other:?}")),
                }
            }
        }
        found
    }

    #[test]
    fn replies_are_the_same_however_they_are_cut() {
        let bytes: &[u8] = b"$3\r\na\r\n\r\n$-1\r\n+OK\r\n:7\r\n-ERR no\r\n$0\r\n\r\n";
        let expected = [
            "Value { key: None, bytes: 3 }",
            "=a\r\n",
            "GetDone",
            "GetDone",
            "SetDone { stored: true }",
            "CountDone { number: Some(7) }",
            "-ERR no",
            "Value { key: None, bytes: 0 }",
            "GetDone",
        ];
        for cut in 0..=bytes.len() {
            assert_eq!(scan(&[&bytes[..cut], &bytes[cut..]]), expected, "at {cut}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_a_line_does_not_grow_without_limit() {
        for bad in [
            &b"HELLO\r\n"[..],
            b"$x\r\n",
            b":x\r\n",
            b"\r\n",
            b"$1\r\nab\r\n",
        ] {
            let (mut scanner, mut input) = (ReplyScanner::default(), bad);
            let error = loop {
                match scanner.next(&mut input) {
                    Ok(None) => break false,
                    Ok(Some(_)) => {}
                    Err(_) => break true,
                }
            };
            assert!(error, "{}", String::from_utf8_lossy(bad));
        }
        let long = vec![b'-'; LINE_BYTES_MAX + 1];
        assert!(ReplyScanner::default().next(&mut &long[..]).is_err());
    }

    #[test]
    fn a_command_counts_its_words_and_their_bytes() {
        let mut out = Vec::new();
        push_command(&mut out, &[b"SET", b"k", b""]);
        push_count(&mut out, b"n");
        assert_eq!(
            out,
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"
        );
    }

    #[test]
    fn a_time_to_live_is_none_a_duration_or_a_moment() {
        for (ttl_s, end) in [
            (0, "$1\r\nv\r\n"),
            (60, "$2\r\nEX\r\n$2\r\n60\r\n"),
            (2_000_000_000, "$4\r\nEXAT\r\n$10\r\n2000000000\r\n"),
        ] {
            let mut out = Vec::new();
            push_set(&mut out, b"k", ttl_s, b"v");
            let text = String::from_utf8(out).unwrap();
            assert!(text.ends_with(end), "{text:?}");
        }
    }
}
