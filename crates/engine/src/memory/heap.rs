//! Heap: the bytes that a thread has allocated and pinned, and the freed memory that the allocator
//! keeps.
//!
//! The cache's own memory is not on the heap; requests, replies and other allocations of a server
//! are. [`CountingHeap`] counts by thread, so that a server knows how many bytes a command has left
//! allocated; bytes of the cache that handles pin are counted alike. The allocator keeps freed
//! memory for reuse, for ever if memory behind it is in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated, less those that it has freed, modulo 2^64.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    /// Bytes of values that this thread has pinned, less those that it has released, modulo 2^64.
    static PINNED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a count of what each thread allocates and frees.
///
/// Cost: one addition for each call.
#[derive(Debug)]
pub struct CountingHeap;

/// A moment in the counts of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct HeldMark {
    allocated: usize,
    pinned: usize,
}

impl HeldMark {
    /// The present moment.
    #[inline]
    #[must_use]
    pub fn now() -> HeldMark {
        HeldMark {
            allocated: ALLOCATED.get(),
            pinned: PINNED.get(),
        }
    }

    /// Bytes that the calling thread has allocated since and not freed; negative if it has freed
    /// more. Always 0 in a program whose allocator is not [`CountingHeap`].
    #[inline]
    #[must_use]
    pub fn growth(self) -> isize {
        ALLOCATED.get().wrapping_sub(self.allocated).cast_signed()
    }

    /// Bytes of the cache's values that the calling thread has pinned since by
    /// [`Handle`](crate::Handle)s and not released; negative if it has released more.
    #[inline]
    #[must_use]
    pub fn pinned_growth(self) -> isize {
        PINNED.get().wrapping_sub(self.pinned).cast_signed()
    }
}

/// Counts bytes that the calling thread has pinned.
#[inline]
pub(crate) fn note_pinned(bytes: usize) {
    PINNED.set(PINNED.get().wrapping_add(bytes));
}

/// Counts bytes whose pin ended on the calling thread.
#[inline]
pub(crate) fn note_released(bytes: usize) {
    PINNED.set(PINNED.get().wrapping_sub(bytes));
}

/// Takes bytes that the calling thread has allocated out of its count, because they are counted
/// elsewhere from now on: they belong to another client, for example.
pub fn exclude_from_heap_count(bytes: usize) {
    count(0, bytes);
}

fn count(allocated: usize, freed: usize) {
    let before = ALLOCATED.get();
    ALLOCATED.set(before.wrapping_add(allocated).wrapping_sub(freed));
}

// SAFETY: every call is the system allocator's with the same arguments, whose contract is this
// one's; the count is a plain number of the thread, without a destructor, and allocates nothing.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller had this memory from this allocator, which is the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes, layout.size());
        // SAFETY: as in `dealloc`.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

/// From this length on memory is a mapping of its own, which goes back as soon as it is freed and
/// grows without a copy.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const MAPPED_BYTES_MIN: i32 = 128 << 10;
/// Freed memory at the heap's end that stays allocated, so that it is not requested again and
/// again.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const KEPT_BYTES_MAX: i32 = 4 << 20;

/// Has the allocator give long buffers back when they are freed, for the whole process: by default
/// it keeps those up to the length of the longest that was freed before. Short blocks are joined
/// with their neighbours when they are freed: by default the allocator does so later, for a million
/// of them in the middle of a request.
///
/// Cost: page faults for buffers from 128 KiB on. To be called at the start of the process; where
/// the allocator has no such call it does nothing.
pub fn keep_heap_lean() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: the calls take numbers and only set how later ones behave.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX);
        libc::mallopt(libc::M_MXFAST, 0);
    }
}

/// Gives freed memory of the heap back to the system.
///
/// Cost: some microseconds for each freed mebibyte, during which other threads may wait for the
/// allocator. On systems whose allocator has no such call it does nothing.
pub fn release_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: the call takes no pointer and may be made by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
