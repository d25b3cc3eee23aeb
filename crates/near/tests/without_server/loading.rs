//! Loading through the cache: who asks the loader, who waits, what is remembered. No server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cellar_near::origin::{Answer, Loaded};
use cellar_near::{Error, Near};

use crate::script::{Script, broken, cache, text, value_of};

const SECOND: Duration = Duration::from_secs(1);

type Cache = Near<String, String>;

/// How often loaders were asked.
type Calls = Arc<AtomicU32>;

/// Answers the next question: there is no value.
async fn answer_absent(script: &Script) {
    let mut absent = Loaded::new(Answer::Absent);
    absent.grant = Some(script.trust.grant());
    script.question().await.answer(Ok(absent));
}

/// Loads through with a loader that finds nothing.
async fn find_nothing(near: &Cache, calls: &Calls) -> Option<String> {
    let calls = Arc::clone(calls);
    let loader = move || async move {
        calls.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Error>(None)
    };
    let loading = near.get_or_load("k", loader);
    let loaded = tokio::time::timeout(crate::script::PATIENCE, loading).await;
    text(loaded.expect("nobody has to answer"))
}

#[tokio::test]
async fn a_thousand_readers_of_a_key_that_no_loader_finds_ask_one_loader() {
    const READERS: u32 = 1_000;
    let (near, script) = cache(|near| near);
    let calls = Calls::default();
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (near, calls) = (near.clone(), Arc::clone(&calls));
            tokio::spawn(async move { find_nothing(&near, &calls).await })
        })
        .collect();
    let question = script.question().await;
    while near.stats().shared + 1 < u64::from(READERS) {
        tokio::task::yield_now().await;
    }
    question.answer(Ok(Loaded::new(Answer::Absent)));
    for reader in readers {
        // Before anybody has to ask again: nobody would answer.
        let read = tokio::time::timeout(SECOND * 20, reader).await;
        assert_eq!(read.expect("it waits for one loader").unwrap(), None);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(near.stats().loads, 1);
    assert!(script.is_silent().await);
}

#[tokio::test]
async fn that_a_loader_found_nothing_is_remembered_for_the_negative_time_to_live() {
    let (near, script) = cache(|near| near.negative_ttl(5 * SECOND));
    let calls = Calls::default();
    for expected in [1, 2] {
        let (read, ()) = tokio::join!(find_nothing(&near, &calls), answer_absent(&script));
        assert_eq!(read, None);
        script.clock.advance(4 * SECOND);
        assert_eq!(find_nothing(&near, &calls).await, None);
        assert_eq!(calls.load(Ordering::SeqCst), expected);
        assert!(
            script.is_silent().await,
            "neither origin nor loader is asked"
        );
        script.clock.advance(2 * SECOND);
    }
}

