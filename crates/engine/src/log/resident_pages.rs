//! Resident pages: when the memory of free segments is touched, released, moved to huge pages, or
//! used for an expiry histogram.
//!
//! All but the last take longer than a lock may be held. Background maintenance does them between a
//! `begin` and an `end` under the lock; requests leave that memory alone meanwhile.
//!
//! Why: docs/decisions/0014. Tests: tests/evict.rs.

use super::Log;
use crate::base::clock::Instant;
use crate::deadlines::deadline_encoding::DeadlineEncoding;
use crate::log::segment::{HISTOGRAM_BYTES, Queue, STREAMS, Segment, Use};
use crate::memory::{HUGE_PAGE_BYTES, whole_pages};

/// Stretches that one call looks at for a huge page.
const STRETCHES_LOOKED_AT: usize = 64;
/// Only segments that stayed free for this long are released.
const RELEASE_PERIOD_MS: u64 = 10_000;
/// The same while memory is to be released soon ([`Config::release_memory`](crate::Config)), and
/// how many stay free then.
const RELEASE_SOON_PERIOD_MS: u64 = 500;
const FREE_KEPT: usize = 1;
/// Memory of a growing log that is touched ahead of its use: this part of its memory, within
/// bounds.
const AHEAD_SHARE: usize = 256;
const AHEAD_BYTES: usize = 32 << 10;
const AHEAD_BYTES_MAX: usize = 512 << 10;
/// Bytes at the end of an open segment that go back to the system in one step: tens of
/// microseconds under the shard's lock.
const RELEASED_BYTES: usize = 256 << 10;
/// A log that took fresh memory counts as growing for this long.
const GROWING_MS: u64 = 500;

/// Memory to be touched, as offset and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    /// The segment it begins, if that is a fresh one.
    fresh: Option<u32>,
}

impl Log {
    /// Memory to be touched ahead of its use: of an open segment, or of a fresh one, which stays
    /// unused until [`Log::end_touch`]; `None` if enough is ready.
    pub(crate) fn begin_touch(&mut self, now: Instant) -> Option<Touch> {
        if self.arena.region().is_shared() {
            // Whether the file has the memory must be known before anybody counts on it.
            return None;
        }
        let ahead = self.bytes_ahead();
        for queue in [Queue::Small, Queue::Main] {
            let Some(number) = self.open[queue as usize] else {
                continue;
            };
            let start = self.start_of(number);
            let segment = self.segment(number);
            let written = start + segment.written_bytes();
            let end = start + segment.room_bytes();
            let touched = self.touched[queue as usize].max(written);
            let ready = touched - written + self.free.len() * self.segment_bytes();
            if ready >= ahead / 2 {
                continue;
            }
            if touched == end {
                return self.begin_touch_fresh(ahead, now);
            }
            let upto = (written + ahead).min(end);
            self.touched[queue as usize] = upto;
            self.grew_at = Some(now);
            return Some(Touch {
                at: touched,
                bytes: upto - touched,
                fresh: None,
            });
        }
        None
    }

    /// How much memory of a growing log is touched ahead of its use.
    fn bytes_ahead(&self) -> usize {
        (self.resident_bytes / AHEAD_SHARE).clamp(AHEAD_BYTES, AHEAD_BYTES_MAX)
    }

