//! Anchor: what of a shard stands beside its items and index in memory that outlives the process.
//!
//! ```text
//! line, one a shard     shape of the index | item being changed | awaited flush | versions
//! mark, one a segment   base | widths, queue, bytes | order | flushed, and a check of the others
//! sum, one a block      checksum of the block's bytes; zero if they have changed since
//! ```
//!
//! A shard's index says which items there are, whatever became of its owner; the marks say how to
//! read them. A change writes, in program order: the mark of a segment before any entry leads
//! there, an item before its entry, the entry before the old item's bytes become a hole, and the
//! line's second word before and after bytes of an item that an entry leads to. A process that is
//! killed stops between two instructions, and all it has stored by then is there.
//!
//! Without such memory nothing is written. Why: docs/decisions/0058, 0081. Tests: tests/restart.rs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::clock::Instant;
use crate::memory::{Region, whole_pages};
use crate::segment::{Flushed, Queue};
use crate::timescale::Timescale;

/// What is known of a shard besides its index.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct ShardLine {
    shape: AtomicU64,
    /// The offset of the item whose bytes are being changed where they lie, plus one.
    changing: AtomicU64,
    flush_at: AtomicU64,
    flush_check: AtomicU64,
    /// Versions above this one were never given out.
    versions: AtomicU64,
    versions_check: AtomicU64,
}

/// What is known of a segment.
#[derive(Debug, Default)]
#[repr(C, align(8))]
pub(crate) struct SegmentMark {
    base_ms: AtomicU64,
    facts: AtomicU64,
    order: AtomicU64,
    flushed: AtomicU64,
    check: AtomicU64,
}

/// Bytes of a shard's line and of a segment's mark.
pub(crate) const LINE_BYTES: usize = size_of::<ShardLine>();
pub(crate) const MARK_BYTES: usize = size_of::<SegmentMark>();

/// log2 of the bytes in a block, which has one checksum.
pub(crate) const BLOCK_SHIFT: u32 = 12;

/// Bytes of the checksums of so much memory, in whole pages.
pub(crate) fn sums_bytes(memory: usize) -> usize {
    whole_pages((memory >> BLOCK_SHIFT) * size_of::<AtomicU32>())
}

/// Bytes that line, marks and checksums of a shard with so much memory take, about.
pub(crate) fn beside_bytes(share: usize, segment_shift: u32) -> usize {
    LINE_BYTES + whole_pages((share >> segment_shift) * MARK_BYTES) + sums_bytes(share)
}

/// How much of a segment was flushed, in words that no few wrong bits make of one another.
const FLUSHED_NONE: u64 = 0x6e6f_6e65_8d21_55c3;
const FLUSHED_MAIN: u64 = 0x6d61_696e_31e7_9a5c;
/// No flush is awaited.
const NO_FLUSH: u64 = u64::MAX;

/// A segment as its mark tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) scale: Timescale,
    pub(crate) queue: Queue,
    pub(crate) room_bytes: usize,
    /// Segments were opened in this order.
    pub(crate) order: u64,
    pub(crate) flushed: Flushed,
}

/// A shard's line as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineFound {
    /// The shape of the index, packed.
    pub(crate) shape: u64,
    /// The item that was being changed.
    pub(crate) changing: Option<usize>,
    pub(crate) flush_at: Option<Instant>,
    pub(crate) versions: u64,
}

/// A shard's line and marks, or nothing; a clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anchor(Option<Rope>);

#[derive(Clone, Debug)]
struct Rope {
    line: *const ShardLine,
    /// What the line lies in.
    _lines: Arc<Region>,
    marks: Arc<Region>,
    sums: Arc<Region>,
    segment_shift: u32,
    /// Makes the checks of one shard of one cache unlike those of any other.
    salt: u64,
}

// SAFETY: the pointer is into `_lines`, which lives as long; what it points to are atomics.
unsafe impl Send for Rope {}
// SAFETY: as above.
unsafe impl Sync for Rope {}

