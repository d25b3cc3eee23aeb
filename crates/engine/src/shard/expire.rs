//! Expiration: how an expired item is removed.
//!
//! Exact for the reader: [`Store::find`] compares the item's own deadline with the clock, to the
//! millisecond, and removes an expired item that it finds. Bulk for the memory: reclaiming takes
//! whole segments, as their histograms indicate (`expiry_histogram.rs`, `compaction.rs`,
//! `evict.rs`), whether memory is needed or not: background maintenance empties segments while too
//! much is [`Overdue`]. One by one for observers of each expiration: the [`Sweep`] goes through the
//! index, bucket by bucket. Counts leave expired items out without looking at them
//! (`timer_wheel.rs`, `store/counting.rs`).
//!
//! Invariant: whichever way an item is found expired, it is counted, with the delay since its
//! deadline, and the observer is notified if it wants that ([`Store::remove_expired`]).
//!
//! Why: docs/decisions/0004, 0013 and 0034. Tests: tests/expiry.rs, tests/overdue.rs,
//! tests/observer.rs.

use crate::base::clock::{Deadline, Instant};
use crate::deadlines::timer_wheel::SLOT_MS;
use crate::index::SlotRef;
use crate::interface::observer::Happened;
use crate::interface::stats::ReclaimLag;
use crate::key::Key;
use crate::log::item::Layout;
use crate::log::segment::{Flow, Segment, Use};
use crate::store::{Located, Store};

/// How often the sweep takes a step.
const STEP_MS: u64 = 100;
/// Steps of one pass through a shard: some ten seconds, unless there are too many buckets.
const STEPS_PER_ROUND: usize = 100;
/// Fewest and most buckets that one step looks at, so that the lock is held briefly.
const BUCKETS_MIN: usize = 64;
const BUCKETS_MAX: usize = 512;

/// The overdue part of the stored bytes, in millionths, from which on segments are emptied for it
/// with the least effort: with the error of the histograms and the bytes that expire meanwhile it
/// stays below 3 %. With twice the effort half as much is overdue.
const OVERDUE_PPM: u64 = 12_000;
/// A segment that is being filled is emptied as well if this part of it, as a divisor, is overdue:
/// what little a cache holds may all lie in such.
const SEALED_SHARE: usize = 32;
/// A segment is emptied, however little is overdue in all, if a fourth of it is overdue and next to
/// nothing more of it expires soon: its live items are copied at most once more, now or later.
const RIPE_SHARE: usize = 4;
const FOLLOWING_SHARE: usize = 8;
const FOLLOWING_MS: u64 = 10_000;
/// An item is long-lived if its remaining lifetime is so many times its segment's age, which counts
/// as so much at least.
const LASTING_AGES: u64 = 8;
const AGE_MS_MIN: u64 = 1_000;

impl Store {
    /// Finds the live item of `key`. An expired one is removed and counted.
    #[inline(never)]
    pub(crate) fn find(&mut self, key: Key<'_>, now: Instant) -> Option<Located> {
        let located = self.find_stored(key, now)?;
        if self.is_over(&located, now) {
            self.remove_when_met(located.slot, now);
            return None;
        }
        Some(located)
    }

    /// Whether the item has expired, by its deadline or by a flush. All items of a bulk unlink
    /// have: a request that read the clock before it began must not keep one of them.
    #[inline]
    pub(crate) fn is_over(&self, located: &Located, now: Instant) -> bool {
        located.layout.deadline.has_passed(now)
            || self.is_flushed(located)
            || self.index().is_in_bulk_unlink(located.segment)
    }

    /// Removes an expired item that was requested.
    ///
    /// It is read again from its slot: as an argument, its layout would have to lie in memory for
    /// every read that finds a live item.
    #[cold]
    #[inline(never)]
    fn remove_when_met(&mut self, slot: SlotRef, now: Instant) {
        let located = self.located_at(slot);
        let is_flushed = self.is_flushed(&located);
        self.counts.misses_expired += u64::from(!is_flushed);
        self.counts.misses_flushed += u64::from(is_flushed);
        self.remove_expired(&located, now);
    }

