//! Table: members in the order of a secret hash.
//!
//! A leaf has the members of a range of hashes, in their order. A slot has a tag: sixteen bits of
//! the hash, so a look-up compares hardly any other member. Each leaf has its own choice of these
//! bits. They are chosen when the leaf is split, so that the tags of its range have the order of
//! the hashes, compared as differences of sixteen bits with a sign; so a new member's position
//! needs no hash of another. Where a range has become too wide for that since (its neighbour was
//! removed, or it was built as a whole), an interpolation search hashes some members.
//!
//! The hash is keyed by a seed of the value's own, and is unknown to clients, except for its upper
//! bits, which the cursors of a scan reveal. Nodes are split by their bytes, so members that are
//! chosen to have neighbouring hashes cost a comparison with each member of a leaf at most.

use crate::digest::{Hasher, hash, least_shift, tag};
use crate::edit::{Collision, Edit, Stored};
use crate::entry::Entry;
use crate::page::{Kind, NONE, Page, Tree};
use crate::view::{Spot, View};
use cellar_engine::ValueBytes;

/// Steps of the interpolation search in a leaf before the rest is halved: hashes may lie unevenly
/// in a short range.
const INTERPOLATIONS_MAX: usize = 6;
/// Bits of a hash that a cursor does not have: one is below 2^53, as clients keep it.
const CURSOR_SHIFT: u32 = 11;

