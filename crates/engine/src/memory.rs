//! Memory: address space reserved once, and the one byte budget that all shards share.
//!
//! A [`Region`] is address space, not memory: the system gives pages when they are first written
//! and takes them back on [`Region::release`]. What may be resident at one time is what the
//! [`Budget`] handed out, so the bound holds by construction.
//!
//! Invariant: a region's base never moves; its bytes read as zero until written.
//! Why: docs/decisions/0008. Tests: at the end of this file.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::Error;

/// Bytes in one page of memory.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Bytes in one huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Rounds up to whole pages.
pub(crate) const fn whole_pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES
}

/// Asks the processor to load a cache line and the one behind it, to be written soon.
#[inline]
pub(crate) fn prefetch_for_writing(at: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch has no effect on memory and never faults.
        unsafe {
            _mm_prefetch::<_MM_HINT_ET0>(at);
            _mm_prefetch::<_MM_HINT_ET0>(at.wrapping_add(64));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// A reserved range of zeroed address space.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    /// The mapping around the range, which begins where a huge page may.
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    /// For each stretch of the size of a huge page: whether it was made one.
    huge: Box<[AtomicBool]>,
}

// SAFETY: a region is a plain range of memory; whoever reads or writes it does so through pointers
// whose users keep the aliasing rules (arena.rs and index.rs say how).
unsafe impl Send for Region {}
// SAFETY: as above; the methods below touch no bytes.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// [`Error::Reserve`] if the system refuses.
    #[cfg(not(miri))]
    pub(crate) fn reserve(bytes: usize) -> Result<Region, Error> {
        let bytes = whole_pages(bytes.max(1));
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
        let huge = (0..bytes / HUGE_PAGE_BYTES)
            .map(|_| AtomicBool::new(false))
            .collect();
        let region = Region {
            base,
            bytes,
            mapping,
            mapping_bytes,
            huge,
        };
        region.advise(0, bytes, libc::MADV_NOHUGEPAGE);
        Ok(region)
    }

    /// Reserves `bytes` from the allocator: the interpreter knows no mappings.
    #[cfg(miri)]
    pub(crate) fn reserve(bytes: usize) -> Result<Region, Error> {
        let bytes = whole_pages(bytes.max(1));
        let layout = std::alloc::Layout::from_size_align(bytes, PAGE_BYTES)
            .map_err(|_| Error::Reserve { bytes, code: 0 })?;
        // SAFETY: the layout is not empty.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).ok_or(Error::Reserve { bytes, code: 0 })?;
        let (mapping, mapping_bytes) = (base, bytes);
        Ok(Region {
            base,
            bytes,
            mapping,
            mapping_bytes,
            huge: Box::default(),
        })
    }

    /// The first byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives the whole pages inside `[at, at + bytes)` back to the system; they read as zero after.
    ///
    /// The caller owns that range: nobody else reads or writes it during the call. Takes some 50 us
    /// for a MiB, so large ranges are given back without a lock.
    pub(crate) fn release(&self, at: usize, bytes: usize) {
        let from = whole_pages(at);
        let to = (at + bytes) / PAGE_BYTES * PAGE_BYTES;
        if from < to {
            self.advise(from, to - from, libc::MADV_DONTNEED);
            for stretch in from / HUGE_PAGE_BYTES..to.div_ceil(HUGE_PAGE_BYTES) {
                self.make_small(stretch);
            }
        }
    }

    /// Sees to it that a stretch whose memory was given back returns page by page.
    fn make_small(&self, stretch: usize) {
        // Relaxed: a stretch is only claimed while all of it is in use, under the shard's lock, so
        // never while part of it is given back.
        if self
            .huge
            .get(stretch)
            .is_some_and(|huge| huge.swap(false, Ordering::Relaxed))
        {
            self.advise(
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

    /// Asks the system to put a stretch, all of whose pages are resident, on one huge page.
    ///
    /// May take milliseconds; others may read and write the stretch meanwhile, but nobody may give
    /// any of it back. Where the system refuses, all stays as it was.
    pub(crate) fn make_huge(&self, stretch: usize) {
        let at = stretch * HUGE_PAGE_BYTES;
        self.advise(at, HUGE_PAGE_BYTES, libc::MADV_HUGEPAGE);
        self.advise(at, HUGE_PAGE_BYTES, libc::MADV_COLLAPSE);
    }

    /// Makes `[at, at + bytes)` resident in one call, cheaper than a fault for each page.
    pub(crate) fn populate(&self, at: usize, bytes: usize) {
        let from = at / PAGE_BYTES * PAGE_BYTES;
        let to = whole_pages(at + bytes).min(self.bytes);
        if from < to {
            self.advise(from, to - from, libc::MADV_POPULATE_WRITE);
        }
    }

    #[cfg(not(miri))]
    fn advise(&self, at: usize, bytes: usize, advice: libc::c_int) {
        assert!(
            at.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "outside the region"
        );
        // SAFETY: the assert keeps the range inside this mapping. DONTNEED changes bytes to zero
        // only where the caller of `release` owns them; the other advices change no bytes. An error
        // leaves the range as it was, which is correct, only slower.
        unsafe { libc::madvise(self.base.as_ptr().add(at).cast(), bytes, advice) };
    }

    #[cfg(miri)]
    fn advise(&self, at: usize, bytes: usize, advice: libc::c_int) {
        assert!(
            at.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "outside the region"
        );
        if advice == libc::MADV_DONTNEED {
            // SAFETY: the assert keeps the range inside this allocation; the caller owns it.
            unsafe { self.base.as_ptr().add(at).write_bytes(0, bytes) };
        }
    }
}

impl Drop for Region {
    #[cfg(not(miri))]
    fn drop(&mut self) {
        // SAFETY: address and length are those of the mapping made in `reserve`; nobody can hold a
        // pointer into it, because every user holds this value or an `Arc` of its owner.
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

/// Bytes of memory that may still become resident, shared by all shards.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
}

impl Budget {
    /// A budget of `bytes`.
    pub(crate) fn new(bytes: usize) -> Budget {
        Budget {
            left: AtomicUsize::new(bytes),
        }
    }

    /// Takes `bytes` if they are left.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        // Relaxed: the number orders nothing; the memory it stands for is private to the taker.
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
            region.make_huge(0);
            assert_eq!(region.base().add(HUGE_PAGE_BYTES - 1).read(), 7);
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
}
