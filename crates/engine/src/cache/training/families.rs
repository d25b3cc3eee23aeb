//! Families: which families of values get a dictionary, and when dictionaries are made and freed.
//!
//! A step looks at some items of a few shards. A scan of many items finds the family with the most
//! uncompressed bytes. Values of that family are then gathered until they are a sample, and a
//! dictionary is trained with it. If it saves too little, the family is not tried again for a time.
//! A dictionary that no family uses any more is freed when no segment of any shard is marked with
//! it.
//!
//! Dictionaries are part of the cache's memory. What a training uses besides, some megabytes, is
//! not, and is freed when it ends.
//!
//! Why: docs/decisions/0084. Tests: tests/compress.rs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::clock::Instant;
use crate::base::space::Space;
use crate::cache::COLLECTIONS_MAX;
use crate::cache::dictionaries::{Saved, SavedDictionaries};
use crate::cache::shards::Shards;
use crate::compress::{
    Codecs, Dictionary, PrivatePrefixes, SAMPLE_BYTES, SAMPLE_BYTES_MIN, SAVED_PERCENT_MIN,
    Trained, train,
};
use crate::interface::stats::FamilyStats;
use crate::key::Hasher;
use crate::memory::Budget;
use crate::state::DICTIONARIES_MAX;
use crate::store::Store;

/// Dictionaries take at most this part of a cache's memory.
const MEMORY_SHARE: usize = 64;
/// Shards that a step looks at, entries of each, and bytes of values that it copies of each.
const SHARDS_PER_STEP: usize = 4;
const ENTRIES_PER_SHARD: usize = 512;
const COPY_BYTES_PER_SHARD: usize = 64 << 10;
/// Values that a scan looks at, and steps that it takes at most.
const SCANNED_VALUES: usize = 2_048;
const SCAN_STEPS: u32 = 64;
/// Steps in which a family's sample is gathered.
const GATHER_STEPS: u32 = 256;
/// The part of what was scanned that a family must have for a dictionary.
const FAMILY_SHARE: usize = 64;
/// Families that are scanned, and remembered, at most.
const SCANNED_MAX: usize = 1_024;
const FAMILIES_MAX: usize = 1_024;
/// Time until a family is looked at again: one with too few values, one that saves too little, for
/// which it doubles up to a bound, and one with a dictionary.
const FEW_MS: u64 = 60_000;
const PLAIN_MS: u64 = 600_000;
const PLAIN_MS_MAX: u64 = 24 * 3_600_000;
const REVIEW_MS: u64 = 600_000;
/// A family of which no value was seen for so long loses its dictionary, if no item needs it.
const UNSEEN_MS: u64 = 1_200_000;
/// A new dictionary replaces one that leaves this part more of a fresh sample, in percent.
const REPLACED_PERCENT: usize = 10;

/// Families and dictionaries of a cache.
#[derive(Debug, Default)]
pub(in crate::cache) struct Families {
    /// By number, at most [`DICTIONARIES_MAX`].
    slots: Vec<Option<Slot>>,
    families: HashMap<u64, Family>,
    private: Arc<PrivatePrefixes>,
    /// That of the last dictionary.
    order: u64,
    scan: FamilyScan,
    gathering: Option<Gathering>,
    /// By shard: the segment that was looked at last.
    positions: Vec<Option<u32>>,
    next_shard: usize,
    generation: u32,
    /// Bytes of the shards' marks, once there are dictionaries.
    marks_bytes: usize,
    /// Whether the shards are to hear of new families.
    is_changed: bool,
    /// Where dictionaries outlive the process; `None` if the memory does not.
    saved: Option<SavedDictionaries>,
}

/// A dictionary.
#[derive(Debug)]
struct Slot {
    dictionary: Arc<Dictionary>,
    bytes: usize,
}

#[derive(Debug)]
struct Family {
    space: Space,
    prefix: Box<[u8]>,
    /// The number of its dictionary.
    number: Option<u8>,
    look_at: Instant,
    /// When a plain value of it was seen, or that items need its dictionary.
    seen_at: Instant,
    /// How long it is left alone the next time.
    pause_ms: u64,
    /// What its last sample had, plain and packed.
    sample: (usize, usize),
}

