//! Reclaim plan: frees segments, in steps, before many short values are stored together.
//!
//! Short values share segments, so no memory can be reserved for each of them. Instead segments are
//! emptied. They are not reserved: other stores may fill them, and empty further ones in turn. The
//! plan still ends, because it processes a bounded number of bytes.
//!
//! Why: docs/decisions/0059. Tests: tests/extent_reservations.rs.

use super::shards::Shards;
use crate::key::Key;
use crate::log::is_better_off_alone;
use crate::log::item::HEADER_BYTES_MAX;

/// A shard's segments of which at most this part is cleared.
const CLEARED_SHARE: usize = 4;
/// Most walks over the bytes that are to be freed.
const WALKS_MAX: usize = 8;

/// Free space for short values, shard by shard.
#[derive(Debug)]
pub struct ReclaimPlan {
    shards: Vec<ShardPlan>,
    next: usize,
}

/// The space to reclaim in one shard.
#[derive(Clone, Copy, Debug, Default)]
struct ShardPlan {
    bytes: usize,
    copy_bytes: usize,
    walk_bytes: usize,
}

impl ReclaimPlan {
    /// Whether all of it is done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.next == self.shards.len()
    }

    /// The plan for values of these lengths in a cache of `shards`.
    pub(super) fn of<'k>(
        shards: &Shards,
        values: impl IntoIterator<Item = (Key<'k>, usize)>,
    ) -> ReclaimPlan {
        let mut plans = vec![ShardPlan::default(); shards.sharing()];
        let segment_bytes = shards.memory().segment_bytes();
        for (key, value_bytes) in values {
            let bytes = HEADER_BYTES_MAX + key.bytes().len() + value_bytes;
            // In a no-eviction partition there is nothing to evict.
            let plan = plans.get_mut(shards.number_of(key));
            if let Some(plan) = plan.filter(|_| !is_better_off_alone(bytes, segment_bytes)) {
                plan.bytes += bytes;
            }
        }
        let most = shards.memory().bytes() / shards.sharing() / CLEARED_SHARE;
        for plan in &mut plans {
            plan.bytes = plan.bytes.min(most);
            plan.copy_bytes = plan.bytes;
            plan.walk_bytes = plan.bytes * WALKS_MAX;
        }
        ReclaimPlan {
            shards: plans,
            next: 0,
        }
    }

    /// Takes the next step.
    pub(super) fn step(&mut self, shards: &Shards) {
        let Some(part) = self.shards.get_mut(self.next) else {
            return;
        };
        let now = shards.now();
        let mut shard = shards[self.next].lock_beside_claims();
        shard.begin(now);
        let reclaimed = match part.bytes {
            0 => Default::default(),
            bytes => shard.free_some(bytes, &mut part.copy_bytes, now),
        };
        let left = part.walk_bytes.checked_sub(reclaimed.walked_bytes);
        part.walk_bytes = left.unwrap_or(0);
        if !reclaimed.is_any || left.is_none() {
            self.next += 1;
        }
    }
}
