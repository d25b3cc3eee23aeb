//! Room for long values, which is made in steps.
#![cfg(not(miri))]
use cellar_engine::{Config, DeleteOptions, Draft, Error, SetOptions, Space, Stored};

use crate::support::cache::Timed;

const MEMORY: usize = 24 << 20;
const LONG: usize = 9 << 20;
/// What one step may do: bytes that it touches or walks over, and entries.
const STEP_BYTES: u64 = 2 << 20;
const STEP_ENTRIES: u64 = 4_096;

fn timed(shards: usize, memory_bytes: usize) -> Timed {
    Timed::with(Config {
        shards: Some(shards),
        seed: Some(3),
        value_bytes_max: Config::VALUE_BYTES_LIMIT,
        ..Config::with_memory(memory_bytes)
    })
}

/// Fills it until items leave.
fn fill(timed: &Timed) {
    fill_with(timed, 250);
}

fn fill_with(timed: &Timed, value_bytes: usize) {
    let value = vec![7; value_bytes];
    for number in 0.. {
        timed.set(&format!("small {number}"), &value, None).unwrap();
        if number % 100 == 0 && timed.cache.stats().evicted > 0 {
            return;
        }
    }
}

fn begin(timed: &Timed, name: &str, bytes: usize) -> Result<Draft, Error> {
    let key = timed.cache.key(name.as_bytes()).unwrap();
    timed.cache.reserve(key, bytes)
}

/// Takes the next step of a draft whose memory is not all reserved.
fn extend(timed: &Timed, draft: &mut Draft) {
    assert!(!draft.is_reserved(), "there was room at once");
    draft.extend_reservation(&timed.cache).unwrap();
}

/// Has background maintenance do all that it finds to do.
fn settle(timed: &Timed) {
    while timed.cache.tick() {}
}

#[test]
fn no_step_frees_or_touches_more_than_its_bound() {
    for (shards, value_bytes) in [(1, 20), (4, 250)] {
        let timed = timed(shards, MEMORY);
        fill_with(&timed, value_bytes);
        let mut before = timed.cache.stats();
        let mut draft = begin(&timed, "long", LONG).unwrap();
        let mut steps = 1;
        loop {
            let after = timed.cache.stats();
            let freed = (after.segments_freed - before.segments_freed) * after.segment_bytes;
            assert!(
                freed <= STEP_BYTES + after.segment_bytes,
                "step {steps}: {freed} bytes"
            );
            let evicted = after.evicted - before.evicted;
            assert!(evicted <= STEP_ENTRIES, "step {steps}: {evicted} items");
            let touched = after.free_bytes.saturating_sub(before.free_bytes);
            assert!(touched <= 2 * STEP_BYTES, "step {steps}: {touched} touched");
            before = after;
            if draft.is_reserved() {
                break;
            }
            extend(&timed, &mut draft);
            steps += 1;
        }
        assert!(steps as u64 > LONG as u64 / STEP_BYTES, "{steps} steps");
        timed.cache.audit().unwrap();
        timed.cache.commit(draft, &SetOptions::default()).unwrap();
        assert_eq!(timed.get("long").map(|value| value.len()), Some(LONG));
        timed.cache.audit().unwrap();
    }
}

#[test]
fn others_store_and_read_between_two_steps() {
    let timed = timed(4, MEMORY);
    fill(&timed);
    let mut draft = begin(&timed, "long", LONG).unwrap();
    let mut number = 0;
    while !draft.is_reserved() {
        for _ in 0..200 {
            let name = format!("beside {number}");
            timed.set(&name, &[5; 700], None).unwrap();
            assert_eq!(timed.get(&name), Some(vec![5; 700]));
            number += 1;
        }
        extend(&timed, &mut draft);
    }
    timed.cache.audit().unwrap();
    assert!(number >= 1_000, "{number}");
}

#[test]
fn a_reservation_that_is_dropped_gives_all_back() {
    for steps in [1, 3, 40] {
        let timed = timed(4, MEMORY);
        fill(&timed);
        let mut draft = begin(&timed, "long", LONG).unwrap();
        for _ in 1..steps {
            draft.extend_reservation(&timed.cache).unwrap();
        }
        let held = timed.cache.audit().unwrap();
        drop(draft);
        let dropped = timed.cache.audit().unwrap();
        assert_eq!(
            (dropped.held_bytes, dropped.draft_bytes),
            (0, 0),
            "{steps}: {held:?}"
        );
        settle(&timed);
        let settled = timed.cache.audit().unwrap();
        let idle = settled.left_bytes + settled.free_bytes;
        assert!(
            idle >= held.held_bytes + held.draft_bytes,
            "{steps}: {held:?} {settled:?}"
        );
        // All that was gathered can be had again, by small items and by a long one.
        let stored = timed.cache.stats().items_total;
        fill_bytes(&timed, LONG / 4);
        assert!(timed.cache.stats().items_total > stored);
        assert!(
            timed
                .cache
                .draft(timed.cache.key(b"other").unwrap(), LONG)
                .is_ok()
        );
        timed.cache.audit().unwrap();
    }
}

