//! Loom: a sweep misses nothing that was void before a flush that began none, in any order of two
//! threads and whatever they see of each other's memory. Run by `make loom`.
#![cfg(cellar_loom)]

#[path = "../src/read_through/store/sweep_flag.rs"]
mod sweep_flag;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use sweep_flag::SweepFlag;

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
