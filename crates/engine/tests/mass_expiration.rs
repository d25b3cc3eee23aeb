//! Very many items that die at once: they leave index and log in sweeps, and all that was true of
//! those that leave one by one is true of them.
//!
//! All memory is walked now and then, with what has left the index and not the log yet.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cellar_engine::{
    Cache, Clock, Config, DeleteOptions, Deleted, Happened, Instant, Item, Key, ManualClock,
    Observer, ReclaimLag, SetOptions, Space, StateDir, StateOptions, Stats,
};

use crate::support::cache::Timed;
use crate::support::random::Random;

/// Items that die, and those that do not.
const DYING: u64 = 40_000;
const LASTING: u64 = 20_000;
/// Items that one step of background maintenance takes out one by one.
const ONE_BY_ONE: u64 = 128;
const TTL_MS: u64 = 1_000;
/// How long after their deadline they are looked for.
const LATE_MS: u64 = 500;

fn dying(number: u64) -> String {
    format!("dying-{number:06}")
}

fn lasting(number: u64) -> String {
    format!("lasting-{number:06}")
}

/// A cache with items that die in a moment, and others that do not.
fn filled(memory_bytes: usize) -> Timed {
    let timed = Timed::new(memory_bytes);
    fill(&timed);
    timed
}

fn fill(timed: &Timed) {
    for number in 0..LASTING {
        timed.set(&lasting(number), b"stays", None).unwrap();
    }
    for number in 0..DYING {
        timed.set(&dying(number), b"leaves", Some(TTL_MS)).unwrap();
    }
}

fn stats(timed: &Timed) -> Stats {
    timed.cache.stats()
}

/// Steps of background maintenance until nothing waits, with a look at all memory every so many.
fn steps(timed: &Timed, look_every: u64) -> u64 {
    let mut steps = 0;
    while timed.cache.tick() {
        steps += 1;
        assert!(steps < 100_000, "maintenance comes to no end");
        if steps % look_every == 0 {
            timed.cache.audit().unwrap();
        }
    }
    steps
}

/// So many steps, all of which find something to do.
fn busy_steps(timed: &Timed, count: u64) {
    for _ in 0..count {
        assert!(timed.cache.tick());
    }
}

/// Stores an item that dies in another database.
fn set_dying_in(timed: &Timed, space: Space, number: u64) {
    let options = SetOptions {
        deadline: timed.deadline(Some(TTL_MS)),
        ..SetOptions::default()
    };
    let name = dying(number);
    let key = timed.cache.key_in(space, name.as_bytes()).unwrap();
    timed.cache.set(key, b"leaves", &options).unwrap();
}

/// A cache over memory that outlives it.
fn over(dir: StateDir, clock: &Arc<ManualClock>) -> Timed {
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    let cache = Cache::new(Config {
        shards: Some(1),
        clock: shared,
        state: Some(StateOptions::of(dir)),
        ..Config::with_memory(64 << 20)
    });
    Timed {
        cache: cache.unwrap(),
        clock: Arc::clone(clock),
    }
}

fn check_lasting(timed: &Timed) {
    for number in 0..LASTING {
        let found = timed.get(&lasting(number));
        assert_eq!(found.as_deref(), Some(&b"stays"[..]), "{number}");
    }
}

#[test]
fn what_dies_together_takes_a_fraction_of_the_steps() {
    let timed = filled(64 << 20);
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    assert_eq!(stats(&timed).items, LASTING);
    let steps = steps(&timed, 8);
    assert!(steps * 3 < DYING / ONE_BY_ONE, "{steps} steps");
    let stats = stats(&timed);
    assert_eq!((stats.items, stats.expired), (LASTING, DYING));
    let lags = timed.cache.reclaim_lag().items;
    let half_a_second = (0..lags.len()).find(|&bin| ReclaimLag::below_ms(bin) > Some(LATE_MS));
    assert_eq!(lags[half_a_second.unwrap()], DYING, "{lags:?}");
    timed.cache.audit().unwrap();
    check_lasting(&timed);
}

