//! One shard: entries and policy, kept consistent.
//!
//! Readers take no lock but that of the key's stripe, shared. Writers take the shard's lock first,
//! then one stripe's at a time; so a key that a writer did not find stays missing until the writer
//! adds it. Removed values and keys are returned to the caller, which drops them outside all locks.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rapidhash::quality::RandomState;
use smallvec::SmallVec;

use super::entry::{Deadline, StoredEntry};
use super::expire::ExpiryScan;
use super::lru::{Lru, Ticks};
use super::options::{Cause, Policy};
use super::s3fifo::{Marks, S3Fifo};
use super::stripes::Stripes;

/// Entries of a shard, whatever its bound.
const ENTRIES_MAX: u64 = 1 << 30;
/// Slots that the scan looks at with each write.
const SLOTS_PER_WRITE: u32 = 4;
/// Slots that the scan visits before the lock is released.
const SLOTS_PER_LOCK: u32 = 256;

/// Entries that were removed, and why.
pub(super) type RemovedEntries<K, P> = SmallVec<[(K, P, Cause); 2]>;

/// The limits and policy of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The sum of weights that it may hold.
    pub(super) weight_max: u64,
    /// Whether entries have weights of their own; else each weighs one.
    pub(super) is_weighed: bool,
    pub(super) policy: Policy,
}

/// Counts of a shard's writers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShardCounts {
    pub(super) inserts: u64,
    pub(super) evictions: u64,
    pub(super) refusals: u64,
    pub(super) expirations: u64,
    pub(super) replacements: u64,
    pub(super) removals: u64,
    pub(super) entries: u64,
    pub(super) weight: u64,
}

/// An entry to store.
#[derive(Debug)]
pub(super) struct Item<K, P> {
    pub(super) hash: u64,
    pub(super) key: K,
    pub(super) value: P,
    pub(super) weight: u32,
    pub(super) deadline: Deadline,
}

/// A part of a store; which keys belong to it is the caller's choice.
#[derive(Debug)]
pub(super) struct Shard<K, P> {
    entries: Stripes<K, P>,
    /// For LRU alone; readers share it.
    ticks: Arc<Ticks>,
    hasher: RandomState,
    weight_max: u64,
    entries_max: u64,
    /// On lines of its own, so that writers do not disturb readers.
    state: Apart<Mutex<ShardState>>,
}

#[repr(align(128))]
#[derive(Debug)]
struct Apart<T>(T);

/// State that only writers use.
#[derive(Debug)]
struct ShardState {
    order: Order,
    weights: Weights,
    expiry_scan: ExpiryScan,
    /// All numbers are below.
    numbers: u32,
    counts: ShardCounts,
}

#[derive(Debug)]
enum Order {
    S3Fifo(S3Fifo),
    Lru(Lru),
}

/// The weights by number; none if each is one.
#[derive(Debug)]
struct Weights(Option<Vec<u32>>);

impl Weights {
    fn get(&self, number: u32) -> u32 {
        self.0.as_ref().map_or(1, |all| all[number as usize])
    }

    fn set(&mut self, number: u32, weight: u32) {
        if let Some(all) = &mut self.0 {
            if all.len() <= number as usize {
                all.resize(number as usize + 1, 0);
            }
            all[number as usize] = weight;
        }
    }
}

impl<K: Hash + Eq, P> Shard<K, P> {
    /// An empty shard over its part of the stripes.
    pub(super) fn new(
        limits: Limits,
        entries: Stripes<K, P>,
        ticks: Arc<Ticks>,
        hasher: RandomState,
    ) -> Shard<K, P> {
        let entries_max = match limits.is_weighed {
            true => ENTRIES_MAX,
            false => limits.weight_max.min(ENTRIES_MAX),
        };
        let order = match limits.policy {
            Policy::S3Fifo => Order::S3Fifo(S3Fifo::new(limits.weight_max)),
            Policy::Lru => Order::Lru(Lru::default()),
        };
        Shard {
            entries,
            ticks,
            hasher,
            weight_max: limits.weight_max,
            entries_max,
            state: Apart(Mutex::new(ShardState {
                order,
                weights: Weights(limits.is_weighed.then(Vec::new)),
                expiry_scan: ExpiryScan::new(),
                numbers: 0,
                counts: ShardCounts::default(),
            })),
        }
    }

    /// Stores an item, unless it is too heavy; whether it was stored. `now` is asked for only if
    /// deadlines are in play.
    pub(super) fn insert(
        &self,
        item: Item<K, P>,
        now: &dyn Fn() -> Duration,
        removed: &mut RemovedEntries<K, P>,
    ) -> bool {
        let mut writer = self.writer(now, removed);
        writer.state.counts.inserts += 1;
        writer.sweep(SLOTS_PER_WRITE);
        match writer.number(item.hash, &item.key) {
            Some(number) => writer.replace(number, item),
            None => writer.add(item),
        }
    }

