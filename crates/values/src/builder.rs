//! Builder: collections that are made as a whole, of members that come in order.
//!
//! To add a member to a tree behind all others takes no search and splits no node.
//!
//! Tests: tests/builder.rs.

use cellar_engine::{Deadline, Instant};

use crate::collection::{Collection, Members, Rules, is_packed};
use crate::digest::Hasher;
use crate::edit::Edit;
use crate::ordered::score_key;
use crate::page::NONE;
use crate::set::{Bare, Set};
use crate::sorted_set::{Scored, SortedSet};
use crate::view::Spot;

/// Bytes of a packed member beside its own and its score, about.
const PACKED_ENTRY_BYTES: usize = 2;
const SCORE_BYTES: usize = 8;

/// Pages of their own, without members yet, if these are too many or too long to be packed.
fn pages<S: Rules>(
    hasher: Hasher,
    members: usize,
    bytes: usize,
    payload_bytes: usize,
) -> Option<Members<'static, S>> {
    let bytes = bytes + members * (PACKED_ENTRY_BYTES + payload_bytes);
    if is_packed(members, bytes) {
        return None;
    }
    let mut value = Vec::new();
    Edit::create(&mut value, S::FORMS, hasher.seed());
    Some(Members::Built(value))
}

/// Makes a set of members that come in the order of their hashes, each of them once.
#[derive(Debug)]
pub struct SetBuilder {
    members: Members<'static, Bare>,
    /// Where the next one is added.
    end: Spot,
}

impl SetBuilder {
    /// A set that will have so many members of so many bytes together, in the order of this hash.
    #[must_use]
    pub fn new(hasher: Hasher, members: usize, bytes: usize) -> SetBuilder {
        let pages = pages(hasher, members, bytes, 0);
        SetBuilder {
            members: pages.unwrap_or_else(Members::empty),
            end: Spot::at(NONE, 0),
        }
    }

    /// Whether its members are few, and may come in any order, which they keep.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        matches!(self.members, Members::Packed(_))
    }

    /// Adds a member that is not there yet, whose hash is not before that of any other. Cost: O(1)
    /// amortised.
    pub fn push(&mut self, member: &[u8], hash: u64) {
        let value = match &mut self.members {
            Members::Built(value) => value,
            Members::Packed(packed) => return packed.push(member, &[&[]; 3]),
            Members::Paged(..) => return,
        };
        self.end = Edit::of(value, Bare::FORMS).append_hashed(self.end, member, None, hash);
    }

    /// The set.
    #[must_use]
    pub fn finish(mut self) -> Set<'static> {
        if let Members::Built(value) = &mut self.members {
            Edit::of(value, Bare::FORMS).close(self.end);
        }
        Set::of_members(self.members)
    }
}

/// Makes a sorted set of members that come in order, each of them once.
#[derive(Debug)]
pub struct SortedSetBuilder {
    set: SortedSet<'static>,
    /// Whether the first tree has its members before the second gets them.
    is_hashed: bool,
    /// Where the next member of either tree is added.
    ends: [Spot; 2],
}

impl Default for SortedSetBuilder {
    /// A set whose members come by score alone.
    fn default() -> SortedSetBuilder {
        SortedSetBuilder {
            set: SortedSet::empty(Deadline::NEVER, Instant(0)),
            is_hashed: false,
            ends: [Spot::at(NONE, 0); 2],
        }
    }
}

impl From<SortedSet<'static>> for SortedSetBuilder {
    fn from(set: SortedSet<'static>) -> SortedSetBuilder {
        SortedSetBuilder {
            set,
            ..SortedSetBuilder::default()
        }
    }
}

impl SortedSetBuilder {
    /// A set whose members are first added in the order of this hash
    /// ([`SortedSetBuilder::push_hashed`]): so many, of so many bytes together.
    #[must_use]
    pub fn hashed(hasher: Hasher, members: usize, bytes: usize) -> SortedSetBuilder {
        let mut builder = SortedSetBuilder::default();
        if let Some(pages) = pages(hasher, members, bytes, SCORE_BYTES) {
            builder.set.members = pages;
            builder.is_hashed = true;
        }
        builder
    }

    /// Adds a member whose hash is not before that of any other; before any member is pushed by
    /// score. Cost: O(1) amortised.
    pub fn push_hashed(&mut self, member: &[u8], score: f64, hash: u64) {
        if let (true, Members::Built(value)) = (self.is_hashed, &mut self.set.members) {
            let mut edit = Edit::of(value, Scored::FORMS);
            let tail = Some(score.to_bits());
            self.ends[0] = edit.append_hashed(self.ends[0], member, tail, hash);
        }
    }

    /// Adds a member that belongs behind all others by its score, and then by its bytes. Cost: O(1)
    /// amortised if it was pushed by its hash, else O(log n).
    pub fn push(&mut self, member: &[u8], score: f64) {
        match &mut self.set.members {
            Members::Built(value) if self.is_hashed => {
                let mut edit = Edit::of(value, Scored::FORMS);
                self.ends[1] = edit.append_keyed(self.ends[1], score_key(score), member);
            }
            _ => self.set.push(member, score),
        }
    }

    /// How many members it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The set.
    #[must_use]
    pub fn finish(mut self) -> SortedSet<'static> {
        if let (true, Members::Built(value)) = (self.is_hashed, &mut self.set.members) {
            let mut edit = Edit::of(value, Scored::FORMS);
            self.ends.into_iter().for_each(|end| edit.close(end));
        }
        self.set
    }
}
