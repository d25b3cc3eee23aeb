//! Audit: the exact contents of a cache, counted entry by entry.
//!
//! The engine maintains sums and estimates, because a walk over the log on every request is too
//! slow. Here they are checked against a walk over all segments and all slots of the index. A shard
//! with a sum that is wrong is reported as an [`Inconsistency`].
//!
//! Why: docs/decisions/0004 and 0008. Tests: tests/model.rs, tests/expiry.rs.

use super::Store;
use crate::base::clock::Instant;
use crate::deadlines::expiry_histogram::{self, ExpiryHistogram};
use crate::index::SlotRef;
use crate::log::item::{Entry, Layout};
use crate::log::segment::{Flushed, Queue, Segment, Use};
use crate::store::tally::Tally;

/// Bytes of a slot of the index.
const SLOT_BYTES: u64 = 8;

/// An exact account of a cache at one moment; all bytes of `memory_bytes` are in one of the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Items that a read would find.
    pub live_items: u64,
    /// Their bytes, headers and keys included.
    pub live_bytes: u64,
    /// Expired items whose memory was not reclaimed yet.
    pub expired_items: u64,
    /// Their bytes.
    pub expired_bytes: u64,
    /// Items made misses by a flush whose memory was not taken back yet.
    pub flushed_items: u64,
    /// Their bytes.
    pub flushed_bytes: u64,
    /// Items that are gone with their space and were not purged yet.
    pub gone_items: u64,
    /// Their bytes.
    pub gone_bytes: u64,
    /// Bytes of deleted, overwritten and moved items, and of abandoned drafts.
    pub hole_bytes: u64,
    /// Bytes of drafts in segments that are still being filled or read.
    pub draft_bytes: u64,
    /// Bytes of memory in segments without items that handles or drafts hold back.
    pub held_bytes: u64,
    /// Bytes of resident memory that hold nothing.
    pub free_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of all other bookkeeping.
    pub overhead_bytes: u64,
    /// Bytes that the shards may still take.
    pub left_bytes: u64,
    /// The configured memory.
    pub memory_bytes: u64,
    /// How far the engine's estimate of reclaimable bytes may be from the truth: the bytes whose
    /// deadline lies in the same bin of their segment's histogram as the present moment.
    pub unsure_bytes: u64,
}

impl Audit {
    /// Bytes of expired, flushed, deleted and overwritten items, with their slots of the index.
    #[must_use]
    pub fn dead_bytes(&self) -> u64 {
        let slots = (self.expired_items + self.flushed_items) * SLOT_BYTES;
        self.expired_bytes + self.flushed_bytes + self.hole_bytes + slots
    }

    /// The reclaimable share of the configured memory, in millionths.
    #[must_use]
    pub fn dead_ppm(&self) -> u64 {
        self.dead_bytes() * 1_000_000 / self.memory_bytes.max(1)
    }

    /// Adds what `store` holds, and checks it.
    pub(crate) fn add(&mut self, store: &Store, now: Instant) -> Result<(), Inconsistency> {
        let before = self.live_items + self.expired_items;
        let mut entries = self.flushed_items + self.gone_items;
        let (gone_before, mut tally) = (self.gone_items, Tally::new(store.tally.position()));
        let mut unlinked = 0;
        for number in store.log.in_use() {
            unlinked += self.add_segment(store, number, &mut tally, now)?;
        }
        equal(
            "items without an entry",
            store.index.unlinked() as u64,
            unlinked,
        )?;
        let unflushed = self.live_items + self.expired_items - before;
        equal("items", store.items() as u64, unflushed)?;
        entries = unflushed + self.flushed_items + self.gone_items - entries;
        store
            .tally
            .check(&tally, self.gone_items - gone_before)
            .or_else(inconsistent)?;
        equal("entries of the index", store.index.items() as u64, entries)?;
        check_index(store)?;
        self.add_table(store)?;
        self.index_bytes += store.index.bytes() as u64;
        self.overhead_bytes += store.log.overhead_bytes() as u64;
        Ok(())
    }

    /// Checks that all memory is accounted for: `fixed_bytes` were taken before the first item.
    pub(crate) fn check_memory(&mut self, fixed_bytes: u64) -> Result<(), Inconsistency> {
        self.overhead_bytes += fixed_bytes;
        let in_log = self.live_bytes
            + self.expired_bytes
            + self.flushed_bytes
            + self.gone_bytes
            + self.hole_bytes
            + self.draft_bytes
            + self.held_bytes
            + self.free_bytes;
        let all = in_log + self.index_bytes + self.overhead_bytes + self.left_bytes;
        equal("memory", self.memory_bytes, all)
    }

