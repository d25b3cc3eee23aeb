//! Claims: what a section does in several shards is one step to everybody else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use cellar_engine::{
    Cache, Claims, Config, DeleteOptions, Extended, Intent, Item, Key, SetOptions, mark_waits_in,
};

/// Rounds of threads that meet by chance.
const ROUNDS: u64 = if cfg!(miri) { 20 } else { 3_000 };

/// A cache, and names of keys in as many shards of it, the lowest shard first.
struct Fixture {
    cache: Cache,
    names: Vec<String>,
}

impl Fixture {
    fn of(shards: usize) -> Fixture {
        let mut config = Config::with_memory(16 << 20);
        config.shards = Some(8);
        config.seed = Some(1);
        let cache = Cache::new(config).unwrap();
        let mut names: Vec<String> = Vec::new();
        // A claim of one shard tells which keys lie there.
        for number in 0.. {
            let name = format!("key{number}");
            let key = cache.key(name.as_bytes()).unwrap();
            let is_new = names.iter().all(|other| {
                let claims = cache.claim([cache.key(other.as_bytes()).unwrap()], Intent::Read);
                !claims.covers(key)
            });
            if is_new {
                names.push(name);
            }
            if names.len() == 8 {
                break;
            }
        }
        names.sort_by_key(|name| cache.key(name.as_bytes()).unwrap().hash());
        names.truncate(shards);
        Fixture { cache, names }
    }

    fn key(&self, number: usize) -> Key<'_> {
        self.cache.key(self.names[number].as_bytes()).unwrap()
    }

    fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        (0..self.names.len()).map(|number| self.key(number))
    }

    fn set(&self, number: usize, value: u64) {
        let options = SetOptions::default();
        let stored = self
            .cache
            .set(self.key(number), &value.to_le_bytes(), &options);
        stored.unwrap();
    }

    fn set_all(&self, value: u64) {
        (0..self.names.len()).for_each(|number| self.set(number, value));
    }

    fn get(&self, number: usize) -> u64 {
        let read = |item: Item<'_>| item.value.try_into().unwrap();
        u64::from_le_bytes(self.cache.get(self.key(number), read).unwrap())
    }
}

/// Waits until a thread that has given this mark to [`mark_waits_in`] waits for a claim.
fn until_it_waits(mark: &AtomicBool) {
    while !mark.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

fn marked() -> Arc<AtomicBool> {
    let mark = Arc::new(AtomicBool::new(false));
    mark_waits_in(Arc::clone(&mark));
    mark
}

/// Runs `run` on a thread that waits for a claim while `meanwhile` runs.
fn beside<R: Send>(run: impl FnOnce() -> R + Send, meanwhile: impl FnOnce()) -> R {
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let waits = scope.spawn(move || {
            tell.send(marked()).unwrap();
            run()
        });
        until_it_waits(&told.recv().unwrap());
        meanwhile();
        waits.join().unwrap()
    })
}

#[test]
fn nobody_sees_half_of_a_section() {
    let fixture = Fixture::of(4);
    fixture.set_all(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let _claims = fixture.cache.claim(fixture.keys(), Intent::Write);
                        let next = fixture.get(0) + 1;
                        fixture.set_all(next);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let claims = fixture.cache.claim(fixture.keys(), Intent::Read);
                let seen: Vec<u64> = (0..4).map(|number| fixture.get(number)).collect();
                drop(claims);
                assert!(seen.iter().all(|&one| one == seen[0]), "{seen:?}");
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Two reads of plain clients: what is seen first in one is seen in all behind it.
                let (first, last) = (fixture.get(0), fixture.get(3));
                assert!(last >= first, "{last} after {first}");
                let (last, first) = (fixture.get(3), fixture.get(0));
                assert!(first >= last, "{first} after {last}");
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let Some(mut snapshot) = fixture.cache.snapshot(fixture.keys()) else {
                    continue;
                };
                let mut seen = Vec::new();
                let keys: [Key<'_>; 4] = std::array::from_fn(|number| fixture.key(number));
                let read = |_, item: Option<Item<'_>>| seen.push(item.unwrap().value.to_vec());
                fixture.cache.get_many(&keys, Some(&mut snapshot), read);
                if snapshot.is_still() {
                    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
                }
            }
        });
        writers.into_iter().for_each(|one| one.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(fixture.get(0), 2 * ROUNDS, "no section was lost");
}

