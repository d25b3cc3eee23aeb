//! Sequence: elements by position, in the first tree.

use cellar_engine::ValueBytes;

use crate::edit::{Edit, Stored};
use crate::page::Tree;
use crate::view::Spot;

impl<V: ValueBytes + ?Sized> Edit<'_, V> {
    /// Adds an element before the one at a spot.
    pub fn insert_element(&mut self, spot: Spot, element: &[u8]) {
        let added = self.insert(Tree::First, spot, &stored(element));
        debug_assert_eq!(added, Ok(()), "only hashes collide");
    }

    /// Puts another element in the place of one.
    pub fn replace_element(&mut self, spot: Spot, element: &[u8]) {
        let replaced = self.replace(Tree::First, spot, &stored(element));
        debug_assert_eq!(replaced, Ok(()), "only hashes collide");
    }
}

fn stored(element: &[u8]) -> Stored<'_> {
    Stored {
        lead: &[],
        texts: [element, &[]],
        tail: None,
        hash: 0,
    }
}
