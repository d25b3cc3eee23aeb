//! Memory: address space reserved once, and the one byte budget that all shards share.
//!
//! A [`Region`] is address space, not memory: the system gives pages when they are first written
//! and takes them back on [`Region::release`]. What may be resident at one time is what the
//! [`Budget`] handed out, so the bound holds by construction.
//!
//! Invariant: a region's base never moves; its bytes read as zero until written.
//! Why: docs/decisions/0008. Tests: at the end of this file.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;

/// Bytes in one page of memory.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Rounds up to whole pages.
pub(crate) const fn whole_pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES
}

/// A reserved range of zeroed address space.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
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
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no
        // memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return Err(Error::Reserve { bytes, code });
        }
        let base = NonNull::new(base.cast()).ok_or(Error::Reserve { bytes, code: 0 })?;
        let region = Region { base, bytes };
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
        Ok(Region { base, bytes })
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
    /// The caller owns that range: nobody else reads or writes it during the call.
    pub(crate) fn release(&self, at: usize, bytes: usize) {
        let from = whole_pages(at);
        let to = (at + bytes) / PAGE_BYTES * PAGE_BYTES;
        if from < to {
            self.advise(from, to - from, libc::MADV_DONTNEED);
        }
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
        // SAFETY: base and length are those of the mapping made in `reserve`; nobody can hold a
        // pointer into it, because every user holds this value or an `Arc` of its owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }

    #[cfg(miri)]
    fn drop(&mut self) {
        let layout = std::alloc::Layout::from_size_align(self.bytes, PAGE_BYTES)
            .expect("the layout was valid at reservation");
        // SAFETY: allocated in `reserve` with the same layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
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
