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

use super::shards::Shards;
use crate::base::clock::Stopwatch;
use crate::store::CheckProgress;

/// Checks all items that are not checked yet, by so many threads, as long as `goes_on` says so;
/// whether none is left. Calls `pause` after each step with the time that it took.
pub(super) fn check_all(
    progress: &CheckProgress,
    shards: &Shards,
    threads: usize,
    goes_on: &(impl Fn() -> bool + Sync),
    pause: fn(Duration),
) -> bool {
    if progress.is_done() {
        return true;
    }
    let threads = threads.clamp(1, shards.len());
    let check = |first: usize| {
        let mut is_left = true;
        while is_left && goes_on() {
            is_left = false;
            for at in (first..shards.len()).step_by(threads) {
                let stopwatch = Stopwatch::start();
                is_left |= check_step(shards, at) && goes_on();
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
    progress.is_done()
}

/// Checks one segment of a shard; whether others may be left.
fn check_step(shards: &Shards, at: usize) -> bool {
    let now = shards.settled();
    let is_left = {
        let shard = shards.lock_own(&shards[at]);
        shard.is_some_and(|mut shard| {
            shard.begin(now);
            shard.store.check_next(now)
        })
    };
    // Threads that wait for the shard's lock go first.
    std::thread::yield_now();
    is_left
}
