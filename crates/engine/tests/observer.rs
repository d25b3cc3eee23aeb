//! The observer hears of every change, whatever path it takes, and of nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cellar_engine::{
    Cache, Change, Config, Deadline, DeleteOptions, End, Happened, Increment, Instant, Item, Key,
    Lookup, Observer, SetOptions, Space, When,
};

use crate::support::cache::Timed;

use Happened::{Created, Removed, Retimed, Stored};

#[derive(Default)]
struct Ears {
    is_deaf: AtomicBool,
    heard: Mutex<Vec<(Space, Vec<u8>, Happened)>>,
    flushed: Mutex<Vec<Option<Space>>>,
}

impl Ears {
    fn take(&self) -> Vec<Happened> {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        heard.into_iter().map(|(_, _, happened)| happened).collect()
    }
}

impl Observer for Ears {
    fn is_wanted(&self) -> bool {
        !self.is_deaf.load(Ordering::Relaxed)
    }

    fn changed(&self, key: Key<'_>, happened: Happened, _item: Option<Item<'_>>) {
        let what = (key.space(), key.bytes().to_vec(), happened);
        self.heard.lock().unwrap().push(what);
    }

    fn flushed(&self, space: Option<Space>) {
        self.flushed.lock().unwrap().push(space);
    }
}

fn observed(memory_bytes: usize, shards: usize) -> (Timed, Arc<Ears>) {
    let ears = Arc::new(Ears::default());
    let observer: Arc<dyn Observer> = Arc::<Ears>::clone(&ears);
    let timed = Timed::with(Config {
        shards: Some(shards),
        seed: Some(3),
        observer: Some(observer),
        ..Config::with_memory(memory_bytes)
    });
    (timed, ears)
}

const SET: SetOptions = SetOptions {
    kind: cellar_engine::Kind::STRING,
    deadline: Deadline::NEVER,
    flags: 0,
    when: When::Always,
    accept_older: false,
    new_version: None,
    value_bytes_max: Config::VALUE_BYTES_LIMIT,
    version: false,
};

/// What was heard of a request that has just been done.
fn expect<T>(ears: &Ears, expected: &[Happened], _done: T) {
    assert_eq!(ears.take(), expected);
}

fn update(cache: &Cache, key: Key<'_>, change: Change) -> bool {
    let done = cache.update(key, &mut Vec::new(), |_, value| {
        value.push(b'5');
        (true, change.clone())
    });
    done.unwrap()
}

#[test]
fn every_request_that_changes_an_item_is_told_once() {
    let (timed, ears) = observed(8 << 20, 1);
    let cache = &timed.cache;
    let key = cache.key(b"key").unwrap();
    let soon = cache.now().plus_ms(60_000);
    let stored = Change::Store {
        kind: cellar_engine::Kind::STRING,
        deadline: soon,
        flags: 0,
    };
    let one = Increment::by(1);
    let created = Increment {
        initial: Some((1, soon)),
        ..one
    };
    expect(&ears, &[Created], cache.set(key, b"4", &SET));
    expect(&ears, &[Stored], cache.increment(key, &one));
    expect(&ears, &[Stored], cache.extend(key, End::Back, b"4", &SET));
    expect(&ears, &[Retimed], cache.touch(key, soon));
    let never = Change::Retime(Deadline::NEVER);
    expect(&ears, &[Retimed], update(cache, key, never));
    expect(&ears, &[Stored], update(cache, key, stored));
    let mark = |mark_stale| DeleteOptions {
        mark_stale,
        drop_value: !mark_stale,
        ..DeleteOptions::default()
    };
    expect(&ears, &[Stored], cache.delete(key, &mark(true)));
    expect(&ears, &[Stored], cache.delete(key, &mark(false)));
    let touch = Lookup {
        touch: Some(soon),
        ..Lookup::default()
    };
    expect(&ears, &[Retimed], cache.lookup(key, &touch, |_| ()));
    expect(&ears, &[Removed], update(cache, key, Change::Remove));
    let vivify = Lookup {
        vivify: Some(soon),
        ..Lookup::default()
    };
    expect(&ears, &[Created], cache.lookup(key, &vivify, |_| ()));
    let plain = DeleteOptions::default();
    expect(&ears, &[Removed], cache.delete(key, &plain));
    let draft = cache.draft(key, 5).unwrap();
    expect(&ears, &[Created], cache.commit(draft, &SET));
    expect(&ears, &[Removed], cache.delete(key, &plain));
    expect(&ears, &[Created], cache.increment(key, &created));
}

#[test]
fn nothing_is_told_of_requests_that_change_nothing() {
    let (timed, ears) = observed(8 << 20, 1);
    let cache = &timed.cache;
    let key = cache.key(b"key").unwrap();
    let soon = cache.now().plus_ms(60_000);
    let plain = DeleteOptions::default();
    expect(&ears, &[], cache.touch(key, soon));
    expect(&ears, &[], cache.delete(key, &plain));
    expect(&ears, &[], update(cache, key, Change::Remove));
    expect(&ears, &[], update(cache, key, Change::Retime(soon)));
    expect(&ears, &[], cache.increment(key, &Increment::by(1)));
    expect(&ears, &[], cache.draft(key, 5));
    expect(&ears, &[Created], cache.set(key, b"4", &SET));
    expect(&ears, &[], cache.get(key, |_| ()));
    expect(&ears, &[], update(cache, key, Change::Keep));
    let looks = Lookup {
        version: true,
        idle: true,
        recache_ms: Some(100_000),
        ..Lookup::default()
    };
    expect(&ears, &[], cache.lookup(key, &looks, |_| ()));
    let absent = SetOptions {
        when: When::Absent,
        ..SET
    };
    expect(&ears, &[], cache.set(key, b"no", &absent));
    ears.is_deaf.store(true, Ordering::Relaxed);
    expect(&ears, &[], cache.set(key, b"unheard", &SET));
    cache.flush();
    assert!(ears.flushed.lock().unwrap().is_empty());
}

