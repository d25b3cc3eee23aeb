//! Sorted set: members with scores, in order of score and then of member.
//!
//! | part | bytes |
//! |---|---|
//! | order | 4 for the number of members, then 4 each: the offsets of their entries, in order |
//! | [`Members`], with payload: the score | |
//!
//! Invariant: the order is right, except between [`SortedSet::set_many`] and its end; and it has
//! the removed as well after many of [`SortedSet::remove`].

use std::cmp::Ordering;
use std::ops::Range;

use cellar_engine::{Deadline, Instant, Kind};

use super::Collection;
use super::bytes::{retain_u32, set_u32, u32_at, u64_at};
use super::members::{Entry, Members, Shape};
use super::spare;

/// From so many changes on it is cheaper to sort once.
const SORTED_ONCE_MIN: usize = 64;

/// A score.
#[derive(Debug)]
pub struct Scored;

impl Shape for Scored {
    fn payload_bytes(_bytes: &[u8]) -> usize {
        8
    }
}

/// A sorted set. No score is NaN.
#[derive(Debug)]
pub struct SortedSet<B = Vec<u8>> {
    own: Deadline,
    is_changed: bool,
    is_sorted: bool,
    /// Offsets of members that were set since [`SortedSet::set_many`]: those that came are not in
    /// the order, and the others are where they were.
    set: Vec<u32>,
    /// Members removed one by one.
    removed: usize,
    order: B,
    members: Members<Scored, B>,
}

impl<'a> SortedSet<&'a [u8]> {
    /// The sorted set in the bytes of a value.
    pub fn view(value: &'a [u8]) -> SortedSet<&'a [u8]> {
        SortedSet::read(value, Deadline::NEVER, |part| part)
    }
}

impl<B: AsRef<[u8]>> SortedSet<B> {
    fn read<'a>(value: &'a [u8], deadline: Deadline, part: impl Fn(&'a [u8]) -> B) -> SortedSet<B> {
        let end = 4 + u32_at(value, 0) as usize * 4;
        SortedSet {
            own: deadline,
            is_changed: false,
            is_sorted: true,
            set: Vec::new(),
            removed: 0,
            order: part(&value[4..end]),
            members: Members::read(&value[end..], part),
        }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none; of a value that is never so.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A member's score.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.find(member).map(score)
    }

    /// A member's place in the order, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.place(member, score), score))
    }

    /// The member at a place, and its score.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn at(&self, rank: usize) -> (&[u8], f64) {
        let entry = self
            .members
            .entry(u32_at(self.order.as_ref(), rank) as usize);
        (entry.member, score(entry))
    }

    /// The first place whose member is not `before`; those that are stand before all others.
    pub fn partition_point(&self, before: impl Fn(&[u8], f64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.order.as_ref().len() / 4);
        while low < high {
            let middle = usize::midpoint(low, high);
            let (member, score) = self.at(middle);
            if before(member, score) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// As [`Members::scan`].
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8], f64)) -> u64 {
        let members = &self.members;
        members.scan(cursor, count, |entry| show(entry.member, score(entry)))
    }

    /// The place that a member with a score has or would have.
    fn place(&self, member: &[u8], score: f64) -> usize {
        self.partition_point(|other, its| compare((other, its), (member, score)).is_lt())
    }
}

impl SortedSet {
    /// Gets ready for so many calls of [`SortedSet::set`]; until the end there are no places.
    pub fn set_many(&mut self, count: usize) {
        self.is_sorted &= count < SORTED_ONCE_MIN;
    }

    /// Gives a member a score; whether it is new.
    pub fn set(&mut self, member: &[u8], score: f64) -> bool {
        let payload = score.to_le_bytes();
        let old = self.members.find(member);
        let old = old.map(|entry| (entry.at, self::score(entry)));
        self.is_changed = true;
        let Some((at, old_score)) = old else {
            if self.is_sorted {
                let place = self.place(member, score);
                let at = self.members.insert(member, &payload);
                self.insert_into_order(place, at);
            } else {
                let at = self.members.insert(member, &payload);
                self.set.push(at as u32);
            }
            return true;
        };
        if self.is_sorted {
            let place = self.place(member, old_score);
            self.order.drain(place * 4..place * 4 + 4);
            let place = self.place(member, score);
            self.insert_into_order(place, at);
        } else {
            self.set.push(at as u32);
        }
        self.members.replace(at, &payload);
        false
    }

