//! Arena: the bytes of one shard's log, and pins of threads that read them outside the shard's
//! lock.
//!
//! The shard reads and writes item bytes under its lock. A [`Handle`] reads one value without it:
//! it holds a pin on the value's segment, and while a segment is pinned the shard neither frees it
//! nor writes into any value in it. A [`Draft`](crate::Draft) writes one value without the lock:
//! its range is not part of any item until it is committed, and its segment is pinned as well.
//!
//! Invariant: pins grow only under the shard's lock, so a shard that sees zero pins may act on it.
//! Why: docs/decisions/0009. Tests: tests/handles.rs.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::clock::{Deadline, Instant};
use crate::base::error::Error;
use crate::base::space::Kind;
use crate::deadlines::deadline_encoding::DeadlineEncoding;
use crate::memory::atomic_memcpy;
use crate::memory::heap::{note_pinned, note_released};
use crate::memory::{FileRange, LINE_BYTES, Region, prefetch};

/// Beside a segment's pins: uses of its items do not count yet.
const YOUNG: u32 = 1 << 31;

/// One shard's log memory: a reserved range cut into segments of equal size.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Arena {
    segment_shift: u32,
    region: Region,
    /// How many use each segment, and [`YOUNG`].
    pins: Box<[AtomicU32]>,
    /// How deadlines are written in each segment, see [`DeadlineEncoding::pack`]; zero where items
    /// are read under the lock only.
    // Relaxed: the shard's sequence shows a lock-free reader whether it was valid.
    encodings: Box<[AtomicU32]>,
    /// The base instant for packed deadline encodings.
    made: Instant,
}

impl Arena {
    /// Bytes of a segment's pins and encoding. Those of segments without memory are not even
    /// touched.
    pub(crate) const SEGMENT_BYTES: usize = 2 * size_of::<AtomicU32>();

    /// Reserves `segments` segments of `1 << segment_shift` bytes, at the moment `made`; their
    /// memory is a file's, if `file_range` says so.
    pub(crate) fn reserve(
        segments: usize,
        segment_shift: u32,
        made: Instant,
        file_range: Option<FileRange>,
    ) -> Result<Arena, Error> {
        let region = Region::reserve_at(file_range, segments << segment_shift)?;
        let pins = Box::new_zeroed_slice(segments);
        // SAFETY: all bits zero are an atomic number, which is zero.
        let pins = unsafe { pins.assume_init() };
        let encodings = Box::new_zeroed_slice(segments);
        // SAFETY: as above.
        let encodings = unsafe { encodings.assume_init() };
        Ok(Arena {
            region,
            pins,
            encodings,
            made,
            segment_shift,
        })
    }

    /// Segments the range has room for.
    pub(crate) fn segments(&self) -> usize {
        self.pins.len()
    }

    /// log2 of the bytes in a segment.
    pub(crate) fn segment_shift(&self) -> u32 {
        self.segment_shift
    }

    /// The range's memory.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Whether a handle or draft still uses the segment.
    pub(crate) fn is_pinned(&self, segment: u32) -> bool {
        // Acquire: pairs with the release of the last unpin, so that the reader's accesses end
        // before the shard reuses the bytes.
        self.pins[segment as usize].load(Ordering::Acquire) & !YOUNG != 0
    }

