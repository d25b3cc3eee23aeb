//! Check: threads that check the items of a killed process while the cache is in use.
//!
//! Each step locks one shard and checks one of its segments, a thread in one shard after the other,
//! so that requests wait for no more than that. A request for an unchecked item checks it itself
//! (`store/unchecked.rs`).
//!
//! Beside requests the threads pause for as long as each step took. A lower priority would not do:
//! a preempted thread that holds the lock of a shard would block requests.
//!
//! Why: docs/decisions/0085. Tests: tests/unchecked.rs.

use std::time::Duration;

use super::Cache;
use crate::clock::Stopwatch;
use crate::state::StateOptions;

impl Cache {
    /// Whether items of a killed process are not checked yet.
    #[must_use]
    pub fn has_unchecked(&self) -> bool {
        let attached = self.attached.as_ref();
        attached.is_some_and(|attached| !attached.progress.is_done())
    }

    /// Whether items are checked while the cache is in use.
    pub(super) fn checks_later(&self, options: &StateOptions) -> bool {
        let attached = self.attached.as_ref();
        let bytes = attached.map_or(0, |attached| attached.progress.bytes().1);
        options.checks_later_above.is_some_and(|most| bytes > most) && !options.verify
    }

    /// Checks all items that a killed process left and that are not checked yet, by so many
    /// threads, as long as `goes_on` says so; whether none is left.
    pub fn check_left(&self, threads: usize, goes_on: impl Fn() -> bool + Sync) -> bool {
        self.check_all(threads, &goes_on, |_| ())
    }

    /// The same in half of each thread's time, while requests are served.
    pub fn check_beside(&self, threads: usize, goes_on: impl Fn() -> bool + Sync) -> bool {
        self.check_all(threads, &goes_on, std::thread::sleep)
    }

    /// Calls `pause` after each step with the time that it took.
    fn check_all(
        &self,
        threads: usize,
        goes_on: &(impl Fn() -> bool + Sync),
        pause: fn(Duration),
    ) -> bool {
        let Some(attached) = &self.attached else {
            return true;
        };
        if attached.progress.is_done() {
            return true;
        }
        let threads = threads.clamp(1, self.shards.len());
        let check = |first: usize| {
            let mut is_left = true;
            while is_left && goes_on() {
                is_left = false;
                for at in (first..self.shards.len()).step_by(threads) {
                    let stopwatch = Stopwatch::start();
                    is_left |= self.check_step(at) && goes_on();
                    pause(Duration::from_micros(stopwatch.us()));
                }
            }
        };
        std::thread::scope(|scope| {
            for first in 0..threads {
                let check = &check;
                scope.spawn(move || check(first));
            }
        });
        attached.progress.is_done()
    }

    /// Checks one segment of a shard; whether others may be left.
    fn check_step(&self, at: usize) -> bool {
        // As for background maintenance.
        let now = self.shards.settled();
        let is_left = {
            let shard = self.shards.lock_own(&self.shards[at]);
            shard.is_some_and(|mut shard| {
                shard.begin(now);
                shard.store.check_next(now)
            })
        };
        // Threads that wait for the shard's lock go first.
        std::thread::yield_now();
        is_left
    }
}
