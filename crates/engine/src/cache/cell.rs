//! Cell: a shard behind its lock, and the fields that are read without the lock.
//!
//! Tests: those of `cache.rs`.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::base::clock::thread_number;
use crate::cache::claim::{Claim, Claimant, Mutex, MutexGuard};
use crate::cache::sequence::Sequence;
use crate::insight::hot::HotList;
use crate::memory::arena::Arena;
use crate::memory::table::{Candidate, Probe, Table};
use crate::memory::{LINE_BYTES, prefetch};
use crate::shard::Shard;

/// Cache lines of a shard's lock that every operation uses, from its start.
const LOCK_LINES: usize = 2;
/// Bytes of an item that are prefetched: those of a middling one, but at least and at most so many.
pub(super) const PREFETCH_BYTES_MIN: usize = 192;
const PREFETCH_BYTES_MAX: usize = 640;

/// A shard, alone on its cache lines, after the fields that are read without its lock: those lines
/// stay in every processor's cache, while the lock's line moves between the writers.
#[repr(C, align(128))]
pub(super) struct ShardCell {
    pub(super) table: Arc<Table>,
    pub(super) arena: Arc<Arena>,
    pub(super) hot: Arc<HotList>,
    /// Bytes of an item that are prefetched; background maintenance follows the mean.
    pub(super) prefetch_bytes: AtomicUsize,
    /// Keys whose part lies below are in the insights' sample; all while a flush is pending.
    // Relaxed: it orders nothing.
    pub(super) sampled_below: AtomicU32,
    pub(super) lock: Lock,
}

/// A shard's lock. The fields that every operation touches begin on the lock's own line.
#[repr(C, align(128))]
pub(super) struct Lock {
    pub(super) sequence: Sequence,
    pub(super) claim: Claim,
    pub(super) shard: Mutex<Shard>,
}

/// A locked shard.
pub(crate) struct Locked<'s> {
    cell: &'s ShardCell,
    shard: MutexGuard<'s, Shard>,
}

impl Deref for Locked<'_> {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.cell.publish_sample(&self.shard);
        // Optimistic readers must not see the writes of a section before it ends.
        let is_open = self.shard.is_open() && !self.cell.lock.claim.writes();
        self.cell.lock.sequence.end(is_open);
    }
}

impl ShardCell {
    /// Locks the shard for an operation on its items; waits for a thread that has locked or claimed
    /// it.
    #[inline]
    pub(super) fn lock(&self) -> Locked<'_> {
        let mut shard = self.mutex();
        if self.lock.claim.is_held() {
            shard = self.wait_for_claim(shard);
        }
        self.lock.sequence.begin();
        Locked { cell: self, shard }
    }

    /// Locks the shard for a read; waits for a section only if that one may write.
    #[inline]
    pub(super) fn lock_to_read(&self) -> Locked<'_> {
        let mut shard = self.mutex();
        if self.lock.claim.writes() {
            shard = self.wait_for_claim(shard);
        }
        self.lock.sequence.begin();
        Locked { cell: self, shard }
    }

    /// Locks the shard for what changes no item that a section could miss: maintenance, eviction,
    /// memory. It waits for no claim.
    #[inline]
    pub(super) fn lock_beside_claims(&self) -> Locked<'_> {
        let shard = self.mutex();
        self.lock.sequence.begin();
        Locked { cell: self, shard }
    }

    /// Shows lock-free readers which keys are in the sample now. The caller holds the mutex.
    #[inline]
    pub(super) fn publish_sample(&self, shard: &Shard) {
        // While a flush is awaited every read takes the lock, and none waits for it to come.
        let below = match shard.is_open() {
            true => shard.watch.below(),
            false => u32::MAX,
        };
        // Relaxed: it orders nothing; only the holder of the lock writes it.
        if self.sampled_below.load(Ordering::Relaxed) != below {
            self.sampled_below.store(below, Ordering::Relaxed);
        }
    }

    /// Locks the shard's mutex alone: lock-free readers continue.
    #[inline]
    pub(super) fn mutex(&self) -> MutexGuard<'_, Shard> {
        let shard = self.lock.shard.lock();
        shard.expect("no thread panics under a shard's lock")
    }

    /// Waits until no other thread has claimed the shard; the claimant itself continues.
    #[cold]
    #[inline(never)]
    fn wait_for_claim<'s>(&'s self, shard: MutexGuard<'s, Shard>) -> MutexGuard<'s, Shard> {
        let claim = &self.lock.claim;
        if claim.is_of(Claimant::number(thread_number())) {
            return shard;
        }
        claim.wait(&self.lock.shard, shard)
    }

    /// Goes on with what another process left of the shard, if one did: see [`Shard::go_on`].
    pub(super) fn go_on(&mut self, go_on: impl FnOnce(&mut Shard)) {
        let shard = self.lock.shard.get_mut();
        let shard = shard.expect("nobody has used the shard yet");
        go_on(shard);
        if !shard.is_open() {
            // Until the flush takes effect, all reads must take the lock.
            *self.sampled_below.get_mut() = u32::MAX;
            self.lock.sequence.begin();
        }
    }

    /// Where the item of a probe's key probably lies, which is loaded from here on; needs no lock.
    #[inline]
    pub(super) fn look_ahead(&self, probe: Probe) -> Option<Candidate> {
        let candidate = self.table.candidate(probe)?;
        self.prefetch_item(candidate.offset());
        Some(candidate)
    }

    /// Starts loading an item of middling length; needs no lock.
    #[inline]
    pub(super) fn prefetch_item(&self, offset: usize) {
        // Relaxed: it orders nothing.
        let bytes = self.prefetch_bytes.load(Ordering::Relaxed);
        self.arena.prefetch(offset, bytes);
    }

    /// Prefetches the lines of an item after the first, which is read at once.
    #[inline]
    pub(super) fn prefetch_rest(&self, offset: usize) {
        self.arena
            .prefetch(offset + LINE_BYTES, PREFETCH_BYTES_MIN - LINE_BYTES);
    }

    /// Has hints load as much of an item as most of them have.
    pub(super) fn set_prefetch(&self, mean_bytes: usize) {
        let bytes = mean_bytes.clamp(PREFETCH_BYTES_MIN, PREFETCH_BYTES_MAX);
        // Relaxed: it orders nothing.
        self.prefetch_bytes.store(bytes, Ordering::Relaxed);
    }
}

impl Lock {
    /// Prefetches the lock's lines for writing, from another processor if need be.
    #[inline]
    pub(super) fn prefetch(&self) {
        let lock: *const u8 = std::ptr::from_ref(self).cast();
        for line in 0..LOCK_LINES {
            prefetch::for_writing(lock.wrapping_add(line * LINE_BYTES));
        }
    }
}
