//! Units: sizes and durations as people write them.

/// Size units, largest first; binary ones before decimal ones so that a shown size is exact.
const SIZE_UNITS: [(&str, usize); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Duration units in milliseconds, largest first.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Short size units, as memcached's `-I 1m` has them: powers of two.
const SHORT_UNITS: [(&str, usize); 4] = [
    ("t", 1 << 40),
    ("g", 1 << 30),
    ("m", 1 << 20),
    ("k", 1 << 10),
];

/// Bytes of `64MiB`, `64m`, `1GiB`, `500MB` or a plain number; letters in either case.
///
/// # Errors
/// One line with the format of a size.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, unit) = split_number(text);
    let factor = if unit.is_empty() {
        Some(1)
    } else {
        let mut units = SIZE_UNITS.iter().chain(&SHORT_UNITS);
        units
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|row| row.1)
    };
    let bytes = digits
        .parse::<usize>()
        .ok()
        .zip(factor)
        .and_then(|(n, f)| n.checked_mul(f));
    bytes.ok_or_else(|| {
        format!("{text:?} is not a size; write 64MiB, 1GiB, 500MB or a number of bytes")
    })
}

/// Milliseconds of `500ms`, `30s`, `10m`, `2h`, `1d` or `0`.
///
/// # Errors
/// One line that says what a duration looks like.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let (digits, unit) = split_number(text);
    let factor = DURATION_UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|row| row.1);
    let ms = digits
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(n, f)| n.checked_mul(f));
    ms.ok_or_else(|| format!("{text:?} is not a duration; write 500ms, 30s, 10m, 2h or 0"))
}

/// The shortest exact way to write a size.
#[must_use]
pub fn show_size(bytes: usize) -> String {
    match SIZE_UNITS
        .iter()
        .find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor))
    {
        Some((_, 1)) | None => bytes.to_string(),
        Some((name, factor)) => format!("{}{name}", bytes / factor),
    }
}

/// The shortest exact way to write a duration.
#[must_use]
pub fn show_duration_ms(ms: u64) -> String {
    match DURATION_UNITS
        .iter()
        .find(|(_, factor)| ms > 0 && ms.is_multiple_of(*factor))
    {
        Some((name, factor)) => format!("{}{name}", ms / factor),
        None => "0".to_owned(),
    }
}

/// A size for messages: rounded down to a tenth of the largest fitting binary unit.
#[must_use]
pub fn round_size(bytes: usize) -> String {
    match SIZE_UNITS[..4].iter().find(|(_, factor)| bytes >= *factor) {
        Some((name, factor)) => {
            format!("{}.{}{name}", bytes / factor, bytes % factor * 10 / factor)
        }
        None => format!("{bytes}B"),
    }
}

fn split_number(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_in_binary_decimal_and_plain_bytes() {
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1gib"), Ok(1 << 30));
        assert_eq!(parse_size("500MB"), Ok(500_000_000));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("7b"), Ok(7));
        for (text, bytes) in [("1k", 1 << 10), ("64m", 64 << 20), ("64M", 64 << 20)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_size("1g"), Ok(1 << 30));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "MiB",
            "-1",
            "1.5GiB",
            "1 GiB",
            "12QB",
            "99999999999TiB",
            "1mi",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit_unless_zero() {
        assert_eq!(parse_duration_ms("500ms"), Ok(500));
        assert_eq!(parse_duration_ms("30s"), Ok(30_000));
        assert_eq!(parse_duration_ms("10m"), Ok(600_000));
        assert_eq!(parse_duration_ms("0"), Ok(0));
        for text in ["", "30", "s", "-1s", "1w", "99999999999999999d"] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_units_are_exact_and_short() {
        assert_eq!(show_size(256 << 20), "256MiB");
        assert_eq!(show_size(500_000_000), "500MB");
        assert_eq!(show_size(12_345), "12345");
        assert_eq!(show_size(0), "0");
        assert_eq!(show_duration_ms(90_000), "90s");
        assert_eq!(show_duration_ms(0), "0");
        assert_eq!(round_size((23 << 30) + (600 << 20)), "23.5GiB");
    }
}
