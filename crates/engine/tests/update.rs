//! Update: what was read cannot change before what was decided is done.

use cellar_engine::{
    Cache, Change, Config, Deadline, DeleteOptions, End, Error, Instant, Kind, Lookup, SetOptions,
    Splice,
};

use crate::support::cache::Timed;

fn store(deadline: Deadline) -> Change {
    Change::Store {
        kind: Kind(2),
        deadline,
        flags: 7,
    }
}

#[test]
fn threads_that_append_to_one_value_lose_nothing() {
    const ROUNDS: u32 = if cfg!(miri) { 20 } else { 5_000 };
    let cache = Cache::new(Config::with_memory(8 << 20)).unwrap();
    let key = cache.key(b"log").unwrap();
    std::thread::scope(|scope| {
        for byte in [1, 2] {
            let cache = &cache;
            scope.spawn(move || {
                let mut scratch = Vec::new();
                for _ in 0..ROUNDS {
                    let appended = cache.update(key, &mut scratch, |item, value| {
                        value.extend(item.map_or(&[][..], |item| item.value));
                        value.push(byte);
                        ((), store(Deadline::NEVER))
                    });
                    appended.unwrap();
                }
            });
        }
    });
    let value = cache.get(key, |item| item.value.to_vec()).unwrap();
    let ones = value.iter().filter(|&&byte| byte == 1).count();
    assert_eq!((value.len(), ones), (2 * ROUNDS as usize, ROUNDS as usize));
}

#[test]
fn a_store_ends_the_lease_and_raises_the_version_only_if_there_is_one() {
    let Timed { cache, .. } = Timed::new(8 << 20);
    let key = cache.key(b"key").unwrap();
    let mut scratch = Vec::new();
    let mut put = |cache: &Cache| {
        cache
            .update(key, &mut scratch, |_, value| {
                value.extend(b"new");
                let change = Change::Store {
                    kind: Kind::STRING,
                    deadline: Deadline::NEVER,
                    flags: 7,
                };
                ((), change)
            })
            .unwrap();
    };
    put(&cache);
    assert_eq!(cache.facts(key, |facts| facts.version), Some(0));
    let ask = Lookup {
        version: true,
        vivify: Some(Deadline::NEVER),
        ..Lookup::default()
    };
    let stale = DeleteOptions {
        mark_stale: true,
        ..DeleteOptions::default()
    };
    cache.delete(key, &stale).unwrap();
    let (before, lease) = cache
        .lookup(key, &ask, |found| (found.version, found.lease))
        .unwrap()
        .unwrap();
    assert!(lease.won && lease.stale);
    put(&cache);
    let (after, lease) = cache
        .lookup(key, &ask, |found| (found.version, found.lease))
        .unwrap()
        .unwrap();
    assert!(after > before && !lease.won && !lease.stale && !lease.taken);
    assert_eq!(cache.stats().items_total, 2);
}

#[test]
fn nothing_is_done_to_what_is_not_there() {
    let Timed { cache, .. } = Timed::new(8 << 20);
    let key = cache.key(b"key").unwrap();
    let mut scratch = Vec::new();
    for change in [
        Change::Keep,
        Change::Remove,
        Change::Retime(Deadline::NEVER),
    ] {
        let found = cache.update(key, &mut scratch, |item, _| {
            (item.is_some(), change.clone())
        });
        assert_eq!(found, Ok(false));
    }
    assert_eq!(cache.stats().items, 0);
}

#[test]
fn a_value_that_is_too_long_is_refused_and_the_old_one_stays() {
    let timed = Timed::new(8 << 20);
    timed.set("key", b"old", None).unwrap();
    let key = timed.cache.key(b"key").unwrap();
    let mut scratch = Vec::new();
    let max = timed.cache.collection_bytes_max();
    let outcome = timed.cache.update(key, &mut scratch, |_, value| {
        value.resize(max + 1, 0);
        ((), store(Deadline::NEVER))
    });
    let bytes = max + 1;
    assert_eq!(outcome, Err(Error::TooLarge { bytes, max }));
    assert_eq!(timed.get("key"), Some(b"old".to_vec()));
}

#[test]
fn single_stores_may_have_lower_limits_and_collections_have_a_higher_one() {
    let timed = Timed::with(Config {
        value_bytes_max: 400,
        ..Config::with_memory(8 << 20)
    });
    let key = timed.cache.key(b"key").unwrap();
    let limited = SetOptions {
        value_bytes_max: 100,
        ..SetOptions::default()
    };
    let refused = |bytes, max| Err(Error::TooLarge { bytes, max });
    assert_eq!(timed.cache.set(key, &[0; 101], &limited), refused(101, 100));
    timed.cache.set(key, &[0; 100], &limited).unwrap();
    let extended = timed.cache.extend(key, End::Back, b"x", &limited);
    assert_eq!(extended, refused(101, 100));
    timed.set("key", &[0; 300], None).unwrap();
    let store_as = |kind: Kind| {
        timed.cache.update(key, &mut Vec::new(), |_, value| {
            value.resize(500, 0);
            let change = Change::Store {
                kind,
                deadline: Deadline::NEVER,
                flags: 0,
            };
            ((), change)
        })
    };
    assert_eq!(store_as(Kind::STRING), refused(500, 400).map(|_| ()));
    assert_eq!(store_as(Kind(1)), Ok(()));
    assert_eq!(timed.get("key"), Some(vec![0; 500]));
}

