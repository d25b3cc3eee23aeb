//! The local store: typed values, bounded, with exact deadlines.
//!
//! Its shape is what callers rely on; a sharded store stands behind the same face.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use crate::clock::{Clock, SystemClock};

/// Which entry leaves a full store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Three queues: what is read only once leaves early.
    #[default]
    S3Fifo,
    /// The one that was read longest ago.
    Lru,
}

/// Why an entry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Its time was over.
    Expired,
    /// The room was needed.
    Evicted,
    /// Another value took its place.
    Replaced,
    /// It was removed.
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

/// What has been counted.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LocalStats {
    /// Reads that found a live entry.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
}

type Weigher<K, V> = Box<dyn Fn(&K, &V) -> u32 + Send + Sync>;
type Listener<K, V> = Box<dyn Fn(&K, &Arc<V>, Cause) + Send + Sync>;

/// What a store will be.
pub struct LocalBuilder<K, V> {
    weight_max: u64,
    weigher: Option<Weigher<K, V>>,
    ttl: Option<Duration>,
    listener: Option<Listener<K, V>>,
    clock: Option<Arc<dyn Clock>>,
}

impl<K, V> fmt::Debug for LocalBuilder<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBuilder").finish_non_exhaustive()
    }
}

impl<K, V> LocalBuilder<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Bounds it by this many entries.
    #[must_use]
    pub fn entries_max(mut self, entries: u64) -> Self {
        self.weight_max = entries;
        self.weigher = None;
        self
    }

    /// Bounds it by bytes, as `weigher` counts them.
    #[must_use]
    pub fn bytes_max(
        mut self,
        bytes: u64,
        weigher: impl Fn(&K, &V) -> u32 + Send + Sync + 'static,
    ) -> Self {
        self.weight_max = bytes;
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// How long an entry lives that is inserted without a time of its own.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Into how many parts it is cut.
    #[must_use]
    pub fn shards(self, _shards: usize) -> Self {
        self
    }

    /// Which entry leaves when it is full.
    #[must_use]
    pub fn policy(self, _policy: Policy) -> Self {
        self
    }

    /// Who is told of entries that leave.
    #[must_use]
    pub fn on_evict(
        mut self,
        listener: impl Fn(&K, &Arc<V>, Cause) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// The clock of its deadlines.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The store.
    #[must_use]
    pub fn build(self) -> Local<K, V> {
        Local {
            inner: Arc::new(Inner {
                map: RwLock::default(),
                weight_max: self.weight_max,
                weigher: self.weigher,
                ttl: self.ttl,
                listener: self.listener,
                clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
                hits: AtomicU64::new(0),
                misses: AtomicU64::new(0),
            }),
        }
    }
}

struct Entry<V> {
    value: Arc<V>,
    deadline: Option<Duration>,
}

struct Inner<K, V> {
    map: RwLock<HashMap<K, Entry<V>>>,
    weight_max: u64,
    weigher: Option<Weigher<K, V>>,
    ttl: Option<Duration>,
    listener: Option<Listener<K, V>>,
    clock: Arc<dyn Clock>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A bounded map of typed values, shared by cloning.
pub struct Local<K, V> {
    inner: Arc<Inner<K, V>>,
}

impl<K, V> Clone for Local<K, V> {
    fn clone(&self) -> Self {
        Local {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K, V> fmt::Debug for Local<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}

impl<K, V> Local<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// A builder with room for 10,000 entries and no time limit.
    #[must_use]
    pub fn builder() -> LocalBuilder<K, V> {
        LocalBuilder {
            weight_max: 10_000,
            weigher: None,
            ttl: None,
            listener: None,
            clock: None,
        }
    }

    /// The value of `key`, unless its time is over.
    pub fn get<Q>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let map = self.read();
        let entry = map.get(key).filter(|entry| self.is_live(entry));
        let counter = match entry {
            Some(_) => &self.inner.hits,
            None => &self.inner.misses,
        };
        // Relaxed: a count that orders nothing.
        counter.fetch_add(1, Ordering::Relaxed);
        entry.map(|entry| Arc::clone(&entry.value))
    }

    /// Stores `value` with the builder's time to live.
    pub fn insert(&self, key: K, value: Arc<V>) {
        self.insert_with(key, value, InsertOptions::default());
    }

    /// Stores `value` as `options` say.
    pub fn insert_with(&self, key: K, value: Arc<V>, options: InsertOptions) {
        let ttl = options.ttl.or(self.inner.ttl);
        let deadline = ttl.map(|ttl| self.inner.clock.now().saturating_add(ttl));
        let mut map = self.write();
        map.insert(key, Entry { value, deadline });
        let full = |map: &HashMap<K, Entry<V>>| self.weight_of(map) > self.inner.weight_max;
        if full(&map) {
            map.retain(|_, entry| self.is_live(entry));
        }
        while full(&map) {
            let mut first = true;
            map.retain(|_, _| !std::mem::take(&mut first));
        }
    }

    /// Removes `key` and returns its value.
    pub fn remove<Q>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (key, entry) = self.write().remove_entry(key)?;
        if let Some(listener) = &self.inner.listener {
            listener(&key, &entry.value, Cause::Removed);
        }
        Some(entry.value)
    }

    /// Removes everything.
    pub fn clear(&self) {
        self.write().clear();
    }

    /// How many entries there are, expired ones that have not left included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the entries for which `keep` is false.
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.write().retain(|key, entry| keep(key, &entry.value));
    }

    /// The sum of the weights.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight_of(&self.read())
    }

    /// What has been counted.
    #[must_use]
    pub fn stats(&self) -> LocalStats {
        LocalStats {
            hits: self.inner.hits.load(Ordering::Relaxed),
            misses: self.inner.misses.load(Ordering::Relaxed),
        }
    }

    /// Removes some entries whose time is over.
    pub fn reclaim(&self) {
        self.write().retain(|_, entry| self.is_live(entry));
    }

    fn is_live(&self, entry: &Entry<V>) -> bool {
        entry
            .deadline
            .is_none_or(|deadline| self.inner.clock.now() < deadline)
    }

    fn weight_of(&self, map: &HashMap<K, Entry<V>>) -> u64 {
        let Some(weigher) = &self.inner.weigher else {
            return map.len() as u64;
        };
        map.iter()
            .map(|(key, entry)| u64::from(weigher(key, &entry.value)))
            .sum()
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<K, Entry<V>>> {
        let map = self.inner.map.read();
        map.unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<K, Entry<V>>> {
        let map = self.inner.map.write();
        map.unwrap_or_else(PoisonError::into_inner)
    }
}
