//! Page: the bytes of a node, or of a part of a long text.
//!
//! ```text
//! node   [kind 1][tree + 2 x tag shift 1][entries 2][heap begins 2][unused in heap 2][up 4]
//!        [slot]... free [heap]
//! part   [kind 1][tree 1][bytes 2][0][up 4] [next 4][bytes]
//! slot   [entry begins 2], in a leaf by hash [tag: 16 bits of the hash 2] as well
//! child  an inner node's entry: [page 4][elements 4][separator bytes 1][separator]
//! ```
//!
//! `up` is the node's parent, or the page before a part. Entries are written from the end of the
//! page towards its slots.

use crate::PAGE_BYTES;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::entry::{Entry, Form, Text, TextHead};

/// Bytes before the slots.
pub(crate) const FRONT_BYTES: usize = 12;
/// Where the bytes of a part of a long text begin, and how many there may be.
pub(crate) const PART_AT: usize = 16;
pub(crate) const PART_BYTES_MAX: usize = PAGE_BYTES - PART_AT;
/// Bytes of slots and entries that a node has space for.
pub(crate) const SPACE_BYTES: usize = PAGE_BYTES - FRONT_BYTES;
/// Most bytes of a node after a merge.
pub(crate) const MERGED_BYTES_MAX: usize = SPACE_BYTES / 4 * 3;
/// No page.
pub(crate) const NONE: u32 = u32::MAX;
/// Offset of a child's element count in its entry, after the page number.
pub(crate) const COUNT_AT: usize = 4;
/// Bytes of a child's entry before its separator.
pub(crate) const CHILD_BYTES: usize = 9;
/// Bytes of a slot of an inner node.
pub(crate) const CHILD_SLOT_BYTES: usize = 2;
/// A separator that is too long to be stored: the first entry below the child is used instead.
pub(crate) const LOOK_BELOW: u8 = u8::MAX;
/// Longest separator that is stored.
pub(crate) const SEPARATOR_BYTES_MAX: usize = 200;

/// One of the two trees of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The first.
    First = 0,
    /// The second.
    Second = 1,
}

impl Tree {
    pub(crate) fn of(number: u8) -> Tree {
        match number {
            0 => Tree::First,
            _ => Tree::Second,
        }
    }
}

/// The type of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Leaf = 1,
    Inner = 2,
    Part = 3,
}

/// The beginning of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) kind: Kind,
    pub(crate) tree: Tree,
    /// How far hashes are shifted to the right for the tags of a leaf by hash; else zero.
    pub(crate) shift: u8,
    pub(crate) entries: usize,
    pub(crate) heap: usize,
    pub(crate) unused: usize,
    pub(crate) up: u32,
}

impl Front {
    /// A node without entries.
    pub(crate) fn empty(kind: Kind, tree: Tree, up: u32) -> Front {
        Front {
            kind,
            tree,
            shift: 0,
            entries: 0,
            heap: PAGE_BYTES,
            unused: 0,
            up,
        }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> [u8; FRONT_BYTES] {
        let [entries_0, entries_1] = (self.entries as u16).to_le_bytes();
        let [heap_0, heap_1] = (self.heap as u16).to_le_bytes();
        let [unused_0, unused_1] = (self.unused as u16).to_le_bytes();
        let [up_0, up_1, up_2, up_3] = self.up.to_le_bytes();
        let (kind, tree) = (self.kind as u8, self.tree as u8 | self.shift << 1);
        [
            kind, tree, entries_0, entries_1, heap_0, heap_1, unused_0, unused_1, up_0, up_1, up_2,
            up_3,
        ]
    }

    /// Free bytes, contiguous or not, with slots of `slot` bytes.
    pub(crate) fn free_bytes(&self, slot: usize) -> usize {
        self.heap + self.unused - FRONT_BYTES - self.entries * slot
    }

    /// Bytes of its slots and entries.
    pub(crate) fn used_bytes(&self, slot: usize) -> usize {
        SPACE_BYTES - self.free_bytes(slot)
    }
}

/// A page that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a>(pub(crate) &'a [u8]);

impl<'a> Page<'a> {
    /// A copy of its bytes.
    pub(crate) fn copied(self) -> [u8; PAGE_BYTES] {
        *self.0.first_chunk().expect("a page has so many bytes")
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self.0[0] {
            1 => Kind::Leaf,
            2 => Kind::Inner,
            _ => Kind::Part,
        }
    }

    /// The tree that a node belongs to.
    #[inline]
    pub(crate) fn tree(self) -> Tree {
        Tree::of(self.0[1] & 1)
    }

    /// How far hashes are shifted to the right for the tags of a leaf by hash.
    #[inline]
    pub(crate) fn shift(self) -> u8 {
        self.0[1] >> 1
    }

    #[inline]
    pub(crate) fn front(self) -> Front {
        Front {
            kind: self.kind(),
            tree: self.tree(),
            shift: self.shift(),
            entries: self.len(),
            heap: u16_at(self.0, 4),
            unused: u16_at(self.0, 6),
            up: self.up(),
        }
    }

    /// How many entries a node has; how many bytes a part.
    #[inline]
    pub(crate) fn len(self) -> usize {
        u16_at(self.0, 2)
    }

    #[inline]
    pub(crate) fn up(self) -> u32 {
        u32_at(self.0, 8)
    }

    /// The page behind a part.
    pub(crate) fn next_part(self) -> u32 {
        u32_at(self.0, FRONT_BYTES)
    }

    /// The bytes of a part.
    pub(crate) fn part(self) -> &'a [u8] {
        &self.0[PART_AT..PART_AT + self.len()]
    }

