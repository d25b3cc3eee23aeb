//! Ordered: members by a key of eight bytes and then by their own bytes, in the second tree.

use std::cmp::Ordering;

use crate::edit::{Edit, Stored};
use crate::entry::Entry;
use crate::page::{Child, NONE};
use crate::view::{Spot, Tree, View};
use cellar_engine::ValueBytes;

/// The key by which members are in the order of their scores, none of which is NaN.
#[must_use]
pub fn score_key(score: f64) -> [u8; 8] {
    // Zero has two forms, which are equal.
    let bits = (score + 0.0).to_bits();
    let flipped = if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    };
    flipped.to_be_bytes()
}

/// The score of a key.
pub(crate) fn key_score(key: &[u8]) -> f64 {
    let flipped = u64::from_be_bytes(key.try_into().expect("a key has eight bytes"));
    let bits = if flipped >> 63 == 1 {
        flipped & !(1 << 63)
    } else {
        !flipped
    };
    f64::from_bits(bits)
}

impl<'a> View<'a> {
    /// Where a member with a key is, or would be, in the second tree. Cost: O(log n).
    #[must_use]
    pub fn spot_of(&self, key: [u8; 8], member: &[u8]) -> Spot {
        let leaf = self.leaf_by(Tree::Second, |child| match child.separator {
            Some(separator) => {
                let (lead, rest) = separator.split_at(separator.len().min(key.len()));
                lead.cmp(&key[..]).then_with(|| rest.cmp(member)).is_le()
            }
            None => self.compare(self.first_below(child), key, member).is_le(),
        });
        self.spot_in(leaf, |entry| self.compare(entry, key, member).is_lt())
    }

    /// The first spot of the second tree whose entry is not `before`; those that are stand before
    /// all others. Cost: O(log n), each step down to a leaf.
    #[must_use]
    pub fn partition_point(&self, before: impl Fn(Entry<'a>) -> bool) -> Spot {
        let leaf = self.leaf_by(Tree::Second, |child| before(self.first_below(child)));
        self.spot_in(leaf, before)
    }

    fn spot_in(&self, leaf: u32, before: impl Fn(Entry<'a>) -> bool) -> Spot {
        if leaf == NONE {
            return Spot {
                page: NONE,
                index: 0,
            };
        }
        let (node, form) = (self.page(leaf), self.form(Tree::Second));
        let (mut low, mut high) = (0, node.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if before(node.entry(middle, form)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Spot {
            page: leaf,
            index: low,
        }
    }

    /// How an entry compares to a member with a key.
    fn compare(&self, entry: Entry<'_>, key: [u8; 8], member: &[u8]) -> Ordering {
        let keys = entry.lead().cmp(&key[..]);
        keys.then_with(|| self.compare_text(entry.text(), member))
    }

    fn first_below(&self, child: &Child<'_>) -> Entry<'a> {
        let leaf = self.first_leaf(child.page);
        self.page(leaf).entry(0, self.form(Tree::Second))
    }
}

impl<V: ValueBytes + ?Sized> Edit<'_, V> {
    /// Adds a member that is not there to the second tree.
    pub fn add_keyed(&mut self, key: [u8; 8], member: &[u8]) {
        let spot = self.view().spot_of(key, member);
        let stored = Stored {
            lead: &key,
            texts: [member, &[]],
            tail: None,
            tag: 0,
        };
        let added = self.insert(Tree::Second, spot, &stored);
        debug_assert_eq!(added, Ok(()), "only hashes collide");
    }

    /// Gives a member of the second tree another key. Cost: O(log n), twice if it gets other
    /// neighbours.
    pub fn rekey(&mut self, old: [u8; 8], new: [u8; 8], member: &[u8]) {
        let view = self.view();
        let spot = view.spot_of(old, member);
        let (node, form) = (view.page(spot.page), view.form(Tree::Second));
        let is_before = |index: usize| view.compare(node.entry(index, form), new, member).is_lt();
        // At an end of its leaf it may go away from the next leaf, not towards it.
        let is_behind = match spot.index {
            0 => new >= old,
            index => is_before(index - 1),
        };
        let next = spot.index + 1;
        let is_ahead = match next < node.len() {
            true => !is_before(next),
            false => new <= old,
        };
        if is_behind && is_ahead {
            return self.set_lead(spot, new);
        }
        self.remove(Tree::Second, spot);
        self.add_keyed(new, member);
    }

    /// Removes a member that is there from the second tree.
    pub fn take_keyed(&mut self, key: [u8; 8], member: &[u8]) {
        let spot = self.view().spot_of(key, member);
        self.remove(Tree::Second, spot);
    }
}
