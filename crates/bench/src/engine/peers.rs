//! Peers: caches of the Rust registry, filled with the same items and asked in the same way.
//!
//! They keep keys and values in blocks of the allocator; a value is shared by a count, so that a
//! reader holds no lock while it is copied out.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::{
    FilledCache, MEMORY_KEY_BYTES, MEMORY_RAW_BYTES, MEMORY_VALUE_BYTES, Operation, TTL_MS,
    copy_out, count,
};
use crate::footprint;
use cellar_load::error::Error;
use cellar_load::popularity::Scatter;
use cellar_load::quantity::ByteRange;
use cellar_load::record::Records;

/// Room over the items, so that a cache with uneven shards evicts none of them.
const ROOM_OF: u64 = 4;

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PeerName {
    /// quick_cache with its defaults; it knows no time to live.
    QuickCache,
    /// moka's synchronous cache with one time to live for all items.
    Moka,
}

pub(super) const ALL: [PeerName; 2] = [PeerName::QuickCache, PeerName::Moka];

impl PeerName {
    pub(super) fn text(self) -> &'static str {
        match self {
            PeerName::QuickCache => "quick_cache",
            PeerName::Moka => "moka",
        }
    }

    /// An empty cache that evicts none of so many items.
    fn build(self, items: u64) -> Box<dyn Bytes> {
        let room = items + items / ROOM_OF;
        match self {
            PeerName::QuickCache => Box::new(QuickCache::new(room as usize)),
            PeerName::Moka => {
                let builder = Moka::builder().max_capacity(room);
                Box::new(builder.time_to_live(Duration::from_millis(TTL_MS)).build())
            }
        }
    }
}

type Stored = Arc<[u8]>;
type QuickCache = quick_cache::sync::Cache<Box<[u8]>, Stored>;
type Moka = moka::sync::Cache<Box<[u8]>, Stored>;

/// A cache of bytes.
trait Bytes: Send + Sync {
    fn get(&self, key: &[u8]) -> Option<Stored>;
    fn set(&self, key: &[u8], value: &[u8]);
    /// Does what the cache has put off.
    fn settle(&self) {}
}

impl Bytes for QuickCache {
    fn get(&self, key: &[u8]) -> Option<Stored> {
        QuickCache::get(self, key)
    }
    fn set(&self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }
}

impl Bytes for Moka {
    fn get(&self, key: &[u8]) -> Option<Stored> {
        Moka::get(self, key)
    }
    fn set(&self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }
    fn settle(&self) {
        self.run_pending_tasks();
    }
}

/// A peer that holds all items.
pub(super) struct Peer {
    name: PeerName,
    cache: Box<dyn Bytes>,
    records: Records,
}

impl Peer {
    pub(super) fn filled(name: PeerName, records: Records) -> Peer {
        let peer = Peer {
            name,
            cache: name.build(records.keys()),
            records,
        };
        let scatter = Scatter::new(records.keys());
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for n in 0..records.keys() {
            let number = scatter.place(n);
            key.clear();
            value.clear();
            records.push_key(&mut key, number);
            records.push_value(&mut value, number, 0);
            peer.cache.set(&key, &value);
        }
        peer.cache.settle();
        peer
    }

    fn gets(&self, draws: &[u32]) -> u64 {
        let mut sink = vec![0; self.records.value_bytes().high];
        count(&self.records, draws, |key| match self.cache.get(key) {
            Some(value) => {
                copy_out(&value, &mut sink);
                true
            }
            None => false,
        })
    }

    fn sets(&self, draws: &[u32]) -> u64 {
        let mut value = Vec::new();
        self.records.push_value(&mut value, 0, 1);
        count(&self.records, draws, |key| {
            self.cache.set(key, &value);
            true
        })
    }
}

impl FilledCache for Peer {
    fn name(&self) -> &str {
        self.name.text()
    }

    fn operations(&self) -> &[Operation] {
        &[Operation::Get, Operation::Set]
    }

    fn run(&self, operation: Operation, draws: &[u32], _is_first: bool) -> u64 {
        match operation {
            Operation::Get => self.gets(draws),
            Operation::Set => self.sets(draws),
            Operation::GetMany16 | Operation::GetMany32 => 0,
        }
    }
}

/// What an item takes in a peer.
#[derive(Debug, Serialize)]
pub(super) struct PeerFootprint {
    pub(super) cache: PeerName,
    pub(super) rss_growth_bytes: u64,
    /// The counts before the value and the allocator's own bytes are in it.
    pub(super) overhead_per_item_bytes: f64,
}

/// The memory row of all peers, each in a fresh process.
pub(super) fn footprints(items: u64) -> Result<Vec<PeerFootprint>, Error> {
    let run = |cache: PeerName| {
        let growth = footprint::in_fresh_process("engine", &cache, items)?;
        Ok(PeerFootprint {
            cache,
            rss_growth_bytes: growth,
            overhead_per_item_bytes: footprint::overhead_bytes(growth, items, MEMORY_RAW_BYTES),
        })
    };
    ALL.into_iter().map(run).collect()
}

/// Fills one peer; by how many bytes this process has grown.
pub(crate) fn growth_bytes_of(name: PeerName, items: u64) -> Result<u64, Error> {
    let values = ByteRange::fixed(MEMORY_VALUE_BYTES);
    let records = Records::new(items, MEMORY_KEY_BYTES, values)?;
    let (growth_bytes, peer) = footprint::growth_bytes(|| Ok(Peer::filled(name, records)))?;
    let draws: Vec<u32> = (0..items).map(|number| number as u32).collect();
    let found = peer.gets(&draws);
    if found != items {
        return Err(Error::Wrong(format!("{found} of {items} items are held")));
    }
    Ok(growth_bytes)
}