/// The position of a member, or the data to add it; valid until the value changes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its entry.
    pub found: Option<Spot>,
    /// The end of the leaf to which it is added if there is none.
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
        let (node, form) = (self.page(leaf.page), self.form(Tree::First));
        let tag = tag(hash, node.shift());
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

    /// Whether a member is where it was found, perhaps in an earlier state of the value.
    pub(crate) fn is_at(&self, place: Place, member: &[u8]) -> bool {
        place.found.is_some_and(|spot| {
            spot.page < self.pages() && {
                let node = self.page(spot.page);
                let is_leaf = node.kind() == Kind::Leaf && node.tree() == Tree::First;
                is_leaf
                    && spot.index < node.len()
                    && self.is_text(node.text(spot.index, self.form(Tree::First)), member)
            }
        })
    }

    fn leaf_of_hash(&self, hash: u64) -> Spot {
        self.leaf_by(Tree::First, |node, index| node.hash_before(index) <= hash)
    }

    /// Shows about `count` members whose hashes are not before `cursor`, and returns the next
    /// cursor; zero at the end. A member that exists from the first call to the last is shown once,
    /// whatever else is added or removed.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Entry<'a>)) -> u64 {
        if cursor > u64::MAX >> CURSOR_SHIFT {
            return 0;
        }
        let from = cursor << CURSOR_SHIFT;
        let first = self.leaf_of_hash(from);
        let (mut leaf, mut index) = (first.page, self.index_of_hash(first, from));
        let (mut left, mut last) = (count.max(1), None);
        let (form, hasher) = (self.form(Tree::First), Hasher::of(self.seed()));
        while leaf != NONE {
            let node = self.page(leaf);
            while index < node.len() {
                // Members with the same cursor are shown together.
                if left <= 1 {
                    let cursor = self.hash_at(node, index, &hasher) >> CURSOR_SHIFT;
                    if left == 0 && last != Some(cursor) {
                        return cursor;
                    }
                    last = Some(cursor);
                }
                show(node.entry(index, form));
                (left, index) = (left.saturating_sub(1), index + 1);
            }
            let next = self.neighbour(Spot::at(leaf, 0), true);
            (leaf, index) = (next.map_or(NONE, |next| next.page), 0);
        }
        0
    }

    /// The hash of a member in a leaf.
    #[inline]
    fn hash_at(&self, node: Page<'a>, index: usize, hasher: &Hasher) -> u64 {
        match node.text(index, self.form(Tree::First)) {
            text if text.page.is_none() => hasher.hash(text.inline),
            text => hasher.hash(&self.bytes_of(text)),
        }
    }

    /// The index of the first member in a leaf whose hash is not before this one, which belongs
    /// into that leaf. Cost: a pass over the slots; where tags do not tell, some hashes.
    pub(crate) fn index_of_hash(&self, leaf: Spot, hash: u64) -> usize {
        if leaf.page == NONE {
            return 0;
        }
        let (node, range) = (self.page(leaf.page), self.hash_range(leaf));
        if least_shift(range) > node.shift() {
            return self.interpolated(node, range, (0, node.len()), hash);
        }
        match node.count_tags(tag(hash, node.shift())) {
            (before, 0) => before,
            (before, same) => self.interpolated(node, range, (before, before + same), hash),
        }
    }

    /// The index of the first member whose hash is not before this one, among those of a leaf from
    /// one index to another; the leaf has hashes of this range. Cost: some hashes.
    fn interpolated(
        &self,
        node: Page<'a>,
        (mut least, mut most): (u64, u64),
        (mut low, mut high): (usize, usize),
        hash: u64,
    ) -> usize {
        let (hasher, mut steps) = (Hasher::of(self.seed()), 0);
        while low < high {
            let between = high - low;
            let guess = if steps < INTERPOLATIONS_MAX {
                // The upper halves are precise enough, and their product fits.
                let (part, whole) = (hash.saturating_sub(least) >> 32, (most - least) >> 32);
                (part * between as u64 / (whole + 1)) as usize
            } else {
                between / 2
            };
            let at = low + guess.min(between - 1);
            let found = self.hash_at(node, at, &hasher);
            if found < hash {
                (low, least) = (at + 1, found);
            } else {
                (high, most) = (at, found);
            }
            steps += 1;
        }
        low
    }

    /// The bounds of the hashes of a leaf's members: the least, and one that is above all, or the
    /// last of all.
    pub(crate) fn hash_range(&self, leaf: Spot) -> (u64, u64) {
        let (mut spot, mut least, mut most) = (leaf, None, None);
        while least.is_none() || most.is_none() {
            let up = self.page(spot.page).up();
            if up == NONE {
                break;
            }
            let (node, index) = (self.page(up), self.index_in(up, spot));
            let behind = index + 1;
            least = least.or_else(|| (index > 0).then(|| node.hash_before(index)));
            most = most.or_else(|| (behind < node.len()).then(|| node.hash_before(behind)));
            spot = Spot::at(up, 0);
        }
        (least.unwrap_or(0), most.unwrap_or(u64::MAX))
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
            hash: place.hash,
        };
        match place.found {
            Some(spot) => self.replace(Tree::First, spot, &stored),
            None => {
                let index = self.view().index_of_hash(place.end, place.hash);
                let spot = Spot { index, ..place.end };
                self.insert(Tree::First, spot, &stored)
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Form;

    const FORMS: [Form; 2] = [Form::MEMBERS, Form::KEYED];

    fn leaves(value: &[u8]) -> Vec<Spot> {
        let view = View::of(value, FORMS);
        let first = (!view.is_empty(Tree::First)).then(|| view.first(Tree::First));
        let next = |spot: &Spot| view.neighbour(*spot, true);
        std::iter::successors(first, next).collect()
    }

    /// Leaves whose tags do not tell the order, and all leaves.
    fn without_order(value: &[u8]) -> (usize, usize) {
        let view = View::of(value, FORMS);
        let leaves = leaves(value);
        let has_none =
            |leaf: &&Spot| least_shift(view.hash_range(**leaf)) > view.page(leaf.page).shift();
        (leaves.iter().filter(has_none).count(), leaves.len())
    }

    #[test]
    fn tags_of_a_table_that_grows_tell_the_order_and_differ() {
        let mut value = Vec::new();
        Edit::create(&mut value, FORMS, 7);
        for number in 0..30_000 {
            let member = format!("member {number}");
            let place = View::of(&value, FORMS).find(member.as_bytes());
            let mut edit = Edit::of(&mut value, FORMS);
            edit.put(&place, [member.as_bytes(), &[]], None).unwrap();
        }
        let view = View::of(&value, FORMS);
        assert_eq!(view.check(), Ok(()));
        assert_eq!(without_order(&value).0, 0);
        let leaves = leaves(&value);
        assert!(leaves.len() > 100, "{} leaves", leaves.len());
        let same = leaves.iter().map(|leaf| {
            let page = view.page(leaf.page);
            let tags = (0..page.len()).map(|index| page.count_tags(page.tag(index)).1);
            tags.map(|same| same - 1).sum::<usize>()
        });
        // A look-up compares a member of another hash once in ten times at most.
        assert!(same.sum::<usize>() < 3_000);
    }

    #[test]
    fn members_come_to_a_table_that_was_built_without_such_tags() {
        let hasher = Hasher::of(7);
        let member = |number: usize| format!("member {number}").into_bytes();
        let mut built: Vec<usize> = (0..10_000).collect();
        built.sort_by_key(|number| hasher.hash(&member(*number)));
        let mut value = Vec::new();
        Edit::create(&mut value, FORMS, 7);
        let mut end = Spot::at(NONE, 0);
        for number in built {
            let member = member(number);
            let hash = hasher.hash(&member);
            end = Edit::of(&mut value, FORMS).append_hashed(end, &member, None, hash);
        }
        Edit::of(&mut value, FORMS).close(end);
        let (without, all) = without_order(&value);
        assert_eq!(without, all);
        for number in 10_000..14_000 {
            let member = member(number);
            let place = View::of(&value, FORMS).find(&member);
            assert_eq!(place.found, None);
            let mut edit = Edit::of(&mut value, FORMS);
            edit.put(&place, [&member, &[]], None).unwrap();
        }
        let view = View::of(&value, FORMS);
        assert_eq!((view.check(), view.len(Tree::First)), (Ok(()), 14_000));
        // Leaves that were split have got them.
        assert!(without_order(&value).0 < without);
    }
}
