//! Expiration: how an item's bytes become dead because its time is over.
//!
//! Exact for the reader: a read compares the item's own deadline with the clock, to the
//! millisecond. Bulk for the reclaimer: a segment keeps a small histogram of when its bytes die
//! ([`Deaths`]), so it knows about how much of it is dead without looking at an item, and the last
//! deadline, after which all of it is. [`Lags`] counts how long after its deadline each item's
//! memory was taken back.
//!
//! Bins are octaves of an item's age at death. Each knows the first and the last moment at
//! which something in it dies, to a 255th of the bin; between these, deaths count as evenly spread.
//! Why: docs/decisions/0004. Tests: at the end of this file.

use crate::clock::{Deadline, Instant};
use crate::options::ReclaimLag;
use crate::timescale::Timescale;

/// Octaves; the last bin begins at 12 days and has no end.
const BINS: usize = 22;
/// log2 of the milliseconds that the first bin reaches to.
const AGE_SHIFT: u32 = 10;
/// log2 of the bytes in a unit of the histogram: a full segment stays below 2^16 units.
const UNIT_SHIFT: u32 = 4;
/// The end of a bin in parts of it.
const PARTS: u64 = 255;

/// When the bytes of a segment die.
#[derive(Clone, Debug)]
pub(crate) struct Deaths {
    /// A bit for each bin in use.
    used: u32,
    bins: [Bin; BINS],
}

/// Bytes that die at about the same age.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    units: u16,
    /// When the first and the last of them die, in parts of the bin.
    first: u8,
    last: u8,
}

/// A moment as the histogram sees it: a bin and a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    bin: usize,
    part: u64,
}

impl Deaths {
    /// No bytes yet.
    pub(crate) fn new() -> Deaths {
        Deaths {
            used: 0,
            bins: [Bin::default(); BINS],
        }
    }

    /// Counts `bytes` that die at `deadline`.
    pub(crate) fn add(&mut self, bytes: usize, deadline: Deadline, scale: Timescale) {
        let Some(at) = deadline.instant() else {
            return;
        };
        let Place { bin, part } = Place::of(at, scale);
        let part = part as u8;
        let is_new = self.used & 1 << bin == 0;
        self.used |= 1 << bin;
        let bin = &mut self.bins[bin];
        if is_new {
            *bin = Bin {
                units: 0,
                first: part,
                last: part,
            };
        }
        bin.units = bin.units.saturating_add(units_of(bytes));
        bin.first = bin.first.min(part);
        bin.last = bin.last.max(part);
    }

    /// Takes back `bytes` that were to die at `deadline`: they died of something else.
    pub(crate) fn remove(&mut self, bytes: usize, deadline: Deadline, scale: Timescale) {
        if let Some(at) = deadline.instant() {
            let bin = Place::of(at, scale).bin;
            self.bins[bin].units = self.bins[bin].units.saturating_sub(units_of(bytes));
            if self.bins[bin].units == 0 {
                self.used &= !(1 << bin);
            }
        }
    }

    /// About how many bytes have died by `now`.
    pub(crate) fn dead_bytes(&self, now: Instant, scale: Timescale) -> usize {
        let place = Place::of(now, scale);
        let (mut dead, mut left) = (0, self.used);
        while left != 0 {
            let number = left.trailing_zeros() as usize;
            left &= left - 1;
            if number > place.bin {
                break;
            }
            let bin = self.bins[number];
            let (first, last) = (u64::from(bin.first), u64::from(bin.last) + 1);
            let units = u64::from(bin.units);
            dead += if number < place.bin || place.part >= last {
                units
            } else {
                units * place.part.saturating_sub(first) / (last - first)
            };
        }
        (dead as usize) << UNIT_SHIFT
    }
}

impl Place {
    fn of(at: Instant, scale: Timescale) -> Place {
        let age_ms = at.0.saturating_sub(scale.base_ms);
        let Some(octave) = (age_ms >> AGE_SHIFT).checked_ilog2() else {
            return Place {
                bin: 0,
                part: (age_ms * PARTS) >> AGE_SHIFT,
            };
        };
        let bin = 1 + octave as usize;
        let shift = octave + AGE_SHIFT;
        if bin >= BINS {
            return Place {
                bin: BINS - 1,
                part: PARTS,
            };
        }
        let within_ms = age_ms & ((1 << shift) - 1);
        Place {
            bin,
            part: (within_ms * PARTS) >> shift,
        }
    }
}

