//! Clock: the time that a whole batch of requests shares.
//!
//! Each event loop reads the machine's clock once a turn and sets the engine's clock to it, so an
//! operation on the cache costs no clock call. While all loops sleep the engine's time stands
//! still; a loop refreshes it before it serves anybody.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cellar_engine::{Clock, Instant, ManualClock, SystemClock};

/// The machine's clock and the engine's, shared by all event loops.
#[derive(Clone, Debug)]
pub struct LoopClock {
    system: Arc<SystemClock>,
    engine: Arc<ManualClock>,
}

impl Default for LoopClock {
    fn default() -> LoopClock {
        LoopClock::new()
    }
}

impl LoopClock {
    /// A clock that starts at zero.
    #[must_use]
    pub fn new() -> LoopClock {
        LoopClock {
            system: Arc::new(SystemClock::new()),
            engine: Arc::new(ManualClock::default()),
        }
    }

    /// The clock for the engine.
    #[must_use]
    pub fn engine(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.engine) as Arc<dyn Clock>
    }

    /// Reads the machine's clock and moves the engine's there.
    #[inline]
    pub fn refresh(&self) -> Instant {
        self.refresh_us().0
    }

    /// The same, and the time in microseconds from the same reading.
    #[inline]
    pub fn refresh_us(&self) -> (Instant, u64) {
        let us = self.system.us();
        let now = Instant(us / 1_000);
        self.engine.set(now);
        (now, us)
    }

    /// Microseconds since the clock's start.
    #[inline]
    #[must_use]
    pub fn us(&self) -> u64 {
        self.system.us()
    }

    /// Unix time in milliseconds at the engine's time zero.
    #[must_use]
    pub fn unix_ms_at_zero(&self) -> u64 {
        let unix_ms = u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX);
        unix_ms.saturating_sub(self.system.now().0)
    }
}

/// The time since 1970; for starts and for those who ask for it, not for requests.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "no other clock knows the time of day"
)]
pub fn unix_time() -> Duration {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.unwrap_or_default()
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts now.
    #[inline]
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the engine's clock counts whole milliseconds and stands still in a batch"
    )]
    pub fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now())
    }

    /// Microseconds since the start.
    #[inline]
    #[must_use]
    pub fn us(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
