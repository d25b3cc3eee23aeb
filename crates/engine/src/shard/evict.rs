//! Eviction: which items are evicted when memory is full, and how bytes are reclaimed before.
//!
//! S3-FIFO on segments. New items enter the small queue; when its oldest segment is taken, items
//! that were read move to the main queue and the others are evicted, remembered as ghosts. In the
//! oldest segment of the main queue, items that were read since get another round with their
//! frequency lowered. Before an eviction, a segment without live items is reclaimed, or the one
//! with most reclaimable bytes if enough of it or of all memory is reclaimable; its live items are
//! copied.
//!
//! Work is spread: while fewer than [`RESERVE`] segments are free, each insertion processes a few
//! entries of the current victim. Only when an insertion finds no free space at all does it finish
//! a victim at once, and then it copies at most one segment.
//!
//! Invariant: a victim's live items all lie at or behind the cursor.
//! Why: docs/decisions/0005, 0012 and 0100. Tests: tests/evict.rs, tests/compress.rs.

mod packing; // which segments are compressed before an eviction
pub(crate) mod background; // eviction's part of background maintenance
pub(crate) mod room; // memory that is reclaimed for one value

use self::packing::{PLAIN_FREQUENCY, may_stay_plain, stays_plain};
use self::room::NO_EXTENT;
use crate::base::clock::Instant;
use crate::base::serialize::{serialize, serialize_enum};
use crate::log::Room;
use crate::log::ghost::Ghosts;
use crate::log::item::Spec;
use crate::log::policy::{GHOSTS_PERCENT_MAX, reads_needed, small_bytes};
use crate::log::segment::Queue;
use crate::shard::compaction::{CompactionScan, all_dead};
use crate::store::{LoadedEntry, Located, Store};

/// Segments that stay free for later insertions.
const RESERVE: usize = 2;
/// Entries of the victim that an insertion processes.
const ENTRIES_PER_INSERT: usize = 16;
/// Entries of the victim whose memory is loaded together, before they are processed.
const ENTRIES_AHEAD: usize = 16;
/// Free segments that a shard which holds much releases for each that it opens.
const GIVEN_BACK_PER_SEGMENT: usize = 2;
/// While a segment is being evicted, the reclaimable share of memory, in millionths, above which
/// reclaimable bytes go first again; checked after so many milliseconds, or when this part of
/// memory became reclaimable.
const DEAD_REVIEW_PPM: u64 = 40_000;
const RESCAN_MS: u64 = 10;
const RESCAN_SHARE: usize = 200;
/// Bytes that an insertion may copy for each of its own, up to a bound: beside small segments a
/// large item takes the place of many that were read.
const COPIES_PER_BYTE: usize = 4;
const COPY_BYTES_MAX: usize = 256 << 10;

/// Why a segment is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To reclaim its expired, deleted and overwritten bytes: live items stay in their queue.
    Compact,
    /// To reclaim memory that is not needed yet: the same, but left to background maintenance while
    /// insertions have free space.
    Expire,
    /// To compress what lives in it, which stays in its queue.
    Pack,
    /// To reclaim space: live items are evicted unless they were read.
    Evict,
}

/// How a large item that is the newest of its queue is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newest {
    /// It stays: its client will probably read it soon.
    Stays,
    /// It may be evicted: nothing else can be.
    MayLeave,
}

/// A segment that is being emptied.
#[derive(Clone, Copy, Debug)]
struct Victim {
    segment: u32,
    /// Offset of the next entry to process.
    cursor: usize,
    purpose: Purpose,
    /// Reclaimable share of memory, in millionths, when it was chosen.
    dead_ppm: u64,
}

/// How much a call may do.
struct Allowance {
    entries: usize,
    bytes: usize,
    /// Bytes of entries beyond which nothing is looked at, however many entries that are.
    walk_bytes: usize,
    copy_bytes: usize,
    /// Whether no operation waits for space, so that items that cannot be copied stay, for the next
    /// call.
    is_maintenance: bool,
}

