//! Dictionaries: loads the dictionaries of compressed values that another process saved beside the
//! memory, and saves those of this process.
//!
//! A dictionary is written before any value is compressed with it, and removed when no item needs
//! it any more. So all compressed values of a killed process can be read.
//!
//! Why: docs/decisions/0087. Tests: tests/compress.rs.

use std::sync::Arc;

use super::Cache;
use super::training::{Family, Slot, State, Training};
use crate::clock::Instant;
use crate::compress::{Dictionary, Trained};
use crate::key::Hasher;
use crate::memory::Budget;
use crate::serialize::{Deserializer, Serialize, Serializer, serialize};
use crate::space::Space;
use crate::state::{DICTIONARIES_MAX, StateDir};
use crate::store::Store;

/// A dictionary as it is written.
struct Saved {
    /// Grows with each dictionary of a cache: of two of one family the later one is in use.
    order: u64,
    space: Space,
    prefix: Vec<u8>,
    /// Bytes of the sample's values, plain and packed.
    sample: (usize, usize),
    bytes: Vec<u8>,
}

serialize!(Saved {
    order,
    space,
    prefix,
    sample,
    bytes
});

impl Training {
    /// The dictionaries of the cache with the number `id`, given to the stores that hold its items.
    /// If the memory does not suffice for them, there are none.
    pub(super) fn restored(
        (dir, id): (&StateDir, u64),
        stores: &mut [Store],
        hasher: &Hasher,
        budget: &Budget,
        now: Instant,
    ) -> Training {
        let mut found = Vec::new();
        for number in 0..DICTIONARIES_MAX as u8 {
            let bytes = dir.read_dictionary(id, number);
            let saved = bytes.and_then(|bytes| Saved::deserialize(&mut Deserializer::of(&bytes)));
            if let Some(saved) = saved
                && let Some(dictionary) = Dictionary::of(&saved.bytes)
            {
                found.push((number, saved, dictionary));
            }
        }
        found.sort_unstable_by_key(|one| one.1.order);
        let mut state = State::default();
        for (number, saved, dictionary) in found {
            state.order = saved.order;
            state.add(number, Slot::of(dictionary));
            let family = Family::restored(saved.space, saved.prefix, number, saved.sample, now);
            state.families.insert(family.hash(hasher), family);
        }
        if state.slots.is_empty() {
            return Training::default();
        }
        state.marks_bytes = stores.iter().map(Store::packing_bytes).sum();
        if !budget.take(state.bytes()) {
            return Training::default();
        }
        state.generation = 1;
        let codecs = Arc::new(state.codecs());
        stores
            .iter_mut()
            .for_each(|store| store.set_codecs(&codecs));
        Training::with(state)
    }
}

impl Cache {
    /// Leaves a new dictionary for the next process; whether that could be done. There is nothing
    /// to do if the memory ends with this one.
    pub(super) fn save_dictionary(
        &self,
        number: u8,
        order: u64,
        family: &Family,
        trained: &Trained,
    ) -> bool {
        let Some(attached) = &self.attached else {
            return true;
        };
        let saved = Saved {
            order,
            space: family.space,
            prefix: family.prefix.to_vec(),
            sample: (trained.plain_bytes, trained.packed_bytes),
            bytes: trained.bytes.clone(),
        };
        let mut out = Serializer::default();
        saved.serialize(&mut out);
        attached
            .dir
            .write_dictionary(attached.id, number, &out.bytes)
    }

    /// Deletes a saved dictionary: no item needs it.
    pub(super) fn remove_dictionary(&self, number: usize) {
        if let Some(attached) = &self.attached {
            attached.dir.remove_dictionary(number as u8);
        }
    }
}
