//! Checkpoint: the state that a cache saves at a clean stop or a hot restart, so that another
//! process can continue with its memory.
//!
//! A [`Checkpoint`] locks all shards, serializes the state that the memory itself does not hold,
//! and keeps the locks until the process ends. [`Checkpoint::hand_over`] is for a process that
//! still sends values: their segments stay pinned in the other process until it is told that the
//! readers have finished.
//!
//! Invariant: nothing in the memory changes while the checkpoint is valid.
//! Why: docs/decisions/0058, 0081. Tests: tests/clean_stop.rs.

use std::num::NonZero;
use std::sync::MutexGuard;
use std::time::Duration;

use super::attached::AttachedState;
use super::cell::{Locked, ShardCell};
use super::insights::Insights;
use super::shards::Shards;
use super::training::{Families, Training};
use crate::base::serialize::Serializer;
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

impl<'c> Checkpoint<'c> {
    /// Saves the state of a cache whose items are all checked, and holds its shards.
    pub(super) fn of(
        attached: &'c AttachedState,
        shards: &'c Shards,
        training: &'c Training,
        insights: &Insights,
    ) -> Checkpoint<'c> {
        // The first lock: a step of training locks shards as well.
        let training = Some(training.lock());
        let insight = insights.lock();
        let mut locks = lock_all(shards);
        let mut out = Serializer::default();
        for shard in &mut locks {
            shard.note_versions();
            shard.serialize(&mut out);
        }
        insight.serialize(&mut out);
        attached.live_header().stop(shards.now());
        if locks.iter().all(|shard| shard.store.log().is_quiescent()) {
            // Without it the next process looks at every item.
            let _ = attached.dir().write_checkpoint(attached.id(), &out.bytes);
        }
        Checkpoint {
            attached,
            locks,
            training,
        }
    }

    /// Leaves the memory to another process while this one lives, which uses it no more.
    pub(super) fn hand_over(self, shards: &Shards) {
        shards.set_handed_over(true);
        let mut checkpoint = std::mem::ManuallyDrop::new(self);
        checkpoint.locks.clear();
        checkpoint.training = None;
    }

    /// Leaves the memory to the next process that opens its directory, with checksums of all of it.
    /// Any later use of this cache blocks for ever: the process has to exit. Cost: a look at every
    /// byte that has no checksum yet, by as many threads as the machine has processors.
    pub fn leave(mut self) {
        self.make_sums();
        // The lock ends with the process in any case.
        let _ = self.attached.dir().file().unlock();
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
        self.attached.dir().remove_checkpoint();
        self.attached.live_header().resume();
    }
}

impl std::fmt::Debug for Checkpoint<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("shards", &self.locks.len())
            .finish_non_exhaustive()
    }
}

/// All shards, and nothing that is half done outside of their locks, unless that takes long.
fn lock_all(shards: &Shards) -> Vec<Locked<'_>> {
    // The one place where several shards are locked at once; no thread that holds one waits for
    // another.
    let lock = || -> Vec<Locked<'_>> { shards.iter().map(ShardCell::lock_beside_claims).collect() };
    for _ in 0..QUIESCE_TRIES {
        let locks = lock();
        if locks.iter().all(|shard| shard.store.log().is_quiescent()) {
            return locks;
        }
        drop(locks);
        std::thread::sleep(QUIESCE_PAUSE);
    }
    lock()
}

/// Goes on with memory that was handed over: the other process did not come to use it.
pub(super) fn take_back(attached: &AttachedState, shards: &Shards) {
    attached.dir().remove_checkpoint();
    attached.live_header().begin(shards.now());
    shards.each(|shard| {
        shard.note_versions();
        shards.set_handed_over(false);
    });
}
