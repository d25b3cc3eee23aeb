//! The board: which messages were written, and which of them a read may ask for.
//!
//! Messages have rising numbers. A read asks for a message whose write was acknowledged and whose
//! time is not nearly over, so it must find it: the one acknowledged last, or any of them.

use std::collections::{BTreeSet, VecDeque};

use cellar_load::{NS_PER_S, Random};

/// So small a part of their time before its end messages are not asked for any more.
const MARGIN: u64 = 10;

/// What was written to one server.
#[derive(Clone, Debug)]
pub(super) struct Board {
    /// The number of the next message.
    next: u64,
    /// Numbers whose writes were sent and are not acknowledged.
    pending: BTreeSet<u64>,
    /// Acknowledged last, unless it was read back.
    fresh: Option<u64>,
    /// When each second with writes began, and its first number.
    seconds: VecDeque<(u64, u64)>,
    /// How long messages are kept.
    life_ns: u64,
    random: Random,
}

impl Board {
    /// A board without messages, each kept for `life_s`.
    pub(super) fn new(life_s: u64) -> Board {
        Board {
            next: 0,
            pending: BTreeSet::new(),
            fresh: None,
            seconds: VecDeque::new(),
            life_ns: life_s * NS_PER_S,
            random: Random::seeded(1),
        }
    }

    /// A number from 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.random.unit()
    }

    /// How many messages were written.
    pub(super) fn written(&self) -> u64 {
        self.next - self.pending.len() as u64
    }

    /// The next message, which is now written.
    pub(super) fn begin_write(&mut self, now_ns: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.pending.insert(number);
        let is_new = |&(since_ns, _): &(u64, u64)| now_ns.saturating_sub(since_ns) >= NS_PER_S;
        if self.seconds.back().is_none_or(is_new) {
            self.seconds.push_back((now_ns, number));
        }
        number
    }

    /// A write is acknowledged.
    pub(super) fn end_write(&mut self, number: u64) {
        if self.pending.remove(&number) {
            self.fresh = Some(number);
        }
    }

    /// A write was refused: nobody waits for it, and the message is not there.
    pub(super) fn refuse_write(&mut self, number: u64) {
        self.pending.remove(&number);
    }

    /// The message acknowledged last, once.
    pub(super) fn freshest(&mut self) -> Option<u64> {
        self.fresh.take()
    }

    /// Any message that is there, unless the server lost or refused it; `None` without a message.
    pub(super) fn any(&mut self, now_ns: u64) -> Option<u64> {
        self.forget(now_ns);
        let oldest_ns = now_ns.saturating_sub(self.life_ns - self.life_ns / MARGIN);
        let old = self
            .seconds
            .partition_point(|&(since_ns, _)| since_ns < oldest_ns);
        let first = self.seconds.get(old)?.1;
        let end = self.pending.first().copied().unwrap_or(self.next);
        (first < end).then(|| first + self.random.below(end - first))
    }

    /// Whether the time of a message may be over, however late its write came.
    pub(super) fn may_be_over(&self, number: u64, now_ns: u64) -> bool {
        let later = self.seconds.partition_point(|&(_, first)| first <= number);
        let since_ns = later.checked_sub(1).map(|at| self.seconds[at].0);
        since_ns.is_none_or(|since_ns| now_ns.saturating_sub(since_ns) >= self.life_ns)
    }

    /// Forgets seconds that are over for good.
    fn forget(&mut self, now_ns: u64) {
        let is_over = |&(since_ns, _): &(u64, u64)| since_ns + 2 * self.life_ns < now_ns;
        while self.seconds.front().is_some_and(is_over) {
            self.seconds.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = NS_PER_S;

    fn written(board: &mut Board, count: u64, now_ns: u64) {
        for _ in 0..count {
            let number = board.begin_write(now_ns);
            board.end_write(number);
        }
    }

    #[test]
    fn only_acknowledged_messages_are_asked_for() {
        let mut board = Board::new(100);
        assert_eq!(board.any(S), None);
        let (first, second) = (board.begin_write(S), board.begin_write(S));
        assert_eq!((board.any(S), board.freshest()), (None, None));
        board.end_write(second);
        assert_eq!(board.any(S), None, "an earlier write is not acknowledged");
        assert_eq!(board.freshest(), Some(second));
        assert_eq!(board.freshest(), None, "each is read back once");
        board.end_write(first);
        let found: BTreeSet<u64> = (0..100).filter_map(|_| board.any(S)).collect();
        assert_eq!(found, BTreeSet::from([first, second]));
        assert_eq!(board.written(), 2);
    }

    #[test]
    fn messages_whose_time_is_nearly_over_are_not_asked_for() {
        let mut board = Board::new(20);
        for second in 1..=48 {
            written(&mut board, 10, second * S);
        }
        let found: BTreeSet<u64> = (0..10_000).filter_map(|_| board.any(48 * S)).collect();
        // Those of the seconds 30 to 48.
        assert_eq!(found.first(), Some(&290));
        assert_eq!(found.last(), Some(&479));
        assert_eq!(found.len(), 190);
        assert!(board.may_be_over(279, 48 * S), "of second 28");
        assert!(!board.may_be_over(280, 49 * S - 1), "of second 29");
        assert!(board.may_be_over(280, 49 * S));
        assert!(board.may_be_over(0, 48 * S), "forgotten");
        assert_eq!(board.any(100 * S), None);
    }
}
