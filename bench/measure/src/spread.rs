//! The spread of a figure over rounds: median, smallest, largest, and all of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A figure that was measured several times.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// All, in the order of the rounds.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// The spread of `rounds`; all zero if there are none.
    pub fn of(rounds: Vec<f64>) -> Spread {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Spread::default();
        };
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Spread {
            median,
            min,
            max,
            rounds,
        }
    }

    /// The spread of a figure of each of `rounds`.
    pub(crate) fn over<R>(rounds: &[R], figure: impl Fn(&R) -> f64) -> Spread {
        Spread::of(rounds.iter().map(figure).collect())
    }
}

/// `median [min..max]` with the digits asked for; the median alone if all are the same.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$}", self.median)?;
        if self.min < self.max {
            write!(f, " [{:.digits$}..{:.digits$}]", self.min, self.max)?;
        }
        Ok(())
    }
}

/// A number of things per second, readable at a glance: `118 k`, `1.13 M`.
pub fn short(number: f64) -> String {
    match number {
        n if n >= 9.995e6 => format!("{:.1} M", n / 1e6),
        n if n >= 999_500.0 => format!("{:.2} M", n / 1e6).replace(".00", ""),
        n if n >= 1_000.0 => format!("{:.0} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle() {
        assert!((Spread::of(vec![3.0, 1.0, 2.0]).median - 2.0).abs() < 1e-12);
        assert!((Spread::of(vec![4.0, 1.0, 2.0, 3.0]).median - 2.5).abs() < 1e-12);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
        assert_eq!(
            format!("{:.1}", Spread::of(vec![3.0, 1.0, 2.0])),
            "2.0 [1.0..3.0]"
        );
        assert_eq!(format!("{:.2}", Spread::of(vec![3.0])), "3.00");
    }

    #[test]
    fn large_numbers_are_short() {
        for (number, expected) in [
            (5.4, "5"),
            (118_473.0, "118 k"),
            (1_129_948.0, "1.13 M"),
            (23.4e6, "23.4 M"),
        ] {
            assert_eq!(short(number), expected);
        }
    }
}
