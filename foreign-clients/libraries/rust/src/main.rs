//! Programs of Rust libraries: the library's name is the argument, the server's address is in HOST
//! and PORT. `cluster` is the program of the suite of that name.

mod cluster;
mod cluster_async;
mod memcached;
mod resp;

use std::env;
use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

/// What a program ends with.
pub type Ended = Result<(), Box<dyn Error + Send + Sync>>;

/// How long a busy machine may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The server's host and port.
pub fn address() -> String {
    let part = |name| env::var(name).unwrap_or_default();
    format!("{}:{}", part("HOST"), part("PORT"))
}

/// The server's address as a URL.
pub fn url() -> String {
    format!("redis://{}", address())
}

/// Prints one line of the program's result.
pub fn show(what: &str, values: impl Debug) {
    println!("{what}: {values:?}");
}

#[tokio::main]
async fn main() -> Ended {
    match env::args().nth(1).unwrap_or_default().as_str() {
        "redis-rs" => resp::redis_rs(),
        "redis-rs async" => resp::redis_rs_async().await,
        "fred" => resp::fred().await,
        "rustis" => resp::rustis().await,
        "deadpool-redis" => resp::deadpool().await,
        "bb8-redis" => resp::bb8().await,
        "memcache" => memcached::memcache(),
        "async-memcached" => memcached::async_memcached().await,
        "cluster" => {
            tokio::task::spawn_blocking(cluster::run).await??;
            cluster_async::run().await
        }
        name => Err(format!("there is no program of {name}").into()),
    }
}
