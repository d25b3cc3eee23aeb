//! Stages: how a request gets its ads, from Redis alone over a sharded cache that hands out
//! references to a near cache, which the server tells what has changed.

use std::borrow::Borrow;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cellar_near::codec::Json;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Error as NearError, Near};
use lru::LruCache;
use tokio::runtime::{Builder, Runtime};

use super::ad::{Ad, failed};
use cellar_load::{Error, now_ns};

/// A way to get ads.
pub(super) trait Stage: Sync {
    /// Shows each of these ads, if need be through the thread's own connection.
    /// If the server fails or has not got one of them.
    fn read(
        &self,
        connection: &mut redis::Connection,
        ids: &[u64],
        show: &mut dyn FnMut(&Ad),
    ) -> Result<(), Error>;

    /// Ads that were found in the process, and others.
    fn hits_and_misses(&self) -> (u64, u64);
}

/// Asks the server for ads and decodes them.
fn ask(connection: &mut redis::Connection, ids: &[u64]) -> Result<Vec<Ad>, Error> {
    let mut command = redis::cmd("MGET");
    command.arg(ids);
    let values: Vec<Option<Vec<u8>>> = command.query(connection).map_err(failed)?;
    let ads = values.into_iter().zip(ids).map(|(value, id)| match value {
        Some(value) => Ad::decode(&value),
        None => Err(Error::Wrong(format!("the server has no ad {id}"))),
    });
    ads.collect()
}

/// What a cache holds and hands out: an ad of its own, or a reference.
pub(super) trait Form: Borrow<Ad> + Clone + From<Ad> + Send {}

impl<T: Borrow<Ad> + Clone + From<Ad> + Send> Form for T {}

/// An ad and when it was loaded.
struct Loaded<T> {
    ad: T,
    at_ns: u64,
}

/// Maps with lists, one lock each; without any it is Redis alone. What is handed out is a copy if
/// `T` is an ad, and shared if it is a reference.
pub(super) struct LruStage<T> {
    shards: Vec<Mutex<LruCache<u64, Loaded<T>>>>,
    ttl_ns: Option<u64>,
    // Relaxed: counts order nothing.
    hits: AtomicU64,
    misses: AtomicU64,
}

impl<T: Form> LruStage<T> {
    /// A stage with so many shards, which hold `held` ads together, each for `ttl`.
    pub(super) fn new(held: usize, shards: usize, ttl: Option<Duration>) -> LruStage<T> {
        let room = NonZeroUsize::new(held / shards.max(1)).unwrap_or(NonZeroUsize::MIN);
        LruStage {
            shards: (0..shards)
                .map(|_| Mutex::new(LruCache::new(room)))
                .collect(),
            ttl_ns: ttl.map(|ttl| u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    fn with_shard<R>(&self, id: u64, run: impl FnOnce(&mut LruCache<u64, Loaded<T>>) -> R) -> R {
        let shard = &self.shards[id as usize % self.shards.len()];
        run(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the cache has, copied or shared under the lock.
    fn find(&self, id: u64, now_ns: u64) -> Option<T> {
        if self.shards.is_empty() {
            return None;
        }
        self.with_shard(id, |shard| {
            let loaded = shard.get(&id)?;
            let age_ns = now_ns.saturating_sub(loaded.at_ns);
            let is_over = self.ttl_ns.is_some_and(|ttl_ns| age_ns >= ttl_ns);
            (!is_over).then(|| loaded.ad.clone())
        })
    }

    fn keep(&self, ad: Ad, at_ns: u64) -> T {
        let ad = T::from(ad);
        if self.shards.is_empty() {
            return ad;
        }
        let id = ad.borrow().id;
        let kept = ad.clone();
        self.with_shard(id, |shard| shard.put(id, Loaded { ad: kept, at_ns }));
        ad
    }
}

impl<T: Form> Stage for LruStage<T> {
    fn read(
        &self,
        connection: &mut redis::Connection,
        ids: &[u64],
        show: &mut dyn FnMut(&Ad),
    ) -> Result<(), Error> {
        let now_ns = now_ns();
        let mut missing = Vec::new();
        for &id in ids {
            match self.find(id, now_ns) {
                Some(ad) => show(ad.borrow()),
                None => missing.push(id),
            }
        }
        let hits = ids.len() - missing.len();
        // Relaxed: counts order nothing.
        self.misses
            .fetch_add(missing.len() as u64, Ordering::Relaxed);
        self.hits.fetch_add(hits as u64, Ordering::Relaxed);
        if missing.is_empty() {
            return Ok(());
        }
        for ad in ask(connection, &missing)? {
            show(self.keep(ad, now_ns).borrow());
        }
        Ok(())
    }

    fn hits_and_misses(&self) -> (u64, u64) {
        // Relaxed: counts order nothing.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.hits), count(&self.misses))
    }
}

/// A near cache and the thread of its connection.
pub(super) struct NearStage {
    near: Near<u64, Ad>,
    runtime: Runtime,
}

impl NearStage {
    pub(super) fn new(url: &str, held: u64) -> Result<NearStage, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Error::system("starting a runtime", error))?;
        let origin = Redis::open(url).map_err(near_failed)?;
        let entered = runtime.enter();
        let near = Near::builder(Remote::new(origin, Json))
            .entries_max(held)
            .build();
        drop(entered);
        Ok(NearStage { near, runtime })
    }
}

impl Stage for NearStage {
    fn read(
        &self,
        _: &mut redis::Connection,
        ids: &[u64],
        show: &mut dyn FnMut(&Ad),
    ) -> Result<(), Error> {
        let ads = self.near.get_many(ids);
        let ads = self.runtime.block_on(ads).map_err(near_failed)?;
        for (ad, id) in ads.iter().zip(ids) {
            match ad {
                Some(ad) => show(ad),
                None => return Err(Error::Wrong(format!("the server has no ad {id}"))),
            }
        }
        Ok(())
    }

    fn hits_and_misses(&self) -> (u64, u64) {
        let stats = self.near.stats();
        (stats.hits, stats.misses)
    }
}

fn near_failed(error: NearError) -> Error {
    Error::Wrong(format!("the near cache: {error}"))
}
