//! Loading through: a value that neither memory nor the origin has is made by the reader's loader.
//!
//! One reader calls the loader, the others of the same key wait for its value, or for the result
//! that there is none. Where the origin has leases, that is one reader of all processes.
//!
//! Invariant: every cached value was read from the origin, because only keys that were read are
//! invalidated; only while the origin is unreachable is a loader's value cached directly.
//!
//! Why: docs/decisions/0030-one-load-for-all-processes.md. Tests: tests/without_server/loading.rs,
//! tests/coherence/leases.rs.

use std::borrow::Borrow;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::{Found, Near, NearInner};
use crate::read_through::builder::{Settings, WithoutOrigin};
use crate::read_through::entry::{Entry, Freshness, Held};
use crate::read_through::error::Error;
use crate::read_through::origin::{Answer, ClaimOptions, Claimed, Loaded, Source, Turn};
use crate::read_through::store::{EntryUpdate, FinishedLoad, LoadOrWait, Outcome, Ticket};
use crate::read_through::times::Asked;

/// First pause of a reader that waits for another process.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The result of a loader: a value, or `None` if there is none.
pub(crate) type Made<V> = Result<Option<V>, Error>;

impl<K, V> Near<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// The value of `key`; if neither memory nor the origin has one, `loader` makes it, it is
    /// stored at the origin, and read back from there.
    ///
    /// It is read back, because only keys that were read are invalidated. If `key` was written or
    /// forgotten while `loader` ran, its value is returned and neither stored nor cached. All
    /// callers that wait for the same key share the outcome, including that the loader has found
    /// nothing, which is cached for the negative time to live. If the origin takes no writes or
    /// refuses, the value is returned and not cached. In the last part of a value's life, as
    /// [`NearBuilder::refresh_ahead`](crate::NearBuilder::refresh_ahead) says, `loader` makes the
    /// next one on a task of its own while readers get the old one.
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
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Option<V>, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let age_max = self.inner.settings.local_ttl;
        // A future is lazy: the loader is not called before it is awaited, and never if it is not.
        let making = async move { loader().await.map_err(Error::loader) };
        match self.find(key, age_max) {
            Found::Hit(entry) if entry.needs_no_loader() => return Ok(Held::of(entry, false)),
            Found::Due(entry) if entry.needs_no_loader() => {
                self.remake(key, &entry, age_max, making);
                return Ok(Held::of(entry, false));
            }
            _ => {}
        }
        self.make_or_wait(key.to_owned(), age_max, making).await
    }

    /// Waits for the load of `key`, or does it with the value of `making`.
    pub(crate) async fn make_or_wait(
        &self,
        key: K,
        age_max: Option<Duration>,
        making: impl Future<Output = Made<V>>,
    ) -> Outcome<V> {
        self.inner.store.counts.misses.up();
        loop {
            let waiting = match self.inner.store.join_or_begin(&key) {
                LoadOrWait::Load(ticket) => return self.make(ticket, age_max, making).await,
                LoadOrWait::Wait(waiting) => waiting,
            };
            self.inner.store.counts.shared.up();
            match waiting.finished().await {
                // Given up, or asked by a reader without a loader.
                None
                | Some(FinishedLoad {
                    outcome: Ok(None),
                    loader_asked: false,
                }) => {}
                Some(finished) => return finished.outcome,
            }
        }
    }

    /// Requests the value from the origin, then calls the loader if it is its turn, and stores the
    /// result.
    async fn make(
        &self,
        ticket: Ticket<K, V>,
        age_max: Option<Duration>,
        making: impl Future<Output = Made<V>>,
    ) -> Outcome<V> {
        let store = &self.inner.store;
        let asked_at = store.clock.now();
        // A load has stored it since the reader missed it.
        if let Some(entry) = store.look_up(ticket.key())
            && entry.needs_no_loader()
            && entry.freshness(asked_at, age_max, None) == Freshness::Fresh
        {
            return ticket.finish(EntryUpdate::Leave, Ok(Held::of(entry, false)));
        }
        store.counts.loads.up();
        let (asked_at, claimed) = self.claim(ticket.key()).await;
        match claimed {
            Ok(Claimed { loaded, turn })
                if turn == Turn::Nobody || is_out_of_turn(&loaded, turn) =>
            {
                self.settle(ticket, Ok(loaded), None, asked_at, age_max)
            }
            Ok(claimed) => self.make_claimed(ticket, claimed, age_max, making).await,
            Err(error) => self.make_alone(ticket, error, age_max, making).await,
        }
    }

    /// Calls the loader because the origin is unreachable, if that is allowed and not too many do;
    /// the value is cached for its own time only.
    async fn make_alone(
        &self,
        mut ticket: Ticket<K, V>,
        error: Error,
        age_max: Option<Duration>,
        making: impl Future<Output = Made<V>>,
    ) -> Outcome<V> {
        let NearInner {
            store, settings, ..
        } = &*self.inner;
        let allowed = settings.without_origin.filter(|_| error.is_away());
        let turn = self.inner.loads_without_origin.try_acquire();
        let (Some(WithoutOrigin { ttl, .. }), Ok(_turn)) = (allowed, turn) else {
            return self.settle_failed(ticket, error, age_max);
        };
        store.counts.errors.up();
        ticket.asks_loader();
        let asked_at = store.clock.now();
        let value = match store.timed(Asked::Loader, making).await {
            Ok(value) => value,
            Err(error) => return self.settle_failed(ticket, error, age_max),
        };
        store.counts.without_origin.up();
        let ttl = match (&value, settings.negative_ttl) {
            (Some(_), _) => ttl,
            (None, negative_ttl) => negative_ttl.unwrap_or_default().min(ttl),
        };
        let entry = Entry::new(value, None, None, asked_at, Some(asked_at + ttl));
        let entry = Arc::new(entry.loader_asked(true));
        let update = match ttl {
            Duration::ZERO => EntryUpdate::Clear,
            ttl => EntryUpdate::Keep(Arc::clone(&entry), Some(ttl)),
        };
        ticket.finish(update, Ok(Held::of(entry, false)))
    }

    /// Asks the origin until there is a value or it is this reader's turn to make one; and when it
    /// was asked last.
    async fn claim(&self, key: &K) -> (Duration, Result<Claimed<V>, Error>) {
        let settings = &self.inner.settings;
        let mut waited = Duration::ZERO;
        let mut pause = PAUSE_MIN;
        loop {
            let asked_at = self.inner.store.clock.now();
            let claimed = self.claim_once(key, None).await;
            let waits = matches!(&claimed, Ok(Claimed { loaded, turn: Turn::Theirs })
                if matches!(loaded.answer, Answer::Absent));
            if !waits || waited >= settings.patience {
                return (asked_at, claimed);
            }
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// Asks the origin once whose turn it is; a value with less time left than `early` is as good
    /// as none.
    async fn claim_once(&self, key: &K, early: Option<Duration>) -> Result<Claimed<V>, Error> {
        let NearInner {
            store,
            source,
            settings,
            ..
        } = &*self.inner;
        match settings.lease_timeout {
            Some(timeout) => {
                let options = ClaimOptions::new(timeout).early(early);
                let answer = source.claim(key, options);
                store.timed(Asked::Origin, answer).await
            }
            None => {
                let options = ClaimOptions::new(Duration::ZERO).early(early);
                let answer = source.load(key, None);
                let loaded = store.timed(Asked::Origin, answer).await?;
                Ok(Claimed::without_leases(loaded, options))
            }
        }
    }

    /// Calls the loader, whose turn it is, and stores its value.
    async fn make_claimed(
        &self,
        mut ticket: Ticket<K, V>,
        claimed: Claimed<V>,
        age_max: Option<Duration>,
        making: impl Future<Output = Made<V>>,
    ) -> Outcome<V> {
        let Claimed { loaded, turn } = claimed;
        let before = self.before(ticket.key(), &loaded, turn);
        ticket.asks_loader();
        let asked_at = self.inner.store.clock.now();
        match self.inner.store.timed(Asked::Loader, making).await {
            Ok(Some(value)) => self.keep_made(ticket, value, before, age_max).await,
            Ok(None) if matches!(before, Before::Lease(_)) => {
                self.give_back(ticket, before, age_max).await
            }
            Ok(None) => self.settle(ticket, Ok(loaded), None, asked_at, age_max),
            Err(error) => self.settle(ticket, Err(error), None, asked_at, age_max),
        }
    }

    /// The state of the key at the origin before the loader is called.
    fn before(&self, key: &K, loaded: &Loaded<V>, turn: Turn) -> Before<K, V> {
        let is_absent = matches!(loaded.answer, Answer::Absent);
        let number = match turn {
            Turn::Ours(Some(number)) => Some(number),
            _ => loaded.version.map(|version| version.number),
        };
        match number {
            Some(number) => Before::Lease(HeldLease {
                source: Arc::clone(&self.inner.source),
                key: key.clone(),
                number,
                stands_for_nothing: is_absent && matches!(turn, Turn::Ours(Some(_))),
            }),
            None if is_absent => Before::Nothing,
            None => Before::Value,
        }
    }

    /// Stores a loader's value, if the key was not written since the loader was called, and reads
    /// the key back.
    async fn keep_made(
        &self,
        ticket: Ticket<K, V>,
        value: V,
        before: Before<K, V>,
        age_max: Option<Duration>,
    ) -> Outcome<V> {
        let source = &self.inner.source;
        let asked_at = self.inner.store.clock.now();
        if ticket.is_forgotten() {
            before.give_back().await;
            let entry = Entry::new(Some(value), None, None, asked_at, None);
            self.inner.store.counts.overtaken.up();
            return ticket.finish(EntryUpdate::Leave, Ok(Held::of(Arc::new(entry), false)));
        }
        let stored = self.store_made(&ticket, &value, before).await;
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
                ticket.finish(EntryUpdate::Clear, Ok(Held::of(Arc::new(entry), false)))
            }
        }
    }

    /// Stores a made value, unless something else was written since the loader was asked: that is
    /// newer.
    async fn store_made(
        &self,
        ticket: &Ticket<K, V>,
        value: &V,
        before: Before<K, V>,
    ) -> Result<(), Error> {
        let NearInner {
            source, settings, ..
        } = &*self.inner;
        let key = ticket.key();
        let ttl = settings.origin_ttl.map(|ttl| settings.jittered(ttl));
        match before {
            Before::Lease(lease) => {
                source.store_claimed(key, value, ttl, lease.number).await?;
                lease.end();
            }
            Before::Nothing => drop(source.store_absent(key, value, ttl).await?),
            // Only an invalidation shows whether it is still the same.
            Before::Value if ticket.is_in_flight() => source.store(key, value, ttl).await?,
            Before::Value => {}
        }
        Ok(())
    }

    /// Returns a lease for which there is nothing to store, and reads the key again.
    async fn give_back(
        &self,
        ticket: Ticket<K, V>,
        before: Before<K, V>,
        age_max: Option<Duration>,
    ) -> Outcome<V> {
        before.give_back().await;
        ticket.renew();
        let asked_at = self.inner.store.clock.now();
        let loaded = self.inner.source.load(ticket.key(), None).await;
        self.settle(ticket, loaded, None, asked_at, age_max)
    }

    /// Makes the next value in the background, because `entry` was read in the last part of its
    /// life.
    #[cold]
    fn remake<Q>(
        &self,
        key: &Q,
        entry: &Arc<Entry<V>>,
        age_max: Option<Duration>,
        making: impl Future<Output = Made<V>> + Send + 'static,
    ) where
        Q: ToOwned<Owned = K> + ?Sized,
    {
        self.renew_beside(key, entry, move |near, ticket, entry| async move {
            near.remake_ticketed(ticket, &entry, age_max, making).await;
        });
    }

    /// Makes the value that comes after `entry`, if it is this process's turn.
    pub(super) async fn remake_ticketed(
        &self,
        ticket: Ticket<K, V>,
        entry: &Arc<Entry<V>>,
        age_max: Option<Duration>,
        making: impl Future<Output = Made<V>>,
    ) {
        let asked_at = self.inner.store.clock.now();
        let claimed = self.claim_once(ticket.key(), self.early(entry)).await;
        match claimed {
            Err(error) => self.leave(ticket, entry, error),
            // A value made elsewhere is reported by a notification, or found when this load has
            // ended.
            Ok(claimed) if claimed.turn == Turn::Theirs => {
                drop(ticket.finish(EntryUpdate::Leave, Ok(Held::of(Arc::clone(entry), false))));
            }
            Ok(Claimed {
                loaded,
                turn: Turn::Nobody,
            }) => {
                let known = Some(Arc::clone(entry));
                drop(self.settle(ticket, Ok(loaded), known, asked_at, age_max));
            }
            Ok(claimed) => {
                self.remake_claimed(ticket, claimed, entry, age_max, making)
                    .await;
            }
        }
    }

    /// Calls the loader, whose turn it is, and stores its value in place of `entry`.
    async fn remake_claimed(
        &self,
        mut ticket: Ticket<K, V>,
        claimed: Claimed<V>,
        entry: &Arc<Entry<V>>,
        age_max: Option<Duration>,
        making: impl Future<Output = Made<V>>,
    ) {
        let before = self.before(ticket.key(), &claimed.loaded, claimed.turn);
        ticket.asks_loader();
        match self.inner.store.timed(Asked::Loader, making).await {
            Ok(Some(value)) => drop(self.keep_made(ticket, value, before, age_max).await),
            // There is no next value; this one ends with its time.
            Ok(None) => {
                drop(ticket.finish(EntryUpdate::Leave, Ok(Held::of(Arc::clone(entry), false))))
            }
            Err(error) => self.leave(ticket, entry, error),
        }
    }

    /// Leaves an entry that could not be refreshed: it is good for a while yet, and its readers
    /// have not asked. The next of them asks after a pause.
    pub(super) fn leave(&self, ticket: Ticket<K, V>, entry: &Entry<V>, error: Error) {
        self.inner.store.counts.errors.up();
        self.inner.store.counts.refreshes_failed.up();
        drop(ticket.finish(EntryUpdate::Leave, Err(error)));
        entry.refresh_failed(self.inner.store.clock.now());
    }

    /// How little time left at the origin calls for the next value.
    fn early(&self, entry: &Entry<V>) -> Option<Duration> {
        let Settings {
            origin_ttl,
            refresh_ahead,
            ..
        } = self.inner.settings;
        let whole = origin_ttl.or_else(|| entry.life())?;
        refresh_ahead.map(|part| whole.mul_f64(part))
    }
}

