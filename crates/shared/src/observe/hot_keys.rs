//! Hot keys: the keys that cost most while a measurement runs, for HOTKEYS.
//!
//! A measurement counts the processor time and the network bytes of each Redis command, divided
//! equally among its keys. The heaviest keys are found by the Space-Saving algorithm: if more keys
//! come than it has entries for, a new one replaces the lightest and inherits its weight, so a
//! heavy key is never missing and may look a little heavier than it is. Without a measurement it
//! costs nothing; in one each command is timed and takes a lock.
//!
//! Source: redis.io/docs/latest/commands/hotkeys-start and its neighbours. Metwally, Agrawal and
//! El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams" (2005).
//!
//! Tests: at the end of this file; server/tests/resp_hot_keys.rs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cellar_cluster::slot::SlotSet;
use cellar_config::limits::HOT_KEYS_MAX;
use cellar_system::process::Cpu;
use parking_lot::Mutex;

/// Longest key that is listed.
const KEY_BYTES_MAX: usize = 1 << 10;
/// Entries for each key that is shown.
const ENTRIES_EACH: usize = 10;
/// Memory of an entry beside its key, in bytes.
const ENTRY_BYTES: usize = 128;
/// Most bytes of the entries of a measurement: one list by time, one by bytes.
pub const HOT_KEYS_BYTES_MAX: usize =
    2 * HOT_KEYS_MAX * ENTRIES_EACH * (KEY_BYTES_MAX + ENTRY_BYTES);

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Whether processor time is measured.
    pub by_time: bool,
    /// Whether bytes on the network are.
    pub by_bytes: bool,
    /// How many keys are shown.
    pub keys: usize,
    /// One in so many commands is measured.
    pub sample_ratio: u32,
    /// The slots whose keys are measured; none for all.
    pub slots: Option<SlotSet>,
    /// When it began, by the engine's clock, in milliseconds.
    pub begun_ms: u64,
    /// The same as a Unix time.
    pub begun_unix_ms: u64,
    /// When it ends by itself.
    pub until_ms: Option<u64>,
    /// The processor time of the process when it began.
    pub cpu_before: Cpu,
}

/// The total cost of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Processor time, in nanoseconds: most commands take less than a microsecond.
    pub ns: u64,
    /// Bytes on the network.
    pub bytes: u64,
}

impl Cost {
    fn add(&mut self, other: Cost) {
        self.ns += other.ns;
        self.bytes += other.bytes;
    }

    /// An equal part for each of so many keys.
    fn each(self, keys: usize) -> Cost {
        let keys = keys.max(1) as u64;
        Cost {
            ns: self.ns / keys,
            bytes: self.bytes / keys,
        }
    }
}

/// A key and what it weighs.
#[derive(Clone, Debug)]
struct Entry {
    key: Arc<[u8]>,
    weight: u64,
    /// Where `HeavyKeys::heap` names the entry.
    place: u32,
}

/// The heaviest keys.
///
/// The heap has the lightest entry in front, so a key costs one look-up and at most as many steps
/// as the heap has levels, whether it is listed or takes the place of the lightest.
#[derive(Clone, Debug, Default)]
pub struct HeavyKeys {
    entries: Vec<Entry>,
    /// Numbers of entries; none weighs more than its two children, `2 n + 1` and `2 n + 2`.
    heap: Vec<u32>,
    by_key: HashMap<Arc<[u8]>, u32>,
    entries_max: usize,
    /// The total weight of all keys.
    total: u64,
    /// Levels of the heap that entries have passed.
    #[cfg(test)]
    steps: usize,
}

impl HeavyKeys {
    fn of(entries_max: usize) -> HeavyKeys {
        HeavyKeys {
            entries_max,
            ..HeavyKeys::default()
        }
    }

    fn add(&mut self, key: &[u8], weight: u64) {
        self.total += weight;
        if weight == 0 || key.len() > KEY_BYTES_MAX || self.entries_max == 0 {
            return;
        }
        if let Some(&number) = self.by_key.get(key) {
            self.grow(number, weight);
        } else if self.entries.len() < self.entries_max {
            self.append(key.into(), weight);
        } else {
            self.replace_lightest(key.into(), weight);
        }
    }

    /// Adds to the weight of an entry.
    fn grow(&mut self, number: u32, weight: u64) {
        let entry = &mut self.entries[number as usize];
        entry.weight += weight;
        let place = entry.place as usize;
        self.move_back(place);
    }

    fn append(&mut self, key: Arc<[u8]>, weight: u64) {
        // At most `entries_max`, which is far below 2^32.
        let number = self.entries.len() as u32;
        self.by_key.insert(Arc::clone(&key), number);
        self.entries.push(Entry {
            key,
            weight,
            place: number,
        });
        self.heap.push(number);
        self.move_front(number as usize);
    }

