//! Stowed: what a store knows of its items, as a clean stop leaves it for the next process.
//!
//! Nothing is looked at: who reads it knows that neither it nor the memory was changed since.
//! Counts of what has happened begin anew with the process.
//!
//! Why: docs/decisions/0058. Tests: tests/sealed.rs.

use super::{Rebuilt, Store};
use crate::arena::Pin;
use crate::clock::Instant;
use crate::segment::Flushed;
use crate::space::Space;
use crate::stow::{Chest, Stow, Unpacking};

impl Store {
    /// Whether nothing is half done outside of the shard's lock.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.log.is_at_rest()
    }

    /// Writes down what it knows.
    pub(crate) fn stow(&self, chest: &mut Chest) {
        self.index.stow(chest);
        self.log.stow(chest);
        self.tally.stow(chest);
        (self.flushed_items, self.purge_at).stow(chest);
        self.counting.stow(chest);
    }

    /// Goes on with what another store wrote down over the same memory. Items of spaces other than
    /// the main one and those that are `living` are gone.
    pub(crate) fn take_on(
        &mut self,
        from: &mut Unpacking<'_>,
        living: Option<&[Space]>,
        now: Instant,
    ) -> Option<(Rebuilt, Vec<Pin>)> {
        let before = self.index.bytes();
        if !self.index.fetch(from) {
            return None;
        }
        let grown = self.index.bytes().saturating_sub(before);
        if !self.log.budget().take(grown) {
            return None;
        }
        let pins = self.log.take_on(from)?;
        self.tally = Stow::fetch(from)?;
        (self.flushed_items, self.purge_at) = Stow::fetch(from)?;
        self.counting = Stow::fetch(from)?;
        let others: Vec<Space> = self.tally.others().collect();
        let is_gone = |space: &Space| living.is_some_and(|living| !living.contains(space));
        for space in others.into_iter().filter(is_gone) {
            self.retire_space(space);
        }
        self.note_shape();
        let bytes = self.segments().map(|(_, segment)| match segment.flushed {
            Flushed::All => 0,
            _ => segment.written_bytes() - segment.dead_bytes(now),
        });
        let rebuilt = Rebuilt {
            items: self.live_items(now),
            bytes: bytes.sum::<usize>() as u64,
            dropped: 0,
        };
        Some((rebuilt, pins))
    }
}
