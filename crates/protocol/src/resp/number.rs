//! Numbers as Redis reads and writes them.
//!
//! Integers are strict: no plus sign, no spaces, no leading zeros, no `-0`. Floats are what Rust
//! reads except NaN, and except numbers too large or too small for 64 bits; and hexadecimal ones as
//! C writes them (`0x1A`, `0x1.8p3`). [`Decimal`] is the arithmetic of INCRBYFLOAT: exact to 17
//! decimals. Redis adds 80-bit floats there, so its 0.1 and 0.2 are 0.3 as well, but its 579.7667
//! may have digits behind it.
//!
//! Sources: string2ll, d2string and LD_STR_HUMAN in Redis's util.c; fpconv_dtoa for exponents.

use std::io::Write;

/// Longest integer in bytes: that of the smallest.
pub const INTEGER_BYTES_MAX: usize = 20;
/// Longest float that [`write_float`] writes, in bytes.
pub const FLOAT_BYTES_MAX: usize = 32;

/// Reads an integer, strictly.
#[inline]
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let magnitude = match digits {
        b"0" if !negative => 0,
        [b'1'..=b'9', ..] if digits.len() < INTEGER_BYTES_MAX => magnitude(digits)?,
        _ => return None,
    };
    if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// The number of at most 19 digits, which always fits.
#[inline]
fn magnitude(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + u64::from(digit))
    })
}

/// Bytes of an integer that any float holds.
const SHORT_INTEGER_BYTES: usize = 15;

/// Reads a float: infinities by name, hexadecimal digits behind `0x`, no NaN, no spaces.
#[must_use]
pub fn parse_float(text: &[u8]) -> Option<f64> {
    // Most scores are integers of few digits, which a float holds exactly.
    if text.len() <= SHORT_INTEGER_BYTES
        && let Some(number) = parse_integer(text)
    {
        return Some(number as f64);
    }
    if let Some(hexadecimal) = Hexadecimal::parse(text) {
        return hexadecimal.float();
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    if number.is_nan() {
        return None;
    }
    if number.is_infinite() {
        let is_named = text.iter().any(|byte| matches!(byte, b'n' | b'N'));
        return is_named.then_some(number);
    }
    if number == 0.0 {
        let mut mantissa = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
        let is_too_small = mantissa.any(|byte| (b'1'..=b'9').contains(byte));
        return (!is_too_small).then_some(number);
    }
    Some(number)
}

/// A hexadecimal number as C's strtod reads it: a number and a power of two.
#[derive(Clone, Copy, Debug)]
struct Hexadecimal {
    negative: bool,
    digits: u64,
    power: i32,
}

impl Hexadecimal {
    /// Most digits that a number has here; longer ones, which Redis accepts, are rejected.
    const DIGITS_MAX: usize = 16;

    fn parse(text: &[u8]) -> Option<Hexadecimal> {
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] | rest => (false, rest),
        };
        let [b'0', b'x' | b'X', rest @ ..] = rest else {
            return None;
        };
        let mark = rest.iter().position(|byte| matches!(byte, b'p' | b'P'));
        let (mantissa, exponent) = rest.split_at(mark.unwrap_or(rest.len()));
        let exponent = match exponent {
            [] => 0,
            [_, digits @ ..] => std::str::from_utf8(digits).ok()?.parse::<i16>().ok()?,
        };
        let point = mantissa.iter().position(|byte| *byte == b'.');
        let decimals = point.map_or(0, |point| mantissa.len() - point - 1);
        let shown = mantissa.len() - usize::from(point.is_some());
        if shown == 0 || shown > Hexadecimal::DIGITS_MAX {
            return None;
        }
        let mut digits = 0;
        for (place, &byte) in mantissa.iter().enumerate() {
            if point != Some(place) {
                digits = digits << 4 | u64::from(char::from(byte).to_digit(16)?);
            }
        }
        Some(Hexadecimal {
            negative,
            digits,
            power: i32::from(exponent) - 4 * i32::try_from(decimals).ok()?,
        })
    }

    /// The nearest float; `None` for numbers too large or too small.
    #[expect(clippy::cast_precision_loss, reason = "the nearest is asked for")]
    fn float(self) -> Option<f64> {
        let number = self.digits as f64 * 2_f64.powi(self.power);
        let is_lost = number == 0.0 && self.digits > 0;
        let signed = if self.negative { -number } else { number };
        (number.is_finite() && !is_lost).then_some(signed)
    }

    /// In units of 10^-17, if that is exact.
    fn units(self) -> Option<i128> {
        let digits = i128::from(self.digits);
        let units = match u32::try_from(self.power) {
            Ok(up) => digits
                .checked_mul(1_i128.checked_shl(up)?)?
                .checked_mul(ONE)?,
            // Of ten to the power of 17, two can be taken out so often.
            Err(_) if self.power >= -17 => digits.checked_mul(ONE)? >> self.power.unsigned_abs(),
            Err(_) => return None,
        };
        let signed = if self.negative { -units } else { units };
        (units.abs() < EXACT_MAX).then_some(signed)
    }
}

