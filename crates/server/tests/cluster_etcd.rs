//! Servers that register in etcd: never two owners of a key, whatever fails.
//!
//! One round of faults in `make test`; as many as `CELLAR_TEST_FAULTS` says where `make soak`
//! sets it.

use std::thread::sleep;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;

use crate::support::cluster_checker::ClusterChecker;
use crate::support::daemon::Daemon;
use crate::support::etcd::{Etcd, Relay};
use crate::support::etcd_node::{BEYOND_LEASE, EtcdNode, wait_until_whole};
use crate::support::http::Http;
use crate::support::ports::free_port;
use crate::support::resp::Client;
use crate::support::tls::Authority;
use crate::support::wait::{PATIENCE, comes_true, wait_until};

/// Reads that find something between two faults.
const HITS: u64 = 500;

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
        // paced: how long the fault lasts.
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
        // paced: how long the fault lasts.
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
    checker.finish();
}

#[test]
fn a_node_without_a_lease_serves_nothing_and_goes_on_when_it_has_one_again() {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    // Long enough that etcd, once it is back, hears of the renewal on a crowded machine too.
    let mut node = EtcdNode::of("only", &etcd.address()).with_lease("6s");
    let daemon = node.start();
    daemon.log_until("all nodes use this map");
    let mut client = Client::connect(daemon);
    until_leased(&mut client, "SET k v", "+OK");
    until_leased(&mut client, "GET k", "v");
    etcd.kill();
    daemon.log_until("the lease was not renewed in time");
    client.check(
        "GET k => -CLUSTERDOWN Hash slot not served\nSET k w => -CLUSTERDOWN Hash slot not served",
    );
    assert_eq!(node.info("cluster_state"), "fail");
    etcd.restart();
    node.running().log_until("the lease was renewed");
    until_leased(&mut client, "GET k", "v");
    until_leased(&mut client, "DEL k", ":1");
}

/// Checks a reply that may be late: a machine may be too busy to renew a lease in time.
fn until_leased(client: &mut Client, command: &str, expected: &str) {
    let mut reply = String::new();
    wait_until(
        || format!("{command} is answered"),
        || {
            reply = client.run(command).shown();
            !reply.starts_with("-CLUSTERDOWN")
        },
    );
    assert_eq!(reply, expected, "{command}");
}

#[test]
fn a_name_or_an_address_that_is_taken_is_told_and_changes_nothing() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let mut first = EtcdNode::of("one", &etcd.address());
    first.start_until("all nodes use this map");
    let mut second = EtcdNode::of("one", &etcd.address());
    second.start_until("one is registered already");
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
    let third = Daemon::spawn(&flags);
    third.log_until("is the address of both one and other");
    assert_eq!(first.served(), 16_384);
    drop(third);
    // The name is free again when its owner has gone.
    first.signal(Signal::TERM);
    let daemon = second.daemon.as_ref().unwrap();
    daemon.log_until("all nodes use this map");
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
    let stranger = Daemon::spawn(&flags);
    stranger.log_until("keeping the previous map");
    let shown = ["--cluster-cert", &pem, "--cluster-key", &key];
    let node = Daemon::spawn(&[&flags[..], &shown].concat());
    node.log_until("all nodes use this map");
    Client::connect(&node).check("SET k v => +OK\nGET k => v");
    Client::connect(&stranger).check("GET k => -CLUSTERDOWN Hash slot not served");
}

#[test]
fn what_somebody_else_registers_is_told_and_the_last_map_stays() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let mut nodes = ["alpha", "beta"].map(|name| EtcdNode::of(name, &etcd.address()));
    for node in &mut nodes {
        node.start();
    }
    let [alpha, beta] = &nodes;
    wait_until_whole(&[alpha, beta]);
    let served = alpha.served();
    let own = alpha.resp.clone();
    for (name, value, reason) in [
        (
            "odd",
            "no record".to_owned(),
            "the registration of odd is not valid: ",
        ),
        (
            "odd",
            record(0, "127.0.0.1:1"),
            "a weight is a number from 1 to 10000, not 0",
        ),
        (
            "odd",
            record(1, "0.0.0.0:1"),
            "0.0.0.0:1 is not a specific address",
        ),
        ("odd", record(1, "off"), "node odd: it has no address"),
        ("an odd one", record(1, "127.0.0.1:1"), "is not a node name"),
        // Alpha is told that it is another one.
        (
            "odd",
            record(1, &own),
            "is the address of both alpha and odd",
        ),
    ] {
        let key = STANDARD.encode(format!("/cellar/test/{name}"));
        let pair = format!(
            "{{\"key\":\"{key}\",\"value\":\"{}\"}}",
            STANDARD.encode(value)
        );
        etcd.ask("kv/put", &pair);
        let told = alpha.running().log_until("keeping the previous map");
        let line = told.last().unwrap();
        assert!(line.contains(reason) && line.contains("ERROR"), "{line}");
        assert!(is_bad(alpha, 1), "{reason}");
        assert_eq!(
            (alpha.served_by_lease(), alpha.info("cluster_known_nodes")),
            (served, "2".to_owned())
        );
        etcd.ask("kv/deleterange", &format!("{{\"key\":\"{key}\"}}"));
        assert!(is_bad(alpha, 0), "{reason}");
    }
    wait_until_whole(&[alpha, beta]);
    // One whose registration is taken away drops all, and comes again.
    let key = STANDARD.encode("/cellar/test/alpha");
    etcd.ask("kv/deleterange", &format!("{{\"key\":\"{key}\"}}"));
    alpha
        .running()
        .log_until("this node is no longer registered");
    alpha.running().log_until("all nodes use this map");
    wait_until_whole(&[alpha, beta]);
    assert_eq!(alpha.lost_leases(), 1);
}

/// What somebody could register.
fn record(weight: u32, resp: &str) -> String {
    format!(
        "{{\"weight\":{weight},\"resp\":\"{resp}\",\"memcached\":\"off\",\"http\":\"off\",\
         \"since_s\":1,\"follows\":\"\"}}"
    )
}

/// Whether a node's metric says so in the end.
fn is_bad(node: &EtcdNode, expected: u32) -> bool {
    let line = format!("\ncellar_cluster_list_is_bad {expected}\n");
    comes_true(PATIENCE, || {
        let metrics = Http::to(node.running()).get("/metrics");
        metrics.text().contains(&line)
    })
}
