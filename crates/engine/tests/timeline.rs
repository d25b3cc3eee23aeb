//! The expiry timeline against what was stored, while the clock is moved.

use std::collections::BTreeMap;

use cellar_engine::{Config, Deadline, ExpiryTimeline, KeyFacts, Leaving};

use crate::support::cache::Timed;
use crate::support::random::Random;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn cache(shards: usize) -> Timed {
    Timed::with(Config {
        shards: Some(shards),
        seed: Some(3),
        ..Config::with_memory(32 << 20)
    })
}

/// What was stored, with its deadline.
type Stored = BTreeMap<String, Deadline>;

/// The deadline of every live item, in milliseconds from now, `None` for never, and its bytes.
///
/// Nobody asks for the others: whoever meets an item too late removes it.
fn listed(timed: &Timed, stored: &Stored) -> Vec<(Option<u64>, u64)> {
    let now = timed.cache.now();
    let live = stored
        .iter()
        .filter(|(_, deadline)| !deadline.has_passed(now));
    live.map(|(key, deadline)| {
        let key = timed.cache.key(key.as_bytes()).unwrap();
        let facts = |facts: KeyFacts<'_>| (facts.deadline, facts.stored_bytes as u64);
        let (known, bytes) = timed.cache.facts(key, facts).unwrap();
        assert_eq!(known, *deadline);
        (deadline.remaining_ms(now), bytes)
    })
    .collect()
}

/// Items and bytes.
type Sum = (u64, u64);

fn sum_of(items: &[(Option<u64>, u64)], belongs: impl Fn(Option<u64>) -> bool) -> Sum {
    let these = items.iter().filter(|(dies, _)| belongs(*dies));
    these.fold((0, 0), |(items, sum), (_, bytes)| (items + 1, sum + bytes))
}

/// Checks that the estimate of what leaves by the end of each step is off by at most this much of
/// all that the cache holds, in thousandths.
fn check_steps(
    steps: &[Leaving],
    step_ms: u64,
    truth: &[(Option<u64>, u64)],
    (all, permille): (Sum, u64),
) {
    // Rounding, of each step to a half.
    let most = |all: u64| (all * permille).div_ceil(1_000) + 30;
    let (mut bytes, mut items) = (0, 0);
    for (step, leaving) in (1..).zip(steps) {
        bytes += leaving.bytes;
        items += leaving.items;
        let until_ms = step * step_ms;
        let found = sum_of(truth, |dies| dies.is_some_and(|ms| ms < until_ms));
        assert!(
            items.abs_diff(found.0) <= most(all.0) && bytes.abs_diff(found.1) <= most(all.1),
            "by {until_ms} ms {items} items of {bytes} bytes, not {found:?} of {all:?}"
        );
    }
}

fn check(timed: &Timed, stored: &Stored, permille: u64) -> ExpiryTimeline {
    let (timeline, truth) = (timed.cache.expiry_timeline(), listed(timed, stored));
    let audit = timed.cache.audit().unwrap();
    let all = (
        audit.live_items + audit.expired_items,
        audit.live_bytes + audit.expired_bytes,
    );
    check_steps(&timeline.minute, SECOND, &truth, (all, permille));
    check_steps(&timeline.hour, MINUTE, &truth, (all, permille));
    check_steps(&timeline.day, HOUR, &truth, (all, permille));
    let never = sum_of(&truth, |dies| dies.is_none());
    assert_eq!(timeline.never.bytes, never.1);
    let overdue = timeline.overdue.bytes.abs_diff(audit.expired_bytes);
    assert!(overdue <= audit.unsure_bytes, "{timeline:?} {audit:?}");
    timeline
}

/// What is stored, and how close the estimate has to come.
#[derive(Clone, Copy)]
struct Mix {
    shards: usize,
    /// Time over which it is stored.
    span_ms: u64,
    ttl_ms: fn(&mut Random) -> Option<u64>,
    /// How many keys there are; with few, many stores overwrite an item in its place.
    keys: u64,
    /// Most error, in thousandths of what the cache holds.
    permille: u64,
}

