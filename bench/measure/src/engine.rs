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
use serde_json::{Value, json};

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

impl Measurement for EngineArgs {
    fn measure(&self) -> Result<Value, Error> {
        let memory = self.footprint()?;
        let peers_memory = PEERS.into_iter().map(|cache| {
            let growth_bytes = in_fresh_process("engine", cache, self.memory_items)?;
            Ok(json!({
                "cache": cache,
                "rss_growth_bytes": growth_bytes,
                // The counts before the value and the allocator's own bytes are in it.
                "overhead_per_item_bytes": self.overhead_bytes(growth_bytes),
            }))
        });
        Ok(json!({
            "memory": memory,
            "peers_memory": peers_memory.collect::<Result<Value, Error>>()?,
            "rows": self.rows()?,
        }))
    }
}

impl EngineArgs {
    fn cache(&self) -> Result<CellarCache, Error> {
        let threads = self.threads.iter().copied().max().unwrap_or(1).max(1);
        CellarCache::new(self.memory_mib, threads, self.value_bytes)
    }

    /// Measures memory; nothing large may have been freed in this process before.
    fn footprint(&self) -> Result<Value, Error> {
        let items = self.memory_items;
        let records = Records::new(items, MEMORY_KEY_BYTES, MEMORY_VALUE_BYTES)?;
        let ttl = MEMORY_TTL.parse::<TtlMix>().map_err(Error::Usage)?;
        let (growth_bytes, filled) = growth_bytes(|| Filled::new(self.cache()?, records, &ttl))?;
        filled.check()?;
        Ok(json!({
            "items": items,
            "key_bytes": MEMORY_KEY_BYTES,
            "value_bytes": MEMORY_VALUE_BYTES,
            "ttl_s": MEMORY_TTL,
            "rss_growth_bytes": growth_bytes,
            "overhead_per_item_bytes": self.overhead_bytes(growth_bytes),
            "inserts_per_s": items as f64 / seconds(filled.fill_ns),
        }))
    }

    fn overhead_bytes(&self, growth_bytes: u64) -> f64 {
        overhead_bytes(growth_bytes, self.memory_items, MEMORY_RAW_BYTES)
    }

    /// All operations on all numbers of threads; in each round all caches take turns.
    fn rows(&self) -> Result<Vec<Value>, Error> {
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
                    rows.extend(able.iter().zip(speeds).map(|(cache, speed)| {
                        json!({
                            "cache": cache.name(),
                            "operation": name,
                            "distribution": popularity.to_string(),
                            "threads": threads,
                            "operations_per_thread_cpu_s": speed.per_cpu_s(),
                            "operations_per_wall_s": Spread::of(speed.per_wall_s),
                        })
                    }));
                }
            }
        }
        Ok(rows)
    }
}
