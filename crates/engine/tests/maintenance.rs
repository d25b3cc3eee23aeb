//! Maintenance beside requests: items stay whole while their memory goes to huge pages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_engine::{Cache, Config, DeleteOptions, Maintenance, SetOptions};

use crate::support::cache::Timed;

const ITEMS: u64 = 60_000;
const VALUE_BYTES: usize = 400;
const MEMORY_BYTES: usize = 128 << 20;

fn key_of(number: u64) -> String {
    format!("key{number:08}")
}

/// A value that tells whose it is in each of its bytes.
fn value_of(number: u64) -> Vec<u8> {
    let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    word.iter().copied().cycle().take(VALUE_BYTES).collect()
}

fn filled() -> Timed {
    filled_in(MEMORY_BYTES)
}

fn filled_in(memory_bytes: usize) -> Timed {
    let timed = Timed::with(Config {
        shards: Some(1),
        ..Config::with_memory(memory_bytes)
    });
    for number in 0..ITEMS {
        timed.set(&key_of(number), &value_of(number), None).unwrap();
    }
    // Past the time for which a cache counts as growing.
    timed.clock.advance_ms(1_000);
    timed
}

fn check_all(timed: &Timed) {
    for number in 0..ITEMS {
        let found = timed.get(&key_of(number));
        assert!(found == Some(value_of(number)), "item {number} is damaged");
    }
}

#[test]
fn items_are_whole_when_all_memory_is_on_huge_pages() {
    let timed = filled();
    let steps = std::iter::repeat_with(|| timed.cache.use_huge_pages());
    let stretches = steps.take_while(|&was_any| was_any).count();
    assert!(stretches >= 10, "only {stretches} stretches were chosen");
    check_all(&timed);
    // What is written after stays as well, and so does what memory is given back around.
    for number in 0..ITEMS / 2 {
        let key = timed.cache.key(b"x").unwrap();
        let _ = timed.cache.delete(key, &DeleteOptions::default());
        timed.set(&key_of(number), &value_of(number), None).unwrap();
    }
    check_all(&timed);
}

#[test]
fn a_small_cache_has_no_huge_page_made_beside_its_memory() {
    let timed = filled_in(MEMORY_BYTES - 1);
    assert!(!timed.cache.use_huge_pages());
}

/// Reads, writes in place, holds values and receives new ones outside the lock, until it is over.
fn disturb(cache: &Cache, over: &AtomicBool) {
    let mut number = 0;
    // Relaxed: nothing but the flag is passed on.
    while !over.load(Ordering::Relaxed) {
        number = (number + 7_919) % ITEMS;
        let (name, value) = (key_of(number), value_of(number));
        let key = cache.key(name.as_bytes()).unwrap();
        let held = cache.get(key, |item| item.pin()).unwrap();
        assert_eq!(*held, *value, "item {number} is damaged");
        match number % 3 {
            0 => {
                cache.set(key, &value, &SetOptions::default()).unwrap();
            }
            1 => {
                let mut draft = cache.draft(key, VALUE_BYTES).unwrap();
                for (to, from) in draft.value_mut().iter_mut().zip(&value) {
                    *to = *from;
                }
                cache.commit(draft, &SetOptions::default()).unwrap();
            }
            _ => {}
        }
        assert_eq!(*held, *value, "the held item {number} changed");
    }
}

#[test]
fn items_stay_whole_while_others_use_them() {
    let timed = filled();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let users = [(); 2].map(|()| scope.spawn(|| disturb(&timed.cache, &over)));
        let steps = (0..100).filter(|_| timed.cache.use_huge_pages());
        let stretches = steps.count();
        over.store(true, Ordering::Relaxed);
        assert!(stretches >= 10, "only {stretches} stretches were chosen");
        for user in users {
            user.join().unwrap();
        }
    });
    check_all(&timed);
}

#[test]
fn memory_that_holds_nothing_goes_back_in_two_seconds_however_much_it_is() {
    for (memory_mib, shards) in [(16, 1), (64, 16)] {
        let timed = Timed::with(Config {
            shards: Some(shards),
            release_memory: true,
            ..Config::with_memory(memory_mib << 20)
        });
        for number in 0..memory_mib * 1_800 {
            timed
                .set(&key_of(number as u64), &[1; VALUE_BYTES], Some(1_000))
                .unwrap();
        }
        let mut maintenance = Maintenance::default();
        let mut waited = Duration::ZERO;
        timed.clock.advance_ms(1_000);
        while waited < Duration::from_secs(2) {
            let pause = maintenance.step(&timed.cache);
            let passed_ms = |of: Duration| of.as_millis() as u64;
            let ms = passed_ms(waited + pause) - passed_ms(waited);
            timed.clock.advance_ms(ms);
            waited += pause;
        }
        let stats = timed.cache.stats();
        let held = stats.free_bytes + stats.live_bytes + stats.dead_bytes;
        let kept = memory_mib << 20 >> 4;
        assert!(held < kept as u64, "{held} of {memory_mib} MiB");
    }
}

/// Waking a thread for nothing costs more than most of its work; memory that is touched ahead of
/// its use has to stay ahead.
#[test]
fn maintenance_comes_back_soon_only_while_memory_grows_or_there_is_work() {
    let (short, idle) = (Duration::from_millis(2), Duration::from_millis(10));
    let timed = filled_in(MEMORY_BYTES);
    let mut maintenance = Maintenance::default();
    let mut rest = || {
        let steps = std::iter::repeat_with(|| {
            let pause = maintenance.step(&timed.cache);
            timed.clock.advance_ms(pause.as_millis() as u64);
            pause
        });
        let pauses: Vec<Duration> = steps.take(2_000).collect();
        let mut between = pauses.iter().filter(|&&it| short < it && it < idle);
        assert_eq!(between.next(), None, "neither work nor growth nor rest");
        assert!(pauses.last() >= Some(&idle), "it does not come to rest");
        pauses
    };
    rest();
    for number in ITEMS..ITEMS + 5_000 {
        timed.set(&key_of(number), &value_of(number), None).unwrap();
    }
    let after_growth = &rest()[..10];
    let is_soon = after_growth.iter().all(|&pause| pause <= short);
    assert!(is_soon, "{after_growth:?}");
}
