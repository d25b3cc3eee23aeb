//! Table: the index's memory, which may be read without the shard's lock.
//!
//! ```text
//! slot, 64 bits   tag 24 | partner 1 | frequency 2 | fetched 1 | offset 36       zero = empty
//! tag, 24 bits    upper 13: choice | lower 11: address bits of levels to come
//! ```
//!
//! Eight slots make a bucket, one cache line. Addresses are the low bits of the hash; the tag is
//! the window of the hash just above those of the smallest table. This code needs no lock, because
//! it only computes, or reads slots whose contents are only hints.
//!
//! Why: docs/decisions/0003. Tests: index.rs.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::error::Error;
use crate::memory::{FileRange, Region, prefetch};

pub(crate) const BUCKET_BYTES: usize = 64;
pub(crate) const BUCKET_SLOTS: usize = 8;
const TAG_BITS: u32 = 24;
/// Tag bits that become address bits as the table grows.
pub(crate) const GROWTH_BITS: u32 = 11;
pub(crate) const OFFSET_BITS: u32 = 36;
/// The bits of a slot that hold the offset: one more than the largest it can hold.
pub(crate) const OFFSETS: u64 = (1 << OFFSET_BITS) - 1;

pub(crate) const FETCHED: u64 = 1 << OFFSET_BITS;
pub(crate) const FREQUENCY_SHIFT: u32 = OFFSET_BITS + 1;
pub(crate) const FREQUENCY_MAX: u64 = 3;
pub(crate) const PARTNER: u64 = 1 << (FREQUENCY_SHIFT + 2);
pub(crate) const TAG_SHIFT: u32 = 64 - TAG_BITS;
/// The part of a slot that a lookup compares: tag and partner bit.
const MATCH_SHIFT: u32 = TAG_SHIFT - 1;

const _: () = assert!(
    BUCKET_SLOTS * size_of::<AtomicU64>() == BUCKET_BYTES,
    "one cache line"
);

/// The memory of the table, readable without the shard's lock for prefetching.
///
/// Slots are atomics only for that: under the lock they are plain words.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Table {
    /// Level in the upper 8 bits, split pointer below.
    // Relaxed: under the lock it is stable; without it a stale shape costs a useless prefetch.
    shape: AtomicU64,
    /// The address bits of the largest table.
    address_mask: u64,
    /// Address bits of the smallest table.
    pub(crate) level_min: u32,
    region: Region,
}

/// How many buckets there are: `2^level + split`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) level: u32,
    pub(crate) split: usize,
}

impl Shape {
    /// The bucket that an address falls into.
    #[inline]
    pub(crate) fn bucket(self, address: u64) -> usize {
        let low = address as usize & ((1 << self.level) - 1);
        if low < self.split {
            address as usize & ((2 << self.level) - 1)
        } else {
            low
        }
    }

    pub(crate) fn buckets(self) -> usize {
        (1 << self.level) + self.split
    }

    /// The shape with one bucket less.
    pub(crate) fn shrunk(self) -> Shape {
        match self.split.checked_sub(1) {
            Some(split) => Shape { split, ..self },
            None => Shape {
                level: self.level - 1,
                split: (1 << (self.level - 1)) - 1,
            },
        }
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.level) << 56 | self.split as u64
    }

    pub(crate) fn unpack(word: u64) -> Shape {
        Shape {
            level: (word >> 56) as u32,
            split: (word & ((1 << 56) - 1)) as usize,
        }
    }
}

impl Table {
    /// Reserves addresses for up to `2^level_max` buckets and begins with the smallest table.
    ///
    /// # Errors
    /// [`Error::Reserve`].
    pub(crate) fn reserve(level_max: u32, file_range: Option<FileRange>) -> Result<Table, Error> {
        assert!(level_max < u32::BITS, "a probe has 32 bits for a bucket");
        let level_min = level_max.saturating_sub(GROWTH_BITS).max(4);
        let address_mask = (1 << (level_min + GROWTH_BITS)) - 1;
        let region = Region::reserve_at(file_range, BUCKET_BYTES << level_max)?;
        let shape = AtomicU64::new(
            Shape {
                level: level_min,
                split: 0,
            }
            .pack(),
        );
        Ok(Table {
            region,
            shape,
            level_min,
            address_mask,
        })
    }

