//! LRU: evicts the entry that was inserted or read longest ago.
//!
//! A hit takes no exclusive lock, so it moves nothing: it stamps the entry with the next number of
//! a counter. The order is by the known stamps, which are never later than the real ones. So if the
//! first of the order has no later stamp, it is the victim; else it moves to its position by its
//! real stamp, and the next is checked. Each hit causes one move at most, and the order is strict.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers hits.
#[derive(Debug, Default)]
pub(super) struct Ticks(AtomicU64);

impl Ticks {
    /// The next number. Hits of different threads at the same moment may be numbered in any order.
    pub(super) fn next(&self) -> u64 {
        // Relaxed: the numbers order hits, nothing else.
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Stamps a hit.
    #[inline(never)]
    pub(super) fn stamp(&self, stamp: &AtomicU64) {
        // Relaxed: a stamp orders hits, nothing else.
        stamp.store(self.next(), Ordering::Relaxed);
    }
}

/// The order of the stamps as they were known last.
#[derive(Debug, Default)]
pub(super) struct Lru {
    order: BTreeMap<u64, u32>,
    /// The stamp by which each number is ordered.
    known: Vec<u64>,
}

impl Lru {
    /// Takes an entry in as the one used last.
    pub(super) fn insert(&mut self, number: u32, stamp: u64) {
        if self.known.len() <= number as usize {
            self.known.resize(number as usize + 1, 0);
        }
        self.place(number, stamp);
    }

    /// An entry was used now, by a writer.
    pub(super) fn touch(&mut self, number: u32, stamp: u64) {
        self.remove(number);
        self.place(number, stamp);
    }

    /// Forgets an entry.
    pub(super) fn remove(&mut self, number: u32) {
        self.order.remove(&self.known[number as usize]);
    }

    /// The entry to evict, `None` if there is none; it stays until it is removed. `stamp_of`
    /// returns the last use of an entry; an entry without one was not used since.
    pub(super) fn victim(&mut self, stamp_of: impl Fn(u32) -> u64) -> Option<u32> {
        // Readers may continue meanwhile; each entry moves once.
        for _ in 0..self.order.len() {
            let (&known, &number) = self.order.first_key_value()?;
            let stamp = stamp_of(number);
            if stamp <= known {
                break;
            }
            self.order.remove(&known);
            self.place(number, stamp);
        }
        self.order.first_key_value().map(|(_, &number)| number)
    }

    fn place(&mut self, number: u32, stamp: u64) {
        self.known[number as usize] = stamp;
        self.order.insert(stamp, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_victim_is_always_the_one_used_longest_ago() {
        let ticks = Ticks::default();
        let mut stamps = [0; 100];
        let mut lru = Lru::default();
        assert_eq!(lru.victim(|number| stamps[number as usize]), None);
        for number in 0..100 {
            stamps[number as usize] = ticks.next();
            lru.insert(number, stamps[number as usize]);
        }
        (0..50)
            .rev()
            .for_each(|number| stamps[number] = ticks.next());
        lru.remove(60);
        let mut left = Vec::new();
        while let Some(number) = lru.victim(|number| stamps[number as usize]) {
            lru.remove(number);
            left.push(number);
        }
        let expected = (50..100)
            .filter(|&number| number != 60)
            .chain((0..50).rev());
        assert_eq!(left, expected.collect::<Vec<u32>>());
    }
}
