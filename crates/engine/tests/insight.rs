//! What the cache says about itself: the miss-ratio curve, why reads missed, the hottest keys.

use cellar_engine::{Config, DeleteOptions, Instant, Lookup, MissRatioCurve, MissReasons, When};

use crate::support::cache::Timed;
use crate::support::workload::{Request, Workload};

const MIB: usize = 1 << 20;

fn small() -> Timed {
    Timed::new(4 * MIB)
}

/// Sends requests as a client does that stores what it missed; returns misses and reads.
fn replay(timed: &Timed, requests: impl Iterator<Item = Request>) -> (u64, u64) {
    let (mut misses, mut gets) = (0, 0);
    let value = [7; 4096];
    for request in requests {
        timed.clock.set(Instant(request.now_ms));
        let key = format!("key {}", request.key);
        let is_miss = !request.is_write && {
            gets += 1;
            let key = timed.cache.key(key.as_bytes()).unwrap();
            timed.cache.get(key, |_| ()).is_none()
        };
        misses += u64::from(is_miss);
        if is_miss || request.is_write {
            timed
                .set(&key, &value[..request.value_bytes], request.ttl_ms)
                .unwrap();
        }
    }
    (misses, gets)
}

/// Checks the curve of a cache of 4 MiB against real caches of the five sizes.
fn check_curve(workload: &Workload) {
    let timed = Timed::with(Config {
        seed: Some(11),
        ..Config::with_memory(4 * MIB)
    });
    let (misses, gets) = replay(&timed, workload.requests());
    let curve = timed.cache.miss_ratio_curve();
    assert_eq!(curve.gets, gets);
    assert_eq!(curve.points[2].misses, misses);
    let mut real = [0.0; 5];
    for (real, point) in real.iter_mut().zip(&curve.points) {
        let other = Timed::with(Config {
            seed: Some(12),
            ..Config::with_memory(point.memory_bytes as usize)
        });
        let (misses, gets) = replay(&other, workload.requests());
        *real = misses as f64 / gets as f64;
    }
    let estimated = curve.miss_ratios();
    let errors = real
        .iter()
        .zip(&estimated)
        .map(|(real, e)| (real - e).abs());
    let error = errors.sum::<f64>() / 5.0;
    assert!(
        error <= 0.02,
        "{error}: real {real:?} estimated {estimated:?}"
    );
    assert!(real[0] - real[4] > 0.1, "the sizes differ: {real:?}");
}

#[test]
fn the_curve_of_skewed_reads_is_that_of_real_caches() {
    check_curve(&Workload {
        keys: 150_000,
        requests: 400_000,
        skew: 0.8,
        ..Workload::default()
    });
}

#[test]
fn the_curve_of_items_with_ttls_and_sizes_and_writes_is_that_of_real_caches() {
    check_curve(&Workload {
        keys: 60_000,
        requests: 400_000,
        skew: 0.9,
        ttls_ms: &[None, Some(20_000), Some(120_000), Some(600_000)],
        value_bytes: (20, 700),
        write_percent: 10,
        ..Workload::default()
    });
}

#[test]
fn the_curve_of_loops_and_scans_is_that_of_real_caches() {
    check_curve(&Workload {
        keys: 40_000,
        requests: 400_000,
        skew: 0.9,
        scan_percent: 40,
        loop_keys: 50_000,
        ..Workload::default()
    });
}

#[test]
fn a_cache_that_holds_everything_gains_nothing_from_more_memory() {
    let timed = small();
    for round in 0..3 {
        for number in 0..2_000 {
            let key = format!("key {number}");
            assert_eq!(timed.get(&key).is_some(), round > 0);
            if round == 0 {
                timed.set(&key, &[1; 100], None).unwrap();
            }
        }
    }
    let curve = timed.cache.miss_ratio_curve();
    assert_eq!(curve.gets, 6_000);
    assert_eq!(curve.points.map(|point| point.misses), [2_000; 5]);
    let window = timed.cache.miss_ratio_curve().since(&curve);
    assert_eq!((window.gets, window.miss_ratios()), (0, [0.0; 5]));
}

#[test]
fn the_smallest_cache_has_a_curve_too() {
    let timed = Timed::new(16 << 10);
    for round in 0..5 {
        for number in 0..1_000 {
            timed.get(&format!("key {number}"));
            timed
                .set(&format!("key {number}"), &[round; 10], None)
                .unwrap();
        }
    }
    let curve = timed.cache.miss_ratio_curve();
    assert_eq!(curve.gets, 5_000);
    assert!(curve.points[2].misses > 3_000, "{curve:?}");
}

