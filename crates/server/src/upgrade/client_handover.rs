//! Client handover: what the event loops give up for a new process, and how far they are.
//!
//! The acceptor begins one and wakes the loops. Each gives up its connections between two requests
//! ([`ClientHandover::give`]), ends those that cannot go over, and says that it has settled: from
//! then on it runs no request. The acceptor ends the handover of clients when the new process did
//! not come, and the loops go on as before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::net::mailbox::{Arrival, Mailbox};

/// What the loops and the acceptor share.
#[derive(Debug, Default)]
pub(crate) struct ClientHandover {
    /// Odd while one is under way; each beginning and each end is one more.
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
    /// The present number; one is under way if it is odd.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Asks all loops to give up their connections.
    pub(crate) fn begin(&self, loops: &[Mailbox]) {
        *self.lock() = HandedOver::default();
        self.step(loops);
    }

    /// Has them go on; what they have given up.
    pub(crate) fn end(&self, loops: &[Mailbox]) -> Vec<Arrival> {
        self.step(loops);
        self.take()
    }

    fn step(&self, loops: &[Mailbox]) {
        self.number.fetch_add(1, Ordering::Release);
        loops.iter().for_each(|mailbox| mailbox.waker.wake());
    }

    /// Gives a connection up, in the handover of clients with this number; or it is over, and the
    /// connection comes back.
    pub(crate) fn give(&self, number: u64, arrival: Arrival) -> Option<Arrival> {
        let mut given = self.lock();
        if self.number() != number {
            return Some(arrival);
        }
        given.arrivals.push(arrival);
        None
    }

    /// Notes that a loop has settled.
    pub(crate) fn settle(&self, number: u64) {
        let mut given = self.lock();
        given.settled += usize::from(self.number() == number);
    }

    /// How many loops have settled.
    pub(crate) fn settled(&self) -> usize {
        self.lock().settled
    }

    /// Takes what was given up so far.
    pub(crate) fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut self.lock().arrivals)
    }

    fn lock(&self) -> MutexGuard<'_, HandedOver> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
