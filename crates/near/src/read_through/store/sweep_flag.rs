//! Sweep flag: whether a sweep is on its way to the entries, so that many flushes begin only one.
//!
//! A flush makes entries void, then raises the flag; a sweep lowers it, then looks at entries. Both
//! change it by one exchange that releases and acquires. Exchanges of one flag follow one another,
//! so a flush that finds the flag up comes before the exchange that lowers it, and that sweep sees
//! the entries that it made void. A plain store would lower the flag without acquiring anything.
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
        // AcqRel: entries made void before this call are released to the coming sweep.
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Begins the sweep: it sees all entries made void before the calls of [`SweepFlag::raise`] so
    /// far.
    pub(crate) fn lower(&self) {
        // AcqRel: acquires the releases of all earlier flushes; a later one finds the flag lowered.
        self.0.swap(false, Ordering::AcqRel);
    }
}
