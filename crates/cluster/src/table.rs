//! Table: a map with all replies that describe it, encoded once.
//!
//! Clients read a map in six forms: CLUSTER SLOTS, SHARDS and NODES of Redis, `config get cluster`
//! of ElastiCache's memcached, and a JSON document over HTTP; TLS clients get the TLS addresses.

use std::fmt::Write;
use std::sync::Arc;

use cellar_config::protocol::Protocol;
use cellar_config::settings::announced::Place;
use cellar_protocol::resp::{Proto, Reply};
use serde_json::json;

use super::list::NodeList;
use super::map::{Owners, SlotRun};
use super::node::Node;
use super::slot::SLOTS;

/// A map in force, and its encoded replies.
#[derive(Debug)]
pub struct SlotTable {
    /// The nodes.
    pub list: NodeList,
    /// The node of each slot.
    pub owners: Owners,
    /// This node's index among them, if it is in the list.
    pub me: Option<u16>,
    /// The Unix second since which it is in force, at least, and more than that of the map before
    /// it: clients that ask several nodes, or a restarted one, use the highest.
    pub version: u64,
    /// The same number on all nodes that have the same map.
    pub fingerprint: u64,
    ids: Vec<String>,
    plain: Forms,
    tls: Forms,
}

/// A number computed from a map alone: FNV-1a of the nodes and their slots.
fn fingerprint(ids: &[String], runs: &[SlotRun]) -> u64 {
    let nodes = ids.iter().flat_map(|id| id.bytes());
    let slots = runs.iter().flat_map(|run| [run.first, run.last, run.node]);
    let slots = slots.flat_map(u16::to_le_bytes);
    nodes
        .chain(slots)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
}

/// The replies for one kind of clients.
#[derive(Debug)]
struct Forms {
    slots_v2: Arc<[u8]>,
    slots_v3: Arc<[u8]>,
    shards_v2: Arc<[u8]>,
    shards_v3: Arc<[u8]>,
    nodes: String,
    config: Vec<u8>,
    document: Vec<u8>,
}

impl SlotTable {
    /// The table of a list, for the node of this name.
    #[must_use]
    pub fn of(list: NodeList, name: &str, version: u64) -> SlotTable {
        let owners = Owners::of(&list);
        let me = list.find(name).and_then(|place| u16::try_from(place).ok());
        let ids: Vec<String> = list.nodes().iter().map(Node::id).collect();
        let runs = owners.runs();
        let told = |is_tls| {
            let writer = FormWriter {
                nodes: list.nodes(),
                ids: &ids,
                runs: &runs,
                me,
                version,
                is_tls,
            };
            writer.forms()
        };
        let (plain, tls) = (told(false), told(true));
        let fingerprint = fingerprint(&ids, &runs);
        SlotTable {
            list,
            owners,
            me,
            version,
            fingerprint,
            ids,
            plain,
            tls,
        }
    }

    fn told(&self, is_tls: bool) -> &Forms {
        if is_tls { &self.tls } else { &self.plain }
    }

    /// The reply to CLUSTER SLOTS.
    #[must_use]
    pub fn slots(&self, proto: Proto, is_tls: bool) -> &Arc<[u8]> {
        let told = self.told(is_tls);
        match proto {
            Proto::V3 => &told.slots_v3,
            _ => &told.slots_v2,
        }
    }

    /// The reply to CLUSTER SHARDS.
    #[must_use]
    pub fn shards(&self, proto: Proto, is_tls: bool) -> &Arc<[u8]> {
        let told = self.told(is_tls);
        match proto {
            Proto::V3 => &told.shards_v3,
            _ => &told.shards_v2,
        }
    }

    /// The text of CLUSTER NODES.
    #[must_use]
    pub fn nodes(&self, is_tls: bool) -> &str {
        &self.told(is_tls).nodes
    }

    /// The reply to `config get cluster`.
    #[must_use]
    pub fn config(&self, is_tls: bool) -> &[u8] {
        &self.told(is_tls).config
    }

    /// The document of `/v1/cluster`.
    #[must_use]
    pub fn document(&self, is_tls: bool) -> &[u8] {
        &self.told(is_tls).document
    }

