//! Reading through the cache: who asks, who waits, what is kept for how long. No server, no sleep.

use std::sync::Arc;
use std::time::Duration;

use cellar_near::origin::{Answer, Function, Loaded, Version};
use cellar_near::{Error, Near};

use crate::script::{Script, broken, cache, text, value_of};

const SECOND: Duration = Duration::from_secs(1);

type Cache = Near<String, String>;

/// Reads on a task of its own, and waits until that has begun to wait.
async fn read(near: &Cache, key: &str) -> tokio::task::JoinHandle<Option<String>> {
    let (near, key) = (near.clone(), key.to_owned());
    let misses = near.stats().misses;
    let task = tokio::spawn({
        let near = near.clone();
        async move { text(near.get(&key).await) }
    });
    while near.stats().misses == misses {
        tokio::task::yield_now().await;
    }
    task
}

/// Reads a key that is answered with `value`.
async fn load(near: &Cache, script: &Script, key: &str, value: &str) -> Option<String> {
    let (outcome, ()) = tokio::join!(near.get(key), script.answers(value));
    text(outcome)
}

#[tokio::test]
async fn a_value_is_asked_for_once_and_then_read_from_memory() {
    let (near, script) = cache(|near| near);
    assert_eq!(load(&near, &script, "k", "v").await.as_deref(), Some("v"));
    assert_eq!(text(near.get("k").await).as_deref(), Some("v"));
    assert!(near.peek("k").is_some() && script.is_silent().await);
    let stats = near.stats();
    assert_eq!((stats.hits, stats.misses, stats.loads), (2, 1, 1));
}

#[tokio::test]
async fn readers_of_the_same_key_share_one_question() {
    let (near, script) = cache(|near| near);
    let readers = [
        read(&near, "k").await,
        read(&near, "k").await,
        read(&near, "k").await,
    ];
    script.answers("v").await;
    for reader in readers {
        assert_eq!(reader.await.unwrap().as_deref(), Some("v"));
    }
    assert!(script.is_silent().await);
    assert_eq!((near.stats().loads, near.stats().shared), (1, 2));
}

