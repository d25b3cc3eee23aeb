//! Packing: compressed values of the store, how they are read, and when a moved one is compressed.
//!
//! An item changes its form only when it moves or is rewritten. A segment's marks say which
//! dictionaries its items need, and for which generation of dictionaries it was looked through.
//!
//! Why: docs/decisions/0084, 0087, 0100. Tests: tests/compress.rs.

use std::cell::Cell;
use std::sync::Arc;

use super::{Located, Store};
use crate::base::clock::Instant;
use crate::base::serialize::{Deserializer, Serialize, Serializer};
use crate::base::space::Space;
use crate::compress::{self, Codecs, Dictionary, PrivatePrefixes, Timer, may_pack};
use crate::interface::outcome::Item;
use crate::interface::stats::Stats;
use crate::key::Hasher;
use crate::log::item::{Layout, Spec};
use crate::log::segment::Queue;
use crate::memory::arena::Pinner;

/// An item that was read so often since it last moved is hot. More reads are not counted.
pub(crate) const HOT_READS: u8 = 3;
/// One read in so many of hot compressed items has its item stored plain: the sooner, the more of
/// them are its own, and storing it costs little beside these reads.
const READS_PER_UNPACKED: u32 = 64;
/// Entries that show whether a segment is worth compressing, and the part of their bytes, as a
/// divisor, that has to be plain values of families with dictionaries.
const ENTRIES_SHOWN: usize = 32;
const WORTH_SHARE: usize = 4;

/// Why there is a [`State`].
const SOME: &str = "no value is compressed before there are dictionaries";

/// The form of an item after it is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Unchanged.
    Kept,
    /// Compressed, if that saves enough.
    Packed,
}

/// A store's state of compression; there is none before there are dictionaries.
#[derive(Debug, Default)]
pub(crate) struct Packing(Option<Box<State>>);

#[derive(Debug, Default)]
struct State {
    codecs: Arc<Codecs>,
    /// By segment.
    marks: Vec<Mark>,
    /// A value that is being compressed.
    packed: Vec<u8>,
    /// Reads of hot items until the next one that has its item stored plain, and whether that is
    /// due.
    until_hot: Cell<u32>,
    is_hot: Cell<bool>,
    counts: PackingCounts,
    reads: Cell<u64>,
    timer: Timer,
}

/// Counts of compressed and decompressed values, since the shard was made.
#[derive(Clone, Copy, Debug, Default)]
struct PackingCounts {
    packed: u64,
    packed_from_bytes: u64,
    packed_to_bytes: u64,
    unpacked: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// A bit for each dictionary.
    dictionaries: u64,
    /// The generation for which it was looked through, and the one in which it was emptied last.
    looked: u32,
    emptied: u32,
}

impl Packing {
    /// Bytes of bookkeeping for so many segments, once there are dictionaries.
    fn bytes(segments: usize) -> usize {
        size_of::<State>() + segments * size_of::<Mark>()
    }

    fn set_codecs(&mut self, codecs: &Arc<Codecs>, segments: usize) {
        let state = self.0.get_or_insert_default();
        state.codecs = Arc::clone(codecs);
        state.marks.resize(segments, Mark::default());
    }

