//! Members: entries one behind the other, each a member and what belongs to it.
//!
//! | part | bytes |
//! |---|---|
//! | slots of the table, as a power of two | 1; zero if there is no table |
//! | live members | 4 |
//! | bytes of dead entries | 4, with a table only |
//! | table | 4 a slot: the offset of an entry plus one, or zero |
//! | entries | varint of twice the member's length, plus one if dead; member; payload |
//!
//! Up to [`LINEAR_MAX`] members there is no table, and entries stand in order of insertion. A table
//! is probed slot by slot from the place that the upper bits of the member's hash say, so slots are
//! nearly in order of hashes: [`Members::scan`] walks them by hash, whatever the table's size.
//!
//! Invariant: offsets of entries stay until [`Members::tidy`].

use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::sync::LazyLock;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::bytes::{push_varint, set_u32, u32_at, varint};

/// Most members that are looked through one by one; more have a table.
pub const LINEAR_MAX: usize = 128;
/// The table's slots have room for so many quarters of members.
const FULL_QUARTERS: usize = 3;
/// A table with fewer than one member in so many slots is made smaller.
const SPARSE: usize = 8;
/// Dead entries are dropped when they are more than this part, as a divisor, of all bytes.
const DEAD_SHARE: usize = 3;
/// Bits of a hash that places come from.
const HASH_BITS: u32 = 32;

/// What belongs to a member.
pub trait Shape {
    /// Bytes of the payload that begins here.
    fn payload_bytes(bytes: &[u8]) -> usize;
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its offset.
    pub at: usize,
    /// The member.
    pub member: &'a [u8],
    /// What belongs to it.
    pub payload: &'a [u8],
    is_dead: bool,
    /// Where it ends and the next one begins.
    pub end: usize,
}

/// Members of a shape, in bytes that lie in the cache or in parts that can be changed.
#[derive(Debug)]
pub struct Members<S, B = Vec<u8>> {
    live: usize,
    dead_bytes: usize,
    table: B,
    entries: B,
    shape: PhantomData<S>,
}

impl<S: Shape, B: AsRef<[u8]>> Members<S, B> {
    /// Takes bytes apart; `part` keeps a part of them.
    pub fn read<'a>(bytes: &'a [u8], part: impl Fn(&'a [u8]) -> B) -> Members<S, B> {
        let live = u32_at(&bytes[1..], 0) as usize;
        let (dead_bytes, slots, start) = match bytes[0] {
            0 => (0, 0, 5),
            power => (u32_at(&bytes[5..], 0) as usize, 1 << power, 9),
        };
        let (table, entries) = bytes[start..].split_at(slots * 4);
        Members {
            live,
            dead_bytes,
            table: part(table),
            entries: part(entries),
            shape: PhantomData,
        }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The entry at an offset.
    #[inline]
    pub fn entry(&self, at: usize) -> Entry<'_> {
        let bytes = self.entries.as_ref();
        let (head, start) = varint(bytes, at);
        let payload = start + head / 2;
        let end = payload + S::payload_bytes(&bytes[payload..]);
        Entry {
            at,
            member: &bytes[start..payload],
            payload: &bytes[payload..end],
            is_dead: head % 2 == 1,
            end,
        }
    }

