//! Random numbers: seeded, reproducible, a few instructions each (the `SplitMix64` sequence).

use std::convert::Infallible;

use rand_core::TryRng;

/// A sequence of random numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    /// The sequence of `seed`; near seeds give unrelated sequences.
    pub fn seeded(seed: u64) -> Random {
        Random {
            state: mix(seed ^ Random::STEP),
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(Random::STEP);
        mix(self.state)
    }

    /// A number below `end`, which must not be zero; off from uniform by less than `end` in 2^64.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(end);
        // The high half of a product of two 64-bit numbers fits in 64 bits.
        (wide >> 64) as u64
    }

    /// A number from 0 (included) to 1 (excluded), with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.bits() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.bits())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill_with(|| self.bits() as u8);
        Ok(())
    }
}

/// Spreads the bits of `n` over all 64; a bijection.
#[inline]
pub fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence_and_another_seed_does_not() {
        let draw = |seed| {
            let mut random = Random::seeded(seed);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_stay_below_their_end_and_reach_every_value() {
        let mut random = Random::seeded(3);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(random.below(10)).unwrap()] += 1;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
    }
}
