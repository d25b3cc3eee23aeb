//! The blocking face: who loads, who waits, where nobody may wait. No server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cellar_near::clock::ManualClock;
use cellar_near::{BlockingNear, Error, Near, NearBuilder};

use crate::shelf::{Shelf, Things};
use crate::wait::block_until;

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(50);

type Cache = BlockingNear<String, String>;
type Settings = NearBuilder<String, String>;

fn cache(adjust: impl FnOnce(Settings) -> Settings) -> (Cache, Arc<Things>) {
    let things = Arc::<Things>::default();
    let builder = Near::builder(Shelf(Arc::clone(&things)));
    (adjust(builder).build_blocking().unwrap(), things)
}

fn made(text: &str) -> Result<Option<String>, Error> {
    Ok(Some(text.to_owned()))
}

fn text(outcome: Result<Option<cellar_near::Held<String>>, Error>) -> Option<String> {
    outcome.unwrap().map(|held| (*held).clone())
}

#[test]
fn of_many_threads_that_miss_a_key_one_loads_it() {
    const THREADS: u64 = 32;
    let (near, things) = cache(|near| near);
    let calls = AtomicU32::new(0);
    let read = || {
        near.get_or_load("k", || {
            block_until("all others wait", || near.stats().shared + 1 >= THREADS);
            calls.fetch_add(1, Ordering::SeqCst);
            made("v")
        })
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS).map(|_| scope.spawn(read)).collect();
        for reader in readers {
            assert_eq!(text(reader.join().unwrap()).as_deref(), Some("v"));
        }
    });
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(things.get("k").as_deref(), Some("v"));
    assert_eq!(near.stats().entries, 1);
}

#[test]
fn a_loader_runs_on_the_thread_that_brought_it_and_may_borrow() {
    let (near, _) = cache(|near| near);
    // Neither of them could go to another thread.
    let (here, calls) = (std::rc::Rc::new(thread::current().id()), &mut 0);
    let loader = || {
        *calls += 1;
        assert_eq!(thread::current().id(), *here);
        made("v")
    };
    assert_eq!(text(near.get_or_load("k", loader)).as_deref(), Some("v"));
    assert_eq!(*calls, 1);
}

#[test]
fn an_error_reaches_all_who_wait_and_is_not_remembered() {
    const THREADS: u64 = 8;
    let (near, _) = cache(|near| near);
    let read = || {
        near.get_or_load("k", || {
            block_until("all others wait", || near.stats().shared + 1 >= THREADS);
            Err::<Option<String>, _>("the database is away")
        })
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS).map(|_| scope.spawn(read)).collect();
        for reader in readers {
            let error = reader.join().unwrap().unwrap_err();
            assert!(matches!(&error, Error::Loader(why) if why.to_string().contains("away")));
        }
    });
    assert_eq!(text(near.get_or_load("k", || made("v"))).unwrap(), "v");
}

#[test]
fn when_a_loader_panics_one_who_waits_takes_over() {
    let (near, _) = cache(|near| near);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            let reading = near.get_or_load("k", || -> Result<Option<String>, Error> {
                block_until("another thread waits", || near.stats().shared > 0);
                panic!("on purpose")
            });
            reading.map(drop)
        });
        block_until("the source is asked", || near.stats().loads == 1);
        let second = scope.spawn(|| text(near.get_or_load("k", || made("second"))));
        assert!(first.join().is_err(), "its own thread hears of the panic");
        assert_eq!(second.join().unwrap().as_deref(), Some("second"));
    });
}

#[test]
fn nobody_waits_for_longer_than_wait_max() {
    let (near, things) = cache(|near| near);
    things.is_silent.store(true, Ordering::SeqCst);
    let hasty = near.clone().wait_max(SOON);
    thread::scope(|scope| {
        let asks = scope.spawn(|| hasty.get("k").map(drop));
        block_until("the source is asked", || near.stats().loads == 1);
        let waits = scope.spawn(|| hasty.get_or_load("k", || made("v")).map(drop));
        let many = scope.spawn(|| hasty.get_many(&["other".to_owned()]).map(drop));
        for thread in [asks, waits, many] {
            let error = thread.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Timeout(SOON)), "{error}");
        }
    });
}

#[test]
fn wait_max_does_not_cut_off_the_callers_own_loader() {
    let (near, things) = cache(|near| near);
    let hasty = near.wait_max(SOON);
    let loader = || {
        // A reader that begins later and waits for as long gives up: the caller's time is over.
        things.is_silent.store(true, Ordering::SeqCst);
        let late = hasty.get("other").map(drop).unwrap_err();
        assert!(matches!(late, Error::Timeout(SOON)), "{late}");
        things.is_silent.store(false, Ordering::SeqCst);
        made("v")
    };
    assert_eq!(text(hasty.get_or_load("k", loader)).as_deref(), Some("v"));
}

#[test]
fn inside_a_runtime_who_would_wait_gets_an_error_and_a_hit_is_served() {
    let (near, things) = cache(|near| near);
    things.put("held", "v");
    assert_eq!(text(near.get("held")).as_deref(), Some("v"));
    let refused = |error: Error| assert!(matches!(error, Error::InsideRuntime), "{error}");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        assert_eq!(text(near.get("held")).as_deref(), Some("v"));
        let held = near.get_or_load("held", || made("other"));
        assert_eq!(text(held).as_deref(), Some("v"));
        refused(near.get("k").unwrap_err());
        refused(near.get_or_load("k", || made("v")).unwrap_err());
        refused(near.set("k", &"v".to_owned()).unwrap_err());
        refused(near.get_many(&[]).unwrap_err());
        let (inner, work) = (near.clone(), tokio::task::spawn_blocking);
        refused(work(move || inner.get("k").unwrap_err()).await.unwrap());
        assert!(near.near().get("k").await.unwrap().is_none());
    });
}

