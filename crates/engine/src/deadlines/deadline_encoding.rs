//! Deadline encoding: how deadlines are written in one segment.
//!
//! A deadline is a number of milliseconds from the segment's base, as wide as the segment's items
//! need: 0 bytes, 3 (4.6 hours), 4 (49 days) or 5 (34 years). The width is chosen when the segment
//! is opened, from the deadlines of recent stores ([`RecentDeadlines`]); an item whose deadline
//! does not fit has a field for it.
//!
//! Tests: at the end of this file.

use crate::base::clock::{Deadline, Instant};
use crate::base::serialize::serialize;

/// How deadlines are written in one segment: chosen when the segment is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadlineEncoding {
    /// The moment that deadlines count from, in ms.
    pub(crate) base_ms: u64,
    /// Bytes of a deadline: 0, 3, 4 or 5.
    pub(crate) width: u8,
    /// log2 of the milliseconds in the first bin of the segment's expiry histogram
    /// (expiry_histogram.rs).
    pub(crate) age_shift: u8,
}

impl DeadlineEncoding {
    /// The widths a segment may have.
    pub(crate) const WIDTHS: [u8; 4] = [0, 3, 4, 5];

    /// No segment begins later: as far ahead as deadlines reach.
    pub(crate) const BASE_MS_MAX: u64 = Deadline::FARTHEST_MS;

    /// An encoding for segments whose expiry distribution is not needed.
    pub(crate) const fn new(base_ms: u64, width: u8) -> DeadlineEncoding {
        DeadlineEncoding {
            base_ms,
            width,
            age_shift: 0,
        }
    }

    /// Bases are multiples of so many milliseconds, so that few bits hold them.
    const GRAIN_MS: u64 = 256;
    /// Bits of a packed encoding that say how wide a deadline is.
    const WIDTH_BITS: u32 = 3;

    /// A number that encodes base and width, and is never zero; none if the base is not one of
    /// [`RecentDeadlines::take_encoding`] in the first four years from `made` on.
    pub(crate) fn pack(self, made: Instant) -> Option<u32> {
        let grains = (self.base_ms / DeadlineEncoding::GRAIN_MS)
            .checked_sub(made.0 / DeadlineEncoding::GRAIN_MS)?;
        let is_known = self.base_ms.is_multiple_of(DeadlineEncoding::GRAIN_MS);
        let fits = is_known && grains < 1 << (u32::BITS - DeadlineEncoding::WIDTH_BITS);
        fits.then_some(
            ((grains as u32) << DeadlineEncoding::WIDTH_BITS) | (u32::from(self.width) + 1),
        )
    }

    /// The encoding that [`DeadlineEncoding::pack`] made a number of.
    #[inline]
    pub(crate) fn unpack(packed: u32, made: Instant) -> Option<DeadlineEncoding> {
        const WIDTH_MASK: u32 = (1 << DeadlineEncoding::WIDTH_BITS) - 1;
        let width = (packed & WIDTH_MASK).checked_sub(1)?;
        let grains =
            u64::from(packed >> DeadlineEncoding::WIDTH_BITS) + made.0 / DeadlineEncoding::GRAIN_MS;
        Some(DeadlineEncoding::new(
            grains * DeadlineEncoding::GRAIN_MS,
            width as u8,
        ))
    }

    /// The position in [`DeadlineEncoding::WIDTHS`] of the narrowest width that `deadline` fits in
    /// when counted from `base_ms`; `None` if it fits in none.
    pub(crate) fn narrowest(deadline: Deadline, base_ms: u64) -> Option<usize> {
        let Some(at) = deadline.instant() else {
            return Some(0);
        };
        let relative = at.0.saturating_sub(base_ms);
        (1..DeadlineEncoding::WIDTHS.len())
            .find(|&position| relative < never(DeadlineEncoding::WIDTHS[position]))
    }

    /// The number that encodes `deadline`, if it fits.
    pub(crate) fn encode(self, deadline: Deadline) -> Option<u64> {
        match deadline.instant() {
            None => Some(never(self.width)),
            Some(at) => {
                let relative = at.0.saturating_sub(self.base_ms);
                (relative < never(self.width)).then_some(relative)
            }
        }
    }

    /// The deadline that a number encodes.
    pub(crate) fn decode(self, number: u64) -> Deadline {
        if number == never(self.width) {
            Deadline::NEVER
        } else {
            Deadline::stored(self.base_ms + number)
        }
    }
}

