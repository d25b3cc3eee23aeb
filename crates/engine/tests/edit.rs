//! Edits: values that are changed and grow where they lie.

use cellar_engine::{
    Apply, Cache, Change, Config, Deadline, End, Error, Kind, SetOptions, Splice, ValueBytes,
};

use crate::support::cache::Timed;
use crate::support::random::Random;

/// A cache of one shard with values as long as they can be.
fn cache(memory_bytes: usize) -> Cache {
    let timed = Timed::with(Config {
        shards: Some(1),
        seed: Some(3),
        value_bytes_max: Config::VALUE_BYTES_LIMIT,
        ..Config::with_memory(memory_bytes)
    });
    timed.cache
}

/// Writes `bytes` at `at`, and makes the value at least `bytes_min` long.
fn edit(cache: &Cache, key: &[u8], at: usize, bytes: &[u8], bytes_min: usize) -> Result<(), Error> {
    let key = cache.key(key).unwrap();
    cache.update(key, &mut Vec::new(), |_, scratch| {
        scratch.extend_from_slice(bytes);
        let len = bytes.len();
        let change = Change::Splice {
            parts: vec![Splice { at, from: 0, len }],
            bytes_min: bytes_min.max(at + len),
            deadline: Deadline::NEVER,
        };
        ((), change)
    })
}

fn place(cache: &Cache, key: &[u8]) -> usize {
    let key = cache.key(key).unwrap();
    cache.get_handle(key).unwrap().as_ptr() as usize
}

fn read(cache: &Cache, key: &[u8]) -> Vec<u8> {
    let key = cache.key(key).unwrap();
    cache.get(key, |item| item.value.to_vec()).unwrap()
}

#[test]
fn a_value_that_grows_in_small_steps_is_seldom_copied() {
    let pieces = if cfg!(miri) { 100 } else { 40_000 };
    let cache = cache(32 << 20);
    let (mut model, mut moves, mut before) = (b"begin".to_vec(), 0, 0);
    let options = SetOptions::default();
    let key = cache.key(b"key").unwrap();
    cache.set(key, &model, &options).unwrap();
    for number in 0..pieces {
        let piece = [number as u8; 100];
        if number % 2 == 0 {
            edit(&cache, b"key", model.len(), &piece, 0).unwrap();
        } else {
            cache.extend(key, End::Back, &piece, &options).unwrap();
        }
        model.extend(piece);
        let place = place(&cache, b"key");
        moves += usize::from(place != before);
        before = place;
    }
    assert!(read(&cache, b"key") == model);
    // An eighth more each time: the logarithm of the length, to that base.
    assert!(moves < 100, "{moves}");
    cache.audit().unwrap();
}

#[test]
fn parts_are_written_at_every_length_and_pinned_values_stay() {
    let steps = if cfg!(miri) { 20 } else { 3_000 };
    let cache = cache(64 << 20);
    let mut random = Random::from_seed(7);
    // Where headers, versions and extents begin.
    let lengths = [120, 250, 16_370, 130_000, 1 << 20, (2 << 20) - 150];
    for (number, length) in lengths.into_iter().enumerate() {
        let key = [number as u8];
        let mut model = Vec::new();
        let mut pins = Vec::new();
        edit(&cache, &key, 0, b"", length).unwrap();
        model.resize(length, 0);
        for step in 0..steps / lengths.len() {
            let at = random.below(model.len() as u64 + 40) as usize;
            let piece = vec![step as u8 | 1; random.below(60) as usize];
            edit(&cache, &key, at, &piece, 0).unwrap();
            model.resize(model.len().max(at + piece.len()), 0);
            model[at..at + piece.len()].copy_from_slice(&piece);
            if step % 50 == 0 {
                let handle = cache.get_handle(cache.key(&key).unwrap()).unwrap();
                pins.push((model.clone(), handle));
            }
            if step % 70 == 0 {
                pins.retain(|(value, pin)| {
                    assert!(**pin == **value, "a pinned value has changed");
                    false
                });
            }
        }
        assert!(read(&cache, &key) == model, "{length}");
    }
    cache.audit().unwrap();
}

