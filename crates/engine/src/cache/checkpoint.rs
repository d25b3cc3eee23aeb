//! Checkpoint: the state that a cache saves at a clean stop or a hot restart, so that another
//! process can continue with its memory.
//!
//! [`Cache::checkpoint`] locks all shards, serializes the state that the memory itself does not
//! hold, and keeps the locks until the process ends. [`Cache::hand_over`] does the same for a
//! process that still sends values: their segments stay pinned in the other process until it calls
//! [`Cache::release_read_before`].
//!
//! Invariant: nothing in the memory changes while the checkpoint is valid.
//! Why: docs/decisions/0058, 0081. Tests: tests/clean_stop.rs.

use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::Cache;
use super::attach::AttachedState;
use super::cell::Locked;
use super::training::Families;
use crate::serialize::Serializer;
use crate::store::{Store, SumBudget};

/// How often, and after which pauses, a checkpoint looks whether background maintenance has
/// finished its work outside the locks.
const QUIESCE_TRIES: usize = 200;
const QUIESCE_PAUSE: Duration = Duration::from_millis(1);

/// A cache that no longer changes, with its state saved for another process.
///
/// When it is dropped, the cache continues and the saved state is removed.
#[must_use]
pub struct Checkpoint<'c> {
    attached: &'c AttachedState,
    locks: Vec<Locked<'c>>,
    /// Keeps the dictionaries' files as they are.
    training: Option<MutexGuard<'c, Families>>,
}

impl Checkpoint<'_> {
    /// Leaves the memory to the next process that opens its directory, with checksums of all of it.
    /// Any later use of this cache blocks for ever: the process has to exit. Cost: a look at every
    /// byte that has no checksum yet, by as many threads as the machine has processors.
    pub fn leave(mut self) {
        self.make_sums();
        // The lock ends with the process in any case.
        let _ = self.attached.dir.file().unlock();
        let mut checkpoint = std::mem::ManuallyDrop::new(self);
        // The shards stay locked; only the list of them is freed.
        for shard in std::mem::take(&mut checkpoint.locks) {
            std::mem::forget(shard);
        }
        std::mem::forget(checkpoint.training.take());
    }

    /// Makes all checksums that are missing.
    fn make_sums(&mut self) {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let each = self.locks.len().div_ceil(threads).max(1);
        let mut stores: Vec<&mut Store> = self
            .locks
            .iter_mut()
            .map(|shard| &mut shard.store)
            .collect();
        std::thread::scope(|scope| {
            for part in stores.chunks_mut(each) {
                scope.spawn(|| {
                    for store in part {
                        // From where background maintenance is to the end, and from the beginning.
                        let mut all = SumBudget::ALL;
                        store.make_sums(&mut all);
                        store.make_sums(&mut all);
                    }
                });
            }
        });
    }
}

impl Drop for Checkpoint<'_> {
    fn drop(&mut self) {
        self.attached.dir.remove_checkpoint();
        self.attached.live_header.resume();
    }
}

impl std::fmt::Debug for Checkpoint<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("shards", &self.locks.len())
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// Saves the state for another process; `None` if the memory does not outlive this one. Holds
    /// all shards, so that nothing changes any more.
    pub fn checkpoint(&self) -> Option<Checkpoint<'_>> {
        let attached = self
            .attached
            .as_ref()
            .filter(|_| !self.shards.is_handed_over())?;
        // Nothing is saved of items that are not checked.
        self.check_left(self.shards.config().threads, || true);
        // The first lock: a step of training locks shards as well.
        let training = Some(self.training.lock());
        let insight = self.insights.lock();
        let mut locks = self.lock_all();
        let mut out = Serializer::default();
        for shard in &mut locks {
            shard.note_versions();
            shard.serialize(&mut out);
        }
        insight.serialize(&mut out);
        attached.live_header.stop(self.shards.now());
        if locks.iter().all(|shard| shard.store.is_quiescent()) {
            // Without it the next process looks at every item.
            let _ = attached.dir.write_checkpoint(attached.id, &out.bytes);
        }
        Some(Checkpoint {
            attached,
            locks,
            training,
        })
    }

    /// All shards, and nothing that is half done outside of their locks, unless that takes long.
    fn lock_all(&self) -> Vec<Locked<'_>> {
        for _ in 0..QUIESCE_TRIES {
            // The one place where several shards are locked at once; no thread that holds one waits
            // for another.
            let locks: Vec<Locked<'_>> = self
                .shards
                .iter()
                .map(|cell| cell.lock_beside_claims())
                .collect();
            if locks.iter().all(|shard| shard.store.is_quiescent()) {
                return locks;
            }
            drop(locks);
            std::thread::sleep(QUIESCE_PAUSE);
        }
        self.shards
            .iter()
            .map(|cell| cell.lock_beside_claims())
            .collect()
    }

    /// Hands the memory to another process and does not change it any more. Until
    /// [`Cache::take_back`], only statistics of this cache may be read. Values that are still being
    /// read stay where they are until the other process calls [`Cache::release_read_before`].
    /// Returns whether there is such memory.
    pub fn hand_over(&self) -> bool {
        let Some(checkpoint) = self.checkpoint() else {
            return false;
        };
        self.shards.set_handed_over(true);
        let mut checkpoint = std::mem::ManuallyDrop::new(checkpoint);
        checkpoint.locks.clear();
        checkpoint.training = None;
        true
    }

    /// Goes on with memory that was handed over: the other process did not come to use it.
    pub fn take_back(&self) {
        if let Some(attached) = self
            .attached
            .as_ref()
            .filter(|_| self.shards.is_handed_over())
        {
            attached.dir.remove_checkpoint();
            attached.live_header.begin(self.shards.now());
            for cell in self.shards.iter() {
                let mut shard = cell.lock_beside_claims();
                shard.note_versions();
                self.shards.set_handed_over(false);
            }
        }
    }

    /// The open state file, for `StateDir::open_with`; `None` if the memory does not outlive the
    /// process.
    #[must_use]
    pub fn state_file(&self) -> Option<BorrowedFd<'_>> {
        let attached = self.attached.as_ref();
        attached.map(|attached| attached.dir.file().as_fd())
    }

    /// Whether segments are held in which the process before still reads.
    #[must_use]
    pub fn is_read_before(&self) -> bool {
        self.attached.as_ref().is_some_and(|attached| {
            let pins = attached.read_before.lock();
            !pins.unwrap_or_else(PoisonError::into_inner).is_empty()
        })
    }

    /// Releases the segments that the previous process was still reading: it has finished.
    pub fn release_read_before(&self) {
        if let Some(attached) = &self.attached {
            let pins = attached.read_before.lock();
            pins.unwrap_or_else(PoisonError::into_inner).clear();
        }
    }
}
