//! How an answer is handled: an entry and how long it lives, or an error and the reaction to it.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::Near;
use crate::read_through::entry::{Entry, Held};
use crate::read_through::error::Error;
use crate::read_through::fault::Fault;
use crate::read_through::origin::{Answer, Loaded};
use crate::read_through::store::{EntryUpdate, Outcome, Ticket};
use crate::read_through::trust::Grant;

impl<K, V> Near<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Lands with the answer to a question that was asked at `asked_at`.
    pub(super) fn settle(
        &self,
        ticket: Ticket<K, V>,
        loaded: Result<Loaded<V>, Error>,
        known: Option<Arc<Entry<V>>>,
        asked_at: Duration,
        age_max: Option<Duration>,
    ) -> Outcome<V> {
        let loaded = match loaded {
            Ok(loaded) => self.with_fault(loaded),
            Err(error) => return self.settle_failed(ticket, error, age_max),
        };
        let settings = &self.inner.settings;
        let age_max = age_max.map(|age_max| settings.jittered(age_max));
        let Loaded {
            answer,
            ttl,
            version,
            grant,
        } = loaded;
        let (value, age_max) = match (answer, known) {
            (Answer::Value(value), _) => (Some(value), age_max),
            (Answer::Unchanged, Some(entry)) => {
                return self.settle_confirmed(ticket, &entry, ttl, asked_at, age_max);
            }
            (Answer::Absent, _) => {
                let Some(negative_ttl) = settings.negative_ttl else {
                    return ticket.finish(EntryUpdate::Clear, Ok(None));
                };
                (None, Some(settings.jittered(negative_ttl)))
            }
            (Answer::Unchanged, None) => {
                let error = Error::Protocol("unchanged, but no version was named".into());
                return self.settle_failed(ticket, error, age_max);
            }
        };
        let life = shorter(ttl, age_max);
        // Each reader brings a bound of its own and compares it when it reads. Only bounds unknown
        // to readers are stored: one shortened by jitter, and the one of a missing value.
        let is_local = value.is_none() || settings.jitter > 0.0;
        let deadline = if is_local { life } else { ttl };
        let deadline = deadline.map(|ttl| asked_at.saturating_add(ttl));
        let entry = Entry::new(value, version, grant, asked_at, deadline);
        let entry = Arc::new(entry.loader_asked(ticket.has_asked_loader()));
        let update = self.keep(&entry, life, ttl);
        ticket.finish(update, Ok(Held::of(entry, false)))
    }

    /// Ends a load whose answer confirms the entry.
    fn settle_confirmed(
        &self,
        ticket: Ticket<K, V>,
        entry: &Arc<Entry<V>>,
        ttl: Option<Duration>,
        asked_at: Duration,
        age_max: Option<Duration>,
    ) -> Outcome<V> {
        self.inner.store.counts.confirmed.up();
        // The entry that readers hold is confirmed itself, so that they need not ask again.
        let is_local = self.inner.settings.jitter > 0.0;
        let deadline = if is_local { shorter(ttl, age_max) } else { ttl };
        entry.confirm(asked_at, deadline.map(|ttl| asked_at.saturating_add(ttl)));
        let update = self.keep(entry, shorter(ttl, age_max), ttl);
        ticket.finish(update, Ok(Held::of(Arc::clone(entry), false)))
    }

    /// Lands without an answer: with an entry that was good not too long ago, if that is wanted.
    pub(super) fn settle_failed(
        &self,
        ticket: Ticket<K, V>,
        error: Error,
        age_max: Option<Duration>,
    ) -> Outcome<V> {
        let store = &self.inner.store;
        store.counts.errors.up();
        let may_serve = |entry: &Arc<Entry<V>>, stale_max: Duration| {
            let known_until = entry.known_until(age_max);
            !entry.is_void() && store.clock.now() <= known_until.saturating_add(stale_max)
        };
        let last_known = self.inner.settings.serve_stale.and_then(|stale_max| {
            let entry = store.look_up(ticket.key())?;
            may_serve(&entry, stale_max).then_some(entry)
        });
        let outcome = match last_known {
            Some(entry) => {
                store.counts.stale_served.up();
                Ok(Held::of(entry, true))
            }
            None => Err(error),
        };
        ticket.finish(EntryUpdate::Leave, outcome)
    }

    /// How long an entry with life `life` is stored: longer, if it is useful after its end.
    fn keep(
        &self,
        entry: &Arc<Entry<V>>,
        life: Option<Duration>,
        ttl: Option<Duration>,
    ) -> EntryUpdate<V> {
        if life == Some(Duration::ZERO) {
            return EntryUpdate::Clear;
        }
        // After its life an entry is never served as fresh. It is useful for a request that names
        // its version, unless the item was removed at the origin, and for readers that prefer an
        // old value to an error, even then.
        let settings = &self.inner.settings;
        let stale = settings.serve_stale.unwrap_or_default();
        let versioned = entry.version().is_some();
        let confirmable = settings
            .revalidate
            .filter(|_| versioned)
            .unwrap_or_default();
        let confirmable = life.map(|life| life.saturating_add(confirmable));
        let kept = shorter(confirmable, ttl).map(|kept| {
            let stale_end = life.map_or(kept, |life| life.saturating_add(stale));
            kept.max(stale_end)
        });
        EntryUpdate::Keep(Arc::clone(entry), kept)
    }

    /// Changes an answer as an injected fault would; unchanged without a fault.
    fn with_fault(&self, mut loaded: Loaded<V>) -> Loaded<V> {
        let fault = self.inner.store.fault;
        if fault.is(Fault::UncheckedFills) {
            loaded.grant = loaded.grant.as_ref().map(Grant::renewed);
        }
        if fault.is(Fault::NoServerTtl) {
            loaded.ttl = None;
        }
        loaded
    }
}

/// The shorter of two times, either of which may be missing.
fn shorter(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
