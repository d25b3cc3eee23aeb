//! A storm: so many new connections each second, from threads that take turns, until it is over.
//! Each makes a handshake if its address has TLS, asks once and goes.
//!
//! What a storm costs its own client is no fault of the server's. So the control is a calm in which
//! the same threads spend as much processor time at the same moments on nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::nice;

use crate::race::{Raced, bind, race};
use cellar_load::{Address, Client, Error, Wire, now_ns, sleep_until, thread_cpu_ns};

/// New connections each second.
pub(super) const PER_S: u64 = 1_000;
/// Connections that may be under way at once.
const THREADS: usize = 32;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Lets everybody else go first.
const LEAST_URGENT: i32 = 19;

/// What each of its threads does.
pub(super) struct Storm<'a> {
    /// Where connections go to; without it there are none.
    pub(super) address: Option<&'a Address>,
    /// Processor time that each connection takes at least.
    pub(super) least_ns: u64,
    /// Where the threads run, and whether anybody else there goes first.
    pub(super) cpu: usize,
    pub(super) is_polite: bool,
}

impl Storm<'_> {
    /// Blows until it is over; how many connections each thread made, and what all have used.
    pub(super) fn blow(&self, is_over: &AtomicBool) -> Raced<Result<u64, Error>> {
        race(THREADS, |thread| self.take_turns(thread, is_over))
    }

    fn take_turns(&self, thread: usize, is_over: &AtomicBool) -> Result<u64, Error> {
        bind(self.cpu);
        if self.is_polite {
            nice(LEAST_URGENT).map_err(|error| Error::system("letting others go first", error))?;
        }
        let start_ns = now_ns();
        for turn in 0.. {
            let due_ns = start_ns + (turn * THREADS + thread) as u64 * (1_000_000_000 / PER_S);
            sleep_until(due_ns);
            // Relaxed: nothing but the flag is passed on. Each makes one, however late it began.
            if turn > 0 && is_over.load(Ordering::Relaxed) {
                return Ok(turn as u64);
            }
            let before_ns = thread_cpu_ns();
            if let Some(address) = self.address {
                let mut client = Client::connect(address, Wire::Resp, TIMEOUT)?;
                client.get(b"storm");
                client.exchange(|_, _| Ok(()))?;
            }
            while thread_cpu_ns() - before_ns < self.least_ns {
                std::hint::spin_loop();
            }
        }
        Ok(0)
    }
}
