//! Training: which families of values get a dictionary, and when dictionaries are made and freed.
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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{COLLECTIONS_MAX, Cache};
use crate::clock::{Instant, thread_cpu_ns};
use crate::compress::{
    Codecs, Dictionary, PrivatePrefixes, SAMPLE_BYTES, SAMPLE_BYTES_MIN, SAVED_PERCENT_MIN,
    Trained, train,
};
use crate::key::Hasher;
use crate::space::Space;
use crate::state::DICTIONARIES_MAX;
use crate::stats::{FamilyStats, Stats};

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

/// What is known of families and dictionaries.
#[derive(Debug, Default)]
pub(super) struct Training {
    // Relaxed: a step hears of a change a moment later, and nothing else hangs on it.
    is_on: AtomicBool,
    /// Processor time of all steps.
    spent_ns: AtomicU64,
    /// Held while a dictionary is made; who asks for figures has those of the last step.
    state: Mutex<State>,
    shown: Mutex<Shown>,
}

/// What is told of the state after a step.
#[derive(Debug, Default)]
struct Shown {
    dictionaries: usize,
    bytes: usize,
    families: Vec<FamilyStats>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// By number, at most [`DICTIONARIES_MAX`].
    pub(super) slots: Vec<Option<Slot>>,
    pub(super) families: HashMap<u64, Family>,
    private: Arc<PrivatePrefixes>,
    /// That of the last dictionary.
    pub(super) order: u64,
    scan: FamilyScan,
    gathering: Option<Gathering>,
    /// By shard: the segment that was looked at last.
    positions: Vec<Option<u32>>,
    next_shard: usize,
    pub(super) generation: u32,
    /// Bytes of the shards' marks, once there are dictionaries.
    pub(super) marks_bytes: usize,
    /// Whether the shards are to hear of new families.
    is_changed: bool,
}

/// A dictionary.
#[derive(Debug)]
pub(super) struct Slot {
    dictionary: Arc<Dictionary>,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Family {
    pub(super) space: Space,
    pub(super) prefix: Box<[u8]>,
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
    pub(super) fn of(dictionary: Dictionary) -> Slot {
        Slot {
            bytes: dictionary.bytes(),
            dictionary: Arc::new(dictionary),
        }
    }
}

impl Training {
    /// With what is known already.
    pub(super) fn with(state: State) -> Training {
        let training = Training::default();
        *training.shown() = Shown::of(&state);
        Training {
            state: Mutex::new(state),
            ..training
        }
    }

    /// Keeps a step of training from beginning.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_on(&self) -> bool {
        // Relaxed: as it says where it is declared.
        self.is_on.load(Ordering::Relaxed)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    fn of(state: &State) -> Shown {
        Shown {
            dictionaries: state.slots.iter().flatten().count(),
            bytes: state.bytes(),
            families: state.families.values().map(Family::stats).collect(),
        }
    }
}

impl Cache {
    /// Has values be compressed from here on, or no more; what is compressed is read either way.
    pub fn set_compress(&self, is_on: bool) {
        // Relaxed: as it says where it is declared.
        self.training.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Whether values are compressed.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.training.is_on()
    }

    /// Key prefixes of users that may use no other keys: from here on no dictionary is made of
    /// values within and without one of them. Replaces those that were given before.
    pub fn set_private_prefixes(&self, prefixes: impl IntoIterator<Item = Box<[u8]>>) {
        let private = PrivatePrefixes::new(prefixes);
        let mut state = self.training.lock();
        if *state.private == private {
            return;
        }
        state.scan = FamilyScan::default();
        state.gathering = None;
        let before = Arc::clone(&state.private);
        state
            .families
            .retain(|_, family| !private.divide(&before, &family.prefix));
        state.private = Arc::new(private);
        state.is_changed |= state.generation > 0;
        self.publish(&mut state);
    }

    /// A piece of the search for families that are worth compressing; whether more of it is
    /// waiting.
    ///
    /// To be called by a thread that serves nobody, once a second, and after some milliseconds
    /// while more is waiting. Holds a shard's lock for a look at 512 items; a step that makes a
    /// dictionary takes some 30 ms without any lock.
    pub fn train(&self) -> bool {
        self.train_in(|_| true)
    }

    /// The same, if values are to be compressed in some spaces alone: those for which this is true.
    /// Families in others lose their dictionaries for new values.
    pub fn train_in(&self, is_compressed: impl Fn(Space) -> bool) -> bool {
        let before_ns = thread_cpu_ns();
        let is_waiting = self.train_step(&is_compressed);
        let spent_ns = thread_cpu_ns() - before_ns;
        // Relaxed: a figure to look at.
        self.training
            .spent_ns
            .fetch_add(spent_ns, Ordering::Relaxed);
        is_waiting
    }