impl Allowance {
    /// Whether the rest of a victim is for the next call, when so much was done by this one.
    ///
    /// Entries and bytes have to be used up both: among small items it takes more entries than
    /// usual to reclaim the bytes that a large one needs.
    #[inline]
    fn is_used_up(&self, done_bytes: usize) -> bool {
        (self.entries == 0 && done_bytes >= self.bytes)
            || self.walk_bytes == 0
            || (self.is_maintenance && self.copy_bytes == 0)
    }
}

/// Bytes that an insertion of `bytes` may copy: a segment at least.
fn copies_for(bytes: usize, store: &Store) -> usize {
    let copies = (bytes * COPIES_PER_BYTE).min(COPY_BYTES_MAX);
    copies.max(store.log().segment_bytes())
}

/// Takes memory back for one shard.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    victim: Option<Victim>,
    ghosts: Ghosts,
    /// Keys for which the ghosts need memory; zero when they have enough.
    ghosts_wanted: usize,
    newest: Newest,
    /// Whether an operation must not evict at once for the value that it stores, and the segment of
    /// the extent that was reserved for it; [`NO_EXTENT`] for none.
    waits_for_room: bool,
    offered: u32,
    /// When reclaimable bytes were last scanned for an eviction, and the sum of all bytes that had
    /// become reclaimable until then.
    scanned: (Instant, usize),
    /// When a segment was last emptied for an eviction.
    evicted_at: Option<Instant>,
    /// Whether the last search for segments without live items found one, so that there may be
    /// more.
    is_tidying: bool,
    /// When background maintenance searches for segments without live items again, having found
    /// none.
    nothing_dead_until: Instant,
    /// When background maintenance next searches for reclaimable bytes between live items.
    reclaim_at: Instant,
    /// When background maintenance compresses the next segment.
    pack_at: Instant,
    /// Whether moved items may be compressed: no operation waits for them.
    may_pack: bool,
}

serialize_enum!(Purpose { 0 => Compact, 1 => Expire, 2 => Evict, 3 => Pack });
serialize_enum!(Newest { 0 => Stays, 1 => MayLeave });
serialize!(Victim {
    segment,
    cursor,
    purpose,
    dead_ppm
});
serialize!(Reclaimer {
    victim,
    ghosts,
    ghosts_wanted,
    newest,
    scanned,
    evicted_at,
    is_tidying,
    nothing_dead_until,
    reclaim_at,
    pack_at,
    may_pack,
    waits_for_room,
    offered,
});

impl Reclaimer {
    pub(crate) fn new() -> Reclaimer {
        Reclaimer {
            victim: None,
            ghosts: Ghosts::none(),
            ghosts_wanted: 0,
            newest: Newest::Stays,
            waits_for_room: false,
            offered: NO_EXTENT,
            scanned: (Instant(0), 0),
            evicted_at: None,
            is_tidying: false,
            nothing_dead_until: Instant(0),
            reclaim_at: Instant(0),
            pack_at: Instant(0),
            may_pack: false,
        }
    }

    /// Sets what happens to the newest large item from here on.
    pub(crate) fn set_newest(&mut self, newest: Newest) {
        self.newest = newest;
    }

    /// Bytes the ghosts take.
    pub(crate) fn ghost_bytes(&self) -> usize {
        self.ghosts.bytes()
    }

