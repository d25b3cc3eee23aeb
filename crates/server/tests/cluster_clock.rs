//! A cluster of which a node's or etcd's wall clock jumps by an hour: nobody loses a lease by that,
//! and no read is stale.

use std::thread::sleep;
use std::time::Duration;

use crate::support::etcd::{Etcd, Relay, ask};
use crate::support::etcd_node::{EtcdNode, LEASE_LASTS, start_checked, wait_until_whole};
use crate::support::resp::{Client, Value};
use crate::support::wait::wait_until;
use crate::support::wall::move_clock;

const HITS: u64 = 100;
const REST: Duration = Duration::from_millis(10);
/// Where a clock jumps to, in seconds from where the others are.
const JUMPS: [i64; 2] = [3_600, -3_600];

#[test]
fn a_wall_clock_that_jumps_changes_nothing() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let relay = Relay::to(etcd.address());
    let behind = [
        ("alpha", &etcd.address()),
        ("beta", &relay.address),
        ("gamma", &etcd.address()),
    ];
    let mut nodes = behind.map(|(name, address)| EtcdNode::of(name, address));
    let checker = start_checked(&mut nodes, REST);
    let [alpha, beta, gamma] = &nodes;
    for seconds in JUMPS {
        checker.go_on(HITS);
        if !move_clock(beta.running().id(), seconds) {
            checker.finish();
            return;
        }
        wait_until_it_tells(|| unix_s(beta) - unix_s(alpha), seconds);
        // paced: leases are renewed in other processes.
        sleep(LEASE_LASTS);
        for node in [alpha, beta, gamma] {
            assert_eq!(node.lost_leases(), 0, "{seconds} s");
            assert_eq!(node.info("cluster_state"), "ok", "{seconds} s");
        }
        move_clock(etcd.id(0), seconds);
        wait_until_it_tells(|| etcd_s(&etcd) - unix_s(alpha), seconds);
        // paced: leases are renewed in other processes.
        sleep(LEASE_LASTS);
        for node in [alpha, beta, gamma] {
            assert_eq!(node.lost_leases(), 0, "{seconds} s, of etcd's clock");
        }
    }
    // Cut off from etcd, its clock goes back by an hour once more: its lease ends nevertheless.
    checker.go_on(HITS);
    relay.freeze(true);
    move_clock(beta.running().id(), 2 * JUMPS[1]);
    wait_until_whole(&[alpha, gamma]);
    assert_eq!(beta.served_by_lease(), 0);
    checker.go_on(HITS);
    relay.freeze(false);
    wait_until_whole(&[alpha, beta, gamma]);
    assert_eq!(beta.lost_leases(), 1);
    checker.go_on(HITS);
    checker.finish();
}

/// The Unix time that a node tells.
fn unix_s(node: &EtcdNode) -> i64 {
    let Value::Array(parts) = Client::connect(node.running()).run("TIME") else {
        panic!("no time");
    };
    parts[0].shown().parse().unwrap()
}

/// The Unix time that etcd tells.
fn etcd_s(etcd: &Etcd) -> i64 {
    let said = ask(&etcd.address(), "/version");
    let date = said.lines().find_map(|line| line.strip_prefix("Date: "));
    let date = httpdate::parse_http_date(date.unwrap()).unwrap();
    let since = date.duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

/// Waits until a difference in seconds is about so much.
fn wait_until_it_tells(difference: impl Fn() -> i64, seconds: i64) {
    let is_so = || (difference() - seconds).abs() < 60;
    wait_until("its clock has jumped", is_so);
}
