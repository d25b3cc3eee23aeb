//! Unchecked: checks the items of a killed process while the store is in use.
//!
//! ```text
//! unchecked --its turn, or an item of it is asked for, or it is to be evicted--> sealed or free
//! ```
//!
//! A segment is checked as a whole (`store/unchecked/check.rs`). The bytes between the kept items
//! become holes.
//!
//! Invariants: no item of an unchecked segment is used, and no new entry points there.
//! Why: docs/decisions/0085. Tests: tests/unchecked.rs, tests/killed.rs, tests/restart.rs.

mod check; // which items of one segment stay

pub(super) use self::check::plausible;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::check::{Check, Scratch, Survivor};
use super::Store;
use crate::base::clock::Instant;
use crate::base::space::Space;
use crate::index::{Scan, SlotRef};
use crate::log::metadata::SegmentMetadata;
use crate::log::segment::{Flushed, Queue};
use crate::memory::table::BUCKET_SLOTS;

/// Segments that one choice of a victim checks at most.
const CHECKS_PER_CHOICE: usize = 16;

/// The result of checking restored items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rebuilt {
    /// Valid items, and their bytes.
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// Entries that pointed to no plausible item.
    pub(crate) dropped: u64,
}

/// Progress and results of the check of all shards.
#[derive(Debug, Default)]
pub(crate) struct CheckProgress {
    // Relaxed, all of them: figures to look at, and a hint whether there is anything left.
    segments_left: AtomicU64,
    bytes: AtomicU64,
    bytes_left: AtomicU64,
    items: AtomicU64,
    item_bytes: AtomicU64,
    dropped: AtomicU64,
    scratch: Mutex<Vec<Scratch>>,
}

impl CheckProgress {
    /// Bytes of all segments that were to be checked, and of those that are still unchecked.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        // Relaxed: see the fields.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (load(&self.bytes), load(&self.bytes_left))
    }

    /// Whether no segment is left.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Relaxed: see the field.
        self.segments_left.load(Ordering::Relaxed) == 0
    }

    /// The results so far.
    pub(crate) fn found(&self) -> Rebuilt {
        // Relaxed: see the fields.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Rebuilt {
            items: load(&self.items),
            bytes: load(&self.item_bytes),
            dropped: load(&self.dropped),
        }
    }

    /// Notes what an audit has counted.
    pub(crate) fn set_found(&self, items: u64, bytes: u64) {
        // Relaxed: see the fields.
        self.items.store(items, Ordering::Relaxed);
        self.item_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_dropped(&self, entries: u64) {
        // Relaxed: see the field.
        self.dropped.fetch_add(entries, Ordering::Relaxed);
    }

    fn add_segment(&self, bytes: usize) {
        // Relaxed: see the fields.
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.bytes_left.fetch_add(bytes as u64, Ordering::Relaxed);
        self.segments_left.fetch_add(1, Ordering::Relaxed);
    }

    fn add_checked(&self, segment_bytes: usize, found: Rebuilt) {
        // Relaxed: see the fields.
        self.items.fetch_add(found.items, Ordering::Relaxed);
        self.item_bytes.fetch_add(found.bytes, Ordering::Relaxed);
        self.add_dropped(found.dropped);
        self.bytes_left
            .fetch_sub(segment_bytes as u64, Ordering::Relaxed);
        self.segments_left.fetch_sub(1, Ordering::Relaxed);
    }

    fn take_scratch(&self) -> Scratch {
        let scratch = self.scratch.lock();
        let mut scratch = scratch.unwrap_or_else(PoisonError::into_inner);
        scratch.pop().unwrap_or_default()
    }

    fn put_scratch(&self, mut used: Scratch) {
        let scratch = self.scratch.lock();
        let mut scratch = scratch.unwrap_or_else(PoisonError::into_inner);
        if !self.is_done() {
            used.clear();
            scratch.push(used);
        } else {
            scratch.clear();
        }
    }
}

/// A segment whose items are not checked yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct UncheckedSegment {
    pub(super) recorded: SegmentMetadata,
    /// Entries that lead into it.
    pub(super) entries: usize,
    /// Whether the memory of an expiry histogram is taken for it.
    pub(super) has_histogram: bool,
}

/// The items of a store that are not checked yet.
#[derive(Debug)]
pub(super) struct Unchecked {
    segments: HashMap<u32, UncheckedSegment>,
    /// Entries that lead into them.
    entries: usize,
    /// By queue, in the order in which they were opened.
    in_order: [BTreeSet<(u64, u32)>; 2],
    /// The item that was being changed when the process was killed.
    changing: Option<usize>,
    /// The spaces besides the main one that were named at the start; `None` for all.
    living: Option<Vec<Space>>,
    /// Spaces that were retired since.
    retired: Vec<Space>,
    progress: Arc<CheckProgress>,
}