    /// The entry of a member.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<Entry<'_>> {
        if self.slots() == 0 {
            return self.iter().find(|entry| entry.member == member);
        }
        let mut slot = self.home(member);
        while let Some(at) = self.at_slot(slot) {
            let entry = self.entry(at);
            if entry.member == member {
                return Some(entry);
            }
            slot = self.next(slot);
        }
        None
    }

    /// All entries, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.iter_from(0)
    }

    /// The entries from an offset on, which is zero or where an entry [ends](Entry::end).
    pub fn iter_from(&self, at: usize) -> impl Iterator<Item = Entry<'_>> {
        let (mut at, end) = (at, self.entries.as_ref().len());
        std::iter::from_fn(move || {
            while at < end {
                let entry = self.entry(at);
                at = entry.end;
                if !entry.is_dead {
                    return Some(entry);
                }
            }
            None
        })
    }

    /// Shows about `count` entries from `cursor` on, and says where to go on; zero at the end.
    /// Without a table it shows all.
    ///
    /// A member that is there from the first call to the last is shown at least once, whatever
    /// else comes and goes: a cursor is a hash, and members are shown in order of their hashes.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Entry<'_>)) -> u64 {
        let slots = self.slots();
        if slots == 0 {
            for entry in self.iter() {
                if u64::from(hash(entry.member)) >= cursor {
                    show(entry);
                }
            }
            return 0;
        }
        let shift = HASH_BITS - slots.ilog2();
        let start = usize::try_from(cursor >> shift).unwrap_or(slots);
        if start >= slots {
            return 0;
        }
        let (mut stop, mut left) = (start, count.max(1));
        while stop < slots && left > 0 {
            left -= usize::from(self.at_slot(stop).is_some());
            stop += 1;
        }
        let until = (stop as u64) << shift;
        // An entry stands between its home and the next free slot, so what belongs before `stop`
        // ends with the first free slot from the last of them on.
        for place in start..start + slots {
            match self.at_slot(place & (slots - 1)) {
                None if place + 1 >= stop => break,
                None => {}
                Some(at) => {
                    let entry = self.entry(at);
                    if (cursor..until).contains(&u64::from(hash(entry.member))) {
                        show(entry);
                    }
                }
            }
        }
        if stop == slots { 0 } else { until }
    }

    /// Some entry, each as likely as the others; there must be one.
    ///
    /// # Panics
    /// If there is none.
    pub fn random(&self) -> Entry<'_> {
        let slots = self.slots();
        if slots == 0 {
            let nth = self.iter().nth(fastrand::usize(..self.live));
            return nth.expect("there are as many as were counted");
        }
        loop {
            if let Some(at) = self.at_slot(fastrand::usize(..slots)) {
                return self.entry(at);
            }
        }
    }

    #[inline]
    fn slots(&self) -> usize {
        self.table.as_ref().len() / 4
    }

    /// The slot where the probing for a member begins.
    #[inline]
    fn home(&self, member: &[u8]) -> usize {
        (hash(member) >> (HASH_BITS - self.slots().ilog2())) as usize
    }

    #[inline]
    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots() - 1)
    }

    #[inline]
    fn at_slot(&self, slot: usize) -> Option<usize> {
        (u32_at(self.table.as_ref(), slot) as usize).checked_sub(1)
    }

    /// The slot that holds an offset.
    fn slot_of(&self, member: &[u8], at: usize) -> usize {
        let mut slot = self.home(member);
        while self.at_slot(slot) != Some(at) {
            slot = self.next(slot);
        }
        slot
    }
}

impl<S: Shape> Members<S> {
    /// No members.
    pub fn empty() -> Members<S> {
        Members {
            live: 0,
            dead_bytes: 0,
            table: Vec::new(),
            entries: Vec::new(),
            shape: PhantomData,
        }
    }

    /// Adds a member that is not there; its offset.
    pub fn insert(&mut self, member: &[u8], payload: &[u8]) -> usize {
        let at = self.append(member, payload);
        self.live += 1;
        if self.slots() > 0 && self.live * 4 > self.slots() * FULL_QUARTERS {
            self.make_table(self.live);
        } else if self.slots() > 0 {
            self.place(at);
        } else if self.live > LINEAR_MAX {
            self.make_table(self.live);
        }
        at
    }

    /// Removes the entry at an offset.
    pub fn remove(&mut self, at: usize) {
        self.live -= 1;
        if self.slots() > 0 {
            let slot = self.slot_of(self.entry(at).member, at);
            self.close_gap(slot);
        }
        self.kill(at);
    }

    /// Gives the entry at an offset another payload.
    pub fn replace(&mut self, at: usize, payload: &[u8]) {
        let entry = self.entry(at);
        let range = entry.end - entry.payload.len()..entry.end;
        if range.len() == payload.len() {
            self.entries[range].copy_from_slice(payload);
        } else if self.slots() == 0 {
            self.entries.splice(range, payload.iter().copied());
        } else {
            let member = entry.member.to_vec();
            let slot = self.slot_of(&member, at);
            self.kill(at);
            let at = self.append(&member, payload);
            set_u32(&mut self.table, slot, offset(at) + 1);
        }
    }

