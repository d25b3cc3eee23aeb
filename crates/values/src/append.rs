//! Append: adds entries to a tree in its order, while a whole value is built.
//!
//! A full leaf stays as it is, and the next one begins. The counts of the parents are right once
//! the last leaf is closed.

use std::borrow::Cow;

use crate::PAGE_BYTES;
use crate::digest::tag;
use crate::edit::{Edit, Item, Stored};
use crate::entry::{Form, entry_bytes, fill, long_of};
use crate::page::{FRONT_BYTES, Front, Kind, NONE, Page, Tree};
use crate::view::{Spot, page_at};

impl Edit<'_, Vec<u8>> {
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
            hash,
        };
        self.append(Tree::First, end, &stored)
    }

    /// Adds a member to the second tree that belongs behind all others, which end at a spot; where
    /// they end then.
    pub(crate) fn append_keyed(&mut self, end: Spot, key: [u8; 8], member: &[u8]) -> Spot {
        let stored = Stored {
            lead: &key,
            texts: [member, &[]],
            tail: None,
            hash: 0,
        };
        self.append(Tree::Second, end, &stored)
    }

    /// Makes the counts right after the last entry of a tree, which end at a spot.
    pub(crate) fn close(&mut self, end: Spot) {
        if end.page != NONE {
            self.recount(end.page);
        }
    }

    fn append(&mut self, tree: Tree, end: Spot, stored: &Stored<'_>) -> Spot {
        let form = self.forms[tree as usize];
        let mut end = self.with_leaf(tree, end);
        if !self.append_here(end, form, stored) {
            end = self.append_slowly(tree, end, stored);
        }
        self.count(tree, 1);
        Spot {
            index: end.index + 1,
            ..end
        }
    }

    /// Adds an entry without long texts to a leaf; `false` if it has no space for that.
    fn append_here(&mut self, end: Spot, form: Form, stored: &Stored<'_>) -> bool {
        if long_of(stored.texts) != [false; 2] {
            return false;
        }
        let len = entry_bytes(form, stored.texts, stored.tail.is_some());
        let at = page_at(end.page);
        let page = &mut self.value[at..at + PAGE_BYTES];
        let front = Page(page).front();
        let tag = tag(stored.hash, front.shift);
        let slot = FRONT_BYTES + front.entries * form.slot;
        if front.heap < slot + form.slot + len {
            return false;
        }
        let heap = front.heap - len;
        let entry = &mut page[heap..front.heap];
        fill(entry, form, stored.lead, stored.texts, stored.tail);
        page[slot..slot + 2].copy_from_slice(&(heap as u16).to_le_bytes());
        if form.slot == 4 {
            page[slot + 2..slot + 4].copy_from_slice(&tag.to_le_bytes());
        }
        let front = Front {
            entries: front.entries + 1,
            heap,
            ..front
        };
        page[..FRONT_BYTES].copy_from_slice(&front.bytes());
        true
    }

    /// Adds any entry, to another leaf if this one is full; its spot.
    fn append_slowly(&mut self, tree: Tree, end: Spot, stored: &Stored<'_>) -> Spot {
        let form = self.forms[tree as usize];
        let bytes = self.make_entry(form, stored, end.page);
        let node = self.view().page(end.page);
        if node.front().free_bytes(form.slot) >= bytes.len() + form.slot {
            let tag = self.tag_in(end.page, stored.hash);
            self.put_in(end.page, end.index, &bytes, tag);
            return end;
        }
        let separator = match form.slot {
            4 => Some(stored.hash.to_be_bytes().to_vec()),
            _ => {
                let last = node.entry(node.len() - 1, form).bytes();
                let item = |bytes| Item {
                    bytes: Cow::Borrowed(bytes),
                    tag: 0,
                };
                self.separator(&item(last), &item(&bytes), form)
            }
        };
        let front = Front::empty(Kind::Leaf, tree, node.up());
        let right = self.allocate();
        self.write(page_at(right), &front.bytes());
        let tag = self.tag_in(right, stored.hash);
        self.put_in(right, 0, &bytes, tag);
        self.adopt_parts(right, form);
        self.add_sibling(tree, end.page, right, separator.as_deref());
        Spot::at(right, 0)
    }
}
