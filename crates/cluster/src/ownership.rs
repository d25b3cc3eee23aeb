//! Ownership: the slots that this node serves now, which event loops read without a lock.
//!
//! It has one bit per slot, and the end of the lease, if leases are used. Bits and table change
//! only while no loop executes (`exclusive_lock.rs`), so that one batch of requests sees one map;
//! the lease ends by itself.
//!
//! Invariants: no request is executed on a slot whose bit is not set, nor one that was received
//! after the lease had ended; a request received then is answered, even PING, only after tracking
//! clients were told to drop everything. Why: docs/decisions/0057, 0062.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellar_config::protocol::Protocol;
use cellar_config::settings::announced::Place;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use super::slot::{SLOTS, SlotSet};
use super::table::SlotTable;

/// Words of the bits of all slots.
const WORDS: usize = SLOTS as usize / 64;
/// The end of a lease that has none.
const FOR_EVER_MS: u64 = u64::MAX;

/// This node's part in its cluster.
#[derive(Debug)]
pub struct Cluster {
    /// This node's name.
    pub name: String,
    // Relaxed: written while no loop executes, which the outer barrier of the exclusive lock
    // orders.
    serves: Box<[AtomicU64; WORDS]>,
    /// The end of the lease, in milliseconds of [`now_ms`].
    // Relaxed: one number; a reader of an old one stops too early.
    lease_until_ms: AtomicU64,
    /// How often a lease was obtained or renewed.
    // Release, and Acquire where it is read: a reader of a count sees the end of that lease.
    holds: AtomicU64,
    /// The number of the lease whose end was last reported.
    told: Mutex<u64>,
    /// How often slots were lost.
    // Relaxed: as `serves`.
    losses: AtomicU64,
    /// Held shortly, by loops and by the thread that changes it.
    table: Mutex<Option<Arc<SlotTable>>>,
    /// The counters.
    pub counts: ClusterCounts,
}

/// Counters of a cluster node.
// Relaxed: only reported.
#[derive(Debug, Default)]
pub struct ClusterCounts {
    /// Requests that were redirected to other nodes.
    pub moved: AtomicU64,
    /// Requests for a slot that no node serves.
    pub down: AtomicU64,
    /// Invalid lists.
    pub bad_lists: AtomicU64,
    /// Whether the last one was invalid: 1, or 0.
    pub is_bad: AtomicU64,
    /// Items that were removed because their slots were lost.
    pub dropped: AtomicU64,
    /// Slots whose old items are not removed yet.
    pub unswept: AtomicU64,
    /// Leases that ended before they were returned.
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

    /// Extends the lease until this moment of [`now_ms`].
    pub fn hold_until(&self, until_ms: u64) {
        self.lease_until_ms.store(until_ms, Ordering::Relaxed);
        self.holds.fetch_add(1, Ordering::Release);
    }

    /// Runs `tell` if the lease has ended and that was not reported yet. Other callers wait
    /// meanwhile.
    pub fn tell_of_its_end(&self, tell: impl FnOnce()) {
        // Before the clock is read: the reported end is that of this lease, or of a later one.
        let held = self.holds.load(Ordering::Acquire);
        if self.is_leased() {
            return;
        }
        let mut told = self.told.lock();
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

    /// How often slots were lost: requests that began before have to end.
    #[inline]
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// The map in force; none before the first.
    #[must_use]
    pub fn table(&self) -> Option<Arc<SlotTable>> {
        self.table.lock().clone()
    }

    /// The redirection for a slot of another node; none if no node serves the slot, as far as this
    /// node knows. Either is counted.
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
        // Relaxed: only reported.
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
        *self.table.lock() = table;
        if has_lost {
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Milliseconds since the machine was started, including the time when it or this process was
/// suspended.
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