    /// Removes a member; whether it was there.
    ///
    /// Each of the first takes its place out of the order, which moves all behind it; those of the
    /// others leave it together at the end, and until then there are no ranks.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some(entry) = self.members.find(member) else {
            return false;
        };
        let (at, score) = (entry.at, score(entry));
        if self.is_sorted && self.removed < SORTED_ONCE_MIN {
            let place = self.place(member, score);
            self.order.drain(place * 4..place * 4 + 4);
        }
        self.members.remove(at);
        self.removed += 1;
        self.is_changed = true;
        true
    }

    /// Takes the removed out of the order.
    fn drop_removed(&mut self) {
        if self.removed > SORTED_ONCE_MIN || !self.is_sorted {
            let Self { members, order, .. } = self;
            retain_u32(order, |at| members.is_live(at as usize));
        }
        self.removed = 0;
    }

    /// Removes the members at these places.
    pub fn remove_range(&mut self, ranks: Range<usize>) {
        self.drop_removed();
        self.is_changed |= !ranks.is_empty();
        let places = ranks.clone();
        let entries = places.map(|rank| u32_at(&self.order, rank) as usize);
        self.members.remove_all(entries);
        self.order.drain(ranks.start * 4..ranks.end * 4);
    }

    fn insert_into_order(&mut self, place: usize, at: usize) {
        let end = self.order.len();
        self.order.extend_from_slice(&[0; 4]);
        self.order.copy_within(place * 4..end, place * 4 + 4);
        set_u32(&mut self.order, place, at as u32);
    }

    /// Adds a member that is not there and belongs behind all others.
    pub fn push(&mut self, member: &[u8], score: f64) {
        let place = self.order.len() / 4;
        let at = self.members.insert(member, &score.to_le_bytes());
        self.insert_into_order(place, at);
        self.is_changed = true;
    }

    /// Brings the order up to what was set since [`SortedSet::set_many`]: what was set is sorted,
    /// and moved in among the others.
    pub fn sort(&mut self) {
        self.is_sorted = true;
        let mut set = std::mem::take(&mut self.set);
        set.retain(|&at| self.members.is_live(at as usize));
        set.sort_unstable();
        set.dedup();
        if set.is_empty() {
            return;
        }
        let (mut others, sorted) = (self.offsets(), self.in_order(&set));
        if !others.is_empty() {
            let was_set = Marks::of(&set);
            others.retain(|&at| !was_set.has(at));
        }
        self.order.clear();
        self.order.reserve((others.len() + sorted.len()) * 4);
        let mut from = 0;
        for (number, &(score, at)) in sorted.iter().enumerate() {
            let apart = (others.len() - from) / (sorted.len() - number);
            let member = self.members.entry(at as usize).member;
            let before = |other: &u32| {
                let entry = self.members.entry(*other as usize);
                compare((entry.member, self::score(entry)), (member, score)).is_lt()
            };
            let next = from + count_before(&others[from..], apart, before);
            push_all(&mut self.order, &others[from..next]);
            push_all(&mut self.order, &[at]);
            from = next;
        }
        push_all(&mut self.order, &others[from..]);
    }

    /// Members and their scores, in order: it finds what is so already.
    fn in_order(&self, offsets: &[u32]) -> Vec<(f64, u32)> {
        let entry = |at: u32| self.members.entry(at as usize);
        let scored = offsets.iter().map(|&at| (score(entry(at)), at));
        let mut scored: Vec<(f64, u32)> = scored.collect();
        scored.sort_by(|one, other| {
            let scores = one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal);
            scores.then_with(|| entry(one.1).member.cmp(entry(other.1).member))
        });
        scored
    }

    fn offsets(&self) -> Vec<u32> {
        let count = self.order.len() / 4;
        (0..count).map(|rank| u32_at(&self.order, rank)).collect()
    }

    /// Drops dead entries, and tells the order where the others are then; it is done before a set
    /// is written in any case.
    pub fn tidy(&mut self) {
        if let Some(moved) = self.members.tidy() {
            moved.adjust(&mut self.order);
        }
    }
}

impl Collection for SortedSet {
    const KIND: Kind = super::SORTED_SET;

    fn empty(deadline: Deadline, _now: Instant) -> SortedSet {
        SortedSet {
            own: deadline,
            is_changed: false,
            is_sorted: true,
            set: Vec::new(),
            removed: 0,
            order: Vec::new(),
            members: Members::empty(),
        }
    }

