//! Packing: compressed values of the store, how they are read, and when a moved one is compressed.
//!
//! An item changes its form only when it moves or is rewritten. A segment's marks say which
//! dictionaries its items need, and for which generation of dictionaries it was looked through.
//!
//! Why: docs/decisions/0084, 0087. Tests: tests/compress.rs.

use std::cell::Cell;
use std::sync::Arc;

use super::{Located, Store};
use crate::arena::Pinner;
use crate::clock::Instant;
use crate::compress::{self, Codecs, PrivatePrefixes, Timer, may_pack};
use crate::item::{Entry, Layout, Spec};
use crate::outcome::Item;
use crate::segment::Use;
use crate::serialize::{Deserializer, Serialize, Serializer};
use crate::space::Space;
use crate::stats::Stats;

/// One read of a compressed item in so many has it stored plain, so that hot items are.
const READS_PER_UNPACKED: u32 = 64;
/// Entries that show whether a segment is worth compressing, and the part of their bytes, as a
/// divisor, that has to be plain values of families with dictionaries.
const ENTRIES_SHOWN: usize = 32;
const WORTH_SHARE: usize = 4;

/// Why there is a [`Packing`].
const SOME: &str = "no value is compressed before there are dictionaries";

/// The form of an item after it is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Unchanged.
    Kept,
    /// Compressed, if that saves enough.
    Packed,
}

/// A store's state of compression.
#[derive(Debug, Default)]
pub(super) struct Packing {
    codecs: Arc<Codecs>,
    /// By segment.
    marks: Vec<Mark>,
    /// A value that is being compressed.
    packed: Vec<u8>,
    /// Reads until the next one that has its item stored plain, and whether that is due.
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
    /// The generation for which it was looked through.
    looked: u32,
}

impl Store {
    /// Has moved values be compressed as `codecs` says, and all be read with its dictionaries. The
    /// caller pays for [`Store::packing_bytes`].
    pub(crate) fn set_codecs(&mut self, codecs: &Arc<Codecs>) {
        let segments = self.log.arena().segments();
        let packing = self.packing.get_or_insert_default();
        packing.codecs = Arc::clone(codecs);
        packing.marks.resize(segments, Mark::default());
    }

    /// Whether a compressed value is as it was written, and has its dictionary.
    #[cold]
    #[inline(never)]
    pub(super) fn is_sound(&self, layout: &Layout) -> bool {
        let packed = self.log.bytes(layout.value_at(), layout.value_bytes);
        let packing = self.packing.as_ref();
        packing.is_some_and(|packing| compress::is_sound(&packing.codecs, packed))
    }

    /// Writes down which dictionaries the items of each segment need.
    pub(super) fn serialize_marks(&self, out: &mut Serializer) {
        let marks = self.packing.iter().flat_map(|packing| &packing.marks);
        let marks: Vec<u64> = marks.map(|mark| mark.dictionaries).collect();
        marks.serialize(out);
    }

    /// Takes on what another store wrote down of the same segments; `None` if it needs a
    /// dictionary that is not there.
    pub(super) fn restore_marks(&mut self, from: &mut Deserializer<'_>) -> Option<()> {
        let saved = Vec::<u64>::deserialize(from)?;
        let needed = saved.iter().fold(0, |all, dictionaries| all | dictionaries);
        let Some(packing) = &mut self.packing else {
            return (needed == 0).then_some(());
        };
        for (mark, dictionaries) in packing.marks.iter_mut().zip(saved) {
            mark.dictionaries = dictionaries;
        }
        (needed & !packing.codecs.numbers() == 0).then_some(())
    }

    /// Marks a segment, whose items are not checked, with all dictionaries that these may need.
    pub(super) fn mark_unchecked(&mut self, segment: u32) {
        if let Some(packing) = &mut self.packing {
            packing.marks[segment as usize].dictionaries = packing.codecs.numbers();
        }
    }

    /// Which dictionaries items need, a bit each.
    pub(crate) fn dictionaries_in_use(&self) -> u64 {
        let marks = self.packing.iter().flat_map(|packing| &packing.marks);
        marks.fold(0, |all, mark| all | mark.dictionaries)
    }

    /// Adds the counts of compressed and decompressed values, and reads of compressed ones.
    pub(super) fn add_packing_to(&self, stats: &mut Stats) {
        let Some(packing) = &self.packing else {
            return;
        };
        stats.compressed += packing.counts.packed;
        stats.compressed_from_bytes += packing.counts.packed_from_bytes;
        stats.compressed_to_bytes += packing.counts.packed_to_bytes;
        stats.decompressed += packing.counts.unpacked;
        stats.compressed_gets += packing.reads.get();
        stats.compression_ns += packing.timer.ns();
    }

    /// Bytes of bookkeeping for compressed values, once there are dictionaries.
    pub(crate) fn packing_bytes(&self) -> usize {
        size_of::<Packing>() + self.log.arena().segments() * size_of::<Mark>()
    }

    /// Clears a segment's marks: it is empty.
    pub(super) fn unmark(&mut self, segment: u32) {
        if let Some(packing) = &mut self.packing {
            packing.marks[segment as usize] = Mark::default();
        }
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
        let (item, packing) = (self.item(located), self.packing());
        compress::unpack(&packing.codecs, &packing.timer, item.value, |value| {
            read(Item {
                value,
                pinner: Pinner::Copied,
                ..item
            })
        })
    }

