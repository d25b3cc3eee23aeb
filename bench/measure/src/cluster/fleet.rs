//! Fleet: the nodes of a cluster as processes, listed in a file or registered in etcd.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use cellar_cluster::list::NodeList;
use cellar_cluster::map::Owners;
use cellar_cluster::slot::{SLOTS, slot_of};
use cellar_load::{
    Client, Drive, Error, Ingredients, Limit, NS_PER_S, Plan, Recipe, Records, ReservedPort,
    Server, Wire, now_ns,
};
use serde::Serialize;
use tempfile::TempDir;

/// How long nodes may take to follow a list.
const AGREE_NS: u64 = 30 * NS_PER_S;
const POLL: Duration = Duration::from_millis(10);
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// A list of which no node of a fleet is one.
const NOBODY: &str = "nobody resp=127.0.0.1:1\n";

/// A server of Cellar's that speaks two protocols.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) server: Server,
    memcached: ReservedPort,
}

/// An etcd of one member.
pub(super) struct Etcd {
    server: Server,
    _peers: ReservedPort,
    _folder: TempDir,
}

/// What etcd says it has done.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct EtcdCounts {
    pub(super) looks: f64,
    pub(super) stores: f64,
    pub(super) told: f64,
    pub(super) sent_bytes: f64,
}

impl EtcdCounts {
    /// What was done since an earlier count.
    pub(super) fn since(self, earlier: EtcdCounts) -> EtcdCounts {
        EtcdCounts {
            looks: self.looks - earlier.looks,
            stores: self.stores - earlier.stores,
            told: self.told - earlier.told,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
        }
    }
}

/// Nodes that were told of each other.
pub(super) struct Fleet<'e> {
    recipe: Recipe,
    with: Ingredients,
    etcd: Option<&'e Etcd>,
    folder: TempDir,
    pub(super) nodes: Vec<Node>,
}

impl Node {
    /// Starts a server with two protocols; `flags` are what else it is told.
    pub(super) fn start(
        name: &str,
        cellar: &Recipe,
        flags: &[&str],
        with: Ingredients,
    ) -> Result<Node, Error> {
        let memcached = reserved()?;
        let mut recipe = cellar.with("", flags);
        let off = recipe.words.iter().position(|word| word == "--memcached");
        let address = off.and_then(|off| recipe.words.get_mut(off + 1));
        if let Some(address) = address {
            *address = format!("127.0.0.1:{}", memcached.address().port());
        }
        Ok(Node {
            name: name.to_owned(),
            server: recipe.start(with)?,
            memcached,
        })
    }

    /// How it is asked over a protocol.
    pub(super) fn drive(&self, wire: Wire, connections: usize, limit: Limit) -> Drive {
        let drive = self.server.drive(connections, limit);
        match wire {
            Wire::Memcached => Drive {
                wire,
                target: self.memcached.address().clone(),
                ..drive
            },
            _ => drive,
        }
    }

    pub(super) fn client(&self) -> Result<Client, Error> {
        Client::connect(self.server.address(), Wire::Resp, PATIENCE)
    }

    /// How many slots it serves.
    fn served(&self) -> Result<usize, Error> {
        let info = self.client()?.text(&["CLUSTER", "INFO"])?;
        let lines = info.lines();
        let served = lines
            .filter_map(|line| line.strip_prefix("cluster_slots_served:"))
            .find_map(|slots| slots.parse().ok());
        served.ok_or_else(|| Error::Garbled(format!("no slots in {info:?}")))
    }
}

fn reserved() -> Result<ReservedPort, Error> {
    ReservedPort::take().map_err(|error| Error::system("looking for a free port", error))
}

impl Etcd {
    /// Starts etcd by the path of its program.
    pub(super) fn start(program: &str) -> Result<Etcd, Error> {
        let peers = reserved()?;
        let folder = TempDir::new();
        let folder = folder.map_err(|error| Error::system("making a folder", error))?;
        let (client, peer) = (
            "http://127.0.0.1:{port}",
            format!("http://127.0.0.1:{}", peers.address().port()),
        );
        let arguments = format!(
            "--data-dir {} --listen-client-urls {client} --advertise-client-urls {client} \
             --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} \
             --initial-cluster default={peer}",
            folder.path().display()
        );
        let recipe = Recipe::new("etcd", Wire::Http, program, &arguments);
        Ok(Etcd {
            server: recipe.start(Ingredients::of(0))?,
            _peers: peers,
            _folder: folder,
        })
    }

    /// What it has done so far.
    pub(super) fn counts(&self) -> Result<EtcdCounts, Error> {
        let failed = |error| Error::system("reading etcd's figures", error);
        let mut text = String::new();
        let stream = TcpStream::connect(("127.0.0.1", self.server.address().port()));
        let mut stream = stream.map_err(failed)?;
        stream
            .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            .and_then(|()| stream.read_to_string(&mut text))
            .map_err(failed)?;
        let figure = |parts: &[&str]| {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let line = lines.filter(|line| parts.iter().all(|part| line.contains(part)));
            let values = line.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.sum()
        };
        Ok(EtcdCounts {
            looks: figure(&["grpc_server_handled_total", "\"OK\"", "\"Range\""]),
            stores: figure(&["etcd_mvcc_put_total"]),
            told: figure(&["grpc_server_msg_sent_total", "etcdserverpb.Watch"]),
            sent_bytes: figure(&["etcd_network_client_grpc_sent_bytes_total"]),
        })
    }

