//! Room that is made before a value is, of which only the engine knows how long it becomes.
#![cfg(not(miri))]
use cellar_engine::{Cache, Change, Config, Error, ExtentReservation, Key, Kind, Space};

use crate::support::cache::Timed;

const MEMORY: usize = 24 << 20;
const LONG: usize = 4 << 20;
const STEP_BYTES: u64 = 2 << 20;
const STEP_ENTRIES: u64 = 4_096;

fn timed(shards: usize) -> Timed {
    Timed::with(Config {
        shards: Some(shards),
        seed: Some(3),
        value_bytes_max: 8 << 20,
        ..Config::with_memory(MEMORY)
    })
}

/// Fills it until items leave.
fn fill(timed: &Timed) {
    fill_with(timed, 40);
}

fn fill_with(timed: &Timed, value_bytes: usize) {
    let value = vec![7; value_bytes];
    for number in 0.. {
        timed.set(&format!("small {number}"), &value, None).unwrap();
        if number % 100 == 0 && timed.cache.stats().evicted > 1_000 {
            return;
        }
    }
}

/// Has background maintenance do all that it finds to do.
fn settle(timed: &Timed) {
    while timed.cache.tick() {}
}

/// Makes a value of so many bytes out of whatever is there.
fn store(
    cache: &Cache,
    key: Key<'_>,
    bytes: usize,
    reservation: Option<ExtentReservation>,
) -> Result<(), Error> {
    let mut scratch = Vec::new();
    cache.update_without_eviction(key, &mut scratch, reservation, |_, scratch| {
        scratch.resize(bytes, 5);
        let change = Change::Store {
            kind: Kind::STRING,
            deadline: cellar_engine::Deadline::NEVER,
            flags: 0,
        };
        ((), change)
    })
}

fn whole(cache: &Cache, key: Key<'_>, bytes: usize) -> Result<ExtentReservation, Error> {
    let mut reservation = cache.reserve_extent(key, bytes)?;
    while !reservation.is_reserved() {
        reservation.extend(cache)?;
    }
    Ok(reservation)
}

#[test]
fn what_finds_no_room_changes_nothing_and_what_is_provided_for_has_nobody_leave() {
    for shards in [1, 4] {
        let timed = timed(shards);
        fill(&timed);
        let (cache, key) = (&timed.cache, timed.cache.key(b"long").unwrap());
        let before = cache.stats();
        let refused = store(cache, key, LONG, None).unwrap_err();
        assert_eq!(refused, Error::NoRoomYet { bytes: LONG });
        assert_eq!(cache.stats().evicted, before.evicted);
        assert_eq!(timed.get("long"), None);

        let mut reservation = cache.reserve_extent(key, LONG).unwrap();
        let (mut steps, mut last) = (1, cache.stats());
        while !reservation.is_reserved() {
            reservation.extend(cache).unwrap();
            let now = cache.stats();
            let freed = (now.segments_freed - last.segments_freed) * now.segment_bytes;
            assert!(freed <= STEP_BYTES + now.segment_bytes, "{steps}: {freed}");
            assert!(now.evicted - last.evicted <= STEP_ENTRIES, "{steps}");
            (steps, last) = (steps + 1, now);
        }
        assert!(steps > 2, "{steps}");
        cache.audit().unwrap();
        let evicted = cache.stats().evicted;
        store(cache, key, LONG, Some(reservation)).unwrap();
        // Only what an insertion itself reclaims.
        assert!(cache.stats().evicted - evicted <= STEP_ENTRIES * 8);
        assert_eq!(timed.get("long"), Some(vec![5; LONG]));
        let audit = cache.audit().unwrap();
        assert_eq!((audit.held_bytes, audit.draft_bytes), (0, 0));
    }
}

#[test]
fn what_is_provided_too_much_goes_back() {
    for bytes in [LONG - 1, LONG / 2, 300_000] {
        let timed = timed(1);
        fill_with(&timed, 240);
        let (cache, key) = (&timed.cache, timed.cache.key(b"long").unwrap());
        let reservation = whole(cache, key, LONG).unwrap();
        let held = cache.audit().unwrap();
        store(cache, key, bytes, Some(reservation)).unwrap();
        assert_eq!(timed.get("long"), Some(vec![5; bytes]));
        let after = cache.audit().unwrap();
        assert_eq!((after.held_bytes, after.draft_bytes), (0, 0), "{bytes}");
        // The ghosts may take some of it.
        let idle = after.left_bytes + after.free_bytes;
        let over = (LONG - bytes) as u64;
        assert!(idle + (600 << 10) >= held.left_bytes + held.free_bytes + over);
        // As long an item fits there again, so nothing is lost by and by.
        for _ in 0..20 {
            let reservation = whole(cache, key, LONG).unwrap();
            store(cache, key, bytes, Some(reservation)).unwrap();
        }
        settle(&timed);
        cache.audit().unwrap();
    }
}

