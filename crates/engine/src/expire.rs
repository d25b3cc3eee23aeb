//! Expiration: how an item's bytes become dead because its time is over.
//!
//! Exact for the reader: a read compares the item's own deadline with the clock, to the
//! millisecond. Bulk for the reclaimer: a segment keeps a small histogram of when its bytes die
//! ([`Deaths`]), so it knows about how much of it is dead without looking at an item, and the last
//! deadline, after which all of it is.
//!
//! Bins are half octaves of an item's age at death, counted in a unit that depends on how far the
//! segment's deadlines may reach; inside a bin deaths count as evenly spread.
//! Why: docs/decisions/0004. Tests: at the end of this file.

use crate::clock::{Deadline, Instant};
use crate::timescale::Timescale;

const BINS: usize = 32;

/// When the bytes of a segment die.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deaths {
    bytes: [u32; BINS],
}

impl Deaths {
    /// No bytes yet.
    pub(crate) fn new() -> Deaths {
        Deaths { bytes: [0; BINS] }
    }

    /// Counts `bytes` that die at `deadline`.
    pub(crate) fn add(&mut self, bytes: usize, deadline: Deadline, scale: Timescale) {
        if let Some(bin) = bin_of(deadline, scale) {
            self.bytes[bin] = self.bytes[bin].saturating_add(bytes as u32);
        }
    }

    /// Takes back `bytes` that were to die at `deadline`: they died of something else.
    pub(crate) fn remove(&mut self, bytes: usize, deadline: Deadline, scale: Timescale) {
        if let Some(bin) = bin_of(deadline, scale) {
            self.bytes[bin] = self.bytes[bin].saturating_sub(bytes as u32);
        }
    }

    /// About how many bytes have died by `now`; none dies after `last`.
    pub(crate) fn dead_bytes(&self, now: Instant, scale: Timescale, last: Deadline) -> usize {
        let unit_shift = unit_shift(scale);
        let last_ms = last
            .instant()
            .map_or(u64::MAX, |at| at.0.saturating_sub(scale.base_ms));
        let age_ms = now.0.saturating_sub(scale.base_ms);
        let mut dead = 0_u64;
        for (bin, &bytes) in self.bytes.iter().enumerate() {
            let from = bin_start(bin) << unit_shift;
            let to = (bin_start(bin + 1) << unit_shift).min(last_ms.max(from + 1));
            if age_ms >= to {
                dead += u64::from(bytes);
            } else {
                if age_ms > from {
                    dead += u64::from(bytes) * (age_ms - from) / (to - from);
                }
                break;
            }
        }
        dead as usize
    }
}

/// log2 of the milliseconds in a unit of age: the bins reach as far as the segment's deadlines.
fn unit_shift(scale: Timescale) -> u32 {
    match scale.width {
        3 => 8,
        4 => 16,
        _ => 24,
    }
}

fn bin_of(deadline: Deadline, scale: Timescale) -> Option<usize> {
    let at = deadline.instant()?;
    let units = at.0.saturating_sub(scale.base_ms) >> unit_shift(scale);
    let bin = match units.checked_ilog2() {
        None => 0,
        Some(0) => 1,
        Some(octave) => 2 * octave as usize + (units >> (octave - 1) & 1) as usize,
    };
    Some(bin.min(BINS - 1))
}

/// Whether deaths at `deadline` and at `now` are counted in one bin, so that either may come first.
pub(crate) fn is_same_bin(deadline: Deadline, now: Instant, scale: Timescale) -> bool {
    deadline != Deadline::NEVER && bin_of(deadline, scale) == bin_of(Deadline::at(now), scale)
}

/// The first unit of age in a bin.
const fn bin_start(bin: usize) -> u64 {
    match bin {
        0 => 0,
        1 => 1,
        _ => (2 + (bin as u64 & 1)) << (bin / 2 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Timescale = Timescale {
        base_ms: 1_000,
        width: 3,
    };

    fn at(ms: u64) -> Deadline {
        Deadline::at(Instant(SCALE.base_ms + ms))
    }

    #[test]
    fn bins_follow_each_other_without_a_gap() {
        for units in 0..70_000_u64 {
            let bin = bin_of(at(units << 8), SCALE).unwrap();
            assert!(bin_start(bin) <= units, "{units} in {bin}");
            assert!(
                bin == BINS - 1 || units < bin_start(bin + 1),
                "{units} in {bin}"
            );
        }
    }

    #[test]
    fn all_bytes_are_dead_after_the_last_deadline_of_their_bin() {
        let mut deaths = Deaths::new();
        for ms in [10, 5_000, 60_000, 3_600_000] {
            deaths.add(100, at(ms), SCALE);
        }
        assert_eq!(
            deaths.dead_bytes(Instant(SCALE.base_ms), SCALE, at(3_600_000)),
            0
        );
        assert_eq!(
            deaths.dead_bytes(Instant(SCALE.base_ms + 8_000), SCALE, at(3_600_000)),
            200
        );
        assert_eq!(
            deaths.dead_bytes(Instant(SCALE.base_ms + 3_600_000), SCALE, at(3_600_000)),
            400
        );
    }

    #[test]
    fn the_estimate_is_close_for_deadlines_spread_over_an_hour() {
        let mut deaths = Deaths::new();
        for ms in (0..3_600_000).step_by(100) {
            deaths.add(1, at(ms), SCALE);
        }
        for minute in 1..60 {
            let now = Instant(SCALE.base_ms + minute * 60_000);
            let dead = deaths.dead_bytes(now, SCALE, at(3_600_000));
            let exact = minute as usize * 600;
            assert!(
                dead.abs_diff(exact) <= 36_000 / 20,
                "minute {minute}: {dead} of {exact}"
            );
        }
    }

    #[test]
    fn bytes_taken_back_do_not_die_again() {
        let mut deaths = Deaths::new();
        deaths.add(100, at(5_000), SCALE);
        deaths.add(50, Deadline::NEVER, SCALE);
        deaths.remove(100, at(5_000), SCALE);
        deaths.remove(50, Deadline::NEVER, SCALE);
        assert_eq!(
            deaths.dead_bytes(Instant(u64::MAX), SCALE, Deadline::NEVER),
            0
        );
    }
}