    /// Removes `key`; returns its value unless it had expired.
    pub(super) fn remove<Q>(
        &self,
        hash: u64,
        key: &Q,
        now: &dyn Fn() -> Duration,
        removed: &mut RemovedEntries<K, P>,
    ) -> Option<P>
    where
        K: Borrow<Q>,
        P: Clone,
        Q: Eq + ?Sized,
    {
        let mut writer = self.writer(now, removed);
        let number = writer.number(hash, key)?;
        let cause = writer.dismiss(number, Cause::Removed);
        let (_, value, _) = writer.removed.last()?;
        (cause == Cause::Removed).then(|| value.clone())
    }

    /// Removes the entries that `keep` does not want.
    pub(super) fn retain(
        &self,
        mut keep: impl FnMut(&K, &P) -> bool,
        now: &dyn Fn() -> Duration,
        removed: &mut RemovedEntries<K, P>,
    ) {
        let mut writer = self.writer(now, removed);
        for number in 0..writer.state.numbers {
            let is_unwanted = |entry: &StoredEntry<K, P>| !keep(&entry.key, &entry.value);
            if writer.shard.entries.look(number, is_unwanted) == Some(true) {
                writer.dismiss(number, Cause::Removed);
            }
        }
    }

    /// Removes everything, ghosts included.
    pub(super) fn clear(&self, now: &dyn Fn() -> Duration, removed: &mut RemovedEntries<K, P>) {
        self.retain(|_, _| false, now, removed);
        if let Order::S3Fifo(order) = &mut self.lock().order {
            order.forget();
        }
    }

    /// Searches up to `slots` slots for expired entries; returns whether none is left that can be
    /// removed now.
    pub(super) fn reclaim(
        &self,
        slots: u32,
        now: &dyn Fn() -> Duration,
        removed: &mut RemovedEntries<K, P>,
    ) -> bool {
        let mut writer = self.writer(now, removed);
        let round = writer.state.numbers;
        writer.sweep(slots.min(SLOTS_PER_LOCK).min(round))
    }

    /// The counts of its writers.
    pub(super) fn counts(&self) -> ShardCounts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, ShardState> {
        self.state.0.lock()
    }

    fn writer<'a>(
        &'a self,
        now: &'a dyn Fn() -> Duration,
        removed: &'a mut RemovedEntries<K, P>,
    ) -> Writer<'a, K, P> {
        Writer {
            shard: self,
            state: self.lock(),
            now,
            due: None,
            removed,
        }
    }
}

/// A holder of the shard's lock.
struct Writer<'a, K, P> {
    shard: &'a Shard<K, P>,
    state: MutexGuard<'a, ShardState>,
    now: &'a dyn Fn() -> Duration,
    /// The time, if a sweep ended while something may still be due.
    due: Option<Duration>,
    removed: &'a mut RemovedEntries<K, P>,
}

/// The shard's entries, as a policy sees them.
struct Seen<'a, K, P> {
    shard: &'a Shard<K, P>,
    weights: &'a Weights,
}

impl<K: Hash + Eq, P> Marks for Seen<'_, K, P> {
    fn take(&self, number: u32, next: fn(u64) -> u64) -> u64 {
        let mark = self
            .shard
            .entries
            .look(number, |entry| entry.take_mark(next));
        mark.unwrap_or(0)
    }

    fn weight(&self, number: u32) -> u32 {
        self.weights.get(number)
    }

    fn hash(&self, number: u32) -> u64 {
        let hasher = &self.shard.hasher;
        let hash = self
            .shard
            .entries
            .look(number, |entry| hasher.hash_one(&entry.key));
        hash.unwrap_or(0)
    }
}

