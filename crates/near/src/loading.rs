//! The local store with loads: of all threads that miss a key, one loads the value, the others
//! wait.
//!
//! A load is registered as in flight before its loader runs. A write by the process removes the
//! load of its key. A load that is not registered any more when it ends returns its value to the
//! waiting threads, but stores no entry: the value may be older than the write. Hits are those of
//! [`LocalOf`] and do not depend on loads.
//!
//! Invariant: the load in flight and the entry of a key change together under the lock of the key's
//! lane, as long as loads are under way. Lock order: lane, then the store; a flight's own lock
//! alone.
//!
//! Why: docs/decisions/0038-a-blocking-face-and-c.md. Tests: tests/without_server/loading_local.rs.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rapidhash::quality::RandomState;

use crate::local::{InsertOptions, LocalOf};

/// Stripes of the table of loads in flight.
const IN_FLIGHT_STRIPES: usize = 64;

/// Why there is no value although a loader was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// The loader failed, here or in the thread that was waited for.
    Loader(E),
    /// The loader of a key asks for the same key: it would wait for itself.
    OwnLoad,
    /// Another thread's loader took longer than the caller waits.
    Timeout(Duration),
}

impl<E: fmt::Display> fmt::Display for LoadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Loader(error) => write!(f, "the loader failed: {error}"),
            LoadError::OwnLoad => write!(f, "the loader of a key asks for the same key"),
            LoadError::Timeout(most) => write!(f, "another thread's loader took over {most:?}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for LoadError<E> {}

/// The result of a loader of a [`LoadingLocal`].
pub type Making<V, E> = MakingOf<Arc<V>, E>;

/// The result of a loader: a value and how to store it, or `None` if there is no value.
pub type MakingOf<P, E> = Result<Option<(P, InsertOptions)>, E>;

/// The result of a load, for all callers that wait for it.
type Ending<P, E> = Result<Option<P>, E>;

/// A [`Local`](crate::Local) whose missing values one thread makes for all.
pub type LoadingLocal<K, V, E> = LoadingOf<K, Arc<V>, E>;

/// A [`LocalOf`] in which one thread loads a missing value for all, shared by cloning.
///
/// It needs no async runtime. `E` is the error of loaders, which all waiting threads receive.
///
/// ```
/// use std::sync::Arc;
/// use cellar_near::{InsertOptions, Local, LoadingLocal};
///
/// let users: LoadingLocal<u64, String, String> = LoadingLocal::new(Local::builder().build());
/// let load = || Ok(Some((Arc::new("Ada".to_owned()), InsertOptions::default())));
/// let user = users.get_or_load(&7, None, load).unwrap();
/// assert_eq!(user.as_deref().map(String::as_str), Some("Ada"));
/// assert!(users.get(&7).is_some());
/// ```
pub struct LoadingOf<K, P: Deref, E> {
    local: LocalOf<K, P>,
    in_flight: Arc<InFlight<K, P, E>>,
}

type InFlightStripe<K, P, E> = HashMap<K, Arc<LocalFlight<P, E>>, RandomState>;

struct InFlight<K, P, E> {
    lanes: Box<[Mutex<InFlightStripe<K, P, E>>]>,
    hasher: RandomState,
    // SeqCst: a write that sees none comes before every load that begins later.
    under_way: AtomicUsize,
}

/// A load that is under way.
struct LocalFlight<P, E> {
    loader_thread: ThreadId,
    state: Mutex<FlightState<P, E>>,
    ended: Condvar,
}

enum FlightState<P, E> {
    Loading,
    GivenUp,
    Finished(Ending<P, E>),
}

impl<K, P: Deref, E> Clone for LoadingOf<K, P, E> {
    fn clone(&self) -> Self {
        LoadingOf {
            local: self.local.clone(),
            in_flight: Arc::clone(&self.in_flight),
        }
    }
}

impl<K, P: Deref, E> fmt::Debug for LoadingOf<K, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadingLocal").finish_non_exhaustive()
    }
}

