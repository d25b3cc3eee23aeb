//! An origin of bytes and a codec, as a source of typed values.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{ClaimOptions, Claimed, Listener, Loaded, Origin, Pending, Source, Version};
use crate::read_through::codec::Codec;
use crate::read_through::error::Error;
use crate::read_through::key::Key;

/// Typed values at an origin: keys under a prefix, values through a codec.
pub struct Remote<O, C> {
    origin: O,
    codec: C,
    prefix: Arc<[u8]>,
}

impl<O, C> Remote<O, C> {
    /// Values of `origin`, written and read by `codec`.
    pub fn new(origin: O, codec: C) -> Remote<O, C> {
        Remote {
            origin,
            codec,
            prefix: Arc::from([]),
        }
    }

    /// Puts `prefix` before every key at the origin.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.prefix = Arc::from(prefix.as_ref());
        self
    }

    fn bytes_of(&self, key: &impl Key) -> Vec<u8> {
        let mut bytes = self.prefix.to_vec();
        key.append_to(&mut bytes);
        bytes
    }
}

impl<O, C> fmt::Debug for Remote<O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

impl<K, V, O, C> Source<K, V> for Remote<O, C>
where
    K: Key,
    V: Send + Sync + 'static,
    O: Origin,
    C: Codec<V>,
{
    fn start(&self, listener: Arc<dyn Listener<K>>) {
        self.origin.start(Arc::new(Translator {
            listener,
            prefix: Arc::clone(&self.prefix),
        }));
    }

    fn load<'a>(
        &'a self,
        key: &'a K,
        known: Option<Version>,
    ) -> Pending<'a, Result<Loaded<V>, Error>> {
        Box::pin(async move {
            let bytes = self.bytes_of(key);
            let loaded = self.origin.load(&bytes, known).await?;
            loaded.try_map(|value| self.codec.decode(value))
        })
    }

    fn load_many<'a>(&'a self, keys: &'a [K]) -> Pending<'a, Vec<Result<Loaded<V>, Error>>> {
        Box::pin(async move {
            let bytes: Vec<Vec<u8>> = keys.iter().map(|key| self.bytes_of(key)).collect();
            let loaded = self.origin.load_many(&bytes).await;
            let decode = |one: Result<Loaded<Vec<u8>>, Error>| {
                one?.try_map(|value| self.codec.decode(value))
            };
            loaded.into_iter().map(decode).collect()
        })
    }

    fn store<'a>(
        &'a self,
        key: &'a K,
        value: &'a V,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let value = self.codec.encode(value)?;
            self.origin.store(&self.bytes_of(key), &value, ttl).await
        })
    }

    fn remove<'a>(&'a self, key: &'a K) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move { self.origin.remove(&self.bytes_of(key)).await })
    }

    fn claim<'a>(
        &'a self,
        key: &'a K,
        options: ClaimOptions,
    ) -> Pending<'a, Result<Claimed<V>, Error>> {
        Box::pin(async move {
            let bytes = self.bytes_of(key);
            let Claimed { loaded, turn } = self.origin.claim(&bytes, options).await?;
            let loaded = loaded.try_map(|value| self.codec.decode(value))?;
            Ok(Claimed { loaded, turn })
        })
    }

    fn store_absent<'a>(
        &'a self,
        key: &'a K,
        value: &'a V,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move {
            let value = self.codec.encode(value)?;
            let bytes = self.bytes_of(key);
            self.origin.store_absent(&bytes, &value, ttl).await
        })
    }

    fn store_claimed<'a>(
        &'a self,
        key: &'a K,
        value: &'a V,
        ttl: Option<Duration>,
        lease: u64,
    ) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move {
            let value = self.codec.encode(value)?;
            let bytes = self.bytes_of(key);
            self.origin.store_claimed(&bytes, &value, ttl, lease).await
        })
    }

    fn release<'a>(&'a self, key: &'a K, lease: u64) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move { self.origin.release(&self.bytes_of(key), lease).await })
    }
}

/// Translates the origin's invalidations of bytes to typed keys; bytes that are no key are ignored.
struct Translator<K> {
    listener: Arc<dyn Listener<K>>,
    prefix: Arc<[u8]>,
}

impl<K: Key> Listener<[u8]> for Translator<K> {
    fn invalidate(&self, key: &[u8]) {
        let key = key.strip_prefix(&*self.prefix).and_then(K::from_bytes);
        if let Some(key) = key {
            self.listener.invalidate(&key);
        }
    }

    fn flush(&self) {
        self.listener.flush();
    }

    fn now(&self) -> Duration {
        self.listener.now()
    }
}