    /// Gives memory back to the system at the end of an open segment, but not what is touched
    /// ahead; how many bytes. None unless nothing was stored in any open segment for ten seconds,
    /// and none of a file, as in [`Log::surplus`]. The segment stays paid for.
    pub(crate) fn release_quiet_end(&mut self, now: Instant) -> usize {
        if self.arena.region().is_shared() {
            return 0;
        }
        let open = self.open.iter().flatten();
        let ends = open.map(|&number| self.bounds(number).1);
        // The low bits of these numbers change with each item.
        let ends = ends.fold(0, usize::wrapping_add) as u32;
        let now_s = (now.0 / 1000) as u32;
        if self.ends_of_open != ends {
            (self.ends_of_open, self.quiet_since_s) = (ends, now_s);
        }
        if u64::from(now_s.saturating_sub(self.quiet_since_s)) * 1000 <= RELEASE_PERIOD_MS {
            return 0;
        }
        let ahead = self.bytes_ahead();
        for at in 0..STREAMS {
            let Some(number) = self.open[at] else {
                continue;
            };
            let kept = whole_pages(self.bounds(number).1 + ahead);
            let touched = self.touched[at];
            if kept < touched && !self.is_held(number) {
                let from = kept.max(touched.saturating_sub(RELEASED_BYTES));
                self.arena.region().release(from, touched - from);
                self.touched[at] = from;
                return touched - from;
            }
        }
        0
    }

    fn begin_touch_fresh(&mut self, ahead: usize, now: Instant) -> Option<Touch> {
        let number = self.take_fresh(0)?;
        self.grew_at = Some(now);
        let room_bytes = self.segment_bytes();
        let encoding = DeadlineEncoding::new(0, 0);
        self.segments[number as usize] = Segment::of(
            Use::InTransit,
            Queue::Small,
            encoding,
            self.horizon,
            room_bytes,
        );
        Some(Touch {
            at: self.start_of(number),
            bytes: ahead.min(room_bytes),
            fresh: Some(number),
        })
    }

    /// Makes the segment free whose memory was touched, if it was a fresh one.
    pub(crate) fn end_touch(&mut self, touch: &Touch) {
        if let Some(number) = touch.fresh {
            self.segments[number as usize].used = Use::Free;
            self.free.push(number);
            if touch.bytes < self.segment_bytes() {
                self.head = Some((number, touch.at + touch.bytes));
            }
        }
    }

    /// Whether fresh memory was taken not long ago.
    pub(crate) fn is_growing(&self, now: Instant) -> bool {
        self.grew_at.is_some_and(|at| now.0 < at.0 + GROWING_MS)
    }

    /// A stretch of the size of a huge page that is resident as a whole and not on one yet; none of
    /// it is given back until [`Log::end_huge`].
    pub(crate) fn begin_huge(&mut self) -> Option<usize> {
        if self.growing_huge.is_some() {
            return None;
        }
        let in_stretch = HUGE_PAGE_BYTES >> self.arena.segment_shift();
        let stretches = self.segments.len() / in_stretch;
        for _ in 0..stretches.min(STRETCHES_LOOKED_AT) {
            let stretch = self.next_stretch % stretches;
            self.next_stretch = stretch + 1;
            let region = self.arena.region();
            if stretch >= region.stretches() || region.is_huge(stretch) {
                continue;
            }
            let first = stretch * in_stretch;
            if (first..first + in_stretch).all(|number| self.is_settled(number)) {
                region.claim_huge(stretch);
                // The address space has fewer stretches than that.
                self.growing_huge = Some(stretch as u32);
                return Some(stretch);
            }
        }
        None
    }

    /// Whether all of a segment's memory is in use, it is no part of an extent, and it is not used
    /// outside the shard's lock.
    fn is_settled(&self, number: usize) -> bool {
        let segment = &self.segments[number];
        let is_regular = segment.room_bytes() == self.segment_bytes();
        is_regular
            && self.head.is_none_or(|(head, _)| head as usize != number)
            && matches!(segment.used, Use::Sealed | Use::Free)
            && !self.arena.is_pinned(number as u32)
    }

    /// Puts the stretch on the huge page that was made for it, if there is one, and lets go of it.
    pub(crate) fn end_huge(&mut self, is_ready: bool) {
        let Some(stretch) = self.growing_huge.take().filter(|_| is_ready) else {
            return;
        };
        let stretch = stretch as usize;
        let in_stretch = HUGE_PAGE_BYTES >> self.arena.segment_shift();
        let mut segments = stretch * in_stretch..(stretch + 1) * in_stretch;
        // A draft is written without the lock; a pin may belong to one.
        if segments.any(|number| self.arena.is_pinned(number as u32)) {
            self.arena.region().discard_huge(stretch);
        } else {
            self.arena.region().swap_huge(stretch);
        }
    }

