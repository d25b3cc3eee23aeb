//! Ownership: which slots this node serves now, as event loops read it without a lock.
//!
//! One bit for each slot, and the moment until which the lease holds. Bits and table change only
//! while no loop executes (`gate.rs`), so that what one
//! batch of requests sees is one map; the lease ends by itself.
//!
//! Invariant: no request is answered that was executed after the lease had ended, or on a slot
//! whose bit was not set. Why: docs/decisions/0057.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::slot::{SLOTS, SlotSet};
use super::table::SlotTable;

/// Words of the bits of all slots.
const WORDS: usize = SLOTS as usize / 64;
/// A lease that has no end.
pub const FOR_EVER_MS: u64 = u64::MAX;

/// This node's part in its cluster.
#[derive(Debug)]
pub struct Cluster {
    /// What this node is called.
    pub name: String,
    // Relaxed: written while no loop executes, and the door in front of the gates orders that.
    serves: Box<[AtomicU64; WORDS]>,
    /// Until when the lease holds, in milliseconds of [`now_ms`].
    // Relaxed: one number; whoever reads an old one stops too early.
    lease_until_ms: AtomicU64,
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
}

impl Cluster {
    /// The part of a node that serves nothing yet; with or without a lease, which it then does not
    /// hold.
    #[must_use]
    pub fn new(name: &str, is_leased: bool) -> Cluster {
        Cluster {
            name: name.to_owned(),
            serves: Box::new([const { AtomicU64::new(0) }; WORDS]),
            lease_until_ms: AtomicU64::new(if is_leased { 0 } else { FOR_EVER_MS }),
            losses: AtomicU64::new(0),
            table: Mutex::default(),
            counts: ClusterCounts::default(),
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

    /// Whether the lease holds now.
    #[inline]
    #[must_use]
    pub fn is_leased(&self) -> bool {
        match self.lease_until_ms.load(Ordering::Relaxed) {
            FOR_EVER_MS => true,
            until_ms => now_ms() < until_ms,
        }
    }

    /// Milliseconds that the lease still holds; none if it has no end.
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
        let cluster = Cluster::new("a", true);
        assert!(!cluster.is_leased());
        cluster.hold_until(now_ms() + 60_000);
        assert!(cluster.is_leased() && cluster.lease_left_ms() > Some(50_000));
        cluster.hold_until(now_ms());
        assert!(!cluster.is_leased());
        assert_eq!(cluster.lease_left_ms(), Some(0));
        assert!(Cluster::new("a", false).is_leased());
    }

    #[test]
    fn what_is_served_is_what_was_set_last() {
        let cluster = Cluster::new("a", false);
        let odd = SlotSet::of(|slot| slot % 2 == 1);
        cluster.change(&odd, None, false);
        assert!(cluster.serves(1) && cluster.serves(SLOTS - 1) && !cluster.serves(0));
        assert_eq!((cluster.served(), cluster.losses()), (8_192, 0));
        cluster.change(&SlotSet::default(), None, true);
        assert_eq!((cluster.served(), cluster.losses()), (0, 1));
    }
}
