//! The local store against a model: random operations, a clock that is moved, every departure told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_near::clock::ManualClock;
use cellar_near::{Cause, Clock, InsertOptions, Local, Policy};
use proptest::prelude::*;

type Store = Local<u16, u64>;
type Told = Arc<Mutex<Vec<(u16, u64, Cause)>>>;

/// The weight of a value in the stores that weigh.
fn weight(value: u64) -> u32 {
    (value % 7) as u32
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    policy: Policy,
    shards: usize,
    max: u64,
    is_weighed: bool,
    ttl: Option<u64>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let policy = prop_oneof![Just(Policy::S3Fifo), Just(Policy::Lru)];
    let ttl = proptest::option::of(1_u64..50);
    (policy, 1_usize..5, 0_u64..60, any::<bool>(), ttl).prop_map(
        |(policy, shards, max, is_weighed, ttl)| Shape {
            policy,
            shards,
            max,
            is_weighed,
            ttl,
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Get(u16),
    Insert(u16, Option<u64>),
    Remove(u16),
    Retain(u16),
    Clear,
    Reclaim,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u16..100;
    let step = prop_oneof![
        12 => key.clone().prop_map(Step::Get),
        12 => (key.clone(), proptest::option::of(0_u64..60)).prop_map(|(k, t)| Step::Insert(k, t)),
        2 => key.clone().prop_map(Step::Remove),
        1 => (2_u16..9).prop_map(Step::Retain),
        1 => Just(Step::Clear),
        1 => Just(Step::Reclaim),
        4 => (1_u64..20).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..400)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn build(shape: Shape) -> (Store, Arc<ManualClock>, Told) {
    let (clock, told) = (Arc::new(ManualClock::default()), Told::default());
    let (hears, ticks) = (Arc::clone(&told), Arc::clone(&clock) as Arc<dyn Clock>);
    let mut builder = Store::builder()
        .policy(shape.policy)
        .shards(shape.shards)
        .clock(ticks)
        .on_evict(move |key, value, cause| hears.lock().unwrap().push((*key, **value, cause)));
    builder = match shape.is_weighed {
        true => builder.bytes_max(shape.max, |_, value| weight(*value)),
        false => builder.entries_max(shape.max),
    };
    if let Some(ttl) = shape.ttl {
        builder = builder.ttl(ms(ttl));
    }
    (builder.build(), clock, told)
}

/// What must be in the store, by what it was given and what it told.
struct Model {
    shape: Shape,
    now: u64,
    next: u64,
    /// By key: the value, and when it is gone.
    entries: HashMap<u16, (u64, Option<u64>)>,
}

impl Model {
    fn is_live(&self, key: u16) -> bool {
        let entry = self.entries.get(&key);
        entry.is_some_and(|(_, deadline)| deadline.is_none_or(|deadline| self.now < deadline))
    }

    /// Checks each departure and lets the entry leave: `asked` says whether the operation itself
    /// takes out a key for a cause.
    fn hear(&mut self, told: &Told, asked: impl Fn(u16, Cause) -> bool) {
        let told = std::mem::take(&mut *told.lock().unwrap());
        told.into_iter().for_each(|one| self.hear_one(one, &asked));
    }

    fn hear_one(
        &mut self,
        (key, value, cause): (u16, u64, Cause),
        asked: impl Fn(u16, Cause) -> bool,
    ) {
        let (known, deadline) = self.entries.remove(&key).expect("it is told once");
        assert_eq!(value, known);
        let is_over = deadline.is_some_and(|deadline| deadline <= self.now);
        assert_eq!(cause == Cause::Expired, is_over, "{key} {cause:?}");
        let is_right = is_over || cause == Cause::Evicted || asked(key, cause);
        assert!(is_right, "{key} {cause:?}");
    }

    fn insert(&mut self, store: &Store, told: &Told, key: u16, ttl: Option<u64>) {
        let value = self.next;
        self.next += 1;
        let options = match ttl {
            Some(ttl) => InsertOptions::default().ttl(ms(ttl)),
            None => InsertOptions::default(),
        };
        store.insert_with(key, Arc::new(value), options);
        let ttl = ttl.or(self.shape.ttl);
        let fresh = (value, ttl.map(|ttl| self.now + ttl));
        let mut stays = true;
        for one in std::mem::take(&mut *told.lock().unwrap()) {
            if one.1 == value {
                let older = self.entries.insert(key, fresh);
                assert_eq!(older, None, "the older value leaves first");
                stays = false;
            }
            self.hear_one(one, |left, cause| left == key && cause == Cause::Replaced);
        }
        if stays {
            let older = self.entries.insert(key, fresh);
            assert_eq!(older, None, "a value in whose place another came has left");
        }
    }

    fn check(&self, store: &Store) {
        let stats = store.stats();
        let weight_of = |(value, _): &(u64, Option<u64>)| match self.shape.is_weighed {
            true => u64::from(weight(*value)),
            false => 1,
        };
        assert_eq!(stats.entries, self.entries.len() as u64);
        assert_eq!(
            stats.weight,
            self.entries.values().map(weight_of).sum::<u64>()
        );
        assert!(stats.weight <= self.shape.max);
        let left = stats.evictions + stats.expirations + stats.replacements + stats.removals;
        assert_eq!(stats.inserts, stats.entries + left);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_store_holds_what_it_was_given_and_tells_what_leaves(
        shape in shapes(),
        steps in steps(),
    ) {
        let (store, clock, told) = build(shape);
        let mut model = Model { shape, now: 0, next: 0, entries: HashMap::new() };
        let (mut hits, mut misses) = (0, 0);
        for step in steps {
            match step {
                Step::Get(key) => {
                    let value = store.get(&key).map(|value| *value);
                    let expected = model.entries.get(&key).filter(|_| model.is_live(key));
                    prop_assert_eq!(value, expected.map(|entry| entry.0));
                    hits += u64::from(value.is_some());
                    misses += u64::from(value.is_none());
                }
                Step::Insert(key, ttl) => model.insert(&store, &told, key, ttl),
                Step::Remove(key) => {
                    let expected = model.entries.get(&key).filter(|_| model.is_live(key));
                    let expected = expected.map(|entry| entry.0);
                    prop_assert_eq!(store.remove(&key).map(|value| *value), expected);
                    model.hear(&told, |one, cause| one == key && cause == Cause::Removed);
                    prop_assert!(!model.entries.contains_key(&key));
                }
                Step::Retain(by) => {
                    store.retain(|key, _| key % by != 0);
                    model.hear(&told, |key, cause| key % by == 0 && cause == Cause::Removed);
                    prop_assert!(model.entries.keys().all(|key| key % by != 0));
                }
                Step::Clear => {
                    store.clear();
                    model.hear(&told, |_, cause| cause == Cause::Removed);
                    prop_assert!(model.entries.is_empty());
                }
                Step::Reclaim => {
                    store.reclaim();
                    model.hear(&told, |_, _| false);
                    prop_assert!(model.entries.keys().all(|&key| model.is_live(key)));
                }
                Step::Wait(by) => {
                    clock.advance(ms(by));
                    model.now += by;
                }
            }
            model.check(&store);
        }
        let stats = store.stats();
        prop_assert_eq!((stats.hits, stats.misses), (hits, misses));
    }
}

#[test]
fn an_entry_is_there_until_its_deadline_and_not_at_it() {
    let clock = Arc::new(ManualClock::default());
    let store: Local<&str, u8> = Local::builder()
        .ttl(ms(1_000))
        .clock(Arc::clone(&clock) as Arc<dyn Clock>)
        .build();
    clock.advance(Duration::from_nanos(123_456_789));
    store.insert("default", Arc::new(1));
    store.insert_with("own", Arc::new(2), InsertOptions::default().ttl(ms(1)));
    clock.advance(ms(1) - Duration::from_nanos(1));
    assert!(store.get("own").is_some());
    clock.advance(Duration::from_nanos(1));
    assert!(store.get("own").is_none() && store.remove("own").is_none());
    clock.advance(ms(999) - Duration::from_nanos(1));
    assert!(store.get("default").is_some());
    clock.advance(Duration::from_nanos(1));
    assert!(store.get("default").is_none());
}

#[test]
fn expired_entries_give_their_room_back_to_writers_who_do_not_need_it() {
    let clock = Arc::new(ManualClock::default());
    let store: Local<u32, u32> = Local::builder()
        .entries_max(100_000)
        .clock(Arc::clone(&clock) as Arc<dyn Clock>)
        .build();
    let short = InsertOptions::default().ttl(ms(10));
    (0..10_000).for_each(|key| store.insert_with(key, Arc::new(key), short));
    clock.advance(ms(10));
    // Each looks at four places of its shard; half as many would not do where a shard got few.
    (10_000..18_000).for_each(|key| store.insert(key, Arc::new(key)));
    let stats = store.stats();
    assert_eq!((stats.expirations, stats.entries), (10_000, 8_000));
}

#[test]
fn a_value_lives_until_its_last_holder_drops_it_and_no_longer() {
    let store: Local<u32, String> = Local::builder().entries_max(1_000).build();
    let value = Arc::new("held".to_owned());
    let watch = Arc::downgrade(&value);
    store.insert(1, value);
    let held = store.get(&1).unwrap();
    assert_eq!(watch.strong_count(), 2);
    (2..100_000).for_each(|key| store.insert(key, Arc::new(String::new())));
    store.clear();
    assert_eq!((held.as_str(), watch.strong_count()), ("held", 1));
    drop(held);
    assert!(watch.upgrade().is_none());
    let value = Arc::new("replaced".to_owned());
    let watch = Arc::downgrade(&value);
    store.insert(2, value);
    store.insert(2, Arc::new("other".to_owned()));
    assert!(watch.upgrade().is_none());
}

#[test]
fn strict_lru_evicts_the_entry_used_longest_ago() {
    let store: Local<u32, ()> = Local::builder()
        .entries_max(3)
        .shards(1)
        .policy(Policy::Lru)
        .build();
    let value = Arc::new(());
    (1..=3).for_each(|key| store.insert(key, Arc::clone(&value)));
    assert!(store.get(&1).is_some());
    store.insert(4, Arc::clone(&value));
    assert!(store.get(&2).is_none() && store.get(&1).is_some());
    store.insert(3, Arc::clone(&value));
    store.insert(5, value);
    let kept: Vec<bool> = (1..=5).map(|key| store.get(&key).is_some()).collect();
    assert_eq!(kept, [true, false, true, false, true]);
}

#[test]
fn one_write_after_many_hits_is_no_full_turn_of_the_clock() {
    let store: Local<u32, u32> = Local::builder().entries_max(50_000).shards(1).build();
    (0..50_000).for_each(|key| store.insert(key, Arc::new(key)));
    for _ in 0..3 {
        (0..50_000).for_each(|key| assert!(store.get(&key).is_some()));
    }
    store.insert(50_000, Arc::new(0));
    assert_eq!((store.len(), store.stats().evictions), (50_000, 1));
}

#[test]
fn the_listener_may_use_the_store() {
    let store: Arc<Mutex<Option<Local<u32, u32>>>> = Arc::default();
    let again = Arc::clone(&store);
    let built = Local::builder()
        .entries_max(10)
        .on_evict(move |key: &u32, value, cause| {
            if cause == Cause::Evicted && *key < 100 {
                let store = again.lock().unwrap().clone().unwrap();
                store.insert(key + 100, Arc::clone(value));
            }
        })
        .build();
    *store.lock().unwrap() = Some(built.clone());
    (0..20).for_each(|key| built.insert(key, Arc::new(key)));
    let stats = built.stats();
    assert_eq!(stats.entries, 10);
    assert!(stats.inserts > 20);
}
