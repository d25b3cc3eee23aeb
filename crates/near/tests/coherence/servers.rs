//! Servers: real ones on free loopback ports, stopped by their process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};

use crate::ports::free_port;
use crate::subject::{PATIENCE, name_of};
use crate::wait::{wait_for, wait_until};

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Debian's redis-server.
    Redis,
    /// The server of this repository.
    Cellar,
    /// Debian's memcached.
    Memcached,
}

/// Those that tell of changes.
pub(crate) const KINDS: [Kind; 2] = [Kind::Redis, Kind::Cellar];

/// A running server; killed when dropped.
pub(crate) struct Server {
    kind: Kind,
    child: Child,
    port: u16,
    flags: Vec<String>,
    /// Where it speaks memcached's protocol, if it does.
    pub(crate) memcached: Option<String>,
    /// Where it speaks HTTP, if it does.
    pub(crate) http: Option<String>,
}

impl Server {
    /// Starts one without keys.
    pub(crate) async fn start(kind: Kind) -> Server {
        Server::start_with(kind, &[]).await
    }

    /// The same with further flags.
    pub(crate) async fn start_with(kind: Kind, flags: &[&str]) -> Server {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let port = free_port();
        Server::start_at(kind, port, flags).await
    }

    async fn start_at(kind: Kind, port: u16, flags: Vec<String>) -> Server {
        let (child, [memcached, http]) = match kind {
            Kind::Redis => (start_redis(port, &flags), [None, None]),
            Kind::Cellar => start_cellar(port, &flags),
            Kind::Memcached => start_memcached(port, &flags),
        };
        let server = Server {
            kind,
            child,
            port,
            flags,
            memcached,
            http,
        };
        server.answers().await;
        server
    }

    /// Waits until it listens, and speaks its protocol if that is Redis's.
    async fn answers(&self) {
        if self.kind != Kind::Memcached {
            self.client().await;
            return;
        }
        let listens = || async { self.listens().await.then_some(()) };
        wait_for("memcached listens", listens).await;
    }

    /// Whether it listens at its port, or at the socket file that memcached has in place of one.
    async fn listens(&self) -> bool {
        let file = self.flags.iter().position(|flag| flag == "-s");
        match file.and_then(|at| self.flags.get(at + 1)) {
            Some(path) => tokio::net::UnixStream::connect(path).await.is_ok(),
            None => tokio::net::TcpStream::connect(self.address()).await.is_ok(),
        }
    }

    /// Where it speaks RESP, or memcached's protocol if that is all it speaks.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Whether it speaks memcached's protocol and no other.
    pub(crate) fn speaks_text_alone(&self) -> bool {
        self.kind == Kind::Memcached
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Stops its process in the middle of whatever it does, until it is let go.
    pub(crate) fn freeze(&self) {
        signal(&self.child, Signal::STOP);
    }

    /// Lets its process go on.
    pub(crate) fn thaw(&self) {
        signal(&self.child, Signal::CONT);
    }

    /// Kills its process; nothing listens any more.
    pub(crate) fn crash(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Tells its process to end, and waits until it has.
    pub(crate) async fn end(&mut self) {
        signal(&self.child, Signal::TERM);
        let has_ended = || self.child.try_wait().unwrap().is_some();
        wait_until("the server ends when it is told to", has_ended).await;
    }

    /// Kills it and starts it anew at the same port, without keys.
    pub(crate) async fn restart(self) -> Server {
        let (kind, port, flags) = (self.kind, self.port, self.flags.clone());
        drop(self);
        Server::start_at(kind, port, flags).await
    }

    /// Another client, connected once the server answers.
    pub(crate) async fn client(&self) -> Client {
        let client = redis::Client::open(format!("redis://{}", self.address())).unwrap();
        let patient = patient();
        let connect = || async {
            let opening = client.get_multiplexed_async_connection_with_config(&patient);
            opening.await.ok()
        };
        let what = format!("{:?} answers", self.kind);
        let connection = wait_for(&what, connect).await;
        Client { connection }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("it has an id"), signal).expect("it lives");
}

/// How long a client waits: the library's own second for a connection and half a one for an answer
/// are too short on a busy machine, and for passwords.
fn patient() -> redis::AsyncConnectionConfig {
    redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE))
}