impl<K, P, E> LoadingOf<K, P, E>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    P: Deref + Clone + Send + Sync + 'static,
    E: Clone,
{
    /// The same store with loads. A write to `local` itself removes no load in flight.
    #[must_use]
    pub fn new(local: LocalOf<K, P>) -> Self {
        LoadingOf {
            local,
            in_flight: Arc::new(InFlight {
                lanes: (0..IN_FLIGHT_STRIPES).map(|_| Mutex::default()).collect(),
                hasher: RandomState::new(),
                under_way: AtomicUsize::new(0),
            }),
        }
    }

    /// The store, to be read and asked for its figures.
    #[must_use]
    pub fn local(&self) -> &LocalOf<K, P> {
        &self.local
    }

    /// The value of `key`, unless it has expired; as [`LocalOf::get`].
    #[inline(always)]
    pub fn get<Q>(&self, key: &Q) -> Option<P>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.local.get(key)
    }

    /// The value of `key`; if there is none, `loader` makes it on this thread, or this thread waits
    /// for the one that does, for `wait_max` at most. `None` if the loader found nothing, which is
    /// not cached.
    ///
    /// A loader may use the store for other keys. When it panics, a waiting thread takes over.
    ///
    /// # Errors
    /// [`LoadError`], which is not cached.
    pub fn get_or_load<Q>(
        &self,
        key: &Q,
        wait_max: Option<Duration>,
        loader: impl FnOnce() -> MakingOf<P, E>,
    ) -> Result<Option<P>, LoadError<E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.local.get(key) {
            Some(value) => Ok(Some(value)),
            None => self.load_or_wait(key.to_owned(), wait_max, loader),
        }
    }

    fn load_or_wait(
        &self,
        key: K,
        wait_max: Option<Duration>,
        loader: impl FnOnce() -> MakingOf<P, E>,
    ) -> Result<Option<P>, LoadError<E>> {
        loop {
            let flight = match self.begin(&key) {
                Ok(pass) => return self.load(pass, loader),
                Err(flight) => flight,
            };
            if flight.loader_thread == std::thread::current().id() {
                return Err(LoadError::OwnLoad);
            }
            if let Some(told) = flight.wait(wait_max)? {
                return told.map_err(LoadError::Loader);
            }
        }
    }

    fn load(
        &self,
        pass: Pass<'_, K, P, E>,
        loader: impl FnOnce() -> MakingOf<P, E>,
    ) -> Result<Option<P>, LoadError<E>> {
        // A load has stored it since this thread missed it.
        if let Some(value) = self.local.peek(&pass.key) {
            pass.finish(Ok(Some(value.clone())), || ());
            return Ok(Some(value));
        }
        let made = match loader() {
            Ok(made) => made,
            Err(error) => {
                pass.finish(Err(error.clone()), || ());
                return Err(LoadError::Loader(error));
            }
        };
        let value = made.as_ref().map(|(value, _)| value.clone());
        let key = pass.key.clone();
        pass.finish(Ok(value.clone()), || {
            if let Some((value, options)) = made {
                self.local.insert_with(key, value, options);
            }
        });
        Ok(value)
    }

    /// The right to load `key`, or the load that is under way.
    fn begin(&self, key: &K) -> Result<Pass<'_, K, P, E>, Arc<LocalFlight<P, E>>> {
        let mut lane = self.in_flight.lane(key);
        if let Some(flight) = lane.get(key) {
            return Err(Arc::clone(flight));
        }
        let flight = Arc::new(LocalFlight {
            loader_thread: std::thread::current().id(),
            state: Mutex::new(FlightState::Loading),
            ended: Condvar::new(),
        });
        lane.insert(key.clone(), Arc::clone(&flight));
        // SeqCst: as at its declaration.
        self.in_flight.under_way.fetch_add(1, Ordering::SeqCst);
        Ok(Pass {
            in_flight: &self.in_flight,
            key: key.clone(),
            flight,
        })
    }

    /// Stores `value` as `options` say, as [`LocalOf::insert_with`]; a load of the key that is
    /// under way is not kept.
    pub fn insert_with(&self, key: K, value: P, options: InsertOptions) {
        let _lane = self.in_flight.remove_in_flight(&key);
        self.local.insert_with(key, value, options);
    }

    /// Removes `key` and returns its value, as [`LocalOf::remove`]; a load of the key that is under
    /// way is not kept.
    pub fn remove<Q>(&self, key: &Q) -> Option<P>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let _lane = self.in_flight.remove_in_flight(key);
        self.local.remove(key)
    }

    /// Removes everything, as [`LocalOf::clear`]; loads in progress store no entry.
    pub fn clear(&self) {
        for lane in &self.in_flight.lanes {
            lane.lock().clear();
        }
        self.local.clear();
    }
}

