//! What happens over real servers: Debian's redis-server and Cellar.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use cellar_near::origin::redis::Tracking;

use crate::proxy::Proxy;
use crate::scripted::BOUND;
use crate::servers::{Client, KINDS, Kind, Server};
use crate::subject::{
    Cellar, Maker, PATIENCE, Pending, Subject, Verdict, answered, expect_hits, fill, name_of,
    settles,
};
use crate::wait::wait_for;

/// A scenario over a real server, and its name.
pub(crate) type Scenario = (&'static str, fn(&dyn Maker, Kind) -> Pending<'_, Verdict>);

/// All scenarios over real servers.
pub(crate) const SCENARIOS: [Scenario; 14] = [
    ("change by another client", |maker, kind| {
        Box::pin(changed(maker, kind))
    }),
    ("key that comes to be", |maker, kind| {
        Box::pin(created(maker, kind))
    }),
    ("FLUSHALL", |maker, kind| Box::pin(flushed(maker, kind))),
    ("SWAPDB", |maker, kind| Box::pin(swapped(maker, kind))),
    ("expiry", |maker, kind| Box::pin(expired(maker, kind))),
    ("another time to live", |maker, kind| {
        Box::pin(shortened(maker, kind))
    }),
    ("several keys at once", |maker, kind| {
        Box::pin(several(maker, kind))
    }),
    ("own write", |maker, kind| Box::pin(own_write(maker, kind))),
    ("own write that is lost", |maker, kind| {
        Box::pin(lost_write(maker, kind))
    }),
    ("connection killed by the server", |maker, kind| {
        Box::pin(killed(maker, kind))
    }),
    ("half-open connection", |maker, kind| {
        Box::pin(half_open(maker, kind))
    }),
    ("server restarted", |maker, kind| {
        Box::pin(restarted(maker, kind))
    }),
    ("fail-over to an empty server", |maker, kind| {
        Box::pin(failed_over(maker, kind))
    }),
    ("eviction", |maker, kind| Box::pin(evicted(maker, kind))),
];

/// A server, a client without a cache, and the subject.
async fn stage(maker: &dyn Maker, kind: Kind) -> (Server, Client, Arc<dyn Subject>) {
    let server = Server::start(kind).await;
    let client = server.client().await;
    let subject = maker.make(&server.address(), BOUND);
    (server, client, subject)
}

async fn changed(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    for number in 0..20 {
        let value = number.to_string();
        client.set("k", &value).await;
        fill(maker, &*subject, "k", Some(&value)).await?;
    }
    client.run(&["APPEND", &name_of("k"), "!"]).await;
    settles(maker, &*subject, "k", Some("19!")).await?;
    client.run(&["DEL", &name_of("k")]).await;
    settles(maker, &*subject, "k", None).await
}

async fn created(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    fill(maker, &*subject, "k", None).await?;
    client.set("k", "there").await;
    settles(maker, &*subject, "k", Some("there")).await
}

async fn flushed(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    for flush in ["FLUSHALL", "FLUSHDB"] {
        client.set("k", "old").await;
        fill(maker, &*subject, "k", Some("old")).await?;
        client.run(&[flush]).await;
        settles(maker, &*subject, "k", None).await?;
        // The server has forgotten who read what.
        client.set("k", "new").await;
        settles(maker, &*subject, "k", Some("new")).await?;
    }
    Ok(())
}

async fn swapped(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    client.run(&["SELECT", "1"]).await;
    client.set("k", "of 1").await;
    client.run(&["SELECT", "0"]).await;
    client.set("k", "of 0").await;
    // More than once: a count that has moved before may move again.
    for value in ["of 0", "of 1", "of 0"] {
        fill(maker, &*subject, "k", Some(value)).await?;
        fill(maker, &*subject, "absent", None).await?;
        client.run(&["SWAPDB", "0", "1"]).await;
    }
    settles(maker, &*subject, "k", Some("of 1")).await
}

