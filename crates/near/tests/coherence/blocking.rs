//! The blocking face over real servers: what is told as changed goes while nobody calls.

use std::thread;
use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::{Memcached, Redis, Remote};
use cellar_near::{BlockingNear, Error, Near};

use crate::servers::{Kind, Server};
use crate::subject::PATIENCE;

/// Runs what blocks on a thread of its own, which no runtime knows.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = tokio::sync::oneshot::channel();
    thread::spawn(move || drop(sender.send(work())));
    done.await.expect("it does not panic")
}

fn over_resp(server: &Server) -> BlockingNear<String, String> {
    let redis = Redis::open(format!("redis://{}", server.address())).unwrap();
    let near = Near::builder(Remote::new(redis, Plain));
    near.build_blocking().unwrap()
}

#[tokio::test]
async fn a_change_is_heard_while_no_thread_calls() {
    for kind in [Kind::Redis, Kind::Cellar] {
        let server = Server::start(kind).await;
        let near = over_resp(&server);
        let reader = near.clone();
        apart(move || {
            reader.set("k", &"one".to_owned()).unwrap();
            let made = reader.get_or_load("l", || Ok::<_, Error>(Some("made".to_owned())));
            assert_eq!(*made.unwrap().unwrap(), "made");
            // The news of an own write may overtake what is read right after it.
            while reader.peek("k").is_none() {
                assert_eq!(*reader.get("k").unwrap().unwrap(), "one");
            }
        })
        .await;
        assert!(near.peek("k").is_some(), "{kind:?}");
        server.client().await.run(&["SET", "k", "two"]).await;
        let gone = async {
            while near.peek("k").is_some() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap();
        let read = apart(move || near.get("k").unwrap().unwrap().clone()).await;
        assert_eq!(*read, "two");
    }
}

#[tokio::test]
async fn over_memcacheds_protocol_a_value_is_written_and_read() {
    let server = Server::start(Kind::Memcached).await;
    let origin = Remote::new(Memcached::open(server.address()), Plain);
    let near: BlockingNear<String, String> = Near::builder(origin)
        .local_ttl(PATIENCE)
        .build_blocking()
        .unwrap();
    apart(move || {
        near.set("k", &"v".to_owned()).unwrap();
        assert_eq!(*near.get("k").unwrap().unwrap(), "v");
        assert!(near.remove("k").unwrap());
        assert!(near.get("k").unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_silent_server_ends_in_an_error_after_the_origins_timeout() {
    let server = Server::start(Kind::Redis).await;
    let redis = Redis::open(format!("redis://{}", server.address())).unwrap();
    let redis = redis.timeout(Duration::from_millis(200));
    let near: BlockingNear<String, String> = Near::builder(Remote::new(redis, Plain))
        .build_blocking()
        .unwrap();
    let reader = near.clone();
    apart(move || drop(reader.get("k").unwrap())).await;
    server.freeze();
    let error = apart(move || near.get("other").map(drop).unwrap_err()).await;
    server.thaw();
    assert!(error.is_away(), "{error}");
}
