//! Replies: answers as packets, appended to a buffer.

use super::packet::PacketHead;
use super::{ANSWER_MARK, HEAD_BYTES};

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketStatus {
    /// It was done.
    Done,
    /// No item has the key.
    NotFound,
    /// Another item has the key, or the item another version.
    Exists,
    /// The value is over the limit.
    TooLarge,
    /// The packet's parts are not those of its opcode.
    Invalid,
    /// Another node keeps the key.
    NotMine,
    /// The condition of a store did not hold.
    NotStored,
    /// The value to count is no number.
    NotANumber,
    /// The client lacks the permission, or sent a wrong user name or password.
    Denied,
    /// The opcode is unknown.
    Unknown,
    /// All memory is held by values in transfer.
    NoMemory,
    /// The same, since the file system of the cache's memory is full.
    StateFull,
    /// It may be tried again later.
    Busy,
}

impl PacketStatus {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            PacketStatus::Done => 0,
            PacketStatus::NotFound => 1,
            PacketStatus::Exists => 2,
            PacketStatus::TooLarge => 3,
            PacketStatus::Invalid => 4,
            PacketStatus::NotStored => 5,
            PacketStatus::NotANumber => 6,
            PacketStatus::NotMine => 7,
            PacketStatus::Denied => 0x20,
            PacketStatus::Unknown => 0x81,
            PacketStatus::NoMemory | PacketStatus::StateFull => 0x82,
            PacketStatus::Busy => 0x85,
        }
    }

    /// The body of a response with this status.
    #[must_use]
    pub const fn text(self) -> &'static [u8] {
        match self {
            PacketStatus::Done => b"",
            PacketStatus::NotFound => b"Not found",
            PacketStatus::Exists => b"Data exists for key.",
            PacketStatus::TooLarge => b"Too large.",
            PacketStatus::Invalid => b"Invalid arguments",
            PacketStatus::NotStored => b"Not stored.",
            PacketStatus::NotANumber => b"Non-numeric server-side value for incr or decr",
            PacketStatus::NotMine => b"Another node keeps the key",
            PacketStatus::Denied => b"Auth failure.",
            PacketStatus::Unknown => b"Unknown command",
            PacketStatus::NoMemory => b"Out of memory",
            PacketStatus::StateFull => b"Out of memory: the file system of --state is full",
            PacketStatus::Busy => b"Too many logins wait; try again",
        }
    }
}

/// Lengths of an answer's parts.
#[derive(Clone, Copy, Debug, Default)]
struct AnswerParts {
    extras: usize,
    key: usize,
    value: usize,
}

/// Appends a head.
#[inline]
fn append_head(
    out: &mut Vec<u8>,
    head: PacketHead,
    status: PacketStatus,
    parts: AnswerParts,
    version: u64,
) {
    let mut bytes = [0; HEAD_BYTES];
    bytes[0] = ANSWER_MARK;
    bytes[1] = head.code;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a key has at most 250 bytes"
    )]
    bytes[2..4].copy_from_slice(&(parts.key as u16).to_be_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "extras are a number")]
    let extras = parts.extras as u8;
    bytes[4] = extras;
    bytes[6..8].copy_from_slice(&status.code().to_be_bytes());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no value is as long as 4 GiB"
    )]
    let body = (parts.extras + parts.key + parts.value) as u32;
    bytes[8..12].copy_from_slice(&body.to_be_bytes());
    bytes[12..16].copy_from_slice(&head.opaque);
    bytes[16..].copy_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends an answer with a body, which may be empty.
#[inline]
pub fn done(out: &mut Vec<u8>, head: PacketHead, version: u64, body: &[u8]) {
    let parts = AnswerParts {
        value: body.len(),
        ..AnswerParts::default()
    };
    append_head(out, head, PacketStatus::Done, parts, version);
    out.extend_from_slice(body);
}

/// Appends an error response.
pub fn failed(out: &mut Vec<u8>, head: PacketHead, status: PacketStatus) {
    failed_for(out, head, status, status.text());
}

/// The same with other words.
pub fn failed_for(out: &mut Vec<u8>, head: PacketHead, status: PacketStatus, text: &[u8]) {
    let parts = AnswerParts {
        value: text.len(),
        ..AnswerParts::default()
    };
    append_head(out, head, status, parts, 0);
    out.extend_from_slice(text);
}

/// Appends the answer to a read with the key that finds nothing: the key, and no words.
pub fn missed_key(out: &mut Vec<u8>, head: PacketHead, key: &[u8]) {
    let parts = AnswerParts {
        key: key.len(),
        ..AnswerParts::default()
    };
    append_head(out, head, PacketStatus::NotFound, parts, 0);
    out.extend_from_slice(key);
}

/// Appends the part before a value: head, flags, and the key, empty if it is not requested.
#[inline]
pub fn value_head(
    out: &mut Vec<u8>,
    head: PacketHead,
    (flags, version): (u32, u64),
    key: &[u8],
    value_bytes: usize,
) {
    let parts = AnswerParts {
        extras: 4,
        key: key.len(),
        value: value_bytes,
    };
    append_head(out, head, PacketStatus::Done, parts, version);
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(key);
}

/// Appends the answer of a counter.
pub fn number(out: &mut Vec<u8>, head: PacketHead, version: u64, number: u64) {
    done(out, head, version, &number.to_be_bytes());
}

/// Appends one statistic; an empty one is the end.
pub fn statistic(out: &mut Vec<u8>, head: PacketHead, name: &[u8], value: &[u8]) {
    let parts = AnswerParts {
        extras: 0,
        key: name.len(),
        value: value.len(),
    };
    append_head(out, head, PacketStatus::Done, parts, 0);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: PacketHead = PacketHead {
        code: 0x0c,
        quiet: false,
        opaque: *b"abcd",
    };

    #[test]
    fn a_value_stands_behind_flags_and_key() {
        let mut out = Vec::new();
        value_head(&mut out, HEAD, (7, 0x0102), b"key", 5);
        assert_eq!(
            out,
            b"\x81\x0c\x00\x03\x04\x00\x00\x00\x00\x00\x00\x0cabcd\
              \x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x07key"
        );
    }

    #[test]
    fn a_failure_has_its_words_and_no_version() {
        let mut out = Vec::new();
        failed(&mut out, HEAD, PacketStatus::NotStored);
        assert_eq!(
            out,
            b"\x81\x0c\x00\x00\x00\x00\x00\x05\x00\x00\x00\x0babcd\
              \x00\x00\x00\x00\x00\x00\x00\x00Not stored."
        );
    }
}
