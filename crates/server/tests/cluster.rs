//! Several servers as one: slots, what is said of them, lists that change, over all protocols.

use crate::support::wait::wait_until;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cellar_cluster::list::NodeList;
use cellar_cluster::map::Owners;
use cellar_cluster::ownership::now_ms;
use cellar_cluster::slot::{SLOTS, SlotSet, slot_of};
use cellar_config::settings::Settings;
use cellar_config::settings::source::ListSource;
use cellar_engine::ManualClock;
use cellar_shared::clients::client::Seat;
use tempfile::TempDir;

use crate::support::daemon::{Daemon, check, expect, set};
use crate::support::http::Http;
use crate::support::resp::{Client, Value};
use crate::support::session::{self, Session};

/// A list of which no node of a test is one.
const NOBODY: &str = "nobody resp=127.0.0.1:1\n";

/// Servers that read one list.
struct Nodes {
    folder: TempDir,
    daemons: Vec<Daemon>,
}

impl Nodes {
    /// So many servers, all of them in the list.
    fn start(count: usize) -> Nodes {
        let nodes = Nodes::of_list(count, NOBODY);
        nodes.list(&(0..count).collect::<Vec<_>>());
        nodes
    }

    /// The same with this list.
    fn of_list(count: usize, list: &str) -> Nodes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes");
        std::fs::write(&path, list).unwrap();
        let source = format!("file:{}", path.display());
        let start = |node| {
            let name = format!("n{node}");
            Daemon::spawn(&["--cluster", &source, "--node", &name])
        };
        Nodes {
            daemons: (0..count).map(start).collect(),
            folder,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("nodes")
    }

    /// The list of these nodes.
    fn text(&self, nodes: &[usize]) -> String {
        let line = |node: &usize| {
            let Daemon {
                resp,
                address,
                http,
                ..
            } = &self.daemons[*node];
            format!("n{node} resp={resp} memcached={address} http={http}\n")
        };
        nodes.iter().map(line).collect()
    }

    /// Writes the list of these nodes, and waits until all servers follow it.
    fn list(&self, nodes: &[usize]) {
        self.write(&self.text(nodes));
        for node in &self.daemons {
            node.log_until("the map of the cluster has changed");
        }
    }

    /// Puts a list in the old one's place.
    fn write(&self, text: &str) {
        let fresh = self.folder.path().join("fresh");
        std::fs::write(&fresh, text).unwrap();
        std::fs::rename(fresh, self.path()).unwrap();
    }

    /// A key of this node's, among all of them.
    fn key_of(&self, node: usize) -> String {
        self.keys_of(node).next().unwrap()
    }

    fn keys_of(&self, node: usize) -> impl Iterator<Item = String> + use<> {
        let list = std::fs::read_to_string(self.path()).unwrap();
        let list = NodeList::parse(&list).unwrap();
        let (owners, name) = (Owners::of(&list), format!("n{node}"));
        let keys = (0..).map(|number| format!("key-{number}"));
        keys.filter(move |key| {
            let owner = owners.node(slot_of(key.as_bytes()));
            list.nodes()[usize::from(owner)].name == name
        })
    }

    fn client(&self, node: usize) -> Client {
        Client::connect(&self.daemons[node])
    }
}

#[test]
fn each_key_is_served_by_one_node_and_the_others_say_which() {
    let nodes = Nodes::start(3);
    for owner in 0..3 {
        let key = nodes.key_of(owner);
        let slot = slot_of(key.as_bytes());
        let place = &nodes.daemons[owner].resp;
        for node in 0..3 {
            let mut client = nodes.client(node);
            if node == owner {
                client.check(&format!(
                    "SET {key} v => +OK\nGET {key} => v\nMGET {key} {key} => [v, v]\n\
                     CLUSTER KEYSLOT {key} => :{slot}\nCLUSTER COUNTKEYSINSLOT {slot} => :1\n\
                     CLUSTER GETKEYSINSLOT {slot} 9 => [{key}]\n\
                     EVAL return(redis.call('GET',KEYS[1])) 1 {key} => v"
                ));
                continue;
            }
            let moved = format!("-MOVED {slot} {place}");
            client.check(&format!(
                "GET {key} => {moved}\nSET {key} w => {moved}\nDEL {key} => {moved}\n\
                 MGET {key} {key} => {moved}\nSET {key} w EX 9 => {moved}\n\
                 OBJECT ENCODING {key} => {moved}\nEVAL return(1) 1 {key} => {moved}\n\
                 SSUBSCRIBE {key} => {moved}\nSPUBLISH {key} m => {moved}\n\
                 BLPOP {key} 0 => {moved}\nWATCH {key} => {moved}\n\
                 CLUSTER COUNTKEYSINSLOT {slot} => :0\nCLUSTER GETKEYSINSLOT {slot} 9 => []"
            ));
        }
    }
}

