//! One load for many processes: of all that miss a key at once, one makes it, the others read it.
//!
//! Start several at the same time, over Cellar or memcached:
//!
//! ```text
//! for number in 1 2 3 4 5; do
//!     cargo run --package cellar-near --example load_once -- redis://127.0.0.1:6379 report &
//! done
//! ```
//!
//! With a third argument the loader says that it runs, and makes that value when a line comes in.

use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::{Memcached, Redis, Remote};
use cellar_near::{Error, Near};

/// How long it takes to make a value.
const WORK: Duration = Duration::from_millis(500);

/// A cache over Redis's protocol, over memcached's for `memcached://host:port`, or over a cluster
/// of whose nodes several are named, with commas between.
fn open(address: &str) -> Result<Near<String, String>, Error> {
    let builder = match address.strip_prefix("memcached://") {
        Some(address) => Near::builder(Remote::new(Memcached::open(address), Plain)),
        None if address.contains(',') => {
            Near::builder(Remote::new(Redis::cluster(address.split(','))?, Plain))
        }
        None => Near::builder(Remote::new(Redis::open(address)?, Plain)),
    };
    Ok(builder
        .local_ttl(Duration::from_secs(10))
        .origin_ttl(Duration::from_secs(60))
        .build())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let address = args.next();
    let near = open(address.as_deref().unwrap_or("redis://127.0.0.1:6379"))?;
    let key = args.next().unwrap_or_else(|| "report".to_owned());
    let process = std::process::id();
    let given = args.next();
    let loader = move || async move {
        let Some(given) = given else {
            tokio::time::sleep(WORK).await;
            return Ok(Some(format!("made by process {process}")));
        };
        println!("loading");
        let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
        line.await.map_err(Error::loader)?;
        Ok::<_, Error>(Some(given))
    };
    if let Some(value) = near.get_or_load(&key, loader).await? {
        println!("{}", *value);
    }
    Ok(())
}