    /// How many buckets there are.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        Shape::unpack(self.shape.load(Ordering::Relaxed))
    }

    /// Changes how many buckets there are; only under the shard's lock.
    pub(crate) fn set_shape(&self, shape: Shape) {
        self.shape.store(shape.pack(), Ordering::Relaxed);
    }

    /// The memory behind the table.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// All slots of the reserved range.
    #[inline]
    pub(crate) fn slots(&self) -> &[AtomicU64] {
        // SAFETY: the region is page-aligned, zeroed, lives as long as `self`, and is only ever
        // used through this view of atomics.
        unsafe {
            let slots = self.region.bytes() / size_of::<AtomicU64>();
            std::slice::from_raw_parts(self.region.base().cast_const().cast::<AtomicU64>(), slots)
        }
    }

    /// The slots of a bucket.
    #[inline]
    pub(crate) fn bucket(&self, bucket: usize) -> &[AtomicU64; BUCKET_SLOTS] {
        let start = bucket * BUCKET_SLOTS;
        self.slots()[start..start + BUCKET_SLOTS]
            .try_into()
            .expect("a bucket has eight slots")
    }

    /// The low bits of both addresses of a hash.
    #[inline]
    pub(crate) fn addresses(&self, hash: u64) -> (u64, u64) {
        (hash, hash ^ self.pattern(self.tag(hash)))
    }

    /// The part of a hash that its slot keeps.
    #[inline]
    pub(crate) fn tag(&self, hash: u64) -> u64 {
        (hash >> self.level_min) & ((1 << TAG_BITS) - 1)
    }

    /// The XOR of home and partner address; odd, so the two buckets always differ.
    #[inline]
    pub(crate) fn pattern(&self, tag: u64) -> u64 {
        let choice = (tag >> GROWTH_BITS) + 1;
        ((choice.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) & self.address_mask) | 1
    }

    /// Prefetches a bucket.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, bucket: usize) {
        let line = self.region.base().wrapping_add(bucket * BUCKET_BYTES);
        prefetch::for_reading(line.cast_const().cast());
    }
}

/// A slot of the index that was found without the shard's lock, and its contents: where a key's
/// item probably lies.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    number: usize,
    word: NonZeroU64,
}

impl Candidate {
    /// The slot's number.
    #[inline]
    pub(crate) fn number(self) -> usize {
        self.number
    }

    /// The arena offset at which the item probably lies.
    #[inline]
    pub(crate) fn offset(self) -> usize {
        (self.word.get() & OFFSETS).wrapping_sub(1) as usize
    }
}

/// The result of a lookup without the lock, for the lookup under the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hint {
    /// Its item is probably this one.
    At(Candidate),
    /// It has no item, if the shard is unchanged since.
    Absent,
    /// It may have an item.
    Unknown,
}

/// The buckets of a hash, and what its slot has in the first of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probe {
    home: u32,
    partner: u32,
    wanted: u32,
}

impl Probe {
    /// A probe of no hash.
    pub(crate) const NONE: Probe = Probe {
        home: 0,
        partner: 0,
        wanted: 0,
    };

    /// The bucket where a lookup begins.
    #[inline]
    pub(crate) fn home(self) -> usize {
        self.home as usize
    }

    /// The other one.
    #[inline]
    pub(crate) fn partner(self) -> usize {
        self.partner as usize
    }

    /// Tag and partner bit of its slot in the first of them; in the other the lowest bit is set.
    #[inline]
    pub(crate) fn wanted(self) -> u64 {
        u64::from(self.wanted)
    }
}

impl Table {
    /// Where to look for a hash, whose lines it asks the processor to load; needs no lock.
    #[inline]
    pub(crate) fn probe(&self, hash: u64) -> Probe {
        let shape = self.shape();
        let (home, partner) = self.addresses(hash);
        let (home, partner) = (shape.bucket(home), shape.bucket(partner));
        self.prefetch_bucket(home);
        self.prefetch_bucket(partner);
        // Lossless: a table has fewer than 2^32 buckets, and a tag 24 bits.
        Probe {
            home: home as u32,
            partner: partner as u32,
            wanted: (self.tag(hash) << 1) as u32,
        }
    }

    /// Where to look for a hash; needs no lock.
    #[inline]
    pub(crate) fn probe_of(&self, hash: u64) -> Probe {
        let shape = self.shape();
        let (home, partner) = self.addresses(hash);
        // Lossless: see `probe`.
        Probe {
            home: shape.bucket(home) as u32,
            partner: shape.bucket(partner) as u32,
            wanted: (self.tag(hash) << 1) as u32,
        }
    }

