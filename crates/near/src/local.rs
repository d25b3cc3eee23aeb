//! The local store: typed values in this process, bounded, each gone exactly at its deadline.
//!
//! A [`Local`] is a number of shards by the hash of the key, each with a policy and a number of
//! stripes. A read takes the lock of the key's stripe, shared, and clones the pointer that it finds
//! there: a value lives until its last holder drops it, wherever the store is by then. A write
//! takes the shard's lock and changes one stripe at a time. So shards are for writers, stripes for
//! readers.
//!
//! Nothing is done in the background. Expired entries are misses at once; their room is found by
//! the writes that follow, or by [`Local::reclaim`].
//!
//! Why: docs/decisions/0021-near-local-store.md. Tests: tests/without_server/local.rs,
//! tests/without_server/local_stress.rs.

mod options;
mod counters; // how it counts without contention
mod ghosts;
mod queues;
mod entry;
mod index;
mod stripes; // where its entries lie, how a key is found
mod expire; // removal of its expired entries
mod s3fifo; // eviction when it is full
mod lru;
mod shard;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use rapidhash::quality::RandomState;

use self::counters::{Counters, cores};
use self::entry::{Deadline, StoredEntry};
use self::lru::Ticks;
use self::shard::{Item, Limits, RemovedEntries, Shard};
use self::stripes::{Lines, Stripes};
use crate::clock::{Clock, SystemClock};

pub use self::options::{Cause, InsertOptions, LocalStats, Policy};

/// Default bound of a store, in entries.
const ENTRIES_MAX: u64 = 10_000;
/// Fewest entries or bytes for which a shard is worthwhile.
const SHARD_ENTRIES_MIN: u64 = 4096;
const SHARD_BYTES_MIN: u64 = 4 << 20;
const SHARDS_PER_CORE: usize = 4;
const SHARDS_MAX: usize = 1 << 16;
/// Locks that readers share, in all shards together.
const STRIPES_PER_CORE: usize = 32;
const STRIPES_MIN: usize = 64;
/// Slots that [`Local::reclaim`] looks at in each shard.
const RECLAIM_SLOTS: u32 = 16_384;
const RECLAIM_STEPS: u32 = 64;

type Weigher<K, P> = Box<dyn Fn(&K, &<P as Deref>::Target) -> u32 + Send + Sync>;
type RemovalListener<K, P> = Box<dyn Fn(&K, &P, Cause) + Send + Sync>;

/// Builder of a [`Local`].
pub type LocalBuilder<K, V> = LocalBuilderOf<K, Arc<V>>;

/// Builder of a store.
#[must_use]
pub struct LocalBuilderOf<K, P: Deref> {
    weight_max: u64,
    weigher: Option<Weigher<K, P>>,
    ttl: Option<Duration>,
    shards: Option<usize>,
    policy: Policy,
    listener: Option<RemovalListener<K, P>>,
    clock: Option<Arc<dyn Clock>>,
}

impl<K, P: Deref> fmt::Debug for LocalBuilderOf<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBuilder")
            .field("weight_max", &self.weight_max)
            .field("is_weighed", &self.weigher.is_some())
            .field("ttl", &self.ttl)
            .field("shards", &self.shards)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl<K, P> LocalBuilderOf<K, P>
