//! Policy: the numbers of S3-FIFO that eviction and the simulations share.
//!
//! Why: docs/decisions/0005, 0055, 0065, 0076. Tests: tests/evict.rs, tests/insight.rs.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::log::segment::Queue;

/// Shares of memory that the small queue may have, in percent; the first until another is known to
/// be better.
pub(crate) const SMALL_PERCENTS: [usize; 4] = [10, 3, 20, 40];

/// The small queue's share of memory at present, the same in all shards.
#[derive(Debug)]
pub(crate) struct SmallShare(
    // Relaxed: a queue is looked at by the old share or the new one, and both are good.
    AtomicUsize,
);

impl Default for SmallShare {
    fn default() -> SmallShare {
        SmallShare(AtomicUsize::new(SMALL_PERCENTS[0]))
    }
}

impl SmallShare {
    /// The share, in percent.
    #[inline]
    pub(crate) fn percent(&self) -> usize {
        // Relaxed: as it says where it is declared.
        self.0.load(Ordering::Relaxed)
    }

    /// From here on it is this one.
    pub(crate) fn set(&self, percent: usize) {
        // Relaxed: as it says where it is declared.
        self.0.store(percent, Ordering::Relaxed);
    }
}

/// As many of the items that were stored last stay in the small queues of all shards together where
/// items are so long that few of them have room: between the store of one and the first read of it
/// many clients may store theirs.
pub(crate) const FEW_ITEMS: usize = 128;

/// Bytes above which the small queue evicts its oldest items before the main one does.
/// `few_items_bytes` are those of [`FEW_ITEMS`], where items are long.
pub(crate) fn small_bytes(all: usize, small_percent: usize, few_items_bytes: usize) -> usize {
    (all * small_percent / 100).max(few_items_bytes)
}

/// As many ghosts as items, up to this share of memory, in percent.
pub(crate) const GHOSTS_PERCENT_MAX: usize = 2;
/// The part of the small queue, in percent, whose items were stored so recently that their uses do
/// not count: reads shortly after a store (correlated references) do not predict later reads.
const YOUNG_PERCENT: usize = 40;

/// Bytes of the young, where both queues have so many and the small one that share.
pub(crate) fn young_bytes(queue_bytes: usize, small_percent: usize) -> usize {
    queue_bytes * small_percent / 100 * YOUNG_PERCENT / 100
}

/// Items of more than so many times the mean size need two reads to stay, of so many three: in
/// their place, several others could stay.
const LARGE_MEANS: [usize; 2] = [2, 8];

/// Items of less than this part of the mean size need no read to move to the main queue: there they
/// cost little until the next look at them.
const SMALL_MEAN_PART: usize = 2;

/// How often an item of `bytes` must have been read to stay when its segment of `queue` is evicted,
/// where `items` share `memory_bytes`.
pub(crate) fn reads_needed(queue: Queue, bytes: usize, memory_bytes: usize, items: usize) -> u8 {
    let mean = memory_bytes / items.max(1);
    if queue == Queue::Small && bytes * SMALL_MEAN_PART < mean {
        return 0;
    }
    1 + LARGE_MEANS
        .iter()
        .filter(|&&means| bytes > means * mean)
        .count() as u8
}
