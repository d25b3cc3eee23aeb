//! Fleet: a cluster of Cellars whose nodes come, go, hang and die, listed in a file or in etcd.
//!
//! Caches find each node behind a proxy, which is the address that the node announces; writers
//! find it where it listens.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use tempfile::TempDir;

use crate::etcd::{Etcd, Relay};
use crate::ledger::{Ledger, Pen};
use crate::proxy::{Proxy, ProxyTarget};
use crate::servers::{Kind, Server};
use crate::wait::retry_for;
use crate::writer::{Failed, HEALING, Refused, Writer};

/// How long a node that is silent keeps its slots in etcd.
const LEASE: &str = "2s";
/// How often a writer is sent from node to node.
const HOPS: usize = 4;
/// All slots.
const SLOTS: u32 = 16_384;

/// What the nodes are called; the last one comes and goes.
pub(crate) const NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

/// Where the list of the nodes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    InFile,
    InEtcd,
}

enum Place {
    File(TempDir),
    /// The third node asks etcd through the relay.
    Etcd(Etcd, Relay),
}

struct FleetNode {
    proxy: Proxy,
    server: Option<Server>,
    is_listed: bool,
}

/// The nodes.
pub(crate) struct Fleet {
    place: Place,
    nodes: Vec<FleetNode>,
}

impl Fleet {
    /// Three nodes that serve all slots, and one that is to come; none without etcd.
    pub(crate) async fn start(listed: Listed) -> Option<Fleet> {
        let place = match listed {
            Listed::InFile => Place::File(tempfile::tempdir().unwrap()),
            Listed::InEtcd => {
                let etcd = tokio::task::spawn_blocking(Etcd::start).await.unwrap()?;
                let relay = Relay::to(etcd.address());
                Place::Etcd(etcd, relay)
            }
        };
        let mut fleet = Fleet {
            place,
            nodes: Vec::new(),
        };
        for node in 0..NAMES.len() {
            fleet.nodes.push(FleetNode {
                proxy: Proxy::start("127.0.0.1:1").await,
                server: None,
                is_listed: node < 3,
            });
        }
        fleet.write_list();
        for node in 0..3 {
            fleet.start_node(node).await;
        }
        if listed == Listed::InFile {
            fleet.start_node(3).await;
        }
        Some(fleet)
    }

