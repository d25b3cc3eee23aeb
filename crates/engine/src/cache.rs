//! Cache: the engine's public interface, the operations on items. Those on all items are in
//! `cache/whole_cache.rs`.
//!
//! The key's hash picks the shard; an operation locks it, runs, and unlocks. Code under the lock is
//! plain single-threaded code in `shard.rs`. A get that finds a short value takes no lock
//! (`cache/optimistic.rs`). Prefetch hints read the index's memory without the lock and touch
//! nothing else.
//!
//! Lock order: one shard at a time; no operation holds two. Sections of several operations claim
//! the shards of their keys in the order of their numbers (`cache/claims.rs`).
//! Why: docs/decisions/0006, 0008, 0082 and 0095. Tests: tests/.

pub(crate) mod claim; // one thread's exclusive use of a shard for several operations
pub(crate) mod sequence; // detects changes of a shard during a lock-free read
mod cell; // a shard, its lock, and the fields that are read without it
mod geometry; // into how many shards and segments a memory is divided
mod no_eviction; // spaces with memory of their own, of which nothing is evicted
mod resize; // how much of its memory a cache uses
mod memory; // the sizes of a cache's memory, the budgets of its shards
mod shards; // the shards, and which of them has a key
mod claims; // exclusive claims on the shards of a section's keys
mod optimistic; // reads that take no lock
mod insights; // what more memory would save, why reads miss
mod hot_keys; // which keys are read most
mod listing; // how keys are listed and drawn, why none is missed
mod spaces; // what a space holds, how it is emptied
mod timeline; // what will expire when
mod audit; // exact contents of all shards
mod reservation; // memory for long values, reserved in steps
mod drafts; // values that arrive in pieces, or are made in place
mod extent_reservations; // memory for values that are computed from old ones
mod reclaim_plan; // free segments for many short values
mod huge_pages; // fully used memory on huge pages
mod maintenance; // background maintenance
mod dictionaries; // dictionaries that are saved beside memory that outlives the process
mod training; // dictionaries for families of values
mod attached; // the state file of a running cache
mod attach; // how a cache restores the memory of another process
mod check; // how the items of a killed process are checked while the cache is in use
mod checkpoint; // how it hands its memory to another process
mod build; // how a cache is made
mod whole_cache; // operations on all items, and those of the cache's owner

pub use self::checkpoint::Checkpoint;
pub use self::claims::{Claims, Snapshot, WantedShards};
pub use self::drafts::Draft;
pub use self::extent_reservations::ExtentReservation;
pub use self::maintenance::Maintenance;
pub use self::no_eviction::NoEvictionStats;
pub use self::optimistic::{Scratch, ValueSink};
pub use self::reclaim_plan::ReclaimPlan;
pub use self::timeline::{ExpiryTimeline, Leaving};

use std::cell::Cell;
use std::sync::Arc;

use self::claim::Intent;
use self::reservation::DraftShare;
use crate::base::clock::{Deadline, Instant};
use crate::base::error::Error;
use crate::base::space::Space;
use crate::interface::config::Config;
use crate::interface::options::{Change, DeleteOptions, End, Increment, Lookup, SetOptions};
use crate::interface::outcome::{Counted, Deleted, Found, Item, KeyFacts, Stored, Uses};
use crate::key::Key;
use crate::log::memory_for_item;
use crate::memory::arena::Handle;
use crate::memory::table::{Candidate, Hint, Probe};
use crate::shard::Shard;
use crate::shard::evict::Newest;
use attached::AttachedState;
use cell::ShardCell;
use insights::Insights;
use maintenance::MaintenanceState;
use optimistic::{Append, GroupRead, Show};
use shards::Shards;
use training::Training;

/// Bytes that the smallest item takes with its index slot: sets the index's reserved range.
const ITEM_BYTES_MIN: usize = if cfg!(miri) { 1_400 } else { 14 };
/// How many shards beyond its own share an index may grow, for uneven hashing.
const INDEX_HEADROOM: usize = 2;
/// How often memory is collected from the other shards for one item.
const COLLECTIONS_MAX: usize = 8;
/// Keys that [`Cache::get_many`] works on together; index lines are loaded one such group ahead.
const GROUP_KEYS: usize = 32;

/// Where the index lines of a key lie, which are being loaded; for [`Cache::hint_item`].
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexHint {
    shard: u32,
    probe: Probe,
}

/// A cache of byte strings in a bounded memory; see the crate's documentation. All methods take
/// `&self` and may be called from any number of threads.
pub struct Cache {
    shards: Shards,
    drafts: Arc<DraftShare>,
    insights: Insights,
    training: Training,
    maintenance: MaintenanceState,
    /// The state file, if the memory outlives the process.
    attached: Option<AttachedState>,
}