    /// The id of a node.
    #[must_use]
    pub fn id(&self, node: u16) -> &str {
        self.ids.get(usize::from(node)).map_or("", String::as_str)
    }

    /// The node of a slot.
    #[must_use]
    pub fn owner(&self, slot: u16) -> &Node {
        &self.list.nodes()[usize::from(self.owners.node(slot))]
    }

    /// The first slot of the node that follows this one in the order of their first slots.
    #[must_use]
    pub fn first_slot_behind(&self, node: u16) -> Option<u16> {
        let mut seen = vec![false; self.list.nodes().len()];
        let mut first_slots = (0..SLOTS).filter(|&slot| {
            let owner = usize::from(self.owners.node(slot));
            !std::mem::replace(&mut seen[owner], true)
        });
        first_slots.find(|&slot| self.owners.node(slot) == node)?;
        first_slots.next()
    }

    /// Where clients of a protocol find the node of a slot, unless it is this one or does not speak
    /// it.
    #[must_use]
    pub fn elsewhere(&self, slot: u16, protocol: Protocol, is_tls: bool) -> Option<Place<'_>> {
        if self.me == Some(self.owners.node(slot)) {
            return None;
        }
        self.owner(slot).announced.place(protocol, is_tls)
    }
}

/// The data that the replies are written from.
struct FormWriter<'t> {
    nodes: &'t [Node],
    ids: &'t [String],
    runs: &'t [SlotRun],
    me: Option<u16>,
    version: u64,
    is_tls: bool,
}

impl FormWriter<'_> {
    fn forms(&self) -> Forms {
        Forms {
            slots_v2: self.slots(Proto::V2).into(),
            slots_v3: self.slots(Proto::V3).into(),
            shards_v2: self.shards(Proto::V2).into(),
            shards_v3: self.shards(Proto::V3).into(),
            nodes: self.node_lines(),
            config: self.config(),
            document: self.document(),
        }
    }

    /// Where clients of Redis's protocol find a node; nowhere if it does not speak it.
    fn place(&self, node: usize) -> Place<'_> {
        let place = self.nodes[node]
            .announced
            .place(Protocol::Resp, self.is_tls);
        place.unwrap_or(Place {
            host: "",
            port: 0,
            is_tls: self.is_tls,
        })
    }

    fn slots(&self, proto: Proto) -> Vec<u8> {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, proto);
        reply.array(self.runs.len());
        for run in self.runs {
            let node = usize::from(run.node);
            let place = self.place(node);
            reply.array(3);
            reply.integer(run.first.into());
            reply.integer(run.last.into());
            reply.array(4);
            reply.bulk(place.host);
            reply.integer(place.port.into());
            reply.bulk(&self.ids[node]);
            // No further names exist.
            reply.map(0);
        }
        out
    }

    fn shards(&self, proto: Proto) -> Vec<u8> {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, proto);
        reply.array(self.nodes.len());
        for (node, place) in (0..self.nodes.len()).map(|node| (node, self.place(node))) {
            let runs = || self.runs.iter().filter(|run| usize::from(run.node) == node);
            reply.map(2);
            reply.bulk("slots");
            reply.array(2 * runs().count());
            for run in runs() {
                reply.integer(run.first.into());
                reply.integer(run.last.into());
            }
            reply.bulk("nodes");
            reply.array(1);
            reply.map(7);
            reply.bulk("id");
            reply.bulk(&self.ids[node]);
            reply.bulk(if place.is_tls { "tls-port" } else { "port" });
            reply.integer(place.port.into());
            for (field, value) in [
                ("ip", place.host),
                ("endpoint", place.host),
                ("role", "master"),
            ] {
                reply.bulk(field);
                reply.bulk(value);
            }
            reply.bulk("replication-offset");
            reply.integer(0);
            reply.bulk("health");
            reply.bulk("online");
        }
        out
    }

    fn node_lines(&self) -> String {
        let mut text = String::new();
        for (node, place) in (0..self.nodes.len()).map(|node| (node, self.place(node))) {
            let is_me = self.me.map(usize::from) == Some(node);
            let flags = if is_me { "myself,master" } else { "master" };
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{} {}:{}@0 {flags} - 0 0 {} connected",
                self.ids[node], place.host, place.port, self.version
            );
            for run in self.runs.iter().filter(|run| usize::from(run.node) == node) {
                let _ = match run.last - run.first {
                    0 => write!(text, " {}", run.first),
                    _ => write!(text, " {}-{}", run.first, run.last),
                };
            }
            text.push('\n');
        }
        text
    }

    fn config(&self) -> Vec<u8> {
        let places = self.nodes.iter().filter_map(|node| {
            let place = node.announced.place(Protocol::Memcached, self.is_tls)?;
            Some(format!(
                "{}|{}|{}",
                place.host,
                host_ip(place.host),
                place.port
            ))
        });
        let places: Vec<String> = places.collect();
        let body = format!("{}\n{}\n", self.version, places.join(" "));
        format!("CONFIG cluster 0 {}\r\n{body}\r\nEND\r\n", body.len()).into_bytes()
    }

    fn document(&self) -> Vec<u8> {
        let place = |node: &Node, protocol: Protocol| {
            let place = node.announced.place(protocol, self.is_tls);
            place.map(|place| place.to_string())
        };
        let nodes = self.nodes.iter().enumerate().map(|(index, node)| {
            let runs = self
                .runs
                .iter()
                .filter(|run| usize::from(run.node) == index);
            json!({
                "name": node.name,
                "id": self.ids[index],
                "weight": node.weight,
                "resp": place(node, Protocol::Resp),
                "memcached": place(node, Protocol::Memcached),
                "http": place(node, Protocol::Http),
                "slots": runs.map(|run| json!([run.first, run.last])).collect::<Vec<_>>(),
            })
        });
        let me = self.me.map(|me| &*self.nodes[usize::from(me)].name);
        let document = json!({
            "version": self.version,
            "node": me,
            "nodes": nodes.collect::<Vec<_>>(),
        });
        let mut document = document.to_string().into_bytes();
        document.push(b'\n');
        document
    }
}

