//! Expiry histogram: when the bytes of a segment expire.
//!
//! It estimates how many bytes of a segment have expired, without a look at its items. The bins are
//! half octaves of an item's age at its deadline, up to the longest TTL of recent items. Each bin
//! has the first and the last moment at which something in it expires, to a 255th of the bin;
//! expiries count as evenly spread between them. The segment stores its last deadline exactly:
//! after it, all of the segment has expired.
//!
//! Why: docs/decisions/0004 and 0013. Tests: at the end of this file.

use crate::base::clock::{Deadline, Instant};
use crate::base::serialize::serialize;
use crate::deadlines::deadline_encoding::{AGE_OCTAVES, DeadlineEncoding};

/// The first bin, two for each octave, and one for all longer lives.
const BINS: usize = 2 * AGE_OCTAVES as usize + 2;
/// Most bytes a bin counts, more than a segment of many items has.
const BYTES_MAX: usize = (1 << 24) - 1;
/// The parts into which a bin is divided.
const PARTS_PER_BIN: u64 = 255;

/// When the bytes of a segment expire.
#[derive(Clone, Debug)]
pub(crate) struct ExpiryHistogram {
    /// A bit for each bin in use.
    used: u32,
    /// Expired bytes that are holes by now, because a lookup met the items.
    met: u32,
    bins: [Bin; BINS],
}

/// Bytes that expire at about the same age.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// A number of 24 bits, little end first.
    bytes: [u8; 3],
    /// When the first and the last of them expire, in parts of the bin.
    first: u8,
    last: u8,
}

/// Bytes that expire between two moments, about evenly spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExpiringBytes {
    pub(crate) bytes: usize,
    pub(crate) from_ms: f64,
    pub(crate) until_ms: f64,
}

/// A moment in the histogram: a bin and a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BinPosition {
    bin: usize,
    part: u64,
}

impl ExpiryHistogram {
    /// No bytes yet.
    pub(crate) fn new() -> ExpiryHistogram {
        ExpiryHistogram {
            used: 0,
            met: 0,
            bins: [Bin::default(); BINS],
        }
    }

    /// Whether nothing expires.
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Counts `bytes` that expire at `deadline`.
    pub(crate) fn add(&mut self, bytes: usize, deadline: Deadline, encoding: DeadlineEncoding) {
        let Some(at) = deadline.instant() else {
            return;
        };
        let BinPosition { bin, part } = BinPosition::of(at, encoding);
        let part = part as u8;
        let is_new = self.used & 1 << bin == 0;
        self.used |= 1 << bin;
        let bin = &mut self.bins[bin];
        if is_new {
            *bin = Bin {
                bytes: [0; 3],
                first: part,
                last: part,
            };
        }
        bin.set_bytes(bin.bytes() + bytes);
        bin.first = bin.first.min(part);
        bin.last = bin.last.max(part);
    }

    /// Takes back `bytes` that were to expire at `deadline`: they are removed for another reason.
    pub(crate) fn remove(&mut self, bytes: usize, deadline: Deadline, encoding: DeadlineEncoding) {
        if let Some(at) = deadline.instant() {
            let number = BinPosition::of(at, encoding).bin;
            let bin = &mut self.bins[number];
            bin.set_bytes(bin.bytes().saturating_sub(bytes));
            if bin.bytes() == 0 {
                self.used &= !(1 << number);
            }
        }
    }

