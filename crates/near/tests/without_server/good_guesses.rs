//! Where a good guess about a cache is often wrong: the rows of the table in docs/near.md that no
//! other file has. A write during a load is in `loading_local`, a caller that gives up in
//! `reading`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use cellar_near::clock::{Clock, ManualClock};
use cellar_near::{InsertOptions, LoadingLocal, Local, LocalBuilder};

const SECOND: Duration = Duration::from_secs(1);

type Words = LocalBuilder<u32, String>;

/// A store with a clock that the test moves.
fn timed(options: impl FnOnce(Words) -> Words) -> (Local<u32, String>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let builder = Local::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>);
    (options(builder).build(), clock)
}

fn text(text: &str) -> Arc<String> {
    Arc::new(text.to_owned())
}

fn living(life: Duration) -> InsertOptions {
    InsertOptions::default().ttl(life)
}

fn is(store: &Local<u32, String>, key: u32, expected: &str) -> bool {
    store.get(&key).is_some_and(|value| *value == expected)
}

#[test]
fn an_untimed_write_over_a_timed_value_has_no_deadline() {
    let (store, clock) = timed(|store| store);
    store.insert_with(1, text("timed"), living(SECOND));
    store.insert(1, text("untimed"));
    clock.advance(10 * SECOND);
    assert!(is(&store, 1, "untimed"));
}

#[test]
fn an_overwrite_heavier_than_the_bound_leaves_neither_value_and_all_others() {
    let weigh = |_: &u32, value: &String| value.len() as u32;
    let (store, _) = timed(|store| store.bytes_max(100, weigh).shards(1));
    (0..9).for_each(|key| store.insert(key, Arc::new("x".repeat(10))));
    store.insert(1, Arc::new("y".repeat(1000)));
    assert!(store.get(&1).is_none());
    assert_eq!((store.len(), store.weight()), (8, 80));
    assert_eq!(store.stats().refusals, 1);
}

#[test]
fn a_full_store_whose_entries_have_ended_takes_as_many_new_ones() {
    // Each store has its own secret hash, so its entries lie in other places.
    for _ in 0..100 {
        let (store, clock) = timed(|store| store.entries_max(100).shards(1));
        (0..100).for_each(|key| store.insert_with(key, text("old"), living(SECOND)));
        for _ in 0..10 {
            (0..100).for_each(|key| assert!(store.get(&key).is_some()));
        }
        clock.advance(SECOND);
        (1000..1100).for_each(|key| store.insert(key, text("new")));
        assert!((1000..1100).all(|key| is(&store, key, "new")));
    }
}

#[test]
fn more_loads_than_places_all_end_with_their_values() {
    const LOADS: u32 = 32;
    let store: LoadingLocal<u32, u32, ()> =
        LoadingLocal::new(Local::builder().entries_max(2).build());
    let (under_way, loads) = (Barrier::new(LOADS as usize), AtomicU32::new(0));
    let load = |key: u32| {
        let made = store.get_or_load(&key, None, || {
            loads.fetch_add(1, Ordering::SeqCst);
            under_way.wait();
            Ok(Some((Arc::new(key), InsertOptions::default())))
        });
        assert_eq!(made.unwrap().as_deref(), Some(&key));
    };
    thread::scope(|scope| {
        for key in 0..LOADS {
            let load = &load;
            scope.spawn(move || load(key));
        }
    });
    assert_eq!(loads.load(Ordering::SeqCst), LOADS);
    assert!(store.local().len() <= 2);
}

#[test]
fn what_is_stored_after_a_clear_does_not_end_at_an_older_deadline() {
    let (store, clock) = timed(|store| store);
    store.insert_with(1, text("old"), living(SECOND));
    store.clear();
    store.insert(1, text("new"));
    clock.advance(10 * SECOND);
    assert!(is(&store, 1, "new"));
}

#[test]
fn a_very_short_life_is_as_short_as_was_said() {
    let (store, clock) = timed(|store| store);
    store.insert_with(0, text("none"), living(Duration::ZERO));
    assert!(store.get(&0).is_none());
    for (key, life) in [(1, Duration::from_nanos(1)), (2, Duration::from_millis(1))] {
        store.insert_with(key, text("short"), living(life));
        clock.advance(life.checked_sub(Duration::from_nanos(1)).unwrap());
        assert!(is(&store, key, "short"));
        clock.advance(Duration::from_nanos(1));
        assert!(store.get(&key).is_none());
    }
}
