//! Watching: keys that let the next transaction fail if they change.
//!
//! Each name has a list of those who watch it, with the database they mean. A change marks them;
//! EXEC looks at its mark. Who registers looks the key up afterwards, so a change is either seen by
//! that look-up or heard here. Lock order: shard, part.
//!
//! Tests: tests/resp_watch.rs.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_engine::{Cache, Space};

use crate::databases::Databases;

/// Parts, so that event loops rarely wait for each other.
const PARTS: usize = 16;

/// Whether something happened to one of a session's keys.
#[derive(Debug, Default)]
// Acquire and Release: who sees the mark sees the change.
pub struct Mark(AtomicBool);

impl Mark {
    /// Whether something happened.
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Acquire and Release: who sees the mark sees the change.
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// One session's interest in one key.
#[derive(Clone, Debug)]
struct Watch {
    mark: Arc<Mark>,
    database: u32,
    /// The database's space when it began.
    space: Space,
    /// Whether the key was there when it began.
    existed: bool,
}

type WatchesByKey = HashMap<Box<[u8]>, Vec<Watch>>;

/// All watched keys.
#[derive(Debug)]
pub struct Watching {
    hasher: RandomState,
    parts: [Mutex<WatchesByKey>; PARTS],
}

impl Default for Watching {
    fn default() -> Watching {
        Watching {
            hasher: RandomState::new(),
            parts: Default::default(),
        }
    }
}

impl Watching {
    /// Begins to watch a key of a database.
    pub fn add(&self, key: &[u8], database: u32, space: Space, mark: &Arc<Mark>) {
        let watch = Watch {
            mark: Arc::clone(mark),
            database,
            space,
            existed: true,
        };
        let mut part = self.part(key);
        part.entry(key.into()).or_default().push(watch);
    }

    /// Notes that a key was not there when it began to be watched: to flush is no change of it.
    pub fn note_absent(&self, key: &[u8], database: u32, mark: &Arc<Mark>) {
        let mut part = self.part(key);
        let watches = part.get_mut(key).into_iter().flatten();
        for watch in watches.filter(|watch| is_one(watch, database, mark)) {
            watch.existed = false;
        }
    }

    /// Ends to watch a key of a database.
    pub fn remove(&self, key: &[u8], database: u32, mark: &Arc<Mark>) {
        let mut part = self.part(key);
        if let Some(watches) = part.get_mut(key) {
            watches.retain(|watch| !is_one(watch, database, mark));
            if watches.is_empty() {
                part.remove(key);
            }
        }
    }

    /// A key of a space has changed.
    pub fn changed(&self, key: &[u8], space: Space, databases: &Databases) {
        let part = self.part(key);
        for watch in part.get(key).into_iter().flatten() {
            if databases.space(watch.database) == space {
                watch.mark.set();
            }
        }
    }

    /// All items of a space, or of all spaces, are gone.
    pub fn flushed(&self, space: Option<Space>) {
        for part in &self.parts {
            for watch in lock(part).values().flatten() {
                if watch.existed && space.is_none_or(|space| space == watch.space) {
                    watch.mark.set();
                }
            }
        }
    }

    /// Two databases have changed places; no lock of the cache is held.
    pub fn swapped(&self, one: u32, other: u32, databases: &Databases, cache: &Cache) {
        let mut concerned = Vec::new();
        for part in &self.parts {
            for (key, watches) in lock(part).iter() {
                let these = |watch: &&Watch| [one, other].contains(&watch.database);
                let watches: Vec<Watch> = watches.iter().filter(these).cloned().collect();
                if !watches.is_empty() {
                    concerned.push((key.clone(), watches));
                }
            }
        }
        for (key, watches) in concerned {
            for watch in watches {
                let space = databases.space(watch.database);
                let key = cache.key_in(space, &key).ok();
                let is_there = || key.is_some_and(|key| cache.get(key, |_| ()).is_some());
                if watch.existed || is_there() {
                    watch.mark.set();
                }
            }
        }
    }

    /// Names that somebody watches.
    #[must_use]
    pub fn count(&self) -> usize {
        self.parts.iter().map(|part| lock(part).len()).sum()
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, WatchesByKey> {
        let number = usize::try_from(self.hasher.hash_one(key) >> 40).unwrap_or(0);
        lock(&self.parts[number % PARTS])
    }
}

fn is_one(watch: &Watch, database: u32, mark: &Arc<Mark>) -> bool {
    watch.database == database && Arc::ptr_eq(&watch.mark, mark)
}

fn lock(part: &Mutex<WatchesByKey>) -> MutexGuard<'_, WatchesByKey> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