/// The IP address of a node beside its name: empty if the name is no address.
fn host_ip(host: &str) -> &str {
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if is_address { host } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SlotTable {
        let text = "a resp=10.0.0.1:1,tls:cache:2 memcached=10.0.0.1:3\nb resp=[::1]:4 http=h:5";
        SlotTable::of(NodeList::parse(text).unwrap(), "b", 7)
    }

    #[test]
    fn clients_are_told_the_addresses_of_their_kind() {
        let table = table();
        assert_eq!(table.me, Some(1));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let slots = text(table.slots(Proto::V2, false));
        assert!(
            slots.contains("*4\r\n$8\r\n10.0.0.1\r\n:1\r\n$40\r\n"),
            "{slots}"
        );
        assert!(slots.contains("*4\r\n$3\r\n::1\r\n:4\r\n$40\r\n"));
        let slots = text(table.slots(Proto::V3, true));
        assert!(
            slots.contains("*4\r\n$5\r\ncache\r\n:2\r\n$40\r\n"),
            "{slots}"
        );
        assert!(slots.ends_with("%0\r\n"));
        assert!(text(table.shards(Proto::V2, true)).contains("$8\r\ntls-port\r\n:2\r\n"));
        let nodes = table.nodes(false);
        assert_eq!(
            nodes.matches(" myself,master - 0 0 7 connected ").count(),
            1
        );
        assert_eq!(
            text(table.config(false)),
            "CONFIG cluster 0 22\r\n7\n10.0.0.1|10.0.0.1|3\n\r\nEND\r\n"
        );
        let document: serde_json::Value = serde_json::from_slice(table.document(false)).unwrap();
        assert_eq!(document["nodes"][1]["http"], "h:5");
    }

    #[test]
    fn who_asks_for_a_slot_is_sent_to_its_node() {
        let table = table();
        let foreign = (0..).find(|slot| table.owners.node(*slot) == 0).unwrap();
        let own = (0..).find(|slot| table.owners.node(*slot) == 1).unwrap();
        let place = |slot, protocol| table.elsewhere(slot, protocol, false);
        assert_eq!(place(own, Protocol::Resp), None);
        assert_eq!(
            place(foreign, Protocol::Resp).unwrap().to_string(),
            "10.0.0.1:1"
        );
        assert_eq!(place(foreign, Protocol::Http), None);
    }
}