    /// Notes that `bytes` had expired when a lookup removed them.
    pub(crate) fn meet(&mut self, bytes: usize) {
        self.met = self
            .met
            .saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Expired bytes that lookups removed, of so many in holes.
    pub(crate) fn met_bytes(&self, hole_bytes: usize) -> usize {
        // An item that grows may have taken some of their space.
        (self.met as usize).min(hole_bytes)
    }

    /// An estimate of the bytes that have expired by `now`, without those that lookups removed.
    pub(crate) fn dead_bytes(&self, now: Instant, encoding: DeadlineEncoding) -> usize {
        let moment = BinPosition::of(now, encoding);
        let (mut dead, mut left) = (0, self.used);
        while left != 0 {
            let number = left.trailing_zeros() as usize;
            left &= left - 1;
            if number > moment.bin {
                break;
            }
            let bin = self.bins[number];
            let (first, last) = (u64::from(bin.first), u64::from(bin.last) + 1);
            let bytes = bin.bytes() as u64;
            dead += if number < moment.bin || moment.part >= last {
                bytes
            } else {
                bytes * moment.part.saturating_sub(first) / (last - first)
            };
        }
        dead as usize
    }

    /// Whether some bytes may expire after `from` and not after `until`.
    pub(crate) fn has_between(
        &self,
        from: Instant,
        until: Instant,
        encoding: DeadlineEncoding,
    ) -> bool {
        let position = |at| {
            let BinPosition { bin, part } = BinPosition::of(at, encoding);
            (bin, part)
        };
        let (from, until) = (position(from), position(until));
        let mut used = (0..BINS).filter(|number| self.used & 1 << number != 0);
        used.any(|number| {
            let bin = self.bins[number];
            (number, u64::from(bin.last)) >= from && (number, u64::from(bin.first)) <= until
        })
    }

    /// When the bytes expire, bin by bin; none of them after `last`.
    pub(crate) fn expiring(
        &self,
        encoding: DeadlineEncoding,
        last: Deadline,
    ) -> impl Iterator<Item = ExpiringBytes> + '_ {
        let last_ms = last.instant().map_or(f64::INFINITY, |at| at.0 as f64);
        let used = (0..BINS).filter(|number| self.used & 1 << number != 0);
        used.map(move |number| {
            let bin = self.bins[number];
            let (begin_ms, width_ms) = bounds_ms(number, encoding);
            let (from_ms, until_ms) = if number == BINS - 1 {
                (begin_ms, last_ms)
            } else {
                let at = |part: u64| begin_ms + width_ms * part as f64 / PARTS_PER_BIN as f64;
                (at(u64::from(bin.first)), at(u64::from(bin.last) + 1))
            };
            let until_ms = until_ms.min(last_ms);
            ExpiringBytes {
                bytes: bin.bytes(),
                from_ms: from_ms.min(until_ms),
                until_ms,
            }
        })
    }

    /// Whether this can have come of the expiries in `found` and of some that were taken back.
    pub(crate) fn agrees_with(&self, found: &ExpiryHistogram) -> bool {
        let bins = self.bins.iter().zip(&found.bins).enumerate();
        let mut used = bins.filter(|(number, _)| found.used & 1 << number != 0);
        self.used == found.used
            && used.all(|(_, (bin, found))| {
                let is_around = bin.first <= found.first && bin.last >= found.last;
                bin.bytes == found.bytes && is_around
            })
    }
}

serialize!(ExpiryHistogram { used, met, bins });
serialize!(Bin { bytes, first, last });

impl Bin {
    fn bytes(self) -> usize {
        let [low, middle, high] = self.bytes;
        u32::from_le_bytes([low, middle, high, 0]) as usize
    }

    fn set_bytes(&mut self, bytes: usize) {
        let [low, middle, high, _] = (bytes.min(BYTES_MAX) as u32).to_le_bytes();
        self.bytes = [low, middle, high];
    }
}

impl BinPosition {
    fn of(at: Instant, encoding: DeadlineEncoding) -> BinPosition {
        let age_ms = at.0.saturating_sub(encoding.base_ms);
        let age_shift = u32::from(encoding.age_shift);
        let Some(octave) = (age_ms >> age_shift).checked_ilog2() else {
            let part = (age_ms * PARTS_PER_BIN) >> age_shift;
            return BinPosition { bin: 0, part };
        };
        if octave >= AGE_OCTAVES {
            return BinPosition {
                bin: BINS - 1,
                part: PARTS_PER_BIN,
            };
        }
        // In 2^16ths of the octave, of which the upper half is the second bin.
        let within = ((age_ms << 16) >> (octave + age_shift)) & 0xFFFF;
        let half = within >> 15;
        BinPosition {
            bin: 1 + 2 * octave as usize + half as usize,
            part: ((within & 0x7FFF) * PARTS_PER_BIN) >> 15,
        }
    }
}

/// When a bin begins, in milliseconds of the clock, and how long it is.
fn bounds_ms(bin: usize, encoding: DeadlineEncoding) -> (f64, f64) {
    // Shifted, since powers of a float need not be exact.
    let first_ms = (1_u64 << encoding.age_shift) as f64;
    let (age_ms, width_ms) = match bin.checked_sub(1) {
        None => (0.0, first_ms),
        Some(half) => {
            let octave_ms = first_ms * (1_u64 << (half / 2)) as f64;
            let within = (half % 2) as f64 / 2.0;
            (octave_ms * (1.0 + within), octave_ms / 2.0)
        }
    };
    (encoding.base_ms as f64 + age_ms, width_ms)
}