#[test]
fn a_command_is_for_keys_of_one_slot() {
    let nodes = Nodes::start(2);
    let mut keys = nodes.keys_of(0);
    let (one, other) = (keys.next().unwrap(), keys.next().unwrap());
    let cross = "-CROSSSLOT Keys in request don't hash to the same slot";
    let foreign = nodes.key_of(1);
    let script = "-ERR Script attempted to access a non local key in a cluster node";
    let call = format!("EVAL return(redis.call('GET',ARGV[1])) 1 {one} {foreign}");
    let reply = nodes.client(0).run(&call).shown();
    assert!(reply.starts_with(script), "{reply}");
    nodes.client(0).check(&format!(
        "MGET {one} {other} => {cross}\nMSET {one} 1 {other} 2 => {cross}\n\
         RENAME {one} {other} => {cross}\nZMOVE {one} {other} MIN => {cross}\n\
         SUNION {one} {other} => {cross}\n\
         EVAL return(1) 2 {one} {other} => {cross}\nSSUBSCRIBE {one} {other} => {cross}\n\
         MSET {{{one}}}a 1 {{{one}}}b 2 => +OK\nMGET {{{one}}}a {{{one}}}b => [1, 2]\n\
         SORT {one} BY w_* => -ERR BY option of SORT denied in cluster mode.\n\
         SORT {one} GET w_* => -ERR GET option of SORT denied in cluster mode.\n\
         SORT {one} GET # => []\nGET {one} => nil"
    ));
}

#[test]
fn a_transaction_is_for_keys_of_one_slot_that_is_served_here() {
    let nodes = Nodes::start(2);
    let mut keys = nodes.keys_of(0);
    let (one, other) = (keys.next().unwrap(), keys.next().unwrap());
    let foreign = nodes.key_of(1);
    let moved = format!(
        "-MOVED {} {}",
        slot_of(foreign.as_bytes()),
        nodes.daemons[1].resp
    );
    nodes.client(0).check(&format!(
        "MULTI => +OK\nSET {one} 1 => +QUEUED\nINCR {one} => +QUEUED\nEXEC => [+OK, :2]\n\
         MULTI => +OK\nSET {one} 5 => +QUEUED\nSET {foreign} 1 => {moved}\n\
         EXEC => -EXECABORT Transaction discarded because of previous errors.\n\
         MULTI => +OK\nSET {one} 5 => +QUEUED\nSET {other} 1 => +QUEUED\n\
         EXEC => -CROSSSLOT Keys in request don't hash to the same slot\n\
         EXEC => -ERR EXEC without MULTI\nGET {one} => 2\nMULTI => +OK\nPING => +QUEUED\n\
         EXEC => [+PONG]"
    ));
}

/// The cursor and the keys of a CLUSTERSCAN.
fn scanned(reply: Value) -> (String, Vec<String>) {
    let Value::Array(parts) = reply else {
        panic!("no array: {}", reply.shown());
    };
    let Value::Array(keys) = &parts[1] else {
        panic!("no keys: {}", parts[1].shown());
    };
    (parts[0].shown(), keys.iter().map(Value::shown).collect())
}

/// The node that serves the slot of a cursor.
fn node_of(nodes: &Nodes, cursor: &str) -> usize {
    let list = std::fs::read_to_string(nodes.path()).unwrap();
    let list = NodeList::parse(&list).unwrap();
    let owner = Owners::of(&list).node(slot_of(cursor.as_bytes()));
    let name = &list.nodes()[usize::from(owner)].name;
    name[1..].parse().unwrap()
}

#[test]
fn a_cluster_scan_lists_the_keys_of_all_nodes() {
    let nodes = Nodes::start(3);
    let mut stored: Vec<String> = Vec::new();
    for node in 0..3 {
        for key in nodes.keys_of(node).take(40) {
            nodes.client(node).check(&format!("SET {key} 1 => +OK"));
            stored.push(key);
        }
    }
    // Any node begins it.
    let (mut cursor, mut found) = scanned(nodes.client(2).run("CLUSTERSCAN 0"));
    let (mut calls, mut visited) = (0, Vec::new());
    while cursor != "0" {
        let node = node_of(&nodes, &cursor);
        visited.push(node);
        let other = nodes
            .client((node + 1) % 3)
            .run(&format!("CLUSTERSCAN {cursor}"));
        assert!(other.shown().starts_with("-MOVED "), "{}", other.shown());
        let request = format!("CLUSTERSCAN {cursor} COUNT 16 TYPE string MATCH key-*");
        let (next, keys) = scanned(nodes.client(node).run(&request));
        (cursor, calls) = (next, calls + 1);
        found.extend(keys);
        assert!(calls < 100, "{cursor}");
    }
    visited.dedup();
    assert_eq!(visited.len(), 3);
    found.sort();
    stored.sort();
    assert_eq!(found, stored);
}

