//! Index: how a key is found.
//!
//! A table of 64-byte buckets with eight slots, grown one bucket at a time by linear hashing on a
//! reserved range, so growth never pauses and never needs a second table.
//!
//! A key may lie in its home bucket or in one partner, whose address is the home address xor a
//! pattern that depends on the tag's choice bits alone. Slot and bucket number together give both
//! addresses, so splits and moves never read an item.
//!
//! Invariant: a slot's offset field holds the arena offset of a readable item, plus one.
//! Why: docs/decisions/0003. Tests: at the end of this file.

mod scan;
mod bulk_unlink; // entries of whole segments, taken out together
mod restore; // restores a table of a previous process

pub(crate) use self::scan::{Phase, SCAN_MASK, Scan, Stretch};

use std::array;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::bulk_unlink::BulkUnlink;
use self::scan::Scans;
use crate::base::error::Error;
use crate::memory::table::{
    BUCKET_BYTES, BUCKET_SLOTS, Candidate, FETCHED, FREQUENCY_MAX, FREQUENCY_SHIFT, GROWTH_BITS,
    OFFSETS, PARTNER, Probe, Shape, TAG_SHIFT, Table, empties, matches, offset_of, with_use,
};
use crate::memory::{FileRange, HUGE_PAGE_BYTES, Region};

/// Items per 100 slots above which the table grows.
const LOAD_PERCENT: usize = 88;
/// Bytes that an item's entry takes of a full table.
pub(crate) const ENTRY_BYTES: usize = BUCKET_BYTES * 100 / (BUCKET_SLOTS * LOAD_PERCENT);
/// Bytes beyond the table's end that are touched ahead at most.
const AHEAD_BYTES: usize = 16 << 10;
/// Bytes made resident at a time at the end of a table that background maintenance has not touched
/// ahead.
const TOUCH_BYTES: usize = 8 << 10;
/// The table pays for its memory in steps of so many bytes.
pub(crate) const STEP_BYTES: usize = 1 << 8;
/// Items per 100 slots below which the table shrinks.
const LOAD_LOW_PERCENT: usize = 50;
/// Most moves that an insertion may chain to free a slot.
const MOVES_MAX: u32 = 3;
/// Entries of a full bucket whose other buckets are loaded together: one of so many has nearly
/// always an empty slot.
const SLOTS_TOGETHER: usize = BUCKET_SLOTS / 2;

/// The number of a slot in the table; good until the table next changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRef(usize);

impl SlotRef {
    /// The slot of an entry that was looked for without the lock.
    #[inline]
    pub(crate) fn of(candidate: Candidate) -> SlotRef {
        SlotRef(candidate.number())
    }
}

/// One shard's index.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Index {
    table: Arc<Table>,
    /// Entries, those of unchecked items included, and unlinked items that are still in the log.
    items: usize,
    /// How many of these there are.
    unlinked: usize,
    level_max: u32,
    /// Offset up to which the table's memory was touched ahead.
    touched: usize,
    /// Entries that are being taken out together. One word, for every request looks at it.
    bulk: Option<Box<BulkUnlink>>,
    /// Whether a stretch of the table is being put on a huge page: it may not shrink meanwhile.
    growing_huge: bool,
    /// Listings under way.
    scans: Scans,
}

impl Index {
    /// Reserves addresses for `items_max` items; memory is used only as the table grows.
    ///
    /// # Errors
    /// [`Error::Reserve`].
    pub(crate) fn reserve(items_max: usize, file_range: Option<FileRange>) -> Result<Index, Error> {
        let level_max = Index::level_max(items_max);
        let table = Arc::new(Table::reserve(level_max, file_range)?);
        Ok(Index {
            table,
            items: 0,
            unlinked: 0,
            level_max,
            touched: 0,
            growing_huge: false,
            scans: Scans::default(),
            bulk: None,
        })
    }

