//! Metadata: a shard's records beside its items and index in memory that outlives the process.
//!
//! ```text
//! one record a shard     shape of the index | item being changed | pending flush | versions
//! one record a segment   base | widths, queue, bytes | order | flushed, and a check of the others
//! one checksum a block   of the block's bytes; zero if they have changed since
//! ```
//!
//! The index lists the items; the segments' records say how to read them. A write stores, in
//! program order: a segment's record before any entry points there, an item before its entry, the
//! entry before the old item's bytes become a hole, and the shard's second word before and after
//! bytes of an indexed item change. A killed process stops between two instructions, and its
//! earlier stores are in the memory.
//!
//! Without such memory nothing is written. Why: docs/decisions/0058, 0081. Tests: tests/restart.rs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::base::clock::Instant;
use crate::deadlines::deadline_encoding::DeadlineEncoding;
use crate::log::segment::{Flushed, Queue};
use crate::memory::{Region, whole_pages};

/// The record of a shard besides its index.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct ShardRecord {
    shape: AtomicU64,
    /// The offset of the item whose bytes are being changed where they lie, plus one.
    changing: AtomicU64,
    flush_at: AtomicU64,
    flush_check: AtomicU64,
    /// Versions above this one were never given out.
    versions: AtomicU64,
    versions_check: AtomicU64,
}

/// The record of a segment.
#[derive(Debug, Default)]
#[repr(C, align(8))]
pub(crate) struct SegmentRecord {
    base_ms: AtomicU64,
    facts: AtomicU64,
    order: AtomicU64,
    flushed: AtomicU64,
    check: AtomicU64,
}

/// Bytes of a shard's record and of a segment's record.
pub(crate) const SHARD_RECORD_BYTES: usize = size_of::<ShardRecord>();
pub(crate) const SEGMENT_RECORD_BYTES: usize = size_of::<SegmentRecord>();

/// log2 of the bytes in a block, which has one checksum.
pub(crate) const BLOCK_SHIFT: u32 = 12;

/// Bytes of the checksums of so much memory, in whole pages.
pub(crate) fn sums_bytes(memory: usize) -> usize {
    whole_pages((memory >> BLOCK_SHIFT) * size_of::<AtomicU32>())
}

/// About how many bytes the metadata of a shard with so much memory takes.
pub(crate) fn metadata_bytes(share: usize, segment_shift: u32) -> usize {
    SHARD_RECORD_BYTES
        + whole_pages((share >> segment_shift) * SEGMENT_RECORD_BYTES)
        + sums_bytes(share)
}

/// How much of a segment was flushed, in words that no few wrong bits make of one another.
const FLUSHED_NONE: u64 = 0x6e6f_6e65_8d21_55c3;
const FLUSHED_MAIN: u64 = 0x6d61_696e_31e7_9a5c;
/// No flush is awaited.
const NO_FLUSH: u64 = u64::MAX;

/// A segment according to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentMetadata {
    pub(crate) encoding: DeadlineEncoding,
    pub(crate) queue: Queue,
    pub(crate) room_bytes: usize,
    /// Segments were opened in this order.
    pub(crate) order: u64,
    pub(crate) flushed: Flushed,
}

/// A shard's record as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardMetadata {
    /// The shape of the index, packed.
    pub(crate) shape: u64,
    /// The item that was being changed.
    pub(crate) changing: Option<usize>,
    pub(crate) flush_at: Option<Instant>,
    pub(crate) versions: u64,
}

/// The records and checksums of a shard, or nothing; a clone has the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata(Option<MappedMetadata>);

#[derive(Clone, Debug)]
struct MappedMetadata {
    record: *const ShardRecord,
    /// The regions that hold the records.
    _shard_records: Arc<Region>,
    segment_records: Arc<Region>,
    sums: Arc<Region>,
    segment_shift: u32,
    /// Makes the checks of one shard of one cache unlike those of any other.
    salt: u64,
}

// SAFETY: the pointer is into `_shard_records`, which lives as long; it points to atomics.
unsafe impl Send for MappedMetadata {}
// SAFETY: as above.
unsafe impl Sync for MappedMetadata {}