#[test]
fn a_cluster_scan_of_a_slot_lists_its_keys_and_bad_cursors_are_refused() {
    let nodes = Nodes::start(2);
    let owner = node_of(&nodes, "{x}");
    let mut client = nodes.client(owner);
    client.check("SET {x}1 1 => +OK\nSADD {x}2 1 => :1");
    let slot = slot_of(b"x");
    let (cursor, _) = scanned(client.run(&format!("CLUSTERSCAN 0 SLOT {slot}")));
    let (end, mut keys) = scanned(client.run(&format!("CLUSTERSCAN {cursor} SLOT {slot}")));
    keys.sort();
    assert_eq!(
        (end.as_str(), keys),
        ("0", vec!["{x}1".to_owned(), "{x}2".to_owned()])
    );
    // A cursor of another map begins anew.
    let (anew, keys) = scanned(client.run("CLUSTERSCAN other-{x}-7"));
    assert!(anew.ends_with("-{06S}-0") && keys.is_empty(), "{anew}");
    client.check(&format!(
        "CLUSTERSCAN 12 => -ERR Invalid cursor
         CLUSTERSCAN a-{{x}}-y => -ERR Invalid cursor
         CLUSTERSCAN a-{{}}-1 => -ERR Invalid cursor
         CLUSTERSCAN {cursor} SLOT 1 => -ERR Cursor slot mismatch with SLOT argument
         CLUSTERSCAN 0 SLOT 16384 => -ERR Invalid or out of range slot
         CLUSTERSCAN 0 SLOT 1 SLOT 2 => -ERR SLOT option can only be specified once
         CLUSTERSCAN 0 COUNT 0 => -ERR syntax error
         CLUSTERSCAN 0 TYPE foo => -ERR unknown type name 'foo'
         CLUSTERSCAN 0 MATCH => -ERR syntax error"
    ));
    let alone = Daemon::start(&[]);
    let disabled = "CLUSTERSCAN 0 => -ERR This instance has cluster support disabled";
    Client::connect(&alone).check(disabled);
}

#[test]
fn nodes_have_several_databases_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes");
    std::fs::write(&path, NOBODY).unwrap();
    let source = format!("file:{}", path.display());
    let node = Daemon::spawn(&["--cluster", &source, "--node", "n0", "--databases", "4"]);
    let fresh = folder.path().join("fresh");
    std::fs::write(&fresh, format!("n0 resp={}\n", node.resp)).unwrap();
    std::fs::rename(fresh, &path).unwrap();
    node.log_until("the map of the cluster has changed");
    let slot = slot_of(b"x");
    Client::connect(&node).check(&format!(
        "SET {{x}}1 zero => +OK
         SELECT 3 => +OK
         SET {{x}}1 three => +OK
         SET {{x}}2 three => +OK
         CLUSTER COUNTKEYSINSLOT {slot} => :2
         COPY {{x}}2 {{x}}2 DB 1 => :1
         MOVE {{x}}2 0 => :1
         SELECT 0 => +OK
         GET {{x}}1 => zero
         GET {{x}}2 => three
         SELECT 1 => +OK
         CLUSTER GETKEYSINSLOT {slot} 9 => [{{x}}2]
         SELECT 4 => -ERR DB index is out of range
         SWAPDB 0 1 => -ERR SWAPDB is not allowed in cluster mode"
    ));
}