    fn train_step(&self, is_compressed: &dyn Fn(Space) -> bool) -> bool {
        let mut state = self.training.lock();
        let now = self.shards.now();
        if self.shards.is_handed_over() {
            return false;
        }
        // A step frees what no shard has used since an earlier one.
        self.free_dictionaries(&mut state);
        self.forget_unseen(&mut state, now);
        if !self.compresses() {
            state.leave_all();
            self.publish(&mut state);
            return false;
        }
        state.leave_others(is_compressed);
        let is_waiting = match state.gathering.take() {
            Some(gathering) => self.go_on_gathering(&mut state, gathering, now),
            None => self.scan(&mut state, is_compressed, now),
        };
        self.publish(&mut state);
        is_waiting
    }

    /// Looks at some values; chooses a family when enough were seen. Whether to go on at once.
    fn scan(&self, state: &mut State, is_compressed: &dyn Fn(Space) -> bool, now: Instant) -> bool {
        let mut scan = std::mem::take(&mut state.scan);
        let mut seen = 0;
        self.look(state, |space, prefix, family, value| {
            seen += 1;
            if is_compressed(space) {
                scan.note(space, prefix, family, value.len());
            }
            0
        });
        scan.steps += 1;
        if scan.values < SCANNED_VALUES && scan.steps < SCAN_STEPS {
            let found_some = seen + scan.values > 0;
            state.scan = scan;
            return found_some;
        }
        let Some(family) = state.choose(scan, now) else {
            return false;
        };
        state.gathering = Some(Gathering {
            family,
            values: Vec::new(),
            bytes: 0,
            steps: 0,
        });
        true
    }

    /// Copies some values of the chosen family; trains when there are enough. Whether to go on at
    /// once.
    fn go_on_gathering(&self, state: &mut State, mut gathering: Gathering, now: Instant) -> bool {
        self.look(state, |_, _, family, value| {
            if family != gathering.family || gathering.bytes >= SAMPLE_BYTES {
                return 0;
            }
            gathering.bytes += value.len();
            gathering.values.push(value.to_vec());
            value.len()
        });
        gathering.steps += 1;
        if gathering.bytes < SAMPLE_BYTES && gathering.steps < GATHER_STEPS {
            state.gathering = Some(gathering);
            return true;
        }
        self.judge(state, &gathering, now);
        true
    }