/// Appends a float as short as it can be read back exactly: `3`, `3.5`, `inf`, `1e+22`, `-0`.
pub fn write_float(number: f64, out: &mut Vec<u8>) {
    /// Beyond it whole numbers are written with an exponent.
    const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
    if number.is_nan() {
        out.extend_from_slice(b"nan");
    } else if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
    } else if number.abs() <= WHOLE_MAX && number.fract() == 0.0 {
        if number == 0.0 && number.is_sign_negative() {
            out.push(b'-');
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
    } else {
        write_digits(number, out);
    }
}

/// Appends a finite float that is not zero from its shortest digits.
fn write_digits(number: f64, out: &mut Vec<u8>) {
    let mut buffer = [0; FLOAT_BYTES_MAX];
    let mut free = buffer.as_mut_slice();
    write!(free, "{:e}", number.abs()).expect("a float has at most 24 bytes");
    let unused = free.len();
    let text = &buffer[..FLOAT_BYTES_MAX - unused];
    let mark = text.iter().position(|byte| *byte == b'e');
    let (mantissa, exponent) = text.split_at(mark.expect("the form has an exponent"));
    let exponent = parse_integer(&exponent[1..]).expect("the exponent is a number");
    let digits = mantissa.iter().copied().filter(|byte| *byte != b'.');
    let digits: smallvec::SmallVec<[u8; FLOAT_BYTES_MAX]> = digits.collect();
    if number < 0.0 {
        out.push(b'-');
    }
    place_point(&digits, exponent, out);
}

/// Appends digits, of which the first has the power `exponent` of ten.
fn place_point(digits: &[u8], exponent: i64, out: &mut Vec<u8>) {
    let count = i64::try_from(digits.len()).expect("a float has few digits");
    let last = exponent - count + 1;
    let magnitude = exponent.abs();
    let zeros = |count: i64| std::iter::repeat_n(b'0', usize::try_from(count).unwrap_or(0));
    if last >= 0 && magnitude < count + 7 {
        out.extend_from_slice(digits);
        out.extend(zeros(last));
    } else if last < 0 && (last > -7 || magnitude < 4) {
        if exponent < 0 {
            out.extend_from_slice(b"0.");
            out.extend(zeros(-exponent - 1));
            out.extend_from_slice(digits);
        } else {
            let (whole, rest) = digits.split_at(usize::try_from(exponent).unwrap_or(0) + 1);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(rest);
        }
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        out.extend_from_slice(itoa::Buffer::new().format(magnitude).as_bytes());
    }
}

/// A number of INCRBYFLOAT and HINCRBYFLOAT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decimal {
    /// In units of 10^-17, below [`EXACT_MAX`].
    Exact(i128),
    /// Too large for that.
    Float(f64),
}

/// Stored decimals.
const DECIMALS: i64 = 17;
/// One, in units of 10^-17.
const ONE: i128 = 10_i128.pow(17);
/// Bound on [`Decimal::Exact`]: 10^20 in its units.
const EXACT_MAX: i128 = ONE * 10_i128.pow(20);
/// Number of digits that always fit in an `i128`.
const DIGITS_MAX: usize = 38;

