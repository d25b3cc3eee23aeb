//! Lookup: reads with side effects, and leases.
//!
//! A lease prevents a cache stampede: the first client that reads a missing, stale or soon-expiring
//! item wins the right to refresh it, and the others learn that the lease is taken. A lease ends by
//! a store, or by time, so that a client that disconnects does not block others for long.
//!
//! A version (CAS) and an exact last access cost memory, so an item gets them when they are first
//! requested; the item is then rewritten with the field.
//! Why: docs/decisions/0007. Source: memcached doc/protocol.txt, "Meta Get". Tests: tests/lease.rs.

use crate::base::clock::{Deadline, Instant};
use crate::base::error::Error;
use crate::base::space::Kind;
use crate::insight::sample::Action;
use crate::interface::observer::Happened;
use crate::interface::options::Lookup;
use crate::interface::outcome::{Found, Lease};
use crate::key::Key;
use crate::log::item::{LeaseState, Spec};
use crate::shard::Shard;
use crate::store::{Content, Located};

impl Shard {
    /// Looks an item up as `lookup` asks and shows it to `read`; `None` is a miss.
    pub(crate) fn lookup<R>(
        &mut self,
        key: Key<'_>,
        lookup: &Lookup,
        lease_ms: u64,
        now: Instant,
        read: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>, Error> {
        let located = if lookup.uncounted {
            self.store.find(key, now)
        } else {
            self.find_to_read(key, now)
        };
        let Some(located) = located else {
            return self.miss(key, lookup, lease_ms, now, read);
        };
        let before = self.store.spec_of(&located);
        if before.kind != Kind::STRING {
            return Ok(None);
        }
        let taken = before.lease.is_taken(now);
        let left_ms = before.deadline.remaining_ms(now);
        let is_below = |threshold| left_ms.is_some_and(|left| left < threshold);
        let soon = lookup.recache_ms.is_some_and(is_below);
        let lapsed = before.lease.until_ms != 0 && !taken && lookup.vivify.is_some();
        let won = (before.lease.stale || soon || lapsed) && !taken && !lookup.no_lease;
        let fetched = self.store.is_fetched(&located);
        let idle_s = self.store.idle_s(&located, now);

        let mut after = before;
        if won {
            after.lease.until_ms = now.0.saturating_add(lease_ms).min(Deadline::FARTHEST_MS);
        }
        if let Some(deadline) = lookup.touch {
            after.deadline = deadline;
        }
        if lookup.version && after.version.is_none() {
            after.version = Some(self.next_version());
        }
        if lookup.idle && after.access_s.is_none() {
            after.access_s = Some((now.0 / 1000).saturating_sub(idle_s) as u32);
        }
        let Some(located) = self.rewrite(key, located, &before, &after, now)? else {
            return self.miss(key, lookup, lease_ms, now, read);
        };
        if let Some(deadline) = lookup.touch {
            self.watch
                .note(key.hash(), Action::Touch, (0, deadline), now);
            let (store, retimed) = (&mut self.store, Happened::Retimed);
            store.report_with_deadline(key, retimed, &located, deadline);
        }
        if !lookup.quiet {
            self.store.mark_used(&located, now);
        }
        let lease = Lease {
            won,
            stale: before.lease.stale,
            taken,
        };
        let answer = self.show(key, &located, now, |item| {
            read(Found {
                item,
                deadline_before: before.deadline,
                version: after.version.filter(|_| lookup.version).unwrap_or(0),
                lease,
                created: false,
                fetched,
                idle_s,
                stored_bytes: located.layout.total_bytes(),
            })
        });
        Ok(Some(answer))
    }

    /// Notes the second of each use of an item from now on.
    pub(crate) fn note_uses(&mut self, key: Key<'_>, now: Instant) -> Result<(), Error> {
        let Some(located) = self.store.find(key, now) else {
            return Ok(());
        };
        let before = self.store.spec_of(&located);
        if before.access_s.is_some() {
            return Ok(());
        }
        let since_s = (now.0 / 1000).saturating_sub(self.store.idle_s(&located, now));
        let known_s = if self.store.is_fetched(&located) {
            now.0 / 1000
        } else {
            since_s
        };
        let after = Spec {
            access_s: Some(known_s as u32),
            ..before
        };
        self.rewrite(key, located, &before, &after, now).map(drop)
    }

    /// Makes the stored header say `after` instead of `before`, in place where it has the fields.
    ///
    /// `None` if it does not have them, and making space for the item elsewhere evicted it.
    fn rewrite(
        &mut self,
        key: Key<'_>,
        located: Located,
        before: &Spec,
        after: &Spec,
        now: Instant,
    ) -> Result<Option<Located>, Error> {
        if before == after {
            return Ok(Some(located));
        }
        match self.store.amend(&located, before, after) {
            Some(amended) => Ok(Some(amended)),
            None => self.put(key, Some(located), after, Content::Old, now),
        }
    }

    /// Answers a lookup that finds no item.
    fn miss<R>(
        &mut self,
        key: Key<'_>,
        lookup: &Lookup,
        lease_ms: u64,
        now: Instant,
        read: impl FnOnce(Found<'_>) -> R,
    ) -> Result<Option<R>, Error> {
        let Some(deadline) = lookup.vivify else {
            return Ok(None);
        };
        self.vivify(key, lookup, deadline, lease_ms, now, read)
            .map(Some)
    }

    /// Stores the empty item as a placeholder for a value that the caller computes.
    fn vivify<R>(
        &mut self,
        key: Key<'_>,
        lookup: &Lookup,
        deadline: Deadline,
        lease_ms: u64,
        now: Instant,
        read: impl FnOnce(Found<'_>) -> R,
    ) -> Result<R, Error> {
        let version = lookup.new_version;
        let version = version.or_else(|| lookup.version.then(|| self.next_version()));
        let until_ms = now.0.saturating_add(lease_ms).min(Deadline::FARTHEST_MS);
        let spec = Spec {
            version,
            lease: LeaseState {
                stale: false,
                until_ms,
            },
            access_s: lookup.idle.then_some((now.0 / 1000) as u32),
            ..Spec::of_key(key, 0, deadline)
        };
        let located = self
            .put(key, None, &spec, Content::Bytes(&[]), now)?
            .ok_or(Error::Busy)?;
        self.store.counts.stored += 1;
        let happened = Happened::Created;
        self.store
            .report_with_deadline(key, happened, &located, deadline);
        Ok(self.store.with_item(&located, |item| {
            read(Found {
                item,
                deadline_before: deadline,
                version: version.unwrap_or(0),
                lease: Lease {
                    won: true,
                    stale: false,
                    taken: false,
                },
                created: true,
                fetched: false,
                idle_s: 0,
                stored_bytes: located.layout.total_bytes(),
            })
        }))
    }
}
