//! Optimistic: reads that take no lock.
//!
//! A get finds its item in index and log while others may change both, copies the value out, and
//! asks the shard's sequence whether anybody did meanwhile. If so, or if there is more to do than
//! to copy, the get is done again under the lock: for a miss, an item that is over, one with a long
//! value or rare fields other than flags, a key in the insights' sample, while a flush is awaited.
//!
//! Nothing that was read is trusted before the sequence was asked: offsets and lengths are checked
//! against the arena, and the value lies in the reader's own memory. The use of the item is noted
//! behind that, in its slot, as one exchange of the word that was read: if the slot has another by
//! then, the note is lost, as it is when two readers meet.
//!
//! Why: docs/decisions/0054. Tests: tests/optimistic.rs, tests/stress.rs, tests/loom.rs.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cell::ShardCell;
use super::{Cache, GROUP_KEYS};
use crate::arena::Pinner;
use crate::clock::Instant;
use crate::hot::GAP_MEAN;
use crate::item;
use crate::key::Key;
use crate::outcome::Item;
use crate::sample::part;
use crate::space::{Kind, Space};
use crate::table::{Candidate, Probe};

/// Longest value that is copied out without the lock: it lies on the reader's stack.
const VALUE_BYTES_MAX: usize = 2 << 10;
/// Counts that threads share among them, so that few of them meet at one.
const STRIPES: usize = 16;

/// Where the values of reads without the lock lie until the caller has seen them.
pub(super) struct Scratch([MaybeUninit<u8>; VALUE_BYTES_MAX]);

impl Scratch {
    #[inline]
    pub(super) fn new() -> Scratch {
        Scratch([MaybeUninit::uninit(); VALUE_BYTES_MAX])
    }
}

/// Hits of reads without the lock.
#[derive(Debug, Default)]
pub(super) struct Hits([Stripe; STRIPES]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl Hits {
    /// Counts some of the calling thread; their number before.
    #[inline]
    fn add(&self, hits: u64) -> u64 {
        // Relaxed: a sum that orders nothing.
        self.0[stripe()].0.fetch_add(hits, Ordering::Relaxed)
    }

    /// All of them.
    pub(super) fn sum(&self) -> u64 {
        // Relaxed: as above.
        let counts = self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed));
        counts.sum()
    }
}

/// The number of the calling thread's counts.
#[inline]
fn stripe() -> usize {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    const NONE: usize = usize::MAX;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(NONE) };
    }
    MINE.with(|mine| {
        if mine.get() == NONE {
            // Relaxed: numbers that order nothing.
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
}

/// Whether the read behind so many others counts for its key's heat: one in [`GAP_MEAN`], in an
/// order without a rhythm.
#[inline]
fn counts_for_heat(before: u64) -> bool {
    const _: () = assert!(GAP_MEAN.is_power_of_two(), "a mask is taken of it");
    let mixed = before.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) & u64::from(GAP_MEAN - 1) == 0
}

impl Cache {
    /// The item of `key`, copied into `scratch`, if that can be had without the lock.
    #[inline]
    pub(super) fn glimpse<'s>(
        &self,
        cell: &ShardCell,
        key: Key<'_>,
        now: Instant,
        scratch: &'s mut Scratch,
    ) -> Option<Item<'s>> {
        if !cell.may_glimpse(key) {
            return None;
        }
        let candidate = cell.table.candidate(cell.table.probe(key.hash()))?;
        let item = cell.glimpse(key, candidate, now, scratch)?;
        if counts_for_heat(self.hits.add(1)) {
            self.count_heat(cell, key, now);
        }
        Some(item)
    }

    /// Reads at most [`GROUP_KEYS`] items without the lock; `each` gets a key's position and its
    /// item. Which keys are left, a bit each.
    ///
    /// In three rounds, so that what one of them waits for is loaded for all.
    pub(super) fn glimpse_group(
        &self,
        keys: &[Key<'_>],
        probes: &[Probe; GROUP_KEYS],
        now: Instant,
        mut each: impl FnMut(usize, Item<'_>),
    ) -> u32 {
        let mut candidates = [None; GROUP_KEYS];
        for (position, &key) in keys.iter().enumerate() {
            let cell = self.cell(key);
            let candidate = cell.table.candidate(probes[position]);
            if let Some(candidate) = candidate.filter(|_| cell.may_glimpse(key)) {
                cell.prefetch_item(candidate.offset());
            }
            candidates[position] = candidate;
        }
        let (mut left, mut hits) = (0, 0);
        let mut scratch = Scratch::new();
        for (position, &key) in keys.iter().enumerate() {
            let cell = self.cell(key);
            let item = candidates[position]
                .filter(|_| cell.may_glimpse(key))
                .and_then(|candidate| cell.glimpse(key, candidate, now, &mut scratch));
            match item {
                Some(item) => {
                    hits += 1;
                    each(position, item);
                }
                None => left |= 1 << position,
            }
        }
        if hits > 0 {
            let before = self.hits.add(hits);
            // One of the group at most: of a few dozen reads seldom two count.
            if let Some(nth) = (0..hits).find(|nth| counts_for_heat(before + nth)) {
                let mut hit = (0..keys.len()).filter(|&position| left >> position & 1 == 0);
                if let Some(position) = hit.nth(nth as usize) {
                    self.count_heat(self.cell(keys[position]), keys[position], now);
                }
            }
        }
        left
    }

    #[cold]
    #[inline(never)]
    fn count_heat(&self, cell: &ShardCell, key: Key<'_>, now: Instant) {
        self.lock(cell).watch.hot().count(key, now);
    }
}

impl ShardCell {
    /// Whether a read of the key may do without the lock: it is in no sample but in the main space.
    #[inline]
    fn may_glimpse(&self, key: Key<'_>) -> bool {
        // Relaxed: whether a key is in the sample may be known a moment late.
        let is_sampled = part(key.hash()) < self.sampled_below.load(Ordering::Relaxed);
        !is_sampled & (key.space() == Space::MAIN)
    }

    /// Copies the item that a candidate points to into `scratch`, if it is the key's.
    #[inline]
    fn glimpse<'s>(
        &self,
        key: Key<'_>,
        candidate: Candidate,
        now: Instant,
        scratch: &'s mut Scratch,
    ) -> Option<Item<'s>> {
        let (arena, offset) = (&self.arena, candidate.offset());
        self.prefetch_rest(offset);
        let seen = self.lock.sequence.seen()?;
        if !self.table.is_still(candidate) {
            return None;
        }
        let scale = arena.racing_scale(offset)?;
        let first_bytes = arena.racing_first_bytes(offset)?;
        let (layout, flags) = match item::read_short(first_bytes, offset, scale) {
            Some(layout) => (layout, 0),
            None => {
                let more = u128::from(arena.racing_first_bytes(offset + 8)?) << 64;
                item::read_flagged(u128::from(first_bytes) | more, offset, scale)?
            }
        };
        let is_it = layout.key_word == key.word() && arena.racing_equal(layout.key_at, key.bytes());
        if !is_it || layout.deadline.has_passed(now) {
            return None;
        }
        let to = scratch.0.get_mut(..layout.value_bytes)?;
        let value = arena.racing_copy(layout.value_at(), to)?;
        if !self.lock.sequence.is_still(seen) {
            return None;
        }
        self.table.mark_used(candidate, || !arena.is_young(offset));
        Some(Item {
            value,
            kind: Kind::STRING,
            flags,
            deadline: layout.deadline,
            pinner: Pinner::Copied,
        })
    }
}
