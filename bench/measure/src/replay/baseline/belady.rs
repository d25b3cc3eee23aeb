//! Belady: evicts the item that is read again last, and first those that are never read again.
//!
//! An item that is overwritten or expires before its next read is as good as never read. The item
//! just stored may leave at once. With values of one length no policy misses less; with different
//! lengths this is a good policy, not a bound.

use std::collections::BinaryHeap;

use super::{Contents, Policy};
use crate::replay::trace::{Row, Trace, number};

/// The row of a use that never comes.
const NEVER: u32 = u32::MAX;
/// The use of an item that is not held.
const NOT_HELD: u32 = u32::MAX - 1;

pub(super) struct Belady<'t> {
    rows: &'t [Row],
    /// By row: the next row with the same key.
    next_row: Vec<u32>,
    /// By key: the row of its next use.
    next_use: Vec<u32>,
    /// Next use and key, the last first; entries that are out of date are skipped.
    order: BinaryHeap<(u32, u32)>,
}

impl<'t> Belady<'t> {
    pub(super) fn new(trace: &'t Trace) -> Belady<'t> {
        let mut next_of_key = vec![NEVER; trace.keys.len()];
        let mut next_row = vec![NEVER; trace.rows.len()];
        for (at, row) in trace.rows.iter().enumerate().rev() {
            let next = &mut next_of_key[row.key as usize];
            next_row[at] = std::mem::replace(next, number(at));
        }
        Belady {
            rows: &trace.rows,
            next_row,
            next_use: vec![NOT_HELD; trace.keys.len()],
            order: BinaryHeap::new(),
        }
    }

    /// The next row that reads the item as it is after row `at`.
    fn next_read(&self, key: u32, at: usize, contents: &Contents) -> u32 {
        match self.next_row[at] {
            NEVER => NEVER,
            next => {
                let row = self.rows[next as usize];
                let is_read = !row.is_set && contents.is_live(key, row.at_ms);
                if is_read { next } else { NEVER }
            }
        }
    }
}

impl Policy for Belady<'_> {
    fn used(&mut self, key: u32, at: usize, contents: &Contents) {
        let next = self.next_read(key, at, contents);
        self.next_use[key as usize] = next;
        self.order.push((next, key));
    }

    fn stored(&mut self, key: u32, at: usize, contents: &Contents) {
        self.used(key, at, contents);
    }

    fn overwritten(&mut self, key: u32, at: usize, contents: &Contents) {
        self.used(key, at, contents);
    }

    fn removed(&mut self, key: u32) {
        self.next_use[key as usize] = NOT_HELD;
    }

    fn evict(&mut self, _: u64, _: &Contents) -> u32 {
        loop {
            let (next, key) = self.order.pop().expect("every held item is in the order");
            if self.next_use[key as usize] == next {
                self.next_use[key as usize] = NOT_HELD;
                return key;
            }
        }
    }
}
