//! Keeper: what a new list changes, and who is told.
//!
//! Whatever is served or not changes while no event loop executes. Clients that hear of changes
//! are told when slots are lost: near caches drop what they have of this node, who waits for a
//! value or listens to a channel of a lost slot is sent away.
//!
//! Lock order: the holdings come before the door in front of the gates; no loop takes them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::cluster::Cluster;
use crate::cluster::holdings::Holdings;
use crate::cluster::list::NodeList;
use crate::cluster::slot::{SlotSet, slot_of};
use crate::cluster::table::SlotTable;
use crate::protocol::Protocol;
use crate::pubsub::Kind;
use crate::settings::address::Address;
use crate::state::State;
use crate::waiters::WaitEnd;

/// Who changes what is served.
pub(super) struct Keeper {
    pub(super) state: Arc<State>,
    pub(super) cluster: Arc<Cluster>,
    slots: Mutex<Slots>,
    /// Told when slots have to be emptied, and at the end.
    changed: Condvar,
}

#[derive(Default)]
struct Slots {
    holdings: Holdings,
    is_over: bool,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    pub(super) fn new(state: Arc<State>, cluster: Arc<Cluster>) -> Keeper {
        Keeper {
            state,
            cluster,
            slots: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Follows a list, in which nobody else may have this node's addresses.
    ///
    /// # Errors
    /// Why it is not followed.
    pub(super) fn follow(&self, list: NodeList) -> Result<(), String> {
        self.check_own(&list)?;
        let before = self.cluster.table();
        if before.as_ref().is_some_and(|before| before.list == list) {
            return Ok(());
        }
        let version = before.map_or(1, |before| before.version + 1);
        let table = Arc::new(SlotTable::of(list, &self.cluster.name, version));
        let owned = SlotSet::of(|slot| table.me == Some(table.owners.node(slot)));
        let (nodes, slots) = (table.list.nodes().len(), owned.count());
        if table.me.is_none() {
            tracing::warn!(
                node = self.cluster.name,
                "this node is not in the list of the cluster: it serves nothing"
            );
        }
        self.change(Some(table), |holdings| holdings.follow(owned));
        tracing::info!(version, nodes, slots, "the map of the cluster has changed");
        Ok(())
    }

    /// Whether another node is said to be where this one is.
    fn check_own(&self, list: &NodeList) -> Result<(), String> {
        let settings = &self.state.settings;
        for node in list.nodes() {
            if node.name == self.cluster.name {
                continue;
            }
            for protocol in Protocol::ALL {
                let own = settings.addresses(protocol);
                let is_own = |address: &&Address| own.contains(address);
                if let Some(address) = node.announced.of(protocol).iter().find(is_own) {
                    return Err(format!(
                        "{address} is where this node listens, which is called {}, and {} is said \
                         to be there",
                        self.cluster.name, node.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Changes the holdings, and with them what is served.
    pub(super) fn change(&self, table: Option<Arc<SlotTable>>, change: impl FnOnce(&mut Holdings)) {
        let mut slots = self.lock();
        let before = slots.holdings.served().clone();
        change(&mut slots.holdings);
        let served = slots.holdings.served();
        let lost = before.without(served);
        let has_lost = lost.count() > 0;
        if table.is_some() || before != *served {
            let table = table.or_else(|| self.cluster.table());
            let gates = &self.state.gates;
            gates.shut_out(|| {
                self.cluster.change(served, table, has_lost);
                if has_lost {
                    self.end_waits(&lost);
                }
            });
        }
        let unswept = u64::from(slots.holdings.unswept().count());
        // Relaxed: a figure to look at.
        self.cluster
            .counts
            .unswept
            .store(unswept, Ordering::Relaxed);
        drop(slots);
        if has_lost {
            self.tell_of_loss(&lost);
        }
        self.changed.notify_all();
    }

    /// Who waits for a key of these slots waits here no longer. Nobody executes meanwhile.
    fn end_waits(&self, lost: &SlotSet) {
        let observer = &self.state.observer;
        for waiter in observer.waiters.all() {
            let mut names = waiter.names().iter();
            let has_lost = names.any(|name| lost.has(slot_of(name)));
            if has_lost && observer.end_wait(&waiter, WaitEnd::Moved) {
                waiter.request.client.call();
            }
        }
    }

    /// Near caches drop what they have read here: of a slot that is another's they would not hear.
    /// Who listens to a channel of one has to come again, and is sent to its node.
    fn tell_of_loss(&self, lost: &SlotSet) {
        let observer = &self.state.observer;
        observer.tracking.flushed();
        let is_lost = |name: &[u8]| lost.has(slot_of(name));
        let listeners = observer.pubsub.listeners_of(Kind::Shard, is_lost);
        listeners.iter().for_each(|client| client.kill());
    }

    /// Waits until there are slots to be emptied; none at the end.
    pub(super) fn next_unswept(&self) -> Option<SlotSet> {
        let mut slots = self.lock();
        loop {
            if slots.is_over {
                return None;
            }
            if slots.holdings.unswept().count() > 0 {
                return Some(slots.holdings.unswept().clone());
            }
            let woken = self.changed.wait(slots);
            slots = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the threads are to end.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Notes whether the list that was offered last can be used, and says once why not.
    pub(super) fn judge(&self, outcome: Result<(), String>, source: &str) {
        let counts = &self.cluster.counts;
        // Relaxed: figures to look at.
        counts
            .is_bad
            .store(outcome.is_err().into(), Ordering::Relaxed);
        if let Err(reason) = outcome {
            counts.bad_lists.fetch_add(1, Ordering::Relaxed);
            tracing::error!("--cluster {source}: {reason}; the last map stays in force");
        }
    }

    pub(super) fn stop(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
