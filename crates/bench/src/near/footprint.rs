//! How much memory an entry takes: each cache in a fresh process, by resident memory.

use std::sync::Arc;

use serde::Serialize;

use super::subject::{CacheName, VALUE_BYTES, Value};
use crate::footprint;
use cellar_load::error::Error;

const KEY_BYTES: usize = size_of::<u64>();
/// Caches whose memory is of interest.
const CACHES: [CacheName; 5] = [
    CacheName::Cellar,
    CacheName::CellarTtl,
    CacheName::QuickCache,
    CacheName::LruMutex,
    CacheName::Moka,
];

/// What an entry takes.
#[derive(Debug, Serialize)]
pub(super) struct EntryFootprint {
    pub(super) cache: CacheName,
    pub(super) rss_growth_bytes: u64,
    /// Over key and value; the counts before the value and the allocator's own bytes are in it.
    pub(super) overhead_per_entry_bytes: f64,
}

/// All caches with so many entries.
pub(super) fn all(entries: u64) -> Result<Vec<EntryFootprint>, Error> {
    let run = |cache: CacheName| {
        let growth = footprint::in_fresh_process("near", &cache, entries)?;
        let raw_bytes = KEY_BYTES + VALUE_BYTES;
        Ok(EntryFootprint {
            cache,
            rss_growth_bytes: growth,
            overhead_per_entry_bytes: footprint::overhead_bytes(growth, entries, raw_bytes),
        })
    };
    CACHES.into_iter().map(run).collect()
}

/// Fills one cache; by how many bytes this process has grown.
pub(crate) fn growth_bytes_of(cache: CacheName, entries: u64) -> Result<u64, Error> {
    let (growth_bytes, filled) = footprint::growth_bytes(|| {
        let filled = cache.build::<Value>(entries);
        // A tenth more than fits, so that it is full and has evicted.
        (0..entries + entries / 10).for_each(|key| filled.insert(key, Arc::new([1; VALUE_BYTES])));
        filled.settle();
        Ok(filled)
    })?;
    let held = (0..entries + entries / 10)
        .filter(|&key| filled.has(key))
        .count() as u64;
    if held < entries - entries / 20 || held > entries + entries / 20 {
        return Err(Error::Wrong(format!(
            "{held} of {entries} entries are held"
        )));
    }
    Ok(growth_bytes)
}
