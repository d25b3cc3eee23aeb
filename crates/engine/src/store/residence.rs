//! Residence: memory of the store that upkeep touches, gives back or puts on huge pages.
//!
//! Each of these takes longer than the lock may be held, so it is done between a `begin` and an
//! `end` under the lock; what happens meanwhile leaves that memory alone.
//!
//! Why: docs/decisions/0014. Tests: tests/upkeep.rs, tests/evict.rs.

use super::Store;
use crate::clock::Instant;
use crate::log::Touch;

impl Store {
    /// Memory to be touched ahead of its use: of the index, as offset and length, and of the log.
    pub(crate) fn begin_touch(&mut self, now: Instant) -> (Option<(usize, usize)>, Option<Touch>) {
        (self.index.begin_touch(), self.log.begin_touch(now))
    }

    /// Makes the memory of the log usable that was touched.
    pub(crate) fn end_touch(&mut self, touch: &Touch) {
        self.log.end_touch(touch);
    }

    /// A free segment whose memory is to go back to the system.
    pub(crate) fn begin_release(&mut self) -> Option<u32> {
        self.log.begin_release()
    }

    /// How many free segments are to go back to the system.
    pub(crate) fn surplus(&mut self, now: Instant) -> u32 {
        self.log.surplus(now)
    }

    /// Gives up a segment whose memory has gone back.
    pub(crate) fn end_release(&mut self, segment: u32) {
        self.log.end_release(segment);
    }

    /// Whether fresh memory was taken not long ago.
    pub(crate) fn is_growing(&self, now: Instant) -> bool {
        self.log.is_growing(now)
    }

    /// A stretch of the index that is to be put on a huge page.
    pub(crate) fn begin_huge_index(&mut self) -> Option<usize> {
        self.index.begin_huge()
    }

    /// Puts that stretch on its huge page, if there is one.
    pub(crate) fn end_huge_index(&mut self, stretch: usize, is_ready: bool) {
        self.index.end_huge(stretch, is_ready);
    }

    /// A stretch of the log that is to be put on a huge page.
    pub(crate) fn begin_huge_log(&mut self) -> Option<usize> {
        self.log.begin_huge()
    }

    /// Puts that stretch on its huge page, if there is one.
    pub(crate) fn end_huge_log(&mut self, is_ready: bool) {
        self.log.end_huge(is_ready);
    }
}
