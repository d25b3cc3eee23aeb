//! Members: entries one behind the other, each a member and what belongs to it.
//!
//! | part | bytes |
//! |---|---|
//! | slots of the table, as a power of two | 1; zero if there is no table |
//! | live members | 4 |
//! | bytes of dead entries, the table's seed | 4 + 8, with a table only |
//! | table | 4 a slot: the offset of an entry plus one, or zero |
//! | order of scans | 4 a live member, with a table only: [`order`] |
//! | entries | varint of twice the member's length, plus one if dead; member; payload |
//!
//! Up to [`LINEAR_MAX`] members there is no table, and entries stand in order of insertion. A table
//! is probed slot by slot from a place that depends on the member and on the table's secret seed; a
//! probe that becomes too long makes the table anew.
//! Invariant: offsets of entries stay until [`Members::tidy`]. Why: docs/decisions/0025.

mod moved;
mod order;

use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::sync::LazyLock;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

pub use self::moved::Moved;
use super::bytes::{push_varint, set_u32, u32_at, u64_at, varint};
use super::spare;

/// Most members that are looked through one by one; more have a table.
pub const LINEAR_MAX: usize = 128;
/// The table's slots have room for so many quarters of members.
const FULL_QUARTERS: usize = 3;
/// Bytes behind a payload from which on, without a table, it is not worth moving them for another
/// length.
const MOVED_BYTES_MAX: usize = 4096;
/// A table with fewer than one member in so many slots is made smaller.
const SPARSE: usize = 8;
/// Dead entries are dropped when they are more than this part, as a divisor, of all bytes.
const DEAD_SHARE: usize = 3;
/// Entries, dead ones with them, are at most so many times as long as a collection may be.
const DEAD_TIMES_MAX: usize = 4;
/// From one removed member to so many that were there on it is cheaper to make the table anew.
const REBUILT_SHARE: usize = 6;
/// Slots from a member's home to its place, for each doubling of the table; among members that
/// nobody chose hardly a table of millions has more.
const PROBES_PER_DOUBLING: usize = 24;
/// Seeds that are tried for a table before its probes may be as long as they are.
const SEEDS_MAX: usize = 8;
/// Seeds that are tried before the table is made larger.
const SEEDS_A_SIZE: usize = 4;

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
    seed: u64,
    table: B,
    /// Of what the members were at the last [`Members::tidy`].
    order: B,
    entries: B,
    /// Entries that came or went since, in a table.
    changes: Vec<u32>,
    shape: PhantomData<S>,
}

