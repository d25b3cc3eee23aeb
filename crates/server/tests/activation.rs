//! Activation: listening sockets that a service manager passes, and those that it keeps over a
//! restart, in which no client is refused.

use crate::support::daemon::{Daemon, check, expect};
use crate::support::wait::PATIENCE;

use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;

/// A connection to an address, whose client asks at once.
fn ask(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the manager listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"mn\r\n").unwrap();
    stream
}

fn stop(mut daemon: Daemon) {
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn passed_sockets_take_the_place_of_addresses_and_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passed.sock");
    let memcached = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = memcached.local_addr().unwrap().to_string();
    let resp = UnixListener::bind(&path).unwrap();
    for _ in 0..3 {
        let mut early = ask(&address);
        let sockets: Vec<OwnedFd> = vec![
            memcached.try_clone().unwrap().into(),
            resp.try_clone().unwrap().into(),
        ];
        let flags = ["--memcached", "192.0.2.1:1"];
        let daemon = Daemon::start_passed(sockets, "cellar-memcached.socket:resp", &flags, &[]);
        assert_eq!(daemon.address, address);
        assert_eq!(daemon.resp, format!("unix:{}", path.display()));
        expect(&mut early, b"MN\r\n");
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        check(&mut stream, b"PING\r\n", b"+PONG\r\n");
        stop(daemon);
        assert!(path.exists(), "it is the manager's");
    }
}

#[test]
fn a_passed_socket_that_nothing_is_known_to_do_with_is_told() {
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap().into();
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    for (socket, name, expected) in [
        (
            listener(),
            "cellar.socket",
            "socket \"cellar.socket\" of the service manager: call it memcached, resp or http, \
             with -tls for TLS (FileDescriptorName=)",
        ),
        (
            file,
            "resp",
            "socket \"resp\" of the service manager: it is not a listening stream socket",
        ),
        (
            listener(),
            "resp-tls",
            "--tls-cert: an address with tls: needs",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_cellar"))
            .env("LISTEN_FDS", "1")
            .env("LISTEN_FDS_FIRST_FD", "0")
            .env("LISTEN_FDNAMES", name)
            .stdin(Stdio::from(socket))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.starts_with(&format!("cellar: {expected}")), "{text}");
    }
}

/// A manager's socket.
struct Manager {
    socket: UnixDatagram,
    path: String,
    _folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Manager {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager {
            socket,
            path: path.to_str().unwrap().to_owned(),
            _folder: folder,
        }
    }

    fn variables(&self) -> [(&str, &str); 2] {
        [("NOTIFY_SOCKET", &self.path), ("FDSTORE", "64")]
    }

    /// What is told next, and the socket with it.
    fn next(&self) -> (String, Option<OwnedFd>) {
        let mut bytes = [0; 1024];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut pieces = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut pieces, &mut control, flags).unwrap();
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        let text = std::str::from_utf8(&bytes[..received.bytes]).unwrap();
        (text.to_owned(), files.pop())
    }

    /// What it is to keep, by name, until the server is ready.
    fn kept(&self) -> Vec<(String, OwnedFd)> {
        let mut kept = Vec::new();
        loop {
            match self.next() {
                (text, None) if text == "READY=1" => return kept,
                (text, Some(socket)) => {
                    let name = text.strip_prefix("FDSTORE=1\nFDNAME=").unwrap();
                    kept.push((name.to_owned(), socket));
                }
                (text, None) => panic!("{text}"),
            }
        }
    }
}

#[test]
fn a_manager_that_keeps_sockets_gets_them_and_a_restart_refuses_nobody() {
    let manager = Manager::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.sock");
    let file = format!("unix:{}", path.display());
    let flags = ["--http", "off", "--resp", &file];
    let daemon = Daemon::start_told(&flags, &manager.variables());
    let address = daemon.address.clone();
    let kept = manager.kept();
    let names: Vec<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        format!("kept-{}", address.replace(':', ".")),
        format!("kept-{}", file.replace(':', ".")),
    ];
    assert_eq!(names, expected);
    stop(daemon);
    assert_eq!(manager.next().0, "STOPPING=1");

    // Nobody serves, and nobody is refused.
    let mut waiting = ask(&address);
    let mut by_file = UnixStream::connect(&path).unwrap();
    by_file.write_all(b"PING\r\n").unwrap();
    let names = names.join(":");
    let sockets = || {
        let copies = kept.iter().map(|(_, socket)| socket.try_clone().unwrap());
        copies.collect::<Vec<_>>()
    };
    let flags = ["--http", "off", "--resp", &file, "--memcached", &address];
    let daemon = Daemon::start_passed(sockets(), &names, &flags, &manager.variables());
    expect(&mut waiting, b"MN\r\n");
    expect(&mut by_file, b"+PONG\r\n");
    assert_eq!(manager.next().0, "READY=1", "nothing has to be kept anew");
    stop(daemon);
    assert_eq!(manager.next().0, "STOPPING=1");

    // Another address: the old one is forgotten, and the new one kept.
    let flags = ["--http", "off", "--resp", &file];
    let daemon = Daemon::start_passed(sockets(), &names, &flags, &manager.variables());
    assert_ne!(daemon.address, address);
    let forgotten = format!("FDSTOREREMOVE=1\nFDNAME={}", expected[0]);
    assert_eq!(manager.next().0, forgotten);
    assert_eq!(manager.kept().len(), 1);
}

#[test]
fn a_manager_that_keeps_nothing_is_told_nothing_of_sockets() {
    let manager = Manager::new();
    let _daemon = Daemon::start_told(&[], &manager.variables()[..1]);
    assert!(manager.kept().is_empty());
}

#[test]
fn a_manager_hears_of_a_takeover() {
    let manager = Manager::new();
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control");
    let control = control.to_str().unwrap();
    let variables = &manager.variables()[..1];
    let flags = ["--resp", "off", "--http", "off", "--control", control];
    let mut old = Daemon::start_told(&flags, variables);
    assert_eq!(manager.next().0, "READY=1");
    let flags = [&flags[..], &["--takeover", "--memcached", &old.address]].concat();
    let new = Daemon::start_told(&flags, variables);
    let told = [manager.next().0, manager.next().0];
    assert!(told.contains(&format!("MAINPID={}", new.id())), "{told:?}");
    assert!(told.contains(&"READY=1".to_owned()), "{told:?}");
    assert_eq!(old.wait().code(), Some(0));
    stop(new);
    assert_eq!(manager.next().0, "STOPPING=1");
}