#[test]
fn an_edit_far_behind_the_end_makes_zeros_and_one_too_far_changes_nothing() {
    let cache = cache(16 << 20);
    edit(&cache, b"key", 4_000_000, b"x", 0).unwrap();
    let value = read(&cache, b"key");
    assert!(value.len() == 4_000_001 && value.ends_with(b"\0x"));
    assert!(value[..4_000_000].iter().all(|&byte| byte == 0));
    let max = cache.value_bytes_max();
    let refused = edit(&cache, b"key", max, b"x", 0);
    let bytes = max + 1;
    assert_eq!(refused, Err(Error::TooLarge { bytes, max }));
    assert!(read(&cache, b"key") == value);
    // Where others are, they make room for it.
    for number in 0..60_000_u32 {
        let key = number.to_le_bytes();
        let key = cache.key(&key).unwrap();
        cache.set(key, &[1; 100], &SetOptions::default()).unwrap();
    }
    edit(&cache, b"far", 7_000_000, b"y", 0).unwrap();
    assert_eq!(read(&cache, b"far").len(), 7_000_001);
    cache.audit().unwrap();
}

#[test]
fn a_value_grows_where_nothing_may_leave_and_memory_for_slack_is_missing() {
    let Timed { cache, .. } = Timed::with(Config {
        keep: vec![2 << 20],
        shards: Some(1),
        ..Config::with_memory(8 << 20)
    });
    let key = cache
        .key_in(cellar_engine::Space::kept(0, 0), b"key")
        .unwrap();
    let mut length = 0;
    loop {
        let done = cache.update(key, &mut Vec::new(), |item, scratch| {
            let at = item.map_or(0, |item| item.value.len());
            scratch.extend_from_slice(&[7; 1_000]);
            let change = Change::Splice {
                parts: vec![Splice {
                    at,
                    from: 0,
                    len: 1_000,
                }],
                bytes_min: at + 1_000,
                deadline: Deadline::NEVER,
            };
            ((), change)
        });
        if done.is_err() {
            break;
        }
        length += 1_000;
    }
    let value = cache.get(key, |item| item.value.to_vec()).unwrap();
    assert_eq!(value, vec![7; length]);
    assert!(length > 500_000, "{length}");
    cache.audit().unwrap();
}

/// Appends the scratch buffer to the value, or cuts the value off at the length that it says.
fn append_or_cut(value: &mut dyn ValueBytes, scratch: &[u8]) {
    if let Some(len) = scratch.strip_prefix(b"cut ") {
        let len = u64::from_le_bytes(len.try_into().unwrap());
        return value.resize(len as usize);
    }
    let len = value.bytes().len();
    value.resize(len + scratch.len());
    value.write(len, scratch);
}

fn change_in_place(cache: &Cache, key: &[u8], op: &[u8], deadline: Deadline) -> Result<(), Error> {
    let key = cache.key(key).unwrap();
    cache.update(key, &mut Vec::new(), |_, scratch| {
        scratch.extend_from_slice(op);
        let change = Change::Edit {
            more: op.len(),
            deadline,
            apply: Apply(append_or_cut),
        };
        ((), change)
    })
}

fn cut(len: usize) -> Vec<u8> {
    [&b"cut "[..], &(len as u64).to_le_bytes()].concat()
}

fn store_collection(cache: &Cache, key: &[u8], value: &[u8]) {
    let options = SetOptions {
        kind: Kind(1),
        ..SetOptions::default()
    };
    let key = cache.key(key).unwrap();
    cache.set(key, value, &options).unwrap();
}

