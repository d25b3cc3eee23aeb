//! `cellar-bench engine`: the engine in process, without sockets and protocol, beside caches of the
//! Rust registry that keep bytes.
//!
//! Single gets, batched gets and sets on one thread and on two, keys drawn beforehand so that the
//! draw costs nothing. Counted in: making the key's bytes, hashing, the shard's lock, copying the
//! value out. Sets overwrite with values of the same length. Like a server, the threads read the
//! time once per many operations, not in each.
//!
//! Before it, in fresh processes, the memory an item takes over key and value.

mod peers;

use std::hint::black_box;
use std::sync::Arc;

use cellar_engine::{Cache, Clock, Config, Instant, Key, ManualClock, SetOptions, Upkeep};
use clap::Args;
use serde::Serialize;

pub(crate) use self::peers::PeerName;
pub(crate) use self::peers::growth_bytes_of;
use self::peers::{Peer, PeerFootprint};
use crate::footprint::{growth_bytes, overhead_bytes};
use crate::measurement::Measurement;
use crate::race::race;
use crate::spread::Spread;
use cellar_load::clock::{now_ns, seconds};
use cellar_load::error::Error;
use cellar_load::popularity::{Picker, Popularity, Scatter};
use cellar_load::quantity::{ByteRange, TtlMix, parse_count};
use cellar_load::random::Random;
use cellar_load::record::Records;

const POPULARITIES: [Popularity; 2] = [Popularity::Zipf(0.99), Popularity::Uniform];
const MEMORY_KEY_BYTES: usize = 16;
const MEMORY_VALUE_BYTES: usize = 32;
const MEMORY_RAW_BYTES: usize = MEMORY_KEY_BYTES + MEMORY_VALUE_BYTES;
const MEMORY_TTL: &str = "30m..2h";
/// Items of the speed rows live this long.
const TTL_MS: u64 = 3_600_000;
/// The time is read, and the cache's upkeep done, once in so many operations.
const OPERATIONS_PER_TICK: usize = 4096;
const QUICK_ITEMS: u64 = 200_000;
const QUICK_OPERATIONS: usize = 500_000;

/// Options of `cellar-bench engine`.
#[derive(Args, Clone, Debug)]
pub(crate) struct EngineArgs {
    /// Items in the cache
    #[arg(long, default_value = "2M", value_parser = parse_count)]
    items: u64,
    /// Length of the keys
    #[arg(long, default_value_t = 20)]
    key_bytes: usize,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Operations of each measurement and thread
    #[arg(long, default_value_t = 4_000_000)]
    operations: usize,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Items of the memory row; 0 leaves it out
    #[arg(long, default_value = "4M", value_parser = parse_count)]
    memory_items: u64,
    /// Memory of the cache in MiB
    #[arg(long, default_value_t = 1024)]
    memory_mib: usize,
    /// One round over 200 k items: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
}

/// What is done to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Get,
    GetMany16,
    GetMany32,
    Set,
}

const OPERATIONS: [Operation; 4] = [
    Operation::Get,
    Operation::GetMany16,
    Operation::GetMany32,
    Operation::Set,
];

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::GetMany16 => "get_many 16",
            Operation::GetMany32 => "get_many 32",
            Operation::Set => "set",
        }
    }
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct EngineOutcome {
    items: u64,
    key_bytes: usize,
    value_bytes: usize,
    operations_per_thread: usize,
    rounds: usize,
    rows: Vec<Throughput>,
    memory: Option<Footprint>,
    peers_memory: Vec<PeerFootprint>,
}

/// One operation, distribution and number of threads of one cache.
#[derive(Debug, Serialize)]
struct Throughput {
    cache: String,
    operation: String,
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
    ttl_s: String,
    rss_growth_bytes: u64,
    overhead_per_item_bytes: f64,
    inserts_per_s: f64,
}

/// How the engine is called in tables.
const OWN_NAME: &str = "cellar-engine";

