//! The few lines of Redis' protocol that a replay needs: commands, and replies to GET and SET.
//!
//! Received bytes may be cut at any place; values are handed on in pieces.
//!
//! Source: the Redis serialization protocol specification, RESP2.

use memchr::memchr;

use crate::wire::Event;

/// Longest reply line in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Appends a command with its arguments.
pub(super) fn push_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    push_length(out, b'*', words.len());
    for word in words {
        push_length(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn push_length(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Where the scanner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Line,
    /// In a value, its line end included, of which so many bytes are missing.
    Value {
        left: usize,
    },
}

/// Cuts the received bytes of one connection into events.
#[derive(Debug)]
pub(super) struct RespScanner {
    state: State,
    /// The line as far as it has come, or the line returned last.
    line: Vec<u8>,
    is_line_done: bool,
}

impl RespScanner {
    pub(super) fn new() -> RespScanner {
        RespScanner {
            state: State::Line,
            line: Vec::new(),
            is_line_done: false,
        }
    }

    /// Takes the next piece off the front of `input`; `None` when it is used up.
    pub(super) fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, String> {
        match self.state {
            State::Line => self.line(input),
            State::Value { left } => Ok(self.value(left, input)),
        }
    }

    /// The next bytes of a value, or its end.
    fn value<'i>(&mut self, left: usize, input: &mut &'i [u8]) -> Option<Event<'i>> {
        const END_BYTES: usize = 2;
        let (data, rest) = input.split_at(left.min(input.len()));
        let value_bytes = data.len().min(left.saturating_sub(END_BYTES));
        if value_bytes > 0 {
            *input = &input[value_bytes..];
            self.state = State::Value {
                left: left - value_bytes,
            };
            return Some(Event::Data(&data[..value_bytes]));
        }
        *input = rest;
        let left = left - data.len();
        if left > 0 {
            self.state = State::Value { left };
            return None;
        }
        self.state = State::Line;
        Some(Event::GetDone)
    }

    fn line<'a>(&'a mut self, input: &mut &[u8]) -> Result<Option<Event<'a>>, String> {
        if self.is_line_done {
            self.line.clear();
            self.is_line_done = false;
        }
        let end = memchr(b'\n', input);
        let (head, rest) = input.split_at(end.map_or(input.len(), |at| at + 1));
        *input = rest;
        self.line.extend_from_slice(head);
        if self.line.len() > LINE_BYTES_MAX {
            return Err("a reply line is too long".to_owned());
        }
        if end.is_none() {
            return Ok(None);
        }
        self.is_line_done = true;
        self.event().map(Some)
    }

    fn event(&mut self) -> Result<Event<'_>, String> {
        let line = self.line.trim_ascii_end();
        match line.split_first() {
            Some((b'+', b"OK")) => Ok(Event::SetDone { stored: true }),
            Some((b'-', text)) => Ok(Event::Refused(text)),
            Some((b'$', b"-1")) => Ok(Event::GetDone),
            Some((b'$', digits)) => {
                let bytes = std::str::from_utf8(digits)
                    .ok()
                    .and_then(|digits| digits.parse::<usize>().ok())
                    .ok_or_else(|| unknown(line))?;
                self.state = State::Value { left: bytes + 2 };
                Ok(Event::Value { key: None, bytes })
            }
            _ => Err(unknown(line)),
        }
    }
}

fn unknown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    format!("{line:?} is no known reply to GET or SET")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of `bytes`, received in pieces of at most `piece` bytes; values put together.
    fn events(bytes: &[u8], piece: usize) -> Result<Vec<String>, String> {
        let mut scanner = RespScanner::new();
        let (mut events, mut value) = (Vec::new(), Vec::new());
        for mut input in bytes.chunks(piece) {
            while let Some(event) = scanner.next(&mut input)? {
                match event {
                    Event::Value { bytes, .. } => events.push(format!("value of {bytes}")),
                    Event::Data(data) => value.extend_from_slice(data),
                    Event::GetDone => {
                        events.push(String::from_utf8(std::mem::take(&mut value)).unwrap());
                    }
                    Event::SetDone { stored } => events.push(format!("stored {stored}")),
                    Event::Refused(text) => events.push(String::from_utf8_lossy(text).into()),
                }
            }
            assert!(input.is_empty());
        }
        Ok(events)
    }

    #[test]
    fn replies_are_the_same_however_they_are_cut() {
        let bytes = b"+OK\r\n$5\r\na\r\nbc\r\n$-1\r\n$0\r\n\r\n-OOM no room\r\n+OK\r\n";
        let expected = [
            "stored true",
            "value of 5",
            "a\r\nbc",
            "",
            "value of 0",
            "",
            "OOM no room",
            "stored true",
        ];
        for piece in 1..=bytes.len() {
            assert_eq!(events(bytes, piece).unwrap(), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for bytes in [&b"STORED\r\n"[..], b"$x\r\n", b"\r\n", &[b'+'; 5000]] {
            assert!(events(bytes, 100).is_err());
        }
    }

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut out = Vec::new();
        push_command(&mut out, &[b"SET", b"k", b""]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
    }
}
