//! Watched: the keys that let one client's next transaction fail if they change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::client::Client;
use crate::execute::resp::failure::Failure;
use crate::limits::{ENTRY_BYTES, WATCHED_BYTES_MAX};
use crate::state::State;
use crate::watching::Mark;

/// One client's watched keys, each with its database.
#[derive(Debug, Default)]
pub(in crate::execute::resp) struct Watched {
    keys: BTreeSet<(u32, Box<[u8]>)>,
    bytes: usize,
    mark: Arc<Mark>,
}

impl Watched {
    /// Watches one more key.
    ///
    /// # Errors
    /// That there are too many.
    pub(in crate::execute::resp) fn add(
        &mut self,
        key: &[u8],
        database: u32,
        client: &Client,
        state: &State,
    ) -> Result<(), Failure> {
        let cost = key.len() + ENTRY_BYTES;
        let entry = (database, key.into());
        if self.keys.contains(&entry) {
            return Ok(());
        }
        if self.bytes + cost > WATCHED_BYTES_MAX {
            return Err(Failure::text("ERR too many watched keys"));
        }
        self.bytes += cost;
        self.keys.insert(entry);
        client
            .counts
            .watched
            .store(self.keys.len(), Ordering::Relaxed);
        state
            .observer
            .watch(key, database, &self.mark, &state.cache);
        Ok(())
    }

    /// Bytes of memory that they take.
    pub(in crate::execute::resp) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether one of the keys has changed, or its deadline has passed.
    pub(in crate::execute::resp) fn has_changed(&self, state: &State) -> bool {
        for (database, key) in &self.keys {
            state.observer.meet(key, *database, &state.cache);
        }
        self.mark.is_set()
    }

    /// Forgets all keys.
    pub(in crate::execute::resp) fn end(&mut self, client: &Client, state: &State) {
        if self.keys.is_empty() {
            return;
        }
        for (database, key) in &self.keys {
            state.observer.unwatch(key, *database, &self.mark);
        }
        *self = Watched::default();
        client.counts.watched.store(0, Ordering::Relaxed);
    }
}
