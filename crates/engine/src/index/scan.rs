//! Scan: shows every entry of the index once, even if entries move meanwhile.
//!
//! A scan follows the addresses with their bits reversed, so splits and merges leave all entries
//! before its position before it. It does so twice: for entries in their home buckets, then for
//! those in the partner. The position of an entry shows whether it was seen, unless it was moved
//! between its two buckets meanwhile: so each scan records which seen entries lie ahead of it, and
//! which unseen ones lie behind. It shows the latter in the end.
//!
//! A scan that takes no step for a while, or needs too many records, is dropped. If its cursor
//! comes back, it restarts the shard with a longer timeout and more records.
//!
//! Entries are identified by home address and tag. Of two that have both in common, one may be
//! shown twice, none is missed. Why: docs/decisions/0078.
//! Tests: at the end of this file, tests/listing.rs.

use std::collections::{HashSet, VecDeque};

use super::{Index, SlotRef};
use crate::base::clock::Instant;
use crate::memory::table::{BUCKET_SLOTS, GROWTH_BITS, PARTNER, TAG_SHIFT, entries, matches};

/// How long a scan stays valid after its last step, at first.
const PATIENCE_MS: u64 = 60_000;
/// Entries that a scan records of each kind, at first: at least so many, or this part of all.
const RECORD_MIN: usize = 32_768;
const RECORD_SHARE: usize = 16;
/// How often timeout and records may double.
const DOUBLINGS_MAX: u32 = 16;
/// Scans of one shard in progress, and remembered numbers of dropped ones.
const SCANS_MAX: usize = 16;
const DROPPED_MAX: usize = 64;

/// Where the count of moved entries begins: behind every address.
const MOVED_AT: u64 = 1 << 29;

/// The bits of a scan's number: they have to find room in a cursor.
pub(crate) const SCAN_MASK: u16 = (1 << 12) - 1;

/// The phases of a scan, in their order; together they show all entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Entries in their home buckets.
    AtHome,
    /// Those in the partner.
    Away,
    /// Those that were moved behind its position before they were shown.
    Moved,
}

/// Bits of a home address in an identity; the tag's choice bits are above them.
const HOME_BITS: u32 = 40;

/// Identifies an entry in whichever bucket it lies: home address and tag.
type Identity = u64;

/// A scan under way.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) number: u16,
    pub(crate) phase: Phase,
    /// The next address, its bits reversed; among moved entries, how many were shown.
    pub(crate) at: u64,
    /// Entries that were shown and lie ahead.
    shown: HashSet<Identity>,
    /// Entries that were not shown and lie behind.
    unshown: HashSet<Identity>,
    until: Instant,
    doublings: u32,
    is_lost: bool,
}

/// A bucket, the first of its addresses, their bits reversed, and the next bucket's.
pub(crate) struct Stretch {
    pub(crate) bucket: usize,
    from: u64,
    pub(crate) next: u64,
}

/// All scans under way.
#[derive(Debug, Default)]
pub(super) struct Scans {
    /// The one that took a step last is the last.
    all: Vec<Scan>,
    /// Scans that were dropped, and how often their patience had doubled.
    dropped: VecDeque<(u16, u32)>,
    next: u16,
}

impl Scans {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn drop_where(&mut self, is_dropped: impl Fn(&Scan) -> bool) {
        for scan in self.all.extract_if(.., |scan| is_dropped(scan)) {
            if self.dropped.len() == DROPPED_MAX {
                self.dropped.pop_front();
            }
            self.dropped.push_back((scan.number, scan.doublings));
        }
    }

    /// A scan that begins, in the place of one that was dropped if it has that one's number.
    fn begin(&mut self, number: Option<u16>) -> Scan {
        let position = self.dropped.iter().position(|one| Some(one.0) == number);
        let dropped = position.and_then(|position| self.dropped.remove(position));
        self.next = self.next.wrapping_add(1) & SCAN_MASK;
        Scan {
            number: self.next,
            phase: Phase::AtHome,
            at: 0,
            shown: HashSet::new(),
            unshown: HashSet::new(),
            until: Instant(0),
            doublings: dropped.map_or(0, |(_, times)| (times + 1).min(DOUBLINGS_MAX)),
            is_lost: false,
        }
    }
}

impl Scan {
    /// Whether it has passed an address, at which entries are at home or away.
    fn has_passed(&self, reversed: u64, phase: Phase) -> bool {
        match (self.phase, phase) {
            (Phase::Moved, _) | (Phase::Away, Phase::AtHome) => true,
            (Phase::AtHome, Phase::Away) => false,
            _ => reversed < self.at,
        }
    }

