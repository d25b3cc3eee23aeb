//! Clients of Redis's protocol.

use std::collections::HashMap;

use crate::{Ended, PATIENCE, show, url};

/// redis-rs: cache, pipelines, transactions, scripts, subscriptions, scan.
pub fn redis_rs() -> Ended {
    use redis::Commands;
    let client = redis::Client::open(url())?;
    let mut r = client.get_connection()?;
    show("set", (r.set_ex::<_, _, String>("a", 1, 60)?, r.incr::<_, _, i64>("a", 4)?));
    show("many", r.mget::<_, Vec<Option<String>>>(&["a", "none"])?);
    show("hash", r.hset::<_, _, _, i64>("h", "f", "v")?);
    show("all", r.hgetall::<_, HashMap<String, String>>("h")?);
    let both: (i64, i64) = redis::pipe().atomic().incr("n", 1).incr("n", 1).query(&mut r)?;
    show("transaction", both);
    let script = redis::Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    show("script", script.key("n").arg(10).invoke::<i64>(&mut r)?);
    let mut keys = r.scan_match::<_, String>("?")?.collect::<Result<Vec<_>, _>>()?;
    keys.sort();
    show("scan", keys);
    let mut other = client.get_connection()?;
    let mut listener = other.as_pubsub();
    listener.subscribe("news")?;
    r.publish::<_, _, i64>("news", "hello")?;
    show("message", listener.get_message()?.get_payload::<String>()?);
    Ok(())
}

/// redis-rs on tokio, with a connection that comes back by itself.
pub async fn redis_rs_async() -> Ended {
    use redis::AsyncCommands;
    let client = redis::Client::open(format!("{}/?protocol=resp3", url()))?;
    // By itself it waits for half a second; a busy machine may take longer.
    let patient = redis::aio::ConnectionManagerConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let mut r = client.get_connection_manager_with_config(patient).await?;
    show("set", r.set_ex::<_, _, String>("a", 1, 60).await?);
    show("incr", r.incr::<_, _, i64>("a", 4).await?);
    let all: (i64, String) = redis::pipe().incr("a", 1).get("a").query_async(&mut r).await?;
    show("pipeline", all);
    r.hset::<_, _, _, i64>("h", "f", "v").await?;
    show("hash", r.hgetall::<_, HashMap<String, String>>("h").await?);
    Ok(())
}

/// deadpool-redis: a pool.
pub async fn deadpool() -> Ended {
    use deadpool_redis::redis::AsyncCommands;
    // By itself it waits for half a second; a busy machine may take longer.
    let patient = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let manager = deadpool_redis::Manager::new_with_config(url(), patient)?;
    let pool = deadpool_redis::Pool::builder(manager).build()?;
    for _ in 0..3 {
        let mut r = pool.get().await?;
        show("incr", r.incr::<_, _, i64>("n", 1).await?);
    }
    Ok(())
}

/// bb8-redis: a pool.
pub async fn bb8() -> Ended {
    use bb8_redis::redis::AsyncCommands;
    let manager = bb8_redis::RedisConnectionManager::new(url())?;
    let pool = bb8_redis::bb8::Pool::builder().max_size(2).build(manager).await?;
    for _ in 0..3 {
        let mut r = pool.get().await?;
        show("incr", r.incr::<_, _, i64>("n", 1).await?);
    }
    Ok(())
}

/// fred: cache, hashes, pipelines, transactions, scripts, subscriptions.
pub async fn fred() -> Ended {
    use fred::prelude::*;
    let r = Builder::from_config(Config::from_url(&url())?).build()?;
    r.init().await?;
    r.set::<(), _, _>("a", 1, Some(Expiration::EX(60)), None, false).await?;
    show("incr", r.incr_by::<i64, _>("a", 4).await?);
    show("many", r.mget::<Vec<Option<String>>, _>(vec!["a", "none"]).await?);
    r.hset::<(), _, _>("h", ("f", "v")).await?;
    show("hash", r.hgetall::<HashMap<String, String>, _>("h").await?);
    let pipe = r.pipeline();
    pipe.incr::<(), _>("n").await?;
    pipe.incr::<(), _>("n").await?;
    show("pipeline", pipe.all::<Vec<i64>>().await?);
    let tx = r.multi();
    tx.incr::<(), _>("n").await?;
    tx.get::<(), _>("n").await?;
    show("transaction", tx.exec::<(i64, String)>(true).await?);
    show("script", r.eval::<String, _, _, _>("return ARGV[1]", "k", "v").await?);
    r.quit().await?;
    Ok(())
}

/// rustis: cache, hashes, pipelines.
pub async fn rustis() -> Ended {
    use rustis::client::{BatchPreparedCommand, Client};
    use rustis::commands::{HashCommands, StringCommands};
    let r = Client::connect(crate::address()).await?;
    r.set("a", 1).await?;
    show("incr", r.incrby("a", 4).await?);
    let value: Option<String> = r.get("none").await?;
    show("miss", value);
    r.hset("h", [("f", "v")]).await?;
    let all: HashMap<String, String> = r.hgetall("h").await?;
    show("hash", all);
    let mut pipe = r.create_pipeline();
    pipe.incr("n").queue();
    pipe.incr("n").queue();
    show("pipeline", pipe.execute::<(i64, i64)>().await?);
    Ok(())
}
