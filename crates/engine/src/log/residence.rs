//! Residence: when the memory of free segments is touched, given back, or put on huge pages.
//!
//! These take longer than a lock may be held, so upkeep does them between a `begin` and an `end`
//! under the lock; what happens meanwhile leaves that memory alone.
//!
//! Why: docs/decisions/0014. Tests: tests/evict.rs.

use super::Log;
use crate::clock::Instant;
use crate::memory::HUGE_PAGE_BYTES;
use crate::segment::{Queue, Segment, Use};
use crate::timescale::Timescale;

/// Stretches that one call looks at for a huge page.
const STRETCHES_LOOKED_AT: usize = 64;
/// Only segments that stayed free for this long are given back, and one is kept.
const RELEASE_PERIOD_MS: u64 = 500;
const FREE_KEPT: usize = 1;
/// Memory of a growing queue that is touched ahead of its use: of the open segment, or of the free
/// ones if segments are that small.
const AHEAD_BYTES: usize = 64 << 10;
/// A log that took fresh memory counts as growing for this long.
const GROWING_MS: u64 = 500;

impl Log {
    /// A fresh segment to be touched ahead of its use, if segments were opened since the last call
    /// and few are free; nobody uses it until [`Log::end_touch`].
    pub(crate) fn begin_touch(&mut self, now: Instant) -> Option<u32> {
        if !self.opened {
            return None;
        }
        if self.free.len() >= AHEAD_BYTES / self.segment_bytes() {
            self.opened = false;
            return None;
        }
        let number = self.take_fresh()?;
        self.grew_at = Some(now);
        let room_bytes = self.segment_bytes();
        let scale = Timescale::new(0, 0);
        self.segments[number as usize] =
            Segment::of(Use::InTransit, Queue::Small, scale, room_bytes);
        Some(number)
    }

    /// Makes a segment free whose memory was touched.
    pub(crate) fn end_touch(&mut self, segment: u32) {
        self.segments[segment as usize].used = Use::Free;
        self.free.push(segment);
    }

    /// What of the open segments' memory should be touched ahead, as offset and length; it is
    /// taken for touched from here on.
    pub(crate) fn touch_open(&mut self, now: Instant) -> Option<(usize, usize)> {
        for queue in [Queue::Small, Queue::Main] {
            let Some(number) = self.open[queue as usize] else {
                continue;
            };
            let start = self.start_of(number);
            let segment = self.segment(number);
            let (written, end) = (
                start + segment.written_bytes(),
                start + segment.room_bytes(),
            );
            let touched = self.touched[queue as usize];
            if touched < end && touched < written + AHEAD_BYTES / 2 {
                let upto = (written + AHEAD_BYTES).min(end);
                self.touched[queue as usize] = upto;
                self.grew_at = Some(now);
                return Some((touched, upto - touched));
            }
        }
        None
    }

    /// Whether fresh memory was taken not long ago.
    pub(crate) fn is_growing(&self, now: Instant) -> bool {
        self.grew_at.is_some_and(|at| now.0 < at.0 + GROWING_MS)
    }

    /// A stretch of the size of a huge page that is resident as a whole and not on one yet; none of
    /// it is given back until [`Log::end_huge`].
    pub(crate) fn begin_huge(&mut self) -> Option<usize> {
        let in_stretch = HUGE_PAGE_BYTES >> self.arena.segment_shift();
        let stretches = self.segments.len() / in_stretch;
        for _ in 0..stretches.min(STRETCHES_LOOKED_AT) {
            let stretch = self.next_stretch % stretches;
            self.next_stretch = stretch + 1;
            let region = self.arena.region();
            let first = stretch * in_stretch;
            let is_whole = (first..first + in_stretch).all(|number| self.is_resident(number));
            if is_whole && stretch < region.stretches() && !region.is_huge(stretch) {
                region.claim_huge(stretch);
                self.growing_huge = Some(stretch);
                return Some(stretch);
            }
        }
        None
    }

    /// Whether all of a segment's memory is in use, and it is no part of an extent.
    fn is_resident(&self, number: usize) -> bool {
        let segment = &self.segments[number];
        let is_regular = segment.room_bytes() == self.segment_bytes();
        is_regular && matches!(segment.used, Use::Sealed | Use::Free)
    }

    /// Lets go of the stretch that was put on a huge page.
    pub(crate) fn end_huge(&mut self) {
        self.growing_huge = None;
    }

    fn is_held(&self, segment: u32) -> bool {
        self.growing_huge == Some(self.start_of(segment) / HUGE_PAGE_BYTES)
    }

    /// A free segment whose memory is to go back to the system, because nobody needed it for a
    /// while; nobody uses it until [`Log::end_release`].
    pub(crate) fn begin_release(&mut self, now: Instant) -> Option<u32> {
        if now >= self.surplus_known_until {
            self.surplus = self.free_low.saturating_sub(FREE_KEPT);
            self.free_low = self.free.len();
            self.surplus_known_until = Instant(now.0 + RELEASE_PERIOD_MS);
        }
        if self.surplus == 0 {
            return None;
        }
        let place = self
            .free
            .iter()
            .rposition(|&number| !self.is_held(number))?;
        let number = self.free.swap_remove(place);
        self.surplus -= 1;
        self.free_low = self.free_low.min(self.free.len());
        self.segments[number as usize].used = Use::InTransit;
        Some(number)
    }

    /// Gives the budget of a segment back whose memory has gone to the system.
    pub(crate) fn end_release(&mut self, segment: u32) {
        self.forget(segment);
    }

    /// Gives the memory of one free segment back to the budget; `false` if there is none.
    pub(crate) fn release_free(&mut self) -> bool {
        self.collect_drained();
        let Some(place) = self.free.iter().rposition(|&number| !self.is_held(number)) else {
            return false;
        };
        let number = self.free.swap_remove(place);
        self.free_low = self.free_low.min(self.free.len());
        self.release(number);
        true
    }

    pub(super) fn release(&mut self, segment: u32) {
        let room_bytes = self.segment(segment).room_bytes();
        self.arena
            .region()
            .release(self.start_of(segment), room_bytes);
        self.forget(segment);
    }

    /// Makes a segment unused whose memory has gone back.
    fn forget(&mut self, segment: u32) {
        let room_bytes = self.segment(segment).room_bytes();
        let span = room_bytes.div_ceil(self.segment_bytes()) as u32;
        for number in segment..segment + span {
            self.segments[number as usize] = Segment::unused();
        }
        self.unused_from = self.unused_from.min(segment as usize);
        self.resident_bytes -= room_bytes;
        self.budget.give(room_bytes);
    }
}