/// A cache that holds all items.
trait FilledCache: Sync {
    /// Its name in tables.
    fn name(&self) -> &str;
    /// What it can do.
    fn operations(&self) -> &[Operation];
    /// Does an operation with each of these records, and how many it succeeded with; the first of
    /// the threads looks at the time as well.
    fn run(&self, operation: Operation, draws: &[u32], is_first: bool) -> u64;
}

/// A cache, its clock and what it is filled with.
struct CellarCache {
    cache: Cache,
    clock: Arc<ManualClock>,
    records: Records,
    started_ns: u64,
}

impl Measurement for EngineArgs {
    type Outcome = EngineOutcome;

    fn measure(&self) -> Result<EngineOutcome, Error> {
        let mut args = self.clone();
        if args.quick {
            args.rounds = 1;
            args.items = args.items.min(QUICK_ITEMS);
            args.memory_items = args.memory_items.min(QUICK_ITEMS);
            args.operations = args.operations.min(QUICK_OPERATIONS);
        }
        args.rounds = args.rounds.max(1);
        let (mut memory, mut peers_memory) = (None, Vec::new());
        if args.memory_items > 0 {
            memory = Some(footprint(&args)?);
            peers_memory = peers::footprints(args.memory_items)?;
        }
        let cellar = CellarCache::new(&args, args.items, args.key_bytes, args.value_bytes)?;
        cellar.fill(&TtlMix::unlimited())?;
        let peers = peers::ALL.map(|name| Peer::filled(name, cellar.records));
        let mut subjects: Vec<&dyn FilledCache> = vec![&cellar];
        subjects.extend(peers.iter().map(|peer| -> &dyn FilledCache { peer }));
        Ok(EngineOutcome {
            items: args.items,
            key_bytes: args.key_bytes,
            value_bytes: args.value_bytes,
            operations_per_thread: args.operations,
            rounds: args.rounds,
            rows: rows(&subjects, &args)?,
            memory,
            peers_memory,
        })
    }
}

/// Measures memory; nothing large may have been freed in this process before.
fn footprint(args: &EngineArgs) -> Result<Footprint, Error> {
    let items = args.memory_items;
    let ttl = MEMORY_TTL.parse::<TtlMix>().map_err(Error::Usage)?;
    let (growth_bytes, (_filled, fill_ns)) = growth_bytes(|| {
        let cellar = CellarCache::new(args, items, MEMORY_KEY_BYTES, MEMORY_VALUE_BYTES)?;
        let fill_ns = cellar.fill(&ttl)?;
        Ok((cellar, fill_ns))
    })?;
    Ok(Footprint {
        items,
        key_bytes: MEMORY_KEY_BYTES,
        value_bytes: MEMORY_VALUE_BYTES,
        ttl_s: MEMORY_TTL.to_owned(),
        rss_growth_bytes: growth_bytes,
        overhead_per_item_bytes: overhead_bytes(growth_bytes, items, MEMORY_RAW_BYTES),
        inserts_per_s: items as f64 / seconds(fill_ns),
    })
}

impl CellarCache {
    fn new(args: &EngineArgs, items: u64, key: usize, value: usize) -> Result<CellarCache, Error> {
        let clock = Arc::new(ManualClock::default());
        let threads = args.threads.iter().copied().max().unwrap_or(1).max(1);
        let config = Config {
            threads,
            value_bytes_max: Config::with_memory(0).value_bytes_max.max(value),
            clock: clock.clone(),
            ..Config::with_memory(args.memory_mib << 20)
        };
        let wrong = |error: cellar_engine::Error| Error::Wrong(format!("the engine: {error}"));
        let records = Records::new(items, key, ByteRange::fixed(value))?;
        if items > u64::from(u32::MAX) {
            return Err(Error::Usage("--items is at most 2^32 - 1".to_owned()));
        }
        Ok(CellarCache {
            cache: Cache::new(config).map_err(wrong)?,
            clock,
            records,
            started_ns: now_ns(),
        })
    }

