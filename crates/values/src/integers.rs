//! Integers: a small set whose members are all integers, in ascending order.
//!
//! | part | bytes |
//! |---|---|
//! | [`FORM`] | 1 |
//! | bytes of a member, from 1 to 8 | 1 |
//! | members, in two's complement, the lowest byte first | so many each |
//!
//! Each member has as many bytes as the widest one that was ever there. A member that is no
//! integer, or one too many, makes a set of texts of it.
//!
//! Why: docs/decisions/0099. Tests: below, tests/collections.rs.

use std::borrow::Cow;
use std::ops::{Deref, Range};

/// The first byte of such a value.
pub(crate) const FORM: u8 = 2;
/// Bytes before the members.
const HEAD_BYTES: usize = 2;
/// Most members, and most bytes of them.
const INTEGERS_MAX: usize = 512;
const INTEGERS_BYTES_MAX: usize = 3 << 10;
/// Most characters of an integer, with its sign.
const TEXT_BYTES_MAX: usize = 20;

/// A member of a set: bytes of its value, or an integer that is written as a text.
#[derive(Clone, Debug)]
pub struct Member<'a>(Text<'a>);

#[derive(Clone, Debug)]
enum Text<'a> {
    Stored(Cow<'a, [u8]>),
    Integer([u8; TEXT_BYTES_MAX], u8),
}

impl<'a> Member<'a> {
    #[inline]
    fn of_integer(number: i64) -> Member<'a> {
        let (mut buffer, mut text) = (itoa::Buffer::new(), [0; TEXT_BYTES_MAX]);
        let digits = buffer.format(number).as_bytes();
        text[..digits.len()].copy_from_slice(digits);
        Member(Text::Integer(text, digits.len() as u8))
    }

    /// The bytes, copied unless they are in the value.
    #[must_use]
    pub fn into_cow(self) -> Cow<'a, [u8]> {
        match self.0 {
            Text::Stored(bytes) => bytes,
            Text::Integer(text, len) => Cow::Owned(text[..usize::from(len)].to_vec()),
        }
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn into_owned(self) -> Vec<u8> {
        self.into_cow().into_owned()
    }
}

impl<'a> From<Cow<'a, [u8]>> for Member<'a> {
    #[inline]
    fn from(bytes: Cow<'a, [u8]>) -> Member<'a> {
        Member(Text::Stored(bytes))
    }
}

impl<'a> From<&'a [u8]> for Member<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Member<'a> {
        Member(Text::Stored(Cow::Borrowed(bytes)))
    }
}

impl Deref for Member<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Text::Stored(bytes) => bytes,
            Text::Integer(text, len) => &text[..usize::from(*len)],
        }
    }
}

impl AsRef<[u8]> for Member<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The integer of 64 bits that a text is, if it is written as a number is written: without zeros
/// before it or a plus.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if text.len() <= TEXT_BYTES_MAX => {}
        _ => return None,
    }
    let mut number = 0_u64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    match is_negative {
        true => 0_i64.checked_sub_unsigned(number),
        false => i64::try_from(number).ok(),
    }
}

/// How many bytes an integer takes.
fn width_of(number: i64) -> usize {
    // The bits that differ from the sign, and the sign itself.
    let bits = 65 - (number ^ number >> 63).leading_zeros() as usize;
    bits.div_ceil(8)
}

/// Integers as a command sees them.
#[derive(Debug)]
pub(crate) struct Integers<'v> {
    /// Bytes of each of them.
    width: usize,
    bytes: Cow<'v, [u8]>,
}

