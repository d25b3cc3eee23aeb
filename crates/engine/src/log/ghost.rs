//! Ghosts: which keys were evicted from the small queue recently.
//!
//! A key that comes back soon was evicted too early and goes straight to the main queue. Only
//! 16-bit fingerprints are kept, 31 in a cache line that works as a small ring, so a ghost costs
//! about two bytes and one memory access. A false match, 1 in 2,000, only misplaces a new item.

use crate::base::serialize::{Deserializer, Serialize, Serializer, serialize};
use crate::memory::prefetch;

const RING: usize = 31;

/// A cache line: fingerprints, of which zero is none, and behind them the position of the oldest.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u16; RING + 1]);

/// A bounded memory of keys that left.
#[derive(Debug)]
pub(crate) struct Ghosts {
    lines: Box<[Line]>,
}

impl Ghosts {
    /// Remembers nothing, costs nothing.
    pub(crate) fn none() -> Ghosts {
        Ghosts {
            lines: Box::default(),
        }
    }

    /// Bytes that a memory of `keys` keys takes.
    pub(crate) fn bytes_for(keys: usize) -> usize {
        keys.div_ceil(RING).max(1) * size_of::<Line>()
    }

    /// A memory of the last `keys` keys, about.
    pub(crate) fn of(keys: usize) -> Ghosts {
        let none = Line([0; RING + 1]);
        Ghosts {
            lines: vec![none; keys.div_ceil(RING).max(1)].into_boxed_slice(),
        }
    }

    /// Keys it can remember.
    pub(crate) fn capacity(&self) -> usize {
        self.lines.len() * RING
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// The line of a hash and its fingerprint there, which is never zero.
    fn line_of(&self, hash: u64) -> (usize, u16) {
        let upper = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = (u128::from(upper) * self.lines.len() as u128) >> 64;
        (line as usize, (hash >> 24) as u16 | 1)
    }

    /// Prefetches the memory that the other operations need for this key.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if !self.lines.is_empty() {
            let line: *const Line = &raw const self.lines[self.line_of(hash).0];
            prefetch::for_writing(line.cast());
        }
    }

    /// Remembers a key.
    pub(crate) fn insert(&mut self, hash: u64) {
        if self.lines.is_empty() {
            return;
        }
        let (line, fingerprint) = self.line_of(hash);
        let Line(words) = &mut self.lines[line];
        let oldest = usize::from(words[RING]);
        words[oldest] = fingerprint;
        words[RING] = ((oldest + 1) % RING) as u16;
    }

    /// Whether the key left not long ago; forgets it.
    pub(crate) fn take(&mut self, hash: u64) -> bool {
        if self.lines.is_empty() {
            return false;
        }
        let (line, fingerprint) = self.line_of(hash);
        let Line(words) = &mut self.lines[line];
        // The whole line, which the processor compares at once: most keys are in none.
        let is_there = words
            .iter()
            .fold(false, |found, &word| found | (word == fingerprint));
        let ring = &mut words[..RING];
        let ghost = is_there.then(|| ring.iter_mut().find(|ghost| **ghost == fingerprint));
        match ghost.flatten() {
            Some(ghost) => {
                *ghost = 0;
                true
            }
            None => false,
        }
    }
}

serialize!(Ghosts { lines });

impl Serialize for Line {
    fn serialize(&self, out: &mut Serializer) {
        self.0.serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Line> {
        let words = <[u16; RING + 1]>::deserialize(from)?;
        (usize::from(words[RING]) < RING).then_some(Line(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        (number + 1)
            .wrapping_mul(0xd129_0d3c_9f2b_5a4d)
            .rotate_left(31)
            .wrapping_mul(0x9e37_79b9)
    }

    #[test]
    fn recent_keys_are_remembered_and_old_ones_forgotten() {
        let mut ghosts = Ghosts::of(1_000);
        (0..10_000).for_each(|n| ghosts.insert(hash(n)));
        let known =
            |ghosts: &mut Ghosts, from, to| (from..to).filter(|&n| ghosts.take(hash(n))).count();
        assert!(known(&mut ghosts, 9_700, 10_000) > 280);
        assert!(known(&mut ghosts, 0, 5_000) < 50);
    }

    #[test]
    fn a_key_comes_back_once() {
        let mut ghosts = Ghosts::of(100);
        ghosts.insert(hash(1));
        assert!(ghosts.take(hash(1)));
        assert!(!ghosts.take(hash(1)));
        assert!(!Ghosts::none().take(hash(1)));
    }
}
