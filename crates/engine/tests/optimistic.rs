//! Reads without the lock: they find what a read under it would, whatever others do meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cellar_engine::{
    Cache, Config, Deadline, DeleteOptions, Instant, Item, Key, Maintenance, ManualClock,
    SetOptions, Snapshot, Space,
};

const KEYS: u64 = 8;
const WRITES: u64 = if cfg!(miri) { 60 } else { 60_000 };

fn options(deadline: Deadline) -> SetOptions {
    SetOptions {
        deadline,
        ..SetOptions::default()
    }
}

/// Flags that say the round; none where headers are to have the same length, and in some rounds.
fn flags(round: u64, same_length: bool) -> u32 {
    if same_length {
        return 0;
    }
    [0, round as u32 % 256, round as u32][round as usize % 3]
}

/// A value that says its round in every eighth byte, of a length that depends on it.
fn value(round: u64, same_length: bool) -> Vec<u8> {
    let words = if same_length { 40 } else { 1 + round % 200 };
    (0..words).flat_map(|_| round.to_le_bytes()).collect()
}

/// The round of a value, all of which must be of the same.
fn round(value: &[u8]) -> u64 {
    let mut rounds = value
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let first = rounds.next().unwrap();
    assert!(rounds.all(|round| round == first), "a torn value");
    first
}

/// The round of a value that is appended to other bytes, behind its flags; `None` if it is not, and
/// the other bytes are alone.
fn appended_round(key: &Key<'_>, cache: &Cache, same_length: bool) -> Option<u64> {
    let mut out = b"before".to_vec();
    let is_there = cache.append_copied(*key, &mut out, |out, _, flags| {
        out.extend_from_slice(&flags.to_le_bytes());
    });
    let read = out.strip_prefix(b"before").unwrap();
    assert_eq!(is_there, !read.is_empty());
    let (found, value) = read.split_first_chunk()?;
    let round = round(value);
    assert_eq!(u32::from_le_bytes(*found), flags(round, same_length));
    Some(round)
}

/// A thread overwrites, others read: each of them sees whole values that never get older, and none
/// older than what was stored before the read began.
fn overwritten(same_length: bool, memory_bytes: usize) {
    let cache = Cache::new(Config {
        threads: 3,
        ..Config::with_memory(memory_bytes)
    })
    .unwrap();
    let done = AtomicBool::new(false);
    let stored: [AtomicU64; KEYS as usize] = Default::default();
    let key = |number: u64| number.to_le_bytes();
    let check = |item: Item<'_>| {
        let round = round(item.value);
        assert_eq!(
            item.flags,
            flags(round, same_length),
            "another value's flags"
        );
        round
    };
    std::thread::scope(|scope| {
        for reader in 0..2_u64 {
            let (cache, done, stored) = (&cache, &done, &stored);
            scope.spawn(move || {
                let mut last = [0; KEYS as usize];
                let mut at = reader;
                while !done.load(Ordering::Acquire) {
                    at += 1;
                    let number = (at % KEYS) as usize;
                    let before = stored[number].load(Ordering::Acquire);
                    let name = key(number as u64);
                    let found = if at.is_multiple_of(3) {
                        let mut found = None;
                        let one = [cache.key(&name).unwrap()];
                        cache.get_many(&one, None, |_, item| found = item.map(check));
                        found
                    } else if at.is_multiple_of(2) {
                        appended_round(&cache.key(&name).unwrap(), cache, same_length)
                    } else {
                        cache.get(cache.key(&name).unwrap(), check)
                    };
                    let Some(found) = found else { continue };
                    assert!(found >= before, "{found} was read, {before} was stored");
                    assert!(found >= last[number], "a value came back");
                    last[number] = found;
                }
            });
        }
        for n in 1..=WRITES {
            let number = n % KEYS;
            let name = key(number);
            let value = value(n, same_length);
            let options = SetOptions {
                flags: flags(n, same_length),
                ..SetOptions::default()
            };
            cache
                .set(cache.key(&name).unwrap(), &value, &options)
                .unwrap();
            stored[number as usize].store(n, Ordering::Release);
            if n.is_multiple_of(1_000) {
                cache.tick();
            }
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn a_value_that_is_written_over_in_place_is_seen_whole_and_never_older() {
    overwritten(true, 8 << 20);
}

#[test]
fn a_value_that_is_written_anew_is_seen_whole_and_never_older() {
    overwritten(false, 8 << 20);
}

#[test]
fn a_value_in_memory_that_is_used_again_and_again_is_seen_whole() {
    overwritten(false, 64 << 10);
}

#[test]
fn while_others_evict_and_the_index_grows_no_key_has_the_value_of_another() {
    let cache = Cache::new(Config {
        threads: 2,
        ..Config::with_memory(256 << 10)
    })
    .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut hits, mut number) = (0_u64, 0_u64);
            // A hit at least, however late this thread begins.
            while !done.load(Ordering::Acquire) || hits == 0 {
                number = (number * 31 + 7) % 5_000;
                let name = number.to_le_bytes();
                let key = cache.key(&name).unwrap();
                hits += u64::from(
                    cache
                        .get(key, |item| assert_eq!(round(item.value), number))
                        .is_some(),
                );
                if done.load(Ordering::Acquire) {
                    cache
                        .set(key, &value(number, false), &SetOptions::default())
                        .unwrap();
                }
            }
            hits
        });
        for n in 0..WRITES {
            let number = n * 17 % 5_000;
            let name = number.to_le_bytes();
            let key = cache.key(&name).unwrap();
            cache
                .set(key, &value(number, false), &SetOptions::default())
                .unwrap();
            if n.is_multiple_of(5) {
                let gone = (n * 13 % 5_000).to_le_bytes();
                cache
                    .delete(cache.key(&gone).unwrap(), &DeleteOptions::default())
                    .unwrap();
            }
        }
        done.store(true, Ordering::Release);
        assert!(reader.join().unwrap() > 0);
    });
}

