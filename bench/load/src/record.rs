//! Records: the key and the value that belong to a number.
//!
//! A key is exactly as long as asked: hexadecimal digits of the number behind a filler. A value is
//! a function of the number and of a version which the value itself carries in its first bytes, so
//! a reader can tell that all bytes of what it got were once stored together under that key,
//! without remembering anything ([`Records::version_of`]).
//!
//! Values shorter than [`VERSION_BYTES`] carry no version and are always those of version zero.

use clap::Args;

use crate::error::Error;
use crate::popularity::Scatter;
use crate::quantity::{ByteRange, parse_count};
use crate::random::mix;

/// Longest key of memcached's protocol.
pub(crate) const KEY_BYTES_MAX: usize = 250;
/// Longest value a record may have.
pub(crate) const VALUE_BYTES_MAX: usize = 512 << 20;
/// Hexadecimal digits of the version at the start of a value.
pub(crate) const VERSION_BYTES: usize = 8;

const DIGITS_MAX: usize = 16;

/// All records of a run; the options of a load, as far as they are about these.
#[derive(Args, Clone, Copy, Debug)]
pub struct Records {
    /// Different keys
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    keys: u64,
    /// Length of every key
    #[arg(long, default_value_t = 16)]
    key_bytes: usize,
    /// Length of the values: N or LOW..HIGH
    #[arg(long, default_value = "100")]
    value_bytes: ByteRange,
}

impl Records {
    /// `keys` records with keys of exactly `key_bytes` and values of the given lengths.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are no or too many keys, or they do not fit in `key_bytes`.
    pub fn new(
        keys: u64,
        key_bytes: usize,
        value_bytes: impl Into<ByteRange>,
    ) -> Result<Records, Error> {
        let value_bytes = value_bytes.into();
        let records = Records {
            keys,
            key_bytes,
            value_bytes,
        };
        records.check()?;
        Ok(records)
    }