#[test]
fn sections_on_other_shards_and_reads_beside_a_reader_go_on() {
    let fixture = Fixture::of(4);
    fixture.set_all(7);
    let claims = fixture.cache.claim([fixture.key(0)], Intent::Read);
    thread::scope(|scope| {
        let done = scope.spawn(|| {
            let own = fixture.cache.claim([fixture.key(1)], Intent::Write);
            fixture.set(1, 8);
            drop(own);
            fixture.set(2, 9);
            fixture.get(0)
        });
        assert_eq!(done.join().unwrap(), 7);
    });
    drop(claims);
}

#[test]
fn an_operation_waits_for_the_end_of_a_section_and_is_woken() {
    for write_first in [false, true] {
        let fixture = Fixture::of(2);
        fixture.set_all(1);
        let claims = fixture.cache.claim(fixture.keys(), Intent::Write);
        if write_first {
            fixture.set(0, 2);
        }
        let run = || match write_first {
            true => fixture.get(0),
            false => {
                fixture
                    .cache
                    .delete(fixture.key(0), &DeleteOptions::default())
                    .unwrap();
                0
            }
        };
        let seen = beside(run, || {
            fixture.set(0, 3);
            fixture.set(1, 3);
            drop(claims);
        });
        assert_eq!(seen, if write_first { 3 } else { 0 });
        assert!(cellar_engine::claim_releases() > 0);
    }
}