    fn open(value: &[u8], deadline: Deadline, _now: Instant) -> SortedSet {
        SortedSet::read(value, deadline, spare::copy_of)
    }

    fn is_changed(&self) -> bool {
        self.is_changed
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn is_longer_than(&self, bytes: usize) -> bool {
        self.members.is_longer_than(bytes)
    }

    fn write(mut self, out: &mut Vec<u8>) -> Deadline {
        self.drop_removed();
        if !self.is_sorted {
            self.sort();
        }
        self.tidy();
        spare::reserve(out, 4 + self.order.len() + self.members.written_bytes_max());
        out.extend_from_slice(&((self.order.len() / 4) as u32).to_le_bytes());
        out.extend_from_slice(&self.order);
        self.members.write(out);
        self.members.end();
        spare::give(self.order);
        self.own
    }
}

/// A bit for each of some offsets.
struct Marks(Vec<u64>);

impl Marks {
    /// Those of these, which are in order.
    fn of(offsets: &[u32]) -> Marks {
        let end = offsets.last().map_or(0, |&last| last as usize + 1);
        let mut marks = vec![0; end.div_ceil(64)];
        offsets
            .iter()
            .for_each(|&at| marks[at as usize / 64] |= 1 << (at % 64));
        Marks(marks)
    }

    fn has(&self, at: u32) -> bool {
        let word = self.0.get(at as usize / 64);
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

/// How many of the first are `before`, which are about so many.
fn count_before(all: &[u32], about: usize, before: impl Fn(&u32) -> bool) -> usize {
    let (mut low, mut step) = (0, about.max(1));
    while let Some(one) = all.get(low + step) {
        if !before(one) {
            return low + all[low..low + step].partition_point(before);
        }
        (low, step) = (low + step + 1, step * 2);
    }
    low + all[low..].partition_point(before)
}

/// Appends offsets.
fn push_all(order: &mut Vec<u8>, offsets: &[u32]) {
    for at in offsets {
        order.extend_from_slice(&at.to_le_bytes());
    }
}

fn score(entry: Entry<'_>) -> f64 {
    f64::from_bits(u64_at(entry.payload, 0))
}

fn compare(one: (&[u8], f64), other: (&[u8], f64)) -> Ordering {
    let scores = one.1.partial_cmp(&other.1).unwrap_or(Ordering::Equal);
    scores.then_with(|| one.0.cmp(other.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(count: usize) -> SortedSet {
        let mut set = SortedSet::empty(Deadline::NEVER, Instant(0));
        set.set_many(count);
        for number in 0..count {
            set.set(
                format!("m{number}").as_bytes(),
                (number * 7_919 % 1_009) as f64,
            );
        }
        set.sort();
        set
    }

    fn check(set: &SortedSet) {
        let ranks = || 0..set.len();
        assert_eq!(set.order.len() / 4, set.len());
        let pairs = ranks().zip(ranks().skip(1));
        for (one, other) in pairs {
            assert!(compare(set.at(one), set.at(other)).is_lt(), "{one}");
        }
    }

    #[test]
    fn what_was_set_is_moved_in_among_the_others() {
        for (changed, came, went) in [(0, 64, 0), (70, 0, 0), (500, 900, 5), (2_000, 10, 300)] {
            let mut set = set_of(2_000);
            set.set_many(SORTED_ONCE_MIN);
            for number in 0..changed {
                // Some of them twice, and some as they were.
                for score in [-5.0, (number % 50) as f64] {
                    set.set(format!("m{number}").as_bytes(), score);
                }
            }
            for number in 0..came {
                set.set(format!("new{number}").as_bytes(), (number % 300) as f64);
            }
            for number in 0..went {
                assert!(set.remove(format!("m{number}").as_bytes()));
            }
            set.drop_removed();
            set.sort();
            assert_eq!(set.len(), 2_000 + came - went);
            check(&set);
        }
    }

    #[test]
    fn how_many_are_before_is_found_wherever_it_is() {
        let all: Vec<u32> = (0..1_000).collect();
        for about in [0, 1, 7, 400, 5_000] {
            for wanted in [0, 1, 6, 7, 8, 399, 999, 1_000] {
                let found = count_before(&all, about, |&at| (at as usize) < wanted);
                assert_eq!(found, wanted, "about {about}");
            }
        }
        assert_eq!(count_before(&[], 3, |_| true), 0);
    }
}