impl Metadata {
    /// The metadata of the shard whose record lies at `at` of `shard_records`, and whose other
    /// parts fill `segment_records` and `sums`.
    pub(crate) fn of(
        (shard_records, at): (&Arc<Region>, usize),
        (segment_records, sums): (Region, Region),
        segment_shift: u32,
        salt: u64,
    ) -> Metadata {
        assert!(
            at.is_multiple_of(SHARD_RECORD_BYTES)
                && at + SHARD_RECORD_BYTES <= shard_records.bytes(),
            "a record lies in its region"
        );
        Metadata(Some(MappedMetadata {
            record: shard_records.base().wrapping_add(at).cast_const().cast(),
            _shard_records: Arc::clone(shard_records),
            segment_records: Arc::new(segment_records),
            sums: Arc::new(sums),
            segment_shift,
            salt,
        }))
    }

    /// Whether anything is written.
    pub(crate) fn is_persistent(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to change bytes of the item at `offset` where they lie: until
    /// [`Metadata::end_change`] it is in doubt.
    #[inline]
    pub(crate) fn begin_change(&self, offset: usize) {
        if let Some(mapped) = &self.0 {
            // Relaxed: only a later process reads it.
            let changing = &mapped.record().changing;
            changing.store(offset as u64 + 1, Ordering::Relaxed);
            // SeqCst: the compiler writes it before the item. The processor's own order is seen by
            // other processors alone, and the memory outlives the process as a whole.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Ends a change.
    #[inline]
    pub(crate) fn end_change(&self) {
        if let Some(mapped) = &self.0 {
            // SeqCst: behind the item. Relaxed: as above.
            compiler_fence(Ordering::SeqCst);
            mapped.record().changing.store(0, Ordering::Relaxed);
        }
    }

    /// Notes the index's shape.
    pub(crate) fn set_shape(&self, packed: u64) {
        if let Some(mapped) = &self.0 {
            // Release: behind the entries that were moved for it.
            mapped.record().shape.store(packed, Ordering::Release);
        }
    }

    /// Notes when everything is to be flushed.
    pub(crate) fn set_flush_at(&self, at: Option<Instant>) {
        if let Some(mapped) = &self.0 {
            let word = at.map_or(NO_FLUSH, |at| at.0);
            mapped.save_checked(
                &mapped.record().flush_at,
                &mapped.record().flush_check,
                word,
            );
        }
    }

    /// Notes that versions up to this one may be given out from now on.
    pub(crate) fn set_versions(&self, upto: u64) {
        if let Some(mapped) = &self.0 {
            mapped.save_checked(
                &mapped.record().versions,
                &mapped.record().versions_check,
                upto,
            );
        }
    }

    /// Notes that bytes between two offsets are about to change: their blocks have no checksum.
    #[inline]
    pub(crate) fn clear_sums(&self, from: usize, end: usize) {
        if let Some(mapped) = &self.0 {
            let (first, behind) = (from >> BLOCK_SHIFT, end.div_ceil(1 << BLOCK_SHIFT));
            for sum in &mapped.sums()[first..behind] {
                // Relaxed: the shard's lock orders it against the making of checksums.
                sum.store(0, Ordering::Relaxed);
            }
            // SeqCst: the compiler writes them before the bytes, see `begin_change`.
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// The checksum of a block; zero if it has none.
    pub(crate) fn sum(&self, block: usize) -> u32 {
        let sum = self.0.as_ref().and_then(|mapped| mapped.sums().get(block));
        // Relaxed: see `clear_sums`.
        sum.map_or(0, |sum| sum.load(Ordering::Relaxed))
    }

    /// Notes a block's checksum, or that it has none.
    pub(crate) fn set_sum(&self, block: usize, sum: u32) {
        if let Some(word) = self.0.as_ref().and_then(|mapped| mapped.sums().get(block)) {
            // Relaxed: see `clear_sums`.
            word.store(sum, Ordering::Relaxed);
        }
    }

    /// Makes room for the records and checksums of segments before this one; `false` if there is
    /// none.
    pub(crate) fn reach(&self, segments: usize) -> bool {
        let Some(mapped) = &self.0 else {
            return true;
        };
        let sums = sums_bytes(segments << mapped.segment_shift).min(mapped.sums.bytes());
        mapped
            .segment_records
            .populate(0, segments * SEGMENT_RECORD_BYTES)
            && mapped.sums.populate(0, sums)
    }

    /// Notes how a segment is used from now on; no entry leads to it yet.
    pub(crate) fn open(&self, segment: u32, recorded: &SegmentMetadata) {
        let Some((mapped, record)) = self.record(segment) else {
            return;
        };
        let DeadlineEncoding {
            base_ms,
            width,
            age_shift,
        } = recorded.encoding;
        let facts = u64::from(width)
            | u64::from(age_shift) << 8
            | (recorded.queue as u64) << 16
            | (recorded.room_bytes as u64) << 32;
        // Relaxed: the entries that lead here are stored behind, as a release.
        record.base_ms.store(base_ms, Ordering::Relaxed);
        record.facts.store(facts, Ordering::Relaxed);
        record.order.store(recorded.order, Ordering::Relaxed);
        record
            .flushed
            .store(flushed_word(recorded.flushed), Ordering::Relaxed);
        let check = mapped.check([base_ms, facts, recorded.order, u64::from(segment)]);
        // Release: behind the words that it vouches for.
        record.check.store(check, Ordering::Release);
    }

    /// Notes that items of a segment were flushed.
    pub(crate) fn flush(&self, segment: u32, flushed: Flushed) {
        if let Some((_, record)) = self.record(segment) {
            // Release: a flush has taken effect when all segments record it.
            record
                .flushed
                .store(flushed_word(flushed), Ordering::Release);
        }
    }

    /// The metadata of a segment, if its record is plausible.
    pub(crate) fn segment(&self, segment: u32) -> Option<SegmentMetadata> {
        let (mapped, record) = self.record(segment)?;
        // Relaxed: no other thread runs yet.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (base_ms, facts, order) = (
            load(&record.base_ms),
            load(&record.facts),
            load(&record.order),
        );
        let check = mapped.check([base_ms, facts, order, u64::from(segment)]);
        let width = facts as u8;
        let room_bytes = (facts >> 32) as usize;
        let is_sound = check == load(&record.check)
            && DeadlineEncoding::WIDTHS.contains(&width)
            && base_ms <= DeadlineEncoding::BASE_MS_MAX
            && room_bytes > 0;
        is_sound.then(|| SegmentMetadata {
            encoding: DeadlineEncoding {
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
            flushed: match load(&record.flushed) {
                FLUSHED_NONE => Flushed::None,
                FLUSHED_MAIN => Flushed::Main,
                _ => Flushed::All,
            },
        })
    }

    /// Segments that have a record or could have one.
    pub(crate) fn segments_max(&self) -> usize {
        let bytes = self
            .0
            .as_ref()
            .map_or(0, |mapped| mapped.segment_records.bytes());
        bytes / SEGMENT_RECORD_BYTES
    }

    /// The shard's record of the previous process; `None` if it is invalid.
    pub(crate) fn shard(&self) -> Option<ShardMetadata> {
        let mapped = self.0.as_ref()?;
        let record = mapped.record();
        // Relaxed: no other thread runs yet.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let checked = |word: u64, check: &AtomicU64| {
            (mapped.check([word, 0, 0, 0]) == load(check)).then_some(word)
        };
        let flush_at = checked(load(&record.flush_at), &record.flush_check)?;
        Some(ShardMetadata {
            shape: load(&record.shape),
            changing: (load(&record.changing) as usize).checked_sub(1),
            flush_at: (flush_at != NO_FLUSH).then_some(Instant(flush_at)),
            versions: checked(load(&record.versions), &record.versions_check)?,
        })
    }

    #[inline]
    fn record(&self, segment: u32) -> Option<(&MappedMetadata, &SegmentRecord)> {
        let mapped = self.0.as_ref()?;
        let at = segment as usize * SEGMENT_RECORD_BYTES;
        assert!(
            at + SEGMENT_RECORD_BYTES <= mapped.segment_records.bytes(),
            "a segment has a record"
        );
        // SAFETY: inside the region by the assert, aligned, and of atomics, for which any bytes do.
        let record = unsafe {
            &*mapped
                .segment_records
                .base()
                .add(at)
                .cast_const()
                .cast::<SegmentRecord>()
        };
        Some((mapped, record))
    }
}

impl MappedMetadata {
    #[inline]
    fn record(&self) -> &ShardRecord {
        // SAFETY: checked in `of`: inside the region, which lives as long as `self`, aligned, and
        // of atomics, for which any bytes do.
        unsafe { &*self.record }
    }

    #[inline]
    fn sums(&self) -> &[AtomicU32] {
        let sums = self.sums.base().cast_const().cast();
        // SAFETY: the region's own bytes, which live as long as `self`, page-aligned, and of
        // atomics, for which any bytes do.
        unsafe { std::slice::from_raw_parts(sums, self.sums.bytes() / size_of::<AtomicU32>()) }
    }

    fn save_checked(&self, word: &AtomicU64, check: &AtomicU64, value: u64) {
        // Release: versions and flushes that rely on it come after it. Between the two writes the
        // record is invalid, which is safe.
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

    const SEGMENT: SegmentMetadata = SegmentMetadata {
        encoding: DeadlineEncoding::new(512, 3),
        queue: Queue::Main,
        room_bytes: 4096,
        order: 9,
        flushed: Flushed::None,
    };

    fn metadata(salt: u64) -> Metadata {
        let shard_records = Arc::new(Region::reserve(LINES).unwrap());
        let beside = || Region::reserve(4096).unwrap();
        let metadata = Metadata::of(
            (&shard_records, SHARD_RECORD_BYTES),
            (beside(), beside()),
            16,
            salt,
        );
        metadata.set_flush_at(None);
        metadata.set_versions(7);
        metadata
    }

    #[test]
    fn what_was_noted_is_found_and_what_was_not_is_not() {
        let metadata = metadata(1);
        assert_eq!(metadata.segment(3), None);
        let mut recorded = SEGMENT;
        metadata.open(3, &recorded);
        assert_eq!(metadata.segment(3), Some(recorded));
        for flushed in [Flushed::Main, Flushed::All] {
            metadata.flush(3, flushed);
            recorded.flushed = flushed;
            assert_eq!(metadata.segment(3), Some(recorded));
        }
        metadata.set_flush_at(Some(Instant(77)));
        metadata.begin_change(0);
        let found = metadata.shard().unwrap();
        assert_eq!((found.flush_at, found.versions), (Some(Instant(77)), 7));
        assert_eq!(found.changing, Some(0));
        metadata.end_change();
        assert_eq!(metadata.shard().unwrap().changing, None);
    }

    #[test]
    fn no_wrong_bit_is_believed() {
        let metadata = metadata(1);
        metadata.open(3, &SEGMENT);
        let (_, record) = metadata.record(3).unwrap();
        for word in [&record.base_ms, &record.facts, &record.order, &record.check] {
            for bit in 0..64 {
                word.fetch_xor(1 << bit, Ordering::Relaxed);
                assert_eq!(metadata.segment(3), None, "bit {bit}");
                word.fetch_xor(1 << bit, Ordering::Relaxed);
            }
        }
        for bit in 0..64 {
            record.flushed.fetch_xor(1 << bit, Ordering::Relaxed);
            assert_eq!(metadata.segment(3).unwrap().flushed, Flushed::All);
            record.flushed.fetch_xor(1 << bit, Ordering::Relaxed);
        }
        let record = metadata.0.as_ref().unwrap().record();
        for word in [&record.flush_at, &record.versions, &record.versions_check] {
            word.fetch_xor(1 << 20, Ordering::Relaxed);
            assert_eq!(metadata.shard(), None);
            word.fetch_xor(1 << 20, Ordering::Relaxed);
        }
        assert!(metadata.shard().is_some());
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
            let metadata = metadata(1);
            (0..4).for_each(|block| metadata.set_sum(block, 7));
            metadata.clear_sums(from, end);
            for block in 0..4 {
                let expected = if changed.contains(&block) { 0 } else { 7 };
                assert_eq!(metadata.sum(block), expected, "{block} of {from} to {end}");
            }
        }
    }

    #[test]
    fn without_memory_of_its_own_nothing_is_recorded() {
        let none = Metadata::default();
        none.begin_change(5);
        none.end_change();
        none.set_versions(1);
        none.clear_sums(0, 1 << 20);
        none.set_sum(0, 1);
        assert_eq!(none.sum(0), 0);
        assert!(none.reach(1 << 20) && !none.is_persistent() && none.segments_max() == 0);
        assert_eq!(none.shard(), None);
    }
}