/// Stores items and checks now and then, then lets a day pass.
fn run(mix: Mix) {
    const STORES: u64 = 30_000;
    let timed = cache(mix.shards);
    let (mut random, mut stored) = (Random::from_seed(7), Stored::new());
    for number in 0..STORES {
        let value = vec![b'v'; random.below(300) as usize];
        let key = format!("key {}", random.below(mix.keys));
        let ttl_ms = (mix.ttl_ms)(&mut random);
        timed.set(&key, &value, ttl_ms).unwrap();
        stored.insert(key, timed.deadline(ttl_ms));
        if number % 3 == 0 {
            timed.clock.advance_ms(mix.span_ms * 3 / STORES);
        }
        if number % 6_000 == 5_999 {
            check(&timed, &stored, mix.permille);
            timed.cache.tick();
        }
    }
    let rest = DAY / 8;
    for _ in 0..8 {
        timed.clock.advance_ms(rest);
        check(&timed, &stored, mix.permille);
    }
}

#[test]
fn an_empty_cache_has_nothing_that_leaves() {
    let timeline = check(&cache(1), &Stored::new(), 0);
    let nothing = Leaving::default();
    assert_eq!(
        (timeline.overdue, timeline.later, timeline.never),
        (nothing, nothing, nothing)
    );
    assert!(
        timeline
            .minute
            .iter()
            .chain(&timeline.day)
            .all(|step| *step == nothing)
    );
}

#[test]
fn items_of_one_ttl_are_told_apart_by_when_they_were_stored() {
    let mix = Mix {
        shards: 1,
        span_ms: 30 * SECOND,
        ttl_ms: |_| Some(45 * SECOND),
        keys: u64::MAX,
        permille: 10,
    };
    run(mix);
    run(Mix {
        shards: 4,
        span_ms: 40 * MINUTE,
        ttl_ms: |_| Some(50 * MINUTE),
        ..mix
    });
}

#[test]
fn lives_of_many_lengths_are_told_to_six_hundredths_of_all() {
    run(Mix {
        shards: 4,
        span_ms: HOUR,
        ttl_ms: |random| {
            let octaves = random.below(17_000) as f64 / 1_000.0;
            Some((SECOND as f64 * octaves.exp2()) as u64)
        },
        keys: u64::MAX,
        permille: 60,
    });
}

#[test]
fn items_that_were_overwritten_where_they_lay_are_told_to_a_quarter_of_all() {
    run(Mix {
        shards: 2,
        span_ms: 30 * SECOND,
        ttl_ms: |_| Some(45 * SECOND),
        keys: 10_000,
        permille: 250,
    });
}

#[test]
fn items_without_a_deadline_never_leave() {
    run(Mix {
        shards: 2,
        span_ms: HOUR,
        ttl_ms: |random| (random.below(2) == 0).then_some(10 * MINUTE),
        keys: u64::MAX,
        permille: 10,
    });
}

#[test]
fn a_large_item_leaves_at_its_deadline() {
    let timed = cache(1);
    timed
        .set("large", &vec![7; 1 << 20], Some(90 * SECOND))
        .unwrap();
    let timeline = timed.cache.expiry_timeline();
    assert_eq!((timeline.hour[0].items, timeline.hour[1].items), (0, 1));
    assert!(timeline.hour[1].bytes > 1 << 20);
    timed.clock.advance_ms(90 * SECOND);
    let timeline = timed.cache.expiry_timeline();
    assert_eq!((timeline.overdue.items, timeline.hour[0].items), (1, 0));
}

#[test]
fn flushed_items_are_not_waited_for() {
    let timed = cache(1);
    timed.set("gone", b"soon", Some(30 * SECOND)).unwrap();
    timed.cache.flush();
    let timeline = check(&timed, &Stored::new(), 0);
    assert!(
        timeline
            .minute
            .iter()
            .all(|step| *step == Leaving::default())
    );
}
