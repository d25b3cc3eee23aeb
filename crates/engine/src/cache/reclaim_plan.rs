//! Reclaim plan: frees segments, in steps, before many short values are stored together.
//!
//! Short values share segments, so no memory can be reserved for each of them. Instead segments are
//! emptied. They are not reserved: other stores may fill them, and empty further ones in turn. The
//! plan still ends, because it processes a bounded number of bytes.
//!
//! Why: docs/decisions/0059. Tests: tests/extent_reservations.rs.

use super::Cache;
use crate::item::HEADER_BYTES_MAX;
use crate::key::Key;
use crate::log::is_better_off_alone;

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
}

impl Cache {
    /// The plan for values of these lengths; long values are left out.
    #[must_use]
    pub fn plan_reclaim<'k>(
        &self,
        values: impl IntoIterator<Item = (Key<'k>, usize)>,
    ) -> ReclaimPlan {
        let mut shards = vec![ShardPlan::default(); self.shards.sharing()];
        for (key, value_bytes) in values {
            let bytes = HEADER_BYTES_MAX + key.bytes().len() + value_bytes;
            // In a no-eviction partition there is nothing to evict.
            let shard = shards.get_mut(self.shards.number_of(key));
            if let Some(shard) =
                shard.filter(|_| !is_better_off_alone(bytes, self.shards.memory().segment_bytes()))
            {
                shard.bytes += bytes;
            }
        }
        let most = self.shards.memory().bytes() / self.shards.sharing() / CLEARED_SHARE;
        for shard in &mut shards {
            shard.bytes = shard.bytes.min(most);
            shard.copy_bytes = shard.bytes;
            shard.walk_bytes = shard.bytes * WALKS_MAX;
        }
        ReclaimPlan { shards, next: 0 }
    }

    /// Takes the next step.
    pub fn step_reclaim_plan(&self, plan: &mut ReclaimPlan) {
        let Some(part) = plan.shards.get_mut(plan.next) else {
            return;
        };
        let now = self.shards.now();
        let mut shard = self.shards[plan.next].lock_beside_claims();
        shard.begin(now);
        let reclaimed = match part.bytes {
            0 => Default::default(),
            bytes => shard.free_some(bytes, &mut part.copy_bytes, now),
        };
        let left = part.walk_bytes.checked_sub(reclaimed.walked_bytes);
        part.walk_bytes = left.unwrap_or(0);
        if !reclaimed.is_any || left.is_none() {
            plan.next += 1;
        }
    }
}