#[tokio::test]
async fn an_error_reaches_all_who_wait_and_is_not_remembered() {
    let (near, script) = cache(|near| near);
    let waiting = {
        let near = near.clone();
        tokio::spawn(async move { near.get("k").await.map(drop) })
    };
    let question = script.question().await;
    let second = {
        let near = near.clone();
        tokio::spawn(async move { near.get("k").await.map(drop) })
    };
    while near.stats().shared == 0 {
        tokio::task::yield_now().await;
    }
    question.answer(Err(broken()));
    for reader in [waiting, second] {
        assert!(matches!(reader.await.unwrap(), Err(Error::Connection(_))));
    }
    assert_eq!(load(&near, &script, "k", "v").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn when_the_one_who_asks_is_cancelled_the_next_one_asks() {
    let (near, script) = cache(|near| near);
    let first = read(&near, "k").await;
    let question = script.question().await;
    let second = read(&near, "k").await;
    let third = read(&near, "k").await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(question.is_given_up());
    script.answers("v").await;
    assert_eq!(second.await.unwrap().as_deref(), Some("v"));
    assert_eq!(third.await.unwrap().as_deref(), Some("v"));
    assert!(script.is_silent().await, "one of the two asked for both");
}

#[tokio::test]
async fn a_loader_that_panics_hangs_nobody() {
    let (near, script) = cache(|near| near);
    let panicking = {
        let near = near.clone();
        tokio::spawn(async move {
            let loader = || async { panic!("on purpose") };
            near.get_or_load::<_, _, _, Error>("k", loader)
                .await
                .map(drop)
        })
    };
    script
        .question()
        .await
        .answer(Ok(Loaded::new(Answer::Absent)));
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(load(&near, &script, "k", "v").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn a_missing_key_is_asked_for_each_time_unless_that_is_remembered() {
    let absent = || Ok(Loaded::new(Answer::Absent));
    let (near, script) = cache(|near| near);
    for _ in 0..2 {
        let (outcome, ()) = tokio::join!(near.get("k"), async {
            script.question().await.answer(absent());
        });
        assert_eq!(text(outcome), None);
    }
    let (near, script) = cache(|near| near.negative_ttl(5 * SECOND));
    let (outcome, ()) = tokio::join!(near.get("k"), async {
        script.question().await.answer(absent());
    });
    assert_eq!(text(outcome), None);
    script.clock.advance(4 * SECOND);
    assert_eq!(text(near.get("k").await), None);
    assert!(script.is_silent().await);
    script.clock.advance(SECOND);
    assert_eq!(load(&near, &script, "k", "v").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn the_callers_local_time_to_live_decides_not_that_of_who_filled() {
    let (near, script) = cache(|near| near.local_ttl(60 * SECOND));
    load(&near, &script, "k", "old").await;
    script.clock.advance(5 * SECOND);
    assert!(near.get_for("k", 10 * SECOND).await.unwrap().is_some());
    let (outcome, ()) = tokio::join!(near.get_for("k", 4 * SECOND), script.answers("new"));
    assert_eq!(text(outcome).as_deref(), Some("new"));
    script.clock.advance(60 * SECOND);
    assert_eq!(
        load(&near, &script, "k", "newer").await.as_deref(),
        Some("newer")
    );
}

#[tokio::test]
async fn the_time_left_at_the_origin_caps_the_local_one_from_the_question_on() {
    let (near, script) = cache(|near| near.local_ttl(60 * SECOND));
    let (outcome, ()) = tokio::join!(near.get("k"), async {
        let question = script.question().await;
        // The answer is slow: its time runs since the question.
        script.clock.advance(2 * SECOND);
        let mut loaded = value_of("short");
        loaded.ttl = Some(3 * SECOND);
        question.answer(Ok(loaded));
    });
    assert_eq!(text(outcome).as_deref(), Some("short"));
    assert!(near.peek("k").is_some());
    script.clock.advance(SECOND);
    assert!(near.peek("k").is_none());
}

#[tokio::test]
async fn an_entry_is_refreshed_beside_the_reader_in_the_last_part_of_its_life() {
    let (near, script) = cache(|near| near.local_ttl(10 * SECOND).refresh_ahead(0.2));
    load(&near, &script, "k", "old").await;
    script.clock.advance(7 * SECOND);
    assert_eq!(text(near.get("k").await).as_deref(), Some("old"));
    assert_eq!(near.stats().refreshes, 0);
    script.clock.advance(SECOND);
    for _ in 0..3 {
        assert_eq!(
            text(near.get("k").await).as_deref(),
            Some("old"),
            "nobody waits"
        );
    }
    script.answers("new").await;
    while text(near.get("k").await).as_deref() != Some("new") {
        tokio::task::yield_now().await;
    }
    assert_eq!(near.stats().refreshes, 1, "one question for all readers");
    assert!(script.is_silent().await);
}

#[tokio::test]
async fn peek_asks_nobody_also_in_the_last_part_of_an_entrys_life() {
    let (near, script) = cache(|near| near.local_ttl(10 * SECOND).refresh_ahead(0.5));
    load(&near, &script, "k", "v").await;
    script.clock.advance(9 * SECOND);
    assert!(near.peek("k").is_some());
    tokio::task::yield_now().await;
    assert!(script.is_silent().await);
    assert_eq!(near.stats().refreshes, 0);
}

#[tokio::test]
async fn what_is_read_in_place_is_fresh_and_nothing_else_counts_as_a_read() {
    let (near, script) = cache(|near| near.local_ttl(10 * SECOND).refresh_ahead(0.5));
    load(&near, &script, "k", "value").await;
    let hits = near.stats().hits;
    assert_eq!(near.read_fresh("k", |value| value.len()), Some(5));
    assert_eq!(near.stats().hits, hits + 1);
    assert_eq!(near.read_fresh("none", |value| value.len()), None);
    // In the last part of its life a reader has to see to the next one, and then there is none.
    for past in [6, 6] {
        script.clock.advance(past * SECOND);
        assert_eq!(near.read_fresh("k", |value| value.len()), None);
    }
    let stats = near.stats();
    assert_eq!((stats.hits, stats.stale_avoided), (hits + 1, 0));
    assert!(script.is_silent().await, "nobody was asked");
}

#[tokio::test]
async fn a_refresh_that_fails_leaves_the_entry_and_is_tried_again() {
    let (near, script) = cache(|near| near.local_ttl(10 * SECOND).refresh_ahead(0.5));
    load(&near, &script, "k", "old").await;
    script.clock.advance(6 * SECOND);
    assert!(near.get("k").await.unwrap().is_some());
    script.question().await.answer(Err(broken()));
    while near.stats().refreshes_failed == 0 {
        tokio::task::yield_now().await;
    }
    script.clock.advance(SECOND / 10);
    while script.is_silent().await {
        assert_eq!(text(near.get("k").await).as_deref(), Some("old"));
        tokio::task::yield_now().await;
    }
    script.answers("new").await;
}

#[tokio::test]
async fn when_the_origin_fails_a_stale_entry_is_served_up_to_the_bound_if_asked_for() {
    let failing = |near: Cache, script: Arc<Script>| async move {
        let (outcome, ()) = tokio::join!(near.get("k"), async {
            script.question().await.answer(Err(broken()));
        });
        outcome.map(|held| held.map(|held| (held.to_string(), held.is_stale())))
    };
    let (near, script) = cache(|near| near.local_ttl(10 * SECOND).serve_stale(30 * SECOND));
    load(&near, &script, "k", "v").await;
    script.clock.advance(35 * SECOND);
    let served = failing(near.clone(), Arc::clone(&script)).await.unwrap();
    assert_eq!(served, Some(("v".to_owned(), true)));
    assert_eq!(near.stats().stale_served, 1);
    script.clock.advance(6 * SECOND);
    assert!(
        failing(near, script).await.is_err(),
        "40 seconds are the bound"
    );

    let (near, script) = cache(|near| near.local_ttl(10 * SECOND));
    load(&near, &script, "k", "v").await;
    script.clock.advance(11 * SECOND);
    assert!(failing(near, script).await.is_err(), "it was not asked for");
}

#[tokio::test]
async fn what_was_told_as_changed_is_never_served_stale() {
    for tell in [
        |script: &Script| script.invalidate("k"),
        |script: &Script| script.flush(),
    ] {
        let (near, script) = cache(|near| near.serve_stale(30 * SECOND));
        load(&near, &script, "k", "v").await;
        tell(&script);
        let (outcome, ()) = tokio::join!(near.get("k"), async {
            script.question().await.answer(Err(broken()));
        });
        assert!(outcome.is_err());
    }
}

#[tokio::test]
async fn a_lost_connection_ends_hits_but_its_entries_may_be_served_stale() {
    let (near, script) = cache(|near| near.serve_stale(2 * 3600 * SECOND));
    load(&near, &script, "k", "v").await;
    script.disconnect();
    assert!(near.peek("k").is_none());
    let (outcome, ()) = tokio::join!(near.get("k"), async {
        script.question().await.answer(Err(broken()));
    });
    assert!(outcome.unwrap().unwrap().is_stale());
}

#[tokio::test]
async fn without_the_proof_of_life_nothing_is_served_from_memory() {
    let (near, script) = cache(|near| near);
    load(&near, &script, "k", "v").await;
    script.clock.advance(3598 * SECOND);
    assert!(near.peek("k").is_some(), "a second before the bound");
    script.clock.advance(SECOND);
    assert!(near.peek("k").is_none(), "at the bound");
    script.trust.extend(4000 * SECOND);
    assert!(
        near.peek("k").is_some(),
        "an answer proves that no push is missing"
    );
}

#[tokio::test]
async fn an_old_version_is_named_and_a_confirmed_value_is_not_sent_again() {
    let version = Version {
        number: 7,
        connection: 1,
    };
    let (near, script) = cache(|near| near.local_ttl(10 * SECOND).revalidate(60 * SECOND));
    let (outcome, ()) = tokio::join!(near.get("k"), async {
        let mut loaded = value_of("v");
        loaded.version = Some(version);
        script.question().await.answer(Ok(loaded));
    });
    let first = outcome.unwrap().unwrap();
    script.clock.advance(11 * SECOND);
    let (outcome, ()) = tokio::join!(near.get("k"), async {
        let question = script.question().await;
        assert_eq!(question.known, Some(version));
        question.answer(Ok(Loaded::new(Answer::Unchanged)));
    });
    let second = outcome.unwrap().unwrap();
    assert!(
        std::ptr::eq(&*first, &*second),
        "decoded once, kept as it is"
    );
    script.clock.advance(9 * SECOND);
    assert!(near.peek("k").is_some(), "it is young again");
    assert_eq!(near.stats().confirmed, 1);
}

#[tokio::test]
async fn get_many_asks_for_what_is_missing_and_waits_for_what_is_under_way() {
    let (near, script) = cache(|near| near);
    load(&near, &script, "a", "1").await;
    let other = read(&near, "b").await;
    let under_way = script.question().await;
    let keys: Vec<String> = ["a", "b", "c", "a", "c"].map(str::to_owned).into();
    let (outcomes, ()) = tokio::join!(near.get_many(&keys), async {
        script.answers("3").await;
        under_way.answer(Ok(value_of("2")));
    });
    let values: Vec<_> = outcomes
        .unwrap()
        .into_iter()
        .map(|held| (*held.unwrap()).clone())
        .collect();
    assert_eq!(values, ["1", "2", "3", "1", "3"]);
    assert_eq!(other.await.unwrap().as_deref(), Some("2"));
    assert!(script.is_silent().await);
}

#[tokio::test]
async fn a_missing_value_is_made_stored_and_read_back() {
    let (near, script) = cache(|near| near.origin_ttl(60 * SECOND));
    let loader = || async { Ok::<_, Error>(Some("made".to_owned())) };
    let (outcome, ()) = tokio::join!(near.get_or_load("k", loader), async {
        script
            .question()
            .await
            .answer(Ok(Loaded::new(Answer::Absent)));
        let write = script.write().await;
        assert_eq!(
            (write.key.as_str(), write.value.as_deref()),
            ("k", Some("made"))
        );
        assert_eq!(write.ttl, Some(60 * SECOND));
        // The push for the own write comes while it is under way.
        script.invalidate("k");
        write.answer.send(Ok(())).unwrap();
        script.answers("somebody else's").await;
    });
    assert_eq!(text(outcome).as_deref(), Some("somebody else's"));
    assert!(near.peek("k").is_some(), "what was read back is kept");
}

#[tokio::test]
async fn a_made_value_that_cannot_be_stored_is_returned_and_not_kept() {
    let (near, script) = cache(|near| near);
    let loader = || async { Ok::<_, Error>(Some("made".to_owned())) };
    let (outcome, ()) = tokio::join!(near.get_or_load("k", loader), async {
        script
            .question()
            .await
            .answer(Ok(Loaded::new(Answer::Absent)));
        script.write().await.answer.send(Err(broken())).unwrap();
    });
    assert_eq!(text(outcome).as_deref(), Some("made"));
    assert!(near.peek("k").is_none());
}

#[tokio::test]
async fn any_async_function_is_a_source() {
    let squares = Function::new(|key: u64| async move {
        match key {
            0 => Err("zero is refused"),
            13 => Ok(None),
            key => Ok(Some(key * key)),
        }
    });
    let near = Near::builder(squares).local_ttl(60 * SECOND).build();
    assert_eq!(near.get(&7).await.unwrap().map(|held| *held), Some(49));
    assert!(near.get(&13).await.unwrap().is_none());
    let refused = near.get(&0).await.map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "the loader failed: zero is refused");
    assert!(matches!(near.set(&7, &1).await, Err(Error::ReadOnly)));
    assert_eq!(near.stats().loads, 3);
}

#[tokio::test]
async fn a_bound_in_bytes_holds_with_the_weights_of_the_values() {
    let echo = Function::new(|key: String| async move { Ok::<_, Error>(Some(key)) });
    let weigh = |key: &String, value: &String| u32::try_from(key.len() + value.len()).unwrap();
    let near = Near::builder(echo).bytes_max(10_000, weigh).build();
    for number in 0..2_000 {
        near.get(&format!("{number:050}")).await.unwrap();
    }
    let stats = near.stats();
    assert!(stats.weight <= 10_000 && stats.entries > 0, "{stats:?}");
}

#[tokio::test]
async fn a_loader_that_fails_ahead_of_time_is_asked_again_after_a_pause_that_grows() {
    let (near, script) = cache(|near| near.local_ttl(1000 * SECOND).refresh_ahead(0.5));
    load(&near, &script, "k", "old").await;
    script.clock.advance(600 * SECOND);
    let mut failed = 0;
    for pause in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
        assert!(near.get("k").await.unwrap().is_some());
        script.question().await.answer(Err(broken()));
        failed += 1;
        while near.stats().refreshes_failed < failed {
            tokio::task::yield_now().await;
        }
        script.clock.advance(Duration::from_millis(pause - 1));
        assert!(near.get("k").await.unwrap().is_some());
        assert_eq!(
            near.stats().refreshes,
            failed,
            "nobody asks within {pause} ms"
        );
        script.clock.advance(Duration::from_millis(1));
    }
    assert!(script.is_silent().await);
}

#[tokio::test]
async fn a_value_too_heavy_for_its_shard_is_counted_each_time_it_is_loaded() {
    let weigh = |_: &String, value: &String| u32::try_from(value.len()).unwrap();
    let (near, script) = cache(|near| near.bytes_max(10, weigh).shards(1));
    for loads in 1..=3 {
        load(&near, &script, "heavy", "eleven byte").await;
        assert!(near.peek("heavy").is_none());
        assert_eq!(near.stats().too_heavy, loads);
    }
    load(&near, &script, "light", "ten bytes.").await;
    assert!(near.peek("light").is_some());
    assert_eq!(near.stats().too_heavy, 3);
}