async fn expired(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    // It is connected before time counts, and may be late all the same.
    settles(maker, &*subject, "k", None).await?;
    let short_lived = || -> Pending<'_, Result<String, String>> {
        Box::pin(async {
            let set = ["SET", &name_of("k"), "short", "PX", "150"];
            client.run(&set).await;
            subject.read("k").await?.ok_or("too late".to_owned())
        })
    };
    answered(maker, short_lived).await?;
    settles(maker, &*subject, "k", None).await
}

async fn shortened(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    client.set("k", "long").await;
    fill(maker, &*subject, "k", Some("long")).await?;
    client.run(&["PEXPIRE", &name_of("k"), "100"]).await;
    settles(maker, &*subject, "k", None).await
}

async fn several(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    client.set("a", "1").await;
    client.set("c", "3").await;
    let keys = ["a", "b", "c"];
    for _ in 0..2 {
        let read = answered(maker, || subject.read_many(&keys)).await?;
        assert_eq!(read, [Some("1".into()), None, Some("3".into())]);
    }
    client
        .run(&["MSET", &name_of("a"), "one", &name_of("b"), "two"])
        .await;
    settles(maker, &*subject, "a", Some("one")).await?;
    settles(maker, &*subject, "b", Some("two")).await?;
    settles(maker, &*subject, "c", Some("3")).await
}

/// Who has written reads what was written, at once.
async fn own_write(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    for number in 0..50 {
        let value = number.to_string();
        answered(maker, || subject.write("k", &value)).await?;
        let read = answered(maker, || subject.read("k")).await?;
        if read.as_deref() != Some(&*value) {
            return Err(format!("wrote {value}, read {read:?}"));
        }
    }
    client.set("k", "another's").await;
    settles(maker, &*subject, "k", Some("another's")).await
}

/// A write is sent and its answer never comes.
async fn lost_write(maker: &dyn Maker, kind: Kind) -> Verdict {
    let server = Server::start(kind).await;
    let client = server.client().await;
    let proxy = Proxy::start(&server.address()).await;
    let subject = maker.make(proxy.address(), BOUND);
    client.set("k", "old").await;
    fill(maker, &*subject, "k", Some("old")).await?;
    proxy.freeze();
    // Failing is right; what counts is what is read afterwards.
    let _ = tokio::time::timeout(PATIENCE, subject.write("k", "lost")).await;
    client.set("k", "new").await;
    settles(maker, &*subject, "k", Some("new")).await
}

async fn killed(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (_server, client, subject) = stage(maker, kind).await;
    client.set("k", "old").await;
    fill(maker, &*subject, "k", Some("old")).await?;
    client
        .run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        .await;
    client.set("k", "new").await;
    settles(maker, &*subject, "k", Some("new")).await?;
    client.set("k", "newer").await;
    settles(maker, &*subject, "k", Some("newer")).await
}

async fn half_open(maker: &dyn Maker, kind: Kind) -> Verdict {
    let server = Server::start(kind).await;
    let client = server.client().await;
    let proxy = Proxy::start(&server.address()).await;
    let subject = maker.make(proxy.address(), BOUND);
    client.set("k", "old").await;
    fill(maker, &*subject, "k", Some("old")).await?;
    proxy.freeze();
    client.set("k", "new").await;
    settles(maker, &*subject, "k", Some("new")).await
}

async fn restarted(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (server, client, subject) = stage(maker, kind).await;
    client.set("k", "old").await;
    fill(maker, &*subject, "k", Some("old")).await?;
    let server = server.restart().await;
    settles(maker, &*subject, "k", None).await?;
    server.client().await.set("k", "new").await;
    settles(maker, &*subject, "k", Some("new")).await
}

