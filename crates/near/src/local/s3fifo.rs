//! S3-FIFO: entries that were read only once are evicted early.
//!
//! A new entry joins main while the store fills, later the small queue. There it is young at first:
//! hits that come with the insertion do not count. To free space, the oldest entry of small moves
//! to main if it was read since; otherwise it is evicted and its key is remembered as a ghost, by
//! which it goes straight to main if it returns. Main is a clock: its oldest entry goes to the end
//! with its mark lowered if it was read, and is evicted otherwise. Main stays within its share;
//! that is checked first.
//!
//! Why these shares: docs/decisions/0021-near-local-store.md.

use super::ghosts::Ghosts;
use super::queues::{Queues, Which};

/// Percent of the weight that small has when main is full.
const SMALL_PERCENT: u64 = 15;
/// Percent of small that is young.
const YOUNG_PERCENT: u64 = 40;
/// Entries that an insertion lets grow up at most: one more than it adds, so that none is left.
const GROWN_PER_INSERT: usize = 2;
/// Entries that one search for a victim sends to main's end at most.
const TURNS_MAX: u32 = 128;

/// The two queues and the ghosts of evicted keys.
#[derive(Debug)]
pub(super) struct S3Fifo {
    queues: Queues,
    ghosts: Ghosts,
    main_max: u64,
    young_max: u64,
}

/// Access to entries, as the policy needs it.
pub(super) trait Marks {
    /// The entry's mark, which is replaced by the result of `next`.
    fn take(&self, number: u32, next: fn(u64) -> u64) -> u64;
    /// The entry's weight.
    fn weight(&self, number: u32) -> u32;
    /// The hash of the entry's key.
    fn hash(&self, number: u32) -> u64;
}

impl S3Fifo {
    pub(super) fn new(weight_max: u64) -> S3Fifo {
        let small = percent_of(SMALL_PERCENT, weight_max);
        S3Fifo {
            queues: Queues::new(),
            ghosts: Ghosts::default(),
            main_max: weight_max - small,
            young_max: percent_of(YOUNG_PERCENT, small),
        }
    }

    /// Takes an entry in.
    pub(super) fn insert(&mut self, number: u32, hash: u64, weight: u32, marks: &impl Marks) {
        let is_ghost = self.ghosts.take(hash);
        let main = self.queues.weight(Which::Main) + u64::from(weight);
        let which = if is_ghost || main <= self.main_max {
            Which::Main
        } else {
            Which::Young
        };
        self.queues.push(which, number, weight);
        self.age(marks);
    }

    /// Forgets an entry.
    pub(super) fn remove(&mut self, number: u32, weight: u32) {
        self.queues.remove(number, weight);
    }

    /// An entry weighs something else now.
    pub(super) fn reweigh(&mut self, number: u32, before: u32, weight: u32) {
        self.queues.reweigh(number, before, weight);
    }

    /// The entry to evict, `None` if there is none; it stays in its queue until removed.
    pub(super) fn victim(&mut self, marks: &impl Marks, entries: usize) -> Option<u32> {
        while self.queues.weight(Which::Main) <= self.main_max {
            let grown = self.queues.first(Which::Grown);
            let Some(number) = grown.or_else(|| self.queues.first(Which::Young)) else {
                break;
            };
            if marks.take(number, |_| 0) == 0 {
                self.ghosts.insert(marks.hash(number), entries);
                return Some(number);
            }
            self.send(number, Which::Main, marks.weight(number));
        }
        self.victim_of_main(marks)
    }

    /// Ends the youth of entries behind the young part of small; their marks are reset.
    fn age(&mut self, marks: &impl Marks) {
        for _ in 0..GROWN_PER_INSERT {
            if self.queues.weight(Which::Young) <= self.young_max {
                return;
            }
            let Some(number) = self.queues.first(Which::Young) else {
                return;
            };
            marks.take(number, |_| 0);
            self.send(number, Which::Grown, marks.weight(number));
        }
    }

