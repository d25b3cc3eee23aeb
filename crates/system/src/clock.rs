//! Clock: the time that a whole batch of requests shares, and its conversion to wall-clock time.
//!
//! Each event loop reads the machine's clock once per iteration and sets the engine's clock to it,
//! so an operation on the cache needs no clock call. While all loops sleep the engine's time stands
//! still; a loop refreshes it before it serves a client. It also stands still for a loop that
//! executes a script, a transaction ([`LoopClock::hold`]) or a command on several keys
//! ([`LoopClock::hold_still`]): these see one moment.
//!
//! The engine's time never goes back, and a step of the wall clock does not move it. Unix times are
//! converted by [`WallClock`], which holds the distance between the two.
//!
//! Tests of a server in their own process use [`LoopClock::stopped`]: a clock that moves only when
//! they advance it.
//!
//! Why: docs/decisions/0028, 0069. Tests: below, server/tests/wall_clock.rs.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use cellar_engine::base::clock::Stopwatch;
use cellar_engine::{Clock, Instant, ManualClock, SystemClock};

thread_local! {
    /// The moment at which the thread holds the engine's clock, in microseconds; zero if it does
    /// not.
    static HELD_US: Cell<u64> = const { Cell::new(0) };
}

/// The source of the time.
#[derive(Debug)]
enum Source {
    /// The machine's clock.
    Machine(SystemClock),
    /// A clock that a test advances, in microseconds.
    Stopped(AtomicU64),
}

impl Source {
    #[inline]
    fn us(&self) -> u64 {
        match self {
            Source::Machine(clock) => clock.us(),
            // Relaxed: the time orders nothing but itself.
            Source::Stopped(us) => us.load(Ordering::Relaxed),
        }
    }
}