#[test]
fn an_item_expires_once_whoever_meets_it() {
    let (timed, ears) = observed(8 << 20, 1);
    for number in 0..2_000 {
        timed
            .set(&format!("{number}"), &[1; 50], Some(100))
            .unwrap();
    }
    ears.take();
    timed.clock.advance_ms(200);
    assert_eq!(timed.get("17"), None);
    assert_eq!(ears.take(), [Happened::Expired]);
    while timed.cache.tick() {
        timed.clock.advance_ms(100);
    }
    assert_eq!(ears.take(), vec![Happened::Expired; 1_999]);
    assert_eq!(timed.cache.stats().items, 0);
}

#[test]
fn what_is_there_is_what_was_stored_and_did_not_leave() {
    let (timed, ears) = observed(1 << 20, 2);
    let cache = &timed.cache;
    for number in 0..60_000_u32 {
        let bytes = (number % 20_011).to_le_bytes();
        let key = cache.key_in(Space(number % 2), &bytes).unwrap();
        let deadline = match number % 3 {
            0 => Deadline::NEVER,
            _ => cache.now().plus_ms(u64::from(number % 700)),
        };
        let value = [1; 40].repeat(1 + number as usize % 5);
        cache
            .set(key, &value, &SetOptions { deadline, ..SET })
            .unwrap();
        cache.get(key, |_| ());
        timed.clock.advance_ms(u64::from(number % 50 == 0));
    }
    let large = cache.key(b"large").unwrap();
    cache.set(large, &vec![0; 400_000], &SET).unwrap();
    let mut there = std::collections::HashSet::new();
    let heard = std::mem::take(&mut *ears.heard.lock().unwrap());
    let count = |wanted| heard.iter().filter(|one| one.2 == wanted).count() as u64;
    let stats = cache.stats();
    assert_eq!(count(Happened::Evicted), stats.evicted);
    assert_eq!(count(Happened::Expired), stats.expired);
    assert!(stats.evicted > 1_000 && stats.expired > 1_000, "{stats:?}");
    for (space, key, happened) in heard {
        match happened {
            Happened::Created => assert!(there.insert((space, key))),
            Happened::Stored => {
                there.insert((space, key));
            }
            Happened::Evicted | Happened::Expired => assert!(there.remove(&(space, key))),
            other => panic!("{other:?}"),
        }
    }
    let audit = cache.audit().unwrap();
    assert_eq!(there.len() as u64, audit.live_items + audit.expired_items);
    for (space, key) in &there {
        let key = cache.key_in(*space, key).unwrap();
        let is_there = cache.facts(key, |_| ()).is_some();
        assert!(is_there || ears.take() == [Happened::Expired]);
    }
}

#[test]
fn a_flush_is_told_once_and_a_delayed_one_when_its_time_comes() {
    let (timed, ears) = observed(8 << 20, 2);
    timed.set("key", b"value", None).unwrap();
    ears.take();
    timed.cache.flush();
    assert_eq!(std::mem::take(&mut *ears.flushed.lock().unwrap()), [None]);
    timed.cache.flush_at(Instant(timed.cache.now().0 + 1_000));
    timed.set("key", b"value", None).unwrap();
    timed.cache.tick();
    assert!(ears.flushed.lock().unwrap().is_empty());
    timed.clock.advance_ms(1_000);
    timed.cache.tick();
    assert_eq!(*ears.flushed.lock().unwrap(), [None, None]);
    assert_eq!(ears.take(), [Happened::Created]);
    assert_eq!(cache_items(&timed.cache), 0);
}

fn cache_items(cache: &Cache) -> u64 {
    cache.stats().items
}

#[test]
fn an_expiry_that_nobody_meets_is_told_by_maintenance() {
    let (timed, ears) = observed(8 << 20, 1);
    for number in 0..20_000 {
        let ttl_ms = (number % 100 == 0).then_some(50);
        timed
            .set(&format!("key{number}"), b"value", ttl_ms)
            .unwrap();
    }
    ears.take();
    timed.clock.advance_ms(51);
    let mut told = 0;
    for _ in 0..200 {
        timed.clock.advance_ms(100);
        timed.cache.tick();
        told += ears
            .take()
            .iter()
            .filter(|&&what| what == Happened::Expired)
            .count();
    }
    assert_eq!(told, 200);
    assert_eq!(timed.cache.stats().items, 19_800);
}

#[test]
fn nobody_looks_for_expired_items_while_nobody_listens() {
    let (timed, ears) = observed(8 << 20, 1);
    ears.is_deaf.store(true, Ordering::Relaxed);
    timed.set("dead", b"value", Some(50)).unwrap();
    // So many that it is worth nobody's while to win back the memory of one.
    for number in 0..200 {
        let key = format!("alive:{number}");
        timed.set(&key, b"value", None).unwrap();
    }
    timed.clock.advance_ms(100);
    for _ in 0..10 {
        timed.clock.advance_ms(100);
        timed.cache.tick();
    }
    assert_eq!(timed.cache.audit().unwrap().expired_items, 1);
    assert_eq!(timed.cache.stats().items, 200);
}