impl Decimal {
    /// Reads a number with the rules of [`parse_float`]; decimals beyond the 17th are rounded.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Decimal> {
        let float = parse_float(text)?;
        if let Some(hexadecimal) = Hexadecimal::parse(text) {
            return Some(
                hexadecimal
                    .units()
                    .map_or(Decimal::Float(float), Decimal::Exact),
            );
        }
        Some(parse_exact(text).map_or(Decimal::Float(float), Decimal::Exact))
    }

    /// The sum; `None` if it is infinite or no number.
    #[must_use]
    pub fn plus(self, other: Decimal) -> Option<Decimal> {
        if let (Decimal::Exact(one), Decimal::Exact(other)) = (self, other)
            && (one + other).abs() < EXACT_MAX
        {
            return Some(Decimal::Exact(one + other));
        }
        let sum = self.float() + other.float();
        sum.is_finite().then_some(Decimal::Float(sum))
    }

    /// The nearest float.
    #[expect(clippy::cast_precision_loss, reason = "the nearest is asked for")]
    #[must_use]
    pub fn float(self) -> f64 {
        match self {
            Decimal::Exact(units) => units as f64 / ONE as f64,
            Decimal::Float(float) => float,
        }
    }

    /// Appends the number with up to 17 decimals, without an exponent and without zeros at the end.
    pub fn write(self, out: &mut Vec<u8>) {
        let text = match self {
            Decimal::Exact(units) => {
                let (whole, part) = ((units / ONE).abs(), (units % ONE).abs());
                let sign = if units < 0 { "-" } else { "" };
                format!("{sign}{whole}.{part:017}")
            }
            Decimal::Float(float) => format!("{float:.17}"),
        };
        let text = text.trim_end_matches('0').trim_end_matches('.');
        out.extend_from_slice(text.as_bytes());
    }
}

