//! Simulation: a miniature of this cache at another memory size, fed with a sample of the keys.
//!
//! It keeps no values, only one record for each sampled item: bytes, deadline, position in one of
//! the two queues of S3-FIFO, by the rules of `evict.rs`, one item at a time. Items of the small
//! queue whose reads do not count yet are in a list of their own. Its memory is that of the
//! simulated cache times the sampling rate, so it fills and evicts as that cache would. Expired
//! items release their memory at their deadline, before live ones are evicted.
//!
//! Records are bounded: when they run out, the rate is lowered and the keys that fall out of the
//! sample are dropped.
//!
//! Invariant: a record is in the index and in exactly one queue, or in the list of free ones.
//! Why: docs/decisions/0011. Tests: at the end of this file, and tests/insight.rs.

mod shown; // requests in a simulation

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::serialize::{serialize, serialize_enum};
use crate::insight::sample::{Coarse, part};
use crate::log::ghost::Ghosts;
use crate::log::policy::{GHOSTS_PERCENT_MAX, SMALL_PERCENTS, reads_needed, young_bytes};
use crate::log::segment::Queue;
use crate::log::{TABLE_ENTRY_BYTES, extent_bytes, is_better_off_alone};

/// The space for items in a cache of another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Memory that holds items, their slots and the ghosts, in bytes.
    pub(crate) bytes: usize,
    /// Bytes in one of its segments.
    pub(crate) segment_bytes: usize,
}

impl Capacity {
    /// Bytes that an item of `bytes` takes there in all: its slot, and its part of what segments
    /// have left at their ends, or the pages of its own extent.
    fn taken_by(self, bytes: u32) -> u32 {
        let (bytes, segment) = (bytes as usize, self.segment_bytes);
        let taken = if is_better_off_alone(bytes, segment) {
            extent_bytes(bytes, segment) + bytes.div_ceil(segment) * TABLE_ENTRY_BYTES
        } else {
            bytes + bytes * bytes / (2 * segment)
        };
        u32::try_from(taken + SLOT_BYTES).unwrap_or(u32::MAX)
    }
}

/// Bytes an item takes in the index: a slot of 8 bytes at a load of 0.88.
const SLOT_BYTES: usize = 9;
/// Reads of an item that count, as in the index.
const FREQUENCY_MAX: u8 = 3;
/// The part of the sampling rate that remains when it is lowered, in percent.
const LOWER_PERCENT: u64 = 70;
/// Entries of the expiry queue for each record: more than one, for deadlines that came closer.
const DUE_PER_RECORD: usize = 2;
/// Not a record.
const NONE: u16 = u16::MAX;

/// How far an item has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In the small queue, stored so lately that reads do not count.
    Young = 0,
    /// In the small queue.
    Grown = 1,
    /// In the main queue.
    Main = 2,
}

impl Stage {
    /// The queue that it is part of.
    fn queue(self) -> Queue {
        match self {
            Stage::Young | Stage::Grown => Queue::Small,
            Stage::Main => Queue::Main,
        }
    }
}

/// A sampled item.
#[derive(Clone, Copy, Debug)]
struct Record {
    hash: [u32; 2],
    bytes: u32,
    deadline: Coarse,
    /// The moment of the record's entry in the expiry queue.
    due: Coarse,
    before: u16,
    after: u16,
    stage: Stage,
    frequency: u8,
    is_live: bool,
    /// The real cache missed an item that is stored here: the next store is its refill.
    is_refilled: bool,
}

const _: () = assert!(
    size_of::<Record>() == 28,
    "records are what the insights take most for"
);

impl Record {
    fn hash(&self) -> u64 {
        u64::from(self.hash[0]) << 32 | u64::from(self.hash[1])
    }

    /// Counts a use, if uses count yet.
    fn mark_used(&mut self) {
        if self.stage != Stage::Young {
            self.frequency = (self.frequency + 1).min(FREQUENCY_MAX);
        }
    }
}

/// A list of records, oldest first.
#[derive(Clone, Copy, Debug)]
struct Fifo {
    first: u16,
    last: u16,
    bytes: u64,
}

const EMPTY: Fifo = Fifo {
    first: NONE,
    last: NONE,
    bytes: 0,
};