#[test]
fn a_section_that_panics_releases_what_it_claimed() {
    let fixture = Fixture::of(2);
    fixture.set_all(1);
    thread::scope(|scope| {
        let failed = scope.spawn(|| {
            let _claims = fixture.cache.claim(fixture.keys(), Intent::Write);
            fixture.set(0, 2);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(failed.join().is_err());
    });
    assert_eq!(fixture.get(0), 2);
    fixture.set_all(3);
    drop(fixture.cache.claim(fixture.keys(), Intent::Write));
}

#[test]
fn who_waits_for_long_comes_before_those_that_claim_again() {
    let fixture = Fixture::of(1);
    fixture.set_all(1);
    let claim = || fixture.cache.claim([fixture.key(0)], Intent::Write);
    let claims = claim();
    // From the first write of a section on, reads wait for its end.
    fixture.set(0, 2);
    let seen = beside(
        || fixture.get(0),
        || {
            // paced: after this long, a release lets parked threads go first.
            thread::sleep(Duration::from_millis(1));
            drop(claims);
            // The thread that waits is still asleep, and this claim is not given before it is not.
            let _again = claim();
            fixture.set(0, 3);
        },
    );
    assert_eq!(seen, 2);
}

#[test]
fn a_section_extends_its_claims_in_any_order() {
    let fixture = Fixture::of(4);
    let claims = fixture.cache.claim([fixture.key(2)], Intent::Write);
    for number in [3, 0, 2, 1] {
        assert_eq!(claims.extend(fixture.key(number)), Extended::Claimed);
        assert!(claims.covers(fixture.key(number)));
    }
    assert_eq!(claims.extend_to_all(), Extended::Claimed);
    thread::scope(|scope| {
        let cache = &fixture.cache;
        let other = scope.spawn(move || {
            let none: [Key<'_>; 0] = [];
            let claims: Claims<'_> = cache.claim(none, Intent::Read);
            claims.extend(cache.key(b"any").unwrap())
        });
        assert_eq!(other.join().unwrap(), Extended::Busy);
    });
}

#[test]
fn a_section_that_extends_waits_for_one_that_ends() {
    let fixture = Fixture::of(2);
    fixture.set_all(1);
    let claims = fixture.cache.claim([fixture.key(0)], Intent::Write);
    let extended = beside(
        || {
            let claims = fixture.cache.claim([fixture.key(1)], Intent::Write);
            let extended = claims.extend_waiting(fixture.key(0));
            (extended, fixture.get(0))
        },
        || {
            fixture.set(0, 2);
            drop(claims);
        },
    );
    assert_eq!(extended, (Extended::Claimed, 2));
}

#[test]
fn sections_that_have_not_begun_give_way_to_one_that_extends() {
    let fixture = Fixture::of(3);
    fixture.set_all(1);
    // Holds the highest, and will want the lowest.
    let claims = fixture.cache.claim([fixture.key(2)], Intent::Write);
    let seen = beside(
        || {
            // Has the lowest, and waits for the highest.
            let _claims = fixture.cache.claim(fixture.keys(), Intent::Write);
            fixture.get(0)
        },
        || {
            assert_eq!(claims.extend(fixture.key(0)), Extended::Busy);
            assert_eq!(claims.extend_waiting(fixture.key(0)), Extended::Claimed);
            fixture.set(0, 2);
            drop(claims);
        },
    );
    assert_eq!(seen, 2);
}

#[test]
fn of_two_sections_that_want_what_the_other_has_one_is_told_so() {
    for _ in 0..if cfg!(miri) { 3 } else { 100 } {
        let fixture = Fixture::of(2);
        let (start, conflicts) = (Barrier::new(2), AtomicU64::new(0));
        thread::scope(|scope| {
            for (own, other) in [(0, 1), (1, 0)] {
                let (fixture, start, conflicts) = (&fixture, &start, &conflicts);
                scope.spawn(move || {
                    let claims = fixture.cache.claim([fixture.key(own)], Intent::Write);
                    fixture.set(own, 1);
                    start.wait();
                    if claims.extend_waiting(fixture.key(other)) == Extended::Conflict {
                        conflicts.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(conflicts.into_inner(), 1);
    }
}

#[test]
fn sections_that_extend_by_chance_all_come_to_an_end() {
    let fixture = Fixture::of(6);
    fixture.set_all(0);
    let (ended, conflicts) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (fixture, ended, conflicts) = (&fixture, &ended, &conflicts);
            scope.spawn(move || {
                let mut random = thread + 88_172_645_463_325_252;
                let mut next = |bound: u64| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (random >> 20) % bound
                };
                for _ in 0..ROUNDS / 3 {
                    let declared: Vec<_> = (0..1 + next(3)).map(|_| next(6) as usize).collect();
                    let keys = declared.iter().map(|&number| fixture.key(number));
                    let claims = fixture.cache.claim(keys, Intent::Write);
                    let others = (0..next(3)).map(|_| next(6) as usize);
                    let others: Vec<_> = others.collect();
                    let is_refused = |&&number: &&usize| {
                        claims.extend_waiting(fixture.key(number)) == Extended::Conflict
                    };
                    if others.iter().find(is_refused).is_some() {
                        conflicts.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    for number in declared.into_iter().chain(others) {
                        fixture.set(number, fixture.get(number) + 1);
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let sum: u64 = (0..6).map(|number| fixture.get(number)).sum();
    assert_eq!(sum, ended.into_inner(), "no addition was lost");
}

#[test]
fn maintenance_waits_for_no_section() {
    let fixture = Fixture::of(2);
    fixture.set_all(1);
    let claims = fixture.cache.claim_all(Intent::Write);
    fixture.set(0, 2);
    thread::scope(|scope| {
        let items = scope.spawn(|| {
            fixture.cache.tick();
            fixture.cache.stats().items
        });
        assert_eq!(items.join().unwrap(), 2);
    });
    drop(claims);
    assert_eq!((fixture.get(0), fixture.get(1)), (2, 1));
}

#[test]
fn reads_of_a_snapshot_under_the_lock_leave_it_as_it_is_and_changes_of_others_do_not() {
    let fixture = Fixture::of(2);
    let cache = &fixture.cache;
    let [first, second] = [0, 1].map(|number| fixture.keys().nth(number).unwrap());
    // A long value and a miss are read under the lock.
    let long = vec![b'x'; 10_000];
    cache.set(first, &long, &SetOptions::default()).unwrap();
    let read = |snapshot: &mut _| {
        let mut lengths = Vec::new();
        let length = |_, item: Option<Item<'_>>| lengths.push(item.map(|item| item.value.len()));
        cache.get_many(&[first, second], Some(snapshot), length);
        assert_eq!(lengths, [Some(10_000), None]);
    };
    let mut snapshot = cache.snapshot([first, second]).unwrap();
    read(&mut snapshot);
    read(&mut snapshot);
    assert!(snapshot.is_still());
    // Another's change before, between and behind the reads of a shard.
    for place in 0..3 {
        let mut snapshot = cache.snapshot([first, second]).unwrap();
        let change = || cache.set(first, &long, &SetOptions::default()).unwrap();
        for turn in 0..2 {
            if turn == place {
                change();
            }
            read(&mut snapshot);
        }
        if place == 2 {
            change();
        }
        assert!(!snapshot.is_still(), "{place}");
    }
}
