//! A near cache over a Redis Cluster: what one cache writes, another one holds and hears of.
//!
//! `cargo run --package cellar-near --example cluster -- redis://127.0.0.1:7000 ...`

use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Error, Near};

const KEYS: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(10);

type Cache = Near<u64, String>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let nodes: Vec<String> = std::env::args().skip(1).collect();
    let (reader, writer) = (open(&nodes)?, open(&nodes)?);
    write(&writer, "old").await?;
    read_until_all_are(&reader, "old").await?;
    let in_memory = (0..KEYS).filter(|key| reader.peek(key).is_some()).count();
    let before = reader.stats().hits;
    read_until_all_are(&reader, "old").await?;
    let hits = reader.stats().hits - before;
    println!("{in_memory} keys in memory, {hits} reads answered from it");
    write(&writer, "new").await?;
    read_until_all_are(&reader, "new").await?;
    println!("{KEYS} changes told");
    Ok(())
}

fn open(nodes: &[String]) -> Result<Cache, Error> {
    let origin = Remote::new(Redis::cluster(nodes.iter().map(String::as_str))?, Plain);
    let builder = Near::builder(origin.prefix("example:")).entries_max(2 * KEYS);
    Ok(builder.build())
}

async fn write(cache: &Cache, value: &str) -> Result<(), Error> {
    for key in 0..KEYS {
        cache.set(&key, &value.to_owned()).await?;
    }
    Ok(())
}

/// Reads every key until it has the value.
async fn read_until_all_are(cache: &Cache, value: &str) -> Result<(), Error> {
    let reading = async {
        for key in 0..KEYS {
            while cache.get(&key).await?.as_deref().map(String::as_str) != Some(value) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        Ok(())
    };
    let all = tokio::time::timeout(PATIENCE, reading).await;
    all.expect("every key gets its value in time")
}
