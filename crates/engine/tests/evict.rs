//! What leaves when memory is full, and what it costs.

use cellar_engine::{Config, Error, ReclaimLag, Stats, Stored};

use crate::support::cache::Timed;

const DONE: Result<Stored, Error> = Ok(Stored::Done { version: 0 });

/// All bytes the cache says it holds.
fn accounted(timed: &Timed) -> u64 {
    let stats = timed.cache.stats();
    stats.live_bytes
        + stats.dead_bytes
        + stats.free_bytes
        + stats.index_bytes
        + stats.overhead_bytes
}

#[test]
fn a_set_on_a_full_cache_never_fails_and_memory_stays_bounded() {
    let timed = Timed::new(4 << 20);
    for number in 0..200_000 {
        assert_eq!(timed.set(&format!("key {number}"), &[1; 100], None), DONE);
        assert_eq!(timed.get(&format!("key {number}")), Some(vec![1; 100]));
    }
    assert!(accounted(&timed) <= 4 << 20);
    let stats = timed.cache.stats();
    assert!(stats.items > 20_000, "{stats:?}");
    assert_eq!(stats.items + stats.evicted, 200_000);
}

#[test]
fn items_of_all_sizes_share_one_memory() {
    let timed = Timed::new(8 << 20);
    for number in 0..20_000_usize {
        let bytes = [10, 100, 1_000, 10_000, 100_000, 1_000_000][number * 7 % 6];
        let stored = timed
            .set(&format!("key {number}"), &vec![2; bytes], Some(1_000))
            .unwrap();
        assert!(matches!(stored, Stored::Done { .. }));
        assert_eq!(
            timed.get(&format!("key {number}")).map(|value| value.len()),
            Some(bytes)
        );
        timed.clock.advance_ms(number as u64 % 40);
        assert!(accounted(&timed) <= 8 << 20, "{:?}", timed.cache.stats());
    }
}

#[test]
fn what_is_read_outlives_a_scan_of_what_is_not() {
    let timed = Timed::new(4 << 20);
    for number in 0..2_000 {
        timed
            .set(&format!("hot {number}"), &[1; 100], None)
            .unwrap();
    }
    for number in 0..200_000 {
        timed.get(&format!("hot {}", number % 2_000));
        timed
            .set(&format!("scan {number}"), &[1; 100], None)
            .unwrap();
    }
    let kept = (0..2_000)
        .filter(|n| timed.get(&format!("hot {n}")).is_some())
        .count();
    assert!(kept > 1_900, "{kept} of 2000");
}

#[test]
fn reads_that_come_with_the_store_keep_nothing() {
    // Some 8,000 items, of which the small queue has 800.
    let timed = Timed::new(1 << 20);
    let store = |number: usize| {
        let stored = timed.set(&format!("key {number}"), &[1; 100], None);
        stored.unwrap();
    };
    let is_there = |number: usize| timed.get(&format!("key {number}")).is_some();
    let (at_once, later) = (0, 5);
    for number in 0..150_000 {
        store(number);
        let before = number.saturating_sub(700);
        assert!(number % 10 != at_once || is_there(number));
        assert!(before % 10 != later || is_there(before));
    }
    // Longer ago than all of them can stay: what is left of them is in the main queue.
    let long_ago = 120_000..130_000;
    let kept = |kind| {
        let numbers = long_ago.clone().filter(|number| number % 10 == kind);
        numbers.filter(|number| is_there(*number)).count()
    };
    // One may come back in time for a ghost that has its fingerprint.
    assert!(kept(at_once) < 20);
    assert_eq!(kept(later), 1_000);
}

#[test]
fn the_small_queue_gets_the_share_that_misses_least() {
    let timed = Timed::with(Config {
        seed: Some(3),
        ..Config::with_memory(8 << 20)
    });
    // Each key is read once, when so many others were stored behind it as are a seventh of the
    // cache: a small queue of a tenth has forgotten it by then.
    let distance = 8_000;
    let mut hits = [0_usize; 4];
    for number in 0..400_000_usize {
        timed
            .set(&format!("key {number}"), &[1; 100], None)
            .unwrap();
        if let Some(before) = number.checked_sub(distance) {
            hits[number / 100_000] += usize::from(timed.get(&format!("key {before}")).is_some());
        }
    }
    assert!(hits[3] > 90_000, "{hits:?}");
}

