//! Moved: where entries stand when dead ones between them were dropped.

use super::offset;
use crate::collection::bytes::{set_u32, u32_at};

/// Old and new offsets of the entries of one collection.
///
/// A bit for each old offset tells where an entry began; the bits before it count to the entry's
/// number, and that is its place in the list of new offsets.
#[derive(Debug)]
pub struct Moved {
    began: Vec<u64>,
    /// Entries that began before each word of bits.
    before: Vec<u32>,
    now: Vec<u32>,
}

impl Moved {
    /// Nothing yet, for so many entries that took so many bytes.
    pub(super) fn within(bytes: usize, entries: usize) -> Moved {
        Moved {
            began: vec![0; bytes.div_ceil(64)],
            before: Vec::new(),
            now: Vec::with_capacity(entries),
        }
    }

    /// Notes an entry, in the order of their offsets.
    #[inline]
    pub(super) fn note(&mut self, from: usize, to: usize) {
        self.began[from / 64] |= 1 << (from % 64);
        self.now.push(offset(to));
    }

    /// Counts, when all entries are noted.
    pub(super) fn finish(&mut self) {
        let mut count = 0;
        self.before = Vec::with_capacity(self.began.len());
        for word in &self.began {
            self.before.push(count);
            count += word.count_ones();
        }
    }

    /// Where an entry is that was at this offset.
    ///
    /// # Panics
    /// If none was, or it was dead.
    #[inline]
    pub fn of(&self, at: u32) -> u32 {
        let (word, bit) = (at as usize / 64, at % 64);
        let bits = self.began[word];
        assert!(bits >> bit & 1 == 1, "an entry that lives began here");
        let earlier = (bits & ((1 << bit) - 1)).count_ones();
        self.now[(self.before[word] + earlier) as usize]
    }

    /// Tells a list of offsets, 4 bytes each, where their entries are.
    ///
    /// # Panics
    /// As [`Moved::of`].
    pub fn adjust(&self, offsets: &mut [u8]) {
        for number in 0..offsets.len() / 4 {
            let at = self.of(u32_at(offsets, number));
            set_u32(offsets, number, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Moved;

    #[test]
    fn each_entry_is_found_where_it_went() {
        let entries = [(0, 0), (1, 1), (63, 9), (64, 10), (200, 40)];
        let mut moved = Moved::within(201, 5);
        entries.iter().for_each(|&(from, to)| moved.note(from, to));
        moved.finish();
        for (from, to) in entries {
            assert_eq!(moved.of(from as u32), to as u32);
        }
    }
}