#[test]
fn what_is_over_deleted_or_flushed_is_not_seen() {
    let clock = Arc::new(ManualClock::starting_at(Instant(10_123)));
    let cache = Cache::new(Config {
        clock: clock.clone(),
        ..Config::with_memory(1 << 20)
    })
    .unwrap();
    let key = cache.key(b"a key").unwrap();
    let is_there = || {
        cache
            .get(key, |item| assert_eq!(item.value, b"value"))
            .is_some()
    };
    let store = |after_ms| {
        let deadline = cache.now().plus_ms(after_ms);
        cache.set(key, b"value", &options(deadline)).unwrap();
    };
    store(50);
    clock.advance_ms(49);
    assert!(is_there());
    clock.advance_ms(1);
    assert!(!is_there(), "to the millisecond");
    store(50_000);
    assert!(is_there());
    cache.delete(key, &DeleteOptions::default()).unwrap();
    assert!(!is_there());
    store(50_000);
    cache.flush();
    assert!(!is_there());
    store(50_000);
    assert!(is_there());
    cache.flush_space(Space::MAIN);
    assert!(!is_there());
    store(50_000);
    cache.flush_at(Instant(cache.now().0 + 100));
    assert!(is_there());
    clock.advance_ms(100);
    assert!(
        !is_there(),
        "a flush that was awaited, though nobody took the lock since"
    );
    store(50_000);
    assert!(is_there(), "open again");
}

#[test]
fn reads_are_counted_to_the_last_and_hot_keys_are_known() {
    const READS: u64 = if cfg!(miri) { 300 } else { 100_000 };
    let cache = Cache::new(Config::with_memory(4 << 20)).unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("key {number}")).collect();
    let keys: Vec<_> = names
        .iter()
        .map(|name| cache.key(name.as_bytes()).unwrap())
        .collect();
    for &key in &keys {
        cache.set(key, b"value", &SetOptions::default()).unwrap();
    }
    for n in 0..READS {
        // Every other read is of one key.
        let number = if n.is_multiple_of(2) {
            7
        } else {
            n as usize % 100
        };
        assert!(cache.get(keys[number], |_| ()).is_some());
    }
    let mut found = 0;
    cache.get_many(&keys, None, |_, item| found += u64::from(item.is_some()));
    assert!(cache.get(cache.key(b"absent").unwrap(), |_| ()).is_none());
    let stats = cache.stats();
    assert_eq!(found, 100);
    assert_eq!((stats.gets, stats.misses), (READS + 101, 1));
    if !cfg!(miri) {
        let hottest = cache.hottest_keys(1);
        assert_eq!(hottest[0].key, b"key 7");
        assert!(
            (0.45..0.57).contains(&hottest[0].share),
            "{}",
            hottest[0].share
        );
    }
}

