//! Daemon: a server on free ports, for tests.
//!
//! [`Daemon::start`] runs it inside the test's process, with a clock that stands still until
//! [`Daemon::advance`] moves it. [`Daemon::spawn`] and its relatives start the program itself, for
//! tests of signals, logs, processor time, memory of the process, or fairness by the machine's
//! clock; `CELLAR_BIN` names another program than cargo's.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::wait::{PATIENCE, comes_true, wait_until};
use cellar::server::{Host, Server};
use cellar_config::protocol::Protocol;
use cellar_config::settings::address::Address;
use cellar_config::settings::load::{Action, load};
use cellar_system::clock::LoopClock;
use cellar_system::signals::{Signals, Stopper};
use rustix::process::{Pid, Signal, getpid, kill_process};

/// How the variables begin that the server takes for settings: the tests' own ones, and whatever
/// the user's shell has set, are not for it.
const SETTING_PREFIX: &str = "CELLAR_";

/// Flags that a server is started with unless its test says otherwise.
const DEFAULTS: [[&str; 2]; 5] = [
    ["--memory", "64MiB"],
    ["--threads", "2"],
    ["--memcached", "127.0.0.1:0"],
    ["--resp", "127.0.0.1:0"],
    ["--http", "127.0.0.1:0"],
];

/// By how much a clock is moved to end a drain: more than any drain may take.
const DRAINED: Duration = Duration::from_secs(3_600);

/// How often a clock is moved without a pause. A thread that looks at it from time to time may need
/// more.
const QUICK_STEPS: usize = 100;

/// A running server; it ends when dropped.
pub(crate) struct Daemon {
    body: Body,
    /// Where it listens for the memcached protocol; empty if nowhere.
    pub(crate) address: String,
    /// Where it listens for the Redis protocol; empty if nowhere.
    pub(crate) resp: String,
    /// Where it listens for HTTP; empty if nowhere.
    pub(crate) http: String,
    /// Its log lines before the ready line.
    earlier: Vec<String>,
    /// Its log lines from the ready line on.
    pub(crate) log: Receiver<String>,
}

impl Daemon {
    /// Starts a server in this process, with a small memory, two loops, free ports, these flags and
    /// a clock that stands still.
    pub(crate) fn start(flags: &[&str]) -> Daemon {
        let words = ["cellar"].into_iter().chain(defaults(&DEFAULTS, flags));
        let words = words
            .chain(flags.iter().copied())
            .map(OsString::from)
            .collect::<Vec<_>>();
        let loaded = match load(words, []) {
            Ok(Action::Run(loaded)) => loaded,
            Ok(other) => panic!("{flags:?} start no server: {other:?}"),
            Err(error) => panic!("{error}"),
        };
        let (signals, stopper) = Signals::by_hand().unwrap();
        let host = Host {
            clock: Some(LoopClock::stopped()),
            signals: Some(signals),
        };
        let server = Server::start(&loaded, host).unwrap_or_else(|error| panic!("{error}"));
        let of = |protocol| Address::show_all(server.addresses(protocol));
        Daemon {
            address: of(Protocol::Memcached),
            resp: of(Protocol::Resp),
            http: of(Protocol::Http),
            earlier: Vec::new(),
            log: channel().1,
            body: Body::Inside(Some(Box::new(server)), stopper),
        }
    }

    /// Moves the clock of a server in this process ahead, and waits until its threads have done
    /// what was due.
    pub(crate) fn advance(&self, by: Duration) {
        let Body::Inside(Some(server), _) = &self.body else {
            panic!("only Daemon::start makes a server whose clock can be moved");
        };
        server.advance_ms(u64::try_from(by.as_millis()).unwrap());
    }

    /// Moves the clock past the deadline of what expires after `ttl`, and on in steps until
    /// background maintenance has removed it: that looks at it within a second of its deadline.
    pub(crate) fn expire(&self, ttl: Duration) {
        const STEPS: u32 = 4;
        self.advance(ttl);
        for _ in 0..STEPS {
            self.advance(Duration::from_secs(1));
        }
    }

    /// Moves the clock ahead in steps until `is_so`. `what` names the event for the panic when it
    /// does not come.
    #[track_caller]
    pub(crate) fn advance_until(
        &self,
        what: &str,
        step: Duration,
        mut is_so: impl FnMut() -> bool,
    ) {
        for _ in 0..QUICK_STEPS {
            if is_so() {
                return;
            }
            self.advance(step);
        }
        let goes_on = || {
            self.advance(step);
            is_so()
        };
        if !comes_true(PATIENCE, goes_on) {
            panic!("advanced in vain by {step:?} again and again until {what}");
        }
    }

    /// Asks the server to stop, as SIGTERM does.
    pub(crate) fn stop(&self) {
        match &self.body {
            Body::Inside(_, stopper) => stopper.stop(),
            Body::Program(_) => self.signal(Signal::TERM),
        }
    }