#[test]
fn those_that_were_never_fetched_are_counted_apart() {
    let timed = filled(64 << 20);
    for number in (0..DYING).step_by(4) {
        timed.get(&dying(number)).unwrap();
    }
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    // Some are met before the sweep comes by.
    for number in 0..DYING / 100 {
        assert_eq!(timed.get(&dying(number)), None);
    }
    steps(&timed, 50);
    let stats = stats(&timed);
    assert_eq!(stats.expired, DYING);
    assert_eq!(stats.expired_unfetched, DYING / 4 * 3);
}

#[test]
fn keys_that_are_stored_anew_meanwhile_stay() {
    let timed = filled(64 << 20);
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    let mut anew = 0;
    while timed.cache.tick() {
        // The table is full enough that entries move, and grows.
        for _ in 0..200 {
            let name = dying(anew * 7_919 % (2 * DYING));
            timed.set(&name, b"anew", None).unwrap();
            anew += 1;
        }
        timed.cache.audit().unwrap();
    }
    assert!(anew > 1_000, "maintenance was through after {anew} stores");
    for number in 0..anew {
        let name = dying(number * 7_919 % (2 * DYING));
        assert_eq!(timed.get(&name).as_deref(), Some(&b"anew"[..]), "{name}");
    }
    check_lasting(&timed);
}

/// A clock that goes back, as it does for who read it, and had to wait for the lock.
#[derive(Debug)]
struct Loose(AtomicU64);

impl Clock for Loose {
    fn now(&self) -> Instant {
        // Relaxed: one thread does it all.
        Instant(self.0.load(Ordering::Relaxed))
    }
}

#[test]
fn what_is_stored_by_who_read_the_clock_before_the_expiration_stays() {
    let clock = Arc::new(Loose(AtomicU64::new(60_000)));
    let cache = Cache::new(Config {
        shards: Some(1),
        clock: Arc::<Loose>::clone(&clock),
        ..Config::with_memory(64 << 20)
    })
    .unwrap();
    let set = |number: u64, value: &[u8], ttl_ms: u64| {
        let name = dying(number);
        let options = SetOptions {
            deadline: cache.now().plus_ms(ttl_ms),
            ..SetOptions::default()
        };
        let key = cache.key(name.as_bytes()).unwrap();
        cache.set(key, value, &options).unwrap();
    };
    (0..DYING).for_each(|number| set(number, b"leaves", TTL_MS));
    let turn = |to_ms: u64| clock.0.store(to_ms, Ordering::Relaxed);
    turn(60_000 + TTL_MS + LATE_MS);
    assert!(cache.tick());
    turn(60_000 + TTL_MS - 1);
    // As long as the old value, so that it would go in its place.
    (0..DYING)
        .step_by(10)
        .for_each(|number| set(number, b"stored", 9 * TTL_MS));
    turn(60_000 + TTL_MS + LATE_MS);
    while cache.tick() {}
    cache.audit().unwrap();
    for number in (0..DYING).step_by(10) {
        let name = dying(number);
        let found = cache.get(cache.key(name.as_bytes()).unwrap(), |item| {
            item.value.to_vec()
        });
        assert_eq!(found.as_deref(), Some(&b"stored"[..]), "{name}");
    }
}

#[test]
fn what_is_deleted_meanwhile_hides_no_entry() {
    let timed = filled(64 << 20);
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    let mut deleted = 0;
    while timed.cache.tick() && deleted < LASTING {
        // The table is half empty before the sweep is through, so each deletion would shrink it.
        for _ in 0..500 {
            let name = lasting(deleted);
            let key = timed.cache.key(name.as_bytes()).unwrap();
            let done = timed.cache.delete(key, &DeleteOptions::default()).unwrap();
            assert_eq!(done, Deleted::Done);
            deleted += 1;
        }
        timed.cache.audit().unwrap();
    }
    steps(&timed, 50);
    assert_eq!(stats(&timed).items, LASTING - deleted);
    timed.cache.audit().unwrap();
}

