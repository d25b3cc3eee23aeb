//! Heap: what the allocator keeps of memory that was freed.
//!
//! The cache's own memory is not of the heap; requests, replies and what else a server allocates
//! are. The allocator keeps freed memory for the next time, for ever if nothing lies behind it.

/// From this length on memory is a mapping of its own, which goes back as soon as it is freed and
/// grows without a copy.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const MAPPED_BYTES_MIN: i32 = 128 << 10;
/// Freed memory at the heap's end that is kept, so that it does not come and go.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const KEPT_BYTES_MAX: i32 = 4 << 20;

/// Has the allocator give long buffers back when they are freed, for the whole process: by itself
/// it keeps what is as long as the longest that was freed before. What is short is joined with its
/// neighbours when it is freed: by itself the allocator does so later, for a million of them in the
/// middle of somebody's request.
///
/// Cost: page faults for buffers from 128 KiB on. To be called at the start, by who owns the
/// process; where the allocator has no such call it does nothing.
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
