//! Split: nodes that are too full, and those that are too empty.
//!
//! A node is split in the middle of its bytes, except where entries are added at an end of the
//! tree: then the full node stays full. A node that is less than a quarter full is merged with a
//! neighbour if both fill at most three quarters.

use std::borrow::Cow;

use cellar_engine::ValueBytes;

use crate::digest::{Hasher, shift_for, tag};
use crate::edit::{Collision, Edit, Item, items_of};
use crate::entry::{Entry, Form};
use crate::page::{
    CHILD_SLOT_BYTES, Child, Front, Kind, MERGED_BYTES_MAX, NONE, Page, SEPARATOR_BYTES_MAX,
    SPACE_BYTES, Tree,
};
use crate::view::Spot;

/// A node with fewer bytes is merged.
const MERGED_BYTES: usize = SPACE_BYTES / 4;

impl<V: ValueBytes + ?Sized> Edit<'_, V> {
    /// Splits a leaf that gets one entry more; all counts are right then.
    pub(crate) fn split(
        &mut self,
        tree: Tree,
        spot: Spot,
        bytes: &[u8],
        tag: u16,
    ) -> Result<(), Collision> {
        let copy = self.view().page(spot.page).copied();
        let node = Page(&copy);
        let form = self.forms[tree as usize];
        let mut items = items_of(node, form);
        let new = Item {
            bytes: Cow::Borrowed(bytes),
            tag,
        };
        items.insert(spot.index, new);
        let is_at_end = self.view().neighbour(spot, true).is_none();
        let is_at_begin = self.view().neighbour(spot, false).is_none();
        let mut shifts = [0; 2];
        let (cut, separator) = if form.slot == 4 {
            let (cut, hash) = self.cut_by_hash(&items, spot.index, is_at_end, form)?;
            let (least, most) = self.view().hash_range(spot);
            shifts = [(least, hash), (hash, most)].map(|range| shift_for(range, node.shift()));
            let (left, right) = items.split_at_mut(cut);
            for (items, shift) in [left, right].into_iter().zip(shifts) {
                self.retag(items, form, (node.shift(), shift));
            }
            (cut, Some(hash.to_be_bytes().to_vec()))
        } else {
            let cut = match spot.index {
                index if is_at_end && index + 1 == items.len() => index,
                0 if is_at_begin => 1,
                _ => middle_of(&items, form.slot),
            };
            (cut, self.separator(&items[cut - 1], &items[cut], form))
        };
        let right = self.allocate();
        let up = node.up();
        let front = |shift| Front {
            shift,
            ..Front::empty(Kind::Leaf, tree, up)
        };
        self.write_node(spot.page, front(shifts[0]), &items[..cut]);
        self.write_node(right, front(shifts[1]), &items[cut..]);
        self.adopt_parts(spot.page, form);
        self.adopt_parts(right, form);
        self.add_sibling(tree, spot.page, right, separator.as_deref());
        Ok(())
    }

    /// The hash of an entry of a leaf by hash.
    fn hash_of(&self, item: &Item<'_>, form: Form, hasher: &Hasher) -> u64 {
        let entry = Entry {
            rest: &item.bytes,
            form,
        };
        hasher.hash(&self.view().bytes_of(entry.text()))
    }

    /// Makes the tags of entries of a leaf by hash anew, if they get another shift. Cost: the hash
    /// of each.
    fn retag(&self, items: &mut [Item<'_>], form: Form, (before, shift): (u8, u8)) {
        if before == shift {
            return;
        }
        let hasher = Hasher::of(self.view().seed());
        for item in items {
            item.tag = tag(self.hash_of(item, form, &hasher), shift);
        }
    }

    /// Where the entries of a leaf by hash are cut, and the hash of the first one behind the cut.
    fn cut_by_hash(
        &self,
        items: &[Item<'_>],
        new: usize,
        is_at_end: bool,
        form: Form,
    ) -> Result<(usize, u64), Collision> {
        let hasher = Hasher::of(self.view().seed());
        let hash_of = |index: usize| self.hash_of(&items[index], form, &hasher);
        let last = items.len() - 1;
        let wanted = match is_at_end && new == last {
            true => last,
            false => middle_of(items, form.slot),
        };
        // Entries with the same hash stay together.
        let nearest = (0..=last).flat_map(|far| [wanted.checked_sub(far), Some(wanted + far)]);
        let mut cuts = nearest.flatten().filter(|cut| (1..=last).contains(cut));
        let cut = cuts.find(|&cut| hash_of(cut - 1) != hash_of(cut));
        let cut = cut.ok_or(Collision)?;
        let fits = |items: &[Item<'_>]| bytes_of(items, form.slot) <= SPACE_BYTES;
        if !fits(&items[..cut]) || !fits(&items[cut..]) {
            return Err(Collision);
        }
        Ok((cut, hash_of(cut)))
    }

    /// A separator that sorts behind the left entry and not behind the right one.
    pub(crate) fn separator(
        &self,
        left: &Item<'_>,
        right: &Item<'_>,
        form: Form,
    ) -> Option<Vec<u8>> {
        if form.lead == 0 {
            return Some(Vec::new());
        }
        let view = self.view();
        let key = |item: &Item<'_>| {
            let entry = Entry {
                rest: &item.bytes,
                form,
            };
            [entry.lead(), &view.bytes_of(entry.text())].concat()
        };
        let (left, mut right) = (key(left), key(right));
        let same = left
            .iter()
            .zip(&right)
            .take_while(|(one, other)| one == other);
        let len = same.count() + 1;
        right.truncate(len);
        (len <= SEPARATOR_BYTES_MAX).then_some(right)
    }

    /// Links a node beside one whose entries it has got in part. All counts above them are
    /// recomputed.
    pub(crate) fn add_sibling(
        &mut self,
        tree: Tree,
        left: u32,
        right: u32,
        separator: Option<&[u8]>,
    ) {
        let up = self.view().page(left).up();
        let child = |page, count, separator| {
            let child = Child {
                page,
                count,
                separator,
            };
            Item {
                bytes: Cow::Owned(child.bytes()),
                tag: 0,
            }
        };
        let (left_count, right_count) = (self.total(left), self.total(right));
        let new = child(right, right_count, separator);
        if up == NONE {
            let root = self.allocate();
            let children = [child(left, left_count, Some(&[])), new];
            self.write_node(root, Front::empty(Kind::Inner, tree, NONE), &children);
            self.adopt(root);
            self.set_root(tree, root);
            return;
        }
        let index = self.view().index_of(up, left) + 1;
        let front = self.view().page(up).front();
        if front.free_bytes(CHILD_SLOT_BYTES) >= new.bytes.len() + CHILD_SLOT_BYTES {
            self.put_in(up, index, &new.bytes, 0);
            self.set_up(right, up);
        } else {
            self.split_inner(tree, up, index, new);
        }
        self.recount(left);
        self.recount(right);
    }

    /// Splits an inner node that gets one child more.
    fn split_inner(&mut self, tree: Tree, page: u32, index: usize, new: Item<'_>) {
        let copy = self.view().page(page).copied();
        let node = Page(&copy);
        let mut items = items_of(node, self.forms[tree as usize]);
        items.insert(index, new);
        let is_at_end = self.view().neighbour(Spot::at(page, 0), true).is_none();
        let cut = match is_at_end && index + 1 == items.len() {
            true => index,
            false => middle_of(&items, CHILD_SLOT_BYTES),
        };
        let first = items[cut].bytes.to_vec();
        let separator = match usize::from(first[8]) {
            255 => None,
            len => Some(&first[9..9 + len]),
        };
        let right = self.allocate();
        let front = Front::empty(Kind::Inner, tree, node.up());
        self.write_node(page, front, &items[..cut]);
        self.write_node(right, front, &items[cut..]);
        self.adopt(page);
        self.adopt(right);
        self.add_sibling(tree, page, right, separator);
    }

    /// Balances a node that has lost an entry: an empty one is removed, one with few is merged.
    /// Pages to free are added to `freed`.
    pub(crate) fn balance(&mut self, tree: Tree, page: u32, freed: &mut Vec<u32>) {
        let node = self.view().page(page);
        let (front, slot) = (node.front(), self.slot_of(node));
        if front.entries == 0 {
            return self.unlink(tree, page, freed);
        }
        if front.up == NONE {
            return self.lower_root(tree, page, freed);
        }
        if front.used_bytes(slot) >= MERGED_BYTES {
            return;
        }
        let index = self.view().index_of(front.up, page);
        let parent = self.view().page(front.up);
        let sibling = |index: usize| (index < parent.len()).then(|| parent.child(index).page);
        let before = index.checked_sub(1).and_then(sibling);
        let pairs = [
            before.map(|before| (before, page, index)),
            sibling(index + 1).map(|next| (page, next, index + 1)),
        ];
        let fits = |&(left, right, _): &(u32, u32, usize)| {
            let used = |page| self.view().page(page).front().used_bytes(slot);
            used(left) + used(right) <= MERGED_BYTES_MAX
        };
        if let Some((left, right, at)) = pairs.into_iter().flatten().find(fits) {
            self.merge(left, right, at);
            self.unlink(tree, right, freed);
            self.recount(left);
        }
    }

    /// Moves the entries of a node to the one before it, under the same parent, where the second
    /// one is the child at `index`.
    fn merge(&mut self, left: u32, right: u32, index: usize) {
        let (copy, other) = (
            self.view().page(left).copied(),
            self.view().page(right).copied(),
        );
        let (node, next) = (Page(&copy), Page(&other));
        let form = self.forms[node.tree() as usize];
        let (mut items, mut behind) = (items_of(node, form), items_of(next, form));
        if node.kind() == Kind::Inner {
            // The first child has had no separator of its own.
            let parent = self.view().page(node.up());
            let child = Child {
                separator: parent.child(index).separator,
                ..next.child(0)
            };
            behind[0].bytes = Cow::Owned(child.bytes());
        }
        let mut front = Front::empty(node.kind(), node.tree(), node.up());
        if node.kind() == Kind::Leaf && form.slot == 4 {
            let view = self.view();
            let least = view.hash_range(Spot::at(left, 0)).0;
            let most = view.hash_range(Spot::at(right, 0)).1;
            front.shift = shift_for((least, most), node.shift());
            self.retag(&mut items, form, (node.shift(), front.shift));
            self.retag(&mut behind, form, (next.shift(), front.shift));
        }
        items.append(&mut behind);
        self.write_node(left, front, &items);
        match node.kind() {
            Kind::Inner => self.adopt(left),
            _ => self.adopt_parts(left, form),
        }
    }

    /// Takes a node out of the tree.
    pub(crate) fn unlink(&mut self, tree: Tree, page: u32, freed: &mut Vec<u32>) {
        freed.push(page);
        let up = self.view().page(page).up();
        if up == NONE {
            return self.set_root(tree, NONE);
        }
        let index = self.view().index_of(up, page);
        self.take_out(up, index);
        self.balance(tree, up, freed);
    }

    /// Has the only child of a root take its place.
    fn lower_root(&mut self, tree: Tree, root: u32, freed: &mut Vec<u32>) {
        let mut root = root;
        loop {
            let node = self.view().page(root);
            if node.kind() != Kind::Inner || node.len() > 1 {
                return;
            }
            let child = node.child(0).page;
            freed.push(root);
            self.set_root(tree, child);
            self.set_up(child, NONE);
            root = child;
        }
    }
}

fn bytes_of(items: &[Item<'_>], slot: usize) -> usize {
    items.iter().map(|item| item.bytes.len() + slot).sum()
}

/// The cut that leaves about as many bytes on either side.
fn middle_of(items: &[Item<'_>], slot: usize) -> usize {
    let all = bytes_of(items, slot);
    let (mut cut, mut before) = (0, 0);
    while cut < items.len() && before * 2 < all {
        before += items[cut].bytes.len() + slot;
        cut += 1;
    }
    // The middle one goes to the smaller side.
    let last = items[cut - 1].bytes.len() + slot;
    if cut > 1 && before * 2 - all > last {
        cut -= 1;
    }
    cut.clamp(1, items.len() - 1)
}
