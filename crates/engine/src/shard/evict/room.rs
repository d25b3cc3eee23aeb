//! Room: reclaims memory for one value, in steps for a long one.
//!
//! To reclaim 256 MiB from small items takes half a second. So an operation that needs that much
//! calls this repeatedly, and other requests are served in between. A call processes a bounded
//! number of entries and bytes; a partly emptied segment stays the victim, for the next call or
//! insertion.
//!
//! Where nothing may be evicted, a store without enough free space compacts the segments with the
//! least live bytes ([`Reclaimer::reclaim_room`]).
//!
//! Why: docs/decisions/0052, 0053. Tests: tests/room.rs, tests/keep.rs.

use super::{Allowance, Newest, Purpose, RESERVE, Reclaimer};
use crate::base::clock::Instant;
use crate::log::Room;
use crate::log::item::Spec;
use crate::log::segment::Queue;
use crate::shard::compaction::emptiest;
use crate::store::{Store, extent_encoding};

/// Entries that one call looks at.
pub(crate) const STEP_ENTRIES: usize = 4_096;
/// Bytes of entries that one call processes, or one item that has more; it frees no more than that
/// and a segment, or a piece of an extent.
pub(crate) const STEP_BYTES: usize = 2 << 20;

/// Segments that are emptied for one store, at most.
const ROUNDS_MAX: usize = 64;

/// The result of one call that reclaims space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reclaimed {
    /// Bytes that went back to the budget.
    pub(crate) bytes: usize,
    /// Bytes of entries that were looked at.
    pub(crate) walked_bytes: usize,
    /// Whether anything was done: if not, nothing can be evicted at present.
    pub(crate) is_any: bool,
}

/// No segment has this number.
pub(super) const NO_EXTENT: u32 = u32::MAX;

impl Allowance {
    /// The allowance of one call for a reservation for which so many bytes may still be copied.
    fn for_room(copy_bytes: usize) -> Allowance {
        Allowance {
            entries: STEP_ENTRIES,
            bytes: 0,
            walk_bytes: STEP_BYTES,
            copy_bytes,
            is_maintenance: false,
        }
    }
}

impl Reclaimer {
    /// From here on nothing is evicted at once for a long value; `extent` was reserved for it, if
    /// any was. Its owner keeps it pinned.
    pub(crate) fn wait_for_room(&mut self, extent: Option<u32>) {
        (self.waits_for_room, self.offered) = (true, extent.unwrap_or(NO_EXTENT));
    }

    /// Ends that.
    pub(crate) fn end_waiting(&mut self) {
        (self.waits_for_room, self.offered) = (false, NO_EXTENT);
    }

    /// Whether nothing may be evicted at once.
    #[inline]
    pub(crate) fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    /// The extent that was reserved for the stored value.
    #[inline]
    pub(crate) fn offered(&self) -> Option<u32> {
        (self.offered != NO_EXTENT).then_some(self.offered)
    }

    /// Frees about `bytes` of memory, or as much as one call may; `copy_bytes` may still be copied
    /// for the room in all.
    pub(crate) fn reclaim_some(
        &mut self,
        store: &mut Store,
        bytes: usize,
        copy_bytes: &mut usize,
        now: Instant,
    ) -> Reclaimed {
        self.leave_packing();
        let mut allowance = Allowance::for_room(*copy_bytes);
        let mut reclaimed = Reclaimed::default();
        while reclaimed.bytes < bytes {
            let released = match store.release_piece() {
                0 if store.never_evicts() || store.log().free_segments() > RESERVE => {
                    store.release_segment()
                }
                bytes => bytes,
            };
            if released > 0 {
                reclaimed.bytes += released;
            } else if allowance.is_used_up(0) {
                break;
            } else if self.has_victim_for_room(store, now) {
                let freed = store.counts.segments_freed;
                self.process(store, &mut allowance, now);
                if store.never_evicts()
                    && self.victim.is_none()
                    && store.counts.segments_freed == freed
                {
                    break;
                }
            } else if !store.check_next(now) {
                // Segments held back for insertions are released last.
                match store.release_segment() {
                    0 => break,
                    bytes => reclaimed.bytes += bytes,
                }
            }
            reclaimed.is_any = true;
        }
        *copy_bytes = allowance.copy_bytes;
        reclaimed.walked_bytes = STEP_BYTES - allowance.walk_bytes;
        reclaimed
    }

    /// Frees about `bytes` of memory of segments in which nothing lives, or as much as one call
    /// may; how many bytes it was.
    pub(crate) fn reclaim_dead(&mut self, store: &mut Store, bytes: usize, now: Instant) -> usize {
        let mut allowance = Allowance::for_room(0);
        let mut reclaimed = 0;
        while reclaimed < bytes && !allowance.is_used_up(0) && self.compact_all_dead(store, now) {
            self.process(store, &mut allowance, now);
            reclaimed += match store.release_piece() {
                0 if store.log().free_segments() > RESERVE => store.release_segment(),
                bytes => bytes,
            };
        }
        reclaimed
    }