    fn is_held(&self, segment: u32) -> bool {
        let growing = self.growing_huge.map(|stretch| stretch as usize);
        growing == Some(self.start_of(segment) / HUGE_PAGE_BYTES)
    }

    /// A free segment whose memory is to be released, because it was not needed for a while, as
    /// [`Log::surplus`] found; it stays unused until [`Log::end_release`].
    pub(crate) fn begin_release(&mut self) -> Option<u32> {
        if self.surplus == 0 {
            return None;
        }
        let position = self
            .free
            .iter()
            .rposition(|&number| !self.is_held(number))?;
        let number = self.free.swap_remove(position);
        self.surplus -= 1;
        self.free_low = self.free_low.min(self.free.len());
        self.segments[number as usize].used = Use::InTransit;
        Some(number)
    }

    /// How many free segments are to go back to the system: the fewest that were free at one time
    /// of the last ten seconds, or, if they are to go soon, of the last half second, less one. None
    /// of a file unless they are to go soon: others could take the memory of its file system, and
    /// the cache would not get it back.
    pub(crate) fn surplus(&mut self, now: Instant, is_soon: bool) -> u32 {
        if !is_soon && self.arena.region().is_shared() {
            return 0;
        }
        let (period_ms, kept) = match is_soon {
            true => (RELEASE_SOON_PERIOD_MS, FREE_KEPT),
            false => (RELEASE_PERIOD_MS, 0),
        };
        let until = Instant(now.0 + period_ms);
        self.surplus_known_until = self.surplus_known_until.min(until);
        if now >= self.surplus_known_until {
            self.surplus = self.free_low.saturating_sub(kept);
            self.free_low = self.free.len();
            self.surplus_known_until = until;
        }
        u32::try_from(self.surplus.min(self.free.len())).unwrap_or(u32::MAX)
    }

    /// Gives the budget of a segment back whose memory has gone to the system.
    pub(crate) fn end_release(&mut self, segment: u32) {
        self.forget(segment);
    }

    /// Gives memory that holds nothing back to the budget: a piece of an extent, or else a free
    /// segment. How many bytes that were; none if there is none.
    pub(crate) fn release_free(&mut self) -> usize {
        match self.release_piece() {
            0 => self.release_segment(),
            bytes => bytes,
        }
    }

    /// Gives the memory of one free segment back to the budget; how many bytes.
    pub(crate) fn release_segment(&mut self) -> usize {
        let Some(position) = self.free.iter().rposition(|&number| !self.is_held(number)) else {
            return 0;
        };
        let number = self.free.swap_remove(position);
        self.free_low = self.free_low.min(self.free.len());
        self.release(number);
        self.segment_bytes()
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
        self.head = self.head.filter(|&(head, _)| head != segment);
        self.unused_from = self.unused_from.min(segment as usize);
        self.resident_bytes -= room_bytes;
        self.share.give(room_bytes);
    }

    /// Takes the memory of a segment's expiry histogram, if need be out of a free segment, but
    /// not the last one.
    pub(super) fn pay_for_histogram(&mut self) -> bool {
        while !self.budget().take(HISTOGRAM_BYTES) {
            if self.free.len() < 2 || self.release_free() == 0 {
                return false;
            }
        }
        self.histogram_bytes += HISTOGRAM_BYTES;
        true
    }

    /// Gives the memory of a histogram back, if there was one.
    pub(super) fn give_back_histogram(&mut self, was_there: bool) {
        if was_there {
            self.histogram_bytes -= HISTOGRAM_BYTES;
            self.budget().give(HISTOGRAM_BYTES);
        }
    }
}