    /// Prefetches the ghosts of a new key, which decide its queue.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.ghosts.prefetch(hash);
    }

    /// The queue a key without an item enters.
    pub(crate) fn queue_for_new(&mut self, hash: u64) -> Queue {
        if self.ghosts.take(hash) {
            Queue::Main
        } else {
            Queue::Small
        }
    }

    /// Takes back that a key enters a queue, which is asked for it once more.
    #[cold]
    pub(crate) fn take_back(&mut self, hash: u64, queue: Queue) {
        if queue == Queue::Main {
            self.ghosts.insert(hash);
        }
    }

    /// Does an insertion's share of the work; `bytes` is the size of the insertion.
    #[inline]
    pub(crate) fn step(&mut self, store: &mut Store, bytes: usize, now: Instant) {
        if self.leaves_to_maintenance(store) {
            return;
        }
        self.may_pack = true;
        if self.victim.is_none() {
            let wanted = self.free_wanted(store);
            if store.log().available(wanted) < wanted {
                self.choose(store, now);
            } else if self.ghosts_wanted > 0 {
                self.enlarge_ghosts(store);
            } else if store.take_rolled() || self.is_tidying {
                self.keep_tidy(store, now);
            }
        }
        self.review_victim(store, now);
        if self.victim.is_some() {
            // Twice the bytes taken, so that the victim is empty before the reserve is used up.
            let mut allowance = Allowance {
                entries: ENTRIES_PER_INSERT,
                bytes: 2 * bytes,
                walk_bytes: usize::MAX,
                copy_bytes: copies_for(bytes, store),
                is_maintenance: false,
            };
            self.process(store, &mut allowance, now);
        }
        self.may_pack = false;
    }

    /// Whether the victim is background maintenance's, and insertions need nothing of it. If they
    /// do, they continue with it as with any other.
    fn leaves_to_maintenance(&self, store: &Store) -> bool {
        let victim = self.victim.as_ref();
        victim.is_some_and(|victim| victim.purpose == Purpose::Expire)
            && store.log().available(RESERVE) >= RESERVE
    }

    /// Called each time this shard opens a segment while it has free memory: empties segments
    /// without live items, so that their memory is reused before memory that was never used. If all
    /// shards together run short of memory, it empties segments that are mostly reclaimable, so
    /// that few bytes are reclaimable when the first shard has to evict. A shard that holds much
    /// releases what it does not need.
    fn keep_tidy(&mut self, store: &mut Store, now: Instant) {
        if !store.log().is_budget_short() {
            self.is_tidying = self.compact_all_dead(store, now);
            return;
        }
        if store.log().holds_much() {
            for _ in 0..GIVEN_BACK_PER_SEGMENT {
                if store.log().free_segments() > RESERVE {
                    store.release_free();
                }
            }
        }
        self.is_tidying = self.compact(store, &CompactionScan::of(store, None, now));
    }

    /// Space for an item of `spec`, reclaimed if none is free; `None` if nothing in this shard can
    /// be evicted: all of it is being read or received, or the item needs more than the shard has.
    pub(crate) fn make_room(
        &mut self,
        store: &mut Store,
        queue: Queue,
        spec: &Spec,
        now: Instant,
    ) -> Option<Room> {
        self.leave_packing();
        // For all victims together: further copies would fill the space that they free, while the
        // caller waits.
        let mut copy_bytes = copies_for(spec.key_bytes + spec.value_bytes, store);
        if store.never_evicts() {
            return self.reclaim_room(store, queue, spec, now);
        }
        loop {
            if let Some(room) = store.take_room(queue.into(), spec, now) {
                return Some(room);
            }
            if !self.give_up_segment(store, spec, &mut copy_bytes, now) {
                return store.take_last_room(queue.into(), spec, now);
            }
        }
    }

    /// Grows the extent of an item where it lies, so that its value can become longer by `more`;
    /// other items are evicted for that. `false` if it has no extent, no addresses behind it, or
    /// nothing may be evicted.
    pub(crate) fn make_room_behind(
        &mut self,
        store: &mut Store,
        located: &Located,
        more: usize,
        now: Instant,
    ) -> bool {
        if store.extend(located, more) {
            return true;
        }
        if store.never_evicts() || !store.can_extend(located, more) {
            return false;
        }
        self.leave_packing();
        // The item itself must not be evicted.
        let _pin = store.pin(located);
        let mut copy_bytes = copies_for(more, store);
        while !store.extend(located, more) {
            if store.release_free() {
                continue;
            }
            self.see_to_victim(store, now);
            if !self.finish_victim(store, &mut copy_bytes, now) && !store.check_next(now) {
                return false;
            }
        }
        true
    }

    /// Frees a segment, or its memory if an extent is wanted.
    fn give_up_segment(
        &mut self,
        store: &mut Store,
        spec: &Spec,
        copy_bytes: &mut usize,
        now: Instant,
    ) -> bool {
        if store.wants_extent(spec, now) && store.release_free() {
            return true;
        }
        self.see_to_victim(store, now);
        self.finish_victim(store, copy_bytes, now) || store.check_next(now)
    }

    /// Processes the rest of the victim and may copy up to `copy_bytes` of it, from which the
    /// copied bytes are subtracted; `false` if there is no victim.
    fn finish_victim(&mut self, store: &mut Store, copy_bytes: &mut usize, now: Instant) -> bool {
        let is_there = self.victim.is_some();
        let mut all = Allowance {
            entries: usize::MAX,
            bytes: usize::MAX,
            walk_bytes: usize::MAX,
            copy_bytes: *copy_bytes,
            is_maintenance: false,
        };
        self.process(store, &mut all, now);
        *copy_bytes = all.copy_bytes;
        is_there
    }

    /// Makes the segment the victim that should go first.
    fn choose(&mut self, store: &mut Store, now: Instant) {
        store.check_oldest(now);
        let scan = CompactionScan::of(store, None, now);
        if !self.compact(store, &scan) && !self.pack(store) && !store.never_evicts() {
            self.choose_to_evict(store, &scan, now);
        }
    }

    /// Makes the segment the victim that should be compacted, if there is one; whether there was.
    fn compact(&mut self, store: &Store, scan: &CompactionScan) -> bool {
        let Some(segment) = scan.worth_compacting() else {
            return false;
        };
        self.set_victim(store, segment, Purpose::Compact, scan.dead_ppm());
        true
    }

    /// Makes a segment without live items the victim, if there is one; returns whether there was.
    fn compact_all_dead(&mut self, store: &Store, now: Instant) -> bool {
        let Some(segment) = all_dead(store, now) else {
            return false;
        };
        // The victim has no live item that could be evicted.
        self.set_victim(store, segment, Purpose::Compact, 0);
        true
    }

    fn choose_to_evict(&mut self, store: &mut Store, scan: &CompactionScan, now: Instant) {
        if let Some(segment) = self.next_to_evict(store) {
            self.note_scan(store, scan, now);
            self.plan_ghosts(store);
            self.set_victim(store, segment, Purpose::Evict, scan.dead_ppm());
        }
    }

    /// The segment whose live items would be evicted next, if any may.
    fn next_to_evict(&self, store: &Store) -> Option<u32> {
        // The segment that is being filled does not count: in a small cache it is a large part.
        let (small_with_open, small) = store.queue_bytes(Queue::Small);
        let all = small_with_open + store.queue_bytes(Queue::Main).0;
        let share = small_bytes(all, store.log().small_percent(), store.few_items_bytes());
        let order = if small > share {
            [Queue::Small, Queue::Main]
        } else {
            [Queue::Main, Queue::Small]
        };
        let oldest = |queue: Queue| {
            let sealed = store.log().sealed(queue);
            let newest = sealed
                .back()
                .copied()
                .filter(|&number| self.newest == Newest::Stays && store.log().is_extent(number));
            let mut candidates = sealed.iter().copied();
            candidates.find(|&number| Some(number) != newest && !store.log().is_pinned(number))
        };
        order.into_iter().find_map(oldest)
    }

    /// The segment whose live items are being evicted, or would be next, if any may.
    pub(crate) fn oldest(&self, store: &Store) -> Option<u32> {
        let victim = self.victim.map(|victim| victim.segment);
        victim.or_else(|| self.next_to_evict(store))
    }

    /// Records an eviction of live items, with the reclaimable bytes that `scan` found.
    fn note_scan(&mut self, store: &mut Store, scan: &CompactionScan, now: Instant) {
        let max = &mut store.counts.dead_at_eviction_max_ppm;
        *max = scan.dead_ppm().max(*max);
        self.scanned = (now, store.log().buried_bytes());
        self.evicted_at = Some(now);
    }

    /// Turns from evicting to compacting if many bytes became reclaimable since the victim was
    /// chosen. The emptied part of the victim counts as well, so it is soon reused.
    fn review_victim(&mut self, store: &mut Store, now: Instant) {
        let Some(victim) = self
            .victim
            .filter(|victim| victim.purpose == Purpose::Evict)
        else {
            return;
        };
        let (at, buried) = self.scanned;
        let is_recent = now.0 < at.0 + RESCAN_MS
            && (store.log().buried_bytes() - buried) * RESCAN_SHARE < store.log().resident_bytes();
        if is_recent {
            return;
        }
        if store.is_extent_leaving() {
            // Its memory is used first, so that no live item is evicted for it.
            self.victim = None;
            return;
        }
        let scan = CompactionScan::of(store, Some(victim.segment), now);
        let is_much = scan.dead_ppm() > DEAD_REVIEW_PPM;
        if !(is_much && self.compact(store, &scan)) {
            self.note_scan(store, &scan, now);
        }
    }

    /// Sees how much memory the ghosts should have for the number of items, within their share.
    fn plan_ghosts(&mut self, store: &Store) {
        let most = store.log().resident_bytes() * GHOSTS_PERCENT_MAX / 100 / size_of::<u16>();
        let keys = store.all_items().min(most);
        if keys > self.ghosts.capacity() * 2 {
            self.ghosts_wanted = keys;
        }
    }

    /// Segments that should be free: the reserve, and the memory wanted by the ghosts.
    fn free_wanted(&self, store: &Store) -> usize {
        if store.never_evicts() {
            return store.free_ahead(RESERVE);
        }
        let ghost_bytes = match self.ghosts_wanted {
            0 => 0,
            keys => Ghosts::bytes_for(keys),
        };
        RESERVE + ghost_bytes.div_ceil(store.log().segment_bytes())
    }

    /// Gives the ghosts the memory they should have, if it is there.
    fn enlarge_ghosts(&mut self, store: &mut Store) {
        let bytes = Ghosts::bytes_for(self.ghosts_wanted);
        if !store.take_memory(bytes) {
            return;
        }
        store.give_memory(self.ghosts.bytes());
        self.ghosts = Ghosts::of(self.ghosts_wanted);
        self.ghosts_wanted = 0;
    }

    fn set_victim(&mut self, store: &Store, segment: u32, purpose: Purpose, dead_ppm: u64) {
        let (cursor, _) = store.log().bounds(segment);
        self.victim = Some(Victim {
            segment,
            cursor,
            purpose,
            dead_ppm,
        });
    }

    /// Processes entries of the victim until the allowance or the victim is used up.
    fn process(&mut self, store: &mut Store, allowance: &mut Allowance, now: Instant) {
        let Some(mut victim) = self.victim else {
            return;
        };
        if store.index().is_unlinked(victim.segment) {
            self.process_unlinked(store, victim, allowance, now);
            return;
        }
        let (_, end) = store.log().bounds(victim.segment);
        let mut loaded = [LoadedEntry::NONE; ENTRIES_AHEAD];
        let mut done_bytes = 0;
        while victim.cursor < end {
            if allowance.is_used_up(done_bytes) {
                self.victim = Some(victim);
                return;
            }
            let count = self.load(store, victim.cursor, end, &mut loaded);
            for loaded in &loaded[..count] {
                if allowance.is_used_up(done_bytes) {
                    break;
                }
                allowance.entries = allowance.entries.saturating_sub(1);
                let bytes = loaded.entry.total_bytes();
                done_bytes += bytes;
                allowance.walk_bytes = allowance.walk_bytes.saturating_sub(bytes);
                if let Some(located) = store.item_in(victim.segment, loaded, now) {
                    let requeued =
                        self.process_item(store, &victim, &located, loaded.hash, allowance, now);
                    if requeued {
                        self.victim = None;
                        return;
                    }
                }
                victim.cursor += bytes;
            }
        }
        self.victim = None;
        store.retire_segment(victim.segment);
    }

    /// Reads the next entries of the victim, and prefetches what they need; returns how many.
    /// Processing one of them leaves the others unchanged.
    ///
    /// The end of an entry is known only when its first bytes are loaded. To hide that latency, the
    /// first bytes of each entry are prefetched while the one before is read, and those of the next
    /// step's first entry at the end of this one.
    fn load(
        &self,
        store: &Store,
        from: usize,
        end: usize,
        loaded: &mut [LoadedEntry; ENTRIES_AHEAD],
    ) -> usize {
        let (mut at, mut count) = (from, 0);
        while at < end && count < ENTRIES_AHEAD {
            let one = store.load_entry(at);
            self.ghosts.prefetch(one.hash);
            at += one.entry.total_bytes();
            loaded[count] = one;
            count += 1;
        }
        count
    }

    /// Decides about one item of the victim; `true` if the rest of the victim stays: an extent as a
    /// whole, or items for which background maintenance has no free space.
    fn process_item(
        &mut self,
        store: &mut Store,
        victim: &Victim,
        located: &Located,
        hash: u64,
        allowance: &mut Allowance,
        now: Instant,
    ) -> bool {
        if store.is_over(located, now) {
            store.remove_expired(located, now);
            return false;
        }
        let queue = store.log().segment(victim.segment).queue;
        let frequency = store.frequency(located);
        let (memory, bytes) = (store.log().resident_bytes(), located.layout.total_bytes());
        let mut reads_needed = reads_needed(queue, bytes, memory, store.all_items());
        let may_stay_plain = frequency > 0 && may_stay_plain(store, victim, located);
        if may_stay_plain {
            // It becomes shorter before it is looked at again.
            reads_needed = 1;
        }
        let stays_plain = may_stay_plain && stays_plain(store, victim, frequency);
        let (queue, frequency) = match (victim.purpose, queue) {
            (Purpose::Evict, _) if stays_plain => (queue, PLAIN_FREQUENCY),
            (Purpose::Compact | Purpose::Expire | Purpose::Pack, queue) => (queue, frequency),
            (Purpose::Evict, _) if frequency < reads_needed => {
                if queue == Queue::Small {
                    self.ghosts.insert(hash);
                }
                store.remove_evicted(located);
                return false;
            }
            (Purpose::Evict, Queue::Small) => (Queue::Main, 0),
            (Purpose::Evict, Queue::Main) => (Queue::Main, frequency - reads_needed),
        };
        // An extent holds nothing else, so it changes its queue as it lies, without a copy.
        if victim.purpose == Purpose::Evict && store.log().is_extent(victim.segment) {
            store.requeue(located, queue, frequency);
            return true;
        }
        let form = self.form(stays_plain);
        if allowance.is_maintenance {
            let to = (queue, frequency, form);
            return !self.move_in_background(store, located, to, allowance, now);
        }
        let bytes = located.layout.total_bytes();
        // Without space for the copy the item is evicted, whatever its value: keeping it would take
        // the memory that is being reclaimed.
        let stream = self.stream_of(victim.purpose, queue);
        if bytes > allowance.copy_bytes || !store.move_to(located, stream, frequency, form, now) {
            if store.never_evicts() {
                return true;
            }
            let max = &mut store.counts.dead_at_eviction_max_ppm;
            *max = victim.dead_ppm.max(*max);
            store.remove_evicted(located);
            return false;
        }
        allowance.copy_bytes -= bytes;
        false
    }
}
