//! Sweep flag: whether a sweep is on its way to the entries, so that many flushes begin only one.
//!
//! Who flushes makes entries void, then raises the flag; a sweep lowers it, then looks at entries.
//! Both change it by one exchange that releases and acquires. Exchanges of one flag follow one
//! another, so a flush that finds the flag up comes before the exchange that lowers it, and what it
//! made void is seen by that sweep. A plain store would lower the flag without acquiring anything.
//!
//! Tests: tests/loom.rs, by `make loom`.

#[cfg(cellar_loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(cellar_loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a sweep is ahead.
pub(crate) struct SweepFlag(AtomicBool);

impl SweepFlag {
    /// No sweep is ahead.
    pub(crate) fn new() -> SweepFlag {
        SweepFlag(AtomicBool::new(false))
    }

    /// Asks for a sweep; whether the caller has to begin it.
    pub(crate) fn raise(&self) -> bool {
        // AcqRel: what was void before this call is released to the sweep that is ahead.
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Begins the sweep: it sees what was void before each call of [`SweepFlag::raise`] so far.
    pub(crate) fn lower(&self) {
        // AcqRel: acquires what all flushes before released; one from here on finds no sweep ahead.
        self.0.swap(false, Ordering::AcqRel);
    }
}
