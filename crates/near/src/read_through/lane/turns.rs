//! Turns: which of several threads polls a future, so that one at a time does and no wake is lost.
//!
//! A wake marks the future. The thread that takes the turn clears the mark before it polls; if the
//! mark is set while it polls, it polls again or passes the turn to another thread.
//!
//! Tests: tests/loom.rs, by `make loom`.

#[cfg(cellar_loom)]
use loom::sync::atomic::{AtomicU8, Ordering};
#[cfg(not(cellar_loom))]
use std::sync::atomic::{AtomicU8, Ordering};

/// No thread polls it, and it was not woken.
const IDLE: u8 = 0;
/// It has been woken and not polled since.
const WOKEN: u8 = 1;
/// A thread polls it.
const POLLED: u8 = 2;

/// Whether a future has to be polled, and is being polled.
pub(crate) struct Turns(AtomicU8);

impl Turns {
    /// The state of a future that was never polled.
    pub(crate) fn new() -> Turns {
        Turns(AtomicU8::new(WOKEN))
    }

    /// Marks it as woken; returns whether a thread has to be found that polls it.
    pub(crate) fn wake(&self) -> bool {
        // AcqRel: the thread that polls next sees all changes before.
        self.0.fetch_or(WOKEN, Ordering::AcqRel) & POLLED == 0
    }

    /// Takes the turn to poll, if it is woken and no thread polls.
    pub(crate) fn take(&self) -> bool {
        // AcqRel: acquires the changes made before waking. Relaxed: nothing was taken.
        self.0
            .compare_exchange(WOKEN, POLLED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends a poll; false if it was woken meanwhile: the caller keeps the turn and has to poll
    /// again.
    pub(crate) fn end(&self) -> bool {
        // AcqRel: the next poll sees the changes of this one. Relaxed: nothing was ended, and the
        // line below acquires.
        let ended = self
            .0
            .compare_exchange(POLLED, IDLE, Ordering::AcqRel, Ordering::Relaxed);
        if ended.is_err() {
            // AcqRel: acquires the changes made before waking.
            self.0.fetch_and(!WOKEN, Ordering::AcqRel);
        }
        ended.is_ok()
    }

    /// Releases the turn although it has to be polled again: another thread has to be found that
    /// does.
    pub(crate) fn pass(&self) {
        // AcqRel: the next turn sees the changes of this one.
        self.0.swap(WOKEN, Ordering::AcqRel);
    }
}
