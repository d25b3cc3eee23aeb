//! Won: room for a store in a shard of which nothing may leave.
//!
//! Why: docs/decisions/0052. Tests: tests/keep.rs.

use super::{Purpose, Reclaimer};
use crate::clock::Instant;
use crate::compaction::emptiest;
use crate::item::Spec;
use crate::log::Room;
use crate::segment::Queue;
use crate::store::{Store, extent_encoding};

/// Segments that are emptied for one store, at most.
const ROUNDS_MAX: usize = 64;

impl Reclaimer {
    /// Room for an item of `spec` where nothing may leave for it: what is dead is won back, as far
    /// as copies of two segments go. What they win is there for the next one.
    pub(super) fn win_room(
        &mut self,
        store: &mut Store,
        queue: Queue,
        spec: &Spec,
        now: Instant,
    ) -> Option<Room> {
        let mut copy_bytes = 2 * store.segment_bytes();
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
                    None if is_purged => continue,
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

/// A full segment to be emptied of which least is alive. If there is none, an open one with dead
/// bytes counts as full.
pub(super) fn emptiest_of(store: &mut Store, now: Instant) -> Option<u32> {
    emptiest(store, now).or_else(|| {
        let is_sealed = store.seal_deadest(now);
        is_sealed.then(|| emptiest(store, now)).flatten()
    })
}
