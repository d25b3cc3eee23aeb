//! Restart: reuses the cache of an earlier server.
//!
//! The engine handles the items; the data beside them is in `names.rs`. The result is logged in one
//! line, and reported by metrics as long as the server runs.
//!
//! Why: docs/decisions/0058. Page: docs/guide/restart.md. Tests: tests/restart.rs.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use cellar_config::error::Error;
use cellar_config::settings::Settings;
use cellar_engine::{Cache, Restored, Space, StateDir, StateOptions};
use cellar_shared::keyspace::content_types::ContentTypes;
use cellar_shared::keyspace::databases::Databases;
use cellar_shared::keyspace::names::{KnownNames, Names};
use cellar_system::clock::LoopClock;
use cellar_system::signals;

/// Memory of a killed server up to which its items are checked before this one serves: that takes a
/// tenth of a second.
const CHECKED_BEFORE_BYTES: u64 = 16 << 20;

/// A directory whose memory outlives the server, and what was found there.
pub struct PersistentDir {
    dir: Arc<StateDir>,
    named: Result<KnownNames, String>,
}

impl PersistentDir {
    /// Opens the directory of the settings, if set; `memory` is the open file of an old server that
    /// hands it over.
    ///
    /// # Errors
    /// A one-line message if it cannot be used.
    pub fn open(
        settings: &Settings,
        memory: Option<OwnedFd>,
    ) -> Result<Option<PersistentDir>, Error> {
        let Some(path) = &settings.state else {
            return Ok(None);
        };
        signals::outlive_file_limits().map_err(|source| Error::System {
            what: "taking over signals",
            source,
        })?;
        let dir = StateDir::open_with(path, memory);
        let dir = dir.map_err(|error| Error::State(error.to_string()))?;
        if !dir.is_memory() {
            tracing::warn!(
                "--state {}: not a tmpfs: the kernel writes the cache to disk, and requests wait \
                 for these writes",
                path.display()
            );
        }
        let named = match dir.id() {
            Some(id) => KnownNames::read(&dir, id),
            None => Ok(KnownNames::default()),
        };
        Ok(Some(PersistentDir {
            dir: Arc::new(dir),
            named,
        }))
    }

    /// The clock that the server continues.
    #[must_use]
    pub fn clock(persistent_dir: Option<&PersistentDir>) -> LoopClock {
        let origin = persistent_dir.and_then(|persistent_dir| persistent_dir.dir.clock_origin());
        origin.map_or_else(LoopClock::new, LoopClock::going_on)
    }

    /// The engine's options for the directory, for databases like these, which become the recorded
    /// ones.
    #[must_use]
    pub fn options(
        &self,
        settings: &Settings,
        clock: &LoopClock,
        databases: &Databases,
    ) -> StateOptions {
        let restored = self.named.as_ref().map(|named| match &named.databases {
            Some((last, spaces)) => databases.restore(*last, spaces),
            None => true,
        });
        let refused = match restored {
            Ok(true) => None,
            Ok(false) => {
                Some("the databases have changed (--databases, --noeviction-databases)".to_owned())
            }
            Err(why) => Some(why.clone()),
        };
        let (_, spaces) = databases.noted();
        StateOptions {
            dir: Arc::clone(&self.dir),
            clock_origin: clock.origin(),
            downtime_ms_max: settings.max_downtime_ms,
            verify: settings.state_verify,
            checks_later_above: Some(CHECKED_BEFORE_BYTES),
            spaces: Some(spaces.into_iter().map(Space).collect()),
            refused,
        }
    }

    /// Records from now on what outlives the server beside this cache; returns the known content
    /// types.
    ///
    /// # Errors
    /// If the file of names cannot be written.
    pub fn note(self, cache: &Cache, databases: &Databases) -> Result<ContentTypes, Error> {
        let restored = cache.restored().filter(|restored| restored.is_restored());
        let mut named = self.named.unwrap_or_default();
        if restored.is_none() {
            named.types.clear();
        }
        let types = named.types.clone();
        named.databases = Some(databases.noted());
        let id = cache.state_id().unwrap_or(0);
        let names = Names::begin(&self.dir, id, named).map_err(|error| {
            Error::State(format!("{}/names: {error}", self.dir.path().display()))
        })?;
        let names = Arc::new(names);
        databases.note_in(&names);
        Ok(ContentTypes::noted_in(names, &types))
    }
}

/// Saves a cache for the next server, if its memory outlives this one. It must not be used
/// afterwards.
pub fn leave(cache: &Cache) {
    if let Some(sealed) = cache.checkpoint() {
        sealed.leave();
        tracing::info!("--state: saved the cache for the next server");
    }
}

/// Logs the result of restoring the cache of an earlier server.
pub fn tell(restored: &Restored) {
    let Restored {
        items,
        bytes,
        dropped,
        away_ms,
        took_us,
        was_walked,
        ..
    } = *restored;
    match &restored.empty_because {
        Some(why) => tracing::info!("--state: the cache starts empty: {why}"),
        None if restored.unchecked_bytes > 0 => tracing::info!(
            bytes = restored.unchecked_bytes,
            away_ms,
            took_us,
            "--state: the cache was restored after a kill; its items are checked while it serves"
        ),
        None => tracing::info!(
            items,
            bytes,
            dropped,
            away_ms,
            took_us,
            was_walked,
            "--state: the cache was restored after {}",
            if restored.was_clean_stop {
                "a clean stop"
            } else {
                "a kill"
            }
        ),
    }
}
