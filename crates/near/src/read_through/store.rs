//! The store of a near cache: its entries, and the loads that are under way.
//!
//! A load boards before its question is sent and lands with the answer. Whatever happens to the key
//! in between takes the load off the board, and what is not on the board leaves no entry behind.
//!
//! | event | entry | load on the board |
//! |---|---|---|
//! | change told | removed | taken off: lands without filling |
//! | own write, `forget` | removed | taken off for good: its loader's value is not stored either |
//! | reader comes | served if fresh | joined |
//! | answer comes | stored | taken off |
//! | loader cancelled | as it is | taken off, one of those who wait boards anew |
//!
//! Invariant: board and entries of a key change together under its lane's lock.
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

/// Into how many lanes the board is cut.
const LANES: usize = 64;

/// How a load ends, for all who wait for it.
pub(crate) type Outcome<V> = Result<Option<Held<V>>, Error>;

/// What a load has left for those who wait for it.
#[derive(Debug)]
pub(crate) struct Landed<V> {
    pub(crate) outcome: Outcome<V>,
    /// Whether a loader was asked, so that nothing means that there is nothing to be made either.
    pub(crate) loader_asked: bool,
}

impl<V> Clone for Landed<V> {
    fn clone(&self) -> Self {
        Landed {
            outcome: self.outcome.clone(),
            loader_asked: self.loader_asked,
        }
    }
}

/// A load that is under way.
struct Flight<V> {
    id: u64,
    landed: watch::Receiver<Option<Landed<V>>>,
}

/// The loads of one part of the keys.
struct Lane<K, V> {
    /// Those that readers may join.
    board: HashMap<K, Flight<V>>,
    /// For each key whose loader runs, who is to know that the key is forgotten meanwhile.
    loaders: HashMap<K, Vec<Arc<AtomicBool>>>,
}

