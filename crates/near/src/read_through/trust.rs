//! Trust: how long copies read over a connection are valid.
//!
//! One [`Trust`] belongs to one connection that receives invalidations. A load takes a [`Grant`]
//! before its request, and its copy is served only while the grant holds:
//!
//! | what happens | the trust | its grants |
//! |---|---|---|
//! | the server answers what was sent at t | good until t + bound | hold until then |
//! | everything is declared changed (null push) | a higher epoch | are void for ever |
//! | the node says that it has lost a slot | as before | those of its keys are void for ever |
//! | a slot of a cluster becomes another node's | as before | those of its keys are void for ever |
//! | the connection is lost or does not answer | ended | never hold again; known up to the end |
//!
//! Invariant: an answer to a request sent at t proves that every push about a change before t has
//! arrived, since one connection keeps order. Why: docs/decisions/0022-near-coherence.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::read_through::owners::{SlotOwners, Tenure};

/// The belief in one connection.
#[derive(Debug)]
pub struct Trust {
    // Acquire and AcqRel: a grant taken after a flush has its epoch.
    epoch: AtomicU64,
    /// Nanoseconds on the cache's clock; [`ENDED`] once the connection is lost.
    // Acquire and Release: a thread that sees a time sees the effects of the pushes before it.
    // Relaxed where an extension fails: nothing was changed.
    alive_until_ns: AtomicU64,
    /// Until when an ended trust was good.
    // Acquire and Release: as above.
    known_until_ns: AtomicU64,
    /// The node of a cluster that it belongs to, if it does.
    node: Option<ClusterNode>,
}

/// A node, and which slots the nodes of its cluster have.
#[derive(Clone, Debug)]
pub(crate) struct ClusterNode {
    /// The state that all nodes of the cluster share.
    pub(crate) owners: Arc<SlotOwners>,
    /// The node's number; never 0 and never reused.
    pub(crate) number: u32,
}

/// No time at all: an ended trust is never extended again.
const ENDED: u64 = 0;
/// The trust of a connection that has not proved anything: over already, but not ended.
const UNPROVEN: u64 = 1;
/// The epoch of a grant that never holds: no trust comes so far.
const NEVER: u64 = u64::MAX;

impl Trust {
    /// A trust that is not good yet.
    #[must_use]
    pub fn new() -> Arc<Trust> {
        Trust::of(None)
    }

    /// The same in a connection to this node, if it is one of several.
    pub(crate) fn of(node: Option<ClusterNode>) -> Arc<Trust> {
        Arc::new(Trust {
            epoch: AtomicU64::new(0),
            alive_until_ns: AtomicU64::new(UNPROVEN),
            known_until_ns: AtomicU64::new(0),
            node,
        })
    }

    /// The grant that a load takes before it sends its request.
    #[must_use]
    pub fn grant(self: &Arc<Trust>) -> Grant {
        Grant {
            // Acquire: with the Release of `void`, a grant taken after a flush has its epoch.
            epoch: self.epoch.load(Ordering::Acquire),
            tenure: None,
            trust: Arc::clone(self),
        }
    }

