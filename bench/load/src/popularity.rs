//! Popularity: which key a request is for.
//!
//! Uniform, or exactly Zipf: rank r is drawn with probability proportional to r^-s, without a
//! table. Ranks are scattered over the key numbers by a bijection, so that popular keys are not
//! neighbours.

use std::str::FromStr;

use rand_distr::{Distribution, Zipf};

use crate::random::Random;

/// How requests are spread over the keys; written `uniform` or `zipf:0.99`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// Every key alike.
    Uniform,
    /// Zipf's law with this exponent, above zero.
    Zipf(f64),
}

impl Popularity {
    /// Largest exponent; beyond it nearly all requests are for one key.
    pub const EXPONENT_MAX: f64 = 10.0;
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Popularity, String> {
        let bad = || {
            format!("{text:?} is no distribution; try uniform or zipf:0.99 (above 0, at most 10)")
        };
        if text == "uniform" {
            return Ok(Popularity::Uniform);
        }
        let exponent = text.strip_prefix("zipf:").ok_or_else(bad)?;
        let exponent: f64 = exponent.parse().map_err(|_| bad())?;
        if exponent > 0.0 && exponent <= Popularity::EXPONENT_MAX {
            Ok(Popularity::Zipf(exponent))
        } else {
            Err(bad())
        }
    }
}

impl std::fmt::Display for Popularity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Popularity::Uniform => write!(f, "uniform"),
            Popularity::Zipf(exponent) => write!(f, "zipf:{exponent}"),
        }
    }
}

/// Draws key numbers below a fixed count.
#[derive(Clone, Debug)]
pub struct Picker {
    keys: u64,
    zipf: Option<Zipf<f64>>,
    scatter: Scatter,
}

impl Picker {
    /// A picker over `keys` keys.
    ///
    /// # Panics
    /// If `keys` is zero or above 2^32.
    pub fn new(popularity: Popularity, keys: u64) -> Picker {
        let zipf = match popularity {
            Popularity::Uniform => None,
            Popularity::Zipf(exponent) => Some(zipf(exponent, keys)),
        };
        Picker {
            keys,
            zipf,
            scatter: Scatter::new(keys),
        }
    }

    /// Draws the number of a key.
    #[inline]
    pub fn pick(&self, random: &mut Random) -> u64 {
        match &self.zipf {
            None => random.below(self.keys),
            Some(zipf) => self.scatter.place(zipf.sample(random) as u64 - 1),
        }
    }
}

fn zipf(exponent: f64, ranks: u64) -> Zipf<f64> {
    Zipf::new(ranks as f64, exponent).expect("there is a rank, and exponents are positive")
}

/// A bijection of the numbers below `count` that tears neighbours apart.
#[derive(Clone, Debug)]
pub struct Scatter {
    count: u64,
    stride: u64,
}

impl Scatter {
    /// Largest count: products of two numbers below it fit in 64 bits.
    pub const COUNT_MAX: u64 = 1 << 32;

    /// The bijection for `count` numbers.
    ///
    /// # Panics
    /// If `count` is zero or above [`Scatter::COUNT_MAX`].
    pub fn new(count: u64) -> Scatter {
        assert!(
            (1..=Scatter::COUNT_MAX).contains(&count),
            "{count} keys cannot be scattered"
        );
        // The golden section keeps multiples of the stride far apart; a stride that shares no
        // factor with the count meets every number once.
        let mut stride = (count / 1000 * 618 + count % 1000 * 618 / 1000).max(1);
        while greatest_common_divisor(stride, count) != 1 {
            stride += 1;
        }
        Scatter { count, stride }
    }

    /// Where `number`, which is below the count, goes.
    #[inline]
    pub fn place(&self, number: u64) -> u64 {
        number * self.stride % self.count
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws from a fixed seed and compares with the exact probabilities by Pearson's test.
    fn check_zipf(exponent: f64, ranks: u64) {
        const DRAWS: u32 = 400_000;
        let zipf = zipf(exponent, ranks);
        let mut random = Random::seeded(42);
        let mut counts = vec![0u32; usize::try_from(ranks).unwrap()];
        for _ in 0..DRAWS {
            counts[zipf.sample(&mut random) as usize - 1] += 1;
        }
        let weights: Vec<f64> = (1..=ranks)
            .map(|rank| (rank as f64).powf(-exponent))
            .collect();
        let total: f64 = weights.iter().sum();
        let (mut chi_square, mut cells) = (0.0, 0.0);
        // Ranks too rare for a cell of their own share one.
        let (mut expected, mut drawn) = (0.0, 0.0);
        for (weight, count) in weights.iter().zip(&counts) {
            expected += weight / total * f64::from(DRAWS);
            drawn += f64::from(*count);
            if expected >= 20.0 {
                chi_square += (drawn - expected) * (drawn - expected) / expected;
                cells += 1.0;
                (expected, drawn) = (0.0, 0.0);
            }
        }
        // Mean = cells, standard deviation = sqrt(2 cells).
        let sigmas = (chi_square - cells) / f64::sqrt(2.0 * cells);
        assert!(
            sigmas.abs() < 4.0,
            "zipf:{exponent} over {ranks}: off by {sigmas:.1} sigma"
        );
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        for exponent in [0.3, 0.99, 1.0, 1.3, 3.0] {
            for ranks in [2, 10, 1000, 50_000] {
                check_zipf(exponent, ranks);
            }
        }
    }

    #[test]
    fn one_key_is_always_that_key() {
        let mut random = Random::seeded(1);
        for popularity in [Popularity::Uniform, Popularity::Zipf(0.99)] {
            let picker = Picker::new(popularity, 1);
            assert!((0..1000).all(|_| picker.pick(&mut random) == 0));
        }
    }

    #[test]
    fn scattering_is_a_bijection_that_tears_neighbours_apart() {
        for count in [1, 2, 3, 10, 618, 1000, 4096, 99_991] {
            let scatter = Scatter::new(count);
            let mut seen = vec![false; usize::try_from(count).unwrap()];
            for number in 0..count {
                let place = usize::try_from(scatter.place(number)).unwrap();
                assert!(!std::mem::replace(&mut seen[place], true), "{place} twice");
            }
        }
        let scatter = Scatter::new(1_000_000);
        assert!(scatter.place(1).abs_diff(scatter.place(0)) > 100_000);
        let largest = Scatter::new(Scatter::COUNT_MAX);
        assert!(largest.place(Scatter::COUNT_MAX - 1) < Scatter::COUNT_MAX);
    }

    #[test]
    fn a_fixed_seed_draws_the_same_keys() {
        let picker = Picker::new(Popularity::Zipf(0.99), 1_000_000);
        let draw = || {
            let mut random = Random::seeded(9);
            (0..100)
                .map(|_| picker.pick(&mut random))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
    }

    #[test]
    fn distributions_have_names() {
        assert_eq!("uniform".parse(), Ok(Popularity::Uniform));
        assert_eq!("zipf:0.99".parse(), Ok(Popularity::Zipf(0.99)));
        for bad in ["zipf", "zipf:0", "zipf:-1", "zipf:nan", "zipf:11", "gauss"] {
            assert!(bad.parse::<Popularity>().is_err(), "{bad:?}");
        }
    }
}
