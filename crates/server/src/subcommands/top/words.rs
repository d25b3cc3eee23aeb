//! Words: numbers as people read them.

/// A number with three digits that count: `12.3 k`.
#[must_use]
pub fn count(value: f64) -> String {
    scaled(value, 1_000.0, &["", " k", " M", " G", " T"])
}

/// Bytes in binary units: `12.3 MiB`.
#[must_use]
pub fn bytes(value: u64) -> String {
    scaled(
        value as f64,
        1_024.0,
        &[" B", " KiB", " MiB", " GiB", " TiB"],
    )
}

/// Microseconds as a time: `12.3 ms`.
#[must_use]
pub fn time_us(us: f64) -> String {
    scaled(us, 1_000.0, &[" us", " ms", " s"])
}

/// A share as percent: `12.3 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Milliseconds as days, hours, minutes and seconds, the two largest.
#[must_use]
pub fn span(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut place = 0;
    while value >= step * 0.9995 && place + 1 < units.len() {
        value /= step;
        place += 1;
    }
    let decimals = match value {
        _ if place == 0 => usize::from(value < 9.95 && value.fract() > 0.05),
        99.95.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{}", units[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_count() {
        for (shown, expected) in [
            (count(0.0), "0"),
            (count(0.5), "0.5"),
            (count(7.0), "7"),
            (count(999.4), "999"),
            (count(999.6), "1.00 k"),
            (count(12_345.0), "12.3 k"),
            (count(123_456_789.0), "123 M"),
            (bytes(1_000), "1000 B"),
            (bytes(64 << 20), "64.0 MiB"),
            (time_us(20.0), "20 us"),
            (time_us(1_500.0), "1.50 ms"),
            (percent(0.1234), "12.3 %"),
            (span(59_999), "59 s"),
            (span(3_725_000), "1 h 2 min"),
            (span(180_000_000), "2 d 2 h"),
        ] {
            assert_eq!(shown, expected);
        }
    }
}
