//! A cluster: which node has which slot, and what happens when that changes.
//!
//! Nodes are known by address. The map of slots is read at the first use, after every redirection,
//! and once in a while by a task of its own: a node that has lost its slots tells of no changes to
//! their keys any more, and nobody asks it while copies are served. When the map has changed,
//! everything that was read before is void.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use redis::{Client, ConnectionAddr, Pipeline, Value};

use super::node::Node;
use super::{RedisSettings, reply};
use crate::read_through::error::Error;
use crate::read_through::origin::Listener;

/// How many slots there are.
const SLOTS: u16 = 16384;
/// The map is read again at least so many times within the bound on liveness.
const CHECKS_PER_BOUND: u32 = 1;

/// Slots from `first` to `last` and the address of their node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    address: String,
}

/// All nodes and the map of slots.
pub(super) struct Cluster {
    seeds: Vec<Client>,
    settings: RedisSettings,
    listener: Arc<dyn Listener<[u8]>>,
    nodes: Mutex<HashMap<String, Arc<Node>>>,
    ranges: RwLock<Vec<Range>>,
    /// Held while the map is read, so that one reads it for all.
    reading: tokio::sync::Mutex<()>,
    /// How often it has been read.
    // Acquire and AcqRel: who sees a reading counted began its own question before that reading, or
    // sees by the lock what it has read.
    readings: AtomicU64,
    watch: std::sync::OnceLock<tokio::task::AbortHandle>,
}

impl Cluster {
    pub(super) fn new(
        seeds: &[Client],
        settings: RedisSettings,
        listener: &Arc<dyn Listener<[u8]>>,
    ) -> Arc<Cluster> {
        Arc::new(Cluster {
            seeds: seeds.to_vec(),
            settings,
            listener: Arc::clone(listener),
            nodes: Mutex::default(),
            ranges: RwLock::default(),
            reading: tokio::sync::Mutex::new(()),
            readings: AtomicU64::new(0),
            watch: std::sync::OnceLock::new(),
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
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = nodes.entry(address.to_owned()).or_insert_with(|| {
            let client = client_at(&self.seeds[0], address);
            Node::new(client, self.settings.clone(), &self.listener)
        });
        Arc::clone(known)
    }

    /// Reads the map of slots anew; of all who come meanwhile, one more reads it for all.
    pub(super) async fn refresh(&self) -> Result<(), Error> {
        let before = self.readings.load(Ordering::Acquire);
        let _reading = self.reading.lock().await;
        // The reading that was under way may have begun too early; the next one has not.
        if self.readings.load(Ordering::Acquire) >= before + 2 {
            return Ok(());
        }
        let ranges = self.read_ranges().await?;
        self.readings.fetch_add(1, Ordering::AcqRel);
        self.put(ranges);
        Ok(())
    }

    fn begin_to_watch(self: &Arc<Self>) {
        self.watch.get_or_init(|| {
            let every = self.settings.alive_bound / CHECKS_PER_BOUND;
            tokio::spawn(watch(Arc::downgrade(self), every)).abort_handle()
        });
    }

    fn address_of(&self, slot: u16) -> Option<String> {
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        let range = ranges
            .iter()
            .find(|range| (range.first..=range.last).contains(&slot))?;
        Some(range.address.clone())
    }

    /// Asks the known nodes, then the first ones, until one answers.
    async fn read_ranges(&self) -> Result<Vec<Range>, Error> {
        let mut last = Error::connection("a cluster without nodes");
        let mut asked: Vec<Arc<Node>> = self.known_nodes();
        for seed in &self.seeds {
            asked.push(self.node_at(&address_of(seed)));
        }
        for node in asked {
            match self.ranges_of(&node).await {
                Ok(ranges) if !ranges.is_empty() => return Ok(ranges),
                Ok(_) => last = Error::connection("a cluster without slots"),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn known_nodes(&self) -> Vec<Arc<Node>> {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut nodes: Vec<Arc<Node>> = nodes.values().cloned().collect();
        // Not always the same one: a node that is cut off from the others knows the old map.
        if !nodes.is_empty() {
            let turn = usize::try_from(self.listener.now().as_millis()).unwrap_or(0) % nodes.len();
            nodes.rotate_left(turn);
        }
        nodes
    }

    async fn ranges_of(&self, node: &Node) -> Result<Vec<Range>, Error> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("CLUSTER").arg("SLOTS");
        let link = node.link().await?;
        let value = link.ask(&pipeline).await?.pop().unwrap_or(Value::Nil);
        let value = reply::checked(value).map_err(|failure| match failure {
            reply::Failure::Error(error) => error,
            reply::Failure::Redirect(_) => Error::connection("the cluster is down"),
        })?;
        parse(&value).ok_or_else(|| Error::Protocol("no map of slots".into()))
    }

    /// Takes the map over; if it is another one, all that was read is void.
    fn put(&self, found: Vec<Range>) {
        let mut ranges = self.ranges.write().unwrap_or_else(PoisonError::into_inner);
        if *ranges == found {
            return;
        }
        let first = ranges.is_empty();
        *ranges = found;
        drop(ranges);
        if first {
            return;
        }
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for link in nodes.values().filter_map(|node| node.link_now()) {
            link.void();
        }
        drop(nodes);
        self.listener.flush();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            watch.abort();
        }
    }
}

/// Reads the map again and again.
async fn watch(cluster: Weak<Cluster>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(cluster) = cluster.upgrade() else {
            return;
        };
        // An error leaves the map as it is; lost nodes have lost their copies already.
        drop(cluster.refresh().await);
    }
}

/// The slot of a key: of the part in the first braces, if there is one.
fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let inner = &key[open + 1..];
        let close = inner.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &inner[..close])
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS
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

/// Reads the reply to `CLUSTER SLOTS`: first and last slot, then nodes, the one that writes first.
fn parse(value: &Value) -> Option<Vec<Range>> {
    let Value::Array(rows) = value else {
        return None;
    };
    rows.iter().map(parse_range).collect()
}

fn parse_range(row: &Value) -> Option<Range> {
    let Value::Array(row) = row else {
        return None;
    };
    let (first, last) = (slot_number(row.first()?)?, slot_number(row.get(1)?)?);
    let Value::Array(node) = row.get(2)? else {
        return None;
    };
    let host: String = redis::from_redis_value(node.first()?.clone()).ok()?;
    let port = slot_number(node.get(1)?)?;
    Some(Range {
        first,
        last,
        address: format!("{host}:{port}"),
    })
}

/// A number of sixteen bits.
fn slot_number(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_redis_slots_and_braces_choose_the_part_that_counts() {
        assert_eq!(slot_of(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), 8363);
        assert_eq!(slot_of(b"foo"), 12182);
    }

    #[test]
    fn the_map_is_read_and_nonsense_is_not() {
        let node = Value::Array(vec![
            Value::BulkString(b"127.0.0.1".to_vec()),
            Value::Int(7000),
        ]);
        let row = Value::Array(vec![Value::Int(0), Value::Int(5460), node]);
        let ranges = parse(&Value::Array(vec![row])).unwrap();
        assert_eq!(ranges[0].address, "127.0.0.1:7000");
        assert_eq!((ranges[0].first, ranges[0].last), (0, 5460));
        assert_eq!(parse(&Value::Array(vec![Value::Int(1)])), None);
        assert_eq!(parse(&Value::Nil), None);
    }
}