    /// Whether a server in this process that was asked to stop has answered all and closed all.
    pub(crate) fn has_drained(&self) -> bool {
        match &self.body {
            Body::Inside(Some(server), _) => server.has_drained(),
            _ => panic!("only Daemon::start makes a server that tells of its drain"),
        }
    }

    /// Asks the server to read its files anew: sends SIGHUP to its process, which may be this one.
    pub(crate) fn hang_up(&self) {
        match &self.body {
            Body::Inside(..) => kill_process(getpid(), Signal::HUP).unwrap(),
            Body::Program(_) => self.signal(Signal::HUP),
        }
    }

    /// Starts the program with a small memory, two loops, free ports and these flags, and waits
    /// until it is ready.
    pub(crate) fn spawn(flags: &[&str]) -> Daemon {
        Daemon::start_in(Path::new("."), flags)
    }

    /// The same with this settings file, which says how much memory there is.
    pub(crate) fn start_of_file(path: &str, flags: &[&str]) -> Daemon {
        let flags = [&["--config", path], flags].concat();
        let start = Start {
            defaults: &DEFAULTS[1..],
            ..Start::default()
        };
        start.with(&flags)
    }

    /// The same as `start`, with another working directory.
    pub(crate) fn start_in(home: &Path, flags: &[&str]) -> Daemon {
        let start = Start {
            home,
            ..Start::default()
        };
        start.with(flags)
    }

    /// The same as `start`, with these variables.
    pub(crate) fn start_told(flags: &[&str], variables: &[(&str, &str)]) -> Daemon {
        let start = Start {
            variables,
            ..Start::default()
        };
        start.with(flags)
    }

    /// The same, behind a command that becomes it.
    pub(crate) fn start_behind(behind: &[String], flags: &[&str]) -> Daemon {
        let start = Start {
            behind,
            ..Start::default()
        };
        start.with(flags)
    }

    /// The same, with sockets that a service manager passes, at most two, by these names; they
    /// stand where standard input and output do elsewhere.
    pub(crate) fn start_passed(
        sockets: Vec<OwnedFd>,
        names: &str,
        flags: &[&str],
        variables: &[(&str, &str)],
    ) -> Daemon {
        let count = sockets.len().to_string();
        let passed = [
            ("LISTEN_FDS", count.as_str()),
            ("LISTEN_FDS_FIRST_FD", "0"),
            ("LISTEN_FDNAMES", names),
        ];
        let variables = [&passed, variables].concat();
        let start = Start {
            variables: &variables,
            sockets,
            ..Start::default()
        };
        start.with(flags)
    }

    /// What it had to say before it was ready.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.earlier
    }

    /// The log until a line has these words, that line last. What a client is told may be here
    /// before its line is, so a test waits for lines.
    pub(crate) fn log_until(&self, words: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        while !lines.last().is_some_and(|line| line.contains(words)) {
            let line = self.log.recv_timeout(PATIENCE);
            lines.push(line.unwrap_or_else(|_| panic!("no {words:?} in {lines:#?}")));
        }
        lines
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child().id()
    }

    fn child(&self) -> &Child {
        match &self.body {
            Body::Program(child) => child,
            Body::Inside(..) => panic!("only Daemon::spawn makes a server with its own process"),
        }
    }

    /// Time that the processors have spent on it, in ticks of the system's clock (10 ms).
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let fields = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let times = fields.skip(11).take(2);
        times.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// A new connection; its reads fail rather than hang.
    pub(crate) fn connect(&self) -> TcpStream {
        self.connect_to(&self.address)
    }

    /// A new connection for the Redis protocol.
    pub(crate) fn connect_resp(&self) -> TcpStream {
        self.connect_to(&self.resp)
    }

    /// A new connection for HTTP.
    pub(crate) fn connect_http(&self) -> TcpStream {
        self.connect_to(&self.http)
    }

    /// A new connection to the first of some addresses.
    fn connect_to(&self, addresses: &str) -> TcpStream {
        let address = addresses.split(',').next().unwrap_or_default();
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child()), signal).expect("it is our child");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let Body::Program(child) = &mut self.body else {
            panic!("only Daemon::spawn makes a server with its own process");
        };
        let mut status = None;
        wait_until("the server ends", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// The number behind a name in `stats`.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        self.try_stat(name)
            .unwrap_or_else(|line| panic!("{name} is not in stats: {line}"))
    }

    /// The same; the line that is no statistic if the name is missing or the server is full.
    fn try_stat(&self, name: &str) -> Result<u64, String> {
        let mut stream = self.connect();
        // A server without room may have closed it already.
        let _ = stream.write_all(b"stats\r\n");
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            reader
                .read_line(&mut line)
                .map_err(|error| error.to_string())?;
            if !line.starts_with("STAT ") {
                return Err(line);
            }
            if let Some(number) = line.strip_prefix(&format!("STAT {name} ")) {
                return Ok(number.trim().parse().unwrap());
            }
        }
    }

    /// Asks again and again until the number behind a name in `stats` is as wanted.
    pub(crate) fn wait_for_stat(&self, name: &str, wanted: impl Fn(u64) -> bool) {
        let what = || format!("{name} is as wanted, not {:?}", self.try_stat(name));
        wait_until(what, || self.try_stat(name).is_ok_and(&wanted));
    }
}

