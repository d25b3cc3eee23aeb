//! The client's side of memcached's classic text protocol.
//!
//! Requests are appended to a buffer of the caller. Replies are scanned as they arrive: a
//! [`ReplyScanner`] takes received bytes cut at any place, keeps only the head of an unfinished
//! line ([`LINE_BYTES_MAX`]) and hands values on in pieces, so neither side of a connection needs a
//! buffer as long as a value and nothing is allocated.
//!
//! Invariant: the scanner never looks at a byte twice, and after an error it stays broken, because
//! the border between two replies is lost.

use memchr::memchr;

/// Longest reply line in bytes, its end included; memcached's own lines stay below 512.
pub const LINE_BYTES_MAX: usize = 2048;

/// Appends `get key`.
///
/// The reply is [`Reply::Value`] with its [`Reply::Data`] on a hit, then [`Reply::End`].
#[inline]
pub fn push_get(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"get ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

/// Appends `set key flags exptime bytes` and the value.
///
/// `exptime_s` counts from now up to 30 days; zero keeps the item until it is evicted.
#[inline]
pub fn push_set(out: &mut Vec<u8>, key: &[u8], flags: u32, exptime_s: u32, value: &[u8]) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    out.push(b' ');
    out.extend_from_slice(number.format(flags).as_bytes());
    out.push(b' ');
    out.extend_from_slice(number.format(exptime_s).as_bytes());
    out.push(b' ');
    out.extend_from_slice(number.format(value.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the `VALUE` line, the value and the `END` line that answer a `get` with a hit.
pub fn push_hit(out: &mut Vec<u8>, key: &[u8], flags: u32, value: &[u8]) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    out.extend_from_slice(number.format(flags).as_bytes());
    out.push(b' ');
    out.extend_from_slice(number.format(value.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\nEND\r\n");
}

/// One piece of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A value begins; `bytes` bytes follow as [`Reply::Data`], none for an empty value.
    Value {
        /// The item's key.
        key: &'a [u8],
        /// The client's opaque flags.
        flags: u32,
        /// Length of the value.
        bytes: usize,
        /// The item's version, in replies to `gets` and `gats`.
        version: Option<u64>,
    },
    /// The next bytes of the value; at least one.
    Data(&'a [u8]),
    /// The reply to a get ends; without a value before it, it was a miss.
    End,
    /// A store took effect.
    Stored,
    /// The condition of add, replace, append or prepend did not hold.
    NotStored,
    /// The version of cas did not fit.
    Exists,
    /// No live item has the key.
    NotFound,
    /// The item was deleted.
    Deleted,
    /// The item has its new deadline.
    Touched,
    /// flush_all and verbosity.
    Ok,
    /// The number after incr or decr.
    Number(u64),
    /// The server's version.
    Version(&'a [u8]),
    /// A whole line `ERROR`, `CLIENT_ERROR ...` or `SERVER_ERROR ...`, without its end.
    Error(&'a [u8]),
}

/// Why the bytes cannot be a memcached server's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// A line has no end within [`LINE_BYTES_MAX`] bytes.
    LineTooLong,
    /// A line is no known reply, or its numbers are malformed.
    UnknownLine,
    /// A value is not followed by a line end.
    UnterminatedValue,
}

impl std::fmt::Display for ReplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplyError::LineTooLong => {
                write!(f, "a reply line is longer than {LINE_BYTES_MAX} bytes")
            }
            ReplyError::UnknownLine => write!(f, "a line is no known memcached reply"),
            ReplyError::UnterminatedValue => write!(f, "a value does not end with a line end"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// The state of the scanner between two pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a line.
    Line,
    /// In a value of which this many bytes are missing.
    Value { left: usize },
    /// Behind a value, this many bytes into its line end.
    ValueEnd { seen: usize },
    /// The replies make no sense any more.
    Broken(ReplyError),
}

/// Cuts the received bytes of one connection into replies.
#[derive(Clone, Debug)]
pub struct ReplyScanner {
    state: State,
    /// The line returned last lies in `line`, which is free again at the next call.
    line_used: bool,
    line_bytes: usize,
    line: [u8; LINE_BYTES_MAX],
}

impl ReplyScanner {
    /// A scanner at the beginning of a connection.
    #[must_use]
    pub fn new() -> ReplyScanner {
        ReplyScanner {
            state: State::Line,
            line_used: false,
            line_bytes: 0,
            line: [0; LINE_BYTES_MAX],
        }
    }

    /// Takes the next piece of a reply off the front of `input`.
    ///
    /// `None` means that `input` is used up; the rest of the reply is still to come. To be called
    /// until then.
    ///
    /// # Errors
    /// [`ReplyError`] if the bytes are no replies; from then on every call returns it again.
    #[inline]
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Reply<'a>>, ReplyError> {
        if self.line_used {
            self.line_used = false;
            self.line_bytes = 0;
        }
        loop {
            match self.state {
                State::Line => return self.line(input),
                State::Value { left: 0 } => self.state = State::ValueEnd { seen: 0 },
                State::Value { left } => {
                    let (data, rest) = input.split_at(left.min(input.len()));
                    if data.is_empty() {
                        return Ok(None);
                    }
                    *input = rest;
                    self.state = State::Value {
                        left: left - data.len(),
                    };
                    return Ok(Some(Reply::Data(data)));
                }
                State::ValueEnd { seen: 2 } => self.state = State::Line,
                State::ValueEnd { seen } => {
                    let Some((&byte, rest)) = input.split_first() else {
                        return Ok(None);
                    };
                    if byte != b"\r\n"[seen] {
                        return Err(self.broken(ReplyError::UnterminatedValue));
                    }
                    *input = rest;
                    self.state = State::ValueEnd { seen: seen + 1 };
                }
                State::Broken(error) => return Err(error),
            }
        }
    }

    fn broken(&mut self, error: ReplyError) -> ReplyError {
        self.state = State::Broken(error);
        error
    }

    /// Completes a line: in place if it lies in `input` whole, else in `self.line`.
    fn line<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Reply<'a>>, ReplyError> {
        let end = memchr(b'\n', input);
        let (head, rest) = input.split_at(end.map_or(input.len(), |at| at + 1));
        if self.line_bytes + head.len() > LINE_BYTES_MAX {
            return Err(self.broken(ReplyError::LineTooLong));
        }
        *input = rest;
        let line = if end.is_some() && self.line_bytes == 0 {
            head
        } else {
            self.line[self.line_bytes..][..head.len()].copy_from_slice(head);
            self.line_bytes += head.len();
            if end.is_none() {
                return Ok(None);
            }
            self.line_used = true;
            &self.line[..self.line_bytes]
        };
        let reply = line.strip_suffix(b"\r\n").and_then(parse_line);
        match reply {
            Some(Reply::Value { bytes, .. }) => self.state = State::Value { left: bytes },
            Some(_) => {}
            None => {
                self.state = State::Broken(ReplyError::UnknownLine);
                return Err(ReplyError::UnknownLine);
            }
        }
        Ok(reply)
    }
}

impl Default for ReplyScanner {
    fn default() -> ReplyScanner {
        ReplyScanner::new()
    }
}

fn parse_line(line: &[u8]) -> Option<Reply<'_>> {
    if let Some(rest) = line.strip_prefix(b"VALUE ") {
        return parse_value_line(rest);
    }
    Some(match line {
        b"END" => Reply::End,
        b"STORED" => Reply::Stored,
        b"NOT_STORED" => Reply::NotStored,
        b"EXISTS" => Reply::Exists,
        b"NOT_FOUND" => Reply::NotFound,
        b"DELETED" => Reply::Deleted,
        b"TOUCHED" => Reply::Touched,
        b"OK" => Reply::Ok,
        b"ERROR" => Reply::Error(line),
        _ if line.starts_with(b"CLIENT_ERROR") || line.starts_with(b"SERVER_ERROR") => {
            Reply::Error(line)
        }
        _ if line.starts_with(b"ERROR ") => Reply::Error(line),
        _ => match line.strip_prefix(b"VERSION ") {
            Some(version) => Reply::Version(version),
            None => Reply::Number(parse_number(line.trim_ascii_end())?),
        },
    })
}

/// `<key> <flags> <bytes>[ <version>]`
fn parse_value_line(line: &[u8]) -> Option<Reply<'_>> {
    let key_end = memchr(b' ', line)?;
    let (key, rest) = (&line[..key_end], &line[key_end + 1..]);
    let flags_end = memchr(b' ', rest)?;
    let flags = u32::try_from(parse_number(&rest[..flags_end])?).ok()?;
    let rest = &rest[flags_end + 1..];
    let (bytes, version) = match memchr(b' ', rest) {
        Some(end) => (&rest[..end], Some(parse_number(&rest[end + 1..])?)),
        None => (rest, None),
    };
    let bytes = usize::try_from(parse_number(bytes)?).ok()?;
    Some(Reply::Value {
        key,
        flags,
        bytes,
        version,
    })
}

fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a reply, data joined, in a form that can be kept.
    fn pieces(scanner: &mut ReplyScanner, mut input: &[u8], log: &mut Vec<String>) {
        while let Some(reply) = scanner.next(&mut input).unwrap() {
            match reply {
                Reply::Data(data) => {
                    let text = String::from_utf8_lossy(data);
                    match log.last_mut().filter(|last| last.starts_with("data ")) {
                        Some(last) => last.push_str(&text),
                        None => log.push(format!("data {text}")),
                    }
                }
                Reply::Value {
                    key,
                    flags,
                    bytes,
                    version,
                } => {
                    let key = String::from_utf8_lossy(key);
                    log.push(format!("value {key} {flags} {bytes} {version:?}"));
                }
                Reply::Error(line) => log.push(format!("error {}", String::from_utf8_lossy(line))),
                Reply::Version(line) => {
                    log.push(format!("version {}", String::from_utf8_lossy(line)));
                }
                other => log.push(format!("{other:?}")),
            }
        }
        assert!(input.is_empty(), "None means that the input is used up");
    }

    const REPLIES: &[u8] = b"VALUE key 7 12\r\nab\r\nEND\r\ncde\r\nEND\r\nSTORED\r\nEND\r\n\
        VALUE k 0 0 99\r\n\r\nVALUE l 0 1\r\nx\r\nEND\r\nNOT_STORED\r\n\
        SERVER_ERROR out of memory\r\n\
        18446744073709551615\r\n5  \r\nVERSION 1.6.45\r\nOK\r\nERROR\r\nEXISTS\r\nNOT_FOUND\r\n\
        DELETED\r\nTOUCHED\r\nERROR Too many open connections\r\nCLIENT_ERROR bad\r\n";

    #[test]
    fn replies_read_the_same_however_they_are_cut() {
        let mut whole = Vec::new();
        pieces(&mut ReplyScanner::new(), REPLIES, &mut whole);
        assert_eq!(whole.len(), 22);
        assert_eq!(whole[0], "value key 7 12 None");
        assert_eq!(whole[1], "data ab\r\nEND\r\ncde");
        assert_eq!(whole[5], "value k 0 0 Some(99)");
        for cut in 0..=REPLIES.len() {
            let (mut scanner, mut log) = (ReplyScanner::new(), Vec::new());
            pieces(&mut scanner, &REPLIES[..cut], &mut log);
            pieces(&mut scanner, &REPLIES[cut..], &mut log);
            assert_eq!(log, whole, "cut at {cut}");
        }
        let (mut scanner, mut log) = (ReplyScanner::new(), Vec::new());
        for byte in REPLIES {
            pieces(&mut scanner, std::slice::from_ref(byte), &mut log);
        }
        assert_eq!(log, whole, "byte by byte");
    }

    #[test]
    fn nonsense_is_an_error_that_stays() {
        let cases: &[(&[u8], ReplyError)] = &[
            (b"HELLO\r\n", ReplyError::UnknownLine),
            (b"\r\n", ReplyError::UnknownLine),
            (b"END\n", ReplyError::UnknownLine),
            (b"VALUE k 0\r\n", ReplyError::UnknownLine),
            (b"VALUE k 0 -1\r\n", ReplyError::UnknownLine),
            (
                b"VALUE k 0 99999999999999999999\r\n",
                ReplyError::UnknownLine,
            ),
            (b"VALUE k 0 2\r\nabc\r\n", ReplyError::UnterminatedValue),
            (&[b'A'; LINE_BYTES_MAX + 1], ReplyError::LineTooLong),
        ];
        for (bytes, error) in cases {
            let mut scanner = ReplyScanner::new();
            let mut input = *bytes;
            let found = loop {
                match scanner.next(&mut input) {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{bytes:?} passes"),
                    Err(found) => break found,
                }
            };
            assert_eq!(found, *error);
            assert_eq!(scanner.next(&mut &b"END\r\n"[..]), Err(*error));
        }
    }

    #[test]
    fn a_line_of_the_longest_length_passes_in_pieces() {
        let mut line = b"SERVER_ERROR ".to_vec();
        line.resize(LINE_BYTES_MAX - 2, b'x');
        line.extend_from_slice(b"\r\n");
        let mut scanner = ReplyScanner::new();
        assert_eq!(scanner.next(&mut &line[..1000]), Ok(None));
        let mut rest = &line[1000..];
        assert_eq!(
            scanner.next(&mut rest),
            Ok(Some(Reply::Error(&line[..LINE_BYTES_MAX - 2])))
        );
        assert_eq!(scanner.next(&mut &b"END\r\n"[..]), Ok(Some(Reply::End)));
    }

    #[test]
    fn requests_are_memcacheds_lines() {
        let mut out = Vec::new();
        push_get(&mut out, b"k1");
        push_set(&mut out, b"k2", 5, 60, b"value");
        assert_eq!(out, b"get k1\r\nset k2 5 60 5\r\nvalue\r\n");
        out.clear();
        push_hit(&mut out, b"k", 0, b"abc");
        assert_eq!(out, b"VALUE k 0 3\r\nabc\r\nEND\r\n");
    }
}