#[test]
fn expired_items_make_room_before_live_ones_leave() {
    let timed = Timed::new(8 << 20);
    for number in 0..15_000 {
        timed
            .set(&format!("long {number}"), &[1; 100], Some(3_600_000))
            .unwrap();
    }
    for round in 0..20 {
        for number in 0..15_000 {
            timed
                .set(&format!("short {round} {number}"), &[1; 100], Some(500))
                .unwrap();
        }
        timed.clock.advance_ms(1_000);
    }
    assert_eq!(timed.cache.stats().evicted, 0);
    let kept = (0..15_000)
        .filter(|n| timed.get(&format!("long {n}")).is_some())
        .count();
    assert_eq!(kept, 15_000);
}

#[test]
fn little_is_dead_when_a_live_item_is_evicted() {
    let timed = Timed::new(8 << 20);
    // Values change their size, so half of the overwrites do not fit in place.
    for number in 0..400_000_u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 47;
        let bytes = 50 + (number * 31 % 100) as usize;
        timed
            .set(
                &format!("key {key}"),
                &vec![1; bytes],
                Some(20_000 + key % 60_000),
            )
            .unwrap();
        timed.clock.advance_ms(u64::from(number % 4 == 0));
    }
    let stats = timed.cache.stats();
    assert!(stats.evicted > 1_000, "{stats:?}");
    assert!(stats.dead_at_eviction_max_ppm <= 60_000, "{stats:?}");
}

#[test]
fn overwriting_in_place_leaves_nothing_dead() {
    let timed = Timed::new(8 << 20);
    for round in 0..10 {
        for number in 0..10_000 {
            timed
                .set(&format!("key {number}"), &[round; 100], Some(60_000))
                .unwrap();
        }
    }
    let stats = timed.cache.stats();
    assert_eq!(
        (stats.items, stats.dead_bytes, stats.copied),
        (10_000, 0, 0)
    );
}

#[test]
fn a_value_may_grow_back_into_the_room_it_left() {
    let timed = Timed::new(8 << 20);
    for bytes in [100, 40, 99, 1, 0, 100] {
        timed.set("key", &vec![7; bytes], None).unwrap();
        timed.set("other", &[1; 10], None).unwrap();
        assert_eq!(timed.get("key"), Some(vec![7; bytes]));
    }
    assert_eq!(timed.cache.stats().dead_bytes, 0);
}

#[test]
fn a_large_item_gets_memory_from_all_shards() {
    let memory = 64 << 20;
    let config = Config {
        shards: Some(8),
        value_bytes_max: 24 << 20,
        ..Config::with_memory(memory)
    };
    let timed = Timed::with(config);
    for number in 0..600_000 {
        timed
            .set(&format!("key {number}"), &[1; 100], None)
            .unwrap();
    }
    let large = vec![9; 24 << 20];
    for number in 0..4 {
        let stored = timed.set(&format!("large {number}"), &large, None);
        let stored = stored.unwrap_or_else(|_| panic!("{number}: {:?}", timed.cache.stats()));
        assert!(matches!(stored, Stored::Done { .. }));
        assert_eq!(timed.get(&format!("large {number}")).as_ref(), Some(&large));
        assert!(
            accounted(&timed) <= memory as u64,
            "{:?}",
            timed.cache.stats()
        );
    }
}

#[test]
fn values_over_the_limit_and_keys_out_of_bounds_are_refused() {
    let timed = Timed::new(4 << 20);
    let too_large = timed.set("key", &vec![0; (1 << 20) + 1], None);
    assert_eq!(
        too_large,
        Err(Error::TooLarge {
            bytes: (1 << 20) + 1,
            max: 1 << 20
        })
    );
    assert!(timed.cache.key(b"").is_ok());
    assert!(timed.cache.key(&[b'k'; 65_536]).is_err());
    assert!(timed.cache.key(&[b'k'; 65_535]).is_ok());
}

