//! The engine's contract as a map: what a cache that never evicts would answer.

use std::collections::HashMap;

/// An item as the model keeps it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u32,
    pub(crate) kind: u8,
    /// `None` = never.
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) version: u64,
    pub(crate) stale: bool,
    pub(crate) lease_until_ms: u64,
    pub(crate) fetched: bool,
}

impl Entry {
    /// What a lookup leaves for the value that its client computes.
    pub(crate) fn placeholder(deadline_ms: u64, version: u64, lease_until_ms: u64) -> Entry {
        Entry {
            deadline_ms: Some(deadline_ms),
            version,
            lease_until_ms,
            ..Entry::default()
        }
    }
}

/// Items by key, and the time.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) entries: HashMap<Vec<u8>, Entry>,
    pub(crate) now_ms: u64,
    pub(crate) flush_at_ms: Option<u64>,
    versions: u64,
}

impl Model {
    /// An empty model at a moment.
    pub(crate) fn starting_at(now_ms: u64) -> Model {
        Model {
            now_ms,
            ..Model::default()
        }
    }

    /// Removes what is over at the present time.
    pub(crate) fn settle(&mut self) {
        let now = self.now_ms;
        if self.flush_at_ms.is_some_and(|at| at <= now) {
            self.flush_at_ms = None;
            self.entries.clear();
        }
        self.entries
            .retain(|_, entry| entry.deadline_ms.is_none_or(|at| at > now));
    }

    /// The live entry of a key.
    pub(crate) fn live(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now_ms;
        if self.flush_at_ms.is_some_and(|at| at <= now) {
            self.settle();
        }
        let entry = self.entries.get(key)?;
        if entry.deadline_ms.is_some_and(|at| at <= now) {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }

    /// A version never used before.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }
}
