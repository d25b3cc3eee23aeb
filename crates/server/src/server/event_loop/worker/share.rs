//! Share: how long the requests of one connection may run in an iteration of the event loop.
//!
//! The clock is read before and after requests that do not take constant time, after the
//! [`UNTIMED_MAX`]th of a connection's others but plain gets and sets, and around each list of
//! steps that others follow. A connection that has used up its share keeps its other requests for
//! the next iteration. In a long time slice each connection may run one such request, and one that
//! has not begun waits for another iteration. So an iteration is hardly longer than its longest
//! request, and short requests are answered in it.
//!
//! Invariant: at least one resumed connection makes progress in each iteration, those at the front
//! first.
//! Why: docs/decisions/0026, 0036, 0104. Tests: at the end of this file, tests/turns.rs,
//! tests/complexity.rs.

/// Time that one connection's requests may take in one iteration, in microseconds.
const SHARE_US: u64 = 1_000;
/// The same for short requests. It is lower, because it costs little to stop between two of them.
const SHORT_SHARE_US: u64 = 150;
/// The clock is read after so many short requests of a connection, so a pipeline of as many is
/// never cut.
const UNTIMED_MAX: u32 = 32;
/// The time of a connection's short requests begins with this one, so for fewer no clock is read.
const TIMED_FROM: u32 = 4;
/// Time from which on a time slice counts as long, in microseconds.
const LONG_SLICE_US: u64 = 4_000;
/// The least time that an iteration has for resumed connections, in microseconds.
const GOING_ON_US: u64 = 1_000;

/// The time slice of newly ready connections in an iteration, or that of resumed ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeSlice {
    /// Whether it is that of newly ready connections.
    pub(super) is_fresh: bool,
    began_us: u64,
    /// From when on it takes no further connection.
    ends_us: u64,
}

impl TimeSlice {
    /// That of the newly ready connections, in an iteration that began then: it serves all of them.
    pub(super) fn of_fresh(began_us: u64) -> TimeSlice {
        TimeSlice {
            is_fresh: true,
            began_us,
            ends_us: u64::MAX,
        }
    }

    /// That of the resumed connections, which begins now: as long as the one before, within bounds.
    pub(super) fn of_going_on(before: TimeSlice, us: u64) -> TimeSlice {
        let taken_us = us.saturating_sub(before.began_us);
        TimeSlice {
            is_fresh: false,
            began_us: us,
            ends_us: us + taken_us.clamp(GOING_ON_US, LONG_SLICE_US),
        }
    }

    /// Whether requests that may take long have to wait.
    #[inline]
    pub(super) fn is_long(&self, us: u64) -> bool {
        us.saturating_sub(self.began_us) >= LONG_SLICE_US
    }

    /// Whether it takes no further connection.
    #[inline]
    pub(super) fn is_over(&self, us: u64) -> bool {
        us >= self.ends_us
    }
}

/// The times of one batch.
#[derive(Debug)]
pub(super) struct Shares {
    time_slice: TimeSlice,
    /// When the clock was read last; none if it was not yet.
    seen_us: Option<u64>,
    /// Whether another list of steps follows this one.
    is_followed: bool,
    /// The span that is being executed.
    span: usize,
    used_us: u64,
    /// Short requests of the span; after each reading of the clock it counts on from
    /// [`TIMED_FROM`].
    untimed: u32,
}

impl Shares {
    /// The shares of a batch, of which no time is known.
    pub(super) fn new(time_slice: TimeSlice) -> Shares {
        Shares {
            time_slice,
            seen_us: None,
            is_followed: false,
            span: 0,
            used_us: 0,
            untimed: 0,
        }
    }

    /// Begins a list of steps; others of the batch may follow. The clock is read if the time counts
    /// that they take.
    #[inline]
    pub(super) fn begin_list(&mut self, is_followed: bool, us: impl FnOnce() -> u64) {
        self.is_followed = is_followed;
        if is_followed {
            self.seen_us.get_or_insert_with(us);
        }
    }

    /// Ends a list of steps, the last of which is of this span; returns whether the span's share is
    /// used up.
    #[inline]
    pub(super) fn end_list(&mut self, span: usize, us: impl FnOnce() -> u64) -> bool {
        self.is_followed && self.note(span, us())
    }

    /// Whether a request that may take long has to wait for another iteration. Its time counts, so
    /// the clock is read if it was not.
    #[inline]
    pub(super) fn are_spent(&mut self, us: impl FnOnce() -> u64) -> bool {
        let seen_us = *self.seen_us.get_or_insert_with(us);
        self.time_slice.is_long(seen_us)
    }

