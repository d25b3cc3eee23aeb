//! `cellar-bench collections`: what collections and long strings cost, beside a peer like Redis.
//!
//! Both servers run on one processor with one thread each, the load on another. Processor time of
//! the servers and their memory are compared, so what the load costs does not matter; where waits
//! are, they are told as such.

mod connection;
mod request;
mod contestant;
mod matrix;
mod memory;
mod beside;
mod large;
mod programs;
mod redis_benchmark;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::peers::{CpuArgs, OFF, PeerArgs, some};
use cellar_load::{Error, Recipe, Wire, parse_count, usage};
use contestant::Contestant;
use matrix::Extent;

/// Options of `cellar-bench collections`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct CollectionsArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// What is measured
    #[arg(long, value_delimiter = ',', value_enum)]
    #[arg(default_value = "matrix,memory,redis-benchmark,beside,large,programs")]
    sections: Vec<Section>,
    /// Memory of each server in MiB
    #[arg(long, default_value_t = 4096)]
    memory_mib: u64,
    /// Numbers of elements; of a string, bytes
    #[arg(long, value_delimiter = ',', value_parser = parse_count)]
    #[arg(
        default_value = "10,1k,100k,1M",
        default_value_if("quick", "true", "10,300")
    )]
    elements: Vec<u64>,
    /// Lengths of members and values, at least 10
    #[arg(long, value_delimiter = ',', default_value = "10,100")]
    value_bytes: Vec<usize>,
    /// Requests of each kind in a round
    #[arg(long, default_value = "10k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "40"))]
    requests: u64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    /// A part of the names of requests or families of the matrix
    #[arg(long, default_value = "")]
    only: String,
    /// Members of the set that is built, emptied and evicted
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "20k"))]
    members: u64,
    /// By how much the data of the other sections are made smaller
    #[arg(long, default_value_t = 1)]
    #[arg(default_value_if("quick", "true", "1000"))]
    divisor: u64,
    /// redis-benchmark, or off
    #[arg(long, value_name = "PATH", default_value = "redis-benchmark")]
    #[serde(skip)]
    redis_benchmark: String,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Section {
    /// Processor time of each command at each size
    Matrix,
    /// Resident bytes of an element
    Memory,
    /// redis-benchmark over all its tests
    RedisBenchmark,
    /// A GET beside writes to a large collection
    Beside,
    /// The longest waits while a very large set is built and freed
    Large,
    /// What applications do with large collections
    Programs,
}

impl Measurement for CollectionsArgs {
    fn measure(&self) -> Result<Value, Error> {
        let all = some(self.peers.all(Wire::Resp)?)?;
        // Of several peers the one that was named last.
        let peer = all.len().saturating_sub(1).max(1);
        let recipes: Vec<Recipe> = all.iter().take(1).chain(all.get(peer)).cloned().collect();
        usage::bind(self.cpus.load_cpu).map_err(|error| Error::system("binding", error))?;
        let start = |recipe| Contestant::start(recipe, self.cpus, self.memory_mib);
        let servers = recipes.iter().map(start);
        let mut servers = servers.collect::<Result<Vec<_>, _>>()?;
        let versions = servers.iter().map(|it| it.server.version());
        let versions = versions.collect::<Result<Vec<_>, _>>()?;
        let mut figures = json!({
            "servers": recipes.iter().map(|it| &it.name).collect::<Vec<_>>(),
            "versions": versions,
            "started": recipes.iter().map(Recipe::shown).collect::<Vec<_>>(),
        });
        for section in Section::value_variants() {
            let name = section.to_possible_value();
            let name = name.map_or(String::new(), |it| it.get_name().replace('-', "_"));
            figures[name] = match self.sections.contains(section) {
                true => self.section(*section, &recipes, &mut servers)?,
                false => Value::Null,
            };
        }
        Ok(figures)
    }
}

impl CollectionsArgs {
    fn section(
        &self,
        section: Section,
        recipes: &[Recipe],
        servers: &mut [Contestant],
    ) -> Result<Value, Error> {
        let (rounds, divisor) = (self.rounds, self.divisor.max(1));
        match section {
            Section::Matrix => matrix::measure(
                Extent {
                    elements: &self.elements,
                    value_bytes: &self.value_bytes,
                    requests: self.requests,
                    rounds,
                    only: &self.only,
                },
                servers,
            ),
            Section::Memory => memory::measure(recipes, self.cpus, self.memory_mib, divisor),
            Section::RedisBenchmark if self.redis_benchmark == OFF => Ok(Value::Null),
            Section::RedisBenchmark => {
                let requests = (100_000 / divisor).max(1_000);
                redis_benchmark::measure(&self.redis_benchmark, servers, requests, rounds)
            }
            Section::Beside => beside::measure(servers, 1_000_000 / divisor, self.requests, rounds),
            Section::Large => large::measure(&recipes[0], self.cpus, self.members),
            Section::Programs => programs::measure(servers, self.requests, rounds, divisor),
        }
    }
}