    /// Stores all items, which must then be there; returns the time it took.
    fn fill(&self, ttl: &TtlMix) -> Result<u64, Error> {
        let mut random = Random::seeded(1);
        let scatter = Scatter::new(self.records.keys());
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let started_ns = now_ns();
        for n in 0..self.records.keys() {
            let number = scatter.place(n);
            key.clear();
            value.clear();
            self.records.push_key(&mut key, number);
            self.records.push_value(&mut value, number, 0);
            let ttl_ms = match ttl.draw_s(&mut random) {
                0 => TTL_MS,
                ttl_s => u64::from(ttl_s) * 1000,
            };
            let options = SetOptions {
                deadline: self.clock.now().plus_ms(ttl_ms),
                ..SetOptions::default()
            };
            self.cache
                .key(&key)
                .and_then(|key| self.cache.set(key, &value, &options))
                .map_err(|error| Error::Wrong(format!("the engine refused a set: {error}")))?;
            if n % OPERATIONS_PER_TICK as u64 == 0 {
                self.tick();
            }
        }
        let elapsed_ns = now_ns() - started_ns;
        self.settle();
        let stats = self.cache.stats();
        if stats.items != self.records.keys() {
            return Err(Error::Wrong(format!(
                "the engine holds {} of {} items; --memory-mib is too small for this measurement",
                stats.items,
                self.records.keys()
            )));
        }
        Ok(elapsed_ns)
    }

    /// Does the upkeep that a server's thread would have done by the time nothing is left.
    fn settle(&self) {
        let mut upkeep = Upkeep::default();
        loop {
            self.tick();
            let pause = upkeep.step(&self.cache);
            if upkeep.is_settled() {
                return;
            }
            std::thread::sleep(pause);
        }
    }

    /// Lets the cache's time follow the machine's and does its upkeep.
    fn tick(&self) {
        self.clock
            .set(Instant((now_ns() - self.started_ns) / 1_000_000));
        self.cache.tick();
    }

    fn gets(&self, draws: &[u32]) -> u64 {
        let mut sink = vec![0; self.records.value_bytes().high];
        self.count(draws, |key| {
            let got = self.cache.get(key, |item| copy_out(item.value, &mut sink));
            got.is_some()
        })
    }

    /// How many of these keys an operation succeeds with.
    #[inline]
    fn count(&self, draws: &[u32], mut operation: impl FnMut(Key<'_>) -> bool) -> u64 {
        count(&self.records, draws, |key| {
            self.cache.key(key).is_ok_and(&mut operation)
        })
    }

    fn get_batches<const BATCH: usize>(&self, draws: &[u32]) -> u64 {
        let key_bytes = self.records.key_bytes();
        let mut bytes = Vec::with_capacity(BATCH * key_bytes);
        let mut sink = vec![0; self.records.value_bytes().high];
        let mut found = 0;
        for batch in draws.chunks_exact(BATCH) {
            bytes.clear();
            batch
                .iter()
                .for_each(|&it| self.records.push_key(&mut bytes, u64::from(it)));
            let keys: [Key<'_>; BATCH] = std::array::from_fn(|at| {
                let key = &bytes[at * key_bytes..][..key_bytes];
                self.cache
                    .key(key)
                    .expect("the length was checked by Records")
            });
            self.cache.get_many(&keys, |_, item| {
                if let Some(item) = item {
                    copy_out(item.value, &mut sink);
                    found += 1;
                }
            });
        }
        found
    }

    fn sets(&self, draws: &[u32]) -> u64 {
        let mut value = Vec::new();
        self.records.push_value(&mut value, 0, 1);
        let deadline = self.clock.now().plus_ms(TTL_MS);
        let options = SetOptions {
            deadline,
            ..SetOptions::default()
        };
        self.count(draws, |key| self.cache.set(key, &value, &options).is_ok())
    }
}

impl FilledCache for CellarCache {
    fn name(&self) -> &str {
        OWN_NAME
    }

    fn operations(&self) -> &[Operation] {
        &OPERATIONS
    }

