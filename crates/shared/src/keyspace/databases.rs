//! Databases: the numbered key spaces that `SELECT` chooses among, on the engine's spaces.
//!
//! Database 0 is also what memcached and HTTP see, whichever space it is: the engine's main one
//! until SWAPDB swaps it. Flushing another database gives it a new space.
//!
//! Tests: at the end of this file.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use cellar_config::settings::DATABASES_MAX;
use cellar_config::settings::keep::Keep;
use cellar_engine::Space;

use crate::keyspace::names::Names;

/// The space of each database; a clone shares the same databases.
#[derive(Clone, Debug)]
pub struct Databases {
    // Relaxed: the number alone is shared; swaps and renewals run exclusively.
    spaces: Arc<[AtomicU32]>,
    /// The last space given out.
    // Relaxed: each number is given out once, whatever the order.
    last: Arc<AtomicU32>,
    /// The file that they are recorded in, if they outlive the process.
    names: Arc<OnceLock<Arc<Names>>>,
}

impl Databases {
    /// Creates databases, all empty, some with memory of their own.
    #[must_use]
    pub fn new(count: usize, keep: &Keep) -> Databases {
        let count = count.clamp(1, DATABASES_MAX);
        let space = |index| {
            let number = u32::try_from(index).unwrap_or(0);
            let share = keep.share_of(number);
            let space = share.map_or(Space(number), |share| Space::kept(share, number));
            AtomicU32::new(space.0)
        };
        Databases {
            spaces: (0..count).map(space).collect(),
            last: Arc::new(AtomicU32::new(u32::try_from(count).unwrap_or(u32::MAX))),
            names: Arc::default(),
        }
    }

    /// Restores the numbers of an earlier server; `false` if they do not fit. If this server has
    /// more databases, the others are new; if it has fewer, the items of the others are
    /// unreachable.
    #[must_use]
    pub fn restore(&self, last: u32, spaces: &[u32]) -> bool {
        let share = |space: u32| Space(space).share();
        // Relaxed, all: no other thread has them yet.
        let has_share = |place: &AtomicU32| share(place.load(Ordering::Relaxed));
        let both = || self.spaces.iter().zip(spaces);
        let mut more = self.spaces.iter().skip(spaces.len());
        let mut fewer = spaces.iter().skip(self.spaces.len());
        let fits = both().all(|(place, &space)| has_share(place) == share(space))
            && more.all(|place| has_share(place).is_none())
            && fewer.all(|&space| share(space).is_none() && Space(space) != Space::MAIN);
        if !fits {
            return false;
        }
        // Relaxed, all: the same.
        for (place, &space) in both() {
            place.store(space, Ordering::Relaxed);
        }
        let mut last = last;
        for place in self.spaces.iter().skip(spaces.len()) {
            last += 1;
            place.store(last, Ordering::Relaxed);
        }
        self.last.store(last, Ordering::Relaxed);
        true
    }

    /// The last number given out, and the space of each.
    #[must_use]
    pub fn noted(&self) -> (u32, Vec<u32>) {
        // Relaxed, all: they are changed exclusively.
        let spaces = self
            .spaces
            .iter()
            .map(|place| place.load(Ordering::Relaxed));
        (self.last.load(Ordering::Relaxed), spaces.collect())
    }

    /// Records each change in the file from now on.
    pub fn note_in(&self, names: &Arc<Names>) {
        // Only one file of names exists, created once.
        let _ = self.names.set(Arc::clone(names));
    }

    /// Writes the file again: a new process whose takeover failed may have replaced it.
    pub fn renew_names(&self) {
        if let Some(names) = self.names.get() {
            names.renew();
        }
    }

    /// Gives databases other spaces, as one change. It is written to the file before it takes
    /// effect.
    fn change(&self, changes: &[(u32, Space)]) {
        if let Some(names) = self.names.get() {
            let (last, mut spaces) = self.noted();
            for &(database, space) in changes {
                spaces[database as usize] = space.0;
            }
            names.note_databases(last, spaces);
        }
        for &(database, space) in changes {
            self.spaces[database as usize].store(space.0, Ordering::Relaxed);
        }
    }

    /// Number of databases.
    #[must_use]
    pub fn count(&self) -> usize {
        self.spaces.len()
    }