    /// Counts one more user of the segment; only under the shard's lock.
    fn pin(&self, segment: u32) {
        // Relaxed: the shard's lock orders pins against the shard's own check.
        self.pins[segment as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Ends one use of the segment.
    fn unpin(&self, segment: u32) {
        // Release: see `is_pinned`.
        self.pins[segment as usize].fetch_sub(1, Ordering::Release);
    }

    /// Sets whether uses of the segment's items do not count yet; only under the shard's lock.
    pub(crate) fn set_young(&self, segment: u32, is_young: bool) {
        let pins = &self.pins[segment as usize];
        // Relaxed: a use that counts or not orders nothing.
        if is_young {
            pins.fetch_or(YOUNG, Ordering::Relaxed);
        } else {
            pins.fetch_and(!YOUNG, Ordering::Relaxed);
        }
    }

    /// Whether uses of the item at `offset` do not count yet; needs no lock.
    #[inline]
    pub(crate) fn is_young(&self, offset: usize) -> bool {
        let pins = self.pins.get(offset >> self.segment_shift);
        // Relaxed: as in `set_young`.
        pins.is_some_and(|pins| pins.load(Ordering::Relaxed) & YOUNG != 0)
    }

    /// Lets the segment's items be read without the lock, with deadlines written in `encoding`, or
    /// not; only under the shard's lock.
    pub(crate) fn open_to_readers(&self, segment: u32, encoding: Option<DeadlineEncoding>) {
        let word = encoding.and_then(|encoding| encoding.pack(self.made));
        // Relaxed: see the field.
        self.encodings[segment as usize].store(word.unwrap_or(0), Ordering::Relaxed);
    }

    /// How deadlines are written in the segment that `offset` lies in, if its items may be read
    /// without the lock; needs no lock, see [`sequence`](crate::cache::sequence).
    #[inline]
    pub(crate) fn optimistic_encoding(&self, offset: usize) -> Option<DeadlineEncoding> {
        let segment = self.encodings.get(offset >> self.segment_shift)?;
        // Relaxed: see the field.
        DeadlineEncoding::unpack(segment.load(Ordering::Relaxed), self.made)
    }

    /// The first eight bytes of an item, if they end inside the arena; needs no lock.
    #[inline]
    pub(crate) fn optimistic_first_bytes(&self, offset: usize) -> Option<u64> {
        let at = self.inside(offset, 8)?;
        // SAFETY: inside the region, written through `atomic_memcpy` alone.
        Some(unsafe { atomic_memcpy::load(at) })
    }

    /// Whether these bytes lie at `offset`; needs no lock.
    #[inline(always)]
    pub(crate) fn are_at(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(at) = self.inside(offset, bytes.len().max(8)) else {
            return false;
        };
        // SAFETY: inside the region with eight bytes at least, written through `atomic_memcpy`
        // alone.
        unsafe { atomic_memcpy::equal(at, bytes) }
    }

    /// Copies the bytes at `offset` into `to`; needs no lock. `None` if they end outside the arena.
    #[inline(always)]
    pub(crate) fn optimistic_copy<'t>(
        &self,
        offset: usize,
        to: &'t mut [MaybeUninit<u8>],
    ) -> Option<&'t [u8]> {
        let at = self.inside(offset, to.len())?;
        // SAFETY: inside the region, written through `atomic_memcpy` alone.
        Some(unsafe { atomic_memcpy::read(at, to) })
    }

    /// Where `len` bytes from `offset` lie, if inside the region.
    #[inline]
    fn inside(&self, offset: usize, len: usize) -> Option<*const u8> {
        let end = offset.checked_add(len)?;
        (end <= self.region.bytes()).then(|| self.region.base().wrapping_add(offset).cast_const())
    }

    /// The byte at `offset`.
    #[inline]
    pub(crate) fn byte(&self, offset: usize) -> u8 {
        assert!(offset < self.region.bytes(), "outside the arena");
        // SAFETY: inside the region by the assert; all bytes of a region are initialised. Called
        // under the shard's lock on header bytes, which drafts never write.
        unsafe { self.region.base().add(offset).read() }
    }

    /// The eight bytes from `offset` as a number, little end first; what lies behind the arena
    /// counts as zero. For the first bytes of an item: they end before any draft's value begins.
    #[inline]
    pub(crate) fn first_bytes(&self, offset: usize) -> u64 {
        if offset + 8 > self.region.bytes() {
            return (offset..self.region.bytes())
                .rev()
                .fold(0, |n, at| n << 8 | u64::from(self.byte(at)));
        }
        // SAFETY: inside the region by the check above, initialised; under the shard's lock only
        // drafts' values are written, and those begin further from an item than this reaches.
        u64::from_le(unsafe {
            self.region
                .base()
                .add(offset)
                .cast::<u64>()
                .read_unaligned()
        })
    }

