//! Expiration: how an item leaves the cache because its time is over.
//!
//! Exact for the reader: [`Store::find`] compares the item's own deadline with the clock, to the
//! millisecond, and removes an item that it meets too late. Bulk for the memory: reclaiming takes
//! whole segments by what their histograms tell (`expiry_histogram.rs`, `compaction.rs`,
//! `evict.rs`), whether memory is needed or not: background maintenance empties segments while too
//! much is [`Overdue`]. One by one for who wants to hear of each: the [`Sweep`] goes through the
//! index, bucket by bucket. Counts leave out what is over without looking at it (`timer_wheel.rs`,
//! `store/counting.rs`).
//!
//! Invariant: whichever way an item is found to be over, it is counted, and it is noted how long
//! after its deadline that was; who wants to hear of it is told ([`Store::remove_expired`]).
//!
//! Why: docs/decisions/0004, 0013 and 0034. Tests: tests/expiry.rs, tests/overdue.rs,
//! tests/observer.rs.

use crate::clock::{Deadline, Instant};
use crate::index::SlotRef;
use crate::item::Layout;
use crate::key::Key;
use crate::observer::Happened;
use crate::segment::{Flow, Segment, Use};
use crate::stats::ReclaimLag;
use crate::store::{Located, Store};
use crate::timer_wheel::SLOT_MS;

/// How often the sweep takes a step.
const STEP_MS: u64 = 100;
/// Steps in which it goes through a shard: some ten seconds, unless there are too many buckets.
const STEPS_PER_ROUND: usize = 100;
/// Fewest and most buckets that one step looks at, so that the lock is held briefly.
const BUCKETS_MIN: usize = 64;
const BUCKETS_MAX: usize = 512;

/// The overdue part of what is held, in millionths, from which on segments are emptied for it with
/// the least effort: with the error of the histograms and what dies meanwhile it stays below 3 %.
/// With twice the effort half as much is overdue.
const OVERDUE_PPM: u64 = 12_000;
/// A segment that is being filled is emptied as well if this part of it, as a divisor, is overdue:
/// what little a cache holds may all lie in such.
const SEALED_SHARE: usize = 32;
/// A segment is emptied whatever is overdue in all if a fourth of it is and next to nothing of it
/// follows soon: its live items are copied once more at most, and now as well as later.
const RIPE_SHARE: usize = 4;
const FOLLOWING_SHARE: usize = 8;
const FOLLOWING_MS: u64 = 10_000;
/// An item lasts that lives on for so many times its segment's age, which counts for so much at
/// least.
const LASTING_AGES: u64 = 8;
const AGE_MS_MIN: u64 = 1_000;

impl Store {
    /// Finds the live item of `key`. One that is over is removed on the way and counted.
    #[inline(never)]
    pub(crate) fn find(&mut self, key: Key<'_>, now: Instant) -> Option<Located> {
        let located = self.find_stored(key, now)?;
        if self.is_over(&located, now) {
            self.remove_when_met(located.slot, now);
            return None;
        }
        Some(located)
    }

    /// Whether the item's time is over, by its deadline or by a flush. All items of a bulk unlink
    /// are: a request that read the clock before it began may not keep one of them.
    #[inline]
    pub(crate) fn is_over(&self, located: &Located, now: Instant) -> bool {
        located.layout.deadline.has_passed(now)
            || self.is_flushed(located)
            || self.is_in_bulk_unlink(located.segment)
    }

    /// Removes an item that is over and was asked for.
    ///
    /// It is read anew from its slot: handed over, its layout would have to lie in memory for every
    /// read that finds a live item.
    #[cold]
    #[inline(never)]
    fn remove_when_met(&mut self, slot: SlotRef, now: Instant) {
        let located = self.located_at(slot);
        let is_flushed = self.is_flushed(&located);
        self.counts.misses_expired += u64::from(!is_flushed);
        self.counts.misses_flushed += u64::from(is_flushed);
        self.remove_expired(&located, now);
    }

    /// Removes those of these items whose time is over, which were met by somebody who asked for
    /// none of them.
    pub(crate) fn remove_over(&mut self, slots: &[SlotRef], now: Instant) {
        for &slot in slots {
            // A listing may meet an item twice.
            let located = self.still_at(slot);
            if let Some(located) = located.filter(|located| self.is_over(located, now)) {
                self.remove_expired(&located, now);
            }
        }
    }