/// Plain bytes that were seen, by family.
#[derive(Debug, Default)]
struct FamilyScan {
    families: HashMap<u64, Seen>,
    values: usize,
    bytes: usize,
    steps: u32,
}

#[derive(Debug)]
struct Seen {
    space: Space,
    prefix: Box<[u8]>,
    bytes: usize,
}

/// The sample of a family.
#[derive(Debug)]
struct Gathering {
    family: u64,
    values: Vec<Vec<u8>>,
    bytes: usize,
    steps: u32,
}

impl Slot {
    fn of(dictionary: Dictionary) -> Slot {
        Slot {
            bytes: dictionary.bytes(),
            dictionary: Arc::new(dictionary),
        }
    }
}

impl Families {
    /// None is known.
    pub(super) fn new(saved: Option<SavedDictionaries>) -> Families {
        Families {
            saved,
            ..Families::default()
        }
    }

    /// Those with saved dictionaries, given to the stores that hold the items. If the memory does
    /// not suffice for them, there are none.
    pub(super) fn restored(
        saved: SavedDictionaries,
        stores: &mut [Store],
        hasher: &Hasher,
        budget: &Budget,
        now: Instant,
    ) -> Families {
        let mut known = Families::default();
        for (number, one) in saved.read() {
            let Some(dictionary) = Dictionary::of(&one.bytes) else {
                continue;
            };
            known.order = one.order;
            known.add(number, Slot::of(dictionary));
            let family = Family::restored(one.space, one.prefix, number, one.sample, now);
            known.families.insert(family.hash(hasher), family);
        }
        if known.slots.is_empty() {
            return Families::new(Some(saved));
        }
        known.marks_bytes = stores.iter().map(Store::packing_bytes).sum();
        if !budget.take(known.bytes()) {
            return Families::new(Some(saved));
        }
        known.generation = 1;
        let codecs = Arc::new(known.codecs());
        stores
            .iter_mut()
            .for_each(|store| store.set_codecs(&codecs));
        known.saved = Some(saved);
        known
    }

    /// Makes no dictionary any more of values within and without one of these key prefixes;
    /// whether they are others than before.
    pub(super) fn set_private_prefixes(&mut self, private: PrivatePrefixes) -> bool {
        if *self.private == private {
            return false;
        }
        self.scan = FamilyScan::default();
        self.gathering = None;
        let before = Arc::clone(&self.private);
        self.families
            .retain(|_, family| !private.divide(&before, &family.prefix));
        self.private = Arc::new(private);
        self.is_changed |= self.generation > 0;
        true
    }

    /// A piece of the search in spaces for which `is_compressed` is true; whether to go on at once.
    pub(super) fn step(&mut self, shards: &Shards, is_compressed: &dyn Fn(Space) -> bool) -> bool {
        let now = shards.now();
        self.free_unused(shards, now);
        self.leave_others(is_compressed);
        match self.gathering.take() {
            Some(gathering) => self.gather(gathering, shards, now),
            None => self.look_for_family(shards, is_compressed, now),
        }
    }

    /// Frees what no shard has used since an earlier step.
    fn free_unused(&mut self, shards: &Shards, now: Instant) {
        self.free_dictionaries(shards);
        self.forget_unseen(shards, now);
    }