#[tokio::test]
async fn a_key_that_comes_to_be_ends_the_memory_that_a_loader_found_nothing() {
    let (near, script) = cache(|near| near.negative_ttl(3600 * SECOND));
    let calls = Calls::default();
    let (read, ()) = tokio::join!(find_nothing(&near, &calls), answer_absent(&script));
    assert_eq!(read, None);
    script.invalidate("k");
    let (read, ()) = tokio::join!(find_nothing(&near, &calls), script.answers("there"));
    assert_eq!(read.as_deref(), Some("there"));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_loader_is_asked_although_a_reader_without_one_has_found_nothing() {
    let (near, script) = cache(|near| near.negative_ttl(3600 * SECOND));
    let (read, ()) = tokio::join!(near.get("k"), answer_absent(&script));
    assert_eq!(text(read), None);
    let calls = Calls::default();
    let (read, ()) = tokio::join!(find_nothing(&near, &calls), answer_absent(&script));
    assert_eq!(read, None);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_memory_of_nothing_begins_when_the_loader_was_asked() {
    let (near, script) = cache(|near| near.negative_ttl(5 * SECOND));
    let clock = Arc::clone(&script.clock);
    let loader = move || async move {
        clock.advance(4 * SECOND);
        Ok::<_, Error>(None)
    };
    let answered = async {
        let question = script.question().await;
        script.clock.advance(3 * SECOND);
        question.answer(Ok(Loaded::new(Answer::Absent)));
    };
    let (read, ()) = tokio::join!(near.get_or_load("k", loader), answered);
    assert_eq!(text(read), None);
    assert_eq!(text(near.get("k").await), None);
    assert!(
        script.is_silent().await,
        "it is remembered for a second yet"
    );
    script.clock.advance(SECOND);
    assert_eq!(
        {
            let (read, ()) = tokio::join!(near.get("k"), script.answers("v"));
            text(read)
        }
        .as_deref(),
        Some("v")
    );
}

/// Loads through with a loader that makes `value`.
async fn make(near: &Cache, value: &'static str) -> Option<String> {
    let loader = move || async move { Ok::<_, Error>(Some(value.to_owned())) };
    text(near.get_or_load("k", loader).await)
}

/// Answers the next question with a value that has so long to live.
async fn answer_for(script: &Script, value: &str, ttl: Duration) {
    let mut loaded = value_of(value);
    loaded.grant = Some(script.trust.grant());
    loaded.ttl = Some(ttl);
    script.question().await.answer(Ok(loaded));
}

/// Takes the write of `value`, and the question that reads it back.
async fn store_for(script: &Script, value: &str, ttl: Duration) {
    let write = script.write().await;
    assert_eq!(write.value.as_deref(), Some(value));
    assert_eq!(write.ttl, Some(ttl));
    script.invalidate("k");
    write.answer.send(Ok(())).unwrap();
    answer_for(script, value, ttl).await;
}

#[tokio::test]
async fn the_loader_makes_the_next_value_in_the_last_part_of_this_ones_life() {
    let minute = 60 * SECOND;
    let (near, script) = cache(|near| near.origin_ttl(minute).refresh_ahead(0.2));
    let (first, ()) = tokio::join!(make(&near, "old"), async {
        answer_absent(&script).await;
        store_for(&script, "old", minute).await;
    });
    assert_eq!(first.as_deref(), Some("old"));
    script.clock.advance(47 * SECOND);
    assert_eq!(make(&near, "too early").await.as_deref(), Some("old"));
    assert!(script.is_silent().await);
    script.clock.advance(2 * SECOND);
    for _ in 0..3 {
        let read = make(&near, "new").await;
        assert_eq!(read.as_deref(), Some("old"), "nobody waits");
    }
    answer_for(&script, "old", 11 * SECOND).await;
    store_for(&script, "new", minute).await;
    while make(&near, "newer").await.as_deref() != Some("new") {
        tokio::task::yield_now().await;
    }
    assert_eq!(near.stats().refreshes, 1, "one for all readers");
    script.clock.advance(40 * SECOND);
    assert_eq!(make(&near, "newer").await.as_deref(), Some("new"));
    assert!(
        script.is_silent().await,
        "it lives as long as the first one did"
    );
}

#[tokio::test]
async fn a_value_that_somebody_else_has_made_anew_is_read_and_not_made_again() {
    let minute = 60 * SECOND;
    let (near, script) = cache(|near| near.origin_ttl(minute).refresh_ahead(0.2));
    let (first, ()) = tokio::join!(make(&near, "-"), answer_for(&script, "old", minute));
    assert_eq!(first.as_deref(), Some("old"));
    script.clock.advance(50 * SECOND);
    assert_eq!(make(&near, "-").await.as_deref(), Some("old"));
    answer_for(&script, "new", minute).await;
    while make(&near, "-").await.as_deref() != Some("new") {
        tokio::task::yield_now().await;
    }
    assert!(script.has_no_writes());
}

#[tokio::test]
async fn a_loader_that_fails_ahead_leaves_the_value_and_is_asked_again() {
    let minute = 60 * SECOND;
    let (near, script) = cache(|near| near.origin_ttl(minute).refresh_ahead(0.2));
    let (first, ()) = tokio::join!(make(&near, "-"), answer_for(&script, "old", minute));
    assert_eq!(first.as_deref(), Some("old"));
    script.clock.advance(50 * SECOND);
    let failing = || async { Err::<Option<String>, _>("on purpose") };
    let read = near.get_or_load("k", failing).await;
    assert_eq!(text(read).as_deref(), Some("old"));
    answer_for(&script, "old", 10 * SECOND).await;
    while near.stats().refreshes_failed == 0 {
        tokio::task::yield_now().await;
    }
    script.clock.advance(SECOND / 10);
    while script.is_silent().await {
        assert_eq!(make(&near, "new").await.as_deref(), Some("old"));
        tokio::task::yield_now().await;
    }
    answer_for(&script, "old", 10 * SECOND).await;
    store_for(&script, "new", minute).await;
}

/// Fails the next question: the origin is away.
async fn be_away(script: &Script) {
    script.question().await.answer(Err(broken()));
}

#[tokio::test]
async fn while_the_origin_is_away_loaders_make_what_is_served_for_its_time_if_wanted() {
    let (near, script) = cache(|near| near);
    let loader = || async { Ok::<_, Error>(Some("made".to_owned())) };
    let (read, ()) = tokio::join!(near.get_or_load("k", loader), be_away(&script));
    assert!(read.unwrap_err().is_away(), "not wanted");

    let (near, script) = cache(|near| near.serve_without_origin(5 * SECOND, 1));
    let (read, ()) = tokio::join!(make(&near, "made"), be_away(&script));
    assert_eq!(read.as_deref(), Some("made"));
    script.clock.advance(4 * SECOND);
    assert_eq!(make(&near, "again").await.as_deref(), Some("made"));
    assert_eq!(text(near.get("k").await).as_deref(), Some("made"));
    assert_eq!(near.stats().without_origin, 1);
    script.clock.advance(SECOND);
    let (read, ()) = tokio::join!(make(&near, "-"), script.answers("back"));
    assert_eq!(read.as_deref(), Some("back"), "the origin is asked again");
    assert!(script.has_no_writes());
}

#[tokio::test]
async fn no_more_loaders_than_allowed_run_while_the_origin_is_away() {
    let (near, script) = cache(|near| near.serve_without_origin(5 * SECOND, 2));
    let (sender, release) = tokio::sync::watch::channel(false);
    let running = Arc::new(AtomicU32::new(0));
    let mut readers = Vec::new();
    for number in 0..10 {
        let (near, mut release, running) = (near.clone(), release.clone(), Arc::clone(&running));
        readers.push(tokio::spawn(async move {
            let loader = move || async move {
                running.fetch_add(1, Ordering::SeqCst);
                release.wait_for(|released| *released).await.map(drop)?;
                Ok::<_, tokio::sync::watch::error::RecvError>(Some("made".to_owned()))
            };
            near.get_or_load(&number.to_string(), loader)
                .await
                .map(drop)
        }));
    }
    for _ in 0..10 {
        be_away(&script).await;
    }
    while readers.iter().filter(|reader| reader.is_finished()).count() < 8 {
        tokio::task::yield_now().await;
    }
    assert_eq!(running.load(Ordering::SeqCst), 2);
    sender.send_replace(true);
    let mut errors = 0;
    for reader in readers {
        errors += u32::from(reader.await.unwrap().is_err_and(|error| error.is_away()));
    }
    assert_eq!(errors, 8);
}

#[tokio::test]
async fn what_was_made_without_the_origin_goes_with_an_own_write() {
    let (near, script) = cache(|near| near.serve_without_origin(3600 * SECOND, 1));
    let (read, ()) = tokio::join!(make(&near, "made"), be_away(&script));
    assert_eq!(read.as_deref(), Some("made"));
    let value = "set".to_owned();
    let (set, ()) = tokio::join!(near.set("k", &value), async {
        script.write().await.answer.send(Err(broken())).unwrap();
    });
    assert!(set.is_err() && near.peek("k").is_none());
}

#[tokio::test]
async fn jitter_ends_values_at_different_times_and_none_too_late() {
    let times_of = |part: f64| async move {
        let (near, script) = cache(|near| {
            let near = near.local_ttl(100 * SECOND).origin_ttl(100 * SECOND);
            near.jitter(part)
        });
        let mut written = Vec::new();
        for number in 0..50 {
            let key = number.to_string();
            let value = "v".to_owned();
            let (set, ()) = tokio::join!(near.set(&key, &value), async {
                let write = script.write().await;
                written.push(write.ttl.unwrap());
                write.answer.send(Ok(())).unwrap();
            });
            set.unwrap();
            let (read, ()) = tokio::join!(near.get(&key), script.answers("v"));
            assert!(read.unwrap().is_some());
        }
        let held = |near: &Cache| {
            (0..50)
                .filter(|key| near.peek(&key.to_string()).is_some())
                .count()
        };
        script.clock.advance(74 * SECOND);
        let early = held(&near);
        script.clock.advance(16 * SECOND);
        let middle = held(&near);
        script.clock.advance(10 * SECOND);
        (written, early, middle, held(&near))
    };
    let (written, early, middle, late) = times_of(0.0).await;
    assert!(written.iter().all(|ttl| *ttl == 100 * SECOND));
    assert_eq!((early, middle, late), (50, 50, 0));
    let (written, early, middle, late) = times_of(0.25).await;
    assert!(
        written
            .iter()
            .all(|ttl| (75 * SECOND..=100 * SECOND).contains(ttl))
    );
    let (first, last) = (written.iter().min().unwrap(), written.iter().max().unwrap());
    assert!(*last - *first > 5 * SECOND, "{first:?} to {last:?}");
    assert_eq!((early, late), (50, 0));
    assert!((1..50).contains(&middle), "{middle} of 50 at 90 s");
}
