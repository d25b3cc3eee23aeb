//! Bulk unlink: one pass over the table that removes all entries of some segments.
//!
//! A lookup of one entry waits for memory, each time at another address. If a large part of all
//! items has expired at once, it is cheaper to go through the table in its order and remove the
//! entries of the segments that have expired wholly. Their items are still in the log then; until
//! the store removes them there, they count as entries ([`Index::unlinked`]).
//!
//! Invariant: no entry of these segments escapes the pass. One that would move from ahead of it to
//! behind it is removed instead, a split moves entries to the table's end, and the table does not
//! shrink meanwhile.
//!
//! Why: docs/decisions/0067. Tests: tests/mass_expiration.rs.

use super::{Index, SlotRef};
use crate::memory::table::{BUCKET_SLOTS, FETCHED, offset_of};

/// The segments whose entries are taken out.
#[derive(Debug)]
pub(super) struct BulkUnlink {
    /// log2 of the bytes in a segment.
    shift: u32,
    /// For each segment by its number: zero if its entries stay, else one more than its removed
    /// entries that had never been fetched.
    marks: Vec<u32>,
    /// How many of them are not zero.
    marked: usize,
    /// The segments that [`Index::next_unlinked`] has not returned yet.
    segments: Vec<u32>,
    progress: Progress,
}

/// How far entries have been taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Up to a bucket.
    At(usize),
    /// All of them. Buckets that the table gains later contain no entries of the bulk unlink.
    Done,
    /// Some of them, and no more will be; or all segments were asked for.
    Over,
}

impl Index {
    /// Begins to take out all entries that lead into these segments of `1 << shift` bytes, to which
    /// none may be added any more.
    pub(crate) fn begin_bulk_unlink(&mut self, segments: Vec<u32>, shift: u32) {
        let end = segments.iter().max().map_or(0, |&last| last as usize + 1);
        // From the bulk unlink before, the counts of segments that still exist.
        let mut marks = self.bulk.take().map_or_else(Vec::new, |bulk| bulk.marks);
        marks.resize(end.max(marks.len()), 0);
        for &segment in &segments {
            let mark = &mut marks[segment as usize];
            *mark = (*mark).max(1);
        }
        let marked = marks.iter().filter(|&&mark| mark != 0).count();
        self.bulk = Some(Box::new(BulkUnlink {
            shift,
            marks,
            marked,
            segments,
            progress: Progress::At(0),
        }));
    }

    /// Removes the entries of the bulk unlink in the next `buckets` buckets.
    pub(crate) fn step_bulk_unlink(&mut self, buckets: usize) {
        let Some(mut bulk) = self.bulk.take() else {
            return;
        };
        if let Progress::At(begin) = bulk.progress {
            let end = self.buckets().min(begin + buckets);
            for number in begin * BUCKET_SLOTS..end * BUCKET_SLOTS {
                let slot = SlotRef(number);
                if bulk.takes(self.load(slot)) {
                    self.unlink(slot);
                }
            }
            bulk.progress = match end < self.buckets() {
                true => Progress::At(end),
                false => Progress::Done,
            };
        }
        self.bulk = Some(bulk);
    }

    /// Stops a bulk unlink: remaining entries stay, and their items are removed one by one. Removed
    /// entries are remembered until their items are removed, or until another bulk unlink begins.
    pub(crate) fn break_bulk_unlink(&mut self) {
        if let Some(bulk) = &mut self.bulk {
            bulk.progress = Progress::Over;
        }
    }

    /// Whether there is a bulk unlink: entries are being taken out, or segments of it were not
    /// asked for.
    pub(crate) fn has_bulk_unlink(&self) -> bool {
        let bulk = self.bulk.as_ref();
        bulk.is_some_and(|bulk| bulk.progress != Progress::Over)
    }

    /// Whether entries are still to be taken out.
    pub(crate) fn is_unlinking(&self) -> bool {
        let bulk = self.bulk.as_ref();
        bulk.is_some_and(|bulk| matches!(bulk.progress, Progress::At(_)))
    }

