//! A cluster through redis-rs's asynchronous client; cluster_clients.py has the nodes.

use std::env;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncTypedCommands, ProtocolVersion};

use crate::cluster::{play, KEYS};
use crate::{Ended, PATIENCE};

pub async fn run() -> Ended {
    let nodes = env::var("CLUSTER_NODES")?;
    for (name, version) in [
        ("redis-rs-async-2", ProtocolVersion::RESP2),
        ("redis-rs-async-3", ProtocolVersion::RESP3),
    ] {
        let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
        let client = ClusterClient::builder(nodes)
            .use_protocol(version)
            .build()?;
        goes_on(name, client.get_async_connection().await?).await?;
        println!("ok {name} goes on");
    }
    Ok(())
}

/// One connection lasts through all scenes.
async fn goes_on(name: &str, connection: ClusterConnection) -> Ended {
    let keys: Arc<[String]> = (0..KEYS).map(|number| format!("{name}:{number}")).collect();
    stores_and_finds_all(&connection, &keys, "first").await?;
    for scene in ["goes", "comes"] {
        play_while_it_writes(scene, &connection, &keys).await?;
        stores_and_finds_all(&connection, &keys, scene).await?;
    }
    for scene in ["dies", "returns"] {
        play_while_it_writes(scene, &connection, &keys).await?;
        at_last(|| stores_and_finds_all(&connection, &keys, scene)).await?;
    }
    Ok(())
}

async fn play_while_it_writes(
    scene: &'static str,
    connection: &ClusterConnection,
    keys: &Arc<[String]>,
) -> Ended {
    let is_over = Arc::new(AtomicBool::new(false));
    let stored = Arc::new(AtomicUsize::new(0));
    let writing = tokio::spawn(write(
        connection.clone(),
        Arc::clone(keys),
        Arc::clone(&is_over),
        Arc::clone(&stored),
    ));
    let played = tokio::task::spawn_blocking(move || play(scene)).await;
    // One answer that a dead node owes may take longer than the scene.
    let end = Instant::now() + PATIENCE;
    while stored.load(Ordering::Relaxed) == 0 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    played??;
    writing.await?;
    match stored.load(Ordering::Relaxed) {
        1.. => Ok(()),
        0 => Err("nothing was written".into()),
    }
}

/// Writes without a pause until it is over, and counts what was stored.
async fn write(
    mut connection: ClusterConnection,
    keys: Arc<[String]>,
    is_over: Arc<AtomicBool>,
    stored: Arc<AtomicUsize>,
) {
    for key in keys.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let outcome = connection.set(format!("written:{key}"), "written").await;
        stored.fetch_add(usize::from(outcome.is_ok()), Ordering::Relaxed);
    }
}

/// Tries until nothing fails: what a client has of a dead node it may find out first.
async fn at_last<F: Future<Output = Ended>>(attempt: impl Fn() -> F) -> Ended {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Err(_) if Instant::now() < end => tokio::time::sleep(Duration::from_millis(50)).await,
            outcome => return outcome,
        }
    }
}

/// One by one, and in batches of a slot's keys each: its pipelines are for one node.
async fn stores_and_finds_all(
    connection: &ClusterConnection,
    keys: &[String],
    value: &str,
) -> Ended {
    let mut connection = connection.clone();
    let (one, other) = keys.split_at(KEYS / 2);
    for key in one {
        connection.set(key, value).await?;
    }
    for key in other {
        let mut pipe = redis::pipe();
        pipe.set(key, value).ignore().get(key);
        let found: Vec<String> = pipe.query_async(&mut connection).await?;
        if found != [value] {
            return Err(format!("{key} is {found:?}").into());
        }
    }
    let mut found = 0;
    for key in keys {
        let seen = connection.get(key).await?;
        found += usize::from(seen.as_deref() == Some(value));
    }
    if found == KEYS {
        Ok(())
    } else {
        Err(format!("{found} of {KEYS} are found").into())
    }
}
