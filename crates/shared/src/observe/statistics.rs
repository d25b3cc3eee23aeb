//! Statistics: the counters of all threads, and their values at the last reset.
//!
//! A counter is never set back. `stats reset` and CONFIG RESETSTAT note what was counted so far,
//! and `stats` and INFO subtract it; metrics count since the start.
//!
//! Tests: server/tests/status.rs, server/tests/resp_admin.rs, server/tests/resp_times.rs.

use std::sync::Arc;

use cellar_engine::{Cache, MissRatioCurve, Stats};
use parking_lot::{Mutex, MutexGuard};

use crate::observe::counters::times::{Times, TimesByCommand};
use crate::observe::counters::{Calls, Counters, Totals};

/// The counters of one server.
#[derive(Debug)]
pub struct Statistics {
    /// One entry per event loop.
    pub loops: Vec<Arc<Counters>>,
    /// The counters of the acceptor, which is not an event loop.
    pub acceptor: Arc<Counters>,
    /// The counters of the TLS handshake thread.
    pub handshakes: Arc<Counters>,
    zero: Mutex<StatsZero>,
    /// Held while it is decided which calls are recorded, so that the last decision counts.
    choice: Mutex<()>,
    peak: Mutex<PeakMemory>,
}

/// The counts at the last `stats reset` or CONFIG RESETSTAT, or zeros.
#[derive(Clone, Debug, Default)]
pub struct StatsZero {
    /// The event loops' counters.
    pub totals: Totals,
    /// Calls of each command; empty for zeros.
    pub calls: Vec<u64>,
    /// Their durations and failures.
    pub times: TimesByCommand,
    /// The engine's counts.
    pub engine: Stats,
    /// The miss-ratio curve.
    pub curve: MissRatioCurve,
}

/// The highest used memory at any query so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeakMemory {
    /// The memory.
    pub bytes: u64,
    /// When that was, as a Unix time in seconds.
    pub unix_s: u64,
}

impl Statistics {
    /// Zeros, for a server with so many event loops.
    #[must_use]
    pub fn new(loops: usize) -> Statistics {
        Statistics {
            loops: (0..loops).map(|_| Arc::default()).collect(),
            acceptor: Arc::default(),
            handshakes: Arc::default(),
            zero: Mutex::default(),
            choice: Mutex::default(),
            peak: Mutex::default(),
        }
    }

    /// Sums of the counters of the event loops, the acceptor and the handshake thread since the
    /// start.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let all = self.loops.iter().chain([&self.acceptor, &self.handshakes]);
        Counters::sum(all.map(|counters| &**counters))
    }

    /// Iterations of the event loops since the start, and the time of those that had work, in
    /// microseconds.
    #[must_use]
    pub fn loop_work(&self) -> (u64, u64) {
        self.loops.iter().fold((0, 0), |(cycles, busy_us), one| {
            // An iteration begins and ends.
            let cycles = cycles + one.pulse.beats() / 2;
            (cycles, busy_us + one.load.read().busy_us)
        })
    }

    /// Calls of each command, by `verb as usize`, since the start.
    #[must_use]
    pub fn calls(&self) -> Vec<u64> {
        Calls::sum(self.loops.iter().map(|counters| &counters.calls))
    }

    /// Durations and failures of commands, since the start.
    #[must_use]
    pub fn times(&self) -> TimesByCommand {
        Times::sum(self.loops.iter().map(|counters| &counters.times))
    }

    /// Calls of each command since the last reset.
    #[must_use]
    pub fn calls_since_reset(&self) -> Vec<u64> {
        let mut calls = self.calls();
        for (count, before) in calls.iter_mut().zip(&self.zero.lock().calls) {
            *count = count.saturating_sub(*before);
        }
        calls
    }

    /// Durations and failures of commands since the last reset.
    #[must_use]
    pub fn times_since_reset(&self) -> TimesByCommand {
        let mut times = self.times();
        for (verb, before) in &self.zero.lock().times {
            if let Some(times) = times.get_mut(verb) {
                times.subtract(before);
            }
        }
        times
    }

    /// The counts at the last reset.
    pub fn zero(&self) -> MutexGuard<'_, StatsZero> {
        self.zero.lock()
    }

    /// Resets all statistics.
    pub fn reset(&self, cache: &Cache) {
        let zero = StatsZero {
            totals: self.totals(),
            calls: self.calls(),
            times: self.times(),
            engine: cache.stats(),
            curve: cache.miss_ratio_curve(),
        };
        *self.zero.lock() = zero;
    }

    /// Selects whether all calls of commands are recorded, or a sample.
    pub fn record_all_calls_if(&self, is_wanted: impl FnOnce() -> bool) {
        let _choice = self.choice.lock();
        let all = is_wanted();
        for counters in &self.loops {
            counters.calls.look_at_all(all);
        }
    }

    /// Notes the memory in use; returns the highest so far. `unix_s` is called for a new peak.
    pub fn note_used_bytes(&self, bytes: u64, unix_s: impl FnOnce() -> u64) -> PeakMemory {
        let mut peak = self.peak.lock();
        if bytes > peak.bytes {
            *peak = PeakMemory {
                bytes,
                unix_s: unix_s(),
            };
        }
        *peak
    }
}