    /// Whether the entries that lead into the segment are being taken out, or were, or some of
    /// them.
    #[inline]
    pub(crate) fn is_in_bulk_unlink(&self, segment: u32) -> bool {
        let bulk = self.bulk.as_ref();
        bulk.is_some_and(|bulk| bulk.mark(segment) != 0)
    }

    /// Whether no entry leads into the segment any more, because all of them were taken out.
    pub(crate) fn is_unlinked(&self, segment: u32) -> bool {
        let bulk = self.bulk.as_ref();
        bulk.is_some_and(|bulk| bulk.progress == Progress::Done && bulk.mark(segment) != 0)
    }

    /// A segment of which that is so, each of them once, and `None` once there are no more.
    pub(crate) fn next_unlinked(&mut self) -> Option<u32> {
        let bulk = self.bulk.as_mut()?;
        if bulk.progress != Progress::Done {
            return None;
        }
        while let Some(segment) = bulk.segments.pop() {
            if bulk.mark(segment) != 0 {
                return Some(segment);
            }
        }
        // Segments that are still being read are removed later, one by one.
        bulk.progress = Progress::Over;
        self.drop_empty_bulk_unlink();
        None
    }

    /// Forgets a segment of a bulk unlink, because it may be used again from here on; how many of
    /// the entries that were taken out had never been fetched.
    pub(crate) fn forget_unlinked(&mut self, segment: u32) -> u64 {
        let Some(bulk) = &mut self.bulk else {
            return 0;
        };
        let mark = bulk.marks.get_mut(segment as usize);
        let mark = mark.map_or(0, std::mem::take);
        bulk.marked -= usize::from(mark != 0);
        self.drop_empty_bulk_unlink();
        u64::from(mark.saturating_sub(1))
    }

    /// Forgets a bulk unlink of which nothing is left, so that no request looks at it any more.
    fn drop_empty_bulk_unlink(&mut self) {
        let bulk = self.bulk.as_ref();
        if bulk.is_some_and(|bulk| bulk.progress == Progress::Over && bulk.marked == 0) {
            self.bulk = None;
        }
    }

    /// Takes off one removed entry of a segment that had never been fetched; returns whether there
    /// was one.
    pub(crate) fn take_unfetched(&mut self, segment: u32) -> bool {
        let marks = self.bulk.as_mut().map(|bulk| &mut bulk.marks);
        let mark = marks.and_then(|marks| marks.get_mut(segment as usize));
        let mark = mark.filter(|mark| **mark > 1);
        mark.map(|mark| *mark -= 1).is_some()
    }

    /// Items whose entry was taken out, but which are still counted.
    pub(crate) fn unlinked(&self) -> usize {
        self.unlinked
    }

    /// Subtracts so many removed entries.
    pub(crate) fn remove_unlinked(&mut self, items: usize) {
        self.unlinked -= items;
        self.items -= items;
    }

    /// Takes an entry out that would be moved, if it is of the bulk unlink; whether it was.
    #[inline]
    pub(super) fn unlinks_instead(&mut self, slot: SlotRef, word: u64) -> bool {
        let bulk = self.bulk.as_mut();
        let bulk = bulk.filter(|bulk| bulk.progress != Progress::Over);
        let takes = bulk.is_some_and(|bulk| bulk.takes(word));
        if takes {
            self.unlink(slot);
        }
        takes
    }

    fn unlink(&mut self, slot: SlotRef) {
        self.save(slot, 0);
        self.unlinked += 1;
    }
}

impl BulkUnlink {
    fn mark(&self, segment: u32) -> u32 {
        self.marks.get(segment as usize).copied().unwrap_or(0)
    }

    /// Whether a slot's entry has to be removed; an entry that was never fetched is counted.
    #[inline]
    fn takes(&mut self, word: u64) -> bool {
        let Some(offset) = offset_of(word) else {
            return false;
        };
        match self.marks.get_mut(offset >> self.shift) {
            Some(mark) if *mark != 0 => {
                *mark += u32::from(word & FETCHED == 0);
                true
            }
            _ => false,
        }
    }
}
