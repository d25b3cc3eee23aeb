//! The caches that are compared, behind one face: the engine, and caches of the Rust registry that
//! are filled with the same items and asked in the same way.
//!
//! Those keep keys and values in blocks of the allocator; a value is shared by a count, so that a
//! reader holds no lock while it is copied out.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use cellar_engine::{Cache, Clock, Config, Instant, Key, Maintenance, ManualClock, SetOptions};
use clap::ValueEnum;
use serde::Serialize;

use super::{MEMORY_KEY_BYTES, MEMORY_VALUE_BYTES};
use crate::footprint::growth_bytes;
use crate::refused;
use cellar_load::{Error, Random, Records, Scatter, TtlMix, now_ns};

/// Room over the items, so that a cache with uneven shards evicts none of them.
const ROOM_OF: u64 = 4;
/// Items without a time to live of their own live this long.
const TTL_MS: u64 = 3_600_000;
/// The time is read, and the cache's background maintenance done, once in so many operations.
const OPERATIONS_PER_TICK: usize = 4096;

/// What is done to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Get,
    GetMany16,
    GetMany32,
    Set,
}

/// With their names in tables.
pub(super) const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::Get, "get"),
    (Operation::GetMany16, "get_many 16"),
    (Operation::GetMany32, "get_many 32"),
    (Operation::Set, "set"),
];

/// A cache that holds all items.
pub(super) trait FilledCache: Sync {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Whether it has this operation.
    fn can(&self, operation: Operation) -> bool;
    /// Does an operation with each of these records, and how many it succeeded with; the first of
    /// the threads looks at the time as well.
    fn run(&self, operation: Operation, draws: &[u32], is_first: bool) -> u64;
    /// An error if an item is lost.
    fn check(&self) -> Result<(), Error>;
}

/// A cache of bytes.
pub(super) trait Bytes: Sync {
    /// Its name in tables.
    const NAME: &'static str;
    /// Whether it takes several keys at once.
    const HAS_BATCHES: bool = false;

    /// Copies a value out; whether it was there.
    fn get(&self, key: &[u8], sink: &mut [u8]) -> bool;
    /// Stores a value; whether that was possible.
    fn set(&self, key: &[u8], value: &[u8], ttl_ms: u64) -> bool;
    /// Copies values out in batches; how many were there.
    fn get_batches<const BATCH: usize>(&self, _records: &Records, _draws: &[u32]) -> u64 {
        0
    }
    /// Lets the cache's time follow the machine's and does its background maintenance.
    fn tick(&self) {}
    /// Does what the cache has put off.
    fn settle(&self) {}
}

/// A cache and what it is filled with.
pub(super) struct Filled<B> {
    cache: B,
    records: Records,
    /// How long it took to store all.
    pub(super) fill_ns: u64,
}

impl<B: Bytes> Filled<B> {
    /// Stores all items, which must then be there.
    pub(super) fn new(cache: B, records: Records, ttl: &TtlMix) -> Result<Filled<B>, Error> {
        let mut random = Random::seeded(1);
        let scatter = Scatter::new(records.keys());
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let started_ns = now_ns();
        for n in 0..records.keys() {
            let number = scatter.place(n);
            key.clear();
            value.clear();
            records.push_key(&mut key, number);
            records.push_value(&mut value, number, 0);
            let ttl_ms = match ttl.draw_s(&mut random) {
                0 => TTL_MS,
                ttl_s => u64::from(ttl_s) * 1000,
            };
            if !cache.set(&key, &value, ttl_ms) {
                return Err(Error::Wrong(format!("{} refused a set", B::NAME)));
            }
            if n % OPERATIONS_PER_TICK as u64 == 0 {
                cache.tick();
            }
        }
        let fill_ns = now_ns() - started_ns;
        cache.settle();
        Ok(Filled {
            cache,
            records,
            fill_ns,
        })
    }