#[test]
fn the_forms_of_the_map_agree_with_each_other() {
    let nodes = Nodes::start(3);
    let mut client = nodes.client(1);
    let runs = checked_runs(&nodes, &mut client);
    let text = client.run("CLUSTER NODES").shown();
    assert_eq!(text.lines().count(), 3);
    let mine = text.lines().find(|line| line.contains("myself,master"));
    let id = client.run("CLUSTER MYID").shown();
    assert!(mine.unwrap().starts_with(&id), "{text}");
    assert_eq!(id.len(), 40);
    let in_nodes: usize = text.lines().map(|line| line.split(' ').count() - 8).sum();
    assert_eq!(in_nodes, runs);
    client.check(
        "READONLY => +OK\nREADWRITE => +OK\nASKING => +OK\nCLUSTER LINKS => []\n\
         SELECT 0 => +OK\nSELECT 1 => -ERR SELECT is not allowed in cluster mode\n\
         SWAPDB 0 1 => -ERR SWAPDB is not allowed in cluster mode\n\
         CLUSTER KEYSLOT foo{bar}baz => :5061\nCLUSTER COUNTKEYSINSLOT 16384 => -ERR Invalid slot\n\
         CLUSTER GETKEYSINSLOT 1 -1 => -ERR Invalid slot or number of keys\n\
         CONFIG GET cluster-enabled => [cluster-enabled, yes]",
    );
    let info = client.run("CLUSTER INFO").shown();
    for line in [
        "cluster_state:ok",
        "cluster_slots_ok:16384",
        "cluster_known_nodes:3",
    ] {
        assert!(info.contains(line), "{info}");
    }
    assert!(
        client
            .run("INFO server")
            .shown()
            .contains("redis_mode:cluster")
    );
    assert!(
        client
            .run("INFO cluster")
            .shown()
            .contains("cluster_enabled:1")
    );
    assert!(client.run("HELLO 3").shown().contains("mode, cluster"));
    let Value::Array(shards) = client.run("CLUSTER SHARDS") else {
        panic!("no array");
    };
    assert_eq!(shards.len(), 3);
    let document = Http::to(&nodes.daemons[1]).get("/v1/cluster");
    let document: serde_json::Value = serde_json::from_slice(&document.body).unwrap();
    assert_eq!(document["node"], "n1");
    assert_eq!(document["nodes"][2]["http"], nodes.daemons[2].http.as_str());
    let slots = document["nodes"].as_array().unwrap().iter();
    let runs_told: usize = slots
        .map(|node| node["slots"].as_array().unwrap().len())
        .sum();
    assert_eq!(runs_told, runs);
}

/// Checks that CLUSTER SLOTS covers all slots in order, and names the nodes; how many runs it has.
fn checked_runs(nodes: &Nodes, client: &mut Client) -> usize {
    let Value::Array(runs) = client.run("CLUSTER SLOTS") else {
        panic!("no array");
    };
    let mut next = 0;
    for run in &runs {
        let Value::Array(parts) = run else {
            panic!("no run");
        };
        let [
            Value::Integer(first),
            Value::Integer(last),
            Value::Array(node),
        ] = &parts[..]
        else {
            panic!("no run: {}", run.shown());
        };
        assert_eq!(*first, next);
        next = last + 1;
        let place = format!("{}{}", node[0].shown(), node[1].shown());
        let named = nodes.daemons.iter().find(|node| node.resp == place);
        assert!(named.is_some(), "{place}");
    }
    assert_eq!(next, 16_384);
    runs.len()
}

#[test]
fn a_server_that_is_alone_says_so() {
    let daemon = Daemon::start(&[]);
    let off = "-ERR This instance has cluster support disabled";
    let commands = [
        "SLOTS",
        "SHARDS",
        "NODES",
        "INFO",
        "MYID",
        "LINKS",
        "COUNTKEYSINSLOT 1",
        "GETKEYSINSLOT 1 1",
    ];
    let mut client = Client::connect(&daemon);
    for command in commands {
        client.check(&format!("CLUSTER {command} => {off}"));
    }
    client.check("CLUSTER KEYSLOT a => :15495");
    client.check(&format!(
        "READONLY => {off}\nASKING => {off}\nREADWRITE => {off}"
    ));
    check(
        &mut daemon.connect(),
        b"config get cluster\r\n",
        b"ERROR\r\n",
    );
    let document = Http::to(&daemon).get("/v1/cluster");
    assert_eq!(
        document.text(),
        "{\"version\":0,\"node\":null,\"nodes\":[]}\n"
    );
}

