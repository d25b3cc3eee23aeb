//! Pages: how a value gets and loses pages, and updates of references to a page that moves.

use crate::PAGE_BYTES;
use crate::edit::Edit;
use crate::page::{CHILD_SLOT_BYTES, FRONT_BYTES, Kind, NONE, PART_AT, PART_BYTES_MAX, Page, Tree};
use crate::view::{HAS_PARTS_AT, PAGES_AT, ROOTS_AT, page_at};
use crate::{HEAD_BYTES, entry::Form};
use cellar_engine::ValueBytes;

/// Offset of `up` in a page.
const UP_AT: usize = 8;

impl<V: ValueBytes + ?Sized> Edit<'_, V> {
    /// A new page at the end, whose bytes are anything.
    pub(crate) fn allocate(&mut self) -> u32 {
        let page = self.view().pages();
        self.value.resize(page_at(page + 1));
        self.write(PAGES_AT, &(page + 1).to_le_bytes());
        page
    }

    /// Frees pages, which nothing names any more; the last pages take their places.
    pub(crate) fn free(&mut self, mut pages: Vec<u32>) {
        // In descending order, so that the last page is never one of those that are still to be
        // freed.
        pages.sort_unstable_by(|one, other| other.cmp(one));
        for page in pages {
            let last = self.view().pages() - 1;
            if page != last {
                self.move_page(last, page);
            }
            self.value.resize(HEAD_BYTES + last as usize * PAGE_BYTES);
            self.write(PAGES_AT, &last.to_le_bytes());
        }
    }

    /// Copies a page and makes all references to it point to the copy.
    fn move_page(&mut self, from: u32, to: u32) {
        let bytes = self.view().page(from).copied();
        self.write(page_at(to), &bytes);
        let page = Page(&bytes);
        let up = page.up();
        match page.kind() {
            Kind::Part => self.rename_part(from, to, page),
            kind => {
                let tree = page.tree();
                if up == NONE {
                    self.set_root(tree, to);
                } else {
                    let index = self.view().index_of(up, from);
                    let at = self.view().page(up).begin(index, CHILD_SLOT_BYTES);
                    self.write(page_at(up) + at, &to.to_le_bytes());
                }
                if kind == Kind::Inner {
                    self.adopt(to);
                } else {
                    self.adopt_parts(to, self.forms[tree as usize]);
                }
            }
        }
    }

    /// Updates the references to a moved part in the page or entry before it, and in the part
    /// behind it.
    fn rename_part(&mut self, from: u32, to: u32, page: Page<'_>) {
        let up = page.up();
        let before = self.view().page(up);
        if before.kind() == Kind::Part {
            self.write(page_at(up) + FRONT_BYTES, &to.to_le_bytes());
        } else {
            let form = self.forms[before.tree() as usize];
            let mut places = (0..before.len()).flat_map(|index| {
                let begin = before.begin(index, form.slot);
                let texts = before.entry(index, form).long_texts();
                texts.map(move |(at, first)| (begin + at, first))
            });
            let place = places.find(|&(_, first)| first == from);
            let (at, _) = place.expect("an entry names the part that names its leaf");
            drop(places);
            self.write(page_at(up) + at, &to.to_le_bytes());
        }
        if page.next_part() != NONE {
            self.set_up(page.next_part(), to);
        }
    }

    pub(crate) fn set_root(&mut self, tree: Tree, page: u32) {
        self.write(ROOTS_AT + tree as usize * 4, &page.to_le_bytes());
    }

    pub(crate) fn set_up(&mut self, page: u32, up: u32) {
        self.write(page_at(page) + UP_AT, &up.to_le_bytes());
    }

    /// Has the children of an inner node name it as their parent.
    pub(crate) fn adopt(&mut self, page: u32) {
        for index in 0..self.view().page(page).len() {
            let child = self.view().page(page).child(index).page;
            self.set_up(child, page);
        }
    }

    /// Has the long texts of a leaf name it as where they are named.
    pub(crate) fn adopt_parts(&mut self, leaf: u32, form: Form) {
        if !self.view().has_parts() {
            return;
        }
        for index in 0..self.view().page(leaf).len() {
            let mut texts = self.view().page(leaf).entry(index, form).long_texts();
            let firsts = [texts.next(), texts.next()];
            drop(texts);
            for (_, first) in firsts.into_iter().flatten() {
                self.set_up(first, leaf);
            }
        }
    }

    /// Writes a long text into pages of its own; returns the first, whose `up` the caller has to
    /// set.
    pub(crate) fn write_parts(&mut self, text: &[u8]) -> u32 {
        self.write(HAS_PARTS_AT, &[1]);
        let (mut first, mut before) = (NONE, NONE);
        for part in text.chunks(PART_BYTES_MAX) {
            let page = self.allocate();
            let mut front = [0; PART_AT];
            front[0] = Kind::Part as u8;
            front[2..4].copy_from_slice(&(part.len() as u16).to_le_bytes());
            front[UP_AT..FRONT_BYTES].copy_from_slice(&before.to_le_bytes());
            front[FRONT_BYTES..].copy_from_slice(&NONE.to_le_bytes());
            self.write(page_at(page), &front);
            self.write(page_at(page) + PART_AT, part);
            if before == NONE {
                first = page;
            } else {
                self.write(page_at(before) + FRONT_BYTES, &page.to_le_bytes());
            }
            before = page;
        }
        first
    }

    /// The pages of a long text.
    pub(crate) fn part_pages(&self, first: u32, pages: &mut Vec<u32>) {
        let mut next = first;
        while next != NONE {
            pages.push(next);
            next = self.view().page(next).next_part();
        }
    }
}
