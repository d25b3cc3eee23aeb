//! Byte-wise atomic memcpy: copies of bytes that another thread may write at the same time.
//!
//! An optimistic reader copies an item that a writer may be changing, and checks afterwards whether
//! one did ([`sequence`](crate::cache::sequence)). Rust's memory model permits such a race only for
//! atomic accesses. So every write to a shard's log under its lock, and every read without it, goes
//! through this module. Each byte counts as a relaxed atomic: a read returns some value that was
//! written, and nothing else is promised.
//!
//! A loop over atomic bytes is ten times as slow. On x86-64 the copies are written in assembly,
//! whose moves the compiler neither splits nor invents. Miri, which checks the model, and other
//! processors use the loop.

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use self::bytes as imp;
use std::mem::MaybeUninit;

#[cfg(all(target_arch = "x86_64", not(miri)))]
use self::words as imp;

/// From here on the processor's own instruction for copies is the fastest.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRING_BYTES_MIN: usize = 512;

/// The eight bytes at `at` as a number, little end first.
///
/// # Safety
/// They are readable, and all writes to them go through this module.
#[inline]
pub(crate) unsafe fn load(at: *const u8) -> u64 {
    // SAFETY: by the caller's promise.
    unsafe { imp::load(at) }
}

/// Copies `len` bytes from one such place to another; they do not overlap.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; other threads use them only through this
/// module, and none of them writes `to`.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by the caller's promise.
    unsafe { imp::copy(from, to, len) }
}

/// Writes bytes to `to`.
///
/// # Safety
/// `to` is writable for so many bytes; other threads only read them, through this module.
#[inline]
pub(crate) unsafe fn write(from: &[u8], to: *mut u8) {
    // SAFETY: by the caller's promise; borrowed bytes are not written.
    unsafe { imp::write(from, to) }
}

/// Writes a number to eight bytes, little end first.
///
/// # Safety
/// As for [`write`] of eight bytes.
#[inline]
pub(crate) unsafe fn store(word: u64, to: *mut u8) {
    // SAFETY: by the caller's promise.
    unsafe { imp::store(word, to) }
}

