//! Restore: makes a table of memory that has outlived its process.
//!
//! Its shape is the last recorded one. A process that was killed during a split or a merge has left
//! entries in a bucket where no lookup finds them ([`Index::undo_growth`] moves them back). One
//! killed during a move has left an entry in both of its buckets, which the check of its item
//! detects.
//!
//! Tests: tests/restart.rs.

use std::sync::atomic::Ordering;

use super::{Index, Phase, Scan, SlotRef};
use crate::base::serialize::{Deserializer, Serialize, Serializer};
use crate::memory::table::{
    BUCKET_BYTES, BUCKET_SLOTS, OFFSETS, PARTNER, Shape, TAG_SHIFT, offset_of,
};
use crate::memory::whole_pages;

/// Bytes of a slot.
const SLOT_BYTES: usize = BUCKET_BYTES / BUCKET_SLOTS;

impl Index {
    /// Takes on the shape that a table was left with; `false` if it cannot have been that.
    pub(crate) fn adopt_shape(&mut self, shape: Shape) -> bool {
        let least = self.table.level_min;
        let is_known = (least..=self.level_max).contains(&shape.level)
            && shape.split < 1 << shape.level
            && (shape.level < self.level_max || shape.split == 0);
        if is_known {
            self.table.set_shape(shape);
            self.touched = shape.buckets() * BUCKET_BYTES;
        }
        is_known && self.table.region().populate(0, self.touched)
    }

    /// Serializes the table's state besides its slots.
    pub(crate) fn serialize(&self, out: &mut Serializer) {
        (self.table.shape().pack(), self.items).serialize(out);
        (self.unlinked, self.touched).serialize(out);
    }

    /// Goes on with a table of which that was written down; `false` if it cannot be.
    pub(crate) fn deserialize(&mut self, from: &mut Deserializer<'_>) -> bool {
        let Some((shape, items)) = <(u64, usize)>::deserialize(from) else {
            return false;
        };
        let is_there = self.adopt_shape(Shape::unpack(shape));
        let Some((unlinked, touched)) = <(usize, usize)>::deserialize(from) else {
            return false;
        };
        (self.items, self.unlinked) = (items, unlinked);
        self.touched = touched.max(self.touched);
        is_there && unlinked <= items && items - unlinked <= self.slots()
    }

    /// Makes the smallest table resident; `false` if there is no memory for it.
    pub(crate) fn begin(&mut self) -> bool {
        self.adopt_shape(Shape {
            level: self.table.level_min,
            split: 0,
        })
    }

    /// Moves entries back that a split or a merge had moved when the process was killed, and whose
    /// shape was not recorded any more. Removes invalid entries; returns how many.
    pub(crate) fn undo_growth(&mut self) -> usize {
        let Shape { level, split } = self.table.shape();
        let mut dropped = 0;
        if self.can_grow() && self.touch() {
            dropped += self.move_back(self.buckets(), split, |_| true);
        }
        if self.buckets() > 1 << self.table.level_min {
            let shrunk = Shape { level, split }.shrunk();
            let last = (1 << shrunk.level) + shrunk.split;
            let shape = self.table.shape();
            let into = shrunk.split;
            dropped += self.move_back(into, last, |address| shape.bucket(address) == last);
        }
        dropped
    }

    /// Moves those entries of a bucket to another whose address `belongs` there.
    fn move_back(&self, from: usize, to: usize, belongs: impl Fn(u64) -> bool) -> usize {
        let mut dropped = 0;
        for position in 0..BUCKET_SLOTS {
            let slot = SlotRef(from * BUCKET_SLOTS + position);
            let word = self.load(slot);
            if word == 0 || !belongs(self.address_here(to, word)) {
                continue;
            }
            // Of the entry that was being moved there may be two.
            let places = (0..BUCKET_SLOTS).map(|one| SlotRef(to * BUCKET_SLOTS + one));
            let is_there = places
                .clone()
                .any(|place| (self.load(place) ^ word) & OFFSETS == 0);
            let mut free = places.filter(|&place| self.load(place) == 0);
            match free.next() {
                _ if is_there => {}
                Some(place) => self.save(place, word),
                None => dropped += 1,
            }
            self.save(slot, 0);
        }
        dropped
    }

    /// Where the entry in a slot leads, if there is one.
    #[inline]
    pub(crate) fn leads_to(&self, number: usize) -> Option<usize> {
        // Relaxed: no other thread runs yet.
        offset_of(self.table.slots()[number].load(Ordering::Relaxed))
    }

    /// Whether a slot holds an invalid entry.
    pub(crate) fn is_nonsense(&self, number: usize) -> bool {
        self.is_used(SlotRef(number)) && self.leads_to(number).is_none()
    }

    /// Whether a lookup of this hash comes by the slot and takes its entry for one.
    #[inline]
    pub(crate) fn is_found_in(&self, number: usize, hash: u64) -> bool {
        let word = self.load(SlotRef(number));
        let (home, partner) = self.table.addresses(hash);
        let address = if word & PARTNER == 0 { home } else { partner };
        word >> TAG_SHIFT == self.table.tag(hash)
            && self.table.shape().bucket(address) == number / BUCKET_SLOTS
    }

    /// Empties a slot whose entry was not counted.
    pub(crate) fn wipe(&mut self, number: usize) {
        if !self.scans.is_empty() {
            self.note_removal(SlotRef(number));
        }
        self.save(SlotRef(number), 0);
    }

    /// Counts so many entries more.
    pub(crate) fn count_found(&mut self, entries: usize) {
        self.items += entries;
    }

    /// Counts entries less that were wiped.
    pub(crate) fn count_wiped(&mut self, entries: usize) {
        self.items -= entries;
    }

    /// Calls `each` with the number of every slot in the two buckets of a hash that points to this
    /// offset, whatever its other bits.
    #[inline]
    pub(crate) fn each_leading_to(&self, hash: u64, offset: usize, mut each: impl FnMut(usize)) {
        let shape = self.table.shape();
        let (home, partner) = self.table.addresses(hash);
        let field = offset as u64 + 1;
        for bucket in [shape.bucket(home), shape.bucket(partner)] {
            for (position, slot) in self.table.bucket(bucket).iter().enumerate() {
                // Relaxed: see `load`.
                if slot.load(Ordering::Relaxed) & OFFSETS == field {
                    each(bucket * BUCKET_SLOTS + position);
                }
            }
        }
    }

    /// The slots that the next step of a scan may show.
    pub(crate) fn next_of_scan(&self, scan: &Scan) -> Vec<usize> {
        if scan.phase == Phase::Moved {
            return self.next_moved(scan);
        }
        let bucket = self.stretch(scan.at).map(|stretch| stretch.bucket);
        let slots = bucket.map(|bucket| bucket * BUCKET_SLOTS..(bucket + 1) * BUCKET_SLOTS);
        slots.into_iter().flatten().collect()
    }

    /// Releases the unused memory behind the table.
    pub(crate) fn release_rest(&mut self) {
        let end = self.buckets() * BUCKET_BYTES;
        let region = self.table.region();
        // Of the page in which the table ends the rest is wiped: buckets are empty when it grows.
        for number in self.slots()..whole_pages(end) / SLOT_BYTES {
            self.save(SlotRef(number), 0);
        }
        region.release(end, region.bytes() - end);
        self.touched = end;
    }
}
