//! A cluster whose nodes are the SRV records of a name.
//!
//! The test runs itself in a network and with a /etc/resolv.conf of its own, and is the DNS server
//! that this names.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use simple_dns::rdata::{A, RData, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};

use crate::support::daemon::Daemon;
use crate::support::http::Http;
use crate::support::network;
use crate::support::ports::free_port;
use crate::support::resp::Client;
use crate::support::wait::wait_until;

const SERVICE: &str = "_redis._tcp.cellar.test";
/// Longest answer by UDP.
const DATAGRAM_BYTES_MAX: usize = 512;

/// A DNS server with hosts and their ports, at port 53.
#[derive(Clone, Default)]
struct Zone {
    services: Arc<Mutex<Vec<(String, u16)>>>,
    hosts: Arc<Mutex<HashMap<String, Ipv4Addr>>>,
}

impl Zone {
    fn serve() -> Zone {
        let zone = Zone::default();
        let (socket, listener) = (
            UdpSocket::bind("127.0.0.1:53").unwrap(),
            TcpListener::bind("127.0.0.1:53").unwrap(),
        );
        let by_datagram = zone.clone();
        std::thread::spawn(move || {
            let mut question = [0; DATAGRAM_BYTES_MAX];
            while let Ok((bytes, peer)) = socket.recv_from(&mut question) {
                let mut answer = by_datagram.answer(&question[..bytes]);
                if answer.len() > DATAGRAM_BYTES_MAX {
                    let mut short = Packet::new_reply(Packet::parse(&answer).unwrap().id());
                    short.set_flags(PacketFlag::TRUNCATION);
                    answer = short.build_bytes_vec().unwrap();
                }
                socket.send_to(&answer, peer).unwrap();
            }
        });
        let by_stream = zone.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut question = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut question).unwrap();
                let answer = by_stream.answer(&question);
                let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length[..], &answer].concat()).unwrap();
            }
        });
        zone
    }

    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let asked = Packet::parse(question).unwrap();
        let mut reply = Packet::new_reply(asked.id());
        let question = asked.questions[0].clone();
        let name = question.qname.to_string();
        let record = |data| ResourceRecord::new(question.qname.clone(), CLASS::IN, 1, data);
        let (services, hosts) = (self.services.lock().unwrap(), self.hosts.lock().unwrap());
        match question.qtype {
            QTYPE::TYPE(TYPE::SRV) if name == SERVICE => {
                for (host, port) in services.iter() {
                    reply.answers.push(record(RData::SRV(SRV {
                        priority: 0,
                        weight: 0,
                        port: *port,
                        target: Name::new(host).unwrap(),
                    })));
                }
            }
            QTYPE::TYPE(TYPE::A) if hosts.contains_key(&name) => {
                let address = u32::from(hosts[&name]);
                reply.answers.push(record(RData::A(A { address })));
            }
            _ if hosts.contains_key(&name) => {}
            _ => *reply.rcode_mut() = RCODE::NameError,
        }
        reply.questions.push(question.clone());
        reply.build_bytes_vec_compressed().unwrap()
    }

    /// Has these hosts stand at these ports.
    fn set(&self, all: &[(&str, Ipv4Addr, u16)]) {
        let hosts = all.iter().map(|(host, at, _)| ((*host).to_owned(), *at));
        *self.hosts.lock().unwrap() = hosts.collect();
        let services = all
            .iter()
            .map(|(host, _, port)| ((*host).to_owned(), *port));
        *self.services.lock().unwrap() = services.collect();
    }
}

