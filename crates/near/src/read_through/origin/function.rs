//! Any async function as a source.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::{Answer, Listener, Loaded, Pending, Source, Version};
use crate::read_through::error::Error;

/// A source that calls a function for every load and takes no writes.
///
/// It sends no invalidations: copies live as long as the cache's local time to live.
pub struct Function<F, Fut> {
    function: F,
    future: PhantomData<fn() -> Fut>,
}

impl<F, Fut> Function<F, Fut> {
    /// A source out of `function`, which returns `None` for a key without a value.
    pub fn new<K, V, E>(function: F) -> Function<F, Fut>
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<V>, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Function {
            function,
            future: PhantomData,
        }
    }
}

impl<F, Fut> fmt::Debug for Function<F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").finish_non_exhaustive()
    }
}

impl<K, V, E, F, Fut> Source<K, V> for Function<F, Fut>
where
    K: Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    F: Fn(K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<V>, E>> + Send + 'static,
{
    fn start(&self, _listener: Arc<dyn Listener<K>>) {}

    fn load<'a>(
        &'a self,
        key: &'a K,
        _known: Option<Version>,
    ) -> Pending<'a, Result<Loaded<V>, Error>> {
        let result = (self.function)(key.clone());
        Box::pin(async move {
            match result.await {
                Ok(Some(value)) => Ok(Loaded::new(Answer::Value(value))),
                Ok(None) => Ok(Loaded::new(Answer::Absent)),
                Err(error) => Err(Error::loader(error)),
            }
        })
    }

    fn load_many<'a>(&'a self, keys: &'a [K]) -> Pending<'a, Vec<Result<Loaded<V>, Error>>> {
        Box::pin(futures_util::future::join_all(
            keys.iter().map(|key| self.load(key, None)),
        ))
    }

    fn store<'a>(
        &'a self,
        _key: &'a K,
        _value: &'a V,
        _ttl: Option<Duration>,
    ) -> Pending<'a, Result<(), Error>> {
        Box::pin(async { Err(Error::ReadOnly) })
    }

    fn remove<'a>(&'a self, _key: &'a K) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async { Err(Error::ReadOnly) })
    }
}
