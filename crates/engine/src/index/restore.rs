//! Restore: how what is left of a table in memory that outlived its process becomes one again.
//!
//! Its shape is what was noted last. A process that ended amid a split or a move has left an entry
//! in a bucket where no lookup comes, or twice; whoever restores the table looks at each entry, and
//! at the one bucket behind the last that a split fills.
//!
//! Tests: tests/restart.rs.

use std::sync::atomic::Ordering;

use super::{Index, SlotRef};
use crate::memory::whole_pages;
use crate::serialize::{Deserializer, Serialize, Serializer};
use crate::table::{BUCKET_BYTES, BUCKET_SLOTS, PARTNER, Shape, TAG_SHIFT, offset_of};

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

    /// Writes down what is known of the table besides its slots.
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

    /// Numbers of all slots, those of the bucket that a split may have been filling included.
    pub(crate) fn slots_left(&mut self) -> usize {
        let is_there = self.can_grow() && self.touch();
        self.slots() + usize::from(is_there) * BUCKET_SLOTS
    }

    /// Where the entry in a slot leads, if there is one.
    #[inline]
    pub(crate) fn leads_to(&self, number: usize) -> Option<usize> {
        // Relaxed: nobody else is at work yet.
        offset_of(self.table.slots()[number].load(Ordering::Relaxed))
    }

    /// Whether a slot holds what is no entry.
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

    /// Whether the entry in a slot can be that of a key with this hash, in whatever bucket: an
    /// entry of another key, or of one whose bytes have changed, has another tag.
    #[inline]
    pub(crate) fn has_tag_of(&self, number: usize, hash: u64) -> bool {
        self.load(SlotRef(number)) >> TAG_SHIFT == self.table.tag(hash)
    }

    /// Empties a slot whose entry was not counted.
    pub(crate) fn wipe(&mut self, number: usize) {
        self.save(SlotRef(number), 0);
    }

    /// Counts so many entries as there.
    pub(crate) fn count_found(&mut self, items: usize) {
        self.items = items;
    }

    /// Gives the memory behind the table back, which is nobody's.
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