#[test]
fn counts_of_the_curve_never_go_back() {
    let timed = small();
    let workload = Workload {
        keys: 100_000,
        requests: 200_000,
        skew: 0.8,
        ..Workload::default()
    };
    let mut before = MissRatioCurve::default();
    let requests: Vec<Request> = workload.requests().collect();
    for some in requests.chunks(500) {
        replay(&timed, some.iter().copied());
        let curve = timed.cache.miss_ratio_curve();
        for (now, then) in curve.points.iter().zip(&before.points) {
            assert!(then.misses <= now.misses && now.misses <= curve.gets);
        }
        before = curve;
    }
}

#[test]
fn each_miss_has_its_reason() {
    let timed = small();
    let expect = |never_stored, expired, evicted, deleted| {
        let reasons = MissReasons {
            never_stored,
            expired,
            evicted,
            deleted,
        };
        assert_eq!(timed.cache.miss_reasons(), reasons);
    };
    let delete = |key: &str| {
        let key = timed.cache.key(key.as_bytes()).unwrap();
        timed.cache.delete(key, &DeleteOptions::default()).unwrap();
    };
    assert_eq!(timed.get("unknown"), None);
    expect(1, 0, 0, 0);
    for key in ["short", "deleted", "deleted and over"] {
        timed.set(key, b"v", Some(10_000)).unwrap();
    }
    delete("deleted");
    delete("deleted and over");
    delete("unknown");
    assert_eq!(timed.get("deleted"), None);
    assert_eq!(timed.get("unknown"), None);
    expect(2, 0, 0, 1);
    assert!(timed.get("short").is_some());
    timed.clock.advance_ms(10_000);
    assert_eq!(timed.get("short"), None);
    assert_eq!(timed.get("short"), None);
    assert_eq!(timed.get("deleted and over"), None);
    expect(2, 3, 0, 1);
    timed.set("deleted", b"again", None).unwrap();
    assert!(timed.get("deleted").is_some());
    timed.cache.flush();
    assert_eq!(timed.get("deleted"), None);
    timed.set("deleted", b"again", None).unwrap();
    assert!(timed.get("deleted").is_some());
    expect(2, 3, 0, 2);
}

#[test]
fn a_later_flush_counts_from_its_moment() {
    let timed = small();
    timed.set("key", b"v", None).unwrap();
    timed.cache.flush_at(Instant(timed.cache.now().0 + 5_000));
    assert!(timed.get("key").is_some());
    timed.clock.advance_ms(5_000);
    assert_eq!(timed.get("key"), None);
    assert_eq!(timed.cache.miss_reasons().deleted, 1);
    timed.set("key", b"v", None).unwrap();
    assert!(timed.get("key").is_some());
}

#[test]
fn what_had_to_make_room_was_evicted_and_later_is_expired() {
    let timed = small();
    for number in 0..60_000 {
        timed
            .set(&format!("key {number}"), &[1; 100], Some(60_000))
            .unwrap();
    }
    let read_the_first = || {
        for number in 0..20_000 {
            assert_eq!(timed.get(&format!("key {number}")), None);
        }
        timed.cache.miss_reasons()
    };
    let before = read_the_first();
    assert!(before.evicted.abs_diff(20_000) < 3_000, "{before:?}");
    assert!(before.never_stored < 2_000, "{before:?}");
    assert_eq!((before.expired, before.deleted), (0, 0));
    timed.clock.advance_ms(60_000);
    let after = read_the_first();
    assert!(after.expired.abs_diff(20_000) < 3_000, "{after:?}");
    assert_eq!((after.evicted, after.deleted), (before.evicted, 0));
}

#[test]
fn reasons_are_estimated_well_from_a_sample() {
    let timed = small();
    let (mut never, mut over) = (0, 0);
    for number in 0..40_000_u64 {
        let key = format!("key {number}");
        if number % 4 != 0 {
            timed
                .set(&key, &[1; 40], Some(1_000 + number % 1_000))
                .unwrap();
        }
        timed.clock.advance_ms(1);
    }
    timed.clock.advance_ms(5_000);
    for number in 0..40_000_u64 {
        assert_eq!(timed.get(&format!("key {number}")), None);
        let count = if number % 4 == 0 {
            &mut never
        } else {
            &mut over
        };
        *count += 1;
    }
    let reasons = timed.cache.miss_reasons();
    assert_eq!(reasons.deleted, 0);
    // Fates are forgotten in the end: those count as never stored.
    let all = reasons.never_stored + reasons.expired + reasons.evicted;
    assert!(all.abs_diff(never + over) < 4_000, "{reasons:?}");
    assert!(reasons.expired.abs_diff(over) < 4_000, "{reasons:?}");
}

