//! Rebuild: how what a process left in memory that outlives it becomes a store again.
//!
//! The index says which items there are. Each entry is looked at: whether a lookup comes by it, the
//! segment it leads into is marked, an item lies there whose key hashes to it, and neither flush
//! nor deadline has ended it. An item that was being changed is in doubt and goes. What is left is
//! counted segment by segment; whatever lies between is a hole.
//!
//! Idempotent: who is interrupted leaves what can be rebuilt once more.
//! Why: docs/decisions/0058. Tests: tests/restart.rs.

use super::Store;
use crate::anchor::{LineFound, Marked};
use crate::clock::Instant;
use crate::item::{Entry, HEADER_BYTES_MAX, Layout, is_plausible};
use crate::log::Adopted;
use crate::segment::Flushed;
use crate::space::Space;
use crate::table::{BUCKET_SLOTS, Shape};

/// Slots whose items are loaded ahead of those that are looked at.
const SLOTS_AHEAD: usize = 4 * BUCKET_SLOTS;
/// Bytes of an item that are loaded ahead.
const FRONT_BYTES: usize = 128;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rebuilt {
    /// Items that are there, and their bytes.
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// Entries that led to no item one could believe in.
    pub(crate) dropped: u64,
}

/// An item whose entry was found, and the number of its slot; none while it is a stray.
#[derive(Clone, Copy, Debug)]
struct Survivor {
    offset: usize,
    bytes: usize,
    hash: u64,
    slot: Option<usize>,
}

/// What is made of an entry.
enum Entered {
    Kept(Survivor),
    /// It is over, or flushed.
    Ended,
    Doubtful,
}

impl Store {
    /// Takes on what another process left of this shard; of spaces other than the main one only
    /// those that are `living`. `None` if that cannot be made out; then the store is no more use.
    pub(crate) fn rebuild(
        &mut self,
        found: &LineFound,
        living: Option<&[Space]>,
        now: Instant,
    ) -> Option<Rebuilt> {
        let before = self.index.bytes();
        if !self.index.take_on(Shape::unpack(found.shape)) {
            return None;
        }
        if !self.take_memory(self.index.bytes().saturating_sub(before)) {
            return None;
        }
        self.tally.turn(now);
        self.tally.look_further();
        self.log.set_horizon(self.tally.hand().horizon());
        let marks = self.referred_marks();
        let mut rebuilt = Rebuilt::default();
        let mut survivors = self.look_at_entries(&marks, found, living, now, &mut rebuilt);
        survivors.sort_unstable_by_key(|one| (one.offset, one.slot.is_none()));
        self.drop_overlapping(&mut survivors, &mut rebuilt);
        let mut adopted = Adopted::default();
        let mut strays = Vec::new();
        let shift = self.log.arena().segment_shift();
        for group in survivors.chunk_by(|a, b| a.offset >> shift == b.offset >> shift) {
            self.adopt_group(group, &marks, &mut adopted, &mut strays, &mut rebuilt);
        }
        self.log.end_adoption(adopted);
        self.index
            .count_found(rebuilt.items as usize - strays.len());
        self.index.release_rest();
        for stray in strays {
            self.enter_stray(stray, &mut rebuilt);
        }
        self.note_shape();
        self.log.anchor().changed();
        Some(rebuilt)
    }

    /// Makes a new store ready whose memory is to outlive the process; `false` if there is none.
    pub(crate) fn begin(&mut self) -> bool {
        self.note_shape();
        self.index.begin()
    }

    /// The marks of all segments that entries lead into and that have memory.
    fn referred_marks(&mut self) -> Vec<Option<Marked>> {
        let mut is_referred = vec![false; self.log.arena().segments()];
        for number in 0..self.index.slots_left() {
            if let Some(offset) = self.index.leads_to(number) {
                let segment = self.log.segment_of(offset) as usize;
                if let Some(is_referred) = is_referred.get_mut(segment) {
                    *is_referred = true;
                }
            }
        }
        let numbered = (0..).zip(is_referred);
        let marks = numbered.map(|(number, is_referred)| {
            let marked = is_referred.then(|| self.log.marked(number)).flatten()?;
            self.log.has_memory(number, &marked).then_some(marked)
        });
        marks.collect()
    }

    /// Looks at every entry; those that lead nowhere are taken out.
    fn look_at_entries(
        &mut self,
        marks: &[Option<Marked>],
        found: &LineFound,
        living: Option<&[Space]>,
        now: Instant,
        rebuilt: &mut Rebuilt,
    ) -> Vec<Survivor> {
        let slots = self.index.slots_left();
        let mut survivors = Vec::with_capacity(slots / 2);
        for first in (0..slots).step_by(SLOTS_AHEAD) {
            let end = (first + SLOTS_AHEAD).min(slots);
            for number in end..(end + SLOTS_AHEAD).min(slots) {
                if let Some(offset) = self.index.leads_to(number) {
                    self.log.arena().prefetch(offset, FRONT_BYTES);
                }
            }
            for number in first..end {
                let Some(offset) = self.index.leads_to(number) else {
                    if self.index.is_nonsense(number) {
                        self.index.wipe(number);
                        rebuilt.dropped += 1;
                    }
                    continue;
                };
                let entered = match found.changing {
                    Some(changing) if changing == offset => Entered::Doubtful,
                    _ => self.look_at(number, offset, marks, living, now),
                };
                match entered {
                    Entered::Kept(survivor) => {
                        if survivor.slot.is_none() {
                            self.index.wipe(number);
                        }
                        survivors.push(survivor);
                    }
                    Entered::Ended => self.index.wipe(number),
                    Entered::Doubtful => {
                        self.index.wipe(number);
                        rebuilt.dropped += 1;
                    }
                }
            }
        }
        survivors
    }

