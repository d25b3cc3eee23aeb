//! Time, as a cache sees it; tests move it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How far [`Clock::lately`] may lie behind [`Clock::now`].
pub const LATELY_BEHIND_MAX: Duration = Duration::from_millis(250);

/// A clock that never goes back.
pub trait Clock: Send + Sync + 'static {
    /// The time since some fixed moment, the same for all calls.
    fn now(&self) -> Duration;

    /// A moment that is cheaper to have: not after [`Clock::now`], and not more than
    /// [`LATELY_BEHIND_MAX`] before it.
    fn lately(&self) -> Duration {
        self.now()
    }
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Duration,
}

impl SystemClock {
    /// A clock whose fixed moment is this call.
    #[must_use]
    pub fn new() -> SystemClock {
        SystemClock {
            start: read(ClockId::Monotonic),
        }
    }
}

/// The time of one of the machine's clocks, none of which is negative.
fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        read(ClockId::Monotonic).saturating_sub(self.start)
    }

    /// The time of the machine's last tick, a few milliseconds ago at most.
    fn lately(&self) -> Duration {
        read(ClockId::MonotonicCoarse).saturating_sub(self.start)
    }
}

/// A clock that does not advance until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    // Relaxed: only the number is shared; nothing depends on its order.
    now_ns: AtomicU64,
}

impl ManualClock {
    /// Moves the time forward.
    ///
    /// # Panics
    /// If `by` is more than 584 years.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).expect("584 years are enough");
        // Relaxed: only the number is shared; nothing depends on its order.
        self.now_ns.fetch_add(by, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }
}
