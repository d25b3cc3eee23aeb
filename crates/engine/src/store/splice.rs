//! Splice: parts of a value that are written over where they lie.
//!
//! A value that somebody reads is never written over: then its item is copied first.

use super::{Located, Room, Store};
use crate::item::Spec;

impl Store {
    /// Whether an item of `spec` lies exactly where this one does, and nobody reads its value.
    pub(crate) fn keeps_its_place(&self, located: &Located, spec: &Spec) -> bool {
        let scale = self.log.segment(located.segment).scale();
        let old = self.spec_of(located);
        spec.header(scale).bytes().len() == old.header(scale).bytes().len()
            && spec.total_bytes(scale) == located.layout.total_bytes()
            && spec.deadline == located.layout.deadline
            && self.fits_in_place(located, spec)
    }

    /// Writes header and key of an item anew for which [`Store::keeps_its_place`] holds; its value
    /// stays where it is.
    pub(crate) fn rewrite_front(&mut self, located: &Located, spec: &Spec, key: &[u8]) -> Located {
        let room = Room {
            segment: located.segment,
            offset: located.layout.offset,
        };
        let layout = self.write_front(room, spec, key);
        Located { layout, ..*located }
    }

    /// Writes over a part of a value that nobody reads.
    ///
    /// # Panics
    /// If the part reaches beyond the value.
    pub(crate) fn write_value(&mut self, located: &Located, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= located.layout.value_bytes);
        self.log.write(located.layout.value_at() + at, bytes);
    }
}