    fn gets(&self, draws: &[u32]) -> u64 {
        let mut sink = vec![0; self.records.value_bytes().high];
        self.count(draws, |key| self.cache.get(key, &mut sink))
    }

    fn sets(&self, draws: &[u32]) -> u64 {
        let mut value = Vec::new();
        self.records.push_value(&mut value, 0, 1);
        self.count(draws, |key| self.cache.set(key, &value, TTL_MS))
    }

    /// How many of these records an operation with their keys succeeds with.
    #[inline]
    fn count(&self, draws: &[u32], mut operation: impl FnMut(&[u8]) -> bool) -> u64 {
        let mut key = Vec::with_capacity(self.records.key_bytes());
        let mut found = 0;
        for &number in draws {
            key.clear();
            self.records.push_key(&mut key, u64::from(number));
            found += u64::from(operation(&key));
        }
        found
    }
}

impl<B: Bytes> FilledCache for Filled<B> {
    fn name(&self) -> &'static str {
        B::NAME
    }

    fn can(&self, operation: Operation) -> bool {
        B::HAS_BATCHES || matches!(operation, Operation::Get | Operation::Set)
    }

    fn run(&self, operation: Operation, draws: &[u32], is_first: bool) -> u64 {
        let stretches = draws.chunks(OPERATIONS_PER_TICK).map(|stretch| {
            if is_first {
                self.cache.tick();
            }
            match operation {
                Operation::Get => self.gets(stretch),
                Operation::GetMany16 => self.cache.get_batches::<16>(&self.records, stretch),
                Operation::GetMany32 => self.cache.get_batches::<32>(&self.records, stretch),
                Operation::Set => self.sets(stretch),
            }
        });
        stretches.sum()
    }

    fn check(&self) -> Result<(), Error> {
        let items = self.records.keys();
        let lost = (0..items as u32)
            .filter(|&number| self.gets(&[number]) == 0)
            .count();
        if lost > 0 {
            let what = "is its memory too small for this measurement?";
            let name = B::NAME;
            return Err(Error::Wrong(format!(
                "{name} lost {lost} of {items} items; {what}"
            )));
        }
        Ok(())
    }
}

/// The engine and its clock.
pub(super) struct CellarCache {
    cache: Cache,
    clock: Arc<ManualClock>,
    started_ns: u64,
}

impl CellarCache {
    pub(super) fn new(memory_mib: usize, threads: usize, value: usize) -> Result<Self, Error> {
        let clock = Arc::new(ManualClock::default());
        let config = Config {
            threads,
            value_bytes_max: Config::with_memory(0).value_bytes_max.max(value),
            clock: clock.clone(),
            ..Config::with_memory(memory_mib << 20)
        };
        Ok(CellarCache {
            cache: Cache::new(config).map_err(refused)?,
            clock,
            started_ns: now_ns(),
        })
    }
}

impl Bytes for CellarCache {
    const NAME: &'static str = "cellar-engine";
    const HAS_BATCHES: bool = true;

