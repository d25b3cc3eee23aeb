//! Huge pages: moves fully used memory of a cache to huge pages, one at a time.
//!
//! Why: docs/decisions/0010. Tests: tests/maintenance.rs.

use super::cell::ShardCell;
use super::shards::Shards;
use crate::memory::HUGE_PAGE_BYTES;

/// A huge page that is made beside a cache's memory may take this part of it at most.
const HUGE_PAGE_SHARE: usize = 64;
/// Moves one stretch of fully used memory, of the index or of the log of some shard, to a huge
/// page. Returns whether there was any: none while the cache grows, because copying takes memory
/// bandwidth, and none in a small cache, because the page is taken in addition to its memory.
pub(super) fn use_one(shards: &Shards) -> bool {
    if shards.config().memory_bytes / HUGE_PAGE_SHARE < HUGE_PAGE_BYTES {
        return false;
    }
    let now = shards.now();
    let is_growing = |cell: &ShardCell| cell.lock_beside_claims().store.log().is_growing(now);
    if shards.iter().any(is_growing) {
        return false;
    }
    let mut cells = shards.iter();
    cells.any(|cell| make_index_huge(cell) || make_log_huge(cell))
}

fn make_index_huge(cell: &ShardCell) -> bool {
    let Some(stretch) = cell.lock_beside_claims().store.begin_huge_index() else {
        return false;
    };
    let is_ready = cell.table.region().prepare_huge(stretch);
    cell.lock_beside_claims()
        .store
        .end_huge_index(stretch, is_ready);
    true
}

fn make_log_huge(cell: &ShardCell) -> bool {
    let Some(stretch) = cell.lock_beside_claims().store.begin_huge_log() else {
        return false;
    };
    let is_ready = cell.arena.region().prepare_huge(stretch);
    cell.lock_beside_claims().store.end_huge_log(is_ready);
    true
}