    fn victim_of_main(&mut self, marks: &impl Marks) -> Option<u32> {
        for _ in 0..TURNS_MAX {
            let number = self.queues.first(Which::Main)?;
            if marks.take(number, |mark| mark - 1) == 0 {
                return Some(number);
            }
            self.send(number, Which::Main, marks.weight(number));
        }
        self.queues.first(Which::Main)
    }

    /// Moves an entry to the end of a queue.
    fn send(&mut self, number: u32, which: Which, weight: u32) {
        self.queues.remove(number, weight);
        self.queues.push(which, number, weight);
    }

    /// Forgets the keys that left.
    pub(super) fn forget(&mut self) {
        self.ghosts.clear();
    }
}

fn percent_of(percent: u64, weight: u64) -> u64 {
    (u128::from(weight) * u128::from(percent) / 100) as u64
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Marks by number; all weigh one.
    struct Marked(RefCell<Vec<u64>>);

    impl Marks for Marked {
        fn take(&self, number: u32, next: fn(u64) -> u64) -> u64 {
            let mark = &mut self.0.borrow_mut()[number as usize];
            let before = *mark;
            *mark = if before == 0 { 0 } else { next(before) };
            before
        }

        fn weight(&self, _: u32) -> u32 {
            1
        }

        fn hash(&self, number: u32) -> u64 {
            rapidhash::v3::rapidhash_v3(&number.to_le_bytes())
        }
    }

    /// A policy for 100 entries that has taken in 0 to 99: 85 in main, then 15 in small.
    fn full() -> (S3Fifo, Marked) {
        let (mut policy, marks) = (S3Fifo::new(100), Marked(RefCell::new(vec![0; 200])));
        (0..100).for_each(|number| policy.insert(number, marks.hash(number), 1, &marks));
        (policy, marks)
    }

    fn evict(policy: &mut S3Fifo, marks: &Marked) -> u32 {
        let number = policy.victim(marks, 100).unwrap();
        policy.remove(number, 1);
        number
    }

    #[test]
    fn what_nobody_read_leaves_small_first() {
        let (mut policy, marks) = full();
        assert_eq!(
            (0..3)
                .map(|_| evict(&mut policy, &marks))
                .collect::<Vec<_>>(),
            [85, 86, 87]
        );
    }

    #[test]
    fn what_was_read_in_small_moves_to_main_whose_oldest_unread_leaves() {
        let (mut policy, marks) = full();
        for read in [0, 1, 85] {
            marks.0.borrow_mut()[read] = 2;
        }
        assert_eq!(evict(&mut policy, &marks), 2);
        assert_eq!(evict(&mut policy, &marks), 86);
        assert_eq!(marks.0.borrow()[..2], [1, 1]);
        assert_eq!(marks.0.borrow()[85], 0);
    }

    #[test]
    fn what_is_read_only_while_it_is_young_leaves() {
        let (mut policy, marks) = full();
        for read in [90, 95] {
            marks.0.borrow_mut()[read] = 2;
        }
        let turn = |number| {
            let left = evict(&mut policy, &marks);
            policy.insert(number, marks.hash(number), 1, &marks);
            left
        };
        let left = (100..115).map(turn).collect::<Vec<_>>();
        assert!(left.contains(&95) && !left.contains(&90), "{left:?}");
    }

    #[test]
    fn a_key_that_returns_soon_goes_to_main() {
        let (mut policy, marks) = full();
        assert_eq!(evict(&mut policy, &marks), 85);
        policy.insert(85, marks.hash(85), 1, &marks);
        // Main is over its share now, so its oldest entry is evicted.
        assert_eq!(evict(&mut policy, &marks), 0);
    }

    #[test]
    fn a_search_ends_however_much_was_read() {
        let (mut policy, marks) = (S3Fifo::new(200), Marked(RefCell::new(vec![3; 200])));
        (0..200).for_each(|number| policy.insert(number, marks.hash(number), 1, &marks));
        let number = policy.victim(&marks, 200).unwrap();
        assert!(
            marks.0.borrow().iter().filter(|&&mark| mark == 3).count() > 40,
            "{number}"
        );
    }
}