    /// Checks the limits.
    pub(super) fn check(&self) -> Result<(), Error> {
        let &Records {
            keys, key_bytes, ..
        } = self;
        let usage = |text: String| Err(Error::Usage(text));
        if keys == 0 || keys > Scatter::COUNT_MAX {
            return usage(format!("the keys must be 1 to 2^32, not {keys}"));
        }
        if key_bytes == 0 || key_bytes > KEY_BYTES_MAX {
            return usage(format!(
                "a key has 1 to {KEY_BYTES_MAX} bytes, not {key_bytes}"
            ));
        }
        if key_bytes < DIGITS_MAX && keys > 1 << (4 * key_bytes) {
            return usage(format!(
                "{keys} different keys do not fit in {key_bytes} bytes"
            ));
        }
        if self.value_bytes.high > VALUE_BYTES_MAX {
            return usage(format!("a value has at most {VALUE_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// How many records there are.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Length of every key.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Lengths of the values.
    pub fn value_bytes(&self) -> ByteRange {
        self.value_bytes
    }

    /// Appends the key of record `number`.
    #[inline]
    pub fn push_key(&self, out: &mut Vec<u8>, number: u64) {
        if self.key_bytes >= DIGITS_MAX {
            for _ in DIGITS_MAX..self.key_bytes {
                out.push(b'k');
            }
            out.extend_from_slice(&hexadecimal_half(number >> 32));
            out.extend_from_slice(&hexadecimal_half(number & 0xFFFF_FFFF));
        } else {
            out.extend_from_slice(&hexadecimal(number)[DIGITS_MAX - self.key_bytes..]);
        }
    }

    /// Appends the value of record `number` in `version`.
    pub fn push_value(&self, out: &mut Vec<u8>, number: u64, version: u32) {
        push_bytes(out, number, version, self.length(number, version));
    }

    /// The version in which a value of record `number` was stored; none if a byte of it is not as
    /// it was stored then.
    pub fn version_of(&self, number: u64, value: &[u8]) -> Option<u32> {
        let ByteRange { low, high } = self.value_bytes;
        let (version, bytes) = match value.first_chunk::<VERSION_BYTES>() {
            Some(head) => {
                let version = u32::from_str_radix(std::str::from_utf8(head).ok()?, 16).ok()?;
                (version, self.length(number, version))
            }
            None => (0, value.len().clamp(low, high)),
        };
        let mut expected = Vec::with_capacity(bytes + VERSION_BYTES);
        push_bytes(&mut expected, number, version, bytes);
        (value == expected).then_some(version)
    }

    /// Length of the value of record `number` in `version`.
    fn length(&self, number: u64, version: u32) -> usize {
        let ByteRange { low, high } = self.value_bytes;
        if low == high {
            return low;
        }
        let spread = (high - low) as u64 + 1;
        let drawn = mix(number ^ u64::from(version) << 32 ^ 0x4C45_4E47) % spread;
        // Below the spread, which came from a usize.
        low + drawn as usize
    }
}

/// Appends so many bytes of a value: the version, if they are enough for it, and behind it words
/// that depend on number and version.
fn push_bytes(out: &mut Vec<u8>, number: u64, version: u32, bytes: usize) {
    let end = out.len() + bytes;
    let mut seed = mix(mix(number));
    if bytes >= VERSION_BYTES {
        out.extend_from_slice(&hexadecimal_half(u64::from(version)));
        seed = mix(mix(number) ^ u64::from(version));
    }
    let words = (0u64..).map(|word| seed.wrapping_add(word).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let left = (end - out.len()).div_ceil(8);
    words
        .take(left)
        .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.truncate(end);
}

/// The 16 digits of `number`.
#[inline]
fn hexadecimal(number: u64) -> [u8; DIGITS_MAX] {
    let mut digits = [0; DIGITS_MAX];
    digits[..8].copy_from_slice(&hexadecimal_half(number >> 32));
    digits[8..].copy_from_slice(&hexadecimal_half(number & 0xFFFF_FFFF));
    digits
}

/// The 8 digits of a number of 32 bits, all at once in one register: spread its half-bytes over the
/// bytes, add '0' to each, and 39 more to those above nine, which leads to 'a'.
#[inline]
fn hexadecimal_half(number: u64) -> [u8; 8] {
    let n = (number | number << 16) & 0x0000_FFFF_0000_FFFF;
    let n = (n | n << 8) & 0x00FF_00FF_00FF_00FF;
    let n = (n | n << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    let above_nine = (n + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    (n + 0x3030_3030_3030_3030 + above_nine * 39).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(key_bytes: usize, low: usize, high: usize) -> Records {
        Records::new(1_000, key_bytes, ByteRange { low, high }).unwrap()
    }

    #[test]
    fn digits_are_those_of_the_standard_library() {
        for number in [
            0,
            1,
            9,
            10,
            15,
            16,
            0xDEAD_BEEF,
            0x0123_4567_89AB_CDEF,
            u64::MAX,
        ] {
            assert_eq!(
                hexadecimal(number).as_slice(),
                format!("{number:016x}").as_bytes()
            );
        }
    }

    #[test]
    fn keys_have_exactly_the_length_asked_for_and_differ() {
        for key_bytes in [3, 8, 16, 20, 250] {
            let records = records(key_bytes, 10, 10);
            let mut seen = std::collections::HashSet::new();
            for number in 0..1_000 {
                let mut key = Vec::new();
                records.push_key(&mut key, number);
                assert_eq!(key.len(), key_bytes);
                assert!(key.iter().all(u8::is_ascii_alphanumeric));
                assert!(seen.insert(key));
            }
        }
        assert!(Records::new(1_000, 2, 1).is_err());
        assert!(Records::new(0, 16, 1).is_err());
        assert!(Records::new(1, 251, 1).is_err());
    }

    #[test]
    fn a_value_tells_its_version_and_a_part_of_it_none() {
        for (low, high) in [(0, 0), (5, 5), (8, 8), (9, 9), (100, 100), (0, 60)] {
            let records = records(16, low, high);
            for number in 0..20 {
                let mut value = Vec::new();
                records.push_value(&mut value, number, 0xABCD);
                assert!((low..=high).contains(&value.len()));
                let version = if value.len() < 8 { 0 } else { 0xABCD };
                assert_eq!(records.version_of(number, &value), Some(version));
                let least = if low < high { 8 } else { 0 };
                for cut in least..value.len() {
                    assert_eq!(records.version_of(number, &value[..cut]), None);
                }
            }
        }
    }

    #[test]
    fn every_changed_byte_is_found() {
        let records = records(16, 45, 45);
        let mut value = Vec::new();
        records.push_value(&mut value, 7, 3);
        let is_good = |number, value: &[u8]| records.version_of(number, value) == Some(3);
        assert!(is_good(7, &value));
        assert!(!is_good(8, &value), "another key's value");
        assert!(!is_good(7, &value[..44]), "a short value");
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert!(!is_good(7, &changed), "byte {at}");
        }
    }
}