async fn failed_over(maker: &dyn Maker, kind: Kind) -> Verdict {
    let (first, second) = (Server::start(kind).await, Server::start(kind).await);
    let proxy = Proxy::start(&first.address()).await;
    let subject = maker.make(proxy.address(), BOUND);
    first.client().await.set("k", "old").await;
    fill(maker, &*subject, "k", Some("old")).await?;
    proxy.lead_to(&second.address());
    proxy.cut();
    settles(maker, &*subject, "k", None).await?;
    second.client().await.set("k", "new").await;
    settles(maker, &*subject, "k", Some("new")).await
}

/// Values of 64 KiB that no server of these tests has room for.
const FILLERS: u32 = 1_500;

/// The server runs out of memory and drops keys by itself.
async fn evicted(maker: &dyn Maker, kind: Kind) -> Verdict {
    let flags: &[&str] = match kind {
        Kind::Redis => &["--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"],
        Kind::Cellar | Kind::Memcached => &[],
    };
    let server = Server::start_with(kind, flags).await;
    let client = server.client().await;
    let subject = maker.make(&server.address(), BOUND);
    // As large as the others: small ones are worth keeping longer.
    let filler = "x".repeat(64 << 10);
    client.set("k", &filler).await;
    fill(maker, &*subject, "k", Some(&filler)).await?;
    let filling = async {
        loop {
            // Read as often as the key, and the key seldom: what is read stays.
            for number in 0..FILLERS {
                let name = format!("filler:{number}");
                client.run(&["SET", &name, &filler]).await;
                for _ in 0..3 {
                    client.run(&["STRLEN", &name]).await;
                }
            }
            if client.run(&["EXISTS", &name_of("k")]).await == redis::Value::Int(0) {
                return;
            }
        }
    };
    let filled = tokio::time::timeout(PATIENCE * 3, filling).await;
    filled.map_err(|_| "the server does not evict".to_owned())?;
    settles(maker, &*subject, "k", None).await?;
    client.set("k", "new").await;
    settles(maker, &*subject, "k", Some("new")).await
}

/// Runs one scenario; a client that hangs has failed as well.
pub(crate) async fn run(scenario: &Scenario, maker: &dyn Maker, kind: Kind) -> Verdict {
    let (name, scenario) = scenario;
    let verdict = tokio::time::timeout(PATIENCE * 6, scenario(maker, kind)).await;
    let verdict = verdict.unwrap_or_else(|_| Err("it hangs".into()));
    verdict.map_err(|what| format!("{name} over {kind:?}: {what}"))
}

/// Runs the scenario with this name.
pub(crate) async fn run_named(name: &str, maker: &dyn Maker, kind: Kind) -> Verdict {
    let scenario = SCENARIOS.iter().find(|(known, _)| *known == name);
    run(scenario.expect("the scenario exists"), maker, kind).await
}

