//! Etcd: Debian's etcd-server on free ports, and a relay before it that can be frozen.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

/// A free port of this machine.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A running etcd of one member; killed when dropped.
pub(crate) struct Etcd {
    folder: TempDir,
    child: Child,
    port: u16,
    peer_port: u16,
    /// The flags with which it speaks TLS, if it does.
    tls: Vec<String>,
}

impl Etcd {
    /// Starts it; none where it is not installed, which is told.
    pub(crate) fn start() -> Option<Etcd> {
        let etcd = Etcd::start_with(Vec::new())?;
        etcd.wait();
        Some(etcd)
    }

    /// The same with these flags, over TLS if there are some; it is not waited for.
    pub(crate) fn start_with(tls: Vec<String>) -> Option<Etcd> {
        if Command::new("etcd").arg("--version").output().is_err() {
            eprintln!("left out: there is no etcd here; .ci/install installs it");
            return None;
        }
        let (folder, port, peer_port) = (tempfile::tempdir().unwrap(), free_port(), free_port());
        let child = spawn(&folder, port, peer_port, &tls);
        Some(Etcd {
            folder,
            child,
            port,
            peer_port,
            tls,
        })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills it; what it has stored stays.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again with what it has stored.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.folder, self.port, self.peer_port, &self.tls);
        self.wait();
    }

    fn wait(&self) {
        for _ in 0..600 {
            if ask(&self.address(), "/health").contains("\"true\"") {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("etcd does not become healthy");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &TempDir, port: u16, peer_port: u16, tls: &[String]) -> Child {
    let (client, peer) = (
        match tls {
            [] => format!("http://127.0.0.1:{port}"),
            _ => format!("https://127.0.0.1:{port}"),
        },
        format!("http://127.0.0.1:{peer_port}"),
    );
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    Command::new("etcd")
        .args([
            "--data-dir".as_ref(),
            folder.path().join("data").as_os_str(),
        ])
        .args(["--listen-client-urls", &client])
        .args(["--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args(tls)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("etcd starts")
}

/// The answer to a GET of this path; empty if there is none.
fn ask(address: &str, path: &str) -> String {
    let mut answer = String::new();
    let Ok(mut stream) = TcpStream::connect(address) else {
        return answer;
    };
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes());
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// What passes bytes on between those who connect to it and another address.
pub(crate) struct Relay {
    /// Where it listens.
    pub(crate) address: String,
    frozen: Arc<AtomicBool>,
}

impl Relay {
    /// A relay to this address.
    pub(crate) fn to(target: String) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay {
            address: listener.local_addr().unwrap().to_string(),
            frozen: Arc::default(),
        };
        let frozen = Arc::clone(&relay.frozen);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&target) else {
                    continue;
                };
                pass_on(near.try_clone().unwrap(), far.try_clone().unwrap(), &frozen);
                pass_on(far, near, &frozen);
            }
        });
        relay
    }

    /// Whether nothing passes from now on, and nobody is told.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.frozen.store(is_frozen, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, frozen: &Arc<AtomicBool>) {
    let frozen = Arc::clone(frozen);
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(bytes @ 1..) = from.read(&mut piece) {
            while frozen.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if to.write_all(&piece[..bytes]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
        let _ = from.shutdown(std::net::Shutdown::Both);
    });
}
