//! Ordered: members by a key of eight bytes and then by their own bytes, in the second tree.

use std::cmp::Ordering;

use crate::bytes::u64_at;
use crate::edit::{Edit, Stored};
use crate::entry::{Entry, Form, SHORT_BYTES};
use crate::page::{NONE, Page, Tree};
use crate::view::{Spot, View};
use cellar_engine::ValueBytes;
use smallvec::SmallVec;

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

/// The score of a key, which is a number with the big end first.
pub(crate) fn key_score(flipped: u64) -> f64 {
    let bits = if flipped >> 63 == 1 {
        flipped & !(1 << 63)
    } else {
        !flipped
    };
    f64::from_bits(bits)
}

/// Bytes of a key.
const KEY_BYTES: usize = 8;

/// The argument of a condition.
#[derive(Clone, Copy)]
enum Asked<'a> {
    /// The entry of a leaf at an index.
    Entry(Page<'a>, usize),
    /// The begin of a key and member that are behind all entries of one leaf, and not behind those
    /// of the next. If a condition holds for it, it holds for the former as well; if not, for none
    /// of the latter.
    Separator(&'a [u8]),
}

/// Entries beside each other in a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    pub(crate) first: Spot,
    pub(crate) len: usize,
}

impl Entries {
    fn none() -> Entries {
        Entries {
            first: Spot::at(NONE, 0),
            len: 0,
        }
    }
}

impl<'a> View<'a> {
    /// Where a member with a key is, or would be, in the second tree. Cost: O(log n).
    #[must_use]
    pub fn spot_of(&self, key: [u8; 8], member: &[u8]) -> Spot {
        let number = u64::from_be_bytes(key);
        let leaf = self.leaf_by(Tree::Second, |node, index| {
            let child = node.child(index);
            match child.separator {
                Some(separator) if separator.len() >= key.len() => {
                    let lead = u64_at(separator, 0).swap_bytes().cmp(&number);
                    lead.then_with(|| separator[key.len()..].cmp(member))
                        .is_le()
                }
                Some(separator) => separator <= &key[..],
                None => self
                    .compare(self.first_below(child.page), key, member)
                    .is_le(),
            }
        });
        self.spot_in(leaf, |node, index| {
            self.is_before(node, index, number, member)
        })
    }

    /// Whether an entry of the second tree orders before a key and member.
    #[inline]
    fn is_before(&self, node: Page<'a>, index: usize, key: u64, member: &[u8]) -> bool {
        let form = Form::KEYED;
        match node.lead(index, form.slot).cmp(&key) {
            Ordering::Equal => self.compare_text(node.text(index, form), member).is_lt(),
            order => order.is_lt(),
        }
    }

    /// The first spot of the second tree whose key is not `before`; those that are come before all
    /// others. Cost: O(log n).
    #[must_use]
    pub fn partition_point_by_key(&self, before: impl Fn(u64) -> bool) -> Spot {
        self.partition_point(&self.keys_that(before))
    }

    /// The entries of the second tree whose keys are not `before`, up to the first that is not
    /// `within`; keys before the others are `within` as well. Cost: O(log n).
    pub(crate) fn run_of_keys(
        &self,
        before: impl Fn(u64) -> bool,
        within: impl Fn(u64) -> bool,
    ) -> Entries {
        self.run(&self.keys_that(before), &self.keys_that(within))
    }

    /// The same where the members, which are in order, say it.
    pub(crate) fn run_of_members(
        &self,
        before: impl Fn(&[u8]) -> bool,
        within: impl Fn(&[u8]) -> bool,
    ) -> Entries {
        self.run(&self.members_that(before), &self.members_that(within))
    }

    /// A condition on the keys of entries.
    fn keys_that(&self, are: impl Fn(u64) -> bool) -> impl Fn(Asked<'a>) -> bool {
        let slot = self.form(Tree::Second).slot;
        move |asked| match asked {
            Asked::Entry(leaf, index) => are(leaf.lead(index, slot)),
            Asked::Separator(bytes) => {
                let (mut key, len) = ([0; KEY_BYTES], bytes.len().min(KEY_BYTES));
                key[..len].copy_from_slice(&bytes[..len]);
                are(u64::from_be_bytes(key))
            }
        }
    }

    /// A condition on the members of entries that all have one key.
    fn members_that(&self, are: impl Fn(&[u8]) -> bool) -> impl Fn(Asked<'a>) -> bool {
        let (view, form) = (*self, self.form(Tree::Second));
        move |asked| match asked {
            Asked::Entry(leaf, index) => are(&view.bytes_of(leaf.text(index, form))),
            Asked::Separator(bytes) => are(bytes.get(KEY_BYTES..).unwrap_or_default()),
        }
    }