    /// Empties segments until so many can be opened, or as far as one call may; `copy_bytes` as in
    /// [`Reclaimer::reclaim_some`].
    pub(crate) fn free_some(
        &mut self,
        store: &mut Store,
        segments: usize,
        copy_bytes: &mut usize,
        now: Instant,
    ) -> Reclaimed {
        self.leave_packing();
        let mut allowance = Allowance::for_room(*copy_bytes);
        let mut reclaimed = Reclaimed::default();
        while store.log().available(segments) < segments && !allowance.is_used_up(0) {
            self.see_to_victim(store, now);
            if self.victim.is_none() {
                if store.check_next(now) {
                    continue;
                }
                break;
            }
            self.process(store, &mut allowance, now);
            reclaimed.is_any = true;
        }
        *copy_bytes = allowance.copy_bytes;
        reclaimed.walked_bytes = STEP_BYTES - allowance.walk_bytes;
        reclaimed
    }

    /// Gives up to `bytes` of this shard's memory back to the shared budget, but keeps `floor`.
    pub(crate) fn give_up_memory(
        &mut self,
        store: &mut Store,
        bytes: usize,
        floor: usize,
        now: Instant,
    ) {
        self.leave_packing();
        let target = store
            .log()
            .resident_bytes()
            .saturating_sub(bytes)
            .max(floor);
        self.newest = if floor == 0 {
            Newest::MayLeave
        } else {
            Newest::Stays
        };
        while store.log().resident_bytes() > target {
            if store.release_free() {
                continue;
            }
            if self.victim.is_none() {
                self.choose(store, now);
            }
            let mut copy_bytes = store.log().segment_bytes();
            if !self.finish_victim(store, &mut copy_bytes, now) && !store.check_next(now) {
                break;
            }
        }
        self.newest = Newest::Stays;
    }

    /// Whether a segment can be emptied to reclaim space.
    fn has_victim_for_room(&mut self, store: &mut Store, now: Instant) -> bool {
        if store.never_evicts() {
            store.purge_for_room();
            if self.victim.is_none()
                && let Some(segment) = emptiest_of(store, now)
            {
                self.set_victim(store, segment, Purpose::Compact, 0);
            }
            return self.victim.is_some();
        }
        self.see_to_victim(store, now);
        self.victim.is_some()
    }

    /// Sees to it that there is a victim that may be emptied for a store, if any segment may.
    pub(super) fn see_to_victim(&mut self, store: &mut Store, now: Instant) {
        self.review_victim(store, now);
        if self.victim.is_none() {
            self.choose(store, now);
        }
        if self.victim.is_none() {
            // Only open segments are left: they may be emptied as well.
            store.seal_open();
            self.choose(store, now);
        }
    }

    /// Space for an item of `spec` where nothing may be evicted: expired and deleted bytes are
    /// reclaimed, within the copies of two segments. The next item can use what these reclaim.
    pub(super) fn reclaim_room(
        &mut self,
        store: &mut Store,
        queue: Queue,
        spec: &Spec,
        now: Instant,
    ) -> Option<Room> {
        let mut copy_bytes = 2 * store.log().segment_bytes();
        for _ in 0..ROUNDS_MAX {
            if let Some(room) = store.take_room(queue.into(), spec, now) {
                return Some(room);
            }
            let bytes = spec.total_bytes(extent_encoding(now));
            let takes_extent = store.wants_extent(spec, now) && store.may_take_extent(bytes);
            if takes_extent && store.release_free() {
                continue;
            }
            let is_purged = store.purge_for_room();
            if self.victim.is_none() {
                match emptiest_of(store, now) {
                    Some(segment) => self.set_victim(store, segment, Purpose::Compact, 0),
                    None if is_purged || store.check_next(now) => continue,
                    None => return None,
                }
            }
            let freed = store.counts.segments_freed;
            self.finish_victim(store, &mut copy_bytes, now);
            if store.counts.segments_freed == freed {
                break;
            }
        }
        store.take_room(queue.into(), spec, now)
    }
}

/// The full segment with the fewest live bytes. If there is none, an open one with reclaimable
/// bytes counts as full.
pub(super) fn emptiest_of(store: &mut Store, now: Instant) -> Option<u32> {
    emptiest(store, now).or_else(|| {
        let is_sealed = store.seal_deadest(now);
        is_sealed.then(|| emptiest(store, now)).flatten()
    })
}
