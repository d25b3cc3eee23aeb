//! Quantities on the command line: sizes, counts, times, ranges and mixes of times to live.

use std::str::FromStr;

use crate::random::Random;

const BYTE_UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
    ("", 1),
];
const COUNT_UNITS: [(&str, u64); 5] = [
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("", 1),
];
const TIME_UNITS: [(&str, u64); 5] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("", 1)];

/// Reads a size: `100`, `64KiB`, `1GiB`, `500MB`; without a unit it is bytes.
///
/// # Errors
/// A sentence that names the text, as of all these.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_scaled(text, &BYTE_UNITS, "size; try 100, 64KiB or 1GiB")
}

/// Reads a count: `1000`, `250k`, `4M`, `1G`.
///
/// # Errors
/// As [`parse_bytes`].
pub fn parse_count(text: &str) -> Result<u64, String> {
    parse_scaled(text, &COUNT_UNITS, "count; try 1000, 250k or 4M")
}

/// Reads a time in whole seconds: `60`, `90s`, `15m`, `2h`, `7d`.
///
/// # Errors
/// As [`parse_bytes`].
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    parse_scaled(text, &TIME_UNITS, "time; try 60, 15m or 2h")
}

/// Bytes with the largest unit of which there is at least one.
pub fn binary(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes} B"),
        Some((unit, name)) if bytes.is_multiple_of(*unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.2} {name}", bytes as f64 / *unit as f64),
    }
}

/// A quotient; zero if there is nothing to divide by.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// A whole number with one of `units` behind it; the empty unit comes last.
fn parse_scaled(text: &str, units: &[(&str, u64)], what: &str) -> Result<u64, String> {
    let mut units = units.iter();
    let found = units.find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let number = found.filter(|(digits, _)| digits.bytes().all(|it| it.is_ascii_digit()));
    let number = number.and_then(|(digits, unit)| digits.parse::<u64>().ok()?.checked_mul(unit));
    number.ok_or_else(|| format!("{text:?} is no {what}"))
}

/// Both ends of `LOW..HIGH`, or one number for both.
fn parse_range(
    text: &str,
    parse: impl Fn(&str) -> Result<u64, String>,
) -> Result<(u64, u64), String> {
    let (low, high) = match text.split_once("..") {
        Some((low, high)) => (parse(low)?, parse(high.trim_start_matches('='))?),
        None => (parse(text)?, parse(text)?),
    };
    if low > high {
        return Err(format!("in {text:?} the lower end is the larger one"));
    }
    Ok((low, high))
}

/// Lengths from `low` to `high`, both included; written `100` or `50..200`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Shortest length.
    pub low: usize,
    /// Longest length.
    pub high: usize,
}

/// Always the same length.
impl From<usize> for ByteRange {
    fn from(bytes: usize) -> ByteRange {
        ByteRange {
            low: bytes,
            high: bytes,
        }
    }
}

impl FromStr for ByteRange {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteRange, String> {
        let (low, high) = parse_range(text, parse_bytes)?;
        let as_length =
            |bytes| usize::try_from(bytes).map_err(|_| format!("{text:?} is too large"));
        Ok(ByteRange {
            low: as_length(low)?,
            high: as_length(high)?,
        })
    }
}

/// Times to live of the stored items: a weighted mix of ranges.
///
/// Written `3600`, `30m..2h` (uniform), or `60@3,1h..2h@1` (three of four items live a minute).
/// Zero is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlMix {
    parts: Vec<TtlPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TtlPart {
    low_s: u32,
    high_s: u32,
    /// Sum of the weights up to and including this part.
    weight_sum: u64,
}

impl TtlMix {
    /// Longest time to live in seconds: above it memcached reads a moment instead of a duration.
    pub const TTL_S_MAX: u64 = 30 * 86_400;

    /// All items live until they are evicted.
    pub fn unlimited() -> TtlMix {
        TtlMix::between(0, 0)
    }

    /// Evenly from `low_s` to `high_s`, both included. Above [`TtlMix::TTL_S_MAX`] the numbers are
    /// moments, in seconds since 1970.
    pub fn between(low_s: u32, high_s: u32) -> TtlMix {
        TtlMix {
            parts: vec![TtlPart {
                low_s,
                high_s: high_s.max(low_s),
                weight_sum: 1,
            }],
        }
    }

