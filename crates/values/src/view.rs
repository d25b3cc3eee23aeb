//! View: a value that is read.
//!
//! ```text
//! head   [255 4][pages 4][roots 4 + 4][elements of the trees 8 + 8][seed 8][words of the type 16]
//!        [1 once there was a long text][1 if members of a set may have deadlines][0 6]
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use cellar_engine::prefetch;

use crate::bytes::{u32_at, u64_at};
use crate::entry::{Entry, Form, NewEntry, Text};
use crate::page::{Kind, NONE, Page, Tree};
use crate::{HEAD_BYTES, PAGE_BYTES};

const MAGIC: [u8; 4] = [255; 4];
pub(crate) const PAGES_AT: usize = 4;
pub(crate) const ROOTS_AT: usize = 8;
pub(crate) const COUNTS_AT: usize = 16;
pub(crate) const SEED_AT: usize = 32;
pub(crate) const WORDS_AT: usize = 40;
/// Offset in the head of the flag that the value has, or has had, long texts.
pub(crate) const HAS_PARTS_AT: usize = 56;

/// Offset in the head of the flag that members of a set may have deadlines.
pub(crate) const IS_TIMED_AT: usize = 57;

/// Whether a value of a collection is made of pages; that of a packed one begins with other bytes.
#[must_use]
pub fn is_paged(value: &[u8]) -> bool {
    value.len() > HEAD_BYTES && value[..4] == MAGIC
}

/// The head of a value without pages.
pub(crate) fn new_head(seed: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[ROOTS_AT..COUNTS_AT].copy_from_slice(&[255; 8]);
    head[SEED_AT..WORDS_AT].copy_from_slice(&seed.to_le_bytes());
    head
}

/// Where an entry is, or would be; good until the value changes.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    pub(crate) page: u32,
    pub(crate) index: usize,
    /// The page's index among its parent's children when it was found: a hint, which is checked.
    pub(crate) child: u16,
}

impl PartialEq for Spot {
    fn eq(&self, other: &Spot) -> bool {
        (self.page, self.index) == (other.page, other.index)
    }
}

impl Eq for Spot {}

impl Spot {
    /// The spot at an index of a page.
    pub(crate) fn at(page: u32, index: usize) -> Spot {
        Spot {
            page,
            index,
            child: 0,
        }
    }

    /// The spot as a number that is not zero.
    #[must_use]
    pub fn to_number(self) -> usize {
        usize::from(self.child) << 48 | (self.page as usize) << 16 | (self.index + 1)
    }

    /// The spot of a number.
    #[must_use]
    pub fn of_number(number: usize) -> Spot {
        Spot {
            page: (number >> 16) as u32,
            index: (number & 0xffff) - 1,
            child: (number >> 48) as u16,
        }
    }
}

/// A value that is read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) forms: [Form; 2],
}

impl<'a> View<'a> {
    /// The value in these bytes, whose trees have entries of these forms.
    #[must_use]
    pub fn of(bytes: &'a [u8], forms: [Form; 2]) -> View<'a> {
        View { bytes, forms }
    }

    /// How many entries a tree has.
    #[must_use]
    pub fn len(&self, tree: Tree) -> usize {
        u64_at(self.bytes, COUNTS_AT + tree as usize * 8) as usize
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self, tree: Tree) -> bool {
        self.len(tree) == 0
    }

    /// The seed of the hashes of its members.
    #[must_use]
    pub fn seed(&self) -> u64 {
        u64_at(self.bytes, SEED_AT)
    }

    /// Whether the value may have long texts.
    #[inline]
    pub(crate) fn has_parts(&self) -> bool {
        self.bytes[HAS_PARTS_AT] != 0
    }

    pub(crate) fn pages(&self) -> u32 {
        u32_at(self.bytes, PAGES_AT)
    }

    pub(crate) fn root(&self, tree: Tree) -> u32 {
        u32_at(self.bytes, ROOTS_AT + tree as usize * 4)
    }

    #[inline]
    pub(crate) fn page(&self, page: u32) -> Page<'a> {
        let at = page_at(page);
        Page(&self.bytes[at..at + PAGE_BYTES])
    }