/// Runs all of them.
pub(crate) async fn check(maker: &dyn Maker, kind: Kind) {
    for scenario in &SCENARIOS {
        assert_eq!(run(scenario, maker, kind).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_happens_to_redis_leaves_a_stale_copy() {
    check(&Cellar::default(), Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_happens_to_cellar_leaves_a_stale_copy() {
    check(&Cellar::default(), Kind::Cellar).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_when_redis_broadcasts() {
    check(&Cellar::broadcast(), Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_when_cellar_broadcasts() {
    check(&Cellar::broadcast(), Kind::Cellar).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_answered_from_memory_until_the_key_changes() {
    for kind in KINDS {
        for maker in [Cellar::default(), Cellar::broadcast()] {
            let server = Server::start(kind).await;
            let client = server.client().await;
            // Long enough for a machine with much else to do.
            let near = maker.near(&server.address(), PATIENCE);
            for value in ["1", "2", "3"] {
                client.set("k", value).await;
                settles(&maker, &near, "k", Some(value)).await.unwrap();
                expect_hits(&near, "k").await;
            }
            let stats = near.stats();
            assert!(stats.loads <= 6, "{stats:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_by_a_client_of_memcached_is_told() {
    let server = Server::start(Kind::Cellar).await;
    let memcached = server
        .memcached
        .clone()
        .expect("Cellar speaks memcached's protocol");
    for maker in [Cellar::default(), Cellar::broadcast()] {
        let near = maker.near(&server.address(), PATIENCE);
        for value in ["one", "two"] {
            speak(
                &memcached,
                &format!("set suite:k 0 0 3\r\n{value}\r\n"),
                "STORED\r\n",
            );
            settles(&maker, &near, "k", Some(value)).await.unwrap();
            expect_hits(&near, "k").await;
        }
        speak(&memcached, "delete suite:k\r\n", "DELETED\r\n");
        settles(&maker, &near, "k", None).await.unwrap();
        speak(&memcached, "set suite:k 0 0 3\r\nnew\r\n", "STORED\r\n");
        settles(&maker, &near, "k", Some("new")).await.unwrap();
        speak(&memcached, "flush_all\r\n", "OK\r\n");
        settles(&maker, &near, "k", None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_over_http_is_told() {
    let server = Server::start(Kind::Cellar).await;
    let http = server.http.clone().expect("Cellar speaks HTTP");
    let send = |method: &str, value: &str| {
        let head = format!("{method} /v1/cache/suite:k HTTP/1.1\r\nHost: localhost\r\n");
        let length = value.len();
        let request = format!("{head}Content-Length: {length}\r\n\r\n{value}");
        speak(&http, &request, "HTTP/1.1 20");
    };
    for maker in [Cellar::default(), Cellar::broadcast()] {
        let near = maker.near(&server.address(), PATIENCE);
        for value in ["one", "two"] {
            send("PUT", value);
            settles(&maker, &near, "k", Some(value)).await.unwrap();
            expect_hits(&near, "k").await;
        }
        send("DELETE", "");
        settles(&maker, &near, "k", None).await.unwrap();
        send("PUT", "new");
        settles(&maker, &near, "k", Some("new")).await.unwrap();
        send("DELETE", "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_the_server_stops_tracking_are_told_as_changed() {
    for kind in KINDS {
        let flags = ["--tracking-table-max-keys", "16"];
        let server = Server::start_with(kind, &flags).await;
        let client = server.client().await;
        let near = Cellar::patient().near(&server.address(), PATIENCE);
        for number in 0..200 {
            near.get(&number.to_string()).await.unwrap();
        }
        for number in 0..200 {
            client.set(&number.to_string(), "there").await;
        }
        for number in 0..200 {
            let key = number.to_string();
            settles(&Cellar::default(), &near, &key, Some("there"))
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_outside_of_the_broadcast_prefixes_is_served_and_not_kept() {
    for kind in KINDS {
        let maker = Cellar {
            tracking: Tracking::Broadcast(vec![b"other:".to_vec()]),
            ..Cellar::patient()
        };
        let server = Server::start(kind).await;
        let client = server.client().await;
        let near = maker.near(&server.address(), PATIENCE);
        for value in ["1", "2"] {
            client.set("k", value).await;
            let read = near.get("k").await.unwrap();
            assert_eq!(read.as_deref().map(String::as_str), Some(value));
        }
    }
}

/// One request of a text protocol, and how its answer begins.
fn speak(address: &str, request: &str, expected: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_dropped_leaves_no_connection_behind() {
    let server = Server::start(Kind::Redis).await;
    let client = server.client().await;
    let connections = || async {
        let list = client.run(&["CLIENT", "LIST"]).await;
        redis::from_redis_value::<String>(list)
            .unwrap()
            .lines()
            .count()
    };
    let only_ours = || async { (connections().await <= 1).then_some(()) };
    wait_for("who asked whether it serves has left", only_ours).await;
    let near = Cellar::patient().near(&server.address(), PATIENCE);
    near.get("k").await.unwrap();
    assert_eq!(connections().await, 2, "reads, pushes and writes share one");
    drop(near);
    wait_for("the cache's connection is closed", only_ours).await;
}
