//! Reclaim: what eviction, the compaction scan and insertions that reclaim ask of the store.
//!
//! They decide which segment is emptied and which of its items stay; the store moves or removes
//! each item and keeps index and log in step meanwhile.
//!
//! Tests: tests/evict.rs, tests/model.rs.

use super::{Located, Store};
use crate::base::clock::Instant;
use crate::log::item::{Entry, Spec};
use crate::log::policy::FEW_ITEMS;
use crate::log::segment::{Queue, Stream};
use crate::log::{PIECE_BYTES, Room};
use crate::memory::table::Probe;

/// Bytes at an entry's beginning in which header and key of most items lie.
const FRONT_BYTES: usize = 128;

/// An entry of a segment that was read ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadedEntry {
    pub(crate) entry: Entry,
    /// Its hash and where to look for it, if it is an item.
    pub(crate) hash: u64,
    probe: Probe,
}

impl LoadedEntry {
    /// A hole without bytes.
    pub(crate) const NONE: LoadedEntry = LoadedEntry {
        entry: Entry::Hole(0),
        hash: 0,
        probe: Probe::NONE,
    };
}

impl Store {
    /// Bytes of this shard's part of a few items, where the mean item is longer than a segment;
    /// zero elsewhere.
    pub(crate) fn few_items_bytes(&self) -> usize {
        let mean_bytes = self.mean_item_bytes();
        if mean_bytes <= self.log.segment_bytes() {
            return 0;
        }
        mean_bytes * FEW_ITEMS.div_ceil(self.log.sharers())
    }

    /// Bytes of memory of a queue's segments, and of those the sealed ones'.
    pub(crate) fn queue_bytes(&self, queue: Queue) -> (usize, usize) {
        (self.log.queue_bytes(queue), self.log.sealed_bytes(queue))
    }

    /// Bytes of memory by which shares of this shard are measured: one that gave memory to others
    /// still counts its part of all.
    pub(crate) fn measured_bytes(&self) -> usize {
        (self.log.resident_bytes() + self.index.bytes()).max(self.log.share_bytes())
    }

    /// Whether a segment was opened since the last call.
    pub(crate) fn take_rolled(&mut self) -> bool {
        self.log.take_rolled()
    }

    /// Releases free memory for other shards: a piece of an extent, or a free segment; `false` if
    /// there is none.
    pub(crate) fn release_free(&mut self) -> bool {
        self.log.release_free() > 0
    }

    /// Frees the segments whose last reader has gone.
    pub(crate) fn collect_drained(&mut self) {
        self.log.collect_drained();
    }

    /// The extent whose item has left since the last call.
    pub(crate) fn take_emptied(&mut self) -> Option<u32> {
        self.log.take_emptied()
    }

    /// Whether an extent that holds nothing has a piece of memory to give.
    pub(crate) fn is_extent_leaving(&self) -> bool {
        self.log.leaving_bytes() >= PIECE_BYTES
    }

    /// Gives memory back that was not used for a while: a piece of an extent, or of the end of an
    /// open segment; how many bytes.
    pub(crate) fn release_idle_piece(&mut self, now: Instant) -> usize {
        self.log.collect_drained();
        match self.log.release_idle_piece(now) {
            0 => self.log.release_quiet_end(now),
            bytes => bytes,
        }
    }

    /// Gives a piece of an extent back that holds nothing; how many bytes.
    pub(crate) fn release_piece(&mut self) -> usize {
        self.log.release_piece()
    }

    /// Gives the memory of one free segment back; how many bytes.
    pub(crate) fn release_segment(&mut self) -> usize {
        self.log.release_segment()
    }

    /// Takes memory for something beside items, if need be that of free segments; `false` if there
    /// is not enough.
    pub(crate) fn take_memory(&mut self, bytes: usize) -> bool {
        while !self.log.budget().take(bytes) {
            if self.log.release_free() == 0 {
                return false;
            }
        }
        true
    }

    /// Gives memory back that [`Store::take_memory`] took.
    pub(crate) fn give_memory(&self, bytes: usize) {
        self.log.budget().give(bytes);
    }

    /// Takes all remaining memory for an item of `spec`, because nothing of this shard can be
    /// evicted; `None` if that is not enough.
    pub(crate) fn take_last_room(
        &mut self,
        stream: Stream,
        spec: &Spec,
        now: Instant,
    ) -> Option<Room> {
        self.log.set_in_need(true);
        let room = self.take_room(stream, spec, now);
        self.log.set_in_need(false);
        room
    }

    /// Seals all open segments, so that they can be emptied too.
    pub(crate) fn seal_open(&mut self) {
        Stream::all().for_each(|stream| self.log.seal(stream));
    }

    /// Seals a segment that is being filled.
    pub(crate) fn seal_if_open(&mut self, segment: u32) {
        self.log.seal_if_open(segment);
    }

    /// Frees segments whose last reader has finished, and seals open ones without live items.
    pub(crate) fn tidy(&mut self, now: Instant) {
        self.log.collect_drained();
        self.log.seal_all_dead(now);
    }

    /// The item that an entry of a segment is. An unlinked one is removed from the log here.
    pub(crate) fn item_in(
        &mut self,
        segment: u32,
        loaded: &LoadedEntry,
        now: Instant,
    ) -> Option<Located> {
        let Entry::Item(layout) = loaded.entry else {
            return None;
        };
        let is_it = |offset| offset == layout.offset;
        let found = self.index.find_probed(loaded.probe, is_it);
        let Some(slot) = found.or_else(|| self.index.find_at(loaded.hash, layout.offset)) else {
            self.remove_unlinked(&layout, segment, now);
            return None;
        };
        Some(Located {
            slot,
            layout,
            segment,
        })
    }

    /// The entry at an offset. Prefetches the data that the entry needs, and the beginning of the
    /// next one.
    pub(crate) fn load_entry(&self, offset: usize) -> LoadedEntry {
        let entry = self.log.read(offset);
        let next = offset + entry.total_bytes();
        self.log.arena().prefetch(next, FRONT_BYTES);
        let Entry::Item(layout) = entry else {
            return LoadedEntry {
                entry,
                ..LoadedEntry::NONE
            };
        };
        let hash = self.hashed_key_of(&layout).hash();
        LoadedEntry {
            entry,
            hash,
            probe: self.index.table().probe(hash),
        }
    }

    /// Records that an item was removed because it had expired, so that its bytes count as overdue.
    pub(crate) fn note_met(&mut self, located: &Located) {
        let bytes = located.layout.total_bytes();
        self.log.segment_mut(located.segment).meet_dead(bytes);
    }

    /// Moves an extent with its item to the end of a queue and sets the item's frequency.
    pub(crate) fn requeue(&mut self, located: &Located, queue: Queue, frequency: u8) {
        let offset = located.layout.offset;
        self.index.relocate(located.slot, offset, frequency);
        self.log.requeue(located.segment, queue);
    }
}
