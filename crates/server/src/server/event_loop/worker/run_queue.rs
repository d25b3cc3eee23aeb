//! Run queue: the connections that have something to do, in order.
//!
//! A connection that the poller has just reported is *fresh*: each iteration serves all of those. A
//! connection with something left from an earlier iteration (more requests than its share, a reply
//! too long for one iteration) is *resumed* behind them, in the order of arrival, while the
//! iteration is short. The same holds for a fresh connection whose request may take long when the
//! iteration is long already. So short requests do not wait for all long ones.
//!
//! Invariant: an iteration serves a resumed connection at most once, and some of them whenever any
//! wait, so all make progress.
//! Why: docs/decisions/0036. Tests: at the end of this file, tests/turns.rs.

/// The slots of connections with something to do.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    fresh: Vec<u32>,
    going_on: Vec<u32>,
    /// Resumed connections that the last iteration had no time for.
    ahead: Vec<u32>,
    /// Empty lists, for the next iteration.
    resting: [Vec<u32>; 2],
}

/// The connections that one iteration serves.
#[derive(Debug)]
pub(super) struct Turn {
    /// The fresh ones.
    pub(super) fresh: Vec<u32>,
    /// The resumed ones, the longest waiting first.
    pub(super) going_on: Vec<u32>,
}

impl RunQueue {
    /// Whether no connection has anything to do.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.going_on.is_empty()
    }

    /// Queues a connection that the poller has reported.
    #[inline]
    pub(super) fn push_fresh(&mut self, slot: u32) {
        self.fresh.push(slot);
    }

    /// Queues a connection that has something left.
    #[inline]
    pub(super) fn push(&mut self, slot: u32) {
        self.going_on.push(slot);
    }

    /// How many have something left.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.going_on.len()
    }

    /// Moves the resumed connections queued from index `len` on to the front of the next iteration.
    #[cold]
    pub(super) fn keep_place_since(&mut self, len: usize) {
        self.ahead.extend(self.going_on.drain(len..));
    }

    /// Takes all; connections queued from now on wait for the next iteration.
    #[inline]
    pub(super) fn begin(&mut self) -> Turn {
        let [one, other] = std::mem::take(&mut self.resting);
        Turn {
            fresh: std::mem::replace(&mut self.fresh, one),
            going_on: std::mem::replace(&mut self.going_on, other),
        }
    }

    /// Ends an iteration that has served `served` of the resumed connections; the others stay
    /// first.
    #[inline]
    pub(super) fn end(&mut self, turn: Turn, served: usize) {
        let Turn {
            mut fresh,
            mut going_on,
        } = turn;
        fresh.clear();
        if self.ahead.is_empty() {
            going_on.drain(..served);
        } else {
            going_on.splice(..served, self.ahead.drain(..));
        }
        if !going_on.is_empty() {
            going_on.append(&mut self.going_on);
            std::mem::swap(&mut going_on, &mut self.going_on);
        }
        self.resting = [fresh, going_on];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_not_served_stays_ahead_of_who_lined_up_meanwhile() {
        let mut run_queue = RunQueue::default();
        (1..=4).for_each(|slot| run_queue.push(slot));
        run_queue.push_fresh(9);
        let turn = run_queue.begin();
        assert_eq!(
            (&*turn.fresh, &*turn.going_on),
            (&[9][..], &[1, 2, 3, 4][..])
        );
        assert!(run_queue.is_empty());
        // The fresh connection and the first resumed one have more to do.
        run_queue.push(9);
        run_queue.push(1);
        run_queue.end(turn, 1);
        let turn = run_queue.begin();
        assert_eq!(turn.going_on, [2, 3, 4, 9, 1]);
        run_queue.end(turn, 5);
        assert!(run_queue.is_empty());
    }

    #[test]
    fn who_had_no_time_keeps_its_place() {
        let mut run_queue = RunQueue::default();
        (1..=6).for_each(|slot| run_queue.push(slot));
        let turn = run_queue.begin();
        // Of 1 to 4 the first two were served; 1 and 9 have more to do.
        run_queue.push(9);
        let len = run_queue.len();
        [3, 4].into_iter().for_each(|slot| run_queue.push(slot));
        run_queue.keep_place_since(len);
        run_queue.push(1);
        run_queue.end(turn, 4);
        assert_eq!(run_queue.begin().going_on, [3, 4, 5, 6, 9, 1]);
    }

    #[test]
    fn lists_are_used_again() {
        let mut run_queue = RunQueue::default();
        (0..100).for_each(|slot| run_queue.push_fresh(slot));
        for _ in 0..2 {
            let turn = run_queue.begin();
            assert!(turn.going_on.is_empty());
            run_queue.end(turn, 0);
        }
        assert!(
            run_queue
                .fresh
                .capacity()
                .max(run_queue.resting[0].capacity())
                >= 100
        );
    }
}
