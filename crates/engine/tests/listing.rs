//! Listings: an item that is there all the while is listed once, whatever is moved meanwhile.

use std::collections::{HashMap, HashSet};

use cellar_engine::{Cache, Config, DeleteOptions, ScanCursor, SetOptions, Space};
use proptest::prelude::*;

use crate::support::cache::Timed;

/// Steps after which a listing must have come to its end.
const STEPS_MAX: usize = 20_000;

#[test]
fn to_look_at_an_item_in_passing_is_no_read() {
    let timed = Timed::new(4 << 20);
    timed.set("k", b"value", Some(1_000)).unwrap();
    let cache = &timed.cache;
    let key = cache.key(b"k").unwrap();
    let seen = cache.peek(key, |item| (item.value.to_vec(), item.deadline));
    assert_eq!(seen, Some((b"value".to_vec(), timed.deadline(Some(1_000)))));
    assert_eq!(cache.peek(cache.key(b"x").unwrap(), |_| ()), None);
    let stats = cache.stats();
    assert_eq!((stats.gets, stats.misses), (0, 0));
    assert!(!cache.facts(key, |facts| facts.fetched).unwrap());
    cache.get(key, |_| ()).unwrap();
    assert!(cache.facts(key, |facts| facts.fetched).unwrap());
    timed.clock.advance_ms(1_000);
    assert_eq!(cache.peek(key, |_| ()), None);
}

#[test]
fn names_are_the_keys_of_all_spaces_in_the_same_order() {
    let cache = Cache::new(Config::with_memory(16 << 20)).unwrap();
    for number in 0..5_000_u32 {
        let space = Space(number % 3);
        let name = number.to_be_bytes();
        let key = cache.key_in(space, &name).unwrap();
        cache.set(key, b"value", &SetOptions::default()).unwrap();
    }
    let (mut names, mut facts) = (Vec::new(), Vec::new());
    let mut cursor = Some(ScanCursor::START);
    while let Some(at) = cursor {
        cursor = cache.names(at, |space, key| names.push((space, key.to_vec())));
    }
    let mut cursor = Some(ScanCursor::START);
    while let Some(at) = cursor {
        cursor = cache.keys(at, |one| facts.push((one.space, one.key.to_vec())));
    }
    assert_eq!(names.len(), 5_000);
    assert!(names == facts);
}

#[derive(Clone, Debug)]
enum Op {
    Insert { first: u32, keys: u32 },
    Delete { first: u32, keys: u32, keep: u32 },
    Step { listing: u8, steps: u8 },
    Tick,
    Wait,
}

fn op() -> impl Strategy<Value = Op> {
    let scale = if cfg!(miri) { 10 } else { 1 };
    let keys = 1..6_000_u32 / scale;
    prop_oneof![
        4 => (0..20_000 / scale, keys.clone()).prop_map(|(first, keys)| Op::Insert { first, keys }),
        3 => (0..20_000 / scale, keys, 2..12_u32)
            .prop_map(|(first, keys, keep)| Op::Delete { first, keys, keep }),
        8 => (0..3_u8, 1..8_u8).prop_map(|(listing, steps)| Op::Step { listing, steps }),
        2 => Just(Op::Tick),
        1 => Just(Op::Wait),
    ]
}

/// One listing under way: what it has shown, and what was there since it began.
struct Listing {
    cursor: ScanCursor,
    seen: HashSet<u32>,
    steady: HashSet<u32>,
    /// Whether it took no step for so long that it may begin anew.
    is_late: bool,
}

struct Play {
    timed: Timed,
    there: HashSet<u32>,
    listings: HashMap<u8, Listing>,
}

