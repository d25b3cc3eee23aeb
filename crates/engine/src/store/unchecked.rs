//! Unchecked: checks the items of a killed process while the store is in use.
//!
//! ```text
//! unchecked --its turn, or an item of it is asked for, or it is to be evicted--> sealed or free
//! ```
//!
//! A segment is checked as a whole. Its entries are found from its items: they lie in a gapless
//! row, and each one's key leads to its slots. If these are fewer than lead into the segment, the
//! whole index is looked through for them. An entry is kept if the item is plausible, its key has
//! the entry's tag, its blocks match their checksums, its length agrees with the next item, a
//! compressed value is whole and has its dictionary, and it is neither expired nor flushed. The
//! item that was being changed is dropped. The bytes between the kept items become holes.
//!
//! Invariants: no item of an unchecked segment is used, and no new entry points there.
//! Why: docs/decisions/0085. Tests: tests/unchecked.rs, tests/killed.rs, tests/restart.rs.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Store;
use super::sums::{Damage, damage};
use crate::clock::Instant;
use crate::index::{Scan, SlotRef};
use crate::item::{Entry, HEADER_BYTES_MAX, Layout, is_plausible, plausible_bytes};
use crate::metadata::SegmentMetadata;
use crate::segment::{Flushed, Queue};
use crate::space::Space;
use crate::table::BUCKET_SLOTS;

/// Items whose buckets are loaded before they are looked at.
const BUCKETS_AHEAD: usize = 24;
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
            used.leads.clear();
            used.survivors.clear();
            scratch.push(used);
        } else {
            scratch.clear();
        }
    }
}

