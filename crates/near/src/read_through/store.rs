//! The store of a near cache: its entries, and the loads in flight.
//!
//! A load is registered as in flight before its request is sent. Whatever changes the key until the
//! answer comes removes the load from those in flight, and then the load stores no entry.
//!
//! | event | entry | load in flight |
//! |---|---|---|
//! | invalidation | removed | removed: ends without storing |
//! | own write, `forget` | removed | removed for good: its loader's value is not stored either |
//! | reader comes | served if fresh | joined |
//! | answer comes | stored | removed |
//! | loader cancelled | as it is | removed; one that waits begins another |
//!
//! Invariant: the load in flight and the entry of a key change together under its lane's lock.
//! Lock order: lane, then the local store.

mod sweep_flag;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use self::sweep_flag::SweepFlag;
use crate::clock::Clock;
use crate::local::{InsertOptions, Local};
use crate::read_through::counts::Counts;
use crate::read_through::entry::{Entry, Held};
use crate::read_through::error::Error;
use crate::read_through::fault::{Fault, Given};
use crate::read_through::origin::Listener;
use crate::read_through::times::{Asked, Times};

/// Stripes of the table of loads in flight.
const LANES: usize = 64;

/// How a load ends, for all callers that wait for it.
pub(crate) type Outcome<V> = Result<Option<Held<V>>, Error>;

/// The result of a load, for the callers that wait for it.
#[derive(Debug)]
pub(crate) struct FinishedLoad<V> {
    pub(crate) outcome: Outcome<V>,
    /// Whether a loader was called, so that no value means that none can be made either.
    pub(crate) loader_asked: bool,
}

impl<V> Clone for FinishedLoad<V> {
    fn clone(&self) -> Self {
        FinishedLoad {
            outcome: self.outcome.clone(),
            loader_asked: self.loader_asked,
        }
    }
}

/// A load that is under way.
struct Flight<V> {
    id: u64,
    finished: watch::Receiver<Option<FinishedLoad<V>>>,
}

/// The loads of one part of the keys.
struct Lane<K, V> {
    /// Loads that readers may join.
    in_flight: HashMap<K, Flight<V>>,
    /// For each key whose loader runs, the flags that are set when the key is forgotten meanwhile.
    loaders: HashMap<K, Vec<Arc<AtomicBool>>>,
}

impl<K, V> Default for Lane<K, V> {
    fn default() -> Self {
        Lane {
            in_flight: HashMap::new(),
            loaders: HashMap::new(),
        }
    }
}

/// Entries and loads under way.
pub(crate) struct Store<K, V> {
    pub(crate) local: Local<K, Entry<V>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counts: Counts,
    pub(crate) times: Times,
    pub(crate) fault: Given,
    /// Whether entries stay that have lost touch: they are served if the origin fails.
    keep_lost: bool,
    lanes: Box<[Mutex<Lane<K, V>>]>,
    hasher: RandomState,
    flights: AtomicU64,
    warned_of_weight: Once,
    /// A [`Sweeper`] is on its way to the entries.
    sweep_ahead: SweepFlag,
}

/// The next step of a reader after a miss.
pub(crate) enum LoadOrWait<K: Hash + Eq, V> {
    /// It loads.
    Load(Ticket<K, V>),
    /// It waits for the load that is under way.
    Wait(Waiting<V>),
}

