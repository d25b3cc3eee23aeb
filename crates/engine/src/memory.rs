//! Memory: address space reserved once, and the one byte budget that all shards share.
//!
//! A [`Region`] is address space, not memory: the system allocates pages when they are first
//! written and frees them on [`Region::release`]. Only memory that the [`Budget`] has granted may
//! be resident, so the bound holds by construction.
//!
//! Invariant: a region's base never moves; its bytes read as zero until written.
//! Why: docs/decisions/0008. Tests: at the end of this file.

mod file_range; // a stretch of a file that is a region's memory
pub(crate) mod prefetch; // asking for a cache line ahead of its use
pub(crate) mod table; // the index's memory, which may be read without the shard's lock
pub(crate) mod heap; // counts of a thread's allocations
pub(crate) mod atomic_memcpy; // copies of bytes that another thread may write meanwhile
pub(crate) mod arena; // reads and writes of values outside the lock

pub(crate) use self::file_range::FileRange;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::base::error::Error;

/// Bytes in a cache line.
pub(crate) const LINE_BYTES: usize = 64;
/// Bytes in one page of memory.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Bytes in one huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Rounds up to whole pages.
pub(crate) const fn whole_pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES
}

/// A reserved range of zeroed address space.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Region {
    range: AddressRange,
    /// As many addresses beside it, where a huge page is made that is to replace small ones.
    beside: Option<AddressRange>,
    /// For each stretch of the size of a huge page: whether it was made one.
    // Relaxed: the shard's lock orders claiming, making and discarding of huge pages.
    huge: Box<[AtomicBool]>,
    /// The part of a file that backs the memory, if it outlives the process.
    file_range: Option<FileRange>,
}

impl Region {
    /// Reserves `bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// [`Error::Reserve`] if the system refuses.
    pub(crate) fn reserve(bytes: usize) -> Result<Region, Error> {
        let range = AddressRange::reserve(whole_pages(bytes.max(1)))?;
        range.advise(0, range.bytes, libc::MADV_NOHUGEPAGE);
        // The interpreter knows no huge pages.
        let stretches = if cfg!(miri) {
            0
        } else {
            range.bytes / HUGE_PAGE_BYTES
        };
        let beside = (stretches > 0).then(|| AddressRange::reserve(stretches * HUGE_PAGE_BYTES));
        let beside = beside.transpose()?;
        if let Some(beside) = &beside {
            beside.advise(0, beside.bytes, libc::MADV_HUGEPAGE);
        }
        let huge = (0..stretches).map(|_| AtomicBool::new(false)).collect();
        Ok(Region {
            range,
            beside,
            huge,
            file_range: None,
        })
    }

    /// Reserves `bytes` whose memory is a stretch of a file, or as [`Region::reserve`] without one.
    ///
    /// Whether such memory lies on huge pages is the file system's choice: none is made here.
    ///
    /// # Errors
    /// [`Error::Reserve`] if the system refuses.
    pub(crate) fn reserve_at(file_range: Option<FileRange>, bytes: usize) -> Result<Region, Error> {
        let Some(file_range) = file_range else {
            return Region::reserve(bytes);
        };
        let range = AddressRange::reserve(whole_pages(bytes.max(1)))?;
        file_range.map(range.base.as_ptr(), range.bytes)?;
        Ok(Region {
            range,
            beside: None,
            huge: Box::default(),
            file_range: Some(file_range),
        })
    }

    /// Whether its memory is a file's, so that it may not be had although the budget has it.
    pub(crate) fn is_shared(&self) -> bool {
        self.file_range.is_some()
    }

    /// Addresses that a region of so many bytes takes, at most.
    pub(crate) fn address_bytes(bytes: usize) -> usize {
        let pages = whole_pages(bytes.max(1));
        match pages / HUGE_PAGE_BYTES {
            0 => pages,
            stretches => pages + (stretches + 2) * HUGE_PAGE_BYTES,
        }
    }