#[test]
fn over_memcacheds_protocol_foreign_keys_are_misses_to_read_and_refused_to_change() {
    let nodes = Nodes::start(2);
    let (own, foreign) = (nodes.key_of(0), nodes.key_of(1));
    nodes
        .client(1)
        .check(&format!("SET {foreign} there => +OK"));
    let mut stream = nodes.daemons[0].connect();
    let moved = format!("SERVER_ERROR moved {}\r\n", nodes.daemons[1].address);
    check(&mut stream, &set(&own, b"here"), b"STORED\r\n");
    for request in [
        format!("set {foreign} 0 0 1\r\nx\r\n"),
        format!("delete {foreign}\r\n"),
        format!("incr {foreign} 1\r\n"),
        format!("touch {foreign} 9\r\n"),
        format!("ms {foreign} 1\r\nx\r\n"),
        format!("md {foreign}\r\n"),
        format!("ma {foreign} N0\r\n"),
        format!("set {foreign} 0 0 100000\r\n{}\r\n", "x".repeat(100_000)),
        format!("ms {foreign} 100000\r\n{}\r\n", "x".repeat(100_000)),
    ] {
        check(&mut stream, request.as_bytes(), moved.as_bytes());
    }
    let hit = format!("VALUE {own} 0 4\r\nhere\r\nEND\r\n");
    for (request, reply) in [
        (format!("get {foreign} {own} {foreign}\r\n"), &*hit),
        (format!("get {foreign}\r\n"), "END\r\n"),
        (format!("gats 9 {foreign}\r\n"), "END\r\n"),
        (format!("mg {foreign} v\r\n"), "EN\r\n"),
        (format!("mg {foreign} v N30\r\n"), "EN\r\n"),
        (format!("me {foreign}\r\n"), "EN\r\n"),
        (format!("mg {own} v\r\n"), "VA 4\r\nhere\r\n"),
        (format!("delete {foreign} noreply\r\nget {own}\r\n"), &*hit),
    ] {
        check(&mut stream, request.as_bytes(), reply.as_bytes());
    }
    let document = Http::to(&nodes.daemons[0]).get("/v1/cluster");
    let document: serde_json::Value = serde_json::from_slice(&document.body).unwrap();
    let body = format!(
        "{}\n127.0.0.1|127.0.0.1|{} 127.0.0.1|127.0.0.1|{}\n",
        document["version"],
        port(&nodes.daemons[0].address),
        port(&nodes.daemons[1].address),
    );
    let config = format!("CONFIG cluster 0 {}\r\n{body}\r\nEND\r\n", body.len());
    check(&mut stream, b"config get cluster\r\n", config.as_bytes());
    nodes.client(1).check(&format!("GET {foreign} => there"));
    binary_packets_are_refused(&nodes, &foreign);
}

#[test]
fn a_node_that_was_started_anew_tells_no_lower_number_of_its_map_than_before() {
    let mut nodes = Nodes::start(2);
    let version = |node: &Daemon| {
        let document = Http::to(node).get("/v1/cluster");
        let document: serde_json::Value = serde_json::from_slice(&document.body).unwrap();
        document["version"].as_u64().unwrap()
    };
    let before = version(&nodes.daemons[1]);
    // Two maps within one second have two numbers, so the number may be one second ahead.
    // paced: the numbers follow the wall clock, in seconds.
    std::thread::sleep(Duration::from_secs(1));
    let source = format!("file:{}", nodes.path().display());
    nodes.daemons[1] = Daemon::spawn(&["--cluster", &source, "--node", "n1"]);
    let after = version(&nodes.daemons[1]);
    assert!(after >= before, "{before}, {after}");
}

fn binary_packets_are_refused(nodes: &Nodes, foreign: &str) {
    let packet = |opcode: u8, extras: &[u8]| {
        let mut packet = vec![
            0x80,
            opcode,
            0,
            foreign.len() as u8,
            extras.len() as u8,
            0,
            0,
            0,
        ];
        let body = (extras.len() + foreign.len()) as u32;
        packet.extend(body.to_be_bytes());
        packet.extend([0; 12]);
        packet.extend(extras);
        packet.extend(foreign.as_bytes());
        packet
    };
    let mut stream = nodes.daemons[0].connect();
    for (opcode, extras, status) in [(0, &[0_u8; 0][..], 1), (1, &[0; 8], 7), (4, &[], 7)] {
        std::io::Write::write_all(&mut stream, &packet(opcode, extras)).unwrap();
        let mut head = [0; 24];
        std::io::Read::read_exact(&mut stream, &mut head).unwrap();
        assert_eq!(u16::from_be_bytes([head[6], head[7]]), status, "{opcode}");
        let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let mut rest = vec![0; body as usize];
        std::io::Read::read_exact(&mut stream, &mut rest).unwrap();
    }
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').unwrap().1
}

