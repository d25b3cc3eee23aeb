//! Prefetch: asking the processor to load a cache line ahead of its use.
//!
//! A hint: it changes no memory, takes any address, and does nothing on other processors.

use super::LINE_BYTES;

/// Asks for the line at this address, to be read soon.
#[inline]
pub(crate) fn for_reading(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect on memory and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch has no effect on memory and never faults.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{at}]",
            at = in(reg) at,
            options(nostack, preserves_flags, readonly),
        );
    }
    let _ = at;
}

/// Asks the processor to load these bytes, which are to be read soon. Changes nothing. Cost: an
/// instruction for each cache line.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        for_reading(line.as_ptr());
    }
}

/// Asks for the line at this address, to be written soon.
#[inline]
pub(crate) fn for_writing(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch has no effect on memory and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch has no effect on memory and never faults.
    unsafe {
        std::arch::asm!(
            "prfm pstl1keep, [{at}]",
            at = in(reg) at,
            options(nostack, preserves_flags, readonly),
        );
    }
    let _ = at;
}
