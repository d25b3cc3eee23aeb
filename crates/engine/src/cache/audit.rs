//! Audit of a whole cache: one shard after the other, then all memory.
//!
//! The counts of one shard are in `store/audit.rs`. Tests: tests/model.rs, tests/expiry.rs.

use super::Cache;
use super::geometry::Geometry;
use crate::memory::Budget;
use crate::store::{Audit, Inconsistency, equal};

impl Cache {
    /// Counts the whole contents entry by entry, and checks the engine's own sums against it.
    ///
    /// For tests and measurements: walks all memory, shard by shard under its lock, and is
    /// consistent only while no other thread uses the cache.
    ///
    /// # Errors
    /// The first [`Inconsistency`], which is a defect of the engine.
    pub fn audit(&self) -> Result<Audit, Inconsistency> {
        self.check_left(1, || true);
        // Frees segments that only a reader held, whose reader has gone.
        self.shards.each(|shard| shard.store.collect_drained());
        let left_of = |budget: &Budget| budget.left() + budget.pledged();
        let own = self
            .shards
            .memory()
            .partitions()
            .iter()
            .map(|kept| left_of(&kept.budget));
        let left = left_of(self.shards.memory().budget()) + own.sum::<usize>();
        let mut audit = Audit {
            memory_bytes: self.shards.config().memory_bytes as u64,
            left_bytes: (left + self.shards.memory().unused_bytes()) as u64,
            ..Audit::default()
        };
        let now = self.shards.now();
        let mut outcome = Ok(());
        self.shards.each(|shard| {
            shard.begin(now);
            if outcome.is_ok() {
                outcome = audit.add(&shard.store, now);
                audit.overhead_bytes += shard.ghost_bytes() as u64;
            }
        });
        outcome?;
        let mut held = 0;
        self.shards.each(|shard| held += shard.store.held_bytes());
        let own = self
            .shards
            .memory()
            .partitions()
            .iter()
            .map(|kept| kept.budget.held());
        let known = self.shards.memory().budget().held() + own.sum::<usize>();
        equal("bytes held by all", known as u64, held as u64)?;
        let sharing = self.shards.memory().sharing_bytes();
        let own = self
            .shards
            .memory()
            .partitions()
            .iter()
            .map(|kept| kept.geometry.fixed_bytes);
        let fixed = Geometry::of(self.shards.config(), sharing).fixed_bytes + own.sum::<usize>();
        audit.check_memory((fixed + self.training_bytes()) as u64)?;
        Ok(audit)
    }
}
