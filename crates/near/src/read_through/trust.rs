//! Trust: how long what was read over a connection may be believed.
//!
//! One [`Trust`] belongs to one connection that is told of changes. A load takes a [`Grant`]
//! before it asks, and the copy that it leaves is served only while the grant holds:
//!
//! | what happens | the trust | its grants |
//! |---|---|---|
//! | the server answers what was sent at t | good until t + bound | hold until then |
//! | everything is declared changed (null push) | a higher epoch | are void for ever |
//! | the connection is lost or does not answer | ended | never hold again; known up to the end |
//!
//! Invariant: an answer to a question sent at t proves that every push about a change before t has
//! arrived, since one connection keeps order. Why: docs/decisions/0022-near-coherence.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The belief in one connection.
#[derive(Debug)]
pub struct Trust {
    // Acquire and AcqRel: a grant taken after a flush has its epoch.
    epoch: AtomicU64,
    /// Nanoseconds on the cache's clock; [`ENDED`] once the connection is lost.
    // Acquire and Release: who sees a time sees what the pushes before it have done. Relaxed where
    // an extension fails: nothing was changed.
    alive_until_ns: AtomicU64,
    /// Until when an ended trust was good.
    // Acquire and Release: as above.
    known_until_ns: AtomicU64,
}

/// No time at all: an ended trust is never extended again.
const ENDED: u64 = 0;
/// The trust of a connection that has not proved anything: over already, but not ended.
const UNPROVEN: u64 = 1;

impl Trust {
    /// A trust that is not good yet.
    #[must_use]
    pub fn new() -> Arc<Trust> {
        Arc::new(Trust {
            epoch: AtomicU64::new(0),
            alive_until_ns: AtomicU64::new(UNPROVEN),
            known_until_ns: AtomicU64::new(0),
        })
    }

    /// What a load takes before it sends its question.
    #[must_use]
    pub fn grant(self: &Arc<Trust>) -> Grant {
        Grant {
            // Acquire: with the Release of `void`, a grant taken after a flush has its epoch.
            epoch: self.epoch.load(Ordering::Acquire),
            trust: Arc::clone(self),
        }
    }

    /// Makes it good until `until`, unless it is good for longer or has ended.
    pub fn extend(&self, until: Duration) {
        let until_ns = nanoseconds(until);
        let longer = |now: u64| (now != ENDED && now < until_ns).then_some(until_ns);
        // Release: who sees the new time sees what the pushes before the answer have done.
        // Err means that there was nothing to extend.
        let _ = self
            .alive_until_ns
            .fetch_update(Ordering::Release, Ordering::Relaxed, longer);
    }

    /// Ends it for good: the connection is lost.
    pub fn end(&self) {
        // AcqRel: as in `extend`; the time that it was good until is kept.
        let until = self.alive_until_ns.swap(ENDED, Ordering::AcqRel);
        self.known_until_ns.fetch_max(until, Ordering::Release);
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.alive_until_ns.load(Ordering::Acquire) == ENDED
    }

    /// Until when it is good, or was before it ended.
    #[must_use]
    pub fn known_until(&self) -> Duration {
        let alive = self.alive_until_ns.load(Ordering::Acquire);
        let known = self.known_until_ns.load(Ordering::Acquire);
        Duration::from_nanos(alive.max(known))
    }

    /// Declares everything read so far as changed.
    pub fn void(&self) {
        // AcqRel: orders the flush before the grants that are taken after it.
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }
}

/// The right to believe what one load has read.
#[derive(Clone, Debug)]
pub struct Grant {
    trust: Arc<Trust>,
    epoch: u64,
}

impl Grant {
    /// Whether a copy may be served at the time `now`.
    #[inline]
    #[must_use]
    pub fn holds_at(&self, now: Duration) -> bool {
        self.holds_at_ns(nanoseconds(now))
    }

    /// The same with the time in nanoseconds.
    #[inline]
    pub(crate) fn holds_at_ns(&self, now_ns: u64) -> bool {
        self.is_valid() && now_ns < self.trust.alive_until_ns.load(Ordering::Acquire)
    }

    /// Whether the copy has not been declared changed; it may be out of touch all the same.
    #[inline]
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.trust.epoch.load(Ordering::Acquire) == self.epoch
    }

    /// Whether the connection is lost.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.trust.has_ended()
    }

    /// Until when its connection was known to be alive.
    #[must_use]
    pub fn known_until(&self) -> Duration {
        self.trust.known_until()
    }

    /// The same with the epoch that is current by now: what only a broken cache does.
    pub(crate) fn renewed(&self) -> Grant {
        self.trust.grant()
    }
}

/// Whole nanoseconds, as far as they fit.
#[inline]
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    let whole = time.as_secs().checked_mul(1_000_000_000);
    let all = whole.and_then(|whole| whole.checked_add(u64::from(time.subsec_nanos())));
    all.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_grant_holds_only_once_the_connection_is_proved_and_until_the_bound() {
        let trust = Trust::new();
        let grant = trust.grant();
        assert!(!grant.holds_at(SECOND));
        trust.extend(2 * SECOND);
        assert!(grant.holds_at(SECOND) && !grant.holds_at(2 * SECOND));
        trust.extend(SECOND);
        assert!(grant.holds_at(SECOND), "a trust never gets shorter");
    }

    #[test]
    fn a_flush_voids_the_grants_before_it_and_none_after_it() {
        let trust = Trust::new();
        trust.extend(2 * SECOND);
        let before = trust.grant();
        trust.void();
        assert!(!before.holds_at(SECOND) && !before.is_valid());
        assert!(trust.grant().holds_at(SECOND));
    }

    #[test]
    fn an_ended_lease_stays_ended() {
        let trust = Trust::new();
        let grant = trust.grant();
        trust.end();
        trust.extend(5 * SECOND);
        assert!(trust.has_ended() && !grant.holds_at(Duration::ZERO));
        assert!(grant.is_valid(), "out of touch is not the same as changed");
    }

    #[test]
    fn an_ended_lease_tells_until_when_it_was_good() {
        let trust = Trust::new();
        trust.extend(3 * SECOND);
        trust.end();
        assert_eq!(trust.known_until(), 3 * SECOND);
    }
}
