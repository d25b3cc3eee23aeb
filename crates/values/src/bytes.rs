//! Bytes: numbers within a value. None of these panics on bytes that were written by the others.

use std::ops::Deref;

/// The number of 16 bits at `at`, little end first.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// The number of 32 bits at `at`.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(four)
}

/// The number of 64 bits at `at`.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes[at..at + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(eight)
}

/// Writes a few bytes at `at`.
#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, part: [u8; N]) {
    let place = bytes[at..].first_chunk_mut();
    *place.expect("as many bytes as are written") = part;
}

/// A number in groups of seven bits, the lowest first. All bytes but the last have the top bit set.
pub(crate) struct Varint {
    bytes: [u8; 10],
    len: usize,
}

impl Varint {
    #[inline]
    pub(crate) fn of(mut number: usize) -> Varint {
        let (mut bytes, mut len) = ([0; 10], 1);
        while number >= 0x80 {
            bytes[len - 1] = number as u8 | 0x80;
            number >>= 7;
            len += 1;
        }
        bytes[len - 1] = number as u8;
        Varint { bytes, len }
    }
}

impl Deref for Varint {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Reads a [`Varint`] at `at`. Returns the number and the offset after it.
#[inline]
pub(crate) fn varint(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = bytes[at];
    if first < 0x80 {
        return (usize::from(first), at + 1);
    }
    let second = bytes[at + 1];
    if second < 0x80 {
        return (usize::from(first & 0x7f) | usize::from(second) << 7, at + 2);
    }
    let (mut number, mut shift, mut at) = (usize::from(first & 0x7f), 7, at + 1);
    loop {
        let byte = bytes[at];
        number |= usize::from(byte & 0x7f) << shift;
        (shift, at) = (shift + 7, at + 1);
        if byte < 0x80 {
            return (number, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Varint, varint};

    #[test]
    fn a_number_is_read_as_it_was_written() {
        for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 1 << 28, u32::MAX as usize] {
            let mut bytes = vec![9];
            bytes.extend_from_slice(&Varint::of(number));
            assert_eq!(varint(&bytes, 1), (number, bytes.len()));
        }
    }
}
