//! `cellar-bench churn`: what deletes, overwrites and evictions leave behind, and what they cost.
//!
//! Three scenes, each with a fresh server on one processor and the load on another. *Reclaim*:
//! items are stored, deleted and overwritten by others of other sizes all the time; how much of
//! what is held is reclaimable? *Sizes*: a full cache whose values become larger; how many of the
//! larger ones are there? *Evicting*: stores into a full cache and into one with free memory; what
//! does a store that evicts wait for?

mod evicting;
mod reclaim;
mod sizes;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::memory::REDIS_POLICY;
use crate::peers::{CpuArgs, PeerArgs, some};
use cellar_load::{Error, Recipe, Wire, parse_count};

/// Options of `cellar-bench churn`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ChurnArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Items that are there all the time while others are stored, deleted and overwritten
    #[arg(long, default_value = "500k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "20k"))]
    items: u64,
    /// Requests each second: a third stores new items, a third deletes, a third overwrites
    #[arg(long, default_value = "10k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "3k"))]
    changes: u64,
    /// Seconds of them before the server is looked at, and then
    #[arg(long, default_value_t = 20)]
    #[arg(default_value_if("quick", "true", "1"))]
    warm_s: u64,
    #[arg(long, default_value_t = 50)]
    #[arg(default_value_if("quick", "true", "2"))]
    watched_s: u64,
    /// Seconds without a request after which it is looked at once more
    #[arg(long, default_value_t = 10)]
    #[arg(default_value_if("quick", "true", "1"))]
    rest_s: u64,
    /// Memory of each server in MiB while values change their size, and while stores evict
    #[arg(long, default_value_t = 64)]
    memory_mib: u64,
    /// Larger values that are stored again and again, and for how many seconds
    #[arg(long, default_value = "3000", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "500"))]
    larger: u64,
    #[arg(long, default_value_t = 15)]
    #[arg(default_value_if("quick", "true", "1"))]
    larger_s: u64,
    /// Stores each second into a full cache, and for how many seconds
    #[arg(long, default_value = "20k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "2k"))]
    stores: u64,
    #[arg(long, default_value_t = 20)]
    #[arg(default_value_if("quick", "true", "1"))]
    stores_s: u64,
    /// Connections of these stores
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Rounds of these stores over all servers
    #[arg(long, default_value_t = 3)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

impl Measurement for ChurnArgs {
    fn measure(&self) -> Result<Value, Error> {
        let recipes = self.recipes()?;
        let sizes = recipes.iter().map(|recipe| sizes::measure(self, recipe));
        Ok(json!({
            "reclaim": reclaim::measure(self)?,
            "sizes": sizes.collect::<Result<Value, _>>()?,
            "evicting": evicting::measure(self, &recipes)?,
        }))
    }
}

impl ChurnArgs {
    /// All servers, as caches.
    fn recipes(&self) -> Result<Vec<Recipe>, Error> {
        let resp = self.peers.of(Wire::Resp);
        let resp = resp.map(|it| it.with("", &REDIS_POLICY));
        let recipes = self.peers.all(Wire::Memcached)?;
        some(recipes.into_iter().chain(resp).collect())
    }
}