/// Bytes in units of the histogram, to the nearest; the same when added and when removed.
fn units_of(bytes: usize) -> u16 {
    let units = (bytes + (1 << (UNIT_SHIFT - 1))) >> UNIT_SHIFT;
    u16::try_from(units).unwrap_or(u16::MAX)
}

/// How long after their deadlines the memory of expired items was taken back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lags {
    items: [u64; ReclaimLag::BINS],
}

impl Lags {
    /// Counts an item whose memory is taken back at `now`.
    pub(crate) fn note(&mut self, deadline: Deadline, now: Instant) {
        let lag_ms = deadline
            .instant()
            .map_or(0, |at| now.0.saturating_sub(at.0));
        self.items[ReclaimLag::bin_of(lag_ms)] += 1;
    }

    /// Adds the counts to `lag`.
    pub(crate) fn add_to(&self, lag: &mut ReclaimLag) {
        for (sum, items) in lag.items.iter_mut().zip(self.items) {
            *sum += items;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Timescale = Timescale {
        base_ms: 1_000,
        width: 3,
    };

    fn at(ms: u64) -> Instant {
        Instant(SCALE.base_ms + ms)
    }

    fn deadline(ms: u64) -> Deadline {
        Deadline::at(at(ms))
    }

    #[test]
    fn later_moments_have_later_places() {
        let mut before = Place { bin: 0, part: 0 };
        for step in 0..400_000_u64 {
            let age_ms = step * (1 + step / 1_000);
            let place = Place::of(at(age_ms), SCALE);
            assert!(
                (place.bin, place.part) >= (before.bin, before.part) && place.part <= PARTS,
                "{age_ms} ms at {place:?} after {before:?}"
            );
            before = place;
        }
        assert_eq!(Place::of(at(u64::MAX / 2), SCALE).bin, BINS - 1);
    }

    #[test]
    fn nothing_is_dead_before_its_time_and_all_of_it_soon_after() {
        for ttl_ms in [
            10,
            1_023,
            1_024,
            5_000,
            60_000,
            3_600_000,
            86_400_000,
            1_000_000_000,
        ] {
            let mut deaths = Deaths::new();
            deaths.add(1_600, deadline(ttl_ms), SCALE);
            assert_eq!(
                deaths.dead_bytes(at(ttl_ms * 99 / 100), SCALE),
                0,
                "{ttl_ms}"
            );
            let after = at(ttl_ms + ttl_ms / 50 + 10);
            assert_eq!(deaths.dead_bytes(after, SCALE), 1_600, "{ttl_ms}");
        }
    }

    #[test]
    fn the_estimate_is_close_for_deadlines_spread_over_an_hour() {
        let mut deaths = Deaths::new();
        for ms in (0..3_600_000).step_by(100) {
            deaths.add(16, deadline(ms), SCALE);
        }
        for minute in 1..60 {
            let dead = deaths.dead_bytes(at(minute * 60_000), SCALE);
            let exact = minute as usize * 600 * 16;
            assert!(
                dead.abs_diff(exact) <= 36_000 * 16 / 100,
                "minute {minute}: {dead} of {exact}"
            );
        }
    }

    #[test]
    fn jittered_lifetimes_do_not_count_as_dead_early() {
        let mut deaths = Deaths::new();
        for number in 0..1_000 {
            deaths.add(160, deadline(100_000 - number * 10), SCALE);
        }
        assert_eq!(deaths.dead_bytes(at(89_000), SCALE), 0);
        assert!(deaths.dead_bytes(at(92_000), SCALE) < 160 * 300);
        assert_eq!(deaths.dead_bytes(at(100_300), SCALE), 160_000);
    }

    #[test]
    fn bytes_taken_back_do_not_die_again() {
        let mut deaths = Deaths::new();
        deaths.add(100, deadline(5_000), SCALE);
        deaths.add(50, Deadline::NEVER, SCALE);
        deaths.remove(100, deadline(5_000), SCALE);
        deaths.remove(50, Deadline::NEVER, SCALE);
        assert_eq!(deaths.dead_bytes(Instant(u64::MAX), SCALE), 0);
    }
}