    /// Counts a read of a compressed item.
    #[inline]
    pub(crate) fn count_read(&self, located: &Located) {
        if located.layout.is_packed() {
            let packing = self.packing();
            packing.reads.set(packing.reads.get() + 1);
            let left = packing.until_hot.get();
            packing.is_hot.set(left == 0);
            let next = left.checked_sub(1).unwrap_or(READS_PER_UNPACKED - 1);
            packing.until_hot.set(next);
        }
    }

    /// Whether the item that was read last should be stored plain.
    #[inline]
    pub(crate) fn take_hot(&self) -> bool {
        let packing = self.packing.as_ref();
        packing.is_some_and(|packing| packing.is_hot.take())
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
        self.packing_mut().counts.unpacked += 1;
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
        let marks = &mut self.packing_mut().marks;
        marks[segment as usize].dictionaries |= 1 << number;
    }

    /// Compresses the value of an item that moves, if its family has a dictionary that it was not
    /// compressed with and that saves enough; the item's header then.
    pub(super) fn pack_moved(&mut self, located: &Located, spec: &Spec) -> Option<Spec> {
        if !self.packs() || !may_pack(self.plain_bytes(located)) {
            return None;
        }
        let codecs = Arc::clone(&self.packing().codecs);
        let key = self.key_of(&located.layout);
        let family = codecs.private.family_of(&self.hasher, spec.space, key);
        let (number, dictionary) = codecs.of_family(family)?;
        if spec.is_packed
            && (self.log.arena().byte(located.layout.value_at()) == number
                || !self.is_sound(&located.layout))
        {
            return None;
        }
        let mut packed = std::mem::take(&mut self.packing_mut().packed);
        let plain_bytes = self.plain_bytes(located);
        let is_packed = self.with_item(located, |item| {
            let timer = &self.packing().timer;
            compress::pack((number, dictionary), timer, item.value, &mut packed)
        });
        let value_bytes = packed.len();
        let packing = self.packing_mut();
        packing.packed = packed;
        if !is_packed {
            return None;
        }
        let counts = &mut packing.counts;
        counts.packed += 1;
        counts.packed_from_bytes += plain_bytes as u64;
        counts.packed_to_bytes += value_bytes as u64;
        Some(Spec {
            value_bytes,
            is_packed: true,
            ..*spec
        })
    }

    /// Writes the value that was compressed last.
    pub(super) fn write_packed(&mut self, value_at: usize) {
        if let Some(packing) = &self.packing {
            self.log.write(value_at, &packing.packed);
        }
    }

    /// Whether a segment was looked through for this generation of dictionaries.
    pub(crate) fn is_looked(&self, segment: u32) -> bool {
        let packing = self.packing();
        packing.marks[segment as usize].looked == packing.codecs.generation
    }

    /// Whether a sealed segment holds enough plain values of families with dictionaries, as its
    /// first entries show.
    pub(crate) fn is_worth_packing(&mut self, segment: u32) -> bool {
        let packing = self.packing_mut();
        packing.marks[segment as usize].looked = packing.codecs.generation;
        let (mut bytes, mut packable) = (0, 0);
        self.each_of_first(segment, ENTRIES_SHOWN, |store, layout| {
            bytes += layout.total_bytes();
            let codecs = &store.packing().codecs;
            let (key, space) = (store.key_of(layout), layout.space());
            let family = codecs.private.family_of(&store.hasher, space, key);
            let is_plain = !layout.is_packed() && may_pack(layout.value_bytes);
            if is_plain && codecs.of_family(family).is_some() {
                packable += layout.total_bytes();
            }
        });
        WORTH_SHARE * packable > bytes
    }

    /// Whether any family has a dictionary.
    #[inline]
    pub(crate) fn packs(&self) -> bool {
        let packing = self.packing.as_ref();
        packing.is_some_and(|packing| !packing.codecs.families.is_empty())
    }

    /// The state of compression, where values may be compressed.
    fn packing(&self) -> &Packing {
        self.packing.as_ref().expect(SOME)
    }

    fn packing_mut(&mut self) -> &mut Packing {
        self.packing.as_mut().expect(SOME)
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
        self.each_of_first(segment, entries, |store, layout| {
            if !layout.is_packed() && may_pack(layout.value_bytes) {
                let key = store.key_of(layout);
                let family = private.family_of(&store.hasher, layout.space(), key);
                let value = store.log.bytes(layout.value_at(), layout.value_bytes);
                each(layout.space(), private.prefix_of(key), family, value);
            }
        });
    }

    /// The segment behind `after` that may hold items which can be compressed, or the first one.
    pub(crate) fn next_sampled(&self, after: Option<u32>) -> Option<u32> {
        let has_items = |&number: &u32| {
            let used = self.log.segment(number).used;
            matches!(used, Use::Open | Use::Sealed) && !self.log.is_extent(number)
        };
        let all = || self.log.in_use().filter(has_items);
        let is_behind = |&number: &u32| after.is_some_and(|after| number > after);
        all().filter(is_behind).min().or_else(|| all().min())
    }

    fn each_of_first(&self, segment: u32, entries: usize, mut each: impl FnMut(&Store, &Layout)) {
        let (mut at, end) = self.log.bounds(segment);
        for _ in 0..entries {
            if at >= end {
                break;
            }
            let entry = self.log.read(at);
            at += entry.total_bytes();
            if let Entry::Item(layout) = entry {
                each(self, &layout);
            }
        }
    }
}
