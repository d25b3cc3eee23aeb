//! How a key is found: a table from hashes to slots.
//!
//! A bucket is one cache line: twelve tags (8 bits of the hash), how many entries passed it by
//! because it was full, and the slots of its own entries. An entry that passed lies in the next
//! bucket with a free slot, so a search continues only past buckets that were passed. A free slot
//! has tag zero; a removal leaves nothing else behind. Why not a table from a library:
//! docs/decisions/0021-near-local-store.md.

/// Entries of a bucket.
const WAYS: usize = 12;
const LOW_WAYS: usize = 8;
const BYTE_ONES: u64 = 0x0101_0101_0101_0101;
const BYTE_TOPS: u64 = 0x8080_8080_8080_8080;
const HIGH_TOPS: u64 = 0x8080_8080;
/// Shift that moves the tops of the high tags between those of the low ones.
const BETWEEN: u32 = 4;
/// The maximum load, as a fraction: the denominator ...
const LOAD_OF: usize = 20;
/// ... and the numerator.
const LOAD: usize = 17;

/// Twelve slots for entries.
#[repr(align(64))]
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Tags of the first eight slots; zero is free.
    low: u64,
    /// Tags of the other four.
    high: u32,
    /// Entries that would be here if there had been room.
    passed: u32,
    slots: [u32; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64, "a bucket is one cache line");

const EMPTY: Bucket = Bucket {
    low: 0,
    high: 0,
    passed: 0,
    slots: [0; WAYS],
};

/// A table of slots by hash.
#[derive(Debug, Default)]
pub(super) struct Index {
    buckets: Box<[Bucket]>,
    entries: usize,
}

/// Slots that may belong to a hash.
#[derive(Debug)]
pub(super) struct Slots<'i> {
    buckets: &'i [Bucket],
    tag: u8,
    /// The bucket that is looked at, and how many are left with it.
    at: usize,
    left: usize,
    /// Its slots that fit and were not seen yet.
    tops: u64,
}

impl Iterator for Slots<'_> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        loop {
            let bucket = self.buckets.get(self.at)?;
            if self.tops != 0 {
                let bit = self.tops.trailing_zeros();
                self.tops &= self.tops - 1;
                let way = bit / 8 + (!bit & BETWEEN) * (LOW_WAYS as u32 / BETWEEN);
                return bucket.slots.get(way as usize).copied();
            }
            self.left -= 1;
            if bucket.passed == 0 || self.left == 0 {
                return None;
            }
            self.at = after(self.at, self.buckets.len());
            self.tops = self.buckets[self.at].tops(self.tag);
        }
    }
}

impl Index {
    /// An empty table with room for a third more than `entries`, and for some more.
    pub(super) fn larger_than(entries: usize) -> Index {
        let room = entries + entries / 3 + WAYS / 2;
        let buckets = (room * LOAD_OF).div_ceil(LOAD * WAYS);
        Index {
            buckets: vec![EMPTY; buckets].into_boxed_slice(),
            entries: 0,
        }
    }

    /// Whether another entry wants a larger table first.
    pub(super) fn is_full(&self) -> bool {
        self.entries >= self.buckets.len() * WAYS * LOAD / LOAD_OF
    }

    /// The slots that may belong to `hash`.
    // Always, as `Local::get`: otherwise values that do not fit into registers go through memory.
    #[inline(always)]
    pub(super) fn slots(&self, hash: u64) -> Slots<'_> {
        let (tag, at) = (tag(hash), home(hash, self.buckets.len()));
        Slots {
            buckets: &self.buckets,
            tag,
            at,
            left: self.buckets.len(),
            tops: self.buckets.get(at).map_or(0, |bucket| bucket.tops(tag)),
        }
    }

    /// Enters a slot. The table must not be full.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) {
        self.entries += 1;
        let (tag, mut at) = (tag(hash), home(hash, self.buckets.len()));
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(free) = (0..WAYS).find(|&way| bucket.tag(way) == 0) {
                bucket.set_tag(free, tag);
                bucket.slots[free] = slot;
                return;
            }
            bucket.passed += 1;
            at = after(at, self.buckets.len());
        }
    }

    /// Takes out a slot that was entered with this hash.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let (tag, mut at) = (tag(hash), home(hash, self.buckets.len()));
        for _ in 0..self.buckets.len() {
            let bucket = &mut self.buckets[at];
            let is_it = |&way: &usize| bucket.tag(way) == tag && bucket.slots[way] == slot;
            if let Some(way) = (0..WAYS).find(is_it) {
                bucket.set_tag(way, 0);
                self.entries -= 1;
                return;
            }
            bucket.passed = bucket.passed.saturating_sub(1);
            at = after(at, self.buckets.len());
        }
    }
}

