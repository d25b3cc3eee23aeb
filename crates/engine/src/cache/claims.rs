//! Claims: how a section of several operations keeps the shards of its keys to itself.
//!
//! How shards are claimed, and why nothing waits in a circle: `claim/section.rs`.
//!
//! Why: docs/decisions/0082. Tests: tests/claims.rs.

use super::shards::Shards;
use crate::base::clock::thread_number;
use crate::cache::claim::section::{Extended, SHARDS_MAX, Section, ShardSet};
use crate::cache::claim::{Claimant, Intent};
use crate::cache::sequence::Seen;
use crate::key::Key;
use crate::shard::Shard;

/// Most shards of a [`Snapshot`].
const SNAPSHOT_SHARDS_MAX: usize = 64;

/// Shards that a section is going to claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct WantedShards(ShardSet);

/// The shards that a section of the calling thread has claimed; released when it is dropped.
pub struct Claims<'c> {
    shards: &'c Shards,
    section: Section<'c, Shards>,
}

impl WantedShards {
    /// All shards.
    pub(super) fn all(shards: &Shards) -> WantedShards {
        let mut wanted = WantedShards::default();
        (0..shards.len()).for_each(|number| wanted.0.insert(number));
        wanted
    }

    /// Adds the key's shard.
    #[inline]
    pub(super) fn insert(&mut self, shards: &Shards, key: Key<'_>) {
        self.0.insert(shards.number_of(key));
    }
}

/// Whether so many shards can be claimed.
#[inline]
pub(super) fn are_possible(shards: &Shards) -> bool {
    shards.len() <= SHARDS_MAX
}

impl<'c> Claims<'c> {
    /// Claims these shards for the calling thread.
    pub(super) fn begin(shards: &'c Shards, wanted: &WantedShards, intent: Intent) -> Claims<'c> {
        assert!(are_possible(shards), "the cache has too many shards");
        let claimant = Claimant::number(thread_number());
        Claims {
            shards,
            section: Section::begin(shards, wanted.0, (claimant, intent)),
        }
    }

    /// Whether the key's shard is claimed.
    #[inline]
    #[must_use]
    pub fn covers(&self, key: Key<'_>) -> bool {
        self.section.has(self.shards.number_of(key))
    }

    /// Claims the key's shard as well, if no other section has.
    ///
    /// [`Extended::Busy`] if one has. A section that has changed nothing yet can then end and
    /// restart in another way.
    #[inline]
    pub fn extend(&self, key: Key<'_>) -> Extended {
        self.section.extend(self.shards.number_of(key))
    }

    /// The same of all shards.
    pub fn extend_to_all(&self) -> Extended {
        self.all(|number| self.section.extend(number))
    }

    /// Claims the key's shard as well, for a section that cannot restart: waits for the section
    /// that has it.
    ///
    /// [`Extended::Conflict`] if that one waits for this one.
    pub fn extend_waiting(&self, key: Key<'_>) -> Extended {
        self.section.extend_waiting(self.shards.number_of(key))
    }

    /// The same of all shards.
    pub fn extend_waiting_to_all(&self) -> Extended {
        self.all(|number| self.section.extend_waiting(number))
    }

    fn all(&self, extend: impl Fn(usize) -> Extended) -> Extended {
        let mut extended = (0..self.shards.len()).map(extend);
        let failed = extended.find(|&one| one != Extended::Claimed);
        failed.unwrap_or(Extended::Claimed)
    }
}

impl std::fmt::Debug for Claims<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims").finish_non_exhaustive()
    }
}

/// The sequence numbers of shards at one moment; see [`Cache::snapshot`](super::Cache::snapshot).
#[derive(Debug)]
pub struct Snapshot<'c> {
    shards: &'c Shards,
    seen: [Option<Seen>; SNAPSHOT_SHARDS_MAX],
}

impl<'c> Snapshot<'c> {
    /// That of these keys' shards; `None` if there are many shards or one is being changed.
    pub(super) fn of<'k>(
        shards: &'c Shards,
        keys: impl IntoIterator<Item = Key<'k>>,
    ) -> Option<Snapshot<'c>> {
        let mut snapshot = Snapshot {
            shards,
            seen: [None; SNAPSHOT_SHARDS_MAX],
        };
        if shards.len() > SNAPSHOT_SHARDS_MAX {
            return None;
        }
        for key in keys {
            let number = shards.number_of(key);
            let seen = &mut snapshot.seen[number];
            if seen.is_none() {
                *seen = Some(shards[number].lock.sequence.seen()?);
            }
        }
        Some(snapshot)
    }

    /// Runs `read` under the lock of the key's shard, which alone is no change of the shard.
    #[cold]
    #[inline(never)]
    pub(super) fn lock_to_read<R>(
        &mut self,
        key: Key<'_>,
        read: impl FnOnce(&mut Shard) -> R,
    ) -> R {
        let number = self.shards.number_of(key);
        let cell = &self.shards[number];
        let mut shard = cell.lock_to_read();
        let sequence = &cell.lock.sequence;
        // If others had it before, the count of then stays, and is not found again.
        if let Some(seen) = &mut self.seen[number]
            && sequence.is_first_since(*seen)
        {
            *seen = seen.next();
        }
        read(&mut shard)
    }

    /// Whether only reads of this snapshot have locked any of the shards since: then all values
    /// read from them were stored at one moment.
    #[must_use]
    pub fn is_still(&self) -> bool {
        let mut seen = self.seen.iter().zip(self.shards.iter());
        seen.all(|(seen, cell)| seen.is_none_or(|seen| cell.lock.sequence.is_still(seen)))
    }
}
