//! Deleted and overwritten bytes come back while nobody needs memory: by background maintenance
//! alone, within ten seconds, without losing what is alive, and for few copies.
//!
//! Maintenance runs at its own pace by a clock that the test moves; all memory is walked at the
//! end.

use std::time::Duration;

use cellar_engine::{Config, DeleteOptions, Maintenance};

use crate::support::cache::Timed;
use crate::support::random::Random;

const SECOND: u64 = 1_000;
const DAY: u64 = 86_400 * SECOND;
/// Time between two moments of a run.
const STEP_MS: u64 = 2;
/// Most of what is held that may be reclaimable at rest, in millionths, and when.
const RECLAIMABLE_PPM_MAX: u64 = 60_000;
const REST_S: u64 = 10;

/// A cache whose background maintenance has its own pace.
struct Run {
    timed: Timed,
    maintenance: Maintenance,
    now_us: u64,
    maintenance_at_us: u64,
    random: Random,
}

impl Run {
    fn new(memory_mib: usize, shards: usize) -> Run {
        Run {
            timed: Timed::with(Config {
                shards: Some(shards),
                seed: Some(3),
                value_bytes_max: 64 << 20,
                ..Config::with_memory(memory_mib << 20)
            }),
            maintenance: Maintenance::default(),
            now_us: 0,
            maintenance_at_us: 0,
            random: Random::from_seed(7),
        }
    }

    fn set(&self, number: u64, bytes: u64, ttl_ms: Option<u64>) {
        let value = vec![number as u8; bytes as usize];
        let key = format!("key:{number}");
        self.timed.set(&key, &value, ttl_ms).unwrap();
    }

    fn delete(&self, number: u64) {
        let name = format!("key:{number}");
        let key = self.timed.cache.key(name.as_bytes()).unwrap();
        let _ = self.timed.cache.delete(key, &DeleteOptions::default());
    }

    /// Lets background maintenance do what is due by the next moment.
    fn step(&mut self) {
        self.timed.clock.advance_ms(STEP_MS);
        let before_us = self.now_us;
        self.now_us += STEP_MS * 1_000;
        while self.maintenance_at_us <= self.now_us {
            let pause = micros(self.maintenance.step(&self.timed.cache));
            self.maintenance_at_us = self.maintenance_at_us.max(before_us) + pause;
        }
    }

    fn rest(&mut self, seconds: u64) {
        for _ in 0..seconds * SECOND / STEP_MS {
            self.step();
        }
    }

    /// The reclaimable part of what is held, in millionths, by a walk of all memory.
    fn reclaimable_ppm(&self) -> u64 {
        let audit = self.timed.cache.audit().unwrap();
        let reclaimable = audit.hole_bytes + audit.expired_bytes;
        reclaimable * 1_000_000 / (audit.live_bytes + reclaimable).max(1)
    }