/// A cache in miniature.
#[derive(Debug)]
pub(crate) struct Simulation {
    capacity: Capacity,
    /// The small queue's share of memory.
    small_percent: usize,
    /// Keys whose part lies below are in the sample.
    below: u32,
    records_max: usize,
    records: Vec<Record>,
    free: u16,
    /// Open addressing: the numbers of records.
    table: Box<[u16]>,
    /// One for each stage.
    lists: [Fifo; 3],
    items: usize,
    ghosts: Ghosts,
    due: BinaryHeap<Reverse<(Coarse, u16)>>,
}

serialize!(Capacity {
    bytes,
    segment_bytes
});
serialize_enum!(Stage { 0 => Young, 1 => Grown, 2 => Main });
serialize!(Record {
    hash,
    bytes,
    deadline,
    due,
    before,
    after,
    stage,
    frequency,
    is_live,
    is_refilled,
});
serialize!(Fifo { first, last, bytes });
serialize!(Simulation {
    capacity,
    small_percent,
    below,
    records_max,
    records,
    free,
    table,
    lists,
    items,
    ghosts,
    due,
});

impl Simulation {
    /// A simulation of a cache with such a capacity, in at most `records_max` records.
    pub(crate) fn new(capacity: Capacity, records_max: usize, below: u32) -> Simulation {
        let records_max = records_max.min(usize::from(NONE));
        Simulation {
            capacity,
            small_percent: SMALL_PERCENTS[0],
            below,
            records_max,
            records: Vec::with_capacity(records_max),
            free: NONE,
            table: vec![NONE; (records_max * 3 / 2).next_power_of_two()].into_boxed_slice(),
            lists: [EMPTY; 3],
            items: 0,
            ghosts: Ghosts::none(),
            due: BinaryHeap::new(),
        }
    }

    /// From here on its small queue has this share of memory.
    pub(crate) fn set_small_percent(&mut self, percent: usize) {
        self.small_percent = percent;
    }

    /// Bytes that a simulation with `records_max` records may take, about.
    pub(crate) const fn bytes_for(records_max: usize) -> usize {
        let due = DUE_PER_RECORD * size_of::<Reverse<(Coarse, u16)>>();
        let ghosts = size_of::<u16>() * 2;
        records_max * (size_of::<Record>() + due + ghosts)
            + (records_max * 3 / 2).next_power_of_two() * size_of::<u16>()
    }

    /// Whether another one imagines the same cache in as many records.
    pub(crate) fn is_like(&self, other: &Simulation) -> bool {
        let kind = |one: &Simulation| (one.capacity, one.records_max, one.table.len());
        kind(self) == kind(other)
    }

    /// Keys whose part lies below this are in the sample.
    pub(crate) fn below(&self) -> u32 {
        self.below
    }

    /// How many keys each sampled one represents.
    pub(crate) fn weight(&self) -> f64 {
        (u32::MAX as f64 + 1.0) / (f64::from(self.below) + 1.0)
    }

    /// Items of the sample that it holds.
    pub(crate) fn sampled_items(&self) -> usize {
        self.items
    }

    /// Items the imagined cache would hold.
    pub(crate) fn items(&self) -> f64 {
        self.items as f64 * self.weight()
    }

    /// Reads a key; whether it is there. `real_hit`: whether it was in the real cache.
    pub(crate) fn get(&mut self, hash: u64, real_hit: bool, now: Coarse) -> bool {
        let Some(id) = self.live(hash, now) else {
            return false;
        };
        let record = self.record(id);
        record.mark_used();
        record.is_refilled = !real_hit;
        true
    }

    /// Stores a key: a new item, another value, or the refill after a miss that was none here.
    pub(crate) fn set(&mut self, hash: u64, bytes: u32, deadline: Coarse, now: Coarse) {
        let Some(id) = self.live(hash, now) else {
            return self.insert(hash, bytes, deadline, now);
        };
        let bytes = self.capacity.taken_by(bytes);
        let record = self.record(id);
        if std::mem::take(&mut record.is_refilled) {
            return;
        }
        let (stage, before) = (record.stage, record.bytes);
        record.bytes = bytes;
        let sum = &mut self.lists[stage as usize].bytes;
        *sum = *sum + u64::from(bytes) - u64::from(before);
        self.set_deadline(id, deadline);
        if bytes > before {
            // It does not fit where it was.
            self.unlink(id);
            self.append_anew(id, stage.queue());
            self.make_room(0, now);
        }
    }