    /// Whether any family has a dictionary.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        let state = self.0.as_ref();
        state.is_some_and(|state| !state.codecs.families.is_empty())
    }

    /// Whether a compressed value is as it was written, and has its dictionary.
    #[cold]
    #[inline(never)]
    pub(super) fn is_sound(&self, packed: &[u8]) -> bool {
        let state = self.0.as_ref();
        state.is_some_and(|state| compress::is_sound(&state.codecs, packed))
    }

    /// Writes down which dictionaries the items of each segment need.
    pub(super) fn serialize(&self, out: &mut Serializer) {
        let marks = self.0.iter().flat_map(|state| &state.marks);
        let marks: Vec<u64> = marks.map(|mark| mark.dictionaries).collect();
        marks.serialize(out);
    }

    /// Takes on what another store wrote down of the same segments; `None` if it needs a
    /// dictionary that is not there.
    pub(super) fn restore(&mut self, from: &mut Deserializer<'_>) -> Option<()> {
        let saved = Vec::<u64>::deserialize(from)?;
        let needed = saved.iter().fold(0, |all, dictionaries| all | dictionaries);
        let Some(state) = &mut self.0 else {
            return (needed == 0).then_some(());
        };
        for (mark, dictionaries) in state.marks.iter_mut().zip(saved) {
            mark.dictionaries = dictionaries;
        }
        (needed & !state.codecs.numbers() == 0).then_some(())
    }

    /// Marks a segment with the dictionary of this number.
    pub(super) fn mark(&mut self, segment: u32, number: u8) {
        self.state_mut().marks[segment as usize].dictionaries |= 1 << number;
    }

    /// Marks a segment, whose items are not checked, with all dictionaries that these may need.
    pub(super) fn mark_unchecked(&mut self, segment: u32) {
        if let Some(state) = &mut self.0 {
            state.marks[segment as usize].dictionaries = state.codecs.numbers();
        }
    }

    /// Clears a segment's marks: it is empty.
    pub(super) fn unmark(&mut self, segment: u32) {
        if let Some(state) = &mut self.0 {
            state.marks[segment as usize] = Mark {
                emptied: state.codecs.generation,
                ..Mark::default()
            };
        }
    }

    /// Which dictionaries items need, a bit each.
    pub(crate) fn dictionaries_in_use(&self) -> u64 {
        let marks = self.0.iter().flat_map(|state| &state.marks);
        marks.fold(0, |all, mark| all | mark.dictionaries)
    }

    /// Whether a segment was looked through for this generation of dictionaries.
    pub(crate) fn is_looked(&self, segment: u32) -> bool {
        let state = self.state();
        state.marks[segment as usize].looked == state.codecs.generation
    }

    /// Whether all items of a segment were written while there were the dictionaries of today.
    fn is_recent(&self, segment: u32) -> bool {
        let state = self.state();
        state.marks[segment as usize].emptied == state.codecs.generation
    }

    fn note_looked(&mut self, segment: u32) {
        let state = self.state_mut();
        state.marks[segment as usize].looked = state.codecs.generation;
    }

    /// Adds the counts of compressed and decompressed values, and reads of compressed ones.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        let Some(state) = &self.0 else {
            return;
        };
        stats.compressed += state.counts.packed;
        stats.compressed_from_bytes += state.counts.packed_from_bytes;
        stats.compressed_to_bytes += state.counts.packed_to_bytes;
        stats.decompressed += state.counts.unpacked;
        stats.compressed_gets += state.reads.get();
        stats.compression_ns += state.timer.ns();
    }

    /// Counts a read of a compressed item.
    fn count_read(&self, is_hot: bool) {
        let state = self.state();
        state.reads.set(state.reads.get() + 1);
        let left = state.until_hot.get();
        state.is_hot.set(is_hot && left == 0);
        if is_hot {
            let next = left.checked_sub(1).unwrap_or(READS_PER_UNPACKED - 1);
            state.until_hot.set(next);
        }
    }

    /// Whether the item that was read last should be stored plain.
    #[inline]
    pub(crate) fn take_hot(&self) -> bool {
        let state = self.0.as_ref();
        state.is_some_and(|state| state.is_hot.take())
    }

    /// Shows a compressed item with its plain value.
    #[inline]
    fn unpack<R>(&self, item: Item<'_>, read: impl FnOnce(Item<'_>) -> R) -> R {
        let state = self.state();
        compress::unpack(&state.codecs, &state.timer, item.value, |value| {
            read(Item {
                value,
                pinner: Pinner::Copied,
                ..item
            })
        })
    }

    /// The value that was compressed last.
    pub(super) fn packed(&self) -> &[u8] {
        &self.state().packed
    }

    /// Where values may be compressed.
    fn state(&self) -> &State {
        self.0.as_ref().expect(SOME)
    }

    fn state_mut(&mut self) -> &mut State {
        self.0.as_mut().expect(SOME)
    }
}