/// Whether expiries at `deadline` and at `now` are counted in one bin, so that either may come
/// first.
pub(crate) fn is_same_bin(deadline: Deadline, now: Instant, encoding: DeadlineEncoding) -> bool {
    let bin = |at| BinPosition::of(at, encoding).bin;
    deadline.instant().is_some_and(|at| bin(at) == bin(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENCODING: DeadlineEncoding = DeadlineEncoding {
        base_ms: 1_000,
        width: 3,
        age_shift: 8,
    };

    fn at(ms: u64) -> Instant {
        Instant(ENCODING.base_ms + ms)
    }

    fn deadline(ms: u64) -> Deadline {
        Deadline::at(at(ms))
    }

    #[test]
    fn later_moments_have_later_positions() {
        let mut before = BinPosition { bin: 0, part: 0 };
        for step in 0..400_000_u64 {
            let age_ms = step * (1 + step / 1_000);
            let moment = BinPosition::of(at(age_ms), ENCODING);
            assert!(
                (moment.bin, moment.part) >= (before.bin, before.part)
                    && moment.part <= PARTS_PER_BIN,
                "{age_ms} ms at {moment:?} after {before:?}"
            );
            before = moment;
        }
        assert_eq!(BinPosition::of(at(u64::MAX / 2), ENCODING).bin, BINS - 1);
    }

    #[test]
    fn nothing_is_dead_before_its_time_and_all_of_it_soon_after() {
        for ttl_ms in [10, 255, 256, 2_047, 2_048, 5_000, 60_000, 3_600_000] {
            let mut histogram = ExpiryHistogram::new();
            histogram.add(1_600, deadline(ttl_ms), ENCODING);
            assert_eq!(
                histogram.dead_bytes(at(ttl_ms * 99 / 100), ENCODING),
                0,
                "{ttl_ms}"
            );
            let after = at(ttl_ms + ttl_ms / 50 + 20);
            assert_eq!(histogram.dead_bytes(after, ENCODING), 1_600, "{ttl_ms}");
        }
    }

    #[test]
    fn the_estimate_is_close_for_deadlines_spread_over_an_hour() {
        let mut histogram = ExpiryHistogram::new();
        for ms in (0..3_600_000).step_by(100) {
            histogram.add(16, deadline(ms), ENCODING);
        }
        for minute in 1..60 {
            let dead = histogram.dead_bytes(at(minute * 60_000), ENCODING);
            let exact = minute as usize * 600 * 16;
            assert!(
                dead.abs_diff(exact) <= 36_000 * 16 / 100,
                "minute {minute}: {dead} of {exact}"
            );
        }
    }

    #[test]
    fn a_moment_lies_within_the_bounds_of_its_bin() {
        for step in 0..60_000_u64 {
            let age_ms = step * (1 + step / 100);
            let BinPosition { bin, part } = BinPosition::of(at(age_ms), ENCODING);
            let (begin_ms, width_ms) = bounds_ms(bin, ENCODING);
            let within = (at(age_ms).0 as f64 - begin_ms) / width_ms * PARTS_PER_BIN as f64;
            let is_last = bin == BINS - 1;
            // Moments are found in whole 2^16ths of an octave.
            let rounding = 0.01;
            let parts = part as f64..(part + 1) as f64 + rounding;
            assert!(
                is_last || parts.contains(&within),
                "{age_ms} ms: {within} of bin {bin}, not {part}"
            );
        }
    }

    #[test]
    fn jittered_ttls_do_not_count_as_expired_early() {
        let mut histogram = ExpiryHistogram::new();
        for number in 0..1_000 {
            histogram.add(160, deadline(100_000 - number * 10), ENCODING);
        }
        assert_eq!(histogram.dead_bytes(at(89_000), ENCODING), 0);
        assert!(histogram.dead_bytes(at(92_000), ENCODING) < 160 * 300);
        assert_eq!(histogram.dead_bytes(at(100_300), ENCODING), 160_000);
    }

    #[test]
    fn what_expires_in_a_stretch_of_time_is_seen_there_and_seldom_elsewhere() {
        for ttl_ms in (0..4_000_000).step_by(7_001) {
            let mut histogram = ExpiryHistogram::new();
            histogram.add(100, deadline(ttl_ms), ENCODING);
            let has = |from: u64, until: u64| histogram.has_between(at(from), at(until), ENCODING);
            assert!(has(ttl_ms.saturating_sub(1), ttl_ms), "{ttl_ms}");
            assert!(has(ttl_ms / 2, ttl_ms * 2), "{ttl_ms}");
            let bin = ttl_ms / 50 + 20;
            assert!(!has(ttl_ms + bin, 2 * ttl_ms + 2 * bin), "{ttl_ms}");
            assert!(
                !has(0, ttl_ms.saturating_sub(bin)) || ttl_ms < bin,
                "{ttl_ms}"
            );
        }
    }

    #[test]
    fn bytes_taken_back_do_not_expire_again() {
        let mut histogram = ExpiryHistogram::new();
        histogram.add(100, deadline(5_000), ENCODING);
        histogram.add(50, Deadline::NEVER, ENCODING);
        histogram.remove(100, deadline(5_000), ENCODING);
        histogram.remove(50, Deadline::NEVER, ENCODING);
        assert_eq!(histogram.dead_bytes(Instant(u64::MAX), ENCODING), 0);
    }
}