    /// The same for a load of a key of this slot. In a cluster it ends with the node's time with
    /// the slot, and never holds if the slot is not the node's.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "only Redis's protocol has slots")
    )]
    pub(crate) fn grant_of(self: &Arc<Trust>, slot: impl FnOnce() -> u16) -> Grant {
        let grant = self.grant();
        let Some(ClusterNode { owners, number }) = &self.node else {
            return grant;
        };
        let tenure = owners.tenure(slot(), *number);
        let epoch = if tenure.is_some() { grant.epoch } else { NEVER };
        Grant {
            tenure,
            epoch,
            ..grant
        }
    }

    /// Whether it belongs to a node of a cluster.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "only Redis's protocol has slots")
    )]
    pub(crate) fn has_slots(&self) -> bool {
        self.node.is_some()
    }

    /// Whether a node still has a slot.
    #[inline]
    fn lasts(&self, tenure: Tenure) -> bool {
        let owners = self.node.as_ref().map(|node| &node.owners);
        owners.is_some_and(|owners| owners.lasts(tenure))
    }

    /// Makes it good until `until`, unless it is good for longer or has ended.
    pub fn extend(&self, until: Duration) {
        let until_ns = nanoseconds(until);
        let longer = |now: u64| (now != ENDED && now < until_ns).then_some(until_ns);
        // Release: a thread that sees the new time sees the effects of the pushes before the
        // answer. Err means that there was nothing to extend.
        let _ = self
            .alive_until_ns
            .fetch_update(Ordering::Release, Ordering::Relaxed, longer);
    }

    /// Ends it for good: the connection is lost.
    pub fn end(&self) {
        // AcqRel: as in `extend`; the old time is saved.
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

    /// Declares all copies so far of keys in this slot as changed.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "only Redis's protocol has slots")
    )]
    pub(crate) fn void_slot(&self, slot: u16) {
        match &self.node {
            Some(ClusterNode { owners, number }) => owners.end(slot, *number),
            None => self.void(),
        }
    }

    /// Declares everything read so far as changed.
    pub fn void(&self) {
        // AcqRel: orders the flush before the grants that are taken after it.
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }
}

/// The right to serve the copy of one load.
#[derive(Clone, Debug)]
pub struct Grant {
    trust: Arc<Trust>,
    epoch: u64,
    /// The node's time with the key's slot, in a cluster.
    tenure: Option<Tenure>,
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
        let is_current = self.trust.epoch.load(Ordering::Acquire) == self.epoch;
        is_current && self.tenure.is_none_or(|tenure| self.trust.lasts(tenure))
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

    /// The same with the current epoch, as an injected fault.
    pub(crate) fn renewed(&self) -> Grant {
        Grant {
            tenure: self.tenure,
            ..self.trust.grant()
        }
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
    fn a_slot_that_moves_voids_its_grants_alone() {
        let owners = Arc::new(SlotOwners::new());
        let trust_in = |number| {
            let owners = Arc::clone(&owners);
            Trust::of(Some(ClusterNode { owners, number }))
        };
        let (one, other) = (trust_in(1), trust_in(2));
        for trust in [&one, &other] {
            trust.extend(2 * SECOND);
        }
        owners.give(7, 1);
        owners.give(8, 1);
        let (moves, stays) = (one.grant_of(|| 7), one.grant_of(|| 8));
        assert!(moves.holds_at(SECOND) && stays.holds_at(SECOND));
        assert!(!other.grant_of(|| 7).holds_at(SECOND), "it is not its own");
        owners.give(7, 2);
        assert!(!moves.holds_at(SECOND) && !moves.is_valid() && stays.holds_at(SECOND));
        assert!(!one.grant_of(|| 7).is_valid(), "asked by an older map");
        assert!(other.grant_of(|| 7).holds_at(SECOND));
    }

    #[test]
    fn a_lost_slot_voids_the_grants_of_its_keys_at_that_node() {
        let owners = Arc::new(SlotOwners::new());
        let place = ClusterNode { owners, number: 1 };
        let trust = Trust::of(Some(place.clone()));
        trust.extend(2 * SECOND);
        for slot in [7, 8] {
            place.owners.give(slot, 1);
        }
        let (moves, stays) = (trust.grant_of(|| 7), trust.grant_of(|| 8));
        trust.void_slot(7);
        assert!(!moves.is_valid() && stays.holds_at(SECOND));
        assert!(trust.grant_of(|| 7).holds_at(SECOND), "asked after that");
        let alone = Trust::new();
        let grant = alone.grant();
        alone.void_slot(7);
        assert!(
            !grant.is_valid(),
            "where there are no slots all may be meant"
        );
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