impl Play {
    fn run(&mut self, op: &Op) {
        let cache = &self.timed.cache;
        match *op {
            Op::Insert { first, keys } => {
                for number in first..first + keys {
                    let bytes = number.to_le_bytes();
                    let key = cache.key(&bytes).unwrap();
                    cache.set(key, b"", &SetOptions::default()).unwrap();
                    self.there.insert(number);
                }
            }
            Op::Delete { first, keys, keep } => {
                for number in (first..first + keys).filter(|number| number % keep != 0) {
                    let bytes = number.to_le_bytes();
                    let key = cache.key(&bytes).unwrap();
                    cache.delete(key, &DeleteOptions::default()).unwrap();
                    self.there.remove(&number);
                    for listing in self.listings.values_mut() {
                        listing.steady.remove(&number);
                        // Added anew it may come again.
                        listing.seen.remove(&number);
                    }
                }
            }
            Op::Step { listing, steps } => self.step(listing, usize::from(steps)),
            Op::Tick => drop(cache.tick()),
            Op::Wait => {
                self.timed.clock.advance_ms(70_000);
                cache.tick();
                for listing in self.listings.values_mut() {
                    listing.is_late = true;
                }
            }
        }
    }

    fn step(&mut self, number: u8, steps: usize) {
        let listing = self.listings.entry(number).or_insert_with(|| Listing {
            cursor: ScanCursor::START,
            seen: HashSet::new(),
            steady: self.there.clone(),
            is_late: false,
        });
        for _ in 0..steps {
            let next = self.timed.cache.keys(listing.cursor, |facts| {
                let key = u32::from_le_bytes(facts.key.try_into().unwrap());
                let is_first = listing.seen.insert(key);
                assert!(is_first || listing.is_late, "{key} comes twice");
            });
            let Some(next) = next else {
                let missed = listing.steady.difference(&listing.seen).count();
                assert_eq!(missed, 0, "of {}", listing.steady.len());
                self.listings.remove(&number);
                return;
            };
            listing.cursor = next;
        }
    }
}

fn check(ops: &[Op], shards: usize) {
    let mut play = Play {
        timed: Timed::with(Config {
            shards: Some(shards),
            seed: Some(9),
            ..Config::with_memory(16 << 20)
        }),
        there: HashSet::new(),
        listings: HashMap::new(),
    };
    for op in ops {
        play.run(op);
    }
    for listing in 0..3 {
        play.step(listing, STEPS_MAX);
        assert!(!play.listings.contains_key(&listing), "it does not end");
    }
    play.timed.cache.audit().unwrap();
    assert_eq!(play.timed.cache.stats().evicted, 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 64 }, failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_there_all_the_while_is_listed_once(ops in prop::collection::vec(op(), 1..120)) {
        check(&ops, 1);
    }

    #[test]
    fn several_shards_are_listed_one_after_the_other(ops in prop::collection::vec(op(), 1..60)) {
        check(&ops, 4);
    }
}

#[test]
fn items_come_and_go_at_full_load_and_each_that_stays_is_listed_once() {
    let Timed { cache, .. } = Timed::new(32 << 20);
    let set = |number: u32| {
        let bytes = number.to_le_bytes();
        let key = cache.key(&bytes).unwrap();
        cache.set(key, b"", &SetOptions::default()).unwrap();
    };
    const ITEMS: u32 = if cfg!(miri) { 500 } else { 60_000 };
    (0..ITEMS).for_each(set);
    let mut seen = HashSet::new();
    let (mut next, mut cursor) = (ITEMS, Some(ScanCursor::START));
    while let Some(at) = cursor {
        cursor = cache.keys(at, |facts| {
            let key = u32::from_le_bytes(facts.key.try_into().unwrap());
            assert!(seen.insert(key), "{key} comes twice");
        });
        // One item in ten stays, the others make place for new ones.
        for _ in 0..600 {
            let bytes = (next - ITEMS).to_le_bytes();
            if !(next - ITEMS).is_multiple_of(10) {
                let key = cache.key(&bytes).unwrap();
                cache.delete(key, &DeleteOptions::default()).unwrap();
            }
            set(next);
            next += 1;
        }
    }
    let steady = (0..ITEMS).filter(|number| number % 10 == 0);
    assert_eq!(steady.filter(|number| !seen.contains(number)).count(), 0);
    assert!(next > 2 * ITEMS || cfg!(miri), "{next}");
}

