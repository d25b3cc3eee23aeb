//! Ownership: which slots this node serves now, as event loops read it without a lock.
//!
//! One bit for each slot, and the moment until which the lease holds, if there are leases. Bits and
//! table change only while no loop executes (`exclusive_lock.rs`), so that what one batch of
//! requests sees is one map; the lease ends by itself.
//!
//! Invariants: no request is executed on a slot whose bit is not set, nor one that was received
//! after the lease had ended; what was received then is answered, a PING too, only after near
//! caches were told to drop what they have. Why: docs/decisions/0057, 0062.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::slot::{SLOTS, SlotSet};
use super::table::SlotTable;
use crate::config::protocol::Protocol;
use crate::config::settings::announced::Place;

/// Words of the bits of all slots.
const WORDS: usize = SLOTS as usize / 64;
/// The end of a lease that has none.
const FOR_EVER_MS: u64 = u64::MAX;

/// This node's part in its cluster.
#[derive(Debug)]
pub struct Cluster {
    /// What this node is called.
    pub name: String,
    // Relaxed: written while no loop executes, and the door in front of the exclusive lock orders
    // that.
    serves: Box<[AtomicU64; WORDS]>,
    /// Until when the lease holds, in milliseconds of [`now_ms`].
    // Relaxed: one number; whoever reads an old one stops too early.
    lease_until_ms: AtomicU64,
    /// How often it was held anew.
    // Release, and Acquire where it is read: who sees a count sees until when that lease holds.
    holds: AtomicU64,
    /// The how many-th lease it was whose end was told last.
    told: Mutex<u64>,
    /// How often slots were lost.
    // Relaxed: as `serves`.
    losses: AtomicU64,
    /// Held for a moment, by loops and by who changes it.
    table: Mutex<Option<Arc<SlotTable>>>,
    /// What is counted.
    pub counts: ClusterCounts,
}

/// What is counted of a cluster.
// Relaxed: figures to look at.
#[derive(Debug, Default)]
pub struct ClusterCounts {
    /// Requests that were sent to other nodes.
    pub moved: AtomicU64,
    /// Requests whose slot nobody served here.
    pub down: AtomicU64,
    /// Lists that could not be used.
    pub bad_lists: AtomicU64,
    /// Whether the last one could not: 1, or 0.
    pub is_bad: AtomicU64,
    /// Items that were dropped because their slots were lost.
    pub dropped: AtomicU64,
    /// Slots whose old items are not dropped yet.
    pub unswept: AtomicU64,
    /// Leases that ended before they were given back.
    pub lost_leases: AtomicU64,
}

impl Cluster {
    /// The part of a node that serves nothing yet, and needs no lease for what it will serve.
    #[must_use]
    pub fn new(name: &str) -> Cluster {
        Cluster {
            name: name.to_owned(),
            serves: Box::new([const { AtomicU64::new(0) }; WORDS]),
            lease_until_ms: AtomicU64::new(FOR_EVER_MS),
            holds: AtomicU64::new(0),
            told: Mutex::new(0),
            losses: AtomicU64::new(0),
            table: Mutex::default(),
            counts: ClusterCounts::default(),
        }
    }

    /// The same of a node that serves only while it holds a lease, which it does not yet.
    #[must_use]
    pub fn leased(name: &str) -> Cluster {
        let cluster = Cluster::new(name);
        cluster.hold_until(0);
        cluster
    }

    /// Whether the lease holds now; always where none is needed.
    #[inline]
    #[must_use]
    pub fn is_leased(&self) -> bool {
        match self.lease_until_ms.load(Ordering::Relaxed) {
            FOR_EVER_MS => true,
            until_ms => now_ms() < until_ms,
        }
    }

    /// Milliseconds that the lease still holds; none where none is needed.
    #[must_use]
    pub fn lease_left_ms(&self) -> Option<u64> {
        match self.lease_until_ms.load(Ordering::Relaxed) {
            FOR_EVER_MS => None,
            until_ms => Some(until_ms.saturating_sub(now_ms())),
        }
    }

    /// Holds the lease until this moment of [`now_ms`].
    pub fn hold_until(&self, until_ms: u64) {
        self.lease_until_ms.store(until_ms, Ordering::Relaxed);
        self.holds.fetch_add(1, Ordering::Release);
    }

