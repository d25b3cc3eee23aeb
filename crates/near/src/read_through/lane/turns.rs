//! Turns: who polls a future that several threads may poll, so that one at a time does and no wake
//! is lost.
//!
//! A wake marks the future. Who takes the turn takes the mark away before it polls; a mark that is
//! set while it polls makes it poll again, or leave the turn to somebody else.
//!
//! Tests: tests/loom.rs, by `make loom`.

#[cfg(cellar_loom)]
use loom::sync::atomic::{AtomicU8, Ordering};
#[cfg(not(cellar_loom))]
use std::sync::atomic::{AtomicU8, Ordering};

/// Nobody polls, and nothing is to be polled for.
const IDLE: u8 = 0;
/// It has been woken and not polled since.
const WOKEN: u8 = 1;
/// Somebody polls.
const POLLED: u8 = 2;

/// Whether a future is to be polled, and is being polled.
pub(crate) struct Turns(AtomicU8);

impl Turns {
    /// Those of a future that was never polled.
    pub(crate) fn new() -> Turns {
        Turns(AtomicU8::new(WOKEN))
    }

    /// Marks it as woken; whether somebody has to be found who polls it.
    pub(crate) fn wake(&self) -> bool {
        // AcqRel: what was done before is seen by who polls next.
        self.0.fetch_or(WOKEN, Ordering::AcqRel) & POLLED == 0
    }

    /// Takes the turn to poll, if it is woken and nobody polls.
    pub(crate) fn take(&self) -> bool {
        // AcqRel: acquires what was done before waking. Relaxed: nothing was taken.
        self.0
            .compare_exchange(WOKEN, POLLED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends a poll; false if it was woken meanwhile: the turn stays, and it is to be polled again.
    pub(crate) fn end(&self) -> bool {
        // AcqRel: what this poll has done is seen by the next one. Relaxed: nothing was ended, and
        // the line below acquires.
        let ended = self
            .0
            .compare_exchange(POLLED, IDLE, Ordering::AcqRel, Ordering::Relaxed);
        if ended.is_err() {
            // AcqRel: acquires what was done before waking.
            self.0.fetch_and(!WOKEN, Ordering::AcqRel);
        }
        ended.is_ok()
    }

    /// Gives the turn back although it is to be polled again: somebody has to be found who does.
    pub(crate) fn pass(&self) {
        // AcqRel: what this turn has done is seen by the next one.
        self.0.swap(WOKEN, Ordering::AcqRel);
    }
}
