//! Spaces and kinds: the same bytes are other keys in other spaces, and an item keeps its space and
//! kind whatever happens to it.

use std::collections::HashMap;

use cellar_engine::{
    Cache, Counted, DeleteOptions, End, Increment, Key, Kind, Lookup, ScanCursor, SetOptions,
    Space, Stored,
};

use crate::support::cache::Timed;

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

/// Fills three spaces with `items` each; a third of these have a deadline.
fn filled(timed: &Timed, items: u32) {
    for number in 0..items {
        for space in [Space::MAIN, Space(1), Space(2)] {
            let bytes = number.to_le_bytes();
            let key = timed.cache.key_in(space, &bytes).unwrap();
            let ttl_ms = number.is_multiple_of(3).then_some(60_000);
            let options = SetOptions {
                deadline: timed.deadline(ttl_ms),
                ..SetOptions::default()
            };
            timed.cache.set(key, &[1; 40], &options).unwrap();
        }
    }
}

fn stats(cache: &Cache, space: u32) -> (u64, u64) {
    let stats = cache.space_stats(Space(space));
    (stats.items, stats.with_deadline)
}

#[test]
fn items_are_counted_for_each_space() {
    let timed = Timed::new(8 << 20);
    let cache = &timed.cache;
    filled(&timed, 300);
    assert_eq!(
        [0, 1, 2, 3].map(|space| stats(cache, space)),
        [(300, 100), (300, 100), (300, 100), (0, 0)]
    );
    let key = cache.key_in(Space(1), &[0; 4]).unwrap();
    cache.touch(key, cellar_engine::Deadline::NEVER).unwrap();
    assert_eq!(stats(cache, 1), (300, 99));
    cache.delete(key, &DeleteOptions::default()).unwrap();
    assert_eq!(stats(cache, 1), (299, 99));
    set(cache, cache.key(&[0; 4]).unwrap(), &[2; 40], HASH);
    assert_eq!(stats(cache, 0), (300, 99));
    timed.clock.advance_ms(60_000);
    while cache.tick() {
        timed.clock.advance_ms(100);
    }
    listed(cache);
    for space in [0, 1, 2] {
        for number in 0..300_u32 {
            get(
                cache,
                cache.key_in(Space(space), &number.to_le_bytes()).unwrap(),
            );
        }
    }
    assert_eq!(
        [0, 1, 2].map(|space| stats(cache, space)),
        [(201, 0), (200, 0), (200, 0)]
    );
    cache.flush();
    assert_eq!([0, 1, 2].map(|space| stats(cache, space)), [(0, 0); 3]);
    cache.audit().unwrap();
}

#[test]
fn a_retired_space_is_gone_at_once_and_swept_up_by_and_by() {
    let timed = Timed::new(8 << 20);
    let cache = &timed.cache;
    filled(&timed, 5_000);
    cache.retire_space(Space(1));
    assert_eq!(
        [0, 1, 2].map(|space| stats(cache, space).0),
        [5_000, 0, 5_000]
    );
    assert_eq!(
        get(cache, cache.key_in(Space(1), &[7, 0, 0, 0]).unwrap()),
        None
    );
    assert_eq!(cache.stats().items, 10_000);
    let audit = cache.audit().unwrap();
    assert_eq!(audit.gone_items, 4_999);
    let mut ticks = 0;
    while cache.audit().unwrap().gone_items > 0 {
        cache.tick();
        ticks += 1;
    }
    assert!((5..200).contains(&ticks), "{ticks}");
    assert_eq!((listed(cache).len(), cache.stats().items), (10_000, 10_000));
    assert!(cache.stats().expired == 0 && cache.stats().evicted == 0);
}

#[test]
fn flushing_the_main_space_leaves_the_others() {
    let timed = Timed::new(8 << 20);
    let cache = &timed.cache;
    filled(&timed, 5_000);
    let draft = cache.draft(cache.key(b"draft").unwrap(), 10).unwrap();
    cache.flush_space(Space::MAIN);
    assert_eq!(
        [0, 1, 2].map(|space| stats(cache, space).0),
        [0, 5_000, 5_000]
    );
    assert_eq!(get(cache, cache.key(&[7, 0, 0, 0]).unwrap()), None);
    cache.commit(draft, &SetOptions::default()).unwrap();
    set(cache, cache.key(b"new").unwrap(), b"value", HASH);
    assert_eq!((stats(cache, 0).0, listed(cache).len()), (2, 10_002));
    while cache.audit().unwrap().gone_items > 0 {
        cache.tick();
    }
    assert_eq!((stats(cache, 0).0, listed(cache).len()), (2, 10_002));
    cache.flush_space(Space(2));
    assert_eq!([0, 1, 2].map(|space| stats(cache, space).0), [2, 5_000, 0]);
    set(
        cache,
        cache.key_in(Space(2), b"new").unwrap(),
        b"value",
        HASH,
    );
    assert_eq!(listed(cache).len(), 5_003);
    cache.audit().unwrap();
}

#[test]
fn a_retired_space_makes_room_before_live_items_leave() {
    let timed = Timed::new(2 << 20);
    let cache = &timed.cache;
    filled(&timed, 5_000);
    assert_eq!(cache.stats().evicted, 0);
    cache.retire_space(Space(1));
    cache.retire_space(Space(2));
    let mut number = 0_u32;
    while number < 8_000 {
        let bytes = (1 << 20 | number).to_le_bytes();
        set(
            cache,
            cache.key_in(Space(3), &bytes).unwrap(),
            &[1; 40],
            Kind::STRING,
        );
        number += 1;
        if number.is_multiple_of(500) {
            cache.audit().unwrap();
        }
    }
    assert!(cache.stats().evicted < 500, "{:?}", cache.stats());
}