#[test]
fn a_value_that_is_edited_grows_where_it_lies_beside_others() {
    let pieces = if cfg!(miri) { 40 } else { 20_000 };
    let cache = cache(64 << 20);
    let mut model = vec![b'b'; 5_000];
    store_collection(&cache, b"key", &model);
    let (mut moves, mut before) = (0, 0);
    let small = SetOptions::default();
    for number in 0..pieces {
        let piece = vec![number as u8; 1_000];
        change_in_place(&cache, b"key", &piece, Deadline::NEVER).unwrap();
        model.extend_from_slice(&piece);
        let key = format!("small{number}").into_bytes();
        cache.set(cache.key(&key).unwrap(), &piece, &small).unwrap();
        let place = place(&cache, b"key");
        moves += usize::from(place != before);
        before = place;
        if number % 1_000 == 0 {
            cache.audit().unwrap();
        }
    }
    assert!(read(&cache, b"key") == model);
    // While it lies among others; then it has addresses of its own.
    assert!(moves < 60, "{moves}");
    let held = || cache.stats().live_bytes + cache.stats().dead_bytes;
    let grown = held();
    while model.len() > 300 {
        let len = model.len() - (model.len() / 50).max(100);
        change_in_place(&cache, b"key", &cut(len), Deadline::NEVER).unwrap();
        model.truncate(len);
        cache.audit().unwrap();
    }
    assert!(read(&cache, b"key") == model);
    if !cfg!(miri) {
        assert!(grown - held() > 15 << 20, "{grown} {}", held());
    }
}

#[test]
fn others_leave_for_a_value_that_is_edited_and_it_does_not() {
    let cache = cache(16 << 20);
    let small = SetOptions::default();
    let mut model = vec![b'b'; 300_000];
    store_collection(&cache, b"key", &model);
    for number in 0..40_000 {
        let key = format!("small{number}").into_bytes();
        cache
            .set(cache.key(&key).unwrap(), &[7; 500], &small)
            .unwrap();
        if number % 8 == 0 {
            let piece = vec![number as u8; 1_000];
            change_in_place(&cache, b"key", &piece, Deadline::NEVER).unwrap();
            model.extend_from_slice(&piece);
        }
        if number % 5_000 == 0 {
            cache.audit().unwrap();
        }
        assert!(cache.stats().memory_bytes <= 16 << 20);
    }
    assert!(read(&cache, b"key") == model);
    // Half of the memory is the limit of a value.
    let piece = vec![1; 1 << 20];
    let refused =
        (0..10).find_map(|_| change_in_place(&cache, b"key", &piece, Deadline::NEVER).err());
    assert!(matches!(refused, Some(Error::TooLarge { .. })));
    cache.audit().unwrap();
}

#[test]
fn an_edited_value_that_is_read_is_copied_and_gets_its_deadline() {
    let timed = Timed::with(Config {
        shards: Some(1),
        value_bytes_max: Config::VALUE_BYTES_LIMIT,
        ..Config::with_memory(64 << 20)
    });
    let cache = &timed.cache;
    for bytes in [5_000, 300_000, 3 << 20] {
        let mut model = vec![b'b'; bytes];
        store_collection(cache, b"key", &model);
        let seen = cache.get_handle(cache.key(b"key").unwrap()).unwrap();
        change_in_place(cache, b"key", b"more", Deadline::NEVER).unwrap();
        assert!(seen[..] == model[..], "a reader sees what it began to read");
        drop(seen);
        model.extend_from_slice(b"more");
        assert!(read(cache, b"key") == model);
        let deadline = cache.now().plus_ms(1_000);
        change_in_place(cache, b"key", b"last", deadline).unwrap();
        model.extend_from_slice(b"last");
        assert!(read(cache, b"key") == model);
        cache.audit().unwrap();
        timed.clock.advance_ms(1_001);
        assert!(cache.get(cache.key(b"key").unwrap(), |_| ()).is_none());
        cache.audit().unwrap();
    }
}

#[test]
fn several_values_grow_beside_each_other_without_moving_often() {
    let pieces = if cfg!(miri) { 20 } else { 4_000 };
    let cache = cache(64 << 20);
    let keys = [b"one", b"two", b"six"];
    for key in keys {
        store_collection(&cache, key, &[1; 200_000]);
    }
    let (mut moves, mut before) = (0, [0; 3]);
    for number in 0..pieces {
        for (key, before) in keys.iter().zip(&mut before) {
            let piece = vec![number as u8; 1_000];
            change_in_place(&cache, &key[..], &piece, Deadline::NEVER).unwrap();
            let place = place(&cache, &key[..]);
            moves += usize::from(place != *before);
            *before = place;
        }
    }
    for key in keys {
        assert_eq!(read(&cache, key).len(), 200_000 + pieces * 1_000);
    }
    // Each begins at one place and moves to where it may grow.
    assert!(moves <= 3 * 4, "{moves}");
    cache.audit().unwrap();
}
