//! Loading through: a value that neither memory nor the origin has is made by the reader's loader.
//!
//! One reader asks the loader, the others of the same key wait for what it makes, or for the news
//! that there is nothing.
//!
//! Invariant: what is kept was read back from the origin, because only what was read is told when
//! it changes.
//!
//! Tests: tests/loading.rs.

use std::borrow::Borrow;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::{Found, Near};
use crate::entry::{Entry, Freshness, Held};
use crate::error::Error;
use crate::origin::Answer;
use crate::store::{Boarding, Landed, Landing, Outcome, Ticket};

impl<K, V> Near<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// The value of `key`; if neither memory nor the origin has one, `loader` makes it, it is
    /// stored at the origin, and read back from there.
    ///
    /// Read back, because only what has been read is told when it changes. Whoever waits for the
    /// same key shares the outcome, also that the loader has found nothing, which is remembered for
    /// the negative time to live. If the origin takes no writes or refuses, the made value is
    /// returned and not kept.
    ///
    /// # Errors
    /// As [`Near::get`]; [`Error::Loader`] if the loader fails.
    pub async fn get_or_load<Q, F, Fut, E>(
        &self,
        key: &Q,
        loader: F,
    ) -> Result<Option<Held<V>>, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<V>, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let age_max = self.inner.settings.local_ttl;
        match self.find(key, age_max) {
            Found::Hit(entry) if entry.needs_no_loader() => return Ok(Held::of(entry, false)),
            Found::Due(entry) if entry.needs_no_loader() => {
                self.refresh(key, &entry, age_max);
                return Ok(Held::of(entry, false));
            }
            _ => {}
        }
        let key = key.to_owned();
        self.inner.store.counts.misses.up();
        loop {
            let waiting = match self.inner.store.board(&key) {
                Boarding::Load(ticket) => return self.make(ticket, age_max, loader).await,
                Boarding::Wait(waiting) => waiting,
            };
            self.inner.store.counts.shared.up();
            match waiting.landed().await {
                // Given up, or asked by a reader without a loader.
                None
                | Some(Landed {
                    outcome: Ok(None),
                    loader_asked: false,
                }) => {}
                Some(landed) => return landed.outcome,
            }
        }
    }

    /// Asks the origin, then the loader, and stores what that makes.
    async fn make<F, Fut, E>(
        &self,
        mut ticket: Ticket<K, V>,
        age_max: Option<Duration>,
        loader: F,
    ) -> Outcome<V>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<V>, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let store = &self.inner.store;
        let source = &self.inner.source;
        let asked_at = store.clock.now();
        // Landed since the reader missed it.
        if let Some(entry) = store.look_up(ticket.key())
            && entry.needs_no_loader()
            && entry.freshness(asked_at, age_max, None) == Freshness::Fresh
        {
            return ticket.land(Landing::Leave, Ok(Held::of(entry, false)));
        }
        store.counts.loads.up();
        let loaded = source.load(ticket.key(), None).await;
        if !matches!(&loaded, Ok(loaded) if matches!(loaded.answer, Answer::Absent)) {
            return self.settle(ticket, loaded, None, asked_at, age_max);
        }
        ticket.asks_loader();
        let asked_at = store.clock.now();
        match loader().await.map_err(Error::loader) {
            Ok(Some(value)) => self.keep_made(ticket, value, age_max).await,
            Ok(None) => self.settle(ticket, loaded, None, asked_at, age_max),
            Err(error) => self.settle(ticket, Err(error), None, asked_at, age_max),
        }
    }

    /// Stores a made value and reads it back.
    async fn keep_made(
        &self,
        ticket: Ticket<K, V>,
        value: V,
        age_max: Option<Duration>,
    ) -> Outcome<V> {
        let source = &self.inner.source;
        let stored = source
            .store(ticket.key(), &value, self.inner.settings.origin_ttl)
            .await;
        ticket.renew();
        let asked_at = self.inner.store.clock.now();
        let read_back = match stored {
            Ok(()) => source.load(ticket.key(), None).await,
            Err(error) => Err(error),
        };
        match read_back {
            Ok(loaded) if matches!(loaded.answer, Answer::Value(_)) => {
                self.settle(ticket, Ok(loaded), None, asked_at, age_max)
            }
            _ => {
                let entry = Entry::new(Some(value), None, None, asked_at, None);
                ticket.land(Landing::Clear, Ok(Held::of(Arc::new(entry), false)))
            }
        }
    }
}