    /// Adds the contents of a segment; returns how many of its items have no entry any more.
    fn add_segment(
        &mut self,
        store: &Store,
        number: u32,
        tally: &mut Tally,
        now: Instant,
    ) -> Result<u64, Inconsistency> {
        let segment = store.log.segment(number);
        let walk = Walk::of(store, number, tally, now)?;
        let name = |what: &str| format!("{what} of segment {number}");
        let items = walk.items + walk.gone_items;
        equal(&name("items"), u64::from(segment.items), items)?;
        let holes = walk.hole_bytes + walk.draft_bytes;
        equal(&name("hole bytes"), segment.hole_bytes() as u64, holes)?;
        if !segment.agrees_with(&walk.histogram) {
            let found = &walk.histogram;
            return inconsistent(format!(
                "expiry histogram of segment {number}: {segment:?}, {found:?}"
            ));
        }
        self.free_bytes += (segment.room_bytes() - segment.written_bytes()) as u64;
        if store.log.is_pinned(number) {
            self.hole_bytes += walk.hole_bytes;
            self.draft_bytes += walk.draft_bytes;
        } else {
            self.hole_bytes += holes;
        }
        if segment.flushed == Flushed::All {
            self.flushed_items += walk.gone_items;
            self.flushed_bytes += walk.gone_bytes;
            return Ok(walk.unlinked);
        }
        self.gone_items += walk.gone_items;
        self.gone_bytes += walk.gone_bytes;
        self.live_items += walk.items - walk.expired_items;
        self.live_bytes += walk.live_bytes;
        self.expired_items += walk.expired_items;
        self.expired_bytes += walk.expired_bytes;
        self.unsure_bytes += walk.unsure_bytes;
        // The engine's estimate may be off by no more than that.
        let exact = holes + walk.expired_bytes + walk.gone_expired_bytes;
        let known = segment.dead_bytes(now) as u64;
        if known.abs_diff(exact) > walk.unsure_bytes {
            let unsure = walk.unsure_bytes;
            return inconsistent(format!(
                "dead bytes of segment {number}: about {known}, but {exact} +- {unsure}"
            ));
        }
        Ok(walk.unlinked)
    }

    /// Sums up the table of segments by their use.
    fn add_table(&mut self, store: &Store) -> Result<(), Inconsistency> {
        let log = &store.log;
        let (mut resident, mut listed, mut queues) = (0, 0, [0; 2]);
        let mut held = 0;
        for number in 0..log.table_len() as u32 {
            let segment = log.segment(number);
            resident += segment.room_bytes();
            if segment.used != Use::Partial && log.counts(segment.room_bytes()) {
                held += segment.room_bytes();
            }
            match segment.used {
                Use::Open | Use::Sealed => {
                    listed += 1;
                    queues[segment.queue as usize] += segment.room_bytes();
                }
                Use::Free | Use::InTransit => self.free_bytes += segment.room_bytes() as u64,
                Use::Partial if !log.is_pinned(number) => {
                    self.free_bytes += segment.room_bytes() as u64;
                }
                Use::Draining | Use::Partial => self.held_bytes += segment.room_bytes() as u64,
                // An audit begins with the check of all items.
                Use::Unused | Use::Continued | Use::Unchecked => {}
            }
        }
        equal(
            "open and sealed segments",
            log.in_use().count() as u64,
            listed,
        )?;
        equal(
            "resident bytes",
            log.resident_bytes() as u64,
            resident as u64,
        )?;
        equal("bytes held evenly", log.held_bytes() as u64, held as u64)?;
        for queue in [Queue::Small, Queue::Main] {
            let (known, found) = (log.queue_bytes(queue), queues[queue as usize]);
            equal(
                &format!("bytes of queue {queue:?}"),
                known as u64,
                found as u64,
            )?;
        }
        Ok(())
    }
}

/// A sum of the engine that is wrong, or an entry that is out of place: a defect of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency(String);

impl std::fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Inconsistency {}

fn inconsistent<T>(what: String) -> Result<T, Inconsistency> {
    Err(Inconsistency(what))
}

pub(crate) fn equal(what: &str, known: u64, found: u64) -> Result<(), Inconsistency> {
    if known == found {
        return Ok(());
    }
    inconsistent(format!("{what}: {known} accounted, {found} found"))
}

/// The contents of one segment.
struct Walk {
    items: u64,
    live_bytes: u64,
    expired_items: u64,
    expired_bytes: u64,
    /// Flushed, or gone with their space; the last of them past their deadlines as well.
    gone_items: u64,
    gone_bytes: u64,
    gone_expired_bytes: u64,
    hole_bytes: u64,
    draft_bytes: u64,
    unsure_bytes: u64,
    /// Items that have left the index ahead of the log.
    unlinked: u64,
    histogram: ExpiryHistogram,
}

