//! `cellar-bench memory`: how much more than its `--memory` a server occupies, and how much of what
//! it occupies is its users' data.
//!
//! Each scenario runs against a fresh server: it stores more than fits, in the way that is
//! hard on some allocator, or keeps many connections open. The peak of the process's resident
//! memory counts. Afterwards every key is read back, so that items and bytes held are what a client
//! finds, not what a server says.

pub(crate) mod client;
mod scenario;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::peers::{PeerArgs, some};
use cellar_load::{Error, Ingredients, Recipe, Wire, share};
use scenario::{SCENARIOS, Scenario};

/// Memory that Cellar promises to stay within beside `--memory`, and for each connection.
const BASE_BYTES: u64 = 16 << 20;
const CONNECTION_BYTES: u64 = 64 << 10;
/// Threads of each server.
const THREADS: usize = 2;

/// Options of `cellar-bench memory`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Memory of each server in MiB
    #[arg(long, default_value_t = 256)]
    #[arg(default_value_if("quick", "true", "32"))]
    memory_mib: u64,
}

/// redis-server as a cache: the least used leave when memory is full.
pub(crate) const REDIS_POLICY: [&str; 2] = ["--maxmemory-policy", "allkeys-lru"];

impl Measurement for MemoryArgs {
    fn measure(&self) -> Result<Value, Error> {
        let peers = &self.peers;
        let resp = peers.of(Wire::Resp).map(|it| it.with("", &REDIS_POLICY));
        let recipes = peers.all(Wire::Memcached)?.into_iter();
        let recipes: Vec<Recipe> = some(recipes.chain(resp).collect())?;
        let mut rows = Vec::new();
        for scenario in &SCENARIOS {
            for recipe in &recipes {
                let own_mib = scenario.memory_mib.unwrap_or(self.memory_mib);
                rows.push(measure(scenario, recipe, own_mib.min(self.memory_mib))?);
            }
        }
        Ok(json!({ "rows": rows }))
    }
}

fn measure(scenario: &Scenario, recipe: &Recipe, memory_mib: u64) -> Result<Value, Error> {
    let with = Ingredients {
        threads: THREADS,
        ..Ingredients::of(memory_mib)
    };
    let server = recipe.start(with)?;
    let version = server.version()?;
    let memory_bytes = memory_mib << 20;
    let done = scenario.run(&server, memory_bytes)?;
    let (peak_rss_bytes, rss_bytes) = (server.rss_peak_bytes()?, server.rss_bytes()?);
    let (items_held, user_bytes_held) = done.read_back(&server)?;
    let connections = done.connections();
    // Negative while the memory was not used up.
    let beside_bytes = peak_rss_bytes.cast_signed() - memory_bytes.cast_signed();
    let (name, server) = (scenario.name, &recipe.name);
    let beside_mib = beside_bytes >> 20;
    eprintln!("{name:18} {server:12} {beside_mib:+} MiB beside --memory");
    Ok(json!({
        "scenario": name,
        "server": server,
        "version": version,
        "memory_bytes": memory_bytes,
        "connections": connections,
        "peak_rss_bytes": peak_rss_bytes,
        "peak_beside_memory_bytes": beside_bytes,
        // What Cellar promises at most beside its memory with so many connections.
        "promised_bytes": BASE_BYTES + connections as u64 * CONNECTION_BYTES,
        "items_refused": done.refused,
        // What a read finds at the end, with the bytes of keys and values.
        "items_held": items_held,
        "user_bytes_held": user_bytes_held,
        "efficiency": share(user_bytes_held, rss_bytes),
    }))
}
