//! Writes through the cache: whether they succeed or not, no earlier copy is served afterwards.

use std::borrow::Borrow;
use std::hash::Hash;
use std::time::Duration;

use super::Near;
use crate::read_through::error::Error;
use crate::read_through::fault::Fault;
use crate::read_through::store::Store;

impl<K, V> Near<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Stores `value` at the origin; readers of this cache see it as soon as this returns.
    ///
    /// The copy in memory is dropped before the write is sent and again when it has ended, however
    /// it ends. It is not replaced: only keys that were read are invalidated.
    ///
    /// # Errors
    /// [`Error`] if the origin fails; on a timeout the write may have happened or may yet happen.
    pub async fn set<Q>(&self, key: &Q, value: &V) -> Result<(), Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let settings = &self.inner.settings;
        let ttl = settings.origin_ttl.map(|ttl| settings.jittered(ttl));
        self.store(key, value, ttl).await
    }

    /// The same with a time to live at the origin.
    ///
    /// # Errors
    /// As [`Near::set`].
    pub async fn set_for<Q>(&self, key: &Q, value: &V, ttl: Duration) -> Result<(), Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.store(key, value, Some(ttl)).await
    }

    async fn store<Q>(&self, key: &Q, value: &V, ttl: Option<Duration>) -> Result<(), Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let key = key.to_owned();
        let _writing = Writing::begin(&self.inner.store, &key);
        self.inner.source.store(&key, value, ttl).await
    }

    /// Removes the value of `key` from the origin; whether there was one.
    ///
    /// # Errors
    /// As [`Near::set`].
    pub async fn remove<Q>(&self, key: &Q) -> Result<bool, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let key = key.to_owned();
        let _writing = Writing::begin(&self.inner.store, &key);
        self.inner.source.remove(&key).await
    }

    /// Drops the copy of `key` in memory; the origin is not contacted.
    pub fn forget<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.inner.store.forget(&key.to_owned());
    }

    /// Drops all copies in memory.
    pub fn forget_all(&self) {
        self.inner.store.forget_all();
    }
}

/// A write under way: the copy in memory is dropped when it begins and when it ends.
struct Writing<'a, K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    store: &'a Store<K, V>,
    key: &'a K,
}

impl<'a, K, V> Writing<'a, K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    fn begin(store: &'a Store<K, V>, key: &'a K) -> Writing<'a, K, V> {
        let writing = Writing { store, key };
        writing.forget();
        writing
    }

    fn forget(&self) {
        if !self.store.fault.is(Fault::KeptOnWrite) {
            self.store.forget(self.key);
        }
    }
}

impl<K, V> Drop for Writing<'_, K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    fn drop(&mut self) {
        self.forget();
    }
}
