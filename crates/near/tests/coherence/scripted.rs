//! Races over a fake server: every order in which replies and pushes can arrive.
//!
//! Each scenario fills the cache or has it load, sends what the script says, and then asks whether
//! the client ends up with what the server has.

use std::sync::Arc;
use std::time::Duration;

use crate::fake::{Fake, push, push_null};
use crate::subject::{Cellar, Maker, PATIENCE, Pending, Verdict, answered, fill, name_of, settles};

/// How long a connection without an answer may be believed in the scenarios.
pub(crate) const BOUND: Duration = Duration::from_millis(300);

/// A scenario and its name.
pub(crate) type Scenario = (&'static str, fn(&dyn Maker) -> Pending<'_, Verdict>);

/// All scenarios over the fake server.
pub(crate) const SCENARIOS: [Scenario; 12] = [
    ("reply, then push", |maker| {
        Box::pin(overtaken(maker, vec![Step::Reply, Step::Push]))
    }),
    ("push, then reply", |maker| {
        Box::pin(overtaken(maker, vec![Step::Push, Step::Reply]))
    }),
    ("reply, then null push", |maker| {
        Box::pin(overtaken(maker, vec![Step::Reply, Step::Null]))
    }),
    ("null push, then reply", |maker| {
        Box::pin(overtaken(maker, vec![Step::Null, Step::Reply]))
    }),
    ("reply, then the end", |maker| {
        Box::pin(overtaken(maker, vec![Step::Reply, Step::Close]))
    }),
    ("every order of all events", |maker| {
        Box::pin(every_order(maker))
    }),
    ("push for one key of several", |maker| {
        Box::pin(one_of_several(maker))
    }),
    ("one push for several keys", |maker| {
        Box::pin(several_at_once(maker))
    }),
    ("null push while nothing is asked", |maker| {
        Box::pin(flushed(maker))
    }),
    ("connection killed", |maker| Box::pin(killed(maker))),
    ("half-open connection", |maker| Box::pin(half_open(maker))),
    ("time to live shorter than the local one", |maker| {
        Box::pin(short_lived(maker))
    }),
];

/// What the server sends while a question waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The answer.
    Reply,
    /// The news of the change.
    Push,
    /// The news that everything has changed.
    Null,
    /// The end of the connection.
    Close,
}

/// A question is answered while the change of its key is told, in the given order.
///
/// The order is one that a server can send: the answer has the old value if the change is told
/// after it, else the new one.
async fn overtaken(maker: &dyn Maker, steps: Vec<Step>) -> Verdict {
    for cut in [Cut::OneSegment, Cut::Apart, Cut::Bytes] {
        overtaken_once(maker, &steps, cut)
            .await
            .map_err(|what| format!("{cut:?}: {what}"))?;
    }
    Ok(())
}

/// How the bytes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    OneSegment,
    Apart,
    Bytes,
}

