//! Time for measurements: nanoseconds of the machine's clocks, and today's date.
//!
//! The engine's clock counts milliseconds, which is too coarse for the latency of one request.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in one second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds of the monotonic clock.
#[must_use]
#[inline]
pub fn now_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Nanoseconds since 1970 of the machine's wall clock.
#[must_use]
pub fn unix_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// Nanoseconds for which the calling thread has used a processor.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Processor time of this process, all its threads together.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

/// The present day in UTC as `2026-01-31`.
#[must_use]
pub fn today() -> String {
    date(unix_ns() / NS_PER_S / 86_400)
}

/// Nanoseconds as seconds.
#[must_use]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[inline]
fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both parts are never negative on these clocks.
    time.tv_sec.unsigned_abs() * NS_PER_S + time.tv_nsec.unsigned_abs()
}

/// The date of a day counted from 1970-01-01, by the years of 365.2425 days that start in March.
fn date(days: u64) -> String {
    let from_year_0 = days + 719_468;
    let era = from_year_0 / 146_097;
    let day_of_era = from_year_0 % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(date(days), expected);
        }
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
