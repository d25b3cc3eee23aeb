//! Servers that register in etcd: never two owners of a key, whatever fails.
//!
//! One round of faults in `make test`; as many as `CELLAR_TEST_FAULTS` says where `make soak`
//! sets it.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::cluster_checker::ClusterChecker;
use crate::support::daemon::Daemon;
use crate::support::etcd::{Etcd, Relay, free_port};
use crate::support::resp::{Client, Value};
use crate::support::tls::Authority;

/// The lease that the tests take, and longer than it lasts in etcd.
const LEASE: &str = "2s";
const BEYOND_LEASE: Duration = Duration::from_millis(4_500);
/// Reads that find something between two faults.
const HITS: u64 = 500;

/// A node of which only Redis's protocol is spoken, at an address that it keeps.
struct EtcdNode {
    name: String,
    etcd: String,
    resp: String,
    daemon: Option<Daemon>,
}

impl EtcdNode {
    /// One that is not started.
    fn of(name: &str, etcd: &str) -> EtcdNode {
        EtcdNode {
            name: name.to_owned(),
            etcd: format!("etcd:http://{etcd}/test"),
            resp: format!("127.0.0.1:{}", free_port()),
            daemon: None,
        }
    }

    fn start(&mut self) -> &Daemon {
        let flags = [
            "--cluster",
            &self.etcd,
            "--node",
            &self.name,
            "--cluster-lease",
            LEASE,
            "--resp",
            &self.resp,
            "--memcached",
            "off",
        ];
        self.daemon.insert(Daemon::start(&flags))
    }

    fn signal(&self, signal: Signal) {
        self.daemon.as_ref().unwrap().signal(signal);
    }

    /// How many slots it serves; 0 of one that does not run.
    fn served(&self) -> u32 {
        let Some(daemon) = &self.daemon else {
            return 0;
        };
        let info = Client::connect(daemon).run("CLUSTER INFO").shown();
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("cluster_slots_served:"));
        line.unwrap().parse().unwrap()
    }
}

