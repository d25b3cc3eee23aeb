//! Nodes of a cluster in etcd, for tests: each at an address that it keeps.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;

use rustix::process::Signal;

use super::cluster_checker::ClusterChecker;
use super::daemon::Daemon;
use super::http::Http;
use super::network::Host;
use super::ports::free_port;
use super::resp::Client;
use super::wait::wait_until;

/// The lease that the tests take, longer than it lasts unless it is renewed, and than in etcd.
pub(crate) const LEASE: &str = "4s";
pub(crate) const LEASE_LASTS: Duration = Duration::from_millis(4_500);
pub(crate) const BEYOND_LEASE: Duration = Duration::from_millis(8_500);

/// A node of which only Redis's protocol is spoken, at an address that it keeps.
pub(crate) struct EtcdNode {
    name: String,
    pub(crate) etcd: String,
    pub(crate) resp: String,
    lease: &'static str,
    behind: Vec<String>,
    /// Flags that it has besides.
    pub(crate) more: Vec<String>,
    pub(crate) daemon: Option<Daemon>,
}

impl EtcdNode {
    /// One that is not started, of a cluster in the etcd at `host:port`, or at several.
    pub(crate) fn of(name: &str, etcd: &str) -> EtcdNode {
        EtcdNode {
            name: name.to_owned(),
            etcd: format!("etcd:http://{}/test", etcd.replace(',', ",http://")),
            resp: format!("127.0.0.1:{}", free_port()),
            lease: LEASE,
            behind: Vec::new(),
            more: Vec::new(),
            daemon: None,
        }
    }

    /// The same on a host of its own.
    pub(crate) fn on(host: &Host, name: &str, etcd: &str) -> EtcdNode {
        EtcdNode {
            resp: format!("{}:6379", host.address()),
            behind: host.behind(),
            more: vec!["--insecure".to_owned()],
            ..EtcdNode::of(name, etcd)
        }
    }

    /// The same with another lease.
    pub(crate) fn with_lease(self, lease: &'static str) -> EtcdNode {
        EtcdNode { lease, ..self }
    }

    pub(crate) fn start(&mut self) -> &Daemon {
        let own = [
            "--cluster",
            &self.etcd,
            "--node",
            &self.name,
            "--cluster-lease",
            self.lease,
            "--resp",
            &self.resp,
            "--memcached",
            "off",
        ];
        let more = self.more.iter().map(String::as_str);
        let flags: Vec<&str> = own.into_iter().chain(more).collect();
        self.daemon
            .insert(Daemon::start_behind(&self.behind, &flags))
    }

    /// Starts it and waits for these words in a line of its log, which may come before it is ready.
    pub(crate) fn start_until(&mut self, words: &str) -> String {
        let daemon = self.start();
        let mut earlier = daemon.warnings().iter();
        let line = earlier.find(|line| line.contains(words)).cloned();
        line.unwrap_or_else(|| daemon.log_until(words).pop().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.running().signal(signal);
    }

    /// The server of one that runs.
    pub(crate) fn running(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    /// How many slots it serves; 0 of one that does not run.
    pub(crate) fn served(&self) -> u32 {
        if self.daemon.is_none() {
            return 0;
        }
        self.info("cluster_slots_served").parse().unwrap()
    }

    /// How many slots it would answer for: none without a lease.
    pub(crate) fn served_by_lease(&self) -> u32 {
        let state = self.info("cluster_state");
        if state == "ok" { self.served() } else { 0 }
    }

    /// What CLUSTER INFO says of a field.
    pub(crate) fn info(&self, field: &str) -> String {
        let info = Client::connect(self.running()).run("CLUSTER INFO").shown();
        let mut lines = info.lines();
        let line = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap().to_owned()
    }

    /// How many leases it has lost.
    pub(crate) fn lost_leases(&self) -> u64 {
        let metrics = Http::to(self.running()).get("/metrics");
        let mut lines = metrics.text().lines();
        let line = lines.find_map(|line| line.strip_prefix("cellar_cluster_lost_leases_total "));
        line.unwrap().parse().unwrap()
    }
}

/// Starts these nodes and, once they serve all slots, a checker over them.
pub(crate) fn start_checked(nodes: &mut [EtcdNode], rest: Duration) -> ClusterChecker {
    for node in &mut *nodes {
        node.start();
    }
    wait_until_whole(&nodes.iter().collect::<Vec<_>>());
    let addresses: Vec<String> = nodes.iter().map(|node| node.resp.clone()).collect();
    ClusterChecker::start_resting(&addresses, rest)
}

/// Waits until these nodes serve all slots between them, each some.
pub(crate) fn wait_until_whole(nodes: &[&EtcdNode]) {
    let served = || nodes.iter().map(|node| node.served()).collect::<Vec<u32>>();
    let what = || format!("all slots are served, not {:?}", served());
    wait_until(what, || {
        let served = served();
        served.iter().sum::<u32>() == 16_384 && served.iter().all(|slots| *slots > 0)
    });
}