#[test]
fn who_needs_the_room_at_once_takes_it_before_the_sweep_is_through() {
    let timed = filled(4 << 20);
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    let held = stats(&timed).items;
    for round in 0..200 {
        timed.cache.tick();
        for number in 0..100 {
            let name = format!("new-{round}-{number}");
            timed.set(&name, &[7; 100], Some(TTL_MS)).unwrap();
            assert!(timed.get(&name).is_some());
        }
        timed.cache.audit().unwrap();
    }
    let evicted = stats(&timed).evicted;
    assert!(evicted < held, "{evicted} of {held} were evicted");
}

#[test]
fn what_was_flushed_leaves_in_the_same_way() {
    let timed = filled(64 << 20);
    timed.cache.flush();
    let steps = steps(&timed, 8);
    assert!(steps * 3 < (DYING + LASTING) / ONE_BY_ONE, "{steps} steps");
    let stats = stats(&timed);
    assert_eq!((stats.items, stats.expired), (0, 0));
    assert_eq!(stats.expired_unfetched, 0);
    assert_eq!(timed.cache.audit().unwrap().flushed_items, 0);
}

#[test]
fn a_flush_amid_the_sweep_takes_what_is_left() {
    let timed = filled(64 << 20);
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    busy_steps(&timed, 4);
    timed.cache.audit().unwrap();
    timed.cache.flush();
    timed.cache.audit().unwrap();
    // Past the pause after which background maintenance looks for the dead again.
    timed.clock.advance_ms(100);
    steps(&timed, 8);
    assert_eq!(timed.cache.audit().unwrap().flushed_items, 0);
    assert_eq!(stats(&timed).items, 0);
}

#[test]
fn items_of_other_databases_are_counted_where_they_belong() {
    let timed = Timed::new(64 << 20);
    fill(&timed);
    let spaces: Vec<Space> = (1..4).map(Space).collect();
    for number in 0..DYING {
        set_dying_in(&timed, spaces[number as usize % spaces.len()], number);
    }
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    let steps = steps(&timed, 20);
    assert!(steps * 3 < 2 * DYING / ONE_BY_ONE, "{steps} steps");
    assert_eq!(
        (stats(&timed).items, stats(&timed).expired),
        (LASTING, 2 * DYING)
    );
    for &space in &spaces {
        assert_eq!(timed.cache.space_stats(space).items, 0);
    }
    check_lasting(&timed);
}

/// Counts what expires, while it listens.
#[derive(Default)]
struct Counting {
    listens: AtomicBool,
    /// Whether it listens to what is stored alone.
    to_stores: AtomicBool,
    expired: AtomicU64,
}

impl Observer for Counting {
    fn is_wanted(&self) -> bool {
        // Relaxed, here and below: one thread does it all.
        self.listens.load(Ordering::Relaxed)
    }

    fn hears_of_expiry(&self) -> bool {
        self.is_wanted() && !self.to_stores.load(Ordering::Relaxed)
    }

    fn changed(&self, _key: Key<'_>, happened: Happened, _item: Option<Item<'_>>) {
        let is_it = u64::from(happened == Happened::Expired);
        self.expired.fetch_add(is_it, Ordering::Relaxed);
    }

    fn flushed(&self, _space: Option<Space>) {}
}

fn watched() -> (Timed, Arc<Counting>) {
    let counting = Arc::new(Counting::default());
    let observer: Arc<dyn Observer> = Arc::<Counting>::clone(&counting);
    let timed = Timed::with(Config {
        shards: Some(1),
        observer: Some(observer),
        ..Config::with_memory(64 << 20)
    });
    fill(&timed);
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    (timed, counting)
}

#[test]
fn who_listens_is_told_of_each_item_once() {
    let (timed, counting) = watched();
    counting.listens.store(true, Ordering::Relaxed);
    steps(&timed, 50);
    assert_eq!(counting.expired.load(Ordering::Relaxed), DYING);
}