impl<K, V> Default for Lane<K, V> {
    fn default() -> Self {
        Lane {
            board: HashMap::new(),
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

/// What a reader who finds nothing does.
pub(crate) enum Boarding<K: Hash + Eq, V> {
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
    pub(crate) fn board(self: &Arc<Self>, key: &K) -> Boarding<K, V> {
        let mut lane = self.lane(key);
        if let Some(flight) = lane.board.get(key) {
            return Boarding::Wait(Waiting {
                landed: flight.landed.clone(),
            });
        }
        // Relaxed: only the number's difference from all others matters.
        let id = self.flights.fetch_add(1, Ordering::Relaxed);
        let (sender, landed) = watch::channel(None);
        lane.board.insert(key.clone(), Flight { id, landed });
        drop(lane);
        Boarding::Load(Ticket {
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

    /// Removes the entry of `key` and takes its load off the board: the origin has changed it.
    fn invalidate(&self, key: &K) {
        let mut lane = self.lane(key);
        lane.board.remove(key);
        self.local.remove(key);
    }

    /// The same, and what running loaders make of `key` is not stored: this process has changed it.
    pub(crate) fn forget(&self, key: &K) {
        let mut lane = self.lane(key);
        lane.board.remove(key);
        lane.loaders.remove(key).iter().for_each(warn);
        self.local.remove(key);
    }

    /// Forgets all keys.
    pub(crate) fn forget_all(&self) {
        for lane in &self.lanes {
            let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
            lane.board.clear();
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

    /// Throws away entries whose grant is void or, unless they are kept, has ended.
    fn sweep(&self) {
        self.sweep_ahead.lower();
        self.local
            .retain(|_, entry| !entry.is_void() && (self.keep_lost || !entry.has_lost_touch()));
    }

    /// A number by which this store tells keys apart, nearly always.
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

    /// The entries are dead already, by their grants; their memory is given back beside requests.
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

/// The right to load one key, as long as the key is not touched; given up when dropped.
pub(crate) struct Ticket<K: Hash + Eq, V> {
    store: Arc<Store<K, V>>,
    key: K,
    id: u64,
    /// Set once a loader is asked: whether the key was forgotten since then.
    // Relaxed: written and read under the lane's lock.
    forgotten: Option<Arc<AtomicBool>>,
    sender: watch::Sender<Option<Landed<V>>>,
}

/// What a landing load does to the entry of its key.
pub(crate) enum Landing<V> {
    /// Stores this one for so long, or until it is evicted.
    Keep(Arc<Entry<V>>, Option<Duration>),
    /// Removes what is there.
    Clear,
    /// Leaves what is there.
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

    /// Takes the load off the board; whether it was on it.
    fn take_off(&self, lane: &mut Lane<K, V>) -> bool {
        let board = &mut lane.board;
        let ours = board
            .get(&self.key)
            .is_some_and(|flight| flight.id == self.id);
        if ours {
            board.remove(&self.key);
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

    /// The same, by who has locked the lane.
    fn is_forgotten_in_lane(&self) -> bool {
        // Relaxed: written and read under the lane's lock.
        let forgotten = self.forgotten.as_ref();
        forgotten.is_some_and(|forgotten| forgotten.load(Ordering::Relaxed))
    }

    /// Whether the key was touched by nobody since the load boarded.
    pub(crate) fn is_on_board(&self) -> bool {
        let lane = self.store.lane(&self.key);
        let flight = lane.board.get(&self.key);
        flight.is_some_and(|flight| flight.id == self.id)
    }

    /// Boards again after the loader's value was stored; without effect if another load has begun,
    /// or the key is forgotten.
    pub(crate) fn renew(&self) {
        let mut lane = self.store.lane(&self.key);
        if self.is_forgotten_in_lane() {
            return;
        }
        let landed = self.sender.subscribe();
        let id = self.id;
        let board = lane.board.entry(self.key.clone());
        board.or_insert(Flight { id, landed });
    }

    /// Ends the load: changes the entry unless the key was touched, and tells all who wait.
    pub(crate) fn land(self, landing: Landing<V>, outcome: Outcome<V>) -> Outcome<V> {
        let mut lane = self.store.lane(&self.key);
        let untouched = self.take_off(&mut lane);
        let broken = self.store.fault.is(Fault::UncheckedFills);
        if untouched || broken {
            self.apply(landing);
        } else if matches!(landing, Landing::Keep(..)) {
            self.store.counts.overtaken.up();
        }
        drop(lane);
        self.sender.send_replace(Some(Landed {
            outcome: outcome.clone(),
            loader_asked: self.has_asked_loader(),
        }));
        outcome
    }

    fn apply(&self, landing: Landing<V>) {
        let local = &self.store.local;
        match landing {
            Landing::Keep(entry, _) if entry.is_void() => self.store.counts.overtaken.up(),
            Landing::Keep(entry, ttl) => {
                let options = InsertOptions {
                    ttl,
                    ..InsertOptions::default()
                };
                if !local.try_insert(self.key.clone(), entry, options) {
                    self.store.counts.too_heavy.up();
                    self.store.warn_of_weight();
                }
            }
            Landing::Clear => drop(local.remove(&self.key)),
            Landing::Leave => {}
        }
    }
}

impl<K: Hash + Eq, V> Drop for Ticket<K, V> {
    /// A load that has not landed was cancelled: the next one who waits takes over, because the
    /// sender is gone and the board is free.
    fn drop(&mut self) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any part of the hash will do"
        )]
        let index = self.store.hasher.hash_one(&self.key) as usize % LANES;
        let lane = self.store.lanes[index].lock();
        self.take_off(&mut lane.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A reader that waits for somebody else's load.
pub(crate) struct Waiting<V> {
    landed: watch::Receiver<Option<Landed<V>>>,
}

impl<V> Waiting<V> {
    /// What the load has left; `None` if it was cancelled.
    pub(crate) async fn landed(mut self) -> Option<Landed<V>> {
        let landed = self.landed.wait_for(Option::is_some).await.ok()?;
        landed.clone()
    }

    /// The outcome; `None` if the load was cancelled.
    pub(crate) async fn outcome(self) -> Option<Outcome<V>> {
        self.landed().await.map(|landed| landed.outcome)
    }
}