    /// Gives a key another deadline, if it is there.
    pub(crate) fn touch(&mut self, hash: u64, deadline: Coarse, now: Coarse) {
        if let Some(id) = self.live(hash, now) {
            let record = self.record(id);
            record.mark_used();
            self.set_deadline(id, deadline);
        }
    }

    /// Deletes a key, if it is there.
    pub(crate) fn delete(&mut self, hash: u64) {
        if let Some(id) = self.find(hash) {
            self.remove(id);
        }
    }

    /// Deletes all keys.
    pub(crate) fn flush(&mut self) {
        for id in 0..self.records.len() as u16 {
            if self.records[usize::from(id)].is_live {
                self.remove(id);
            }
        }
    }

    /// Takes keys out of the sample, so that it is `below` or smaller.
    pub(crate) fn lower(&mut self, below: u32) {
        if below >= self.below {
            return;
        }
        self.below = below;
        self.ghosts = Ghosts::none();
        for id in 0..self.records.len() as u16 {
            let record = &self.records[usize::from(id)];
            if record.is_live && part(record.hash()) >= below {
                self.remove(id);
            }
        }
    }

    /// Lowers the rate until no more than so many thousandths of the records are in use.
    pub(crate) fn fit(&mut self, permille: usize) {
        while self.items > self.records_max * permille / 1_000 {
            self.lower_a_step();
        }
    }

    fn lower_a_step(&mut self) {
        self.lower((u64::from(self.below) * LOWER_PERCENT / 100) as u32);
    }

    fn insert(&mut self, hash: u64, bytes: u32, deadline: Coarse, now: Coarse) {
        let queue = if self.ghosts.take(hash) {
            Queue::Main
        } else {
            Queue::Small
        };
        let bytes = self.capacity.taken_by(bytes);
        self.make_room(u64::from(bytes), now);
        while self.free == NONE && self.records.len() == self.records_max {
            self.lower_a_step();
        }
        if part(hash) >= self.below {
            return;
        }
        let id = self.new_record(Record {
            hash: [(hash >> 32) as u32, hash as u32],
            bytes,
            deadline: Coarse::NEVER,
            due: Coarse::NEVER,
            before: NONE,
            after: NONE,
            stage: Stage::Young,
            frequency: 0,
            is_live: true,
            is_refilled: false,
        });
        let position = self.position_of(hash, |id| id == NONE);
        self.table[position] = id;
        self.items += 1;
        self.append_anew(id, queue);
        self.set_deadline(id, deadline);
    }

    fn new_record(&mut self, record: Record) -> u16 {
        let id = self.free;
        if id == NONE {
            self.records.push(record);
            return (self.records.len() - 1) as u16;
        }
        let old = self.record(id);
        let (due, next_free) = (old.due, old.after);
        // Entries of the expiry queue for this record number stay valid.
        *old = Record { due, ..record };
        self.free = next_free;
        id
    }

    /// Evicts items until `bytes` are free.
    fn make_room(&mut self, bytes: u64, now: Coarse) {
        self.expire(now);
        let share = f64::from(self.below) / (u32::MAX as f64 + 1.0);
        let room = (self.capacity.bytes as f64 * share) as u64;
        let ghost_bytes_max = room * GHOSTS_PERCENT_MAX as u64 / 100;
        loop {
            let [small, main] = self.queue_bytes();
            let ghost_bytes = (self.items * size_of::<u16>()) as u64;
            let held = small + main + ghost_bytes.min(ghost_bytes_max);
            if held + bytes <= room || self.items == 0 {
                return;
            }
            self.keep_ghosts(ghost_bytes_max as usize / size_of::<u16>());
            let from_small = small * 100 > (small + main) * self.small_percent as u64;
            let queue = if from_small {
                Queue::Small
            } else {
                Queue::Main
            };
            self.evict_one(queue, room as usize);
        }
    }

