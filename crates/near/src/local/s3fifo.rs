//! S3-FIFO: what was read only once leaves early.
//!
//! A new entry joins main while the store fills, later the small queue. When room is needed, the
//! oldest entry of small moves to main if it was read since, else it leaves and its key is
//! remembered as a ghost, which brings it straight to main if it returns. Main is a clock: the
//! oldest entry that was read goes to its end with its mark lowered, else it leaves. Main keeps
//! within its share; that is looked at first.
//!
//! Why these shares: docs/decisions/0021-near-local-store.md.

use super::ghosts::Ghosts;
use super::queues::{Queues, Which};

/// Percent of the weight that small has when main is full.
const SMALL_PERCENT: u64 = 15;
/// Entries that one search for a victim sends to main's end at most.
const TURNS_MAX: u32 = 128;

/// The two queues and what left them.
#[derive(Debug)]
pub(super) struct S3Fifo {
    queues: Queues,
    ghosts: Ghosts,
    main_max: u64,
}

/// What the policy asks about an entry.
pub(super) trait Marks {
    /// The entry's mark, which becomes what `next` makes of it.
    fn take(&self, number: u32, next: fn(u64) -> u64) -> u64;
    /// The entry's weight.
    fn weight(&self, number: u32) -> u32;
    /// The hash of the entry's key.
    fn hash(&self, number: u32) -> u64;
}

impl S3Fifo {
    pub(super) fn new(weight_max: u64) -> S3Fifo {
        let small = u128::from(weight_max) * u128::from(SMALL_PERCENT) / 100;
        S3Fifo {
            queues: Queues::new(),
            ghosts: Ghosts::default(),
            main_max: weight_max - small as u64,
        }
    }

    /// Takes an entry in.
    pub(super) fn insert(&mut self, number: u32, hash: u64, weight: u32) {
        let is_ghost = self.ghosts.take(hash);
        let main = self.queues.weight(Which::Main) + u64::from(weight);
        let which = if is_ghost || main <= self.main_max {
            Which::Main
        } else {
            Which::Small
        };
        self.queues.push(which, number, weight);
    }

    /// Forgets an entry.
    pub(super) fn remove(&mut self, number: u32, weight: u32) {
        self.queues.remove(number, weight);
    }

    /// An entry weighs something else now.
    pub(super) fn reweigh(&mut self, number: u32, before: u32, weight: u32) {
        self.queues.reweigh(number, before, weight);
    }

    /// The entry that is to leave, none if there is none; it stays in its queue until removed.
    pub(super) fn victim(&mut self, marks: &impl Marks, entries: usize) -> Option<u32> {
        while self.queues.weight(Which::Main) <= self.main_max {
            let Some(number) = self.queues.first(Which::Small) else {
                break;
            };
            if marks.take(number, |_| 0) == 0 {
                self.ghosts.insert(marks.hash(number), entries);
                return Some(number);
            }
            self.send(number, marks.weight(number));
        }
        self.victim_of_main(marks)
    }

    fn victim_of_main(&mut self, marks: &impl Marks) -> Option<u32> {
        for _ in 0..TURNS_MAX {
            let number = self.queues.first(Which::Main)?;
            if marks.take(number, |mark| mark - 1) == 0 {
                return Some(number);
            }
            self.send(number, marks.weight(number));
        }
        self.queues.first(Which::Main)
    }

    /// Moves an entry to the end of main.
    fn send(&mut self, number: u32, weight: u32) {
        self.queues.remove(number, weight);
        self.queues.push(Which::Main, number, weight);
    }

    /// Forgets the keys that left.
    pub(super) fn forget(&mut self) {
        self.ghosts.clear();
    }
}
