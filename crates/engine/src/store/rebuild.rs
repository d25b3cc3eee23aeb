//! Rebuild: how a store continues with the items that another process left in persistent memory.
//!
//! After a clean stop it reads what that process serialized ([`Store::restore`]) and looks at no
//! item: the caller has checked that nothing has changed since. Counters of events start at zero.
//!
//! After a kill, [`Store::rebuild`] looks at the index alone: it counts the entries that lead into
//! each segment, moves entries back that an interrupted split has moved, and reserves the memory
//! of these segments. Their items are checked segment by segment, later or when one is asked for
//! (`store/unchecked.rs`). The item that was being changed is checked, and dropped, at once.
//!
//! Invariant: the next process can repeat every step done here.
//! Why: docs/decisions/0058, 0085. Tests: tests/restart.rs, tests/clean_stop.rs.

use std::sync::Arc;

use super::Store;
use super::unchecked::{CheckProgress, Rebuilt, Unchecked, UncheckedSegment, plausible};
use crate::base::clock::Instant;
use crate::base::serialize::{Deserializer, Serialize, Serializer};
use crate::base::space::Space;
use crate::log::metadata::{SegmentMetadata, ShardMetadata};
use crate::log::segment::Flushed;
use crate::memory::arena::Pin;
use crate::memory::table::Shape;

impl Store {
    /// Restores this shard's memory of another process, unchecked; of spaces other than the main
    /// one only those in `living`. `false` if that is impossible; then the store cannot be used.
    pub(crate) fn rebuild(
        &mut self,
        found: &ShardMetadata,
        living: Option<&[Space]>,
        progress: &Arc<CheckProgress>,
        now: Instant,
    ) -> bool {
        let before = self.index.bytes();
        if !self.index.adopt_shape(Shape::unpack(found.shape)) {
            return false;
        }
        if !self.take_memory(self.index.bytes().saturating_sub(before)) {
            return false;
        }
        self.tally.turn(now);
        self.tally.look_further();
        self.log.set_horizon(self.tally.position().horizon());
        let mut dropped = self.index.undo_growth() as u64;
        self.index.release_rest();
        let mut unchecked = Unchecked::new(living, Arc::clone(progress));
        let (counts, nonsense) = self.count_leads();
        dropped += nonsense;
        let mut is_left_out = vec![false; counts.len()];
        for (number, &entries) in (0..).zip(&counts) {
            if entries == 0 {
                continue;
            }
            match self.reservable(number, &counts, &mut is_left_out) {
                Some(recorded) if self.log.reserve(number, &recorded) => {
                    let has_histogram = !self.log.is_extent(number) && self.log.reserve_histogram();
                    let segment = UncheckedSegment {
                        recorded,
                        entries,
                        has_histogram,
                    };
                    unchecked.add(number, segment);
                    self.packing.mark_unchecked(number);
                    self.index.count_found(entries);
                }
                _ => is_left_out[number as usize] = true,
            }
        }
        dropped += self.wipe_leads_into(&is_left_out);
        progress.add_dropped(dropped);
        self.log.release_unreserved();
        self.unchecked = Some(Box::new(unchecked));
        if let Some(changing) = found.changing {
            self.check_changing(changing, now);
        }
        self.log.metadata().end_change();
        self.note_shape();
        self.end_check_if_done();
        true
    }

    /// Makes a new store ready whose memory is to outlive the process; `false` if there is none.
    pub(crate) fn begin(&mut self) -> bool {
        self.note_shape();
        self.index.begin()
    }

    /// Counts the entries that point into each segment; removes those that point nowhere, whose
    /// number is the second result.
    fn count_leads(&mut self) -> (Vec<usize>, u64) {
        let mut counts = vec![0; self.log.arena().segments()];
        let mut dropped = 0;
        for slot in 0..self.index.slots() {
            let Some(offset) = self.index.leads_to(slot) else {
                if self.index.is_nonsense(slot) {
                    self.index.wipe(slot);
                    dropped += 1;
                }
                continue;
            };
            match counts.get_mut(self.log.segment_of(offset) as usize) {
                Some(count) => *count += 1,
                None => {
                    self.index.wipe(slot);
                    dropped += 1;
                }
            }
        }
        (counts, dropped)
    }

    /// The recorded metadata of a segment to which entries point, if it can be reserved. An extent
    /// that shares addresses with other entries is trusted if an entry points to its item: then the
    /// other entries there are dropped.
    fn reservable(
        &self,
        number: u32,
        counts: &[usize],
        is_left_out: &mut [bool],
    ) -> Option<SegmentMetadata> {
        if is_left_out[number as usize] {
            return None;
        }
        let recorded = self.log.recorded(number)?;
        let span = recorded.room_bytes.div_ceil(self.log.segment_bytes());
        let inside = number as usize + 1..number as usize + span;
        if counts[inside.clone()].iter().all(|&entries| entries == 0) {
            return Some(recorded);
        }
        let is_sound = self.log.has_memory(number, &recorded) && self.has_item(number, &recorded);
        if is_sound {
            is_left_out[inside].fill(true);
        }
        is_sound.then_some(recorded)
    }

    /// Whether an item lies at the beginning of a recorded segment to which an entry leads.
    fn has_item(&self, number: u32, recorded: &SegmentMetadata) -> bool {
        let offset = self.log.start_of(number);
        let mut has_entry = false;
        if let Some(layout) = plausible(&self.log, offset, recorded) {
            let hash = self.hashed_key_of(&layout).hash();
            self.index
                .each_leading_to(hash, offset, |_| has_entry = true);
        }
        has_entry
    }

    /// Takes out the entries that lead into these segments; how many there were.
    fn wipe_leads_into(&mut self, segments: &[bool]) -> u64 {
        let mut dropped = 0;
        if !segments.contains(&true) {
            return dropped;
        }
        for slot in 0..self.index.slots() {
            if let Some(offset) = self.index.leads_to(slot)
                && segments[self.log.segment_of(offset) as usize]
            {
                self.index.wipe(slot);
                dropped += 1;
            }
        }
        dropped
    }
}

impl Store {
    /// Serializes its state.
    pub(crate) fn serialize(&self, out: &mut Serializer) {
        self.index.serialize(out);
        self.log.serialize(out);
        self.tally.serialize(out);
        self.purge_at.serialize(out);
        self.counting.serialize(out);
        self.packing.serialize(out);
    }

    /// Restores the state that another store saved for the same memory. Items of spaces other than
    /// the main one and those in `living` are dropped.
    pub(crate) fn restore(
        &mut self,
        from: &mut Deserializer<'_>,
        living: Option<&[Space]>,
        now: Instant,
    ) -> Option<(Rebuilt, Vec<Pin>)> {
        let before = self.index.bytes();
        if !self.index.deserialize(from) {
            return None;
        }
        let grown = self.index.bytes().saturating_sub(before);
        if !self.log.budget().take(grown) {
            return None;
        }
        let pins = self.log.restore(from)?;
        self.tally = Serialize::deserialize(from)?;
        self.purge_at = Serialize::deserialize(from)?;
        self.counting = Serialize::deserialize(from)?;
        self.packing.restore(from)?;
        let others: Vec<Space> = self.tally.others().collect();
        let is_gone = |space: &Space| living.is_some_and(|living| !living.contains(space));
        for space in others.into_iter().filter(is_gone) {
            self.retire_space(space);
        }
        self.note_shape();
        let bytes = self
            .log
            .segments()
            .map(|(_, segment)| match segment.flushed {
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
