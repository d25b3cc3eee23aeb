//! Watching: keys whose change makes the next transaction fail (WATCH).
//!
//! Each name has a list of its watchers, with their database. A change marks them; EXEC checks its
//! mark. A watcher registers before it looks the key up, so a change is either seen by that lookup
//! or reported here. A flush concerns all keys of a space and is only recorded; EXEC compares its
//! keys with the flushes recorded since, if any. Lock order: shard, part, flushes.
//!
//! Tests: server/tests/resp_watch.rs.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cellar_engine::Space;
use parking_lot::{Mutex, MutexGuard};

use crate::keyspace::databases::Databases;

/// Parts, so that event loops rarely wait for each other.
const PARTS: usize = 16;
/// Spaces whose last flushes are known.
const FLUSHED_SPACES_MAX: usize = 64;

/// Whether something happened to one of a session's keys.
#[derive(Debug, Default)]
// Acquire and Release: a thread that sees the mark sees the change.
pub struct Mark(AtomicBool);

impl Mark {
    /// Whether something happened.
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Acquire and Release: a thread that sees the mark sees the change.
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
    /// How many flushes there had been.
    flushes: u64,
}

/// Which spaces were flushed last, by the numbers of flushes and swaps.
#[derive(Debug, Default)]
struct Flushes {
    of_all: u64,
    of_spaces: Vec<(Space, u64)>,
    /// The same for swapped databases.
    of_databases: Vec<(u32, u64)>,
}

impl Flushes {
    fn note(&mut self, space: Option<Space>, number: u64) {
        match space {
            Some(space) if self.of_spaces.len() < FLUSHED_SPACES_MAX => {
                self.of_spaces.retain(|(known, _)| *known != space);
                self.of_spaces.push((space, number));
            }
            // Too many spaces to list count as all.
            _ => {
                self.of_all = number;
                self.of_spaces.clear();
            }
        }
    }

    /// Whether a watched key was flushed or swapped since; if it did not exist, whether a swap has
    /// brought it. A key that came and went again was reported by those changes.
    fn concern(&self, watch: &Watch, is_there: bool) -> bool {
        let is_later = |number: u64| number > watch.flushes;
        let (mut spaces, mut databases) = (self.of_spaces.iter(), self.of_databases.iter());
        let is_flushed = is_later(self.of_all)
            || spaces.any(|&(space, number)| space == watch.space && is_later(number));
        let is_swapped =
            databases.any(|&(number, swap)| number == watch.database && is_later(swap));
        watch.existed && is_flushed || is_swapped && (watch.existed || is_there)
    }
}

type WatchesByKey = HashMap<Box<[u8]>, Vec<Watch>>;

/// All watched keys.
#[derive(Debug)]
pub struct Watching {
    hasher: RandomState,
    parts: [Mutex<WatchesByKey>; PARTS],
    flushes: Mutex<Flushes>,
    /// Number of flushes so far.
    // Release and Acquire: a thread that sees a number finds its flush recorded.
    count_of_flushes: AtomicU64,
}

impl Default for Watching {
    fn default() -> Watching {
        Watching {
            hasher: RandomState::new(),
            parts: Default::default(),
            flushes: Mutex::default(),
            count_of_flushes: AtomicU64::new(0),
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
            flushes: self.flushes(),
        };
        let mut part = self.part(key);
        part.entry(key.into()).or_default().push(watch);
    }

    /// Records that a key did not exist when it was watched: a flush does not change it.
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

    /// Records that all items of a space, or of all spaces, were removed.
    pub fn flushed(&self, space: Option<Space>) {
        self.note(|flushes, number| flushes.note(space, number));
    }

    /// How many flushes there were.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        // Acquire: a thread that sees a number finds its flush recorded.
        self.count_of_flushes.load(Ordering::Acquire)
    }

    /// Whether a flush or a swap of databases has concerned a key since it is watched; `is_there`
    /// says whether it exists now.
    #[must_use]
    pub fn was_flushed(&self, key: &[u8], database: u32, mark: &Arc<Mark>, is_there: bool) -> bool {
        let part = self.part(key);
        let mut watches = part.get(key).into_iter().flatten();
        let watch = watches.find(|watch| is_one(watch, database, mark));
        watch.is_some_and(|watch| self.flushes.lock().concern(watch, is_there))
    }

    /// Two databases have changed places.
    pub fn swapped(&self, one: u32, other: u32) {
        self.note(|flushes, number| {
            for database in [one, other] {
                flushes.of_databases.retain(|(known, _)| *known != database);
                flushes.of_databases.push((database, number));
            }
        });
    }

    fn note(&self, note: impl FnOnce(&mut Flushes, u64)) {
        let mut flushes = self.flushes.lock();
        let number = self.flushes() + 1;
        note(&mut flushes, number);
        // Release: a thread that sees the number finds its flush recorded.
        self.count_of_flushes.store(number, Ordering::Release);
    }

    /// Number of watched names.
    #[must_use]
    pub fn count(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, WatchesByKey> {
        let number = usize::try_from(self.hasher.hash_one(key) >> 40).unwrap_or(0);
        self.parts[number % PARTS].lock()
    }
}

fn is_one(watch: &Watch, database: u32, mark: &Arc<Mark>) -> bool {
    watch.database == database && Arc::ptr_eq(&watch.mark, mark)
}
