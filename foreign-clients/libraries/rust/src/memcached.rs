//! Clients of memcached's protocol.

use std::collections::HashMap;

use crate::{Ended, address, show};

/// memcache: cache, counters, many keys.
pub fn memcache() -> Ended {
    let client = memcache::connect(format!("memcache://{}?timeout=10&protocol=ascii", address()))?;
    client.set("a", "one", 60)?;
    show("get", (client.get::<String>("a")?, client.get::<String>("none")?));
    client.set("n", 5, 60)?;
    show("count", (client.increment("n", 4)?, client.decrement("n", 1)?));
    let found: HashMap<String, (String, u32, Option<u64>)> = client.gets(&["a", "none", "n"])?;
    let (_, _, version) = found.get("n").cloned().ok_or("not found")?;
    show("many", (found.len(), client.cas("n", 6, 60, version.ok_or("no version")?)?));
    show("add", client.add("a", "two", 60).is_err());
    show("more", (client.append("a", "!")?, client.touch("a", 30)?, client.get::<String>("a")?));
    show("delete", (client.delete("a")?, client.delete("a")?));
    Ok(())
}

/// async-memcached: cache, counters.
pub async fn async_memcached() -> Ended {
    use async_memcached::{AsciiProtocol, Client};
    let mut client = Client::new(format!("tcp://{}", address())).await?;
    client.set("a", "one", Some(60), None).await?;
    let found = client.get("a").await?.and_then(|value| value.data);
    show("get", found.map(|data| String::from_utf8_lossy(&data).into_owned()));
    show("miss", client.get("none").await?.is_none());
    client.set("n", "5", None, None).await?;
    show("count", (client.increment("n", 4).await?, client.decrement("n", 1).await?));
    show("add", client.add("a", "two", None, None).await.is_err());
    client.delete("a").await?;
    show("deleted", client.get("a").await?.is_none());
    Ok(())
}
