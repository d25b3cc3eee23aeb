//! Run queue: whose turn it is, and in which order.
//!
//! A connection that the poller has just reported is *fresh*: each turn serves all of those. One
//! that has something left from an earlier turn (more requests than its share, a reply too long for
//! one turn) *goes on* behind them, in the order of arrival, as long as the turn is not long; so
//! does one that comes anew with what may take long when the turn is long already. So who asks for
//! little does not wait for all who have asked for much.
//!
//! Invariant: a turn takes a connection that goes on at most once, and some of them whenever there
//! are any, so all get on.
//! Why: docs/decisions/0036. Tests: at the end of this file, tests/turns.rs.

/// The slots of connections with something to do.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    fresh: Vec<u32>,
    going_on: Vec<u32>,
    /// Those that go on and had no time in this turn although it was their turn.
    ahead: Vec<u32>,
    /// Empty lists, for the next turn.
    resting: [Vec<u32>; 2],
}

/// What one turn works on.
#[derive(Debug)]
pub(super) struct Turn {
    /// Those that were reported.
    pub(super) fresh: Vec<u32>,
    /// Those that go on, the longest waiting first.
    pub(super) going_on: Vec<u32>,
}

impl RunQueue {
    /// Whether nobody has anything to do.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.going_on.is_empty()
    }

    /// Lines up a connection that was reported.
    #[inline]
    pub(super) fn push_fresh(&mut self, slot: u32) {
        self.fresh.push(slot);
    }

    /// Lines up a connection that has something left.
    #[inline]
    pub(super) fn push(&mut self, slot: u32) {
        self.going_on.push(slot);
    }

    /// How many have something left.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.going_on.len()
    }

    /// Lets those that have lined up since there were so many keep their place: the next turn
    /// begins with them.
    #[cold]
    pub(super) fn keep_place_since(&mut self, len: usize) {
        self.ahead.extend(self.going_on.drain(len..));
    }

    /// Takes all; who lines up from now on is for the next turn.
    #[inline]
    pub(super) fn begin(&mut self) -> Turn {
        let [one, other] = std::mem::take(&mut self.resting);
        Turn {
            fresh: std::mem::replace(&mut self.fresh, one),
            going_on: std::mem::replace(&mut self.going_on, other),
        }
    }

    /// Ends a turn that has served so many of those that go on; the others stay ahead of all.
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
        // The fresh one and the first that went on have more to do.
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
        // Of 1 to 4 the first two had their turn, of which 1 has more to do, as has 9.
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
