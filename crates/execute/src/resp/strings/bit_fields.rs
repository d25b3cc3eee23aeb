//! Bit fields: BITFIELD and BITFIELD_RO, integers of any width at any bit of a string.
//!
//! Source: redis.io/docs/latest/commands/bitfield.

use std::ops::Range;

use cellar_engine::Change;
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_integer;

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::bits::BYTES_MAX;
use crate::resp::strings::values::{bytes_of, read, update, write_parts};
use crate::resp::strings::windows::Windows;

const BAD_TYPE: Failure = Failure::text(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 \
     is.",
);
const BAD_OFFSET: Failure = Failure::text("ERR bit offset is not an integer or out of range");

/// The handling of a number that does not fit into its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldAction {
    Get,
    Set(i64),
    Add(i64),
}

/// A field, and what is done to it.
#[derive(Clone, Copy, Debug)]
struct FieldAccess {
    is_signed: bool,
    bits: usize,
    /// Its first bit.
    at: usize,
    action: FieldAction,
    overflow: Overflow,
}

impl FieldAccess {
    /// Reads all operations of a request.
    fn parse_all(args: &[&[u8]]) -> Result<Vec<FieldAccess>, Failure> {
        let (mut operations, mut overflow) = (Vec::new(), Overflow::Wrap);
        let mut args = args;
        while let [name, rest @ ..] = args {
            let (is_get, taken) = match (name.to_ascii_uppercase().as_slice(), rest) {
                (b"OVERFLOW", [mode, rest @ ..]) => {
                    overflow = Overflow::parse(mode)?;
                    args = rest;
                    continue;
                }
                (b"GET", [_, _, ..]) => (true, 2),
                (b"SET" | b"INCRBY", [_, _, _, ..]) => (false, 3),
                _ => return Err(Failure::Syntax),
            };
            let (is_signed, bits) = type_of(rest[0])?;
            let at = offset(rest[1], bits)?;
            let action = if is_get {
                FieldAction::Get
            } else {
                let number = parse_integer(rest[2]).ok_or(Failure::NotInteger)?;
                if (at + bits).div_ceil(8) > BYTES_MAX {
                    return Err(BAD_OFFSET);
                }
                if name.eq_ignore_ascii_case(b"SET") {
                    FieldAction::Set(number)
                } else {
                    FieldAction::Add(number)
                }
            };
            operations.push(FieldAccess {
                is_signed,
                bits,
                at,
                action,
                overflow,
            });
            args = &rest[taken..];
        }
        Ok(operations)
    }

    /// The bytes that have a part of the field.
    fn bytes(&self) -> Range<usize> {
        self.at / 8..self.end_byte()
    }

    fn end_byte(&self) -> usize {
        (self.at + self.bits).div_ceil(8)
    }

    /// The number in the field.
    fn read(&self, value: &[u8]) -> i64 {
        let (word, shift) = self.word(value);
        let number = (word >> shift) as u64 & (u64::MAX >> (64 - self.bits));
        if self.is_signed {
            let free = 64 - self.bits;
            return ((number << free) as i64) >> free;
        }
        number as i64
    }

    /// The bytes that have a part of the field as one number, and how far it is from their end.
    fn word(&self, value: &[u8]) -> (u128, usize) {
        let bytes = self.bytes();
        let shift = bytes.end * 8 - self.at - self.bits;
        let byte = |place: usize| u128::from(value.get(place).copied().unwrap_or(0));
        (bytes.fold(0, |word, place| word << 8 | byte(place)), shift)
    }

    /// Puts a number into the field, whose bytes are there.
    fn write(&self, value: &mut [u8], number: i64) {
        let (word, shift) = self.word(value);
        let mask = u128::from(u64::MAX >> (64 - self.bits)) << shift;
        let word = word & !mask | u128::from(number as u64) << shift & mask;
        let bytes = &mut value[self.bytes()];
        let kept = word.to_be_bytes();
        bytes.copy_from_slice(&kept[kept.len() - bytes.len()..]);
    }

    /// The number as the field stores it; none if it does not fit and OVERFLOW is FAIL.
    fn fit(&self, number: i128) -> Option<i64> {
        let (low, high) = if self.is_signed {
            let half = 1_i128 << (self.bits - 1);
            (-half, half - 1)
        } else {
            (0, (1_i128 << self.bits) - 1)
        };
        let fitting = match self.overflow {
            _ if (low..=high).contains(&number) => number,
            Overflow::Fail => return None,
            Overflow::Saturate => number.clamp(low, high),
            Overflow::Wrap => {
                let size = 1_i128 << self.bits;
                (number - low).rem_euclid(size) + low
            }
        };
        Some(fitting as i64)
    }

    /// Does it; the answer.
    fn run(&self, value: &mut [u8]) -> Option<i64> {
        let old = self.read(value);
        let (number, answers_old) = match self.action {
            FieldAction::Get => return Some(old),
            // A negative number for an unsigned field counts as a large one.
            FieldAction::Set(number) if !self.is_signed => (i128::from(number as u64), true),
            FieldAction::Set(number) => (i128::from(number), true),
            FieldAction::Add(number) => (i128::from(old) + i128::from(number), false),
        };
        let new = self.fit(number)?;
        self.write(value, new);
        Some(if answers_old { old } else { new })
    }
}