impl<K, V> Store<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    pub(crate) fn new(
        local: Local<K, Entry<V>>,
        clock: Arc<dyn Clock>,
        keep_lost: bool,
        fault: Given,
    ) -> Arc<Store<K, V>> {
        Arc::new(Store {
            local,
            clock,
            counts: Counts::default(),
            times: Times::default(),
            fault,
            keep_lost,
            lanes: (0..LANES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            flights: AtomicU64::new(0),
            warned_of_weight: Once::new(),
            sweep_ahead: SweepFlag::new(),
        })
    }

    /// Joins the load of `key` that is under way, or begins one.
    pub(crate) fn join_or_begin(self: &Arc<Self>, key: &K) -> LoadOrWait<K, V> {
        let mut lane = self.lane(key);
        if let Some(flight) = lane.in_flight.get(key) {
            return LoadOrWait::Wait(Waiting {
                finished: flight.finished.clone(),
            });
        }
        // Relaxed: only the number's difference from all others matters.
        let id = self.flights.fetch_add(1, Ordering::Relaxed);
        let (sender, finished) = watch::channel(None);
        lane.in_flight.insert(key.clone(), Flight { id, finished });
        drop(lane);
        LoadOrWait::Load(Ticket {
            store: Arc::clone(self),
            key: key.clone(),
            id,
            forgotten: None,
            sender,
        })
    }

    /// Logs, the first time, that a value is too heavy to be kept.
    fn warn_of_weight(&self) {
        self.warned_of_weight.call_once(|| {
            log::warn!(
                "a value is heavier than its shard's part of the bound, so each read asks the \
                 origin: raise bytes_max or take fewer shards (logged once for each cache)"
            );
        });
    }

    /// Waits for an answer, and notes how long it took.
    pub(crate) async fn timed<T>(&self, asked: Asked, answer: impl Future<Output = T>) -> T {
        let asked_at = self.clock.now();
        let answer = answer.await;
        let time = self.clock.now().saturating_sub(asked_at);
        self.times.note(asked, time);
        answer
    }

    /// Removes the entry of `key` and its load in flight: the origin has changed it.
    fn invalidate(&self, key: &K) {
        let mut lane = self.lane(key);
        lane.in_flight.remove(key);
        self.local.remove(key);
    }

    /// The same, and values of running loaders of `key` are not stored: this process has changed
    /// it.
    pub(crate) fn forget(&self, key: &K) {
        let mut lane = self.lane(key);
        lane.in_flight.remove(key);
        lane.loaders.remove(key).iter().for_each(warn);
        self.local.remove(key);
    }

    /// Forgets all keys.
    pub(crate) fn forget_all(&self) {
        for lane in &self.lanes {
            let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
            lane.in_flight.clear();
            lane.loaders.drain().for_each(|(_, loaders)| warn(&loaders));
        }
        self.local.clear();
    }

    /// The entry of `key`, for no reader.
    pub(crate) fn look_up(&self, key: &K) -> Option<Arc<Entry<V>>> {
        let entry = self.local.get(key)?;
        self.counts.looked_up.up();
        Some(entry)
    }

    /// Drops entries whose grant is void or, unless they may be served stale, has ended.
    fn sweep(&self) {
        self.sweep_ahead.lower();
        self.local
            .retain(|_, entry| !entry.is_void() && (self.keep_lost || !entry.has_lost_touch()));
    }

    /// A number by which this store distinguishes keys, nearly always.
    pub(crate) fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    fn lane(&self, key: &K) -> MutexGuard<'_, Lane<K, V>> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any part of the hash will do"
        )]
        let index = self.hasher.hash_one(key) as usize % LANES;
        let lane = self.lanes[index].lock();
        lane.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells loaders that their key is forgotten.
fn warn(loaders: &Vec<Arc<AtomicBool>>) {
    for forgotten in loaders {
        // Relaxed: written and read under the lane's lock.
        forgotten.store(true, Ordering::Relaxed);
    }
}

/// The store as the origin sees it.
pub(crate) struct StoreListener<K, V>(pub(crate) Arc<Store<K, V>>);

impl<K, V> Listener<K> for StoreListener<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    fn invalidate(&self, key: &K) {
        self.0.counts.invalidations.up();
        self.0.invalidate(key);
    }

    /// The entries are void already, by their grants; their memory is freed outside requests.
    fn flush(&self) {
        self.0.counts.flushes.up();
        if !self.0.sweep_ahead.raise() {
            return;
        }
        let store = Arc::clone(&self.0);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || store.sweep())),
            Err(_) => store.sweep(),
        }
    }

    fn now(&self) -> Duration {
        self.0.clock.now()
    }
}

/// The right to load one key, as long as the key is not touched; released when dropped.
pub(crate) struct Ticket<K: Hash + Eq, V> {
    store: Arc<Store<K, V>>,
    key: K,
    id: u64,
    /// Set once a loader is asked: whether the key was forgotten since then.
    // Relaxed: written and read under the lane's lock.
    forgotten: Option<Arc<AtomicBool>>,
    sender: watch::Sender<Option<FinishedLoad<V>>>,
}

/// How the end of a load changes the entry of its key.
pub(crate) enum EntryUpdate<V> {
    /// Stores this one for so long, or until it is evicted.
    Keep(Arc<Entry<V>>, Option<Duration>),
    /// Removes the entry.
    Clear,
    /// Leaves the entry unchanged.
    Leave,
}

impl<K, V> Ticket<K, V>
where
    K: Hash + Eq,
{
    /// The key to load.
    pub(crate) fn key(&self) -> &K {
        &self.key
    }

    /// Whether a loader was asked.
    pub(crate) fn has_asked_loader(&self) -> bool {
        self.forgotten.is_some()
    }

    /// Removes the load from those in flight; whether it was one of them.
    fn remove_in_flight(&self, lane: &mut Lane<K, V>) -> bool {
        let in_flight = &mut lane.in_flight;
        let ours = in_flight
            .get(&self.key)
            .is_some_and(|flight| flight.id == self.id);
        if ours {
            in_flight.remove(&self.key);
        }
        if let Some(forgotten) = &self.forgotten
            && let Some(loaders) = lane.loaders.get_mut(&self.key)
        {
            loaders.retain(|one| !Arc::ptr_eq(one, forgotten));
            if loaders.is_empty() {
                lane.loaders.remove(&self.key);
            }
        }
        ours
    }
}

