//! Origins: the sources of values and of invalidations.
//!
//! An [`Origin`] knows bytes, a [`Source`] knows types; [`Remote`] makes a source of an origin and
//! a codec, [`Function`] makes one of any async function. Both a new origin and a new source take
//! part in coherence by the same three promises:
//!
//! 1. [`Loaded::grant`] was taken before the request was sent, on the connection that receives
//!    invalidations.
//! 2. Every change is reported to the [`Listener`] in the order of the connection's messages,
//!    before the answers to later requests are delivered.
//! 3. The trust is made void when everything may have changed, and ended when the connection is
//!    lost.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::read_through::error::Error;
use crate::read_through::trust::Grant;
pub use crate::read_through::version::Version;

mod claim;
#[cfg(any(feature = "redis", feature = "memcached"))]
mod login;
#[cfg(feature = "tls")]
mod tls;
pub mod function;
pub mod remote;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "memcached")]
pub mod memcached;

pub use claim::{ClaimOptions, Claimed, Turn};
pub use function::Function;
#[cfg(feature = "memcached")]
pub use memcached::Memcached;
#[cfg(feature = "redis")]
pub use redis::Redis;
pub use remote::Remote;
#[cfg(feature = "tls")]
pub use tls::Tls;

/// A result that is on its way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The origin's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<V> {
    /// The value.
    Value(V),
    /// There is none.
    Absent,
    /// It is still the version that the question named.
    Unchanged,
}

/// An answer, and how long it is valid.
#[derive(Clone, Debug)]
pub struct Loaded<V> {
    /// The answer.
    pub answer: Answer<V>,
    /// The time that the value has left at the origin, or more; none for a value that stays.
    ///
    /// Counted from the moment of the question, so it is never too long.
    pub ttl: Option<Duration>,
    /// Its version, if the origin can be asked later whether this is still the value.
    pub version: Option<Version>,
    /// The right to serve it; none if there are no invalidations and only time bounds it.
    pub grant: Option<Grant>,
}

impl<V> Loaded<V> {
    /// An answer that only time bounds.
    #[must_use]
    pub fn new(answer: Answer<V>) -> Loaded<V> {
        Loaded {
            answer,
            ttl: None,
            version: None,
            grant: None,
        }
    }

    /// The same with another answer made of its value.
    ///
    /// # Errors
    /// What `change` returns.
    pub fn try_map<W>(
        self,
        change: impl FnOnce(V) -> Result<W, Error>,
    ) -> Result<Loaded<W>, Error> {
        Ok(Loaded {
            answer: match self.answer {
                Answer::Value(value) => Answer::Value(change(value)?),
                Answer::Absent => Answer::Absent,
                Answer::Unchanged => Answer::Unchanged,
            },
            ttl: self.ttl,
            version: self.version,
            grant: self.grant,
        })
    }
}

/// Receives invalidations. The task that reads the connection calls it, so it must not block.
pub trait Listener<K: ?Sized>: Send + Sync + 'static {
    /// This key has changed.
    fn invalidate(&self, key: &K);

    /// Grants have become void or have ended; their copies may be thrown away.
    fn flush(&self);

    /// The cache's time.
    fn now(&self) -> Duration;
}