/// Waits until these nodes serve all slots between them, each some.
fn wait_until_whole(nodes: &[&EtcdNode]) {
    let mut served = Vec::new();
    for _ in 0..3_000 {
        served = nodes.iter().map(|node| node.served()).collect();
        if served.iter().sum::<u32>() == 16_384 && served.iter().all(|slots| *slots > 0) {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    panic!("the slots are not served: {served:?}");
}

#[test]
fn no_read_is_stale_whatever_fails() {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let relay = Relay::to(etcd.address());
    let mut nodes = ["alpha", "beta", "gamma", "delta"].map(|name| {
        let behind = if name == "gamma" {
            &relay.address
        } else {
            &etcd.address()
        };
        EtcdNode::of(name, behind)
    });
    nodes[..3].iter_mut().for_each(|node| {
        node.start();
    });
    let [alpha, beta, gamma, delta] = &mut nodes;
    wait_until_whole(&[alpha, beta, gamma]);
    let addresses = [&alpha.resp, &beta.resp, &gamma.resp, &delta.resp].map(String::clone);
    let checker = ClusterChecker::start(&addresses);
    let rounds = std::env::var("CELLAR_TEST_FAULTS").map_or(1, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        // Stopped for longer than the lease, with requests in its sockets.
        checker.go_on(HITS);
        alpha.signal(Signal::STOP);
        wait_until_whole(&[beta, gamma]);
        checker.go_on(HITS);
        alpha.signal(Signal::CONT);
        wait_until_whole(&[alpha, beta, gamma]);
        // Stopped for less.
        checker.go_on(HITS);
        beta.signal(Signal::STOP);
        sleep(Duration::from_millis(700));
        beta.signal(Signal::CONT);
        wait_until_whole(&[alpha, beta, gamma]);
        // Killed, and started again.
        checker.go_on(HITS);
        beta.signal(Signal::KILL);
        beta.daemon = None;
        wait_until_whole(&[alpha, gamma]);
        checker.go_on(HITS);
        beta.start();
        wait_until_whole(&[alpha, beta, gamma]);
        // Cut off from etcd, and not from its clients.
        checker.go_on(HITS);
        relay.freeze(true);
        wait_until_whole(&[alpha, beta]);
        assert_eq!(gamma.served_by_lease(), 0);
        checker.go_on(HITS);
        relay.freeze(false);
        wait_until_whole(&[alpha, beta, gamma]);
        // Etcd is gone, and comes back with what it had: nobody has lost anything.
        checker.go_on(HITS);
        etcd.kill();
        sleep(BEYOND_LEASE);
        etcd.restart();
        wait_until_whole(&[alpha, beta, gamma]);
        // One more, and one less.
        checker.go_on(HITS);
        delta.start();
        wait_until_whole(&[alpha, beta, gamma, delta]);
        checker.go_on(HITS);
        delta.signal(Signal::TERM);
        assert!(delta.daemon.as_mut().unwrap().wait().success());
        delta.daemon = None;
        wait_until_whole(&[alpha, beta, gamma]);
    }
    checker.go_on(HITS);
    let verdict = checker.finish();
    println!(
        "{} writes, {} hits, {} misses",
        verdict.writes, verdict.hits, verdict.misses
    );
    assert!(verdict.stale.is_empty(), "{:#?}", verdict.stale);
}

impl EtcdNode {
    /// How many slots it would answer for: none without a lease.
    fn served_by_lease(&self) -> u32 {
        let state = self.info("cluster_state");
        if state == "ok" { self.served() } else { 0 }
    }

    fn info(&self, field: &str) -> String {
        let info = Client::connect(self.daemon.as_ref().unwrap());
        let info = { info }.run("CLUSTER INFO").shown();
        let mut lines = info.lines();
        let line = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap().to_owned()
    }
}

#[test]
fn a_node_without_a_lease_serves_nothing_and_goes_on_when_it_has_one_again() {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let mut node = EtcdNode::of("only", &etcd.address());
    let daemon = node.start();
    daemon.log_until("all nodes follow the map");
    let mut client = Client::connect(daemon);
    client.check("SET k v => +OK\nGET k => v");
    etcd.kill();
    daemon.log_until("the lease was not renewed in time");
    client.check(
        "GET k => -CLUSTERDOWN Hash slot not served\nSET k w => -CLUSTERDOWN Hash slot not served",
    );
    assert_eq!(node.info("cluster_state"), "fail");
    etcd.restart();
    let daemon = node.daemon.as_ref().unwrap();
    daemon.log_until("the lease was renewed");
    client.check("GET k => v");
    let Value::Integer(_) = client.run("DEL k") else {
        panic!("it is not deleted");
    };
}

#[test]
fn a_name_or_an_address_that_is_taken_is_told_and_changes_nothing() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let mut first = EtcdNode::of("one", &etcd.address());
    first.start().log_until("all nodes follow the map");
    let mut second = EtcdNode::of("one", &etcd.address());
    second.start().log_until("one is registered already");
    assert_eq!(second.served(), 0);
    let mut third = EtcdNode::of("other", &etcd.address());
    third.resp = format!("127.0.0.1:{}", free_port());
    let flags = [
        "--cluster",
        &third.etcd,
        "--node",
        "other",
        "--resp",
        &third.resp,
        "--memcached",
        "off",
        "--announce-resp",
        &first.resp,
    ];
    let third = Daemon::start(&flags);
    third.log_until("is the address of one and of other");
    assert_eq!(first.served(), 16_384);
    drop(third);
    // The name is free again when its owner has gone.
    first.signal(Signal::TERM);
    let daemon = second.daemon.as_ref().unwrap();
    daemon.log_until("all nodes follow the map");
    assert_eq!(second.served(), 16_384);
}

#[test]
fn etcd_is_asked_over_tls_and_shown_a_certificate() {
    let authority = Authority::new();
    authority.issue("etcd", "etcd", &["127.0.0.1"]);
    authority.issue("node", "node", &["node"]);
    let path = |file| authority.path(file);
    let [ca, pem, key] = ["ca.pem", "node.pem", "node.key"].map(path);
    let asks = [
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={ca}"),
        format!("--cert-file={}", path("etcd.pem")),
        format!("--key-file={}", path("etcd.key")),
    ];
    let Some(etcd) = Etcd::start_with(asks.to_vec()) else {
        return;
    };
    let source = format!("etcd:https://{}", etcd.address());
    let flags = ["--cluster", &source, "--node", "a", "--cluster-ca", &ca];
    let stranger = Daemon::start(&flags);
    stranger.log_until("the last map stays in force");
    let shown = ["--cluster-cert", &pem, "--cluster-key", &key];
    let node = Daemon::start(&[&flags[..], &shown].concat());
    node.log_until("all nodes follow the map");
    Client::connect(&node).check("SET k v => +OK\nGET k => v");
    Client::connect(&stranger).check("GET k => -CLUSTERDOWN Hash slot not served");
}