fn fill_bytes(timed: &Timed, bytes: usize) {
    for number in 0..bytes / 1_000 {
        timed
            .set(&format!("again {number}"), &[1; 1_000], None)
            .unwrap();
    }
}

#[test]
fn a_reservation_that_is_dropped_where_memory_is_left_costs_nobody_an_item() {
    let timed = timed(1, MEMORY);
    timed.set("key", b"value", None).unwrap();
    let before = timed.cache.audit().unwrap();
    let mut draft = begin(&timed, "long", LONG).unwrap();
    for _ in 0..3 {
        extend(&timed, &mut draft);
    }
    assert!(!draft.is_reserved());
    let during = timed.cache.audit().unwrap();
    assert!(during.held_bytes >= 4 * STEP_BYTES, "{during:?}");
    drop(draft);
    // Its memory stays for the next long value as long as one might come.
    for _ in 0..2 {
        settle(&timed);
        timed.clock.advance_ms(500);
    }
    settle(&timed);
    let after = timed.cache.audit().unwrap();
    // The table of segments keeps its size.
    let table = before.left_bytes - after.left_bytes;
    assert!(table < 64 << 10, "{before:?} {after:?}");
    assert_eq!(after.overhead_bytes - before.overhead_bytes, table);
    assert_eq!((after.live_items, timed.cache.stats().evicted), (1, 0));
}

#[test]
fn a_long_value_takes_the_memory_of_the_one_before_until_none_has_come_for_a_while() {
    const BYTES: u64 = 512 << 10;
    let timed = timed(1, MEMORY);
    let left = || timed.cache.audit().unwrap().left_bytes;
    let store = |bytes: u64| {
        let key = timed.cache.key(b"key").unwrap();
        let draft = timed.cache.draft(key, bytes as usize).unwrap();
        timed.cache.commit(draft, &SetOptions::default()).unwrap();
    };
    let wait = || {
        settle(&timed);
        timed.clock.advance_ms(100);
    };
    store(BYTES);
    let first = left();
    // A value is replaced when the new one is there, so there are two for a moment.
    for _ in 0..20 {
        store(BYTES);
        wait();
        let taken = first - left();
        assert!((BYTES..BYTES + (64 << 10)).contains(&taken), "{taken}");
    }
    // Background maintenance need not come between two of them.
    for _ in 0..20 {
        store(BYTES);
        let taken = first - left();
        assert!((BYTES..BYTES + (64 << 10)).contains(&taken), "{taken}");
    }
    // A shorter value takes no more than it needs.
    store(BYTES / 4 * 3);
    assert!(first - left() <= BYTES + (16 << 10), "{} {first}", left());
    for _ in 0..12 {
        wait();
    }
    assert!(left() > first, "{} {first}", left());
}

#[test]
fn two_that_compete_both_get_room_and_a_third_is_refused_at_once() {
    let timed = timed(4, MEMORY);
    fill(&timed);
    let bytes = 5 << 20;
    let mut first = begin(&timed, "first", bytes).unwrap();
    let mut second = begin(&timed, "second", bytes).unwrap();
    let evicted = timed.cache.stats().evicted;
    assert_eq!(begin(&timed, "third", bytes).unwrap_err(), Error::Busy);
    assert_eq!(timed.cache.stats().evicted, evicted);
    while !(first.is_reserved() && second.is_reserved()) {
        first.extend_reservation(&timed.cache).unwrap();
        second.extend_reservation(&timed.cache).unwrap();
    }
    timed.cache.audit().unwrap();
    for draft in [first, second] {
        let stored = timed.cache.commit(draft, &SetOptions::default()).unwrap();
        assert!(matches!(stored, Stored::Done { .. }));
    }
    assert!(timed.get("first").is_some() && timed.get("second").is_some());
    timed.cache.audit().unwrap();
}

#[test]
fn what_can_never_be_had_is_refused_at_once_and_costs_nobody_an_item() {
    let timed = timed(4, MEMORY);
    fill(&timed);
    let before = timed.cache.stats();
    let max = timed.cache.value_bytes_max();
    for bytes in [max + 1, MEMORY, usize::MAX / 2] {
        let refused = begin(&timed, "long", bytes).unwrap_err();
        assert_eq!(refused, Error::TooLarge { bytes, max });
    }
    assert_eq!(timed.cache.stats(), before);
    timed.cache.audit().unwrap();
}