#[test]
fn over_http_clients_are_sent_to_the_node_that_keeps_the_key() {
    let nodes = Nodes::start(2);
    let (own, foreign) = (nodes.key_of(0), nodes.key_of(1));
    let mut http = Http::to(&nodes.daemons[0]);
    assert_eq!(http.put(&format!("/v1/cache/{own}"), b"here").status, 204);
    let there = &nodes.daemons[1].http;
    let path = format!("/v1/cache/{foreign}");
    let value = vec![b'x'; 100_000];
    for response in [
        http.get(&path),
        http.put(&format!("{path}?ttl=9s"), b"there"),
        http.put(&path, &value),
        http.ask(&format!("DELETE {path}"), &[], b""),
        http.post(&format!("{path}/incr"), "{}"),
        http.post(
            "/v1/cache",
            &format!("{{\"id\":\"{foreign}\",\"content\":\"x\"}}"),
        ),
        http.get(&format!("/v1/cache?id={foreign}")),
    ] {
        assert_eq!(response.status, 307, "{response:?}");
        assert!(
            response
                .field("location")
                .starts_with(&format!("http://{there}/v1/cache"))
        );
        assert_eq!(response.error(), "moved");
    }
    let sent = http.put(&format!("{path}?ttl=9s"), b"there");
    assert_eq!(
        sent.field("location"),
        format!("http://{there}{path}?ttl=9s")
    );
    let batch = format!("{{\"ids\":[\"{own}\",\"{foreign}\"]}}");
    let text = http.post("/v1/cache/batch/get", &batch).text().to_owned();
    assert!(
        text.contains("here") && text.contains("\"moved\""),
        "{text}"
    );
    let items = format!(
        "{{\"items\":[{{\"id\":\"{own}\",\"content\":\"x\"}},\
         {{\"id\":\"{foreign}\",\"content\":\"x\"}}]}}"
    );
    let text = http.post("/v1/cache/batch/put", &items).text().to_owned();
    assert!(
        text.contains("\"stored\":1") && text.contains("\"moved\""),
        "{text}"
    );
    let seen = http.get(&format!("/v1/console/key?key={foreign}"));
    assert_eq!(seen.status, 409, "{seen:?}");
    nodes.client(1).check(&format!("GET {foreign} => nil"));
}

#[test]
fn a_slot_that_is_lost_and_regained_is_empty_and_what_stays_stays() {
    let nodes = Nodes::start(2);
    nodes.list(&[0]);
    let mut client = nodes.client(0);
    for number in 0..2_000 {
        assert_eq!(client.run(&format!("SET key-{number} old")).shown(), "+OK");
    }
    nodes.list(&[0, 1]);
    let lost: Vec<String> = nodes
        .keys_of(1)
        .take_while(|key| key.as_str() != "key-2000" && key.len() <= 8)
        .collect();
    assert!(lost.len() > 500, "{}", lost.len());
    nodes.client(1).check(&format!("GET {} => nil", lost[0]));
    nodes.list(&[0]);
    for key in &lost {
        wait_until_served(&mut client, key);
    }
    let kept = (0..2_000).map(|number| format!("key-{number}"));
    for key in kept.filter(|key| !lost.contains(key)) {
        client.check(&format!("GET {key} => old"));
    }
}

#[test]
fn who_waits_listens_or_has_copies_hears_that_a_slot_has_gone() {
    let nodes = Nodes::start(2);
    nodes.list(&[0]);
    let text = nodes.text(&[0, 1]);
    let list = NodeList::parse(&text).unwrap();
    let owners = Owners::of(&list);
    let mut keys = (0..).map(|number| format!("key-{number}"));
    let key = keys
        .find(|key| owners.node(slot_of(key.as_bytes())) == 1)
        .unwrap();
    let mut next = |node| {
        keys.find(|key| owners.node(slot_of(key.as_bytes())) == node)
            .unwrap()
    };
    let (moved, kept) = (next(1), next(0));
    nodes.client(0).run(&format!("SET {moved} value"));
    let (mut waiter, mut listener) = (nodes.client(0), nodes.client(0));
    let (mut tracker, mut discerning) = (nodes.client(0), nodes.client(0));
    for near in [&mut tracker, &mut discerning] {
        near.run("HELLO 3");
        near.check("CLIENT TRACKING on => +OK");
        near.run(&format!("GET {moved}"));
        near.run(&format!("GET {kept}"));
    }
    discerning.check("CLIENT CAPA redirect invalidate-slots => +OK");
    listener.check(&format!("SSUBSCRIBE {key} => [ssubscribe, {key}, :1]"));
    waiter.send(&[b"BLPOP", key.as_bytes(), b"0"]);
    nodes.daemons[0].wait_for_stat("curr_connections", |count| count >= 3);
    wait_until("a client waits", || {
        let clients = nodes.client(0).run("INFO clients").shown();
        clients.contains("blocked_clients:1")
    });
    nodes.list(&[0, 1]);
    assert_eq!(waiter.read().shown(), "-CLUSTERDOWN Hash slot not served");
    assert_eq!(tracker.read().shown(), "[invalidate, nil]");
    assert!(listener.is_closed());
    let slots = (0..SLOTS).filter(|slot| owners.node(*slot) == 1);
    assert_eq!(discerning.read().shown(), told_slots(slots));
    wait_until("the items are dropped", || {
        let metrics = Http::to(&nodes.daemons[0]).get("/metrics");
        String::from_utf8_lossy(&metrics.body).contains("cellar_cluster_dropped_items_total 1\n")
    });
    nodes.client(0).run(&format!("SET {kept} other"));
    let told = format!("[invalidate, [{kept}]]");
    assert_eq!(discerning.read().shown(), told, "and nothing before it");
    // Nothing is left here, so that all is void for whoever hears anything.
    nodes.list(&[1]);
    assert_eq!(discerning.read().shown(), "[invalidate, nil]");
}

