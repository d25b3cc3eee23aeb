//! The local store with loads: who makes a value, who waits, what is kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use cellar_near::clock::ManualClock;
use cellar_near::{InsertOptions, LoadError, LoadingLocal, Local, Making};

use crate::wait::block_until;

type Store = LoadingLocal<String, String, String>;

const SOON: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);

fn store() -> Store {
    LoadingLocal::new(Local::builder().build())
}

fn made(text: &str) -> Making<String, String> {
    Ok(Some((Arc::new(text.to_owned()), InsertOptions::default())))
}

fn insert(store: &Store, key: &str, text: &str) {
    let value = Arc::new(text.to_owned());
    store.insert_with(key.to_owned(), value, InsertOptions::default());
}

/// A thread that runs `read`, which finds another thread's load and waits for it by now.
fn waiting<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    store: &Store,
    read: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let missed = store.local().stats().misses;
    let (begin, begun) = mpsc::channel();
    let reader = scope.spawn(move || {
        begin.send(rustix::thread::gettid()).unwrap();
        read()
    });
    let path = format!(
        "/proc/self/task/{}/stat",
        begun.recv().unwrap().as_raw_pid()
    );
    let sleeps = || {
        let stat = std::fs::read_to_string(&path).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    };
    // Once it has missed it does nothing else that takes time.
    let waits = || store.local().stats().misses > missed && sleeps();
    block_until("the thread waits for the load", waits);
    reader
}

/// A thread that loads `k` until it is let go, and one that waits for it.
fn while_loading(store: &Store, outcome: Making<String, String>, meanwhile: impl FnOnce()) {
    let (begin, begun) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let expected = outcome.clone();
        let told = |outcome: Making<String, String>| match outcome {
            Ok(made) => Ok(made.map(|(value, _)| value)),
            Err(error) => Err(LoadError::Loader(error)),
        };
        let loads = scope.spawn(move || {
            store.get_or_load("k", None, || {
                begin.send(()).unwrap();
                gone.recv().unwrap();
                outcome
            })
        });
        begun.recv().unwrap();
        let read = || store.get_or_load("k", None, || panic!("it is not its part"));
        let waits = waiting(scope, store, read);
        meanwhile();
        go.send(()).unwrap();
        assert_eq!(loads.join().unwrap(), told(expected.clone()));
        assert_eq!(waits.join().unwrap(), told(expected));
    });
}

#[test]
fn of_many_threads_that_miss_a_key_one_loads_it() {
    const READERS: u64 = 32;
    let (store, calls) = (store(), AtomicU32::new(0));
    let read = || {
        store.get_or_load("k", None, || {
            calls.fetch_add(1, Ordering::SeqCst);
            let missed = || store.local().stats().misses;
            block_until("all have missed", || missed() == READERS);
            made("v")
        })
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap().unwrap().unwrap().as_str(), "v");
        }
    });
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let stats = store.local().stats();
    assert_eq!((stats.entries, stats.hits, stats.misses), (1, 0, READERS));
}

#[test]
fn who_waits_is_told_the_value_the_error_or_that_there_is_none() {
    let store = store();
    while_loading(&store, Err("away".into()), || ());
    assert!(store.get("k").is_none(), "an error is not remembered");
    while_loading(&store, Ok(None), || ());
    assert!(store.get("k").is_none(), "nor is nothing");
    while_loading(&store, made("v"), || ());
    assert_eq!(store.get("k").unwrap().as_str(), "v");
}

#[test]
fn what_a_write_overtook_is_told_and_not_kept() {
    let store = store();
    while_loading(&store, made("old"), || drop(store.remove("k")));
    assert!(store.get("k").is_none());
    while_loading(&store, made("old"), || store.clear());
    assert!(store.get("k").is_none());
    while_loading(&store, made("old"), || insert(&store, "other", "o"));
    assert_eq!(store.get("k").unwrap().as_str(), "old");
    store.clear();
    while_loading(&store, made("old"), || {
        store.remove("k");
        insert(&store, "k", "new");
    });
    assert_eq!(store.get("k").unwrap().as_str(), "new");
}

#[test]
fn a_loader_that_panics_leaves_the_key_to_the_next() {
    let store = store();
    let loading = || store.get_or_load("k", None, || panic!("on purpose"));
    assert!(catch_unwind(AssertUnwindSafe(loading)).is_err());
    let read = store.get_or_load("k", None, || made("v"));
    assert_eq!(read.unwrap().unwrap().as_str(), "v");
    // The same while another thread waits: it takes over.
    let (begin, begun) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let other = &store;
    thread::scope(|scope| {
        let fails = scope.spawn(move || {
            drop(other.get_or_load("l", None, || {
                begin.send(()).unwrap();
                gone.recv().unwrap();
                panic!("on purpose")
            }));
        });
        begun.recv().unwrap();
        let read = || other.get_or_load("l", None, || made("second"));
        let waits = waiting(scope, other, read);
        go.send(()).unwrap();
        assert!(fails.join().is_err());
        assert_eq!(waits.join().unwrap().unwrap().unwrap().as_str(), "second");
    });
}

#[test]
fn a_loader_may_load_other_keys_and_not_its_own() {
    let store = store();
    let loader = || {
        let own = store.get_or_load("k", None, || made("inner"));
        assert_eq!(own, Err(LoadError::OwnLoad));
        let other = store.get_or_load("other", None, || made("o"));
        made(&other.unwrap().unwrap())
    };
    let read = store.get_or_load("k", None, loader);
    assert_eq!(read.unwrap().unwrap().as_str(), "o");
}

#[test]
fn nobody_waits_for_longer_than_it_says() {
    let store = store();
    while_loading(&store, made("v"), || {
        let read = store.get_or_load("k", Some(SOON), || made("other"));
        assert_eq!(read, Err(LoadError::Timeout(SOON)));
    });
}

#[test]
fn what_is_made_lives_as_long_as_its_loader_says() {
    let clock = Arc::new(ManualClock::default());
    let store: Store = LoadingLocal::new(Local::builder().clock(clock.clone()).build());
    let options = InsertOptions::default().ttl(SECOND);
    let loader = || Ok(Some((Arc::new("v".to_owned()), options)));
    assert!(store.get_or_load("k", None, loader).unwrap().is_some());
    assert!(store.get("k").is_some());
    clock.advance(SECOND);
    assert!(store.get("k").is_none());
}

#[test]
fn errors_tell_what_happened() {
    let texts = [
        LoadError::Loader("away").to_string(),
        LoadError::<&str>::OwnLoad.to_string(),
        LoadError::<&str>::Timeout(SECOND).to_string(),
    ];
    assert_eq!(texts[0], "the loader failed: away");
    assert_eq!(texts[1], "the loader of a key asks for the same key");
    assert_eq!(texts[2], "another thread's loader took over 1s");
    assert_eq!(format!("{:?}", store()), "LoadingLocal { .. }");
}