    /// Gives the lightest entry, and its weight, to another key.
    fn replace_lightest(&mut self, key: Arc<[u8]>, weight: u64) {
        let number = self.heap[0];
        let entry = &mut self.entries[number as usize];
        self.by_key.remove(&entry.key);
        entry.key = Arc::clone(&key);
        self.by_key.insert(key, number);
        self.grow(number, weight);
    }

    fn weight_at(&self, place: usize) -> u64 {
        self.entries[self.heap[place] as usize].weight
    }

    /// Moves an entry behind lighter ones.
    fn move_back(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let Some(lighter) = children.min_by_key(|&child| self.weight_at(child)) else {
                return;
            };
            if self.weight_at(place) <= self.weight_at(lighter) {
                return;
            }
            self.swap(place, lighter);
            place = lighter;
        }
    }

    /// Moves an entry in front of heavier ones.
    fn move_front(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.weight_at(parent) <= self.weight_at(place) {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        self.heap.swap(one, other);
        for place in [one, other] {
            self.entries[self.heap[place] as usize].place = place as u32;
        }
    }

    /// The heaviest keys and their weights, at most `most` of them, the heaviest first.
    #[must_use]
    pub fn heaviest(&self, most: usize) -> Vec<(&[u8], u64)> {
        let entries = self.entries.iter();
        let mut keys: Vec<(&[u8], u64)> =
            entries.map(|entry| (&*entry.key, entry.weight)).collect();
        keys.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        keys.truncate(most);
        keys
    }

    /// The total weight of all keys.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// A measurement and what it has found.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its parameters.
    pub of: Measurement,
    /// When it was ended, by the engine's clock, in milliseconds.
    pub ended_ms: Option<u64>,
    /// Processor time by keys.
    pub by_time: HeavyKeys,
    /// Bytes on the network by keys.
    pub by_bytes: HeavyKeys,
    /// The cost of all commands with keys.
    pub all: Cost,
    /// The same for commands in the measured slots.
    pub selected: Cost,
    /// The same for those of them that were sampled.
    pub sampled: Cost,
    commands: u64,
}

impl Measured {
    /// Ends the measurement at its time.
    fn end_in_time(&mut self, now_ms: u64) -> bool {
        let is_over = self.of.until_ms.is_some_and(|until_ms| now_ms >= until_ms);
        if is_over && self.ended_ms.is_none() {
            self.ended_ms = self.of.until_ms;
        }
        is_over
    }

    fn note(&mut self, keys: &[&[u8]], slot: u16, cost: Cost) {
        self.all.add(cost);
        let slots = self.of.slots.as_ref();
        if slots.is_some_and(|slots| !slots.has(slot)) {
            return;
        }
        self.selected.add(cost);
        let is_sampled = self
            .commands
            .is_multiple_of(u64::from(self.of.sample_ratio));
        self.commands += 1;
        if !is_sampled {
            return;
        }
        self.sampled.add(cost);
        let each = cost.each(keys.len());
        for key in keys {
            if self.of.by_time {
                self.by_time.add(key, each.ns);
            }
            if self.of.by_bytes {
                self.by_bytes.add(key, each.bytes);
            }
        }
    }
}

/// The current measurement, or the last one.
#[derive(Debug, Default)]
pub struct HotKeys {
    // Relaxed: a command more or less is measured.
    is_active: AtomicBool,
    measured: Mutex<Option<Measured>>,
}

impl HotKeys {
    /// Whether a measurement is running.
    #[inline]
    #[must_use]
    pub fn is_active(&self) -> bool {
        // Relaxed: as it says where it is declared.
        self.is_active.load(Ordering::Relaxed)
    }

    /// Begins a measurement; `false` if one is running.
    #[must_use]
    pub fn start(&self, measurement: Measurement) -> bool {
        let mut measured = self.measured.lock();
        let is_under_way = measured.as_mut().is_some_and(|measured| {
            measured.end_in_time(measurement.begun_ms);
            measured.ended_ms.is_none()
        });
        if is_under_way {
            return false;
        }
        let entries = measurement.keys * ENTRIES_EACH;
        *measured = Some(Measured {
            of: measurement,
            ended_ms: None,
            by_time: HeavyKeys::of(entries),
            by_bytes: HeavyKeys::of(entries),
            all: Cost::default(),
            selected: Cost::default(),
            sampled: Cost::default(),
            commands: 0,
        });
        // Relaxed: as it says where it is declared.
        self.is_active.store(true, Ordering::Relaxed);
        true
    }