/// A place that keeps bytes under keys.
pub trait Origin: Send + Sync + 'static {
    /// Sets the listener of invalidations; called once, before all other methods.
    fn start(&self, listener: Arc<dyn Listener<[u8]>>);

    /// Asks for one value; `known` is a version that the caller has.
    fn load<'a>(
        &'a self,
        key: &'a [u8],
        known: Option<Version>,
    ) -> Pending<'a, Result<Loaded<Vec<u8>>, Error>>;

    /// Asks for several values in one go; one result for each key, in their order.
    fn load_many<'a>(
        &'a self,
        keys: &'a [Vec<u8>],
    ) -> Pending<'a, Vec<Result<Loaded<Vec<u8>>, Error>>>;

    /// Stores a value; without `ttl` it stays until it is evicted.
    fn store<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<(), Error>>;

    /// Removes a value; whether there was one.
    fn remove<'a>(&'a self, key: &'a [u8]) -> Pending<'a, Result<bool, Error>>;

    /// Requests one value, and which client is to make it if there is none.
    fn claim<'a>(
        &'a self,
        key: &'a [u8],
        options: ClaimOptions,
    ) -> Pending<'a, Result<Claimed<Vec<u8>>, Error>> {
        Box::pin(async move {
            let loaded = self.load(key, None).await?;
            Ok(Claimed::without_leases(loaded, options))
        })
    }

    /// Stores a value if there is none; returns whether there was none.
    ///
    /// An origin without such a command stores it anyway, as this default does.
    fn store_absent<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move { self.store(key, value, ttl).await.map(|()| true) })
    }

    /// Stores a loader's value, if the key was not written since `lease` was given, or since the
    /// version with this number was read; returns whether it was stored.
    fn store_claimed<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
        lease: u64,
    ) -> Pending<'a, Result<bool, Error>> {
        let _ = lease;
        Box::pin(async move { self.store(key, value, ttl).await.map(|()| true) })
    }

    /// Gives `lease` back, so that others need not wait for its end.
    fn release<'a>(&'a self, key: &'a [u8], lease: u64) -> Pending<'a, Result<(), Error>> {
        let _ = (key, lease);
        Box::pin(async { Ok(()) })
    }
}

/// A place that keeps typed values under typed keys.
pub trait Source<K, V>: Send + Sync + 'static {
    /// Sets the listener of invalidations; called once, before all other methods.
    fn start(&self, listener: Arc<dyn Listener<K>>);

    /// Asks for one value; `known` is a version that the caller has.
    fn load<'a>(
        &'a self,
        key: &'a K,
        known: Option<Version>,
    ) -> Pending<'a, Result<Loaded<V>, Error>>;

    /// Asks for several values; one result for each key, in their order.
    fn load_many<'a>(&'a self, keys: &'a [K]) -> Pending<'a, Vec<Result<Loaded<V>, Error>>>;

    /// Stores a value; without `ttl` it stays until it is evicted.
    fn store<'a>(
        &'a self,
        key: &'a K,
        value: &'a V,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<(), Error>>;

    /// Removes a value; whether there was one.
    fn remove<'a>(&'a self, key: &'a K) -> Pending<'a, Result<bool, Error>>;

    /// Requests one value, and which client is to make it if there is none.
    fn claim<'a>(
        &'a self,
        key: &'a K,
        options: ClaimOptions,
    ) -> Pending<'a, Result<Claimed<V>, Error>>
    where
        K: Sync,
        V: Send,
    {
        Box::pin(async move {
            let loaded = self.load(key, None).await?;
            Ok(Claimed::without_leases(loaded, options))
        })
    }

    /// Stores a value if there is none; returns whether there was none.
    ///
    /// An origin without such a command stores it anyway, as this default does.
    fn store_absent<'a>(
        &'a self,
        key: &'a K,
        value: &'a V,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<bool, Error>>
    where
        K: Sync,
        V: Sync,
    {
        Box::pin(async move { self.store(key, value, ttl).await.map(|()| true) })
    }

    /// Stores a loader's value, if the key was not written since `lease` was given, or since the
    /// version with this number was read; returns whether it was stored.
    fn store_claimed<'a>(
        &'a self,
        key: &'a K,
        value: &'a V,
        ttl: Option<Duration>,
        lease: u64,
    ) -> Pending<'a, Result<bool, Error>>
    where
        K: Sync,
        V: Sync,
    {
        let _ = lease;
        Box::pin(async move { self.store(key, value, ttl).await.map(|()| true) })
    }

    /// Gives `lease` back, so that others need not wait for its end.
    fn release<'a>(&'a self, key: &'a K, lease: u64) -> Pending<'a, Result<(), Error>> {
        let _ = (key, lease);
        Box::pin(async { Ok(()) })
    }
}