    /// Where an entry begins.
    #[inline]
    pub(crate) fn begin(self, index: usize, slot: usize) -> usize {
        u16_at(self.0, FRONT_BYTES + index * slot)
    }

    /// The tag of an entry of a leaf by hash.
    #[inline]
    pub(crate) fn tag(self, index: usize) -> u16 {
        u16_at(self.0, FRONT_BYTES + index * 4 + 2) as u16
    }

    /// The slots of a leaf by hash.
    #[inline]
    fn tagged_slots(self) -> &'a [[u8; 4]] {
        let slots = &self.0[FRONT_BYTES..FRONT_BYTES + self.len() * 4];
        slots.as_chunks::<4>().0
    }

    /// How many entries of a leaf by hash have tags before this one, in the order of differences of
    /// 16 bits with a sign, and how many have the same.
    #[inline]
    pub(crate) fn count_tags(self, tag: u16) -> (usize, usize) {
        let (mut before, mut same) = (0, 0);
        for slot in self.tagged_slots() {
            let difference = u16::from_le_bytes([slot[2], slot[3]]).wrapping_sub(tag) as i16;
            before += u16::from(difference < 0);
            same += u16::from(difference == 0);
        }
        (before.into(), same.into())
    }

    /// The first entry at or after an index with this tag.
    #[inline]
    pub(crate) fn next_with_tag(self, from: usize, tag: u16) -> Option<usize> {
        const SLOTS: usize = 8;
        let slots = self.tagged_slots();
        let has_tag = |slot: &[u8; 4]| u32::from_le_bytes(*slot) >> 16 == u32::from(tag);
        let mut at = from;
        // The compiler turns the comparisons of these slots into one.
        while let Some(some) = slots.get(at..at + SLOTS) {
            if some.iter().fold(false, |found, slot| found | has_tag(slot)) {
                break;
            }
            at += SLOTS;
        }
        let found = slots.get(at..)?.iter().position(has_tag);
        found.map(|index| at + index)
    }

    /// In a tree ordered by hash: the hash that separates a child from the one before it.
    #[inline]
    pub(crate) fn hash_before(self, index: usize) -> u64 {
        let at = self.begin(index, CHILD_SLOT_BYTES) + CHILD_BYTES;
        u64_at(self.0, at).swap_bytes()
    }

    /// The eight bytes before the texts of an entry, as a big-endian number.
    #[inline]
    pub(crate) fn lead(self, index: usize, slot: usize) -> u64 {
        u64_at(self.0, self.begin(index, slot)).swap_bytes()
    }

    /// The number of elements below a child.
    #[inline]
    pub(crate) fn count(self, index: usize) -> usize {
        u32_at(self.0, self.begin(index, CHILD_SLOT_BYTES) + COUNT_AT) as usize
    }

    /// The page of a child.
    #[inline]
    pub(crate) fn child_page(self, index: usize) -> u32 {
        u32_at(self.0, self.begin(index, CHILD_SLOT_BYTES))
    }

    /// An entry of a leaf.
    #[inline]
    pub(crate) fn entry(self, index: usize, form: Form) -> Entry<'a> {
        Entry {
            rest: &self.0[self.begin(index, form.slot)..],
            form,
        }
    }

    /// The first text of an entry of a leaf.
    #[inline]
    pub(crate) fn text(self, index: usize, form: Form) -> Text<'a> {
        let bytes = &self.0[self.begin(index, form.slot)..];
        Text::read(bytes, TextHead::read(bytes, form.lead))
    }

    /// A child of an inner node.
    #[inline]
    pub(crate) fn child(self, index: usize) -> Child<'a> {
        let bytes = &self.0[self.begin(index, CHILD_SLOT_BYTES)..];
        let (looks_below, len) = match bytes[CHILD_BYTES - 1] {
            LOOK_BELOW => (true, 0),
            len => (false, usize::from(len)),
        };
        Child {
            page: u32_at(bytes, 0),
            count: u32_at(bytes, 4),
            separator: (!looks_below).then(|| &bytes[CHILD_BYTES..CHILD_BYTES + len]),
        }
    }

    /// Which child of an inner node a page is.
    pub(crate) fn index_of_child(self, page: u32) -> Option<usize> {
        let end = FRONT_BYTES + self.len() * CHILD_SLOT_BYTES;
        let mut begins = self.0[FRONT_BYTES..end].chunks_exact(CHILD_SLOT_BYTES);
        let wanted = page.to_le_bytes();
        begins.position(|begin| {
            let at = usize::from(u16::from_le_bytes([begin[0], begin[1]]));
            self.0[at..at + 4] == wanted
        })
    }

    /// Bytes of an entry of any node.
    pub(crate) fn entry_bytes(self, index: usize, form: Form) -> usize {
        match self.kind() {
            Kind::Inner => CHILD_BYTES + self.child(index).separator.map_or(0, <[u8]>::len),
            _ => self.entry(index, form).bytes().len(),
        }
    }
}

/// A child of an inner node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child<'a> {
    pub(crate) page: u32,
    /// How many elements are below it.
    pub(crate) count: u32,
    /// All elements of the children before it come before this, and none of its own does; none if
    /// it is too long. That of the first child is not used.
    pub(crate) separator: Option<&'a [u8]>,
}

impl Child<'_> {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let separator = self.separator.unwrap_or(&[]);
        let mut bytes = Vec::with_capacity(CHILD_BYTES + separator.len());
        bytes.extend_from_slice(&self.page.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.push(match self.separator {
            Some(separator) => separator.len() as u8,
            None => LOOK_BELOW,
        });
        bytes.extend_from_slice(separator);
        bytes
    }
}