    /// Connections that clients have to it.
    pub(super) fn connections(&self) -> Result<usize, Error> {
        let text = std::fs::read_to_string("/proc/net/tcp");
        let text = text.map_err(|error| Error::system("counting connections", error))?;
        // The far end's port in hexadecimal digits, and the state of what is established.
        let far = format!(":{:04X} 01 ", self.server.address().port());
        Ok(text.lines().filter(|line| line.contains(&far)).count())
    }
}

impl<'e> Fleet<'e> {
    /// Starts so many nodes, and waits until they serve all slots between them.
    pub(super) fn start(
        recipe: &Recipe,
        count: usize,
        etcd: Option<&'e Etcd>,
        with: Ingredients,
    ) -> Result<Fleet<'e>, Error> {
        let folder = TempDir::new();
        let mut fleet = Fleet {
            recipe: recipe.clone(),
            with,
            etcd,
            folder: folder.map_err(|error| Error::system("making a folder", error))?,
            nodes: Vec::new(),
        };
        fleet.write(NOBODY)?;
        for _ in 0..count {
            fleet.add()?;
        }
        fleet.put(count)?;
        fleet.wait(count)?;
        Ok(fleet)
    }

    /// Where its list comes from.
    pub(super) fn source(&self) -> &'static str {
        if self.etcd.is_some() {
            "etcd"
        } else {
            "a file"
        }
    }

    /// Starts one more node, which a file does not name yet.
    pub(super) fn add(&mut self) -> Result<(), Error> {
        let node = self.node(&format!("n{}", self.nodes.len()))?;
        self.nodes.push(node);
        Ok(())
    }

    /// Starts a node that was killed anew, under its old name.
    pub(super) fn replace(&mut self, place: usize) -> Result<(), Error> {
        self.nodes[place] = self.node(&self.nodes[place].name)?;
        Ok(())
    }

    fn node(&self, name: &str) -> Result<Node, Error> {
        let folder = self.folder.path().display();
        let source = match self.etcd {
            None => format!("file:{folder}/list"),
            // Each fleet is a cluster of its own.
            Some(etcd) => {
                let folder = self.folder.path().file_name().unwrap_or_default();
                let cluster = folder.to_string_lossy().replace('.', "");
                format!("etcd:http://{}/{cluster}", etcd.server.address())
            }
        };
        let flags = ["--cluster", &source, "--node", name];
        Node::start(name, &self.recipe, &flags, self.with)
    }

    /// Makes the first so many nodes the list, if that is a file.
    pub(super) fn put(&self, count: usize) -> Result<(), Error> {
        match self.etcd {
            None => self.write(&self.nodes[..count].iter().map(line).collect::<String>()),
            Some(_) => Ok(()),
        }
    }

    fn write(&self, text: &str) -> Result<(), Error> {
        let [fresh, list] = ["fresh", "list"].map(|name| self.folder.path().join(name));
        let written = std::fs::write(&fresh, text);
        let written = written.and_then(|()| std::fs::rename(&fresh, &list));
        written.map_err(|error| Error::system("writing the list of nodes", error))
    }

    /// The map by which these nodes, by their places, keep slots.
    pub(super) fn map(&self, places: &[usize]) -> Result<FleetMap, Error> {
        let text: String = places.iter().map(|it| line(&self.nodes[*it])).collect();
        let list = NodeList::parse(&text).map_err(Error::Wrong)?;
        let owners = Owners::of(&list);
        let place = |name: &str| self.nodes.iter().position(|node| node.name == name);
        let of_list = list.nodes().iter().filter_map(|node| place(&node.name));
        let of_list: Vec<usize> = of_list.collect();
        let owner = |slot| of_list[usize::from(owners.node(slot))];
        Ok(FleetMap((0..SLOTS).map(owner).collect()))
    }

    /// Waits until the first so many nodes serve all slots between them, as their map says.
    pub(super) fn wait(&self, count: usize) -> Result<(), Error> {
        self.wait_for(&(0..count).collect::<Vec<_>>())
    }

    /// The same of these nodes.
    pub(super) fn wait_for(&self, places: &[usize]) -> Result<(), Error> {
        let map = self.map(places)?;
        let until_ns = now_ns() + AGREE_NS;
        while now_ns() < until_ns {
            let mut are_ready = true;
            for place in places {
                let owned = map.0.iter().filter(|owner| *owner == place).count();
                are_ready &= self.nodes[*place].served()? == owned;
            }
            if are_ready {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err(Error::Wrong("the nodes do not agree".to_owned()))
    }
}

/// A node as a file lists it.
fn line(node: &Node) -> String {
    let (resp, memcached) = (node.server.address(), node.memcached.address());
    format!("{} resp={resp} memcached={memcached}\n", node.name)
}

/// The place of the node of each slot.
pub(super) struct FleetMap(Vec<usize>);

impl FleetMap {
    /// By slot.
    pub(super) fn owners(&self) -> &[usize] {
        &self.0
    }

    /// The place of the node that keeps a key.
    pub(super) fn owner(&self, key: &[u8]) -> usize {
        self.0[usize::from(slot_of(key))]
    }

    /// The records that a node keeps.
    pub(super) fn of(&self, records: &Records, place: usize) -> Vec<u32> {
        let mut key = Vec::new();
        let mut is_own = |number: &u64| {
            key.clear();
            records.push_key(&mut key, *number);
            self.owner(&key) == place
        };
        let numbers = (0..records.keys()).filter(|number| is_own(number));
        numbers.map(|number| number as u32).collect()
    }
}

/// Gets of these records alone, on the load's processor.
pub(super) fn gets(mut drive: Drive, records: Records, only: &[u32], cpu: usize) -> Plan {
    drive.cpus = vec![cpu];
    Plan {
        only: Some(only.into()),
        ..Plan::gets(drive, records)
    }
}