    /// The four bytes from `offset`, little end first.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> u32 {
        assert!(offset + 4 <= self.region.bytes(), "outside the arena");
        // SAFETY: as in `byte`.
        u32::from_le(unsafe {
            self.region
                .base()
                .add(offset)
                .cast::<u32>()
                .read_unaligned()
        })
    }

    /// The bytes `[offset, offset + len)`.
    ///
    /// # Safety
    /// The caller holds the shard's lock or a pin on the segment for as long as the slice lives,
    /// and the range holds no draft.
    #[inline]
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        assert!(
            offset
                .checked_add(len)
                .is_some_and(|end| end <= self.region.bytes()),
            "outside the arena"
        );
        // SAFETY: inside the region by the assert, initialised, and by the caller's promise not
        // written while the slice lives.
        unsafe { std::slice::from_raw_parts(self.region.base().add(offset), len) }
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Safety
    /// The caller holds the shard's lock, no slice from [`Arena::slice`] over the range lives, and
    /// the range belongs to no pinned value and no draft.
    #[inline]
    pub(crate) unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(
            offset
                .checked_add(bytes.len())
                .is_some_and(|end| end <= self.region.bytes()),
            "outside the arena"
        );
        // SAFETY: inside the region by the assert; exclusive by the caller's promise, except for
        // reads through `atomic_memcpy`. `bytes` may not overlap the target because it would be a
        // living slice over the range.
        unsafe { atomic_memcpy::write(bytes, self.region.base().add(offset)) };
    }

    /// Writes a number to eight bytes, little end first.
    ///
    /// # Panics
    /// If they are outside the arena.
    ///
    /// # Safety
    /// As for [`Arena::write`].
    #[inline]
    pub(crate) unsafe fn write_word(&self, offset: usize, word: u64) {
        assert!(self.inside(offset, 8).is_some(), "outside the arena");
        // SAFETY: as in `write`.
        unsafe { atomic_memcpy::store(word, self.region.base().add(offset)) };
    }

    /// Copies `len` bytes inside the arena.
    ///
    /// # Panics
    /// If the ranges overlap.
    ///
    /// # Safety
    /// As for [`Arena::write`] on the target and [`Arena::slice`] on the source.
    pub(crate) unsafe fn copy_within(&self, from: usize, to: usize, len: usize) {
        let end = self.region.bytes();
        assert!(from + len <= end && to + len <= end, "outside the arena");
        assert!(from.abs_diff(to) >= len, "an item is copied over itself");
        let base = self.region.base();
        // SAFETY: both ranges are inside the region and apart by the asserts; exclusive by the
        // caller's promise, except for reads through `atomic_memcpy`.
        unsafe { atomic_memcpy::copy(base.add(from), base.add(to), len) };
    }

    /// Asks the processor to load the cache lines of `[offset, offset + len)`.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize, len: usize) {
        let mut line = self.region.base().wrapping_add(offset).cast_const();
        let mut left = len;
        while left > 0 {
            prefetch::for_reading(line);
            line = line.wrapping_add(LINE_BYTES);
            left = left.saturating_sub(LINE_BYTES);
        }
    }
}

/// Where an item's handles come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pinner<'a> {
    /// The value lies in this segment, and the shard is locked.
    Segment(&'a Arc<Arena>, u32),
    /// The value was copied out of the cache.
    Copied,
}

impl Pinner<'_> {
    /// A handle on `value`, which lies where this pinner says.
    pub(crate) fn pin(&self, value: &[u8], kind: Kind, flags: u32, deadline: Deadline) -> Handle {
        let (holding, value) = match *self {
            Pinner::Segment(arena, segment) => {
                arena.pin(segment);
                note_pinned(value.len());
                (
                    Holding::Segment(Arc::clone(arena), segment),
                    value as *const [u8],
                )
            }
            Pinner::Copied => {
                let copy: Arc<[u8]> = value.into();
                let value = Arc::as_ptr(&copy);
                (Holding::Copy { _copy: copy }, value)
            }
        };
        Handle {
            holding,
            value,
            kind,
            flags,
            deadline,
        }
    }
}

/// Keeps a handle's bytes unchanged.
enum Holding {
    /// A pin on a segment.
    Segment(Arc<Arena>, u32),
    /// They are a copy.
    Copy { _copy: Arc<[u8]> },
}

/// One use of a segment, without anything that is read or written yet.
#[derive(Debug)]
pub(crate) struct Pin {
    arena: Arc<Arena>,
    segment: u32,
}

impl Pin {
    /// A use of a segment; only under the shard's lock.
    pub(crate) fn on(arena: &Arc<Arena>, segment: u32) -> Pin {
        arena.pin(segment);
        Pin {
            arena: Arc::clone(arena),
            segment,
        }
    }

    /// The arena of the segment.
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The segment.
    pub(crate) fn segment(&self) -> u32 {
        self.segment
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.arena.unpin(self.segment);
    }
}

/// A counted handle on a value; derefs to its bytes, which never change while it lives.
///
/// Unless the value is a short one, it holds back a whole segment of memory, so it is for the time
/// of one reply, not for keeping.
pub struct Handle {
    holding: Holding,
    value: *const [u8],
    kind: Kind,
    flags: u32,
    deadline: Deadline,
}

// SAFETY: the bytes behind `value` are not written while the pin that this handle holds exists, and
// the arena, or the copy, they lie in lives as long as the handle; any thread may read them or end
// the pin.
unsafe impl Send for Handle {}
// SAFETY: as above; shared use only reads.
unsafe impl Sync for Handle {}

impl Handle {
    /// The type of the value, as its protocol defines it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The client's opaque flags.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// When the item expires, as of the read.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }
}

impl std::ops::Deref for Handle {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the pin keeps the segment from being freed or written, the `Arc` keeps the
        // memory, or the copy.
        unsafe { &*self.value }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Holding::Segment(arena, segment) = &self.holding {
            note_released(self.len());
            arena.unpin(*segment);
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("bytes", &self.len())
            .finish_non_exhaustive()
    }
}
