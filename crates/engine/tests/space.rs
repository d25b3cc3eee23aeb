//! Spaces and kinds: the same bytes are other keys in other spaces, and an item keeps its space and
//! kind whatever happens to it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;

use cellar_engine::{
    Cache, Counted, DeleteOptions, End, Increment, Key, Kind, Lookup, ScanCursor, SetOptions,
    Space, Stored,
};

#[allow(dead_code, reason = "used in part")]
#[path = "support/cache.rs"]
mod cache;
use cache::Timed;

const HASH: Kind = Kind(3);

fn set(cache: &Cache, key: Key<'_>, value: &[u8], kind: Kind) {
    let options = SetOptions {
        kind,
        ..SetOptions::default()
    };
    let stored = cache.set(key, value, &options);
    assert!(matches!(stored, Ok(Stored::Done { .. })), "{stored:?}");
}

fn get(cache: &Cache, key: Key<'_>) -> Option<(Vec<u8>, Kind)> {
    cache.get(key, |item| (item.value.to_vec(), item.kind))
}

/// All keys with their spaces and kinds.
fn listed(cache: &Cache) -> HashMap<(Space, Vec<u8>), Kind> {
    let mut all = HashMap::new();
    let mut cursor = Some(ScanCursor::START);
    while let Some(at) = cursor {
        cursor = cache.keys(at, |facts| {
            all.insert((facts.space, facts.key.to_vec()), facts.kind);
        });
    }
    all
}

#[test]
fn the_same_bytes_are_other_keys_in_other_spaces() {
    let Timed { cache, .. } = Timed::new(8 << 20);
    let spaces = [Space::MAIN, Space(1), Space(2), Space(u32::MAX)];
    for space in spaces {
        for number in 0..500_u32 {
            let bytes = number.to_le_bytes();
            let key = cache.key_in(space, &bytes).unwrap();
            set(&cache, key, &space.0.to_le_bytes(), Kind(number as u8));
        }
    }
    for space in spaces {
        for number in 0..500_u32 {
            let bytes = number.to_le_bytes();
            let found = get(&cache, cache.key_in(space, &bytes).unwrap());
            let expected = (space.0.to_le_bytes().to_vec(), Kind(number as u8));
            assert_eq!(found, Some(expected));
        }
    }
    let other = cache.key_in(Space(3), &[0; 4]).unwrap();
    assert_eq!(get(&cache, other), None);
    assert_eq!(listed(&cache).len(), 2_000);
    cache.audit().unwrap();
}

#[test]
fn an_empty_key_is_a_key() {
    let Timed { cache, .. } = Timed::new(8 << 20);
    for space in [Space::MAIN, Space(7)] {
        let key = cache.key_in(space, b"").unwrap();
        for len in [0, 127, 128, 16_000, 20_000] {
            set(&cache, key, &vec![9; len], Kind::STRING);
            let handle = cache.get_handle(key).unwrap();
            cache.delete(key, &DeleteOptions::default()).unwrap();
            assert!(*handle == *vec![9; len], "a pinned value of {len} changed");
            assert_eq!(get(&cache, key), None);
        }
        set(&cache, key, b"value", HASH);
        assert_eq!(get(&cache, key), Some((b"value".to_vec(), HASH)));
    }
    cache.audit().unwrap();
}

#[test]
fn a_string_of_the_main_space_costs_no_more_than_before() {
    let Timed { cache, .. } = Timed::new(8 << 20);
    let stored_bytes = |space, kind| {
        let key = cache.key_in(space, b"0123456789abcdef").unwrap();
        set(&cache, key, &[1; 32], kind);
        cache.facts(key, |facts| facts.stored_bytes).unwrap()
    };
    let plain = stored_bytes(Space::MAIN, Kind::STRING);
    assert!(plain <= 16 + 32 + 5, "{plain}");
    assert_eq!(stored_bytes(Space(1), Kind::STRING), plain + 7);
    assert_eq!(stored_bytes(Space::MAIN, HASH), plain + 7);
}