/// What runs a server.
enum Body {
    Program(Child),
    /// None only while it is being dropped.
    Inside(Option<Box<Server>>, Stopper),
}

/// How a program is started.
struct Start<'a> {
    home: &'a Path,
    defaults: &'a [[&'static str; 2]],
    behind: &'a [String],
    variables: &'a [(&'a str, &'a str)],
    sockets: Vec<OwnedFd>,
}

impl Default for Start<'_> {
    fn default() -> Self {
        Start {
            home: Path::new("."),
            defaults: &DEFAULTS,
            behind: &[],
            variables: &[],
            sockets: Vec::new(),
        }
    }
}

impl Start<'_> {
    fn with(self, flags: &[&str]) -> Daemon {
        let binary = std::env::var("CELLAR_BIN");
        let binary = binary.as_deref().unwrap_or(env!("CARGO_BIN_EXE_cellar"));
        let mut words = self.behind.iter().map(String::as_str).chain([binary]);
        let mut command = Command::new(words.next().unwrap_or(binary));
        command.args(words);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with(SETTING_PREFIX) {
                command.env_remove(variable);
            }
        }
        command
            .current_dir(self.home)
            .args(defaults(self.defaults, flags))
            .args(flags)
            .envs(self.variables.iter().copied())
            .stderr(Stdio::piped())
            .stdin(Stdio::null());
        let mut sockets = self.sockets.into_iter().map(Stdio::from);
        if let Some(first) = sockets.next() {
            command.stdin(first);
        }
        if let Some(second) = sockets.next() {
            command.stdout(second);
        }
        let mut child = command.spawn().expect("the binary starts");
        let log = lines_of(child.stderr.take().expect("it is piped"));
        let mut earlier = Vec::new();
        let ready = loop {
            match log.recv_timeout(PATIENCE) {
                Ok(line) if line.contains("cellar ready") => break line,
                Ok(line) => earlier.push(line),
                Err(_) => panic!("the server is not ready: {earlier:?}"),
            }
        };
        let address = |name: &str| {
            let mut rest = ready.split(name).skip(1);
            let address = rest.next().and_then(|rest| rest.split(' ').next());
            address.unwrap_or_default().to_owned()
        };
        Daemon {
            body: Body::Program(child),
            address: address(" memcached="),
            resp: address(" resp="),
            http: address(" http="),
            earlier,
            log,
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        match &mut self.body {
            Body::Program(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Body::Inside(server, stopper) => {
                let Some(server) = server.take() else { return };
                // A test that has failed says why; its process ends soon.
                if std::thread::panicking() {
                    return std::mem::forget(server);
                }
                stopper.stop();
                wait_until("the server drains", || {
                    server.advance_ms(u64::try_from(DRAINED.as_millis()).unwrap());
                    server.has_drained()
                });
                server.wait().unwrap();
            }
        }
    }
}

/// The default flags that `flags` do not name.
fn defaults(defaults: &[[&'static str; 2]], flags: &[&str]) -> Vec<&'static str> {
    let missing = defaults.iter().filter(|pair| !flags.contains(&pair[0]));
    missing.flatten().copied().collect()
}

/// Sends `request` and checks that exactly `expected` comes back.
pub(crate) fn check(stream: &mut (impl Read + Write), request: &[u8], expected: &[u8]) {
    stream.write_all(request).unwrap();
    expect(stream, expected);
}

/// Checks that exactly `expected` comes next.
pub(crate) fn expect(stream: &mut impl Read, expected: &[u8]) {
    let mut received = vec![0; expected.len()];
    let mut filled = 0;
    while filled < expected.len() {
        match stream.read(&mut received[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) => {
                panic!(
                    "{error} after {:?}",
                    String::from_utf8_lossy(tail(&received[..filled]))
                )
            }
        }
    }
    let received = &received[..filled];
    assert!(
        received == expected,
        "expected ...{:?}, received ...{:?}",
        String::from_utf8_lossy(tail(expected)),
        String::from_utf8_lossy(tail(received)),
    );
}

/// Checks that the server closes the connection without another word.
pub(crate) fn expect_end(stream: &mut impl Read) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => assert!(
            rest.is_empty(),
            "{:?}",
            String::from_utf8_lossy(tail(&rest))
        ),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

/// A storage command.
pub(crate) fn set(key: &str, value: &[u8]) -> Vec<u8> {
    let mut request = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
    request.extend_from_slice(value);
    request.extend_from_slice(b"\r\n");
    request
}

/// The answer to a get of one key.
pub(crate) fn hit(key: &str, value: &[u8]) -> Vec<u8> {
    let mut reply = format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(value);
    reply.extend_from_slice(b"\r\nEND\r\n");
    reply
}

/// Bytes that differ at every place and from seed to seed.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(bytes)
    .collect()
}

fn tail(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(200)..]
}

fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A command as an array of bulk strings.
pub(crate) fn frame(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
