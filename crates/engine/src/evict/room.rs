//! Room: memory that is won for one long value, some of it in each call.
//!
//! To win 256 MiB from small items takes half a second, so whoever needs that much asks again and
//! again and others have their turns in between. A call walks over a bounded number of entries and
//! bytes; what is half emptied stays the victim, for the next call or the next insertion.
//!
//! Why: docs/decisions/0053. Tests: tests/room.rs.

use super::won::emptiest_of;
use super::{Allowance, Newest, Purpose, RESERVE, Reclaimer};
use crate::clock::Instant;
use crate::store::Store;

/// Entries that one call looks at.
pub(crate) const STEP_ENTRIES: usize = 4_096;
/// Bytes of entries that one call looks at, or one item that has more; what it frees is no more
/// than that and a segment, or a piece of an extent.
pub(crate) const STEP_BYTES: usize = 2 << 20;

/// What one call has won.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Won {
    /// Bytes that went back to the budget.
    pub(crate) bytes: usize,
    /// Bytes of entries that were looked at.
    pub(crate) walked_bytes: usize,
    /// Whether anything was done: if not, nothing may leave at this moment.
    pub(crate) is_any: bool,
}

/// No segment has this number.
pub(super) const NO_EXTENT: u32 = u32::MAX;

impl Allowance {
    /// That of one call for a room for which so many bytes may still be copied.
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
    /// From here on nothing leaves at once for a long value, for which this extent was made, if any
    /// was. Its maker keeps it pinned.
    pub(crate) fn wait_for_room(&mut self, extent: Option<u32>) {
        (self.waits_for_room, self.offered) = (true, extent.unwrap_or(NO_EXTENT));
    }

    /// Ends that.
    pub(crate) fn end_waiting(&mut self) {
        (self.waits_for_room, self.offered) = (false, NO_EXTENT);
    }

    /// Whether nothing is to leave at once.
    #[inline]
    pub(crate) fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    /// The extent that was made for what is stored.
    #[inline]
    pub(crate) fn offered(&self) -> Option<u32> {
        (self.offered != NO_EXTENT).then_some(self.offered)
    }

    /// Frees about `bytes` of memory, or as much as one call may; `copy_bytes` may still be copied
    /// for the room in all.
    pub(crate) fn win_some(
        &mut self,
        store: &mut Store,
        bytes: usize,
        copy_bytes: &mut usize,
        now: Instant,
    ) -> Won {
        self.leave_packing();
        let mut allowance = Allowance::for_room(*copy_bytes);
        let mut won = Won::default();
        while won.bytes < bytes {
            let released = match store.release_piece() {
                0 if store.keeps() || store.free_segments() > RESERVE => store.release_segment(),
                bytes => bytes,
            };
            if released > 0 {
                won.bytes += released;
            } else if allowance.is_used_up(0) {
                break;
            } else if self.has_victim_for_room(store, now) {
                let freed = store.counts.segments_freed;
                self.process(store, &mut allowance, now);
                if store.keeps() && self.victim.is_none() && store.counts.segments_freed == freed {
                    break;
                }
            } else {
                // What is kept for insertions goes last.
                match store.release_segment() {
                    0 => break,
                    bytes => won.bytes += bytes,
                }
            }
            won.is_any = true;
        }
        *copy_bytes = allowance.copy_bytes;
        won.walked_bytes = STEP_BYTES - allowance.walk_bytes;
        won
    }

    /// Empties segments until so many can be opened, or as far as one call may; `copy_bytes` as in
    /// [`Reclaimer::win_some`].
    pub(crate) fn free_some(
        &mut self,
        store: &mut Store,
        segments: usize,
        copy_bytes: &mut usize,
        now: Instant,
    ) -> Won {
        self.leave_packing();
        let mut allowance = Allowance::for_room(*copy_bytes);
        let mut won = Won::default();
        while store.available_segments(segments) < segments && !allowance.is_used_up(0) {
            self.see_to_victim(store, now);
            if self.victim.is_none() {
                break;
            }
            self.process(store, &mut allowance, now);
            won.is_any = true;
        }
        *copy_bytes = allowance.copy_bytes;
        won.walked_bytes = STEP_BYTES - allowance.walk_bytes;
        won
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
        let target = store.resident_bytes().saturating_sub(bytes).max(floor);
        self.newest = if floor == 0 {
            Newest::MayLeave
        } else {
            Newest::Stays
        };
        while store.resident_bytes() > target {
            if store.release_free() {
                continue;
            }
            if self.victim.is_none() {
                self.choose(store, now);
            }
            let mut copy_bytes = store.segment_bytes();
            if !self.finish_victim(store, &mut copy_bytes, now) {
                break;
            }
        }
        self.newest = Newest::Stays;
    }

    /// Whether there is a segment to be emptied for room.
    fn has_victim_for_room(&mut self, store: &mut Store, now: Instant) -> bool {
        if store.keeps() {
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
            // Only open segments are left: they may leave as well.
            store.seal_open();
            self.choose(store, now);
        }
    }
}
