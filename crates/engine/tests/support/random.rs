//! Random numbers from a seed that tells the whole run.

/// A small generator (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn from_seed(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number of the standard normal distribution, about: the sum of twelve uniform ones.
    pub(crate) fn normal(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.below(1 << 20) as f64).sum();
        sum / f64::from(1 << 20) - 6.0
    }
}