impl Unchecked {
    pub(super) fn new(living: Option<&[Space]>, progress: Arc<CheckProgress>) -> Unchecked {
        Unchecked {
            segments: HashMap::new(),
            entries: 0,
            in_order: [BTreeSet::new(), BTreeSet::new()],
            changing: None,
            living: living.map(<[Space]>::to_vec),
            retired: Vec::new(),
            progress,
        }
    }

    pub(super) fn add(&mut self, number: u32, segment: UncheckedSegment) {
        let recorded = &segment.recorded;
        self.in_order[recorded.queue as usize].insert((recorded.order, number));
        self.progress.add_segment(recorded.room_bytes);
        self.entries += segment.entries;
        self.segments.insert(number, segment);
    }

    fn take(&mut self, number: u32) -> Option<UncheckedSegment> {
        let segment = self.segments.remove(&number)?;
        self.entries -= segment.entries;
        let recorded = &segment.recorded;
        self.in_order[recorded.queue as usize].remove(&(recorded.order, number));
        Some(segment)
    }

    /// The order and the number of the segment of a queue that was opened first.
    fn first(&self, queue: Queue) -> Option<(u64, u32)> {
        self.in_order[queue as usize].first().copied()
    }

    fn is_gone(&self, space: Space) -> bool {
        let is_named = |living: &Vec<Space>| living.contains(&space);
        !self.living.as_ref().is_none_or(is_named) || self.retired.contains(&space)
    }
}

impl Store {
    /// Whether items are left that were not checked.
    #[inline]
    pub(crate) fn has_unchecked(&self) -> bool {
        self.unchecked.is_some()
    }

    /// Entries whose items are not checked.
    pub(crate) fn unchecked_items(&self) -> usize {
        let unchecked = self.unchecked.as_ref();
        unchecked.map_or(0, |unchecked| unchecked.entries)
    }

    /// Bytes of memory whose items are not checked.
    pub(crate) fn unchecked_bytes(&self) -> usize {
        let unchecked = self.unchecked.as_ref();
        let segments = unchecked.map(|unchecked| unchecked.segments.values());
        let bytes = segments.into_iter().flatten();
        bytes.map(|segment| segment.recorded.room_bytes).sum()
    }

    /// Checks the remaining segment that was opened first; returns whether there was one.
    pub(crate) fn check_next(&mut self, now: Instant) -> bool {
        let next = self.unchecked.as_ref().and_then(|unchecked| {
            let queues = [Queue::Small, Queue::Main].into_iter();
            queues.filter_map(|queue| unchecked.first(queue)).min()
        });
        if let Some((_, number)) = next {
            self.check(number, now);
        }
        next.is_some()
    }

    /// Checks the segments that come before the sealed ones in their queues, so that the next
    /// victim is known.
    #[inline]
    pub(crate) fn check_oldest(&mut self, now: Instant) {
        if self.has_unchecked() {
            self.check_oldest_now(now);
        }
    }

    #[cold]
    fn check_oldest_now(&mut self, now: Instant) {
        for queue in [Queue::Small, Queue::Main] {
            for _ in 0..CHECKS_PER_CHOICE {
                let unchecked = self.unchecked.as_ref();
                let Some((order, number)) = unchecked.and_then(|one| one.first(queue)) else {
                    break;
                };
                if self.log.first_order(queue).is_some_and(|at| at < order) {
                    break;
                }
                self.check(number, now);
            }
        }
    }

    /// Checks the segments in which an item of a key with this hash may lie.
    #[cold]
    #[inline(never)]
    pub(super) fn check_hash(&mut self, hash: u64, now: Instant) {
        loop {
            let mut found = None;
            let log = &self.log;
            let _ = self.index.find(hash, |offset| {
                let number = log.segment_of(offset);
                found = log.is_unchecked(number).then_some(number);
                found.is_some()
            });
            match found {
                Some(number) => self.check(number, now),
                None => return,
            }
        }
    }

    /// Checks the segment into which the entry of a slot leads, if there is one; whether the slot
    /// still holds an entry.
    pub(super) fn check_slot(&mut self, slot: SlotRef, now: Instant) -> bool {
        if self.is_unchecked_at(slot) {
            self.check(self.log.segment_of(self.index.offset(slot)), now);
        }
        self.index.is_used(slot)
    }

    /// Whether the item of the entry in a slot, which holds one, is not checked.
    #[inline]
    pub(super) fn is_unchecked_at(&self, slot: SlotRef) -> bool {
        self.has_unchecked()
            && self.index.is_used(slot)
            && self
                .log
                .is_unchecked(self.log.segment_of(self.index.offset(slot)))
    }

    /// Checks the segments that the entries of a bucket point to.
    pub(super) fn check_bucket(&mut self, bucket: usize, now: Instant) {
        if self.has_unchecked() {
            for number in bucket * BUCKET_SLOTS..(bucket + 1) * BUCKET_SLOTS {
                if let Some(slot) = self.index.entry_at(number) {
                    self.check_slot(slot, now);
                }
            }
        }
    }