/// What near caches are told that have said that they understand it.
fn told_slots(slots: impl Iterator<Item = u16>) -> String {
    let mut bounds: Vec<u16> = Vec::new();
    for slot in slots {
        match bounds.last_mut() {
            Some(last) if *last + 1 == slot => *last = slot,
            _ => bounds.extend([slot, slot]),
        }
    }
    let bounds: Vec<String> = bounds.iter().map(|slot| format!(":{slot}")).collect();
    format!("[invalidate-slots, [{}]]", bounds.join(", "))
}

#[test]
fn near_caches_hear_that_a_lease_is_over_before_anything_is_answered() {
    let settings = Settings {
        cluster: ListSource::parse("etcd:http://127.0.0.1:1").unwrap(),
        ..Settings::default()
    };
    let state = session::state_of(settings, Arc::new(ManualClock::default()), 0);
    let cluster = state.cluster.clone().unwrap();
    let all = SlotSet::of(|_| true);
    cluster.change(&all, None, false);
    let mut near = Session::resp(Seat::default(), &state);
    let mut told = |request: &str| {
        let answer = near.feed(request.as_bytes(), &state);
        String::from_utf8(answer).unwrap()
    };
    let null_push = ">2\r\n$10\r\ninvalidate\r\n_\r\n";
    told("HELLO 3\r\nCLIENT TRACKING ON\r\n");
    for _ in 0..2 {
        cluster.hold_until(now_ms() + 600_000);
        assert_eq!(told("GET k\r\nPING\r\n"), "_\r\n+PONG\r\n");
        cluster.hold_until(now_ms());
        assert_eq!(told("PING\r\n"), format!("{null_push}+PONG\r\n"));
        assert_eq!(told("PING\r\n"), "+PONG\r\n", "once");
    }
}

#[test]
fn a_list_that_cannot_be_used_is_told_and_the_last_map_stays() {
    let nodes = Nodes::start(2);
    let (own, foreign) = (nodes.key_of(0), nodes.key_of(1));
    let mut client = nodes.client(0);
    client.check(&format!("SET {own} v => +OK"));
    let good = nodes.text(&[0, 1]);
    for (list, reason) in [
        (good.repeat(2), "two nodes have the name n0"),
        (String::new(), "the list has no nodes"),
        (
            good.replacen('\n', " weight=0\n", 1),
            "a weight is a number",
        ),
        (
            good.replace("n1", "n3").replace("n0", "n1"),
            "is an address of this node",
        ),
        (
            "n0 resp=0.0.0.0:1\n".to_owned(),
            "is not a specific address",
        ),
    ] {
        nodes.write(&list);
        let told = nodes.daemons[0].log_until("keeping the previous map");
        let line = told.last().unwrap();
        assert!(line.contains(reason) && line.contains("ERROR"), "{line}");
        client.check(&format!("GET {own} => v"));
        let moved = client.run(&format!("GET {foreign}")).shown();
        assert!(moved.starts_with("-MOVED"), "{moved}");
        let metrics = Http::to(&nodes.daemons[0]).get("/metrics");
        assert!(metrics.text().contains("\ncellar_cluster_list_is_bad 1\n"));
    }
    std::fs::remove_file(nodes.path()).unwrap();
    nodes.daemons[0].log_until("No such file or directory");
    nodes.list(&[0]);
    let moved = nodes.client(1).run(&format!("GET {own}")).shown();
    assert!(moved.starts_with("-MOVED"), "{moved}");
    // The map is in force a moment before the list is called good.
    wait_until("the list is good", || {
        let metrics = Http::to(&nodes.daemons[0]).get("/metrics");
        metrics.text().contains("\ncellar_cluster_list_is_bad 0\n")
            && metrics
                .text()
                .contains("\ncellar_cluster_slots_served 16384\n")
    });
}

