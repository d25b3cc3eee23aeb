//! How much memory an entry takes: each cache in a fresh process, by resident memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::subject::{Name, VALUE_BYTES, Value};
use crate::error::Error;
use crate::footprint;

const KEY_BYTES: usize = size_of::<u64>();
/// Caches whose memory is of interest.
const CACHES: [Name; 5] = [
    Name::Cellar,
    Name::CellarTtl,
    Name::QuickCache,
    Name::LruMutex,
    Name::Moka,
];

/// What an entry takes.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Footprint {
    pub(super) cache: Name,
    pub(super) rss_growth_bytes: u64,
    /// Over key and value; the counts before the value and the allocator's own bytes are in it.
    pub(super) overhead_per_entry_bytes: f64,
}

/// All caches with so many entries.
#[expect(clippy::cast_precision_loss, reason = "below 2^53 bytes")]
pub(super) fn all(entries: u64) -> Result<Vec<Footprint>, Error> {
    let count = entries.to_string();
    let run = |cache: Name| {
        let arguments = ["near", "--footprint", cache.option(), "--entries", &count];
        let growth = footprint::in_fresh_process(&arguments)?;
        let raw = (KEY_BYTES + VALUE_BYTES) as f64;
        Ok(Footprint {
            cache,
            rss_growth_bytes: growth,
            overhead_per_entry_bytes: growth as f64 / entries as f64 - raw,
        })
    };
    CACHES.into_iter().map(run).collect()
}

/// Fills one cache and prints by how much this process has grown.
pub(super) fn print(cache: Name, entries: u64) -> Result<(), Error> {
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
    println!("{growth_bytes}");
    Ok(())
}