impl<'v> Integers<'v> {
    pub(crate) fn empty() -> Integers<'v> {
        Integers {
            width: 1,
            bytes: Cow::Borrowed(&[]),
        }
    }

    pub(crate) fn read(value: &'v [u8]) -> Integers<'v> {
        Integers {
            width: usize::from(value[1]),
            bytes: Cow::Borrowed(&value[HEAD_BYTES..]),
        }
    }

    /// These texts, if all of them are integers and they are few.
    pub(crate) fn of<'m>(texts: impl Iterator<Item = &'m [u8]>) -> Option<Integers<'v>> {
        let mut numbers = texts.map(integer).collect::<Option<Vec<i64>>>()?;
        numbers.sort_unstable();
        let width = numbers.iter().map(|&number| width_of(number)).max()?;
        if !is_small(numbers.len(), width) {
            return None;
        }
        let bytes = numbers.iter().flat_map(|number| bytes_of(*number, width));
        Some(Integers {
            width,
            bytes: Cow::Owned(bytes.collect()),
        })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    #[inline]
    fn range(&self, rank: usize) -> Range<usize> {
        rank * self.width..(rank + 1) * self.width
    }

    #[inline]
    fn number(&self, rank: usize) -> i64 {
        let (mut word, unused) = ([0; 8], 64 - 8 * self.width as u32);
        word[..self.width].copy_from_slice(&self.bytes[self.range(rank)]);
        (i64::from_le_bytes(word) << unused) >> unused
    }

    /// The member of a rank.
    #[inline]
    pub(crate) fn nth(&self, rank: usize) -> Option<Member<'static>> {
        (rank < self.len()).then(|| Member::of_integer(self.number(rank)))
    }

    /// All members, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Member<'static>> {
        (0..self.len()).map(|rank| Member::of_integer(self.number(rank)))
    }

    /// The rank of a number, or the one that it would have.
    fn rank_of(&self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.number(middle).cmp(&number) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    #[inline]
    pub(crate) fn has(&self, member: &[u8]) -> bool {
        integer(member).is_some_and(|number| self.rank_of(number).is_ok())
    }

    /// Adds a member; whether it is new, or none if it cannot be among them.
    pub(crate) fn add(&mut self, member: &[u8]) -> Option<bool> {
        let number = integer(member)?;
        let Err(rank) = self.rank_of(number) else {
            return Some(false);
        };
        let width = self.width.max(width_of(number));
        if !is_small(self.len() + 1, width) {
            return None;
        }
        let mut bytes = Vec::with_capacity((self.len() + 1) * width);
        self.copy(&mut bytes, 0..rank, width);
        bytes.extend(bytes_of(number, width));
        self.copy(&mut bytes, rank..self.len(), width);
        (self.width, self.bytes) = (width, Cow::Owned(bytes));
        Some(true)
    }

    /// Copies the members of these ranks, each of them as wide as this.
    fn copy(&self, out: &mut Vec<u8>, ranks: Range<usize>, width: usize) {
        if width == self.width {
            let bytes = ranks.start * width..ranks.end * width;
            return out.extend_from_slice(&self.bytes[bytes]);
        }
        ranks.for_each(|rank| out.extend(bytes_of(self.number(rank), width)));
    }

    /// Removes a member; whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(Ok(rank)) = integer(member).map(|number| self.rank_of(number)) else {
            return false;
        };
        let range = self.range(rank);
        self.bytes.to_mut().drain(range);
        true
    }

    /// Appends the bytes of the value.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.reserve(HEAD_BYTES + self.bytes.len());
        out.extend_from_slice(&[FORM, self.width as u8]);
        out.extend_from_slice(&self.bytes);
    }
}

/// Whether so many members of such a width are kept as integers.
fn is_small(members: usize, width: usize) -> bool {
    members <= INTEGERS_MAX && members * width <= INTEGERS_BYTES_MAX
}

#[inline]
fn bytes_of(number: i64, width: usize) -> impl Iterator<Item = u8> {
    number.to_le_bytes().into_iter().take(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_as_it_is_written_is_an_integer() {
        let numbers = [0, 1, -1, 10, 999_999, i64::MAX, i64::MIN];
        for number in numbers {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        let others = [
            "", "-", "-0", "00", "01", "+1", " 1", "1 ", "1a", "a", "1.0", "0x1",
        ];
        for other in others {
            assert_eq!(integer(other.as_bytes()), None, "{other}");
        }
        let long = [
            "9223372036854775808",
            "-9223372036854775809",
            "184467440737095516160",
        ];
        for other in long {
            assert_eq!(integer(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_member_takes_the_bytes_of_the_widest_one() {
        for (number, bytes) in [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2)] {
            assert_eq!(width_of(number), bytes, "{number}");
        }
        for bytes in 1..=8 {
            let largest = i64::MAX >> (64 - 8 * bytes);
            assert_eq!((width_of(largest), width_of(!largest)), (bytes, bytes));
        }
        let mut set = Integers::empty();
        for number in ["5", "-7", "300", "-2", "9223372036854775807"] {
            assert_eq!(set.add(number.as_bytes()), Some(true));
            assert_eq!(set.add(number.as_bytes()), Some(false));
        }
        let mut value = Vec::new();
        set.write(&mut value);
        assert_eq!(value.len(), 2 + 5 * 8);
        let texts: Vec<Vec<u8>> = Integers::read(&value)
            .iter()
            .map(Member::into_owned)
            .collect();
        assert_eq!(texts.join(&b' '), b"-7 -2 5 300 9223372036854775807");
    }

    #[test]
    fn what_is_no_integer_and_what_is_one_too_many_is_refused() {
        let mut set = Integers::empty();
        assert_eq!(set.add(b"m"), None);
        for number in 0..INTEGERS_MAX {
            assert_eq!(set.add(number.to_string().as_bytes()), Some(true));
        }
        assert_eq!(set.add(b"1000"), None);
        assert_eq!(set.len(), INTEGERS_MAX);
        assert!(set.remove(b"7") && !set.remove(b"7") && !set.has(b"7"));
        assert_eq!(set.add(b"1000"), Some(true));
        // Eight bytes each would be too many.
        assert!(set.remove(b"1000"));
        assert_eq!(set.add(b"9223372036854775807"), None);
    }
}