#[test]
fn a_handle_on_a_copied_value_outlives_the_item() {
    let cache = Cache::new(Config::with_memory(1 << 20)).unwrap();
    let key = cache.key(b"a key").unwrap();
    for bytes in [0, 1, 100, 2_048, 2_049, 20_000] {
        let value: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        cache.set(key, &value, &SetOptions::default()).unwrap();
        let handles = [
            cache.get(key, |item| item.pin()).unwrap(),
            cache.get_handle(key).unwrap(),
        ];
        cache
            .set(key, &vec![0xff; bytes], &SetOptions::default())
            .unwrap();
        cache.delete(key, &DeleteOptions::default()).unwrap();
        let mut maintenance = Maintenance::default();
        maintenance.step(&cache);
        for handle in handles {
            assert_eq!(&handle[..], &value[..]);
        }
    }
}

#[test]
fn a_hint_that_is_out_of_date_changes_no_answer() {
    let cache = Cache::new(Config::with_memory(1 << 20)).unwrap();
    let [first, second] = [b"first", b"secnd"].map(|name| cache.key(name).unwrap());
    let set = |key, value: &[u8]| cache.set(key, value, &SetOptions::default()).unwrap();
    let get = |key| cache.get(key, |item| item.value.to_vec());
    let hint = |key| cache.hint_item(cache.hint_read(key));
    set(first, b"one");
    let of_first = hint(first);
    assert!(of_first.is_some() && hint(second).is_none());
    assert_eq!(get(first.hinted_at(of_first)).unwrap(), b"one");
    // A hint of another key, for a read and for a store.
    assert_eq!(get(second.hinted_at(of_first)), None);
    set(second.hinted_at(of_first), b"two");
    assert_eq!(get(first).unwrap(), b"one");
    assert_eq!(get(second.hinted_at(of_first)).unwrap(), b"two");
    // An item that has moved, is gone, and is there again.
    set(first, &[b'x'; 500]);
    assert_eq!(get(first.hinted_at(of_first)).unwrap(), [b'x'; 500]);
    let of_long = hint(first);
    cache.delete(first, &DeleteOptions::default()).unwrap();
    assert_eq!(get(first.hinted_at(of_long)), None);
    set(first.hinted_at(of_long), b"again");
    assert_eq!(get(first.hinted_at(of_long)).unwrap(), b"again");
    // No hint, though there is an item by now.
    set(second.hinted_at(None), b"three");
    assert_eq!(get(second).unwrap(), b"three");
}

#[test]
fn many_reads_come_in_the_order_of_their_keys() {
    let cache = Cache::new(Config::with_memory(4 << 20)).unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("key {number}")).collect();
    let keys: Vec<Key<'_>> = names
        .iter()
        .map(|name| cache.key(name.as_bytes()).unwrap())
        .collect();
    // Misses, and long values, which are read under the lock.
    let length = |number: usize| match number % 5 {
        0 => None,
        1 => Some(5_000 + number),
        _ => Some(number),
    };
    for (number, &key) in keys.iter().enumerate() {
        if let Some(length) = length(number) {
            let value = vec![number as u8; length];
            cache.set(key, &value, &SetOptions::default()).unwrap();
        }
    }
    let expected: Vec<_> = (0..100).map(|number| (number, length(number))).collect();
    let check = |snapshot: Option<&mut Snapshot<'_>>| {
        let mut found = Vec::new();
        cache.get_many(&keys, snapshot, |position, item| {
            let is_right = |item: &Item<'_>| item.value.iter().all(|&byte| byte == position as u8);
            assert!(item.as_ref().is_none_or(is_right));
            found.push((position, item.map(|item| item.value.len())));
        });
        assert_eq!(found, expected);
    };
    check(None);
    let mut snapshot = cache.snapshot(keys.iter().copied()).unwrap();
    check(Some(&mut snapshot));
    assert!(snapshot.is_still());
}