#[test]
fn a_loader_that_asks_for_its_own_key_gets_an_error() {
    let (near, _) = cache(|near| near);
    let refused = |error: Error| assert!(matches!(error, Error::OwnLoad), "{error}");
    let loader = || {
        refused(near.get("k").unwrap_err());
        refused(near.get_or_load("k", || made("inner")).unwrap_err());
        refused(near.get_many(&["k".to_owned()]).unwrap_err());
        made("v")
    };
    assert_eq!(text(near.get_or_load("k", loader)).as_deref(), Some("v"));
    near.forget("k");
    assert_eq!(text(near.get("k")).as_deref(), Some("v"), "it is over");
}

#[test]
fn a_loader_may_read_other_keys_and_run_a_runtime_of_its_own() {
    let (near, things) = cache(|near| near);
    things.put("other", "o");
    let loader = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let there = runtime.block_on(async { "there" });
        let made_inside = near.get_or_load("inner", || made("i"))?.unwrap();
        let other = near.get("other")?.unwrap();
        made(&format!("{there} {} {}", *made_inside, *other))
    };
    let read = text(near.get_or_load("k", loader));
    assert_eq!(read.as_deref(), Some("there i o"));
}

#[test]
fn a_handle_dropped_while_others_wait_leaves_them_waiting() {
    let (near, _) = cache(|near| near);
    thread::scope(|scope| {
        let loads = near.clone();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let first = scope.spawn(move || {
            text(loads.get_or_load("k", || {
                gone.recv().unwrap();
                made("v")
            }))
        });
        block_until("the source is asked", || near.stats().loads == 1);
        let waits = near.clone();
        let second = scope.spawn(move || text(waits.get("k")));
        block_until("another thread waits", || near.stats().shared == 1);
        drop(near);
        go.send(()).unwrap();
        for thread in [first, second] {
            assert_eq!(thread.join().unwrap().as_deref(), Some("v"));
        }
    });
}

#[test]
fn one_reader_makes_the_next_value_ahead_and_the_others_go_on() {
    let clock = Arc::new(ManualClock::default());
    let (near, things) = cache(|near| {
        let near = near.clock(clock.clone()).origin_ttl(10 * SECOND);
        near.refresh_ahead(0.5)
    });
    *things.ttl.lock().unwrap() = Some(10 * SECOND);
    let first = text(near.get_or_load("k", || made("first")));
    assert_eq!(first.as_deref(), Some("first"));
    clock.advance(6 * SECOND);
    *things.ttl.lock().unwrap() = Some(4 * SECOND);
    let not_theirs = || -> Result<_, Error> { panic!("it is not its part") };
    let loader = || {
        let beside = thread::scope(|scope| {
            let other = || text(near.get_or_load("k", not_theirs));
            scope.spawn(other).join().unwrap()
        });
        assert_eq!(beside.as_deref(), Some("first"));
        made("second")
    };
    let read = text(near.get_or_load("k", loader));
    assert_eq!(read.as_deref(), Some("first"));
    assert_eq!(near.stats().refreshes, 1);
    assert_eq!(text(near.get("k")).as_deref(), Some("second"));
}

#[test]
fn without_a_loader_the_next_value_is_read_beside_the_reader() {
    let clock = Arc::new(ManualClock::default());
    let (near, things) = cache(|near| {
        let near = near.clock(clock.clone()).local_ttl(10 * SECOND);
        near.refresh_ahead(0.5)
    });
    things.put("k", "old");
    assert_eq!(text(near.get("k")).unwrap(), "old");
    things.put("k", "new");
    clock.advance(6 * SECOND);
    assert_eq!(text(near.get("k")).unwrap(), "old");
    let is_new = || near.peek("k").is_some_and(|held| held == "new".to_owned());
    block_until("the new value is in memory", is_new);
    assert_eq!(things.questions.load(Ordering::SeqCst), 2);
}

#[test]
fn every_call_does_what_its_async_one_does() {
    let (near, things) = cache(|near| near.negative_ttl(60 * SECOND));
    assert_eq!(text(near.get("k")), None);
    near.set("k", &"one".to_owned()).unwrap();
    assert_eq!(text(near.get("k")).as_deref(), Some("one"));
    things.put("k", "two");
    assert_eq!(text(near.get("k")).as_deref(), Some("one"));
    assert_eq!(
        text(near.get_for("k", Duration::ZERO)).as_deref(),
        Some("two")
    );
    near.set_for("l", &"three".to_owned(), SECOND).unwrap();
    let many = near.get_many(&["k".into(), "absent".into(), "l".into()]);
    let many: Vec<_> = many.unwrap().into_iter().collect();
    assert!(many[0].is_some() && many[1].is_none() && many[2].is_some());
    assert!(near.peek("k").is_some());
    near.forget("k");
    assert!(near.peek("k").is_none());
    assert!(near.remove("k").unwrap() && !near.remove("k").unwrap());
    near.forget_all();
    assert_eq!(near.stats().entries, 0);
    assert_eq!(format!("{near:?}"), "BlockingNear { wait_max: None, .. }");
}

#[test]
fn a_panic_of_a_loader_leaves_the_cache_as_it_was() {
    let (near, _) = cache(|near| near);
    let reading = || near.get_or_load("k", || -> Result<_, Error> { panic!("on purpose") });
    assert!(catch_unwind(AssertUnwindSafe(reading)).is_err());
    assert_eq!(text(near.get_or_load("k", || made("v"))).unwrap(), "v");
}
