//! Time: what the engine takes for "now", and when an item's time is over.
//!
//! [`Instant`] counts milliseconds from a clock's own start, so deadlines are small numbers and no
//! step of the wall clock moves them; they go on while the machine sleeps. [`Clock`] is injected:
//! the server reads time once a batch, tests move it by hand ([`ManualClock`]), a trace replay
//! follows the trace.
//!
//! Invariant: a clock never goes back.

use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds since the clock's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The deadline `ttl_ms` milliseconds from this moment; saturates at the farthest deadline.
    #[must_use]
    pub fn plus_ms(self, ttl_ms: u64) -> Deadline {
        Deadline(self.0.saturating_add(ttl_ms).min(Deadline::FARTHEST.0))
    }
}

/// The moment from which an item is gone, or never.
///
/// An item is served while `now < deadline` and is a miss from `now == deadline` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(u64);

impl Deadline {
    /// The item stays until it is evicted or deleted.
    pub const NEVER: Deadline = Deadline(u64::MAX);
    /// The last moment that can be told from [`Deadline::NEVER`]: about 34,000 years ahead.
    pub const FARTHEST: Deadline = Deadline(Deadline::FARTHEST_MS);
    /// [`Deadline::FARTHEST`] in milliseconds.
    pub(crate) const FARTHEST_MS: u64 = (1 << 50) - 1;
    /// A deadline that has always passed: an item stored with it is a miss at once.
    pub const PASSED: Deadline = Deadline(0);

    /// The deadline at `at`, capped at [`Deadline::FARTHEST`].
    #[must_use]
    pub fn at(at: Instant) -> Deadline {
        Deadline(at.0.min(Deadline::FARTHEST.0))
    }

    /// Whether the item's time is over at `now`.
    #[must_use]
    pub fn has_passed(self, now: Instant) -> bool {
        self.0 <= now.0
    }

    /// The moment of the deadline; `None` for [`Deadline::NEVER`].
    #[must_use]
    pub fn instant(self) -> Option<Instant> {
        (self != Deadline::NEVER).then_some(Instant(self.0))
    }

    /// Milliseconds left at `now`; `None` for [`Deadline::NEVER`], zero when passed.
    #[must_use]
    pub fn remaining_ms(self, now: Instant) -> Option<u64> {
        self.instant().map(|at| at.0.saturating_sub(now.0))
    }
}

/// Where the engine reads the time from.
pub trait Clock: Send + Sync {
    /// The present moment; never earlier than one returned before.
    fn now(&self) -> Instant;
}

/// The machine's clock that nobody sets and that goes on while the machine sleeps, counted from the
/// creation of this value.
#[derive(Debug)]
pub struct SystemClock {
    start_ns: u64,
}

impl SystemClock {
    /// A clock that starts at zero.
    #[must_use]
    pub fn new() -> SystemClock {
        SystemClock {
            start_ns: machine_ns(),
        }
    }

    /// A clock that counts from where another one did, of a process before this one, unless that
    /// lies ahead.
    #[must_use]
    pub fn going_on(origin: u64) -> SystemClock {
        SystemClock {
            start_ns: origin.min(machine_ns()),
        }
    }

    /// Where it counts from, to be gone on with until the machine starts anew.
    #[must_use]
    pub fn origin(&self) -> u64 {
        self.start_ns
    }
}

/// Nanoseconds since the machine's start, its sleep included: an item's time goes on in it.
#[inline]
fn machine_ns() -> u64 {
    // Miri knows no other clock that nobody sets.
    let clock = if cfg!(miri) {
        libc::CLOCK_MONOTONIC
    } else {
        libc::CLOCK_BOOTTIME
    };
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes, and the call writes nothing else.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(status, 0, "every Linux since 2.6.39 has this clock");
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

impl SystemClock {
    /// Microseconds since the clock's start, for those who measure.
    #[inline]
    #[must_use]
    pub fn us(&self) -> u64 {
        machine_ns().saturating_sub(self.start_ns) / 1_000
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant(self.us() / 1_000)
    }
}

/// Marks a clock that is held.
const HELD: u64 = 1 << 63;

/// A clock that stands still until it is moved: for tests, trace replays and event loops.
#[derive(Debug, Default)]
pub struct ManualClock {
    /// The time, and [`HELD`].
    // Relaxed: the time orders nothing but itself.
    now_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub fn starting_at(start: Instant) -> ManualClock {
        ManualClock {
            now_ms: AtomicU64::new(start.0),
        }
    }

    /// Moves the clock forward by `ms` milliseconds.
    pub fn advance_ms(&self, ms: u64) {
        // Relaxed: the time orders nothing but itself.
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Moves the clock to `now` if that lies ahead; a moment in the past changes nothing, and
    /// neither does any while the clock is held.
    #[inline]
    pub fn set(&self, now: Instant) {
        // Relaxed: the time orders nothing but itself. A held clock is ahead of every moment.
        let order = Ordering::Relaxed;
        let mut shown = self.now_ms.load(order);
        while shown < now.0 {
            match self
                .now_ms
                .compare_exchange_weak(shown, now.0, order, order)
            {
                Ok(_) => return,
                Err(other) => shown = other,
            }
        }
    }

    /// Keeps [`ManualClock::set`] from moving the clock until [`ManualClock::release`]; whether
    /// nobody had done so before.
    #[inline]
    pub fn hold(&self) -> bool {
        // Relaxed: the time orders nothing but itself.
        self.now_ms.fetch_or(HELD, Ordering::Relaxed) & HELD == 0
    }

    /// Lets the clock be moved again.
    #[inline]
    pub fn release(&self) {
        // Relaxed: the time orders nothing but itself.
        self.now_ms.fetch_and(!HELD, Ordering::Relaxed);
    }

    /// Whether the clock is held.
    #[inline]
    #[must_use]
    pub fn is_held(&self) -> bool {
        // Relaxed: the time orders nothing but itself.
        self.now_ms.load(Ordering::Relaxed) & HELD != 0
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.now_ms.load(Ordering::Relaxed) & !HELD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_passes_at_its_millisecond_and_not_before() {
        let deadline = Instant(1_000).plus_ms(500);
        assert!(!deadline.has_passed(Instant(1_499)));
        assert!(deadline.has_passed(Instant(1_500)));
        assert_eq!(deadline.remaining_ms(Instant(1_499)), Some(1));
        assert_eq!(deadline.remaining_ms(Instant(9_999)), Some(0));
    }

    #[test]
    fn never_is_never() {
        assert!(!Deadline::NEVER.has_passed(Instant(u64::MAX - 1)));
        assert_eq!(Deadline::NEVER.remaining_ms(Instant(5)), None);
        assert_eq!(Instant(5).plus_ms(u64::MAX), Deadline::FARTHEST);
    }

    #[test]
    fn a_held_clock_stands_still_until_it_is_released() {
        let clock = ManualClock::starting_at(Instant(10));
        assert!(clock.hold() && !clock.hold() && clock.is_held());
        clock.set(Instant(20));
        assert_eq!(clock.now(), Instant(10));
        clock.release();
        clock.set(Instant(20));
        assert_eq!(clock.now(), Instant(20));
    }

    #[test]
    fn a_manual_clock_never_goes_back() {
        let clock = ManualClock::starting_at(Instant(10));
        clock.advance_ms(5);
        clock.set(Instant(3));
        assert_eq!(clock.now(), Instant(15));
        clock.set(Instant(20));
        assert_eq!(clock.now(), Instant(20));
    }
}
