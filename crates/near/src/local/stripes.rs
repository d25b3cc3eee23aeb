//! Where entries lie: by number, in stripes that have a lock each.
//!
//! Consecutive numbers lie in different stripes, so that popular entries do not share a lock and
//! no stripe's memory is much larger than another's. The locks are few enough to stay in a core's
//! first cache, which a lock for each entry would not, and many enough for readers to meet rarely.
//! Readers share them; a writer holds one for the few instructions that change an entry.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::entry::Entry;

/// Places of a stripe that gets its first entry.
const FIRST: usize = 4;

/// The entries of a shard.
#[derive(Debug)]
pub(super) struct Stripes<K, V> {
    stripes: Box<[Line<K, V>]>,
    /// How many bits of a number choose the stripe.
    bits: u32,
    /// Places of each stripe, at most.
    places_max: usize,
    has_stamps: bool,
}

/// A stripe on lines of its own: readers of one do not slow readers of another.
#[repr(align(128))]
#[derive(Debug)]
struct Line<K, V>(RwLock<Stripe<K, V>>);

#[derive(Debug)]
struct Stripe<K, V> {
    entries: Vec<Option<Entry<K, V>>>,
    /// When each was last used, if that is asked for.
    stamps: Vec<AtomicU64>,
}

impl<K, V> Stripes<K, V> {
    /// No entries yet; at most `entries_max`, with or without stamps, in about `stripes` stripes.
    pub(super) fn new(entries_max: u32, stripes: usize, has_stamps: bool) -> Stripes<K, V> {
        let count = stripes
            .clamp(1, entries_max.max(1) as usize)
            .next_power_of_two();
        let stripe = || {
            Line(RwLock::new(Stripe {
                entries: Vec::new(),
                stamps: Vec::new(),
            }))
        };
        Stripes {
            stripes: (0..count).map(|_| stripe()).collect(),
            bits: count.ilog2(),
            places_max: (entries_max as usize).div_ceil(count),
            has_stamps,
        }
    }

    /// What `ask` says about the entry of this number, if there is one.
    #[inline]
    pub(super) fn look<R>(
        &self,
        number: u32,
        ask: impl FnOnce(&Entry<K, V>) -> Option<R>,
    ) -> Option<R> {
        let stripe = self.stripe(number).read();
        ask(stripe.entries.get(self.place(number))?.as_ref()?)
    }

    /// The same for a reader, who may also stamp the entry.
    #[inline]
    pub(super) fn read<R>(
        &self,
        number: u32,
        ask: impl FnOnce(&Entry<K, V>, Option<&AtomicU64>) -> Option<R>,
    ) -> Option<R> {
        let (stripe, place) = (self.stripe(number).read(), self.place(number));
        let entry = stripe.entries.get(place)?.as_ref()?;
        ask(entry, stripe.stamps.get(place))
    }

    /// Changes the entry of this number, if there is one.
    pub(super) fn change<R>(
        &self,
        number: u32,
        change: impl FnOnce(&mut Option<Entry<K, V>>) -> Option<R>,
    ) -> Option<R> {
        let mut stripe = self.stripe(number).write();
        change(stripe.entries.get_mut(self.place(number))?)
    }

    /// Puts an entry where none is.
    pub(super) fn put(&self, number: u32, entry: Entry<K, V>) {
        let place = self.place(number);
        let mut stripe = self.stripe(number).write();
        if place >= stripe.entries.len() {
            self.enlarge(&mut stripe, place + 1);
        }
        stripe.entries[place] = Some(entry);
    }

    /// When the entry of this number was last used; zero if that is not known.
    pub(super) fn stamp(&self, number: u32) -> u64 {
        let stripe = self.stripe(number).read();
        let stamp = stripe.stamps.get(self.place(number));
        // Relaxed: stamps order hits, nothing else.
        stamp.map_or(0, |stamp| stamp.load(Ordering::Relaxed))
    }

    #[inline]
    fn stripe(&self, number: u32) -> &RwLock<Stripe<K, V>> {
        &self.stripes[number as usize & (self.stripes.len() - 1)].0
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        (number >> self.bits) as usize
    }

    /// Makes room by a quarter at a time, so that little of it stays unused.
    fn enlarge(&self, stripe: &mut Stripe<K, V>, places: usize) {
        let length = stripe.entries.len();
        if places > stripe.entries.capacity() {
            let wanted = (length + length / 4 + FIRST).min(self.places_max);
            let more = wanted.max(places) - length;
            stripe.entries.reserve_exact(more);
            if self.has_stamps {
                stripe.stamps.reserve_exact(more);
            }
        }
        stripe.entries.resize_with(places, || None);
        if self.has_stamps {
            stripe.stamps.resize_with(places, AtomicU64::default);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::entry::Deadline;
    use super::*;

    fn entry(number: u32) -> Entry<u32, u32> {
        Entry::new(number, Arc::new(number), Deadline::NEVER)
    }

    #[test]
    fn entries_stay_where_they_were_put_while_room_is_made() {
        let stripes = Stripes::new(1_000, 8, false);
        (0..1_000).for_each(|number| stripes.put(number, entry(number)));
        for number in 0..1_000 {
            let key = stripes.look(number, |entry| Some(entry.key));
            assert_eq!(key, Some(number));
        }
        let taken = stripes.change(7, Option::take).map(|entry| entry.key);
        assert_eq!(taken, Some(7));
        assert!(stripes.look(7, |_| Some(())).is_none());
        assert!(stripes.look(5_000, |_| Some(())).is_none());
    }

    #[test]
    fn full_stripes_have_no_room_beyond_their_bound() {
        let stripes = Stripes::new(1_000, 8, true);
        (0..1_000).for_each(|number| stripes.put(number, entry(number)));
        for line in &stripes.stripes {
            let stripe = line.0.read();
            assert_eq!(
                (stripe.entries.capacity(), stripe.stamps.capacity()),
                (125, 125)
            );
        }
    }

    #[test]
    fn there_are_never_more_stripes_than_a_small_shard_can_use() {
        assert_eq!(Stripes::<u32, u32>::new(3, 64, false).stripes.len(), 4);
        assert_eq!(Stripes::<u32, u32>::new(0, 64, false).stripes.len(), 1);
    }
}