    /// The first byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.range.base.as_ptr()
    }

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.range.bytes
    }

    /// Releases the whole pages inside `[at, at + bytes)` to the system; they read as zero
    /// afterwards.
    ///
    /// The caller owns that range: no other thread reads or writes it during the call. Takes some
    /// 50 us for a MiB, so large ranges are released without a lock.
    pub(crate) fn release(&self, at: usize, bytes: usize) {
        let from = whole_pages(at);
        let to = (at + bytes) / PAGE_BYTES * PAGE_BYTES;
        if from < to {
            if let Some(file_range) = &self.file_range {
                file_range.punch(from, to - from);
                return;
            }
            self.range.advise(from, to - from, libc::MADV_DONTNEED);
            for stretch in from / HUGE_PAGE_BYTES..to.div_ceil(HUGE_PAGE_BYTES) {
                self.make_small(stretch);
            }
        }
    }

    /// Makes a stretch whose memory was released come back page by page.
    fn make_small(&self, stretch: usize) {
        // Relaxed: a stretch is only claimed while all of it is in use, under the shard's lock, so
        // never while part of it is given back.
        if self
            .huge
            .get(stretch)
            .is_some_and(|huge| huge.swap(false, Ordering::Relaxed))
        {
            self.range.advise(
                stretch * HUGE_PAGE_BYTES,
                HUGE_PAGE_BYTES,
                libc::MADV_NOHUGEPAGE,
            );
        }
    }

    /// Stretches of the size of a huge page.
    pub(crate) fn stretches(&self) -> usize {
        self.huge.len()
    }

    /// Whether a stretch was made a huge page, or is about to be.
    pub(crate) fn is_huge(&self, stretch: usize) -> bool {
        self.huge[stretch].load(Ordering::Relaxed)
    }

    /// Marks a stretch as a huge page to be, so that it is not chosen twice.
    pub(crate) fn claim_huge(&self, stretch: usize) {
        self.huge[stretch].store(true, Ordering::Relaxed);
    }

    /// Makes a huge page beside a claimed stretch; `false` if the system has none.
    ///
    /// Takes milliseconds and blocks no other thread.
    pub(crate) fn prepare_huge(&self, stretch: usize) -> bool {
        let Some(beside) = &self.beside else {
            return false;
        };
        let at = stretch * HUGE_PAGE_BYTES;
        // By a plain write, because that holds no lock which others need to take memory.
        beside.touch(at);
        // Nothing is left to do if that has brought a huge page, which the result of the call
        // shows.
        let is_huge = beside.advise(at, HUGE_PAGE_BYTES, libc::MADV_COLLAPSE);
        if !is_huge {
            beside.advise(at, HUGE_PAGE_BYTES, libc::MADV_DONTNEED);
        }
        is_huge
    }

    /// Puts the huge page made by [`Region::prepare_huge`] in the place of a stretch, all of whose
    /// pages are resident, with the stretch's bytes. Takes as long as copying them twice.
    ///
    /// The caller ensures that no thread writes the stretch or releases any of it during the call.
    /// Other threads may read it: they find the same bytes, or wait.
    pub(crate) fn swap_huge(&self, stretch: usize) {
        if let Some(beside) = &self.beside {
            self.range
                .replace(beside, stretch * HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
        }
    }

    /// Drops the huge page made by [`Region::prepare_huge`]; the stretch may be chosen again.
    pub(crate) fn discard_huge(&self, stretch: usize) {
        if let Some(beside) = &self.beside {
            let at = stretch * HUGE_PAGE_BYTES;
            beside.advise(at, HUGE_PAGE_BYTES, libc::MADV_DONTNEED);
        }
        self.huge[stretch].store(false, Ordering::Relaxed);
    }

    /// Makes `[at, at + bytes)` resident in one call, cheaper than a fault for each page. `false`
    /// if its file system has no space: a write there would kill the process (SIGBUS).
    pub(crate) fn populate(&self, at: usize, bytes: usize) -> bool {
        let from = at / PAGE_BYTES * PAGE_BYTES;
        let to = whole_pages(at + bytes).min(self.range.bytes);
        if from >= to {
            return true;
        }
        let advice = libc::MADV_POPULATE_WRITE;
        let is_there = self.range.advise(from, to - from, advice);
        is_there
            || self
                .file_range
                .as_ref()
                .is_none_or(|file_range| file_range.allocate(from, to - from))
    }
}

/// Address space from the system, which begins where a huge page may if it can hold one.
#[derive(Debug)]
#[repr(C)]
struct AddressRange {
    base: NonNull<u8>,
    bytes: usize,
    /// The mapping around it.
    mapping: NonNull<u8>,
    mapping_bytes: usize,
}

// SAFETY: it is a plain range of memory; all code reads and writes it through pointers whose users
// keep the aliasing rules (arena.rs and index.rs say how).
unsafe impl Send for AddressRange {}
// SAFETY: as above; of the methods below only those touch bytes whose callers own them.
unsafe impl Sync for AddressRange {}

