//! Bits: the library `bit`, operations on numbers of 32 bits.
//!
//! Source: bitop.luajit.org; errors of redis-server 7.

use mlua::Result;

use crate::given::Given;

/// Added to a number so that its low 32 bits are the low bits of the sum: 2^52 + 2^51.
const SHIFTED: f64 = 6_755_399_441_055_744.0;

/// The low 32 bits of the number at a place, rounded to a whole one.
fn bits_at(given: &Given<'_>, place: usize) -> Result<u32> {
    Ok((given.number(place)? + SHIFTED).to_bits() as u32)
}

fn number_of(bits: u32) -> f64 {
    f64::from(bits.cast_signed())
}

/// A function of one number.
pub(super) fn one(given: &Given<'_>, run: fn(u32) -> u32) -> Result<f64> {
    Ok(number_of(run(bits_at(given, 1)?)))
}

/// A function of a number and the places by which it is shifted.
pub(super) fn shift(given: &Given<'_>, run: fn(u32, u32) -> u32) -> Result<f64> {
    let bits = bits_at(given, 1)?;
    Ok(number_of(run(bits, bits_at(given, 2)? & 31)))
}

/// A function of any number of numbers. Arguments are checked in the order of redis-server: the
/// first that is no number, then the last.
pub(super) fn all(given: &Given<'_>, run: fn(u32, u32) -> u32) -> Result<f64> {
    let mut bits = bits_at(given, 1)?;
    for place in (2..=given.values.len()).rev() {
        bits = run(bits, bits_at(given, place)?);
    }
    Ok(number_of(bits))
}

/// Hexadecimal digits, capital ones for a negative number of them.
pub(super) fn to_hex(given: &Given<'_>) -> Result<String> {
    let bits = bits_at(given, 1)?;
    let digits = match given.at(2) {
        None => 8,
        Some(_) => bits_at(given, 2)?.cast_signed(),
    };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = format!("{bits:08x}");
    let text = &text[8 - count..];
    Ok(if digits < 0 {
        text.to_uppercase()
    } else {
        text.to_owned()
    })
}