    /// The first slot that may be that of a probe; needs no lock, so it may be another key's, or
    /// removed. If no thread changed the shard and there is none, the key has no item.
    #[inline]
    pub(crate) fn candidate(&self, probe: Probe) -> Option<Candidate> {
        let first = |bucket_number: u32, wanted: u32| {
            let bucket_number = bucket_number as usize;
            let bucket = self.bucket(bucket_number);
            let mut matches = matches(bucket, u64::from(wanted));
            while matches != 0 {
                // The mask spares the bounds check: no bit beyond the eighth is ever set.
                let position = matches.trailing_zeros() as usize & (BUCKET_SLOTS - 1);
                // Relaxed: a hint, until the shard's sequence says that it was true.
                let word = bucket[position].load(Ordering::Relaxed);
                // An empty slot looks like one with a tag of zeros.
                if word & OFFSETS != 0
                    && let Some(word) = NonZeroU64::new(word)
                {
                    let number = bucket_number * BUCKET_SLOTS + position;
                    return Some(Candidate { number, word });
                }
                matches &= matches - 1;
            }
            None
        };
        first(probe.home, probe.wanted).or_else(|| first(probe.partner, probe.wanted | 1))
    }

    /// Whether a candidate's slot is unchanged; needs no lock.
    #[inline]
    pub(crate) fn is_still(&self, candidate: Candidate) -> bool {
        // Relaxed: the shard's sequence shows whether it was valid.
        let slot = self.slots().get(candidate.number);
        slot.is_some_and(|slot| slot.load(Ordering::Relaxed) == candidate.word.get())
    }

    /// Counts a use of a candidate's item, unless its slot has changed; needs no lock. Writes
    /// nothing once the count is full.
    #[inline]
    pub(crate) fn mark_used(&self, candidate: Candidate, counts: impl FnOnce() -> bool) {
        let word = candidate.word.get();
        let used = with_use(word, counts);
        if used != word {
            let slot = &self.slots()[candidate.number];
            // Relaxed: a count that orders nothing. The holder of the lock writes slots without an
            // exchange: then this use is lost.
            let order = Ordering::Relaxed;
            let _ = slot.compare_exchange(word, used, order, order);
        }
    }
}

/// A slot's word after one more use of its item.
#[inline]
pub(crate) fn with_use(word: u64, counts: impl FnOnce() -> bool) -> u64 {
    let full = FREQUENCY_MAX << FREQUENCY_SHIFT;
    let raised = if word & full == full || !counts() {
        word
    } else {
        word + (1 << FREQUENCY_SHIFT)
    };
    raised | FETCHED
}

pub(crate) fn offset_of(slot: u64) -> Option<usize> {
    ((slot & OFFSETS) as usize).checked_sub(1)
}

/// The slots of a bucket, looked at four at a time.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod fours {
    use std::arch::x86_64::{
        __m128, __m128i, _mm_and_si128, _mm_andnot_si128, _mm_castps_si128, _mm_castsi128_ps,
        _mm_cmpeq_epi32, _mm_movemask_ps, _mm_or_si128, _mm_set1_epi32, _mm_setzero_si128,
        _mm_shuffle_ps,
    };
    use std::sync::atomic::AtomicU64;

    use super::{BUCKET_SLOTS, MATCH_SHIFT, PARTNER};

    const LOWER_HALVES: i32 = 0b10_00_10_00;
    const UPPER_HALVES: i32 = 0b11_01_11_01;

    /// Two slots in one move, which the compiler would not make of two relaxed loads. Under the
    /// lock slots change in their counts alone; without it the outcome is a hint.
    #[inline(always)]
    fn two(bucket: &[AtomicU64; BUCKET_SLOTS], position: usize) -> __m128 {
        let at = bucket[position..position + 2].as_ptr();
        let slots: __m128;
        // SAFETY: reads two slots of the bucket, which is a cache line, so the move is aligned, and
        // each of its halves is read at once as an atomic is.
        unsafe {
            std::arch::asm!("movaps {slots}, xmmword ptr [{at}]", at = in(reg) at,
                slots = out(xmm_reg) slots, options(nostack, preserves_flags, readonly));
        }
        slots
    }

    /// One bit for each slot of which `test` sets all bits of its number, shown the lower and upper
    /// halves of four.
    #[inline(always)]
    fn tested(
        bucket: &[AtomicU64; BUCKET_SLOTS],
        test: impl Fn(__m128i, __m128i) -> __m128i,
    ) -> u32 {
        let four = |first: usize| {
            let (one, other) = (two(bucket, first), two(bucket, first + 2));
            // SAFETY: these instructions are part of every x86-64 processor and touch no memory.
            unsafe {
                let lower = _mm_castps_si128(_mm_shuffle_ps::<LOWER_HALVES>(one, other));
                let upper = _mm_castps_si128(_mm_shuffle_ps::<UPPER_HALVES>(one, other));
                _mm_movemask_ps(_mm_castsi128_ps(test(lower, upper))) as u32
            }
        };
        four(0) | four(4) << 4
    }

    /// See [`super::matches`].
    #[inline]
    pub(crate) fn matches(bucket: &[AtomicU64; BUCKET_SLOTS], wanted: u64) -> u32 {
        // Tag and partner bit lie in the upper half of a slot.
        const LOW_BITS: u32 = MATCH_SHIFT - 32;
        // SAFETY: as in `tested`.
        unsafe {
            let mask = _mm_set1_epi32(-1 << LOW_BITS);
            let wanted = _mm_set1_epi32((wanted << LOW_BITS) as u32 as i32);
            tested(bucket, |_, upper| {
                _mm_cmpeq_epi32(_mm_and_si128(upper, mask), wanted)
            })
        }
    }

    /// See [`super::empties`].
    #[inline]
    pub(crate) fn empties(bucket: &[AtomicU64; BUCKET_SLOTS]) -> u32 {
        tested(bucket, |lower, upper| {
            // SAFETY: as in `tested`.
            unsafe { _mm_cmpeq_epi32(_mm_or_si128(lower, upper), _mm_setzero_si128()) }
        })
    }

    /// See [`super::entries`].
    #[inline]
    pub(crate) fn entries(bucket: &[AtomicU64; BUCKET_SLOTS], wanted: u64) -> u32 {
        // SAFETY: as in `tested`.
        unsafe {
            let mask = _mm_set1_epi32((PARTNER >> 32) as i32);
            let wanted = _mm_set1_epi32((wanted >> 32) as i32);
            tested(bucket, |lower, upper| {
                let all = _mm_or_si128(lower, upper);
                let is_empty = _mm_cmpeq_epi32(all, _mm_setzero_si128());
                let is_wanted = _mm_cmpeq_epi32(_mm_and_si128(upper, mask), wanted);
                _mm_andnot_si128(is_empty, is_wanted)
            })
        }
    }
}