    #[inline]
    fn get(&self, key: &[u8], sink: &mut [u8]) -> bool {
        let key = self.cache.key(key);
        let copied = key.map(|key| self.cache.get(key, |item| copy_out(item.value, sink)));
        copied.is_ok_and(|copied| copied.is_some())
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8], ttl_ms: u64) -> bool {
        let options = SetOptions {
            deadline: self.clock.now().plus_ms(ttl_ms),
            ..SetOptions::default()
        };
        let key = self.cache.key(key);
        key.is_ok_and(|key| self.cache.set(key, value, &options).is_ok())
    }

    fn get_batches<const BATCH: usize>(&self, records: &Records, draws: &[u32]) -> u64 {
        let key_bytes = records.key_bytes();
        let mut bytes = Vec::with_capacity(BATCH * key_bytes);
        let mut sink = vec![0; records.value_bytes().high];
        let mut found = 0;
        for batch in draws.chunks_exact(BATCH) {
            bytes.clear();
            batch
                .iter()
                .for_each(|&it| records.push_key(&mut bytes, u64::from(it)));
            let keys: [Key<'_>; BATCH] = std::array::from_fn(|at| {
                let key = self.cache.key(&bytes[at * key_bytes..][..key_bytes]);
                key.expect("the length was checked by Records")
            });
            self.cache.get_many(&keys, None, |_, item| {
                if let Some(item) = item {
                    copy_out(item.value, &mut sink);
                    found += 1;
                }
            });
        }
        found
    }

    fn tick(&self) {
        self.clock
            .set(Instant((now_ns() - self.started_ns) / 1_000_000));
        self.cache.tick();
    }

    /// The background maintenance that a server's thread would have done by the time nothing is
    /// left.
    fn settle(&self) {
        let mut maintenance = Maintenance::default();
        loop {
            self.tick();
            let pause = maintenance.step(&self.cache);
            if maintenance.is_settled() {
                return;
            }
            std::thread::sleep(pause);
        }
    }
}

/// Copies the value, as a server must that sends it after the lock.
#[inline]
fn copy_out(value: &[u8], sink: &mut [u8]) {
    let bytes = value.len().min(sink.len());
    sink[..bytes].copy_from_slice(&value[..bytes]);
    black_box(sink);
}

/// Which peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PeerName {
    /// quick_cache with its defaults; it knows no time to live.
    QuickCache,
    /// moka's synchronous cache with one time to live for all items.
    Moka,
}

pub(super) const PEERS: [PeerName; 2] = [PeerName::QuickCache, PeerName::Moka];

type Stored = Arc<[u8]>;
type QuickCache = quick_cache::sync::Cache<Box<[u8]>, Stored>;
type Moka = moka::sync::Cache<Box<[u8]>, Stored>;

impl PeerName {
    /// A cache that holds all items.
    pub(super) fn filled(self, records: Records) -> Result<Box<dyn FilledCache>, Error> {
        let room = records.keys() + records.keys() / ROOM_OF;
        let ttl = TtlMix::unlimited();
        Ok(match self {
            PeerName::QuickCache => {
                let cache = QuickCache::new(room as usize);
                Box::new(Filled::new(cache, records, &ttl)?)
            }
            PeerName::Moka => {
                let builder = Moka::builder().max_capacity(room);
                let cache = builder.time_to_live(Duration::from_millis(TTL_MS)).build();
                Box::new(Filled::new(cache, records, &ttl)?)
            }
        })
    }
}

impl Bytes for QuickCache {
    const NAME: &'static str = "quick_cache";

    fn get(&self, key: &[u8], sink: &mut [u8]) -> bool {
        let found = QuickCache::get(self, key);
        found.map(|value| copy_out(&value, sink)).is_some()
    }
    fn set(&self, key: &[u8], value: &[u8], _ttl_ms: u64) -> bool {
        self.insert(key.into(), value.into());
        true
    }
}

impl Bytes for Moka {
    const NAME: &'static str = "moka";

    fn get(&self, key: &[u8], sink: &mut [u8]) -> bool {
        let found = Moka::get(self, key);
        found.map(|value| copy_out(&value, sink)).is_some()
    }
    fn set(&self, key: &[u8], value: &[u8], _ttl_ms: u64) -> bool {
        self.insert(key.into(), value.into());
        true
    }
    fn settle(&self) {
        self.run_pending_tasks();
    }
}

/// Fills one peer; by how many bytes this process has grown.
pub(crate) fn growth_bytes_of(name: PeerName, items: u64) -> Result<u64, Error> {
    let records = Records::new(items, MEMORY_KEY_BYTES, MEMORY_VALUE_BYTES)?;
    let (growth_bytes, cache) = growth_bytes(|| name.filled(records))?;
    cache.check()?;
    Ok(growth_bytes)
}