    /// How many seconds' worth of items is alive when they have been stored evenly for so long.
    pub fn alive_s(&self, stored_s: f64) -> f64 {
        let mut weight_before = 0;
        let parts = self.parts.iter().map(|part| {
            let weight = part.weight_sum - weight_before;
            weight_before = part.weight_sum;
            let alive_s = |ttl_s: u32| match ttl_s {
                0 => stored_s,
                ttl_s => stored_s.min(f64::from(ttl_s)),
            };
            let ttls = f64::from(part.high_s - part.low_s) + 1.0;
            weight as f64 * (part.low_s..=part.high_s).map(alive_s).sum::<f64>() / ttls
        });
        let alive_s = parts.sum::<f64>();
        alive_s / weight_before.max(1) as f64
    }

    /// Draws one time to live in seconds.
    #[inline]
    pub fn draw_s(&self, random: &mut Random) -> u32 {
        let part = match self.parts.as_slice() {
            [] => return 0,
            [part] => part,
            [parts @ .., last] => {
                let at = random.below(last.weight_sum);
                parts
                    .iter()
                    .find(|part| at < part.weight_sum)
                    .unwrap_or(last)
            }
        };
        if part.low_s == part.high_s {
            return part.low_s;
        }
        let spread = u64::from(part.high_s - part.low_s) + 1;
        part.low_s + u32::try_from(random.below(spread)).unwrap_or(0)
    }
}

impl FromStr for TtlMix {
    type Err = String;

    fn from_str(text: &str) -> Result<TtlMix, String> {
        let mut parts = Vec::new();
        let mut weight_sum = 0u64;
        for part in text.split(',') {
            let (range, weight) = match part.split_once('@') {
                Some((range, weight)) => (range, parse_count(weight)?),
                None => (part, 1),
            };
            let (low, high) = parse_range(range, parse_seconds)?;
            if high > TtlMix::TTL_S_MAX {
                return Err(format!("{range:?} is longer than memcached's 30 days"));
            }
            weight_sum = weight_sum.saturating_add(weight);
            let as_s =
                |seconds| u32::try_from(seconds).map_err(|_| format!("{range:?} is too long"));
            parts.push(TtlPart {
                low_s: as_s(low)?,
                high_s: as_s(high)?,
                weight_sum,
            });
        }
        if weight_sum == 0 {
            return Err(format!("all weights in {text:?} are zero"));
        }
        Ok(TtlMix { parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alive_is_what_was_stored_less_what_has_ended() {
        let mix: TtlMix = "10..50@4,1d".parse().unwrap();
        assert!((mix.alive_s(8.0) - 8.0).abs() < 1e-9);
        assert!((mix.alive_s(100.0) - (0.8 * 30.0 + 0.2 * 100.0)).abs() < 1e-9);
        assert!((TtlMix::unlimited().alive_s(5.0) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_counts_and_times_have_units() {
        assert_eq!(parse_bytes("100"), Ok(100));
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("500MB"), Ok(500_000_000));
        assert_eq!(parse_count("4M"), Ok(4_000_000));
        assert_eq!(parse_count("250k"), Ok(250_000));
        assert_eq!(parse_seconds("2h"), Ok(7200));
        assert_eq!(parse_seconds("90"), Ok(90));
        for bad in [
            "",
            "x",
            "-1",
            "+1",
            "1.5MiB",
            "1TiB",
            "1 MiB",
            "99999999999GiB",
        ] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
        assert!(parse_count("1MiB").is_err());
    }

    #[test]
    fn a_range_has_one_or_two_ends() {
        assert_eq!("100".parse(), Ok(100));
        assert_eq!(
            "50..2KiB".parse(),
            Ok(ByteRange {
                low: 50,
                high: 2048
            })
        );
        assert_eq!("50..=60".parse(), Ok(ByteRange { low: 50, high: 60 }));
        assert!("60..50".parse::<ByteRange>().is_err());
        assert!("..50".parse::<ByteRange>().is_err());
    }

    #[test]
    fn a_ttl_mix_draws_by_weight_and_within_its_ranges() {
        let mix: TtlMix = "60@3,1h..2h@1".parse().unwrap();
        let mut random = Random::seeded(7);
        let draws: Vec<u32> = (0..40_000).map(|_| mix.draw_s(&mut random)).collect();
        let short = draws.iter().filter(|&&ttl| ttl == 60).count();
        assert!(
            (29_400..30_600).contains(&short),
            "{short} of 40000 instead of 30000"
        );
        assert!(
            draws
                .iter()
                .all(|&ttl| ttl == 60 || (3600..=7200).contains(&ttl))
        );
        assert_eq!(TtlMix::unlimited().draw_s(&mut random), 0);
        let moments = TtlMix::between(2_000_000_000, 2_000_000_059);
        assert!((2_000_000_000..2_000_000_060).contains(&moments.draw_s(&mut random)));
        for bad in ["", "60@0", "31d", "2h..1h", "60@", "a"] {
            assert!(bad.parse::<TtlMix>().is_err(), "{bad:?}");
        }
    }
}
