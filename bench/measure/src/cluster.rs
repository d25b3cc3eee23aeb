//! `cellar-bench cluster`: what several servers that share the keys between them cost and gain.
//!
//! A simulation asks the server's own map and registrations what so many nodes come to: counts
//! alone. Then nodes are started here, listed in a file and registered in etcd, and asked beside a
//! server that is alone; one more comes, and one is killed.

mod simulation;
mod fleet; // nodes as processes
mod router; // a client that follows MOVED
mod cost; // what a request costs
mod change; // what clients notice

use cellar_cluster::registration::{LOOK, MARGIN, RENEWALS};
use cellar_config::settings::Settings;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::peers::{CellarArgs, CpuArgs, OFF};
use cellar_load::{Error, Ingredients, Recipe, Records, Wire, parse_count};
use fleet::Etcd;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const MEMORY_MIB: u64 = 256;

/// Options of `cellar-bench cluster`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    #[serde(skip)]
    cellar: CellarArgs,
    /// etcd's program, or off
    #[arg(long, value_name = "PATH", default_value = "etcd")]
    #[serde(skip)]
    etcd: String,
    /// Nodes of the clusters that are simulated
    #[arg(long, value_delimiter = ',', default_value = "3,5,10,30,100,300,1000")]
    #[arg(default_value_if("quick", "true", "3,10"))]
    sizes: Vec<usize>,
    /// Clusters of each size, whose nodes have other names
    #[arg(long, default_value_t = 10)]
    #[arg(default_value_if("quick", "true", "2"))]
    clusters: usize,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 7)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    /// Nodes that are killed, one after the other
    #[arg(long, default_value_t = 5)]
    #[arg(default_value_if("quick", "true", "1"))]
    deaths: usize,
    /// Seconds of each measurement of a request
    #[arg(long, default_value_t = 0.64)]
    #[arg(default_value_if("quick", "true", "0.05"))]
    #[serde(rename = "seconds_per_measurement")]
    seconds: f64,
    /// Seconds before a node comes or goes, and after
    #[arg(long, default_value_t = 3.0)]
    #[arg(default_value_if("quick", "true", "1"))]
    window: f64,
    /// Different keys
    #[arg(long, default_value = "200k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "3k"))]
    keys: u64,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

impl Measurement for ClusterArgs {
    fn measure(&self) -> Result<Value, Error> {
        let mut simulated = Vec::new();
        for nodes in &self.sizes {
            for is_mixed in [false, true] {
                eprintln!("{nodes} nodes are simulated");
                simulated.push(simulation::simulate(*nodes, is_mixed, self.clusters)?);
            }
        }
        let etcd = (self.etcd != OFF).then(|| Etcd::start(&self.etcd));
        let etcd = etcd.transpose()?;
        let etcd = etcd.as_ref();
        let mut misses = Vec::new();
        for source in std::iter::once(None).chain(etcd.map(Some)) {
            for count in [3, 4] {
                misses.push(change::misses(self, count, source)?);
            }
        }
        Ok(json!({
            "lease_ms": Settings::default().cluster_lease_ms,
            "margin_part": MARGIN,
            "renewals": RENEWALS,
            "look_s": LOOK.as_secs(),
            "simulated": simulated,
            "misses": misses,
            "tails": change::tails(self)?,
            "deaths": etcd.map(|etcd| change::deaths(self, etcd)).transpose()?,
            "map": cost::of_map(self)?,
            "costs": cost::measure(self, etcd)?,
        }))
    }
}

impl ClusterArgs {
    fn recipe(&self) -> Result<Recipe, Error> {
        let recipe = self.cellar.recipe(Wire::Resp)?;
        recipe
            .ok_or_else(|| Error::Usage("without --cellar there is nothing to measure".to_owned()))
    }

    fn serving(&self) -> Ingredients {
        self.cpus.serving(MEMORY_MIB)
    }

    fn records(&self) -> Result<Records, Error> {
        Records::new(self.keys, KEY_BYTES, VALUE_BYTES)
    }
}
