//! What a caller may ask of the cache, and what it learns back.
//!
//! Plain data, shared by all protocols. Where memcached's protocol coined a rule (leases, stale
//! items, versions), the field says which flag of its meta commands it serves.

use std::sync::Arc;

use crate::arena::{Handle, Pinner};
use crate::clock::{Clock, Deadline, SystemClock};
use crate::observer::Observer;
use crate::space::{Kind, Space};

/// How a cache is made.
#[derive(Clone)]
pub struct Config {
    /// Memory for items, index and all bookkeeping together, in bytes.
    pub memory_bytes: usize,
    /// Threads that will use the cache at the same time; decides the number of shards.
    pub threads: usize,
    /// Longest value in bytes; at most 512 MiB.
    pub value_bytes_max: usize,
    /// Longest value in bytes that [`Cache::update`](crate::Cache::update) stores, which makes it
    /// outside of the cache's memory.
    pub update_bytes_max: usize,
    /// How long a lease blocks others before the next caller may win it, in milliseconds.
    pub lease_ms: u64,
    /// Number of shards, a power of two; `None` chooses by threads and memory.
    pub shards: Option<usize>,
    /// Seed of the key hash; `None` draws a random one.
    pub seed: Option<u64>,
    /// Whether memory that holds nothing live goes back to the system: upkeep then compacts what
    /// is partly dead even when nobody asks for memory.
    pub release_memory: bool,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Who hears of changes, whatever path they take.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Config {
    /// Longest value any cache takes, in bytes.
    pub const VALUE_BYTES_LIMIT: usize = 512 << 20;

    /// A cache of `memory_bytes` with the defaults: one thread, values to 1 MiB, leases of 30 s.
    #[must_use]
    pub fn with_memory(memory_bytes: usize) -> Config {
        Config {
            memory_bytes,
            threads: 1,
            value_bytes_max: 1 << 20,
            update_bytes_max: Config::VALUE_BYTES_LIMIT,
            lease_ms: 30_000,
            shards: None,
            seed: None,
            release_memory: false,
            clock: Arc::new(SystemClock::new()),
            observer: None,
        }
    }
}

/// A live item, borrowed while the shard is locked.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The stored bytes.
    pub value: &'a [u8],
    /// What they are to their protocol.
    pub kind: Kind,
    /// The client's opaque flags.
    pub flags: u32,
    /// When the item goes.
    pub deadline: Deadline,
    pub(crate) pinner: Pinner<'a>,
}

impl Item<'_> {
    /// A counted handle on the value that outlives the shard's lock: the bytes stay where they are,
    /// unchanged, until the handle is dropped, whatever happens to the key.
    ///
    /// A handle holds back a whole segment of memory; drop it soon.
    #[must_use]
    pub fn pin(&self) -> Handle {
        self.pinner
            .pin(self.value, self.kind, self.flags, self.deadline)
    }
}

/// What a [`Lookup`] learned about leases; the meta response flags W, X and Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// W: the caller holds the right, and the duty, to store a fresh value.
    pub won: bool,
    /// X: the value was marked stale by a delete with invalidation.
    pub stale: bool,
    /// Z: another caller holds the lease.
    pub taken: bool,
}

/// A read with side effects: meta `mg`, and `gets`, `gat`. It sees strings only; another kind of
/// value is a miss, and stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup {
    /// T: gives a found item this deadline.
    pub touch: Option<Deadline>,
    /// N: on a miss stores an empty item with this deadline and wins its lease; on a hit wins a
    /// lease that its holder let lapse.
    pub vivify: Option<Deadline>,
    /// R: wins the lease when fewer than this many milliseconds are left.
    pub recache_ms: Option<u64>,
    /// How long a lease that is won blocks others, in milliseconds, if other than
    /// [`Config::lease_ms`].
    pub lease_ms: Option<u64>,
    /// c: the caller wants [`Found::version`]. The first request attaches a version to the item.
    pub version: bool,
    /// E: the version for an item that `vivify` creates.
    pub new_version: Option<u64>,
    /// u: does not count as a use for eviction, hit-before or last access.
    pub quiet: bool,
    /// Counts neither as a hit nor as a miss: the caller has counted this read already, or it is
    /// none.
    pub uncounted: bool,
    /// l: the caller wants [`Found::idle_s`] kept exact for this item from now on.
    pub idle: bool,
    /// The caller knows no leases (`gets`, `gat`): a stale item's lease stays free.
    pub no_lease: bool,
}

/// What a [`Lookup`] found.
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

/// When a store may take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Always: set.
    #[default]
    Always,
    /// Only if no live item has the key: add.
    Absent,
    /// Only if a live item has the key: replace.
    Present,
    /// Only if the item still has this version: cas, C.
    Version(u64),
}