impl<K: Hash + Eq, P, E> InFlight<K, P, E> {
    fn lane<Q: Hash + ?Sized>(&self, key: &Q) -> MutexGuard<'_, InFlightStripe<K, P, E>> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any part of the hash will do"
        )]
        let index = self.hasher.hash_one(key) as usize % IN_FLIGHT_STRIPES;
        self.lanes[index].lock()
    }

    /// Removes the load of `key` from those in flight; the lane stays locked while the caller
    /// changes the entry.
    fn remove_in_flight<Q>(&self, key: &Q) -> Option<MutexGuard<'_, InFlightStripe<K, P, E>>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // SeqCst: as at its declaration. A load that begins now sees the caller's changes.
        if self.under_way.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut lane = self.lane(key);
        lane.remove(key);
        Some(lane)
    }
}

/// The right to load one key; released when dropped.
struct Pass<'a, K: Hash + Eq, P, E> {
    in_flight: &'a InFlight<K, P, E>,
    key: K,
    flight: Arc<LocalFlight<P, E>>,
}

impl<K: Hash + Eq, P, E> Pass<'_, K, P, E> {
    /// Ends the load: lets `keep` store the value unless the key was touched, and notifies all
    /// waiting threads.
    fn finish(self, told: Ending<P, E>, keep: impl FnOnce()) {
        let mut lane = self.in_flight.lane(&self.key);
        if self.remove_from(&mut lane) {
            keep();
        }
        drop(lane);
        *self.flight.state.lock() = FlightState::Finished(told);
    }

    /// Removes the load from those in flight; whether it was one of them.
    fn remove_from(&self, lane: &mut InFlightStripe<K, P, E>) -> bool {
        let found = lane.get(&self.key);
        let is_ours = found.is_some_and(|flight| Arc::ptr_eq(flight, &self.flight));
        if is_ours {
            lane.remove(&self.key);
        }
        is_ours
    }
}

impl<K: Hash + Eq, P, E> Drop for Pass<'_, K, P, E> {
    /// A load that has not finished has failed by a panic: one that waits may load.
    fn drop(&mut self) {
        let mut lane = self.in_flight.lane(&self.key);
        self.remove_from(&mut lane);
        drop(lane);
        // SeqCst: as at its declaration.
        self.in_flight.under_way.fetch_sub(1, Ordering::SeqCst);
        let mut state = self.flight.state.lock();
        if matches!(*state, FlightState::Loading) {
            *state = FlightState::GivenUp;
        }
        drop(state);
        self.flight.ended.notify_all();
    }
}

impl<P: Clone, E: Clone> LocalFlight<P, E> {
    /// Waits for the result of the load; `None` if it was abandoned.
    fn wait(&self, most: Option<Duration>) -> Result<Option<Ending<P, E>>, LoadError<E>> {
        let mut state = self.state.lock();
        let is_loading = |state: &mut FlightState<P, E>| matches!(state, FlightState::Loading);
        match most {
            None => self.ended.wait_while(&mut state, is_loading),
            Some(most) => {
                let waited = self.ended.wait_while_for(&mut state, is_loading, most);
                if waited.timed_out() {
                    return Err(LoadError::Timeout(most));
                }
            }
        }
        match &*state {
            FlightState::Finished(told) => Ok(Some(told.clone())),
            FlightState::Loading | FlightState::GivenUp => Ok(None),
        }
    }
}
