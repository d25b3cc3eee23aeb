//! The near cache: serves valid entries from memory, and requests the others from the origin.
//!
//! A hit is one look into the local store and a comparison of three times; it takes no exclusive
//! lock and copies nothing. A miss begins a load ([`crate::read_through::store`]), asks the source
//! ([`crate::read_through::origin`]) and ends it with the answer, all on the reader's own task.
//!
//! Why: docs/decisions/0022-near-coherence.md. Guide: docs/near.md.
//! Tests: tests/without_server/reading.rs, tests/coherence.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::clock::LATELY_BEHIND_MAX;
use crate::read_through::builder::{NearBuilder, Parts, Settings};
use crate::read_through::counts::Stats;
use crate::read_through::entry::{Entry, Freshness, Held};
use crate::read_through::error::Error;
use crate::read_through::origin::Source;
use crate::read_through::store::{
    EntryUpdate, LoadOrWait, Outcome, Store, StoreListener, Ticket, Waiting,
};
use crate::read_through::times::Asked;

mod settle;
mod make; // loaders, in one process and among many
mod write;

pub(crate) use make::Made;

/// A typed cache in front of an origin, shared by cloning.
pub struct Near<K, V> {
    inner: Arc<NearInner<K, V>>,
}

struct NearInner<K, V> {
    store: Arc<Store<K, V>>,
    source: Arc<dyn Source<K, V>>,
    settings: Settings,
    /// One for each loader that may run while the origin is away.
    loads_without_origin: Semaphore,
}

/// The result of a lookup in memory.
pub(crate) enum Found<V> {
    /// A valid entry.
    Hit(Arc<Entry<V>>),
    /// An entry that should be refreshed soon.
    Due(Arc<Entry<V>>),
    /// Nothing that may be served.
    Miss,
}

impl<K, V> Clone for Near<K, V> {
    fn clone(&self) -> Self {
        Near {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K, V> fmt::Debug for Near<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Near").finish_non_exhaustive()
    }
}

impl<K, V> NearBuilder<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// The cache. It opens no connection before the first read or write.
    #[must_use]
    pub fn build(self) -> Near<K, V> {
        let Parts {
            source,
            local,
            clock,
            settings,
            fault,
        } = self.parts();
        let loads_max = settings
            .without_origin
            .map_or(0, |without| without.loads_max);
        let store = Store::new(local, clock, settings.serve_stale.is_some(), fault);
        source.start(Arc::new(StoreListener(Arc::clone(&store))));
        Near {
            inner: Arc::new(NearInner {
                store,
                source,
                settings,
                loads_without_origin: Semaphore::new(loads_max.min(Semaphore::MAX_PERMITS)),
            }),
        }
    }
}