/// A client without a near cache.
#[derive(Clone)]
pub(crate) struct Client {
    connection: MultiplexedConnection,
}

impl Client {
    /// Runs a command that has to succeed.
    pub(crate) async fn run(&self, words: &[&str]) -> redis::Value {
        self.try_run(words)
            .await
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Runs a command.
    pub(crate) async fn try_run(&self, words: &[&str]) -> redis::RedisResult<redis::Value> {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.connection.clone()).await
    }

    /// One who has logged in.
    pub(crate) async fn known(server: &Server, name: &str, password: &str) -> Client {
        let address = format!("redis://{name}:{password}@{}", server.address());
        let client = redis::Client::open(address).unwrap();
        let patient = patient();
        let connecting = client.get_multiplexed_async_connection_with_config(&patient);
        Client {
            connection: connecting.await.unwrap(),
        }
    }

    /// Sets a key of the suite.
    pub(crate) async fn set(&self, key: &str, value: &str) {
        self.run(&["SET", &name_of(key), value]).await;
    }
}

fn start_redis(port: u16, flags: &[String]) -> Child {
    let mut command = Command::new("redis-server");
    command
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ])
        .args(["--appendonly", "no", "--daemonize", "no"])
        .args(flags)
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
        .spawn()
        .expect("redis-server is installed (make tools)")
}

fn start_memcached(port: u16, flags: &[String]) -> (Child, [Option<String>; 2]) {
    let mut command = Command::new("memcached");
    command
        .args(["-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p"])
        .arg(port.to_string())
        .args(flags)
        .stderr(Stdio::null());
    let child = command
        .spawn()
        .expect("memcached is installed (make tools)");
    (child, [Some(format!("127.0.0.1:{port}")), None])
}

/// Starts Cellar; it tells where it listens for memcached and HTTP when it is ready. It speaks RESP
/// at `port` and where a flag says so, too.
fn start_cellar(port: u16, flags: &[String]) -> (Child, [Option<String>; 2]) {
    let mut resp = format!("127.0.0.1:{port}");
    let mut flags = flags.to_vec();
    if let Some(at) = flags.iter().position(|flag| flag == "--resp") {
        resp = format!("{resp},{}", flags.remove(at + 1));
        flags.remove(at);
    }
    let has_memcached = flags.iter().any(|flag| flag == "--memcached");
    let mut command = Command::new(cellar());
    command
        .args(["--memory", "64MiB", "--threads", "2"])
        .args(["--resp", &resp, "--http", "127.0.0.1:0"])
        .args(flags);
    if !has_memcached {
        command.args(["--memcached", "127.0.0.1:0"]);
    }
    command
        // It takes every variable of this kind for a setting.
        .env_remove("CELLAR_BIN")
        .env_remove("CELLAR_CHECKER_SECONDS")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let mut earlier = Vec::new();
    let ready = loop {
        match lines.next() {
            Some(Ok(line)) if line.contains("cellar ready") => break line,
            Some(Ok(line)) => earlier.push(line),
            _ => panic!("the server does not become ready: {earlier:?}"),
        }
    };
    // Its log is read to the end, so that it never waits for us.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    let address = |name: &str| {
        let mut rest = ready.split(name).skip(1);
        let address = rest.next().and_then(|rest| rest.split(' ').next());
        address.map(str::to_owned)
    };
    (child, [address(" memcached="), address(" http=")])
}

/// The server's binary: the one that CELLAR_BIN names, or the one beside this test.
pub(crate) fn cellar() -> PathBuf {
    match std::env::var_os("CELLAR_BIN") {
        Some(path) => path.into(),
        None => built("cellar", &["--package", "cellar"]),
    }
}

/// A program beside this test, in the target folder.
///
/// `cargo test --workspace` builds it for other tests; alone, this crate's tests build it the same
/// way, as `what` says.
pub(crate) fn built(program: &str, what: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent);
    let program = folder
        .expect("deps lies in the target folder")
        .join(program);
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--locked", "--profile", "test"]);
        let built = build
            .args(what)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(
            built.is_ok_and(|status| status.success()),
            "cargo builds it"
        );
    }
    program
}