    /// Removes the expired ones of these items, which were found but not requested.
    pub(crate) fn remove_over(&mut self, slots: &[SlotRef], now: Instant) {
        for &slot in slots {
            // A listing may meet an item twice.
            let located = self.still_at(slot);
            if let Some(located) = located.filter(|located| self.is_over(located, now)) {
                self.remove_expired(&located, now);
            }
        }
    }

    /// Removes an expired item. A flushed one has not expired: it is only removed.
    pub(crate) fn remove_expired(&mut self, located: &Located, now: Instant) {
        if !self.is_flushed(located) {
            self.count_expired(&located.layout, now);
            self.counts.expired_unfetched += u64::from(!self.is_fetched(located));
            self.report_gone(located, Happened::Expired);
        }
        self.remove(located);
        self.note_met(located);
    }

    /// Counts an expired item that is about to be removed.
    pub(crate) fn count_expired(&mut self, layout: &Layout, now: Instant) {
        self.counts.expired += 1;
        self.counts.reclaim_lag.note(layout.deadline, now);
    }
}

/// The stored bytes that belong to expired items, and the segment that holds most of them.
///
/// Segments without live items are not part of it: they are reclaimed at once, without a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overdue {
    held_bytes: usize,
    overdue_bytes: usize,
    /// The segment with most of it that can be emptied, and how much that is.
    most: Option<(u32, usize)>,
    /// The same of the segments in which most bytes are overdue and few expire soon.
    ripest: Option<(u32, usize)>,
}

impl Overdue {
    /// Looks at all segments.
    pub(crate) fn of(store: &Store, now: Instant) -> Overdue {
        let mut overdue = Overdue::default();
        for (number, segment) in store.log().segments() {
            overdue.held_bytes += segment.written_bytes();
            if segment.is_all_dead(now) {
                continue;
            }
            let bytes = segment.overdue_bytes(now);
            overdue.overdue_bytes += bytes;
            let is_more = |than: Option<(u32, usize)>| bytes > than.map_or(0, |(_, most)| most);
            let is_open = segment.used == Use::Open && !store.log().is_pinned(number);
            let is_worth_sealing = is_open && bytes * SEALED_SHARE >= segment.written_bytes();
            if !is_worth_sealing && !store.log().can_be_emptied(number) {
                continue;
            }
            if is_more(overdue.most) {
                overdue.most = Some((number, bytes));
            }
            if is_more(overdue.ripest) && is_ripe(segment, bytes, now) {
                overdue.ripest = Some((number, bytes));
            }
        }
        overdue
    }

    /// The segment to be emptied, if there is a ripe one or more is overdue than may be with this
    /// effort.
    pub(crate) fn worth_emptying(&self, effort: u8) -> Option<u32> {
        let is_much = self.overdue_bytes as u64 > tolerated(self.held_bytes as u64, effort);
        let segment = self.most.filter(|_| is_much).or(self.ripest);
        segment.map(|(segment, _)| segment)
    }
}

/// How many of the stored bytes may be overdue with this effort.
fn tolerated(held: u64, effort: u8) -> u64 {
    held * OVERDUE_PPM / u64::from(effort.max(1)) / 1_000_000
}

/// Whether much of a segment, `overdue_bytes`, is overdue, and little more of it expires soon.
fn is_ripe(segment: &Segment, overdue_bytes: usize, now: Instant) -> bool {
    if overdue_bytes * RIPE_SHARE < segment.written_bytes() {
        return false;
    }
    let soon = Instant(now.0 + FOLLOWING_MS);
    let following = segment.overdue_bytes(soon).saturating_sub(overdue_bytes);
    following * FOLLOWING_SHARE <= overdue_bytes
}

/// Expired and flushed items, and those that expire in a moment, above the tolerated number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excess {
    pub(crate) items: u64,
    tolerated: u64,
}

