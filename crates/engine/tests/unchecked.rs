//! A cache that is used while the items of a killed process are being checked: whatever is done
//! meanwhile wins over what the check finds later.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellar_engine::{
    Cache, Config, Deadline, DeleteOptions, Instant, Maintenance, ManualClock, ScanCursor,
    SetOptions, Space, StateDir, StateOptions,
};

/// A directory in memory that is gone with the test, and a clock that goes on.
struct Left {
    path: PathBuf,
    clock: Arc<ManualClock>,
    memory: usize,
}

impl Left {
    fn new(name: &str, memory: usize) -> Left {
        let name = format!("cellar-unchecked-{}-{name}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        let _ = std::fs::remove_dir_all(&path);
        let clock = Arc::new(ManualClock::starting_at(Instant(60_000)));
        Left {
            path,
            clock,
            memory,
        }
    }

    /// A cache that goes on, with its items unchecked.
    fn open(&self) -> Cache {
        let mut state = StateOptions::of(StateDir::open(&self.path).unwrap());
        state.checks_later_above = Some(0);
        Cache::new(Config {
            shards: Some(2),
            clock: Arc::<ManualClock>::clone(&self.clock),
            state: Some(state),
            ..Config::with_memory(self.memory)
        })
        .unwrap()
    }

    /// The same after a process that was killed when it had stored so many items.
    fn killed_with(&self, items: u64) -> Cache {
        let cache = self.open();
        (0..items).for_each(|number| set(&cache, number, 0));
        drop(cache);
        let cache = self.open();
        assert!(items == 0 || unchecked(&cache) > 0);
        cache
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn unchecked(cache: &Cache) -> u64 {
    cache.restored().unwrap().unchecked_bytes
}

fn value(number: u64, round: u64) -> Vec<u8> {
    format!("value {number} of round {round} {}", "x".repeat(40)).into_bytes()
}

fn name(number: u64) -> String {
    format!("key:{number}")
}

fn set(cache: &Cache, number: u64, round: u64) {
    let name = name(number);
    let key = cache.key(name.as_bytes()).unwrap();
    let value = value(number, round);
    cache.set(key, &value, &SetOptions::default()).unwrap();
}

fn get(cache: &Cache, number: u64) -> Option<Vec<u8>> {
    let name = name(number);
    let key = cache.key(name.as_bytes()).unwrap();
    cache.get(key, |item| item.value.to_vec())
}

fn delete(cache: &Cache, number: u64) {
    let name = name(number);
    let key = cache.key(name.as_bytes()).unwrap();
    cache.delete(key, &DeleteOptions::default()).unwrap();
}

const ITEMS: u64 = 20_000;
const MEMORY: usize = 8 << 20;

#[test]
fn an_item_is_there_before_the_others_are_checked() {
    let left = Left::new("first", MEMORY);
    let cache = left.killed_with(ITEMS);
    let all = unchecked(&cache);
    assert_eq!(get(&cache, 7), Some(value(7, 0)));
    assert_eq!(get(&cache, ITEMS), None);
    assert!(
        unchecked(&cache) > all * 9 / 10,
        "{} of {all}",
        unchecked(&cache)
    );
    for number in 0..ITEMS {
        assert_eq!(get(&cache, number), Some(value(number, 0)));
    }
    let restored = cache.restored().unwrap();
    assert_eq!((restored.items, restored.dropped), (ITEMS, 0));
    assert_eq!(restored.unchecked_bytes, 0);
    cache.audit().unwrap();
}

#[test]
fn what_is_stored_and_deleted_meanwhile_wins() {
    let left = Left::new("writes", MEMORY);
    let cache = left.killed_with(ITEMS);
    for number in 0..ITEMS {
        match number % 4 {
            0 => set(&cache, number, 1),
            1 => delete(&cache, number),
            _ => {}
        }
        if number % 1_000 == 0 {
            // A part is checked by whoever asks, another one by the background.
            let steps = AtomicU64::new(0);
            cache.check_left(1, || steps.fetch_add(1, Ordering::Relaxed) < 3);
        }
    }
    cache.check_left(2, || true);
    for number in 0..ITEMS {
        let expected = match number % 4 {
            0 => Some(value(number, 1)),
            1 => None,
            _ => Some(value(number, 0)),
        };
        assert_eq!(get(&cache, number), expected, "{number}");
    }
    cache.audit().unwrap();
}

#[test]
fn what_was_flushed_meanwhile_does_not_come_back() {
    for second_kill in [false, true] {
        let left = Left::new("flush", MEMORY);
        let mut cache = left.killed_with(ITEMS);
        assert!(get(&cache, 3).is_some());
        cache.flush();
        set(&cache, 5, 1);
        if second_kill {
            drop(cache);
            cache = left.open();
        }
        for number in 0..ITEMS {
            let expected = (number == 5).then(|| value(5, 1));
            assert_eq!(get(&cache, number), expected, "{number}");
        }
        assert_eq!(cache.stats().items, 1);
        let audit = cache.audit().unwrap();
        assert_eq!(audit.live_items, 1);
    }
}

#[test]
fn a_flush_that_was_awaited_comes_while_items_are_checked() {
    let left = Left::new("awaited", MEMORY);
    let cache = left.killed_with(ITEMS);
    cache.flush_at(Instant(70_000));
    drop(cache);
    let cache = left.open();
    assert_eq!(get(&cache, 1), Some(value(1, 0)));
    left.clock.advance_ms(10_000);
    for number in 0..ITEMS {
        assert_eq!(get(&cache, number), None, "{number}");
    }
    cache.audit().unwrap();
}

#[test]
fn spaces_that_are_emptied_meanwhile_stay_empty() {
    let left = Left::new("spaces", MEMORY);
    let cache = left.open();
    let spaces = [Space::MAIN, Space(1), Space(2), Space(3)];
    for number in 0..ITEMS {
        let key = name(number);
        let key = cache
            .key_in(spaces[number as usize % 4], key.as_bytes())
            .unwrap();
        cache
            .set(key, &value(number, 0), &SetOptions::default())
            .unwrap();
    }
    drop(cache);
    let cache = left.open();
    cache.flush_space(Space::MAIN);
    cache.retire_space(Space(1));
    cache.flush_space(Space(2));
    for number in 0..ITEMS {
        let key = name(number);
        let key = cache
            .key_in(spaces[number as usize % 4], key.as_bytes())
            .unwrap();
        let expected = (number % 4 == 3).then(|| value(number, 0));
        assert_eq!(cache.get(key, |item| item.value.to_vec()), expected);
    }
    cache.check_left(1, || true);
    let counts = spaces.map(|space| cache.space_stats(space).items);
    assert_eq!(counts, [0, 0, 0, ITEMS / 4]);
    cache.audit().unwrap();
}

#[test]
fn a_listing_meets_each_item_once_while_they_are_checked() {
    let left = Left::new("listing", MEMORY);
    let cache = left.killed_with(ITEMS);
    let mut seen = HashSet::new();
    let mut cursor = Some(ScanCursor::START);
    while let Some(from) = cursor {
        cursor = cache.names(from, |_, key| {
            assert!(seen.insert(key.to_vec()), "{key:?} twice");
        });
        let steps = AtomicU64::new(0);
        cache.check_left(1, || steps.fetch_add(1, Ordering::Relaxed) < 1);
    }
    assert_eq!(seen.len() as u64, ITEMS);
    cache.audit().unwrap();
}

#[test]
fn some_key_is_drawn_before_any_is_checked() {
    let left = Left::new("drawn", MEMORY);
    let cache = left.killed_with(ITEMS);
    let drawn = cache.sample_key(Space::MAIN, 12_345, |facts| facts.key.to_vec());
    assert!(drawn.is_some_and(|key| key.starts_with(b"key:")));
}

/// Stores more than the cache has memory for, and reads each; how many older items are left.
fn flood(cache: &Cache) -> usize {
    const MORE: u64 = 40_000;
    for number in MORE..2 * MORE {
        set(cache, number, 1);
        if number % 64 == 0 {
            cache.tick();
        }
        assert_eq!(get(cache, number), Some(value(number, 1)));
    }
    let audit = cache.audit().unwrap();
    assert!(audit.live_items > 5_000, "{audit:?}");
    (0..MORE)
        .filter(|&number| get(cache, number).is_some())
        .count()
}

#[test]
fn a_full_cache_evicts_while_they_are_checked_as_one_that_was_not_killed() {
    const MEMORY: usize = 1 << 20;
    let left = Left::new("full", MEMORY);
    let with = flood(&left.killed_with(40_000));
    let other = Left::new("unkilled", MEMORY);
    let cache = other.open();
    (0..40_000).for_each(|number| set(&cache, number, 0));
    let without = flood(&cache);
    assert!(with < without * 5 / 4 + 500, "{with}, {without}");
}

#[test]
fn items_that_expire_before_their_check_are_gone() {
    let left = Left::new("expiry", MEMORY);
    let cache = left.open();
    for number in 0..ITEMS {
        let key = name(number);
        let key = cache.key(key.as_bytes()).unwrap();
        let options = SetOptions {
            deadline: match number % 3 {
                0 => Deadline::NEVER,
                _ => cache.now().plus_ms(1_000 * (number % 40)),
            },
            ..SetOptions::default()
        };
        cache.set(key, &value(number, 0), &options).unwrap();
    }
    drop(cache);
    let cache = left.open();
    let mut maintenance = Maintenance::default();
    for _ in 0..40 {
        left.clock.advance_ms(500);
        maintenance.step(&cache);
        let steps = AtomicU64::new(0);
        cache.check_left(1, || steps.fetch_add(1, Ordering::Relaxed) < 4);
    }
    for number in 0..ITEMS {
        let is_over = number % 3 != 0 && number % 40 <= 20;
        assert_eq!(get(&cache, number).is_some(), !is_over, "{number}");
    }
    cache.audit().unwrap();
}

#[test]
fn a_second_kill_amid_the_check_loses_nothing() {
    let left = Left::new("second", MEMORY);
    let mut cache = left.killed_with(ITEMS);
    for round in 1..=10 {
        let steps = AtomicU64::new(0);
        cache.check_left(1, || steps.fetch_add(1, Ordering::Relaxed) < 2 * round);
        (0..ITEMS)
            .filter(|number| number % 10 == round - 1)
            .for_each(|number| set(&cache, number, round));
        drop(cache);
        cache = left.open();
    }
    for number in 0..ITEMS {
        assert_eq!(get(&cache, number), Some(value(number, number % 10 + 1)));
    }
    assert_eq!(cache.restored().unwrap().dropped, 0);
    cache.audit().unwrap();
}

#[test]
fn a_clean_stop_amid_the_check_leaves_nothing_to_check() {
    let left = Left::new("stop", MEMORY);
    let cache = left.killed_with(ITEMS);
    set(&cache, 1, 1);
    cache.checkpoint().unwrap().leave();
    let cache = left.open();
    let restored = cache.restored().unwrap();
    assert!(
        !restored.was_walked && restored.was_clean_stop,
        "{restored:?}"
    );
    assert_eq!((restored.items, restored.unchecked_bytes), (ITEMS, 0));
    assert_eq!(get(&cache, 1), Some(value(1, 1)));
    assert_eq!(get(&cache, 2), Some(value(2, 0)));
    cache.audit().unwrap();
}

#[test]
fn threads_that_work_while_items_are_checked_see_what_they_have_stored() {
    const THREADS: u64 = 2;
    let left = Left::new("threads", MEMORY);
    let cache = left.killed_with(ITEMS);
    std::thread::scope(|scope| {
        scope.spawn(|| cache.check_left(2, || true));
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || {
                let mut known = HashMap::new();
                let mut random = 0x9e37_79b9_u64 + thread;
                for round in 1..30_000 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let number = random % (ITEMS / THREADS) * THREADS + thread;
                    match random >> 32 & 3 {
                        0 => {
                            set(cache, number, round);
                            known.insert(number, Some(round));
                        }
                        1 => {
                            delete(cache, number);
                            known.insert(number, None);
                        }
                        _ => {
                            let expected = known.get(&number).copied().unwrap_or(Some(0));
                            let expected = expected.map(|round| value(number, round));
                            assert_eq!(get(cache, number), expected, "{number}");
                        }
                    }
                }
            });
        }
    });
    assert_eq!(unchecked(&cache), 0);
    cache.audit().unwrap();
}