    /// Runs `tell` if the lease is over and it has not been run since it was. Who comes meanwhile
    /// waits until it has.
    pub fn tell_of_its_end(&self, tell: impl FnOnce()) {
        // Before the look at the clock: what is told is the end of this lease, or of a later one.
        let held = self.holds.load(Ordering::Acquire);
        if self.is_leased() {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != held {
            tell();
            *told = held;
        }
    }

    /// Whether this node serves a slot, as long as its lease holds.
    #[inline]
    #[must_use]
    pub fn serves(&self, slot: u16) -> bool {
        // Relaxed: see where it is declared.
        let word = self.serves[usize::from(slot / 64) % WORDS].load(Ordering::Relaxed);
        word >> (slot % 64) & 1 == 1
    }

    /// How many slots this node serves.
    #[must_use]
    pub fn served(&self) -> u32 {
        // Relaxed: as in `serves`.
        let words = self.serves.iter();
        words
            .map(|word| word.load(Ordering::Relaxed).count_ones())
            .sum()
    }

    /// How often slots were lost: what began before and goes on must end.
    #[inline]
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// The map in force; none before there was one.
    #[must_use]
    pub fn table(&self) -> Option<Arc<SlotTable>> {
        self.table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What a client is told of where it finds a slot that another node has; none if nobody serves
    /// the slot, as far as this node knows. Either is counted.
    pub fn elsewhere<R>(
        &self,
        slot: u16,
        (protocol, is_tls): (Protocol, bool),
        told: impl FnOnce(Place<'_>) -> R,
    ) -> Option<R> {
        let table = self.table();
        let place = table
            .as_ref()
            .and_then(|table| table.elsewhere(slot, protocol, is_tls));
        let count = match &place {
            Some(_) => &self.counts.moved,
            None => &self.counts.down,
        };
        // Relaxed: figures to look at.
        count.fetch_add(1, Ordering::Relaxed);
        place.map(told)
    }

    /// Whether all slots are served here or elsewhere, as far as this node knows.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_leased() && self.table().is_some_and(|table| table.me.is_some())
    }

    /// Changes what is served, and by which map. Only while no loop executes.
    pub fn change(&self, serves: &SlotSet, table: Option<Arc<SlotTable>>, has_lost: bool) {
        // Relaxed: as in `serves`.
        for (word, bits) in self.serves.iter().zip(serves.words()) {
            word.store(bits, Ordering::Relaxed);
        }
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = table;
        if has_lost {
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Milliseconds since the machine was started, those counted during which it or this process slept.
#[inline]
#[must_use]
pub fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let ms = time.tv_sec * 1_000 + time.tv_nsec / 1_000_000;
    u64::try_from(ms).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself() {
        let cluster = Cluster::leased("a");
        assert!(!cluster.is_leased());
        cluster.hold_until(now_ms() + 60_000);
        assert!(cluster.is_leased() && cluster.lease_left_ms() > Some(50_000));
        cluster.hold_until(now_ms());
        assert!(!cluster.is_leased());
        assert_eq!(cluster.lease_left_ms(), Some(0));
        let without = Cluster::new("a");
        assert!(without.is_leased() && without.lease_left_ms().is_none());
    }

    #[test]
    fn the_end_of_each_lease_is_told_once() {
        let cluster = Cluster::leased("a");
        let told = || {
            let mut times = 0;
            for _ in 0..2 {
                cluster.tell_of_its_end(|| times += 1);
            }
            times
        };
        assert_eq!(told(), 1);
        cluster.hold_until(now_ms() + 60_000);
        assert_eq!(told(), 0, "it holds");
        cluster.hold_until(now_ms());
        assert_eq!(told(), 1);
        cluster.hold_until(now_ms());
        assert_eq!(told(), 1, "there was another one between");
        let mut times = 0;
        Cluster::new("a").tell_of_its_end(|| times += 1);
        assert_eq!(times, 0, "it needs none");
    }

    #[test]
    fn what_is_served_is_what_was_set_last() {
        let cluster = Cluster::new("a");
        let odd = SlotSet::of(|slot| slot % 2 == 1);
        cluster.change(&odd, None, false);
        assert!(cluster.serves(1) && cluster.serves(SLOTS - 1) && !cluster.serves(0));
        assert_eq!((cluster.served(), cluster.losses()), (8_192, 0));
        cluster.change(&SlotSet::default(), None, true);
        assert_eq!((cluster.served(), cluster.losses()), (0, 1));
    }
}
