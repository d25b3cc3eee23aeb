//! Races between loads, changes and writes, one by one. No server, no sleep.

use std::sync::Arc;
use std::time::Duration;

use cellar_near::origin::{Answer, Loaded};
use cellar_near::{Error, Near};
use tokio::sync::oneshot;

use crate::script::{Question, Script, broken, cache, text, value_of};

type Cache = Near<String, String>;

/// A reader of `k` on a task of its own.
fn reader(near: &Cache) -> tokio::task::JoinHandle<Option<String>> {
    let near = near.clone();
    tokio::spawn(async move { text(near.get("k").await) })
}

fn answer(script: &Script, question: Question, value: &str) {
    let mut loaded = value_of(value);
    loaded.grant = Some(script.trust.grant());
    question.answer(Ok(loaded));
}

#[tokio::test]
async fn a_load_that_a_change_overtakes_is_answered_but_not_kept() {
    let (near, script) = cache(|near| near);
    let first = reader(&near);
    let question = script.question().await;
    script.invalidate("k");
    answer(&script, question, "old");
    assert_eq!(first.await.unwrap().as_deref(), Some("old"));
    assert!(near.peek("k").is_none());
    assert_eq!(near.stats().overtaken, 1);
}

#[tokio::test]
async fn a_change_of_another_key_does_not_touch_a_load() {
    let (near, script) = cache(|near| near);
    let first = reader(&near);
    let question = script.question().await;
    for number in 0..1000 {
        script.invalidate(&format!("other:{number}"));
    }
    answer(&script, question, "v");
    first.await.unwrap();
    assert!(near.peek("k").is_some());
}

#[tokio::test]
async fn who_comes_after_the_change_does_not_join_the_load_from_before_it() {
    let (near, script) = cache(|near| near);
    let early = reader(&near);
    let question = script.question().await;
    script.invalidate("k");
    let late = reader(&near);
    let second = script.question().await;
    answer(&script, second, "new");
    assert_eq!(late.await.unwrap().as_deref(), Some("new"));
    // The first answer comes last and must not replace what the second has left.
    answer(&script, question, "old");
    assert_eq!(early.await.unwrap().as_deref(), Some("old"));
    assert_eq!(near.peek("k").as_deref().map(String::as_str), Some("new"));
}

#[tokio::test]
async fn a_flush_dooms_what_was_asked_before_it_and_nothing_after() {
    let (near, script) = cache(|near| near);
    let first = reader(&near);
    let question = script.question().await;
    let mut loaded = value_of("old");
    loaded.grant = Some(script.trust.grant());
    script.flush();
    question.answer(Ok(loaded));
    assert_eq!(first.await.unwrap().as_deref(), Some("old"));
    assert!(near.peek("k").is_none());

    let second = reader(&near);
    script.answers("new").await;
    assert_eq!(second.await.unwrap().as_deref(), Some("new"));
    assert!(near.peek("k").is_some());
}

#[tokio::test]
async fn what_an_ended_connection_has_read_is_not_served() {
    let (near, script) = cache(|near| near);
    let first = reader(&near);
    let question = script.question().await;
    script.disconnect();
    answer(&script, question, "old");
    assert_eq!(first.await.unwrap().as_deref(), Some("old"));
    assert!(near.peek("k").is_none());
}

#[tokio::test]
async fn a_write_drops_the_copy_before_it_is_sent_and_again_when_it_has_ended() {
    for outcome in [
        Ok(()),
        Err(broken()),
        Err(Error::Timeout(Duration::from_secs(1))),
    ] {
        let (near, script) = cache(|near| near);
        tokio::join!(
            async { near.get("k").await.unwrap() },
            script.answers("old")
        );
        let writing = {
            let near = near.clone();
            tokio::spawn(async move { near.set("k", &"new".to_owned()).await })
        };
        let write = script.write().await;
        assert!(near.peek("k").is_none(), "dropped before it is sent");
        // A reader comes in between and reads what was there before.
        tokio::join!(
            async { near.get("k").await.unwrap() },
            script.answers("old")
        );
        assert!(near.peek("k").is_some());
        // And one whose question is still under way when the write ends.
        near.forget("k");
        let late = reader(&near);
        let question = script.question().await;
        let failed = outcome.is_err();
        write.answer.send(outcome).unwrap();
        assert_eq!(writing.await.unwrap().is_err(), failed);
        answer(&script, question, "old");
        assert_eq!(late.await.unwrap().as_deref(), Some("old"));
        assert!(
            near.peek("k").is_none(),
            "dropped again, and no late load fills"
        );
    }
}

