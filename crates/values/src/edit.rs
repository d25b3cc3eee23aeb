//! Edit: a value that is changed: entries come, go and change; nodes split and merge.
//!
//! A node is split in the middle of its bytes, except where entries are added at an end of the
//! tree: then the full node stays full. A node that is less than a quarter full is merged with a
//! neighbour if both fill at most three quarters.
//!
//! Invariants: a node's `up` is its parent; a child's count is how many entries are below it; no
//! node but a root is empty; pages have no gaps between them.

use std::borrow::Cow;

use crate::PAGE_BYTES;
use cellar_engine::ValueBytes;

use crate::bytes::u64_at;
use crate::entry::{Entry, Form, NewEntry};
use crate::page::{
    CHILD_SLOT_BYTES, Child, FRONT_BYTES, Front, Kind, NONE, Page, SEPARATOR_BYTES_MAX, SPACE_BYTES,
};
use crate::table::hash;
use crate::view::{COUNTS_AT, Spot, Tree, View, WORDS_AT, new_head, page_at};

/// A node with fewer bytes is merged.
const MERGED_BYTES: usize = SPACE_BYTES / 4;
/// Bytes of a node that came of a merge.
const MERGED_BYTES_MAX: usize = SPACE_BYTES / 4 * 3;
/// Bytes of the count in a child's entry, behind the page.
const COUNT_AT: usize = 4;

/// Two members have the same hash of 64 bits and too many bytes for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collision;

/// An entry to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) lead: &'a [u8],
    /// The second is empty where the form has one.
    pub(crate) texts: [&'a [u8]; 2],
    pub(crate) tail: Option<u64>,
    /// The part of its hash.
    pub(crate) tag: u16,
}

/// A value that is changed.
#[derive(Debug)]
pub struct Edit<'v, V: ?Sized> {
    pub(crate) value: &'v mut V,
    pub(crate) forms: [Form; 2],
}

/// A node's entry on its way to another node.
#[derive(Clone, Debug)]
struct Item<'a> {
    bytes: Cow<'a, [u8]>,
    tag: u16,
}

