//! Options and statistics of a store.

use std::time::Duration;

/// The eviction policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Entries that are read only once are evicted early; the best choice unless LRU itself is
    /// wanted.
    #[default]
    S3Fifo,
    /// Each shard evicts the entry that was inserted or read longest ago: for comparisons. A hit
    /// also changes a counter that all readers of the shard share, and an entry takes some 30 bytes
    /// more.
    Lru,
}

/// Why an entry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// It had expired, whatever else removed it.
    Expired,
    /// It was evicted to free space, or was too heavy for its shard in the first place.
    Evicted,
    /// Another value took its place.
    Replaced,
    /// It was removed: by key, by [`retain`](super::Local::retain) or by
    /// [`clear`](super::Local::clear).
    Removed,
}

/// How one value is stored.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct InsertOptions {
    /// How long it may live; the builder's default if none.
    pub ttl: Option<Duration>,
}

impl InsertOptions {
    /// The same with this time to live.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> InsertOptions {
        self.ttl = Some(ttl);
        self
    }
}

/// Statistics of a store: counts since it was built, and its present contents.
///
/// The values are read one after the other; they agree with each other once no thread uses the
/// store. Each inserted entry is still stored or was removed for one of the four causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalStats {
    /// Reads that found a live entry.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
    /// Values that were inserted.
    pub inserts: u64,
    /// Values that left for [`Cause::Evicted`].
    pub evictions: u64,
    /// Those of them that were evicted as they were inserted, heavier than a shard's part of the
    /// bound.
    pub refusals: u64,
    /// Values that left for [`Cause::Expired`].
    pub expirations: u64,
    /// Values that left for [`Cause::Replaced`].
    pub replacements: u64,
    /// Values that left for [`Cause::Removed`].
    pub removals: u64,
    /// Entries that are there, expired ones that have not left included.
    pub entries: u64,
    /// The sum of their weights: of bytes as the weigher counts them, or of one for each.
    pub weight: u64,
}
