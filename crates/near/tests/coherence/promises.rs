//! Promises of docs/near.md over real servers that no scenario of the suite is about.

use std::sync::Arc;
use std::time::Duration;

use cellar_near::clock::ManualClock;
use cellar_near::codec::{Json, Plain};
use cellar_near::origin::redis::Tracking;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Error, Near};

use crate::servers::{KINDS, Server};
use crate::subject::{Cellar, PATIENCE, expect_hits};
use crate::wait::wait_until;

const SECOND: Duration = Duration::from_secs(1);

fn redis(server: &Server) -> Redis {
    let origin = Redis::open(format!("redis://{}", server.address())).unwrap();
    origin.timeout(PATIENCE).connect_timeout(PATIENCE)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tracking_only_time_ends_a_copy() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        let client = server.client().await;
        let clock = Arc::new(ManualClock::default());
        let origin = redis(&server).tracking(Tracking::Off);
        let near: Near<String, String> = Near::builder(Remote::new(origin, Plain))
            .local_ttl(10 * SECOND)
            .clock(clock.clone())
            .build();
        client.run(&["SET", "k", "old"]).await;
        assert_eq!(near.get("k").await.unwrap().unwrap().as_str(), "old");
        client.run(&["SET", "k", "new"]).await;
        clock.advance(9 * SECOND);
        assert_eq!(near.get("k").await.unwrap().unwrap().as_str(), "old");
        clock.advance(SECOND);
        assert_eq!(near.get("k").await.unwrap().unwrap().as_str(), "new");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_the_same_name_in_another_database_costs_a_copy_and_no_more() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        let client = server.client().await;
        let near = Cellar::patient().near(&server.address(), PATIENCE);
        client.set("k", "of 0").await;
        near.get("k").await.unwrap();
        expect_hits(&near, "k").await;
        client.run(&["SELECT", "1"]).await;
        client.set("k", "of 1").await;
        let is_told = || near.stats().invalidations > 0;
        wait_until("the cache is told of the change", is_told).await;
        assert_eq!(near.get("k").await.unwrap().unwrap().as_str(), "of 0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_value_are_an_error_and_not_a_miss() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        let client = server.client().await;
        let near: Near<u64, Vec<u64>> = Near::builder(Remote::new(redis(&server), Json)).build();
        client.run(&["SET", "7", "no JSON"]).await;
        assert!(matches!(near.get(&7).await, Err(Error::Codec(_))));
        client.run(&["SET", "7", "[1,2]"]).await;
        assert_eq!(*near.get(&7).await.unwrap().unwrap(), [1, 2]);
    }
}