    /// Ends the measurement; `false` if none is running.
    pub fn stop(&self, now_ms: u64) -> bool {
        let mut measured = self.measured.lock();
        // Relaxed: as it says where it is declared.
        self.is_active.store(false, Ordering::Relaxed);
        let Some(measured) = measured.as_mut() else {
            return false;
        };
        measured.end_in_time(now_ms);
        let is_under_way = measured.ended_ms.is_none();
        measured.ended_ms.get_or_insert(now_ms);
        is_under_way
    }

    /// Discards the measurement; `false` if one is running.
    #[must_use]
    pub fn reset(&self, now_ms: u64) -> bool {
        let mut measured = self.measured.lock();
        if let Some(measured) = measured.as_mut() {
            measured.end_in_time(now_ms);
            if measured.ended_ms.is_none() {
                return false;
            }
        }
        *measured = None;
        true
    }

    /// A copy of the measurement; none before the first.
    #[must_use]
    pub fn read(&self, now_ms: u64) -> Option<Measured> {
        let mut measured = self.measured.lock();
        let measured = measured.as_mut()?;
        measured.end_in_time(now_ms);
        Some(measured.clone())
    }

    /// Records the cost of a command with these keys, of this slot; `true` if the measurement has
    /// ended.
    #[cold]
    #[must_use]
    pub fn note(&self, keys: &[&[u8]], slot: u16, cost: Cost, now_ms: u64) -> bool {
        let mut measured = self.measured.lock();
        let Some(measured) = measured.as_mut().filter(|one| one.ended_ms.is_none()) else {
            return false;
        };
        if measured.end_in_time(now_ms) {
            // Relaxed: as it says where it is declared.
            self.is_active.store(false, Ordering::Relaxed);
            return true;
        }
        measured.note(keys, slot, cost);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_keys_are_found_among_many_more_than_there_are_entries_for() {
        let mut keys = HeavyKeys::of(20);
        for round in 0..1_000_u32 {
            keys.add(b"heavy", 50);
            keys.add(b"medium", 20);
            keys.add(format!("light-{round}").as_bytes(), 1);
        }
        let found = keys.heaviest(2);
        assert_eq!((found[0].0, found[1].0), (&b"heavy"[..], &b"medium"[..]));
        assert!((50_000..50_100).contains(&found[0].1), "{found:?}");
        assert!((20_000..20_100).contains(&found[1].1), "{found:?}");
        assert_eq!(keys.total(), 71_000);
        assert_eq!(keys.entries.len(), 20);
    }

    /// The lightest entry is in front of the heap, and each entry knows its place there.
    fn check_heap(keys: &HeavyKeys) {
        for place in 0..keys.heap.len() {
            assert_eq!(
                keys.entries[keys.heap[place] as usize].place as usize,
                place
            );
            assert!(place == 0 || keys.weight_at((place - 1) / 2) <= keys.weight_at(place));
        }
        assert_eq!(keys.by_key.len(), keys.entries.len());
        for (number, entry) in keys.entries.iter().enumerate() {
            assert_eq!(keys.by_key[&entry.key] as usize, number);
        }
    }

    #[test]
    fn a_key_costs_at_most_the_levels_of_the_heap() {
        let entries_max: usize = 640;
        let levels = entries_max.ilog2() as usize;
        let mut keys = HeavyKeys::of(entries_max);
        let mut total = 0;
        for number in 0..20_000_u64 {
            let before = keys.steps;
            // A few keys repeatedly, and ever new ones between them.
            let key = match number % 3 {
                0 => number % 50,
                _ => number,
            };
            let weight = 1 + number * 7_919 % 101;
            keys.add(&key.to_le_bytes(), weight);
            total += weight;
            assert!(keys.steps - before <= levels);
        }
        check_heap(&keys);
        let listed: u64 = keys.entries.iter().map(|entry| entry.weight).sum();
        assert_eq!((listed, keys.total()), (total, total));
    }

    #[test]
    fn commands_that_take_less_than_a_microsecond_are_counted() {
        let hot_keys = HotKeys::default();
        assert!(hot_keys.start(Measurement {
            by_time: true,
            by_bytes: false,
            keys: 1,
            sample_ratio: 1,
            slots: None,
            begun_ms: 0,
            begun_unix_ms: 0,
            until_ms: None,
            cpu_before: Cpu::default(),
        }));
        for _ in 0..10 {
            assert!(!hot_keys.note(&[b"key"], 0, Cost { ns: 400, bytes: 0 }, 1));
        }
        let measured = hot_keys.read(1).expect("it was started");
        assert_eq!(measured.by_time.heaviest(1), [(&b"key"[..], 4_000)]);
    }

    #[test]
    fn keys_that_are_too_long_are_counted_and_not_listed() {
        let mut keys = HeavyKeys::of(20);
        keys.add(&vec![b'k'; KEY_BYTES_MAX + 1], 5);
        assert_eq!((keys.heaviest(9).len(), keys.total()), (0, 5));
    }
}