where
    K: Hash + Eq + Send + Sync + 'static,
    P: Deref + Clone + Send + Sync + 'static,
{
    /// Bounds it by this many entries, instead of 10,000.
    ///
    /// With none, every value is evicted as it is inserted.
    pub fn entries_max(mut self, entries: u64) -> Self {
        self.weight_max = entries;
        self.weigher = None;
        self
    }

    /// Bounds it by bytes, as `weigher` counts them.
    ///
    /// Each shard holds an equal part of `bytes`. A value heavier than that is evicted as it is
    /// inserted, so give a store of few heavy values few [`shards`](LocalBuilder::shards). The
    /// weigher has to include the store's own overhead, some 60 bytes for each entry. It is called
    /// once for each insert, outside all locks; entries of weight zero are unlimited.
    pub fn bytes_max(
        mut self,
        bytes: u64,
        weigher: impl Fn(&K, &P::Target) -> u32 + Send + Sync + 'static,
    ) -> Self {
        self.weight_max = bytes;
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// How long an entry lives that is inserted without a time of its own; for ever unless set.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Into how many parts it is cut: at least one, at most 65,536, no more than entries.
    ///
    /// Writers of one shard wait for each other, readers never; more shards make the policy see
    /// less. Unless set: four for each core, rounded up to a power of two, but none with less than
    /// 4,096 entries or 4 MiB.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The eviction policy, instead of [`Policy::S3Fifo`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets a listener that is called once for each removed entry, after the removal, outside all
    /// locks, by the thread that removed it. It may use the store. It is not called when the store
    /// itself is dropped.
    pub fn on_evict(mut self, listener: impl Fn(&K, &P, Cause) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// The clock of its deadlines, instead of the machine's.
    ///
    /// It is read only when an entry with a deadline is stored, read or found expired.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The store. Cost: some kilobytes for each shard; room for entries is taken as they come.
    #[must_use]
    pub fn build(self) -> LocalOf<K, P> {
        let shards = self.shard_count();
        let hasher = RandomState::new();
        let stripes = (cores() * STRIPES_PER_CORE).max(STRIPES_MIN);
        let (each, more) = (self.weight_max / shards, self.weight_max % shards);
        let bits = stripes
            .div_ceil(shards as usize)
            .next_power_of_two()
            .ilog2();
        let lines = Lines::new((shards as usize) << bits, self.policy == Policy::Lru);
        let ticks = Arc::new(Ticks::default());
        let shards = (0..shards).map(|number| {
            let limits = Limits {
                weight_max: each + u64::from(number < more),
                is_weighed: self.weigher.is_some(),
                policy: self.policy,
            };
            let entries = Stripes::part(&lines, number as usize, bits);
            Shard::new(limits, entries, Arc::clone(&ticks), hasher)
        });
        LocalOf {
            inner: Arc::new(LocalInner {
                shards: shards.collect(),
                lines,
                bits,
                ticks,
                hasher,
                counters: Counters::new(),
                weigher: self.weigher,
                ttl: self.ttl,
                listener: self.listener,
                clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            }),
        }
    }

    fn shard_count(&self) -> u64 {
        let worth = match self.weigher {
            Some(_) => self.weight_max / SHARD_BYTES_MIN,
            None => self.weight_max / SHARD_ENTRIES_MIN,
        };
        let most = self.weight_max.clamp(1, SHARDS_MAX as u64);
        let wanted = match self.shards {
            Some(shards) => shards as u64,
            None => worth.min((cores() * SHARDS_PER_CORE).next_power_of_two() as u64),
        };
        wanted.clamp(1, most)
    }
}

struct LocalInner<K, P: Deref> {
    /// For readers: all stripes, of which each shard has 2^`bits`.
    lines: Lines<K, P>,
    bits: u32,
    ticks: Arc<Ticks>,
    shards: Box<[Shard<K, P>]>,
    hasher: RandomState,
    counters: Counters,
    weigher: Option<Weigher<K, P>>,
    ttl: Option<Duration>,
    listener: Option<RemovalListener<K, P>>,
    clock: Arc<dyn Clock>,
}

/// A bounded map of typed values, shared by cloning; see [`LocalOf`] for its methods.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use cellar_near::{InsertOptions, Local};
///
/// let store: Local<String, Vec<u8>> = Local::builder().entries_max(100_000).build();
/// store.insert("a".to_owned(), Arc::new(vec![1]));
/// let minute = InsertOptions::default().ttl(Duration::from_secs(60));
/// store.insert_with("b".to_owned(), Arc::new(vec![2]), minute);
/// let held = store.get("a").expect("it was just inserted");
/// store.remove("a");
/// assert_eq!(*held, [1]);
/// assert_eq!((store.get("a"), store.len()), (None, 1));
/// ```
pub type Local<K, V> = LocalOf<K, Arc<V>>;

/// A bounded map of values that are held by counted pointers `P`: an [`Arc`], or one that another
/// language can count by.
///
/// All methods may be called from any thread. None blocks for long: see each.
pub struct LocalOf<K, P: Deref> {
    inner: Arc<LocalInner<K, P>>,
}

impl<K, P: Deref> Clone for LocalOf<K, P> {
    fn clone(&self) -> Self {
        LocalOf {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K, P: Deref> fmt::Debug for LocalOf<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("shards", &self.inner.shards.len())
            .finish_non_exhaustive()
    }
}

impl<K, P> LocalOf<K, P>
where
    K: Hash + Eq + Send + Sync + 'static,
    P: Deref + Clone + Send + Sync + 'static,
{
    /// A builder with room for 10,000 entries and no time limit.
    pub fn builder() -> LocalBuilderOf<K, P> {
        LocalBuilderOf {
            weight_max: ENTRIES_MAX,
            weigher: None,
            ttl: None,
            shards: None,
            policy: Policy::default(),
            listener: None,
            clock: None,
        }
    }

    /// The value of `key`, unless it has expired.
    ///
    /// Cost: a hash, one line of the index, the entry; the entry's own lock, shared; a clone of the
    /// pointer. The clock is read only if the entry has a deadline. No allocation, no move.
    // Always: behind the interface for C a call of its own is a twentieth of a hit.
    #[inline(always)]
    pub fn get<Q>(&self, key: &Q) -> Option<P>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let value = self.serve(key, |value| Some(value.clone()));
        if value.is_none() {
            self.inner.counters.count(false);
        }
        value
    }

    /// Calls `serve` with the value of `key`, unless it has expired. If it returns `None`, no read
    /// is counted.
    ///
    /// `serve` runs under the entry's lock: it is short, and does not use the store.
    #[inline(always)]
    pub(crate) fn serve<Q, R>(&self, key: &Q, serve: impl FnOnce(&P) -> Option<R>) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let inner = &*self.inner;
        let hash = inner.hasher.hash_one(key);
        let stripe = inner.lines.read(hash);
        let (entry, stamp) = stripe.seek(hash, key)?;
        if !inner.lives(entry) {
            return None;
        }
        let served = serve(&entry.value)?;
        match stamp {
            None => entry.mark(),
            Some(stamp) => inner.ticks.stamp(stamp),
        }
        drop(stripe);
        inner.counters.count(true);
        Some(served)
    }

    /// The same without a read: it does not count, neither in the statistics nor for the policy.
    pub fn peek<Q>(&self, key: &Q) -> Option<P>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let inner = &*self.inner;
        let hash = inner.hasher.hash_one(key);
        let stripe = inner.lines.read(hash);
        let (entry, _) = stripe.seek(hash, key)?;
        inner.lives(entry).then(|| entry.value.clone())
    }

    /// Stores `value` with the builder's time to live, in place of an older one.
    ///
    /// Cost: that of [`Local::insert_with`].
    pub fn insert(&self, key: K, value: P) {
        self.insert_with(key, value, InsertOptions::default());
    }

    /// Stores `value` as `options` say, in place of an older one.
    ///
    /// A time to live of zero expires at once. Cost: the shard's lock; once the store is full, each
    /// insert evicts an entry, after a bounded search. Four slots are searched for expired entries,
    /// or up to 256 before a live entry is evicted. Now and then the shard's index grows, which
    /// touches all of its keys.
    pub fn insert_with(&self, key: K, value: P, options: InsertOptions) {
        self.try_insert(key, value, options);
    }

    /// The same; whether the value was light enough for its shard.
    pub(crate) fn try_insert(&self, key: K, value: P, options: InsertOptions) -> bool {
        let inner = &*self.inner;
        let ttl = options.ttl.or(inner.ttl);
        let deadline = ttl.map_or(Deadline::NEVER, |ttl| {
            Deadline::after(inner.clock.now(), ttl)
        });
        let weigher = inner.weigher.as_ref();
        let item = Item {
            hash: inner.hasher.hash_one(&key),
            weight: weigher.map_or(1, |weigher| weigher(&key, &value)),
            key,
            value,
            deadline,
        };
        let mut removed = RemovedEntries::new();
        let shard = inner.shard(item.hash);
        let is_stored = shard.insert(item, &|| inner.clock.now(), &mut removed);
        inner.tell(removed);
        is_stored
    }

    /// Removes `key` and returns its value, unless it had expired.
    ///
    /// Cost: the shard's lock, and two searches of the index.
    pub fn remove<Q>(&self, key: &Q) -> Option<P>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let inner = &*self.inner;
        let hash = inner.hasher.hash_one(key);
        let mut removed = RemovedEntries::new();
        let shard = inner.shard(hash);
        let value = shard.remove(hash, key, &|| inner.clock.now(), &mut removed);
        inner.tell(removed);
        value
    }

    /// Removes everything that is there when its shard's turn comes.
    ///
    /// Cost: all slots of a shard under its lock, one shard after the other.
    pub fn clear(&self) {
        self.each_shard(|shard, now, removed| shard.clear(now, removed));
    }

    /// How many entries there are, expired ones that have not left included.
    ///
    /// Cost: each shard's lock for a moment, as for [`Local::weight`] and [`Local::stats`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.stats().entries as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the entries for which `keep` is false.
    ///
    /// `keep` runs under a shard's lock, so it must not use the store; nothing is said about the
    /// order. Cost: as for [`Local::clear`].
    pub fn retain(&self, mut keep: impl FnMut(&K, &P::Target) -> bool) {
        self.each_shard(|shard, now, removed| {
            shard.retain(|key, value| keep(key, value), now, removed)
        });
    }

    /// The sum of the weights; never more than the bound.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.stats().weight
    }

    /// The store's statistics.
    #[must_use]
    pub fn stats(&self) -> LocalStats {
        let (hits, misses) = self.inner.counters.sums();
        let mut stats = LocalStats {
            hits,
            misses,
            ..LocalStats::default()
        };
        for shard in &self.inner.shards {
            let counts = shard.counts();
            stats.inserts += counts.inserts;
            stats.evictions += counts.evictions;
            stats.refusals += counts.refusals;
            stats.expirations += counts.expirations;
            stats.replacements += counts.replacements;
            stats.removals += counts.removals;
            stats.entries += counts.entries;
            stats.weight += counts.weight;
        }
        stats
    }

    /// Removes expired entries.
    ///
    /// Cost: 16,384 slots of each shard at most, 256 under one hold of its lock; next to nothing if
    /// no deadline can have passed. In a store of that size or less, all are removed; a larger one
    /// needs further calls.
    pub fn reclaim(&self) {
        for shard in &self.inner.shards {
            for _ in 0..RECLAIM_STEPS {
                let mut removed = RemovedEntries::new();
                let now = || self.inner.clock.now();
                let is_done = shard.reclaim(RECLAIM_SLOTS / RECLAIM_STEPS, &now, &mut removed);
                self.inner.tell(removed);
                if is_done {
                    break;
                }
            }
        }
    }

    fn each_shard(
        &self,
        mut work: impl FnMut(&Shard<K, P>, &dyn Fn() -> Duration, &mut RemovedEntries<K, P>),
    ) {
        for shard in &self.inner.shards {
            let mut removed = RemovedEntries::new();
            work(shard, &|| self.inner.clock.now(), &mut removed);
            self.inner.tell(removed);
        }
    }
}

impl<K, P: Deref> LocalInner<K, P> {
    /// The shard to which the stripe of a hash belongs.
    fn shard(&self, hash: u64) -> &Shard<K, P> {
        &self.shards[self.lines.of_hash(hash) >> self.bits]
    }

    /// Whether an entry's time is not over.
    #[inline(always)]
    fn lives(&self, entry: &StoredEntry<K, P>) -> bool {
        let deadline = entry.deadline();
        !deadline.exists() || !deadline.is_over(&*self.clock)
    }

    /// Notifies the listener of removed entries, and drops them.
    fn tell(&self, removed: RemovedEntries<K, P>) {
        if let Some(listener) = &self.listener {
            for (key, value, cause) in &removed {
                listener(key, value, *cause);
            }
        }
    }
}