    /// Notes that an entry is moved which it had passed before, or not, and has after.
    fn note_move(&mut self, id: Identity, (before, after): (bool, bool), alone: bool, most: usize) {
        let was_shown = self.shown.remove(&id) || before && !self.unshown.contains(&id);
        if alone {
            self.unshown.remove(&id);
        }
        let most = most << self.doublings;
        if after && !was_shown {
            self.is_lost |= self.unshown.len() >= most;
            self.unshown.insert(id);
        } else if !after && was_shown && alone && self.shown.len() < most {
            self.shown.insert(id);
        }
    }
}

impl Index {
    /// The scan of that number, if it has come as far as its owner says: whether it has passed the
    /// entries at home, and its next address. Otherwise a new one. [`Index::put_scan`] puts it
    /// back.
    pub(crate) fn take_scan(&mut self, known: Option<(u16, bool, u64)>) -> Scan {
        let is_it =
            |scan: &Scan| known == Some((scan.number, scan.phase != Phase::AtHome, scan.at));
        match self.scans.all.iter().position(is_it) {
            Some(position) => self.scans.all.remove(position),
            None => self.scans.begin(known.map(|(number, ..)| number)),
        }
    }

    /// Keeps a scan until its next step.
    pub(crate) fn put_scan(&mut self, mut scan: Scan, now: Instant) {
        if self.scans.all.len() == SCANS_MAX {
            let oldest = self.scans.all[0].number;
            self.scans.drop_where(|scan| scan.number == oldest);
        }
        scan.until = Instant(now.0 + (PATIENCE_MS << scan.doublings));
        self.scans.all.push(scan);
    }

    /// Drops scans that took no step for long.
    pub(crate) fn forget_scans(&mut self, now: Instant) {
        if !self.scans.is_empty() {
            self.scans.drop_where(|scan| scan.until < now);
        }
    }

    /// Has the scans know that an entry of `bucket` is moved to its other bucket.
    #[cold]
    pub(super) fn note_move(&mut self, bucket: usize, word: u64) {
        let here = self.address_here(bucket, word);
        let there = here ^ self.table.pattern(word >> TAG_SHIFT);
        let is_away = word & PARTNER != 0;
        let (home, away) = if is_away {
            (there, here)
        } else {
            (here, there)
        };
        let id = self.identity(bucket, word);
        let alone = self.alike(id).count() == 1;
        let (at_home, at_away) = (self.reversed(home), self.reversed(away));
        let most = RECORD_MIN.max(self.items / RECORD_SHARE);
        for scan in &mut self.scans.all {
            let home_passed = scan.has_passed(at_home, Phase::AtHome);
            let away_passed = scan.has_passed(at_away, Phase::Away);
            let passed = match is_away {
                true => (away_passed, home_passed),
                false => (home_passed, away_passed),
            };
            scan.note_move(id, passed, alone, most);
        }
        self.scans.drop_where(|scan| scan.is_lost);
    }

    /// Has the scans forget an entry that is about to be removed.
    #[cold]
    pub(super) fn note_removal(&mut self, slot: SlotRef) {
        let id = self.identity(slot.0 / BUCKET_SLOTS, self.load(slot));
        if self.alike(id).count() == 1 {
            for scan in &mut self.scans.all {
                scan.shown.remove(&id);
                scan.unshown.remove(&id);
            }
        }
    }

    fn identity(&self, bucket: usize, word: u64) -> Identity {
        let (tag, here) = (word >> TAG_SHIFT, self.address_here(bucket, word));
        let home = match word & PARTNER {
            0 => here,
            _ => here ^ self.table.pattern(tag),
        };
        tag >> GROWTH_BITS << HOME_BITS | home
    }

    /// An address with the bits that the largest table uses, in reversed order.
    fn reversed(&self, address: u64) -> u64 {
        let unused = u64::BITS - self.level_max;
        (address << unused >> unused).reverse_bits() >> unused
    }

