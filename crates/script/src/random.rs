//! Random: the numbers of `math.random`, the same after each start, as Redis's are.
//!
//! Source: POSIX lrand48; redis-server 7 starts with the same sequence.

/// One more than the largest number that is used.
const RANGE: u32 = i32::MAX as u32;

/// A sequence of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence that an interpreter begins with.
    pub(super) fn first() -> Random {
        Random(0x1234_abcd_330e)
    }

    /// The sequence of this seed.
    pub(super) fn seeded(seed: i64) -> Random {
        let low = u64::from(seed.cast_unsigned() as u32);
        Random(low << 16 | 0x330e)
    }

    /// The next number, from 0 up to but not 1.
    pub(super) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(11) & ((1 << 48) - 1);
        let number = (self.0 >> 17) as u32;
        f64::from(number % RANGE) / f64::from(RANGE)
    }
}