#[cfg(not(miri))]
impl AddressRange {
    /// Reserves `bytes`, whole pages.
    fn reserve(bytes: usize) -> Result<AddressRange, Error> {
        let slack = if bytes < HUGE_PAGE_BYTES {
            0
        } else {
            HUGE_PAGE_BYTES
        };
        let mapping_bytes = bytes + slack;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no
        // memory that exists.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapping_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return Err(Error::Reserve { bytes, code });
        }
        let mapping =
            NonNull::new(mapping.cast::<u8>()).ok_or(Error::Reserve { bytes, code: 0 })?;
        let skip = if slack == 0 {
            0
        } else {
            mapping.align_offset(HUGE_PAGE_BYTES)
        };
        // SAFETY: `skip` is less than a huge page, and the mapping is longer by one.
        let base = unsafe { mapping.add(skip) };
        Ok(AddressRange {
            base,
            bytes,
            mapping,
            mapping_bytes,
        })
    }

    /// Gives the system an advice; whether it was taken.
    fn advise(&self, at: usize, bytes: usize, advice: libc::c_int) -> bool {
        self.check(at, bytes);
        // SAFETY: the check keeps the range inside this mapping. DONTNEED changes bytes to zero
        // only where the caller owns them; the other advices change no bytes. An error leaves the
        // range as it was, which is correct, only slower.
        unsafe { libc::madvise(self.base.as_ptr().add(at).cast(), bytes, advice) == 0 }
    }

    /// Makes the memory at `at` resident, which the caller owns and which was never written.
    fn touch(&self, at: usize) {
        self.check(at, 1);
        // SAFETY: the check keeps the byte inside this mapping; the caller owns it.
        unsafe { self.base.as_ptr().add(at).write_volatile(0) };
    }

    /// Puts the memory of `other` at `at` in the place of this one's at the same offset, with this
    /// one's bytes; `other` has none there after. The caller owns `other`'s range and ensures that
    /// no thread writes this one's.
    fn replace(&self, other: &AddressRange, at: usize, bytes: usize) {
        self.check(at, bytes);
        other.check(at, bytes);
        // SAFETY: the checks keep both ranges inside their mappings, which are different ones. By
        // the caller's promise, neither is written meanwhile. The kernel replaces the original with
        // the copy in one step: a concurrent reader sees one or the other, or waits.
        let moved = unsafe {
            let (from, to) = (other.base.as_ptr().add(at), self.base.as_ptr().add(at));
            from.copy_from_nonoverlapping(to, bytes);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
            libc::mremap(from.cast(), bytes, bytes, flags, to.cast::<libc::c_void>())
        };
        if moved == libc::MAP_FAILED {
            // Refused for want of mappings, say; then the original is still there.
            let is_there = self.advise(at, bytes, libc::MADV_NORMAL);
            assert!(is_there, "the system lost memory that it was to replace");
            other.advise(at, bytes, libc::MADV_DONTNEED);
        }
    }
}

/// The interpreter knows no mappings: memory comes from the allocator.
#[cfg(miri)]
impl AddressRange {
    fn reserve(bytes: usize) -> Result<AddressRange, Error> {
        let layout = std::alloc::Layout::from_size_align(bytes, PAGE_BYTES)
            .map_err(|_| Error::Reserve { bytes, code: 0 })?;
        // SAFETY: the layout is not empty.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).ok_or(Error::Reserve { bytes, code: 0 })?;
        Ok(AddressRange {
            base,
            bytes,
            mapping: base,
            mapping_bytes: bytes,
        })
    }

    fn advise(&self, at: usize, bytes: usize, advice: libc::c_int) -> bool {
        self.check(at, bytes);
        if advice == libc::MADV_DONTNEED {
            // SAFETY: the check keeps the range inside this allocation; the caller owns it.
            unsafe { self.base.as_ptr().add(at).write_bytes(0, bytes) };
        }
        true
    }

    fn touch(&self, at: usize) {
        self.check(at, 1);
    }

    fn replace(&self, _: &AddressRange, at: usize, bytes: usize) {
        self.check(at, bytes);
    }
}

impl AddressRange {
    fn check(&self, at: usize, bytes: usize) {
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "outside the region"
        );
    }
}

impl Drop for AddressRange {
    #[cfg(not(miri))]
    fn drop(&mut self) {
        // SAFETY: address and length are those of the mapping made in `reserve`; no pointer into it
        // can exist, because every user holds the region or an `Arc` of its owner.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
    }

    #[cfg(miri)]
    fn drop(&mut self) {
        let layout = std::alloc::Layout::from_size_align(self.mapping_bytes, PAGE_BYTES)
            .expect("the layout was valid at reservation");
        // SAFETY: allocated in `reserve` with the same layout.
        unsafe { std::alloc::dealloc(self.mapping.as_ptr(), layout) };
    }
}