    /// Makes or enlarges the memory of ghosts, as `evict.rs` does.
    fn keep_ghosts(&mut self, most: usize) {
        let keys = self.items.min(most);
        if keys > self.ghosts.capacity() * 2 {
            self.ghosts = Ghosts::of(keys);
        }
    }

    /// Takes the oldest item of a queue, or of the other if that is empty: it is evicted, or moves
    /// on because it was read.
    fn evict_one(&mut self, queue: Queue, room: usize) {
        let order = match queue {
            Queue::Small => [Stage::Grown, Stage::Young, Stage::Main],
            Queue::Main => [Stage::Main, Stage::Grown, Stage::Young],
        };
        let mut oldest = order.iter().map(|&stage| self.lists[stage as usize].first);
        let Some(id) = oldest.find(|&id| id != NONE) else {
            return;
        };
        let record = self.records[usize::from(id)];
        let bytes = (record.bytes as usize).saturating_sub(SLOT_BYTES);
        let queue = record.stage.queue();
        let reads_needed = reads_needed(queue, bytes, room, self.items);
        if record.frequency < reads_needed {
            if queue == Queue::Small {
                self.ghosts.insert(record.hash());
            }
            return self.remove(id);
        }
        self.record(id).frequency = match queue {
            Queue::Small => 0,
            Queue::Main => record.frequency - reads_needed,
        };
        self.unlink(id);
        self.append(id, Stage::Main);
    }

    /// Removes the items whose time has come.
    fn expire(&mut self, now: Coarse) {
        while let Some(&Reverse((due, id))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            let record = self.record(id);
            if record.due != due {
                continue;
            }
            record.due = Coarse::NEVER;
            let deadline = record.deadline;
            if !record.is_live {
                continue;
            }
            if deadline <= now {
                self.remove(id);
            } else {
                self.set_deadline(id, deadline);
            }
        }
    }

    fn set_deadline(&mut self, id: u16, deadline: Coarse) {
        let record = self.record(id);
        record.deadline = deadline;
        if deadline >= record.due {
            return;
        }
        record.due = deadline;
        if self.due.len() >= self.records_max * DUE_PER_RECORD {
            self.due.clear();
            for (id, record) in self.records.iter_mut().enumerate() {
                record.due = record.deadline;
                if record.is_live && record.due != Coarse::NEVER {
                    self.due.push(Reverse((record.due, id as u16)));
                }
            }
        } else {
            self.due.push(Reverse((deadline, id)));
        }
    }

    /// The record of a key that is live at `now`.
    fn live(&mut self, hash: u64, now: Coarse) -> Option<u16> {
        let id = self.find(hash)?;
        if self.records[usize::from(id)].deadline <= now {
            self.remove(id);
            return None;
        }
        Some(id)
    }

    fn find(&self, hash: u64) -> Option<u16> {
        let is_it = |id: u16| id == NONE || self.records[usize::from(id)].hash() == hash;
        let id = self.table[self.position_of(hash, is_it)];
        (id != NONE).then_some(id)
    }

    /// The first position from the hash's own on that `fits`; there is always an empty one.
    fn position_of(&self, hash: u64, fits: impl Fn(u16) -> bool) -> usize {
        let mask = self.table.len() - 1;
        let mut position = hash as usize & mask;
        while !fits(self.table[position]) {
            position = (position + 1) & mask;
        }
        position
    }

    /// Takes a record out of everything.
    fn remove(&mut self, id: u16) {
        let hash = self.records[usize::from(id)].hash();
        self.empty_position(self.position_of(hash, |at| at == id));
        self.unlink(id);
        self.items -= 1;
        let free = self.free;
        let record = self.record(id);
        record.is_live = false;
        record.after = free;
        self.free = id;
    }

    /// Empties a position and moves those behind it forward, so that no search ends too early.
    fn empty_position(&mut self, mut empty: usize) {
        let mask = self.table.len() - 1;
        let mut position = empty;
        loop {
            position = (position + 1) & mask;
            let id = self.table[position];
            if id == NONE {
                self.table[empty] = NONE;
                return;
            }
            let home = self.records[usize::from(id)].hash() as usize & mask;
            if position.wrapping_sub(home) & mask >= position.wrapping_sub(empty) & mask {
                self.table[empty] = id;
                empty = position;
            }
        }
    }

