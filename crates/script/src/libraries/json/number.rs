//! Number: the number at the beginning of a text, as C's `strtod` reads it.
//!
//! Source: ISO C99, 7.20.1.3.

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