#[tokio::test]
async fn a_write_that_is_given_up_drops_the_copy_too() {
    let (near, script) = cache(|near| near);
    let writing = {
        let near = near.clone();
        tokio::spawn(async move { near.remove("k").await })
    };
    let write = script.write().await;
    tokio::join!(
        async { near.get("k").await.unwrap() },
        script.answers("old")
    );
    assert!(near.peek("k").is_some());
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    assert!(near.peek("k").is_none());
    assert_eq!(write.value, None);
}

#[tokio::test]
async fn a_refresh_that_a_change_overtakes_does_not_bring_the_old_value_back() {
    let second = Duration::from_secs(1);
    let (near, script) = cache(|near| near.local_ttl(10 * second).refresh_ahead(0.5));
    tokio::join!(
        async { near.get("k").await.unwrap() },
        script.answers("old")
    );
    script.clock.advance(6 * second);
    assert_eq!(text(near.get("k").await).as_deref(), Some("old"));
    let question = script.question().await;
    script.invalidate("k");
    answer(&script, question, "old");
    while near.stats().overtaken == 0 {
        tokio::task::yield_now().await;
    }
    assert!(near.peek("k").is_none());
}

/// Loads `k` through with a loader that makes "old" when the gate opens; returns once it runs.
async fn load_gated(
    near: &Cache,
    script: &Script,
) -> (tokio::task::JoinHandle<Option<String>>, oneshot::Sender<()>) {
    let ((begin, begun), (open, gate)) = (oneshot::channel(), oneshot::channel::<()>());
    let loading = {
        let near = near.clone();
        let loader = move || async move {
            begin.send(()).unwrap();
            gate.await.unwrap();
            Ok::<_, Error>(Some("old".to_owned()))
        };
        tokio::spawn(async move { text(near.get_or_load("k", loader).await) })
    };
    script
        .question()
        .await
        .answer(Ok(Loaded::new(Answer::Absent)));
    begun.await.unwrap();
    (loading, open)
}

#[tokio::test]
async fn what_a_loader_makes_of_a_key_that_is_forgotten_meanwhile_is_stored_nowhere() {
    let forgets: [fn(&Cache); 2] = [|near| near.forget("k"), Near::forget_all];
    for forget in forgets {
        let (near, script) = cache(|near| near);
        let (loading, gate) = load_gated(&near, &script).await;
        forget(&near);
        // Who comes now loads anew, and does not wait for the value from before.
        let late = reader(&near);
        script.answers("new").await;
        assert_eq!(late.await.unwrap().as_deref(), Some("new"));
        gate.send(()).unwrap();
        assert_eq!(loading.await.unwrap().as_deref(), Some("old"));
        assert!(script.has_no_writes() && script.is_silent().await);
        assert_eq!(near.peek("k").as_deref().map(String::as_str), Some("new"));
        assert_eq!(near.stats().overtaken, 1);
    }
}

#[tokio::test]
async fn a_key_that_is_forgotten_while_a_loaders_value_is_stored_is_not_kept() {
    let (near, script) = cache(|near| near);
    let (loading, gate) = load_gated(&near, &script).await;
    gate.send(()).unwrap();
    let write = script.write().await;
    near.forget("k");
    write.answer.send(Ok(())).unwrap();
    script.answers("old").await;
    assert_eq!(loading.await.unwrap().as_deref(), Some("old"));
    assert!(near.peek("k").is_none());
}

#[tokio::test]
async fn forgetting_another_key_does_not_touch_a_loader() {
    let (near, script) = cache(|near| near);
    let (loading, gate) = load_gated(&near, &script).await;
    near.forget("other");
    gate.send(()).unwrap();
    script.write().await.answer.send(Ok(())).unwrap();
    script.answers("old").await;
    loading.await.unwrap();
    assert!(near.peek("k").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_cancelled_at_random_leave_nobody_waiting() {
    let (near, script) = cache(|near| near);
    let answering = {
        let script = Arc::clone(&script);
        tokio::spawn(async move {
            loop {
                script.answers("v").await;
                script.invalidate("k");
            }
        })
    };
    let readers = (0..2000).map(|number| {
        let reader = reader(&near);
        if number % 3 == 0 {
            reader.abort();
        }
        reader
    });
    for reader in readers.collect::<Vec<_>>() {
        match tokio::time::timeout(crate::script::PATIENCE, reader).await {
            Ok(outcome) => assert!(outcome.is_err() || outcome.unwrap().is_some()),
            Err(_) => panic!("a reader hangs"),
        }
    }
    answering.abort();
}