#[test]
fn a_large_value_gets_memory_from_other_shards_and_is_decided_anew() {
    let timed = Timed::with(Config {
        shards: Some(4),
        seed: Some(3),
        ..Config::with_memory(4 << 20)
    });
    let options = SetOptions::default();
    for number in 0..40_000_u32 {
        let bytes = number.to_le_bytes();
        let key = timed.cache.key(&bytes).unwrap();
        timed.cache.set(key, &[0; 100], &options).unwrap();
    }
    let key = timed.cache.key(b"large").unwrap();
    let (mut scratch, mut runs) = (Vec::new(), 0);
    let outcome = timed.cache.update(key, &mut scratch, |_, value| {
        assert!(value.is_empty());
        value.resize(1 << 20, 5);
        runs += 1;
        ((), store(Deadline::at(Instant(1 << 40))))
    });
    assert_eq!(outcome, Ok(()));
    assert!(runs > 1, "{runs}");
    let found = timed
        .cache
        .get(key, |item| (item.value.len(), item.flags, item.kind));
    assert_eq!(found, Some((1 << 20, 7, Kind(2))));
}

#[test]
fn a_splice_writes_over_parts_and_leaves_what_is_being_read() {
    let Timed { cache, .. } = Timed::new(8 << 20);
    let key = cache.key(b"key").unwrap();
    let options = SetOptions {
        kind: Kind(2),
        flags: 9,
        ..SetOptions::default()
    };
    cache.set(key, b"one two three", &options).unwrap();
    let mut scratch = Vec::new();
    let mut splice = |cache: &Cache| {
        let done = cache.update(key, &mut scratch, |item, scratch| {
            scratch.extend(b"ONETWO");
            let [first, second] = [(0, 0), (4, 3)].map(|(at, from)| Splice { at, from, len: 3 });
            (item.is_some(), Change::splice(vec![first, second]))
        });
        done.unwrap()
    };
    let pinned = cache.get(key, |item| item.pin()).unwrap();
    assert!(splice(&cache));
    assert_eq!(&*pinned, b"one two three");
    drop(pinned);
    let place = |cache: &Cache| cache.get(key, |item| item.value.as_ptr() as usize).unwrap();
    let before = place(&cache);
    assert!(splice(&cache));
    assert_eq!(place(&cache), before, "it stays where it is");
    let (value, kind, flags) = cache
        .get(key, |item| (item.value.to_vec(), item.kind, item.flags))
        .unwrap();
    assert_eq!((&*value, kind, flags), (&b"ONE TWO three"[..], Kind(2), 9));
    cache.delete(key, &DeleteOptions::default()).unwrap();
    assert!(!splice(&cache), "there is nothing to write over");
    cache.audit().unwrap();
}

/// Writes `bytes` over the value of a key, from a place on.
fn write_over(cache: &Cache, key: &[u8], at: usize, bytes: &[u8]) {
    let key = cache.key(key).unwrap();
    let written = cache.update(key, &mut Vec::new(), |_, scratch| {
        scratch.extend(bytes);
        let len = bytes.len();
        let change = Change::Splice {
            parts: vec![Splice { at, from: 0, len }],
            bytes_min: at + len,
            deadline: Deadline::NEVER,
        };
        ((), change)
    });
    written.unwrap();
}

#[test]
fn a_short_string_is_marked_as_changed_until_it_is_stored_as_a_whole() {
    let timed = Timed::new(8 << 20);
    let cache = &timed.cache;
    let is_changed = |name: &[u8]| {
        let key = cache.key(name).unwrap();
        cache.facts(key, |facts| facts.changed).unwrap()
    };
    for (name, len) in [("short", 1), ("edge", 64), ("long", 65)] {
        timed.set(name, &vec![b'1'; len], None).unwrap();
        assert!(!is_changed(name.as_bytes()), "{name}");
        write_over(cache, name.as_bytes(), 0, b"2");
        assert_eq!(is_changed(name.as_bytes()), len <= 64, "{name}");
    }
    // Neither another deadline nor a move by compaction takes the mark away.
    let key = cache.key(b"short").unwrap();
    let touch = Lookup {
        touch: Some(timed.deadline(Some(1 << 40))),
        ..Lookup::default()
    };
    cache.lookup(key, &touch, |_| ()).unwrap();
    assert!(is_changed(b"short"));
    for number in 0..200_000_u32 {
        let name = format!("other{number}");
        timed.set(&name, &[0; 100], None).unwrap();
        if number % 100 == 0 {
            assert_eq!(
                cache.get(key, |item| item.value.to_vec()).as_deref(),
                Some(&b"2"[..])
            );
        }
    }
    assert!(cache.stats().copied > 0);
    assert!(is_changed(b"short"));
    timed.set("short", b"3", None).unwrap();
    assert!(!is_changed(b"short"));
}
