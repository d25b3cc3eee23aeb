//! Sequence: elements by position, in the first tree.

use crate::bytes::Bytes;
use crate::edit::{Collision, Edit, Stored};
use crate::view::{Spot, Tree};

impl<V: Bytes> Edit<'_, V> {
    /// Adds an element before the one at a spot.
    ///
    /// # Errors
    /// None: there are no hashes.
    pub fn insert_element(&mut self, spot: Spot, element: &[u8]) -> Result<(), Collision> {
        self.insert(Tree::First, spot, &stored(element))
    }

    /// Puts another element in the place of one.
    ///
    /// # Errors
    /// As [`Edit::insert_element`].
    pub fn replace_element(&mut self, spot: Spot, element: &[u8]) -> Result<(), Collision> {
        self.replace(Tree::First, spot, &stored(element))
    }
}

fn stored(element: &[u8]) -> Stored<'_> {
    Stored {
        lead: &[],
        texts: [element, &[]],
        tail: None,
        tag: 0,
    }
}
