//! A cache with a clock that tests move, and short ways to use it.

use std::sync::Arc;

use cellar_engine::{
    Cache, Clock, Config, Deadline, Error, Instant, ManualClock, SetOptions, Stored,
};

/// A cache and its clock.
pub(crate) struct Timed {
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<ManualClock>,
}

impl Timed {
    /// One shard, so that nothing depends on how keys spread.
    pub(crate) fn new(memory_bytes: usize) -> Timed {
        Timed::with(Config {
            shards: Some(1),
            seed: Some(3),
            ..Config::with_memory(memory_bytes)
        })
    }

    pub(crate) fn with(config: Config) -> Timed {
        let clock = Arc::new(ManualClock::starting_at(Instant(60_000)));
        let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let cache = Cache::new(Config {
            clock: shared,
            ..config
        })
        .expect("a valid configuration");
        Timed { cache, clock }
    }

    pub(crate) fn deadline(&self, ttl_ms: Option<u64>) -> Deadline {
        ttl_ms.map_or(Deadline::NEVER, |ttl_ms| self.cache.now().plus_ms(ttl_ms))
    }

    pub(crate) fn set(
        &self,
        key: &str,
        value: &[u8],
        ttl_ms: Option<u64>,
    ) -> Result<Stored, Error> {
        let options = SetOptions {
            deadline: self.deadline(ttl_ms),
            ..SetOptions::default()
        };
        self.cache
            .set(self.cache.key(key.as_bytes())?, value, &options)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let key = self.cache.key(key.as_bytes()).expect("a valid key");
        self.cache.get(key, |item| item.value.to_vec())
    }
}
