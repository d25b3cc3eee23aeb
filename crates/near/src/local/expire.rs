//! Expiry: a scan that frees the slots of expired entries.
//!
//! The scan goes around all slots of a shard, a few with each write and more when it is asked to.
//! It pauses as long as nothing can be due: the earliest deadline is known from its last round and
//! from the entries stored since. Reads do not depend on it; they compare the deadline themselves.

use std::time::Duration;

use super::entry::Deadline;

/// Where the scan is, and when it has to continue.
#[derive(Debug)]
pub(super) struct ExpiryScan {
    /// The slot to look at next.
    at: u32,
    /// Entries that have a deadline.
    deadlines: u64,
    /// Nothing is due before.
    due: Deadline,
    /// The earliest deadline that this round has met or that came since it began.
    met: Deadline,
}

impl ExpiryScan {
    pub(super) fn new() -> ExpiryScan {
        ExpiryScan {
            at: 0,
            deadlines: 0,
            due: Deadline::NEVER,
            met: Deadline::NEVER,
        }
    }

    /// An entry got this deadline.
    pub(super) fn gained(&mut self, deadline: Deadline) {
        if deadline.exists() {
            self.deadlines += 1;
            self.due = self.due.min(deadline);
            self.met = self.met.min(deadline);
        }
    }

    /// An entry with this deadline left, or has another one.
    pub(super) fn lost(&mut self, deadline: Deadline) {
        self.deadlines -= u64::from(deadline.exists());
    }

    /// Whether anything may be due, so that it is worth reading the clock.
    pub(super) fn may_be_due(&self, now: impl FnOnce() -> Duration) -> Option<Duration> {
        if self.deadlines == 0 {
            return None;
        }
        let now = now();
        self.is_due(now).then_some(now)
    }

    /// Whether anything may be due now.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.deadlines > 0 && self.due.has_passed(now)
    }

    /// Advances; returns the next slot, of this many.
    pub(super) fn next(&mut self, slots: u32) -> u32 {
        if self.at >= slots {
            self.at = 0;
            self.due = std::mem::replace(&mut self.met, Deadline::NEVER);
        }
        self.at += 1;
        self.at - 1
    }

    /// The slot it looked at holds an entry with this deadline.
    pub(super) fn met(&mut self, deadline: Deadline) {
        self.met = self.met.min(deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Deadline {
        Deadline::after(Duration::ZERO, Duration::from_secs(seconds))
    }

    #[test]
    fn the_scan_pauses_until_the_earliest_deadline() {
        let mut expiry_scan = ExpiryScan::new();
        let due = |expiry_scan: &ExpiryScan, now| {
            expiry_scan
                .may_be_due(|| Duration::from_secs(now))
                .is_some()
        };
        assert!(!due(&expiry_scan, 1_000));
        for seconds in [30, 10, 20] {
            expiry_scan.gained(at(seconds));
        }
        assert!(!due(&expiry_scan, 9) && due(&expiry_scan, 10));
        // One round removes the first; the next round finds the rest.
        assert_eq!(
            (0..3).map(|_| expiry_scan.next(3)).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        expiry_scan.lost(at(10));
        expiry_scan.next(3);
        expiry_scan.met(at(20));
        expiry_scan.next(3);
        expiry_scan.met(at(30));
        assert_eq!((expiry_scan.next(3), expiry_scan.next(3)), (2, 0));
        assert!(!due(&expiry_scan, 19) && due(&expiry_scan, 20));
    }

    #[test]
    fn without_deadlines_the_clock_is_not_read() {
        let mut expiry_scan = ExpiryScan::new();
        expiry_scan.gained(Deadline::NEVER);
        assert_eq!(expiry_scan.may_be_due(|| unreachable!("no deadline")), None);
    }
}