impl Overflow {
    fn parse(name: &[u8]) -> Result<Overflow, Failure> {
        match name.to_ascii_uppercase().as_slice() {
            b"WRAP" => Ok(Overflow::Wrap),
            b"SAT" => Ok(Overflow::Saturate),
            b"FAIL" => Ok(Overflow::Fail),
            _ => Err(Failure::text("ERR Invalid OVERFLOW type specified")),
        }
    }
}

/// Whether a field has a sign, and how many bits.
fn type_of(text: &[u8]) -> Result<(bool, usize), Failure> {
    let (is_signed, most, bits) = match text {
        [b'i', bits @ ..] => (true, 64, bits),
        [b'u', bits @ ..] => (false, 63, bits),
        _ => return Err(BAD_TYPE),
    };
    let bits = parse_integer(bits).and_then(|bits| usize::try_from(bits).ok());
    let bits = bits.filter(|bits| (1..=most).contains(bits));
    bits.map(|bits| (is_signed, bits)).ok_or(BAD_TYPE)
}

/// The first bit of a field: as a number of bits, or behind `#` of such fields.
fn offset(text: &[u8], bits: usize) -> Result<usize, Failure> {
    let (number, unit) = match text {
        [b'#', number @ ..] => (number, bits),
        number => (number, 1),
    };
    let number = parse_integer(number).and_then(|number| usize::try_from(number).ok());
    let at = number.and_then(|number| number.checked_mul(unit));
    at.filter(|at| at / 8 < BYTES_MAX).ok_or(BAD_OFFSET)
}

/// BITFIELD, BITFIELD_RO.
pub(in crate::resp) fn bitfield(call: &mut Call<'_>) -> Outcome {
    let operations = FieldAccess::parse_all(&call.args[2..])?;
    let written = operations
        .iter()
        .filter(|one| one.action != FieldAction::Get);
    let end = written.map(FieldAccess::end_byte).max();
    let key = call.first_key()?;
    let Some(end) = end else {
        let answers = read(call, key, |value| {
            operations.iter().map(|one| one.read(value)).collect()
        })?;
        let answers: Vec<i64> = answers.unwrap_or_else(|| vec![0; operations.len()]);
        let mut reply = call.reply();
        reply.array(answers.len());
        answers.into_iter().for_each(|number| reply.integer(number));
        return DONE;
    };
    if call.command.verb == Verb::BitfieldRo {
        return Err(Failure::text(
            "ERR BITFIELD_RO only supports the GET subcommand",
        ));
    }
    let (answers, is_changed) = update(call, key, |old, scratch| {
        let value = bytes_of(old)?;
        let windows = Windows::of(operations.iter().map(FieldAccess::bytes), value, scratch);
        let before = scratch.clone();
        let answers = operations.iter().map(|one| {
            let field = FieldAccess {
                at: one.at % 8,
                ..*one
            };
            field.run(&mut scratch[windows.place(one.bytes())])
        });
        let answers: Vec<_> = answers.collect();
        if *scratch == before && value.len() >= end {
            return Ok(((answers, false), Change::Keep));
        }
        let parts = windows.parts(value.len().max(end));
        Ok(((answers, true), write_parts(call, parts, end)))
    })?;
    if is_changed {
        call.notify(Class::String, "setbit", key.bytes());
    }
    let mut reply = call.reply();
    reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(number) => reply.integer(number),
            None => reply.null(),
        }
    }
    DONE
}

#[cfg(test)]
mod tests {
    use super::{FieldAccess, Overflow, type_of};

    fn operation(words: &str) -> FieldAccess {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        FieldAccess::parse_all(&words).unwrap()[0]
    }

    #[test]
    fn what_is_written_anywhere_is_read_there_and_nothing_else_changes() {
        for bits in 1..=64 {
            for at in 0..20 {
                let mut field = operation(&format!("GET i{bits} {at}"));
                for (is_signed, number) in [(true, -1), (true, i64::MIN >> (64 - bits)), (false, 1)]
                {
                    field.is_signed = is_signed;
                    let mut value = vec![0xa5; 12];
                    let before = value.clone();
                    field.write(&mut value, number);
                    assert_eq!(field.read(&value), number);
                    let old = FieldAccess {
                        is_signed: true,
                        ..field
                    }
                    .read(&before);
                    field.write(&mut value, old);
                    assert_eq!(value, before, "{bits} {at}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_wraps_stops_or_fails() {
        for (field, number, wrapped, saturated) in [
            ("GET u8 0", 257, 1, 255),
            ("GET u8 0", -1, 255, 0),
            ("GET i8 0", 128, -128, 127),
            ("GET i8 0", -129, 127, -128),
            ("GET i64 0", i128::from(i64::MAX) + 1, i64::MIN, i64::MAX),
            ("GET u63 0", -1, i64::MAX, 0),
        ] {
            let fit = |overflow| {
                FieldAccess {
                    overflow,
                    ..operation(field)
                }
                .fit(number)
            };
            assert_eq!(fit(Overflow::Wrap), Some(wrapped), "{field}");
            assert_eq!(fit(Overflow::Saturate), Some(saturated), "{field}");
            assert_eq!(fit(Overflow::Fail), None);
        }
        assert_eq!(operation("GET u8 #3").at, 24);
        for bad in ["u64", "i65", "i0", "x8", "8", "u", "I8"] {
            assert!(type_of(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