/// Fills `to` with the bytes at `from`.
///
/// # Safety
/// `from` is readable for so many bytes, and all writes to it go through this module.
#[inline(always)]
pub(crate) unsafe fn read(from: *const u8, to: &mut [MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: by the caller's promise; `to` is the caller's alone, and is written whole.
    unsafe {
        imp::read(from, to);
        std::slice::from_raw_parts(to.as_ptr().cast(), to.len())
    }
}

/// Whether the bytes at `at` are these.
///
/// # Safety
/// So many bytes, and eight at least, are readable there, and all writes to them go through this
/// module.
#[inline(always)]
pub(crate) unsafe fn equal(at: *const u8, bytes: &[u8]) -> bool {
    let len = bytes.len();
    // SAFETY: eight bytes from `position` lie inside both ranges in every call below.
    let differ = |position: usize| unsafe { differ(at, bytes.as_ptr(), position) };
    match len {
        0..8 => {
            let mut padded = [0; 8];
            padded[..len].copy_from_slice(bytes);
            let mask = (1_u64 << (8 * len)) - 1;
            // SAFETY: eight bytes are readable by the caller's promise.
            unsafe { load(at) & mask == u64::from_le_bytes(padded) }
        }
        8..=16 => differ(0) | differ(len - 8) == 0,
        // SAFETY: sixteen bytes from both positions lie inside both ranges.
        17..=32 => unsafe { imp::equal_twice_16(at, bytes.as_ptr(), len - 16) },
        _ => {
            let mut positions = (0..len - 8).step_by(8);
            positions.all(|position| differ(position) == 0) && differ(len - 8) == 0
        }
    }
}

/// The bits by which eight bytes of two ranges differ.
///
/// # Safety
/// As for [`load`] at `position` of the first; those of the second are borrowed.
#[inline(always)]
unsafe fn differ(at: *const u8, bytes: *const u8, position: usize) -> u64 {
    // SAFETY: by the caller's promise.
    unsafe {
        let word = bytes.add(position).cast::<u64>().read_unaligned();
        load(at.add(position)) ^ u64::from_le(word)
    }
}

/// By words, in assembly.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod words {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8,
    };
    use std::mem::MaybeUninit;

    use super::STRING_BYTES_MIN;

    #[inline]
    pub(crate) unsafe fn load(at: *const u8) -> u64 {
        let word;
        // SAFETY: the move reads eight bytes, which may be read by the caller's promise.
        unsafe {
            asm!("mov {word}, qword ptr [{at}]", at = in(reg) at, word = out(reg) word,
                options(nostack, preserves_flags, readonly));
        }
        word
    }

    /// Whether sixteen bytes of two ranges are the same, and sixteen from another position on.
    #[inline(always)]
    pub(crate) unsafe fn equal_twice_16(at: *const u8, bytes: *const u8, other: usize) -> bool {
        // SAFETY: all moves read inside the two ranges, by the caller; every x86-64 processor has
        // these instructions.
        unsafe {
            let same = |position: usize| {
                let word: __m128i;
                asm!("movups {word}, xmmword ptr [{at}]", at = in(reg) at.add(position),
                    word = out(xmm_reg) word, options(nostack, preserves_flags, readonly));
                _mm_cmpeq_epi8(word, _mm_loadu_si128(bytes.add(position).cast()))
            };
            _mm_movemask_epi8(_mm_and_si128(same(0), same(other))) == 0xffff
        }
    }

    #[inline]
    pub(crate) unsafe fn store(word: u64, to: *mut u8) {
        // SAFETY: the move writes eight bytes, which may be written by the caller's promise.
        unsafe {
            asm!("mov qword ptr [{to}], {word}", to = in(reg) to, word = in(reg) word,
                options(nostack, preserves_flags));
        }
    }

    #[inline]
    pub(crate) unsafe fn write(from: &[u8], to: *mut u8) {
        // SAFETY: by the caller's promise.
        unsafe { copy(from.as_ptr(), to, from.len()) }
    }

    #[inline]
    pub(crate) unsafe fn read(from: *const u8, to: &mut [MaybeUninit<u8>]) {
        // SAFETY: by the caller's promise.
        unsafe { copy(from, to.as_mut_ptr().cast(), to.len()) }
    }

    #[inline]
    pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: every move below lies inside the two ranges of `len` bytes.
        unsafe {
            // The longer ones first: most values are.
            if len > 64 {
                if len < STRING_BYTES_MIN {
                    long(from, to, len);
                } else {
                    string(from, to, len);
                }
            } else if len > 32 {
                move_32(from, to);
                move_32(from.add(len - 32), to.add(len - 32));
            } else if len > 16 {
                move_16(from, to);
                move_16(from.add(len - 16), to.add(len - 16));
            } else if len >= 8 {
                move_8(from, to);
                move_8(from.add(len - 8), to.add(len - 8));
            } else if len >= 4 {
                move_4(from, to);
                move_4(from.add(len - 4), to.add(len - 4));
            } else {
                short(from, to, len);
            }
        }
    }

    #[inline]
    unsafe fn long(from: *const u8, to: *mut u8, len: usize) {
        let mut position = 0;
        // SAFETY: every move lies inside the two ranges of `len` bytes, which is 64 at least.
        unsafe {
            while position + 64 < len {
                move_64(from.add(position), to.add(position));
                position += 64;
            }
            move_64(from.add(len - 64), to.add(len - 64));
        }
    }

    #[inline]
    unsafe fn short(from: *const u8, to: *mut u8, len: usize) {
        if len == 0 {
            return;
        }
        // Of fewer than four bytes these are all.
        for position in [0, len / 2, len - 1] {
            // SAFETY: inside the range, which is not empty.
            unsafe {
                asm!("mov {byte}, byte ptr [{from}]", "mov byte ptr [{to}], {byte}",
                    from = in(reg) from.add(position), to = in(reg) to.add(position),
                    byte = out(reg_byte) _, options(nostack, preserves_flags));
            }
        }
    }

    #[inline]
    unsafe fn move_4(from: *const u8, to: *mut u8) {
        // SAFETY: four bytes of both ranges, by the caller.
        unsafe {
            asm!("mov {word:e}, dword ptr [{from}]", "mov dword ptr [{to}], {word:e}",
                from = in(reg) from, to = in(reg) to, word = out(reg) _,
                options(nostack, preserves_flags));
        }
    }

    #[inline]
    unsafe fn move_8(from: *const u8, to: *mut u8) {
        // SAFETY: eight bytes of both ranges, by the caller.
        unsafe {
            asm!("mov {word}, qword ptr [{from}]", "mov qword ptr [{to}], {word}",
                from = in(reg) from, to = in(reg) to, word = out(reg) _,
                options(nostack, preserves_flags));
        }
    }

    #[inline]
    unsafe fn move_16(from: *const u8, to: *mut u8) {
        // SAFETY: sixteen bytes of both ranges, by the caller; every x86-64 processor has these.
        unsafe {
            asm!("movups {words}, xmmword ptr [{from}]", "movups xmmword ptr [{to}], {words}",
                from = in(reg) from, to = in(reg) to, words = out(xmm_reg) _,
                options(nostack, preserves_flags));
        }
    }

    #[inline]
    unsafe fn move_32(from: *const u8, to: *mut u8) {
        // SAFETY: as `move_16`, of 32 bytes.
        unsafe {
            asm!("movups {low}, xmmword ptr [{from}]", "movups {high}, xmmword ptr [{from} + 16]",
                "movups xmmword ptr [{to}], {low}", "movups xmmword ptr [{to} + 16], {high}",
                from = in(reg) from, to = in(reg) to, low = out(xmm_reg) _, high = out(xmm_reg) _,
                options(nostack, preserves_flags));
        }
    }

    #[inline]
    unsafe fn move_64(from: *const u8, to: *mut u8) {
        // SAFETY: as `move_16`, of 64 bytes.
        unsafe {
            asm!("movups {a}, xmmword ptr [{from}]", "movups {b}, xmmword ptr [{from} + 16]",
                "movups {c}, xmmword ptr [{from} + 32]", "movups {d}, xmmword ptr [{from} + 48]",
                "movups xmmword ptr [{to}], {a}", "movups xmmword ptr [{to} + 16], {b}",
                "movups xmmword ptr [{to} + 32], {c}", "movups xmmword ptr [{to} + 48], {d}",
                from = in(reg) from, to = in(reg) to, a = out(xmm_reg) _, b = out(xmm_reg) _,
                c = out(xmm_reg) _, d = out(xmm_reg) _, options(nostack, preserves_flags));
        }
    }

    #[inline]
    unsafe fn string(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: both ranges have `len` bytes; the direction flag is clear as in all Rust code.
        unsafe {
            asm!("rep movsb", inout("rsi") from => _, inout("rdi") to => _, inout("rcx") len => _,
                options(nostack, preserves_flags));
        }
    }
}