    fn look_at(
        &self,
        slot: usize,
        offset: usize,
        marks: &[Option<Marked>],
        living: Option<&[Space]>,
        now: Instant,
    ) -> Entered {
        let segment = self.log.segment_of(offset);
        let Some(marked) = marks.get(segment as usize).copied().flatten() else {
            return Entered::Doubtful;
        };
        let Some(layout) = self.plausible(offset, &marked) else {
            return Entered::Doubtful;
        };
        let key = self.hashed_key_of(&layout);
        let (hash, space) = (key.hash(), key.space());
        let is_gone = match (marked.flushed, space) {
            (Flushed::All, _) | (Flushed::Main, Space::MAIN) => true,
            (_, Space::MAIN) => false,
            (_, space) => living.is_some_and(|living| !living.contains(&space)),
        };
        if is_gone || layout.deadline.has_passed(now) {
            return Entered::Ended;
        }
        Entered::Kept(Survivor {
            offset,
            bytes: layout.total_bytes(),
            hash,
            slot: self.index.is_found_in(slot, hash).then_some(slot),
        })
    }

    /// The item at an offset of a marked segment, if what lies there can be one.
    fn plausible(&self, offset: usize, marked: &Marked) -> Option<Layout> {
        let start = self.log.start_of(self.log.segment_of(offset));
        let room = (start + marked.room_bytes).checked_sub(offset)?;
        let front = self.log.bytes(offset, room.min(HEADER_BYTES_MAX));
        if !is_plausible(front, room, marked.scale) {
            return None;
        }
        match crate::item::read(self.log.arena(), offset, marked.scale) {
            Entry::Item(layout) => Some(layout),
            _ => None,
        }
    }

    /// Keeps one of two entries that lead to the same item, and neither of two items that have
    /// bytes in common.
    fn drop_overlapping(&mut self, survivors: &mut Vec<Survivor>, rebuilt: &mut Rebuilt) {
        let mut kept: Vec<Survivor> = Vec::with_capacity(survivors.len());
        let mut end = 0;
        for &one in survivors.iter() {
            let last = kept.last().copied();
            if let Some(last) = last.filter(|last| last.offset == one.offset) {
                // A move was interrupted: the one that is found sorts before, or is as good.
                if let Some(slot) = one.slot.filter(|_| last.slot != one.slot) {
                    self.index.wipe(slot);
                }
                continue;
            }
            if one.offset >= end {
                end = one.offset + one.bytes;
                kept.push(one);
                continue;
            }
            rebuilt.dropped += 1;
            one.slot.into_iter().for_each(|slot| self.index.wipe(slot));
            if let Some(last) = last.filter(|last| one.offset < last.offset + last.bytes) {
                kept.pop();
                rebuilt.dropped += 1;
                last.slot.into_iter().for_each(|slot| self.index.wipe(slot));
            }
            end = end.max(one.offset + one.bytes);
        }
        *survivors = kept;
    }

    /// Takes on a segment with its items, in the order in which they lie there.
    fn adopt_group(
        &mut self,
        group: &[Survivor],
        marks: &[Option<Marked>],
        adopted: &mut Adopted,
        strays: &mut Vec<Survivor>,
        rebuilt: &mut Rebuilt,
    ) {
        let number = self.log.segment_of(group[0].offset);
        let marked = marks[number as usize];
        let marked = marked.expect("a survivor lies in a marked segment");
        let is_timed = group.len() > 1 && marked.scale.width > 0
            || group.iter().any(|one| self.has_own_deadline(one, &marked));
        if !self.log.adopt(number, &marked, is_timed, adopted) {
            rebuilt.dropped += group.len() as u64;
            for slot in group.iter().filter_map(|one| one.slot) {
                self.index.wipe(slot);
            }
            return;
        }
        for one in group {
            let Entry::Item(layout) = self.log.read(one.offset) else {
                unreachable!("a survivor is an item");
            };
            self.log.adopt_item(number, &layout);
            let due = self.log.segment(number).due(layout.deadline);
            self.tally.add(layout.space(), due);
            rebuilt.items += 1;
            rebuilt.bytes += one.bytes as u64;
            if one.slot.is_none() {
                strays.push(*one);
            }
        }
    }

    /// Whether an item has a deadline although the scale of its segment has no room for one.
    fn has_own_deadline(&self, one: &Survivor, marked: &Marked) -> bool {
        let layout = self.plausible(one.offset, marked);
        let deadline = layout.and_then(|layout| layout.deadline.instant());
        deadline.is_some() && !self.log.wants_extent(one.bytes)
    }

    /// Enters an item anew whose entry no lookup came by.
    fn enter_stray(&mut self, stray: Survivor, rebuilt: &mut Rebuilt) {
        let Entry::Item(layout) = self.log.read(stray.offset) else {
            unreachable!("a stray is an item");
        };
        let key = self.hashed_key_of(&layout);
        let is_alone = self.find_stored(key).is_none();
        if is_alone && self.index.insert(stray.hash, stray.offset).is_some() {
            return;
        }
        let segment = self.log.segment(self.log.segment_of(stray.offset));
        self.tally
            .take(layout.space(), segment.due(layout.deadline));
        self.log.bury(&layout);
        rebuilt.items -= 1;
        rebuilt.bytes -= stray.bytes as u64;
        rebuilt.dropped += 1;
    }
}