/// Whether it is another client's turn, and an older value can be served.
fn is_out_of_turn<V>(loaded: &Loaded<V>, turn: Turn) -> bool {
    turn == Turn::Theirs && !matches!(loaded.answer, Answer::Absent)
}

/// The state of a key at the origin before a loader is called: the loader's value is stored only if
/// that is unchanged.
enum Before<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// A lease of ours, or the version that was read.
    Lease(HeldLease<K, V>),
    /// No value.
    Nothing,
    /// A value without a version.
    Value,
}

impl<K, V> Before<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Returns a lease. After an error it ends by its timeout; the next read fails as well.
    async fn give_back(self) {
        if let Before::Lease(lease) = self {
            drop(lease.give_back().await);
        }
    }
}

/// A lease at the origin; returned when it is dropped, so that a loader that fails, panics or is
/// cancelled does not make other clients wait for its timeout.
struct HeldLease<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    source: Arc<dyn Source<K, V>>,
    key: K,
    number: u64,
    /// There is no value beside it that giving it back could remove.
    stands_for_nothing: bool,
}

impl<K, V> HeldLease<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Ends it after the value was stored.
    fn end(mut self) {
        self.stands_for_nothing = false;
    }

    /// Gives it back.
    async fn give_back(mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.stands_for_nothing) {
            return Ok(());
        }
        self.source.release(&self.key, self.number).await
    }
}

impl<K, V> Drop for HeldLease<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    fn drop(&mut self) {
        if !self.stands_for_nothing {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (source, key, number) = (Arc::clone(&self.source), self.key.clone(), self.number);
        runtime.spawn(async move { drop(source.release(&key, number).await) });
    }
}
