//! Way: room for many short values that are stored at once, cleared in steps before.
//!
//! Short values share segments, so nothing can be made for each of them: segments are emptied. They
//! are nobody's own. Who stores something meanwhile may fill them, and empties others in turn; the
//! clearing ends all the same, as it walks over so many bytes at most.
//!
//! Why: docs/decisions/0059. Tests: tests/provision.rs.

use super::Cache;
use crate::item::HEADER_BYTES_MAX;
use crate::key::Key;
use crate::log::is_better_off_alone;

/// A shard's segments of which at most this part is cleared.
const CLEARED_SHARE: usize = 4;
/// How many times what is to be cleared is walked over, at most.
const WALKS_MAX: usize = 8;

/// Room that is to be cleared.
#[derive(Debug)]
pub struct Way {
    shards: Vec<ShardWay>,
    next: usize,
}

/// A shard's part of it.
#[derive(Clone, Copy, Debug, Default)]
struct ShardWay {
    bytes: usize,
    copy_bytes: usize,
    walk_bytes: usize,
}

impl Way {
    /// Whether there is no more to be done.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.next == self.shards.len()
    }
}

impl Cache {
    /// The way for values of these lengths; of those that are not short, nothing is cleared.
    #[must_use]
    pub fn way<'k>(&self, values: impl IntoIterator<Item = (Key<'k>, usize)>) -> Way {
        let mut shards = vec![ShardWay::default(); self.sharing()];
        for (key, value_bytes) in values {
            let bytes = HEADER_BYTES_MAX + key.bytes().len() + value_bytes;
            // Where nothing may leave there is nothing to be cleared.
            let shard = shards.get_mut(self.number_of(key));
            if let Some(shard) = shard.filter(|_| !is_better_off_alone(bytes, self.segment_bytes)) {
                shard.bytes += bytes;
            }
        }
        let most = self.memory_bytes() / self.sharing() / CLEARED_SHARE;
        for shard in &mut shards {
            shard.bytes = shard.bytes.min(most);
            shard.copy_bytes = shard.bytes;
            shard.walk_bytes = shard.bytes * WALKS_MAX;
        }
        Way { shards, next: 0 }
    }

    /// Takes the next step.
    pub fn clear_way(&self, way: &mut Way) {
        let Some(part) = way.shards.get_mut(way.next) else {
            return;
        };
        let now = self.now();
        let mut shard = self.lock_beside_claims(&self.shards[way.next]);
        shard.begin(now);
        let won = match part.bytes {
            0 => Default::default(),
            bytes => shard.free_some(bytes, &mut part.copy_bytes, now),
        };
        let left = part.walk_bytes.checked_sub(won.walked_bytes);
        part.walk_bytes = left.unwrap_or(0);
        if !won.is_any || left.is_none() {
            way.next += 1;
        }
    }
}
