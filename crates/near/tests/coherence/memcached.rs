//! memcached and Cellar over memcached's protocol: nobody tells of changes, so time bounds them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cellar_near::clock::ManualClock;
use cellar_near::codec::Plain;
use cellar_near::origin::{Memcached, Remote};
use cellar_near::{Error, Near};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::proxy::Proxy;
use crate::servers::{Kind, Server};
use crate::subject::PATIENCE;

const SECOND: Duration = Duration::from_secs(1);

type Cache = Near<String, String>;

/// A cache with a local time to live of ten seconds, which asks for versions after that.
fn cache(address: &str) -> (Cache, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let origin = Memcached::open(address).timeout(PATIENCE);
    let near = Near::builder(Remote::new(origin, Plain))
        .local_ttl(10 * SECOND)
        .revalidate(600 * SECOND)
        .negative_ttl(10 * SECOND)
        .clock(clock.clone())
        .build();
    (near, clock)
}

async fn value(near: &Cache, key: &str) -> Option<String> {
    near.get(key).await.unwrap().map(|held| (*held).clone())
}

/// What has to hold over every server: reads, writes, versions, odd keys.
async fn check(address: &str) {
    let (near, clock) = cache(address);
    let (other, _) = cache(address);
    let (key, text) = ("k".to_owned(), |text: &str| text.to_owned());
    assert_eq!(value(&near, "k").await, None);
    near.set(&key, &text("one")).await.unwrap();
    assert_eq!(
        value(&near, "k").await,
        Some(text("one")),
        "who has written reads it"
    );
    let held = near.get("k").await.unwrap().unwrap();

    clock.advance(11 * SECOND);
    let again = near.get("k").await.unwrap().unwrap();
    assert!(
        std::ptr::eq(&*held, &*again),
        "confirmed, not decoded again"
    );
    assert_eq!(near.stats().confirmed, 1);

    other.set(&key, &text("two")).await.unwrap();
    assert_eq!(
        value(&near, "k").await,
        Some(text("one")),
        "within the local time to live"
    );
    clock.advance(11 * SECOND);
    assert_eq!(value(&near, "k").await, Some(text("two")));
    clock.advance(11 * SECOND);
    assert_eq!(value(&near, "k").await, Some(text("two")));
    assert_eq!(near.stats().confirmed, 2, "asked the other way if need be");

    assert!(other.remove(&key).await.unwrap() && !other.remove(&key).await.unwrap());
    clock.advance(11 * SECOND);
    assert_eq!(value(&near, "k").await, None);

    let odd = text("with space \n and ä");
    near.set(&odd, &text("odd")).await.unwrap();
    assert_eq!(value(&other, &odd).await, Some(text("odd")));
    let long = "x".repeat(251);
    assert!(matches!(
        near.get(&long).await,
        Err(Error::KeyTooLong { .. })
    ));
    let big = "y".repeat(500_000);
    near.set(&key, &big).await.unwrap();
    assert_eq!(value(&near, "k").await, Some(big));
    let keys: Vec<String> = ["k", "none", &odd].map(str::to_owned).into();
    let many = other.get_many(&keys).await.unwrap();
    assert!(many[0].is_some() && many[1].is_none() && many[2].is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_memcached_are_read_written_and_confirmed() {
    let daemon = Server::start(Kind::Memcached).await;
    check(&daemon.address()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_cellar_are_read_written_and_confirmed_over_memcacheds_protocol() {
    let server = Server::start(Kind::Cellar).await;
    check(server.memcached.as_deref().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_still_the_same_is_not_sent_again() {
    const VALUE_BYTES: usize = 300_000;
    let daemon = Server::start(Kind::Memcached).await;
    let server = Server::start(Kind::Cellar).await;
    let homes = [
        daemon.address(),
        server
            .memcached
            .clone()
            .expect("it speaks memcached's protocol"),
    ];
    for home in homes {
        let proxy = Proxy::start(&home).await;
        let (near, clock) = cache(proxy.address());
        let big = "v".repeat(VALUE_BYTES);
        near.set("k", &big).await.unwrap();
        // A memcached that does not know the condition sends the value with its first answer.
        for _ in 0..2 {
            assert_eq!(value(&near, "k").await.as_ref(), Some(&big));
            clock.advance(11 * SECOND);
        }
        let (confirmed, before) = (near.stats().confirmed, proxy.passed());
        for round in 1..=3 {
            assert_eq!(value(&near, "k").await.as_ref(), Some(&big));
            assert_eq!(near.stats().confirmed, confirmed + round, "{home}");
            clock.advance(11 * SECOND);
        }
        let passed = proxy.passed() - before;
        assert!(passed < 1_000, "{home}: {passed} bytes for three questions");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_left_at_the_server_caps_the_local_one() {
    let daemon = Server::start(Kind::Memcached).await;
    let (near, clock) = cache(&daemon.address());
    // Some seconds of real time may pass before it is read.
    near.set_for("k", &"short".to_owned(), 9 * SECOND)
        .await
        .unwrap();
    assert!(value(&near, "k").await.is_some());
    clock.advance(3 * SECOND);
    assert!(near.peek("k").is_some());
    clock.advance(5 * SECOND);
    assert!(
        near.peek("k").is_none(),
        "memcached counts whole seconds: the last one is no promise"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_from_before_a_restart_is_not_asked_for() {
    // A server of one item with version 1 and, after its restart, another one with version 1.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut questions = Vec::new();
        for reply in [b"VA 3 c1 t-1\r\nold\r\n", b"VA 3 c1 t-1\r\nnew\r\n"] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 512];
            let bytes = stream.read(&mut buffer).await.unwrap();
            questions.push(String::from_utf8_lossy(&buffer[..bytes]).into_owned());
            stream.write_all(reply).await.unwrap();
        }
        questions
    });
    let (near, clock) = cache(&address.to_string());
    assert_eq!(value(&near, "k").await.as_deref(), Some("old"));
    clock.advance(11 * SECOND);
    assert_eq!(value(&near, "k").await.as_deref(), Some("new"));
    let questions = serving.await.unwrap();
    assert_eq!(questions, ["mg k c t v\r\n", "mg k c t v\r\n"]);
}

/// How long a server is silent that fails in time: a busy machine answers sooner.
const SILENCE: Duration = Duration::from_secs(2);

/// A server whose first connection is silent and whose second answers one request; where it
/// listens, and what ends when it has done so.
async fn silent_then(reply: &'static [u8]) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(async move {
        let _silent = listener.accept().await.unwrap();
        let (mut second, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 512];
        let _ = second.read(&mut buffer).await.unwrap();
        second.write_all(reply).await.unwrap();
    });
    (address, serving)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_silent_fails_in_time_and_the_next_question_goes_elsewhere() {
    let (address, serving) = silent_then(b"VA 1 c1 t-1\r\nv\r\n").await;
    let origin = Memcached::open(&address).timeout(SILENCE);
    let near: Cache = Near::builder(Remote::new(origin, Plain))
        .local_ttl(SECOND)
        .build();
    assert!(matches!(near.get("k").await, Err(Error::Timeout(_))));
    assert_eq!(value(&near, "k").await.as_deref(), Some("v"));
    serving.await.unwrap();
}

#[tokio::test]
async fn a_write_after_a_silent_read_takes_another_connection() {
    let (address, serving) = silent_then(b"HD\r\n").await;
    let origin = Memcached::open(&address).timeout(SILENCE);
    let near: Cache = Near::builder(Remote::new(origin, Plain)).build();
    assert!(matches!(near.get("k").await, Err(Error::Timeout(_))));
    // Nothing else runs on this thread before the write looks for a connection.
    near.set(&"k".to_owned(), &"v".to_owned()).await.unwrap();
    serving.await.unwrap();
}