    fn unlink(&mut self, id: u16) {
        let Record {
            before,
            after,
            stage,
            bytes,
            ..
        } = self.records[usize::from(id)];
        let fifo = &mut self.lists[stage as usize];
        fifo.bytes -= u64::from(bytes);
        if before == NONE {
            fifo.first = after;
        }
        if after == NONE {
            fifo.last = before;
        }
        if before != NONE {
            self.record(before).after = after;
        }
        if after != NONE {
            self.record(after).before = before;
        }
    }

    /// Bytes of the items in both queues.
    fn queue_bytes(&self) -> [u64; 2] {
        let [young, grown, main] = self.lists.map(|list| list.bytes);
        [young + grown, main]
    }

    /// Appends an item that was just stored, so that older ones may become grown.
    fn append_anew(&mut self, id: u16, queue: Queue) {
        if queue == Queue::Main {
            return self.append(id, Stage::Main);
        }
        self.append(id, Stage::Young);
        let queue_bytes = self.queue_bytes().iter().sum::<u64>() as usize;
        let most = young_bytes(queue_bytes, self.small_percent) as u64;
        while self.lists[Stage::Young as usize].bytes > most {
            let oldest = self.lists[Stage::Young as usize].first;
            self.unlink(oldest);
            self.append(oldest, Stage::Grown);
        }
    }

    fn append(&mut self, id: u16, stage: Stage) {
        let last = self.lists[stage as usize].last;
        let record = self.record(id);
        (record.stage, record.before, record.after) = (stage, last, NONE);
        let bytes = u64::from(record.bytes);
        let fifo = &mut self.lists[stage as usize];
        fifo.bytes += bytes;
        fifo.last = id;
        if last == NONE {
            fifo.first = id;
        } else {
            self.record(last).after = id;
        }
    }