impl Cache {
    /// The configuration the cache was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.shards.config()
    }

    /// Longest value this cache takes: the configured limit, or half of its memory that is no
    /// space's own; in a cache that was given more memory, half of what its addresses reach.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        self.shards.memory().value_bytes_max()
    }

    /// Longest value of another kind than [`Kind::STRING`](crate::Kind::STRING), whatever limit is
    /// configured for values: as long as addresses allow, or half of the memory.
    #[must_use]
    pub fn collection_bytes_max(&self) -> usize {
        self.shards.memory().collection_bytes_max()
    }

    /// The present moment of the cache's clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shards.now()
    }

    /// Hashes a key of the main space for use with this cache.
    ///
    /// # Errors
    /// [`Error::KeyLength`] for an over-long key.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, Error> {
        self.shards.hasher().key(Space::MAIN, bytes)
    }

    /// Hashes a key of any space: the same bytes are another key in each.
    ///
    /// # Errors
    /// [`Error::KeyLength`] for an over-long key.
    #[inline]
    pub fn key_in<'k>(&self, space: Space, bytes: &'k [u8]) -> Result<Key<'k>, Error> {
        self.shards.hasher().key(space, bytes)
    }

    /// Starts loading the index lines of `key` and the other data that a change of its item needs;
    /// useful some 20 requests ahead. Never blocks.
    #[inline]
    pub fn hint_write(&self, key: Key<'_>) -> IndexHint {
        let number = self.shards.number_of(key);
        self.shards[number].lock.prefetch();
        self.hint_index(number, key)
    }

    /// Starts loading the index lines of `key` for a read; worth it some 20 requests ahead. Never
    /// blocks.
    #[inline]
    pub fn hint_read(&self, key: Key<'_>) -> IndexHint {
        self.hint_index(self.shards.number_of(key), key)
    }

    #[inline]
    fn hint_index(&self, number: usize, key: Key<'_>) -> IndexHint {
        IndexHint {
            shard: number as u32,
            probe: self.shards[number].table.probe(key.hash()),
        }
    }

    /// Starts loading the item of a key whose index lines are loaded; worth it some 10 requests
    /// ahead. Never blocks. Where it probably lies is for [`Key::hinted_at`].
    #[inline]
    pub fn hint_item(&self, hint: IndexHint) -> Option<Candidate> {
        let cell = self.shards.get(hint.shard as usize)?;
        cell.look_ahead(hint.probe)
    }

    /// As [`Shards::write`], but runs `operate` again after other shards released memory, if the
    /// key's shard has nothing left to evict for a value of `bytes` bytes.
    #[inline]
    fn write_with_room<R>(
        &self,
        key: Key<'_>,
        bytes: impl Fn() -> usize,
        mut operate: impl FnMut(&mut Shard, Instant) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match self.shards.write(key, &mut operate) {
            Err(Error::Busy) => self.collect_and_write(key, &bytes, &mut operate),
            result => result,
        }
    }

    #[cold]
    #[inline(never)]
    fn collect_and_write<R>(
        &self,
        key: Key<'_>,
        bytes: &dyn Fn() -> usize,
        operate: &mut dyn FnMut(&mut Shard, Instant) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut result = Err(Error::Busy);
        for _ in 0..COLLECTIONS_MAX {
            if !matches!(result, Err(Error::Busy)) {
                break;
            }
            // If another thread takes the collected memory, it is tried again.
            let item_bytes = key.bytes().len() + bytes();
            let needed = memory_for_item(item_bytes, self.shards.memory().segment_bytes());
            self.shards
                .collect_memory(Some(self.shards.cell(key)), needed);
            result = self.shards.write(key, |shard, now| {
                shard.set_newest(Newest::MayLeave);
                let result = operate(shard, now);
                shard.set_newest(Newest::Stays);
                result
            });
        }
        match result {
            Err(Error::Busy) => Err(self.busy(key.bytes().len() + bytes())),
            result => result,
        }
    }

    /// Why no memory is left for so many bytes, if live items are not the reason.
    #[cold]
    fn busy(&self, bytes: usize) -> Error {
        let least = self.shards.memory().segment_bytes();
        let attached = self.attached.as_ref();
        attached.map_or(Error::Busy, |attached| attached.busy(bytes.max(least)))
    }

    /// Reads an item: `read` gets a short value copied, a long one borrowed from the cache's memory
    /// under the shard's lock.
    ///
    /// `None` is a miss. `read` must be short and must not call the cache. Cost: one index probe, a
    /// copy of a value of up to 2 KiB, no allocation; without the lock unless other threads keep
    /// changing the shard.
    #[inline]
    pub fn get<R>(&self, key: Key<'_>, read: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        let now = self.shards.now();
        let cell = self.shards.cell(key);
        match self.read_optimistic(cell, key, now, read) {
            Ok(answer) => Some(answer),
            Err(read) => self.get_locked(cell, key, now, read),
        }
    }

    /// Reads an item under the shard's lock. Said to be cold for the sake of reads without it.
    #[cold]
    #[inline(never)]
    fn get_locked<R>(
        &self,
        cell: &ShardCell,
        key: Key<'_>,
        now: Instant,
        read: impl FnOnce(Item<'_>) -> R,
    ) -> Option<R> {
        let mut shard = cell.lock_to_read();
        let answer = shard.get(key, now, read);
        if shard.store.packing().take_hot() {
            drop(shard);
            self.unpack(key);
        }
        answer
    }

    /// Stores an item plain that is read often.
    #[cold]
    #[inline(never)]
    fn unpack(&self, key: Key<'_>) {
        let now = self.shards.settled();
        if let Some(mut shard) = self.shards.lock_own(self.shards.cell(key)) {
            shard.unpack(key, now);
            shard.end(now);
        }
    }

    /// A counted handle on a value, readable without any lock; see [`Item::pin`].
    pub fn get_handle(&self, key: Key<'_>) -> Option<Handle> {
        let now = self.shards.now();
        let mut shard = self.shards.cell(key).lock_to_read();
        shard.get(key, now, |item| item.pin())
    }

    /// Reads many items, in the order of their keys; `each` gets a key's position and its item, or
    /// `None` for a miss. If there is a snapshot, they are part of it: a read that needs the
    /// shard's lock does not count as a change of the shard.
    ///
    /// Memory is loaded ahead: two to four times faster than single reads once the cache outgrows
    /// the processor's.
    pub fn get_many(
        &self,
        keys: &[Key<'_>],
        snapshot: Option<&mut Snapshot<'_>>,
        each: impl FnMut(usize, Option<Item<'_>>),
    ) {
        self.read_groups(keys, snapshot, Show(each));
    }

    /// Reads many items as [`Cache::get_many`] does, and appends short values to a buffer in one
    /// copy.
    pub fn append_many(
        &self,
        keys: &[Key<'_>],
        snapshot: Option<&mut Snapshot<'_>>,
        sink: &mut impl ValueSink,
    ) {
        self.read_groups(keys, snapshot, Append(sink));
    }

    /// Reads items in groups; their index lines are loaded one group ahead.
    #[inline(always)]
    fn read_groups(
        &self,
        keys: &[Key<'_>],
        mut snapshot: Option<&mut Snapshot<'_>>,
        mut reads: impl GroupRead,
    ) {
        let now = self.shards.now();
        let hint_group = |first: usize| {
            let mut hints = [IndexHint::default(); GROUP_KEYS];
            let group = keys.iter().skip(first).take(GROUP_KEYS);
            for (hint, &key) in hints.iter_mut().zip(group) {
                *hint = self.hint_read(key);
            }
            hints
        };
        let mut hints = hint_group(0);
        for first in (0..keys.len()).step_by(GROUP_KEYS) {
            let group = &keys[first..keys.len().min(first + GROUP_KEYS)];
            let mut hinted = [None; GROUP_KEYS];
            for (hinted, &hint) in hinted.iter_mut().zip(&hints[..group.len()]) {
                *hinted = self.hint_item(hint);
            }
            let ahead = hint_group(first + GROUP_KEYS);
            let within = (now, first, &mut reads);
            self.read_group(group, (&hints, &hinted), snapshot.as_deref_mut(), within);
            hints = ahead;
        }
    }

    /// Reads an item that has no lease, no version and nothing else beside deadline and flags, and
    /// that needs no lock; else gives `read` back, and nothing has happened. Counts as
    /// [`Cache::get`] does.
    ///
    /// # Errors
    /// `read` itself: the item is missing, has more, or is being changed.
    #[inline]
    pub fn get_plain<R, F: FnOnce(Item<'_>) -> R>(&self, key: Key<'_>, read: F) -> Result<R, F> {
        self.read_optimistic(self.shards.cell(key), key, self.shards.now(), read)
    }

    /// A read with side effects: touch, lease, version; see [`Lookup`]. `None` is a miss.
    ///
    /// # Errors
    /// [`Error::Busy`] if the item has to be rewritten and no space is free.
    pub fn lookup<R>(
        &self,
        key: Key<'_>,
        lookup: &Lookup,
        read: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>, Error> {
        let lease_ms = lookup.lease_ms.unwrap_or(self.shards.config().lease_ms);
        self.shards.write(key, |shard, now| {
            shard.lookup(key, lookup, lease_ms, now, read)
        })
    }

    /// Stores `value` under `key` if the condition in `options` holds.
    ///
    /// A full cache is no error: other items are evicted. Cost: one index probe and one copy of
    /// `value`; over an old value of at least the same length it is written in place.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Busy`] if all memory is held by values in transfer;
    /// [`Error::StateFull`] if the file system that its memory lies on is full, and no evictable
    /// item has the space for the value.
    #[inline]
    pub fn set(&self, key: Key<'_>, value: &[u8], options: &SetOptions) -> Result<Stored, Error> {
        self.shards
            .memory()
            .check_value(value.len(), options.value_bytes_max)?;
        // Waits before the lock is held, so that other threads need not wait for it as well.
        let cell = self.shards.cell(key);
        let sequence = &cell.lock.sequence;
        let seen = sequence.seen();
        let hinted = key.hinted();
        let candidate = hinted.or_else(|| cell.look_ahead(cell.table.probe(key.hash())));
        let result = self.shards.write_in(cell, |shard, now| {
            let is_still = || seen.is_some_and(|seen| sequence.is_first_since(seen));
            let hint = match candidate {
                Some(candidate) => Hint::At(candidate),
                None if is_still() => Hint::Absent,
                None => Hint::Unknown,
            };
            shard.set(key, hint, value, options, now)
        });
        match result {
            Err(Error::Busy) => self.collect_and_set(key, value, options),
            result => result,
        }
    }

    #[cold]
    #[inline(never)]
    fn collect_and_set(
        &self,
        key: Key<'_>,
        value: &[u8],
        options: &SetOptions,
    ) -> Result<Stored, Error> {
        let mut again =
            |shard: &mut Shard, now| shard.set_anywhere(key, Hint::Unknown, value, options, now);
        self.collect_and_write(key, &|| value.len(), &mut again)
    }

    /// Adds `bytes` at one end of an existing value; keeps its deadline and flags, ends its lease.
    ///
    /// Of the conditions only [`When::Version`](crate::When::Version) applies. Without an item the
    /// outcome is [`Stored::NotStored`].
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn extend(
        &self,
        key: Key<'_>,
        end: End,
        bytes: &[u8],
        options: &SetOptions,
    ) -> Result<Stored, Error> {
        let max = self
            .shards
            .memory()
            .value_bytes_max()
            .min(options.value_bytes_max);
        self.shards.write(key, |shard, now| {
            shard.extend(key, end, bytes, options, max, now)
        })
    }

    /// Adds to or subtracts from a decimal number; see [`Increment`].
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn increment(&self, key: Key<'_>, increment: &Increment) -> Result<Counted, Error> {
        self.write_with_room(key, || 0, |shard, now| shard.increment(key, increment, now))
    }

    /// Passes the item of `key`, or `None`, to `decide`, and applies its decision before other
    /// threads see the item.
    ///
    /// `decide` puts the value of a [`Change::Store`] into the buffer it is given, which is empty;
    /// it is `scratch`, so that its memory can be used again. `decide` must be short, must not call
    /// the cache, and may run again if there was no space for its value. No read is counted, but an
    /// existing item counts as used.
    ///
    /// # Errors
    /// As [`Cache::set`]; then nothing was stored.
    pub fn update<R>(
        &self,
        key: Key<'_>,
        scratch: &mut Vec<u8>,
        mut decide: impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> (R, Change),
    ) -> Result<R, Error> {
        let limits = self.shards.memory().update_limits();
        let value_bytes = Cell::new(0);
        self.write_with_room(
            key,
            || value_bytes.get(),
            |shard, now| shard.update(key, scratch, &limits, &value_bytes, &mut decide, now),
        )
    }

    /// Gives a live item a new deadline; whether there was one.
    ///
    /// # Errors
    /// [`Error::Busy`] if the item has to be rewritten for it and no space is free.
    pub fn touch(&self, key: Key<'_>, deadline: Deadline) -> Result<bool, Error> {
        self.write_with_room(key, || 0, |shard, now| shard.touch(key, deadline, now))
    }

    /// Deletes an item, or marks it as stale or empties it; see [`DeleteOptions`].
    ///
    /// # Errors
    /// [`Error::Busy`] if a marked item has to be rewritten and no space is free; a plain delete
    /// never fails.
    pub fn delete(&self, key: Key<'_>, options: &DeleteOptions) -> Result<Deleted, Error> {
        self.write_with_room(key, || 0, |shard, now| shard.delete(key, options, now))
    }

    /// Facts about one item, without counting as a use; `None` is a miss.
    pub fn facts<R>(&self, key: Key<'_>, read: impl FnOnce(KeyFacts<'_>) -> R) -> Option<R> {
        self.shards.write(key, |shard, now| {
            let located = shard.store.find(key, now)?;
            Some(read(shard.store.facts(&located, now)))
        })
    }

    /// Restores the recorded uses of an item, so that reads since then do not count.
    pub fn set_uses(&self, key: Key<'_>, uses: Uses) {
        self.shards.write(key, |shard, now| {
            if let Some(located) = shard.store.find(key, now) {
                shard.store.set_uses(&located, uses);
            }
        });
    }

    /// Records the second of each use of an item from now on, whatever its value; its header grows
    /// by four bytes.
    ///
    /// # Errors
    /// [`Error::Busy`] if the item has to be rewritten and no space is free.
    pub fn note_uses(&self, key: Key<'_>) -> Result<(), Error> {
        self.shards
            .write(key, |shard, now| shard.note_uses(key, now))
    }

    /// Shows one item with its value, without counting as a read or a use; `None` is a miss.
    pub fn peek<R>(&self, key: Key<'_>, read: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        self.shards.write(key, |shard, now| {
            let located = shard.store.find(key, now)?;
            Some(shard.store.with_item(&located, read))
        })
    }

    /// As above, for an item that no client requested: if it has expired, no miss is counted.
    pub fn meet<R>(&self, key: Key<'_>, read: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        self.shards.write(key, |shard, now| {
            let store = &mut shard.store;
            let located = store.find_stored(key, now)?;
            if store.is_over(&located, now) {
                store.remove_expired(&located, now);
                return None;
            }
            Some(store.with_item(&located, read))
        })
    }

    /// The plan for values of these lengths; long values are left out.
    #[must_use]
    pub fn plan_reclaim<'k>(
        &self,
        values: impl IntoIterator<Item = (Key<'k>, usize)>,
    ) -> ReclaimPlan {
        ReclaimPlan::of(&self.shards, values)
    }

    /// Takes the next step.
    pub fn step_reclaim_plan(&self, plan: &mut ReclaimPlan) {
        plan.step(&self.shards);
    }

    /// Whether shards of this cache can be claimed: not in one of very many shards.
    #[inline]
    #[must_use]
    pub fn has_claims(&self) -> bool {
        claims::are_possible(&self.shards)
    }

    /// Claims the shards of these keys for the calling thread: until the result is dropped, no
    /// other thread reads or changes their items, except that items expire and are evicted. The
    /// thread may not have other claims, and may use only these shards; see [`Claims::extend`].
    ///
    /// Cost: two locks of each shard; a wait for sections that have claimed some of them.
    ///
    /// # Panics
    /// If the cache has no claims: see [`Cache::has_claims`].
    pub fn claim<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>, intent: Intent) -> Claims<'_> {
        let mut wanted = WantedShards::default();
        for key in keys {
            self.want(&mut wanted, key);
        }
        self.claim_wanted(&wanted, intent)
    }

    /// Adds the key's shard to those that are going to be claimed.
    ///
    /// # Panics
    /// As [`Cache::claim`].
    #[inline]
    pub fn want(&self, wanted: &mut WantedShards, key: Key<'_>) {
        wanted.insert(&self.shards, key);
    }

    /// Claims all shards, as [`Cache::claim`] does.
    ///
    /// # Panics
    /// As [`Cache::claim`].
    pub fn claim_all(&self, intent: Intent) -> Claims<'_> {
        self.claim_wanted(&WantedShards::all(&self.shards), intent)
    }

    /// Claims these shards, as [`Cache::claim`] does.
    ///
    /// # Panics
    /// As [`Cache::claim`].
    pub fn claim_wanted(&self, wanted: &WantedShards, intent: Intent) -> Claims<'_> {
        Claims::begin(&self.shards, wanted, intent)
    }

    /// Records the sequence numbers of these keys' shards, to detect later whether anything was
    /// stored there. `None` if the cache has many shards or one of them is being changed.
    pub fn snapshot<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> Option<Snapshot<'_>> {
        Snapshot::of(&self.shards, keys)
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Cache");
        debug.field("memory_bytes", &self.config().memory_bytes);
        debug
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}
