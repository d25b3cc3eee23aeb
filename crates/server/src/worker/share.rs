//! Share: how long one connection's requests may run in one turn before the others' come.
//!
//! The clock is read behind requests that do not take constant time, those whose time depends on
//! what is stored or asked for, and behind each list of steps. A connection that has used up its
//! share keeps its other requests for the next turn. In a turn that has become long each connection
//! is left with one such request.
//!
//! Invariant: each connection executes at least one request of a turn, so all of them get on.
//! Why: docs/decisions/0026, 0036. Tests: at the end of this file, tests/complexity.rs.

/// Time that one connection's requests may take in one turn, in microseconds.
const SHARE_US: u64 = 1_000;
/// Time from which on a turn counts as long, in microseconds.
const LONG_TURN_US: u64 = 4_000;

/// Time from which on a turn takes no further connection that goes on, in microseconds.
pub(super) const TURN_US: u64 = 1_000;

/// The times of one batch.
#[derive(Debug)]
pub(super) struct Shares {
    began_us: u64,
    /// When the clock was read last.
    seen_us: u64,
    /// The span that is being executed.
    span: usize,
    used_us: u64,
}

impl Shares {
    /// The shares of a batch that begins now, in a turn that began then.
    pub(super) fn of_turn(began_us: u64, us: u64) -> Shares {
        Shares {
            began_us,
            seen_us: us,
            span: 0,
            used_us: 0,
        }
    }

    /// Notes that a request of a span has ended; whether the span's share is used up.
    pub(super) fn note(&mut self, span: usize, us: u64) -> bool {
        if self.span != span {
            (self.span, self.used_us) = (span, 0);
        }
        self.used_us += us.saturating_sub(self.seen_us);
        self.seen_us = us;
        self.used_us >= SHARE_US || us.saturating_sub(self.began_us) >= LONG_TURN_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_share_and_the_next_one_its_own() {
        let mut shares = Shares::of_turn(100, 100);
        assert!(!shares.note(0, 100 + SHARE_US - 1));
        assert!(shares.note(0, 100 + SHARE_US));
        assert!(!shares.note(1, 100 + SHARE_US + 1));
        assert!(shares.note(1, 100 + 2 * SHARE_US));
    }

    #[test]
    fn in_a_long_turn_one_request_is_enough() {
        let mut shares = Shares::of_turn(0, 0);
        assert!(shares.note(0, LONG_TURN_US));
        assert!(shares.note(1, LONG_TURN_US + 1));
        assert!(shares.note(2, LONG_TURN_US + 2));
        let mut later = Shares::of_turn(0, LONG_TURN_US + 3);
        assert!(later.note(0, LONG_TURN_US + 4));
    }
}
