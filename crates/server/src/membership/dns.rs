//! DNS: a list of the addresses of a name, as a headless service of Kubernetes has them.
//!
//! The system's resolver is asked, on a thread of its own, each second. A node is called by its
//! address, and has the ports that this one announces. What cannot be answered changes nothing.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::Signal;
use super::keeper::Keeper;
use crate::cluster::list::NodeList;
use crate::cluster::node::Node;
use crate::protocol::Protocol;
use crate::settings::address::Address;
use crate::settings::announced::Announced;

/// How often the name is asked for.
const LOOK: Duration = Duration::from_secs(1);

/// The name, and what each of its addresses offers.
pub(super) struct NamedList {
    name: String,
    /// What this node announces, of which the ports are all nodes'.
    like: Announced,
}

impl NamedList {
    /// The list of a name whose nodes all have these ports.
    ///
    /// # Errors
    /// Ports that nobody can connect to.
    pub(super) fn of(name: &str, like: Announced) -> Result<NamedList, String> {
        let list = NamedList {
            name: name.to_owned(),
            like,
        };
        // It is to be known at the start.
        let nodes = list.nodes(&[IpAddr::from([192, 0, 2, 1])]);
        nodes.map_err(|reason| format!("all nodes have this one's ports; {reason}"))?;
        Ok(list)
    }

    /// Asks for the name again and again, until the end.
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

    fn look(&self) -> Result<NodeList, String> {
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

    /// What this node announces, at another host.
    fn at(&self, host: IpAddr) -> Announced {
        let mut announced = Announced::default();
        for protocol in Protocol::ALL {
            let own = self.like.of(protocol).iter();
            let moved = own.filter_map(|address| {
                let (_, port) = address.host_and_port()?;
                let place = SocketAddr::new(host, port.parse().ok()?).to_string();
                Some(if address.is_tls() {
                    Address::Tls(place)
                } else {
                    Address::Tcp(place)
                })
            });
            *announced.of_mut(protocol) = moved.collect();
        }
        announced
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
}
