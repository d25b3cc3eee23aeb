//! Client handover: the connections that the event loops hand over to a new process.
//!
//! The acceptor starts a handover and wakes the loops. Each hands over its connections between two
//! requests ([`ClientHandover::give`]), ends those that cannot move, and reports that it has
//! settled: from then on it executes no request. If the new process fails, the acceptor ends the
//! handover, and the loops continue as before.

use std::sync::atomic::{AtomicU64, Ordering};

use cellar_net::mailbox::{Arrival, Mailbox};
use parking_lot::Mutex;

/// The state shared by the loops and the acceptor.
#[derive(Debug, Default)]
pub(crate) struct ClientHandover {
    /// Odd while a handover is in progress; each start and each end adds one.
    // Release and Acquire: a loop that sees the number sees every connection posted before.
    number: AtomicU64,
    given: Mutex<HandedOver>,
}

#[derive(Debug, Default)]
struct HandedOver {
    arrivals: Vec<Arrival>,
    /// Loops that have settled.
    settled: usize,
}

impl ClientHandover {
    /// The current number; a handover is in progress if it is odd.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Asks all loops to hand over their connections.
    pub(crate) fn begin(&self, loops: &[Mailbox]) {
        *self.given.lock() = HandedOver::default();
        self.step(loops);
    }

    /// Ends the handover: the loops continue; returns the connections handed over so far.
    pub(crate) fn end(&self, loops: &[Mailbox]) -> Vec<Arrival> {
        self.step(loops);
        self.take()
    }

    fn step(&self, loops: &[Mailbox]) {
        self.number.fetch_add(1, Ordering::Release);
        loops.iter().for_each(|mailbox| mailbox.waker.wake());
    }

    /// Hands over a connection, in the handover with this number; returns it if that handover has
    /// ended.
    pub(crate) fn give(&self, number: u64, arrival: Arrival) -> Option<Arrival> {
        let mut given = self.given.lock();
        if self.number() != number {
            return Some(arrival);
        }
        given.arrivals.push(arrival);
        None
    }

    /// Records that a loop has settled.
    pub(crate) fn settle(&self, number: u64) {
        let mut given = self.given.lock();
        given.settled += usize::from(self.number() == number);
    }

    /// How many loops have settled.
    pub(crate) fn settled(&self) -> usize {
        self.given.lock().settled
    }

    /// Takes what was given up so far.
    pub(crate) fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut self.given.lock().arrivals)
    }
}
