//! Background reclaiming: what maintenance empties while no store waits for memory, and how it
//! moves live items.
//!
//! Why: docs/decisions/0034, 0039, 0067 and 0071. Tests: tests/overdue.rs, tests/reclaim.rs,
//! tests/mass_expiration.rs.

use super::{Allowance, Purpose, RESERVE, Reclaimer, Victim};
use crate::base::clock::Instant;
use crate::interface::config::Effort;
use crate::log::segment::{Flow, Queue, Stream, Use};
use crate::shard::compaction::{CompactionScan, Reclaimable};
use crate::shard::expire::{Overdue, flow_of};
use crate::store::{Form, Located, Store};

/// Free segments that background maintenance does not use: the reserve, and one for each flow of
/// survivors.
const EXPIRE_RESERVE: usize = RESERVE + 2;
/// For this long after an eviction of live items, expired items are left to eviction, which knows
/// better what is worth a copy while memory is short.
const EVICTING_MS: u64 = 60_000;
/// For this long after an eviction of live items, deleted and overwritten items are left to
/// eviction.
const EVICTED_MS: u64 = 1_000;
/// Entries that one call of [`Reclaimer::tick`] processes, and bytes of them that it copies, or one
/// item that has more.
pub(crate) const ENTRIES_PER_TICK: usize = 128;
const COPY_BYTES_PER_TICK: usize = 256 << 10;
/// Unlinked items that are removed from the log in the time of one lookup; and in the time of how
/// many a segment of such items is freed as a whole.
const UNLINKED_PER_ENTRY: usize = 8;
const ENTRIES_PER_SEGMENT: usize = 16;
/// Buckets in which one tick unlinks entries of a bulk unlink.
const BUCKETS_PER_TICK: usize = 2_048;
/// Pause of background maintenance between two looks at all segments when the first found nothing
/// to do.
const SCAN_MS: u64 = 50;
/// Buckets by which the index may shrink in one tick.
const SHRINK_PER_TICK: usize = 64;

impl Reclaimer {
    /// Maintenance off the request path: empties segments without live items, and others while too
    /// many bytes are overdue or reclaimable; if memory is to be released, segments that are mostly
    /// reclaimable; shrinks the index. Returns whether some of it is left.
    pub(crate) fn tick(&mut self, store: &mut Store, effort: Effort, now: Instant) -> bool {
        self.may_pack = true;
        let is_left = self.tick_packing(store, effort, now);
        self.may_pack = false;
        is_left
    }

    /// The same, while what moves is compressed.
    fn tick_packing(&mut self, store: &mut Store, effort: Effort, now: Instant) -> bool {
        store.tidy(now);
        if store.step_bulk_unlink(BUCKETS_PER_TICK) {
            return true;
        }
        let mut allowance = Allowance {
            entries: ENTRIES_PER_TICK,
            bytes: 0,
            walk_bytes: usize::MAX,
            copy_bytes: COPY_BYTES_PER_TICK,
            is_maintenance: true,
        };
        while !allowance.is_used_up(0) {
            if self.victim.is_none() {
                if now < self.nothing_dead_until {
                    break;
                }
                if store.begin_bulk_unlink(now) {
                    return true;
                }
                let is_needed = store.never_evicts() && store.log().is_budget_short();
                let is_chosen = self.compact_unlinked(store)
                    || if (effort.release && effort.begins) || is_needed {
                        self.compact(store, &CompactionScan::of(store, None, now))
                    } else {
                        self.compact_all_dead(store, now)
                    };
                if !is_chosen && !effort.begins {
                    break;
                }
                let is_chosen = is_chosen || self.expire(store, effort, now);
                let is_chosen = is_chosen || self.reclaim(store, now);
                if !is_chosen && !self.pack_in_background(store, effort, now) {
                    let next = Instant(now.0 + SCAN_MS);
                    let pauses = self.reclaim_at > now;
                    self.nothing_dead_until = match pauses {
                        true => next.min(self.reclaim_at),
                        false => next,
                    };
                    break;
                }
            }
            self.process(store, &mut allowance, now);
        }
        store.shrink_index(SHRINK_PER_TICK) || allowance.is_used_up(0)
    }

    /// Whether background maintenance has partly emptied a segment and has the space to continue at
    /// once.
    pub(crate) fn is_emptying(&self, now: Instant) -> bool {
        let is_maintenance_victim =
            |victim: &Victim| !matches!(victim.purpose, Purpose::Evict | Purpose::Pack);
        self.victim.as_ref().is_some_and(is_maintenance_victim) && now >= self.nothing_dead_until
    }