#[test]
fn a_provision_that_is_not_used_gives_all_back() {
    type Use = fn(&Cache, Key<'_>, ExtentReservation);
    let uses: [Use; 4] = [
        |_, _, reservation| drop(reservation),
        |cache, key, reservation| {
            let mut scratch = Vec::new();
            let kept =
                cache.update_without_eviction(key, &mut scratch, Some(reservation), |_, _| {
                    ((), Change::Keep)
                });
            kept.unwrap();
        },
        // Longer than was thought.
        |cache, key, reservation| {
            let bytes = reservation.value_bytes() + 100_000;
            let refused = store(cache, key, bytes, Some(reservation));
            assert!(
                matches!(refused, Err(Error::NoRoomYet { .. })),
                "{refused:?}"
            );
        },
        // Another key, perhaps in another shard.
        |cache, _, reservation| {
            let other = cache.key(b"another").unwrap();
            let _ = store(cache, other, 10, Some(reservation));
        },
    ];
    for used in uses {
        let timed = timed(4);
        fill_with(&timed, 240);
        let (cache, key) = (&timed.cache, timed.cache.key(b"long").unwrap());
        let reservation = whole(cache, key, 2 << 20).unwrap();
        let held = cache.audit().unwrap();
        used(cache, key, reservation);
        let after = cache.audit().unwrap();
        assert_eq!((after.held_bytes, after.draft_bytes), (0, 0));
        settle(&timed);
        let settled = cache.audit().unwrap();
        assert!(settled.left_bytes + settled.free_bytes + (64 << 10) >= held.held_bytes);
    }
}

#[test]
fn several_that_want_more_than_there_is_end_with_room_or_a_refusal() {
    let timed = timed(4);
    fill(&timed);
    let cache = &timed.cache;
    let names: Vec<String> = (0..6).map(|number| format!("long {number}")).collect();
    let mut waiting: Vec<_> = names
        .iter()
        .map(|name| cache.reserve_extent(cache.key(name.as_bytes()).unwrap(), LONG))
        .collect();
    let (mut served, mut refused) = (0, 0);
    for _ in 0..1_000 {
        for (name, place) in names.iter().zip(&mut waiting) {
            let key = cache.key(name.as_bytes()).unwrap();
            match place {
                Ok(reservation) if reservation.is_reserved() => {
                    let Ok(reservation) = std::mem::replace(place, Err(Error::Full)) else {
                        unreachable!("it is there");
                    };
                    store(cache, key, LONG, Some(reservation)).unwrap();
                    served += 1;
                }
                Ok(reservation) => {
                    if let Err(error) = reservation.extend(cache) {
                        *place = Err(error);
                    }
                }
                Err(Error::Busy) => {
                    *place = Err(Error::Full);
                    refused += 1;
                }
                Err(_) => {}
            }
        }
        if served + refused == names.len() {
            break;
        }
    }
    assert_eq!(served + refused, names.len());
    assert!(served >= 2, "{served}");
    cache.audit().unwrap();
}

#[test]
fn where_room_is_left_or_a_value_fits_in_its_place_nothing_is_waited_for() {
    let timed = timed(1);
    let (cache, key) = (&timed.cache, timed.cache.key(b"long").unwrap());
    store(cache, key, LONG, None).unwrap();
    fill(&timed);
    // It may have left meanwhile.
    store(cache, key, LONG, whole(cache, key, LONG).ok()).unwrap();
    let evicted = cache.stats().evicted;
    store(cache, key, LONG, None).unwrap();
    assert_eq!(cache.stats().evicted, evicted);
    cache.audit().unwrap();
}

#[test]
fn where_nothing_may_leave_it_is_stored_or_refused_at_once() {
    let timed = Timed::with(Config {
        shards: Some(1),
        seed: Some(3),
        keep: vec![8 << 20],
        value_bytes_max: 8 << 20,
        ..Config::with_memory(MEMORY)
    });
    let cache = &timed.cache;
    let name = |number: usize| format!("kept {number}").into_bytes();
    let mut stored = 0;
    loop {
        let name = name(stored);
        let key = cache.key_in(Space::kept(0, 1), &name).unwrap();
        match store(cache, key, 1 << 20, None) {
            Ok(()) => stored += 1,
            Err(error) => {
                assert_eq!(error, Error::Full);
                break;
            }
        }
    }
    assert!(stored >= 4, "{stored}");
    let refused = cache.no_eviction_stats()[0].refused;
    let name = name(stored);
    let key = cache.key_in(Space::kept(0, 1), &name).unwrap();
    // Who can do without was not refused.
    assert!(whole(cache, key, LONG).is_err());
    assert_eq!(cache.no_eviction_stats()[0].refused, refused);
    cache.audit().unwrap();
}

#[test]
fn many_short_values_find_free_segments() {
    for shards in [1, 4] {
        let timed = timed(shards);
        fill(&timed);
        let cache = &timed.cache;
        let names: Vec<String> = (0..1_000).map(|number| format!("name {number}")).collect();
        let keys = || names.iter().map(|name| cache.key(name.as_bytes()).unwrap());
        let mut plan = cache.plan_reclaim(keys().map(|key| (key, 4_000)));
        let (mut steps, mut last) = (0, cache.stats().evicted);
        while !plan.is_done() {
            cache.step_reclaim_plan(&mut plan);
            let now = cache.stats().evicted;
            assert!(now - last <= STEP_ENTRIES, "{}", now - last);
            (steps, last) = (steps + 1, now);
        }
        assert!(steps > 10, "{steps}");
        for name in &names {
            timed.set(name, &[3; 4_000], None).unwrap();
        }
        let evicted = cache.stats().evicted - last;
        assert!(evicted <= 2 * STEP_ENTRIES, "{shards}: {evicted}");
        cache.audit().unwrap();
        // Where there is room there is nothing to do.
        let mut plan = cache.plan_reclaim([]);
        for _ in 0..shards {
            cache.step_reclaim_plan(&mut plan);
        }
        assert!(plan.is_done());
    }
}