/// The machine's clock and the engine's, shared by all event loops.
#[derive(Clone, Debug)]
pub struct LoopClock {
    source: Arc<Source>,
    engine: Arc<ManualClock>,
    wall: Arc<WallClock>,
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
        LoopClock::over(SystemClock::new())
    }

    /// A clock that counts from where that of a server before this one did.
    #[must_use]
    pub fn going_on(origin: u64) -> LoopClock {
        LoopClock::over(SystemClock::going_on(origin))
    }

    /// Creates a clock that starts at zero and stands still until [`LoopClock::advance_ms`] moves
    /// it. Its wall clock moves with it, from the machine's present time.
    #[must_use]
    pub fn stopped() -> LoopClock {
        let source = Source::Stopped(AtomicU64::new(0));
        LoopClock::reading(source, rounded_ms(unix_us()))
    }

    /// The same that shows this Unix time at zero, in milliseconds.
    #[must_use]
    pub fn stopped_at(unix_ms_at_zero: u64) -> LoopClock {
        let source = Source::Stopped(AtomicU64::new(0));
        LoopClock::reading(source, i64::try_from(unix_ms_at_zero).unwrap_or(i64::MAX))
    }

    fn over(system: SystemClock) -> LoopClock {
        let source = Source::Machine(system);
        let (offset_us, _) = distance_us(&source);
        LoopClock::reading(source, rounded_ms(offset_us))
    }

    fn reading(source: Source, unix_ms_at_zero: i64) -> LoopClock {
        let source = Arc::new(source);
        let now = Instant(source.us() / 1_000);
        LoopClock {
            engine: Arc::new(ManualClock::starting_at(now)),
            wall: Arc::new(WallClock {
                unix_ms_at_zero: AtomicI64::new(unix_ms_at_zero),
                source: Arc::clone(&source),
            }),
            source,
        }
    }

    /// Its origin, for the next server; zero for a stopped clock.
    #[must_use]
    pub fn origin(&self) -> u64 {
        match &*self.source {
            Source::Machine(system) => system.origin(),
            Source::Stopped(_) => 0,
        }
    }

    /// Moves a stopped clock ahead. Threads that sleep do not notice by themselves.
    ///
    /// # Panics
    /// If this is the machine's clock, which nothing moves.
    pub fn advance_ms(&self, ms: u64) {
        let Source::Stopped(us) = &*self.source else {
            panic!("only a stopped clock can be advanced");
        };
        // Relaxed: the time orders nothing but itself.
        us.fetch_add(ms * 1_000, Ordering::Relaxed);
        self.refresh();
    }

    /// The clock for the engine.
    #[must_use]
    pub fn engine(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.engine) as Arc<dyn Clock>
    }

    /// The wall clock by the engine's time; [`WallClock::follow`] keeps it right.
    #[must_use]
    pub fn wall(&self) -> Arc<WallClock> {
        Arc::clone(&self.wall)
    }

    /// Reads the machine's clock and moves the engine's there.
    #[inline]
    pub fn refresh(&self) -> Instant {
        self.refresh_us().0
    }

    /// The same, and the time in microseconds from the same reading.
    #[inline]
    pub fn refresh_us(&self) -> (Instant, u64) {
        let us = self.source.us();
        let now = Instant(us / 1_000);
        self.engine.set(now);
        (now, us)
    }

    /// Moves the engine's clock to the present and stops it there for the calling thread until the
    /// result is dropped; a nested hold keeps the time.
    ///
    /// Cost: two readings of the machine's clock.
    #[inline]
    #[must_use]
    pub fn hold(&self) -> HeldClock<'_> {
        if self.engine.is_held() {
            return HeldClock::nested();
        }
        let (_, us) = self.refresh_us();
        self.engine.hold();
        HELD_US.set(us.max(1));
        HeldClock::refreshing(self)
    }

    /// Stops the engine's clock for the calling thread where it is, at the time of the event-loop
    /// iteration or a later one, until the result is dropped; a nested hold keeps the time.
    ///
    /// For single commands, which take as little time as any other one.
    #[inline]
    #[must_use]
    pub fn hold_still(&self) -> HeldClock<'_> {
        if self.engine.is_held() {
            return HeldClock::nested();
        }
        self.engine.hold();
        HeldClock {
            clock: Some(self),
            refreshes: false,
        }
    }

    /// Stops the engine's clock for the calling thread, until the result is dropped, at a moment
    /// that is not ahead of any thread's: items that expire by it have expired for a script, too.
    #[must_use]
    pub fn hold_settled(&self) -> HeldClock<'_> {
        self.engine.hold_settled();
        HeldClock::refreshing(self)
    }

    /// Microseconds since the clock's start.
    #[inline]
    #[must_use]
    pub fn us(&self) -> u64 {
        self.source.us()
    }
}

/// Keeps the engine's clock where it is; see [`LoopClock::hold`].
#[derive(Debug)]
pub struct HeldClock<'c> {
    /// The clock; none if another one holds it for longer.
    clock: Option<&'c LoopClock>,
    /// Whether the clock moves to the present afterwards.
    refreshes: bool,
}

impl<'c> HeldClock<'c> {
    #[inline]
    fn nested() -> HeldClock<'c> {
        HeldClock {
            clock: None,
            refreshes: false,
        }
    }

    #[inline]
    fn refreshing(clock: &'c LoopClock) -> HeldClock<'c> {
        HeldClock {
            clock: Some(clock),
            refreshes: true,
        }
    }
}

impl Drop for HeldClock<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(clock) = self.clock else {
            return;
        };
        clock.engine.release();
        if self.refreshes {
            HELD_US.set(0);
            // Later work on this thread runs after the time that this took.
            clock.refresh();
        }
    }
}

/// Smallest distance that counts as a step of the wall clock, in microseconds. Less is rounding: a
/// deadline given as a Unix time has to be returned as the same one.
const STEP_US_MIN: i64 = 1_000;
/// Longest time between the readings of two clocks that count as one moment.
const APART_US_MAX: u64 = 100;
/// Readings after which one is accepted as it is.
const READINGS_MAX: u32 = 10;