impl State {
    /// The number of the dictionary of the family of a key, and the dictionary.
    fn dictionary_of(
        &self,
        hasher: &Hasher,
        space: Space,
        key: &[u8],
    ) -> Option<(u8, &Dictionary)> {
        let family = self.codecs.private.family_of(hasher, space, key);
        self.codecs.of_family(family)
    }
}

impl Store {
    /// The state of compression. Only the store changes it.
    #[inline]
    pub(crate) fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Has moved values be compressed as `codecs` says, and all be read with its dictionaries. The
    /// caller pays for [`Store::packing_bytes`].
    pub(crate) fn set_codecs(&mut self, codecs: &Arc<Codecs>) {
        let segments = self.log.arena().segments();
        self.packing.set_codecs(codecs, segments);
    }

    /// Bytes of bookkeeping for compressed values, once there are dictionaries.
    pub(crate) fn packing_bytes(&self) -> usize {
        Packing::bytes(self.log.arena().segments())
    }

    /// Whether a compressed value is as it was written, and has its dictionary.
    #[cold]
    #[inline(never)]
    pub(super) fn is_sound(&self, layout: &Layout) -> bool {
        let packed = self.log.bytes(layout.value_at(), layout.value_bytes);
        self.packing.is_sound(packed)
    }

    /// Shows an item as its readers see it, with its plain value.
    #[inline]
    pub(crate) fn with_item<R>(&self, located: &Located, read: impl FnOnce(Item<'_>) -> R) -> R {
        match located.layout.is_packed() {
            false => read(self.item(located)),
            true => self.with_unpacked(located, read),
        }
    }

    /// The same, which counts as a use of the item.
    #[inline]
    pub(crate) fn with_used<R>(
        &mut self,
        located: &Located,
        now: Instant,
        read: impl FnOnce(Item<'_>) -> R,
    ) -> R {
        self.mark_used(located, now);
        self.with_item(located, read)
    }

    #[inline(never)]
    fn with_unpacked<R>(&self, located: &Located, read: impl FnOnce(Item<'_>) -> R) -> R {
        self.packing.unpack(self.item(located), read)
    }

    /// Counts a read of an item that is compressed.
    #[inline(never)]
    pub(crate) fn count_packed_read(&self, located: &Located) {
        // How often a young item was read is not known.
        let is_hot = self.frequency(located) >= HOT_READS
            || self.log.arena().is_young(located.layout.offset);
        self.packing.count_read(is_hot);
    }

    /// Whether plain items of a segment that were read stay so until they are looked at for
    /// eviction. Those that are older than the dictionaries are compressed, however hot they are.
    pub(crate) fn keeps_read_plain(&self, segment: u32) -> bool {
        let is_main = self.log.segment(segment).queue == Queue::Main;
        is_main && !self.never_evicts && self.packing.is_recent(segment)
    }

    /// Whether an item is plain and of a family with a dictionary.
    pub(crate) fn is_packable(&self, located: &Located) -> bool {
        self.packing.is_any() && self.may_be_packed(&located.layout)
    }

    fn may_be_packed(&self, layout: &Layout) -> bool {
        if layout.is_packed() || !may_pack(layout.value_bytes) {
            return false;
        }
        let (key, space) = (self.key_of(layout), layout.space());
        let state = self.packing.state();
        state.dictionary_of(&self.hasher, space, key).is_some()
    }

    /// Bytes of an item's value as clients see it.
    #[inline]
    pub(crate) fn plain_bytes(&self, located: &Located) -> usize {
        match located.layout.is_packed() {
            false => located.layout.value_bytes,
            true => compress::plain_bytes(self.item(located).value),
        }
    }

    /// The plain value of a compressed item that is to be rewritten, and its header.
    pub(crate) fn unpacked(&mut self, located: &Located) -> (Vec<u8>, Spec) {
        self.packing.state_mut().counts.unpacked += 1;
        let value = self.with_item(located, |item| item.value.to_vec());
        let spec = Spec {
            value_bytes: value.len(),
            is_packed: false,
            ..self.spec_of(located)
        };
        (value, spec)
    }

    /// Marks a segment with the dictionary of an item that was written to it.
    pub(super) fn mark_packed(&mut self, segment: u32, value_at: usize) {
        let number = self.log.arena().byte(value_at);
        self.packing.mark(segment, number);
    }

    /// Compresses the value of an item that moves, if its family has a dictionary that it was not
    /// compressed with and that saves enough; the item's header then.
    pub(super) fn pack_moved(&mut self, located: &Located, spec: &Spec) -> Option<Spec> {
        if !self.packing.is_any() || !may_pack(self.plain_bytes(located)) {
            return None;
        }
        let plain_bytes = self.plain_bytes(located);
        let mut packed = std::mem::take(&mut self.packing.state_mut().packed);
        let is_packed = self.pack_into(&mut packed, located, spec);
        let state = self.packing.state_mut();
        state.packed = packed;
        if !is_packed {
            return None;
        }
        let value_bytes = state.packed.len();
        let counts = &mut state.counts;
        counts.packed += 1;
        counts.packed_from_bytes += plain_bytes as u64;
        counts.packed_to_bytes += value_bytes as u64;
        Some(Spec {
            value_bytes,
            is_packed: true,
            ..*spec
        })
    }

    fn pack_into(&self, packed: &mut Vec<u8>, located: &Located, spec: &Spec) -> bool {
        let (state, layout) = (self.packing.state(), &located.layout);
        let key = self.key_of(layout);
        let Some((number, dictionary)) = state.dictionary_of(&self.hasher, spec.space, key) else {
            return false;
        };
        if spec.is_packed
            && (self.log.arena().byte(layout.value_at()) == number || !self.is_sound(layout))
        {
            return false;
        }
        self.with_item(located, |item| {
            compress::pack((number, dictionary), &state.timer, item.value, packed)
        })
    }

    /// Whether a sealed segment holds enough plain values of families with dictionaries, as its
    /// first entries show.
    pub(crate) fn is_worth_packing(&mut self, segment: u32) -> bool {
        self.packing.note_looked(segment);
        let keeps_read = self.keeps_read_plain(segment);
        let (mut bytes, mut packable) = (0, 0);
        self.log.each_of_first(segment, ENTRIES_SHOWN, |layout| {
            bytes += layout.total_bytes();
            if self.may_be_packed(layout) && !(keeps_read && self.was_read(layout)) {
                packable += layout.total_bytes();
            }
        });
        WORTH_SHARE * packable > bytes
    }

    /// Whether an item was read since it last moved.
    fn was_read(&self, layout: &Layout) -> bool {
        let hash = self.hashed_key_of(layout).hash();
        let slot = self.index.find_at(hash, layout.offset);
        slot.is_some_and(|slot| self.index.frequency(slot) > 0)
    }

    /// Passes the plain values of a segment that may be compressed, with their space, key prefix
    /// and family, to a function, for so many entries.
    pub(crate) fn sample_values(
        &self,
        segment: u32,
        entries: usize,
        private: &PrivatePrefixes,
        mut each: impl FnMut(Space, &[u8], u64, &[u8]),
    ) {
        self.log.each_of_first(segment, entries, |layout| {
            if !layout.is_packed() && may_pack(layout.value_bytes) {
                let key = self.key_of(layout);
                let family = private.family_of(&self.hasher, layout.space(), key);
                let value = self.log.bytes(layout.value_at(), layout.value_bytes);
                each(layout.space(), private.prefix_of(key), family, value);
            }
        });
    }
}
