//! Table: members in the order of a secret hash.
//!
//! A leaf has the members of a range of hashes in any order. A slot has sixteen bits of the hash,
//! so a look-up compares hardly any other member.
//!
//! The hash is keyed by a seed of the value's own, and is unknown to clients but for what a scan's
//! cursors tell of it: its upper bits. Nodes are cut by their bytes, so members that are chosen to
//! have neighbouring hashes cost no more than others.

use crate::digest::{Hasher, hash};
use crate::edit::{Collision, Edit, Stored};
use crate::entry::Entry;
use crate::page::NONE;
use crate::view::{Spot, Tree, View};
use cellar_engine::ValueBytes;

/// Bits of a hash that a cursor does not have: one is below 2^53, as clients keep it.
const CURSOR_SHIFT: u32 = 11;

/// The part of a hash that a slot has.
fn tag(hash: u64) -> u16 {
    hash as u16
}

/// Where a member is, or what is needed to add it; good until the value changes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its entry.
    pub found: Option<Spot>,
    /// Where it is added if there is none.
    pub(crate) end: Spot,
    pub(crate) hash: u64,
}

impl Place {
    /// The spot of the entry, or the one where it will be.
    #[must_use]
    pub fn spot(&self) -> Spot {
        self.found.unwrap_or(self.end)
    }
}

impl<'a> View<'a> {
    /// Looks a member up in the first tree. Cost: O(log n), and one comparison.
    #[must_use]
    pub fn find(&self, member: &[u8]) -> Place {
        self.find_hashed(member, hash(self.seed(), member))
    }

    /// The same for a member whose hash is known.
    pub(crate) fn find_hashed(&self, member: &[u8], hash: u64) -> Place {
        let leaf = self.leaf_of_hash(hash);
        let mut place = Place {
            found: None,
            end: leaf,
            hash,
        };
        if leaf.page == NONE {
            return place;
        }
        let (node, form, tag) = (self.page(leaf.page), self.form(Tree::First), tag(hash));
        let mut next = node.next_with_tag(0, tag);
        while let Some(index) = next {
            if self.is_text(node.text(index, form), member) {
                place.found = Some(Spot { index, ..leaf });
                break;
            }
            next = node.next_with_tag(index + 1, tag);
        }
        place.end.index = node.len();
        place
    }

    fn leaf_of_hash(&self, hash: u64) -> Spot {
        self.leaf_by(Tree::First, |node, index| node.hash_before(index) <= hash)
    }

    /// Shows about `count` members whose hashes are not before `cursor`, and says where to go on;
    /// zero at the end. A member that is there from the first call to the last is shown once,
    /// whatever else comes and goes.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Entry<'a>)) -> u64 {
        if cursor > u64::MAX >> CURSOR_SHIFT {
            return 0;
        }
        let from = cursor << CURSOR_SHIFT;
        let mut leaf = self.leaf_of_hash(from).page;
        let (mut left, mut last) = (count.max(1), None);
        let hasher = Hasher::of(self.seed());
        while leaf != NONE {
            let (node, form) = (self.page(leaf), self.form(Tree::First));
            let hash_of = |index| match node.text(index, form) {
                text if text.page.is_none() => hasher.hash(text.inline),
                text => hasher.hash(&self.bytes_of(text)),
            };
            let hashed = (0..node.len()).map(|index| (hash_of(index), index));
            let mut ahead: Vec<_> = hashed.filter(|&(hash, _)| hash >= from).collect();
            if (1..ahead.len()).contains(&left) {
                // Only the members that are shown and the next one have to be sorted. Members with
                // the same cursor are shown together.
                let (shown, next, _) = ahead.select_nth_unstable_by_key(left, |&(hash, _)| hash);
                let next = next.0 >> CURSOR_SHIFT;
                if shown.iter().all(|&(hash, _)| hash >> CURSOR_SHIFT < next) {
                    ahead.truncate(left + 1);
                }
            }
            ahead.sort_unstable_by_key(|&(hash, _)| hash);
            for (hash, index) in ahead {
                let cursor = hash >> CURSOR_SHIFT;
                if left == 0 && last != Some(cursor) {
                    return cursor;
                }
                show(node.entry(index, form));
                (left, last) = (left.saturating_sub(1), Some(cursor));
            }
            leaf = self.neighbour(leaf, true).unwrap_or(NONE);
        }
        0
    }
}

impl<V: ValueBytes + ?Sized> Edit<'_, V> {
    /// Adds a member to the first tree, or changes its entry.
    ///
    /// # Errors
    /// [`Collision`], which no sender can bring about.
    pub fn put(
        &mut self,
        place: &Place,
        texts: [&[u8]; 2],
        tail: Option<u64>,
    ) -> Result<(), Collision> {
        let stored = Stored {
            lead: &[],
            texts,
            tail,
            tag: tag(place.hash),
        };
        match place.found {
            Some(spot) => self.replace(Tree::First, spot, &stored),
            None => self.insert(Tree::First, place.end, &stored),
        }
    }

    /// Adds a member to the first tree whose hash is not before that of any other, which end at a
    /// spot; where they end then.
    pub(crate) fn append_hashed(
        &mut self,
        end: Spot,
        member: &[u8],
        tail: Option<u64>,
        hash: u64,
    ) -> Spot {
        let stored = Stored {
            lead: &[],
            texts: [member, &[]],
            tail,
            tag: tag(hash),
        };
        self.append(Tree::First, end, &stored, hash)
    }

    /// As [`Edit::put`]. Two members whose hashes of 64 bits are the same, and which do not fit
    /// into one page, are not to be expected: the second one is left out.
    pub(crate) fn put_sure(&mut self, place: &Place, texts: [&[u8]; 2], tail: Option<u64>) {
        let _ = self.put(place, texts, tail);
    }

    /// Removes the entry at a spot of a tree.
    pub fn take(&mut self, tree: Tree, spot: Spot) {
        self.remove(tree, spot);
    }
}