    /// The slots of all entries of one identity.
    fn alike(&self, id: Identity) -> impl Iterator<Item = SlotRef> + '_ {
        let (home, choice) = (id & ((1 << HOME_BITS) - 1), id >> HOME_BITS);
        let growth = home >> self.table.level_min & ((1 << GROWTH_BITS) - 1);
        let tag = choice << GROWTH_BITS | growth;
        let shape = self.table.shape();
        let addresses = [(home, 0), (home ^ self.table.pattern(tag), 1)];
        let slots = addresses
            .into_iter()
            .flat_map(move |(address, partner_bit)| {
                let bucket = shape.bucket(address);
                let matches = matches(self.table.bucket(bucket), tag << 1 | partner_bit);
                (0..BUCKET_SLOTS)
                    .filter(move |position| matches >> position & 1 == 1)
                    .map(move |position| SlotRef(bucket * BUCKET_SLOTS + position))
            });
        slots.filter(|&slot| self.load(slot) != 0)
    }

    /// Takes a scan on by a bucket, or by a moved entry; calls `each` with the entries that it
    /// shows. Whether there is more.
    pub(crate) fn scan(&self, scan: &mut Scan, mut each: impl FnMut(SlotRef)) -> bool {
        if scan.phase == Phase::Moved {
            let moved = scan.unshown.iter().next().copied();
            if let Some(id) = moved.and_then(|moved| scan.unshown.take(&moved)) {
                self.alike(id).for_each(each);
                scan.at += 1;
            }
            return !scan.unshown.is_empty();
        }
        let Some(Stretch { bucket, from, next }) = self.stretch(scan.at) else {
            unreachable!("a scan changes its phase behind the last bucket")
        };
        let is_whole = from == scan.at && scan.shown.is_empty();
        self.each_entry(bucket, scan.phase, |slot| {
            if is_whole {
                return each(slot);
            }
            let word = self.load(slot);
            let address = self.address_here(bucket, word);
            // In a merged bucket, entries before the scan's position were shown with another
            // bucket.
            let is_passed = self.reversed(address) < scan.at;
            if !is_passed && !scan.shown.remove(&self.identity(bucket, word)) {
                each(slot);
            }
        });
        scan.at = next;
        if next >> self.level_max != 0 {
            (scan.phase, scan.at) = match scan.phase {
                Phase::AtHome => (Phase::Away, 0),
                _ => (Phase::Moved, MOVED_AT),
            };
        }
        scan.phase != Phase::Moved || !scan.unshown.is_empty()
    }

    /// The slots of the moved entry that a scan shows next.
    pub(super) fn next_moved(&self, scan: &Scan) -> Vec<usize> {
        let next = scan.unshown.iter().next();
        let slots = next.into_iter().flat_map(|&id| self.alike(id));
        slots.map(|slot| slot.0).collect()
    }

    /// Prefetches the bucket at a reversed address; returns the address of the next one.
    pub(crate) fn hint_stretch(&self, reversed: u64) -> Option<u64> {
        let stretch = self.stretch(reversed)?;
        self.table.prefetch_bucket(stretch.bucket);
        Some(stretch.next)
    }

    /// Calls `each` with the entries that a scan in this phase may show of the bucket at a reversed
    /// address; the address of the next one.
    pub(crate) fn each_ahead(
        &self,
        phase: Phase,
        reversed: u64,
        each: impl FnMut(SlotRef),
    ) -> Option<u64> {
        let stretch = self.stretch(reversed)?;
        self.each_entry(stretch.bucket, phase, each);
        Some(stretch.next)
    }

    /// Calls `each` with the entries of a bucket that are at home, or away.
    #[inline]
    fn each_entry(&self, bucket: usize, phase: Phase, mut each: impl FnMut(SlotRef)) {
        let mut left = entries(self.table.bucket(bucket), phase == Phase::Away);
        while left != 0 {
            let position = left.trailing_zeros() as usize;
            left &= left - 1;
            each(SlotRef(bucket * BUCKET_SLOTS + position));
        }
    }

    /// The stretch of addresses at a reversed address; `None` behind the last bucket.
    #[inline]
    pub(crate) fn stretch(&self, reversed: u64) -> Option<Stretch> {
        let bits = self.level_max;
        if reversed >> bits != 0 {
            return None;
        }
        let shape = self.table.shape();
        let address = reversed.reverse_bits() >> (u64::BITS - bits);
        let low = address as usize & ((1 << shape.level) - 1);
        let known = shape.level + u32::from(low < shape.split);
        let rest = bits - known;
        let from = reversed >> rest << rest;
        Some(Stretch {
            bucket: shape.bucket(address),
            from,
            next: from + (1 << rest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Index, Instant, PATIENCE_MS, SCANS_MAX};

    #[test]
    fn a_scan_that_was_dropped_gets_more_time_and_others_do_not() {
        let mut index = Index::reserve(1_000, None).unwrap();
        let scan = index.take_scan(None);
        let known = (scan.number, false, scan.at);
        index.put_scan(scan, Instant(0));
        index.forget_scans(Instant(PATIENCE_MS + 1));
        for number in 0..=u16::MAX {
            let forged = index.take_scan(Some((number, true, 7)));
            let has_more = number == known.0;
            assert_eq!(forged.doublings, u32::from(has_more), "{number}");
        }
        // Its number counts once.
        assert_eq!(index.take_scan(Some(known)).doublings, 0);
    }

    #[test]
    fn the_scan_that_took_no_step_for_longest_gives_way() {
        let mut index = Index::reserve(1_000, None).unwrap();
        let known: Vec<_> = (0..=SCANS_MAX as u64)
            .map(|at| {
                let mut scan = index.take_scan(None);
                scan.at = at;
                let known = (scan.number, false, scan.at);
                index.put_scan(scan, Instant(0));
                known
            })
            .collect();
        assert_ne!(index.take_scan(Some(known[0])).number, known[0].0);
        assert_eq!(index.take_scan(Some(known[1])).number, known[1].0);
    }
}
