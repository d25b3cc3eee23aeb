//! How many items a cache says it has: what has expired is not counted, whether its memory came
//! back or not, whatever times to live are mixed, in each space by itself.

use std::time::Duration;

use cellar_engine::{Clock, Config, Deadline, Instant, Maintenance, SetOptions, Space, SpaceStats};

use crate::support::cache::Timed;
use crate::support::random::Random;

/// A slot of the timer wheel: whoever asks at its end hears the truth.
const SLOT_MS: u64 = 256;
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
const SPACES: u32 = 3;

fn now_ms(timed: &Timed) -> u64 {
    timed.clock.now().0
}

/// Maintenance at its own pace while the clock goes on to a moment.
fn pass(timed: &Timed, maintenance: &mut Maintenance, until_ms: u64) {
    while now_ms(timed) < until_ms {
        let pause = maintenance
            .step(&timed.cache)
            .max(Duration::from_millis(10));
        let left_ms = until_ms - now_ms(timed);
        timed
            .clock
            .advance_ms((pause.as_millis() as u64).min(left_ms));
    }
    maintenance.step(&timed.cache);
}

fn set_in(timed: &Timed, space: u32, key: &str, ttl_ms: Option<u64>) {
    let options = SetOptions {
        deadline: timed.deadline(ttl_ms),
        ..SetOptions::default()
    };
    let key = timed.cache.key_in(Space(space), key.as_bytes()).unwrap();
    timed.cache.set(key, &[1; 40], &options).unwrap();
}

/// What each space has by a look at every deadline that was given.
#[derive(Default)]
struct Truth(std::collections::HashMap<(u32, String), Option<u64>>);

impl Truth {
    fn stats(&self, space: u32, now_ms: u64) -> SpaceStats {
        let mut stats = SpaceStats::default();
        let mut left_ms = 0_u128;
        for ((of, _), deadline_ms) in &self.0 {
            if *of != space || deadline_ms.is_some_and(|at| at <= now_ms) {
                continue;
            }
            stats.items += 1;
            if let Some(at) = deadline_ms {
                stats.with_deadline += 1;
                left_ms += u128::from(at - now_ms);
            }
        }
        stats.mean_ttl_ms = (left_ms / u128::from(stats.with_deadline.max(1))) as u64;
        stats
    }
}

fn check(timed: &Timed, truth: &Truth) {
    let now_ms = now_ms(timed);
    let mut all = 0;
    for space in 0..SPACES {
        let (known, exact) = (
            timed.cache.space_stats(Space(space)),
            truth.stats(space, now_ms),
        );
        let counts = |stats: SpaceStats| (stats.items, stats.with_deadline);
        assert_eq!(counts(known), counts(exact), "space {space} at {now_ms}");
        let off_ms = known.mean_ttl_ms.abs_diff(exact.mean_ttl_ms);
        assert!(off_ms <= SLOT_MS, "{known:?}, {exact:?}");
        all += exact.items;
    }
    assert_eq!(timed.cache.stats().items, all);
    timed.cache.audit().unwrap();
}

/// Random stores, removals and new deadlines for times to live from nothing to days, over hours.
#[test]
fn what_has_expired_is_not_counted_at_the_end_of_its_slot() {
    for (seed, shards) in [(1, 1), (2, 4), (3, 16)] {
        let mut random = Random::from_seed(seed);
        let timed = Timed::with(Config {
            shards: Some(shards),
            ..Config::with_memory(32 << 20)
        });
        let (mut maintenance, mut truth) = (Maintenance::default(), Truth::default());
        for round in 0..60 {
            for _ in 0..200 {
                act(&timed, &mut truth, &mut random);
            }
            let ms = match round % 6 {
                0 => 60 * MINUTE_MS,
                1 | 2 => random.below(10 * MINUTE_MS),
                _ => random.below(3_000),
            };
            let until_ms = (now_ms(&timed) + ms).next_multiple_of(SLOT_MS);
            pass(&timed, &mut maintenance, until_ms);
            check(&timed, &truth);
        }
        assert_eq!(timed.cache.stats().evicted, 0);
    }
}