#[test]
fn who_waits_for_what_is_stored_prevents_no_bulk_unlink() {
    let (timed, counting) = watched();
    counting.to_stores.store(true, Ordering::Relaxed);
    counting.listens.store(true, Ordering::Relaxed);
    let steps = steps(&timed, 50);
    assert!(steps * 3 < DYING / ONE_BY_ONE, "{steps} steps");
}

#[test]
fn who_begins_to_listen_ends_the_bulk_unlink() {
    let (timed, counting) = watched();
    busy_steps(&timed, 3);
    counting.listens.store(true, Ordering::Relaxed);
    steps(&timed, 20);
    let told = counting.expired.load(Ordering::Relaxed);
    assert!(told > 0 && told < DYING, "{told} told");
    assert_eq!(
        (stats(&timed).items, stats(&timed).expired),
        (LASTING, DYING)
    );
    assert_eq!(stats(&timed).expired_unfetched, DYING);
    timed.cache.audit().unwrap();
    check_lasting(&timed);
}

#[test]
fn a_bulk_unlink_that_was_ended_goes_on_when_nobody_listens_any_more() {
    let (timed, counting) = watched();
    busy_steps(&timed, 3);
    counting.listens.store(true, Ordering::Relaxed);
    assert!(timed.cache.tick());
    counting.listens.store(false, Ordering::Relaxed);
    // Past the pause between two looks for a mass expiration.
    timed.clock.advance_ms(100);
    let steps = steps(&timed, 8);
    // One segment of seven was begun one by one.
    assert!(steps * 2 < DYING / ONE_BY_ONE, "{steps} steps");
    let told = counting.expired.load(Ordering::Relaxed);
    assert!(told < DYING / 2, "{told} told");
    let stats = stats(&timed);
    assert_eq!((stats.expired, stats.expired_unfetched), (DYING, DYING));
    check_lasting(&timed);
}

#[test]
fn few_in_a_large_table_leave_one_by_one() {
    const MANY: u64 = 1_500_000;
    const FEW: u64 = 4_000;
    let timed = Timed::new(128 << 20);
    let store_and_outlive = |items: u64| {
        for number in 0..items {
            timed.set(&dying(number), b"leaves", Some(TTL_MS)).unwrap();
        }
        timed.clock.advance_ms(TTL_MS + LATE_MS);
    };
    let ticks_until = |expired: u64| {
        let mut ticks = 0;
        while stats(&timed).expired < expired {
            timed.cache.tick();
            ticks += 1;
            assert!(ticks < 100_000, "maintenance comes to no end");
        }
        ticks
    };
    store_and_outlive(MANY);
    assert!(ticks_until(MANY) < MANY / ONE_BY_ONE);
    // The table is still almost as long as it was.
    store_and_outlive(FEW);
    // Some of them lie in segments that are not full yet.
    let ticks = ticks_until(MANY + FEW / 2);
    assert!(ticks <= FEW / ONE_BY_ONE + 2, "{ticks} ticks");
}

#[test]
fn what_was_flushed_with_its_database_has_not_expired() {
    let timed = Timed::new(64 << 20);
    for number in 0..100 {
        timed.set(&lasting(number), b"stays", None).unwrap();
    }
    for number in 0..DYING {
        set_dying_in(&timed, Space(1), number);
    }
    timed.cache.retire_space(Space(1));
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    steps(&timed, 20);
    let stats = stats(&timed);
    assert_eq!(
        (stats.items, stats.expired, stats.expired_unfetched),
        (100, 0, 0)
    );
}

#[test]
fn what_is_flushed_amid_the_sweep_has_not_expired() {
    let timed = filled(64 << 20);
    let key = timed.cache.key_in(Space(1), b"beside").unwrap();
    let options = SetOptions::default();
    timed.cache.set(key, b"stays", &options).unwrap();
    timed.clock.advance_ms(TTL_MS + LATE_MS);
    busy_steps(&timed, 4);
    timed.cache.flush_space(Space::MAIN);
    timed.clock.advance_ms(100);
    steps(&timed, 20);
    let stats = stats(&timed);
    assert_eq!(stats.items, 1);
    assert!(stats.expired_unfetched <= stats.expired, "{stats:?}");
}

