//! A cluster: which node has which slot, and what happens when that changes.
//!
//! Nodes are known by address. The map of slots is read at the first use, after every redirection,
//! whenever a connection is lost or reports that everything may have changed, and periodically by a
//! task of its own: a node that has lost its slots need not report it, and no request reaches it
//! while copies are served. When a slot belongs to another node, copies of its keys are void;
//! copies of other keys stay.
//!
//! Why: docs/decisions/0062-copies-of-moved-slots.md. Tests: tests/coherence/cluster.rs,
//! tests/coherence/moves.rs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use cellar_protocol::resp::slot::slot_of;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Client, ConnectionAddr, Pipeline, Value};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::node::Node;
use super::reply::Redirect;
use super::slots::{self, SlotRange};
use super::{RETRY_PAUSE, RedisSettings, reply};
use crate::read_through::error::Error;
use crate::read_through::fault::Fault;
use crate::read_through::origin::Listener;
use crate::read_through::owners::{SLOTS, SlotOwners};
use crate::read_through::trust::ClusterNode;

/// Reads of the map within the bound on liveness, at least.
const CHECKS_PER_BOUND: u32 = 1;
/// How long a node has that was asked for the map, before the next one is asked too.
const TURN: Duration = Duration::from_millis(100);

/// All nodes and the map of slots.
pub(super) struct Cluster {
    seeds: Vec<Client>,
    settings: RedisSettings,
    /// Receives invalidations.
    listener: Arc<dyn Listener<[u8]>>,
    /// The listener of the connections: what they report may require a new slot map.
    attentive: Arc<dyn Listener<[u8]>>,
    alarm: Arc<Notify>,
    nodes: Mutex<HashMap<String, Arc<Node>>>,
    /// The number of the next node.
    // Relaxed: it counts, and orders nothing.
    next_number: AtomicU32,
    ranges: RwLock<Vec<SlotRange>>,
    owners: Arc<SlotOwners>,
    /// Held while the map is read, so that one reads it for all; how that ended.
    reading: tokio::sync::Mutex<Result<(), Error>>,
    /// How often it has been read, or could not be.
    // Acquire and AcqRel: a thread that sees a read counted sent its own request before that read,
    // or sees its result through the lock.
    readings: AtomicU64,
    watch: OnceLock<tokio::task::AbortHandle>,
}

impl Cluster {
    pub(super) fn new(
        seeds: &[Client],
        settings: RedisSettings,
        listener: &Arc<dyn Listener<[u8]>>,
    ) -> Arc<Cluster> {
        let alarm = Arc::new(Notify::new());
        Arc::new(Cluster {
            seeds: seeds.to_vec(),
            settings,
            listener: Arc::clone(listener),
            attentive: Arc::new(Attentive {
                listener: Arc::clone(listener),
                alarm: Arc::clone(&alarm),
            }),
            alarm,
            nodes: Mutex::default(),
            next_number: AtomicU32::new(1),
            ranges: RwLock::default(),
            owners: Arc::new(SlotOwners::new()),
            reading: tokio::sync::Mutex::new(Ok(())),
            readings: AtomicU64::new(0),
            watch: OnceLock::new(),
        })
    }

    /// The node that has the slot of `key`.
    pub(super) async fn node_of(self: &Arc<Self>, key: &[u8]) -> Result<Arc<Node>, Error> {
        let slot = slot_of(key);
        if let Some(address) = self.address_of(slot) {
            return Ok(self.node_at(&address));
        }
        self.refresh().await?;
        self.begin_to_watch();
        let nobody = || Error::connection(format!("no node has slot {slot}"));
        self.address_of(slot)
            .map(|address| self.node_at(&address))
            .ok_or_else(nobody)
    }

