//! Hit ratios on traces, bounded by entries.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::subject::CacheName;
use crate::replay::{Reading, Trace, read};
use cellar_load::error::Error;

/// Caches whose choice of what to keep is of interest.
pub(super) const CACHES: [CacheName; 4] = [
    CacheName::Cellar,
    CacheName::QuickCache,
    CacheName::Moka,
    CacheName::LruMutex,
];

/// One trace at one size.
#[derive(Debug, Serialize)]
pub(super) struct Ratio {
    pub(super) trace: String,
    pub(super) percent: f64,
    pub(super) entries: u64,
    /// Hits of all requests, in the order of [`CACHES`].
    pub(super) hit_ratios: Vec<f64>,
}

/// All traces at all sizes.
pub(super) fn all(traces: &[PathBuf], percents: &[f64]) -> Result<Vec<Ratio>, Error> {
    let mut ratios = Vec::new();
    for path in traces {
        let trace = read(path, &Reading::default())?;
        for &percent in percents {
            let entries = entries(&trace, percent);
            let hit_ratios = CACHES.map(|cache| play(cache, &trace, entries));
            ratios.push(Ratio {
                trace: trace.name.clone(),
                percent,
                entries,
                hit_ratios: hit_ratios.into(),
            });
        }
    }
    Ok(ratios)
}

fn entries(trace: &Trace, percent: f64) -> u64 {
    ((trace.keys.len() as f64 * percent / 100.0) as u64).max(1)
}

/// The hit ratio of one cache; sets store without reading before.
fn play(cache: CacheName, trace: &Trace, entries: u64) -> f64 {
    let (cache, nothing) = (cache.build::<()>(entries), Arc::new(()));
    let (mut gets, mut hits) = (0_u64, 0_u64);
    for row in &trace.rows {
        let key = u64::from(row.key);
        gets += u64::from(!row.is_set());
        if !row.is_set() && cache.has(key) {
            hits += 1;
        } else {
            cache.insert(key, Arc::clone(&nothing));
        }
    }
    hits as f64 / gets.max(1) as f64
}
