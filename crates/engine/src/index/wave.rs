//! Wave: how all entries that lead into some segments are taken out of the table together.
//!
//! To look an entry up waits for memory, each time somewhere else. When a large part of all items
//! dies at once it is cheaper to go through the table once, as it lies, and to take out what leads
//! into the segments in which all are dead. Their items are still in the log by then; until the
//! store takes them out there, they count as entries ([`Index::unlinked`]).
//!
//! Nothing slips through: an entry that would be moved from ahead of the sweep to behind it is
//! taken out instead, a split moves entries to the table's end, and the table does not shrink.
//!
//! Why: docs/decisions/0067. Tests: tests/wave.rs.

use super::{Index, SlotRef};
use crate::table::{BUCKET_SLOTS, FETCHED, offset_of};

/// The segments whose entries are taken out.
#[derive(Debug)]
pub(super) struct Wave {
    /// log2 of the bytes in a segment.
    shift: u32,
    /// For each segment by its number: zero if its entries stay, else one more than those that were
    /// taken out and had never been fetched.
    marks: Vec<u32>,
    /// How many of them are not zero.
    marked: usize,
    /// Those that were not asked for yet.
    segments: Vec<u32>,
    progress: Progress,
}

/// How far entries have been taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Up to a bucket.
    At(usize),
    /// All of them. What the table grows by after that holds nothing of the wave.
    Done,
    /// Some of them, and no more will be; or all segments were asked for.
    Over,
}

impl Index {
    /// Begins to take out all entries that lead into these segments of `1 << shift` bytes, to which
    /// none may be added any more.
    pub(crate) fn begin_wave(&mut self, segments: Vec<u32>, shift: u32) {
        let end = segments.iter().max().map_or(0, |&last| last as usize + 1);
        // Of the one before, what it had counted of segments that are still there.
        let mut marks = self.wave.take().map_or_else(Vec::new, |wave| wave.marks);
        marks.resize(end.max(marks.len()), 0);
        for &segment in &segments {
            let mark = &mut marks[segment as usize];
            *mark = (*mark).max(1);
        }
        let marked = marks.iter().filter(|&&mark| mark != 0).count();
        self.wave = Some(Box::new(Wave {
            shift,
            marks,
            marked,
            segments,
            progress: Progress::At(0),
        }));
    }

    /// Takes out what is of the wave in the next so many buckets.
    pub(crate) fn step_wave(&mut self, buckets: usize) {
        let Some(mut wave) = self.wave.take() else {
            return;
        };
        if let Progress::At(begin) = wave.progress {
            let end = self.buckets().min(begin + buckets);
            for number in begin * BUCKET_SLOTS..end * BUCKET_SLOTS {
                let slot = SlotRef(number);
                if wave.takes(self.load(slot)) {
                    self.unlink(slot);
                }
            }
            wave.progress = match end < self.buckets() {
                true => Progress::At(end),
                false => Progress::Done,
            };
        }
        self.wave = Some(wave);
    }

    /// Breaks a wave off: entries that were not taken out stay, and their items leave one by one.
    /// What is of it is known until then, or until another wave begins.
    pub(crate) fn break_wave(&mut self) {
        if let Some(wave) = &mut self.wave {
            wave.progress = Progress::Over;
        }
    }

    /// Whether there is a wave: entries are being taken out, or segments of it were not asked for.
    pub(crate) fn has_wave(&self) -> bool {
        let wave = self.wave.as_ref();
        wave.is_some_and(|wave| wave.progress != Progress::Over)
    }

    /// Whether entries are still to be taken out.
    pub(crate) fn is_unlinking(&self) -> bool {
        let wave = self.wave.as_ref();
        wave.is_some_and(|wave| matches!(wave.progress, Progress::At(_)))
    }

    /// Whether the entries that lead into the segment are being taken out, or were, or some of
    /// them.
    #[inline]
    pub(crate) fn is_in_wave(&self, segment: u32) -> bool {
        let wave = self.wave.as_ref();
        wave.is_some_and(|wave| wave.mark(segment) != 0)
    }

    /// Whether no entry leads into the segment any more, because all of them were taken out.
    pub(crate) fn is_unlinked(&self, segment: u32) -> bool {
        let wave = self.wave.as_ref();
        wave.is_some_and(|wave| wave.progress == Progress::Done && wave.mark(segment) != 0)
    }

    /// A segment of which that is so, each of them once, and `None` once there are no more.
    pub(crate) fn next_unlinked(&mut self) -> Option<u32> {
        let wave = self.wave.as_mut()?;
        if wave.progress != Progress::Done {
            return None;
        }
        while let Some(segment) = wave.segments.pop() {
            if wave.mark(segment) != 0 {
                return Some(segment);
            }
        }
        // Those that somebody still reads leave later, one by one.
        wave.progress = Progress::Over;
        self.drop_empty_wave();
        None
    }

    /// Forgets a segment of a wave, because it may be used again from here on; how many of the
    /// entries that were taken out had never been fetched.
    pub(crate) fn forget_unlinked(&mut self, segment: u32) -> u64 {
        let Some(wave) = &mut self.wave else {
            return 0;
        };
        let mark = wave.marks.get_mut(segment as usize);
        let mark = mark.map_or(0, std::mem::take);
        wave.marked -= usize::from(mark != 0);
        self.drop_empty_wave();
        u64::from(mark.saturating_sub(1))
    }

    /// Forgets a wave of which nothing is left, so that no request looks at it any more.
    fn drop_empty_wave(&mut self) {
        let wave = self.wave.as_ref();
        if wave.is_some_and(|wave| wave.progress == Progress::Over && wave.marked == 0) {
            self.wave = None;
        }
    }

    /// Counts one entry less of those that were taken out of a segment and had never been fetched;
    /// whether there was one.
    pub(crate) fn take_unfetched(&mut self, segment: u32) -> bool {
        let marks = self.wave.as_mut().map(|wave| &mut wave.marks);
        let mark = marks.and_then(|marks| marks.get_mut(segment as usize));
        let mark = mark.filter(|mark| **mark > 1);
        mark.map(|mark| *mark -= 1).is_some()
    }

    /// Items whose entry was taken out, but which are still counted.
    pub(crate) fn unlinked(&self) -> usize {
        self.unlinked
    }

    /// Counts so many of them no more.
    pub(crate) fn remove_unlinked(&mut self, items: usize) {
        self.unlinked -= items;
        self.items -= items;
    }

    /// Takes an entry out that would be moved, if it is of the wave; whether it was.
    #[inline]
    pub(super) fn unlinks_instead(&mut self, slot: SlotRef, word: u64) -> bool {
        let wave = self.wave.as_mut();
        let wave = wave.filter(|wave| wave.progress != Progress::Over);
        let takes = wave.is_some_and(|wave| wave.takes(word));
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

impl Wave {
    fn mark(&self, segment: u32) -> u32 {
        self.marks.get(segment as usize).copied().unwrap_or(0)
    }

    /// Whether what a slot holds is to be taken out; an entry that was never fetched is counted.
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