    /// The node at this address.
    pub(super) fn node_at(&self, address: &str) -> Arc<Node> {
        let mut nodes = self.lock_nodes();
        let known = nodes.entry(address.to_owned()).or_insert_with(|| {
            let client = client_at(&self.seeds[0], address);
            let place = ClusterNode {
                owners: Arc::clone(&self.owners),
                number: self.next_number.fetch_add(1, Ordering::Relaxed),
            };
            Node::new(client, self.settings.clone(), &self.attentive, Some(place))
        });
        Arc::clone(known)
    }

    /// Reads the map after a redirection, once it may be worth it. Where a slot has moved the map
    /// says so at once, unless it is moving still.
    pub(super) async fn turn(&self, redirect: &Redirect, attempt: usize) -> Result<(), Error> {
        if attempt > 1 || *redirect == Redirect::Wait {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        self.refresh().await
    }

    /// Reads the slot map again; one further read serves all callers that arrive meanwhile.
    pub(super) async fn refresh(&self) -> Result<(), Error> {
        let before = self.readings.load(Ordering::Acquire);
        let mut last = self.reading.lock().await;
        // The reading that was under way may have begun too early; the next one has not.
        if self.readings.load(Ordering::Acquire) >= before + 2 {
            return last.clone();
        }
        let found = self.read_ranges().await;
        self.readings.fetch_add(1, Ordering::AcqRel);
        *last = found.map(|ranges| self.put(ranges));
        last.clone()
    }

    fn begin_to_watch(self: &Arc<Self>) {
        self.watch.get_or_init(|| {
            let every = (self.settings.alive_bound / CHECKS_PER_BOUND).saturating_sub(RETRY_PAUSE);
            let watching = watch(Arc::downgrade(self), Arc::clone(&self.alarm), every);
            tokio::spawn(watching).abort_handle()
        });
    }

    fn address_of(&self, slot: u16) -> Option<String> {
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        let range = ranges
            .iter()
            .find(|range| (range.first..=range.last).contains(&slot))?;
        Some(range.address.clone())
    }

    /// Asks one node after the other, without waiting long for any, until one that is well answers;
    /// the map of one that is not well is better than none.
    async fn read_ranges(&self) -> Result<Vec<SlotRange>, Error> {
        let mut outcome = Err(Error::connection("a cluster without nodes"));
        let mut next = self.askable().into_iter();
        let mut asked = FuturesUnordered::new();
        loop {
            match next.next() {
                Some(node) => asked.push(async move { self.ranges_of(&node).await }),
                None if asked.is_empty() => return outcome,
                None => {}
            }
            match timeout(TURN, asked.next()).await {
                Ok(Some(Ok((ranges, true)))) => return Ok(ranges),
                Ok(Some(Ok((ranges, false)))) => outcome = Ok(ranges),
                Ok(Some(Err(error))) if outcome.is_err() => outcome = Err(error),
                _ => {}
            }
        }
    }

    /// The nodes that may be asked for the slot map: the known nodes, then the seeds.
    fn askable(&self) -> Vec<Arc<Node>> {
        let mut known: Vec<_> = self.lock_nodes().values().map(Arc::clone).collect();
        known.sort_by_key(|node| node.number());
        // Not always the same one: a node that is cut off from the others knows the old map.
        if !known.is_empty() {
            let turn = self.readings.load(Ordering::Acquire);
            let turn = usize::try_from(turn).unwrap_or(0) % known.len();
            known.rotate_left(turn);
        }
        for seed in &self.seeds {
            let node = self.node_at(&address_of(seed));
            if known.iter().all(|one| one.number() != node.number()) {
                known.push(node);
            }
        }
        known
    }

    /// A node's view of the slot map, and whether the node considers the cluster usable.
    async fn ranges_of(&self, node: &Node) -> Result<(Vec<SlotRange>, bool), Error> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("CLUSTER").arg("INFO");
        pipeline.cmd("CLUSTER").arg("SLOTS");
        let link = node.link().await?;
        let mut values = link.ask(&pipeline).await?;
        let value = values.pop().unwrap_or(Value::Nil);
        let value = reply::checked(value).map_err(|failure| match failure {
            reply::Failure::Error(error) => error,
            reply::Failure::Redirect(_) => Error::connection("the cluster is down"),
        })?;
        let is_well = !values.iter().any(slots::is_not_well);
        match slots::parse(&value) {
            Some(ranges) if ranges.is_empty() => Err(Error::connection("a cluster without slots")),
            Some(ranges) => Ok((ranges, is_well)),
            None => Err(Error::Protocol("no map of slots".into())),
        }
    }