/// The number of `width` bytes that means "never".
pub(crate) const fn never(width: u8) -> u64 {
    (1 << (8 * width as u64)) - 1
}

/// The octaves that an expiry histogram covers; see expiry_histogram.rs.
pub(crate) const AGE_OCTAVES: u32 = 15;
/// Largest age shift: all ages with it fit in 48 bits.
const AGE_SHIFT_MAX: u32 = 32;

/// Which deadlines recent items had, to choose the next segment's encoding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentDeadlines {
    /// Items that needed each width.
    items: [u32; DeadlineEncoding::WIDTHS.len() + 1],
    /// The longest life that ends.
    longest_ms: u64,
}

serialize!(RecentDeadlines { items, longest_ms });

impl RecentDeadlines {
    /// Bytes an item pays when its deadline does not fit its segment.
    const MISFIT_BYTES: u64 = 10;

    /// Notes an item's deadline.
    pub(crate) fn note(&mut self, deadline: Deadline, now: Instant) {
        let position =
            DeadlineEncoding::narrowest(deadline, now.0).unwrap_or(DeadlineEncoding::WIDTHS.len());
        self.items[position] += 1;
        self.longest_ms = self.longest_ms.max(deadline.remaining_ms(now).unwrap_or(0));
    }

    /// Whether items had deadlines of late.
    pub(crate) fn had_deadlines(&self) -> bool {
        self.longest_ms > 0 || self.items[1..].iter().any(|&items| items > 0)
    }

    /// The encoding for a segment that is opened at `now`; then recording restarts.
    pub(crate) fn take_encoding(&mut self, now: Instant) -> DeadlineEncoding {
        let octaves = u64::BITS - self.longest_ms.leading_zeros();
        let encoding = DeadlineEncoding {
            base_ms: now.0 / DeadlineEncoding::GRAIN_MS * DeadlineEncoding::GRAIN_MS,
            width: self.cheapest(),
            age_shift: octaves.saturating_sub(AGE_OCTAVES).min(AGE_SHIFT_MAX) as u8,
        };
        *self = RecentDeadlines {
            longest_ms: self.longest_ms / 2,
            ..RecentDeadlines::default()
        };
        encoding
    }

    /// The width that would have cost the noted items least.
    fn cheapest(self) -> u8 {
        let cost = |width: u8| -> u64 {
            let needs = self.items.iter().enumerate();
            needs
                .map(|(position, &items)| {
                    let fits = DeadlineEncoding::WIDTHS
                        .get(position)
                        .is_some_and(|&needed| needed <= width);
                    u64::from(items)
                        * if fits {
                            u64::from(width)
                        } else {
                            Self::MISFIT_BYTES
                        }
                })
                .sum()
        };
        DeadlineEncoding::WIDTHS
            .into_iter()
            .min_by_key(|&width| cost(width))
            .unwrap_or(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_width_is_the_one_that_fits() {
        let position = |ms| DeadlineEncoding::narrowest(Deadline::at(Instant(ms)), 0);
        assert_eq!(DeadlineEncoding::narrowest(Deadline::NEVER, 0), Some(0));
        assert_eq!(position(5), Some(1));
        assert_eq!(position((1 << 24) - 2), Some(1));
        assert_eq!(position((1 << 24) - 1), Some(2));
        assert_eq!(position(1 << 33), Some(3));
        assert_eq!(position(1 << 41), None);
    }

    #[test]
    fn a_packed_encoding_is_unpacked_as_it_was_or_not_packed() {
        let made = Instant(1_000_123);
        for later in [0, 1, 255, 256, 3_600_000, 100_000_000_000] {
            for width in DeadlineEncoding::WIDTHS {
                let mut recent = RecentDeadlines::default();
                let encoding = recent.take_encoding(Instant(made.0 + later));
                let encoding = DeadlineEncoding { width, ..encoding };
                let packed = encoding.pack(made).unwrap();
                assert_ne!(packed, 0);
                let unpacked = DeadlineEncoding::unpack(packed, made).unwrap();
                assert_eq!(
                    (unpacked.base_ms, unpacked.width),
                    (encoding.base_ms, encoding.width)
                );
            }
        }
        assert_eq!(DeadlineEncoding::unpack(0, made), None);
        // No multiple of the grain, before the beginning, and later than can be said.
        assert_eq!(DeadlineEncoding::new(made.0, 3).pack(made), None);
        assert_eq!(DeadlineEncoding::new(999_680, 3).pack(made), None);
        assert_eq!(DeadlineEncoding::new(1 << 40, 3).pack(made), None);
    }
}
