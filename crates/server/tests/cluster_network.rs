//! Nodes and etcd on hosts of their own, whose network is frozen on each side in turn: no read is
//! stale.
//!
//! Some of them in `make test`; all of them, in each direction, for longer and for shorter than
//! a lease, once for each ten of what `CELLAR_TEST_FAULTS` says where `make soak` sets it.

use std::thread::sleep;
use std::time::Duration;

use crate::support::etcd::{Etcd, EtcdForm};
use crate::support::etcd_node::{BEYOND_LEASE, EtcdNode, start_checked, wait_until_whole};
use crate::support::network::{self, Bridge, Host, Side};

/// Reads that find something between two faults.
const HITS: u64 = 100;
/// How long each client rests before a request.
const REST: Duration = Duration::from_millis(10);
/// Shorter than a lease.
const SHORT: Duration = Duration::from_millis(700);

/// Between which of them nothing passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Border {
    /// A node and etcd.
    Etcd,
    /// A node and all clients.
    Clients,
    /// A node and the other nodes.
    Nodes,
    /// A node and everybody: its cable is out.
    All,
    /// Etcd and everybody.
    EtcdAlone,
}

/// Which way it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Out,
    In,
    Both,
}

/// What is frozen, and whether for longer than a lease.
type Fault = (Border, Way, bool);

const SOME: [Fault; 3] = [
    (Border::Etcd, Way::In, true),
    (Border::Clients, Way::Out, false),
    (Border::EtcdAlone, Way::Both, true),
];

/// All that there are.
fn every_fault() -> Vec<Fault> {
    let borders = [Border::Etcd, Border::Clients, Border::Nodes];
    let mut all = Vec::new();
    for is_long in [true, false] {
        for border in borders {
            all.extend([Way::Out, Way::In, Way::Both].map(|way| (border, way, is_long)));
        }
        all.extend([Border::All, Border::EtcdAlone].map(|border| (border, Way::Both, is_long)));
    }
    all
}

#[test]
fn no_read_is_stale_whichever_side_of_the_network_is_frozen() {
    let name = "cluster_network::no_read_is_stale_whichever_side_of_the_network_is_frozen";
    if !network::is_own(name) {
        return;
    }
    let bridge = Bridge::lay();
    let hosts = [2, 11, 12, 13].map(|number| bridge.host(number));
    let form = EtcdForm {
        host: hosts[0].address(),
        behind: hosts[0].behind(),
        ..EtcdForm::default()
    };
    let Some(etcd) = Etcd::start_as(&form) else {
        return;
    };
    etcd.wait();
    let mut nodes = [(1, "alpha"), (2, "beta"), (3, "gamma")]
        .map(|(host, name)| EtcdNode::on(&hosts[host], name, &etcd.address()));
    let checker = start_checked(&mut nodes, REST);
    let [alpha, beta, gamma] = &nodes;
    let rounds = std::env::var("CELLAR_TEST_FAULTS").ok();
    let faults = match rounds.map(|rounds| rounds.parse::<usize>().unwrap()) {
        None => SOME.to_vec(),
        Some(rounds) => every_fault().repeat(rounds.div_ceil(10)),
    };
    for (border, way, is_long) in faults {
        checker.go_on(HITS);
        freeze(&hosts, (border, way), true);
        // paced: how long the fault lasts.
        sleep(if is_long { BEYOND_LEASE } else { SHORT });
        // Who cannot renew its lease has lost its slots to the others, and knows.
        if is_long && border == Border::Etcd {
            wait_until_whole(&[alpha, beta]);
            assert_eq!(gamma.served_by_lease(), 0, "{way:?}");
        } else if is_long && border == Border::All {
            wait_until_whole(&[alpha, beta]);
        }
        if border != Border::EtcdAlone {
            checker.go_on(HITS);
        }
        freeze(&hosts, (border, way), false);
        wait_until_whole(&[alpha, beta, gamma]);
    }
    checker.go_on(HITS);
    checker.finish();
}

/// Freezes the network of the last host, or of etcd's, which is the first one.
fn freeze(hosts: &[Host; 4], (border, way): (Border, Way), is_frozen: bool) {
    let [etcd, alpha, beta, gamma] = hosts;
    let others = match border {
        Border::Etcd => vec![Side::Of(etcd)],
        Border::Clients => vec![Side::Clients],
        Border::Nodes => vec![Side::Of(alpha), Side::Of(beta)],
        Border::All => return gamma.plug(!is_frozen),
        Border::EtcdAlone => return etcd.plug(!is_frozen),
    };
    for other in others {
        if way != Way::In {
            Side::Of(gamma).freeze_to(other, is_frozen);
        }
        if way != Way::Out {
            other.freeze_to(Side::Of(gamma), is_frozen);
        }
    }
}
