//! Gathered: the distinct members that a command finds in several collections.
//!
//! Members are partitioned by their hash, lower hashes first, so that no table takes long to grow
//! and no partition long to sort. The hash is that of the set or sorted set that they may become.

use std::cmp::Ordering;

use cellar_values::Hasher;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::resp::call::steps::Progress;

/// Members of a part, about, and most parts.
const PART_MEMBERS: usize = 4 << 10;
const PARTS_MAX: usize = 1 << 10;

/// Members, each with a value.
pub(super) struct Gathered<T> {
    hasher: Hasher,
    parts: Vec<Part<T>>,
    /// How far a hash is shifted to the right to give the number of its part.
    part_shift: u32,
    bytes: usize,
}

struct Part<T> {
    /// Numbers of members, by their hashes.
    table: HashTable<u32>,
    members: Vec<Member<T>>,
    bytes: Vec<u8>,
}

struct Member<T> {
    hash: u64,
    /// Where it lies in the bytes of its part.
    start: u32,
    len: u32,
    value: T,
}

/// A place among the members: a part, and a member of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    part: usize,
    at: usize,
}

impl<T> Part<T> {
    fn bytes_of(&self, member: &Member<T>) -> &[u8] {
        &self.bytes[member.start as usize..][..member.len as usize]
    }
}

impl<T> Gathered<T> {
    /// An empty table for collections that have `most` members together.
    pub(super) fn new(most: usize) -> Gathered<T> {
        let parts = (most / PART_MEMBERS).next_power_of_two().min(PARTS_MAX);
        let part = || Part {
            table: HashTable::new(),
            members: Vec::new(),
            bytes: Vec::new(),
        };
        Gathered {
            hasher: Hasher::of(fastrand::u64(..)),
            parts: (0..parts).map(|_| part()).collect(),
            part_shift: u64::BITS - parts.trailing_zeros(),
            bytes: 0,
        }
    }

    /// How many members there are.
    pub(super) fn count(&self) -> usize {
        self.parts.iter().map(|part| part.members.len()).sum()
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of a member, which gets this one if it is new.
    pub(super) fn add(&mut self, member: &[u8], value: T) -> Added<'_, T> {
        let hash = self.hasher.hash(member);
        let part = hash.checked_shr(self.part_shift).unwrap_or(0) as usize;
        let Part {
            table,
            members,
            bytes,
        } = &mut self.parts[part];
        let is_it = |&number: &u32| {
            let other = &members[number as usize];
            let start = other.start as usize;
            other.hash == hash && bytes[start..start + other.len as usize] == *member
        };
        // The upper bits are the same in all of a part, and a table compares these first.
        let mixed = |hash: u64| hash.rotate_left(u64::BITS / 2);
        let hash_of = |&number: &u32| mixed(members[number as usize].hash);
        match table.entry(mixed(hash), is_it, hash_of) {
            Entry::Occupied(found) => Added::Known(&mut members[*found.get() as usize].value),
            Entry::Vacant(vacant) => {
                vacant.insert(members.len() as u32);
                members.push(Member {
                    hash,
                    start: bytes.len() as u32,
                    len: member.len() as u32,
                    value,
                });
                bytes.extend_from_slice(member);
                self.bytes += member.len();
                Added::New
            }
        }
    }

    /// The members from a place on, each with the place behind it.
    pub(super) fn iter_from(&self, from: Place) -> impl Iterator<Item = (&[u8], Place)> {
        let members = self.iter_valued(from);
        members.map(|(member, _, behind)| (member, behind))
    }

    /// The members from a place on, each with its value and the place behind it.
    pub(super) fn iter_valued(&self, from: Place) -> impl Iterator<Item = (&[u8], &T, Place)> {
        let parts = self.parts.iter().enumerate().skip(from.part);
        parts.flat_map(move |(number, part)| {
            let skipped = if number == from.part { from.at } else { 0 };
            let members = part.members.iter().enumerate().skip(skipped);
            members.map(move |(at, member)| {
                let behind = Place {
                    part: number,
                    at: at + 1,
                };
                (part.bytes_of(member), &member.value, behind)
            })
        })
    }

