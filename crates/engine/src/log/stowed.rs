//! Stowed: what a log knows of its segments, as a clean stop leaves it for the next process.
//!
//! All numbers go over as they are; what stands in the arena's own tables, scales, youth and pins,
//! is made of them again. Whoever goes on takes what the segments hold from its own budget.
//!
//! Why: docs/decisions/0058. Tests: tests/sealed.rs.

use super::{Log, TABLE_ENTRY_BYTES};
use crate::arena::Pin;
use crate::segment::{Flushed, Segment, Use};
use crate::stow::{Chest, Stow, Unpacking};

impl Log {
    /// Whether nothing is half done outside of the shard's lock.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_moving = |segment: &Segment| segment.used == Use::InTransit;
        self.growing_huge.is_none() && !self.segments.iter().any(is_moving)
    }

    /// Writes down what it knows.
    pub(crate) fn stow(&self, chest: &mut Chest) {
        self.segments.stow(chest);
        let pinned = (0..).zip(&self.segments).map(|(number, _)| number);
        let pinned: Vec<u32> = pinned.filter(|&number| self.is_pinned(number)).collect();
        pinned.stow(chest);
        (self.resident_bytes, self.deaths_bytes).stow(chest);
        self.share.stow(chest);
        self.free.stow(chest);
        self.free_low.stow(chest);
        self.draining.stow(chest);
        self.partial.stow(chest);
        self.open.stow(chest);
        self.touched.stow(chest);
        self.recent.stow(chest);
        self.sealed.stow(chest);
        self.queue_bytes.stow(chest);
        self.buried_bytes.stow(chest);
        self.horizon.stow(chest);
        self.young.stow(chest);
        (self.unused_from, self.grew_at).stow(chest);
        (self.surplus, self.surplus_known_until).stow(chest);
        (self.spared, self.opened).stow(chest);
    }

    /// Goes on with what another log wrote down over the same memory; the segments in which that
    /// one's process still reads, held as long as these pins are.
    pub(crate) fn take_on(&mut self, from: &mut Unpacking<'_>) -> Option<Vec<Pin>> {
        let segments = Vec::<Segment>::fetch(from)?;
        let pinned = Vec::<u32>::fetch(from)?;
        if segments.len() > self.arena.segments() || !self.anchor.reach(segments.len()) {
            return None;
        }
        self.segments.extend(segments);
        (self.resident_bytes, self.deaths_bytes) = Stow::fetch(from)?;
        let beside = self.segments.len() * TABLE_ENTRY_BYTES + self.deaths_bytes;
        if !self.budget().take(self.resident_bytes.checked_add(beside)?) {
            return None;
        }
        self.share.take_on(from)?;
        self.free = Stow::fetch(from)?;
        self.free_low = Stow::fetch(from)?;
        self.draining = Stow::fetch(from)?;
        self.partial = Stow::fetch(from)?;
        self.open = Stow::fetch(from)?;
        self.touched = Stow::fetch(from)?;
        self.recent = Stow::fetch(from)?;
        self.sealed = Stow::fetch(from)?;
        self.queue_bytes = Stow::fetch(from)?;
        self.buried_bytes = Stow::fetch(from)?;
        self.horizon = Stow::fetch(from)?;
        self.young = Stow::fetch(from)?;
        (self.unused_from, self.grew_at) = Stow::fetch(from)?;
        (self.surplus, self.surplus_known_until) = Stow::fetch(from)?;
        (self.spared, self.opened) = Stow::fetch(from)?;
        if !self.is_at_rest() || !self.all_are_known(&pinned) {
            return None;
        }
        self.tell_readers();
        let pins = pinned.into_iter();
        Some(pins.map(|number| Pin::on(&self.arena, number)).collect())
    }

    /// Whether every segment that is named has an entry in the table.
    fn all_are_known(&self, pinned: &[u32]) -> bool {
        let lists = self.free.iter().chain(&self.draining).chain(&self.partial);
        let queues = self.in_use_numbers().chain(&self.young).chain(pinned);
        lists
            .chain(queues)
            .all(|&number| (number as usize) < self.segments.len())
    }

    fn in_use_numbers(&self) -> impl Iterator<Item = &u32> {
        let open = self.open.iter().flatten();
        open.chain(self.sealed.iter().flatten())
    }

    /// Has the arena know what readers without the lock ask it.
    fn tell_readers(&self) {
        for &number in self.in_use_numbers() {
            let segment = self.segment(number);
            let is_read_alone = self.is_extent(number) || segment.flushed != Flushed::None;
            let scale = (!is_read_alone).then(|| segment.scale());
            self.arena.open_to_readers(number, scale);
        }
        for &number in &self.young {
            self.arena.set_young(number, true);
        }
    }
}