#[test]
fn every_way_to_change_an_item_keeps_space_and_kind() {
    let Timed { cache, clock } = Timed::new(8 << 20);
    let key = cache.key_in(Space(5), b"key").unwrap();
    let facts = || cache.facts(key, |facts| (facts.space, facts.kind)).unwrap();
    set(&cache, key, b"value", HASH);
    cache.touch(key, clock_plus(&cache, 50_000)).unwrap();
    assert_eq!(facts(), (Space(5), HASH));
    let lookup = Lookup {
        version: true,
        idle: true,
        touch: Some(clock_plus(&cache, 1 << 41)),
        ..Lookup::default()
    };
    cache.lookup(key, &lookup, |_| ()).unwrap();
    assert_eq!(facts(), (Space(5), HASH));
    let stale = DeleteOptions {
        mark_stale: true,
        ..DeleteOptions::default()
    };
    cache.delete(key, &stale).unwrap();
    assert_eq!(facts(), (Space(5), HASH));
    assert_eq!(get(&cache, key), Some((b"value".to_vec(), HASH)));
    let mut draft = cache.draft(key, 300_000).unwrap();
    draft.value_mut().fill(4);
    let options = SetOptions {
        kind: Kind(9),
        ..SetOptions::default()
    };
    cache.commit(draft, &options).unwrap();
    assert_eq!(get(&cache, key), Some((vec![4; 300_000], Kind(9))));
    assert_eq!(cache.get_handle(key).unwrap().kind(), Kind(9));
    clock.advance_ms(1);
    cache.audit().unwrap();
}

fn clock_plus(cache: &Cache, ttl_ms: u64) -> cellar_engine::Deadline {
    cache.now().plus_ms(ttl_ms)
}

#[test]
fn only_strings_are_extended_and_counted() {
    let Timed { cache, .. } = Timed::new(8 << 20);
    let key = cache.key(b"key").unwrap();
    set(&cache, key, b"17", HASH);
    let extended = cache.extend(key, End::Back, b"1", &SetOptions::default());
    assert_eq!(extended, Ok(Stored::NotStored));
    let counted = cache.increment(key, &Increment::by(1));
    assert_eq!(counted, Ok(Counted::NotANumber));
    assert_eq!(get(&cache, key), Some((b"17".to_vec(), HASH)));
    let emptied = DeleteOptions {
        drop_value: true,
        ..DeleteOptions::default()
    };
    cache.delete(key, &emptied).unwrap();
    assert_eq!(get(&cache, key), Some((Vec::new(), Kind::STRING)));
}

#[test]
fn items_keep_space_and_kind_while_eviction_and_compaction_move_them() {
    let Timed { cache, clock } = Timed::new(1 << 20);
    let place = |number: u32| {
        let space = Space(number % 3);
        (space, Kind((number % 5) as u8), format!("key {number}"))
    };
    for round in 0..40_u32 {
        for number in round * 500..round * 500 + 1_000 {
            let (space, kind, bytes) = place(number);
            let key = cache.key_in(space, bytes.as_bytes()).unwrap();
            let len = if number.is_multiple_of(400) {
                20_000
            } else {
                60
            };
            set(&cache, key, &vec![number as u8; len], kind);
            get(&cache, key);
        }
        clock.advance_ms(10);
        cache.audit().unwrap();
    }
    let stats = cache.stats();
    assert!(stats.evicted > 1_000 && stats.copied > 1_000, "{stats:?}");
    let all = listed(&cache);
    assert!(all.len() > 1_000, "{}", all.len());
    for number in 0..20_500 {
        let (space, kind, bytes) = place(number);
        if let Some(found) = all.get(&(space, bytes.into_bytes())) {
            assert_eq!(*found, kind);
        }
    }
}
