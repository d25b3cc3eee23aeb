//! Restart: how a server goes on with the cache of one before it.
//!
//! The engine does it for items; what stands beside them is in `names.rs`. What became of it is
//! told in one line of the log, and by figures as long as the server lives.
//!
//! Why: docs/decisions/0058. Page: docs/guide/restart.md. Tests: tests/restart.rs.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use cellar_engine::{Cache, Restored, Space, StateDir, StateOptions};

use crate::config::error::Error;
use crate::config::settings::Settings;
use crate::keyspace::content_types::ContentTypes;
use crate::keyspace::databases::Databases;
use crate::keyspace::names::{KnownNames, Names};
use crate::system::clock::LoopClock;
use crate::system::signals;

/// Memory of a killed server whose items are checked before this one serves, if there is no more:
/// that takes a tenth of a second.
const CHECKED_BEFORE_BYTES: u64 = 16 << 20;

/// A directory in which memory outlives the server, and what was found there.
pub struct PersistentDir {
    dir: Arc<StateDir>,
    named: Result<KnownNames, String>,
}

impl PersistentDir {
    /// Opens the directory of the settings, if they name one; `memory` is what an old server that
    /// lets go of it has open.
    ///
    /// # Errors
    /// Why it cannot be used, in one line.
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

    /// The clock with which the server goes on.
    #[must_use]
    pub fn clock(persistent_dir: Option<&PersistentDir>) -> LoopClock {
        let origin = persistent_dir.and_then(|persistent_dir| persistent_dir.dir.clock_origin());
        origin.map_or_else(LoopClock::new, LoopClock::going_on)
    }

    /// How the engine is to use the directory for databases like these, which become those that
    /// were noted.
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

    /// Notes from now on what outlives the server beside the cache that was made; the content types
    /// that there are.
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

/// Leaves a cache to the next server, if its memory outlives this one. Nobody may use it any more.
pub fn leave(cache: &Cache) {
    if let Some(sealed) = cache.checkpoint() {
        sealed.leave();
        tracing::info!("--state: saved the cache for the next server");
    }
}

/// Tells in the log what became of the cache of a server before this one.
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
