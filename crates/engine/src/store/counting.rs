//! Counting: brings near deadlines into the timer wheels.
//!
//! A distant deadline is counted only in the expiry histogram of its segment. When the horizon of
//! the wheels has moved on, maintenance goes through the segments in which something may expire
//! before it, one in each step. It has two minutes for that; the horizon does not move again before
//! it has finished.
//!
//! Why: docs/decisions/0037. Tests: tests/counting.rs.

use crate::base::clock::Instant;
use crate::base::serialize::serialize;
use crate::log::Log;
use crate::log::item::Entry;
use crate::log::segment::Use;
use crate::store::tally::Tally;

/// How far the search for near deadlines has come.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// The segment that is looked at next, if the horizon has moved since all were.
    next: Option<u32>,
}

serialize!(Counting { next });

impl Counting {
    /// Turns the timer wheels to `now`, and goes through one segment for deadlines that have come
    /// near; whether others are still to be looked at.
    pub(super) fn step(&mut self, log: &mut Log, tally: &mut Tally, now: Instant) -> bool {
        tally.turn(now);
        if self.next.is_none() && tally.look_further() {
            log.set_horizon(tally.position().horizon());
            self.next = Some(0);
        }
        while let Some(number) = self.next {
            if number as usize >= log.table_len() {
                self.next = None;
                break;
            }
            self.next = Some(number + 1);
            if bring_near(number, log, tally) {
                return true;
            }
        }
        false
    }
}

/// Gives a segment the horizon that it should have; whether its items had to be looked at.
fn bring_near(number: u32, log: &mut Log, tally: &mut Tally) -> bool {
    let position = tally.position();
    let segment = log.segment(number);
    let is_used = matches!(segment.used, Use::Open | Use::Sealed);
    if !is_used || segment.horizon == position.horizon() {
        return false;
    }
    let (from, until) = position.between();
    let is_looked_at = segment.may_end_between(from, until);
    if is_looked_at {
        count_items_of(number, log, tally);
    }
    log.segment_mut(number).horizon = position.horizon();
    is_looked_at
}

fn count_items_of(number: u32, log: &Log, tally: &mut Tally) {
    let segment = log.segment(number);
    let (mut cursor, end) = log.bounds(number);
    while cursor < end {
        let entry = log.read(cursor);
        cursor += entry.total_bytes();
        if let Entry::Item(layout) = entry
            && !tally.is_flushed(segment.flushed, layout.space())
        {
            tally.come_near(layout.space(), segment.due(layout.deadline));
        }
    }
}
