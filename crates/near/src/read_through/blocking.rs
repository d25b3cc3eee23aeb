//! The near cache for threads without an async runtime: the same cache with blocking calls.
//!
//! A hit is [`Near`]'s, on the caller's thread. A miss polls the request on the caller's thread
//! ([`wait`]) and sleeps in between, or reads the answer itself where the connection is a lane
//! ([`crate::read_through::lane`]); connections and timers live on one thread ([`background`]) that
//! the cache starts and ends. A loader runs on the thread that brought it, between two polls, so it
//! may borrow, block, and use this or another cache for other keys.
//!
//! Invariant: no call blocks inside an async runtime, and no loader waits for itself.
//!
//! Why: docs/decisions/0038-a-blocking-face-and-c.md,
//! docs/decisions/0061-threads-that-wait-lead-their-connection.md.
//! Tests: tests/without_server/blocking.rs, tests/blocking_lane.rs.

mod background; // the thread of connections and timers
mod sleeper; // a thread that waits, and how it is woken
mod wait; // how a thread waits for an answer
mod own; // the keys that this thread is loading

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use self::background::Background;
use self::own::OwnLoad;
use self::wait::Call;
use crate::read_through::builder::NearBuilder;
use crate::read_through::counts::Stats;
use crate::read_through::entry::{Entry, Held};
use crate::read_through::error::Error;
use crate::read_through::near::{Found, Near};
use crate::read_through::store::Outcome;

/// A near cache for threads without an async runtime, shared by cloning.
///
/// All of a cache's clones share one thread, which ends with the last of them. Hits do not touch
/// it.
///
/// ```no_run
/// use cellar_near::codec::Plain;
/// use cellar_near::origin::{Redis, Remote};
/// use cellar_near::{Error, Near};
///
/// fn main() -> Result<(), Error> {
///     let origin = Remote::new(Redis::open("redis://127.0.0.1:6379")?, Plain);
///     let names = Near::<u64, String>::builder(origin).build_blocking()?;
///     names.set(&7, &"Ada".to_owned())?;
///     let name = names.get_or_load(&8, || Ok::<_, Error>(Some("Grace".to_owned())))?;
///     println!("{:?} {:?}", names.get(&7)?, name);
///     Ok(())
/// }
/// ```
pub struct BlockingNear<K, V> {
    near: Near<K, V>,
    background: Arc<Background>,
    wait_max: Option<Duration>,
}

impl<K, V> Clone for BlockingNear<K, V> {
    fn clone(&self) -> Self {
        BlockingNear {
            near: self.near.clone(),
            background: Arc::clone(&self.background),
            wait_max: self.wait_max,
        }
    }
}

impl<K, V> fmt::Debug for BlockingNear<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingNear")
            .field("wait_max", &self.wait_max)
            .finish_non_exhaustive()
    }
}

impl<K, V> NearBuilder<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// The cache for threads without an async runtime. It starts a thread and opens no connection.
    ///
    /// # Errors
    /// [`Error::Thread`] if the thread cannot be started.
    pub fn build_blocking(self) -> Result<BlockingNear<K, V>, Error> {
        BlockingNear::new(self.build())
    }
}