    /// Where caches find the first three nodes.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let proxies = self.nodes[..3].iter().map(|node| node.proxy.address());
        proxies.map(str::to_owned).collect()
    }

    /// What stands before each node.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.nodes.iter().map(|node| &node.proxy)
    }

    /// Starts a node that does not run; where it was before if it ran before.
    pub(crate) async fn start_node(&mut self, node: usize) {
        let server = match self.nodes[node].server.take() {
            Some(server) => server.restart().await,
            None => {
                let flags = self.flags(node);
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                Server::start_with(Kind::Cellar, &flags).await
            }
        };
        self.nodes[node].proxy.lead_to(&server.address());
        self.nodes[node].server = Some(server);
    }

    fn flags(&self, node: usize) -> Vec<String> {
        let source = match &self.place {
            Place::File(folder) => format!("file:{}", folder.path().join("nodes").display()),
            Place::Etcd(_, relay) if node == 2 => format!("etcd:http://{}/test", relay.address),
            Place::Etcd(etcd, _) => format!("etcd:http://{}/test", etcd.address()),
        };
        let mut flags = vec!["--cluster", &source, "--node", NAMES[node]];
        if let Place::Etcd(..) = self.place {
            let announced = self.nodes[node].proxy.address();
            flags.extend(["--announce-resp", announced, "--cluster-lease", LEASE]);
        }
        flags.extend(["--memcached", "off"]);
        flags.into_iter().map(str::to_owned).collect()
    }

    /// The process of a node that was started.
    pub(crate) fn server(&mut self, node: usize) -> &mut Server {
        self.nodes[node].server.as_mut().expect("it was started")
    }

    /// The nodes that are, or are to be, in the list.
    pub(crate) fn listed(&self) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        let listed = nodes.filter(|(_, node)| node.is_listed);
        listed.map(|(number, _)| number).collect()
    }

    /// Lists a node or not, for those that read a file; in etcd it lists itself.
    pub(crate) fn list(&mut self, node: usize, is_listed: bool) {
        self.nodes[node].is_listed = is_listed;
        self.write_list();
    }

    fn write_list(&self) {
        let Place::File(folder) = &self.place else {
            return;
        };
        let listed = NAMES
            .iter()
            .zip(&self.nodes)
            .filter(|(_, node)| node.is_listed);
        let lines = listed.map(|(name, node)| format!("{name} resp={}\n", node.proxy.address()));
        let fresh = folder.path().join("fresh");
        std::fs::write(&fresh, lines.collect::<String>()).unwrap();
        std::fs::rename(fresh, folder.path().join("nodes")).unwrap();
    }

    /// Cuts the third node off from etcd, or lets it in again.
    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        if let Place::Etcd(_, relay) = &self.place {
            relay.freeze(is_cut_off);
        }
    }

    /// Waits until these nodes serve all slots between them, each some; or it is over.
    pub(crate) async fn serve_all(&self, nodes: &[usize], ledger: &Ledger) {
        let is_whole = |served: &[u32]| {
            served.iter().sum::<u32>() == SLOTS && served.iter().all(|slots| *slots > 0)
        };
        self.wait_until(nodes, ledger, is_whole).await;
    }

    /// Waits until these nodes serve all slots between them, each some.
    pub(crate) async fn all_serve(&self, nodes: &[usize]) {
        let nobody = Ledger::new(0, Duration::ZERO, false);
        self.serve_all(nodes, &nobody).await;
    }

    /// Waits until a node that runs serves nothing; or it is over.
    pub(crate) async fn serves_nothing(&self, node: usize, ledger: &Ledger) {
        self.wait_until(&[node], ledger, |served| served == [0])
            .await;
    }

    async fn wait_until(&self, nodes: &[usize], ledger: &Ledger, is_so: impl Fn(&[u32]) -> bool) {
        let is_healed = || async {
            if ledger.has_ended() {
                return Some(());
            }
            let served = self.served_by(nodes).await;
            (served.len() == nodes.len() && is_so(&served)).then_some(())
        };
        if retry_for(HEALING, is_healed).await.is_none() {
            let served = self.served_by(nodes).await;
            panic!("slots that {nodes:?} serve: {served:?}");
        }
    }

    /// How many slots each of these nodes serves, without those that do not say so in time.
    async fn served_by(&self, nodes: &[usize]) -> Vec<u32> {
        let mut served = Vec::new();
        for &node in nodes {
            served.extend(self.served(node).await);
        }
        served
    }

    /// How many slots a node serves, by its lease too; none if it does not say so in time, as on a
    /// busy machine: it is asked again.
    async fn served(&self, node: usize) -> Option<u32> {
        let server = self.nodes[node].server.as_ref().expect("it was started");
        let info = server.client().await.try_run(&["CLUSTER", "INFO"]).await;
        let info: String = redis::from_redis_value(info.ok()?).unwrap();
        let field = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let is_leased = field("cluster_state") == Some("ok");
        let served = field("cluster_slots_served").and_then(|served| served.parse().ok());
        Some(served.filter(|_| is_leased).unwrap_or(0))
    }

    /// A writer that goes where a key is.
    pub(crate) fn pen(&self, number: usize) -> FleetPen {
        // What is not started yet listens nowhere; it is led to once it does.
        FleetPen {
            targets: self.proxies().map(target).collect(),
            current: self.nodes[number % 3].proxy.address().to_owned(),
            connections: HashMap::new(),
        }
    }
}

/// Where a proxy listens, and where it leads.
type Target = (String, ProxyTarget);

fn target(proxy: &Proxy) -> Target {
    (proxy.address().to_owned(), proxy.target())
}

/// A client of the cluster without a cache.
pub(crate) struct FleetPen {
    targets: Vec<Target>,
    /// The address, as nodes announce it, that is asked next.
    current: String,
    connections: HashMap<String, Writer>,
}

impl FleetPen {
    async fn writer(&mut self) -> Option<&mut Writer> {
        let known = match self.connections.entry(self.current.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let announced = |(address, _): &&Target| *address == self.current;
                let (_, target) = self.targets.iter().find(announced)?;
                unknown.insert(Writer::open_at(&target.now()).await?)
            }
        };
        Some(known)
    }

    /// Asks another node next, over a new connection if it has failed.
    fn turn_elsewhere(&mut self) {
        self.connections.remove(&self.current);
        let at = self
            .targets
            .iter()
            .position(|(address, _)| *address == self.current);
        let next = at.map_or(0, |at| at + 1) % 3;
        self.current = self.targets[next].0.clone();
    }
}

impl Pen for FleetPen {
    async fn set(&mut self, name: &str, value: &str) -> Result<(), Failed> {
        for _ in 0..HOPS {
            let Some(writer) = self.writer().await else {
                self.turn_elsewhere();
                return Err(Failed::Ended);
            };
            match writer.try_set(name, value).await {
                Ok(()) => return Ok(()),
                Err(Refused::Failed(Failed::Silent)) => {
                    self.connections.remove(&self.current);
                    return Err(Failed::Silent);
                }
                Err(Refused::Says(error)) if error.starts_with("-CLUSTERDOWN ") => {
                    return Err(Failed::Ended);
                }
                Err(Refused::Says(error)) if error.starts_with("-MOVED ") => {
                    let (_, address) = error.rsplit_once(' ').expect("it says where to");
                    address.clone_into(&mut self.current);
                }
                Err(_) => {
                    self.turn_elsewhere();
                    return Err(Failed::Ended);
                }
            }
        }
        Err(Failed::Ended)
    }
}