    /// Makes the segment with most overdue bytes the victim, if too many are overdue in all and
    /// there is space for its live items; returns whether it did.
    fn expire(&mut self, store: &mut Store, effort: Effort, now: Instant) -> bool {
        let is_evicting = self.evicted_at.is_some_and(|at| now.0 < at.0 + EVICTING_MS);
        if is_evicting || store.log().available(EXPIRE_RESERVE) < EXPIRE_RESERVE {
            return false;
        }
        let Some(segment) = Overdue::of(store, now).worth_emptying(effort.expire) else {
            return false;
        };
        store.seal_if_open(segment);
        self.set_victim(store, segment, Purpose::Expire, 0);
        true
    }

    /// Makes the segment with most reclaimable bytes, for any reason, the victim if there are too
    /// many in all; returns whether it did. Segments are emptied one after the other with a pause
    /// between, so that it costs little at any time.
    fn reclaim(&mut self, store: &mut Store, now: Instant) -> bool {
        let is_evicting = self.evicted_at.is_some_and(|at| now.0 < at.0 + EVICTED_MS);
        if now < self.reclaim_at || is_evicting || store.log().available(RESERVE) < RESERVE {
            return false;
        }
        let found = Reclaimable::of(store, now).worth_emptying();
        if let Some((segment, pause_ms)) = found {
            self.reclaim_at = Instant(now.0 + pause_ms);
            let has_room = store.log().available(EXPIRE_RESERVE) == EXPIRE_RESERVE;
            let purpose = match has_room {
                true => Purpose::Expire,
                false => Purpose::Compact,
            };
            store.seal_if_open(segment);
            self.set_victim(store, segment, purpose, 0);
        }
        found.is_some()
    }

    /// Ends the use of an extent whose item has left, so that the next long value gets its memory.
    /// A victim ends with its own last step.
    #[cold]
    pub(crate) fn retire_emptied(&mut self, store: &mut Store, extent: u32) {
        if self.victim.as_ref().is_none_or(|one| one.segment != extent) {
            store.retire_segment(extent);
        }
    }

    /// Makes a segment the victim whose items have left the index together, if there is one;
    /// whether there was.
    fn compact_unlinked(&mut self, store: &mut Store) -> bool {
        let unlinked = store.next_unlinked();
        // Remaining readers hold no lock; their pins keep the segment from being reused.
        let unlinked = unlinked.filter(|&number| store.log().segment(number).used == Use::Sealed);
        if let Some(segment) = unlinked {
            self.set_victim(store, segment, Purpose::Compact, 0);
        }
        unlinked.is_some()
    }

    /// Takes the items of a victim out of the log that have left the index together: all at once,
    /// or until the allowance or the victim is used up.
    pub(super) fn process_unlinked(
        &mut self,
        store: &mut Store,
        mut victim: Victim,
        allowance: &mut Allowance,
        now: Instant,
    ) {
        let (begin, end) = (victim.cursor, store.log().bounds(victim.segment).1);
        if store.remove_all_unlinked(victim.segment, now) {
            allowance.entries = allowance.entries.saturating_sub(ENTRIES_PER_SEGMENT);
            victim.cursor = end;
        }
        while victim.cursor < end {
            if allowance.is_used_up(victim.cursor - begin) {
                self.victim = Some(victim);
                return;
            }
            let (segment, at) = (victim.segment, victim.cursor);
            victim.cursor = store.remove_unlinked_in(segment, at, UNLINKED_PER_ENTRY, now);
            allowance.entries = allowance.entries.saturating_sub(1);
            allowance.walk_bytes = allowance.walk_bytes.saturating_sub(victim.cursor - at);
        }
        self.victim = None;
        store.retire_segment(victim.segment);
    }

    /// Moves a live item of background maintenance's victim to the items of its queue with a
    /// similar remaining lifetime, while there is free space; returns whether there was. If not,
    /// background maintenance pauses: the memory that it would reclaim is not needed.
    pub(super) fn move_in_background(
        &mut self,
        store: &mut Store,
        located: &Located,
        (queue, frequency, form): (Queue, u8, Form),
        allowance: &mut Allowance,
        now: Instant,
    ) -> bool {
        let compacts = self
            .victim
            .is_some_and(|one| one.purpose == Purpose::Compact);
        let flow = match compacts && store.log().available(RESERVE) < RESERVE {
            // With few segments, writing moved items beside new ones takes no further segment.
            true => Flow::Fresh,
            false => flow_of(&located.layout, store.log().segment(located.segment), now),
        };
        let stream = Stream { queue, flow };
        let is_moved = store.move_to(located, stream, frequency, form, now);
        if is_moved {
            let bytes = located.layout.total_bytes();
            allowance.copy_bytes = allowance.copy_bytes.saturating_sub(bytes);
        } else {
            self.nothing_dead_until = Instant(now.0 + SCAN_MS);
        }
        is_moved
    }
}