/// Memory that the check of a segment uses, and then that of another.
#[derive(Debug, Default)]
struct Scratch {
    leads: Vec<Lead>,
    survivors: Vec<Survivor>,
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

/// Where an entry leads, the number of its slot, and the hash of the key there if it is known.
#[derive(Clone, Copy, Debug)]
struct Lead {
    offset: usize,
    slot: usize,
    hash: Option<u64>,
}

/// An item whose entry stays.
#[derive(Clone, Copy, Debug)]
struct Survivor {
    layout: Layout,
    slot: usize,
}

impl Survivor {
    fn end(&self) -> usize {
        self.layout.offset + self.layout.total_bytes()
    }
}

/// How the check classifies an entry.
enum Entered {
    Kept(Survivor),
    /// It is expired or flushed.
    Ended,
    Doubtful,
}

/// The check of one segment.
struct Check<'c> {
    unchecked: &'c Unchecked,
    recorded: SegmentMetadata,
    now: Instant,
    found: Rebuilt,
    /// Where the last surviving item ends.
    end: usize,
    /// The blocks that do not match their checksums.
    damage: Damage,
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
        let recorded = segment.recorded;
        let Scratch { leads, survivors } = scratch;
        let has_memory = self.log.has_memory(number, &recorded);
        if !(has_memory && self.find_leads(number, segment, leads)) {
            self.find_leads_in_index(number, leads);
        }
        let mut check = Check {
            unchecked,
            recorded,
            now,
            found: Rebuilt::default(),
            end: 0,
            damage: match has_memory {
                true => damage(&self.log, number, recorded.room_bytes),
                false => Damage::default(),
            },
        };
        if has_memory {
            self.look_at_all(leads, survivors, &mut check);
        } else {
            check.found.dropped += leads.len() as u64;
            leads.iter().for_each(|lead| self.index.wipe(lead.slot));
        }
        self.adopt_checked(number, segment, survivors, &mut check);
        check.found
    }

    /// Finds the entries that lead into a segment by the items that lie there; `false` if these are
    /// not all.
    fn find_leads(&self, number: u32, segment: &UncheckedSegment, leads: &mut Vec<Lead>) -> bool {
        let encoding = segment.recorded.encoding;
        let start = self.log.start_of(number);
        let end = start + segment.recorded.room_bytes;
        let mut at = start;
        let mut ahead = [(0, 0); BUCKETS_AHEAD];
        let (mut first, mut behind) = (0, 0);
        leads.clear();
        loop {
            while at < end && behind - first < BUCKETS_AHEAD {
                let front = self.log.bytes(at, (end - at).min(HEADER_BYTES_MAX));
                let Some(bytes) = plausible_bytes(front, end - at, encoding) else {
                    at = end;
                    break;
                };
                if let Entry::Item(layout) = crate::item::read(self.log.arena(), at, encoding) {
                    let hash = self.hashed_key_of(&layout).hash();
                    self.index.table().probe(hash);
                    ahead[behind % BUCKETS_AHEAD] = (at, hash);
                    behind += 1;
                }
                at += bytes;
            }
            if first == behind {
                break;
            }
            let (offset, hash) = ahead[first % BUCKETS_AHEAD];
            first += 1;
            self.index.each_leading_to(hash, offset, |slot| {
                let hash = Some(hash);
                leads.push(Lead { offset, slot, hash });
            });
            if leads.len() >= segment.entries {
                break;
            }
        }
        leads.len() == segment.entries
    }

    /// Finds the entries that lead into a segment by a look at all entries.
    fn find_leads_in_index(&self, number: u32, leads: &mut Vec<Lead>) {
        leads.clear();
        for slot in 0..self.index.slots() {
            if let Some(offset) = self.index.leads_to(slot)
                && self.log.segment_of(offset) == number
            {
                let hash = None;
                leads.push(Lead { offset, slot, hash });
            }
        }
        leads.sort_unstable_by_key(|lead| lead.offset);
    }

    /// Checks the entries that point into a segment, in the order of their items; removes those
    /// that fail.
    fn look_at_all(
        &mut self,
        leads: &[Lead],
        survivors: &mut Vec<Survivor>,
        check: &mut Check<'_>,
    ) {
        for lead in leads {
            let entered = match check.unchecked.changing {
                Some(changing) if changing == lead.offset => Entered::Doubtful,
                _ => self.look_at(lead, check),
            };
            match entered {
                Entered::Kept(survivor) => self.keep_apart(survivor, survivors, check),
                Entered::Ended => self.index.wipe(lead.slot),
                Entered::Doubtful => {
                    self.index.wipe(lead.slot);
                    check.found.dropped += 1;
                }
            }
        }
        self.drop_misfits(leads, survivors, check);
    }

    /// Drops items whose length does not agree with where the next item begins: a segment is a
    /// gapless row of entries. The last of a segment has none behind it to be compared with, nor
    /// has one before an entry that was being changed.
    fn drop_misfits(
        &mut self,
        leads: &[Lead],
        survivors: &mut Vec<Survivor>,
        check: &mut Check<'_>,
    ) {
        let mut leads = leads.iter().peekable();
        survivors.retain(|one| {
            while leads
                .next_if(|lead| lead.offset <= one.layout.offset)
                .is_some()
            {}
            let fits = leads.peek().is_none_or(|next| {
                let changing = check.unchecked.changing;
                changing.is_some_and(|at| (one.end()..=next.offset).contains(&at))
                    || self.leads_on(one.end(), next.offset, &check.recorded)
            });
            if !fits {
                check.found.dropped += 1;
                self.index.wipe(one.slot);
            }
            fits
        });
    }

    /// Whether entries without a gap lie between two offsets.
    fn leads_on(&self, mut at: usize, to: usize, recorded: &SegmentMetadata) -> bool {
        while at < to {
            let room = to - at;
            let front = self.log.bytes(at, room.min(HEADER_BYTES_MAX));
            match plausible_bytes(front, room, recorded.encoding) {
                Some(bytes) => at += bytes,
                None => return false,
            }
        }
        at == to
    }

    fn look_at(&self, lead: &Lead, check: &Check<'_>) -> Entered {
        let Some(layout) = self.plausible(lead.offset, &check.recorded) else {
            return Entered::Doubtful;
        };
        // A wrong length does no harm: then the block that contains it is wrong.
        let end = lead.offset + layout.total_bytes();
        if check.damage.touches(lead.offset, end) {
            return Entered::Doubtful;
        }
        let hash = lead
            .hash
            .unwrap_or_else(|| self.hashed_key_of(&layout).hash());
        // An entry where no lookup comes was not made by a process: it is dropped as well.
        if !self.index.is_found_in(lead.slot, hash) {
            return Entered::Doubtful;
        }
        if layout.is_packed() && !self.is_sound(&layout) {
            return Entered::Doubtful;
        }
        let is_gone = match (check.recorded.flushed, layout.space()) {
            (Flushed::All, _) | (Flushed::Main, Space::MAIN) => true,
            (_, Space::MAIN) => false,
            (_, space) => check.unchecked.is_gone(space),
        };
        if is_gone || layout.deadline.has_passed(check.now) {
            return Entered::Ended;
        }
        let slot = lead.slot;
        Entered::Kept(Survivor { layout, slot })
    }

    /// The item at an offset of a recorded segment, if what lies there can be one.
    pub(super) fn plausible(&self, offset: usize, recorded: &SegmentMetadata) -> Option<Layout> {
        let start = self.log.start_of(self.log.segment_of(offset));
        let room = (start + recorded.room_bytes).checked_sub(offset)?;
        let front = self.log.bytes(offset, room.min(HEADER_BYTES_MAX));
        if !is_plausible(front, room, recorded.encoding) {
            return None;
        }
        match crate::item::read(self.log.arena(), offset, recorded.encoding) {
            Entry::Item(layout) => Some(layout),
            _ => None,
        }
    }

    /// Keeps an item behind those before it: one of two entries that lead to the same, and neither
    /// of two that have bytes in common.
    fn keep_apart(&mut self, one: Survivor, kept: &mut Vec<Survivor>, check: &mut Check<'_>) {
        let last = kept.last();
        if last.is_some_and(|last| last.layout.offset == one.layout.offset) {
            // A move was interrupted: either may stay.
            self.index.wipe(one.slot);
            return;
        }
        if one.layout.offset >= check.end {
            check.end = one.end();
            kept.push(one);
            return;
        }
        check.found.dropped += 1;
        self.index.wipe(one.slot);
        if let Some(last) = kept.pop_if(|last| one.layout.offset < last.end()) {
            check.found.dropped += 1;
            self.index.wipe(last.slot);
        }
        check.end = check.end.max(one.end());
    }

    /// Seals a segment with its items, in the order in which they lie there; without any it becomes
    /// free.
    fn adopt_checked(
        &mut self,
        number: u32,
        segment: &UncheckedSegment,
        survivors: &mut Vec<Survivor>,
        check: &mut Check<'_>,
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
            check.found.dropped += survivors.len() as u64;
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
            check.found.items += 1;
            check.found.bytes += layout.total_bytes() as u64;
        }
        if survivors.is_empty() {
            self.log.retire(number);
        }
    }
}