#[test]
fn the_index_shrinks_when_many_small_items_are_gone() {
    let timed = Timed::new(32 << 20);
    for number in 0..500_000 {
        timed.set(&format!("{number}"), b"", Some(1_000)).unwrap();
    }
    let before = timed.cache.stats();
    timed.clock.advance_ms(2_000);
    for _ in 0..10_000 {
        timed.cache.tick();
    }
    let after = timed.cache.stats();
    assert_eq!(after.items, 0);
    assert!(
        after.index_bytes * 10 < before.index_bytes,
        "{before:?} {after:?}"
    );
}

#[test]
fn memory_of_the_dead_goes_back_if_the_configuration_says_so() {
    for release_memory in [false, true] {
        let timed = Timed::with(Config {
            shards: Some(1),
            seed: Some(3),
            release_memory,
            ..Config::with_memory(32 << 20)
        });
        for number in 0..100_000 {
            let ttl_ms = (number % 4 != 0).then_some(1_000);
            timed.set(&format!("{number}"), &[1; 200], ttl_ms).unwrap();
        }
        let before = timed.cache.stats();
        timed.clock.advance_ms(1_000);
        for _ in 0..4_000 {
            timed.cache.tick();
            timed.clock.advance_ms(1);
        }
        let after = timed.cache.stats();
        let held = |stats: &Stats| stats.live_bytes + stats.dead_bytes + stats.free_bytes;
        if release_memory {
            assert!(held(&after) * 3 < held(&before), "{before:?} {after:?}");
            assert!(after.dead_bytes * 20 < after.live_bytes, "{after:?}");
        } else {
            assert!(held(&after) >= held(&before), "{before:?} {after:?}");
            for _ in 0..25_000 {
                timed.cache.tick();
                timed.clock.advance_ms(1);
            }
            let rested = timed.cache.stats();
            assert!(held(&rested) * 3 < held(&before), "{before:?} {rested:?}");
        }
        let kept = (0..100_000).step_by(4);
        for number in kept {
            assert_eq!(timed.get(&format!("{number}")), Some(vec![1; 200]));
        }
        for number in (0..100_000).filter(|number| number % 4 != 0) {
            timed.set(&format!("{number}"), &[2; 200], None).unwrap();
        }
        let full = timed.cache.stats();
        assert_eq!((full.items, full.evicted), (100_000, 0));
    }
}

/// How many pages of the `bytes` bytes from `start` on are resident, as the kernel tells.
#[cfg(not(miri))]
fn resident_pages(start: *const u8, bytes: usize) -> usize {
    use std::os::unix::fs::FileExt;

    const PAGE_BYTES: usize = 4096;
    const ENTRY_BYTES: u64 = 8;
    const PRESENT: u64 = 1 << 63;
    let map = std::fs::File::open("/proc/self/pagemap").unwrap();
    let first = start as usize / PAGE_BYTES;
    let pages = first..first + bytes / PAGE_BYTES;
    let is_resident = |&page: &usize| {
        let mut entry = [0; ENTRY_BYTES as usize];
        map.read_exact_at(&mut entry, page as u64 * ENTRY_BYTES)
            .unwrap();
        u64::from_ne_bytes(entry) & PRESENT != 0
    };
    pages.filter(is_resident).count()
}

#[cfg(not(miri))]
#[test]
fn the_end_of_a_segment_goes_back_when_nothing_was_stored_for_ten_seconds() {
    const LOOKED_AT_BYTES: usize = 256 << 10;
    let timed = Timed::new(1 << 30);
    for number in 0..150_000 {
        timed
            .set(&format!("{number}"), &[1; 200], Some(1_000))
            .unwrap();
    }
    timed.clock.advance_ms(1_000);
    while timed.cache.stats().items > 0 {
        timed.cache.tick();
    }
    // In a segment that others have filled before.
    timed.set("kept", &[2; 300], None).unwrap();
    let key = timed.cache.key(b"kept").unwrap();
    let start = timed.cache.get_handle(key).unwrap().as_ptr();
    let wait = |ms: usize| {
        for _ in 0..ms {
            timed.cache.tick();
            timed.clock.advance_ms(1);
        }
    };
    wait(9_000);
    let pages = resident_pages(start, LOOKED_AT_BYTES);
    assert!(pages * 4096 > LOOKED_AT_BYTES / 4 * 3, "{pages} pages");
    wait(12_000);
    let pages = resident_pages(start, LOOKED_AT_BYTES);
    assert!(pages * 4096 < LOOKED_AT_BYTES / 4, "{pages} pages");
    assert_eq!(timed.get("kept"), Some(vec![2; 300]));
    for number in 0..10_000 {
        timed.set(&format!("{number}"), &[3; 200], None).unwrap();
    }
    for number in 0..10_000 {
        assert_eq!(timed.get(&format!("{number}")), Some(vec![3; 200]));
    }
}

