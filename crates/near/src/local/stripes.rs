//! Where entries lie: in stripes by the hash of their key, each behind a lock of its own.
//!
//! A stripe is an index and the entries it leads to. Readers share the lock; a writer holds it for
//! the few instructions that change one entry, or while the stripe grows. Stripes are few enough
//! for all their locks to stay in a core's first cache, and many enough for readers to meet rarely.
//!
//! An entry has a number, by which policies know it: its slot in the stripe and the stripe's own.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};

use super::entry::StoredEntry;
use super::index::Index;

/// Slots of a stripe that gets its first entry.
const SLOTS_FIRST: usize = 4;

/// All stripes of a store.
#[derive(Debug)]
pub(super) struct Lines<K, P>(Arc<[StripeLine<K, P>]>);

/// The stripes of a shard.
#[derive(Debug)]
pub(super) struct Stripes<K, P> {
    lines: Lines<K, P>,
    /// The first that belongs to the shard.
    first: usize,
    /// How many bits of a number are the stripe's.
    bits: u32,
}

/// A stripe on lines of its own: readers of one do not slow readers of another.
#[repr(align(128))]
#[derive(Debug)]
struct StripeLine<K, P>(RwLock<Stripe<K, P>>);

/// An index and the entries it leads to.
///
/// The fields that readers need fill one cache line together with the lock, in this order.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Stripe<K, P> {
    index: Index,
    entries: Vec<Option<StoredEntry<K, P>>>,
    /// When each was last used, if that is asked for; boxed to be short where it is not.
    stamps: Option<Box<Stamps>>,
    /// Slots that were used before.
    free: Vec<u32>,
}

/// When the entries of a stripe were last used, by slot.
#[derive(Debug, Default)]
struct Stamps(Vec<AtomicU64>);

impl<K, P> Clone for Lines<K, P> {
    fn clone(&self) -> Self {
        Lines(Arc::clone(&self.0))
    }
}

impl<K, P> Lines<K, P> {
    /// So many empty stripes, with or without stamps.
    pub(super) fn new(count: usize, has_stamps: bool) -> Lines<K, P> {
        let stripe = || {
            StripeLine(RwLock::new(Stripe {
                index: Index::default(),
                entries: Vec::new(),
                stamps: has_stamps.then(Box::default),
                free: Vec::new(),
            }))
        };
        Lines((0..count).map(|_| stripe()).collect())
    }

    /// The stripe of a hash, for reading.
    // Always: as `Local::get`.
    #[inline(always)]
    pub(super) fn read(&self, hash: u64) -> RwLockReadGuard<'_, Stripe<K, P>> {
        self.0[self.of_hash(hash)].0.read()
    }

    /// The stripe of a hash, by bits that choose neither bucket nor tag.
    #[inline]
    pub(super) fn of_hash(&self, hash: u64) -> usize {
        (((hash >> 40) * self.0.len() as u64) >> 24) as usize
    }
}

impl<K, P> Stripes<K, P> {
    /// The part of `lines` that belongs to the shard of this number, if each has 2^`bits`.
    pub(super) fn part(lines: &Lines<K, P>, shard: usize, bits: u32) -> Stripes<K, P> {
        Stripes {
            lines: lines.clone(),
            first: shard << bits,
            bits,
        }
    }

