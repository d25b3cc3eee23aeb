//! Plan: how many pages changes need at most, before they are made.

use smallvec::SmallVec;

use crate::PAGE_BYTES;
use crate::entry::{entry_bytes, long_of};
use crate::page::{
    CHILD_BYTES, CHILD_SLOT_BYTES, Kind, MERGED_BYTES_MAX, NONE, PART_BYTES_MAX,
    SEPARATOR_BYTES_MAX, SPACE_BYTES, Tree,
};
use crate::view::{Spot, View};

/// Least bytes in a node after a split: half of the size that is too large for a page, less half of
/// the longest entry.
const SPLIT_BYTES_MIN: usize = SPACE_BYTES / 4;
/// Bytes of a child in an inner node.
const CHILD_BYTES_MAX: usize = CHILD_BYTES + SEPARATOR_BYTES_MAX + CHILD_SLOT_BYTES;

/// Growth of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Growing {
    tree: u8,
    page: u32,
    entries: usize,
    bytes: usize,
}

/// Entries that will be added to a value, or will become longer.
#[derive(Debug, Default)]
pub struct Plan {
    /// Pages of long texts.
    parts: usize,
    nodes: SmallVec<[Growing; 2]>,
    /// Whether no node gets more than one entry.
    is_single: bool,
    /// Whether nodes may be merged before they get all their entries.
    may_merge: bool,
}

impl Plan {
    /// The plan of a change that adds at most one entry to each tree.
    pub(crate) fn single() -> Plan {
        Plan {
            is_single: true,
            ..Plan::default()
        }
    }

    /// Records that entries are removed between added ones: their nodes may be merged.
    pub(crate) fn remove(&mut self) {
        self.may_merge = !self.is_single;
    }

    /// Adds an entry that comes to the leaf of a spot; in the place of the one that is there, if
    /// `replaces`.
    pub fn add(
        &mut self,
        view: &View<'_>,
        (tree, spot, replaces): (Tree, Spot, bool),
        texts: [&[u8]; 2],
        has_tail: bool,
    ) {
        let form = view.form(tree);
        for (text, is_long) in texts.into_iter().zip(long_of(texts)) {
            if is_long {
                self.parts += text.len().div_ceil(PART_BYTES_MAX);
            }
        }
        let old_bytes = match replaces {
            true => view.entry(spot).bytes().len() + form.slot,
            false => 0,
        };
        let bytes = entry_bytes(form, texts, has_tail) + form.slot;
        if bytes > old_bytes {
            self.grow(view, tree, spot, bytes - old_bytes);
        }
    }

    fn grow(&mut self, view: &View<'_>, tree: Tree, spot: Spot, bytes: usize) {
        let fits = || spot.page != NONE && bytes <= free_in(view, spot.page).0;
        if self.is_single && fits() {
            return;
        }
        self.nodes.push(Growing {
            tree: tree as u8,
            page: spot.page,
            entries: 1,
            bytes,
        });
    }

    /// Adds the bytes by which the entry at a spot grows.
    pub(crate) fn lengthen(&mut self, view: &View<'_>, tree: Tree, spot: Spot, bytes: usize) {
        self.grow(view, tree, spot, bytes);
    }

    /// Bytes that the value needs behind its end.
    #[must_use]
    #[inline]
    pub fn bytes(self, view: &View<'_>) -> usize {
        match self.nodes.is_empty() {
            true => self.parts * PAGE_BYTES,
            false => self.bytes_of_nodes(view),
        }
    }

    fn bytes_of_nodes(self, view: &View<'_>) -> usize {
        let mut pages = self.parts;
        let mut level = self.nodes;
        while !level.is_empty() {
            let mut above = SmallVec::new();
            for node in joined(level) {
                let (free, up) = match node.page {
                    NONE => (0, NONE),
                    page => free_in(view, page),
                };
                if node.bytes <= free && !self.may_merge {
                    continue;
                }
                // A node that took over a neighbour's entries has less space than it had.
                let before = match self.may_merge {
                    true => MERGED_BYTES_MAX.max(SPACE_BYTES - free),
                    false => SPACE_BYTES - free,
                };
                let content = before + node.bytes;
                // Each entry splits a node once at most; the first one of all makes a root.
                let new = (content / SPLIT_BYTES_MIN + 1).min(node.entries);
                pages += new + usize::from(up == NONE);
                if up == NONE {
                    // A new root has space for as many children as it gets here, or for some.
                    pages += new * CHILD_BYTES_MAX / SPACE_BYTES * 2;
                } else {
                    let bytes = new * CHILD_BYTES_MAX;
                    above.push(Growing {
                        page: up,
                        entries: new,
                        bytes,
                        ..node
                    });
                }
            }
            level = above;
        }
        pages * PAGE_BYTES
    }
}

/// Merges the growth of equal nodes.
fn joined(mut nodes: SmallVec<[Growing; 2]>) -> SmallVec<[Growing; 2]> {
    nodes.sort_unstable();
    nodes.dedup_by(|other, node| {
        let is_same = (other.tree, other.page) == (node.tree, node.page);
        if is_same {
            node.entries += other.entries;
            node.bytes += other.bytes;
        }
        is_same
    });
    nodes
}

/// Bytes that are free in a node, and its parent.
fn free_in(view: &View<'_>, page: u32) -> (usize, u32) {
    let node = view.page(page);
    let slot = match node.kind() {
        Kind::Inner => CHILD_SLOT_BYTES,
        _ => view.form(node.tree()).slot,
    };
    (node.front().free_bytes(slot), node.up())
}
