//! Plan: how many pages changes need at most, before they are made.

use std::collections::HashMap;

use crate::PAGE_BYTES;
use crate::entry::long_of;
use crate::page::{Kind, NONE, PART_BYTES_MAX, SPACE_BYTES};
use crate::view::{Spot, Tree, View};

/// Least bytes that are in a leaf which came of a split: half of what is too much for a page, less
/// half of the longest entry.
const SPLIT_BYTES_MIN: usize = SPACE_BYTES / 4;
/// Bytes of an entry beside its texts: lead, tail, lengths, slot.
const BESIDE_BYTES_MAX: usize = 8 + 8 + 5 + 5 + 4;
/// Bytes that stand for a long text.
const LONG_BYTES: usize = 4;

/// Entries that are to be added to a value, or to become longer.
#[derive(Debug, Default)]
pub struct Plan {
    /// Pages of long texts.
    parts: usize,
    /// Entries and bytes that each leaf gets.
    leaves: HashMap<(u8, u32), (usize, usize)>,
}

impl Plan {
    /// Adds an entry that comes to the leaf of a spot.
    pub fn add(&mut self, tree: Tree, spot: Spot, texts: [&[u8]; 2]) {
        let mut bytes = BESIDE_BYTES_MAX;
        for (text, is_long) in texts.into_iter().zip(long_of(texts)) {
            if is_long {
                self.parts += text.len().div_ceil(PART_BYTES_MAX);
            }
            bytes += if is_long { LONG_BYTES } else { text.len() };
        }
        let leaf = self.leaves.entry((tree as u8, spot.page)).or_default();
        *leaf = (leaf.0 + 1, leaf.1 + bytes);
    }

    /// Bytes that the value needs behind its end.
    #[must_use]
    pub fn bytes(&self, view: Option<&View<'_>>) -> usize {
        let mut new_leaves = 0;
        for (&(_, page), &(entries, bytes)) in &self.leaves {
            let free = match view {
                Some(view) if page != NONE => free_bytes(view, page),
                _ => 0,
            };
            if bytes > free {
                let content = SPACE_BYTES - free + bytes;
                // Each entry splits a leaf once at most; the first one may make a root.
                new_leaves += (content / SPLIT_BYTES_MIN + 1).min(entries + 1);
            }
        }
        let pages = view.map_or(0, |view| view.pages() as usize);
        let new_inner = match new_leaves {
            0 => 0,
            // Each new leaf may split the node above it; and there is a way up for each tree.
            leaves => leaves.min(pages / 8 + 2 + leaves / 8) + 2 * DEPTH_MAX,
        };
        (self.parts + new_leaves + new_inner) * PAGE_BYTES
    }
}

/// Inner nodes between a root and a leaf, at most: each has eight children or more.
const DEPTH_MAX: usize = 8;

fn free_bytes(view: &View<'_>, page: u32) -> usize {
    let node = view.page(page);
    debug_assert_eq!(node.kind(), Kind::Leaf);
    let slot = view.form(Tree::of(node.0[1])).slot;
    node.front().free_bytes(slot)
}