    /// The hash by which members are in order.
    pub(super) fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// Shows members in the order of their hashes, from a place on, and how far it came: so many,
    /// or all that are left. No member is added any more.
    pub(super) fn show_by_hash(
        &mut self,
        next: &mut Place,
        mut items: usize,
        mut show: impl FnMut(&[u8], &T, u64),
    ) -> Progress {
        while let Some(part) = self.parts.get_mut(next.part) {
            if next.at == 0 {
                part.members.sort_unstable_by_key(|member| member.hash);
            }
            let part = &*part;
            for member in &part.members[next.at..] {
                if items == 0 {
                    return Progress::More;
                }
                show(part.bytes_of(member), &member.value, member.hash);
                next.at += 1;
                items -= 1;
            }
            *next = Place {
                part: next.part + 1,
                at: 0,
            };
        }
        Progress::Last
    }

    /// How many members a part has; none if there is no such part.
    pub(super) fn part_len(&self, part: usize) -> Option<usize> {
        self.parts.get(part).map(|part| part.members.len())
    }

    /// Puts the members of a part in another order. No member is added any more.
    pub(super) fn sort_part(
        &mut self,
        part: usize,
        compare: impl Fn((&[u8], &T), (&[u8], &T)) -> Ordering,
    ) {
        let Part { members, bytes, .. } = &mut self.parts[part];
        let shown = |member: &'_ Member<T>| {
            let start = member.start as usize;
            start..start + member.len as usize
        };
        members.sort_unstable_by(|one, other| {
            let (first, second) = (&bytes[shown(one)], &bytes[shown(other)]);
            compare((first, &one.value), (second, &other.value))
        });
    }

    /// A member by its part and its place there.
    pub(super) fn at(&self, part: usize, at: usize) -> (&[u8], &T) {
        let part = &self.parts[part];
        let member = &part.members[at];
        (part.bytes_of(member), &member.value)
    }
}

/// What adding a member has found.
pub(super) enum Added<'a, T> {
    New,
    Known(&'a mut T),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn gathered(most: usize, members: usize) -> Gathered<usize> {
        let mut gathered = Gathered::new(most);
        for number in 0..members {
            let member = format!("member:{number}");
            assert!(matches!(gathered.add(member.as_bytes(), 1), Added::New));
        }
        for number in 0..members {
            let member = format!("member:{number}");
            match gathered.add(member.as_bytes(), 1) {
                Added::Known(count) => *count += 1,
                Added::New => panic!("{member} was there"),
            }
        }
        gathered
    }

    #[test]
    fn each_member_is_there_once_and_in_the_set() {
        for (most, members) in [
            (0, 0),
            (3, 3),
            (100, 129),
            (9_000, 20_000),
            (1 << 20, 70_000),
        ] {
            let mut gathered = gathered(most, members);
            assert_eq!(gathered.count(), members);
            let shown: BTreeSet<Vec<u8>> = (gathered.iter_from(Place::default()))
                .map(|(member, _)| member.to_vec())
                .collect();
            assert_eq!(shown.len(), members);
            let (mut at, mut pieces) = (Place::default(), 0);
            while let Some((_, next)) = gathered.iter_from(at).next() {
                (at, pieces) = (next, pieces + 1);
            }
            assert_eq!(pieces, members);
            let (mut next, mut last, mut hashed) = (Place::default(), 0, BTreeSet::new());
            let mut show = |member: &[u8], count: &usize, hash| {
                assert!(hash >= last && *count == 2);
                last = hash;
                hashed.insert(member.to_vec());
            };
            while gathered.show_by_hash(&mut next, 1_000, &mut show) == Progress::More {}
            assert!(hashed == shown, "{members}");
        }
    }
}