/// Bytes of memory that may still become resident, shared by all shards, and what their logs hold.
#[derive(Debug)]
pub(crate) struct Budget {
    // Relaxed: the number orders nothing; the memory that it counts is private to the taker.
    left: AtomicUsize,
    // Relaxed: a sum that orders nothing.
    held: AtomicUsize,
    // Relaxed: a sum that orders nothing.
    pledged: AtomicUsize,
}

impl Budget {
    /// A budget of `bytes`.
    pub(crate) fn new(bytes: usize) -> Budget {
        Budget {
            left: AtomicUsize::new(bytes),
            held: AtomicUsize::new(0),
            pledged: AtomicUsize::new(0),
        }
    }

    /// Takes `bytes` if they are left.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        // Relaxed: the number orders nothing; the memory that it counts is private to the taker.
        self.left
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            })
            .is_ok()
    }

    /// Gives `bytes` back.
    pub(crate) fn give(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes left now.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Bytes that were taken and have no memory behind them yet; see [`Pledge`].
    pub(crate) fn pledged(&self) -> usize {
        self.pledged.load(Ordering::Relaxed)
    }

    /// Bytes that all logs hold of the memory that they share evenly.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Notes that some log holds more.
    pub(crate) fn note_held(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that some log holds less.
    pub(crate) fn note_given(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes of a budget that one owner gathers; released when dropped.
#[derive(Debug)]
pub(crate) struct Pledge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Pledge {
    /// An empty one.
    pub(crate) fn of(budget: &Arc<Budget>) -> Pledge {
        Pledge {
            budget: Arc::clone(budget),
            bytes: 0,
        }
    }

    /// Bytes that were gathered.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes so many more, if they are left.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let is_taken = self.budget.take(bytes);
        if is_taken {
            self.bytes += bytes;
            self.budget.pledged.fetch_add(bytes, Ordering::Relaxed);
        }
        is_taken
    }

    /// Transfers so many of them, which now have memory behind them.
    ///
    /// # Panics
    /// If that is more than there are.
    pub(crate) fn spend(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "more is spent than was gathered");
        self.bytes -= bytes;
        self.budget.pledged.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        let bytes = self.bytes;
        self.spend(bytes);
        self.budget.give(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_pages_read_as_zero() {
        let region = Region::reserve(3 * PAGE_BYTES).unwrap();
        region.populate(0, region.bytes());
        // SAFETY: inside the region, which only this test uses.
        unsafe {
            region.base().write_bytes(7, region.bytes());
            region.release(100, 2 * PAGE_BYTES);
            assert_eq!(region.base().add(PAGE_BYTES).read(), 0);
            assert_eq!(region.base().add(PAGE_BYTES - 1).read(), 7);
            assert_eq!(region.base().add(2 * PAGE_BYTES).read(), 7);
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn a_huge_stretch_keeps_its_bytes_and_is_given_back_in_pages() {
        let region = Region::reserve(2 * HUGE_PAGE_BYTES).unwrap();
        assert_eq!(
            (region.stretches(), region.base() as usize % HUGE_PAGE_BYTES),
            (2, 0)
        );
        // SAFETY: inside the region, which only this test uses.
        unsafe {
            region.base().write_bytes(7, HUGE_PAGE_BYTES);
            region.claim_huge(0);
            if region.prepare_huge(0) {
                region.swap_huge(0);
            }
            assert_eq!(region.base().add(HUGE_PAGE_BYTES - 1).read(), 7);
            region.base().write(7);
            region.release(PAGE_BYTES, PAGE_BYTES);
            assert!(!region.is_huge(0));
            assert_eq!(region.base().add(PAGE_BYTES).read(), 0);
            assert_eq!(region.base().read(), 7);
        }
    }

    #[test]
    fn a_budget_is_never_overdrawn() {
        let budget = Budget::new(10);
        assert!(budget.take(7));
        assert!(!budget.take(4));
        budget.give(1);
        assert!(budget.take(4));
        assert_eq!(budget.left(), 0);
    }

    #[test]
    fn what_was_pledged_and_not_spent_goes_back() {
        let budget = Arc::new(Budget::new(10));
        let mut pledge = Pledge::of(&budget);
        assert!(pledge.take(6) && !pledge.take(5));
        pledge.spend(4);
        assert_eq!((pledge.bytes(), budget.left(), budget.pledged()), (2, 4, 2));
        drop(pledge);
        assert_eq!((budget.left(), budget.pledged()), (6, 0));
    }
}
