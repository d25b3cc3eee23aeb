//! Edit: a value that is changed: entries come, go and change.
//!
//! Invariants: a node's `up` is its parent; a child's count is how many entries are below it; no
//! node but a root is empty; pages have no gaps between them.

use std::borrow::Cow;
use std::ops::Range;

use crate::PAGE_BYTES;
use crate::digest::tag;
use cellar_engine::ValueBytes;
use smallvec::SmallVec;

use crate::bytes::{put, u64_at};
use crate::entry::{Form, NewEntry, SHORT_BYTES};
use crate::page::{CHILD_SLOT_BYTES, COUNT_AT, FRONT_BYTES, Front, Kind, NONE, Page, Tree};
use crate::view::{COUNTS_AT, Spot, View, new_head, page_at};

/// Slots are moved in pieces of so many bytes: longer ones are slower to write.
const SLOTS_BYTES: usize = 480;
/// Bytes of the longest slot.
const SLOT_BYTES_MAX: usize = 4;
/// Most bytes that are moved at once.
const MOVED_BYTES_MAX: usize = 512;
const _: () = assert!(
    SLOTS_BYTES + SLOT_BYTES_MAX <= MOVED_BYTES_MAX,
    "they need no allocation"
);

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
    /// The hash of the first text; zero where no order by hash uses it.
    pub(crate) hash: u64,
}

/// A value that is changed.
#[derive(Debug)]
pub struct Edit<'v, V: ?Sized> {
    pub(crate) value: &'v mut V,
    pub(crate) forms: [Form; 2],
}

/// A node's entry on its way to another node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) tag: u16,
}

