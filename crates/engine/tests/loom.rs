//! Loom: what a reader without the lock finds between two looks at an even sequence is what the
//! shard held, in any order of two threads and whatever they see of each other's memory. Run by
//! `make loom`.
#![cfg(cellar_loom)]

#[path = "../src/sequence.rs"]
mod sequence;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use sequence::Sequence;

/// Two words that are the same whenever nobody holds the lock; Relaxed, so that nothing but the
/// sequence orders them.
#[derive(Default)]
struct Words {
    lock: Mutex<()>,
    sequence: Sequence,
    first: AtomicU64,
    second: AtomicU64,
}

impl Words {
    fn write(&self, value: u64, open: bool) {
        let lock = self.lock.lock().expect("nobody panics under it");
        self.sequence.begin();
        self.first.store(value, Ordering::Relaxed);
        self.second.store(value, Ordering::Relaxed);
        self.sequence.end(open);
        drop(lock);
    }

    fn read(&self) -> Option<(u64, u64)> {
        let seen = self.sequence.seen()?;
        let first = self.first.load(Ordering::Relaxed);
        let second = self.second.load(Ordering::Relaxed);
        self.sequence.is_still(seen).then_some((first, second))
    }
}

#[test]
fn what_is_read_is_of_one_moment() {
    loom::model(|| {
        let words = Arc::new(Words::default());
        let writer = thread::spawn({
            let words = Arc::clone(&words);
            move || {
                words.write(1, true);
                words.write(2, true);
            }
        });
        if let Some((first, second)) = words.read() {
            assert_eq!(first, second, "half of a change was seen");
        }
        writer.join().expect("the writer ends");
        assert_eq!(words.read(), Some((2, 2)), "what happened before is seen");
    });
}

#[test]
fn a_second_writer_is_seen_too() {
    loom::model(|| {
        let words = Arc::new(Words::default());
        let writers = [1, 2].map(|value| {
            let words = Arc::clone(&words);
            thread::spawn(move || words.write(value, true))
        });
        if let Some((first, second)) = words.read() {
            assert_eq!(first, second, "half of a change was seen");
        }
        for writer in writers {
            writer.join().expect("a writer ends");
        }
        assert!(words.read().is_some());
    });
}

#[test]
fn a_shard_that_stays_closed_is_read_by_nobody() {
    loom::model(|| {
        let words = Arc::new(Words::default());
        words.write(1, false);
        assert_eq!(words.read(), None);
        let writer = thread::spawn({
            let words = Arc::clone(&words);
            move || words.write(2, true)
        });
        if let Some(found) = words.read() {
            assert_eq!(found, (2, 2), "it was open only behind the second change");
        }
        writer.join().expect("the writer ends");
    });
}
