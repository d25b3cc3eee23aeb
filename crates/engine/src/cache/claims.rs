//! Claims: how a section of several operations keeps the shards of its keys to itself.
//!
//! How shards are claimed, and why nothing waits in a circle: `claim/section.rs`.
//!
//! Why: docs/decisions/0082. Tests: tests/claims.rs.

use super::Cache;
use super::shards::Shards;
use crate::claim::section::{Extended, SHARDS_MAX, Section, ShardSet};
use crate::claim::{Claimant, Intent};
use crate::clock::thread_number;
use crate::key::Key;
use crate::sequence::Seen;
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

impl Cache {
    /// Whether shards of this cache can be claimed: not in one of very many shards.
    #[inline]
    #[must_use]
    pub fn has_claims(&self) -> bool {
        self.shards.len() <= SHARDS_MAX
    }

    /// Claims the shards of these keys for the calling thread: until the result is dropped, no
    /// other thread reads or changes their items, except that items expire and are evicted. The
    /// thread may not have other claims, and may use only these shards; see [`Claims::extend`].
    ///
    /// Cost: two locks of each shard; a wait for sections that have claimed some of them.
    ///
    /// # Panics
    /// If the cache has no claims: see [`Cache::has_claims`].
    pub fn claim<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>, intent: Intent) -> Claims<'_> {
        let mut wanted = WantedShards::default();
        for key in keys {
            self.want(&mut wanted, key);
        }
        self.claim_wanted(&wanted, intent)
    }

    /// Adds the key's shard to those that are going to be claimed.
    ///
    /// # Panics
    /// As [`Cache::claim`].
    #[inline]
    pub fn want(&self, wanted: &mut WantedShards, key: Key<'_>) {
        wanted.0.insert(self.shards.number_of(key));
    }

    /// Claims all shards, as [`Cache::claim`] does.
    ///
    /// # Panics
    /// As [`Cache::claim`].
    pub fn claim_all(&self, intent: Intent) -> Claims<'_> {
        let mut wanted = WantedShards::default();
        (0..self.shards.len()).for_each(|number| wanted.0.insert(number));
        self.claim_wanted(&wanted, intent)
    }

    /// Claims these shards, as [`Cache::claim`] does.
    ///
    /// # Panics
    /// As [`Cache::claim`].
    pub fn claim_wanted(&self, wanted: &WantedShards, intent: Intent) -> Claims<'_> {
        assert!(self.has_claims(), "the cache has too many shards");
        Claims {
            shards: &self.shards,
            section: Section::begin(
                &self.shards,
                wanted.0,
                (Claimant::number(thread_number()), intent),
            ),
        }
    }

    /// Records the sequence numbers of these keys' shards, to detect later whether anything was
    /// stored there. `None` if the cache has many shards or one of them is being changed.
    pub fn snapshot<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> Option<Snapshot<'_>> {
        let mut snapshot = Snapshot {
            shards: &self.shards,
            seen: [None; SNAPSHOT_SHARDS_MAX],
        };
        if self.shards.len() > SNAPSHOT_SHARDS_MAX {
            return None;
        }
        for key in keys {
            let number = self.shards.number_of(key);
            let seen = &mut snapshot.seen[number];
            if seen.is_none() {
                *seen = Some(self.shards[number].lock.sequence.seen()?);
            }
        }
        Some(snapshot)
    }
}

impl Claims<'_> {
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

/// The sequence numbers of shards at one moment; see [`Cache::snapshot`].
#[derive(Debug)]
pub struct Snapshot<'c> {
    shards: &'c Shards,
    seen: [Option<Seen>; SNAPSHOT_SHARDS_MAX],
}

impl Snapshot<'_> {
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