#[test]
fn each_item_is_listed_once_while_the_index_grows_and_shrinks() {
    const ITEMS: u32 = if cfg!(miri) { 300 } else { 20_000 };
    for (shards, per_step) in [(1, 1), (4, 7)] {
        let Timed { cache, .. } = Timed::with(Config {
            shards: Some(shards),
            seed: Some(3),
            ..Config::with_memory(32 << 20)
        });
        let key = |number: u32| number.to_le_bytes();
        let set = |number: u32| {
            let bytes = key(number);
            let key = cache.key(&bytes).unwrap();
            cache.set(key, b"", &SetOptions::default()).unwrap();
        };
        (0..ITEMS).for_each(set);
        // Grown to four times as many, then back.
        for is_growing in [true, false] {
            let (mut seen, mut number) = (HashSet::new(), ITEMS);
            let mut cursor = Some(ScanCursor::START);
            while let Some(at) = cursor {
                let mut shown = 0;
                cursor = cache.keys_while(at, |facts| {
                    let key = u32::from_le_bytes(facts.key.try_into().unwrap());
                    assert!(seen.insert(key), "{key} comes twice");
                    shown += 1;
                    shown < 10
                });
                let next = (number + 10 * per_step).min(4 * ITEMS);
                for changed in number..next {
                    if is_growing {
                        set(changed);
                    } else {
                        let bytes = key(changed);
                        let key = cache.key(&bytes).unwrap();
                        cache.delete(key, &DeleteOptions::default()).unwrap();
                        cache.tick();
                    }
                }
                number = next;
            }
            assert!((0..ITEMS).all(|number| seen.contains(&number)));
            (number..4 * ITEMS).filter(|_| is_growing).for_each(set);
        }
    }
}

#[test]
fn a_cursor_out_of_nowhere_does_no_harm() {
    let Timed { cache, .. } = Timed::new(8 << 20);
    let key = cache.key(b"key").unwrap();
    cache.set(key, b"", &SetOptions::default()).unwrap();
    for cursor in (0..64).flat_map(|bit| [1_u64 << bit, u64::MAX >> bit]) {
        let mut at = Some(ScanCursor(cursor));
        for _ in 0..STEPS_MAX {
            at = at.and_then(|at| cache.keys(at, |_| ()));
        }
        assert_eq!(at, None);
    }
}

/// Counts how often each key is drawn.
fn drawn(cache: &Cache, space: Space, draws: u64) -> HashMap<Vec<u8>, u64> {
    let mut counts = HashMap::new();
    for number in 0..draws {
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if let Some(key) = cache.sample_key(space, random, |facts| facts.key.to_vec()) {
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

#[test]
fn each_key_is_drawn_about_as_often_as_the_others() {
    let timed = Timed::with(Config {
        shards: Some(4),
        seed: Some(3),
        ..Config::with_memory(16 << 20)
    });
    let cache = &timed.cache;
    assert!(drawn(cache, Space::MAIN, 3).is_empty());
    for number in 0..1_000_u32 {
        let bytes = number.to_le_bytes();
        let space = Space(u32::from(number >= 500));
        let key = cache.key_in(space, &bytes).unwrap();
        cache.set(key, b"", &SetOptions::default()).unwrap();
    }
    let draws = if cfg!(miri) { 100 } else { 50_000 };
    for space in [Space::MAIN, Space(1)] {
        let counts = drawn(cache, space, draws);
        assert_eq!(counts.values().sum::<u64>(), draws);
        if !cfg!(miri) {
            assert_eq!(counts.len(), 500);
            assert!(
                counts.values().all(|count| (40..200).contains(count)),
                "{counts:?}"
            );
        }
    }
    let rare = cache.key_in(Space(9), b"rare").unwrap();
    let soon = SetOptions {
        deadline: timed.deadline(Some(10)),
        ..SetOptions::default()
    };
    cache.set(rare, b"", &soon).unwrap();
    assert_eq!(drawn(cache, Space(9), 20)[&b"rare"[..]], 20);
    timed.clock.advance_ms(10);
    assert!(drawn(cache, Space(9), 20).is_empty());
}