    /// Checks the segments that the next step of a scan may show; returns how many.
    #[inline]
    pub(crate) fn check_scan(&mut self, scan: &Scan, now: Instant) -> usize {
        let mut checks = 0;
        if self.has_unchecked() {
            for number in self.index.next_of_scan(scan) {
                if let Some(slot) = self.index.entry_at(number) {
                    checks += usize::from(self.is_unchecked_at(slot));
                    self.check_slot(slot, now);
                }
            }
        }
        checks
    }

    /// Checks the segment in which the item at an offset lies, which was being changed and is
    /// dropped.
    pub(super) fn check_changing(&mut self, changing: usize, now: Instant) {
        let number = self.log.segment_of(changing);
        if let Some(unchecked) = &mut self.unchecked
            && unchecked.segments.contains_key(&number)
        {
            unchecked.changing = Some(changing);
            self.check(number, now);
        }
    }

    /// Marks unchecked items as flushed.
    pub(super) fn flush_unchecked(&mut self, flushed: Flushed) {
        if let Some(unchecked) = &mut self.unchecked {
            for (&number, segment) in &mut unchecked.segments {
                if segment.recorded.flushed != Flushed::All {
                    segment.recorded.flushed = flushed;
                    self.log.metadata().flush(number, flushed);
                }
            }
        }
    }

    /// Drops the items of a space when unchecked segments are checked.
    pub(super) fn retire_unchecked(&mut self, space: Space) {
        if let Some(unchecked) = &mut self.unchecked {
            unchecked.retired.push(space);
        }
    }

    /// Ends the check if no segment is left.
    pub(super) fn end_check_if_done(&mut self) {
        self.unchecked
            .take_if(|unchecked| unchecked.segments.is_empty());
    }

    /// Checks a segment: afterwards it is sealed with the surviving items, or free if there are
    /// none.
    #[cold]
    #[inline(never)]
    fn check(&mut self, number: u32, now: Instant) {
        let Some(mut unchecked) = self.unchecked.take() else {
            return;
        };
        if let Some(segment) = unchecked.take(number) {
            let progress = Arc::clone(&unchecked.progress);
            let mut scratch = progress.take_scratch();
            let found = self.check_segment(number, &segment, &unchecked, &mut scratch, now);
            self.index
                .count_wiped(segment.entries - found.items as usize);
            progress.add_checked(segment.recorded.room_bytes, found);
            progress.put_scratch(scratch);
        }
        self.unchecked = Some(unchecked);
        self.end_check_if_done();
    }

    fn check_segment(
        &mut self,
        number: u32,
        segment: &UncheckedSegment,
        unchecked: &Unchecked,
        scratch: &mut Scratch,
        now: Instant,
    ) -> Rebuilt {
        let index = &mut self.index;
        let parts = (&self.log, &self.packing, &self.hasher);
        let mut check = Check::new(index, parts, unchecked, (number, segment), now);
        check.run(scratch);
        let mut found = check.found();
        self.adopt_checked(number, segment, scratch.survivors(), &mut found);
        found
    }

    /// Seals a segment with its items, in the order in which they lie there; without any it becomes
    /// free.
    fn adopt_checked(
        &mut self,
        number: u32,
        segment: &UncheckedSegment,
        survivors: &mut Vec<Survivor>,
        found: &mut Rebuilt,
    ) {
        let recorded = &segment.recorded;
        // A deadline that the segment's encoding cannot represent is stored in the item.
        let has_own = |one: &Survivor| {
            let layout = &one.layout;
            layout.deadline.instant().is_some() && !self.log.wants_extent(layout.total_bytes())
        };
        let is_timed =
            survivors.len() > 1 && recorded.encoding.width > 0 || survivors.iter().any(has_own);
        let is_paid = segment.has_histogram || is_timed && self.log.reserve_histogram();
        if is_timed && !is_paid {
            found.dropped += survivors.len() as u64;
            for one in survivors.drain(..) {
                self.index.wipe(one.slot);
            }
        }
        let is_timed = is_timed && is_paid;
        if is_paid && !is_timed {
            self.log.give_back_reserved_histogram();
        }
        self.log.adopt(number, recorded, is_timed);
        self.packing.unmark(number);
        for Survivor { layout, .. } in survivors.iter() {
            if layout.is_packed() {
                self.mark_packed(number, layout.value_at());
            }
            self.log.adopt_item(number, layout);
            let due = self.log.segment(number).due(layout.deadline);
            self.tally.add(layout.space(), due);
            found.items += 1;
            found.bytes += layout.total_bytes() as u64;
        }
        if survivors.is_empty() {
            self.log.retire(number);
        }
    }
}
