//! Scan: to see every entry of the index, whatever is moved meanwhile.
//!
//! A scan follows the addresses with their bits reversed, so whatever is split or merged, all that
//! lies before its position stays before it. It does so twice: for entries in their home buckets,
//! then for those in the partner. An entry that moves from its home to the partner in between is
//! seen in the second round. While scans are about, entries that move back are recorded; the scan
//! ends with them, wherever they are by then.
//!
//! When nobody has scanned for a while, or too many moved back, the record is dropped and a new
//! epoch begins. A scan of an older epoch has to begin anew. The first time that happens in an
//! epoch, the record is given more time and room, so that a scan comes to its end.
//!
//! Tests: at the end of this file, tests/listing.rs.

use std::collections::HashSet;

use super::{Index, SlotRef};
use crate::clock::Instant;
use crate::table::{BUCKET_SLOTS, PARTNER, TAG_SHIFT, matches};

/// How long a record is kept after the last step of a scan, at first.
const PATIENCE_MS: u64 = 60_000;
/// Entries a record may hold, at first: at least so many, or this part of all.
const RECORD_MIN: usize = 4096;
const RECORD_SHARE: usize = 16;
/// How often patience and room may double.
const DOUBLINGS_MAX: u32 = 16;

/// The bits of an epoch: they have to find room in a cursor.
pub(crate) const EPOCH_MASK: u16 = (1 << 12) - 1;

/// Which entries a scan shows; both, one after the other, are all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// Those in their home bucket.
    AtHome,
    /// Those in the partner.
    Away,
}

/// Entries that went back to their homes while scans were about.
#[derive(Debug, Default)]
pub(super) struct Returns {
    pub(super) is_recording: bool,
    /// The home's address and the tag of each.
    entries: HashSet<(u64, u64)>,
    epoch: u16,
    until: Option<Instant>,
    doublings: u32,
    /// Whether a scan of the epoch before has still to be given more time and room.
    may_double: bool,
}

impl Index {
    /// Notes that a scan takes a step in the epoch it knows, or `None` to begin; `false` if it has
    /// to begin anew.
    pub(crate) fn step_scan(&mut self, epoch: Option<u16>, now: Instant) -> bool {
        let returns = &mut self.returns;
        let goes_on = epoch.is_none_or(|epoch| returns.is_recording && epoch == returns.epoch);
        // A cursor may be any number, so each record that was dropped counts once.
        if epoch == Some(returns.epoch.wrapping_sub(1) & EPOCH_MASK) && returns.may_double {
            returns.may_double = false;
            returns.doublings = (returns.doublings + 1).min(DOUBLINGS_MAX);
        }
        returns.is_recording = true;
        returns.until = Some(Instant(now.0 + (PATIENCE_MS << returns.doublings)));
        goes_on
    }

    /// The present epoch, for the next step.
    pub(crate) fn epoch(&self) -> u16 {
        self.returns.epoch
    }

    /// Drops the record if nobody has scanned for long.
    pub(crate) fn forget_scans(&mut self, now: Instant) {
        if self.returns.until.is_some_and(|until| until < now) {
            self.drop_record();
            self.returns.doublings = 0;
        }
    }

    fn drop_record(&mut self) {
        let returns = &mut self.returns;
        returns.epoch = returns.epoch.wrapping_add(1) & EPOCH_MASK;
        returns.entries = HashSet::new();
        (returns.is_recording, returns.until) = (false, None);
        returns.may_double = true;
    }

    /// Records an entry of `bucket` that goes back to its home.
    #[cold]
    pub(super) fn note_return(&mut self, bucket: usize, word: u64) {
        let tag = word >> TAG_SHIFT;
        let home = self.address_here(bucket, word) ^ self.table.pattern(tag);
        let most = RECORD_MIN.max(self.items / RECORD_SHARE) << self.returns.doublings;
        if self.returns.entries.len() < most {
            self.returns.entries.insert((home, tag));
        } else {
            self.drop_record();
        }
    }

    /// The bucket at a reversed address, and the next of these; `None` behind the last bucket.
    pub(crate) fn scan(&self, reversed: u64) -> Option<(usize, u64)> {
        let bits = self.level_max;
        if reversed >> bits != 0 {
            return None;
        }
        let shape = self.table.shape();
        let address = reversed.reverse_bits() >> (u64::BITS - bits);
        let low = address as usize & ((1 << shape.level) - 1);
        let known = shape.level + u32::from(low < shape.split);
        let rest = bits - known;
        Some((shape.bucket(address), ((reversed >> rest) + 1) << rest))
    }

    /// Calls `each` with the slot of every entry in one bucket that is at home, or that is not.
    pub(crate) fn each_of_half(&self, bucket: usize, half: Half, mut each: impl FnMut(SlotRef)) {
        self.each_in_bucket(bucket, |slot| {
            let is_at_home = self.load(slot) & PARTNER == 0;
            if is_at_home == (half == Half::AtHome) {
                each(slot);
            }
        });
    }

    /// Calls `each` with every entry that is recorded, and perhaps some that look like it.
    pub(crate) fn each_returned(&self, mut each: impl FnMut(SlotRef)) {
        let shape = self.table.shape();
        for &(home, tag) in &self.returns.entries {
            let away = home ^ self.table.pattern(tag);
            for (address, partner_bit) in [(home, 0), (away, 1)] {
                let bucket = shape.bucket(address);
                let mut matches = matches(self.table.bucket(bucket), tag << 1 | partner_bit);
                while matches != 0 {
                    let slot = SlotRef(bucket * BUCKET_SLOTS + matches.trailing_zeros() as usize);
                    matches &= matches - 1;
                    if self.load(slot) != 0 {
                        each(slot);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Index, Instant, PATIENCE_MS};

    #[test]
    fn forged_epochs_give_a_record_neither_time_nor_room() {
        let mut index = Index::reserve(1_000, None).unwrap();
        assert!(index.step_scan(None, Instant(0)));
        let forge = |index: &mut Index| {
            for epoch in (0..=u16::MAX).chain(0..=u16::MAX) {
                index.step_scan(Some(epoch), Instant(0));
            }
        };
        forge(&mut index);
        assert_eq!(index.returns.doublings, 0);
        assert_eq!(index.returns.until, Some(Instant(PATIENCE_MS)));
        // A record that was dropped counts once, however many ask for it.
        index.forget_scans(Instant(PATIENCE_MS + 1));
        forge(&mut index);
        assert_eq!(index.returns.doublings, 1);
    }
}