impl<K, V> Near<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// A cache in front of `source`, to be adjusted and built.
    #[must_use]
    pub fn builder(source: impl Source<K, V>) -> NearBuilder<K, V> {
        NearBuilder::new(source)
    }

    /// The value of `key`, from memory or from the origin; `None` if the origin has none.
    ///
    /// Concurrent misses of the same key share one request. Cost of a hit: one lookup and one
    /// atomic addition. Dropping the future cancels the request, and the next waiting reader sends
    /// it again.
    ///
    /// # Errors
    /// [`Error`] if the origin fails, for all readers that share the request; it is not cached.
    pub async fn get<Q>(&self, key: &Q) -> Result<Option<Held<V>>, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_within(key, self.inner.settings.local_ttl).await
    }

    /// The same, with another local time to live: nothing older is served, and loaded entries live
    /// for so long.
    ///
    /// # Errors
    /// As [`Near::get`].
    pub async fn get_for<Q>(&self, key: &Q, local_ttl: Duration) -> Result<Option<Held<V>>, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_within(key, Some(local_ttl)).await
    }

    async fn get_within<Q>(&self, key: &Q, age_max: Option<Duration>) -> Outcome<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.find(key, age_max) {
            Found::Hit(entry) => Ok(Held::of(entry, false)),
            Found::Due(entry) => {
                self.refresh(key, &entry, age_max);
                Ok(Held::of(entry, false))
            }
            Found::Miss => Box::pin(self.miss(key.to_owned(), age_max)).await,
        }
    }

    /// The values of several keys, in their order, with one request for all that are not in memory.
    ///
    /// # Errors
    /// The first error of any key; values loaded for the others stay cached.
    pub async fn get_many(&self, keys: &[K]) -> Result<Vec<Option<Held<V>>>, Error> {
        let age_max = self.inner.settings.local_ttl;
        let mut outcomes: Vec<Option<Outcome<V>>> = Vec::with_capacity(keys.len());
        let mut tickets = Vec::new();
        let mut waiting = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            outcomes.push(match self.find(key, age_max) {
                Found::Hit(entry) => Some(Ok(Held::of(entry, false))),
                Found::Due(entry) => {
                    self.refresh(key, &entry, age_max);
                    Some(Ok(Held::of(entry, false)))
                }
                Found::Miss => {
                    self.inner.store.counts.misses.up();
                    match self.inner.store.join_or_begin(key) {
                        LoadOrWait::Load(ticket) => tickets.push((place, ticket)),
                        LoadOrWait::Wait(one) => waiting.push((place, one)),
                    }
                    None
                }
            });
        }
        self.load_all(tickets, age_max, &mut outcomes).await;
        for (place, one) in waiting {
            let outcome = self.share(one, &keys[place], age_max).await;
            outcomes[place] = Some(outcome);
        }
        // Every key has an outcome by now.
        outcomes.into_iter().flatten().collect()
    }

    /// The value of `key` if memory has one that may be served; sends no request.
    pub fn peek<Q>(&self, key: &Q) -> Option<Held<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.find(key, self.inner.settings.local_ttl) {
            Found::Hit(entry) | Found::Due(entry) => Held::of(entry, false),
            Found::Miss => None,
        }
    }

    /// Calls `read` with the value of `key` if memory has one that is not due for a refresh; else
    /// `None`, and the caller has to call [`Near::get`]. Only a hit counts as a read.
    ///
    /// For values that are counted themselves: `read` runs under the entry's lock, so it is short
    /// and does not use the cache. Cost: that of a hit without the holder's two changes of a count.
    #[inline]
    pub fn read_fresh<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let age_max = self.inner.settings.local_ttl;
        self.inner.store.local.serve(key, |entry| {
            let is_fresh = self.freshness(entry, age_max) == Freshness::Fresh;
            is_fresh.then(|| entry.value().map(read)).flatten()
        })
    }

    /// The cache's statistics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let local = &self.inner.store.local;
        let found = local.stats().hits;
        let counts = &self.inner.store.counts;
        counts.stats(found, local.len() as u64, local.weight())
    }

    /// How long the origin and loaders took.
    #[cfg(feature = "metrics")]
    pub(crate) fn times(&self) -> &crate::read_through::times::Times {
        &self.inner.store.times
    }

    /// Looks a key up in memory for a reader who accepts entries up to `age_max`.
    #[inline]
    pub(crate) fn find<Q>(&self, key: &Q, age_max: Option<Duration>) -> Found<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let store = &self.inner.store;
        let Some(entry) = store.local.get(key) else {
            return Found::Miss;
        };
        match self.freshness(&entry, age_max) {
            Freshness::Fresh => Found::Hit(entry),
            Freshness::Due => Found::Due(entry),
            Freshness::Stale => {
                store.counts.stale_avoided.up();
                Found::Miss
            }
        }
    }

    /// How valid an entry is now for a reader who accepts entries up to `age_max`.
    #[inline]
    fn freshness(&self, entry: &Entry<V>, age_max: Option<Duration>) -> Freshness {
        let clock = &self.inner.store.clock;
        let ahead = self.inner.settings.refresh_ahead;
        // Fresh at a moment that is certainly not past: no need for the exact one.
        let soon = clock.lately().saturating_add(LATELY_BEHIND_MAX);
        match entry.freshness(soon, age_max, ahead) {
            Freshness::Fresh => Freshness::Fresh,
            _ => entry.freshness(clock.now(), age_max, ahead),
        }
    }

    /// Waits for the load of `key` or does it.
    pub(crate) async fn miss(&self, key: K, age_max: Option<Duration>) -> Outcome<V> {
        self.inner.store.counts.misses.up();
        loop {
            match self.inner.store.join_or_begin(&key) {
                LoadOrWait::Load(ticket) => return self.load(ticket, age_max).await,
                LoadOrWait::Wait(waiting) => {
                    self.inner.store.counts.shared.up();
                    if let Some(outcome) = waiting.outcome().await {
                        return outcome;
                    }
                }
            }
        }
    }

    /// Waits for a load that another reader has begun, or does it if that was cancelled.
    async fn share(&self, waiting: Waiting<V>, key: &K, age_max: Option<Duration>) -> Outcome<V> {
        self.inner.store.counts.shared.up();
        match waiting.outcome().await {
            Some(outcome) => outcome,
            None => self.miss(key.clone(), age_max).await,
        }
    }

    /// Loads the key of `ticket`, unless a load has finished since the reader missed it.
    async fn load(&self, ticket: Ticket<K, V>, age_max: Option<Duration>) -> Outcome<V> {
        let store = &self.inner.store;
        let known = store.look_up(ticket.key());
        let asked_at = store.clock.now();
        if let Some(entry) = &known
            && entry.freshness(asked_at, age_max, None) == Freshness::Fresh
        {
            return ticket.finish(EntryUpdate::Leave, Ok(Held::of(Arc::clone(entry), false)));
        }
        store.counts.loads.up();
        let version = known.as_ref().and_then(|entry| entry.version());
        let answer = self.inner.source.load(ticket.key(), version);
        let loaded = store.timed(Asked::Origin, answer).await;
        self.settle(ticket, loaded, known, asked_at, age_max)
    }

    /// Loads the keys of all tickets with one question.
    async fn load_all(
        &self,
        tickets: Vec<(usize, Ticket<K, V>)>,
        age_max: Option<Duration>,
        outcomes: &mut [Option<Outcome<V>>],
    ) {
        if tickets.is_empty() {
            return;
        }
        let keys: Vec<K> = tickets
            .iter()
            .map(|(_, ticket)| ticket.key().clone())
            .collect();
        let asked_at = self.inner.store.clock.now();
        let answers = self.inner.source.load_many(&keys);
        let answers = self.inner.store.timed(Asked::Origin, answers).await;
        let mut answers = answers.into_iter();
        for (place, ticket) in tickets {
            self.inner.store.counts.loads.up();
            let missing = || Err(Error::Protocol("fewer answers than keys".into()));
            let loaded = answers.next().unwrap_or_else(missing);
            outcomes[place] = Some(self.settle(ticket, loaded, None, asked_at, age_max));
        }
    }

    /// Refreshes `entry` in the background, because it was read in the last part of its life.
    #[cold]
    pub(crate) fn refresh<Q>(&self, key: &Q, entry: &Arc<Entry<V>>, age_max: Option<Duration>)
    where
        Q: ToOwned<Owned = K> + ?Sized,
    {
        self.renew_beside(key, entry, move |near, ticket, entry| async move {
            let NearInner { store, source, .. } = &*near.inner;
            let asked_at = store.clock.now();
            let answer = source.load(ticket.key(), entry.version());
            match store.timed(Asked::Origin, answer).await {
                Err(error) => near.leave(ticket, &entry, error),
                loaded => drop(near.settle(ticket, loaded, Some(entry), asked_at, age_max)),
            }
        });
    }

    /// Runs `renew`, which replaces `entry`, on a task of its own, unless a refresh is in progress.
    fn renew_beside<Q, R>(
        &self,
        key: &Q,
        entry: &Arc<Entry<V>>,
        renew: impl FnOnce(Near<K, V>, Ticket<K, V>, Arc<Entry<V>>) -> R + Send + 'static,
    ) where
        Q: ToOwned<Owned = K> + ?Sized,
        R: Future<Output = ()> + Send + 'static,
    {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if !entry.claim_refresh(self.now()) {
            return;
        }
        let (near, key, entry) = (self.clone(), key.to_owned(), Arc::clone(entry));
        runtime.spawn(async move {
            if let Some(ticket) = near.begin_renewal(&key, &entry) {
                renew(near, ticket, entry).await;
            }
        });
    }

    /// Runs `making`, which replaces `entry`, unless a refresh is in progress; ends when it is
    /// done.
    pub(crate) async fn remake_here(
        &self,
        key: K,
        entry: &Arc<Entry<V>>,
        age_max: Option<Duration>,
        making: impl Future<Output = Made<V>>,
    ) {
        if let Some(ticket) = self.begin_renewal(&key, entry) {
            self.remake_ticketed(ticket, entry, age_max, making).await;
        }
    }

    /// The right to load the successor of `entry`, which the caller has claimed to refresh.
    fn begin_renewal(&self, key: &K, entry: &Entry<V>) -> Option<Ticket<K, V>> {
        let store = &self.inner.store;
        let LoadOrWait::Load(ticket) = store.join_or_begin(key) else {
            entry.release_refresh();
            return None;
        };
        store.counts.refreshes.up();
        store.counts.loads.up();
        Some(ticket)
    }

    /// The cache's time.
    pub(crate) fn now(&self) -> Duration {
        self.inner.store.clock.now()
    }

    /// The cache's own bound on the age of served entries.
    pub(crate) fn age_max(&self) -> Option<Duration> {
        self.inner.settings.local_ttl
    }

    /// A number that identifies this key of this cache.
    pub(crate) fn identity(&self, key: &K) -> (usize, u64) {
        let store = &self.inner.store;
        (Arc::as_ptr(store).addr(), store.hash(key))
    }
}