/// Unix times by the engine's moments, and back.
///
/// All conversions of Unix times read this one number, so they agree.
#[derive(Debug)]
pub struct WallClock {
    /// Unix time in milliseconds at the engine's time zero; negative if the wall clock was set to
    /// before 1970, or shortly after.
    // Relaxed: a number that orders nothing.
    unix_ms_at_zero: AtomicI64,
    /// The clock that this follows.
    source: Arc<Source>,
}

impl WallClock {
    /// Unix time in milliseconds at the engine's time zero.
    #[inline]
    #[must_use]
    pub fn unix_ms_at_zero(&self) -> i64 {
        // Relaxed: a number that orders nothing.
        self.unix_ms_at_zero.load(Ordering::Relaxed)
    }

    /// The Unix time of an engine's moment, in milliseconds; zero for those before 1970.
    #[inline]
    #[must_use]
    pub fn unix_ms(&self, at: Instant) -> u64 {
        let after_zero = i64::try_from(at.0).unwrap_or(i64::MAX);
        let unix_ms = self.unix_ms_at_zero().saturating_add(after_zero);
        u64::try_from(unix_ms).unwrap_or(0)
    }

    /// The engine's moment of a Unix time in milliseconds; `None` if it is before the start.
    #[inline]
    #[must_use]
    pub fn instant(&self, unix_ms: i64) -> Option<Instant> {
        let after_zero = unix_ms.saturating_sub(self.unix_ms_at_zero());
        u64::try_from(after_zero).ok().map(Instant)
    }

    /// Unix time in microseconds when the engine's clock shows `now`, or later if the machine's
    /// clock has advanced since and no [`LoopClock::hold`] keeps the engine's.
    #[must_use]
    pub fn unix_us(&self, now: Instant) -> u64 {
        let us = match HELD_US.get() {
            0 => self.source.us(),
            held_us => held_us,
        };
        let after_zero = i64::try_from(us.max(now.0 * 1_000)).unwrap_or(i64::MAX);
        let zero = self.unix_ms_at_zero().saturating_mul(1_000);
        u64::try_from(zero.saturating_add(after_zero)).unwrap_or(0)
    }

    /// Steps by `ms` milliseconds, as if the machine's clock were set.
    pub fn step_ms(&self, ms: i64) {
        self.unix_ms_at_zero.fetch_add(ms, Ordering::Relaxed);
    }

    /// Checks whether the machine's wall clock has stepped, and follows it; returns by how many
    /// milliseconds.
    pub fn follow(&self) -> Option<i64> {
        if matches!(*self.source, Source::Stopped(_)) {
            return None;
        }
        let (read_us, apart_us) = distance_us(&self.source);
        let known_ms = self.unix_ms_at_zero();
        let moved_us = read_us.saturating_sub(known_ms.saturating_mul(1_000));
        let doubt_us = i64::try_from(apart_us).unwrap_or(i64::MAX);
        if moved_us.saturating_abs() < STEP_US_MIN.saturating_add(doubt_us) {
            return None;
        }
        let now_ms = rounded_ms(read_us);
        self.unix_ms_at_zero.store(now_ms, Ordering::Relaxed);
        Some(now_ms - known_ms)
    }
}

/// Unix time at the zero of a clock, in microseconds, and within which time the two were read.
fn distance_us(clock: &Source) -> (i64, u64) {
    let mut best = (0, u64::MAX);
    for _ in 0..READINGS_MAX {
        let before_us = clock.us();
        let wall_us = unix_us();
        let apart_us = clock.us().saturating_sub(before_us);
        if apart_us < best.1 {
            let middle_us = i64::try_from(before_us + apart_us / 2).unwrap_or(i64::MAX);
            best = (wall_us.saturating_sub(middle_us), apart_us);
        }
        if apart_us <= APART_US_MAX {
            break;
        }
    }
    best
}

fn rounded_ms(us: i64) -> i64 {
    us.saturating_add(500).div_euclid(1_000)
}