#[test]
fn reads_that_touch_and_counters_are_noted_too() {
    let timed = small();
    let key = timed.cache.key(b"key").unwrap();
    timed.set("key", b"1", Some(5_000)).unwrap();
    let touch = Lookup {
        touch: Some(timed.deadline(Some(60_000))),
        ..Lookup::default()
    };
    let found = timed.cache.lookup(key, &touch, |_| ()).unwrap();
    assert!(found.is_some());
    timed.clock.advance_ms(30_000);
    assert!(timed.get("key").is_some());
    timed.clock.advance_ms(30_000);
    assert_eq!(timed.cache.lookup(key, &touch, |_| ()), Ok(None));
    assert_eq!(timed.cache.miss_reasons().expired, 1);
    let curve = timed.cache.miss_ratio_curve();
    assert_eq!((curve.gets, curve.points.map(|p| p.misses)), (3, [1; 5]));
}

#[test]
fn a_second_look_for_the_same_read_is_not_counted() {
    let timed = small();
    timed.set("key", b"value", None).unwrap();
    let again = Lookup {
        uncounted: true,
        ..Lookup::default()
    };
    for (name, is_there) in [("key", true), ("none", false)] {
        let key = timed.cache.key(name.as_bytes()).unwrap();
        assert_eq!(timed.cache.get(key, |_| ()).is_some(), is_there);
        let found = timed.cache.lookup(key, &again, |_| ()).unwrap();
        assert_eq!(found.is_some(), is_there);
    }
    let curve = timed.cache.miss_ratio_curve();
    assert_eq!((curve.gets, curve.points[2].misses), (2, 1));
}

#[test]
fn a_refused_store_is_no_store() {
    let timed = small();
    let key = timed.cache.key(b"key").unwrap();
    let options = cellar_engine::SetOptions {
        when: When::Present,
        ..Default::default()
    };
    timed.cache.set(key, b"v", &options).unwrap();
    assert_eq!(timed.get("key"), None);
    assert_eq!(timed.cache.miss_reasons().never_stored, 1);
}

#[test]
fn the_hottest_keys_come_in_order() {
    let timed = Timed::with(Config {
        threads: 2,
        seed: Some(5),
        ..Config::with_memory(64 * MIB)
    });
    let workload = Workload {
        keys: 100_000,
        requests: 600_000,
        skew: 1.0,
        per_second: 10_000,
        ..Workload::default()
    };
    replay(&timed, workload.requests());
    let hottest = timed.cache.hottest_keys(20);
    assert_eq!(hottest.len(), 20);
    // The ranks of the first differ by more than the sampling does.
    let first: Vec<&[u8]> = hottest.iter().take(3).map(|hot| &hot.key[..]).collect();
    assert_eq!(first, [&b"key 0"[..], b"key 1", b"key 2"]);
    let ranks = hottest
        .iter()
        .map(|hot| String::from_utf8_lossy(&hot.key[4..]).into_owned());
    let near = ranks
        .filter(|rank| rank.parse::<u32>().unwrap() < 30)
        .count();
    assert!(near >= 18, "{hottest:?}");
    // 1 / H(100,000) of the reads go to the first key.
    let share = 1.0 / 12.09;
    assert!((hottest[0].share - share).abs() < 0.02, "{:?}", hottest[0]);
    let per_s = share * 10_000.0;
    assert!(
        (hottest[0].gets_per_s - per_s).abs() < 200.0,
        "{:?}",
        hottest[0]
    );
    timed.clock.advance_ms(3_600_000);
    assert!(timed.cache.hottest_keys(20).is_empty());
}

#[test]
fn the_insights_are_paid_for() {
    for (mib, paid) in [(1, MIB / 256), (64, MIB / 4), (1024, 2 * MIB)] {
        let stats = Timed::new(mib * MIB).cache.stats();
        assert!(stats.overhead_bytes >= paid as u64, "{mib} MiB: {stats:?}");
    }
}

#[test]
fn many_threads_are_never_held_up_and_lose_few_samples() {
    let timed = Timed::with(Config {
        threads: 4,
        ..Config::with_memory(16 * MIB)
    });
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let timed = &timed;
            scope.spawn(move || {
                for number in 0..50_000_u64 {
                    let key = format!("key {}", (number * 7 + thread) % 20_000);
                    if timed.get(&key).is_none() {
                        timed.set(&key, &[1; 50], None).unwrap();
                    }
                    if number % 5_000 == 0 {
                        assert!(timed.cache.miss_ratio_curve().gets > 0);
                        timed.cache.tick();
                    }
                }
            });
        }
    });
    let curve = timed.cache.miss_ratio_curve();
    assert_eq!(curve.gets, 200_000);
    assert!(curve.points[2].misses >= 20_000, "{curve:?}");
    let dropped = timed.cache.stats().samples_dropped;
    assert!(dropped < 100_000, "{dropped}");
}
