//! Ownership: which slots this node serves now, as event loops read it without a lock.
//!
//! One bit for each slot. Bits and table change only while no loop executes (`gate.rs`), so that
//! what one batch of requests sees is one map.
//!
//! Invariant: no request is executed on a slot whose bit is not set. Why: docs/decisions/0057.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::node::Place;
use super::slot::{SLOTS, SlotSet};
use super::table::SlotTable;
use crate::protocol::Protocol;

/// Words of the bits of all slots.
const WORDS: usize = SLOTS as usize / 64;

/// This node's part in its cluster.
#[derive(Debug)]
pub struct Cluster {
    /// What this node is called.
    pub name: String,
    // Relaxed: written while no loop executes, and the door in front of the gates orders that.
    serves: Box<[AtomicU64; WORDS]>,
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
    /// The part of a node that serves nothing yet.
    #[must_use]
    pub fn new(name: &str) -> Cluster {
        Cluster {
            name: name.to_owned(),
            serves: Box::new([const { AtomicU64::new(0) }; WORDS]),
            losses: AtomicU64::new(0),
            table: Mutex::default(),
            counts: ClusterCounts::default(),
        }
    }

    /// Whether this node serves a slot.
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
        self.table().is_some_and(|table| table.me.is_some())
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

#[cfg(test)]
mod tests {
    use super::*;

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
