//! Bytes of a dump: lengths and strings.
//!
//! | first byte | length |
//! |---|---|
//! | `00nnnnnn` | n |
//! | `01nnnnnn` and one more | n, the high bits first |
//! | `10000000` and 4, `10000001` and 8 | likewise |
//! | `11000000` to `11000010` | a string that is an integer of 8, 16 or 32 bits |
//! | `11000011` | a compressed string: two lengths, compressed and not, and its bytes |

use super::BadDump;
use super::lzf;

/// A place in bytes that others have made.
#[derive(Clone, Copy, Debug)]
pub(super) struct DumpCursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// A string as it lies in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DumpText<'a> {
    Plain(&'a [u8]),
    Integer(i64),
    /// Compressed, and how long it is otherwise.
    Packed(&'a [u8], usize),
}

enum DumpLength {
    Plain(u64),
    Special(u8),
}

impl<'a> DumpCursor<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], BadDump> {
        let end = self.at.checked_add(count).ok_or(BadDump)?;
        let taken = self.bytes.get(self.at..end).ok_or(BadDump)?;
        self.at = end;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, BadDump> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of `count` bytes, little-endian.
    pub(super) fn low_first(&mut self, count: usize) -> Result<u64, BadDump> {
        let bytes = self.take(count)?.iter().rev();
        Ok(bytes.fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// The same, the highest first.
    pub(super) fn high_first(&mut self, count: usize) -> Result<u64, BadDump> {
        let bytes = self.take(count)?.iter();
        Ok(bytes.fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// A signed integer of `count` bytes, little-endian.
    pub(super) fn signed(&mut self, count: usize) -> Result<i64, BadDump> {
        let unused = u64::BITS as usize - 8 * count;
        let number = self.low_first(count)?;
        Ok((number << unused).cast_signed() >> unused)
    }

    fn any_length(&mut self) -> Result<DumpLength, BadDump> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match (first >> 6, low) {
            (0, _) => DumpLength::Plain(u64::from(low)),
            (1, _) => DumpLength::Plain(u64::from(low) << 8 | u64::from(self.byte()?)),
            (2, 0) => DumpLength::Plain(self.high_first(4)?),
            (2, 1) => DumpLength::Plain(self.high_first(8)?),
            (2, _) => return Err(BadDump),
            _ => DumpLength::Special(low),
        })
    }

    /// A length.
    pub(super) fn length(&mut self) -> Result<u64, BadDump> {
        match self.any_length()? {
            DumpLength::Plain(length) => Ok(length),
            DumpLength::Special(_) => Err(BadDump),
        }
    }

    /// A length of something that is in memory.
    fn size(&mut self) -> Result<usize, BadDump> {
        usize::try_from(self.length()?).map_err(|_| BadDump)
    }

    /// A string.
    pub(super) fn text(&mut self) -> Result<DumpText<'a>, BadDump> {
        Ok(match self.any_length()? {
            DumpLength::Plain(length) => {
                let length = usize::try_from(length).map_err(|_| BadDump)?;
                DumpText::Plain(self.take(length)?)
            }
            DumpLength::Special(0) => DumpText::Integer(self.signed(1)?),
            DumpLength::Special(1) => DumpText::Integer(self.signed(2)?),
            DumpLength::Special(2) => DumpText::Integer(self.signed(4)?),
            DumpLength::Special(3) => {
                let (packed, length) = (self.size()?, self.size()?);
                let packed = self.take(packed)?;
                if length == 0 || length / lzf::RATIO_MAX > packed.len() {
                    return Err(BadDump);
                }
                DumpText::Packed(packed, length)
            }
            DumpLength::Special(_) => return Err(BadDump),
        })
    }

    /// A string's bytes, which are not longer than `bytes_max`.
    pub(super) fn string(&mut self, bytes_max: usize) -> Result<Vec<u8>, BadDump> {
        match self.text()? {
            DumpText::Plain(bytes) if bytes.len() <= bytes_max => Ok(bytes.to_vec()),
            DumpText::Integer(number) => Ok(number.to_string().into_bytes()),
            DumpText::Packed(packed, length) if length <= bytes_max => {
                let mut out = vec![0; length];
                let mut inflating = lzf::Inflating::default();
                inflating.step(packed, &mut out, usize::MAX)?;
                Ok(out)
            }
            _ => Err(BadDump),
        }
    }

    /// A score as a float.
    pub(super) fn double(&mut self) -> Result<f64, BadDump> {
        let score = f64::from_bits(self.low_first(8)?);
        if score.is_nan() {
            Err(BadDump)
        } else {
            Ok(score)
        }
    }

    /// A score as it was written before: a length and digits, or a special one.
    pub(super) fn written_double(&mut self) -> Result<f64, BadDump> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Err(BadDump),
            length => number_of(self.take(usize::from(length))?),
        }
    }
}

/// The number that a score is written as.
pub(super) fn number_of(text: &[u8]) -> Result<f64, BadDump> {
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.parse::<f64>().ok());
    number.filter(|number| !number.is_nan()).ok_or(BadDump)
}

/// Appends a length.
pub(super) fn push_length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..64 => out.push(length as u8),
        64..16_384 => out.extend_from_slice(&[(length >> 8) as u8 | 0x40, length as u8]),
        16_384..=0xffff_ffff => {
            out.push(0x80);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_they_were_written() {
        for length in [
            0,
            63,
            64,
            16_383,
            16_384,
            u64::from(u32::MAX),
            1 << 32,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            push_length(&mut bytes, length);
            let mut cursor = DumpCursor {
                bytes: &bytes,
                at: 0,
            };
            assert_eq!(cursor.length(), Ok(length));
            assert_eq!(cursor.at, bytes.len());
            let mut cut = DumpCursor {
                bytes: &bytes[..bytes.len() - 1],
                at: 0,
            };
            assert_eq!(cut.length(), Err(BadDump));
        }
    }

    #[test]
    fn strings_may_be_integers_or_compressed() {
        for (bytes, expected) in [
            (&b"\x03abc"[..], &b"abc"[..]),
            (b"\xc0\xff", b"-1"),
            (b"\xc1\x00\x80", b"-32768"),
            (b"\xc2\x00\x00\x01\x00", b"65536"),
            (b"\xc3\x04\x06\x00a\xa0\x00", b""),
            (b"\xc3\x05\x0a\x01ab\xe0\x00", b""),
        ] {
            let read = DumpCursor { bytes, at: 0 }.string(100);
            assert_eq!(
                read.unwrap_or_default(),
                expected,
                "{}",
                bytes.escape_ascii()
            );
        }
    }
}