impl<'v, V: ValueBytes + ?Sized> Edit<'v, V> {
    /// The value that is to be changed.
    pub fn of(value: &'v mut V, forms: [Form; 2]) -> Edit<'v, V> {
        Edit { value, forms }
    }

    /// Makes an empty value with this secret seed.
    pub fn create(value: &'v mut V, forms: [Form; 2], seed: u64) -> Edit<'v, V> {
        let head = new_head(seed);
        value.resize(head.len());
        value.write(0, &head);
        Edit { value, forms }
    }

    /// The value as it is now.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View::of(self.value.bytes(), self.forms)
    }

    /// Sets one of the three words that the type keeps in the head.
    pub fn set_word(&mut self, index: usize, word: u64) {
        self.write(WORDS_AT + index * 8, &word.to_le_bytes());
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.value.write(at, bytes);
    }

    /// Adds an entry before the one at a spot.
    pub(crate) fn insert(
        &mut self,
        tree: Tree,
        spot: Spot,
        stored: &Stored<'_>,
    ) -> Result<(), Collision> {
        let form = self.forms[tree as usize];
        let mut spot = spot;
        if spot.page == NONE {
            let page = self.allocate();
            let front = Front::empty(Kind::Leaf, tree as u8, NONE);
            self.write(page_at(page), &front.bytes());
            self.set_root(tree, page);
            spot = Spot { page, index: 0 };
        }
        let bytes = self.make_entry(form, stored, spot.page);
        self.place(tree, spot, &bytes, stored.tag)?;
        self.add_to(spot.page, 1);
        self.count(tree, 1);
        Ok(())
    }

    /// Changes the entry at a spot, whose place among the others stays.
    pub(crate) fn replace(
        &mut self,
        tree: Tree,
        spot: Spot,
        stored: &Stored<'_>,
    ) -> Result<(), Collision> {
        let form = self.forms[tree as usize];
        let old = self.view().entry(spot);
        let (old_bytes, old_texts) = (old.bytes.len(), self.long_pages(old));
        let bytes = self.make_entry(form, stored, spot.page);
        let node = self.view().page(spot.page);
        let (front, begin) = (node.front(), node.begin(spot.index, form.slot));
        if bytes.len() == old_bytes {
            self.write(page_at(spot.page) + begin, &bytes);
        } else {
            self.take_out(spot.page, spot.index);
            if front.free_bytes(form.slot) + old_bytes >= bytes.len() {
                self.put_in(spot.page, spot.index, &bytes, stored.tag);
            } else {
                self.split(tree, spot, &bytes, stored.tag)?;
            }
        }
        self.free(old_texts);
        Ok(())
    }

    /// Changes the eight bytes behind the texts of the entry at a spot, which has such.
    pub(crate) fn set_tail(&mut self, spot: Spot, tail: u64) {
        let entry = self.view().entry(spot);
        let node = self.view().page(spot.page);
        let end = node.begin(spot.index, entry.form.slot) + entry.bytes.len();
        self.write(page_at(spot.page) + end - 8, &tail.to_le_bytes());
    }

    /// Gives the entry at a spot eight bytes behind its texts, or takes them away.
    pub(crate) fn replace_tail(
        &mut self,
        tree: Tree,
        spot: Spot,
        tail: Option<u64>,
    ) -> Result<(), Collision> {
        let form = self.forms[tree as usize];
        let node = self.view().page(spot.page);
        let (old, tag) = (self.view().entry(spot), node.tag(spot.index));
        let bytes = old.with_tail(tail);
        let old_bytes = old.bytes.len();
        let (front, begin) = (node.front(), node.begin(spot.index, form.slot));
        if bytes.len() == old_bytes {
            self.write(page_at(spot.page) + begin, &bytes);
            return Ok(());
        }
        self.take_out(spot.page, spot.index);
        if front.free_bytes(form.slot) + old_bytes >= bytes.len() {
            self.put_in(spot.page, spot.index, &bytes, tag);
            return Ok(());
        }
        self.split(tree, spot, &bytes, tag)
    }

    /// Removes the entry at a spot.
    pub(crate) fn remove(&mut self, tree: Tree, spot: Spot) {
        let mut freed = self.long_pages(self.view().entry(spot));
        self.take_out(spot.page, spot.index);
        self.count(tree, -1);
        self.add_to(spot.page, -1);
        self.balance(tree, spot.page, &mut freed);
        self.free(freed);
    }

    /// Removes so many entries of the first tree from a rank on. A leaf of which all go is taken out
    /// as a whole.
    pub(crate) fn take_ranks(&mut self, rank: usize, count: usize) {
        let tree = Tree::First;
        let mut left = count;
        while left > 0 {
            let spot = self.view().at(tree, rank);
            let entries = self.view().page(spot.page).len();
            if spot.index > 0 || entries > left {
                self.remove(tree, spot);
                left -= 1;
                continue;
            }
            let mut freed = Vec::new();
            for index in 0..entries {
                let entry = self.view().entry(Spot { index, ..spot });
                freed.append(&mut self.long_pages(entry));
            }
            self.count(tree, -(entries as i64));
            self.add_to(spot.page, -(entries as i32));
            self.unlink(tree, spot.page, &mut freed);
            self.free(freed);
            left -= entries;
        }
    }

    /// The pages of an entry's long texts.
    fn long_pages(&self, entry: Entry<'_>) -> Vec<u32> {
        let mut pages = Vec::new();
        for (_, first) in entry.long_texts() {
            self.part_pages(first, &mut pages);
        }
        pages
    }

    /// The bytes of an entry that is to lie in a leaf; its long texts are written.
    fn make_entry(&mut self, form: Form, stored: &Stored<'_>, leaf: u32) -> Vec<u8> {
        let mut entry = NewEntry::make(form, stored.lead, stored.texts, stored.tail);
        for (at, text) in entry.long.into_iter().zip(stored.texts) {
            if let Some(at) = at {
                let first = self.write_parts(text);
                self.set_up(first, leaf);
                entry.bytes[at..at + 4].copy_from_slice(&first.to_le_bytes());
            }
        }
        entry.bytes
    }

    /// Puts an entry into a leaf, which is split if it is full. The counts of its parents do not
    /// know of the entry yet unless the leaf was split; then they are one too small.
    fn place(&mut self, tree: Tree, spot: Spot, bytes: &[u8], tag: u16) -> Result<(), Collision> {
        let form = self.forms[tree as usize];
        let front = self.view().page(spot.page).front();
        if front.free_bytes(form.slot) >= bytes.len() + form.slot {
            self.put_in(spot.page, spot.index, bytes, tag);
            return Ok(());
        }
        self.split(tree, spot, bytes, tag)?;
        // Splitting has counted all that is there.
        self.add_to(spot.page, -1);
        Ok(())
    }

    /// Splits a leaf that gets one entry more; all counts are right then.
    fn split(&mut self, tree: Tree, spot: Spot, bytes: &[u8], tag: u16) -> Result<(), Collision> {
        let mut copy = [0; PAGE_BYTES];
        copy.copy_from_slice(self.view().page(spot.page).0);
        let node = Page(&copy);
        let form = self.forms[tree as usize];
        let mut items = items_of(node, form);
        let new = Item {
            bytes: Cow::Borrowed(bytes),
            tag,
        };
        items.insert(spot.index, new);
        let is_at_end = self.view().neighbour(spot.page, true).is_none();
        let is_at_begin = self.view().neighbour(spot.page, false).is_none();
        let (cut, separator) = if form.slot == 4 {
            self.cut_by_hash(&mut items, spot.index, is_at_end, form)?
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
        self.write_node(
            spot.page,
            Front::empty(Kind::Leaf, tree as u8, up),
            &items[..cut],
        );
        self.write_node(
            right,
            Front::empty(Kind::Leaf, tree as u8, up),
            &items[cut..],
        );
        self.adopt_parts(spot.page, form);
        self.adopt_parts(right, form);
        self.add_sibling(tree, spot.page, right, separator.as_deref());
        Ok(())
    }

    /// Sorts the entries of a leaf by their hashes; where it is cut, and the separator.
    fn cut_by_hash(
        &self,
        items: &mut Vec<Item<'_>>,
        new: usize,
        is_at_end: bool,
        form: Form,
    ) -> Result<(usize, Option<Vec<u8>>), Collision> {
        let (view, seed) = (self.view(), self.view().seed());
        let hash_of = |item: &Item<'_>| {
            let entry = Entry {
                bytes: &item.bytes,
                form,
            };
            hash(seed, &view.bytes_of(entry.text()))
        };
        let mut hashed: Vec<(u64, usize)> = items.iter().map(hash_of).zip(0..).collect();
        hashed.sort_unstable();
        let is_last = hashed.last().is_some_and(|&(_, at)| at == new);
        let sorted: Vec<Item<'_>> = hashed.iter().map(|&(_, at)| items[at].clone()).collect();
        *items = sorted;
        let wanted = match is_at_end && is_last {
            true => items.len() - 1,
            false => middle_of(items, form.slot),
        };
        let is_cut = |cut: &usize| hashed[cut - 1].0 != hashed[*cut].0;
        let cuts = (1..items.len()).filter(is_cut);
        let cut = cuts
            .min_by_key(|cut| cut.abs_diff(wanted))
            .ok_or(Collision)?;
        let fits = |items: &[Item<'_>]| bytes_of(items, form.slot) <= SPACE_BYTES;
        if !fits(&items[..cut]) || !fits(&items[cut..]) {
            return Err(Collision);
        }
        Ok((cut, Some(hashed[cut].0.to_be_bytes().to_vec())))
    }

    /// What is behind one entry and not behind the next.
    fn separator(&self, left: &Item<'_>, right: &Item<'_>, form: Form) -> Option<Vec<u8>> {
        if form.lead == 0 {
            return Some(Vec::new());
        }
        let view = self.view();
        let key = |item: &Item<'_>| {
            let entry = Entry {
                bytes: &item.bytes,
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

    /// Links a node beside one whose entries it has got in part. All counts above them are made
    /// anew.
    fn add_sibling(&mut self, tree: Tree, left: u32, right: u32, separator: Option<&[u8]>) {
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
            self.write_node(root, Front::empty(Kind::Inner, tree as u8, NONE), &children);
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
        let mut copy = [0; PAGE_BYTES];
        copy.copy_from_slice(self.view().page(page).0);
        let node = Page(&copy);
        let mut items = items_of(node, self.forms[tree as usize]);
        items.insert(index, new);
        let is_at_end = self.view().neighbour(page, true).is_none();
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
        let front = Front::empty(Kind::Inner, tree as u8, node.up());
        self.write_node(page, front, &items[..cut]);
        self.write_node(right, front, &items[cut..]);
        self.adopt(page);
        self.adopt(right);
        self.add_sibling(tree, page, right, separator);
    }

    /// How many elements are in a node, or below it.
    fn total(&self, page: u32) -> u32 {
        let node = self.view().page(page);
        match node.kind() {
            Kind::Inner => (0..node.len()).map(|index| node.child(index).count).sum(),
            _ => node.len() as u32,
        }
    }

    /// Makes the counts of a node and of those above it anew.
    fn recount(&mut self, mut page: u32) {
        loop {
            let (total, up) = (self.total(page), self.view().page(page).up());
            if up == NONE {
                return;
            }
            let index = self.view().index_of(up, page);
            self.set_child_count(up, index, total);
            page = up;
        }
    }

    /// Adds to the counts above a leaf.
    fn add_to(&mut self, mut page: u32, more: i32) {
        loop {
            let up = self.view().page(page).up();
            if up == NONE {
                return;
            }
            let index = self.view().index_of(up, page);
            let count = self.view().page(up).child(index).count;
            self.set_child_count(up, index, count.wrapping_add_signed(more));
            page = up;
        }
    }

    fn set_child_count(&mut self, page: u32, index: usize, count: u32) {
        let at = self.view().page(page).begin(index, CHILD_SLOT_BYTES) + COUNT_AT;
        self.write(page_at(page) + at, &count.to_le_bytes());
    }

    /// Adds to a tree's own count.
    fn count(&mut self, tree: Tree, more: i64) {
        let at = COUNTS_AT + tree as usize * 8;
        let count = u64_at(self.value.bytes(), at).wrapping_add_signed(more);
        self.write(at, &count.to_le_bytes());
    }

    /// Sees to a node that has lost an entry: one without any goes, one with few is merged. What
    /// is to be freed comes to `freed`.
    fn balance(&mut self, tree: Tree, page: u32, freed: &mut Vec<u32>) {
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
        let (mut copy, mut other) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
        copy.copy_from_slice(self.view().page(left).0);
        other.copy_from_slice(self.view().page(right).0);
        let (node, next) = (Page(&copy), Page(&other));
        let form = self.forms[usize::from(node.0[1])];
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
        items.append(&mut behind);
        let front = Front::empty(node.kind(), node.0[1], node.up());
        self.write_node(left, front, &items);
        match node.kind() {
            Kind::Inner => self.adopt(left),
            _ => self.adopt_parts(left, form),
        }
    }

    /// Takes a node out of the tree.
    fn unlink(&mut self, tree: Tree, page: u32, freed: &mut Vec<u32>) {
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

    fn slot_of(&self, node: Page<'_>) -> usize {
        match node.kind() {
            Kind::Inner => CHILD_SLOT_BYTES,
            _ => self.forms[usize::from(node.0[1])].slot,
        }
    }

    /// Puts an entry into a node that has space for it.
    fn put_in(&mut self, page: u32, index: usize, bytes: &[u8], tag: u16) {
        let slot = self.slot_of(self.view().page(page));
        let front = self.view().page(page).front();
        if front.heap - FRONT_BYTES < (front.entries + 1) * slot + bytes.len() {
            self.compact(page);
        }
        let node = self.view().page(page);
        let mut front = node.front();
        let (begin, end) = (
            FRONT_BYTES + index * slot,
            FRONT_BYTES + front.entries * slot,
        );
        let mut slots = [0; PAGE_BYTES];
        let behind = &node.0[begin..end];
        slots[slot..slot + behind.len()].copy_from_slice(behind);
        let len = slot + behind.len();
        front.heap -= bytes.len();
        front.entries += 1;
        slots[..2].copy_from_slice(&(front.heap as u16).to_le_bytes());
        if slot == 4 {
            slots[2..4].copy_from_slice(&tag.to_le_bytes());
        }
        let at = page_at(page);
        self.write(at + front.heap, bytes);
        self.write(at + begin, &slots[..len]);
        self.write(at, &front.bytes());
    }

    /// Takes an entry out of a node.
    fn take_out(&mut self, page: u32, index: usize) {
        let node = self.view().page(page);
        let (mut front, slot) = (node.front(), self.slot_of(node));
        let form = self.forms[usize::from(node.0[1])];
        let (bytes, begin_of) = (node.entry_bytes(index, form), node.begin(index, slot));
        let (begin, end) = (
            FRONT_BYTES + index * slot,
            FRONT_BYTES + front.entries * slot,
        );
        let mut slots = [0; PAGE_BYTES];
        let behind = &node.0[begin + slot..end];
        slots[..behind.len()].copy_from_slice(behind);
        let len = behind.len();
        front.entries -= 1;
        if begin_of == front.heap {
            front.heap += bytes;
        } else {
            front.unused += bytes;
        }
        if front.entries == 0 {
            (front.heap, front.unused) = (PAGE_BYTES, 0);
        }
        let at = page_at(page);
        self.write(at + begin, &slots[..len]);
        self.write(at, &front.bytes());
    }

    /// Moves the entries of a node together.
    fn compact(&mut self, page: u32) {
        let mut copy = [0; PAGE_BYTES];
        copy.copy_from_slice(self.view().page(page).0);
        let node = Page(&copy);
        let items = items_of(node, self.forms[usize::from(node.0[1])]);
        self.write_node(
            page,
            Front::empty(node.kind(), node.0[1], node.up()),
            &items,
        );
    }

    /// Writes a node with these entries.
    fn write_node(&mut self, page: u32, front: Front, items: &[Item<'_>]) {
        let slot = match front.kind {
            Kind::Inner => CHILD_SLOT_BYTES,
            _ => self.forms[usize::from(front.tree)].slot,
        };
        let mut front = front;
        let mut bytes = [0; PAGE_BYTES];
        for (index, item) in items.iter().enumerate() {
            front.heap -= item.bytes.len();
            bytes[front.heap..front.heap + item.bytes.len()].copy_from_slice(&item.bytes);
            let at = FRONT_BYTES + index * slot;
            bytes[at..at + 2].copy_from_slice(&(front.heap as u16).to_le_bytes());
            if slot == 4 {
                bytes[at + 2..at + 4].copy_from_slice(&item.tag.to_le_bytes());
            }
        }
        front.entries = items.len();
        bytes[..FRONT_BYTES].copy_from_slice(&front.bytes());
        self.write(page_at(page), &bytes);
    }
}

/// The entries of a node.
fn items_of<'a>(node: Page<'a>, form: Form) -> Vec<Item<'a>> {
    let slot = match node.kind() {
        Kind::Inner => CHILD_SLOT_BYTES,
        _ => form.slot,
    };
    let item = |index| {
        let begin = node.begin(index, slot);
        Item {
            bytes: Cow::Borrowed(&node.0[begin..begin + node.entry_bytes(index, form)]),
            tag: if slot == 4 { node.tag(index) } else { 0 },
        }
    };
    (0..node.len()).map(item).collect()
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
    // The one in the middle goes to the side where less is.
    let last = items[cut - 1].bytes.len() + slot;
    if cut > 1 && before * 2 - all > last {
        cut -= 1;
    }
    cut.clamp(1, items.len() - 1)
}