    /// Addresses that an index with room for `items_max` items takes.
    pub(crate) fn address_bytes(items_max: usize) -> usize {
        Region::address_bytes(Index::table_bytes(items_max))
    }

    /// Bytes of the largest table of such an index.
    pub(crate) fn table_bytes(items_max: usize) -> usize {
        BUCKET_BYTES << Index::level_max(items_max)
    }

    /// log2 of the buckets of a table with room for so many items.
    fn level_max(items_max: usize) -> u32 {
        let buckets = (items_max * 100 / (LOAD_PERCENT * BUCKET_SLOTS))
            .max(64)
            .next_power_of_two();
        buckets.trailing_zeros()
    }

    /// The table, for prefetching without the lock.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Entries now, and items whose entry was taken out ahead of them.
    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// Buckets now.
    pub(crate) fn buckets(&self) -> usize {
        self.table.shape().buckets()
    }

    /// Bytes of memory the table occupies now, in whole steps.
    pub(crate) fn bytes(&self) -> usize {
        (self.buckets() * BUCKET_BYTES).next_multiple_of(STEP_BYTES)
    }

    /// Finds the entry of `hash` whose item, at the given arena offset, `is_it`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(usize) -> bool) -> Option<SlotRef> {
        self.find_probed(self.table.probe_of(hash), is_it)
    }

    /// The same with a probe of the table as large as it is.
    #[inline]
    pub(crate) fn find_probed(
        &self,
        probe: Probe,
        mut is_it: impl FnMut(usize) -> bool,
    ) -> Option<SlotRef> {
        let mut number = probe.home();
        let mut partner_bit = 0;
        loop {
            let bucket = self.table.bucket(number);
            // The partner bit is compared with the tag: an entry that is here by its other address
            // is another key's, however alike the tags are, and its item is not touched.
            let mut matches = matches(bucket, probe.wanted() | partner_bit);
            while matches != 0 {
                // The mask spares the bounds check: no bit beyond the eighth is ever set.
                let position = matches.trailing_zeros() as usize & (BUCKET_SLOTS - 1);
                // Relaxed: the shard's lock orders all uses of slots.
                let slot = bucket[position].load(Ordering::Relaxed);
                if let Some(offset) = offset_of(slot)
                    && is_it(offset)
                {
                    return Some(SlotRef(number * BUCKET_SLOTS + position));
                }
                matches &= matches - 1;
            }
            if partner_bit == 1 {
                return None;
            }
            partner_bit = 1;
            number = probe.partner();
        }
    }

    /// Finds the entry of `hash` whose item lies at `offset`; reads no item.
    pub(crate) fn find_at(&self, hash: u64, offset: usize) -> Option<SlotRef> {
        self.find(hash, |at| at == offset)
    }

    #[inline]
    fn load(&self, slot: SlotRef) -> u64 {
        // Relaxed: under the shard's lock a slot is a plain word. Lock-free readers take its
        // contents only as a hint.
        self.table.slots()[slot.0].load(Ordering::Relaxed)
    }

    #[inline]
    fn save(&self, slot: SlotRef, word: u64) {
        // Release: after the item it points to, for a process that restores this memory; for this
        // one the lock orders it.
        self.table.slots()[slot.0].store(word, Ordering::Release);
    }

    /// Arena offset of the entry's item.
    #[inline]
    pub(crate) fn offset(&self, slot: SlotRef) -> usize {
        offset_of(self.load(slot)).expect("the slot holds an entry")
    }

    /// How often the item was used of late: 0 to 3.
    #[inline]
    pub(crate) fn frequency(&self, slot: SlotRef) -> u8 {
        ((self.load(slot) >> FREQUENCY_SHIFT) & FREQUENCY_MAX) as u8
    }

    /// Whether the item was ever fetched.
    #[inline]
    pub(crate) fn is_fetched(&self, slot: SlotRef) -> bool {
        self.load(slot) & FETCHED != 0
    }

    /// Counts a use of the item. Writes nothing once the count is full, so hot lines stay clean.
    #[inline]
    pub(crate) fn mark_used(&self, slot: SlotRef, counts: impl FnOnce() -> bool) {
        let word = self.load(slot);
        let used = with_use(word, counts);
        if used != word {
            self.save(slot, used);
        }
    }

    /// Sets whether the item was ever fetched, and how often it was used of late.
    pub(crate) fn set_uses(&self, slot: SlotRef, fetched: bool, frequency: u8) {
        let kept = self.load(slot) & !(FETCHED | FREQUENCY_MAX << FREQUENCY_SHIFT);
        let frequency = u64::from(frequency).min(FREQUENCY_MAX) << FREQUENCY_SHIFT;
        let fetched = if fetched { FETCHED } else { 0 };
        self.save(slot, kept | frequency | fetched);
    }

    /// Points the entry to another offset and sets its frequency.
    pub(crate) fn relocate(&mut self, slot: SlotRef, offset: usize, frequency: u8) {
        // Tag and partner bit stay: they say why the entry lies in this bucket.
        let kept = self.load(slot) & !(OFFSETS | FREQUENCY_MAX << FREQUENCY_SHIFT);
        let field = offset as u64 + 1;
        assert!(field <= OFFSETS, "offset beyond the index's reach");
        self.save(slot, kept | field | u64::from(frequency) << FREQUENCY_SHIFT);
    }

    /// Forgets that the item was fetched and used: it holds a new value.
    pub(crate) fn reset_fetched(&mut self, slot: SlotRef) {
        self.save(slot, self.load(slot) & !FETCHED);
    }

    /// Removes the entry.
    pub(crate) fn remove(&mut self, slot: SlotRef) {
        if !self.scans.is_empty() {
            self.note_removal(slot);
        }
        self.save(slot, 0);
        self.items -= 1;
    }

    /// Adds an entry; `None` if both buckets are full and no short chain of moves helps.
    ///
    /// The caller knows that the key has no entry yet.
    pub(crate) fn insert(&mut self, hash: u64, offset: usize) -> Option<SlotRef> {
        let field = offset as u64 + 1;
        assert!(field <= OFFSETS, "offset beyond the index's reach");
        let (shape, probe) = (self.table.shape(), self.table.probe_of(hash));
        let (home, partner) = (probe.home(), probe.partner());
        let word = probe.wanted() << (TAG_SHIFT - 1) | field;
        // Home first: a lookup begins there, so most hits cost one cache line of the index.
        let (slot, word) = if let Some(slot) = self.empty_slot(home) {
            (slot, word)
        } else if let Some(slot) = self.empty_slot(partner) {
            (slot, word | PARTNER)
        } else if let Some(slot) = self.make_room(shape, home, MOVES_MAX) {
            (slot, word)
        } else {
            (self.make_room(shape, partner, MOVES_MAX)?, word | PARTNER)
        };
        self.save(slot, word);
        self.items += 1;
        Some(slot)
    }

    #[inline]
    fn empty_slot(&self, bucket: usize) -> Option<SlotRef> {
        let empties = empties(self.table.bucket(bucket));
        (empties != 0).then(|| SlotRef(bucket * BUCKET_SLOTS + empties.trailing_zeros() as usize))
    }

    /// Empties one slot of a full bucket by moving an entry to its other bucket.
    fn make_room(&mut self, shape: Shape, bucket: usize, moves_left: u32) -> Option<SlotRef> {
        let slot_at = |position| SlotRef(bucket * BUCKET_SLOTS + position);
        // One move is enough for most full buckets, so all eight are tried before any longer chain.
        for first in [0, SLOTS_TOGETHER] {
            let others: [usize; SLOTS_TOGETHER] = array::from_fn(|position| {
                self.other_bucket(shape, bucket, self.load(slot_at(first + position)))
            });
            // They lie anywhere: loaded together, they cost about one wait for memory.
            others
                .iter()
                .for_each(|&other| self.table.prefetch_bucket(other));
            for (position, other) in others.into_iter().enumerate() {
                if let Some(target) = self.empty_slot(other) {
                    return Some(self.move_entry(bucket, slot_at(first + position), target));
                }
            }
        }
        if moves_left <= 1 {
            return None;
        }
        // Half of the slots and few levels bound the work of one insertion.
        for slot in (0..BUCKET_SLOTS / 2).map(slot_at) {
            let other = self.other_bucket(shape, bucket, self.load(slot));
            if other == bucket {
                continue;
            }
            if let Some(target) = self.make_room(shape, other, moves_left - 1) {
                // The chain may have come back and moved this very entry: then its slot is free.
                if self.load(slot) == 0 {
                    return Some(slot);
                }
                // Or put another entry in its stead, which need not fit into the emptied slot.
                if self.other_bucket(shape, bucket, self.load(slot)) == other {
                    return Some(self.move_entry(bucket, slot, target));
                }
            }
        }
        None
    }

    /// Moves an entry in `bucket` to an empty slot of its other bucket; returns the slot it left.
    fn move_entry(&mut self, bucket: usize, from: SlotRef, to: SlotRef) -> SlotRef {
        let word = self.load(from);
        if self.unlinks_instead(from, word) {
            return from;
        }
        if !self.scans.is_empty() {
            self.note_move(bucket, word);
        }
        self.save(to, word ^ PARTNER);
        self.save(from, 0);
        from
    }

    /// The address that put this entry into `bucket`, as far as it is known: all bits a table of
    /// the largest size would use.
    fn address_here(&self, bucket: usize, word: u64) -> u64 {
        let (address, upper) = self.stored_address(bucket, word);
        match word & PARTNER {
            0 => address,
            _ => address ^ (self.table.pattern(word >> TAG_SHIFT) & upper),
        }
    }

    /// The bucket of this entry's other address: that of the one here, xor the pattern.
    fn other_bucket(&self, shape: Shape, bucket: usize, word: u64) -> usize {
        let (address, upper) = self.stored_address(bucket, word);
        let pattern = self.table.pattern(word >> TAG_SHIFT);
        // Of an entry that is away, the pattern's upper bits cancel out.
        let pattern = match word & PARTNER {
            0 => pattern,
            _ => pattern & !upper,
        };
        shape.bucket(address ^ pattern)
    }

    /// What bucket and tag tell of an entry's address here: the upper bits, of which the mask is
    /// returned too, are those of its home.
    ///
    /// Of the bucket's number only the bits that the smallest table has are taken: how many more it
    /// shows depends on the table's size now, and the tag has all of those.
    #[inline]
    fn stored_address(&self, bucket: usize, word: u64) -> (u64, u64) {
        let level = self.table.level_min;
        let growth = (word >> TAG_SHIFT) & ((1 << GROWTH_BITS) - 1);
        let lower = (1 << level) - 1;
        (growth << level | bucket as u64 & lower, !lower)
    }

    /// Whether the table is so full that it should grow by a bucket.
    #[inline]
    pub(crate) fn wants_growth(&self) -> bool {
        let entries = self.items - self.unlinked;
        entries * 100 > self.buckets() * BUCKET_SLOTS * LOAD_PERCENT && self.can_grow()
    }

    /// Whether the reserved range has room for another bucket.
    pub(crate) fn can_grow(&self) -> bool {
        self.table.shape().level < self.level_max
    }

    /// Whether the next bucket begins a step, so that growing takes memory.
    #[inline]
    pub(crate) fn growth_takes_memory(&self) -> bool {
        (self.buckets() * BUCKET_BYTES).is_multiple_of(STEP_BYTES)
    }

    /// Adds one bucket and moves its entries there.
    pub(crate) fn grow(&mut self) {
        assert!(self.can_grow(), "the reserved range is used up");
        let Shape { level, split } = self.table.shape();
        let target = (1 << level) + split;
        self.touch();
        let mut filled = 0;
        for position in 0..BUCKET_SLOTS {
            let slot = SlotRef(split * BUCKET_SLOTS + position);
            let word = self.load(slot);
            // Both buckets' addresses end in the same bits; the next higher bit distinguishes them.
            if word != 0 && self.address_here(split, word) >> level & 1 == 1 {
                self.save(SlotRef(target * BUCKET_SLOTS + filled), word);
                self.save(slot, 0);
                filled += 1;
            }
        }
        let grown = if split + 1 == 1 << level {
            Shape {
                level: level + 1,
                split: 0,
            }
        } else {
            Shape {
                level,
                split: split + 1,
            }
        };
        self.table.set_shape(grown);
    }

    /// Makes the bucket at the table's end resident if background maintenance has not; `false` if
    /// there is no memory for it.
    #[inline]
    pub(crate) fn touch(&mut self) -> bool {
        let at = self.buckets() * BUCKET_BYTES;
        if at >= self.touched {
            let to = (at + TOUCH_BYTES).min(self.table.region().bytes());
            if !self.table.region().populate(at, to - at) {
                return false;
            }
            self.touched = to;
        }
        true
    }

    /// Where the table will grow next, as offset and length in bytes, if background maintenance is
    /// to touch it ahead; it is unused until the table reaches it.
    pub(crate) fn begin_touch(&mut self) -> Option<(usize, usize)> {
        let end = self.buckets() * BUCKET_BYTES;
        let is_ready =
            self.buckets() == 1 << self.table.level_min || end + AHEAD_BYTES / 2 <= self.touched;
        // Of a file it must be known whether it has the memory, before anybody counts on it.
        if is_ready || self.table.region().is_shared() {
            return None;
        }
        let from = self.touched.max(end);
        let to = (end + AHEAD_BYTES).min(self.table.region().bytes());
        self.touched = to;
        (from < to).then(|| (from, to - from))
    }

    /// A stretch of the table of the size of a huge page that is in use as a whole and not on one
    /// yet; the table does not shrink until [`Index::end_huge`].
    pub(crate) fn begin_huge(&mut self) -> Option<usize> {
        if self.growing_huge {
            return None;
        }
        let whole = self.buckets() * BUCKET_BYTES / HUGE_PAGE_BYTES;
        let region = self.table.region();
        let stretch = (0..whole.min(region.stretches())).find(|&one| !region.is_huge(one))?;
        region.claim_huge(stretch);
        self.growing_huge = true;
        Some(stretch)
    }

    /// Puts the stretch on the huge page that was made for it, if there is one, and lets the table
    /// shrink again.
    pub(crate) fn end_huge(&mut self, stretch: usize, is_ready: bool) {
        self.growing_huge = false;
        if is_ready {
            self.table.region().swap_huge(stretch);
        }
    }

    /// Whether the table is so empty that it should shrink by a bucket.
    #[inline]
    pub(crate) fn wants_shrinking(&self) -> bool {
        let buckets = self.buckets();
        if self.growing_huge || self.is_unlinking() {
            return false;
        }
        (self.items - self.unlinked) * 100 < buckets * BUCKET_SLOTS * LOAD_LOW_PERCENT
            && buckets > 1 << self.table.level_min
    }

    /// Takes the last bucket away again; `false` if its entries do not fit elsewhere just now.
    pub(crate) fn shrink(&mut self) -> bool {
        let shrunk = self.table.shape().shrunk();
        let (into, last) = (shrunk.split, (1 << shrunk.level) + shrunk.split);
        let slots = (0..BUCKET_SLOTS).map(|position| SlotRef(last * BUCKET_SLOTS + position));
        let count = |index: &Index, bucket: usize| {
            let slots = index.table.bucket(bucket).iter();
            // Relaxed: see `load`.
            slots
                .filter(|slot| slot.load(Ordering::Relaxed) != 0)
                .count()
        };
        // Entries that do not fit into the smaller table's bucket move to their other bucket first.
        // That is valid for either size, so stopping half-way leaves no entry misplaced.
        let shape = self.table.shape();
        for slot in slots.clone() {
            if count(self, last) + count(self, into) <= BUCKET_SLOTS {
                break;
            }
            if self.load(slot) != 0
                && let Some(target) =
                    self.empty_slot(self.other_bucket(shape, last, self.load(slot)))
            {
                self.move_entry(last, slot, target);
            }
        }
        if count(self, last) + count(self, into) > BUCKET_SLOTS {
            return false;
        }
        for slot in slots {
            let word = self.load(slot);
            if word != 0 {
                let target = self
                    .empty_slot(into)
                    .expect("the entries were counted to fit");
                self.save(target, word);
                self.save(slot, 0);
            }
        }
        self.table.set_shape(shrunk);
        true
    }

    /// Releases the memory behind the table's end to the system; returns how many bytes.
    pub(crate) fn release_behind(&mut self, bytes_before: usize) -> usize {
        let bytes = self.bytes();
        if bytes >= bytes_before {
            return 0;
        }
        let touched = self.touched.max(bytes_before);
        self.table.region().release(bytes, touched - bytes);
        self.touched = bytes;
        bytes_before - bytes
    }

    /// Slots of all buckets.
    pub(crate) fn slots(&self) -> usize {
        self.buckets() * BUCKET_SLOTS
    }

    /// The slot of that number, if it holds an entry.
    pub(crate) fn entry_at(&self, number: usize) -> Option<SlotRef> {
        let slot = SlotRef(number);
        self.is_used(slot).then_some(slot)
    }

    /// Whether the slot holds an entry.
    pub(crate) fn is_used(&self, slot: SlotRef) -> bool {
        self.load(slot) != 0
    }

    /// Calls `each` with the slot of every entry in one bucket.
    pub(crate) fn each_in_bucket(&self, bucket: usize, mut each: impl FnMut(SlotRef)) {
        let slots = self.table.bucket(bucket).iter();
        // Relaxed: under the shard's lock slots are plain words.
        if slots.fold(0, |all, slot| all | slot.load(Ordering::Relaxed)) == 0 {
            return;
        }
        for position in 0..BUCKET_SLOTS {
            let slot = SlotRef(bucket * BUCKET_SLOTS + position);
            if self.load(slot) != 0 {
                each(slot);
            }
        }
    }

    /// The slot with the least used entry among both buckets of a hash, all of which are taken.
    pub(crate) fn least_used(&self, hash: u64) -> SlotRef {
        let shape = self.table.shape();
        let (home, partner) = self.table.addresses(hash);
        let slots = [home, partner].into_iter().flat_map(|address| {
            let first = shape.bucket(address) * BUCKET_SLOTS;
            (first..first + BUCKET_SLOTS).map(SlotRef)
        });
        slots
            .min_by_key(|&slot| self.frequency(slot))
            .expect("a bucket has slots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash that spreads like the engine's.
    fn hash(number: u64) -> u64 {
        let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn filled(items: usize) -> Index {
        let mut index = Index::reserve(items * 4, None).unwrap();
        for number in 0..items {
            if index.wants_growth() {
                index.grow();
            }
            index
                .insert(hash(number as u64), number * 10)
                .expect("an entry finds room");
        }
        index
    }

    const ITEMS: usize = if cfg!(miri) { 600 } else { 300_000 };

    #[test]
    fn every_entry_is_found_after_growing() {
        let index = filled(ITEMS);
        for number in 0..ITEMS {
            let slot = index
                .find_at(hash(number as u64), number * 10)
                .expect("an entry is found");
            assert_eq!(index.offset(slot), number * 10);
        }
        assert_eq!(index.items(), ITEMS);
    }

    #[test]
    fn the_table_keeps_its_load_while_growing() {
        let index = filled(ITEMS);
        let load = index.items() as f64 / (index.buckets() * BUCKET_SLOTS) as f64;
        assert!((0.83..=0.89).contains(&load), "{load}");
    }

    #[test]
    fn a_lookup_touches_hardly_any_other_item() {
        let index = filled(ITEMS);
        let mut touched = 0;
        for number in 0..ITEMS {
            index.find(hash((number + ITEMS) as u64), |_| {
                touched += 1;
                false
            });
        }
        assert!(touched <= ITEMS / 100, "{touched} of {ITEMS}");
    }

    #[test]
    fn the_table_shrinks_when_entries_leave_and_loses_none() {
        let mut index = filled(ITEMS);
        let before = index.buckets();
        for number in 0..ITEMS {
            if number % 10 != 0 {
                let slot = index.find_at(hash(number as u64), number * 10).unwrap();
                index.remove(slot);
            }
            if index.wants_shrinking() {
                index.shrink();
            }
        }
        while index.wants_shrinking() && index.shrink() {}
        assert!(
            index.buckets() < before / 3,
            "{} of {before}",
            index.buckets()
        );
        for number in (0..ITEMS).step_by(10) {
            assert!(index.find_at(hash(number as u64), number * 10).is_some());
        }
    }

    #[test]
    fn uses_are_counted_to_three_and_remembered_as_fetched() {
        let mut index = filled(10);
        let slot = index.find_at(hash(3), 30).unwrap();
        assert!(!index.is_fetched(slot));
        for expected in [1, 2, 3, 3] {
            index.mark_used(slot, || true);
            assert_eq!(index.frequency(slot), expected);
        }
        assert!(index.is_fetched(slot));
        index.relocate(slot, 77, 1);
        assert_eq!((index.offset(slot), index.frequency(slot)), (77, 1));
        assert!(index.is_fetched(slot));
        assert_eq!(index.find_at(hash(3), 77), Some(slot));
    }

    #[test]
    fn the_hint_finds_what_the_lookup_finds() {
        let index = filled(ITEMS);
        let agree = (0..ITEMS)
            .filter(|&n| {
                let table = index.table();
                let found = table.candidate(table.probe(hash(n as u64)));
                found.is_some_and(|found| found.offset() == n * 10)
            })
            .count();
        assert!(agree * 100 >= ITEMS * 99, "{agree} of {ITEMS}");
    }

    #[test]
    fn entries_that_come_and_go_find_room_at_full_load() {
        let mut index = filled(ITEMS);
        // Just as full as the table may be before it grows, at several points of a doubling.
        for step in 0..4 {
            let mut number = (ITEMS * (step + 1)) as u64;
            let mut live: Vec<u64> = Vec::new();
            for bucket in 0..index.buckets() {
                index.each_in_bucket(bucket, |slot| live.push(index.offset(slot) as u64 / 10));
            }
            let (mut failed, mut away) = (0, 0);
            for round in 0..3 * ITEMS {
                let position = hash(round as u64) as usize % live.len();
                let slot = index
                    .find_at(hash(live[position]), live[position] as usize * 10)
                    .unwrap();
                index.remove(slot);
                number += 1;
                while index.insert(hash(number), number as usize * 10).is_none() {
                    failed += 1;
                    index.grow();
                }
                live[position] = number;
            }
            for &number in &live {
                let slot = index.find_at(hash(number), number as usize * 10).unwrap();
                away += usize::from(index.load(slot) & PARTNER != 0);
            }
            assert!((30..=45).contains(&(away * 100 / live.len())), "{away}");
            assert!(failed * 10_000 <= ITEMS, "{failed}");
            let more = ITEMS as u64 * 50 + step as u64 * 1_000_000;
            for extra in 0..ITEMS as u64 / 4 {
                if index.wants_growth() {
                    index.grow();
                }
                let number = more + extra;
                index
                    .insert(hash(number), number as usize * 10)
                    .expect("room");
            }
        }
    }
}
