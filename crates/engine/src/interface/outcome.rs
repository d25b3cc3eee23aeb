//! Outcome: results of the cache's operations.
//!
//! Plain data, shared by all protocols; fields that serve a flag of memcached's meta commands name
//! it. Parameters are in `options.rs`.

use crate::base::clock::Deadline;
use crate::base::space::{Kind, Space};
use crate::memory::arena::{Handle, Pinner};

/// A live item, borrowed while the shard is locked, or copied out of it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The stored bytes.
    pub value: &'a [u8],
    /// The type of the value, as its protocol defines it.
    pub kind: Kind,
    /// The client's opaque flags.
    pub flags: u32,
    /// When the item expires.
    pub deadline: Deadline,
    pub(crate) pinner: Pinner<'a>,
}

impl Item<'_> {
    /// A counted handle on the value that outlives the shard's lock: the bytes stay where they are,
    /// unchanged, until the handle is dropped, whatever happens to the key.
    ///
    /// A handle holds back a whole segment of memory, or has a copy of a short value; drop it soon.
    #[must_use]
    pub fn pin(&self) -> Handle {
        self.pinner
            .pin(self.value, self.kind, self.flags, self.deadline)
    }
}

/// The lease state that a [`Lookup`](crate::Lookup) returns; the meta response flags W, X and Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// W: the caller holds the right, and the duty, to store a fresh value.
    pub won: bool,
    /// X: the value was marked stale by a delete with invalidation.
    pub stale: bool,
    /// Z: another caller holds the lease.
    pub taken: bool,
}

/// The result of a [`Lookup`](crate::Lookup) that found an item.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The item; empty when the lookup created it.
    pub item: Item<'a>,
    /// The deadline before `touch` took effect.
    pub deadline_before: Deadline,
    /// The item's version; zero unless asked for.
    pub version: u64,
    /// Lease state after this call.
    pub lease: Lease,
    /// Whether the lookup missed and created the item (N).
    pub created: bool,
    /// h: whether the item was fetched before this call.
    pub fetched: bool,
    /// l: seconds since the last access before this call, as far as known: exact since the first
    /// `idle` request and for items never fetched, else seconds since the store.
    pub idle_s: u64,
    /// s for debugging: bytes the item takes in memory, header and key included.
    pub stored_bytes: usize,
}

impl<'a> Found<'a> {
    /// An item that has no lease and no version, of which no more is to be known.
    #[must_use]
    pub fn plain(item: Item<'a>) -> Found<'a> {
        Found {
            deadline_before: item.deadline,
            version: 0,
            lease: Lease::default(),
            created: false,
            fetched: false,
            idle_s: 0,
            stored_bytes: 0,
            item,
        }
    }
}

/// Outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Stored; the version is zero unless asked for.
    Done {
        /// The item's version.
        version: u64,
    },
    /// The condition `Absent` or `Present` did not hold, or nothing was there to extend.
    NotStored,
    /// The item has another version.
    Exists,
    /// The version condition found no item.
    NotFound,
}

/// Outcome of an [`Increment`](crate::Increment).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The new number.
    Number {
        /// The number after the operation.
        number: u64,
        /// The item's deadline after the operation.
        deadline: Deadline,
        /// The item's version; zero unless asked for.
        version: u64,
        /// Whether the item was created from `initial`.
        created: bool,
    },
    /// No live item has the key and no `initial` was given.
    NotFound,
    /// The value is no decimal number of 64 bits.
    NotANumber,
    /// The item has another version.
    Exists,
}

/// Outcome of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Removed, or marked as asked.
    Done,
    /// No live item has the key.
    NotFound,
    /// The item has another version.
    Exists,
}

/// Facts about one item, for listings and debugging; `key` is borrowed while the shard is locked.
#[derive(Clone, Copy, Debug)]
pub struct KeyFacts<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The space it lies in.
    pub space: Space,
    /// The type of the value, as its protocol defines it.
    pub kind: Kind,
    /// Length of the value.
    pub value_bytes: usize,
    /// Bytes the item takes in memory, header and key included.
    pub stored_bytes: usize,
    /// The client's opaque flags.
    pub flags: u32,
    /// When the item expires.
    pub deadline: Deadline,
    /// Seconds since the last access, as far as known; see [`Found::idle_s`].
    pub idle_s: u64,
    /// The item's version, zero if none was ever asked for.
    pub version: u64,
    /// Whether it is a string of at most 64 bytes of which a part was written after it was stored.
    pub changed: bool,
    /// Whether the item was ever fetched.
    pub fetched: bool,
    /// How often it was used recently, as eviction counts it: 0 to 3.
    pub frequency: u8,
    /// Whether the item lives in the main queue (used before) or in the small one (new).
    pub main: bool,
    /// The recorded uses of the item.
    pub uses: Uses,
}

/// The recorded uses of an item; see [`Cache::set_uses`](crate::Cache::set_uses).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses {
    pub(crate) fetched: bool,
    pub(crate) frequency: u8,
    /// The second of the last one, if that is recorded.
    pub(crate) access_s: Option<u32>,
}

impl Uses {
    /// Whether it is known when the item was used last: each use is noted, or there was none.
    #[must_use]
    pub fn is_last_known(self) -> bool {
        self.access_s.is_some() || !self.fetched
    }
}