#[test]
fn memory_that_is_needed_again_within_ten_seconds_stays() {
    let timed = Timed::new(32 << 20);
    let held = |stats: &Stats| stats.live_bytes + stats.dead_bytes + stats.free_bytes;
    for wave in 0..10 {
        for number in 0..50_000 {
            let key = format!("{wave}:{number}");
            timed.set(&key, &[1; 200], Some(1_000)).unwrap();
        }
        let most = held(&timed.cache.stats());
        for _ in 0..8_000 {
            timed.cache.tick();
            timed.clock.advance_ms(1);
        }
        let rested = held(&timed.cache.stats());
        assert!(rested * 10 > most * 9, "{wave}: {rested} of {most}");
    }
}

#[test]
fn the_lag_of_every_expired_item_is_counted() {
    let timed = Timed::new(8 << 20);
    for number in 0..100 {
        timed.set(&format!("a{number}"), b"", Some(1_000)).unwrap();
    }
    timed.clock.advance_ms(1_000 + 5);
    for number in 0..60 {
        assert_eq!(timed.get(&format!("a{number}")), None);
    }
    timed.clock.advance_ms(1_000);
    while timed.cache.tick() {}
    timed.cache.tick();
    let lag = timed.cache.reclaim_lag();
    let bin = |lag_ms: u64| {
        let below = (0..ReclaimLag::BINS)
            .position(|bin| ReclaimLag::below_ms(bin).is_none_or(|below_ms| lag_ms < below_ms));
        below.unwrap()
    };
    assert_eq!(
        (lag.items[bin(5)], lag.items[bin(1_005)]),
        (60, 40),
        "{lag:?}"
    );
    assert_eq!(lag.items.iter().sum::<u64>(), timed.cache.stats().expired);
}

#[test]
fn a_mass_of_dead_items_goes_before_the_rest_of_a_half_evicted_segment() {
    let timed = Timed::new(8 << 20);
    let mut number = 0;
    let mut fill = |count: usize, ttl_ms: Option<u64>| {
        for _ in 0..count {
            number += 1;
            timed.set(&format!("{number}"), &[1; 100], ttl_ms).unwrap();
        }
    };
    // Full, half of it to die at one moment; then that moment comes while live items are leaving.
    fill(80_000, None);
    for round in 0..20 {
        fill(15_000, Some(10_000));
        fill(15_000 + 13 * round, None);
        timed.clock.advance_ms(10_000);
        let before = timed.cache.stats().evicted;
        fill(5_000, None);
        assert_eq!(timed.cache.stats().evicted, before, "round {round}");
    }
    assert!(timed.cache.stats().dead_at_eviction_max_ppm < 60_000);
}

#[test]
fn all_items_are_gone_after_a_flush_and_their_memory_is_used_again() {
    let timed = Timed::new(4 << 20);
    for round in 0..5 {
        for number in 0..20_000 {
            timed
                .set(&format!("key {number}"), &[round; 100], None)
                .unwrap();
        }
        timed.cache.flush();
        assert_eq!(timed.cache.stats().items, 0);
        assert_eq!(timed.get("key 7"), None);
    }
    assert_eq!(timed.cache.stats().evicted, 0);
    assert!(accounted(&timed) <= 4 << 20);
}

#[test]
fn large_values_that_shrink_leave_no_dead_bytes_behind() {
    let timed = Timed::new(8 << 20);
    let mut evicted = 0;
    for number in 0..3_000_usize {
        let bytes = [100_000, 30_000, 70_000][number / 60 % 3];
        timed
            .set(&format!("key {}", number % 90), &vec![1; bytes], None)
            .unwrap();
        let now_evicted = timed.cache.stats().evicted;
        if now_evicted > evicted {
            evicted = now_evicted;
            let audit = timed.cache.audit().unwrap();
            assert!(audit.dead_ppm() <= 60_000, "{number}: {audit:?}");
        }
    }
    assert!(evicted > 40, "{evicted}");
}