impl<K, V> Ticket<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Notes that a loader is asked.
    pub(crate) fn asks_loader(&mut self) {
        let mut lane = self.store.lane(&self.key);
        let forgotten = Arc::<AtomicBool>::default();
        let loaders = lane.loaders.entry(self.key.clone()).or_default();
        loaders.push(Arc::clone(&forgotten));
        drop(lane);
        self.forgotten = Some(forgotten);
    }

    /// Whether this process has written or forgotten the key since the loader was asked.
    pub(crate) fn is_forgotten(&self) -> bool {
        let _lane = self.store.lane(&self.key);
        self.is_forgotten_in_lane()
    }

    /// The same, for a caller that has locked the lane.
    fn is_forgotten_in_lane(&self) -> bool {
        // Relaxed: written and read under the lane's lock.
        let forgotten = self.forgotten.as_ref();
        forgotten.is_some_and(|forgotten| forgotten.load(Ordering::Relaxed))
    }

    /// Whether the key was unchanged since the load began.
    pub(crate) fn is_in_flight(&self) -> bool {
        let lane = self.store.lane(&self.key);
        let flight = lane.in_flight.get(&self.key);
        flight.is_some_and(|flight| flight.id == self.id)
    }

    /// Registers the load again after the loader's value was stored; without effect if another load
    /// has begun, or the key is forgotten.
    pub(crate) fn renew(&self) {
        let mut lane = self.store.lane(&self.key);
        if self.is_forgotten_in_lane() {
            return;
        }
        let finished = self.sender.subscribe();
        let id = self.id;
        let in_flight = lane.in_flight.entry(self.key.clone());
        in_flight.or_insert(Flight { id, finished });
    }

    /// Ends the load: changes the entry unless the key was touched, and notifies all waiting
    /// readers.
    pub(crate) fn finish(self, update: EntryUpdate<V>, outcome: Outcome<V>) -> Outcome<V> {
        let mut lane = self.store.lane(&self.key);
        let is_current = self.remove_in_flight(&mut lane);
        let broken = self.store.fault.is(Fault::UncheckedFills);
        if is_current || broken {
            self.apply(update);
        } else if matches!(update, EntryUpdate::Keep(..)) {
            self.store.counts.overtaken.up();
        }
        drop(lane);
        self.sender.send_replace(Some(FinishedLoad {
            outcome: outcome.clone(),
            loader_asked: self.has_asked_loader(),
        }));
        outcome
    }

    fn apply(&self, update: EntryUpdate<V>) {
        let local = &self.store.local;
        match update {
            EntryUpdate::Keep(entry, _) if entry.is_void() => self.store.counts.overtaken.up(),
            EntryUpdate::Keep(entry, ttl) => {
                let options = InsertOptions {
                    ttl,
                    ..InsertOptions::default()
                };
                if !local.try_insert(self.key.clone(), entry, options) {
                    self.store.counts.too_heavy.up();
                    self.store.warn_of_weight();
                }
            }
            EntryUpdate::Clear => drop(local.remove(&self.key)),
            EntryUpdate::Leave => {}
        }
    }
}

impl<K: Hash + Eq, V> Drop for Ticket<K, V> {
    /// A load that has not finished was cancelled: the next waiting reader takes over, because the
    /// sender is gone and no load is in flight.
    fn drop(&mut self) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any part of the hash will do"
        )]
        let index = self.store.hasher.hash_one(&self.key) as usize % LANES;
        let lane = self.store.lanes[index].lock();
        self.remove_in_flight(&mut lane.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A reader that waits for another reader's load.
pub(crate) struct Waiting<V> {
    finished: watch::Receiver<Option<FinishedLoad<V>>>,
}

impl<V> Waiting<V> {
    /// Waits for the result of the load; `None` if it was cancelled.
    pub(crate) async fn finished(mut self) -> Option<FinishedLoad<V>> {
        let finished = self.finished.wait_for(Option::is_some).await.ok()?;
        finished.clone()
    }

    /// The outcome; `None` if the load was cancelled.
    pub(crate) async fn outcome(self) -> Option<Outcome<V>> {
        self.finished().await.map(|finished| finished.outcome)
    }
}
