//! Notify: a service manager is told when the server is ready, reads its settings, stops.

use crate::support::daemon::Daemon;
use crate::support::wait::PATIENCE;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::process::Signal;

/// What comes next at a manager's socket.
fn next(socket: &UnixDatagram) -> String {
    let mut room = [0; 256];
    let bytes = socket.recv(&mut room).expect("the server tells something");
    String::from_utf8(room[..bytes].to_vec()).unwrap()
}

fn check(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cellar.toml");
    std::fs::write(&file, "").unwrap();
    let flags = ["--config", file.to_str().unwrap(), "--lame-duck", "100ms"];
    let mut daemon = Daemon::start_told(&flags, &[("NOTIFY_SOCKET", name)]);
    assert_eq!(next(socket), "READY=1");
    daemon.signal(Signal::HUP);
    let told = next(socket);
    let (_, us) = told.split_once("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(us.parse::<u64>().unwrap() > 0, "{told}");
    assert_eq!(next(socket), "READY=1");
    daemon.signal(Signal::TERM);
    assert_eq!(next(socket), "STOPPING=1");
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn a_manager_with_a_socket_file_or_a_name_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    check(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
    let name = format!("cellar-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    check(
        &UnixDatagram::bind_addr(&address).unwrap(),
        &format!("@{name}"),
    );
}

#[test]
fn a_manager_that_does_not_listen_changes_nothing() {
    for name in ["/nonexistent/notify", "", "@", "relative"] {
        let mut daemon = Daemon::start_told(&[], &[("NOTIFY_SOCKET", name)]);
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.wait().code(), Some(0), "{name}");
    }
}