/// How an item is stored.
#[derive(Clone, Copy, Debug)]
pub struct SetOptions {
    /// What the value is to its protocol.
    pub kind: Kind,
    /// When the item goes.
    pub deadline: Deadline,
    /// The client's opaque flags.
    pub flags: u32,
    /// Condition.
    pub when: When,
    /// I: with [`When::Version`] an older version is stored too, but the item stays stale and keeps
    /// its lease and deadline.
    pub accept_older: bool,
    /// E: the version to give the item instead of the next one.
    pub new_version: Option<u64>,
    /// Longest value in bytes that is stored, where the cache would take longer ones.
    pub value_bytes_max: usize,
    /// c: the caller wants the version of the stored item. Without it no version is attached to an
    /// item that has none.
    pub version: bool,
}

impl Default for SetOptions {
    fn default() -> SetOptions {
        SetOptions {
            kind: Kind::STRING,
            deadline: Deadline::NEVER,
            flags: 0,
            when: When::Always,
            accept_older: false,
            new_version: None,
            value_bytes_max: Config::VALUE_BYTES_LIMIT,
            version: false,
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

/// Which end of a value is extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// append
    Back,
    /// prepend
    Front,
}

/// A counter operation: incr, decr and meta `ma`.
///
/// A value is a number if it has 1 to 20 decimal digits that fit in 64 bits, spaces after them
/// allowed. Adding wraps at 2^64; subtracting stops at zero.
#[derive(Clone, Copy, Debug)]
pub struct Increment {
    /// Amount.
    pub delta: u64,
    /// Subtracts instead of adding.
    pub subtract: bool,
    /// Keeps the value's length when the number gets shorter, with spaces behind it, as memcached
    /// does.
    pub keep_width: bool,
    /// N and J: on a miss stores this number with this deadline.
    pub initial: Option<(u64, Deadline)>,
    /// T: gives the item this deadline.
    pub touch: Option<Deadline>,
    /// C: only if the item has this version.
    pub when_version: Option<u64>,
    /// E: the version to give the item.
    pub new_version: Option<u64>,
    /// c: the caller wants the version.
    pub version: bool,
}

impl Increment {
    /// Adds `delta` to an existing number.
    #[must_use]
    pub fn by(delta: u64) -> Increment {
        Increment {
            delta,
            subtract: false,
            keep_width: false,
            initial: None,
            touch: None,
            when_version: None,
            new_version: None,
            version: false,
        }
    }
}

/// Outcome of an [`Increment`].
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

/// What [`Cache::update`](crate::Cache::update) is told to do with the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leaves it, or its absence, as it is.
    Keep,
    /// Deletes it, if it is there.
    Remove,
    /// Gives it this deadline, if it is there.
    Retime(Deadline),
    /// Stores what was put into the scratch buffer, ends a lease, and gives the item its next
    /// version if it has one.
    Store {
        /// What the value is to its protocol.
        kind: Kind,
        /// When the item goes.
        deadline: Deadline,
        /// The client's opaque flags.
        flags: u32,
    },
}

/// How an item is deleted: delete and meta `md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeleteOptions {
    /// C: only if the item has this version.
    pub when_version: Option<u64>,
    /// I: keeps the item but marks it stale, frees its lease and gives it a new version.
    pub mark_stale: bool,
    /// x: keeps the item and its version but empties its value and clears its flags, its stale mark
    /// and its lease.
    pub drop_value: bool,
    /// T: with `mark_stale` or `drop_value`, the item's new deadline.
    pub touch: Option<Deadline>,
    /// E: the version to give an item that is kept.
    pub new_version: Option<u64>,
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
    /// What the value is to its protocol.
    pub kind: Kind,
    /// Length of the value.
    pub value_bytes: usize,
    /// Bytes the item takes in memory, header and key included.
    pub stored_bytes: usize,
    /// The client's opaque flags.
    pub flags: u32,
    /// When the item goes.
    pub deadline: Deadline,
    /// Seconds since the last access, as far as known; see [`Found::idle_s`].
    pub idle_s: u64,
    /// The item's version, zero if none was ever asked for.
    pub version: u64,
    /// Whether the item was ever fetched.
    pub fetched: bool,
    /// Whether the item lives in the main queue (used before) or in the small one (new).
    pub main: bool,
}

/// How many items a space has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Items now, expired ones that nobody met yet included.
    pub items: u64,
    /// Of those, items with a deadline.
    pub with_deadline: u64,
}

/// A place in a listing of all keys; [`ScanCursor::START`] begins one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanCursor(pub u64);

impl ScanCursor {
    /// The beginning.
    pub const START: ScanCursor = ScanCursor(0);
}

/// How long after their deadlines the memory of expired items was taken back, over all shards and
/// since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimLag {
    /// Items in each bin; bin `n` holds lags below [`ReclaimLag::below_ms`]`(n)` and not below that
    /// of the bin before.
    pub items: [u64; ReclaimLag::BINS],
}

impl ReclaimLag {
    /// Number of bins; the last holds all longer lags.
    pub const BINS: usize = 26;

    /// The bin of a lag.
    pub(crate) fn bin_of(lag_ms: u64) -> usize {
        let bin = u64::BITS - lag_ms.leading_zeros();
        (bin as usize).min(Self::BINS - 1)
    }

    /// The lag in milliseconds that all of a bin's items are below: 1, 2, 4, ...; `None` for the
    /// last bin.
    #[must_use]
    pub fn below_ms(bin: usize) -> Option<u64> {
        (bin + 1 < Self::BINS).then(|| 1 << bin)
    }
}

