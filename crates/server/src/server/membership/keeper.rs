//! Keeper: applies a new node list, and notifies clients.
//!
//! The set of served slots changes while no event loop executes. Clients are notified when slots
//! are lost: tracking clients drop their keys of these slots; blocked clients and subscribers of
//! shard channels in them are redirected.
//!
//! Lock order: the holdings come before the outer barrier of the exclusive lock; no loop takes
//! them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cellar_cluster::Cluster;
use cellar_cluster::holdings::Holdings;
use cellar_cluster::list::NodeList;
use cellar_cluster::ownership::now_ms;
use cellar_cluster::slot::{SlotSet, slot_of};
use cellar_cluster::table::SlotTable;
use cellar_config::settings::address::Address;
use cellar_shared::clients::pubsub::Kind;
use cellar_shared::clients::waiters::WaitEnd;
use cellar_shared::state::State;
use cellar_system::clock::unix_s;
use parking_lot::{Condvar, Mutex};

/// Shortest time between two equal complaints in the log, in milliseconds.
const AGAIN_MS: u64 = 10_000;

/// Changes the set of served slots.
pub(super) struct Keeper {
    pub(super) state: Arc<State>,
    pub(super) cluster: Arc<Cluster>,
    slots: Mutex<Slots>,
    /// Signalled when slots have to be emptied, and at the end.
    changed: Condvar,
    /// The last logged complaint about the list, and when, in milliseconds of [`now_ms`].
    complaint: Mutex<Option<(String, u64)>>,
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
            complaint: Mutex::default(),
        }
    }

    /// Follows a list, in which no other node may have this node's addresses, whatever other nodes
    /// use.
    ///
    /// # Errors
    /// Why it is not followed.
    pub(super) fn follow(&self, list: NodeList) -> Result<(), String> {
        self.check_own(&list)?;
        let before = self.cluster.table();
        if before.is_some_and(|before| before.list == list) {
            return Ok(());
        }
        self.turn_to(list, Holdings::follow);
        Ok(())
    }

    /// Follows a list: releases the slots that it takes; slots that it gives wait until all nodes
    /// follow.
    ///
    /// # Errors
    /// Why it is not followed.
    pub(super) fn give_up_for(&self, list: NodeList) -> Result<(), String> {
        self.check_own(&list)?;
        self.turn_to(list, Holdings::give_up_for);
        Ok(())
    }

    /// Serves the slots that the followed list gives, because all nodes follow it.
    pub(super) fn agree(&self) {
        self.change(None, Holdings::agree);
        let slots = self.cluster.served();
        tracing::info!(slots, "all nodes use this map of the cluster");
    }

    /// Stops serving any slot, and has all items removed.
    pub(super) fn lose_all(&self) {
        self.change(None, Holdings::lose_all);
    }

    /// Makes tracking clients drop all they have read here, because this node misses changes while
    /// its lease has expired. A request meanwhile has the same effect.
    pub(super) fn mistrust_near_caches(&self) {
        self.state.tell_of_the_leases_end();
    }

    fn turn_to(&self, list: NodeList, turn: impl FnOnce(&mut Holdings, SlotSet)) {
        let before = self.cluster.table();
        let before = before.map_or(0, |before| before.version);
        let version = u64::try_from(unix_s()).unwrap_or(0).max(before + 1);
        let table = Arc::new(SlotTable::of(list, &self.cluster.name, version));
        let owned = SlotSet::of(|slot| table.me == Some(table.owners.node(slot)));
        let (nodes, slots) = (table.list.nodes().len(), owned.count());
        if table.me.is_none() {
            tracing::warn!(
                node = self.cluster.name,
                "this node is not in the cluster's list and serves nothing"
            );
        }
        self.change(Some(table), |holdings| turn(holdings, owned));
        tracing::info!(version, nodes, slots, "the map of the cluster has changed");
    }

    /// Checks that no other node announces this node's addresses.
    fn check_own(&self, list: &NodeList) -> Result<(), String> {
        let settings = &self.state.settings;
        for node in list.nodes() {
            if node.name == self.cluster.name {
                continue;
            }
            for (protocol, own) in settings.listen.iter() {
                let is_own = |address: &&Address| own.contains(address);
                if let Some(address) = node.announced.of(protocol).iter().find(is_own) {
                    return Err(format!(
                        "{address} is an address of this node, {}, but the list has it for {}",
                        self.cluster.name, node.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Changes the holdings, and with them the served slots.
    pub(super) fn change(&self, table: Option<Arc<SlotTable>>, change: impl FnOnce(&mut Holdings)) {
        let mut slots = self.slots.lock();
        let before = slots.holdings.served().clone();
        change(&mut slots.holdings);
        let served = slots.holdings.served();
        let lost = before.without(served);
        let has_lost = lost.count() > 0;
        if table.is_some() || before != *served {
            let table = table.or_else(|| self.cluster.table());
            let exclusive_lock = &self.state.exclusive_lock;
            exclusive_lock.shut_out(|| {
                self.cluster.change(served, table, has_lost);
                if has_lost {
                    self.end_waits(&lost);
                }
            });
        }
        let unswept = u64::from(slots.holdings.unswept().count());
        // Relaxed: only reported.
        self.cluster
            .counts
            .unswept
            .store(unswept, Ordering::Relaxed);
        drop(slots);
        if has_lost {
            self.tell_of_loss(&lost, self.cluster.served() == 0);
        }
        self.changed.notify_all();
    }

    /// Ends the waits of clients blocked on keys of these slots. No loop executes meanwhile.
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

    /// Makes tracking clients drop their keys of these slots, because another node's changes are
    /// not reported here. Subscribers of shard channels have to subscribe again, and are
    /// redirected.
    fn tell_of_loss(&self, lost: &SlotSet, are_all: bool) {
        let observer = &self.state.observer;
        match are_all {
            true => observer.tracking.flushed(),
            false => observer.tracking.lost(&lost.runs()),
        }
        let is_lost = |name: &[u8]| lost.has(slot_of(name));
        let listeners = observer.pubsub.listeners_of(Kind::Shard, is_lost);
        listeners.iter().for_each(|client| client.kill());
    }

    /// Waits until slots have to be emptied; none at the end.
    pub(super) fn next_unswept(&self) -> Option<SlotSet> {
        let mut slots = self.slots.lock();
        loop {
            if slots.is_over {
                return None;
            }
            if slots.holdings.unswept().count() > 0 {
                return Some(slots.holdings.unswept().clone());
            }
            self.changed.wait(&mut slots);
        }
    }

    /// Waits for a limited time until all lost slots are empty; returns whether they are.
    pub(super) fn wait_until_empty(&self, patience: Duration) -> bool {
        let is_waiting = |slots: &mut Slots| slots.holdings.unswept().count() > 0;
        let mut slots = self.slots.lock();
        let waited = self
            .changed
            .wait_while_for(&mut slots, is_waiting, patience);
        !waited.timed_out()
    }

    /// Whether the threads are to end.
    pub(super) fn is_over(&self) -> bool {
        self.slots.lock().is_over
    }

    /// Records whether the last offered list is valid, and logs once why not.
    pub(super) fn judge(&self, outcome: Result<(), String>, source: &str) {
        let counts = &self.cluster.counts;
        // Relaxed: only reported.
        counts
            .is_bad
            .store(outcome.is_err().into(), Ordering::Relaxed);
        if let Err(reason) = outcome {
            counts.bad_lists.fetch_add(1, Ordering::Relaxed);
            tracing::error!("--cluster {source}: {reason}; keeping the previous map");
        }
    }

    /// The same of a source that is asked again and again: what it said last is not said again,
    /// nor is anything else soon after it.
    pub(super) fn judge_once(&self, outcome: Result<(), String>, source: &str) {
        let mut last = self.complaint.lock();
        let Err(reason) = outcome else {
            if last.take().is_some() {
                self.judge(Ok(()), source);
            }
            return;
        };
        let now_ms = now_ms();
        let is_told = |(said, at_ms): &(String, u64)| *said == reason || now_ms - at_ms < AGAIN_MS;
        if !last.as_ref().is_some_and(is_told) {
            *last = Some((reason.clone(), now_ms));
            self.judge(Err(reason), source);
        }
    }

    pub(super) fn stop(&self) {
        self.slots.lock().is_over = true;
        self.changed.notify_all();
    }
}
