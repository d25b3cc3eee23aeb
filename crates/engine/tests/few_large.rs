//! Few large values: whoever has just stored one finds it, though many others store theirs.
#![cfg(not(miri))]

use std::collections::VecDeque;

use cellar_engine::{Config, Draft, Key, SetOptions, Space};

use crate::support::cache::Timed;
use crate::support::random::Random;

const MEMORY: usize = 64 << 20;
const STEPS: usize = 4_000;

/// What a client does next that stores a large value and then reads it.
enum Next {
    Begin,
    Commit(String, Draft),
    Read(String),
}

/// One list of values in as much memory, of which the one that was stored first leaves.
#[derive(Default)]
struct List {
    values: VecDeque<(String, usize)>,
    /// Bytes of the values and of those that are being received.
    bytes: usize,
}

impl List {
    fn begin(&mut self, bytes: usize) {
        self.bytes += bytes;
        while self.bytes > MEMORY {
            let (_, bytes) = self.values.pop_front().expect("drafts take half at most");
            self.bytes -= bytes;
        }
    }
}

/// Shares of the values, in millionths, that were gone when the client read them who stored them:
/// those of a cache in so many shards, and of a list. Each step is that of any client.
fn gone_ppm(clients: usize, shards: usize) -> (usize, usize) {
    let timed = Timed::with(Config {
        shards: Some(shards),
        seed: Some(3),
        ..Config::with_memory(MEMORY)
    });
    let mut next: Vec<Next> = (0..clients).map(|_| Next::Begin).collect();
    let (mut random, mut list) = (Random::from_seed(7), List::default());
    let (mut stored, mut gone, mut gone_from_list) = (0, 0, 0);
    for step in 0..STEPS {
        timed.clock.advance_ms(1);
        let client = random.below(clients as u64) as usize;
        next[client] = match std::mem::replace(&mut next[client], Next::Begin) {
            Next::Begin => {
                let bytes = 300_000 + random.below(700_000) as usize;
                let name = format!("value {step}");
                let key = timed.cache.key(name.as_bytes()).unwrap();
                match timed.cache.draft(key, bytes) {
                    Ok(draft) => {
                        list.begin(bytes);
                        Next::Commit(name, draft)
                    }
                    Err(_) => Next::Begin,
                }
            }
            Next::Commit(name, mut draft) => {
                list.values
                    .push_back((name.clone(), draft.value_mut().len()));
                timed.cache.commit(draft, &SetOptions::default()).unwrap();
                stored += 1;
                Next::Read(name)
            }
            Next::Read(name) => {
                let key = timed.cache.key(name.as_bytes()).unwrap();
                gone += usize::from(timed.cache.get(key, |_| ()).is_none());
                let is_listed = list.values.iter().any(|(other, _)| *other == name);
                gone_from_list += usize::from(!is_listed);
                Next::Begin
            }
        };
    }
    (
        gone * 1_000_000 / stored,
        gone_from_list * 1_000_000 / stored,
    )
}

#[test]
fn who_stored_a_large_value_finds_it_nearly_as_often_as_in_one_list_of_all() {
    // Shares in millionths beyond the list's: each shard has its own order, and few values.
    let most = [(5, 8, 0), (15, 8, 1_000), (60, 8, 30_000), (60, 1, 5_000)];
    for (clients, shards, beyond_list) in most {
        let (gone, from_list) = gone_ppm(clients, shards);
        assert!(
            gone <= from_list + beyond_list,
            "{clients} clients, {shards} shards: {gone}, in a list {from_list}"
        );
    }
}

/// Bytes of a long value.
const LONG: usize = 3 << 20;

/// A cache of four shards that takes values of any length.
fn for_long_values(memory: usize) -> Timed {
    Timed::with(Config {
        shards: Some(4),
        seed: Some(3),
        value_bytes_max: Config::VALUE_BYTES_LIMIT,
        ..Config::with_memory(memory)
    })
}

/// Replaces some of eight values of `long` bytes again and again, for which `memory` has room
/// twice over, and sees that none is evicted; `beside` runs around each replacement.
fn replace_without_evictions(
    (memory, long): (usize, usize),
    beside: impl Fn(&Timed, Key<'_>, &dyn Fn()),
) {
    let timed = for_long_values(memory);
    let store = |name: &str| {
        let key = timed.cache.key(name.as_bytes()).unwrap();
        let draft = timed.cache.draft(key, long).unwrap();
        timed.cache.commit(draft, &SetOptions::default()).unwrap();
        timed.clock.advance_ms(1);
    };
    for number in 0..4 {
        store(&format!("stays {number}"));
    }
    let mut random = Random::from_seed(7);
    for round in 0..300 {
        let name = format!("changes {}", random.below(4));
        let key = timed.cache.key(name.as_bytes()).unwrap();
        beside(&timed, key, &|| store(&name));
        assert_eq!(timed.cache.stats().evicted, 0, "round {round}");
    }
}

#[test]
fn no_live_value_leaves_while_overwritten_ones_hold_memory() {
    replace_without_evictions((MEMORY, LONG), |_, _, store| store());
}

#[test]
fn no_live_value_leaves_while_values_that_were_read_when_they_left_hold_memory() {
    // Whoever moves a value reads the old one until the new one is there. An extent of a shorter
    // value goes back whole as soon as its last reader has gone.
    for memory_and_long in [(MEMORY, LONG), (MEMORY / 4, 1 << 20)] {
        replace_without_evictions(memory_and_long, |timed, key, store| {
            let reader = timed.cache.get_handle(key);
            store();
            drop(reader);
        });
    }
}

/// Fills the cache with long values that live and others that `die` makes end, all at once, and
/// sees that as many long ones find their room without an eviction.
fn follow_those_that_ended(dying: Space, living: Space, die: impl Fn(&Timed)) {
    let timed = for_long_values(MEMORY);
    let store = |space: Space, name: &str, ttl_ms: Option<u64>| {
        let key = timed.cache.key_in(space, name.as_bytes()).unwrap();
        let options = SetOptions {
            deadline: timed.deadline(ttl_ms),
            ..SetOptions::default()
        };
        let draft = timed.cache.draft(key, LONG).unwrap();
        timed.cache.commit(draft, &options).unwrap();
        timed.clock.advance_ms(1);
    };
    // A large index, of which an insertion goes through a small part.
    for number in 0..50_000 {
        let name = format!("short {number}");
        let key = timed.cache.key_in(living, name.as_bytes()).unwrap();
        timed.cache.set(key, b"", &SetOptions::default()).unwrap();
    }
    for number in 0..4 {
        store(living, &format!("stays {number}"), None);
    }
    for number in 0..12 {
        store(dying, &format!("ends {number}"), Some(1_000));
    }
    assert_eq!(timed.cache.stats().evicted, 0, "there is room for all");
    die(&timed);
    for number in 0..12 {
        store(living, &format!("follows {number}"), None);
        assert_eq!(
            timed.cache.stats().evicted,
            0,
            "after {number} others, {dying:?} ended"
        );
    }
}

#[test]
fn no_live_value_leaves_while_expired_ones_hold_memory() {
    follow_those_that_ended(Space::MAIN, Space::MAIN, |timed| {
        timed.clock.advance_ms(1_000);
    });
}

#[test]
fn no_live_value_leaves_while_those_of_a_flushed_database_hold_memory() {
    let second = Space(1);
    for (dying, living) in [(Space::MAIN, second), (second, Space::MAIN)] {
        follow_those_that_ended(dying, living, |timed| timed.cache.retire_space(dying));
    }
}
