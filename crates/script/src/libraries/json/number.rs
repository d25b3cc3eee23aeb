//! Number: the number at the beginning of a text, as C's `strtod` reads it, and the text of a
//! number, as `printf` writes it.
//!
//! Sources: ISO C99, 7.20.1.3 and 7.19.6.1.

use std::io::Write;

/// Most significant digits that are written: no float has more that count.
const DIGITS_MAX: usize = 17;

/// Appends a finite number as `%g` does with this many significant digits, from 1 to
/// [`DIGITS_MAX`].
pub(super) fn write(number: f64, digits: usize, out: &mut Vec<u8>) {
    let digits = digits.clamp(1, DIGITS_MAX);
    // A sign, a point, and an exponent of five characters at most.
    let mut text = [0; DIGITS_MAX + 8];
    let mut rest = &mut text[..];
    let _ = write!(rest, "{:.*e}", digits - 1, number);
    let unused = rest.len();
    let text = &text[..text.len() - unused];
    let mark = text.iter().position(|&byte| byte == b'e');
    let (mantissa, exponent) = text.split_at(mark.unwrap_or(text.len()));
    let exponent = std::str::from_utf8(exponent.get(1..).unwrap_or_default());
    let exponent: i32 = exponent
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let (mut shown, mut count) = ([0; DIGITS_MAX], 0);
    for &byte in mantissa {
        match byte {
            b'-' => out.push(byte),
            b'.' => {}
            digit => {
                shown[count] = digit;
                count += 1;
            }
        }
    }
    // Zeros behind the point are not shown.
    let zeros = shown[..count]
        .iter()
        .rev()
        .take_while(|byte| **byte == b'0')
        .count();
    let shown = &shown[..count.saturating_sub(zeros).max(1)];
    if exponent < -4 || exponent >= digits as i32 {
        append_parts(out, &shown[..1], &shown[1..]);
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
        return;
    }
    let whole = usize::try_from(exponent + 1).unwrap_or(0);
    if whole == 0 {
        return append_below_one(out, exponent, shown);
    }
    let given = whole.min(shown.len());
    out.extend_from_slice(&shown[..given]);
    out.resize(out.len() + whole - given, b'0');
    append_parts(out, &[], &shown[given..]);
}

/// Appends a number below one: zeros behind the point, and its digits.
fn append_below_one(out: &mut Vec<u8>, exponent: i32, shown: &[u8]) {
    out.extend_from_slice(b"0.");
    let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
    out.resize(out.len() + zeros, b'0');
    out.extend_from_slice(shown);
}

/// Appends digits, and those behind the point if there are some.
fn append_parts(out: &mut Vec<u8>, whole: &[u8], behind: &[u8]) {
    out.extend_from_slice(whole);
    if !behind.is_empty() {
        out.push(b'.');
        out.extend_from_slice(behind);
    }
}

/// The number that the text begins with, and its bytes.
pub(super) fn read(text: &[u8]) -> Option<(f64, usize)> {
    let is_negative = text.first() == Some(&b'-');
    let signs = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let rest = &text[signs..];
    let (number, used) = match rest {
        [b'0', b'x' | b'X', digits @ ..] => match hexadecimal(digits) {
            Some((number, used)) => (number, used + 2),
            None => (0.0, 1),
        },
        _ => word(rest).or_else(|| decimal(rest))?,
    };
    let number = if is_negative { -number } else { number };
    Some((number, signs + used))
}

fn word(text: &[u8]) -> Option<(f64, usize)> {
    let begins = |word: &[u8]| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if begins(b"infinity") {
        Some((f64::INFINITY, 8))
    } else if begins(b"inf") {
        Some((f64::INFINITY, 3))
    } else if begins(b"nan") {
        let inside = text[3..].strip_prefix(b"(").unwrap_or_default();
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let part = inside.iter().take_while(is_part).count();
        let is_closed = inside.get(part) == Some(&b')');
        Some((f64::NAN, if is_closed { 3 + part + 2 } else { 3 }))
    } else {
        None
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The length of an exponent behind its letter; zero if there is none.
fn exponent(text: &[u8], letter: u8) -> usize {
    if !text
        .first()
        .is_some_and(|byte| byte.eq_ignore_ascii_case(&letter))
    {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'-' | b'+')));
    match digits(&text[1 + sign..]) {
        0 => 0,
        count => 1 + sign + count,
    }
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let whole = digits(text);
    let mut used = whole;
    if text.get(used) == Some(&b'.') {
        let part = digits(&text[used + 1..]);
        if whole + part == 0 {
            return None;
        }
        used += 1 + part;
    }
    if used == 0 {
        return None;
    }
    used += exponent(&text[used..], b'e');
    let number = std::str::from_utf8(&text[..used]).ok()?;
    Some((number.parse().ok()?, used))
}

/// Hexadecimal digits behind `0x`, with a point and an exponent to the base 2.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let (mut number, mut scale, mut used, mut count) = (0.0_f64, 0_i32, 0, 0);
    let mut is_behind = false;
    loop {
        let byte = text.get(used).copied().unwrap_or(0);
        if let Some(digit) = char::from(byte).to_digit(16) {
            number = number * 16.0 + f64::from(digit);
            scale -= if is_behind { 4 } else { 0 };
            count += 1;
        } else if byte == b'.' && !is_behind {
            is_behind = true;
        } else {
            break;
        }
        used += 1;
    }
    if count == 0 {
        return None;
    }
    let length = exponent(&text[used..], b'p');
    if length > 0 {
        let power = std::str::from_utf8(&text[used + 1..used + length]).ok()?;
        let power = power.parse::<i32>();
        scale = scale.saturating_add(power.unwrap_or(i32::MAX / 2));
        used += length;
    }
    Some((number * f64::from(scale).exp2(), used))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn the_longest_number_is_read() {
        for (text, expected) in [
            ("1", Some((1.0, 1))),
            ("-0.5e1x", Some((-5.0, 6))),
            ("1e", Some((1.0, 1))),
            ("1e+", Some((1.0, 1))),
            ("1.", Some((1.0, 2))),
            (".5", Some((0.5, 2))),
            (".", None),
            ("-", None),
            ("0x", Some((0.0, 1))),
            ("0x10", Some((16.0, 4))),
            ("0x.8p1,", Some((1.0, 6))),
            ("-Infinityx", Some((f64::NEG_INFINITY, 9))),
            ("infi", Some((f64::INFINITY, 3))),
            ("1e999", Some((f64::INFINITY, 5))),
        ] {
            assert_eq!(read(text.as_bytes()), expected, "{text}");
        }
        assert!(read(b"nan(1)").is_some_and(|(number, used)| number.is_nan() && used == 6));
    }
}
