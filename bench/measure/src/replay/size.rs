//! Sizes of a cache: in bytes, or in percent of what a trace needs to be held whole.

use std::fmt;
use std::str::FromStr;

use cellar_load::{binary, parse_bytes};

/// How much memory a cache gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    /// Bytes.
    Bytes(u64),
    /// Percent of the trace's footprint.
    Percent(f64),
}

impl Size {
    /// The bytes for a trace of this footprint.
    pub(crate) fn bytes(self, footprint_bytes: u64) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => (footprint_bytes as f64 * percent / 100.0) as u64,
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let Some(number) = text.strip_suffix('%') else {
            return parse_bytes(text).map(Size::Bytes);
        };
        match number.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 1e6 => Ok(Size::Percent(percent)),
            _ => Err(format!("{text:?} is no share of a footprint; try 5%")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(bytes) => f.write_str(&binary(*bytes)),
            Size::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_bytes_or_a_share() {
        assert_eq!("16MiB".parse(), Ok(Size::Bytes(16 << 20)));
        assert_eq!("5%".parse(), Ok(Size::Percent(5.0)));
        assert_eq!("2.5%".parse::<Size>().unwrap().bytes(1_000), 25);
        assert_eq!("64KiB".parse::<Size>().unwrap().bytes(1), 65_536);
        for bad in ["", "%", "-1%", "0%", "nan%", "5 %", "x"] {
            assert!(bad.parse::<Size>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_shown_with_their_unit() {
        for (bytes, text) in [
            (5, "5 B"),
            (2048, "2 KiB"),
            (3 << 20, "3 MiB"),
            ((3 << 20) + (1 << 19), "3.50 MiB"),
        ] {
            assert_eq!(Size::Bytes(bytes).to_string(), text);
        }
        assert_eq!(Size::Percent(2.5).to_string(), "2.5 %");
    }
}