    /// What the shards are to be told, if that has changed.
    pub(super) fn take_codecs(&mut self) -> Option<Arc<Codecs>> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        self.generation += 1;
        Some(Arc::new(self.codecs()))
    }

    /// How many dictionaries there are.
    pub(super) fn dictionaries(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// The statistics of all families.
    pub(super) fn stats(&self) -> Vec<FamilyStats> {
        self.families.values().map(Family::stats).collect()
    }

    /// Looks at some values; chooses a family when enough were seen. Whether to go on at once.
    fn look_for_family(
        &mut self,
        shards: &Shards,
        is_compressed: &dyn Fn(Space) -> bool,
        now: Instant,
    ) -> bool {
        let mut scan = std::mem::take(&mut self.scan);
        let mut seen = 0;
        self.look(shards, |space, prefix, family, value| {
            seen += 1;
            if is_compressed(space) {
                scan.note(space, prefix, family, value.len());
            }
            0
        });
        scan.steps += 1;
        if scan.values < SCANNED_VALUES && scan.steps < SCAN_STEPS {
            let found_some = seen + scan.values > 0;
            self.scan = scan;
            return found_some;
        }
        let Some(family) = self.choose(scan, now) else {
            return false;
        };
        self.gathering = Some(Gathering {
            family,
            values: Vec::new(),
            bytes: 0,
            steps: 0,
        });
        true
    }

    /// Copies some values of the chosen family; trains when there are enough. Whether to go on at
    /// once.
    fn gather(&mut self, mut gathering: Gathering, shards: &Shards, now: Instant) -> bool {
        self.look(shards, |_, _, family, value| {
            if family != gathering.family || gathering.bytes >= SAMPLE_BYTES {
                return 0;
            }
            gathering.bytes += value.len();
            gathering.values.push(value.to_vec());
            value.len()
        });
        gathering.steps += 1;
        if gathering.bytes < SAMPLE_BYTES && gathering.steps < GATHER_STEPS {
            self.gathering = Some(gathering);
            return true;
        }
        self.judge(&gathering, shards, now);
        true
    }

    /// Shows values of some shards to `each`, which says how many bytes it copies.
    fn look(&mut self, shards: &Shards, mut each: impl FnMut(Space, &[u8], u64, &[u8]) -> usize) {
        self.positions.resize(shards.len(), None);
        for _ in 0..SHARDS_PER_STEP.min(shards.len()) {
            let number = self.next_shard % shards.len();
            self.next_shard = number + 1;
            let Some(shard) = shards.lock_own(&shards[number]) else {
                return;
            };
            let segment = shard.store.log().next_sampled(self.positions[number]);
            self.positions[number] = segment;
            let mut copied = 0;
            if let Some(segment) = segment {
                shard.store.sample_values(
                    segment,
                    ENTRIES_PER_SHARD,
                    &self.private,
                    |space, prefix, family, value| {
                        if copied < COPY_BYTES_PER_SHARD {
                            copied += each(space, prefix, family, value);
                        }
                    },
                );
            }
        }
    }

    /// Makes a dictionary of a sample, if that is worth it.
    fn judge(&mut self, gathering: &Gathering, shards: &Shards, now: Instant) {
        let number = self
            .families
            .get(&gathering.family)
            .and_then(|one| one.number);
        let before = number.and_then(|number| self.slots[usize::from(number)].as_ref());
        let before = before.map(|slot| Arc::clone(&slot.dictionary));
        let trained = match gathering.bytes >= SAMPLE_BYTES_MIN {
            true => train(&gathering.values, before.as_deref()),
            false => None,
        };
        let Some(family) = self.families.get_mut(&gathering.family) else {
            return;
        };
        let Some(trained) = trained else {
            family.look_at = Instant(now.0 + FEW_MS);
            return;
        };
        family.sample = (trained.plain_bytes, trained.packed_bytes);
        if !saves_enough(trained.packed_bytes, trained.plain_bytes) {
            family.leave(now);
            self.is_changed |= number.is_some();
            return;
        }
        family.look_at = Instant(now.0 + REVIEW_MS);
        family.pause_ms = PLAIN_MS;
        if before.is_some() && !is_better(&trained) {
            family.sample.1 = trained.before_bytes;
            return;
        }
        if let Some(number) = self.take_dictionary(gathering.family, trained, shards)
            && let Some(family) = self.families.get_mut(&gathering.family)
        {
            family.number = Some(number);
            self.is_changed = true;
        }
    }

    /// Pays for a family's dictionary out of the cache's memory; its number, if there is one left.
    fn take_dictionary(&mut self, family: u64, trained: Trained, shards: &Shards) -> Option<u8> {
        let unused = self.slots.iter().position(Option::is_none);
        let number = unused.unwrap_or(self.slots.len());
        if number >= DICTIONARIES_MAX {
            return None;
        }
        let number = number as u8;
        let bytes = trained.dictionary.bytes();
        let marks_bytes = match self.marks_bytes {
            0 => marks_bytes(shards),
            _ => 0,
        };
        let held_bytes = self.bytes() - self.marks_bytes;
        if held_bytes + bytes > shards.memory().bytes() / MEMORY_SHARE {
            return None;
        }
        // Others may take what was collected: then it is tried again.
        let is_taken = (0..COLLECTIONS_MAX).any(|_| {
            shards.collect_memory(None, bytes + marks_bytes);
            shards.memory().budget().take(bytes + marks_bytes)
        });
        if !is_taken {
            return None;
        }
        // Before any value is compressed with it.
        let order = self.order + 1;
        let is_saved = self.saved.as_ref().is_none_or(|saved| {
            let family = &self.families[&family];
            saved.write(number, &family.saved(order, &trained))
        });
        if !is_saved {
            shards.memory().budget().give(bytes + marks_bytes);
            return None;
        }
        self.order = order;
        self.marks_bytes += marks_bytes;
        self.add(number, Slot::of(trained.dictionary));
        Some(number)
    }

    /// Takes the dictionaries from families that have no values any more.
    fn forget_unseen(&mut self, shards: &Shards, now: Instant) {
        let is_unseen =
            |family: &Family| family.number.is_some() && family.seen_at.0 + UNSEEN_MS <= now.0;
        if !self.families.values().any(is_unseen) {
            return;
        }
        let used = dictionaries_in_use(shards);
        let before = self.families.len();
        self.families.retain(|_, family| {
            let is_needed = family.number.is_some_and(|number| used & 1 << number != 0);
            if is_unseen(family) && is_needed {
                family.seen_at = now;
            }
            is_needed || !is_unseen(family)
        });
        self.is_changed |= self.families.len() < before;
    }

    /// Frees dictionaries that no family uses and no item needs.
    fn free_dictionaries(&mut self, shards: &Shards) {
        let active = self.active();
        let mut slots = self.slots.iter().enumerate();
        if !slots.any(|(number, slot)| slot.is_some() && active & 1 << number == 0) {
            return;
        }
        let used = active | dictionaries_in_use(shards);
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if used & 1 << number == 0
                && let Some(slot) = slot.take()
            {
                if let Some(saved) = &self.saved {
                    saved.remove(number);
                }
                shards.memory().budget().give(slot.bytes);
                self.is_changed = true;
            }
        }
    }

    /// Dictionaries that new values are compressed with, a bit each.
    fn active(&self) -> u64 {
        let numbers = self.families.values().filter_map(|family| family.number);
        numbers.fold(0, |active, number| active | 1 << number)
    }

    /// Adds a dictionary under a number that no other has.
    fn add(&mut self, number: u8, slot: Slot) {
        let number = usize::from(number);
        let slots = self.slots.len().max(number + 1);
        self.slots.resize_with(slots, || None);
        self.slots[number] = Some(slot);
    }

    /// Bytes of the dictionaries and the marks.
    pub(super) fn bytes(&self) -> usize {
        let slots = self.slots.iter().flatten();
        slots.map(|slot| slot.bytes).sum::<usize>() + self.marks_bytes
    }

    /// Compresses no family any more.
    pub(super) fn leave_all(&mut self, shards: &Shards) {
        self.free_unused(shards, shards.now());
        self.gathering = None;
        self.scan = FamilyScan::default();
        self.is_changed |= self.active() != 0;
        self.families.clear();
    }

    /// Compresses no family any more whose space is none of these.
    fn leave_others(&mut self, is_compressed: &dyn Fn(Space) -> bool) {
        let before = self.active();
        self.families
            .retain(|_, family| is_compressed(family.space));
        self.is_changed |= self.active() != before;
        self.scan
            .families
            .retain(|_, seen| is_compressed(seen.space));
        let families = &self.families;
        self.gathering
            .take_if(|gathering| !families.contains_key(&gathering.family));
    }

    fn codecs(&self) -> Codecs {
        let mut codecs = Codecs {
            generation: self.generation,
            private: Arc::clone(&self.private),
            ..Codecs::default()
        };
        for (to, slot) in codecs.dictionaries.iter_mut().zip(&self.slots) {
            *to = slot.as_ref().map(|slot| Arc::clone(&slot.dictionary));
        }
        let families = self.families.iter();
        let packed = families.filter_map(|(&hash, family)| Some((hash, family.number?)));
        codecs.families = packed.collect();
        codecs.families.sort_unstable();
        codecs
    }

    /// The family of which most was seen among those that are to be looked at.
    fn choose(&mut self, scan: FamilyScan, now: Instant) -> Option<u64> {
        let least = scan.bytes / FAMILY_SHARE;
        for hash in scan.families.keys() {
            if let Some(family) = self.families.get_mut(hash) {
                family.seen_at = now;
            }
        }
        let is_due = |hash: &u64| {
            let known = self.families.get(hash);
            known.is_none_or(|family| family.look_at <= now)
        };
        let due = scan
            .families
            .into_iter()
            .filter(|(hash, seen)| seen.bytes >= least.max(1) && is_due(hash));
        let (hash, seen) = due.max_by_key(|(hash, seen)| (seen.bytes, *hash))?;
        if !self.families.contains_key(&hash) && self.families.len() >= FAMILIES_MAX {
            self.families.retain(|_, family| family.number.is_some());
        }
        self.families.entry(hash).or_insert(Family {
            space: seen.space,
            prefix: seen.prefix,
            number: None,
            look_at: now,
            seen_at: now,
            pause_ms: PLAIN_MS,
            sample: (0, 0),
        });
        Some(hash)
    }
}

