//! Shards: the shards of a cache, which of them has a key, and how they share its memory.
//!
//! The upper bits of a key's hash select one of the shards that share the memory; the keys of a
//! no-eviction partition have a shard of their own. [`Shards`] is what everything that concerns
//! several shards gets; it knows of no feature of the cache.
//!
//! Invariant: nothing here holds the locks of two shards.
//! Why: docs/decisions/0006 and 0095. Tests: tests/.

use std::ops::Index;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cell::{Locked, ShardCell};
use super::memory::Memory;
use crate::base::clock::Instant;
use crate::cache::claim::section::{self, Extender};
use crate::cache::claim::{Claim, Mutex, MutexGuard};
use crate::interface::config::Config;
use crate::key::{Hasher, Key};
use crate::shard::Shard;

/// The shards of a cache.
pub(super) struct Shards {
    /// Those that share the memory, then one for each no-eviction partition.
    cells: Box<[ShardCell]>,
    /// Right shift that makes a hash a shard number.
    shift: u32,
    hasher: Hasher,
    config: Config,
    memory: Memory,
    extender: Extender,
    /// Whether another process has taken over the memory, so that this one must not use it.
    // Relaxed: the shards' locks order it.
    is_handed_over: AtomicBool,
}

impl Shards {
    /// These shards, the last of which are those of the memory's partitions.
    pub(super) fn new(
        cells: Box<[ShardCell]>,
        hasher: Hasher,
        config: Config,
        memory: Memory,
    ) -> Shards {
        let sharing = cells.len() - memory.partitions().len();
        Shards {
            cells,
            shift: 64 - sharing.ilog2(),
            hasher,
            config,
            memory,
            extender: Extender::default(),
            is_handed_over: AtomicBool::new(false),
        }
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// All of them, in the order of their numbers.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, ShardCell> {
        self.cells.iter()
    }

    /// A shard, if it has this number.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&ShardCell> {
        self.cells.get(number)
    }

    /// How many share the memory that is no partition's own; they have the first numbers.
    #[inline]
    pub(super) fn sharing(&self) -> usize {
        self.cells.len() - self.memory.partitions().len()
    }

    /// The shards that share the memory.
    pub(super) fn sharers(&self) -> &[ShardCell] {
        &self.cells[..self.sharing()]
    }

    /// The configuration the cache was made with.
    #[inline]
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// How keys are hashed.
    #[inline]
    pub(super) fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// The memory that they use.
    #[inline]
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The present moment.
    #[inline]
    pub(super) fn now(&self) -> Instant {
        self.config.clock.now()
    }

    /// The moment for work that no operation has requested: items that an unfinished section still
    /// sees must not expire before it ends.
    pub(super) fn settled(&self) -> Instant {
        self.config.clock.settled()
    }

    /// The number of the key's shard.
    #[inline]
    pub(super) fn number_of(&self, key: Key<'_>) -> usize {
        if let Some(share) = key.space().share()
            && share < self.memory.partitions().len()
        {
            return self.sharing() + share;
        }
        // One shard means a shift by 64, which `checked_shr` turns into shard 0.
        key.hash().checked_shr(self.shift).unwrap_or(0) as usize
    }

    /// The key's shard.
    #[inline]
    pub(super) fn cell(&self, key: Key<'_>) -> &ShardCell {
        &self.cells[self.number_of(key)]
    }

    /// Runs an operation that may write on the key's shard.
    #[inline]
    pub(super) fn write<R>(
        &self,
        key: Key<'_>,
        operate: impl FnOnce(&mut Shard, Instant) -> R,
    ) -> R {
        self.write_in(self.cell(key), operate)
    }

    /// The same on a shard.
    #[inline]
    pub(super) fn write_in<R>(
        &self,
        cell: &ShardCell,
        operate: impl FnOnce(&mut Shard, Instant) -> R,
    ) -> R {
        let now = self.now();
        let mut shard = cell.lock();
        shard.begin(now);
        let result = operate(&mut shard, now);
        shard.end(now);
        result
    }

    /// Shows one shard after the other, beside claims.
    pub(super) fn each(&self, mut look: impl FnMut(&mut Shard)) {
        for cell in &self.cells {
            look(&mut cell.lock_beside_claims());
        }
    }

    /// Locks a shard for background maintenance, unless another process has taken over its memory.
    pub(super) fn lock_own<'s>(&self, cell: &'s ShardCell) -> Option<Locked<'s>> {
        let shard = cell.lock_beside_claims();
        (!self.is_handed_over()).then_some(shard)
    }

    /// Whether another process has taken over the memory.
    pub(super) fn is_handed_over(&self) -> bool {
        // Relaxed: see the field.
        self.is_handed_over.load(Ordering::Relaxed)
    }

    /// Notes whether another process has taken over the memory, under the lock of each shard that
    /// is to learn of it.
    pub(super) fn set_handed_over(&self, is_handed_over: bool) {
        // Relaxed: see the field.
        self.is_handed_over.store(is_handed_over, Ordering::Relaxed);
    }

    /// Comes nearer to the memory that is to be used, by one segment; whether more is to be done.
    pub(super) fn resize_step(&self) -> bool {
        let collect = |bytes| self.collect_memory(None, bytes);
        self.memory.resize_step(collect)
    }

    /// Makes the shards, except one, release memory until `bytes` are left in the budget: first
    /// those that hold more than their share, then all alike.
    pub(super) fn collect_memory(&self, except: Option<&ShardCell>, bytes: usize) {
        let now = self.now();
        let sharers = self.sharers();
        let share = self.memory.shared_bytes() / sharers.len();
        for floor in [share, share / 2, share / 4, 0] {
            let is_other = |cell: &&ShardCell| except.is_none_or(|one| !std::ptr::eq(*cell, one));
            for cell in sharers.iter().filter(is_other) {
                let missing = bytes.saturating_sub(self.memory.budget().left());
                if missing == 0 {
                    return;
                }
                if let Some(mut shard) = self.lock_own(cell) {
                    shard.give_up_memory(missing, floor, now);
                }
            }
        }
    }
}

impl Index<usize> for Shards {
    type Output = ShardCell;

    #[inline]
    fn index(&self, number: usize) -> &ShardCell {
        &self.cells[number]
    }
}

impl section::Shards for Shards {
    type Shard = Shard;

    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn shard(&self, number: usize) -> (&Claim, &Mutex<Shard>) {
        let lock = &self[number].lock;
        (&lock.claim, &lock.shard)
    }

    #[inline]
    fn open(&self, number: usize, guard: &MutexGuard<'_, Shard>) {
        let sequence = &self[number].lock.sequence;
        if sequence.is_closed() && guard.is_open() {
            sequence.end(true);
        }
    }

    fn extender(&self) -> &Extender {
        &self.extender
    }
}

impl std::fmt::Debug for Shards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shards")
            .field("count", &self.len())
            .finish_non_exhaustive()
    }
}
