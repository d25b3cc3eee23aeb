//! The caches that are compared, behind one face.

use std::sync::Arc;
use std::time::Duration;

use cellar_near::{Local, Policy};
use clap::ValueEnum;
use serde::Serialize;

/// Length of a value. With the two counts before it, it leaves nothing unused in its memory block.
pub(super) const VALUE_BYTES: usize = 120;
/// The time to live of entries that have one: none expires during the measurement.
const TTL: Duration = Duration::from_secs(86_400);
const LRU_SHARDS: usize = 64;

/// What is cached.
pub(super) type Value = [u8; VALUE_BYTES];

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CacheName {
    /// The near cache's local store.
    Cellar,
    /// The same, each entry with a time to live.
    CellarTtl,
    /// The same by strict LRU.
    CellarLru,
    /// quick_cache with its defaults.
    QuickCache,
    /// moka's synchronous cache with its defaults.
    Moka,
    /// The lru crate's map in 64 shards, each behind a mutex.
    LruMutex,
}

impl CacheName {
    /// An empty cache for so many entries.
    pub(super) fn build<V: Send + Sync + 'static>(self, entries: u64) -> Box<dyn Subject<V>> {
        let builder = Local::builder().entries_max(entries);
        match self {
            CacheName::Cellar => Box::new(builder.build()),
            CacheName::CellarTtl => Box::new(builder.ttl(TTL).build()),
            CacheName::CellarLru => Box::new(builder.policy(Policy::Lru).build()),
            CacheName::QuickCache => Box::new(SharedQuickCache::<V>::new(entries as usize)),
            CacheName::Moka => Box::new(SharedMoka::<V>::new(entries)),
            CacheName::LruMutex => Box::new(LruShards::new(entries as usize)),
        }
    }
}

/// A cache of numbered values.
pub(super) trait Subject<V>: Send + Sync {
    /// Stores a value.
    fn insert(&self, key: u64, value: Arc<V>);
    /// Whether the key is there.
    fn has(&self, key: u64) -> bool;
    /// How many of the keys are there; what is found is looked at by `see`.
    fn reads(&self, keys: &[u32], see: fn(&V) -> bool) -> u64;
    /// Does what the cache has put off.
    fn settle(&self) {}
}

/// Gives a cache the face of a subject, by its functions.
macro_rules! subject {
    ($cache:ty, $get:expr, $insert:expr, $settle:expr) => {
        impl<V: Send + Sync + 'static> Subject<V> for $cache {
            fn insert(&self, key: u64, value: Arc<V>) {
                $insert(self, key, value);
            }
            fn has(&self, key: u64) -> bool {
                $get(self, &key).is_some()
            }
            fn reads(&self, keys: &[u32], see: fn(&V) -> bool) -> u64 {
                let found = |&&key: &&u32| $get(self, &u64::from(key)).is_some_and(|it| see(&it));
                keys.iter().filter(found).count() as u64
            }
            fn settle(&self) {
                $settle(self);
            }
        }
    };
}

type SharedQuickCache<V> = quick_cache::sync::Cache<u64, Arc<V>>;
type SharedMoka<V> = moka::sync::Cache<u64, Arc<V>>;

subject!(Local<u64, V>, Local::get, Local::insert, |_| ());
subject!(
    SharedQuickCache<V>,
    SharedQuickCache::get,
    SharedQuickCache::insert,
    |_| ()
);
subject!(
    SharedMoka<V>,
    SharedMoka::get,
    SharedMoka::insert,
    SharedMoka::run_pending_tasks
);
subject!(LruShards<V>, LruShards::get, LruShards::insert, |_| ());

/// The plain way: maps that move what is read to their front, each behind a mutex.
struct LruShards<V> {
    shards: Vec<parking_lot::Mutex<lru::LruCache<u64, Arc<V>>>>,
}

impl<V> LruShards<V> {
    /// Few entries make one shard, so that the policy is seen and not its parts.
    fn new(entries: usize) -> LruShards<V> {
        let count = (entries / 4096).next_power_of_two().clamp(1, LRU_SHARDS);
        let each = entries.div_ceil(count).max(1);
        let each = std::num::NonZeroUsize::new(each).expect("it is at least one");
        let shard = || parking_lot::Mutex::new(lru::LruCache::new(each));
        LruShards {
            shards: (0..count).map(|_| shard()).collect(),
        }
    }

    fn get(&self, key: &u64) -> Option<Arc<V>> {
        self.shard(*key).lock().get(key).map(Arc::clone)
    }

    fn insert(&self, key: u64, value: Arc<V>) {
        self.shard(key).lock().put(key, value);
    }

    fn shard(&self, key: u64) -> &parking_lot::Mutex<lru::LruCache<u64, Arc<V>>> {
        let hash = cellar_load::mix(key);
        &self.shards[hash as usize % self.shards.len()]
    }
}