impl Walk {
    fn of(
        store: &Store,
        number: u32,
        tally: &mut Tally,
        now: Instant,
    ) -> Result<Walk, Inconsistency> {
        let mut walk = Walk {
            items: 0,
            live_bytes: 0,
            expired_items: 0,
            expired_bytes: 0,
            gone_items: 0,
            gone_bytes: 0,
            gone_expired_bytes: 0,
            hole_bytes: 0,
            draft_bytes: 0,
            unsure_bytes: 0,
            unlinked: 0,
            histogram: ExpiryHistogram::new(),
        };
        let segment = store.log.segment(number);
        let mut cursor = store.log.start_of(number);
        let end = cursor + segment.written_bytes();
        while cursor < end {
            let entry = store.log.read(cursor);
            match entry {
                Entry::Hole(bytes) => walk.hole_bytes += bytes as u64,
                Entry::Draft(bytes) => walk.draft_bytes += bytes as u64,
                Entry::Item(layout) => {
                    let space = layout.space();
                    let is_gone = store.tally.is_flushed(segment.flushed, space);
                    if !is_gone {
                        tally.add(space, segment.due(layout.deadline));
                    }
                    walk.add_item(segment, &layout, is_gone, now);
                    let hash = store.hashed_key_of(&layout).hash();
                    let is_linked = store.index.find_at(hash, layout.offset).is_some();
                    if !is_linked && segment.is_all_dead(now) {
                        walk.unlinked += 1;
                    } else {
                        check_item(store, segment, &layout)?;
                    }
                }
            }
            cursor += entry.total_bytes();
        }
        equal(
            &format!("end of segment {number}"),
            end as u64,
            cursor as u64,
        )?;
        Ok(walk)
    }

    fn add_item(&mut self, segment: &Segment, layout: &Layout, is_gone: bool, now: Instant) {
        let bytes = layout.total_bytes();
        self.items += u64::from(!is_gone);
        self.histogram
            .add(bytes, layout.deadline, segment.encoding());
        if is_gone {
            let is_expired = layout.deadline.has_passed(now);
            self.gone_items += 1;
            self.gone_bytes += bytes as u64;
            self.gone_expired_bytes += u64::from(is_expired) * bytes as u64;
        } else if layout.deadline.has_passed(now) {
            self.expired_items += 1;
            self.expired_bytes += bytes as u64;
        } else {
            self.live_bytes += bytes as u64;
        }
        // The last item of a segment counts as live until the whole segment has expired.
        if segment.items == 1
            || expiry_histogram::is_same_bin(layout.deadline, now, segment.encoding())
        {
            self.unsure_bytes += bytes as u64;
        }
    }
}

/// Checks that an item is found under its key, and that its segment knows how long it lives.
fn check_item(store: &Store, segment: &Segment, layout: &Layout) -> Result<(), Inconsistency> {
    let at = layout.offset;
    let base = Instant(segment.encoding().base_ms);
    if layout.deadline > segment.last_deadline && !layout.deadline.has_passed(base) {
        return inconsistent(format!("the item at {at} outlives its segment"));
    }
    let key = store.hashed_key_of(layout);
    let found = store
        .index
        .find(key.hash(), |offset| match store.log.read(offset) {
            Entry::Item(other) => {
                let other = store.hashed_key_of(&other);
                other.bytes() == key.bytes() && other.space() == key.space()
            }
            _ => false,
        });
    match found.map(|slot| store.index.offset(slot)) {
        Some(offset) if offset == at => Ok(()),
        found => inconsistent(format!("the key of the item at {at} leads to {found:?}")),
    }
}

/// Checks that every entry of the index points to an item, and that the item leads back to it.
fn check_index(store: &Store) -> Result<(), Inconsistency> {
    let mut wrong = None;
    for bucket in 0..store.index.buckets() {
        store.index.each_in_bucket(bucket, |slot| {
            if !leads_back(store, slot) {
                wrong = Some(store.index.offset(slot));
            }
        });
    }
    match wrong {
        None => Ok(()),
        Some(at) => inconsistent(format!("an entry of the index points to {at}")),
    }
}

fn leads_back(store: &Store, slot: SlotRef) -> bool {
    let offset = store.index.offset(slot);
    let segment = store.log.segment(store.log.segment_of(offset));
    if !matches!(segment.used, Use::Open | Use::Sealed) {
        return false;
    }
    match store.log.read(offset) {
        Entry::Item(layout) => {
            let hash = store.hashed_key_of(&layout).hash();
            store.index.find_at(hash, offset) == Some(slot)
        }
        _ => false,
    }
}