/// One bit for each slot of a bucket: whether its tag and partner bit are `wanted`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) fn matches(bucket: &[AtomicU64; BUCKET_SLOTS], wanted: u64) -> u32 {
    fours::matches(bucket, wanted)
}

/// One bit for each slot of a bucket: whether it is empty.
#[inline]
pub(crate) fn empties(bucket: &[AtomicU64; BUCKET_SLOTS]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return fours::empties(bucket);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    tested(bucket, |word| word == 0)
}

/// One bit for each slot of a bucket: whether it has an entry at home or, if `is_away`, one whose
/// home is the other bucket.
#[inline]
pub(crate) fn entries(bucket: &[AtomicU64; BUCKET_SLOTS], is_away: bool) -> u32 {
    let wanted = if is_away { PARTNER } else { 0 };
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return fours::entries(bucket, wanted);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    tested(bucket, |word| word != 0 && word & PARTNER == wanted)
}

/// One bit for each slot of a bucket: whether its tag and partner bit are `wanted`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn matches(bucket: &[AtomicU64; BUCKET_SLOTS], wanted: u64) -> u32 {
    tested(bucket, |word| word >> MATCH_SHIFT == wanted)
}

/// One bit for each slot of a bucket whose word passes a test.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn tested(bucket: &[AtomicU64; BUCKET_SLOTS], test: impl Fn(u64) -> bool) -> u32 {
    // Relaxed: as in the other version.
    let passes = |slot: &AtomicU64| u32::from(test(slot.load(Ordering::Relaxed)));
    bucket
        .iter()
        .enumerate()
        .map(|(position, slot)| passes(slot) << position)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_at_home_or_away_and_an_empty_slot_neither() {
        // An offset of which only the upper half of the slot has bits; one of the lower half alone.
        let words = [
            0,
            1,
            PARTNER | 1,
            1 << 32,
            0,
            PARTNER | 1 << 35,
            u64::MAX,
            7,
        ];
        let table = Table::reserve(4, None).unwrap();
        for (slot, word) in table.bucket(3).iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        assert_eq!(entries(table.bucket(3), false), 0b1000_1010);
        assert_eq!(entries(table.bucket(3), true), 0b0110_0100);
        assert_eq!(empties(table.bucket(3)), 0b0001_0001);
        assert_eq!(empties(table.bucket(2)), 0b1111_1111);
        assert_eq!(entries(table.bucket(2), false), 0);
        assert_eq!(entries(table.bucket(2), true), 0);
        assert_eq!(
            matches(table.bucket(3), (1 << (64 - MATCH_SHIFT)) - 1),
            1 << 6
        );
    }
}