    /// The space of a database that exists.
    ///
    /// # Panics
    /// If there is no database with this number.
    #[inline]
    #[must_use]
    pub fn space(&self, database: u32) -> Space {
        Space(self.spaces[database as usize].load(Ordering::Relaxed))
    }

    /// The database with this space, if any.
    #[must_use]
    pub fn database_of(&self, space: Space) -> Option<u32> {
        // Relaxed: the number alone is shared.
        let is_it = |place: &AtomicU32| place.load(Ordering::Relaxed) == space.0;
        // The usual spaces are found at once.
        let usual = space.0 % Space::NUMBERS;
        if self.spaces.get(usual as usize).is_some_and(is_it) {
            return Some(usual);
        }
        let place = self.spaces.iter().position(is_it)?;
        u32::try_from(place).ok()
    }

    /// Gives a database an empty space and returns the one it had.
    ///
    /// The main space stays in use; the engine flushes its items.
    pub fn renew(&self, database: u32) -> Space {
        let old = self.space(database);
        if old != Space::MAIN {
            let fresh = self.fresh(old.share());
            self.change(&[(database, fresh)]);
        }
        old
    }

    /// A space that no database has, in a share of memory or in none.
    fn fresh(&self, share: Option<usize>) -> Space {
        loop {
            let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let space = match share {
                Some(share) => Space::kept(share, number),
                // Below the numbers of shares.
                None => Space(number % (u32::MAX / 2)),
            };
            if self.database_of(space).is_none() {
                return space;
            }
        }
    }

    /// Whether two databases share the same memory.
    #[must_use]
    pub fn share_memory(&self, one: u32, other: u32) -> bool {
        self.space(one).share() == self.space(other).share()
    }

    /// Swaps two databases. The caller runs exclusively.
    pub fn swap(&self, one: u32, other: u32) {
        let (first, second) = (self.space(one), self.space(other));
        self.change(&[(one, second), (other, first)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_database_has_a_space_that_no_other_had() {
        let databases = Databases::new(3, &Keep::default());
        assert_eq!(databases.space(0), Space::MAIN);
        let old = databases.renew(2);
        let fresh = databases.space(2);
        assert!(fresh != old && fresh != databases.space(1));
        assert_eq!(databases.database_of(fresh), Some(2));
        assert_eq!(databases.database_of(old), None);
        assert_eq!(databases.renew(0), Space::MAIN);
        assert_eq!(databases.space(0), Space::MAIN);
    }

    #[test]
    fn more_or_fewer_databases_than_before_keep_what_they_have() {
        let before = [0, 9, 2];
        let more = Databases::new(5, &Keep::default());
        assert!(more.restore(9, &before));
        assert_eq!(more.noted(), (11, vec![0, 9, 2, 10, 11]));
        let fewer = Databases::new(2, &Keep::default());
        assert!(fewer.restore(9, &before));
        assert_eq!(fewer.noted(), (9, vec![0, 9]));
        // The main space cannot become unused, nor can a share be given to another database.
        assert!(!fewer.restore(9, &[9, 2, 0]));
        let kept = Databases::new(5, &Keep::parse("4:1MiB").unwrap());
        assert!(!kept.restore(9, &before));
    }

    #[test]
    fn databases_change_places() {
        let databases = Databases::new(3, &Keep::default());
        databases.swap(0, 2);
        assert_eq!(databases.space(2), Space::MAIN);
        assert_eq!(databases.database_of(Space::MAIN), Some(2));
        databases.swap(0, 2);
        assert_eq!(databases.database_of(Space::MAIN), Some(0));
    }

    #[test]
    fn a_database_with_memory_of_its_own_stays_in_it_when_it_is_renewed() {
        let databases = Databases::new(8, &Keep::parse("3,4:1MiB,6:1MiB").unwrap());
        let share = |database| databases.space(database).share();
        assert_eq!(
            [0, 2, 3, 4, 6].map(share),
            [None, None, Some(0), Some(0), Some(1)]
        );
        for database in [2, 3, 6] {
            let (before, share) = (databases.space(database), share(database));
            assert_eq!(databases.database_of(before), Some(database));
            assert_eq!(databases.renew(database), before);
            let after = databases.space(database);
            assert!(after != before && after.share() == share);
            assert_eq!(databases.database_of(after), Some(database));
        }
        assert!(databases.share_memory(3, 4) && databases.share_memory(0, 1));
        assert!(!databases.share_memory(3, 6) && !databases.share_memory(0, 3));
    }
}