async fn overtaken_once(maker: &dyn Maker, steps: &[Step], cut: Cut) -> Verdict {
    let fake = Fake::start().await;
    fake.put("other", "there");
    fake.put("k", "old");
    let subject = maker.make(fake.address(), BOUND);
    settles(maker, &*subject, "other", Some("there")).await?;
    fake.hold();
    let reading = tokio::spawn({
        let subject = Arc::clone(&subject);
        async move { subject.read("k").await }
    });
    let questions = fake.question(&["k"]).await?;
    let peer = questions[0].peer.clone();
    let old = fake.answers(&questions).concat();
    fake.put("k", "new");
    let new = fake.answers(&questions).concat();
    let answered = steps.iter().position(|&step| step == Step::Reply);
    let told_last = steps.last() != Some(&Step::Reply);
    let reply = if answered.is_some() && told_last {
        old
    } else {
        new
    };
    fake.release();
    let mut segment = Vec::new();
    for step in steps {
        match step {
            Step::Reply => segment.extend_from_slice(&reply),
            Step::Push => segment.extend_from_slice(&push(&["k"])),
            Step::Null => segment.extend_from_slice(&push_null()),
            Step::Close => break,
        }
        if cut == Cut::Apart {
            peer.send(&std::mem::take(&mut segment)).await;
            // paced: the client has to read one part before the next one comes.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    match cut {
        Cut::Bytes => peer.trickle(&segment).await,
        _ => peer.send(&segment).await,
    }
    if steps.contains(&Step::Close) {
        fake.close_all().await;
    }
    // Either value is right for the reader that asked before the change.
    let read = reading.await.map_err(|error| error.to_string())?;
    if !matches!(
        read.as_ref().map(Option::as_deref),
        Ok(Some("old" | "new")) | Err(_)
    ) {
        return Err(format!("the first reader got {read:?}"));
    }
    settles(maker, &*subject, "k", Some("new")).await?;
    // It has been read again, so it is told again.
    fake.put("k", "newer");
    fake.send_all(&push(&["k"])).await;
    settles(maker, &*subject, "k", Some("newer")).await
}

/// All orders of a reply, a push, a null push and the end, each also left out; one of them tells.
async fn every_order(maker: &dyn Maker) -> Verdict {
    let all = [Step::Reply, Step::Push, Step::Null, Step::Close];
    for order in orders(&all) {
        // What comes after the end is never sent; an order without any news proves nothing.
        let sent: Vec<Step> = match order.iter().position(|&step| step == Step::Close) {
            Some(end) => order[..=end].to_vec(),
            None => order,
        };
        if sent.iter().any(|&step| step != Step::Reply) && sent.contains(&Step::Reply) {
            let verdict = overtaken_once(maker, &sent, Cut::OneSegment).await;
            verdict.map_err(|what| format!("{sent:?}: {what}"))?;
        }
    }
    Ok(())
}

/// All orders of all subsets.
fn orders(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut found = vec![Vec::new()];
    for &first in steps {
        let rest: Vec<Step> = steps
            .iter()
            .copied()
            .filter(|&step| step != first)
            .collect();
        for mut order in orders(&rest) {
            order.insert(0, first);
            found.push(order);
        }
    }
    found
}

/// Of a question for three keys, the middle one changes right after it was read.
async fn one_of_several(maker: &dyn Maker) -> Verdict {
    let fake = Fake::start().await;
    let keys = ["a", "b", "c"];
    keys.iter().for_each(|key| fake.put(key, "old"));
    let subject = maker.make(fake.address(), BOUND);
    settles(maker, &*subject, "other", None).await?;
    fake.hold();
    let reading = tokio::spawn({
        let subject = Arc::clone(&subject);
        async move { subject.read_many(&["a", "b", "c"]).await }
    });
    let questions = fake.question(&keys).await?;
    let replies = fake.answers(&questions);
    fake.put("b", "new");
    fake.release();
    let last = questions
        .iter()
        .rposition(|question| question.names(&name_of("b")));
    let (first, rest) = replies.split_at(last.expect("it is asked for") + 1);
    let bytes = [first.concat(), push(&["b"]), rest.concat()].concat();
    questions[0].peer.send(&bytes).await;
    if reading.await.map_err(|error| error.to_string())?.is_err() {
        // It was late; the next one has its answer.
        answered(maker, || subject.read_many(&["a", "b", "c"])).await?;
    }
    settles(maker, &*subject, "b", Some("new")).await?;
    settles(maker, &*subject, "a", Some("old")).await
}

/// One push names three keys.
async fn several_at_once(maker: &dyn Maker) -> Verdict {
    let fake = Fake::start().await;
    let keys = ["a", "b", "c"];
    keys.iter().for_each(|key| fake.put(key, "old"));
    let subject = maker.make(fake.address(), BOUND);
    for key in keys {
        fill(maker, &*subject, key, Some("old")).await?;
    }
    keys.iter().for_each(|key| fake.put(key, "new"));
    fake.send_all(&push(&keys)).await;
    for key in keys {
        settles(maker, &*subject, key, Some("new")).await?;
    }
    Ok(())
}

/// Everything changes at once; after that the server tells of no key again that is not read anew.
async fn flushed(maker: &dyn Maker) -> Verdict {
    let fake = Fake::start().await;
    fake.put("k", "old");
    let subject = maker.make(fake.address(), BOUND);
    fill(maker, &*subject, "k", Some("old")).await?;
    fill(maker, &*subject, "missing", None).await?;
    fake.put("k", "new");
    fake.put("missing", "found");
    fake.send_all(&push_null()).await;
    settles(maker, &*subject, "k", Some("new")).await?;
    settles(maker, &*subject, "missing", Some("found")).await
}

/// The connection ends, the value changes, and nobody can tell.
async fn killed(maker: &dyn Maker) -> Verdict {
    let fake = Fake::start().await;
    fake.put("k", "old");
    let subject = maker.make(fake.address(), BOUND);
    fill(maker, &*subject, "k", Some("old")).await?;
    fake.put("k", "new");
    fake.close_all().await;
    settles(maker, &*subject, "k", Some("new")).await?;
    // The new connection is told again.
    fake.put("k", "newer");
    fake.send_all(&push(&["k"])).await;
    settles(maker, &*subject, "k", Some("newer")).await
}

/// The server falls silent without a word; new connections work.
async fn half_open(maker: &dyn Maker) -> Verdict {
    let fake = Fake::start().await;
    fake.put("k", "old");
    let subject = maker.make(fake.address(), BOUND);
    fill(maker, &*subject, "k", Some("old")).await?;
    fake.go_deaf();
    fake.put("k", "new");
    fake.hear_new_ones();
    settles(maker, &*subject, "k", Some("new")).await
}

/// The server says that the value has little time left, and never tells that it has ended.
async fn short_lived(maker: &dyn Maker) -> Verdict {
    let fake = Fake::start().await;
    fake.put_for("k", "old", 150);
    let subject = maker.make(fake.address(), BOUND);
    settles(maker, &*subject, "k", Some("old")).await?;
    fake.put("k", "new");
    settles(maker, &*subject, "k", Some("new")).await
}

/// Runs one scenario; a client that hangs has failed as well.
pub(crate) async fn run(scenario: &Scenario, maker: &dyn Maker) -> Verdict {
    let (name, scenario) = scenario;
    let limit = maker.patience() * 20;
    let verdict = tokio::time::timeout(limit, scenario(maker)).await;
    verdict
        .unwrap_or_else(|_| Err("it hangs".into()))
        .map_err(|what| format!("{name}: {what}"))
}

/// Runs the scenario with this name.
pub(crate) async fn run_named(name: &str, maker: &dyn Maker) -> Verdict {
    let scenario = SCENARIOS.iter().find(|(known, _)| *known == name);
    run(scenario.expect("the scenario exists"), maker).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_of_replies_and_pushes_leaves_a_stale_copy() {
    for scenario in &SCENARIOS {
        assert_eq!(run(scenario, &Cellar::default()).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_when_the_server_broadcasts() {
    for scenario in &SCENARIOS {
        assert_eq!(run(scenario, &Cellar::broadcast()).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_server_is_no_value_and_is_not_kept() {
    let fake = Fake::start().await;
    fake.put("k", "v");
    let subject = Cellar::patient().make(fake.address(), PATIENCE);
    fake.hold();
    let reading = tokio::spawn({
        let subject = Arc::clone(&subject);
        async move { subject.read("k").await }
    });
    let questions = fake.question(&["k"]).await.unwrap();
    fake.release();
    questions[0]
        .peer
        .send(b"-WRONGTYPE not a string\r\n:-1\r\n")
        .await;
    let refused = reading.await.unwrap().unwrap_err();
    assert!(refused.contains("WRONGTYPE"), "{refused}");
    assert_eq!(subject.read("k").await, Ok(Some("v".into())));
}
