//! Replies: answers as bytes, appended to a buffer.

use super::base64;
use super::meta::Meta;
use crate::length_line;

/// Answers of classic commands.
pub mod line {
    /// A store took place.
    pub const STORED: &[u8] = b"STORED\r\n";
    /// The condition of a store did not hold.
    pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
    /// The item has another version.
    pub const EXISTS: &[u8] = b"EXISTS\r\n";
    /// There is no such item.
    pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
    /// An item was deleted.
    pub const DELETED: &[u8] = b"DELETED\r\n";
    /// An item has a new deadline.
    pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
    /// Done.
    pub const OK: &[u8] = b"OK\r\n";
    /// The end of a read or a listing.
    pub const END: &[u8] = b"END\r\n";
    /// Statistics were set back.
    pub const RESET: &[u8] = b"RESET\r\n";
    /// mn
    pub const META_NOOP: &[u8] = b"MN\r\n";
    /// The end of a meta listing, and a meta miss.
    pub const META_END: &[u8] = b"EN\r\n";
    /// incr or decr of a value that is no number.
    pub const NOT_A_NUMBER: &[u8] =
        b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    /// A value over the limit.
    pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
    /// A store while all memory is held by values in transfer.
    pub const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
    /// A counter that finds no memory.
    pub const NO_MEMORY_FOR_NUMBER: &[u8] = b"SERVER_ERROR out of memory\r\n";
    /// The same of `ma`.
    pub const NO_MEMORY_FOR_META_NUMBER: &[u8] =
        b"SERVER_ERROR Out of memory allocating new item\r\n";
    /// A store while the file system of the cache's memory is full.
    pub const STATE_FULL: &[u8] =
        b"SERVER_ERROR out of memory: the file system of --state is full\r\n";
}

/// Return codes of meta commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// HD: done.
    Done,
    /// EN: a read missed.
    Miss,
    /// NF: no such item.
    NotFound,
    /// NS: the condition did not hold.
    NotStored,
    /// EX: the item has another version.
    Exists,
}

impl Code {
    /// The two letters.
    #[must_use]
    pub const fn text(self) -> &'static [u8; 2] {
        match self {
            Code::Done => b"HD",
            Code::Miss => b"EN",
            Code::NotFound => b"NF",
            Code::NotStored => b"NS",
            Code::Exists => b"EX",
        }
    }
}

/// Appends a decimal number.
#[inline]
pub fn number(out: &mut Vec<u8>, number: u64) {
    // Most are short: these take no formatting.
    let digit = |number: u32| b'0' + number as u8;
    match number as u32 {
        short @ 0..10 if number < 10 => out.push(digit(short)),
        short @ 10..100 if number < 100 => {
            out.extend_from_slice(&[digit(short / 10), digit(short % 10)]);
        }
        short @ 100..1000 if number < 1000 => {
            let (hundreds, rest) = (short / 100, short % 100);
            out.extend_from_slice(&[digit(hundreds), digit(rest / 10), digit(rest % 10)]);
        }
        _ => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
    }
}

/// Appends a line that is given without its end.
pub fn text_line(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends the line before a value of a classic read.
#[inline]
pub fn value_head(
    out: &mut Vec<u8>,
    key: &[u8],
    flags: u32,
    value_bytes: usize,
    version: Option<u64>,
) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    if flags == 0 {
        out.extend_from_slice(b" 0");
    } else {
        out.push(b' ');
        number(out, u64::from(flags));
    }
    let Some(version) = version else {
        return length_line::append(out, b' ', value_bytes);
    };
    out.push(b' ');
    number(out, value_bytes as u64);
    out.push(b' ');
    number(out, version);
    out.extend_from_slice(b"\r\n");
}

/// Appends the return code of a meta command with a value: VA and its length.
#[inline]
pub fn meta_value(out: &mut Vec<u8>, value_bytes: usize) {
    out.extend_from_slice(b"VA ");
    number(out, value_bytes as u64);
}

/// Appends the line of a meta response with nothing but a value, which follows: VA and its length.
#[inline]
pub fn meta_value_head(out: &mut Vec<u8>, value_bytes: usize) {
    out.extend_from_slice(b"VA");
    length_line::append(out, b' ', value_bytes);
}

/// Appends a flag with a number.
#[inline]
pub fn meta_number(out: &mut Vec<u8>, flag: u8, value: u64) {
    out.extend_from_slice(&[b' ', flag]);
    number(out, value);
}

/// Appends the seconds left (flag t); -1 for ever.
pub fn meta_ttl(out: &mut Vec<u8>, ttl_s: Option<u64>) {
    match ttl_s {
        Some(ttl_s) => meta_number(out, b't', ttl_s),
        None => out.extend_from_slice(b" t-1"),
    }
}

/// Appends the fields that every meta response repeats: the opaque token, and the key, in base64
/// followed by the flag b if it was sent so.
#[inline]
pub fn meta_repeat(out: &mut Vec<u8>, meta: &Meta<'_>, token: &[u8]) {
    match token[0] {
        b'O' => {
            out.push(b' ');
            out.extend_from_slice(token);
        }
        b'k' => meta_key(out, meta),
        _ => {}
    }
}

fn meta_key(out: &mut Vec<u8>, meta: &Meta<'_>) {
    out.extend_from_slice(b" k");
    meta_debug_key(out, meta);
    if meta.is_base64() {
        out.extend_from_slice(b" b");
    }
}

/// Appends the key, as base64 if it came so.
pub fn meta_debug_key(out: &mut Vec<u8>, meta: &Meta<'_>) {
    if meta.is_base64() {
        let mut buffer = [0; super::KEY_BYTES_MAX];
        base64::encode(out, meta.key_bytes(&mut buffer));
    } else {
        out.extend_from_slice(meta.key_text());
    }
}

/// Appends a complete response that has only a code and the repeated fields.
pub fn meta_plain(out: &mut Vec<u8>, code: Code, meta: &Meta<'_>) {
    out.extend_from_slice(code.text());
    for token in meta.flags() {
        meta_repeat(out, meta, token);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends one statistic.
pub fn stat(out: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    use std::io::Write;
    write!(out, "STAT {name} {value}\r\n").expect("writing into a vector does not fail");
}

/// Appends `key` with all but letters, digits and `-._~` as percent escapes.
pub fn percent_escaped(out: &mut Vec<u8>, key: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_line_has_its_version_only_if_asked() {
        let mut out = Vec::new();
        value_head(&mut out, b"k", 0, 5, None);
        value_head(&mut out, b"k", 7, 0, Some(u64::MAX));
        assert_eq!(out, b"VALUE k 0 5\r\nVALUE k 7 0 18446744073709551615\r\n");
    }

    #[test]
    fn the_line_of_a_value_alone_looks_as_one_without_flags() {
        let (mut out, mut alone) = (Vec::new(), Vec::new());
        meta_value(&mut out, 3);
        out.extend_from_slice(b"\r\n");
        meta_value_head(&mut alone, 3);
        assert_eq!(out, alone);
    }

    #[test]
    fn escapes_keep_what_is_safe() {
        let mut out = Vec::new();
        percent_escaped(&mut out, b"a-Z.0_~ /\xff");
        assert_eq!(out, b"a-Z.0_~%20%2F%FF");
    }
}
