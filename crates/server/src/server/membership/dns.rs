//! DNS: a node list from a DNS name, such as a headless service of Kubernetes.
//!
//! It is resolved each second, on its own thread. A plain name has addresses: a node's name is its
//! address, and its ports are those that this node announces. `_PROTOCOL._tcp.NAME` has SRV
//! records: a node's name is its `HOST:PORT`, and it speaks that protocol there. A failed query
//! changes nothing.

mod records; // SRV records

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use cellar_cluster::list::NodeList;
use cellar_cluster::node::Node;
use cellar_config::protocol::Protocol;
use cellar_config::settings::address::Address;
use cellar_config::settings::announced::Announced;

use self::records::ServiceRecord;
use super::Signal;
use super::keeper::Keeper;

/// How often the name is asked for.
const LOOK: Duration = Duration::from_secs(1);

/// The name, and what each of its nodes offers.
pub(super) struct NamedList {
    name: String,
    /// The protocol at the ports of SRV records, if the name has such records.
    service: Option<Protocol>,
    /// What this node announces; its ports apply to all nodes.
    like: Announced,
}

impl NamedList {
    /// Creates the list of a name whose nodes all have these ports, except those in records.
    ///
    /// # Errors
    /// Ports that no client can connect to, or a record name without a known protocol.
    pub(super) fn of(name: &str, like: Announced) -> Result<NamedList, String> {
        let list = NamedList {
            name: name.to_owned(),
            service: service(name)?,
            like,
        };
        // An error is to be reported at the start.
        let nodes = list.nodes(&[IpAddr::from([192, 0, 2, 1])]);
        nodes.map_err(|reason| format!("the nodes have the same ports as this one: {reason}"))?;
        Ok(list)
    }

