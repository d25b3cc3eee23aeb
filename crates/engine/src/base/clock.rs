//! Time: the engine's "now", and when an item expires.
//!
//! [`Instant`] counts milliseconds from a clock's own start, so deadlines are small numbers and no
//! step of the wall clock moves them; they advance while the machine sleeps. [`Clock`] is injected:
//! the server reads time once a batch, tests move it by hand ([`ManualClock`]), a trace replay
//! follows the trace.
//!
//! Invariant: a clock never goes back.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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
    /// The last moment that differs from [`Deadline::NEVER`]: about 34,000 years ahead.
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

    /// The deadline at a moment that was one's: it is below [`Deadline::FARTHEST`].
    #[inline]
    pub(crate) fn stored(at_ms: u64) -> Deadline {
        Deadline(at_ms)
    }

    /// Whether the item has expired at `now`.
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
    /// The present moment; never earlier than one returned before to the calling thread.
    fn now(&self) -> Instant;

    /// A moment that is in the future for no thread: an item expired by then is expired for all of
    /// them.
    fn settled(&self) -> Instant {
        self.now()
    }
}

/// The machine's monotonic clock, which includes sleep, counted from the creation of this value.
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

    /// Its origin, from which a later process can continue until the machine reboots.
    #[must_use]
    pub fn origin(&self) -> u64 {
        self.start_ns
    }
}

/// Nanoseconds since the machine's boot, its sleep included: items age while it sleeps.
#[inline]
pub(crate) fn machine_ns() -> u64 {
    // Miri has no other clock that cannot be set.
    let clock = if cfg!(miri) {
        libc::CLOCK_MONOTONIC
    } else {
        libc::CLOCK_BOOTTIME
    };
    ns_of(clock)
}

/// Processor time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    // Miri has no such clock.
    match cfg!(miri) {
        true => 0,
        false => ns_of(libc::CLOCK_THREAD_CPUTIME_ID),
    }
}

#[inline]
fn ns_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes, and the call writes nothing else.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(status, 0, "every Linux since 2.6.39 has these clocks");
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

impl SystemClock {
    /// Microseconds since the clock's start, for measurements.
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

/// Threads of which a clock notes apart that they hold it.
const HOLDERS: usize = 64;

thread_local! {
    /// The clock that the thread holds, by its address, and the moment that it shows it.
    static HELD: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// A moment at which a thread holds a clock, and one; zero if it does not.
#[derive(Debug, Default)]
#[repr(align(128))]
// Relaxed: the time orders nothing but itself.
struct HeldAt(AtomicU64);

/// A clock that does not advance until it is moved: for tests, trace replays and event loops.
#[derive(Debug)]
pub struct ManualClock {
    // Relaxed: the time orders nothing but itself.
    now_ms: AtomicU64,
    /// By the numbers of the threads. Of two threads with one place the later one is noted.
    held: Box<[HeldAt]>,
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::starting_at(Instant(0))
    }
}

impl ManualClock {
    /// A clock set to `start`.
    #[must_use]
    pub fn starting_at(start: Instant) -> ManualClock {
        ManualClock {
            now_ms: AtomicU64::new(start.0),
            held: (0..HOLDERS).map(|_| HeldAt::default()).collect(),
        }
    }

    /// Moves the clock forward by `ms` milliseconds.
    pub fn advance_ms(&self, ms: u64) {
        // Relaxed: the time orders nothing but itself.
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Moves the clock to `now` if that lies ahead; a moment in the past changes nothing.
    #[inline]
    pub fn set(&self, now: Instant) {
        // Relaxed: the time orders nothing but itself.
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

    /// Freezes the clock for the calling thread until [`ManualClock::release`]; other threads see
    /// it advance.
    #[inline]
    pub fn hold(&self) {
        // Relaxed: the time orders nothing but itself.
        self.hold_at(self.now_ms.load(Ordering::Relaxed));
    }

    /// The same at a moment that lies ahead for no thread; see [`Clock::settled`].
    pub fn hold_settled(&self) {
        self.hold_at(self.settled().0);
    }

    #[inline]
    fn hold_at(&self, now_ms: u64) {
        // Relaxed: the time orders nothing but itself.
        self.my_place().0.store(now_ms + 1, Ordering::Relaxed);
        HELD.set((self.address(), now_ms));
    }

    /// Lets the calling thread see the clock advance.
    #[inline]
    pub fn release(&self) {
        HELD.set((0, 0));
        self.my_place().0.store(0, Ordering::Relaxed);
    }

    /// Whether the calling thread holds the clock.
    #[inline]
    #[must_use]
    pub fn is_held(&self) -> bool {
        HELD.get().0 == self.address()
    }

    #[inline]
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    fn my_place(&self) -> &HeldAt {
        &self.held[thread_number() % HOLDERS]
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Instant {
        let (held, at) = HELD.get();
        if held == self.address() {
            return Instant(at);
        }
        Instant(self.now_ms.load(Ordering::Relaxed))
    }

    fn settled(&self) -> Instant {
        // Before the places are read: a thread that freezes the clock later does so at this moment
        // or a later one.
        let now = self.now();
        let held = self.held.iter().map(|at| at.0.load(Ordering::Relaxed));
        let earliest = held.filter(|&at| at != 0).min();
        earliest.map_or(now, |at| now.min(Instant(at - 1)))
    }
}

/// The number of the calling thread among those that have requested one.
#[inline]
pub(crate) fn thread_number() -> usize {
    const NONE: usize = usize::MAX;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(NONE) };
    }
    MINE.with(|mine| {
        if mine.get() == NONE {
            // Relaxed: numbers that order nothing.
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
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
        reason = "clocks count whole milliseconds and may stand still"
    )]
    pub fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now())
    }

    /// Microseconds since the start.
    #[inline]
    #[must_use]
    pub fn us(self) -> u64 {
        self.ns() / 1_000
    }

    /// Nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn ns(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
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
    fn a_held_clock_stands_still_for_its_thread_until_it_is_released() {
        let clock = ManualClock::starting_at(Instant(10));
        clock.hold();
        assert!(clock.is_held());
        clock.set(Instant(20));
        assert_eq!(clock.now(), Instant(10));
        std::thread::scope(|scope| {
            let others = scope.spawn(|| (clock.is_held(), clock.now(), clock.settled()));
            let others = others.join().unwrap();
            assert_eq!(others, (false, Instant(20), Instant(10)));
        });
        let other = ManualClock::starting_at(Instant(3));
        assert_eq!((other.is_held(), other.now()), (false, Instant(3)));
        clock.release();
        assert_eq!((clock.now(), clock.settled()), (Instant(20), Instant(20)));
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
