//! Order: in which a scan shows members, whatever the table is.
//!
//! Members stand in the order of a hash that is the same for as long as the process lives, and then
//! of their entries. A cursor is such a hash: so it is good for any later state of the collection,
//! and tells nothing about places in the table, whose hash is another.
//!
//! The order is settled once after all changes of a command: what came or went is looked up and
//! moved in, or, if it is a good part of all, everything is sorted anew.

use std::ops::Range;
use std::sync::LazyLock;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::{Entry, Members, Shape, offset, secrets};
use crate::collection::bytes::{retain_u32, u32_at};
use crate::collection::spare;

/// From one change to so many members on it is cheaper to look at all of them than to look up what
/// went.
const MERGED_SHARE: usize = 32;
/// From one that came to so many members on it is cheaper to sort all.
const SORTED_SHARE: usize = 4;

impl<S: Shape, B: AsRef<[u8]>> Members<S, B> {
    /// Shows `count` entries from `cursor` on, more if their hashes are equal, and says where to go
    /// on; zero at the end. Without a table it shows all.
    ///
    /// A member that is there from the first call to the last is shown at least once, whatever
    /// else comes and goes: a cursor is a hash, and members are shown in order of their hashes.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Entry<'_>)) -> u64 {
        if self.slots() == 0 {
            for entry in self.iter() {
                if u64::from(hash(entry.member)) >= cursor {
                    show(entry);
                }
            }
            return 0;
        }
        let order = self.order.as_ref();
        let from = self.rank(0, |_, hash| u64::from(hash) < cursor);
        let (mut left, mut last) = (count.max(1), None);
        for rank in from..order.len() / 4 {
            let entry = self.entry(u32_at(order, rank) as usize);
            let hash = hash(entry.member);
            if left == 0 && last != Some(hash) {
                return u64::from(hash);
            }
            show(entry);
            (left, last) = (left.saturating_sub(1), Some(hash));
        }
        0
    }

    /// The first rank from `from` on whose offset and hash are not `before`.
    fn rank(&self, from: usize, before: impl Fn(u32, u32) -> bool) -> usize {
        self.rank_within(from..self.order.as_ref().len() / 4, before)
    }

    /// The first of these ranks whose offset and hash are not `before`, or the end.
    fn rank_within(&self, ranks: Range<usize>, before: impl Fn(u32, u32) -> bool) -> usize {
        let order = self.order.as_ref();
        let (mut low, mut high) = (ranks.start, ranks.end);
        while low < high {
            let middle = usize::midpoint(low, high);
            let at = u32_at(order, middle);
            if before(at, hash(self.entry(at as usize).member)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl<S: Shape> Members<S> {
    /// Brings the order up to what the members are.
    pub(super) fn settle_order(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() && !self.order.is_empty() {
            return;
        }
        if changes.len() * MERGED_SHARE <= self.live && !self.order.is_empty() {
            let merged = self.merged(&changes);
            spare::give(std::mem::replace(&mut self.order, merged));
            return;
        }
        if self.order.is_empty() {
            return self.sort_order();
        }
        let mut came = self.keys_of_live(&changes);
        if came.len() * SORTED_SHARE > self.live {
            return self.sort_order();
        }
        came.sort_unstable();
        self.drop_dead_from_order();
        self.merge(&came);
    }

    /// The keys of those among the changed entries that are members.
    fn keys_of_live(&self, changes: &[u32]) -> Vec<u64> {
        let live = changes.iter().filter(|&&at| self.is_live(at as usize));
        live.map(|&at| key(&self.entry(at as usize))).collect()
    }

    /// Puts keys in their order into an order that has none of them.
    fn merge(&mut self, keys: &[u64]) {
        if keys.is_empty() {
            return;
        }
        let count = self.order.len() / 4;
        let mut merged = spare::with_capacity(self.order.len() + keys.len() * 4);
        let mut from = 0;
        for (number, &key) in keys.iter().enumerate() {
            let apart = (count - from) / (keys.len() - number);
            let rank = self.rank_near(from, apart, |at, hash| key_of(hash, at) < key);
            merged.extend_from_slice(&self.order[from * 4..rank * 4]);
            push(&mut merged, key);
            from = rank;
        }
        merged.extend_from_slice(&self.order[from * 4..]);
        spare::give(std::mem::replace(&mut self.order, merged));
    }

    /// As [`Members::rank`] of one that is about so far from `from`.
    fn rank_near(&self, from: usize, apart: usize, before: impl Fn(u32, u32) -> bool) -> usize {
        let count = self.order.len() / 4;
        let (mut low, mut step) = (from, apart.max(1));
        while low + step < count {
            let at = u32_at(&self.order, low + step);
            if !before(at, hash(self.entry(at as usize).member)) {
                return self.rank_within(low..low + step, before);
            }
            (low, step) = (low + step + 1, step * 2);
        }
        self.rank_within(low..count, before)
    }

    /// Sorts all anew: hashes are spread evenly, so each stands about where its upper bits say.
    fn sort_order(&mut self) {
        let keys: Vec<u64> = self.iter().map(|entry| key(&entry)).collect();
        self.order.clear();
        spread(&keys, |key| push(&mut self.order, key));
    }

    /// Takes what is dead out of the order, which is cheaper than to sort what is left.
    pub(super) fn drop_dead_from_order(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        retain_u32(&mut order, |at| self.is_live(at as usize));
        self.order = order;
    }

    /// The order with what came and without what went.
    fn merged(&self, changes: &[u32]) -> Vec<u8> {
        let of = |&at: &u32| {
            let entry = self.entry(at as usize);
            (key(&entry), entry.is_dead)
        };
        let mut changes: Vec<(u64, bool)> = changes.iter().map(of).collect();
        changes.sort_unstable();
        // What came and went has changed twice.
        changes.dedup();
        let mut merged = spare::with_capacity(self.order.len() + changes.len() * 4);
        let mut from = 0;
        for (key, is_dead) in changes {
            let rank = self.rank(from, |at, hash| key_of(hash, at) < key);
            merged.extend_from_slice(&self.order[from * 4..rank * 4]);
            from = rank;
            if !is_dead {
                push(&mut merged, key);
            } else if rank < self.order.len() / 4 && u32_at(&self.order, rank) == key as u32 {
                from += 1;
            }
        }
        merged.extend_from_slice(&self.order[from * 4..]);
        merged
    }
}

/// Shows keys in their order, whose upper bits are spread evenly: one pass puts each among the few
/// with the same bits, which are sorted by themselves.
fn spread(keys: &[u64], mut show: impl FnMut(u64)) {
    let power = keys.len().next_power_of_two().ilog2().max(1);
    let part = |key: u64| (key >> (u64::BITS - power)) as usize;
    let mut ends = vec![0_u32; (1 << power) + 1];
    for &key in keys {
        ends[part(key) + 1] += 1;
    }
    for number in 1..ends.len() {
        ends[number] += ends[number - 1];
    }
    let mut sorted = vec![0; keys.len()];
    for &key in keys {
        let end = &mut ends[part(key)];
        sorted[*end as usize] = key;
        *end += 1;
    }
    // Each end is now where the next part begins, and the part before it is between the two.
    let mut from = 0;
    for &end in &ends[..1 << power] {
        let end = end as usize;
        sorted[from..end].sort_unstable();
        from = end;
    }
    sorted.into_iter().for_each(&mut show);
}

/// What the order is sorted by: the hash, then the offset.
fn key_of(hash: u32, at: u32) -> u64 {
    u64::from(hash) << u32::BITS | u64::from(at)
}

fn key(entry: &Entry<'_>) -> u64 {
    key_of(hash(entry.member), offset(entry.at))
}

/// Appends the offset of a key.
fn push(order: &mut Vec<u8>, key: u64) {
    order.extend_from_slice(&(key as u32).to_le_bytes());
}

/// The hash that cursors are; another in each process.
fn hash(member: &[u8]) -> u32 {
    static SECRETS: LazyLock<RapidSecrets> = LazyLock::new(secrets);
    (rapidhash_v3_seeded(member, &SECRETS) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::{Members, hash, key};
    use crate::collection::bytes::u32_at;
    use crate::collection::set::Bare;

    fn members_of(count: usize) -> Members<Bare> {
        let mut members = Members::empty();
        for number in 0..count {
            members.insert(format!("m{number}").as_bytes(), &[]);
        }
        members.tidy();
        members
    }

    /// Checks that the order has each live member once, by its hash.
    fn check(members: &Members<Bare>) {
        let ranks = 0..members.order.len() / 4;
        let entries = ranks.map(|rank| members.entry(u32_at(&members.order, rank) as usize));
        let keys: Vec<u64> = entries.map(|entry| key(&entry)).collect();
        let mut expected: Vec<u64> = members.iter().map(|entry| key(&entry)).collect();
        expected.sort_unstable();
        assert_eq!(keys, expected);
    }

    #[test]
    fn the_order_stays_when_many_leave_at_once() {
        for left in [1_900, 1_700, 1_200, 700, 129] {
            let mut members = members_of(2_000);
            let all: Vec<usize> = members.iter().map(|entry| entry.at).collect();
            members.remove_all(all[left..].iter().copied());
            members.tidy();
            assert_eq!(members.len(), left);
            check(&members);
        }
    }

    #[test]
    fn the_order_has_what_came_and_not_what_went_however_much_that_was() {
        for (came, went) in [
            (5, 5),
            (5, 900),
            (300, 0),
            (450, 600),
            (3_000, 1),
            (100, 100),
        ] {
            let mut members = members_of(2_000);
            let all: Vec<usize> = members.iter().map(|entry| entry.at).collect();
            all[..went].iter().for_each(|&at| members.remove(at));
            for number in 0..came {
                members.insert(format!("new{number}").as_bytes(), &[]);
            }
            // One that comes and goes in between.
            let passing = members.insert(b"passing", &[]);
            members.remove(passing);
            members.tidy();
            assert_eq!(members.len(), 2_000 - went + came);
            check(&members);
        }
    }

    #[test]
    fn keys_are_shown_in_their_order_wherever_they_are() {
        let keys = |spread: u64| (0..1_000_u64).map(move |n| n.wrapping_mul(spread) | (n % 7));
        for factor in [0, 1, 0x9e37_79b9_7f4a_7c15] {
            let keys: Vec<u64> = keys(factor).collect();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            let mut shown = Vec::new();
            super::spread(&keys, |key| shown.push(key));
            assert_eq!(shown, sorted);
        }
        super::spread(&[], |_| panic!("there is none"));
    }

    #[test]
    fn the_order_knows_what_came_behind_those_that_left() {
        let mut members = members_of(2_000);
        let all: Vec<usize> = members.iter().map(|entry| entry.at).collect();
        members.remove(all[7]);
        members.remove_all(all[1_000..].iter().copied());
        members.remove(all[8]);
        members.insert(b"new", &[]);
        members.tidy();
        assert_eq!(members.len(), 999);
        assert!(members.find(b"new").is_some());
        check(&members);
    }

    #[test]
    fn a_scan_goes_on_behind_its_cursor_when_entries_have_moved() {
        let mut members = members_of(2_000);
        let mut seen = Vec::new();
        let cursor = members.scan(0, 500, |entry| seen.push(entry.member.to_vec()));
        assert!(seen.iter().all(|member| u64::from(hash(member)) < cursor));
        let all: Vec<usize> = members.iter().map(|entry| entry.at).collect();
        members.remove_all(all[..1_000].iter().copied());
        members.tidy();
        members.scan(cursor, usize::MAX, |entry| seen.push(entry.member.to_vec()));
        assert!(
            members
                .iter()
                .all(|entry| seen.iter().any(|member| member == entry.member))
        );
    }
}
