//! `cellar-bench engine`: the engine in process, without sockets and protocol, beside caches of the
//! Rust registry that keep bytes.
//!
//! Single gets, batched gets and sets on one thread and on two, keys drawn beforehand so that the
//! draw costs nothing. Counted in: making the key's bytes, hashing, the shard's lock, copying the
//! value out. Sets overwrite with values of the same length. Like a server, the threads read the
//! time once per many operations, not in each.
//!
//! Before it, in fresh processes, the memory an item takes over key and value.

mod subject;

use clap::Args;
use serde::Serialize;

use self::subject::{CellarCache, Filled, FilledCache, OPERATIONS, PEERS};
pub(crate) use self::subject::{PeerName, growth_bytes_of};
use crate::footprint::{growth_bytes, in_fresh_process, overhead_bytes};
use crate::measurement::Measurement;
use crate::race::{draws, take_turns};
use crate::spread::Spread;
use cellar_load::{Error, Popularity, Records, TtlMix, parse_count, seconds};

const POPULARITIES: [Popularity; 2] = [Popularity::Zipf(0.99), Popularity::Uniform];
const MEMORY_KEY_BYTES: usize = 16;
const MEMORY_VALUE_BYTES: usize = 32;
const MEMORY_RAW_BYTES: usize = MEMORY_KEY_BYTES + MEMORY_VALUE_BYTES;
const MEMORY_TTL: &str = "30m..2h";

/// Options of `cellar-bench engine`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct EngineArgs {
    /// Items in the cache
    #[arg(long, default_value = "2M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "200k"))]
    items: u64,
    /// Length of the keys
    #[arg(long, default_value_t = 20)]
    key_bytes: usize,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Operations of each measurement and thread
    #[arg(long, default_value_t = 4_000_000)]
    #[arg(default_value_if("quick", "true", "500000"))]
    #[serde(rename = "operations_per_thread")]
    operations: usize,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    /// Items of the memory row
    #[arg(long, default_value = "4M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "200k"))]
    memory_items: u64,
    /// Memory of the cache in MiB
    #[arg(long, default_value_t = 1024)]
    memory_mib: usize,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct EngineOutcome {
    #[serde(flatten)]
    args: EngineArgs,
    rows: Vec<Throughput>,
    memory: Footprint,
    peers_memory: Vec<PeerFootprint>,
}

/// One operation, distribution and number of threads of one cache.
#[derive(Debug, Serialize)]
struct Throughput {
    cache: &'static str,
    operation: &'static str,
    distribution: String,
    threads: usize,
    operations_per_thread_cpu_s: Spread,
    operations_per_wall_s: Spread,
}

/// What an item takes.
#[derive(Debug, Serialize)]
struct Footprint {
    items: u64,
    key_bytes: usize,
    value_bytes: usize,
    ttl_s: &'static str,
    rss_growth_bytes: u64,
    overhead_per_item_bytes: f64,
    inserts_per_s: f64,
}

/// What an item takes in a peer.
#[derive(Debug, Serialize)]
struct PeerFootprint {
    cache: PeerName,
    rss_growth_bytes: u64,
    /// The counts before the value and the allocator's own bytes are in it.
    overhead_per_item_bytes: f64,
}

impl Measurement for EngineArgs {
    type Outcome = EngineOutcome;

    fn measure(&self) -> Result<EngineOutcome, Error> {
        let (args, items) = (self.clone(), self.memory_items);
        let memory = args.footprint()?;
        let peers_memory = PEERS.into_iter().map(|cache| {
            let growth_bytes = in_fresh_process("engine", cache, items)?;
            Ok(PeerFootprint {
                cache,
                rss_growth_bytes: growth_bytes,
                overhead_per_item_bytes: overhead_bytes(growth_bytes, items, MEMORY_RAW_BYTES),
            })
        });
        Ok(EngineOutcome {
            memory,
            peers_memory: peers_memory.collect::<Result<_, Error>>()?,
            rows: args.rows()?,
            args,
        })
    }
}

impl EngineArgs {
    fn cache(&self) -> Result<CellarCache, Error> {
        let threads = self.threads.iter().copied().max().unwrap_or(1).max(1);
        CellarCache::new(self.memory_mib, threads, self.value_bytes)
    }

    /// Measures memory; nothing large may have been freed in this process before.
    fn footprint(&self) -> Result<Footprint, Error> {
        let items = self.memory_items;
        let records = Records::new(items, MEMORY_KEY_BYTES, MEMORY_VALUE_BYTES)?;
        let ttl = MEMORY_TTL.parse::<TtlMix>().map_err(Error::Usage)?;
        let (growth_bytes, filled) = growth_bytes(|| Filled::new(self.cache()?, records, &ttl))?;
        filled.check()?;
        Ok(Footprint {
            items,
            key_bytes: MEMORY_KEY_BYTES,
            value_bytes: MEMORY_VALUE_BYTES,
            ttl_s: MEMORY_TTL,
            rss_growth_bytes: growth_bytes,
            overhead_per_item_bytes: overhead_bytes(growth_bytes, items, MEMORY_RAW_BYTES),
            inserts_per_s: items as f64 / seconds(filled.fill_ns),
        })
    }

    /// All operations on all numbers of threads; in each round all caches take turns.
    fn rows(&self) -> Result<Vec<Throughput>, Error> {
        let records = Records::new(self.items, self.key_bytes, self.value_bytes)?;
        let ttl = TtlMix::unlimited();
        let mut subjects: Vec<Box<dyn FilledCache>> = Vec::new();
        subjects.push(Box::new(Filled::new(self.cache()?, records, &ttl)?));
        for peer in PEERS {
            subjects.push(peer.filled(records)?);
        }
        subjects.iter().try_for_each(|it| it.check())?;
        let mut rows = Vec::new();
        for &threads in &self.threads {
            for popularity in POPULARITIES {
                // Whole batches only.
                let each = self.operations / 32 * 32;
                let draws = draws(popularity, self.items, threads, each, 100);
                for (operation, name) in OPERATIONS {
                    let all = subjects.iter().map(|it| -> &dyn FilledCache { &**it });
                    let able: Vec<_> = all.filter(|it| it.can(operation)).collect();
                    let speeds =
                        take_turns(&able, self.rounds, &draws, |cache, draws, is_first| {
                            cache.run(operation, draws, is_first)
                        })?;
                    rows.extend(able.iter().zip(speeds).map(|(cache, speed)| Throughput {
                        cache: cache.name(),
                        operation: name,
                        distribution: popularity.to_string(),
                        threads,
                        operations_per_thread_cpu_s: speed.per_cpu_s(),
                        operations_per_wall_s: Spread::of(speed.per_wall_s),
                    }));
                }
            }
        }
        Ok(rows)
    }
}