/// Counts and byte sums over all shards; monotonic counts since start unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items now, expired ones that nobody met yet included.
    pub items: u64,
    /// Items stored since start.
    pub items_total: u64,
    /// Bytes of live items now, headers and keys included; an estimate while items expire.
    pub live_bytes: u64,
    /// Bytes of expired, deleted and overwritten items now that are not yet reclaimed; an estimate.
    /// Items of a space that has ended count once they are swept, as live until then.
    pub dead_bytes: u64,
    /// Bytes of resident memory now that hold no item.
    pub free_bytes: u64,
    /// Bytes of the index now.
    pub index_bytes: u64,
    /// Bytes of all other bookkeeping now: segment tables, ghosts, and what the insights take out
    /// of the configured memory.
    pub overhead_bytes: u64,
    /// The configured memory.
    pub memory_bytes: u64,
    /// Live items that left because memory was needed.
    pub evicted: u64,
    /// Of those, items that were never fetched.
    pub evicted_unfetched: u64,
    /// Bytes of live items that left because memory was needed.
    pub evicted_bytes: u64,
    /// Expired items whose memory was taken back.
    pub expired: u64,
    /// Of those, items that were never fetched.
    pub expired_unfetched: u64,
    /// Reads that found an item past its deadline.
    pub misses_expired: u64,
    /// Items copied to keep them: promotion, second chance and compaction.
    pub copied: u64,
    /// Bytes of the items that were copied.
    pub copied_bytes: u64,
    /// Segments freed.
    pub segments_freed: u64,
    /// Segments in use now.
    pub segments: u64,
    /// Bytes in one segment.
    pub segment_bytes: u64,
    /// Shards.
    pub shards: u64,
    /// Largest share of memory, in millionths, that was dead when a live item was evicted.
    pub dead_at_eviction_max_ppm: u64,
    /// Sampled requests that the insights did not see because somebody was at work on them.
    pub samples_dropped: u64,
    /// Reads: every key asked for counts.
    pub gets: u64,
    /// Reads that missed.
    pub misses: u64,
    /// Reads that would have missed with a quarter of the memory; like the next three an estimate,
    /// see [`MissRatioCurve`].
    pub misses_at_quarter: u64,
    /// Reads that would have missed with half of the memory.
    pub misses_at_half: u64,
    /// Reads that would have missed with twice the memory.
    pub misses_at_double: u64,
    /// Reads that would have missed with four times the memory.
    pub misses_at_fourfold: u64,
    /// Misses of keys that were never stored; like the next three an estimate: [`MissReasons`].
    pub missed_never_stored: u64,
    /// Misses of items whose deadline had passed.
    pub missed_expired: u64,
    /// Misses of items that had to make room before their deadline.
    pub missed_evicted: u64,
    /// Misses of items that were deleted or flushed before their deadline.
    pub missed_deleted: u64,
}

/// Reads, and the misses they would have been at several memory sizes, since the cache was made.
///
/// The misses are estimates from a sample of the keys; at the present size they are exact. All
/// numbers only grow, so a window is the difference of two curves ([`MissRatioCurve::since`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissRatioCurve {
    /// Reads: every key asked for counts.
    pub gets: u64,
    /// A quarter, half, once, twice and four times the present memory.
    pub points: [CurvePoint; 5],
}

impl MissRatioCurve {
    /// Factors by which the points' memory differs from the present one.
    pub const FACTORS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &MissRatioCurve) -> MissRatioCurve {
        let mut curve = *self;
        curve.gets = self.gets.saturating_sub(earlier.gets);
        for (point, before) in curve.points.iter_mut().zip(&earlier.points) {
            point.misses = point.misses.saturating_sub(before.misses).min(curve.gets);
        }
        curve
    }

    /// The share of reads that would have missed at each point, 0 to 1; zero without reads.
    #[must_use]
    pub fn miss_ratios(&self) -> [f64; 5] {
        let gets = self.gets.max(1) as f64;
        self.points.map(|point| point.misses as f64 / gets)
    }
}

/// One memory size of a [`MissRatioCurve`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CurvePoint {
    /// Memory of the imagined cache, in bytes.
    pub memory_bytes: u64,
    /// Reads that would have missed.
    pub misses: u64,
}

/// Why reads missed: estimated counts since the cache was made. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissReasons {
    /// The key was never stored, or so long ago that it is forgotten.
    pub never_stored: u64,
    /// The item's deadline had passed by the time of the miss, whatever took the item away.
    pub expired: u64,
    /// The item had to make room before its deadline.
    pub evicted: u64,
    /// The item was deleted or flushed before its deadline.
    pub deleted: u64,
}

/// A key that is read often; the figures speak of the last minute or so.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key.
    pub key: Vec<u8>,
    /// The space it lies in.
    pub space: Space,
    /// Reads of it in a second; an estimate.
    pub gets_per_s: f64,
    /// Its share of all reads, 0 to 1; an estimate.
    pub share: f64,
}
