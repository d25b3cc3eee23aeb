//! Loom: what flags of the near cache promise, in any order of two threads and whatever they see of
//! each other's memory. A sweep misses nothing that was void before a flush that began none; what
//! was sent before a lane was woken is seen by a poll after it. Run by `make loom`.
#![cfg(cellar_loom)]

#[path = "../src/read_through/store/sweep_flag.rs"]
mod sweep_flag;
#[path = "../src/read_through/lane/turns.rs"]
mod turns;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use sweep_flag::SweepFlag;
use turns::Turns;

#[test]
fn a_sweep_that_is_ahead_sees_what_a_later_flush_made_void() {
    loom::model(|| {
        let flag = Arc::new(SweepFlag::new());
        // An entry, void or not; Relaxed, so that nothing but the flag orders it.
        let is_void = Arc::new(AtomicBool::new(false));
        // An earlier flush has begun a sweep that is on its way.
        assert!(flag.raise());
        let flush = thread::spawn({
            let (flag, is_void) = (Arc::clone(&flag), Arc::clone(&is_void));
            move || {
                is_void.store(true, Ordering::Relaxed);
                flag.raise()
            }
        });
        flag.lower();
        let is_seen = is_void.load(Ordering::Relaxed);
        let begins_another = flush.join().expect("the flush ends");
        assert!(is_seen || begins_another, "nobody sweeps the void entry");
    });
}

/// A future that several threads may poll, what was sent to it, and what it has seen of that.
struct Polled {
    turns: Turns,
    /// One poll at a time; what it guards is not ordered by anything but the turns.
    is_polled: AtomicBool,
    // Relaxed, so that nothing but the turns orders them.
    sent: [AtomicBool; 2],
    seen: [AtomicBool; 2],
    /// Polls that were left to the task.
    left: AtomicUsize,
}

impl Polled {
    fn new() -> Arc<Polled> {
        let flags = || [AtomicBool::new(false), AtomicBool::new(false)];
        Arc::new(Polled {
            turns: Turns::new(),
            is_polled: AtomicBool::new(false),
            sent: flags(),
            seen: flags(),
            left: AtomicUsize::new(0),
        })
    }

    /// Sends, wakes, and polls if nobody does; passes the turn where `passes`.
    fn send(&self, number: usize, passes: bool) {
        self.sent[number].store(true, Ordering::Relaxed);
        if self.turns.wake() {
            self.drive(passes);
        }
    }

    fn drive(&self, passes: bool) {
        if !self.turns.take() {
            return;
        }
        loop {
            let other = self.is_polled.swap(true, Ordering::Relaxed);
            assert!(!other, "two poll at once");
            for (sent, seen) in self.sent.iter().zip(&self.seen) {
                seen.store(sent.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.is_polled.store(false, Ordering::Relaxed);
            if self.turns.end() {
                return;
            }
            if passes {
                self.turns.pass();
                self.left.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}

#[test]
fn a_lane_that_was_woken_is_polled_by_one_who_sees_what_was_sent() {
    for passes in [false, true] {
        loom::model(move || {
            let lane = Polled::new();
            lane.drive(false);
            let other = thread::spawn({
                let lane = Arc::clone(&lane);
                move || lane.send(1, passes)
            });
            lane.send(0, false);
            other.join().expect("the other ends");
            if lane.left.load(Ordering::Relaxed) > 0 {
                lane.drive(false);
            }
            let seen = lane.seen.iter().all(|seen| seen.load(Ordering::Relaxed));
            assert!(seen, "something that was sent is not seen");
        });
    }
}
