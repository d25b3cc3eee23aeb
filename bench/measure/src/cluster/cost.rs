//! Cost: what a request takes of a node's processor beside the same server alone.

use std::io::{Read, Write};
use std::net::TcpStream;

use cellar_load::{Error, Limit, Wire, load, nanoseconds, usage};
use serde_json::{Value, json};

use super::ClusterArgs;
use super::fleet::{Etcd, Fleet, Node, PATIENCE, gets};
use crate::race::all_at_once;

const CONNECTIONS: usize = 50;
/// Turns in which servers are asked for each kind of request in a round, so that what disturbs the
/// machine falls on all alike; the first one is not counted.
const TURNS: u64 = 9;
/// Answers that are asked for to find what one takes.
const ANSWERS: u64 = 2_000;
/// Nodes of a cluster whose first one is asked.
const NODES: usize = 3;

/// Rounds of fresh servers: two that are alone, one of a cluster in a file, one of one in etcd.
pub(super) fn measure(args: &ClusterArgs, etcd: Option<&Etcd>) -> Result<Vec<Value>, Error> {
    let mut visits = Vec::new();
    for round in 0..args.rounds {
        let alone = |name| Node::start(name, &args.recipe()?, &[], args.serving());
        let (first, second) = (alone("alone")?, alone("alone again")?);
        let listed = Fleet::start(&args.recipe()?, NODES, None, args.serving())?;
        let registered =
            etcd.map(|etcd| Fleet::start(&args.recipe()?, NODES, Some(etcd), args.serving()));
        let registered = registered.transpose()?;
        let fleets = [Some(&listed), registered.as_ref()];
        let nodes = fleets.into_iter().flatten();
        let nodes = nodes.map(|fleet| (fleet.source(), &fleet.nodes[0]));
        let mut hosts = vec![("alone", &first), ("alone again", &second)];
        hosts.extend(nodes);
        // All of them are asked for what the nodes keep.
        let map = listed.map(&[0, 1, 2])?;
        let only = map.of(&args.records()?, 0);
        for (_, node) in &hosts {
            let drive = node.drive(Wire::Resp, CONNECTIONS, Limit::Requests(0));
            load::fill(
                &node.name,
                &gets(drive, args.records()?, &only, args.cpus.load_cpu),
            )?;
        }
        // Who is asked first is another one in each round.
        hosts.rotate_left(round % fleets.len());
        for wire in [Wire::Resp, Wire::Memcached] {
            for (is_get, depth) in [(true, 1), (false, 1), (true, 32), (false, 32)] {
                let kind = (wire, is_get, depth);
                visits.extend(take_turns(args, &hosts, kind, &only)?);
            }
        }
    }
    Ok(visits)
}

/// Servers in turns, for one kind of request.
fn take_turns(
    args: &ClusterArgs,
    hosts: &[(&str, &Node)],
    (wire, is_get, depth): (Wire, bool, usize),
    only: &[u32],
) -> Result<Vec<Value>, Error> {
    let ns = nanoseconds(args.seconds)? / (TURNS - 1);
    let mut spent = vec![(0.0, 0); hosts.len()];
    for turn in 0..TURNS {
        for ((host, node), (cpu_s, requests)) in hosts.iter().zip(&mut spent) {
            let mut drive = node.drive(wire, CONNECTIONS, Limit::Nanoseconds(ns));
            drive.depth = depth;
            let mut plan = gets(drive, args.records()?, only, args.cpus.load_cpu);
            plan.get_share = if is_get { 1.0 } else { 0.0 };
            plan.seed = turn;
            let report = load::run(&plan)?;
            let failed = report.get.misses + report.errors;
            if failed > 0 {
                let first = report.first_error.unwrap_or_default();
                let what = format!("{host}: {failed} misses and errors; {first}");
                return Err(Error::Wrong(what));
            }
            if turn > 0 {
                *cpu_s += report.server_cpu_s.unwrap_or_default();
                *requests += report.requests;
            }
        }
    }
    let request = if is_get { "get" } else { "set" };
    let row = |((host, _), (cpu_s, requests)): (&(&str, &Node), (f64, u64))| {
        let (protocol, us) = (wire.name(), cpu_s * 1e6 / requests as f64);
        eprintln!("{protocol:9} {request}, {depth:2} deep, {host:11} {us:7.3} us");
        json!({
            "protocol": protocol,
            "request": request,
            "depth": depth,
            "server": host,
            "server_cpu_us": us,
        })
    };
    Ok(hosts.iter().zip(spent).map(row).collect())
}

