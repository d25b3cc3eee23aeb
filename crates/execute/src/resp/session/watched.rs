//! Watched: the keys that let one client's next transaction fail if they change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_config::limits::{WATCHED_BYTES_MAX, entry_bytes};
use cellar_engine::WantedShards;
use cellar_shared::clients::client::Client;
use cellar_shared::keyspace::watching::Mark;
use cellar_shared::state::State;

use crate::resp::failure::Failure;

/// One client's watched keys, each with its database.
#[derive(Debug, Default)]
pub(in crate::resp) struct Watched {
    keys: BTreeSet<(u32, Box<[u8]>)>,
    bytes: usize,
    mark: Arc<Mark>,
    /// The number of flushes before the first of them was watched.
    flushes: u64,
}

impl Watched {
    /// Watches one more key.
    ///
    /// # Errors
    /// That the client watches too many.
    pub(in crate::resp) fn add(
        &mut self,
        key: &[u8],
        database: u32,
        client: &Client,
        state: &State,
    ) -> Result<(), Failure> {
        let cost = entry_bytes(key);
        let entry = (database, key.into());
        if self.keys.contains(&entry) {
            return Ok(());
        }
        if self.bytes + cost > WATCHED_BYTES_MAX {
            return Err(Failure::text("ERR too many watched keys"));
        }
        if self.keys.is_empty() {
            self.flushes = state.observer.flushes();
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

    /// Adds their shards to the claims of a transaction, which checks them.
    pub(in crate::resp) fn want(&self, wanted: &mut WantedShards, state: &State) {
        for (database, key) in &self.keys {
            let space = state.databases.space(*database);
            if let Ok(key) = state.cache.key_in(space, key) {
                state.cache.want(wanted, key);
            }
        }
    }

    /// Bytes of memory that they take.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether one of the keys has changed, or its deadline has passed.
    pub(in crate::resp) fn has_changed(&self, state: &State) -> bool {
        let observer = &state.observer;
        let has_flushed = observer.flushes() != self.flushes;
        let mut was_flushed = false;
        for (database, key) in &self.keys {
            let is_there = observer.meet(key, *database, &state.cache);
            was_flushed |=
                has_flushed && observer.was_flushed(key, *database, &self.mark, is_there);
        }
        self.mark.is_set() || was_flushed
    }

    /// Forgets all keys.
    pub(in crate::resp) fn end(&mut self, client: &Client, state: &State) {
        self.end_some(usize::MAX, client, state);
    }

    /// Unwatches at most `most` keys; returns how many. Until the last of them is removed the mark
    /// stays as it is.
    pub(in crate::resp) fn end_some(
        &mut self,
        most: usize,
        client: &Client,
        state: &State,
    ) -> usize {
        let mut ended = 0;
        while ended < most
            && let Some((database, key)) = self.keys.pop_first()
        {
            state.observer.unwatch(&key, database, &self.mark);
            self.bytes -= entry_bytes(&key);
            ended += 1;
        }
        if ended > 0 {
            let watched = &client.counts.watched;
            watched.store(self.keys.len(), Ordering::Relaxed);
            if self.keys.is_empty() {
                *self = Watched::default();
            }
        }
        ended
    }
}