impl Family {
    /// One whose dictionary another process has trained.
    fn restored(
        space: Space,
        prefix: Vec<u8>,
        number: u8,
        sample: (usize, usize),
        now: Instant,
    ) -> Family {
        Family {
            space,
            prefix: prefix.into(),
            number: Some(number),
            look_at: Instant(now.0 + REVIEW_MS),
            seen_at: now,
            pause_ms: PLAIN_MS,
            sample,
        }
    }

    /// How its new dictionary is saved, which has this order.
    fn saved(&self, order: u64, trained: &Trained) -> Saved {
        Saved {
            order,
            space: self.space,
            prefix: self.prefix.to_vec(),
            sample: (trained.plain_bytes, trained.packed_bytes),
            bytes: trained.bytes.clone(),
        }
    }

    /// Its number among all families.
    fn hash(&self, hasher: &Hasher) -> u64 {
        hasher.known(self.space, &self.prefix).hash()
    }

    fn stats(&self) -> FamilyStats {
        FamilyStats {
            space: self.space,
            prefix: self.prefix.to_vec(),
            is_packed: self.number.is_some(),
            sample_bytes: self.sample.0 as u64,
            packed_bytes: self.sample.1 as u64,
        }
    }

    /// Leaves the family plain for a time, which is longer the next time.
    fn leave(&mut self, now: Instant) {
        self.number = None;
        self.look_at = Instant(now.0 + self.pause_ms);
        self.pause_ms = (2 * self.pause_ms).min(PLAIN_MS_MAX);
    }
}

