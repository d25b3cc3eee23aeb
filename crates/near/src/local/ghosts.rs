//! Ghosts: which keys were evicted from the small queue recently.
//!
//! A key that comes back soon was evicted too early and goes straight to the main queue. Only
//! 16-bit fingerprints are kept, 31 in a cache line that works as a small ring. A false match, one
//! in 2,000, only misplaces a new entry.

const LINE: usize = 32;
const RING: usize = LINE - 1;
/// Ghosts for each two entries.
const SHARE: usize = 3;

/// A bounded memory of keys that left.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// Lines of 31 fingerprints and the place of the oldest.
    lines: Vec<[u16; LINE]>,
    /// For how many entries it is large enough.
    entries: usize,
}

impl Ghosts {
    /// Remembers that a key left a store of `entries` entries; a store that has grown since the
    /// memory was made gets a larger, empty one.
    pub(super) fn insert(&mut self, hash: u64, entries: usize) {
        if entries > self.entries {
            // A little more, so that a store that grows slowly does not start again each time.
            self.entries = entries + entries / 8;
            self.lines = vec![[0; LINE]; (entries * SHARE).div_ceil(2 * RING)];
        }
        let (line, fingerprint) = place(hash, self.lines.len());
        let line = &mut self.lines[line];
        let oldest = usize::from(line[RING]);
        line[oldest] = fingerprint;
        line[RING] = ((oldest + 1) % RING) as u16;
    }

    /// Whether the key left not long ago; forgets it.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        if self.lines.is_empty() {
            return false;
        }
        let (line, fingerprint) = place(hash, self.lines.len());
        let ring = &mut self.lines[line][..RING];
        match ring.iter().position(|&one| one == fingerprint) {
            Some(place) => {
                ring[place] = 0;
                true
            }
            None => false,
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Ghosts::default();
    }
}

/// The line of a hash and its fingerprint there, which is never zero.
fn place(hash: u64, lines: usize) -> (usize, u16) {
    let upper = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let line = (u128::from(upper) * lines as u128) >> 64;
    (line as usize, (hash >> 24) as u16 | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        rapidhash::v3::rapidhash_v3(&number.to_le_bytes())
    }

    #[test]
    fn recent_keys_are_remembered_and_old_ones_forgotten() {
        let mut ghosts = Ghosts::default();
        (0..10_000).for_each(|n| ghosts.insert(hash(n), 700));
        let known =
            |ghosts: &mut Ghosts, from, to| (from..to).filter(|&n| ghosts.take(hash(n))).count();
        assert!(known(&mut ghosts, 9_700, 10_000) > 280);
        assert!(known(&mut ghosts, 0, 5_000) < 50);
    }

    #[test]
    fn a_key_comes_back_once() {
        let mut ghosts = Ghosts::default();
        assert!(!ghosts.take(hash(1)));
        ghosts.insert(hash(1), 1);
        assert!(ghosts.take(hash(1)));
        assert!(!ghosts.take(hash(1)));
    }
}
