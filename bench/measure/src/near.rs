//! `cellar-bench near`: the near cache's local store beside other caches in the same process.
//!
//! Hits on one thread and on more, keys by Zipf drawn beforehand, all keys there: the caches take
//! turns in each round and hold the same values, so that a difference is the caches' own. Bytes for
//! each entry, each cache alone in a fresh process. Hits and misses on traces, bounded by entries:
//! a get that misses is followed by an insert.

mod subject;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use serde_json::{Value as Json, json};

pub(crate) use self::subject::CacheName;
use self::subject::{Subject, VALUE_BYTES, Value};
use crate::footprint::{growth_bytes, in_fresh_process, overhead_bytes};
use crate::measurement::Measurement;
use crate::race::{draws, take_turns};
use crate::replay::{Trace, read};
use crate::spread::Spread;
use cellar_load::{Error, Popularity, parse_count, share};

const RAW_BYTES: usize = size_of::<u64>() + VALUE_BYTES;
/// Room over the entries, so that a cache with uneven shards evicts none of them.
const ROOM_OF: u64 = 4;
/// Reads before the rounds that count.
const WARM_READS: usize = 200_000;
/// Caches that take turns, in their order, and whose memory is of interest.
const RACING: [CacheName; 6] = [
    CacheName::Cellar,
    CacheName::QuickCache,
    CacheName::CellarTtl,
    CacheName::CellarLru,
    CacheName::LruMutex,
    CacheName::Moka,
];
/// Caches whose choice of what to keep is of interest.
const CHOOSING: [CacheName; 4] = [
    CacheName::Cellar,
    CacheName::QuickCache,
    CacheName::Moka,
    CacheName::LruMutex,
];

/// Options of `cellar-bench near`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct NearArgs {
    /// Traces for the hit ratios: CSV as for replay
    #[arg(value_name = "TRACE")]
    #[serde(skip)]
    traces: Vec<PathBuf>,
    /// Entries of the speed and memory rows
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "50k"))]
    entries: u64,
    /// Popularity of the keys: the exponent of Zipf's law
    #[arg(long, default_value_t = 0.99)]
    zipf: f64,
    /// Reads of each thread in each round
    #[arg(long, default_value_t = 4_000_000)]
    #[arg(default_value_if("quick", "true", "200000"))]
    #[serde(rename = "operations_per_thread")]
    operations: usize,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    /// Sizes for the traces, in percent of their different keys
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,25")]
    percents: Vec<f64>,
}

impl Measurement for NearArgs {
    fn measure(&self) -> Result<Json, Error> {
        let args = self;
        let most = *args.threads.iter().max().unwrap_or(&0);
        if args.entries == 0 || args.rounds == 0 || most == 0 {
            let what = "--entries, --rounds and --threads are at least 1";
            return Err(Error::Usage(what.to_owned()));
        }
        let footprints = RACING.into_iter().map(|cache| {
            let growth_bytes = in_fresh_process("near", cache, args.entries)?;
            Ok(json!({
                "cache": cache,
                // The counts before the value and the allocator's own bytes are in it.
                "overhead_per_entry_bytes": overhead_bytes(growth_bytes, args.entries, RAW_BYTES),
            }))
        });
        Ok(json!({
            "footprints": footprints.collect::<Result<Json, Error>>()?,
            "speeds": speeds(args)?,
            "ratios": ratios(args)?,
        }))
    }
}

/// All caches on all numbers of threads.
fn speeds(args: &NearArgs) -> Result<Vec<Json>, Error> {
    let values: Vec<Arc<Value>> = (0..args.entries)
        .map(|_| Arc::new([1; VALUE_BYTES]))
        .collect();
    let caches = RACING.map(|name| name.build(args.entries + args.entries / ROOM_OF));
    for cache in &caches {
        (0..)
            .zip(&values)
            .for_each(|(key, value)| cache.insert(key, Arc::clone(value)));
        cache.settle();
    }
    let shared = caches.each_ref().map(|it| -> &dyn Subject<Value> { &**it });
    let read = |cache: &&dyn Subject<Value>, keys: &[u32], _: bool| {
        cache.reads(keys, |value| value[0] == 1)
    };
    let mut speeds = Vec::new();
    for &threads in &args.threads {
        let popularity = Popularity::Zipf(args.zipf);
        let keys = draws(popularity, args.entries, threads, args.operations, 1);
        let few: Vec<_> = keys
            .iter()
            .map(|it| it[..it.len().min(WARM_READS)].to_vec())
            .collect();
        take_turns(&shared, 1, &few, read)?;
        let found = take_turns(&shared, args.rounds, &keys, read)?;
        speeds.extend(RACING.into_iter().zip(found).map(|(cache, speed)| {
            json!({
                "cache": cache,
                "threads": threads,
                "hit_ns": Spread::of(speed.operation_ns),
                "hits_per_s": Spread::of(speed.per_wall_s),
            })
        }));
    }
    Ok(speeds)
}

/// Fills one cache; by how many bytes this process has grown.
pub(crate) fn growth_bytes_of(cache: CacheName, entries: u64) -> Result<u64, Error> {
    // A tenth more than fits, so that it is full and has evicted.
    let stored = 0..entries + entries / 10;
    let (growth_bytes, filled) = growth_bytes(|| {
        let filled = cache.build::<Value>(entries);
        stored
            .clone()
            .for_each(|key| filled.insert(key, Arc::new([1; VALUE_BYTES])));
        filled.settle();
        Ok(filled)
    })?;
    let held = stored.filter(|&key| filled.has(key)).count() as u64;
    if held.abs_diff(entries) > entries / 20 {
        return Err(Error::Wrong(format!(
            "{held} of {entries} entries are held"
        )));
    }
    Ok(growth_bytes)
}

/// All traces at all sizes.
fn ratios(args: &NearArgs) -> Result<Vec<Json>, Error> {
    let mut ratios = Vec::new();
    for path in &args.traces {
        let trace = read(path, 0.0)?;
        for &percent in &args.percents {
            let entries = ((trace.keys.len() as f64 * percent / 100.0) as u64).max(1);
            ratios.push(json!({
                "trace": trace.name,
                "percent": percent,
                "entries": entries,
                "hit_ratios": CHOOSING.map(|cache| hit_ratio(cache, &trace, entries)),
            }));
        }
    }
    Ok(ratios)
}

/// The hit ratio of one cache; sets store without reading before.
fn hit_ratio(cache: CacheName, trace: &Trace, entries: u64) -> f64 {
    let (cache, nothing) = (cache.build::<()>(entries), Arc::new(()));
    let (mut gets, mut hits) = (0, 0);
    for row in &trace.rows {
        let key = u64::from(row.key);
        gets += u64::from(!row.is_set);
        if !row.is_set && cache.has(key) {
            hits += 1;
        } else {
            cache.insert(key, Arc::clone(&nothing));
        }
    }
    share(hits, gets)
}
