//! Network: hosts with addresses of their own on one bridge, which can be frozen on any side.
//!
//! A test runs itself once more in a network that nobody else sees, and each host is a network in
//! that one, so nothing of them is left when their processes have ended, whatever ends them. What
//! is frozen goes to a hardware address that nobody has: nothing comes, and nobody is told.

use std::fs::read_link;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use super::wait::wait_until;

/// By which a program knows that it runs in a network of the test's own.
const INSIDE: &str = "TEST_NETWORK_IS_OWN";
/// The test's address on the bridge.
const HUB: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// A hardware address that nobody has.
const NOBODY: &str = "02:ff:ff:ff:ff:ff";

/// Whether this is the run in a network of its own. Elsewhere the test of this name is run in one,
/// and has to pass there; where that cannot be, one line says so.
pub(crate) fn is_own(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let ways: [&[&str]; 2] = [
        &["--net", "--mount"],
        &["--user", "--map-root-user", "--net", "--mount"],
    ];
    let has_bridge = |way: &&&[&str]| {
        let mut tried = Command::new("unshare");
        tried
            .args(**way)
            .args(["ip", "link", "add", "br0", "type", "bridge"]);
        let tried = tried.stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(way) = ways.iter().find(has_bridge) else {
        eprintln!("left out: networks of its own need root or user namespaces, and iproute2's ip");
        return false;
    };
    let status = Command::new("unshare")
        .args(*way)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status();
    assert!(status.unwrap().success(), "in its own network it fails");
    false
}

/// Has the test reach itself.
pub(crate) fn raise_loopback() {
    run(&[], "link set lo up");
}

/// The bridge, in the network of the test.
pub(crate) struct Bridge;

impl Bridge {
    /// Lays it, with the test on it.
    pub(crate) fn lay() -> Bridge {
        raise_loopback();
        run(&[], "link add br0 type bridge");
        run(&[], "link set br0 up");
        run(&[], &format!("addr add {HUB}/24 dev br0"));
        Bridge
    }

    /// A new host on it, with the last byte of its address.
    pub(crate) fn host(&self, number: u8) -> Host {
        Host::on_bridge(number)
    }
}

/// A host; gone when dropped.
pub(crate) struct Host {
    /// Its network lasts as long as this process, and that as long as the test's end of its input.
    keeper: Child,
    address: Ipv4Addr,
    /// The bridge's end of its cable.
    cable: String,
}

/// Who may hear nothing of another one.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a> {
    /// The test and its clients.
    Clients,
    /// A host.
    Of(&'a Host),
}

impl Host {
    fn on_bridge(number: u8) -> Host {
        let mut keeper = Command::new("unshare");
        keeper.args(["--net", "cat"]);
        let keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null());
        let host = Host {
            keeper: keeper.spawn().unwrap(),
            address: Ipv4Addr::new(10, 77, 0, number),
            cable: format!("cable{number}"),
        };
        let (process, cable, address) = (host.keeper.id(), &host.cable, host.address);
        let own = read_link("/proc/self/ns/net").unwrap();
        wait_until("the host has its own network", || {
            !read_link(format!("/proc/{process}/ns/net")).is_ok_and(|network| network == own)
        });
        run(
            &[],
            &format!("link add {cable} type veth peer name eth0 netns {process}"),
        );
        run(&[], &format!("link set {cable} master br0 up"));
        let behind = host.behind();
        run(&behind, "link set lo up");
        run(&behind, &format!("addr add {address}/24 dev eth0"));
        run(&behind, "link set eth0 up");
        host
    }

    /// Its address.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// What stands before a command that is to run there.
    pub(crate) fn behind(&self) -> Vec<String> {
        let network = format!("--net=/proc/{}/ns/net", self.keeper.id());
        vec!["nsenter".to_owned(), network]
    }

    /// Whether its cable is plugged in.
    pub(crate) fn plug(&self, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        run(&[], &format!("link set {} {state}", self.cable));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

impl Side<'_> {
    /// Whether what this side sends to another one is lost from now on.
    pub(crate) fn freeze_to(self, other: Side<'_>, is_frozen: bool) {
        let address = match other {
            Side::Clients => HUB,
            Side::Of(host) => host.address,
        };
        let (behind, device) = match self {
            Side::Clients => (Vec::new(), "br0"),
            Side::Of(host) => (host.behind(), "eth0"),
        };
        let told = if is_frozen {
            format!("neigh replace {address} lladdr {NOBODY} dev {device} nud permanent")
        } else {
            format!("neigh del {address} dev {device}")
        };
        run(&behind, &told);
    }
}

/// Runs `ip` with these words, here or behind a command.
fn run(behind: &[String], words: &str) {
    let mut command = behind.iter().map(String::as_str).chain(["ip"]);
    let output = Command::new(command.next().unwrap())
        .args(command)
        .args(words.split(' '))
        .output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {said}");
}
