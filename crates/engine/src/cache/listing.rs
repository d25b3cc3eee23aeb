//! Listing: the keys of a cache, stretch by stretch.
//!
//! Tests: tests/model.rs.

use super::Cache;
use crate::key::Key;
use crate::options::{KeyFacts, ScanCursor};

/// Buckets that one call of [`Cache::keys`] visits.
const SCAN_BUCKETS: usize = 64;
const SCAN_BUCKET_BITS: u32 = 48;

impl Cache {
    /// Lists the live keys of a stretch of the cache; begin with [`ScanCursor::START`] and go on
    /// with the cursor returned until it is `None`.
    ///
    /// Each call locks one shard for some 500 keys at most. An item that exists during the whole
    /// listing is listed at least once, unless an insertion moves it between its two buckets at the
    /// wrong moment; a key may be listed twice.
    pub fn keys(
        &self,
        cursor: ScanCursor,
        mut each: impl FnMut(KeyFacts<'_>),
    ) -> Option<ScanCursor> {
        let number = (cursor.0 >> SCAN_BUCKET_BITS) as usize;
        let first = (cursor.0 & ((1 << SCAN_BUCKET_BITS) - 1)) as usize;
        let slot = self.shards.get(number)?;
        let now = self.now();
        let mut shard = self.lock(slot);
        shard.begin(now);
        let buckets = shard.store.index.buckets();
        let end = (first + SCAN_BUCKETS).min(buckets);
        for bucket in first..end {
            shard.store.index.each_in_bucket(bucket, |entry| {
                let located = shard.store.located_at(entry);
                if !shard.store.is_over(&located, now) {
                    each(shard.facts(&located, now));
                }
            });
        }
        if end < buckets {
            return Some(ScanCursor((number as u64) << SCAN_BUCKET_BITS | end as u64));
        }
        (number + 1 < self.shards.len())
            .then(|| ScanCursor((number as u64 + 1) << SCAN_BUCKET_BITS))
    }

    /// Facts about one item, without counting as a use; `None` is a miss.
    pub fn facts<R>(&self, key: Key<'_>, read: impl FnOnce(KeyFacts<'_>) -> R) -> Option<R> {
        self.write(key, |shard, now| {
            let located = shard.store.find(key, now)?;
            Some(read(shard.facts(&located, now)))
        })
    }
}
