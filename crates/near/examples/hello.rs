//! The smallest near cache in front of a server: reads, writes, and what it counts.
//!
//! `cargo run --package cellar-near --example hello -- redis://127.0.0.1:6379`

use std::time::Duration;

use cellar_near::codec::Json;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Error, Near};

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct User {
    name: String,
    tags: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1);
    let address = address.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let origin = Remote::new(Redis::open(address)?, Json).prefix("user:");
    let users: Near<u64, User> = Near::builder(origin)
        .entries_max(100_000)
        .negative_ttl(Duration::from_secs(30))
        .origin_ttl(Duration::from_secs(600))
        .build();

    let ada = User {
        name: "Ada".to_owned(),
        tags: vec!["mathematics".to_owned()],
    };
    users.set(&7, &ada).await?;
    for _ in 0..3 {
        let user = users.get(&7).await?;
        println!("{:?}", user.as_deref());
    }
    let missing = users.get_or_load(&8, || async {
        Ok::<_, Error>(Some(User {
            name: "Grace".to_owned(),
            tags: Vec::new(),
        }))
    });
    println!("{:?}", missing.await?.as_deref());
    println!("{:?}", users.stats());
    Ok(())
}