#[test]
fn where_all_is_read_by_others_it_is_refused_and_gives_back_what_it_had() {
    let timed = timed(1, MEMORY);
    let mut handles = Vec::new();
    for number in 0.. {
        let name = format!("value {number}");
        if timed.set(&name, &[9; 200_000], None).is_err() {
            break;
        }
        handles.push(
            timed
                .cache
                .get_handle(timed.cache.key(name.as_bytes()).unwrap()),
        );
    }
    handles.truncate(handles.len() - 20);
    let before = timed.cache.audit().unwrap();
    let mut draft = begin(&timed, "long", LONG).unwrap();
    let refused = loop {
        assert!(!draft.is_reserved(), "nothing may leave");
        if let Err(error) = draft.extend_reservation(&timed.cache) {
            break error;
        }
    };
    assert_eq!(refused, Error::Busy);
    settle(&timed);
    let after = timed.cache.audit().unwrap();
    assert_eq!(after.draft_bytes, 0);
    assert!(after.left_bytes + after.free_bytes + after.hole_bytes >= before.free_bytes);
    assert!(timed.set("small", &[1; 1_000], None).is_ok());
    drop(handles);
    assert!(
        timed
            .cache
            .draft(timed.cache.key(b"long").unwrap(), LONG)
            .is_ok()
    );
}

#[test]
fn a_long_value_that_is_gone_goes_back_piece_by_piece() {
    let timed = timed(1, MEMORY);
    fill(&timed);
    let key = timed.cache.key(b"long").unwrap();
    let draft = timed.cache.draft(key, LONG).unwrap();
    timed.cache.commit(draft, &SetOptions::default()).unwrap();
    timed.cache.delete(key, &DeleteOptions::default()).unwrap();
    timed.clock.advance_ms(20);
    let evicted = timed.cache.stats().evicted;
    let mut left = timed.cache.audit().unwrap().left_bytes;
    for number in 0..5_000 {
        timed
            .set(&format!("more {number}"), &[3; 1_000], None)
            .unwrap();
        if number % 250 == 0 {
            let now = timed.cache.audit().unwrap().left_bytes;
            assert!(now <= left + 2 * STEP_BYTES, "{left} {now}");
            left = now;
        }
    }
    // What is dead goes before anything that lives.
    assert_eq!(timed.cache.stats().evicted, evicted);
}

#[test]
fn a_flush_between_two_steps_leaves_the_value_alone() {
    let timed = timed(4, MEMORY);
    fill(&timed);
    let mut draft = begin(&timed, "long", LONG).unwrap();
    let mut steps = 0;
    loop {
        steps += 1;
        if steps == 3 || steps == 9 {
            timed.cache.flush();
        }
        if draft.is_reserved() {
            break;
        }
        extend(&timed, &mut draft);
    }
    draft.value_mut().fill(8);
    timed.cache.commit(draft, &SetOptions::default()).unwrap();
    assert_eq!(timed.get("long"), Some(vec![8; LONG]));
    timed.cache.audit().unwrap();
}

#[test]
fn where_nothing_may_leave_only_what_is_dead_makes_room() {
    let timed = Timed::with(Config {
        shards: Some(1),
        seed: Some(3),
        keep: vec![8 << 20],
        value_bytes_max: Config::VALUE_BYTES_LIMIT,
        ..Config::with_memory(MEMORY)
    });
    let cache = &timed.cache;
    let space = Space::kept(0, 1);
    let key = |name: &'static [u8]| cache.key_in(space, name).unwrap();
    assert_eq!(
        cache.reserve(key(b"never"), 8 << 20).unwrap_err(),
        Error::Full
    );
    let names: Vec<String> = (0..)
        .map(|number| format!("kept {number}"))
        .take(70)
        .collect();
    for name in &names {
        let key = cache.key_in(space, name.as_bytes()).unwrap();
        cache
            .set(key, &[4; 100_000], &SetOptions::default())
            .unwrap();
    }
    assert_eq!(cache.draft(key(b"long"), 4 << 20).unwrap_err(), Error::Full);
    timed.cache.audit().unwrap();
    for name in &names[..55] {
        let key = cache.key_in(space, name.as_bytes()).unwrap();
        cache.delete(key, &DeleteOptions::default()).unwrap();
    }
    let draft = cache.draft(key(b"long"), 4 << 20).unwrap();
    cache.commit(draft, &SetOptions::default()).unwrap();
    assert_eq!(
        cache.draft(key(b"longer"), 4 << 20).unwrap_err(),
        Error::Full
    );
    for name in &names[55..] {
        let key = cache.key_in(space, name.as_bytes()).unwrap();
        assert_eq!(cache.get(key, |item| item.value.len()), Some(100_000));
    }
    timed.cache.audit().unwrap();
}

#[test]
fn room_is_made_beside_who_stores_as_long_a_value_at_each_step() {
    let bytes = 6 << 20;
    let timed = timed(1, 48 << 20);
    fill(&timed);
    timed.cache.flush_at(timed.cache.now());
    let store = |name: &str| {
        let key = timed.cache.key(name.as_bytes()).unwrap();
        let draft = timed.cache.draft(key, bytes).unwrap();
        timed.cache.commit(draft, &SetOptions::default()).unwrap();
    };
    store("source");
    let mut draft = begin(&timed, "made", bytes).unwrap();
    let mut steps = 0;
    while !draft.is_reserved() {
        store("source");
        extend(&timed, &mut draft);
        steps += 1;
        assert!(steps < 20, "{steps}");
    }
}