    #[inline]
    pub(crate) fn form(&self, tree: Tree) -> Form {
        self.forms[tree as usize]
    }

    /// The entry at a spot.
    ///
    /// # Panics
    /// If none is there.
    #[must_use]
    pub fn entry(&self, spot: Spot) -> Entry<'a> {
        let page = self.page(spot.page);
        page.entry(spot.index, self.form(page.tree()))
    }

    /// The bytes of a text. Those of a long one are copied.
    #[must_use]
    pub fn bytes_of(&self, text: Text<'a>) -> Cow<'a, [u8]> {
        match text.page {
            None => Cow::Borrowed(text.inline),
            Some(first) => {
                let mut bytes = Vec::with_capacity(text.len);
                for part in self.parts(first) {
                    bytes.extend_from_slice(part);
                }
                Cow::Owned(bytes)
            }
        }
    }

    /// Whether a text has these bytes.
    #[inline]
    #[must_use]
    pub fn is_text(&self, text: Text<'_>, bytes: &[u8]) -> bool {
        if text.len != bytes.len() {
            return false;
        }
        match text.page {
            None => text.inline == bytes,
            Some(_) => self.compare_text(text, bytes).is_eq(),
        }
    }

    /// How a text compares to bytes.
    pub(crate) fn compare_text(&self, text: Text<'_>, bytes: &[u8]) -> Ordering {
        let Some(first) = text.page else {
            return text.inline.cmp(bytes);
        };
        let mut rest = bytes;
        for part in self.parts(first) {
            let len = part.len().min(rest.len());
            let (same, behind) = rest.split_at(len);
            match part[..len].cmp(same) {
                Ordering::Equal if part.len() > len => return Ordering::Greater,
                Ordering::Equal => rest = behind,
                other => return other,
            }
        }
        if rest.is_empty() {
            Ordering::Equal
        } else {
            Ordering::Less
        }
    }

    /// The parts of a long text.
    pub(crate) fn parts(&self, first: u32) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (view, mut next) = (*self, first);
        std::iter::from_fn(move || {
            (next != NONE).then(|| {
                let page = view.page(next);
                next = page.next_part();
                page.part()
            })
        })
    }

    /// The first entry; the spot behind the last one if there is none.
    #[must_use]
    pub fn first(&self, tree: Tree) -> Spot {
        let page = self.first_leaf(self.root(tree));
        Spot::at(page, 0)
    }

    /// The first leaf below a node.
    pub(crate) fn first_leaf(&self, mut page: u32) -> u32 {
        while page != NONE && self.page(page).kind() == Kind::Inner {
            page = self.page(page).child(0).page;
        }
        page
    }

    /// The last leaf of a tree.
    pub(crate) fn last_leaf(&self, tree: Tree) -> u32 {
        let mut page = self.root(tree);
        while page != NONE && self.page(page).kind() == Kind::Inner {
            let node = self.page(page);
            page = node.child(node.len() - 1).page;
        }
        page
    }

    /// The spot of the entry at this one or, if none is there, of the next; none behind the last.
    #[must_use]
    pub fn settled(&self, spot: Spot) -> Option<Spot> {
        if spot.page == NONE {
            return None;
        }
        if spot.index < self.page(spot.page).len() {
            return Some(spot);
        }
        self.neighbour(spot, true)
    }

    /// The spot behind one.
    #[must_use]
    pub fn next(&self, spot: Spot) -> Spot {
        Spot {
            index: spot.index + 1,
            ..spot
        }
    }

    /// The spot of the entry before this one.
    #[must_use]
    pub fn before(&self, spot: Spot) -> Option<Spot> {
        if spot.page == NONE {
            return None;
        }
        if spot.index > 0 {
            return Some(Spot {
                index: spot.index - 1,
                ..spot
            });
        }
        self.neighbour(spot, false)
    }

    /// The spot behind the last entry.
    #[must_use]
    pub fn end(&self, tree: Tree) -> Spot {
        let page = self.last_leaf(tree);
        let index = if page == NONE {
            0
        } else {
            self.page(page).len()
        };
        Spot::at(page, index)
    }

    /// The first spot of the leaf behind that of a spot, or the last one of the leaf before it. The
    /// processor is asked to load the leaf after that one.
    pub(crate) fn neighbour(&self, spot: Spot, is_next: bool) -> Option<Spot> {
        let (mut page, mut index) = (spot.page, None);
        loop {
            let up = self.page(page).up();
            if up == NONE {
                return None;
            }
            let parent = self.page(up);
            let own = index.get_or_insert_with(|| self.index_in(up, spot));
            let sibling = match is_next {
                true => Some(*own + 1).filter(|&index| index < parent.len()),
                false => own.checked_sub(1),
            };
            let Some(sibling) = sibling else {
                index = match self.page(up).up() {
                    NONE => return None,
                    above => Some(self.index_of(above, up)),
                };
                page = up;
                continue;
            };
            let ahead = match is_next {
                true => sibling + 1,
                false => sibling.wrapping_sub(1),
            };
            if ahead < parent.len() {
                let at = page_at(parent.child_page(ahead));
                prefetch(&self.bytes[at..at + PAGE_BYTES]);
            }
            let (mut page, mut child) = (parent.child_page(sibling), sibling);
            while self.page(page).kind() == Kind::Inner {
                let node = self.page(page);
                child = if is_next { 0 } else { node.len() - 1 };
                page = node.child_page(child);
            }
            let index = match is_next {
                true => 0,
                false => self.page(page).len() - 1,
            };
            // A page has fewer children than that.
            let child = child as u16;
            return Some(Spot { page, index, child });
        }
    }

    /// The index of a spot's page among its parent's children.
    pub(crate) fn index_in(&self, parent: u32, spot: Spot) -> usize {
        let (node, hint) = (self.page(parent), usize::from(spot.child));
        match hint < node.len() && node.child_page(hint) == spot.page {
            true => hint,
            false => self.index_of(parent, spot.page),
        }
    }

    /// Which child of a node a page is.
    pub(crate) fn index_of(&self, parent: u32, page: u32) -> usize {
        let found = self.page(parent).index_of_child(page);
        found.expect("a page is a child of the node that it names")
    }

    /// The entry of a tree at the spot of a number, and the number of the spot after it. The number
    /// zero means the first spot. Cost: does not depend on the number of entries.
    pub(crate) fn entry_at(&self, tree: Tree, number: usize) -> Option<(Entry<'a>, usize)> {
        let mut spot = match number {
            0 => self.first(tree),
            number => Spot::of_number(number),
        };
        if spot.page == NONE {
            return None;
        }
        let mut page = self.page(spot.page);
        if spot.index >= page.len() {
            spot = self.neighbour(spot, true)?;
            page = self.page(spot.page);
        }
        let entry = page.entry(spot.index, self.form(tree));
        Some((entry, self.next(spot).to_number()))
    }

    /// The entries from a spot on, with their spots.
    pub fn iter_from(&self, spot: Spot) -> impl Iterator<Item = (Spot, Entry<'a>)> + use<'a> {
        let (view, mut at) = (*self, spot);
        std::iter::from_fn(move || {
            let spot = view.settled(at)?;
            at = view.next(spot);
            Some((spot, view.entry(spot)))
        })
    }

    /// The entries before a spot, the nearest first.
    pub fn iter_back(&self, spot: Spot) -> impl Iterator<Item = (Spot, Entry<'a>)> + use<'a> {
        let (view, mut at) = (*self, spot);
        std::iter::from_fn(move || {
            at = view.before(at)?;
            Some((at, view.entry(at)))
        })
    }

    /// The numbers of the entries that are this one, in the order of a tree whose entries have one
    /// text and nothing else. Cost: a comparison of bytes for each entry.
    pub(crate) fn ranks_of<'b>(
        &self,
        tree: Tree,
        text: &'b [u8],
    ) -> impl Iterator<Item = usize> + use<'a, 'b> {
        let (view, form) = (*self, self.form(tree));
        let entry = NewEntry::make(form, &[], [text, &[]], None);
        let is_it = move |page: Page<'a>, index: usize| match entry.long[0] {
            Some(_) => view.is_text(page.text(index, form), text),
            // An entry begins with its length.
            None => page.0[page.begin(index, form.slot)..].starts_with(&entry.bytes),
        };
        let first = view.first(tree);
        let (mut at, mut before) = ((first.page != NONE).then_some(first), 0);
        std::iter::from_fn(move || {
            loop {
                let spot = at?;
                let page = view.page(spot.page);
                if let Some(index) = (spot.index..page.len()).find(|&index| is_it(page, index)) {
                    at = Some(view.next(Spot { index, ..spot }));
                    return Some(before + index);
                }
                before += page.len();
                at = view.neighbour(spot, true);
            }
        })
    }

    /// All entries of a tree in its order.
    pub fn iter(&self, tree: Tree) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let entries = self.iter_from(self.first(tree));
        entries.map(|(_, entry)| entry)
    }

    /// How many entries come before a spot.
    #[must_use]
    pub fn rank(&self, spot: Spot) -> usize {
        if spot.page == NONE {
            return 0;
        }
        let (mut rank, mut at) = (spot.index, spot);
        loop {
            let up = self.page(at.page).up();
            if up == NONE {
                return rank;
            }
            rank += self.count_before(up, self.index_in(up, at));
            at = Spot::at(up, 0);
        }
    }

    /// How many entries are below the children of a node before this one; counted from the nearer
    /// end.
    fn count_before(&self, page: u32, index: usize) -> usize {
        let node = self.page(page);
        let count = |children: Range<usize>| children.map(|child| node.count(child)).sum::<usize>();
        if index <= node.len() / 2 {
            return count(0..index);
        }
        let total = match node.up() {
            NONE => self.len(node.tree()),
            up => self.page(up).count(self.index_of(up, page)),
        };
        total - count(index..node.len())
    }

    /// The spot of the entry with a rank, or the spot after the last entry. Cost: O(log n), least
    /// at both ends.
    #[must_use]
    pub fn at(&self, tree: Tree, rank: usize) -> Spot {
        let mut spot = Spot::at(self.root(tree), rank);
        let mut total = self.len(tree);
        while spot.page != NONE && self.page(spot.page).kind() == Kind::Inner {
            let node = self.page(spot.page);
            let last = node.len() - 1;
            let (mut child, mut before) = (0, 0);
            if spot.index < total / 2 {
                while child < last && spot.index - before >= node.count(child) {
                    before += node.count(child);
                    child += 1;
                }
            } else {
                (child, before) = (last, total - node.count(last));
                while child > 0 && spot.index < before {
                    child -= 1;
                    before -= node.count(child);
                }
            }
            total = node.count(child);
            spot = Spot {
                page: node.child_page(child),
                index: spot.index - before,
                child: child as u16,
            };
        }
        spot
    }

    /// Where to insert an entry that will have this rank: behind the last one at most.
    pub(crate) fn insertion(&self, rank: usize) -> Spot {
        match rank < self.len(Tree::First) {
            true => self.at(Tree::First, rank),
            false => self.end(Tree::First),
        }
    }

    /// Descends to a leaf and returns its first spot. In each node it takes the last child for
    /// which `is_at_or_before` holds, or the first child if it holds for none.
    #[inline]
    pub(crate) fn leaf_by(
        &self,
        tree: Tree,
        is_at_or_before: impl Fn(Page<'a>, usize) -> bool,
    ) -> Spot {
        let (mut page, mut child) = (self.root(tree), 0);
        while page != NONE && self.page(page).kind() == Kind::Inner {
            let node = self.page(page);
            let (mut low, mut high) = (1, node.len());
            while low < high {
                let middle = usize::midpoint(low, high);
                if is_at_or_before(node, middle) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            (page, child) = (node.child_page(low - 1), low as u16 - 1);
        }
        Spot {
            page,
            index: 0,
            child,
        }
    }
}

/// Where a page begins in the value.
#[inline]
pub(crate) fn page_at(page: u32) -> usize {
    HEAD_BYTES + page as usize * PAGE_BYTES
}