#[test]
fn a_value_that_comes_while_its_slot_goes_is_not_kept() {
    let nodes = Nodes::start(2);
    nodes.list(&[0]);
    let list = NodeList::parse(&nodes.text(&[0, 1])).unwrap();
    let owners = Owners::of(&list);
    let mut keys = (0..).map(|number| format!("key-{number}"));
    let key = keys
        .find(|key| owners.node(slot_of(key.as_bytes())) == 1)
        .unwrap();
    let value = "x".repeat(100_000);
    let begin = |stream: &mut std::net::TcpStream, head: &str| {
        use std::io::Write;
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&value.as_bytes()[..50_000]).unwrap();
    };
    let mut resp = nodes.daemons[0].connect_resp();
    begin(
        &mut resp,
        &format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$100000\r\n", key.len()),
    );
    let mut memcached = nodes.daemons[0].connect();
    begin(&mut memcached, &format!("set {key} 0 0 100000\r\n"));
    let mut http = nodes.daemons[0].connect_http();
    begin(
        &mut http,
        &format!(
            "PUT /v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        ),
    );
    // What they have begun with has come when another request behind it is answered.
    for _ in 0..3 {
        check(&mut nodes.daemons[0].connect(), b"mn\r\n", b"MN\r\n");
    }
    nodes.list(&[0, 1]);
    let rest = [&value.as_bytes()[50_000..], b"\r\n"].concat();
    use std::io::Write;
    resp.write_all(&rest).unwrap();
    let slot = slot_of(key.as_bytes());
    expect(
        &mut resp,
        format!("-MOVED {slot} {}\r\n", nodes.daemons[1].resp).as_bytes(),
    );
    memcached.write_all(&rest).unwrap();
    let moved = format!("SERVER_ERROR moved {}\r\n", nodes.daemons[1].address);
    expect(&mut memcached, moved.as_bytes());
    http.write_all(&rest[..50_000]).unwrap();
    expect(&mut http, b"HTTP/1.1 307 Temporary Redirect\r\n");
    nodes.list(&[0]);
    let mut client = nodes.client(0);
    wait_until_served(&mut client, &key);
}

#[test]
fn who_may_load_a_key_may_not_when_its_slot_has_gone_and_come_back() {
    let nodes = Nodes::start(2);
    let key = nodes.key_of(1);
    nodes.list(&[0]);
    let mut client = nodes.client(0);
    let Value::Array(won) = client.run(&format!("GETLEASE {key} LEASE 60000")) else {
        panic!("no lease");
    };
    assert_eq!(won[2].shown(), "won");
    let version = won[3].shown().replace(':', "");
    nodes.list(&[0, 1]);
    nodes.client(1).check(&format!("SET {key} newer => +OK"));
    nodes.list(&[0]);
    let mut client = nodes.client(0);
    wait_until_served(&mut client, &key);
    client.check(&format!(
        "SET {key} old CAS {version} => nil\nSET {key} old CAS {version} LATE => nil\n\
         GET {key} => nil"
    ));
}

#[test]
fn the_addresses_of_a_name_are_the_nodes_and_what_dns_does_not_know_is_told() {
    let flags = ["--cluster", "dns:localhost", "--node", "127.0.0.1"];
    let daemon = Daemon::spawn(&flags);
    let mut http = Http::to(&daemon);
    wait_until("the node is ready", || http.get("/readyz").status == 200);
    let info = Client::connect(&daemon).run("CLUSTER INFO").shown();
    assert!(info.contains("cluster_state:ok"), "{info}");
    let document: serde_json::Value =
        serde_json::from_slice(&http.get("/v1/cluster").body).unwrap();
    let nodes = document["nodes"].as_array().unwrap();
    let own = nodes.iter().find(|node| node["name"] == "127.0.0.1");
    assert_eq!(own.unwrap()["resp"], daemon.resp.as_str());
    let flags = ["--cluster", "dns:nobody.invalid", "--node", "127.0.0.1"];
    let daemon = Daemon::spawn(&flags);
    let told = "DNS does not know the name";
    if !daemon.warnings().iter().any(|line| line.contains(told)) {
        daemon.log_until(told);
    }
    assert_eq!(Http::to(&daemon).get("/readyz").status, 503);
    Client::connect(&daemon).check("GET k => -CLUSTERDOWN Hash slot not served");
}

/// Waits until a key is served, and is not there.
fn wait_until_served(client: &mut Client, key: &str) {
    wait_until(
        || format!("{key} is served"),
        || match client.run(&format!("GET {key}")).shown().as_str() {
            "nil" => true,
            "-CLUSTERDOWN Hash slot not served" => false,
            other => panic!("{key}: {other}"),
        },
    );
}