    /// Shows values of some shards to `each`, which says how many bytes it copies.
    fn look(&self, state: &mut State, mut each: impl FnMut(Space, &[u8], u64, &[u8]) -> usize) {
        state.positions.resize(self.shards.len(), None);
        for _ in 0..SHARDS_PER_STEP.min(self.shards.len()) {
            let number = state.next_shard % self.shards.len();
            state.next_shard = number + 1;
            let Some(shard) = self.shards.lock_own(&self.shards[number]) else {
                return;
            };
            let segment = shard.store.next_sampled(state.positions[number]);
            state.positions[number] = segment;
            let mut copied = 0;
            if let Some(segment) = segment {
                shard.store.sample_values(
                    segment,
                    ENTRIES_PER_SHARD,
                    &state.private,
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
    fn judge(&self, state: &mut State, gathering: &Gathering, now: Instant) {
        let number = state
            .families
            .get(&gathering.family)
            .and_then(|one| one.number);
        let before = number.and_then(|number| state.slots[usize::from(number)].as_ref());
        let before = before.map(|slot| Arc::clone(&slot.dictionary));
        let trained = match gathering.bytes >= SAMPLE_BYTES_MIN {
            true => train(&gathering.values, before.as_deref()),
            false => None,
        };
        let Some(family) = state.families.get_mut(&gathering.family) else {
            return;
        };
        let Some(trained) = trained else {
            family.look_at = Instant(now.0 + FEW_MS);
            return;
        };
        family.sample = (trained.plain_bytes, trained.packed_bytes);
        if !saves_enough(trained.packed_bytes, trained.plain_bytes) {
            family.leave(now);
            state.is_changed |= number.is_some();
            return;
        }
        family.look_at = Instant(now.0 + REVIEW_MS);
        family.pause_ms = PLAIN_MS;
        if before.is_some() && !is_better(&trained) {
            family.sample.1 = trained.before_bytes;
            return;
        }
        if let Some(number) = self.take_dictionary(state, gathering.family, trained)
            && let Some(family) = state.families.get_mut(&gathering.family)
        {
            family.number = Some(number);
            state.is_changed = true;
        }
    }

    /// Pays for a family's dictionary out of the cache's memory; its number, if there is one left.
    fn take_dictionary(&self, state: &mut State, family: u64, trained: Trained) -> Option<u8> {
        let unused = state.slots.iter().position(Option::is_none);
        let number = unused.unwrap_or(state.slots.len());
        if number >= DICTIONARIES_MAX {
            return None;
        }
        let number = number as u8;
        let bytes = trained.dictionary.bytes();
        let marks_bytes = match state.marks_bytes {
            0 => self.marks_bytes(),
            _ => 0,
        };
        let held_bytes = state.bytes() - state.marks_bytes;
        if held_bytes + bytes > self.shards.memory().bytes() / MEMORY_SHARE {
            return None;
        }
        // Others may take what was collected: then it is tried again.
        let is_taken = (0..COLLECTIONS_MAX).any(|_| {
            self.shards.collect_memory(None, bytes + marks_bytes);
            self.shards.memory().budget().take(bytes + marks_bytes)
        });
        if !is_taken {
            return None;
        }
        // Before any value is compressed with it.
        let order = state.order + 1;
        let family = &state.families[&family];
        if !self.save_dictionary(number, order, family, &trained) {
            self.shards.memory().budget().give(bytes + marks_bytes);
            return None;
        }
        state.order = order;
        state.marks_bytes += marks_bytes;
        state.add(number, Slot::of(trained.dictionary));
        Some(number)
    }

    /// Bytes of the marks of all shards.
    fn marks_bytes(&self) -> usize {
        let cells = self.shards.iter();
        cells
            .map(|cell| cell.lock_beside_claims().store.packing_bytes())
            .sum()
    }

    /// Takes the dictionaries from families that have no values any more.
    fn forget_unseen(&self, state: &mut State, now: Instant) {
        let is_unseen =
            |family: &Family| family.number.is_some() && family.seen_at.0 + UNSEEN_MS <= now.0;
        if !state.families.values().any(is_unseen) {
            return;
        }
        let used = self.dictionaries_in_use();
        let before = state.families.len();
        state.families.retain(|_, family| {
            let is_needed = family.number.is_some_and(|number| used & 1 << number != 0);
            if is_unseen(family) && is_needed {
                family.seen_at = now;
            }
            is_needed || !is_unseen(family)
        });
        state.is_changed |= state.families.len() < before;
    }

    /// The dictionaries that items need, a bit each.
    fn dictionaries_in_use(&self) -> u64 {
        let cells = self.shards.iter();
        cells.fold(0, |used, cell| {
            used | cell.lock_beside_claims().store.dictionaries_in_use()
        })
    }

    /// Frees dictionaries that no family uses and no item needs.
    fn free_dictionaries(&self, state: &mut State) {
        let active = state.active();
        let mut slots = state.slots.iter().enumerate();
        if !slots.any(|(number, slot)| slot.is_some() && active & 1 << number == 0) {
            return;
        }
        let used = active | self.dictionaries_in_use();
        for (number, slot) in state.slots.iter_mut().enumerate() {
            if used & 1 << number == 0
                && let Some(slot) = slot.take()
            {
                self.remove_dictionary(number);
                self.shards.memory().budget().give(slot.bytes);
                state.is_changed = true;
            }
        }
    }

    /// Tells the shards of the dictionaries and the families that there are.
    fn publish(&self, state: &mut State) {
        *self.training.shown() = Shown::of(state);
        if !std::mem::take(&mut state.is_changed) {
            return;
        }
        state.generation += 1;
        let codecs = Arc::new(state.codecs());
        for cell in self.shards.iter() {
            cell.lock_beside_claims().store.set_codecs(&codecs);
        }
    }

    /// Bytes of dictionaries and marks, which are part of the cache's memory.
    pub(super) fn training_bytes(&self) -> usize {
        self.training.shown().bytes
    }

    /// Adds how many dictionaries there are, and their bytes.
    pub(super) fn add_training_to(&self, stats: &mut Stats) {
        let shown = self.training.shown();
        stats.dictionaries = shown.dictionaries as u64;
        stats.dictionary_bytes = shown.bytes as u64;
        stats.overhead_bytes += shown.bytes as u64;
        // Relaxed: a figure to look at.
        stats.compression_ns += self.training.spent_ns.load(Ordering::Relaxed);
    }

    /// The families that were looked at.
    #[must_use]
    pub fn families(&self) -> Vec<FamilyStats> {
        self.training.shown().families.clone()
    }
}

/// Whether compression leaves little enough of a sample.
fn saves_enough(packed_bytes: usize, plain_bytes: usize) -> bool {
    packed_bytes * 100 <= plain_bytes * (100 - SAVED_PERCENT_MIN)
}

/// Whether a dictionary is so much better than the one before that it takes its place.
fn is_better(trained: &Trained) -> bool {
    trained.packed_bytes * 100 <= trained.before_bytes * (100 - REPLACED_PERCENT)
}

impl State {
    /// Dictionaries that new values are compressed with, a bit each.
    fn active(&self) -> u64 {
        let numbers = self.families.values().filter_map(|family| family.number);
        numbers.fold(0, |active, number| active | 1 << number)
    }

    /// Adds a dictionary under a number that no other has.
    pub(super) fn add(&mut self, number: u8, slot: Slot) {
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
    fn leave_all(&mut self) {
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

    pub(super) fn codecs(&self) -> Codecs {
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
    pub(super) fn restored(
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

    /// Its number among all families.
    pub(super) fn hash(&self, hasher: &Hasher) -> u64 {
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
