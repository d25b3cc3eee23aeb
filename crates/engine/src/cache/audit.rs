//! Audit of a whole cache: one shard after the other, then all memory.
//!
//! The counts of one shard are in `store/audit.rs`. Tests: tests/model.rs, tests/expiry.rs.

use super::geometry::Geometry;
use super::shards::Shards;
use crate::memory::Budget;
use crate::store::{Audit, Inconsistency, equal};

/// Counts the contents of all shards and compares them with the engine's own sums; dictionaries
/// take `training_bytes`.
///
/// # Errors
/// The first [`Inconsistency`].
pub(super) fn audit(shards: &Shards, training_bytes: usize) -> Result<Audit, Inconsistency> {
    // Frees segments that only a reader held, whose reader has gone.
    shards.each(|shard| shard.store.collect_drained());
    let (config, memory) = (shards.config(), shards.memory());
    let partitions = memory.partitions().iter();
    let left_of = |budget: &Budget| budget.left() + budget.pledged();
    let own = partitions.clone().map(|kept| left_of(&kept.budget));
    let left = left_of(memory.budget()) + own.sum::<usize>();
    let mut audit = Audit {
        memory_bytes: config.memory_bytes as u64,
        left_bytes: (left + memory.unused_bytes()) as u64,
        ..Audit::default()
    };
    let now = shards.now();
    let mut outcome = Ok(());
    shards.each(|shard| {
        shard.begin(now);
        if outcome.is_ok() {
            outcome = audit.add(&shard.store, now);
            audit.overhead_bytes += shard.ghost_bytes() as u64;
        }
    });
    outcome?;
    let mut held = 0;
    shards.each(|shard| held += shard.store.log().held_bytes());
    let own = partitions.clone().map(|kept| kept.budget.held());
    let known = memory.budget().held() + own.sum::<usize>();
    equal("bytes held by all", known as u64, held as u64)?;
    let own = partitions.map(|kept| kept.geometry.fixed_bytes);
    let shared = Geometry::of(config, memory.sharing_bytes()).fixed_bytes;
    audit.check_memory((shared + own.sum::<usize>() + training_bytes) as u64)?;
    Ok(audit)
}