impl Bucket {
    /// A bit for each slot with this tag: the top of the byte for the low ones, [`BETWEEN`] below
    /// it for the high ones. Above a slot that has it, one that has not may be among them.
    #[inline]
    fn tops(&self, tag: u8) -> u64 {
        let high = equal_bytes(u64::from(self.high), tag) & HIGH_TOPS;
        equal_bytes(self.low, tag) | high >> BETWEEN
    }

    fn tag(&self, way: usize) -> u8 {
        if way < LOW_WAYS {
            (self.low >> (8 * way)) as u8
        } else {
            (self.high >> (8 * (way - LOW_WAYS))) as u8
        }
    }

    fn set_tag(&mut self, way: usize, tag: u8) {
        if way < LOW_WAYS {
            let shift = 8 * way;
            self.low = self.low & !(0xff << shift) | u64::from(tag) << shift;
        } else {
            let shift = 8 * (way - LOW_WAYS);
            self.high = self.high & !(0xff << shift) | u32::from(tag) << shift;
        }
    }
}

/// The top bit of each byte that equals `tag`, and perhaps of bytes above one that does.
#[inline]
fn equal_bytes(word: u64, tag: u8) -> u64 {
    let other = word ^ (BYTE_ONES * u64::from(tag));
    other.wrapping_sub(BYTE_ONES) & !other & BYTE_TOPS
}

/// Never zero; of bits that choose neither shard nor stripe.
#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> 32) as u8).max(1)
}

/// The bucket where an entry lies if there is room: by the lower half of the hash.
#[inline]
fn home(hash: u64, buckets: usize) -> usize {
    (((hash & u64::from(u32::MAX)) * buckets as u64) >> 32) as usize
}

#[inline]
fn after(at: usize, buckets: usize) -> usize {
    if at + 1 == buckets { 0 } else { at + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u32) -> u64 {
        rapidhash::v3::rapidhash_v3(&number.to_le_bytes())
    }

    fn has(index: &Index, number: u32) -> bool {
        index.slots(hash(number)).any(|one| one == number)
    }

    #[test]
    fn what_is_entered_is_found_until_it_is_removed() {
        let mut index = Index::larger_than(7_500);
        let room = (0..).take_while(|&number| {
            let is_full = index.is_full();
            if !is_full {
                index.insert(hash(number), number);
                assert!(has(&index, number) && has(&index, number / 2));
            }
            !is_full
        });
        let room = room.count() as u32;
        assert!(room >= 10_000);
        for number in (0..room).step_by(2) {
            index.remove(hash(number), number);
        }
        assert!((0..room).all(|number| has(&index, number) == (number % 2 == 1)));
        for number in (1..room).step_by(2) {
            index.remove(hash(number), number);
        }
        assert!(
            index
                .buckets
                .iter()
                .all(|one| (one.low, one.high, one.passed) == (0, 0, 0))
        );
    }

    #[test]
    fn entries_with_the_same_hash_fill_one_bucket_after_the_other() {
        let mut index = Index::larger_than(1_000);
        (0..1_000).for_each(|number| index.insert(7, number));
        let found = |index: &Index, number| index.slots(7).find(|&one| one == number);
        assert!((0..1_000).all(|number| found(&index, number) == Some(number)));
        assert_eq!(found(&index, 1_000), None);
        (0..1_000).for_each(|number| index.remove(7, number));
        assert_eq!(index.slots(7).next(), None);
        index.insert(7, 3);
        assert_eq!(found(&index, 3), Some(3));
    }

    #[test]
    fn an_empty_index_finds_nothing_and_is_full() {
        let index = Index::default();
        assert!(index.slots(1).next().is_none() && index.is_full());
    }
}
