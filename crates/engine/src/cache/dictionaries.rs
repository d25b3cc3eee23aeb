//! Dictionaries: those of compressed values that are saved beside memory that outlives the process.
//!
//! A dictionary is written before any value is compressed with it, and removed when no item needs
//! it any more. So all compressed values of a killed process can be read.
//!
//! Why: docs/decisions/0087. Tests: tests/compress.rs.

use std::sync::Arc;

use crate::base::serialize::{Deserializer, Serialize, Serializer, serialize};
use crate::base::space::Space;
use crate::state::{DICTIONARIES_MAX, StateDir};

/// A dictionary as it is written.
pub(super) struct Saved {
    /// Grows with each dictionary of a cache: of two of one family the later one is in use.
    pub(super) order: u64,
    pub(super) space: Space,
    pub(super) prefix: Vec<u8>,
    /// Bytes of the sample's values, plain and packed.
    pub(super) sample: (usize, usize),
    pub(super) bytes: Vec<u8>,
}

serialize!(Saved {
    order,
    space,
    prefix,
    sample,
    bytes
});

/// The saved dictionaries of a cache.
#[derive(Debug)]
pub(super) struct SavedDictionaries {
    dir: Arc<StateDir>,
    /// The number of the memory.
    id: u64,
}

impl SavedDictionaries {
    /// Those of the memory with this number, in this directory.
    pub(super) fn new(dir: Arc<StateDir>, id: u64) -> SavedDictionaries {
        SavedDictionaries { dir, id }
    }

    /// All that can be read, with their numbers, in the order in which they were made.
    pub(super) fn read(&self) -> Vec<(u8, Saved)> {
        let read = |number| {
            let bytes = self.dir.read_dictionary(self.id, number)?;
            let saved = Saved::deserialize(&mut Deserializer::of(&bytes))?;
            Some((number, saved))
        };
        let mut all: Vec<_> = (0..DICTIONARIES_MAX as u8).filter_map(read).collect();
        all.sort_unstable_by_key(|(_, saved)| saved.order);
        all
    }

    /// Leaves a dictionary for the next process; whether that could be done.
    pub(super) fn write(&self, number: u8, dictionary: &Saved) -> bool {
        let mut out = Serializer::default();
        dictionary.serialize(&mut out);
        self.dir.write_dictionary(self.id, number, &out.bytes)
    }

    /// Deletes a dictionary: no item needs it.
    pub(super) fn remove(&self, number: usize) {
        self.dir.remove_dictionary(number as u8);
    }
}