fn act(timed: &Timed, truth: &mut Truth, random: &mut Random) {
    let space = random.below(u64::from(SPACES)) as u32;
    let name = format!("key {}", random.below(2_000));
    let ttl_ms = match random.below(7) {
        0 => None,
        1 => Some(1 + random.below(1_000)),
        2 | 3 => Some(1 + random.below(5 * MINUTE_MS)),
        4 | 5 => Some(1 + random.below(60 * MINUTE_MS)),
        _ => Some(1 + random.below(3 * DAY_MS)),
    };
    let key = timed.cache.key_in(Space(space), name.as_bytes()).unwrap();
    let now_ms = now_ms(timed);
    let deadline_ms = ttl_ms.map(|ttl_ms| now_ms + ttl_ms);
    match random.below(11) {
        0 => {
            timed.cache.delete(key, &Default::default()).unwrap();
            truth.0.remove(&(space, name));
        }
        1 => {
            let deadline = deadline_ms.map_or(Deadline::NEVER, |at| Deadline::at(Instant(at)));
            if timed.cache.touch(key, deadline).unwrap() {
                truth.0.insert((space, name), deadline_ms);
            }
        }
        2 => {
            // Over before it is stored, or before its segment was begun.
            let deadline = [Deadline::PASSED, Deadline::at(Instant(now_ms / 2))];
            let deadline = deadline[random.below(2) as usize];
            if random.below(2) == 0 {
                timed.cache.touch(key, deadline).unwrap();
            } else {
                let options = SetOptions {
                    deadline,
                    ..SetOptions::default()
                };
                timed.cache.set(key, &[1; 40], &options).unwrap();
            }
            truth.0.remove(&(space, name));
        }
        _ => {
            set_in(timed, space, &name, ttl_ms);
            truth.0.insert((space, name), deadline_ms);
        }
    }
}

#[test]
fn a_space_that_ended_and_a_flush_leave_nothing_to_count() {
    let timed = Timed::new(8 << 20);
    let mut maintenance = Maintenance::default();
    for number in 0..3_000 {
        let ttl_ms = [None, Some(2_000), Some(30 * MINUTE_MS)][number % 3];
        set_in(&timed, number as u32 % 2, &format!("key {number}"), ttl_ms);
    }
    timed.cache.retire_space(Space(1));
    assert_eq!(timed.cache.space_stats(Space(0)).items, 1_500);
    let later_ms = now_ms(&timed).next_multiple_of(SLOT_MS) + 10 * SLOT_MS;
    pass(&timed, &mut maintenance, later_ms);
    assert_eq!(timed.cache.space_stats(Space(1)), SpaceStats::default());
    assert_eq!(timed.cache.space_stats(Space(0)).items, 1_000);
    timed.cache.flush_space(Space(0));
    assert_eq!(timed.cache.space_stats(Space(0)), SpaceStats::default());
    set_in(&timed, 0, "after", Some(MINUTE_MS));
    pass(&timed, &mut maintenance, later_ms + 60 * MINUTE_MS);
    assert_eq!(timed.cache.stats().items, 0);
    timed.cache.audit().unwrap();
}

/// Between two looks nobody was there: a machine that slept, or a test's clock.
#[test]
fn a_clock_that_jumps_far_ahead_leaves_nothing_that_is_counted_wrongly_for_long() {
    for jump_ms in [SLOT_MS, 5 * MINUTE_MS, DAY_MS, 400 * DAY_MS] {
        let timed = Timed::new(8 << 20);
        let mut maintenance = Maintenance::default();
        for number in 0..5_000_u64 {
            let ttl_ms = (1 + number) * jump_ms / 2_500;
            set_in(&timed, 0, &format!("key {number}"), Some(ttl_ms));
        }
        let later_ms = (now_ms(&timed) + jump_ms).next_multiple_of(SLOT_MS);
        timed.clock.advance_ms(later_ms - now_ms(&timed));
        pass(&timed, &mut maintenance, now_ms(&timed) + 4 * SLOT_MS);
        let audit = timed.cache.audit().unwrap();
        let stats = timed.cache.stats();
        assert_eq!(stats.items, audit.live_items, "after {jump_ms} ms");
        assert!(stats.items > 0 || jump_ms == SLOT_MS);
    }
}

#[test]
fn of_very_many_spaces_some_count_what_is_over_until_it_is_met() {
    const SPACES: u32 = 200;
    let timed = Timed::new(8 << 20);
    let mut maintenance = Maintenance::default();
    for number in 0..20 * SPACES {
        let ttl_ms = [Some(1_000), Some(30 * MINUTE_MS)][(number / SPACES) as usize % 2];
        set_in(
            &timed,
            1 + number % SPACES,
            &format!("key {number}"),
            ttl_ms,
        );
    }
    let later_ms = now_ms(&timed).next_multiple_of(SLOT_MS) + 10 * SLOT_MS;
    pass(&timed, &mut maintenance, later_ms);
    timed.cache.audit().unwrap();
    let counts = |spaces: std::ops::RangeInclusive<u32>| {
        let stats = spaces.map(|space| timed.cache.space_stats(Space(space)).items);
        stats.collect::<Vec<_>>()
    };
    assert_eq!(counts(1..=64), [10; 64]);
    assert!(
        counts(65..=SPACES)
            .iter()
            .all(|items| (10..=20).contains(items))
    );
    for number in 0..20 * SPACES {
        let name = format!("key {number}");
        let key = timed
            .cache
            .key_in(Space(1 + number % SPACES), name.as_bytes());
        timed.cache.get(key.unwrap(), |_| ());
    }
    assert_eq!(counts(1..=SPACES), [10; SPACES as usize]);
    timed.cache.audit().unwrap();
}