    fn run(&self, operation: Operation, draws: &[u32], is_first: bool) -> u64 {
        let stretches = draws.chunks(OPERATIONS_PER_TICK).map(|stretch| {
            if is_first {
                self.tick();
            }
            match operation {
                Operation::Get => self.gets(stretch),
                Operation::GetMany16 => self.get_batches::<16>(stretch),
                Operation::GetMany32 => self.get_batches::<32>(stretch),
                Operation::Set => self.sets(stretch),
            }
        });
        stretches.sum()
    }
}

/// All operations on all numbers of threads; in each round all caches take turns.
fn rows(subjects: &[&dyn FilledCache], args: &EngineArgs) -> Result<Vec<Throughput>, Error> {
    let mut rows = Vec::new();
    for &threads in &args.threads {
        for popularity in POPULARITIES {
            let draws: Vec<Vec<u32>> = (0..threads)
                .map(|thread| draw(popularity, thread, args))
                .collect();
            for operation in OPERATIONS {
                let able = |it: &&&dyn FilledCache| it.operations().contains(&operation);
                let able: Vec<_> = subjects.iter().filter(able).collect();
                let mut speeds = vec![(Vec::new(), Vec::new()); able.len()];
                for _ in 0..args.rounds {
                    for (subject, speeds) in able.iter().zip(&mut speeds) {
                        let speed = measure(**subject, operation, &draws)?;
                        speeds.0.push(speed.0);
                        speeds.1.push(speed.1);
                    }
                }
                for (subject, (per_cpu_s, per_wall_s)) in able.iter().zip(speeds) {
                    rows.push(Throughput {
                        cache: subject.name().to_owned(),
                        operation: operation.name().to_owned(),
                        distribution: popularity.to_string(),
                        threads,
                        operations_per_thread_cpu_s: Spread::of(per_cpu_s),
                        operations_per_wall_s: Spread::of(per_wall_s),
                    });
                }
            }
        }
    }
    Ok(rows)
}

/// The numbers of the records that a thread asks for.
fn draw(popularity: Popularity, thread: usize, args: &EngineArgs) -> Vec<u32> {
    let picker = Picker::new(popularity, args.items);
    let mut random = Random::seeded(thread as u64 + 100);
    // Whole batches only; below the number of items, which fits.
    (0..args.operations / 32 * 32)
        .map(|_| picker.pick(&mut random) as u32)
        .collect()
}

/// Operations per second of thread time and of wall time, one thread for each of `draws`.
fn measure(
    subject: &dyn FilledCache,
    operation: Operation,
    draws: &[Vec<u32>],
) -> Result<(f64, f64), Error> {
    let work = |thread: usize| subject.run(operation, &draws[thread], thread == 0);
    let raced = race(draws.len(), work)?;
    let found: u64 = raced.results.iter().sum();
    let operations: usize = draws.iter().map(Vec::len).sum();
    if found != operations as u64 {
        return Err(Error::Wrong(format!(
            "{}: {} of {operations} operations of {} were misses or refused",
            subject.name(),
            operations as u64 - found,
            operation.name()
        )));
    }
    let operations = operations as f64;
    Ok((
        operations / seconds(raced.cpu_ns),
        operations / seconds(raced.wall_ns),
    ))
}

/// How many of these records an operation with their keys succeeds with.
#[inline]
fn count(records: &Records, draws: &[u32], mut operation: impl FnMut(&[u8]) -> bool) -> u64 {
    let mut key = Vec::with_capacity(records.key_bytes());
    let mut found = 0;
    for &number in draws {
        key.clear();
        records.push_key(&mut key, u64::from(number));
        found += u64::from(operation(&key));
    }
    found
}

/// Copies the value, as a server must that sends it after the lock.
#[inline]
fn copy_out(value: &[u8], sink: &mut [u8]) {
    let bytes = value.len().min(sink.len());
    sink[..bytes].copy_from_slice(&value[..bytes]);
    black_box(sink);
}