/// By atomic bytes.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod bytes {
    use std::mem::MaybeUninit;
    use std::sync::atomic::{AtomicU8, Ordering};

    unsafe fn byte<'a>(at: *const u8) -> &'a AtomicU8 {
        // SAFETY: readable by the caller's promise, and used as an atomic by all other code.
        unsafe { AtomicU8::from_ptr(at.cast_mut()) }
    }

    pub(crate) unsafe fn load(at: *const u8) -> u64 {
        (0..8).rev().fold(0, |word, position| {
            // Relaxed: see the module.
            // SAFETY: one of the eight bytes of the caller's promise.
            word << 8 | u64::from(unsafe { byte(at.add(position)) }.load(Ordering::Relaxed))
        })
    }

    pub(crate) unsafe fn equal_twice_16(at: *const u8, bytes: *const u8, other: usize) -> bool {
        // Relaxed: see the module.
        // SAFETY: by the caller's promise.
        let is_same = |position| unsafe {
            byte(at.add(position)).load(Ordering::Relaxed) == *bytes.add(position)
        };
        (0..16).chain(other..other + 16).all(is_same)
    }

    pub(crate) unsafe fn store(word: u64, to: *mut u8) {
        // SAFETY: by the caller's promise.
        unsafe { write(&word.to_le_bytes(), to) }
    }

    pub(crate) unsafe fn write(from: &[u8], to: *mut u8) {
        for (position, &written) in from.iter().enumerate() {
            // Relaxed: see the module.
            // SAFETY: inside the range by the loop's bound.
            unsafe { byte(to.add(position)) }.store(written, Ordering::Relaxed);
        }
    }

    pub(crate) unsafe fn read(from: *const u8, to: &mut [MaybeUninit<u8>]) {
        for (position, read) in to.iter_mut().enumerate() {
            // Relaxed: see the module.
            // SAFETY: inside the range by the loop's bound.
            read.write(unsafe { byte(from.add(position)) }.load(Ordering::Relaxed));
        }
    }

    pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        for position in 0..len {
            // Relaxed: see the module.
            // SAFETY: inside both ranges by the loop's bound.
            unsafe {
                let read = byte(from.add(position)).load(Ordering::Relaxed);
                byte(to.add(position)).store(read, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_comparisons_of_every_length_touch_their_bytes_alone() {
        let mut from: Vec<u8> = (0..2_000_u32).map(|n| (n * 31 + 7) as u8).collect();
        let lengths = (0..100).chain([255, 256, 257, 511, 512, 513, 1_024, 1_900]);
        for len in lengths.take(if cfg!(miri) { 40 } else { usize::MAX }) {
            for shift in [0, 1, 7] {
                let mut copied = vec![0xee; len + 32];
                let mut written = copied.clone();
                let mut read = vec![MaybeUninit::uninit(); len];
                // SAFETY: all are longer than the copied bytes, and only this thread uses them.
                unsafe {
                    copy(from[shift..].as_mut_ptr(), copied[9..].as_mut_ptr(), len);
                    write(&from[shift..shift + len], written[9..].as_mut_ptr());
                    assert_eq!(
                        super::read(from[shift..].as_mut_ptr(), &mut read),
                        &from[shift..shift + len]
                    );
                }
                assert_eq!(copied, written);
                assert_eq!(copied[9..9 + len], from[shift..shift + len]);
                let (before, behind) = (&copied[..9], &copied[9 + len..]);
                assert!(before.iter().chain(behind).all(|&byte| byte == 0xee));
                let wanted = &from[shift..shift + len];
                // SAFETY: eight bytes and more lie behind the compared bytes.
                unsafe {
                    assert!(equal(copied[9..].as_mut_ptr(), wanted));
                    for wrong in 0..len {
                        copied[9 + wrong] ^= 1;
                        assert!(!equal(copied[9..].as_mut_ptr(), wanted));
                        copied[9 + wrong] ^= 1;
                    }
                }
            }
        }
        let mut bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        // SAFETY: eight bytes are there, also behind the first.
        let word = unsafe {
            store(load(bytes.as_ptr()), bytes[1..].as_mut_ptr());
            load(bytes.as_ptr())
        };
        assert_eq!(word, 0x0706_0504_0302_0101);
    }
}