    /// Resolves the name periodically, until the end.
    pub(super) fn follow(self, keeper: &Keeper, signals: &Receiver<Signal>) {
        let source = format!("dns:{}", self.name);
        loop {
            let outcome = self.look().and_then(|list| keeper.follow(list));
            keeper.judge_once(outcome, &source);
            if signals.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Resolves the name.
    ///
    /// # Errors
    /// A message if that yields no list.
    pub(super) fn look(&self) -> Result<NodeList, String> {
        if let Some(protocol) = self.service {
            return self.served(&records::look_up(&self.name)?, protocol);
        }
        let found = (self.name.as_str(), 0).to_socket_addrs();
        let found = found.map_err(|error| format!("DNS does not know the name: {error}"))?;
        let mut hosts: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        self.nodes(&hosts)
    }

    fn nodes(&self, hosts: &[IpAddr]) -> Result<NodeList, String> {
        let nodes = hosts.iter().map(|host| Node {
            name: host.to_string(),
            weight: 1,
            announced: self.at(*host),
        });
        NodeList::of(nodes.collect())
    }

    /// The nodes of SRV records. Several nodes of one host cannot all have this node's other ports
    /// there, so they announce none.
    fn served(&self, records: &[ServiceRecord], protocol: Protocol) -> Result<NodeList, String> {
        let nodes = records.iter().map(|record| {
            let there = |other: &&ServiceRecord| other.address == record.address;
            let mut announced = match records.iter().filter(there).count() {
                1 => self.at(record.address),
                _ => Announced::default(),
            };
            let place = SocketAddr::new(record.address, record.port).to_string();
            let own = announced.of_mut(protocol);
            own.retain(Address::is_tls);
            own.insert(0, Address::Tcp(place));
            Node {
                name: format!("{}:{}", record.host, record.port),
                weight: 1,
                announced,
            }
        });
        NodeList::of(nodes.collect())
    }

    /// This node's announcement, at another host.
    fn at(&self, host: IpAddr) -> Announced {
        self.like.map(|own| {
            let moved = own.iter().filter_map(|address| {
                let (_, port) = address.host_and_port()?;
                let place = SocketAddr::new(host, port.parse().ok()?).to_string();
                Some(if address.is_tls() {
                    Address::Tls(place)
                } else {
                    Address::Tcp(place)
                })
            });
            moved.collect()
        })
    }
}

/// The protocol of an SRV record name, `_redis._tcp.NAME`; none for other names. As in port names
/// of Kubernetes, the transport may precede it: `_tcp-redis`.
fn service(name: &str) -> Result<Option<Protocol>, String> {
    let Some(behind) = name.strip_prefix('_') else {
        return Ok(None);
    };
    let (port, rest) = behind.split_once('.').unwrap_or((behind, ""));
    let service = port.strip_prefix("tcp-").unwrap_or(port);
    let mut all = Protocol::ALL.into_iter();
    let protocol = all.find(|one| one.row().services.contains(&service));
    match protocol {
        Some(_) if rest.starts_with("_tcp.") => Ok(protocol),
        _ => Err(format!(
            "{name:?} is not a service of Cellar; write dns:_redis._tcp.NAME, or _memcached or \
             _http in place of _redis"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_a_node_with_the_ports_of_this_one() {
        let like = Announced {
            resp: Address::parse_all("0.0.0.0:6379,tls:0.0.0.0:6380").unwrap(),
            http: Address::parse_all("[::]:8080").unwrap(),
            ..Announced::default()
        };
        let list = NamedList::of("localhost", like).unwrap();
        let hosts = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let nodes = list.nodes(&hosts).unwrap();
        let [one, other] = nodes.nodes() else {
            panic!("{nodes:?}");
        };
        assert_eq!(
            (one.name.as_str(), other.name.as_str()),
            ("10.0.0.1", "fd00::1")
        );
        assert_eq!(
            Address::show_all(&one.announced.resp),
            "10.0.0.1:6379,tls:10.0.0.1:6380"
        );
        assert_eq!(Address::show_all(&other.announced.http), "[fd00::1]:8080");
        assert!(list.nodes(&[]).is_err());
        assert!(!list.look().unwrap().nodes().is_empty());
        let free = Announced {
            resp: Address::parse_all("127.0.0.1:0").unwrap(),
            ..Announced::default()
        };
        assert!(NamedList::of("localhost", free).is_err());
    }

    #[test]
    fn each_record_is_a_node_with_the_port_that_it_says() {
        let like = Announced {
            resp: Address::parse_all("0.0.0.0:6379,tls:0.0.0.0:6380").unwrap(),
            http: Address::parse_all("0.0.0.0:8080").unwrap(),
            ..Announced::default()
        };
        let list = NamedList::of("_tcp-redis._tcp.a.b", like).unwrap();
        assert_eq!(list.service, Some(Protocol::Resp));
        let record = |host: &str, port, last| ServiceRecord {
            host: host.to_owned(),
            port,
            address: IpAddr::from([10, 0, 0, last]),
        };
        let records = [record("x.b", 7001, 1), record("y.b", 7002, 2)];
        let nodes = list.served(&records, Protocol::Resp).unwrap();
        let [one, other] = nodes.nodes() else {
            panic!("{nodes:?}");
        };
        assert_eq!((&*one.name, &*other.name), ("x.b:7001", "y.b:7002"));
        let shown = Address::show_all(&one.announced.resp);
        assert_eq!(shown, "10.0.0.1:7001,tls:10.0.0.1:6380");
        assert_eq!(Address::show_all(&one.announced.http), "10.0.0.1:8080");
        assert!(list.served(&[], Protocol::Resp).is_err());
        let records = [record("x.b", 7001, 1), record("x.b", 7002, 1)];
        let nodes = list.served(&records, Protocol::Resp).unwrap();
        for (node, port) in nodes.nodes().iter().zip(["7001", "7002"]) {
            let shown = Address::show_all(&node.announced.resp);
            assert_eq!(shown, format!("10.0.0.1:{port}"));
            assert!(node.announced.http.is_empty());
        }
        for bad in ["_redis", "_redis._udp.a", "_mysql._tcp.a", "_._tcp.a"] {
            assert!(
                service(bad).unwrap_err().contains("is not a service"),
                "{bad}"
            );
        }
    }
}