    /// Records that a short request of a span has ended; returns whether the span's share is used
    /// up. A write to a large collection takes several times as long as a plain set, and one read
    /// from a socket may bring some hundreds of them.
    #[inline]
    pub(super) fn note_short(&mut self, span: usize, us: impl FnOnce() -> u64) -> bool {
        self.enter(span);
        self.untimed += 1;
        match self.untimed {
            TIMED_FROM => {
                self.seen_us = Some(us());
                false
            }
            UNTIMED_MAX => {
                self.untimed = TIMED_FROM;
                self.note(span, us()) || self.used_us >= SHORT_SHARE_US
            }
            _ => false,
        }
    }

    /// Records that a request of a span has ended; returns whether the span's share is used up.
    pub(super) fn note(&mut self, span: usize, us: u64) -> bool {
        self.enter(span);
        self.used_us += us.saturating_sub(self.seen_us.unwrap_or(us));
        self.seen_us = Some(us);
        self.used_us >= SHARE_US || self.time_slice.is_long(us)
    }

    /// Begins the share of a span if another one ran before.
    #[inline]
    fn enter(&mut self, span: usize) {
        if self.span != span {
            (self.span, self.used_us, self.untimed) = (span, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_span_has_its_share_and_the_next_one_its_own() {
        let mut shares = Shares::new(TimeSlice::of_fresh(100));
        shares.begin_list(true, || 100);
        assert!(!shares.note(0, 100 + SHARE_US - 1));
        assert!(shares.end_list(0, || 100 + SHARE_US));
        assert!(!shares.note(1, 100 + SHARE_US + 1));
        assert!(shares.note(1, 100 + 2 * SHARE_US));
    }

    #[test]
    fn many_short_requests_use_up_a_share_and_a_short_pipeline_does_not() {
        // The clock is read after 32 requests and then after every 28.
        for (request_us, answered) in [(20, 32), (5, 60), (2, 88)] {
            let us = Cell::new(0);
            let mut shares = Shares::new(TimeSlice::of_fresh(0));
            assert!(!shares.note(0, 900));
            // What another connection took does not count.
            let is_cut = |_: &u32| {
                us.set(us.get() + request_us);
                shares.note_short(1, || us.get())
            };
            assert_eq!((1..1_000).find(is_cut), Some(answered), "{request_us} us");
        }
    }

    #[test]
    fn few_short_requests_of_each_connection_need_no_clock() {
        let mut shares = Shares::new(TimeSlice::of_fresh(0));
        for span in 0..50 {
            for _ in 1..TIMED_FROM {
                assert!(!shares.note_short(span, || panic!("the clock was read")));
            }
        }
    }

    #[test]
    fn quick_requests_that_none_follow_need_no_clock() {
        let mut shares = Shares::new(TimeSlice::of_fresh(100));
        shares.begin_list(false, || panic!("the clock was read"));
        assert!(!shares.end_list(0, || panic!("the clock was read")));
        assert!(!shares.are_spent(|| 200));
        assert!(shares.note(0, 200 + SHARE_US));
    }

    #[test]
    fn in_a_long_half_one_request_is_enough_and_who_has_not_begun_waits() {
        let mut shares = Shares::new(TimeSlice::of_fresh(0));
        assert!(!shares.are_spent(|| 0));
        assert!(shares.note(0, LONG_SLICE_US));
        assert!(shares.are_spent(|| unreachable!("it was read")));
        assert!(shares.note(1, LONG_SLICE_US + 1));
        let mut later = Shares::new(TimeSlice::of_fresh(0));
        assert!(later.are_spent(|| LONG_SLICE_US + 3));
        assert!(later.note(0, LONG_SLICE_US + 4));
    }

    #[test]
    fn those_that_go_on_have_as_long_as_those_that_came_anew() {
        for (taken_us, has_us) in [
            (0, GOING_ON_US),
            (2_500, 2_500),
            (60_000_000, LONG_SLICE_US),
        ] {
            let fresh = TimeSlice::of_fresh(70);
            assert!(!fresh.is_over(70 + taken_us));
            let going_on = TimeSlice::of_going_on(fresh, 70 + taken_us);
            assert!(!going_on.is_long(70 + taken_us));
            assert!(!going_on.is_over(70 + taken_us + has_us - 1));
            assert!(going_on.is_over(70 + taken_us + has_us));
        }
    }
}