    fn record(&mut self, id: u16) -> &mut Record {
        &mut self.records[usize::from(id)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Capacity = Capacity {
        bytes: 100_000,
        segment_bytes: 16 << 10,
    };
    const NOW: Coarse = Coarse(100);

    fn hash(number: u64) -> u64 {
        let hash = (number + 1).wrapping_mul(0xd129_0d3c_9f2b_5a4d);
        (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn simulation(records: usize) -> Simulation {
        Simulation::new(CAPACITY, records, u32::MAX)
    }

    /// Checks that index, queues, free list and sums agree.
    fn check(simulation: &Simulation) {
        let mut seen = 0;
        for (stage, fifo) in [Stage::Young, Stage::Grown, Stage::Main]
            .into_iter()
            .zip(simulation.lists)
        {
            let (mut id, mut before, mut bytes) = (fifo.first, NONE, 0);
            while id != NONE {
                let record = &simulation.records[usize::from(id)];
                assert!(record.is_live && record.stage == stage && record.before == before);
                assert!(part(record.hash()) < simulation.below);
                assert_eq!(simulation.find(record.hash()), Some(id));
                bytes += u64::from(record.bytes);
                (before, id, seen) = (id, record.after, seen + 1);
            }
            assert_eq!((fifo.last, fifo.bytes), (before, bytes));
        }
        assert_eq!(seen, simulation.items);
        let placed = simulation.table.iter().filter(|&&id| id != NONE).count();
        assert_eq!(placed, simulation.items);
        let (mut id, mut free) = (simulation.free, 0);
        while id != NONE {
            assert!(!simulation.records[usize::from(id)].is_live);
            (id, free) = (simulation.records[usize::from(id)].after, free + 1);
        }
        assert_eq!(simulation.items + free, simulation.records.len());
        assert!(simulation.records.len() <= simulation.records_max);
        assert!(simulation.due.len() <= simulation.records_max * DUE_PER_RECORD);
    }

    #[test]
    fn whatever_happens_index_and_queues_agree_and_memory_is_bounded() {
        let mut simulation = simulation(400);
        let mut random = 1_u64;
        for step in 0..60_000_u32 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (hash, bytes) = (
                hash(random >> 33 & 1_023),
                20 + (random >> 50) as u32 % 2_000,
            );
            let (action, now) = (random >> 45 & 15, Coarse(step / 16));
            if part(hash) >= simulation.below() {
                continue;
            }
            let deadline = match random >> 20 & 3 {
                0 => Coarse::NEVER,
                some => Coarse(now.0 + 100 * some as u32),
            };
            match action {
                0..=5 => drop(simulation.get(hash, action < 3, now)),
                6..=12 => simulation.set(hash, bytes, deadline, now),
                13 => simulation.touch(hash, deadline, now),
                _ => simulation.delete(hash),
            }
            if step % 97 == 0 {
                check(&simulation);
                let held: u64 = simulation.lists.iter().map(|list| list.bytes).sum();
                assert!(held as usize <= CAPACITY.bytes);
            }
        }
        simulation.flush();
        check(&simulation);
        assert_eq!(simulation.items, 0);
    }

    #[test]
    fn a_due_item_is_gone_and_makes_room_before_live_ones_leave() {
        let mut simulation = simulation(10_000);
        (0..400).for_each(|n| simulation.set(hash(n), 100, Coarse::NEVER, NOW));
        (400..800).for_each(|n| simulation.set(hash(n), 100, Coarse(150), NOW));
        assert!(simulation.get(hash(500), true, Coarse(149)));
        assert!(!simulation.get(hash(500), true, Coarse(150)));
        (800..1_200).for_each(|n| simulation.set(hash(n), 100, Coarse::NEVER, Coarse(150)));
        let kept = (0..400).filter(|&n| simulation.get(hash(n), true, Coarse(150)));
        assert_eq!(kept.count(), 400);
    }

    #[test]
    fn a_deadline_that_comes_closer_counts() {
        let mut simulation = simulation(100);
        simulation.set(hash(1), 100, Coarse(1_000), NOW);
        simulation.touch(hash(1), Coarse(200), NOW);
        simulation.set(hash(2), 100, Coarse::NEVER, Coarse(200));
        assert_eq!(simulation.items, 1);
    }

    #[test]
    fn the_store_after_a_miss_that_was_none_here_changes_nothing() {
        let mut simulation = simulation(100);
        simulation.set(hash(1), 100, Coarse(200), NOW);
        assert!(simulation.get(hash(1), false, NOW));
        simulation.set(hash(1), 100, Coarse(300), NOW);
        assert!(!simulation.get(hash(1), true, Coarse(200)));
        simulation.set(hash(1), 100, Coarse(300), Coarse(200));
        simulation.set(hash(1), 100, Coarse(400), Coarse(200));
        assert!(simulation.get(hash(1), true, Coarse(300)));
    }

    #[test]
    fn what_is_read_outlives_a_scan() {
        let mut simulation = simulation(10_000);
        (0..100).for_each(|n| simulation.set(hash(n), 100, Coarse::NEVER, NOW));
        for number in 100..5_000 {
            simulation.get(hash(number % 100), true, NOW);
            simulation.set(hash(number), 100, Coarse::NEVER, NOW);
        }
        assert!((0..100).all(|n| simulation.get(hash(n), true, NOW)));
    }

    #[test]
    fn when_records_run_out_the_rate_is_lowered_and_the_items_it_stands_for_stay() {
        let mut simulation = Simulation::new(
            Capacity {
                bytes: 10_000_000,
                ..CAPACITY
            },
            500,
            u32::MAX,
        );
        for number in (0..20_000).map(hash) {
            if part(number) < simulation.below() {
                simulation.set(number, 100, Coarse::NEVER, NOW);
            }
        }
        check(&simulation);
        assert!(
            (25.0..70.0).contains(&simulation.weight()),
            "{}",
            simulation.weight()
        );
        assert!((simulation.items() - 20_000.0).abs() < 3_000.0);
    }

    #[test]
    fn an_item_takes_what_it_takes_in_the_engine() {
        assert_eq!(CAPACITY.taken_by(100), 109);
        assert_eq!(CAPACITY.taken_by(2_000), 2_000 + 122 + 9);
        let extent = 20_480 + 2 * TABLE_ENTRY_BYTES as u32 + 9;
        assert_eq!(CAPACITY.taken_by(20_000), extent);
    }
}