/// Parses the numbers that [`parse_float`] accepts into units of 10^-17; `None` for too large ones.
fn parse_exact(text: &[u8]) -> Option<i128> {
    let mark = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = text.split_at(mark.unwrap_or(text.len()));
    let exponent = match exponent {
        [] => 0,
        [_, digits @ ..] => std::str::from_utf8(digits).ok()?.parse::<i16>().ok()?,
    };
    let (negative, mantissa) = match mantissa {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    let point = mantissa.iter().position(|byte| *byte == b'.');
    let decimals = point.map_or(0, |point| mantissa.len() - point - 1);
    let zeros = |byte: &u8| *byte == b'0';
    let digits: Vec<u8> = mantissa
        .iter()
        .copied()
        .filter(|byte| *byte != b'.')
        .collect();
    let leading = digits.iter().take_while(|byte| zeros(byte)).count();
    let power = i64::from(exponent) - i64::try_from(decimals).ok()? + DECIMALS;
    let units = scale(&digits[leading..], power)?;
    Some(if negative { -units } else { units })
}

/// The digits times 10^`power`, rounded; `None` from [`EXACT_MAX`] on, or for other than digits.
fn scale(digits: &[u8], power: i64) -> Option<i128> {
    let dropped = usize::try_from(-power).unwrap_or(0).min(digits.len());
    let zeros = u32::try_from(power.max(0)).ok()?;
    let (kept, rest) = digits.split_at(digits.len() - dropped);
    if kept.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = kept
        .iter()
        .fold(0_i128, |number, byte| number * 10 + i128::from(byte - b'0'));
    let rounds_up = power >= -i64::try_from(digits.len()).ok()? && rest.first() >= Some(&b'5');
    let number = number + i128::from(rounds_up);
    let scaled = if number == 0 {
        0
    } else {
        number.checked_mul(10_i128.checked_pow(zeros)?)?
    };
    (scaled < EXACT_MAX).then_some(scaled)
}

#[cfg(test)]
mod tests {
    use super::{Decimal, parse_float, parse_integer, write_float};

    #[test]
    fn integers_are_read_strictly() {
        for number in [0, 1, -1, 10, 42, i64::MAX, i64::MIN, i64::MAX - 9] {
            assert_eq!(parse_integer(number.to_string().as_bytes()), Some(number));
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "-01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x1",
            "a",
            "1\0",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "123456789012345678901234567890",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn hexadecimal_floats_are_those_of_c() {
        for (text, number) in [
            ("0x1A", 26.0),
            ("-0X10", -16.0),
            ("0x1.8p3", 12.0),
            ("0x.8", 0.5),
            ("0x1p-3", 0.125),
            ("0xffffffffffffffff", 18_446_744_073_709_551_615.0),
        ] {
            assert_eq!(parse_float(text.as_bytes()), Some(number), "{text}");
            let mut written = Vec::new();
            let decimal = Decimal::parse(text.as_bytes()).unwrap();
            decimal.write(&mut written);
            assert!(!written.is_empty() && decimal.float() == number, "{text}");
        }
        let mut exact = Vec::new();
        let one = Decimal::parse(b"0xffffffffffffffff").unwrap();
        one.plus(Decimal::parse(b"0x.8").unwrap())
            .unwrap()
            .write(&mut exact);
        assert_eq!(exact, b"18446744073709551615.5");
        for text in [
            "0x1p99999",
            "0x1p-9999",
            "0x1p",
            "0x1.2.3",
            "0x11112222333344445",
        ] {
            assert_eq!(parse_float(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn floats_may_be_infinite_but_not_out_of_range() {
        for (text, number) in [
            ("3", 3.0),
            ("-3.5", -3.5),
            ("+1", 1.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("3.0e3", 3_000.0),
            ("inf", f64::INFINITY),
            ("+inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0e5", 0.0),
            ("1.7976931348623157e308", f64::MAX),
        ] {
            assert_eq!(parse_float(text.as_bytes()), Some(number), "{text}");
        }
        for text in [
            "", " 1", "1 ", "nan", "-NaN", "0x", "0x.", "0xg", "x10", "1e", "e1", ".", "--1",
            "1e400", "-1e400", "1e-400", "1\0", "1,5", "1_0", "infi", "\u{661}",
        ] {
            assert_eq!(parse_float(text.as_bytes()), None, "{text}");
        }
    }

    fn float(number: f64) -> String {
        let mut out = Vec::new();
        write_float(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_written_short() {
        for (number, text) in [
            (3.0, "3"),
            (3.5, "3.5"),
            (-0.1, "-0.1"),
            (0.0, "0"),
            (-0.0, "-0"),
            (1e22, "1e+22"),
            (1e18, "1000000000000000000"),
            (-17_179_869_185.5, "-17179869185.5"),
            (1.234_567_890_123e-7, "1.234567890123e-7"),
            (0.001, "0.001"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e300, "1.5e+300"),
            (1.234_567_890_123_456_7e20, "123456789012345670000"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn a_written_float_is_read_back_exactly() {
        for number in [
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            1.0 / 3.0,
            2f64.sqrt() * 1e17,
        ] {
            assert_eq!(float(number).parse(), Ok(number));
            assert!(float(-number).len() <= super::FLOAT_BYTES_MAX);
        }
    }

    fn sum(one: &str, other: &str) -> Option<String> {
        let parse = |text: &str| Decimal::parse(text.as_bytes()).unwrap();
        let mut out = b"=".to_vec();
        parse(one).plus(parse(other))?.write(&mut out);
        Some(String::from_utf8(out).unwrap()[1..].to_owned())
    }

    #[test]
    fn sums_of_ordinary_decimals_are_ordinary_decimals() {
        for (one, other, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.5", "0.1", "10.6"),
            ("3.0e3", "200", "3200"),
            ("5.0e3", "2.0e2", "5200"),
            ("10.50", "-5", "5.5"),
            ("1", "-1.1", "-0.1"),
            ("1.23", "-1.23", "0"),
            ("-0", "-0.0", "0"),
            ("1000.1", "0.2", "1000.3"),
            ("17179869184", "1.5", "17179869185.5"),
            ("0.00000000000000001", "0", "0.00000000000000001"),
            ("0.000000000000000005", "0", "0.00000000000000001"),
            ("0.000000000000000004", "0", "0"),
            ("1e-30", "0", "0"),
            ("99999999999999999999", "0.5", "99999999999999999999.5"),
            (".5", "5.", "5.5"),
            ("+2", "2E1", "22"),
        ] {
            assert_eq!(sum(one, other).as_deref(), Some(expected), "{one} {other}");
        }
    }

    #[test]
    fn large_sums_are_whole_and_infinite_ones_are_none() {
        assert_eq!(sum("1e22", "1").as_deref(), Some("10000000000000000000000"));
        let largest = sum("1e308", "0").unwrap();
        assert_eq!((largest.len(), &largest[..2]), (309, "10"));
        assert_eq!(
            sum("99999999999999999999", "1").as_deref(),
            Some("100000000000000000000")
        );
        assert_eq!(sum("1.7e308", "1.7e308"), None);
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("inf", "-inf"), None);
    }
}