    /// Removes an item whose time is over. One that was flushed has not expired: it only goes.
    pub(crate) fn remove_expired(&mut self, located: &Located, now: Instant) {
        if !self.is_flushed(located) {
            self.count_expired(&located.layout, now);
            self.counts.expired_unfetched += u64::from(!self.is_fetched(located));
            self.report_gone(located, Happened::Expired);
        }
        self.remove(located);
        self.note_met(located);
    }

    /// Counts an item whose time is over, and which is about to be removed.
    pub(crate) fn count_expired(&mut self, layout: &Layout, now: Instant) {
        self.counts.expired += 1;
        self.counts.reclaim_lag.note(layout.deadline, now);
    }
}

/// What is held of items whose time is over, and where most of it lies.
///
/// Segments that are dead altogether are no part of it: they are reclaimed at once, without a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overdue {
    held_bytes: usize,
    overdue_bytes: usize,
    /// The segment with most of it that can be emptied, and how much that is.
    most: Option<(u32, usize)>,
    /// The same of the segments in which most is over and little follows.
    ripest: Option<(u32, usize)>,
}

impl Overdue {
    /// Looks at all segments.
    pub(crate) fn of(store: &Store, now: Instant) -> Overdue {
        let mut overdue = Overdue::default();
        for (number, segment) in store.segments() {
            overdue.held_bytes += segment.written_bytes();
            if segment.is_all_dead(now) {
                continue;
            }
            let bytes = segment.overdue_bytes(now);
            overdue.overdue_bytes += bytes;
            let is_more = |than: Option<(u32, usize)>| bytes > than.map_or(0, |(_, most)| most);
            let is_open = segment.used == Use::Open && !store.is_pinned(number);
            let is_worth_sealing = is_open && bytes * SEALED_SHARE >= segment.written_bytes();
            if !is_worth_sealing && !store.can_be_emptied(number) {
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

/// How much of what is held may be overdue with this effort.
fn tolerated(held: u64, effort: u8) -> u64 {
    held * OVERDUE_PPM / u64::from(effort.max(1)) / 1_000_000
}

/// Whether much of a segment is overdue, so many bytes, and little of it follows soon.
fn is_ripe(segment: &Segment, overdue_bytes: usize, now: Instant) -> bool {
    if overdue_bytes * RIPE_SHARE < segment.written_bytes() {
        return false;
    }
    let soon = Instant(now.0 + FOLLOWING_MS);
    let following = segment.overdue_bytes(soon).saturating_sub(overdue_bytes);
    following * FOLLOWING_SHARE <= overdue_bytes
}

/// Items that are over or flushed, those included that are over in a moment, beyond what may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excess {
    pub(crate) items: u64,
    tolerated: u64,
}

impl Excess {
    pub(crate) fn of(store: &Store, effort: u8, now: Instant) -> Excess {
        let over = store.tally.over(Instant(now.0 + SLOT_MS)) + store.flushed_items() as u64;
        let tolerated = tolerated(store.items() as u64, effort);
        let items = over.saturating_sub(tolerated);
        Excess { items, tolerated }
    }

    /// Whether it is more than may be once more: a mass expiration, and not what comes all day.
    pub(crate) fn is_much(self) -> bool {
        self.items > self.tolerated
    }
}

/// With what a live item of an emptied segment is written: what outlives the segment's age by
/// far lies together, so that it is not moved again and again for what dies beside it.
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

/// The search for expired items that nobody asks for and whose memory nobody needs.
///
/// It goes on only while somebody wants to hear of each item that expires: memory alone comes back
/// cheaper by whole segments.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The bucket to go on with.
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

    /// Removes what has expired in the next stretch of buckets, if it is time for it.
    pub(crate) fn step(&mut self, store: &mut Store, now: Instant) {
        if !store.report.hears_of_expiry() || now < self.next_at {
            return;
        }
        self.next_at = Instant(now.0 + STEP_MS);
        let buckets = store.buckets();
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

    /// Counts all items of a segment that is dead altogether, by its expiry histogram.
    pub(crate) fn note_all(&mut self, segment: &Segment, now: Instant) {
        let mut bins = Vec::new();
        segment.each_expiring(|bin| bins.push(bin));
        let bytes: usize = bins.iter().map(|bin| bin.bytes).sum();
        let (mut left, mut bytes_left) = (u64::from(segment.items), bytes as u64);
        for bin in bins {
            // What is left of the items goes with what is left of the bytes, so that none is lost.
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
