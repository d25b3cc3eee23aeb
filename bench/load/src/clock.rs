//! Time for measurements: nanoseconds of the machine's clocks, and today's date.
//!
//! The engine's clock counts milliseconds, which is too coarse for the latency of one request.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use time::OffsetDateTime;

use crate::error::Error;

/// Nanoseconds in one second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// Longest time that an option may ask for.
const SECONDS_MAX: f64 = 1e7;

/// Nanoseconds of the monotonic clock.
#[inline]
pub fn now_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Nanoseconds since 1970 of the machine's wall clock.
pub fn unix_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// Nanoseconds for which the calling thread has used a processor.
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Processor time of this process, all its threads together.
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

/// The present day in UTC as `2026-01-31`.
pub fn today() -> String {
    OffsetDateTime::now_utc().date().to_string()
}

/// Sleeps until the monotonic clock shows so many nanoseconds.
pub fn sleep_until(due_ns: u64) {
    std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns())));
}

/// Nanoseconds as seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Seconds of an option as nanoseconds.
///
/// # Errors
/// [`Error::Usage`] if they are not above zero or too many.
pub fn nanoseconds(seconds: f64) -> Result<u64, Error> {
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        return Err(Error::Usage(format!(
            "--seconds is above 0 and at most {SECONDS_MAX}"
        )));
    }
    Ok((seconds * 1e9) as u64)
}

#[inline]
fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both parts are never negative on these clocks.
    time.tv_sec.unsigned_abs() * NS_PER_S + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn today_is_a_date() {
        let today = today();
        let lengths: Vec<usize> = today.split('-').map(str::len).collect();
        assert_eq!(lengths, [4, 2, 2], "{today}");
    }

    #[test]
    fn the_clocks_advance() {
        let (wall, cpu) = (now_ns(), thread_cpu_ns());
        let mut sum = 0u64;
        for n in 0..100_000u64 {
            sum = std::hint::black_box(sum + n);
        }
        assert!(now_ns() > wall);
        assert!(thread_cpu_ns() > cpu);
    }
}