    /// Drops dead entries and adjusts the table to the number of members, if it is worth it; where
    /// each entry was and is, in their order, if they moved.
    pub fn tidy(&mut self) -> Vec<(u32, u32)> {
        let is_small = self.live <= LINEAR_MAX / 2;
        let drops_table = self.slots() > 0 && is_small;
        let is_dirty = self.dead_bytes * DEAD_SHARE > self.entries.len();
        let mut moved = Vec::new();
        if self.dead_bytes > 0 && (self.slots() == 0 || drops_table || is_dirty) {
            moved = self.compact();
        }
        if drops_table {
            self.table = Vec::new();
        } else if self.slots() > 0 && (!moved.is_empty() || self.live * SPARSE < self.slots()) {
            self.make_table(self.live);
        }
        moved
    }

    /// Appends the bytes of all parts. [`Members::tidy`] came before.
    pub fn write(&self, out: &mut Vec<u8>) {
        let slots = self.slots();
        out.reserve(9 + self.table.len() + self.entries.len());
        out.push(if slots == 0 { 0 } else { slots.ilog2() as u8 });
        out.extend_from_slice(&offset(self.live).to_le_bytes());
        if slots > 0 {
            out.extend_from_slice(&offset(self.dead_bytes).to_le_bytes());
        }
        out.extend_from_slice(&self.table);
        out.extend_from_slice(&self.entries);
    }

    fn append(&mut self, member: &[u8], payload: &[u8]) -> usize {
        let at = self.entries.len();
        push_varint(&mut self.entries, member.len() * 2);
        self.entries.extend_from_slice(member);
        self.entries.extend_from_slice(payload);
        at
    }

    fn kill(&mut self, at: usize) {
        let end = self.entry(at).end;
        // The lowest bit of the head stands in its first byte.
        self.entries[at] |= 1;
        self.dead_bytes += end - at;
    }

    /// Moves live entries to the front.
    fn compact(&mut self) -> Vec<(u32, u32)> {
        let mut moved = Vec::with_capacity(self.live);
        let (mut from, mut to) = (0, 0);
        while from < self.entries.len() {
            let Entry { end, is_dead, .. } = self.entry(from);
            if !is_dead {
                self.entries.copy_within(from..end, to);
                moved.push((offset(from), offset(to)));
                to += end - from;
            }
            from = end;
        }
        self.entries.truncate(to);
        self.dead_bytes = 0;
        moved
    }

    /// Makes a table with room for twice as many members as there are.
    fn make_table(&mut self, members: usize) {
        let slots = (members * 2).next_power_of_two();
        self.table = vec![0; slots * 4];
        let mut at = 0;
        while at < self.entries.len() {
            let Entry { end, is_dead, .. } = self.entry(at);
            if !is_dead {
                self.place(at);
            }
            at = end;
        }
    }

    /// Puts an offset into the first free slot from its member's home on.
    fn place(&mut self, at: usize) {
        let mut slot = self.home(self.entry(at).member);
        while self.at_slot(slot).is_some() {
            slot = self.next(slot);
        }
        set_u32(&mut self.table, slot, offset(at) + 1);
    }

    /// Frees a slot and moves those behind it that may stand nearer to their home.
    fn close_gap(&mut self, slot: usize) {
        let mask = self.slots() - 1;
        let (mut gap, mut slot) = (slot, slot);
        loop {
            slot = self.next(slot);
            let Some(at) = self.at_slot(slot) else { break };
            let home = self.home(self.entry(at).member);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(gap) & mask {
                set_u32(&mut self.table, gap, offset(at) + 1);
                gap = slot;
            }
        }
        set_u32(&mut self.table, gap, 0);
    }
}

/// An offset or length within a value, which the engine bounds far below 4 GiB.
fn offset(number: usize) -> u32 {
    u32::try_from(number).expect("a value is shorter than 4 GiB")
}

/// The hash that places come from; other in each process, so nobody can choose members that
/// collide.
fn hash(member: &[u8]) -> u32 {
    static SECRETS: LazyLock<RapidSecrets> =
        LazyLock::new(|| RapidSecrets::seed(RandomState::new().hash_one(0)));
    (rapidhash_v3_seeded(member, &SECRETS) >> HASH_BITS) as u32
}
