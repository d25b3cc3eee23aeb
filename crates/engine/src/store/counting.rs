//! Counting: brings near deadlines into the timer wheels.
//!
//! A distant deadline is counted only in the expiry histogram of its segment. When the horizon of
//! the wheels has moved on, maintenance goes through the segments in which something may expire
//! before it, one in each step. It has two minutes for that; the horizon does not move again before
//! it has finished.
//!
//! Why: docs/decisions/0037. Tests: tests/counting.rs.

use super::Store;
use crate::clock::Instant;
use crate::item::Entry;
use crate::segment::Use;

impl Store {
    /// Turns the timer wheels to `now`, and goes through one segment for deadlines that have come
    /// near; whether others are still to be looked at.
    pub(crate) fn count_deadlines(&mut self, now: Instant) -> bool {
        self.tally.turn(now);
        if self.counting.is_none() && self.tally.look_further() {
            self.log.set_horizon(self.tally.position().horizon());
            self.counting = Some(0);
        }
        while let Some(number) = self.counting {
            if number as usize >= self.log.table_len() {
                self.counting = None;
                break;
            }
            self.counting = Some(number + 1);
            if self.bring_near(number) {
                return true;
            }
        }
        false
    }

    /// Gives a segment the horizon that it should have; whether its items had to be looked at.
    fn bring_near(&mut self, number: u32) -> bool {
        let position = self.tally.position();
        let segment = self.log.segment(number);
        let is_used = matches!(segment.used, Use::Open | Use::Sealed);
        if !is_used || segment.horizon == position.horizon() {
            return false;
        }
        let (from, until) = position.between();
        let is_looked_at = segment.may_end_between(from, until);
        if is_looked_at {
            self.count_items_of(number);
        }
        self.log.segment_mut(number).horizon = position.horizon();
        is_looked_at
    }

    fn count_items_of(&mut self, number: u32) {
        let flushed = self.log.segment(number).flushed;
        let (mut cursor, end) = self.bounds(number);
        while cursor < end {
            let entry = self.log.read(cursor);
            cursor += entry.total_bytes();
            if let Entry::Item(layout) = entry
                && !self.tally.is_flushed(flushed, layout.space())
            {
                let due = self.log.segment(number).due(layout.deadline);
                self.tally.come_near(layout.space(), due);
            }
        }
    }
}