#[test]
fn items_about_as_long_as_a_segment_find_room_whatever_their_deadlines() {
    for memory_bytes in [32 << 10, 128 << 10] {
        let timed = Timed::new(memory_bytes);
        let segment_bytes = timed.cache.stats().segment_bytes as usize;
        // From about eight ninths of a segment on, an item is better off alone.
        let near = |bytes: usize| bytes - 40..bytes + 10;
        for bytes in near(segment_bytes).chain(near(segment_bytes / 9 * 8)) {
            for number in 0..memory_bytes / 60 {
                let ttl_ms = [None, Some(1_000), None][number % 3];
                timed
                    .set(&format!("key {number}"), &[1; 40], ttl_ms)
                    .unwrap();
            }
            for ttl_ms in [None, Some(5_000), Some(1 << 40), Some(1 << 46)] {
                assert_eq!(
                    timed.set("long", &vec![1; bytes], ttl_ms),
                    DONE,
                    "{bytes}, {ttl_ms:?}"
                );
                assert_eq!(timed.get("long").map(|value| value.len()), Some(bytes));
            }
        }
        timed.cache.audit().unwrap();
    }
}

#[test]
fn the_smallest_cache_holds_items_in_more_than_half_of_its_memory() {
    for (memory_bytes, percent) in [(16 << 10, 56), (64 << 10, 72), (1 << 20, 84)] {
        let timed = Timed::new(memory_bytes);
        for number in 0..memory_bytes / 20 {
            timed
                .set(&format!("key {number}"), &[1; 100], None)
                .unwrap();
        }
        let audit = timed.cache.audit().unwrap();
        let held_percent = audit.live_bytes * 100 / memory_bytes as u64;
        assert!(held_percent >= percent, "{held_percent} of {audit:?}");
    }
}

#[test]
fn a_segment_pays_for_deadlines_only_if_its_items_have_some() {
    let overhead_bytes = |ttl_ms| {
        let timed = Timed::new(256 << 10);
        for number in 0..10_000 {
            timed
                .set(&format!("key {number}"), &[1; 100], ttl_ms)
                .unwrap();
        }
        let audit = timed.cache.audit().unwrap();
        audit.overhead_bytes
    };
    let (without, with) = (overhead_bytes(None), overhead_bytes(Some(3_600_000)));
    assert!(without * 3 / 2 < with, "{without} and {with}");
}

#[test]
fn items_get_deadlines_where_none_had_one() {
    let timed = Timed::new(64 << 10);
    let key = |number: u32| format!("key {number}");
    for number in 0..200 {
        timed.set(&key(number), &[1; 100], None).unwrap();
    }
    for number in 100..200 {
        let ttl_ms = u64::from(number) * 10;
        if number % 2 == 0 {
            timed.set(&key(number), &[2; 80], Some(ttl_ms)).unwrap();
        } else {
            let bytes = key(number);
            let touched = timed.cache.touch(
                timed.cache.key(bytes.as_bytes()).unwrap(),
                timed.deadline(Some(ttl_ms)),
            );
            assert_eq!(touched, Ok(true));
        }
        timed.cache.audit().unwrap();
    }
    timed.clock.advance_ms(1_500);
    for number in 100..200 {
        assert_eq!(timed.get(&key(number)).is_some(), number > 150, "{number}");
    }
    timed.cache.audit().unwrap();
}

#[test]
fn small_items_stay_without_a_read_where_large_ones_leave() {
    let timed = Timed::new(4 << 20);
    let value = |number: usize| vec![1; if number.is_multiple_of(2) { 100 } else { 2_000 }];
    for number in 0..6_000 {
        timed
            .set(&format!("key {number}"), &value(number), None)
            .unwrap();
    }
    let there = |odd: usize| {
        let keys = (odd..3_000).step_by(2);
        keys.filter(|number| timed.get(&format!("key {number}")).is_some())
            .count()
    };
    assert!(there(0) > 1_000, "{} small ones", there(0));
    assert!(there(1) < 300, "{} large ones", there(1));
}
