//! How a key is found: tables of entry numbers that readers search without a lock.
//!
//! A bucket is one cache line: twelve tags (8 bits of the hash), the numbers of the entries behind
//! them, and how many entries passed it by because it was full. Such an entry lies in the next
//! bucket that had room, so a search goes on only past buckets that were passed.
//!
//! One writer at a time, any number of readers. An entry never moves while it is in a table, and a
//! larger table is complete before it is published: so whoever searches meets every entry that is
//! there all the time. What is found is a candidate; the entry itself says whose it is.
//! Why: docs/decisions/0021-near-local-store.md.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Entries of a bucket: eight behind `low`, four behind `high`.
const WAYS: usize = 12;
const LOW_WAYS: usize = 8;
/// Of so many places at most ...
const LOAD_OF: usize = 20;
/// ... so many are taken.
const LOAD: usize = 17;
const BYTE_ONES: u64 = 0x0101_0101_0101_0101;
const BYTE_TOPS: u64 = 0x8080_8080_8080_8080;
const HIGH_TOPS: u64 = 0x8080_8080;
/// Buckets of the first table, unless all entries fit in fewer.
const BUCKETS_FIRST: usize = 16;

/// Twelve places for entries.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Bucket {
    /// Tags of the first eight places; zero is free.
    low: AtomicU64,
    /// Tags of the other four.
    high: AtomicU32,
    /// Entries that would be here if there had been room.
    passed: AtomicU32,
    numbers: [AtomicU32; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64, "a bucket is one cache line");

/// Tables, each larger than the one before it; the last one that exists is searched.
#[derive(Debug)]
pub(super) struct Index {
    tables: Box<[Table]>,
    current: AtomicUsize,
}

#[derive(Debug)]
struct Table {
    buckets: usize,
    lines: OnceLock<Box<[Bucket]>>,
}

impl Index {
    /// An index for at most `entries` entries, each table `growth` times as large as the one before.
    pub(super) fn new(entries: usize, growth: usize) -> Index {
        let mut sizes = vec![(entries * LOAD_OF).div_ceil(LOAD * WAYS).max(1)];
        while let Some(&last) = sizes.last().filter(|&&last| last > BUCKETS_FIRST) {
            sizes.push(last.div_ceil(growth).max(BUCKETS_FIRST));
        }
        let tables = sizes.into_iter().rev().map(|buckets| Table {
            buckets,
            lines: OnceLock::new(),
        });
        Index {
            tables: tables.collect(),
            current: AtomicUsize::new(0),
        }
    }

    /// The first answer that `accept` gives to the numbers that may belong to `hash`.
    #[inline]
    pub(super) fn find<R>(&self, hash: u64, mut accept: impl FnMut(u32) -> Option<R>) -> Option<R> {
        // Acquire: sees the table that was filled before it was published.
        let lines = self.tables[self.current.load(Ordering::Acquire)]
            .lines
            .get()?;
        let tag = tag(hash);
        let mut at = home(hash, lines.len());
        for _ in 0..lines.len() {
            let bucket = &lines[at];
            if let Some(answer) = bucket.candidates(tag, &mut accept) {
                return Some(answer);
            }
            // Relaxed: an entry that is there all the time was counted before the search began.
            if bucket.passed.load(Ordering::Relaxed) == 0 {
                return None;
            }
            at = after(at, lines.len());
        }
        None
    }

    /// Entries that fit in the table in use; zero before there is one.
    pub(super) fn capacity(&self) -> usize {
        let table = &self.tables[self.current.load(Ordering::Relaxed)];
        match table.lines.get() {
            Some(lines) => lines.len() * WAYS * LOAD / LOAD_OF,
            None => 0,
        }
    }

    /// Goes over to the next table, into which it enters all of `entries`: hash and number.
    ///
    /// For the writer alone.
    pub(super) fn grow(&self, entries: impl Iterator<Item = (u64, u32)>) {
        let current = self.current.load(Ordering::Relaxed);
        let next = match self.tables[current].lines.get() {
            Some(_) => current + 1,
            None => current,
        };
        let table = &self.tables[next];
        let lines = table
            .lines
            .get_or_init(|| (0..table.buckets).map(|_| Bucket::default()).collect());
        for (hash, number) in entries {
            enter(lines, hash, number);
        }
        // Release: publishes the table as it is filled.
        self.current.store(next, Ordering::Release);
    }

    /// Enters a number, for which there must be room. For the writer alone.
    pub(super) fn insert(&self, hash: u64, number: u32) {
        enter(self.lines(), hash, number);
    }

