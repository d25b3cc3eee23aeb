//! Tally: how many items each space has in a shard, and which spaces are gone.
//!
//! A space that was retired, or the main space after a flush of its own, is gone at once: its items
//! are over and counted apart until a purge, eviction or somebody who meets them has removed the
//! last. Only then are their bytes dead for a survey.
//!
//! Why: docs/decisions/0015. Tests: tests/space.rs, tests/model.rs.

use std::collections::HashMap;

use crate::clock::Deadline;
use crate::space::Space;
use crate::stats::SpaceStats;

/// The spaces of one shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    main: SpaceStats,
    others: HashMap<Space, SpaceStats>,
    /// Items still to be removed of each space that is gone.
    gone: HashMap<Space, u64>,
}

impl Tally {
    /// What a space has here.
    pub(crate) fn of(&self, space: Space) -> SpaceStats {
        if space == Space::MAIN {
            return self.main;
        }
        self.others.get(&space).copied().unwrap_or_default()
    }

    /// Whether another space than the main one has items.
    pub(crate) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Whether items of spaces that are gone are still to be removed.
    #[inline]
    pub(crate) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Whether the space, another than the main one, is gone.
    #[inline]
    pub(crate) fn is_gone(&self, space: Space) -> bool {
        self.has_gone() && self.gone.contains_key(&space)
    }

    /// Counts an item that was stored.
    #[inline]
    pub(crate) fn add(&mut self, space: Space, deadline: Deadline) {
        if space == Space::MAIN {
            self.main.items += 1;
            self.main.with_deadline += u64::from(deadline != Deadline::NEVER);
        } else {
            self.add_other(space, deadline);
        }
    }

    #[inline(never)]
    fn add_other(&mut self, space: Space, deadline: Deadline) {
        if let Some(left) = self.gone.get_mut(&space) {
            *left += 1;
            return;
        }
        let stats = self.others.entry(space).or_default();
        stats.items += 1;
        stats.with_deadline += u64::from(deadline != Deadline::NEVER);
    }

    /// Takes an item out that was removed and was not gone with its space.
    #[inline]
    pub(crate) fn take(&mut self, space: Space, deadline: Deadline) {
        if space == Space::MAIN {
            self.main.items -= 1;
            self.main.with_deadline -= u64::from(deadline != Deadline::NEVER);
        } else {
            self.take_other(space, deadline);
        }
    }

    #[inline(never)]
    fn take_other(&mut self, space: Space, deadline: Deadline) {
        let stats = self.others.get_mut(&space);
        let stats = stats.expect("an item's space is known");
        stats.items -= 1;
        stats.with_deadline -= u64::from(deadline != Deadline::NEVER);
        if stats.items == 0 {
            self.others.remove(&space);
        }
    }

    /// Counts that an item which is not gone has another deadline.
    pub(crate) fn retime(&mut self, space: Space, before: Deadline, after: Deadline) {
        if (before == Deadline::NEVER) != (after == Deadline::NEVER) {
            self.take(space, before);
            self.add(space, after);
        }
    }

    /// Takes an item out that was gone with its space.
    pub(crate) fn take_gone(&mut self, space: Space) {
        let left = self.gone.get_mut(&space);
        let left = left.expect("an item that is gone was counted");
        *left -= 1;
        if *left == 0 {
            self.gone.remove(&space);
        }
    }

    /// Makes all items of a space gone; returns how many.
    pub(crate) fn retire(&mut self, space: Space) -> u64 {
        let stats = if space == Space::MAIN {
            std::mem::take(&mut self.main)
        } else {
            self.others.remove(&space).unwrap_or_default()
        };
        if stats.items > 0 {
            *self.gone.entry(space).or_default() += stats.items;
        }
        stats.items
    }

    /// Forgets everything: all items were flushed.
    pub(crate) fn clear(&mut self) {
        *self = Tally::default();
    }

    /// Compares what is counted with what was found, and with `gone` items that were found of
    /// spaces that are gone.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self, found: &Tally, gone: u64) -> Result<(), String> {
        let known_gone: u64 = self.gone.values().sum();
        if known_gone != gone {
            return Err(format!(
                "{known_gone} items of spaces that are gone, {gone} found"
            ));
        }
        if (self.main, &self.others) != (found.main, &found.others) {
            return Err(format!("spaces: {self:?} accounted, {found:?} found"));
        }
        Ok(())
    }
}