/// What CLUSTER SLOTS takes of a node's processor, and a GET of a value as long.
pub(super) fn of_map(args: &ClusterArgs) -> Result<Value, Error> {
    let fleet = Fleet::start(&args.recipe()?, NODES, None, args.serving())?;
    let node = &fleet.nodes[0];
    let failed = |error| Error::system("asking for the map", error);
    let mut asked = Asked::of(node).map_err(failed)?;
    let key = own_key(&fleet)?;
    let slots_bytes = asked.length(b"CLUSTER SLOTS\r\n").map_err(failed)?;
    // A reply to GET that is as long, with its head and its line ends.
    let head = format!("${slots_bytes}\r\n").len() + 2;
    let value = vec![b'v'; slots_bytes - head];
    let mut set = format!(
        "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n",
        key.len(),
        value.len()
    );
    set.push_str(&String::from_utf8_lossy(&value));
    set.push_str("\r\n");
    asked.length(set.as_bytes()).map_err(failed)?;
    let get = format!("GET {key}\r\n");
    let ask = |mut asked: Asked| -> std::io::Result<Vec<Value>> {
        usage::bind(args.cpus.load_cpu)?;
        let mut rows = Vec::new();
        for _ in 0..args.rounds {
            for (what, request) in [("CLUSTER SLOTS", "CLUSTER SLOTS\r\n"), ("GET", &get)] {
                let us = asked.cpu_us(request.as_bytes())?;
                eprintln!("{what:13} {us:7.3} us");
                rows.push(json!({"what": what, "server_cpu_us": us}));
            }
        }
        Ok(rows)
    };
    // On a thread that is bound to the load's processor.
    let rows = all_at_once([asked], ask).into_iter();
    let rows: Vec<Vec<Value>> = rows.collect::<std::io::Result<_>>().map_err(failed)?;
    Ok(json!({"nodes": NODES, "bytes": slots_bytes, "rows": rows.concat()}))
}

/// A key that the first node keeps.
fn own_key(fleet: &Fleet<'_>) -> Result<String, Error> {
    let map = fleet.map(&[0, 1, 2])?;
    let keys = (0..).map(|number| format!("map-{number}"));
    let mut own = keys.filter(|key| map.owner(key.as_bytes()) == 0);
    own.next()
        .ok_or_else(|| Error::Wrong("a node without slots".to_owned()))
}

/// A connection whose replies are read by their length.
struct Asked {
    stream: TcpStream,
    pid: u32,
    room: Vec<u8>,
}

impl Asked {
    fn of(node: &Node) -> std::io::Result<Asked> {
        let stream = TcpStream::connect(("127.0.0.1", node.server.address().port()))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Asked {
            stream,
            pid: node.server.pid(),
            room: vec![0; 1 << 20],
        })
    }

    /// How long the reply to a request is.
    fn length(&mut self, request: &[u8]) -> std::io::Result<usize> {
        const LAST: &[u8] = b"+PONG\r\n";
        self.stream.write_all(request)?;
        self.stream.write_all(b"PING\r\n")?;
        let mut bytes = 0;
        while !self.room[..bytes].ends_with(LAST) {
            let read = self.stream.read(&mut self.room[bytes..])?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            bytes += read;
        }
        Ok(bytes - LAST.len())
    }

    /// What a reply takes of the server's processor.
    fn cpu_us(&mut self, request: &[u8]) -> std::io::Result<f64> {
        let bytes = self.length(request)?;
        let before_ns = usage::cpu_ns(self.pid)?;
        for _ in 0..ANSWERS {
            self.stream.write_all(request)?;
            self.stream.read_exact(&mut self.room[..bytes])?;
        }
        let spent_ns = usage::cpu_ns(self.pid)?.saturating_sub(before_ns);
        Ok(spent_ns as f64 / ANSWERS as f64 / 1e3)
    }
}
