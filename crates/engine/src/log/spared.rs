//! Spared: segments that stores leave alone, so that items can be moved where none may leave.
//!
//! Why: docs/decisions/0052. Tests: tests/keep.rs.

use super::Log;
use crate::clock::Instant;
use crate::segment::Stream;

impl Log {
    /// Sets how many segments are left alone by who takes memory; returns how many were.
    #[inline]
    pub(crate) fn spare(&mut self, segments: usize) -> usize {
        std::mem::replace(&mut self.spared, segments)
    }

    /// Whether as many segments as are spared are left when `bytes` have been taken.
    #[inline]
    pub(crate) fn may_take(&self, bytes: usize) -> bool {
        self.spared == 0 || self.leaves_spared(bytes)
    }

    /// Whether that can ever be.
    pub(crate) fn may_ever_take(&self, bytes: usize) -> bool {
        bytes + self.spared * self.segment_bytes() <= self.share_bytes()
    }

    #[cold]
    fn leaves_spared(&self, bytes: usize) -> bool {
        let idle = self.free.len() * self.segment_bytes();
        let left = (self.budget().left() + idle).checked_sub(bytes);
        left.is_some_and(|left| left >= self.spared * self.segment_bytes())
    }

    /// Seals the open segment in which most is dead, if anything is; whether it was.
    pub(crate) fn seal_deadest(&mut self, now: Instant) -> bool {
        let open = Stream::all().filter_map(|stream| Some((stream, self.open[stream.index()]?)));
        let dead = open.map(|(stream, number)| (stream, self.segment(number).dead_bytes(now)));
        let deadest = dead.max_by_key(|(_, bytes)| *bytes);
        match deadest {
            Some((stream, bytes)) if bytes > 0 => self.seal(stream),
            _ => return false,
        }
        true
    }
}
