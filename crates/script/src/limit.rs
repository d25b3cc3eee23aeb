//! Limit: how long a script may run, and the looks at the clock that keep it.
//!
//! Everything between a script's start and the last byte of its answer counts: compiling, handing
//! over the arguments, instructions, functions of the host, commands, writing the answer. Whatever
//! does more than a moment's work looks at the clock in proportion to that work: [`Limit::check`]
//! before a large piece, [`Limit::tick`] for each small one.
//!
//! Invariant: once a look has found the time over, [`Limit::is_ended`] stays true until the next
//! start, and every protected call passes the error on.

use std::cell::Cell;

use mlua::{Error, Result};

use cellar_engine::base::clock::Stopwatch;

/// Small pieces of work between two looks at the clock.
const TICKS_PER_LOOK: u32 = 32;

/// The clock of one run.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// How long the script has run, and how many milliseconds it may; none while none runs.
    running: Cell<Option<(Stopwatch, u64)>>,
    is_ended: Cell<bool>,
    ticks: Cell<u32>,
}

impl Limit {
    /// Starts the clock for a run of `ms_max` milliseconds.
    pub(super) fn start(&self, ms_max: u64) {
        self.running.set(Some((Stopwatch::start(), ms_max)));
        self.is_ended.set(false);
    }

    /// Stops it.
    pub(super) fn stop(&self) {
        self.running.set(None);
    }

    /// Whether the script's time was found to be over.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended.get()
    }

    /// Ends the script as if its time were over.
    pub(super) fn end(&self) {
        self.is_ended.set(true);
    }

    /// Milliseconds that are left.
    pub(super) fn left_ms(&self) -> u64 {
        let left = |(watch, ms_max): (Stopwatch, u64)| ms_max.saturating_sub(watch.us() / 1_000);
        self.running.get().map_or(0, left)
    }

    /// Reads the clock; returns whether the time limit is reached.
    pub(super) fn is_over(&self) -> bool {
        let over = |(watch, ms_max): (Stopwatch, u64)| watch.us() / 1_000 >= ms_max;
        if !self.is_ended.get() && self.running.get().is_some_and(over) {
            self.is_ended.set(true);
        }
        self.is_ended.get()
    }

    /// Reads the clock, and ends the script if the time limit is reached.
    ///
    /// # Errors
    /// One that passes through every protected call.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_over() {
            return Err(Error::runtime("the script was ended"));
        }
        Ok(())
    }

    /// Counts a small piece of work, and checks the clock after many. Returns whether it did.
    ///
    /// # Errors
    /// As [`Limit::check`].
    pub(super) fn tick(&self) -> Result<bool> {
        let ticks = self.ticks.get() + 1;
        if ticks < TICKS_PER_LOOK {
            self.ticks.set(ticks);
            return Ok(false);
        }
        self.ticks.set(0);
        self.check().map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ticks_are_a_look_and_what_is_ended_stays_ended() {
        let limit = Limit::default();
        assert!(limit.check().is_ok() && !limit.is_over());
        limit.start(0);
        assert_eq!(limit.left_ms(), 0);
        let ends = (0..TICKS_PER_LOOK).find(|_| limit.tick().is_err());
        assert_eq!(ends, Some(TICKS_PER_LOOK - 1));
        limit.stop();
        assert!(limit.is_ended() && limit.check().is_err());
        limit.start(3_600_000);
        assert!(!limit.is_ended() && limit.check().is_ok());
        assert!(limit.left_ms() > 3_000_000);
    }
}
