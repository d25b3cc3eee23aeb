//! Heap: what the allocator keeps of memory that was freed.
//!
//! The cache's own memory is not of the heap; requests, replies and what else a server allocates
//! are. The allocator keeps freed memory for the next time, for ever if nothing lies behind it.

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
