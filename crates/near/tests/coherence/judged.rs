//! Another client before the same judge: the cache of the `redis` crate (`cache-aio`).
//!
//! It shows how a client is judged, and that the suite tells clients apart.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::caching::CacheConfig;
use redis::{AsyncConnectionConfig, Client};
use tokio::sync::OnceCell;

use crate::scripted;
use crate::subject::{IMPATIENCE, Maker, Pending, Subject, name_of};

/// Makes connections of redis-rs's with a cache.
struct RedisRs;

/// One of them, connected at its first use.
struct Cached {
    address: String,
    connection: OnceCell<MultiplexedConnection>,
}

impl Maker for RedisRs {
    fn make(&self, address: &str, _bound: Duration) -> Arc<dyn Subject> {
        Arc::new(Cached {
            address: format!("redis://{address}?protocol=resp3"),
            connection: OnceCell::new(),
        })
    }

    fn patience(&self) -> Duration {
        IMPATIENCE
    }
}

impl Cached {
    async fn run<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T, String> {
        let connecting = || async {
            let client = Client::open(self.address.as_str())?;
            let config = AsyncConnectionConfig::new().set_cache_config(CacheConfig::new());
            client
                .get_multiplexed_async_connection_with_config(&config)
                .await
        };
        let connection = self.connection.get_or_try_init(connecting).await;
        let mut connection = connection.map_err(|error| error.to_string())?.clone();
        command
            .query_async(&mut connection)
            .await
            .map_err(|error| error.to_string())
    }
}

impl Subject for Cached {
    fn read<'a>(&'a self, key: &'a str) -> Pending<'a, Result<Option<String>, String>> {
        Box::pin(async move { self.run(redis::cmd("GET").arg(name_of(key))).await })
    }

    fn read_many<'a>(
        &'a self,
        keys: &'a [&'a str],
    ) -> Pending<'a, Result<Vec<Option<String>>, String>> {
        Box::pin(async move {
            let names: Vec<String> = keys.iter().map(|key| name_of(key)).collect();
            self.run(redis::cmd("MGET").arg(names)).await
        })
    }

    fn write<'a>(&'a self, key: &'a str, value: &'a str) -> Pending<'a, Result<(), String>> {
        Box::pin(async move {
            self.run(redis::cmd("SET").arg(name_of(key)).arg(value))
                .await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_client_is_judged_by_the_same_scenarios() {
    let mut failed = Vec::new();
    for scenario in &scripted::SCENARIOS {
        let verdict = scripted::run(scenario, &RedisRs).await;
        println!("{}: {verdict:?}", scenario.0);
        if verdict.is_err() {
            failed.push(scenario.0);
        }
    }
    // Told of a change, it forgets; it does not forget when nobody is left to tell.
    assert!(
        !failed.contains(&"null push while nothing is asked"),
        "{failed:?}"
    );
    assert!(failed.contains(&"half-open connection"), "{failed:?}");
}