impl<S: Shape, B: AsRef<[u8]>> Members<S, B> {
    /// Takes bytes apart; `part` keeps a part of them.
    pub fn read<'a>(bytes: &'a [u8], part: impl Fn(&'a [u8]) -> B) -> Members<S, B> {
        let live = u32_at(&bytes[1..], 0) as usize;
        let (dead_bytes, seed, slots, in_order, start) = match bytes[0] {
            0 => (0, 0, 0, 0, 5),
            power => {
                let dead_bytes = u32_at(&bytes[5..], 0) as usize;
                (dead_bytes, u64_at(bytes, 9), 1 << power, live, 17)
            }
        };
        let (table, rest) = bytes[start..].split_at(slots * 4);
        let (order, entries) = rest.split_at(in_order * 4);
        Members {
            live,
            dead_bytes,
            seed,
            table: part(table),
            order: part(order),
            entries: part(entries),
            changes: Vec::new(),
            shape: PhantomData,
        }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether the entries have come to more bytes than these, or with dead ones to many more.
    pub fn is_longer_than(&self, bytes: usize) -> bool {
        let all = self.entries.as_ref().len();
        all - self.dead_bytes > bytes || all / DEAD_TIMES_MAX > bytes
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

    /// Whether the entry at an offset is that of a member.
    #[inline]
    pub fn is_live(&self, at: usize) -> bool {
        // The lowest bit of the head stands in its first byte.
        self.entries.as_ref()[at] & 1 == 0
    }

    /// The entry of a member.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<Entry<'_>> {
        if member.len() > self.entries.as_ref().len() {
            // It is not hashed, however long it is.
            return None;
        }
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

    /// The most slots that the look-up of a member that is there goes through: what tests assert.
    pub fn longest_probe(&self) -> usize {
        let mask = self.slots().saturating_sub(1);
        let probe = |slot: usize| {
            let at = self.at_slot(slot)?;
            Some((slot.wrapping_sub(self.home(self.entry(at).member)) & mask) + 1)
        };
        (0..self.slots()).filter_map(probe).max().unwrap_or(0)
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
        (place(member, self.seed) >> (u64::BITS - self.slots().ilog2())) as usize
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
            seed: 0,
            table: Vec::new(),
            order: Vec::new(),
            entries: Vec::new(),
            changes: Vec::new(),
            shape: PhantomData,
        }
    }

    /// Adds a member that is not there; its offset.
    pub fn insert(&mut self, member: &[u8], payload: &[u8]) -> usize {
        let at = self.append(member, payload);
        self.live += 1;
        self.note_change(at);
        let slots = self.slots();
        let fits = if slots > 0 {
            self.live * 4 <= slots * FULL_QUARTERS && self.place(at, probes_max(slots))
        } else {
            self.live <= LINEAR_MAX
        };
        if !fits {
            self.make_table();
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
        self.note_change(at);
        self.kill(at);
    }

    /// Notes for the order, if there is or will be one, that an entry came or went.
    fn note_change(&mut self, at: usize) {
        if self.slots() > 0 || !self.order.is_empty() {
            self.changes.push(offset(at));
        }
    }

    /// Removes the entries at these offsets. Many leave the table without a slot until
    /// [`Members::tidy`] makes it anew; looking up is slow until then.
    pub fn remove_all(&mut self, entries: impl ExactSizeIterator<Item = usize>) {
        if self.slots() == 0 || entries.len() * REBUILT_SHARE < self.live {
            return entries.for_each(|at| self.remove(at));
        }
        self.live -= entries.len();
        entries.for_each(|at| self.kill(at));
        self.table.clear();
        self.drop_dead_from_order();
    }

    /// Gives the entry at an offset another payload.
    pub fn replace(&mut self, at: usize, payload: &[u8]) {
        let entry = self.entry(at);
        let range = entry.end - entry.payload.len()..entry.end;
        let behind = self.entries.len() - range.end;
        if self.slots() == 0 && range.len() != payload.len() && behind > MOVED_BYTES_MAX {
            self.make_table();
        }
        if range.len() == payload.len() {
            self.entries[range].copy_from_slice(payload);
        } else if self.slots() == 0 {
            self.entries.splice(range, payload.iter().copied());
            self.order.clear();
        } else {
            let slot = self.slot_of(self.entry(at).member, at);
            let member = range.start - self.entry(at).member.len()..range.start;
            self.kill(at);
            self.changes.push(offset(at));
            let at = self.entries.len();
            push_varint(&mut self.entries, member.len() * 2);
            self.entries.extend_from_within(member);
            self.entries.extend_from_slice(payload);
            self.changes.push(offset(at));
            set_u32(&mut self.table, slot, offset(at) + 1);
        }
    }

    /// Drops dead entries and adjusts the table to the number of members, if it is worth it; where
    /// the entries are, if they moved.
    pub fn tidy(&mut self) -> Option<Moved> {
        let is_small = self.live <= LINEAR_MAX / 2;
        let drops_table = self.slots() > 0 && is_small;
        let is_dirty = self.dead_bytes * DEAD_SHARE > self.entries.len();
        let mut moved = None;
        if self.dead_bytes > 0 && (self.slots() == 0 || drops_table || is_dirty) {
            if !self.order.is_empty() {
                self.settle_order();
            }
            let compacted = self.compact();
            compacted.adjust(&mut self.order);
            moved = Some(compacted);
        }
        if drops_table {
            self.table.clear();
        } else if self.needs_table(moved.is_some()) {
            self.make_table();
        }
        if self.slots() > 0 {
            self.settle_order();
        } else {
            self.order.clear();
            self.changes.clear();
        }
        moved
    }

    fn needs_table(&self, has_moved: bool) -> bool {
        match self.slots() {
            0 => self.live > LINEAR_MAX,
            slots => has_moved || self.live * SPARSE < slots,
        }
    }

    /// Appends the bytes of all parts. [`Members::tidy`] came before.
    pub fn write(&self, out: &mut Vec<u8>) {
        let slots = self.slots();
        spare::reserve(out, self.written_bytes_max());
        out.push(if slots == 0 { 0 } else { slots.ilog2() as u8 });
        out.extend_from_slice(&offset(self.live).to_le_bytes());
        if slots > 0 {
            out.extend_from_slice(&offset(self.dead_bytes).to_le_bytes());
            out.extend_from_slice(&self.seed.to_le_bytes());
        }
        out.extend_from_slice(&self.table);
        out.extend_from_slice(&self.order);
        out.extend_from_slice(&self.entries);
    }

    /// As many bytes as it is written in, or some more.
    pub fn written_bytes_max(&self) -> usize {
        17 + self.table.len() + self.order.len() + self.entries.len()
    }

    /// Lets its parts be used again.
    pub fn end(self) {
        for part in [self.table, self.order, self.entries] {
            spare::give(part);
        }
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
    fn compact(&mut self) -> Moved {
        let mut moved = Moved::within(self.entries.len(), self.live);
        let (mut from, mut to) = (0, 0);
        while from < self.entries.len() {
            let Entry { end, is_dead, .. } = self.entry(from);
            if !is_dead {
                self.entries.copy_within(from..end, to);
                moved.note(from, to);
                to += end - from;
            }
            from = end;
        }
        self.entries.truncate(to);
        self.dead_bytes = 0;
        moved.finish();
        moved
    }

    /// Makes a table with room for twice as many members as there are, in which no probe is too
    /// long.
    fn make_table(&mut self) {
        let slots = (self.live * 2).next_power_of_two();
        for attempt in 1..=SEEDS_MAX {
            let larger = attempt.saturating_sub(SEEDS_A_SIZE);
            let most = if attempt < SEEDS_MAX {
                probes_max(slots << larger)
            } else {
                usize::MAX
            };
            if self.fill_table(slots << larger, most) {
                return;
            }
        }
    }

    /// Puts all members into a table of so many slots under a seed of its own; whether no probe is
    /// longer than `probes_max`.
    fn fill_table(&mut self, slots: usize, probes_max: usize) -> bool {
        self.seed = RandomState::new().hash_one(slots);
        self.table.clear();
        self.table.resize(slots * 4, 0);
        let mut at = 0;
        while at < self.entries.len() {
            let Entry { end, is_dead, .. } = self.entry(at);
            if !is_dead && !self.place(at, probes_max) {
                return false;
            }
            at = end;
        }
        true
    }

    /// Puts an offset into the first free slot from its member's home on, unless that is farther
    /// than `probes_max`.
    fn place(&mut self, at: usize, probes_max: usize) -> bool {
        let mut slot = self.home(self.entry(at).member);
        let mut probes = 1;
        while self.at_slot(slot).is_some() {
            slot = self.next(slot);
            probes += 1;
            if probes > probes_max {
                return false;
            }
        }
        set_u32(&mut self.table, slot, offset(at) + 1);
        true
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
pub(super) fn offset(number: usize) -> u32 {
    u32::try_from(number).expect("a value is shorter than 4 GiB")
}

/// Most slots that a probe in a table goes through.
fn probes_max(slots: usize) -> usize {
    slots.ilog2() as usize * PROBES_PER_DOUBLING
}

/// A secret for a hash, another in each process.
fn secrets() -> RapidSecrets {
    RapidSecrets::seed(RandomState::new().hash_one(0))
}

/// A number whose upper bits are a member's home in a table with this seed. Nothing that is shown
/// depends on it, so nobody can choose members that collide.
#[inline]
fn place(member: &[u8], seed: u64) -> u64 {
    static SECRETS: LazyLock<RapidSecrets> = LazyLock::new(secrets);
    let mut mixed = rapidhash_v3_seeded(member, &SECRETS) ^ seed;
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::{LINEAR_MAX, Members, Shape, place, probes_max};
    use crate::collection::set::Bare;

    fn members_of(count: usize) -> Members<Bare> {
        let mut members = Members::empty();
        for number in 0..count {
            members.insert(format!("m{number}").as_bytes(), &[]);
        }
        members
    }

    #[test]
    fn members_that_know_their_places_get_another_seed() {
        let mut members = members_of(LINEAR_MAX + 22);
        let (slots, seed) = (members.slots(), members.seed);
        let shift = u64::BITS - slots.ilog2();
        let chosen = (0_u32..).map(|number| format!("c{number}"));
        let chosen = chosen.filter(|name| place(name.as_bytes(), seed) >> shift == 0);
        for name in chosen.take(probes_max(slots) + 10) {
            members.insert(name.as_bytes(), &[]);
            let longest = members.longest_probe();
            assert!(longest <= probes_max(slots), "{longest}");
        }
        assert_ne!(members.seed, seed);
    }

    #[test]
    fn each_table_has_a_seed_of_its_own() {
        let [one, other] = [members_of(200), members_of(200)];
        assert_ne!(one.seed, other.seed);
    }

    #[test]
    fn a_table_whose_probes_stay_too_long_is_there_all_the_same() {
        let mut members = members_of(1_000);
        assert!(!members.fill_table(2_048, 1));
        members.make_table();
        assert!((0..1_000).all(|n| members.find(format!("m{n}").as_bytes()).is_some()));
    }

    /// A length, and so many bytes.
    struct Long;

    impl Shape for Long {
        fn payload_bytes(bytes: &[u8]) -> usize {
            4 + u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize
        }
    }

    #[test]
    fn to_change_a_payload_does_not_move_all_that_is_behind_it() {
        let payload = |bytes: u32| [&bytes.to_le_bytes()[..], &vec![7; bytes as usize]].concat();
        let mut members: Members<Long> = Members::empty();
        members.insert(b"first", &payload(1));
        members.insert(b"last", &payload(8_000));
        let last = members.find(b"last").map(|entry| entry.at);
        for bytes in [2, 3, 2] {
            let at = members.find(b"first").expect("it is there").at;
            members.replace(at, &payload(bytes));
            let first = members.find(b"first").expect("it is there");
            assert_eq!(first.payload, payload(bytes));
            assert_eq!(members.find(b"last").map(|entry| entry.at), last);
        }
        members.tidy();
        assert_eq!(
            (members.slots(), members.dead_bytes, members.len()),
            (0, 0, 2)
        );
    }
}
