//! Hot keys: the keys of all shards that are read most.
//!
//! Each shard lists its own beside its lock, so no shard is locked here.
//!
//! Tests: tests/insight.rs.

use super::shards::Shards;
use crate::insight::hot::GAP_MEAN;
use crate::interface::stats::HotKey;
use crate::key::Key;

/// The `most` keys that were read most, the hottest first.
pub(super) fn hottest(shards: &Shards, most: usize) -> Vec<HotKey> {
    let now = shards.now();
    let (mut keys, mut total) = (Vec::new(), 0);
    for cell in shards.iter() {
        let mut hot = cell.hot.lock();
        let (listed, counted, window_ms) = hot.list(now);
        total += counted;
        let gets = |count: u32| f64::from(count) * f64::from(GAP_MEAN);
        keys.extend(listed.iter().map(|known| HotKey {
            key: known.key.to_vec(),
            space: known.space,
            gets_per_s: gets(known.sure()) * 1000.0 / window_ms.max(1) as f64,
            share: f64::from(known.sure()),
        }));
    }
    keys.sort_unstable_by(|a, b| b.share.total_cmp(&a.share).then(a.key.cmp(&b.key)));
    keys.truncate(most);
    for key in &mut keys {
        key.share /= total.max(1) as f64;
    }
    keys
}

/// Reads of a key in the last minute or so, if it is listed; else 0.
pub(super) fn recent_gets(shards: &Shards, key: Key<'_>) -> u64 {
    let mut hot = shards.cell(key).hot.lock();
    u64::from(hot.sure_of(key, shards.now())) * u64::from(GAP_MEAN)
}
