//! Loom: what a reader without the lock finds between two looks at an even sequence is what the
//! shard held, in any order of two threads and whatever they see of each other's memory. Run by
//! `make loom`.
#![cfg(cellar_loom)]

#[path = "../src/cache/claim.rs"]
#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
mod claim;
#[path = "../src/cache/sequence.rs"]
#[allow(dead_code, reason = "the model uses a part of it")]
mod sequence;

use claim::section::{Extended, Extender, Section, ShardSet, Shards};
use claim::{Claim, Claimant, Intent};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex, MutexGuard};
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

/// Two shards of a number each, with all that stands around a shard's in a cache.
#[derive(Default)]
struct Pair {
    shards: [OneShard; 2],
    extender: Extender,
}

#[derive(Default)]
struct OneShard {
    sequence: Sequence,
    claim: Claim,
    mutex: Mutex<()>,
    number: AtomicU64,
}

impl Shards for Pair {
    type Shard = ();

    fn count(&self) -> usize {
        2
    }

    fn shard(&self, number: usize) -> (&Claim, &Mutex<()>) {
        (&self.shards[number].claim, &self.shards[number].mutex)
    }

    fn open(&self, number: usize, _: &MutexGuard<'_, ()>) {
        let sequence = &self.shards[number].sequence;
        if sequence.is_closed() {
            sequence.end(true);
        }
    }

    fn extender(&self) -> &Extender {
        &self.extender
    }
}

impl Pair {
    fn section(&self, thread: usize, numbers: &[usize]) -> Section<'_, Pair> {
        let mut wanted = ShardSet::default();
        numbers.iter().for_each(|&number| wanted.insert(number));
        Section::begin(self, wanted, (Claimant::number(thread), Intent::Write))
    }

    /// Adds one to a shard's number, as an operation of any thread does it; the sum.
    fn add(&self, thread: usize, number: usize) -> u64 {
        let shard = &self.shards[number];
        let mut guard = shard.mutex.lock().expect("nobody panics under it");
        if shard.claim.is_held() && !shard.claim.is_of(Claimant::number(thread)) {
            guard = shard.claim.wait(&shard.mutex, guard);
        }
        shard.sequence.begin();
        let sum = shard.number.load(Ordering::Relaxed) + 1;
        shard.number.store(sum, Ordering::Relaxed);
        shard.sequence.end(!shard.claim.writes());
        drop(guard);
        sum
    }

    /// Reads a shard's number without its lock.
    fn read(&self, number: usize) -> Option<u64> {
        let shard = &self.shards[number];
        let seen = shard.sequence.seen()?;
        let found = shard.number.load(Ordering::Relaxed);
        shard.sequence.is_still(seen).then_some(found)
    }

    fn sums(&self) -> [u64; 2] {
        [0, 1].map(|number| self.read(number).expect("nobody is at work"))
    }
}

/// Every order with so many switches where a thread could have gone on.
fn model(switches: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(run);
}

#[test]
fn half_of_a_section_is_seen_by_no_read_and_no_operation() {
    model(3, || {
        let pair = Arc::new(Pair::default());
        let writer = thread::spawn({
            let pair = Arc::clone(&pair);
            move || {
                let _section = pair.section(1, &[0, 1]);
                pair.add(1, 1);
                pair.add(1, 0);
            }
        });
        let before = pair.read(1);
        if let (Some(1), Some(after)) = (before, pair.read(0)) {
            assert_eq!(after, 1, "a part was seen before the whole");
        }
        // What one operation sees, the next one sees, too.
        let (first, second) = (pair.add(0, 0), pair.add(0, 1));
        assert!(second >= first, "half of a section was seen");
        writer.join().expect("the writer ends");
        assert_eq!(pair.sums(), [2, 2]);
    });
}

#[test]
fn sections_of_two_threads_are_one_behind_the_other() {
    model(3, || {
        let pair = Arc::new(Pair::default());
        let threads = [1, 2].map(|thread| {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let _section = pair.section(thread, &[0, 1]);
                assert_eq!(pair.add(thread, 0), pair.add(thread, 1));
            })
        });
        for thread in threads {
            thread.join().expect("it ends");
        }
        assert_eq!(pair.sums(), [2, 2]);
    });
}

#[test]
fn a_section_that_extends_downwards_and_one_that_begins_both_end() {
    model(3, || {
        let pair = Arc::new(Pair::default());
        let begins = thread::spawn({
            let pair = Arc::clone(&pair);
            move || {
                let _section = pair.section(1, &[0, 1]);
                assert_eq!(pair.add(1, 0), pair.add(1, 1));
            }
        });
        let section = pair.section(2, &[1]);
        pair.add(2, 1);
        assert_eq!(section.extend_waiting(0), Extended::Claimed);
        pair.add(2, 0);
        drop(section);
        begins.join().expect("it ends");
        assert_eq!(pair.sums(), [2, 2]);
    });
}

#[test]
fn of_two_sections_that_want_each_others_shard_one_at_most_is_refused() {
    model(3, || {
        let pair = Arc::new(Pair::default());
        let extend = |pair: &Pair, thread: usize, own: usize| {
            let section = pair.section(thread, &[own]);
            pair.add(thread, own);
            let extended = section.extend_waiting(1 - own);
            if extended == Extended::Claimed {
                pair.add(thread, 1 - own);
            }
            extended
        };
        let other = thread::spawn({
            let pair = Arc::clone(&pair);
            move || extend(&pair, 1, 0)
        });
        let extended = [extend(&pair, 2, 1), other.join().expect("it ends")];
        let claimed = extended.iter().filter(|&&one| one == Extended::Claimed);
        let claimed = claimed.count() as u64;
        assert!(claimed > 0, "both were refused");
        assert_eq!(pair.sums().iter().sum::<u64>(), 2 + claimed);
    });
}

#[test]
fn a_section_that_gives_up_and_begins_anew_is_noticed_by_nobody() {
    model(3, || {
        let pair = Arc::new(Pair::default());
        let writer = thread::spawn({
            let pair = Arc::clone(&pair);
            move || {
                let section = pair.section(1, &[1]);
                if section.extend(0) == Extended::Busy {
                    drop(section);
                    let _anew = pair.section(1, &[0, 1]);
                    pair.add(1, 1);
                    pair.add(1, 0);
                } else {
                    pair.add(1, 1);
                    pair.add(1, 0);
                }
            }
        });
        let section = pair.section(2, &[0]);
        let sum = pair.add(2, 0);
        assert_eq!(pair.add(2, 0), sum + 1);
        drop(section);
        writer.join().expect("the writer ends");
        assert_eq!(pair.sums(), [3, 1]);
    });
}
