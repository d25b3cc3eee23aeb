//! Etcd: Debian's etcd-server on free ports, and a relay before it that can be frozen.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::ports::free_port;

/// A running etcd; killed when dropped.
pub(crate) struct Etcd {
    members: Vec<EtcdMember>,
}

/// A member of it.
struct EtcdMember {
    folder: TempDir,
    child: Child,
    address: String,
    flags: Vec<String>,
}

/// How an etcd is started.
#[derive(Clone, Debug)]
pub(crate) struct EtcdForm {
    /// How many members it has.
    pub(crate) members: usize,
    /// The address at which clients find it.
    pub(crate) host: String,
    /// What stands before each command, such as what runs it in another network.
    pub(crate) behind: Vec<String>,
    /// The flags with which it speaks TLS, if it does.
    pub(crate) tls: Vec<String>,
    /// Flags of each member.
    pub(crate) more: Vec<String>,
}

impl Default for EtcdForm {
    fn default() -> EtcdForm {
        EtcdForm {
            members: 1,
            host: "127.0.0.1".to_owned(),
            behind: Vec::new(),
            tls: Vec::new(),
            more: Vec::new(),
        }
    }
}

impl Etcd {
    /// Starts one of one member; none where it is not installed, which is told.
    pub(crate) fn start() -> Option<Etcd> {
        let etcd = Etcd::start_as(&EtcdForm::default())?;
        etcd.wait();
        Some(etcd)
    }

    /// The same with these flags, over TLS if there are some; it is not waited for.
    pub(crate) fn start_with(tls: Vec<String>) -> Option<Etcd> {
        Etcd::start_as(&EtcdForm {
            tls,
            ..EtcdForm::default()
        })
    }

    /// Starts one in this form; it is not waited for.
    pub(crate) fn start_as(form: &EtcdForm) -> Option<Etcd> {
        if Command::new("etcd").arg("--version").output().is_err() {
            eprintln!("left out: there is no etcd here; .ci/install installs it");
            return None;
        }
        let ports: Vec<[u16; 2]> = (0..form.members)
            .map(|_| [free_port(), free_port()])
            .collect();
        let named = ports.iter().enumerate();
        let named = named.map(|(index, [_, peer])| format!("m{index}=http://127.0.0.1:{peer}"));
        let all = named.collect::<Vec<_>>().join(",");
        let member = |(index, [port, peer]): (usize, &[u16; 2])| {
            let scheme = if form.tls.is_empty() { "http" } else { "https" };
            let (client, peer) = (
                format!("{scheme}://{}:{port}", form.host),
                format!("http://127.0.0.1:{peer}"),
            );
            let folder = tempfile::tempdir().unwrap();
            let data = folder.path().join("data").display().to_string();
            let own = [
                ("--name", format!("m{index}")),
                ("--data-dir", data),
                ("--listen-client-urls", client.clone()),
                ("--advertise-client-urls", client),
                ("--listen-peer-urls", peer.clone()),
                ("--initial-advertise-peer-urls", peer),
                ("--initial-cluster", all.clone()),
            ];
            let own = own
                .into_iter()
                .flat_map(|(flag, value)| [flag.to_owned(), value]);
            let command = form.behind.iter().cloned().chain(["etcd".to_owned()]);
            let flags = command
                .chain(own)
                .chain(form.tls.iter().chain(&form.more).cloned());
            let flags: Vec<String> = flags.collect();
            EtcdMember {
                child: spawn(&folder, &flags),
                folder,
                address: format!("{}:{port}", form.host),
                flags,
            }
        };
        let members = ports.iter().enumerate().map(member);
        Some(Etcd {
            members: members.collect(),
        })
    }

    /// Where its first member is.
    pub(crate) fn address(&self) -> String {
        self.address_of(0)
    }

    /// Where all its members are, with commas between them.
    pub(crate) fn addresses(&self) -> String {
        let all = self.members.iter().map(|member| &*member.address);
        all.collect::<Vec<_>>().join(",")
    }

    /// Where this member is.
    pub(crate) fn address_of(&self, member: usize) -> String {
        self.members[member].address.clone()
    }

    /// The process of a member.
    pub(crate) fn id(&self, member: usize) -> u32 {
        self.members[member].child.id()
    }

    /// Asks the first member's gateway, in JSON, as nobody.
    pub(crate) fn ask(&self, path: &str, question: &str) -> String {
        self.ask_as("", path, question)
    }

    /// The same as the user who was given this token.
    pub(crate) fn ask_as(&self, token: &str, path: &str, question: &str) -> String {
        let bytes = question.len();
        let as_user = match token {
            "" => String::new(),
            _ => format!("\r\nAuthorization: {token}"),
        };
        let head = format!("POST /v3/{path} HTTP/1.1\r\nContent-Length: {bytes}{as_user}");
        let answer = exchange(&self.address(), &head, question);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer
    }

    /// Kills all of it; what it has stored stays.
    pub(crate) fn kill(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill_member(member));
    }

    /// Kills a member; what it has stored stays.
    pub(crate) fn kill_member(&mut self, member: usize) {
        let child = &mut self.members[member].child;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts again, with what they have stored, all members that do not run.
    pub(crate) fn restart(&mut self) {
        (0..self.members.len()).for_each(|member| self.restart_member(member));
        self.wait();
    }

    /// Starts a member again that does not run, with what it has stored; it is not waited for.
    pub(crate) fn restart_member(&mut self, index: usize) {
        let member = &mut self.members[index];
        if member.child.try_wait().unwrap().is_some() {
            member.child = spawn(&member.folder, &member.flags);
        }
    }

    /// Waits until each of its members is well.
    pub(crate) fn wait(&self) {
        (0..self.members.len()).for_each(|member| self.wait_for(member));
    }

    /// Waits until a member is well.
    pub(crate) fn wait_for(&self, member: usize) {
        let is_well = || ask(&self.address_of(member), "/health").contains("\"true\"");
        assert!(comes_true(is_well), "etcd does not become healthy");
    }

    /// Which member leads, waited for; one that is stopped is not asked.
    pub(crate) fn leader(&self, stopped: Option<usize>) -> usize {
        let mut leader = None;
        let is_found = || {
            let mut asked = (0..self.members.len()).filter(|member| Some(*member) != stopped);
            leader = asked.find(|member| {
                let said = ask(&self.address_of(*member), "/metrics");
                said.contains("\netcd_server_is_leader 1\n")
            });
            leader.is_some()
        };
        assert!(comes_true(is_found), "nobody leads");
        leader.unwrap()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// Tries until `is_so`, at most for a minute. Tests of another crate have this file, and not the
/// module `wait`.
fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    (0..1_200).any(|_| {
        let is_now = is_so();
        if !is_now {
            // paced: etcd starts, or elects, in other processes.
            std::thread::sleep(Duration::from_millis(50));
        }
        is_now
    })
}

fn spawn(folder: &TempDir, command: &[String]) -> Child {
    let mut log = std::fs::File::options();
    let log = log.create(true).append(true);
    let log = log.open(folder.path().join("log")).unwrap();
    Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("etcd starts")
}

/// The answer to a GET of this path; empty if there is none.
pub(crate) fn ask(address: &str, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1"), "")
}

/// The answer to a request; empty if there is none.
fn exchange(address: &str, head: &str, body: &str) -> String {
    let mut answer = String::new();
    let Ok(mut stream) = TcpStream::connect(address) else {
        return answer;
    };
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let request = format!("{head}\r\nHost: etcd\r\nConnection: close\r\n\r\n{body}");
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
                // paced: a relay that holds bytes back for as long as the fault lasts.
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