    /// Checks that much is reclaimable, or nothing, as each value had memory of its own, and little
    /// after a rest, in which nothing leaves.
    fn check_rest(&mut self, what: &str) {
        let (before, ppm) = (self.timed.cache.stats(), self.reclaimable_ppm());
        assert!(
            ppm == 0 || ppm > 3 * RECLAIMABLE_PPM_MAX,
            "{what}: {ppm} ppm before"
        );
        let live = self.timed.cache.audit().unwrap().live_items;
        self.rest(REST_S);
        let (after, ppm) = (self.timed.cache.stats(), self.reclaimable_ppm());
        assert!(ppm <= RECLAIMABLE_PPM_MAX, "{what}: {ppm} ppm at rest");
        assert_eq!(
            after.evicted, before.evicted,
            "{what}: nothing has to leave"
        );
        assert_eq!(self.timed.cache.audit().unwrap().live_items, live, "{what}");
        let known = after.dead_bytes * 1_000_000 / (after.live_bytes + after.dead_bytes);
        assert!(known <= RECLAIMABLE_PPM_MAX, "{what}: {known} ppm are told");
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

#[test]
fn what_was_deleted_is_reclaimed_within_ten_seconds() {
    for (items, bytes) in [(60_000, 100), (5_000, 3_000), (300, 50_000)] {
        let mut run = Run::new(64, 4);
        for number in 0..items {
            run.set(number, bytes, Some(DAY));
        }
        for number in (0..items).filter(|number| number % 3 == 0) {
            run.delete(number);
        }
        run.check_rest(&format!("{items} items of {bytes} bytes"));
    }
}

#[test]
fn overdue_are_the_bytes_of_expired_items_alone() {
    let run = Run::new(64, 4);
    for number in 0..20_000 {
        let ttl_ms = [SECOND, DAY][number as usize % 2];
        run.set(number, 100, Some(ttl_ms));
    }
    for number in (0..20_000).filter(|number| number % 4 > 1) {
        run.delete(number);
    }
    assert_eq!(run.timed.cache.stats().overdue_bytes, 0);
    run.timed.clock.advance_ms(2 * SECOND);
    let (stats, audit) = (run.timed.cache.stats(), run.timed.cache.audit().unwrap());
    let unsure = audit.expired_bytes / 50;
    assert!(
        stats.overdue_bytes.abs_diff(audit.expired_bytes) <= unsure,
        "{stats:?}"
    );
    assert!(
        stats.dead_bytes > 18 * stats.overdue_bytes / 10,
        "{stats:?}"
    );
}

#[test]
fn what_was_overwritten_is_reclaimed_within_ten_seconds() {
    for ttl_ms in [None, Some(DAY)] {
        let mut run = Run::new(64, 4);
        for number in 0..60_000 {
            run.set(number, 100, ttl_ms);
        }
        for number in (0..60_000).filter(|number| number % 3 == 0) {
            let bytes = [20, 300][number as usize / 3 % 2];
            run.set(number, bytes, ttl_ms);
        }
        run.check_rest(&format!("lives of {ttl_ms:?}"));
    }
}

#[test]
fn what_was_deleted_in_a_full_cache_is_reclaimed_within_ten_seconds() {
    let mut run = Run::new(16, 2);
    for number in 0..300_000 {
        run.set(number, 100, Some(DAY));
    }
    assert!(run.timed.cache.stats().evicted > 0);
    for number in (0..300_000).filter(|number| number % 3 == 0) {
        run.delete(number);
    }
    run.check_rest("full");
}

#[test]
fn a_few_keys_that_change_all_the_time_are_seldom_copied() {
    let mut run = Run::new(64, 4);
    for round in 0..REST_S * SECOND / STEP_MS {
        for number in 0..20 {
            run.set(number, 10 + (round * 7 + number) % 90, Some(DAY));
        }
        run.step();
    }
    let copied = run.timed.cache.stats().copied;
    assert!(copied <= 20 * 4 * REST_S, "{copied} copies");
}

#[test]
fn deletes_and_overwrites_beside_stores_cost_few_copies() {
    let mut run = Run::new(256, 4);
    let (stores_per_s, seconds) = (2_000, 90);
    let mut stored = 0;
    for _ in 0..seconds * SECOND / STEP_MS {
        for _ in 0..stores_per_s * STEP_MS / SECOND {
            let ttl_ms = match run.random.below(5) {
                0 => DAY,
                _ => 10 * SECOND + run.random.below(40 * SECOND),
            };
            let earlier = stored - run.random.below(stored.min(60_000) + 1);
            match stored % 3 {
                0 => run.delete(earlier),
                1 => {
                    let bytes = 50 + run.random.below(100);
                    run.set(earlier, bytes, Some(ttl_ms));
                }
                _ => {}
            }
            run.set(stored, 100, Some(ttl_ms));
            stored += 1;
        }
        run.step();
    }
    let stats = run.timed.cache.stats();
    println!("{} copies for {stored} stores", stats.copied);
    assert!(stats.copied < 10 * stored, "{} copies", stats.copied);
    let ppm = run.reclaimable_ppm();
    assert!(ppm <= 2 * RECLAIMABLE_PPM_MAX, "{ppm} ppm amid stores");
    run.rest(REST_S);
    let ppm = run.reclaimable_ppm();
    assert!(ppm <= RECLAIMABLE_PPM_MAX, "{ppm} ppm at rest");
}