    /// Installs the map: copies of keys in slots that belong to another node are void.
    fn put(&self, found: Vec<SlotRange>) {
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = *ranges != found;
        // The owners before the map: a request sent by the map finds its slot owned by the node.
        let has_moved = is_other && self.give_slots(&found, ranges.is_empty());
        *ranges = found;
        let gone = self.take_those_without(&ranges, is_other);
        drop(ranges);
        // Outside of the locks: a closing connection notifies the listener.
        drop(gone);
        if has_moved && !self.settings.fault.is(Fault::KeptOnMove) {
            self.listener.flush();
        }
    }

    /// Records the owners of slots; returns whether one belonged to another node before.
    fn give_slots(&self, ranges: &[SlotRange], is_first: bool) -> bool {
        let mut numbers = vec![0; usize::from(SLOTS)];
        for range in ranges {
            let number = self.node_at(&range.address).number();
            for slot in range.first..=range.last.min(SLOTS - 1) {
                numbers[usize::from(slot)] = number;
            }
        }
        let mut has_moved = false;
        for (slot, number) in (0..SLOTS).zip(numbers) {
            let is_kept = slot % 2 == 1 && self.settings.fault.is(Fault::KeptOddSlots);
            if !is_kept || is_first {
                has_moved |= self.owners.give(slot, number);
            }
        }
        has_moved
    }

    /// Removes the nodes without slots: after a changed map all of them, otherwise the unused ones.
    fn take_those_without(&self, ranges: &[SlotRange], all: bool) -> Vec<Arc<Node>> {
        let has_slots = |address: &String| ranges.iter().any(|range| range.address == *address);
        let mut nodes = self.lock_nodes();
        let gone =
            nodes.extract_if(|address, node| !has_slots(address) && (all || !node.is_connected()));
        gone.map(|(_, node)| node).collect()
    }

    fn lock_nodes(&self) -> MutexGuard<'_, HashMap<String, Arc<Node>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            watch.abort();
        }
    }
}

/// Listens to connections: if everything may have changed, slots may have moved.
struct Attentive {
    listener: Arc<dyn Listener<[u8]>>,
    alarm: Arc<Notify>,
}

impl Listener<[u8]> for Attentive {
    fn invalidate(&self, key: &[u8]) {
        self.listener.invalidate(key);
    }

    fn flush(&self) {
        self.listener.flush();
        self.alarm.notify_one();
    }

    fn now(&self) -> Duration {
        self.listener.now()
    }
}

/// Reads the map again and again, and whenever there is a reason to.
async fn watch(cluster: Weak<Cluster>, alarm: Arc<Notify>, every: Duration) {
    loop {
        // Err means that the alarm was not raised.
        let _ = timeout(every, alarm.notified()).await;
        let Some(cluster) = cluster.upgrade() else {
            return;
        };
        // An error leaves the map as it is; lost nodes have lost their copies already.
        drop(cluster.refresh().await);
        drop(cluster);
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// The host and port that a client connects to.
fn address_of(client: &Client) -> String {
    match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            format!("{host}:{port}")
        }
        other => other.to_string(),
    }
}

/// A client like `seed` for another address of the same cluster.
fn client_at(seed: &Client, address: &str) -> Client {
    let info = seed.get_connection_info();
    let split = address.rsplit_once(':');
    let parts = split.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    let Some((host, port)) = parts else {
        return seed.clone();
    };
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure,
            tls_params,
        },
        _ => ConnectionAddr::Tcp(host, port),
    };
    Client::open(info.clone().set_addr(addr)).unwrap_or_else(|_| seed.clone())
}