impl<K, V> BlockingNear<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// The blocking interface of `near`; the async one remains usable in the same process.
    ///
    /// # Errors
    /// [`Error::Thread`] if the thread cannot be started.
    pub fn new(near: Near<K, V>) -> Result<BlockingNear<K, V>, Error> {
        Ok(BlockingNear {
            near,
            background: Arc::new(Background::start()?),
            wait_max: None,
        })
    }

    /// Bounds how long each call of this handle waits for the origin and for loads of other
    /// callers.
    ///
    /// A caller's own loader is not cut off, and once it has been called only the origin's own
    /// timeout counts. Unless set, only that and `patience` apply; an
    /// [`origin::Function`](crate::origin::Function) has neither.
    #[must_use]
    pub fn wait_max(mut self, most: Duration) -> Self {
        self.wait_max = Some(most);
        self
    }

    /// The async face of the same cache.
    #[must_use]
    pub fn near(&self) -> &Near<K, V> {
        &self.near
    }

    /// The value of `key`, from memory or from the origin; `None` if the origin has none.
    ///
    /// Concurrent misses of the same key share one request. Cost of a hit: that of [`Near::get`]. A
    /// miss sleeps until the answer comes.
    ///
    /// # Errors
    /// As [`Near::get`]; [`Error::Timeout`] after `wait_max`. A call that would have to wait
    /// returns [`Error::InsideRuntime`] in an async runtime, also on its threads for blocking work
    /// (await [`Near`] there), and [`Error::OwnLoad`] in a loader of the same key.
    pub fn get<Q>(&self, key: &Q) -> Result<Option<Held<V>>, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_within(key, self.near.age_max())
    }

    /// The same, with another local time to live, as [`Near::get_for`].
    ///
    /// # Errors
    /// As [`BlockingNear::get`].
    pub fn get_for<Q>(&self, key: &Q, local_ttl: Duration) -> Result<Option<Held<V>>, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_within(key, Some(local_ttl))
    }

    fn get_within<Q>(&self, key: &Q, age_max: Option<Duration>) -> Outcome<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.near.find(key, age_max) {
            Found::Hit(entry) => Ok(Held::of(entry, false)),
            Found::Due(entry) => {
                let _context = self.background.enter();
                self.near.refresh(key, &entry, age_max);
                Ok(Held::of(entry, false))
            }
            Found::Miss => {
                let key = key.to_owned();
                own::refuse(self.near.identity(&key))?;
                self.wait(self.near.miss(key, age_max))
            }
        }
    }

    /// The values of several keys, in their order, with one request for all that are missing.
    ///
    /// # Errors
    /// As [`Near::get_many`] and [`BlockingNear::get`]; in an async runtime also if memory has all.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<Held<V>>>, Error> {
        for key in keys {
            own::refuse(self.near.identity(key))?;
        }
        self.wait(self.near.get_many(keys))
    }

    /// The value of `key`; if neither memory nor the origin has one, `loader` makes it on this
    /// thread, as [`Near::get_or_load`] says.
    ///
    /// All callers that wait for the key get the same value or error. In the last part of a value's
    /// life, as [`NearBuilder::refresh_ahead`] says, the one reader whose turn it is makes the next
    /// value before it returns the old one; all others return at once.
    ///
    /// # Errors
    /// As [`BlockingNear::get`]; [`Error::Loader`] if the loader fails.
    pub fn get_or_load<Q, F, E>(&self, key: &Q, loader: F) -> Result<Option<Held<V>>, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: FnOnce() -> Result<Option<V>, E>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let age_max = self.near.age_max();
        let due = match self.near.find(key, age_max) {
            Found::Hit(entry) if entry.needs_no_loader() => return Ok(Held::of(entry, false)),
            Found::Due(entry) if entry.needs_no_loader() => Some(entry),
            _ => None,
        };
        let key = key.to_owned();
        let identity = self.near.identity(&key);
        let call = Call::new(|| {
            let _own = OwnLoad::begin(identity);
            loader().map_err(Error::loader)
        });
        if let Some(entry) = due {
            return Ok(self.remake(key, entry, &call));
        }
        own::refuse(identity)?;
        self.wait_with(self.near.make_or_wait(key, age_max, call.made()), &call)
    }

    /// Returns with `entry`, which is due, after the next one was made if that is this reader's
    /// part. Where that would wait inside a runtime, or fails, the entry is good for a while yet.
    #[cold]
    fn remake<F>(&self, key: K, entry: Arc<Entry<V>>, call: &Call<F, V>) -> Option<Held<V>>
    where
        F: FnOnce() -> Result<Option<V>, Error>,
    {
        if !wait::is_inside_runtime() && entry.claim_refresh(self.near.now()) {
            let age_max = self.near.age_max();
            let remade = self.near.remake_here(key, &entry, age_max, call.made());
            let remade = async {
                remade.await;
                Ok(())
            };
            if self.wait_with(remade, call).is_err() {
                entry.release_refresh();
            }
        }
        Held::of(entry, false)
    }

    /// Stores `value` at the origin; readers of this cache see it as soon as this returns.
    ///
    /// # Errors
    /// As [`Near::set`] and [`BlockingNear::get`].
    pub fn set<Q>(&self, key: &Q, value: &V) -> Result<(), Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.wait(self.near.set(key, value))
    }

    /// The same with a time to live at the origin.
    ///
    /// # Errors
    /// As [`BlockingNear::set`].
    pub fn set_for<Q>(&self, key: &Q, value: &V, ttl: Duration) -> Result<(), Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.wait(self.near.set_for(key, value, ttl))
    }

    /// Removes the value of `key` from the origin; whether there was one.
    ///
    /// # Errors
    /// As [`BlockingNear::set`].
    pub fn remove<Q>(&self, key: &Q) -> Result<bool, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.wait(self.near.remove(key))
    }

    /// The value of `key` if memory has one that may be served; sends no request.
    pub fn peek<Q>(&self, key: &Q) -> Option<Held<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.near.peek(key)
    }

    /// Drops the copy of `key` in memory; the origin is not contacted.
    pub fn forget<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.near.forget(key);
    }

    /// Drops all copies in memory.
    pub fn forget_all(&self) {
        self.near.forget_all();
    }

    /// The cache's statistics.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.near.stats()
    }

    fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let nothing = Call::new(|| Ok::<Option<()>, Error>(None));
        self.wait_with(answer, &nothing)
    }

    /// Waits for `answer`, and calls when it asks for that.
    fn wait_with<T, F, M>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
        call: &Call<F, M>,
    ) -> Result<T, Error>
    where
        F: FnOnce() -> Result<Option<M>, Error>,
    {
        if wait::is_inside_runtime() {
            return Err(Error::InsideRuntime);
        }
        let answer = wait::bounded(answer, self.wait_max, call);
        wait::wait_for(&self.background, answer, call)
    }
}