impl Anchor {
    /// The anchor of the shard whose line lies at `at` of `lines`, and whose marks and checksums
    /// fill `marks` and `sums`.
    pub(crate) fn of(
        (lines, at): (&Arc<Region>, usize),
        (marks, sums): (Region, Region),
        segment_shift: u32,
        salt: u64,
    ) -> Anchor {
        assert!(
            at.is_multiple_of(LINE_BYTES) && at + LINE_BYTES <= lines.bytes(),
            "a line lies in its region"
        );
        Anchor(Some(Rope {
            line: lines.base().wrapping_add(at).cast_const().cast(),
            _lines: Arc::clone(lines),
            marks: Arc::new(marks),
            sums: Arc::new(sums),
            segment_shift,
            salt,
        }))
    }

    /// Whether anything is written.
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to change bytes of the item at `offset` where they lie: until [`Anchor::changed`]
    /// it is in doubt.
    #[inline]
    pub(crate) fn change(&self, offset: usize) {
        if let Some(rope) = &self.0 {
            // Relaxed: nobody reads it while this process lives.
            let changing = &rope.line().changing;
            changing.store(offset as u64 + 1, Ordering::Relaxed);
            // SeqCst: the compiler writes it before the item. The processor's own order is seen by
            // other processors alone, and the memory outlives the process as a whole.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Ends a change.
    #[inline]
    pub(crate) fn changed(&self) {
        if let Some(rope) = &self.0 {
            // SeqCst: behind the item. Relaxed: as above.
            compiler_fence(Ordering::SeqCst);
            rope.line().changing.store(0, Ordering::Relaxed);
        }
    }

    /// Notes the index's shape.
    pub(crate) fn set_shape(&self, packed: u64) {
        if let Some(rope) = &self.0 {
            // Release: behind the entries that were moved for it.
            rope.line().shape.store(packed, Ordering::Release);
        }
    }

    /// Notes when everything is to be flushed.
    pub(crate) fn set_flush_at(&self, at: Option<Instant>) {
        if let Some(rope) = &self.0 {
            let word = at.map_or(NO_FLUSH, |at| at.0);
            rope.save_checked(&rope.line().flush_at, &rope.line().flush_check, word);
        }
    }

    /// Notes that versions up to this one may be given out from now on.
    pub(crate) fn set_versions(&self, upto: u64) {
        if let Some(rope) = &self.0 {
            rope.save_checked(&rope.line().versions, &rope.line().versions_check, upto);
        }
    }

    /// Notes that bytes between two offsets are about to change: their blocks have no checksum.
    #[inline]
    pub(crate) fn clear_sums(&self, from: usize, end: usize) {
        if let Some(rope) = &self.0 {
            let (first, behind) = (from >> BLOCK_SHIFT, end.div_ceil(1 << BLOCK_SHIFT));
            for sum in &rope.sums()[first..behind] {
                // Relaxed: the shard's lock orders it against who makes checksums.
                sum.store(0, Ordering::Relaxed);
            }
            // SeqCst: the compiler writes them before the bytes, see `change`.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// The checksum of a block; zero if it has none.
    pub(crate) fn sum(&self, block: usize) -> u32 {
        let sum = self.0.as_ref().and_then(|rope| rope.sums().get(block));
        // Relaxed: see `clear_sums`.
        sum.map_or(0, |sum| sum.load(Ordering::Relaxed))
    }

    /// Notes a block's checksum, or that it has none.
    pub(crate) fn set_sum(&self, block: usize, sum: u32) {
        if let Some(word) = self.0.as_ref().and_then(|rope| rope.sums().get(block)) {
            // Relaxed: see `clear_sums`.
            word.store(sum, Ordering::Relaxed);
        }
    }

    /// Makes room for the marks and checksums of segments before this one; `false` if there is
    /// none.
    pub(crate) fn reach(&self, segments: usize) -> bool {
        let Some(rope) = &self.0 else {
            return true;
        };
        let sums = sums_bytes(segments << rope.segment_shift).min(rope.sums.bytes());
        rope.marks.populate(0, segments * MARK_BYTES) && rope.sums.populate(0, sums)
    }

    /// Notes how a segment is used from now on; no entry leads to it yet.
    pub(crate) fn open(&self, segment: u32, marked: &Marked) {
        let Some((rope, mark)) = self.mark(segment) else {
            return;
        };
        let Timescale {
            base_ms,
            width,
            age_shift,
        } = marked.scale;
        let facts = u64::from(width)
            | u64::from(age_shift) << 8
            | (marked.queue as u64) << 16
            | (marked.room_bytes as u64) << 32;
        // Relaxed: the entries that lead here are stored behind, as a release.
        mark.base_ms.store(base_ms, Ordering::Relaxed);
        mark.facts.store(facts, Ordering::Relaxed);
        mark.order.store(marked.order, Ordering::Relaxed);
        mark.flushed
            .store(flushed_word(marked.flushed), Ordering::Relaxed);
        let check = rope.check([base_ms, facts, marked.order, u64::from(segment)]);
        // Release: behind the words that it vouches for.
        mark.check.store(check, Ordering::Release);
    }

    /// Notes that items of a segment were flushed.
    pub(crate) fn flush(&self, segment: u32, flushed: Flushed) {
        if let Some((_, mark)) = self.mark(segment) {
            // Release: a flush is over when all segments say so.
            mark.flushed.store(flushed_word(flushed), Ordering::Release);
        }
    }

    /// What a segment's mark says, if that can be believed.
    pub(crate) fn marked(&self, segment: u32) -> Option<Marked> {
        let (rope, mark) = self.mark(segment)?;
        // Relaxed: nobody else is at work yet.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (base_ms, facts, order) = (load(&mark.base_ms), load(&mark.facts), load(&mark.order));
        let check = rope.check([base_ms, facts, order, u64::from(segment)]);
        let width = facts as u8;
        let room_bytes = (facts >> 32) as usize;
        let is_sound = check == load(&mark.check)
            && Timescale::WIDTHS.contains(&width)
            && base_ms <= Timescale::BASE_MS_MAX
            && room_bytes > 0;
        is_sound.then(|| Marked {
            scale: Timescale {
                base_ms,
                width,
                age_shift: (facts >> 8) as u8 & 31,
            },
            queue: match facts >> 16 & 1 {
                0 => Queue::Small,
                _ => Queue::Main,
            },
            room_bytes,
            order,
            flushed: match load(&mark.flushed) {
                FLUSHED_NONE => Flushed::None,
                FLUSHED_MAIN => Flushed::Main,
                _ => Flushed::All,
            },
        })
    }

    /// Segments that have a mark or could have one.
    pub(crate) fn marks(&self) -> usize {
        let marks = self.0.as_ref().map_or(0, |rope| rope.marks.bytes());
        marks / MARK_BYTES
    }

    /// The line as it was left; `None` if that cannot be believed.
    pub(crate) fn found(&self) -> Option<LineFound> {
        let rope = self.0.as_ref()?;
        let line = rope.line();
        // Relaxed: nobody else is at work yet.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let checked = |word: u64, check: &AtomicU64| {
            (rope.check([word, 0, 0, 0]) == load(check)).then_some(word)
        };
        let flush_at = checked(load(&line.flush_at), &line.flush_check)?;
        Some(LineFound {
            shape: load(&line.shape),
            changing: (load(&line.changing) as usize).checked_sub(1),
            flush_at: (flush_at != NO_FLUSH).then_some(Instant(flush_at)),
            versions: checked(load(&line.versions), &line.versions_check)?,
        })
    }

    #[inline]
    fn mark(&self, segment: u32) -> Option<(&Rope, &SegmentMark)> {
        let rope = self.0.as_ref()?;
        let at = segment as usize * MARK_BYTES;
        assert!(
            at + MARK_BYTES <= rope.marks.bytes(),
            "a segment has a mark"
        );
        // SAFETY: inside the region by the assert, aligned, and of atomics, for which any bytes do.
        let mark = unsafe { &*rope.marks.base().add(at).cast_const().cast::<SegmentMark>() };
        Some((rope, mark))
    }
}

impl Rope {
    #[inline]
    fn line(&self) -> &ShardLine {
        // SAFETY: checked in `of`: inside the region, which lives as long as `self`, aligned, and
        // of atomics, for which any bytes do.
        unsafe { &*self.line }
    }

    #[inline]
    fn sums(&self) -> &[AtomicU32] {
        let sums = self.sums.base().cast_const().cast();
        // SAFETY: the region's own bytes, which live as long as `self`, page-aligned, and of
        // atomics, for which any bytes do.
        unsafe { std::slice::from_raw_parts(sums, self.sums.bytes() / size_of::<AtomicU32>()) }
    }

    fn save_checked(&self, word: &AtomicU64, check: &AtomicU64, value: u64) {
        // Release: what is given out or flushed by it comes behind. Between the two the line is not
        // believed, which is the safe side.
        word.store(value, Ordering::Release);
        check.store(self.check([value, 0, 0, 0]), Ordering::Release);
    }

    fn check(&self, words: [u64; 4]) -> u64 {
        words.into_iter().fold(self.salt, |sum, word| {
            let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
        })
    }
}

fn flushed_word(flushed: Flushed) -> u64 {
    match flushed {
        Flushed::None => FLUSHED_NONE,
        Flushed::Main => FLUSHED_MAIN,
        Flushed::All => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: usize = 4096;

    const MARKED: Marked = Marked {
        scale: Timescale::new(512, 3),
        queue: Queue::Main,
        room_bytes: 4096,
        order: 9,
        flushed: Flushed::None,
    };

    fn anchor(salt: u64) -> Anchor {
        let lines = Arc::new(Region::reserve(LINES).unwrap());
        let beside = || Region::reserve(4096).unwrap();
        let anchor = Anchor::of((&lines, LINE_BYTES), (beside(), beside()), 16, salt);
        anchor.set_flush_at(None);
        anchor.set_versions(7);
        anchor
    }

    #[test]
    fn what_was_noted_is_found_and_what_was_not_is_not() {
        let anchor = anchor(1);
        assert_eq!(anchor.marked(3), None);
        let mut marked = MARKED;
        anchor.open(3, &marked);
        assert_eq!(anchor.marked(3), Some(marked));
        for flushed in [Flushed::Main, Flushed::All] {
            anchor.flush(3, flushed);
            marked.flushed = flushed;
            assert_eq!(anchor.marked(3), Some(marked));
        }
        anchor.set_flush_at(Some(Instant(77)));
        anchor.change(0);
        let found = anchor.found().unwrap();
        assert_eq!((found.flush_at, found.versions), (Some(Instant(77)), 7));
        assert_eq!(found.changing, Some(0));
        anchor.changed();
        assert_eq!(anchor.found().unwrap().changing, None);
    }

    #[test]
    fn no_wrong_bit_is_believed() {
        let anchor = anchor(1);
        anchor.open(3, &MARKED);
        let (_, mark) = anchor.mark(3).unwrap();
        for word in [&mark.base_ms, &mark.facts, &mark.order, &mark.check] {
            for bit in 0..64 {
                word.fetch_xor(1 << bit, Ordering::Relaxed);
                assert_eq!(anchor.marked(3), None, "bit {bit}");
                word.fetch_xor(1 << bit, Ordering::Relaxed);
            }
        }
        for bit in 0..64 {
            mark.flushed.fetch_xor(1 << bit, Ordering::Relaxed);
            assert_eq!(anchor.marked(3).unwrap().flushed, Flushed::All);
            mark.flushed.fetch_xor(1 << bit, Ordering::Relaxed);
        }
        let line = anchor.0.as_ref().unwrap().line();
        for word in [&line.flush_at, &line.versions, &line.versions_check] {
            word.fetch_xor(1 << 20, Ordering::Relaxed);
            assert_eq!(anchor.found(), None);
            word.fetch_xor(1 << 20, Ordering::Relaxed);
        }
        assert!(anchor.found().is_some());
    }

    #[test]
    fn blocks_of_which_a_byte_changes_have_no_checksum() {
        const BLOCK: usize = 1 << BLOCK_SHIFT;
        for (from, end, changed) in [
            (0, 1, 0..1),
            (BLOCK - 1, BLOCK, 0..1),
            (BLOCK - 1, BLOCK + 1, 0..2),
            (BLOCK, 3 * BLOCK, 1..3),
            (2 * BLOCK, 2 * BLOCK, 2..2),
        ] {
            let anchor = anchor(1);
            (0..4).for_each(|block| anchor.set_sum(block, 7));
            anchor.clear_sums(from, end);
            for block in 0..4 {
                let expected = if changed.contains(&block) { 0 } else { 7 };
                assert_eq!(anchor.sum(block), expected, "{block} of {from} to {end}");
            }
        }
    }

    #[test]
    fn without_memory_of_its_own_it_is_nothing() {
        let none = Anchor::default();
        none.change(5);
        none.changed();
        none.set_versions(1);
        none.clear_sums(0, 1 << 20);
        none.set_sum(0, 1);
        assert_eq!(none.sum(0), 0);
        assert!(none.reach(1 << 20) && !none.is_there() && none.marks() == 0);
        assert_eq!(none.found(), None);
    }
}