impl FamilyScan {
    fn note(&mut self, space: Space, prefix: &[u8], family: u64, bytes: usize) {
        self.values += 1;
        self.bytes += bytes;
        if let Some(seen) = self.families.get_mut(&family) {
            seen.bytes += bytes;
        } else if self.families.len() < SCANNED_MAX {
            let prefix = prefix.into();
            self.families.insert(
                family,
                Seen {
                    space,
                    prefix,
                    bytes,
                },
            );
        }
    }
}

/// Bytes of the marks of all shards.
fn marks_bytes(shards: &Shards) -> usize {
    let mut bytes = 0;
    shards.each(|shard| bytes += shard.store.packing_bytes());
    bytes
}

/// The dictionaries that items need, a bit each.
fn dictionaries_in_use(shards: &Shards) -> u64 {
    let mut used = 0;
    shards.each(|shard| used |= shard.store.packing().dictionaries_in_use());
    used
}

/// Whether compression leaves little enough of a sample.
fn saves_enough(packed_bytes: usize, plain_bytes: usize) -> bool {
    packed_bytes * 100 <= plain_bytes * (100 - SAVED_PERCENT_MIN)
}

/// Whether a dictionary is so much better than the one before that it takes its place.
fn is_better(trained: &Trained) -> bool {
    trained.packed_bytes * 100 <= trained.before_bytes * (100 - REPLACED_PERCENT)
}