impl<K: Hash + Eq, P> Writer<'_, K, P> {
    /// The number of `key`.
    fn number<Q>(&self, hash: u64, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.shard.entries.find(hash, |one| one.borrow() == key)
    }

    /// Puts another value where the key's old one is.
    fn replace(&mut self, number: u32, item: Item<K, P>) -> bool {
        if u64::from(item.weight) > self.shard.weight_max {
            self.dismiss(number, Cause::Replaced);
            return self.refuse(item);
        }
        let entries = &self.shard.entries;
        let old = entries.change(number, |entry| entry.replace(item.value, item.deadline));
        let (old, deadline) = old.expect("its number was just found");
        let state = &mut *self.state;
        state.expiry_scan.lost(deadline);
        state.expiry_scan.gained(item.deadline);
        let before = state.weights.get(number);
        state.weights.set(number, item.weight);
        let weight = state.counts.weight - u64::from(before) + u64::from(item.weight);
        state.counts.weight = weight;
        match &mut state.order {
            Order::S3Fifo(order) => order.reweigh(number, before, item.weight),
            Order::Lru(order) => order.touch(number, self.shard.ticks.next()),
        }
        let cause = self.cause(deadline, Cause::Replaced);
        self.tell(item.key, old, cause);
        self.make_room(0, 0);
        true
    }

    /// Takes a new key in.
    fn add(&mut self, item: Item<K, P>) -> bool {
        if u64::from(item.weight) > self.shard.weight_max || self.shard.entries_max == 0 {
            return self.refuse(item);
        }
        self.make_room(u64::from(item.weight), 1);
        let entry = StoredEntry::new(item.key, item.value, item.deadline);
        let hash_of = |key: &K| self.shard.hasher.hash_one(key);
        let number = self.shard.entries.add(item.hash, entry, hash_of);
        let state = &mut *self.state;
        state.numbers = state.numbers.max(number + 1);
        state.weights.set(number, item.weight);
        state.expiry_scan.gained(item.deadline);
        state.counts.entries += 1;
        state.counts.weight += u64::from(item.weight);
        match &mut state.order {
            Order::S3Fifo(order) => {
                let weights = &state.weights;
                let seen = Seen {
                    shard: self.shard,
                    weights,
                };
                order.insert(number, item.hash, item.weight, &seen);
            }
            Order::Lru(order) => order.insert(number, self.shard.ticks.next()),
        }
        true
    }

    /// Rejects an entry that is heavier than the shard, and reports its removal at once.
    fn refuse(&mut self, item: Item<K, P>) -> bool {
        self.state.counts.refusals += 1;
        let cause = self.cause(item.deadline, Cause::Evicted);
        self.tell(item.key, item.value, cause);
        false
    }

    /// Evicts entries until this weight and so many more entries fit.
    fn make_room(&mut self, weight: u64, entries: u64) {
        while self.state.counts.weight + weight > self.shard.weight_max
            || self.state.counts.entries + entries > self.shard.entries_max
        {
            if self.expire_one() {
                continue;
            }
            let Some(victim) = self.victim() else { return };
            self.dismiss(victim, Cause::Evicted);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let state = &mut *self.state;
        let seen = Seen {
            shard: self.shard,
            weights: &state.weights,
        };
        match &mut state.order {
            Order::S3Fifo(order) => order.victim(&seen, state.counts.entries as usize),
            Order::Lru(order) => order.victim(|number| self.shard.entries.stamp(number)),
        }
    }

    /// Removes an entry, for this cause unless it had expired; returns the cause.
    fn dismiss(&mut self, number: u32, cause: Cause) -> Cause {
        let hash_of = |key: &K| self.shard.hasher.hash_one(key);
        let Some(entry) = self.shard.entries.take(number, hash_of) else {
            return cause;
        };
        let deadline = entry.deadline();
        let state = &mut *self.state;
        let weight = state.weights.get(number);
        match &mut state.order {
            Order::S3Fifo(order) => order.remove(number, weight),
            Order::Lru(order) => order.remove(number),
        }
        state.expiry_scan.lost(deadline);
        state.counts.entries -= 1;
        state.counts.weight -= u64::from(weight);
        let cause = self.cause(deadline, cause);
        self.tell(entry.key, entry.value, cause);
        cause
    }

    /// Searches so many slots for expired entries; returns whether none is due any more.
    fn sweep(&mut self, slots: u32) -> bool {
        self.due = self.state.expiry_scan.may_be_due(self.now);
        for _ in 0..slots {
            let Some(now) = self.due else { break };
            self.look_at_next(now);
        }
        self.due.is_none()
    }

    /// Removes one expired entry if the last sweep may have left some. Returns whether it did.
    fn expire_one(&mut self) -> bool {
        for _ in 0..SLOTS_PER_LOCK {
            let Some(now) = self.due else { break };
            if self.look_at_next(now) {
                return true;
            }
        }
        false
    }

    /// Removes the entry at the scan's next slot if it has expired. Returns whether it did.
    fn look_at_next(&mut self, now: Duration) -> bool {
        let slots = self.state.numbers;
        let number = self.state.expiry_scan.next(slots);
        let deadline = self.shard.entries.look(number, StoredEntry::deadline);
        let is_over = deadline.is_some_and(|deadline| deadline.has_passed(now));
        if is_over {
            self.dismiss(number, Cause::Expired);
        } else if let Some(deadline) = deadline {
            self.state.expiry_scan.met(deadline);
        }
        self.due = Some(now).filter(|&now| self.state.expiry_scan.is_due(now));
        is_over
    }

    /// The cause for an entry with this deadline: `Expired` if it has passed.
    fn cause(&self, deadline: Deadline, cause: Cause) -> Cause {
        if deadline.exists() && deadline.has_passed((self.now)()) {
            Cause::Expired
        } else {
            cause
        }
    }

    fn tell(&mut self, key: K, value: P, cause: Cause) {
        let counts = &mut self.state.counts;
        let counter = match cause {
            Cause::Evicted => &mut counts.evictions,
            Cause::Expired => &mut counts.expirations,
            Cause::Replaced => &mut counts.replacements,
            Cause::Removed => &mut counts.removals,
        };
        *counter += 1;
        self.removed.push((key, value, cause));
    }
}