    /// Takes a number out that was entered with this hash. For the writer alone.
    pub(super) fn remove(&self, hash: u64, number: u32) {
        let lines = self.lines();
        let (tag, mut at) = (tag(hash), home(hash, lines.len()));
        for _ in 0..lines.len() {
            if lines[at].clear(tag, number) {
                return;
            }
            let passed = &lines[at].passed;
            passed.store(passed.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            at = after(at, lines.len());
        }
    }

    fn lines(&self) -> &[Bucket] {
        let table = &self.tables[self.current.load(Ordering::Relaxed)];
        table.lines.get().expect("grown before the first insert")
    }
}

fn enter(lines: &[Bucket], hash: u64, number: u32) {
    let (tag, mut at) = (tag(hash), home(hash, lines.len()));
    while !lines[at].set(tag, number) {
        let passed = &lines[at].passed;
        // Relaxed: published with the tag that follows.
        passed.store(passed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        at = after(at, lines.len());
    }
}

/// Never zero.
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

/// The top bit of each byte of `word` that equals `tag`, and perhaps of the byte above one.
#[inline]
fn equal_bytes(word: u64, tag: u8) -> u64 {
    let other = word ^ (BYTE_ONES * u64::from(tag));
    other.wrapping_sub(BYTE_ONES) & !other & BYTE_TOPS
}

impl Bucket {
    #[inline]
    fn candidates<R>(&self, tag: u8, accept: &mut impl FnMut(u32) -> Option<R>) -> Option<R> {
        // Acquire: sees the number that was written before the tag.
        let low = equal_bytes(self.low.load(Ordering::Acquire), tag);
        let high = equal_bytes(u64::from(self.high.load(Ordering::Acquire)), tag) & HIGH_TOPS;
        let mut tops = u128::from(low) | u128::from(high) << 64;
        while tops != 0 {
            let way = tops.trailing_zeros() as usize / 8;
            let answer = accept(self.numbers[way].load(Ordering::Relaxed));
            if answer.is_some() {
                return answer;
            }
            tops &= tops - 1;
        }
        None
    }

    /// Takes a free place, if there is one.
    fn set(&self, tag: u8, number: u32) -> bool {
        let Some(way) = (0..WAYS).find(|&way| self.tag(way) == 0) else {
            return false;
        };
        self.numbers[way].store(number, Ordering::Relaxed);
        self.set_tag(way, tag);
        true
    }

    /// Frees the place of `number`, if it is here.
    fn clear(&self, tag: u8, number: u32) -> bool {
        let is_it = |&way: &usize| {
            self.tag(way) == tag && self.numbers[way].load(Ordering::Relaxed) == number
        };
        let Some(way) = (0..WAYS).find(is_it) else {
            return false;
        };
        self.set_tag(way, 0);
        true
    }

    fn tag(&self, way: usize) -> u8 {
        if way < LOW_WAYS {
            (self.low.load(Ordering::Relaxed) >> (8 * way)) as u8
        } else {
            (self.high.load(Ordering::Relaxed) >> (8 * (way - LOW_WAYS))) as u8
        }
    }

    /// Release: publishes the number of the place.
    fn set_tag(&self, way: usize, tag: u8) {
        if way < LOW_WAYS {
            let shift = 8 * way;
            let others = self.low.load(Ordering::Relaxed) & !(0xff << shift);
            self.low
                .store(others | u64::from(tag) << shift, Ordering::Release);
        } else {
            let shift = 8 * (way - LOW_WAYS);
            let others = self.high.load(Ordering::Relaxed) & !(0xff << shift);
            self.high
                .store(others | u32::from(tag) << shift, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u32) -> u64 {
        rapidhash::v3::rapidhash_v3(&number.to_le_bytes())
    }

    fn has(index: &Index, number: u32) -> bool {
        let found = index.find(hash(number), |one| (one == number).then_some(()));
        found.is_some()
    }

    #[test]
    fn what_is_entered_is_found_through_all_growth_until_it_is_removed() {
        let index = Index::new(10_000, 4);
        for number in 0..10_000 {
            if number as usize == index.capacity() {
                index.grow((0..number).map(|number| (hash(number), number)));
            }
            index.insert(hash(number), number);
            assert!(has(&index, number) && has(&index, number / 2));
        }
        for number in (0..10_000).step_by(2) {
            index.remove(hash(number), number);
        }
        assert!((0..10_000).all(|number| has(&index, number) == (number % 2 == 1)));
        for number in (1..10_000).step_by(2) {
            index.remove(hash(number), number);
        }
        let lines = index.lines();
        assert!(
            lines
                .iter()
                .all(|bucket| bucket.passed.load(Ordering::Relaxed) == 0)
        );
    }

    #[test]
    fn entries_with_the_same_hash_fill_one_bucket_after_the_other() {
        let index = Index::new(100, 4);
        index.grow(std::iter::empty());
        (0..100).for_each(|number| index.insert(7, number));
        let found = |number| index.find(7, |one| (one == number).then_some(one));
        assert!((0..100).all(|number| found(number) == Some(number)));
        assert_eq!(found(100), None);
        (0..100).for_each(|number| index.remove(7, number));
        assert_eq!(index.find(7, Some), None);
    }

    #[test]
    fn an_empty_index_finds_nothing_and_takes_no_table() {
        let index = Index::new(1 << 24, 2);
        assert_eq!((index.find(1, Some), index.capacity()), (None, 0));
    }
}