    /// The number of the key that `is_it` knows.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(&K) -> bool) -> Option<u32> {
        let of = self.lines.of_hash(hash);
        let stripe = self.lines.0[of].0.read();
        let is_its = |slot: &u32| {
            let entry = stripe.entries[*slot as usize].as_ref();
            entry.is_some_and(|entry| is_it(&entry.key))
        };
        let slot = stripe.index.slots(hash).find(is_its)?;
        Some(self.number(of, slot))
    }

    /// What `ask` says about the entry of this number, if there is one.
    pub(super) fn look<R>(
        &self,
        number: u32,
        ask: impl FnOnce(&StoredEntry<K, P>) -> R,
    ) -> Option<R> {
        let stripe = self.of_number(number).read();
        stripe.entries.get(self.slot(number))?.as_ref().map(ask)
    }

    /// Changes the entry of this number, if there is one.
    pub(super) fn change<R>(
        &self,
        number: u32,
        change: impl FnOnce(&mut StoredEntry<K, P>) -> R,
    ) -> Option<R> {
        let mut stripe = self.of_number(number).write();
        stripe
            .entries
            .get_mut(self.slot(number))?
            .as_mut()
            .map(change)
    }

    /// Takes in an entry whose key is not there; returns its number.
    pub(super) fn add(
        &self,
        hash: u64,
        entry: StoredEntry<K, P>,
        hash_of: impl Fn(&K) -> u64,
    ) -> u32 {
        let of = self.lines.of_hash(hash);
        let mut stripe = self.lines.0[of].0.write();
        if stripe.index.is_full() {
            stripe.grow_index(hash_of);
        }
        let slot = stripe.free.pop().unwrap_or(stripe.entries.len() as u32);
        if slot as usize == stripe.entries.len() {
            stripe.make_place();
        }
        stripe.entries[slot as usize] = Some(entry);
        stripe.index.insert(hash, slot);
        self.number(of, slot)
    }

    /// Takes an entry out.
    pub(super) fn take(
        &self,
        number: u32,
        hash_of: impl Fn(&K) -> u64,
    ) -> Option<StoredEntry<K, P>> {
        let slot = self.slot(number);
        let mut stripe = self.of_number(number).write();
        let hash = hash_of(&stripe.entries.get(slot)?.as_ref()?.key);
        stripe.index.remove(hash, slot as u32);
        stripe.free.push(slot as u32);
        stripe.entries[slot].take()
    }

    /// When the entry of this number was last used; zero if that is not known.
    pub(super) fn stamp(&self, number: u32) -> u64 {
        let stripe = self.of_number(number).read();
        let stamps = stripe.stamps.as_ref();
        let stamp = stamps.and_then(|all| all.0.get(self.slot(number)));
        // Relaxed: stamps order hits, nothing else.
        stamp.map_or(0, |stamp| stamp.load(Ordering::Relaxed))
    }

    fn of_number(&self, number: u32) -> &RwLock<Stripe<K, P>> {
        let of = number as usize & ((1 << self.bits) - 1);
        &self.lines.0[self.first + of].0
    }

    fn slot(&self, number: u32) -> usize {
        (number >> self.bits) as usize
    }

    fn number(&self, stripe: usize, slot: u32) -> u32 {
        slot << self.bits | (stripe - self.first) as u32
    }
}

impl<K, P> Stripe<K, P> {
    /// The entry of `key`, and its stamp if there are stamps.
    // Always: as `Local::get`.
    #[inline(always)]
    pub(super) fn seek<Q>(
        &self,
        hash: u64,
        key: &Q,
    ) -> Option<(&StoredEntry<K, P>, Option<&AtomicU64>)>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        for slot in self.index.slots(hash) {
            let slot = slot as usize;
            match &self.entries[slot] {
                Some(entry) if entry.key.borrow() == key => {
                    let stamps = self.stamps.as_ref();
                    return Some((entry, stamps.and_then(|all| all.0.get(slot))));
                }
                _ => {}
            }
        }
        None
    }

    fn grow_index(&mut self, hash_of: impl Fn(&K) -> u64) {
        let mut index = Index::larger_than(self.entries.len());
        for (slot, entry) in self.entries.iter().enumerate() {
            if let Some(entry) = entry {
                index.insert(hash_of(&entry.key), slot as u32);
            }
        }
        self.index = index;
    }

    /// Makes room by an eighth at a time, so that little of it stays unused.
    fn make_place(&mut self) {
        let length = self.entries.len();
        let is_full = length == self.entries.capacity();
        let more = length / 8 + SLOTS_FIRST;
        if is_full {
            self.entries.reserve_exact(more);
        }
        self.entries.push(None);
        if let Some(stamps) = &mut self.stamps {
            if is_full {
                stamps.0.reserve_exact(more);
            }
            stamps.0.push(AtomicU64::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Deadline;
    use super::*;

    fn hash(key: &u32) -> u64 {
        rapidhash::v3::rapidhash_v3(&key.to_le_bytes())
    }

    fn add(stripes: &Stripes<u32, Arc<u32>>, key: u32) -> u32 {
        let entry = StoredEntry::new(key, Arc::new(key), Deadline::NEVER);
        stripes.add(hash(&key), entry, hash)
    }

    #[test]
    fn entries_keep_their_numbers_while_stripes_grow() {
        let stripes = Stripes::part(&Lines::new(8, true), 0, 3);
        let numbers: Vec<u32> = (0..10_000).map(|key| add(&stripes, key)).collect();
        for (key, &number) in (0..).zip(&numbers) {
            assert_eq!(stripes.find(hash(&key), |&one| one == key), Some(number));
            assert_eq!(stripes.look(number, |entry| entry.key), Some(key));
        }
        assert!(*numbers.iter().max().unwrap() < 12_000);
    }

    #[test]
    fn what_is_taken_is_gone_and_its_number_used_again() {
        let stripes = Stripes::part(&Lines::new(1, false), 0, 0);
        let number = add(&stripes, 1);
        assert_eq!(stripes.take(number, hash).map(|entry| entry.key), Some(1));
        assert!(stripes.take(number, hash).is_none());
        assert!(stripes.look(number, |_| ()).is_none());
        assert!(stripes.find(hash(&1), |_| true).is_none());
        assert_eq!(add(&stripes, 2), number);
    }
}
