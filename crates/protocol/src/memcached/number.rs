//! Numbers in command lines, with exactly the leniency of memcached 1.6.45.
//!
//! Most numbers are strict: digits only and a bound on the token's length. Two fields of classic
//! storage commands, flags and exptime, go through C's `strtoul` and `strtol` there, which skip
//! white space, take a sign, wrap at 64 bits and keep the low 32: [`lenient_u32`], [`lenient_i32`].

/// Longest token that a 32-bit number may have.
const TOKEN_32_BYTES_MAX: usize = 11;
/// Longest token that a 64-bit number may have.
const TOKEN_64_BYTES_MAX: usize = 22;

/// A decimal number of 64 bits without sign.
#[inline]
#[must_use]
pub fn strict_u64(token: &[u8]) -> Option<u64> {
    if token.len() > TOKEN_64_BYTES_MAX {
        return None;
    }
    token.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A decimal number of 32 bits without sign.
#[inline]
#[must_use]
pub fn strict_u32(token: &[u8]) -> Option<u32> {
    if token.len() > TOKEN_32_BYTES_MAX {
        return None;
    }
    u32::try_from(strict_u64(token)?).ok()
}

/// A decimal number of 32 bits, with or without a minus; a lone minus is zero.
#[inline]
#[must_use]
pub fn strict_i32(token: &[u8]) -> Option<i32> {
    if token.len() > TOKEN_32_BYTES_MAX {
        return None;
    }
    // At most 11 digits: far inside 64 bits.
    let (digits, sign) = match token {
        [b'-', digits @ ..] => (digits, -1),
        digits => (digits, 1),
    };
    let magnitude = i64::try_from(strict_u64(digits)?).ok()?;
    i32::try_from(sign * magnitude).ok()
}

/// The low 32 bits of the result of `strtoul`; `None` if it reads nothing, or a negative number.
#[inline]
#[must_use]
pub fn lenient_u32(token: &[u8]) -> Option<u32> {
    if let Some(number) = few_digits(token) {
        return Some(number);
    }
    let (negative, magnitude) = sign_and_magnitude(token)?;
    let number = if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    };
    if negative && number.cast_signed() < 0 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "memcached keeps the low half"
    )]
    Some(number as u32)
}

/// The low 32 bits of the result of `strtol`; `None` if it reads nothing, or more than 64 bits.
#[inline]
#[must_use]
pub fn lenient_i32(token: &[u8]) -> Option<i32> {
    if let Some(number) = few_digits(token) {
        return Some(number.cast_signed());
    }
    let (negative, magnitude) = sign_and_magnitude(token)?;
    let limit = i64::MAX.cast_unsigned() + u64::from(negative);
    if magnitude > limit {
        return None;
    }
    let number = if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "memcached keeps the low half"
    )]
    Some(number as i32)
}

/// The common case: one to nine digits and nothing else.
#[inline]
fn few_digits(token: &[u8]) -> Option<u32> {
    if token.is_empty() || token.len() > 9 {
        return None;
    }
    token.iter().try_fold(0u32, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| sum * 10 + u32::from(digit))
    })
}

/// White space, a sign, at least one digit, and then the token's end, white space or a zero byte.
fn sign_and_magnitude(token: &[u8]) -> Option<(bool, u64)> {
    let start = token.iter().position(|&byte| !is_space(byte))?;
    let (negative, digits) = match &token[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let count = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if count == 0
        || digits
            .get(count)
            .is_some_and(|&byte| !is_space(byte) && byte != 0)
    {
        return None;
    }
    let magnitude = digits[..count].iter().try_fold(0u64, |sum, &byte| {
        sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })?;
    Some((negative, magnitude))
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_numbers_are_digits_within_their_width() {
        assert_eq!(strict_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(strict_u64(b"18446744073709551616"), None);
        assert_eq!(strict_u64(b"0000000000000000000001"), Some(1));
        assert_eq!(strict_u64(b"00000000000000000000001"), None);
        assert_eq!(strict_u64(b"1a"), None);
        assert_eq!(strict_u64(b"\xb1"), None);
        assert_eq!(strict_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(strict_u32(b"4294967296"), None);
        assert_eq!(strict_u32(b"-1"), None);
        assert_eq!(strict_u32(b"000000000001"), None);
    }

    #[test]
    fn strict_signed_numbers_reach_both_ends() {
        assert_eq!(strict_i32(b"2147483647"), Some(i32::MAX));
        assert_eq!(strict_i32(b"2147483648"), None);
        assert_eq!(strict_i32(b"-2147483648"), Some(i32::MIN));
        assert_eq!(strict_i32(b"-2147483649"), None);
        assert_eq!(strict_i32(b"-"), Some(0));
        assert_eq!(strict_i32(b"+1"), None);
        assert_eq!(strict_i32(b"--1"), None);
    }

    #[test]
    fn lenient_numbers_wrap_as_c_does() {
        assert_eq!(lenient_u32(b"4294967296"), Some(0));
        assert_eq!(lenient_u32(b"-1"), None);
        assert_eq!(lenient_u32(b"-18446744073709551615"), Some(1));
        assert_eq!(lenient_u32(b"18446744073709551616"), None);
        assert_eq!(lenient_u32(b"\t+7\tx"), Some(7));
        assert_eq!(lenient_u32(b"7x"), None);
        assert_eq!(lenient_u32(b"7\0x"), Some(7));
        assert_eq!(lenient_u32(b"+"), None);
        assert_eq!(lenient_i32(b"-5"), Some(-5));
        assert_eq!(lenient_i32(b"4294967295"), Some(-1));
        assert_eq!(lenient_i32(b"9223372036854775808"), None);
        assert_eq!(lenient_i32(b"-9223372036854775808"), Some(0));
        assert_eq!(lenient_i32(b""), None);
    }
}