impl Excess {
    pub(crate) fn of(store: &Store, effort: u8, now: Instant) -> Excess {
        let over = store.tally.over(Instant(now.0 + SLOT_MS)) + store.tally.flushed() as u64;
        let tolerated = tolerated(store.items() as u64, effort);
        let items = over.saturating_sub(tolerated);
        Excess { items, tolerated }
    }

    /// Whether there are so many that it is a mass expiration and not the usual rate.
    pub(crate) fn is_much(self) -> bool {
        self.items > self.tolerated
    }
}

/// The flow to which a live item of an emptied segment is written: items that live much longer than
/// the segment's age are stored together, so that they are not moved again and again for
/// short-lived ones beside them.
pub(crate) fn flow_of(layout: &Layout, segment: &Segment, now: Instant) -> Flow {
    let age_ms = now
        .0
        .saturating_sub(segment.encoding().base_ms)
        .max(AGE_MS_MIN);
    match layout.deadline.remaining_ms(now) {
        Some(left_ms) if left_ms <= age_ms * LASTING_AGES => Flow::Brief,
        _ => Flow::Lasting,
    }
}

/// The search for expired items that are not requested and whose memory is not needed.
///
/// It runs only while an observer wants each expiration: whole segments are a cheaper way to
/// reclaim memory.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The next bucket.
    bucket: usize,
    next_at: Instant,
}

impl Sweep {
    pub(crate) fn new() -> Sweep {
        Sweep {
            bucket: 0,
            next_at: Instant(0),
        }
    }

    /// Removes expired items in the next buckets, if it is time for that.
    pub(crate) fn step(&mut self, store: &mut Store, now: Instant) {
        if !store.report.hears_of_expiry() || now < self.next_at {
            return;
        }
        self.next_at = Instant(now.0 + STEP_MS);
        let buckets = store.index().buckets();
        let looked_at = (buckets / STEPS_PER_ROUND).clamp(BUCKETS_MIN, BUCKETS_MAX);
        for _ in 0..looked_at.min(buckets) {
            // The index may have shrunk since the last step.
            let bucket = self.bucket % buckets;
            self.bucket = bucket + 1;
            store.each_in_bucket(bucket, |store, located| {
                if located.layout.deadline.has_passed(now) {
                    store.remove_expired(located, now);
                }
            });
        }
    }
}

impl ReclaimLag {
    /// Counts an item whose memory is taken back at `now`.
    fn note(&mut self, deadline: Deadline, now: Instant) {
        let passed = deadline.instant();
        let lag_ms = passed.map_or(0, |at| now.0.saturating_sub(at.0));
        self.items[ReclaimLag::bin_of(lag_ms)] += 1;
    }

    /// Counts all items of a segment without live items, by its expiry histogram.
    pub(crate) fn note_all(&mut self, segment: &Segment, now: Instant) {
        let mut bins = Vec::new();
        segment.each_expiring(|bin| bins.push(bin));
        let bytes: usize = bins.iter().map(|bin| bin.bytes).sum();
        let (mut left, mut bytes_left) = (u64::from(segment.items), bytes as u64);
        for bin in bins {
            // Items are divided in proportion to the remaining bytes, so that none is lost.
            let items = left * bin.bytes as u64 / bytes_left.max(1);
            let at_ms = f64::midpoint(bin.from_ms, bin.until_ms) as u64;
            self.items[ReclaimLag::bin_of(now.0.saturating_sub(at_ms))] += items;
            (left, bytes_left) = (left - items, bytes_left - bin.bytes as u64);
        }
        // Items of a segment without a histogram.
        let last = segment.last_deadline.instant().map_or(now.0, |at| at.0);
        self.items[ReclaimLag::bin_of(now.0.saturating_sub(last))] += left;
    }

    /// Adds the counts of another shard.
    pub(crate) fn add(&mut self, other: &ReclaimLag) {
        for (sum, items) in self.items.iter_mut().zip(other.items) {
            *sum += items;
        }
    }
}
