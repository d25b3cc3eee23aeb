//! Time, as a cache sees it; tests move it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that never goes back.
pub trait Clock: Send + Sync + 'static {
    /// The time since some fixed moment, the same for all calls.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose fixed moment is this call.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the crate's one source of time"
    )]
    pub fn new() -> SystemClock {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl ManualClock {
    /// Moves the time forward.
    ///
    /// # Panics
    /// If `by` is more than 584 years.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).expect("584 years are enough");
        // Relaxed: the number alone is shared, nothing hangs on its order.
        self.now_ns.fetch_add(by, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }
}
