//! Spare: long buffers of one thread that are used again.
//!
//! To change a collection of 4 MiB takes a copy of each of its parts, and one of the whole. The
//! allocator takes such buffers from the system each time and gives them back; their pages alone
//! cost as much as the change. So those that were used are kept, until a second has passed in which
//! nobody has ([`release`]).
//!
//! Limit: [`KEPT_BYTES_MAX`] a thread, a part of what the commands that run may need.

use std::cell::RefCell;

/// Shorter buffers are the allocator's.
const LONG_BYTES_MIN: usize = 128 << 10;
/// Bytes that a thread keeps.
const KEPT_BYTES_MAX: usize = 24 << 20;

#[derive(Debug, Default)]
struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    /// Whether any was asked for since the last look.
    is_used: bool,
}

thread_local! {
    static KEPT: RefCell<SpareBuffers> = RefCell::default();
}

/// An empty buffer with room for so many bytes.
pub(crate) fn with_capacity(bytes: usize) -> Vec<u8> {
    if bytes < LONG_BYTES_MIN {
        return Vec::with_capacity(bytes);
    }
    KEPT.with_borrow_mut(|kept| {
        kept.is_used = true;
        let fitting = kept.buffers.iter().enumerate();
        let fitting = fitting.filter(|(_, buffer)| buffer.capacity() >= bytes);
        let shortest = fitting.min_by_key(|(_, buffer)| buffer.capacity());
        match shortest.map(|(place, _)| place) {
            Some(place) => kept.buffers.swap_remove(place),
            None => Vec::with_capacity(bytes),
        }
    })
}

/// Makes room for so many bytes more.
pub(crate) fn reserve(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.capacity() - buffer.len() < bytes {
        let mut larger = with_capacity(buffer.len() + bytes);
        larger.extend_from_slice(buffer);
        give(std::mem::replace(buffer, larger));
    }
}

/// A copy of bytes.
pub(crate) fn copy_of(bytes: &[u8]) -> Vec<u8> {
    let mut copy = with_capacity(bytes.len());
    copy.extend_from_slice(bytes);
    copy
}

/// Gives a buffer that is not needed any more.
pub(crate) fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() < LONG_BYTES_MIN {
        return;
    }
    KEPT.with_borrow_mut(|kept| {
        let bytes: usize = kept.buffers.iter().map(Vec::capacity).sum();
        if bytes + buffer.capacity() <= KEPT_BYTES_MAX {
            buffer.clear();
            kept.buffers.push(buffer);
        }
    });
}

/// Lets go of what this thread keeps if nobody has asked for any since the last call.
pub(crate) fn release() {
    KEPT.with_borrow_mut(|kept| {
        if !std::mem::take(&mut kept.is_used) {
            kept.buffers = Vec::new();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_bytes() -> usize {
        KEPT.with_borrow(|kept| kept.buffers.iter().map(Vec::capacity).sum())
    }

    #[test]
    fn long_buffers_are_used_again_and_let_go_when_nobody_asks_for_them() {
        let buffer = with_capacity(1 << 20);
        let place = buffer.as_ptr();
        give(buffer);
        give(Vec::with_capacity(100));
        assert_eq!(kept_bytes(), 1 << 20);
        release();
        let copy = copy_of(&[7; 1_000_000]);
        assert_eq!((copy.as_ptr(), copy.len()), (place, 1_000_000));
        assert!(copy.iter().all(|&byte| byte == 7));
        give(copy);
        release();
        assert_eq!(kept_bytes(), 1 << 20);
        release();
        assert_eq!(kept_bytes(), 0);
    }

    #[test]
    fn a_thread_keeps_no_more_than_so_many_bytes() {
        for _ in 0..100 {
            give(Vec::with_capacity(1 << 20));
        }
        assert_eq!(kept_bytes(), KEPT_BYTES_MAX);
    }
}
