//! Hot: the keys that are read most.
//!
//! Space-Saving over a sample: one read in [`GAP_MEAN`] on average is counted, after a gap drawn at
//! random, so that no rhythm of the requests hides a key. A new key takes the place of the one with
//! the least count and inherits that count as its possible error. All counts are halved every
//! [`HALF_LIFE_MS`], so they speak of the last minute or so.
//!
//! Why: docs/decisions/0011, 0066. Tests: at the end of this file, and tests/insight.rs.

use std::sync::{Mutex, MutexGuard};

use crate::base::clock::Instant;
use crate::base::space::Space;
use crate::key::Key;

/// Reads between two that are counted, on average.
pub(crate) const GAP_MEAN: u32 = 128;
/// Longer keys are not listed.
const KEY_BYTES_MAX: usize = 250;
/// After this many milliseconds counts are worth half.
const HALF_LIFE_MS: u64 = 30_000;
/// Halvings after which any count is zero.
const HALVINGS_MAX: u64 = 32;

/// A key and how often it was counted.
#[derive(Clone, Debug)]
pub(crate) struct KeyCount {
    pub(crate) key: Box<[u8]>,
    pub(crate) space: Space,
    hash: u64,
    count: u32,
    /// How much of the count may belong to others.
    error: u32,
}

impl KeyCount {
    /// KeyCount reads that surely were this key's.
    pub(crate) fn sure(&self) -> u32 {
        self.count - self.error
    }
}

/// The most read keys of one shard.
#[derive(Debug)]
pub(crate) struct Hot {
    keys: Vec<KeyCount>,
    keys_max: usize,
    /// KeyCount reads of all keys, halved as the counts are.
    total: u64,
    /// Milliseconds the counts speak of, halved likewise, up to the last halving.
    window_ms: u64,
    halved: Instant,
    random: u64,
}

/// The most read keys of one shard behind a lock of their own, separate from the shard's: a
/// lock-free reader neither waits for a thread that counts nor touches the cache line of the lock.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct HotList(Mutex<Hot>);

impl HotList {
    pub(crate) fn new(hot: Hot) -> HotList {
        HotList(Mutex::new(hot))
    }

    /// Locks the list. A holder of a shard's lock may wait for it, but not the other way round.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Hot> {
        self.0.lock().expect("no thread panics under this lock")
    }
}

impl Hot {
    /// The most read `keys_max` keys.
    pub(crate) fn new(keys_max: usize, seed: u64, now: Instant) -> Hot {
        Hot {
            keys: Vec::with_capacity(keys_max),
            keys_max,
            total: 0,
            window_ms: 0,
            halved: now,
            random: seed | 1,
        }
    }

    /// Bytes that so many keys take at most.
    pub(crate) const fn bytes_for(keys_max: usize) -> usize {
        keys_max * (size_of::<KeyCount>() + KEY_BYTES_MAX)
    }

    /// Reads until the next that counts, that one included: 1 to twice the mean.
    pub(crate) fn gap(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (self.random >> 32) as u32 % (2 * GAP_MEAN - 1)
    }

    /// Counts a read.
    pub(crate) fn count(&mut self, key: Key<'_>, now: Instant) {
        self.age(now);
        self.total += 1;
        let (bytes, hash) = (key.bytes(), key.hash());
        if bytes.len() > KEY_BYTES_MAX {
            return;
        }
        let known = self.keys.iter_mut().find(|known| known.hash == hash);
        if let Some(known) = known {
            known.count += 1;
            return;
        }
        let new = |error: u32| KeyCount {
            key: bytes.into(),
            space: key.space(),
            hash,
            count: error + 1,
            error,
        };
        if self.keys.len() < self.keys_max {
            self.keys.push(new(0));
        } else if let Some(least) = self.keys.iter_mut().min_by_key(|known| known.count) {
            *least = new(least.count);
        }
    }

    /// Halves the counts as often as time says.
    fn age(&mut self, now: Instant) {
        let halvings = now.0.saturating_sub(self.halved.0) / HALF_LIFE_MS;
        if halvings == 0 {
            return;
        }
        let shift = halvings.min(HALVINGS_MAX) as u32;
        for known in &mut self.keys {
            known.count = known.count.checked_shr(shift).unwrap_or(0);
            known.error = known.error.checked_shr(shift).unwrap_or(0);
        }
        self.keys.retain(|known| known.count > 0);
        self.total >>= shift;
        for _ in 0..shift {
            self.window_ms = (self.window_ms + HALF_LIFE_MS) / 2;
        }
        self.halved.0 += halvings * HALF_LIFE_MS;
    }

    /// Counted reads that surely were this key's.
    pub(crate) fn sure_of(&mut self, key: Key<'_>, now: Instant) -> u32 {
        self.age(now);
        let hash = key.hash();
        let known = self.keys.iter().find(|known| known.hash == hash);
        known.map_or(0, KeyCount::sure)
    }

    /// The keys, in no order, with the counted reads of all keys and the milliseconds in which they
    /// came.
    pub(crate) fn list(&mut self, now: Instant) -> (&[KeyCount], u64, u64) {
        self.age(now);
        let window_ms = self.window_ms + now.0.saturating_sub(self.halved.0);
        (&self.keys, self.total, window_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Hasher;

    fn key(bytes: &[u8]) -> Key<'_> {
        Hasher::with_seed(1).known(Space::MAIN, bytes)
    }

    #[test]
    fn the_keys_read_most_stay_whatever_passes_by() {
        let mut hot = Hot::new(32, 1, Instant(0));
        for round in 0..10_000_u64 {
            for favourite in 0..4_u64 {
                if round % (favourite + 2) == 0 {
                    hot.count(key(&[favourite as u8]), Instant(0));
                }
            }
            hot.count(key(&round.to_le_bytes()), Instant(0));
        }
        let (keys, total, _) = hot.list(Instant(0));
        let mut keys: Vec<_> = keys
            .iter()
            .map(|known| (known.sure(), known.key.to_vec()))
            .collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        let order: Vec<_> = keys.into_iter().take(4).map(|known| known.1).collect();
        assert_eq!(order, [[0], [1], [2], [3]]);
        assert_eq!(total, 10_000 + 5_000 + 3_334 + 2_500 + 2_000);
    }

    #[test]
    fn counts_fade_with_time_and_the_window_with_them() {
        let mut hot = Hot::new(8, 1, Instant(0));
        (0..1_000).for_each(|_| hot.count(key(b"old"), Instant(10_000)));
        assert_eq!(hot.list(Instant(20_000)).2, 20_000);
        let (keys, total, window_ms) = hot.list(Instant(30_000));
        assert_eq!((keys[0].sure(), total, window_ms), (500, 500, 15_000));
        assert_eq!(hot.sure_of(key(b"old"), Instant(30_000)), 500);
        assert_eq!(hot.sure_of(key(b"other"), Instant(30_000)), 0);
        let (keys, total, window_ms) = hot.list(Instant(70_000));
        assert_eq!((keys[0].sure(), total, window_ms), (250, 250, 32_500));
        assert!(hot.list(Instant(10_000_000)).0.is_empty());
    }

    #[test]
    fn gaps_are_random_with_the_stated_mean() {
        let mut hot = Hot::new(8, 7, Instant(0));
        let gaps: Vec<u32> = (0..10_000).map(|_| hot.gap()).collect();
        let mean = gaps.iter().sum::<u32>() / 10_000;
        assert!(mean.abs_diff(GAP_MEAN) <= 2, "{mean}");
        assert!(gaps.iter().all(|&gap| (1..2 * GAP_MEAN).contains(&gap)));
    }
}