    fn run(
        &self,
        before: &impl Fn(Asked<'a>) -> bool,
        within: &impl Fn(Asked<'a>) -> bool,
    ) -> Entries {
        let first = self.partition_point(before);
        let Some(first) = self.settled(first) else {
            return Entries::none();
        };
        let leaf = self.page(first.page);
        if !within(Asked::Entry(leaf, first.index)) {
            return Entries::none();
        }
        // Most runs end in the leaf where they begin.
        let len = if within(Asked::Entry(leaf, leaf.len() - 1)) {
            let behind = self.rank(self.partition_point(within));
            behind.saturating_sub(self.rank(first))
        } else {
            let behind = self.spot_in(first, |leaf, index| within(Asked::Entry(leaf, index)));
            behind.index.saturating_sub(first.index)
        };
        Entries { first, len }
    }

    /// The first spot whose entry is not `before`, or the end of the leaf that ends before it.
    fn partition_point(&self, before: &impl Fn(Asked<'a>) -> bool) -> Spot {
        let leaf = self.leaf_by(Tree::Second, |node, index| {
            let child = node.child(index);
            before(match child.separator {
                Some(separator) => Asked::Separator(separator),
                None => Asked::Entry(self.page(self.first_leaf(child.page)), 0),
            })
        });
        self.spot_in(leaf, |leaf, index| before(Asked::Entry(leaf, index)))
    }

    #[inline]
    fn spot_in(&self, leaf: Spot, is_before: impl Fn(Page<'a>, usize) -> bool) -> Spot {
        if leaf.page == NONE {
            return leaf;
        }
        let node = self.page(leaf.page);
        let (mut low, mut high) = (0, node.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_before(node, middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Spot { index: low, ..leaf }
    }

    /// How an entry compares to a member with a key.
    fn compare(&self, entry: Entry<'_>, key: [u8; 8], member: &[u8]) -> Ordering {
        let keys = entry.lead().cmp(&key[..]);
        keys.then_with(|| self.compare_text(entry.text(), member))
    }

    fn first_below(&self, page: u32) -> Entry<'a> {
        let leaf = self.first_leaf(page);
        self.page(leaf).entry(0, self.form(Tree::Second))
    }
}

impl<V: ValueBytes + ?Sized> Edit<'_, V> {
    /// Adds a member that is not there to the second tree.
    pub fn add_keyed(&mut self, key: [u8; 8], member: &[u8]) {
        self.add_keyed_at(None, key, member);
    }

    /// The same of a member whose spot may be known.
    pub(crate) fn add_keyed_at(&mut self, spot: Option<Spot>, key: [u8; 8], member: &[u8]) {
        let spot = spot.unwrap_or_else(|| self.view().spot_of(key, member));
        let stored = Stored {
            lead: &key,
            texts: [member, &[]],
            tail: None,
            hash: 0,
        };
        let added = self.insert(Tree::Second, spot, &stored);
        debug_assert_eq!(added, Ok(()), "only hashes collide");
    }

    /// Gives a member of the second tree another key, by which its spot may be known. Cost:
    /// O(log n), twice if it gets other neighbours.
    pub fn rekey(&mut self, old: [u8; 8], new: [u8; 8], known: Option<Spot>, member: &[u8]) {
        let tree = Tree::Second;
        let view = self.view();
        let spot = view.spot_of(old, member);
        let (node, number) = (view.page(spot.page), u64::from_be_bytes(new));
        let is_before = |index: usize| view.is_before(node, index, number, member);
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
        let entry = node.entry(spot.index, Form::KEYED);
        if entry.text().page.is_some() {
            self.remove(tree, spot);
            return self.add_keyed(new, member);
        }
        let mut bytes: SmallVec<[u8; SHORT_BYTES]> = SmallVec::from_slice(entry.bytes());
        bytes[..new.len()].copy_from_slice(&new);
        match known {
            Some(to) if to.page == spot.page => {
                let index = to.index - usize::from(to.index > spot.index);
                self.take_out(spot.page, spot.index);
                self.put_in(spot.page, index, &bytes, 0);
            }
            Some(to) if self.has_space(to.page, bytes.len()) => {
                self.insert_sure(to, &bytes);
                self.remove(tree, spot);
            }
            _ => {
                self.remove(tree, spot);
                let spot = self.view().spot_of(new, member);
                self.insert_sure(spot, &bytes);
            }
        }
    }

    /// Inserts an entry with these bytes before the one at a spot of the second tree.
    fn insert_sure(&mut self, spot: Spot, bytes: &[u8]) {
        let added = self.insert_bytes(Tree::Second, spot, bytes, 0);
        debug_assert_eq!(added, Ok(()), "only hashes collide");
    }

    /// Removes a member that is there from the second tree.
    pub fn take_keyed(&mut self, key: [u8; 8], member: &[u8]) {
        let spot = self.view().spot_of(key, member);
        self.remove(Tree::Second, spot);
    }
}