/// The nodes as one tells them: name, where Redis's protocol is spoken.
fn told(daemon: &Daemon) -> Vec<(String, String)> {
    let document = Http::to(daemon).get("/v1/cluster");
    let document: serde_json::Value = serde_json::from_slice(&document.body).unwrap();
    let text = |node: &serde_json::Value, field| node[field].as_str().unwrap().to_owned();
    let nodes = document["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| (text(node, "name"), text(node, "resp")))
        .collect()
}

fn wait_until_told(daemon: &Daemon, wanted: &[(&String, String)]) {
    let wanted: Vec<(String, String)> = wanted
        .iter()
        .map(|(name, place)| ((*name).clone(), place.clone()))
        .collect();
    let what = || {
        let log: Vec<String> = daemon.log.try_iter().collect();
        let (seen, warnings) = (told(daemon), daemon.warnings());
        format!("it tells {wanted:?} and not {seen:?}: {log:#?}, {warnings:#?}")
    };
    wait_until(what, || told(daemon) == wanted);
}

/// Two nodes by the records of a name.
struct Pair {
    zone: Zone,
    ports: [u16; 2],
    names: [String; 2],
    nodes: [Daemon; 2],
}

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn at(host: Ipv4Addr, port: u16) -> String {
    format!("{host}:{port}")
}

impl Pair {
    fn start(folder: &Path) -> Pair {
        let config = folder.join("resolv.conf");
        std::fs::write(&config, "nameserver 127.0.0.1\nsearch test\n").unwrap();
        let mut bind = Command::new("mount");
        bind.arg("--bind").arg(&config).arg("/etc/resolv.conf");
        assert!(bind.status().unwrap().success());
        let zone = Zone::serve();
        let ports = [free_port(), free_port()];
        let names = [
            format!("h0.test:{}", ports[0]),
            format!("h1.test:{}", ports[1]),
        ];
        let start = |node: usize, source: &str| {
            let port = ports[node];
            let (resp, told) = (format!("127.0.0.1:{port},127.0.0.2:{port}"), at(HERE, port));
            let flags = ["--cluster", source, "--node", &names[node], "--resp", &resp];
            let more = ["--announce-resp", &told, "--memcached", "off"];
            Daemon::spawn(&[&flags[..], &more].concat())
        };
        // The second one's name stands for the same within the domain that is searched.
        let short = SERVICE.strip_suffix(".test").unwrap();
        let nodes = [
            start(0, &format!("dns:{SERVICE}")),
            start(1, &format!("dns:{short}")),
        ];
        Pair {
            zone,
            ports,
            names,
            nodes,
        }
    }

    /// Has the second one stand at this host, under this name of the first one.
    fn set(&self, first: &str, second: Ipv4Addr) {
        let [one, other] = self.ports;
        self.zone
            .set(&[(first, HERE, one), ("h1.test", second, other)]);
    }

    /// Waits until a node tells that they are here and at this host.
    fn wait_until_told(&self, node: usize, second: Ipv4Addr) {
        let [one, other] = &self.names;
        let places = [at(HERE, self.ports[0]), at(second, self.ports[1])];
        let [here, there] = places;
        wait_until_told(&self.nodes[node], &[(one, here), (other, there)]);
    }

    /// Checks that the first one tells why it does not follow what there is.
    fn check_told(&self, reason: &str) {
        let told = self.nodes[0].log_until(reason);
        let line = told.last().unwrap();
        assert!(line.contains("keeping the previous map"), "{line}");
        let metrics = Http::to(&self.nodes[0]).get("/metrics");
        assert!(metrics.text().contains("\ncellar_cluster_list_is_bad 1\n"));
    }
}

#[test]
fn records_of_a_service_are_the_nodes_each_at_its_own_port() {
    let name = "cluster_srv::records_of_a_service_are_the_nodes_each_at_its_own_port";
    if !network::is_own(name) {
        return;
    }
    network::raise_loopback();
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::start(folder.path());
    pair.set("h0.test", HERE);
    pair.wait_until_told(0, HERE);
    pair.wait_until_told(1, HERE);
    // Each serves its part, and sends to the other one's port.
    let mut moved = 0;
    for number in 0..64 {
        let reply = Client::connect(&pair.nodes[0]).run(&format!("SET key-{number} v"));
        match reply.shown() {
            told if told.ends_with(&at(HERE, pair.ports[1])) => moved += 1,
            told => assert_eq!(told, "+OK"),
        }
    }
    assert!((1..64).contains(&moved), "{moved}");
    // A host that has another address is the same node.
    let there = Ipv4Addr::new(127, 0, 0, 2);
    pair.set("h0.test", there);
    pair.wait_until_told(0, there);
    // What cannot be: a host that nobody reaches, and another node where this one listens.
    pair.set("h0.test", Ipv4Addr::UNSPECIFIED);
    pair.check_told("is not a specific address");
    pair.set("h0.test", HERE);
    pair.wait_until_told(0, HERE);
    pair.set("h9.test", HERE);
    pair.check_told("is an address of this node");
    pair.wait_until_told(0, HERE);
    // An answer that no datagram holds; then none at all, which changes nothing.
    let many = (0..60_u16).map(|number| (format!("h{number}.test"), pair.ports[0] + number));
    let many: Vec<(String, u16)> = many.collect();
    let many = many.iter().map(|(host, port)| (host.as_str(), HERE, *port));
    pair.zone.set(&many.collect::<Vec<_>>());
    wait_until("it tells all", || told(&pair.nodes[0]).len() == 60);
    pair.zone.set(&[]);
    pair.check_told("DNS does not know the name");
    assert_eq!(told(&pair.nodes[0]).len(), 60);
}