/// The machine's wall clock: microseconds since 1970, below zero for a time before.
#[expect(
    clippy::disallowed_methods,
    reason = "no other clock knows the time of day"
)]
fn unix_us() -> i64 {
    let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => us(since),
        Err(before) => -us(before.duration()),
    }
}

/// The machine's wall clock in seconds since 1970.
#[must_use]
pub fn unix_s() -> i64 {
    unix_us().div_euclid(1_000_000)
}

/// A moment in seconds since 1970, in HTTP's or a readable format.
#[must_use]
pub fn date(unix_s: i64) -> String {
    /// The last second of the year 9999, behind which dates have no such form.
    const UNIX_S_MAX: u64 = 253_402_300_799;
    let unix_s = u64::try_from(unix_s).unwrap_or(0).min(UNIX_S_MAX);
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_wrong_by_hours_is_right_after_one_look() {
        let clock = LoopClock::new();
        let wall = clock.wall();
        let right = wall.unix_ms_at_zero();
        for wrong_ms in [-7_200_000, 3_600_000, 5, -5, -right - 86_400_000] {
            wall.step_ms(wrong_ms);
            let back = wall.follow().expect("that is a step");
            assert!((back + wrong_ms).abs() <= 1, "{back} after {wrong_ms}");
            assert!((wall.unix_ms_at_zero() - right).abs() <= 1);
        }
    }

    #[test]
    fn a_clock_that_nobody_sets_gives_the_same_times_for_ever() {
        let clock = LoopClock::new();
        let wall = clock.wall();
        let first = wall.unix_ms_at_zero();
        for _ in 0..10_000 {
            assert_eq!(wall.follow(), None);
        }
        assert_eq!(wall.unix_ms_at_zero(), first);
    }

    #[test]
    fn a_held_clock_shows_one_moment_and_then_the_present() {
        let clock = LoopClock::stopped_at(1_000);
        let (engine, wall) = (clock.engine(), clock.wall());
        clock.advance_ms(7);
        let held = clock.hold();
        let nested = clock.hold();
        clock.advance_ms(50);
        assert_eq!(engine.now(), Instant(7));
        assert_eq!(wall.unix_us(engine.now()), 1_007_000);
        drop(nested);
        clock.advance_ms(50);
        assert_eq!(wall.unix_us(engine.now()), 1_007_000);
        drop(held);
        assert_eq!(engine.now(), Instant(107));
        assert_eq!(wall.unix_us(engine.now()), 1_107_000);
    }

    #[test]
    fn a_clock_that_is_held_still_reads_no_other_one() {
        let clock = LoopClock::stopped_at(1_000);
        let engine = clock.engine();
        clock.advance_ms(7);
        let Source::Stopped(source) = &*clock.source else {
            panic!("the clock is stopped");
        };
        source.fetch_add(50_000, Ordering::Relaxed);
        let held = clock.hold_still();
        let nested = clock.hold();
        assert_eq!(engine.now(), Instant(7));
        clock.refresh();
        drop(nested);
        assert_eq!(engine.now(), Instant(7));
        source.fetch_add(50_000, Ordering::Relaxed);
        drop(held);
        assert_eq!(engine.now(), Instant(57));
    }

    #[test]
    fn times_before_1970_and_before_the_start_do_no_harm() {
        let wall = LoopClock::stopped_at(10_000).wall();
        assert_eq!(wall.instant(9_999), None);
        assert_eq!(wall.instant(i64::MIN), None);
        assert_eq!(wall.instant(10_000), Some(Instant(0)));
        wall.step_ms(-70_000);
        assert_eq!(wall.unix_ms(Instant(59_000)), 0);
        assert_eq!(wall.unix_us(Instant(59_000)), 0);
        assert_eq!(wall.unix_ms(Instant(61_000)), 1_000);
        assert_eq!(wall.instant(1_000), Some(Instant(61_000)));
    }
}