#[test]
fn a_process_that_goes_on_amid_the_sweep_has_what_lives() {
    let name = format!("cellar-burst-{}", std::process::id());
    let path = Path::new("/dev/shm").join(name);
    let clock = Arc::new(ManualClock::starting_at(Instant(60_000)));
    let open = || over(StateDir::open(&path).unwrap(), &clock);
    let walked = |timed: &Timed| timed.cache.restored().unwrap().was_walked;
    for (ticks, is_killed) in [(1, false), (3, false), (3, true), (6, false)] {
        let _ = std::fs::remove_dir_all(&path);
        let timed = open();
        fill(&timed);
        timed.clock.advance_ms(TTL_MS + LATE_MS);
        busy_steps(&timed, ticks);
        if !is_killed {
            timed.cache.checkpoint().unwrap().leave();
        }
        drop(timed);
        let timed = open();
        assert_eq!(walked(&timed), is_killed, "{ticks}");
        assert_eq!(stats(&timed).items, LASTING);
        timed.cache.audit().unwrap();
        steps(&timed, 50);
        check_lasting(&timed);
    }
    let _ = std::fs::remove_dir_all(&path);
}

#[test]
fn a_process_that_takes_over_amid_the_sweep_goes_on_at_once() {
    let name = format!("cellar-burst-over-{}", std::process::id());
    let path = Path::new("/dev/shm").join(name);
    let _ = std::fs::remove_dir_all(&path);
    let clock = Arc::new(ManualClock::starting_at(Instant(60_000)));
    let old = over(StateDir::open(&path).unwrap(), &clock);
    fill(&old);
    clock.advance_ms(TTL_MS + LATE_MS);
    busy_steps(&old, 3);
    assert!(old.cache.hand_over());
    let memory = old.cache.state_file().unwrap().try_clone_to_owned();
    let dir = StateDir::open_with(&path, Some(memory.unwrap())).unwrap();
    let new = over(dir, &clock);
    assert!(!new.cache.restored().unwrap().was_walked);
    assert_eq!(stats(&new).items, LASTING);
    steps(&new, 20);
    assert_eq!(stats(&new).items, LASTING);
    check_lasting(&new);
    drop((old, new));
    let _ = std::fs::remove_dir_all(&path);
}

/// What is stored of a key: its value and when it ends.
type Stored = HashMap<u64, (u64, u64)>;

/// Whether a key has what the model says.
fn check(timed: &Timed, model: &Stored, number: u64) {
    let now = timed.cache.now().0;
    let known = model.get(&number).filter(|(_, until)| *until > now);
    let known = known.map(|(value, _)| value.to_le_bytes().to_vec());
    assert_eq!(timed.get(&lasting(number)), known, "{number}");
}

#[test]
fn mass_expirations_of_all_sizes_leave_what_lives_as_it_is() {
    for seed in 1..=3 {
        let mut random = Random::from_seed(seed);
        let timed = Timed::new(32 << 20);
        let mut model = Stored::new();
        for _ in 0..60_000 {
            let number = random.below(30_000);
            let ttl_ms = [300, 2_000, 60_000][random.below(3) as usize];
            let until = timed.cache.now().0 + ttl_ms;
            let value = random.next();
            let name = lasting(number);
            timed
                .set(&name, &value.to_le_bytes(), Some(ttl_ms))
                .unwrap();
            model.insert(number, (value, until));
            check(&timed, &model, random.below(30_000));
            match random.below(3_000) {
                0..=29 => drop(timed.cache.tick()),
                30 => timed.clock.advance_ms(random.below(3_000)),
                31 => drop(timed.cache.audit().unwrap()),
                _ => {}
            }
        }
        steps(&timed, 20);
        (0..30_000).for_each(|number| check(&timed, &model, number));
        timed.cache.audit().unwrap();
    }
}