impl<'v, V: ValueBytes + ?Sized> Edit<'v, V> {
    /// Begins an edit of this value.
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
        let spot = self.with_leaf(tree, spot);
        let bytes = self.make_entry(form, stored, spot.page);
        let tag = self.tag_in(spot.page, stored.hash);
        self.insert_bytes(tree, spot, &bytes, tag)
    }

    /// Inserts an entry with these bytes before the one at a spot.
    pub(crate) fn insert_bytes(
        &mut self,
        tree: Tree,
        spot: Spot,
        bytes: &[u8],
        tag: u16,
    ) -> Result<(), Collision> {
        let spot = self.with_leaf(tree, spot);
        self.place(tree, spot, bytes, tag)?;
        self.add_to(spot, 1);
        self.count(tree, 1);
        Ok(())
    }

    /// The spot itself; in an empty tree, the start of a first leaf, which this makes.
    pub(crate) fn with_leaf(&mut self, tree: Tree, spot: Spot) -> Spot {
        if spot.page != NONE {
            return spot;
        }
        let page = self.allocate();
        let front = Front::empty(Kind::Leaf, tree, NONE);
        self.write(page_at(page), &front.bytes());
        self.set_root(tree, page);
        Spot::at(page, 0)
    }

    /// Changes the entry at a spot, whose place among the others stays.
    pub(crate) fn replace(
        &mut self,
        tree: Tree,
        spot: Spot,
        stored: &Stored<'_>,
    ) -> Result<(), Collision> {
        let form = self.forms[tree as usize];
        let old_texts = self.long_pages(spot);
        let bytes = self.make_entry(form, stored, spot.page);
        let tag = self.tag_in(spot.page, stored.hash);
        self.exchange(tree, spot, &bytes, tag)?;
        self.free(old_texts);
        Ok(())
    }

    /// Puts other bytes in the place of an entry.
    fn exchange(
        &mut self,
        tree: Tree,
        spot: Spot,
        bytes: &[u8],
        tag: u16,
    ) -> Result<(), Collision> {
        let slot = self.forms[tree as usize].slot;
        let node = self.view().page(spot.page);
        let old_bytes = self.view().entry(spot).bytes().len();
        let (front, begin) = (node.front(), node.begin(spot.index, slot));
        let at = page_at(spot.page);
        if bytes.len() <= old_bytes {
            self.write(at + begin, bytes);
            let unused = front.unused + old_bytes - bytes.len();
            if unused > front.unused {
                self.write(at, &Front { unused, ..front }.bytes());
            }
            return Ok(());
        }
        if front.heap - FRONT_BYTES >= front.entries * slot + bytes.len() {
            // The slot stays where it is.
            let (heap, unused) = (front.heap - bytes.len(), front.unused + old_bytes);
            let slot_at = at + FRONT_BYTES + spot.index * slot;
            self.write(at + heap, bytes);
            self.write(slot_at, &(heap as u16).to_le_bytes());
            let front = Front {
                heap,
                unused,
                ..front
            };
            self.write(at, &front.bytes());
            return Ok(());
        }
        self.take_out(spot.page, spot.index);
        if front.free_bytes(slot) + old_bytes >= bytes.len() {
            self.put_in(spot.page, spot.index, bytes, tag);
            return Ok(());
        }
        self.split(tree, spot, bytes, tag)
    }

    /// Changes the eight bytes behind the texts of the entry at a spot, which has such.
    pub fn set_tail(&mut self, spot: Spot, tail: u64) {
        let entry = self.view().entry(spot);
        let node = self.view().page(spot.page);
        let end = node.begin(spot.index, entry.form.slot) + entry.bytes().len();
        self.write(page_at(spot.page) + end - 8, &tail.to_le_bytes());
    }

    /// Gives the entry at a spot eight bytes behind its texts, or takes them away.
    pub(crate) fn replace_tail(
        &mut self,
        tree: Tree,
        spot: Spot,
        tail: Option<u64>,
    ) -> Result<(), Collision> {
        let tag = self.view().page(spot.page).tag(spot.index);
        let bytes = self.view().entry(spot).with_tail(tail);
        self.exchange(tree, spot, &bytes, tag)
    }

    /// Changes the bytes before the texts of the entry at a spot.
    pub(crate) fn set_lead(&mut self, spot: Spot, lead: [u8; 8]) {
        let node = self.view().page(spot.page);
        let begin = node.begin(spot.index, self.forms[node.tree() as usize].slot);
        self.write(page_at(spot.page) + begin, &lead);
    }

    /// Removes the entry at a spot.
    pub(crate) fn remove(&mut self, tree: Tree, spot: Spot) {
        let mut freed = self.long_pages(spot);
        self.take_out(spot.page, spot.index);
        self.count(tree, -1);
        self.add_to(spot, -1);
        self.balance(tree, spot.page, &mut freed);
        self.free(freed);
    }

    /// Removes `count` entries of the first tree from a rank on. A leaf that becomes empty is
    /// removed as a whole.
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
                freed.append(&mut self.long_pages(Spot { index, ..spot }));
            }
            self.count(tree, -(entries as i64));
            self.add_to(spot, -(entries as i32));
            self.unlink(tree, spot.page, &mut freed);
            self.free(freed);
            left -= entries;
        }
    }

    /// The pages of the long texts of the entry at a spot.
    fn long_pages(&self, spot: Spot) -> Vec<u32> {
        let mut pages = Vec::new();
        if self.view().has_parts() {
            for (_, first) in self.view().entry(spot).long_texts() {
                self.part_pages(first, &mut pages);
            }
        }
        pages
    }

    /// The bytes of an entry for a leaf; its long texts are written.
    pub(crate) fn make_entry(
        &mut self,
        form: Form,
        stored: &Stored<'_>,
        leaf: u32,
    ) -> SmallVec<[u8; SHORT_BYTES]> {
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

    /// The tag of a hash in a leaf.
    #[inline]
    pub(crate) fn tag_in(&self, leaf: u32, hash: u64) -> u16 {
        tag(hash, self.view().page(leaf).shift())
    }

    /// Whether a leaf has space for an entry of so many bytes.
    pub(crate) fn has_space(&self, page: u32, bytes: usize) -> bool {
        let node = self.view().page(page);
        let slot = self.slot_of(node);
        node.front().free_bytes(slot) >= bytes + slot
    }

    /// Puts an entry into a leaf, which is split if it is full. The counts of its parents do not
    /// know of the entry yet unless the leaf was split; then they are one too small.
    fn place(&mut self, tree: Tree, spot: Spot, bytes: &[u8], tag: u16) -> Result<(), Collision> {
        if self.has_space(spot.page, bytes.len()) {
            self.put_in(spot.page, spot.index, bytes, tag);
            return Ok(());
        }
        self.split(tree, spot, bytes, tag)?;
        // Splitting has counted all present entries.
        self.add_to(spot, -1);
        Ok(())
    }

    /// How many elements are in a node, or below it.
    pub(crate) fn total(&self, page: u32) -> u32 {
        let node = self.view().page(page);
        match node.kind() {
            Kind::Inner => (0..node.len()).map(|index| node.count(index) as u32).sum(),
            _ => node.len() as u32,
        }
    }

    /// Recomputes the counts of a node and of those above it.
    pub(crate) fn recount(&mut self, mut page: u32) {
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
    pub(crate) fn add_to(&mut self, leaf: Spot, more: i32) {
        let mut spot = leaf;
        loop {
            let view = self.view();
            let up = view.page(spot.page).up();
            if up == NONE {
                return;
            }
            let index = view.index_in(up, spot);
            let count = view.page(up).count(index) as u32;
            self.set_child_count(up, index, count.wrapping_add_signed(more));
            spot = Spot::at(up, 0);
        }
    }

    fn set_child_count(&mut self, page: u32, index: usize, count: u32) {
        let at = self.view().page(page).begin(index, CHILD_SLOT_BYTES) + COUNT_AT;
        self.write(page_at(page) + at, &count.to_le_bytes());
    }

    /// Adds to a tree's own count.
    pub(crate) fn count(&mut self, tree: Tree, more: i64) {
        let at = COUNTS_AT + tree as usize * 8;
        let count = u64_at(self.value.bytes(), at).wrapping_add_signed(more);
        self.write(at, &count.to_le_bytes());
    }

    pub(crate) fn slot_of(&self, node: Page<'_>) -> usize {
        match node.kind() {
            Kind::Inner => CHILD_SLOT_BYTES,
            _ => self.forms[node.tree() as usize].slot,
        }
    }

    /// Puts an entry into a node that has space for it.
    pub(crate) fn put_in(&mut self, page: u32, index: usize, bytes: &[u8], tag: u16) {
        let mut node = self.view().page(page);
        let (slot, mut front) = (self.slot_of(node), node.front());
        if front.heap - FRONT_BYTES < (front.entries + 1) * slot + bytes.len() {
            self.compact(page);
            node = self.view().page(page);
            front = node.front();
        }
        let at = page_at(page);
        let (begin, end) = (
            at + FRONT_BYTES + index * slot,
            at + FRONT_BYTES + front.entries * slot,
        );
        front.heap -= bytes.len();
        front.entries += 1;
        let mut new = [0; SLOT_BYTES_MAX];
        put(&mut new, 0, (front.heap as u16).to_le_bytes());
        put(&mut new, 2, tag.to_le_bytes());
        self.write(at + front.heap, bytes);
        self.insert_slot(begin..end, &new[..slot]);
        self.write(at, &front.bytes());
    }

    /// Writes a slot before others, which move behind it: the last ones first, so that none is
    /// overwritten before it has moved.
    fn insert_slot(&mut self, others: Range<usize>, new: &[u8]) {
        let mut end = others.end;
        loop {
            let begin = others.start.max(end.saturating_sub(SLOTS_BYTES));
            // Together with the bytes before them, which the new slots replace.
            let mut moved = self.copied(begin - new.len()..end);
            if begin == others.start {
                moved[..new.len()].copy_from_slice(new);
                return self.write(begin, &moved);
            }
            self.write(begin, &moved);
            end = begin - new.len();
        }
    }

    /// Moves slots over the `bytes` bytes before them.
    fn move_slots(&mut self, slots: Range<usize>, bytes: usize) {
        let mut begin = slots.start;
        while begin < slots.end {
            let end = slots.end.min(begin + SLOTS_BYTES);
            let moved = self.copied(begin..end);
            self.write(begin - bytes, &moved);
            begin = end;
        }
    }

    /// A copy of some bytes of the value, without an allocation.
    #[inline]
    fn copied(&self, bytes: Range<usize>) -> SmallVec<[u8; MOVED_BYTES_MAX]> {
        SmallVec::from_slice(&self.value.bytes()[bytes])
    }

    /// Takes an entry out of a node.
    pub(crate) fn take_out(&mut self, page: u32, index: usize) {
        let node = self.view().page(page);
        let (mut front, slot) = (node.front(), self.slot_of(node));
        let form = self.forms[node.tree() as usize];
        let (bytes, begin_of) = (node.entry_bytes(index, form), node.begin(index, slot));
        let at = page_at(page);
        let (begin, end) = (
            at + FRONT_BYTES + (index + 1) * slot,
            at + FRONT_BYTES + front.entries * slot,
        );
        front.entries -= 1;
        if begin_of == front.heap {
            front.heap += bytes;
        } else {
            front.unused += bytes;
        }
        if front.entries == 0 {
            (front.heap, front.unused) = (PAGE_BYTES, 0);
        }
        self.move_slots(begin..end, slot);
        self.write(at, &front.bytes());
    }

    /// Moves the entries of a node together.
    fn compact(&mut self, page: u32) {
        let copy = self.view().page(page).copied();
        let node = Page(&copy);
        let items = items_of(node, self.forms[node.tree() as usize]);
        let front = Front {
            shift: node.shift(),
            ..Front::empty(node.kind(), node.tree(), node.up())
        };
        self.write_node(page, front, &items);
    }

    /// Writes a node with these entries. Its free space keeps its old bytes.
    pub(crate) fn write_node(&mut self, page: u32, front: Front, items: &[Item<'_>]) {
        let slot = match front.kind {
            Kind::Inner => CHILD_SLOT_BYTES,
            _ => self.forms[front.tree as usize].slot,
        };
        let mut front = front;
        front.entries = items.len();
        let mut slots = vec![0; FRONT_BYTES + items.len() * slot];
        for (item, bytes) in items
            .iter()
            .zip(slots[FRONT_BYTES..].chunks_exact_mut(slot))
        {
            front.heap -= item.bytes.len();
            put(bytes, 0, (front.heap as u16).to_le_bytes());
            if slot == SLOT_BYTES_MAX {
                put(bytes, 2, item.tag.to_le_bytes());
            }
        }
        slots[..FRONT_BYTES].copy_from_slice(&front.bytes());
        let mut heap = Vec::with_capacity(PAGE_BYTES - front.heap);
        for item in items.iter().rev() {
            heap.extend_from_slice(&item.bytes);
        }
        self.write(page_at(page), &slots);
        self.write(page_at(page) + front.heap, &heap);
    }
}

/// The entries of a node.
pub(crate) fn items_of<'a>(node: Page<'a>, form: Form) -> Vec<Item<'a>> {
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
