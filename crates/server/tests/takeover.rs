//! Takeover: a successor gets the listeners and the clients of the server that runs, and whatever
//! goes wrong leaves that one serving.

use crate::support::daemon::{self, Daemon, check, expect_end, hit, set};
use crate::support::http::Http;
use crate::support::resp::wait_for_command;
use crate::support::stubborn::{BySource, Way, way};
use crate::support::tls::{self, Authority};
use crate::support::wait::PATIENCE;

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketType,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use tempfile::TempDir;

/// Takeovers in a row under load.
const TAKEOVERS: u32 = 6;

/// A folder with a place for --control.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn control(&self) -> String {
        self.file("control")
    }

    /// The first server, with these flags besides.
    pub(crate) fn start(&self, flags: &[&str]) -> Daemon {
        Daemon::spawn(&[&["--control", &self.control()], flags].concat())
    }

    /// The flags of a server that takes over from `old`.
    fn flags_after(&self, old: &Daemon) -> Vec<String> {
        let addresses = [
            ("--memcached", &old.address),
            ("--resp", &old.resp),
            ("--http", &old.http),
        ];
        let mut flags = vec![
            "--control".to_owned(),
            self.control(),
            "--takeover".to_owned(),
        ];
        for (flag, address) in addresses {
            flags.extend([flag.to_owned(), address.clone()]);
        }
        flags
    }

    /// A server that takes over from `old`, which ends with 0.
    pub(crate) fn succeed(&self, old: &mut Daemon, flags: &[&str]) -> Daemon {
        let all = self.flags_after(old);
        let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
        all.extend(flags);
        let new = Daemon::spawn(&all);
        assert_eq!(old.wait().code(), Some(0));
        new
    }

    /// The line with which a server that was to take over from `old` does not start.
    pub(crate) fn refusal(&self, old: &Daemon, flags: &[&str]) -> String {
        let mut all = self.flags_after(old);
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        refusal(Command::new(env!("CARGO_BIN_EXE_cellar")).args(all))
    }
}

fn refusal(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    text.lines().last().unwrap_or_default().to_owned()
}

/// What takes over by hand, as far as a test wants it to.
pub(crate) struct Taker(OwnedFd);

impl Taker {
    pub(crate) fn to(place: &Place) -> Taker {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
        let socket = socket.unwrap();
        let address = SocketAddrUnix::new(place.control().as_str()).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        Taker(socket)
    }

    fn say(&self, text: &str) {
        let text = format!("cellar-takeover {text}");
        let bytes = [IoSlice::new(text.as_bytes())];
        let mut control = SendAncillaryBuffer::default();
        rustix::net::sendmsg(&self.0, &bytes, &mut control, SendFlags::NOSIGNAL).unwrap();
    }

    /// What is said next, without the mark, and the descriptors that came with it; empty at the
    /// end.
    fn hear(&self) -> (String, Vec<OwnedFd>) {
        let mut bytes = [0; 1 << 16];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let received = loop {
            let mut pieces = [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.0, &mut pieces, &mut control, flags) {
                Err(rustix::io::Errno::CONNRESET) => {}
                received => break received.unwrap(),
            }
        };
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        let text = String::from_utf8(bytes[..received.bytes].to_vec()).unwrap();
        (text.replace("cellar-takeover ", ""), files)
    }

    /// Goes as far as this word of the old server's; what came with it.
    pub(crate) fn reach(&self, word: &str) -> Vec<OwnedFd> {
        self.say("ask 1 1\nserver 9.9.9");
        let mut all = Vec::new();
        let mut heard = self.hear();
        while !heard.0.starts_with(word) {
            match heard.0.split([' ', '\n']).next().unwrap() {
                "offer" => self.say("take\nclients 1000"),
                "yours" => self.say("mine"),
                "clients" => {}
                _ => panic!("{}", heard.0),
            }
            all.extend(heard.1);
            heard = self.hear();
        }
        all.extend(heard.1);
        all
    }
}

/// Checks that a server answers on old connections and on new ones, and takes a takeover.
fn check_serves(place: &Place, old: &mut Daemon, kept: &mut (impl Read + Write)) {
    check(kept, b"get k\r\n", &hit("k", b"value"));
    check(&mut old.connect(), b"get k\r\n", &hit("k", b"value"));
    assert_eq!(Http::to(old).get("/readyz").status, 200);
    let mut new = place.succeed(old, &[]);
    check(kept, b"mn\r\n", b"MN\r\n");
    new.signal(Signal::TERM);
    assert_eq!(new.wait().code(), Some(0));
}

/// A server with an item, and a client.
fn with_an_item(place: &Place, flags: &[&str]) -> (Daemon, std::net::TcpStream) {
    let daemon = place.start(flags);
    let mut client = daemon.connect();
    check(&mut client, &set("k", b"value"), b"STORED\r\n");
    (daemon, client)
}

const SUBSCRIBED: &[u8] = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n";

#[test]
fn listeners_and_clients_go_over_and_a_session_ends_cleanly() {
    let place = Place::new();
    let file = place.file("clients.sock");
    let mut old = place.start(&["--unix", &file]);
    assert_eq!(
        std::fs::metadata(place.control()).unwrap().mode() & 0o777,
        0o600
    );
    let mut kept = [
        (old.connect(), &b"mn\r\n"[..], &b"MN\r\n"[..]),
        (old.connect_resp(), b"PING\r\n", b"+PONG\r\n"),
        (old.connect_resp(), b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
        (old.connect(), b"mn\r\n", b"MN\r\n"),
    ];
    for (stream, request, answer) in &mut kept[..3] {
        check(stream, request, answer);
    }
    let mut by_file = UnixStream::connect(&file).unwrap();
    check(&mut by_file, b"mn\r\n", b"MN\r\n");
    let mut http = Http::to(&old);
    assert_eq!(http.get("/healthz").status, 200);
    let mut session = old.connect_resp();
    check(&mut session, b"SUBSCRIBE a\r\n", SUBSCRIBED);
    let mut library = old.connect_resp();
    for words in [
        "SELECT 1",
        "CLIENT SETNAME worker",
        "CLIENT SETINFO LIB-NAME redis-py",
        "CLIENT SETINFO LIB-VER 8.1.0",
    ] {
        check(&mut library, format!("{words}\r\n").as_bytes(), b"+OK\r\n");
    }

    let mut new = place.succeed(&mut old, &[]);
    let lines = old.log_until("cellar stopped");
    let told = |words: &str| lines.iter().any(|line| line.contains(words));
    assert!(told("handed over to the new server") && told("listeners=4 clients=7"));
    let told = |words: &str| new.warnings().iter().any(|line| line.contains(words));
    assert!(told("took over") && told("clients=7"));
    for (stream, request, answer) in &mut kept {
        check(stream, request, answer);
    }
    check(&mut by_file, b"mn\r\n", b"MN\r\n");
    check(
        &mut UnixStream::connect(&file).unwrap(),
        b"mn\r\n",
        b"MN\r\n",
    );
    assert_eq!(http.get("/healthz").status, 200);
    expect_end(&mut session);
    library.write_all(b"CLIENT INFO\r\n").unwrap();
    let mut info = [0; 1_000];
    let bytes = library.read(&mut info).unwrap();
    let info = String::from_utf8_lossy(&info[..bytes]).into_owned();
    for fact in ["name=worker", "db=1", "lib-name=redis-py", "lib-ver=8.1.0"] {
        assert!(info.contains(&format!(" {fact} ")) || info.contains(&format!(" {fact}\n")));
    }
    check(&mut new.connect_resp(), b"PING\r\n", b"+PONG\r\n");
    new.wait_for_stat("curr_connections", |count| count >= 6);
    new.signal(Signal::TERM);
    assert_eq!(new.wait().code(), Some(0));
    assert!(!Path::new(&file).exists() && !Path::new(&place.control()).exists());
}

#[test]
fn over_tls_clients_end_cleanly_and_come_in_again_at_the_successor() {
    let place = Place::new();
    let authority = Authority::new();
    authority.issue("one", "one", &["localhost"]);
    let files = [authority.path("one.pem"), authority.path("one.key")];
    let files = ["--tls-cert", &files[0], "--tls-key", &files[1]];
    let flags = [&["--memcached", "tls:127.0.0.1:0"][..], &files].concat();
    let mut old = place.start(&flags);
    let config = Arc::new(authority.client(&[&rustls::version::TLS13]));
    let connect = |daemon: &Daemon| tls::connect(&daemon.address, "localhost", &config);
    let mut client = connect(&old);
    check(&mut client, b"mn\r\n", b"MN\r\n");
    let new = place.succeed(&mut old, &files);
    tls::expect_close(&mut client);
    check(&mut connect(&new), b"mn\r\n", b"MN\r\n");
}

#[test]
fn a_successor_gets_no_more_clients_than_it_may_have() {
    let place = Place::new();
    let mut old = place.start(&[]);
    let mut clients: Vec<_> = (0..8).map(|_| old.connect()).collect();
    for client in &mut clients {
        check(client, b"mn\r\n", b"MN\r\n");
    }
    let _new = place.succeed(&mut old, &["--max-connections", "5"]);
    let mut kept = 0;
    for client in &mut clients {
        // What cannot be written is at its end.
        let _ = client.write_all(b"mn\r\n");
        let mut answer = Vec::new();
        let read = client.take(4).read_to_end(&mut answer);
        kept += usize::from(read.is_ok() && answer == b"MN\r\n");
    }
    assert_eq!(kept, 5);
}

#[test]
fn clients_for_whom_the_new_settings_have_no_address_end_and_the_others_go_on() {
    let authority = Authority::new();
    authority.issue("one", "one", &["localhost"]);
    let (cert, key) = (authority.path("one.pem"), authority.path("one.key"));
    for is_off in [true, false] {
        let place = Place::new();
        let mut old = place.start(&[]);
        let (mut ends, mut stays) = (old.connect(), old.connect_resp());
        check(&mut ends, b"mn\r\n", b"MN\r\n");
        check(&mut stays, b"PING\r\n", b"+PONG\r\n");
        let (control, resp, http) = (place.control(), old.resp.clone(), old.http.clone());
        let over_tls = format!("tls:{}", old.address);
        let taken = ["--control", &control, "--resp", &resp, "--http", &http];
        let memcached = match is_off {
            true => vec!["off"],
            false => vec![over_tls.as_str(), "--tls-cert", &cert, "--tls-key", &key],
        };
        let flags = [&taken[..], &["--takeover", "--memcached"], &memcached[..]].concat();
        let _new = Daemon::spawn(&flags);
        assert_eq!(old.wait().code(), Some(0));
        expect_end(&mut ends);
        check(&mut stays, b"PING\r\n", b"+PONG\r\n");
    }
}

#[test]
fn all_that_was_read_is_answered_however_long_it_takes() {
    const REQUESTS: usize = 10;
    let place = Place::new();
    let flags = ["--drain-timeout", "60s", "--enable-debug-commands"];
    let mut old = place.start(&flags);
    let mut client = old.connect_resp();
    let requests = b"DEBUG SLEEP 0.1\r\nINCR n\r\n".repeat(REQUESTS);
    client.write_all(&requests).unwrap();
    wait_for_command(&old, "debug");
    let _new = place.succeed(&mut old, &[]);
    for number in 1..=REQUESTS {
        daemon::expect(&mut client, format!("+OK\r\n:{number}\r\n").as_bytes());
    }
    check(&mut client, b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn a_request_that_waits_in_the_socket_is_answered_by_the_successor() {
    let place = Place::new();
    let mut old = place.start(&[]);
    let taker = Taker::to(&place);
    let mut client = old.connect();
    check(&mut client, b"mn\r\n", b"MN\r\n");
    // While the old one is at rest and the new one is not there, requests and clients come.
    taker.reach("yours");
    client.write_all(b"mn\r\n").unwrap();
    let mut late = old.connect();
    late.write_all(b"mn\r\n").unwrap();
    drop(taker);
    for stream in [&mut client, &mut late] {
        daemon::expect(stream, b"MN\r\n");
    }
    let mut new = place.succeed(&mut old, &[]);
    check(&mut client, b"mn\r\n", b"MN\r\n");
    new.signal(Signal::TERM);
    assert_eq!(new.wait().code(), Some(0));
}

const STORE: &[u8] = b"set k 0 0 5\r\nvalue\r\n";
const PUT: &[u8] = b"PUT /v1/cache/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nvalue";
const STORED: &[u8] = b"HTTP/1.1 204 No Content ";
const WAYS: [Way; 9] = [
    way(0, STORE, b"STORED\r\n", 8, true),
    way(0, STORE, b"STORED\r\n", 1, true),
    way(0, STORE, b"STORED\r\n", 1, false),
    way(1, b"SET k value\r\n", b"+OK\r\n", 8, true),
    way(
        1,
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n",
        b"+OK\r\n",
        1,
        true,
    ),
    way(1, b"SELECT 3\r\n", b"+OK\r\n", 4, true),
    way(1, b"PING\r\n", b"+PONG\r\n", 1, false),
    way(2, PUT, STORED, 1, true),
    way(2, PUT, STORED, 1, false),
];

#[test]
fn under_load_clients_see_no_error_over_takeovers_there_and_back() {
    let place = Place::new();
    let flags = ["--drain-timeout", "60s"];
    let mut present = place.start(&flags);
    let crowd = BySource::start(&WAYS, &present);
    for _ in 0..TAKEOVERS {
        crowd.wait_for_all();
        let next = place.succeed(&mut present, &flags);
        present = next;
    }
    crowd.wait_for_all();
    crowd.end();
}

#[test]
fn who_holds_a_request_or_waits_holds_nothing_up() {
    let place = Place::new();
    let mut old = place.start(&["--drain-timeout", "60s"]);
    let mut half = old.connect();
    half.write_all(b"set k 0 0 100\r\nhalf").unwrap();
    let mut large = old.connect();
    large.write_all(b"set k 0 0 100000\r\nhalf").unwrap();
    let mut waits = old.connect_resp();
    waits.write_all(b"BLPOP list 0\r\n").unwrap();
    let mut subscriber = old.connect_resp();
    check(
        &mut subscriber,
        b"SUBSCRIBE news\r\n",
        b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n",
    );
    let value = daemon::pattern(1, 1 << 20);
    let mut slow = old.connect();
    check(&mut slow, &set("large", &value), b"STORED\r\n");
    slow.write_all(&b"get large\r\n".repeat(20)).unwrap();
    // The two halves, the wait and the slow reader have arrived.
    let held = |stat: &Daemon| stat.stat("curr_connections");
    old.wait_for_stat("cmd_get", |count| count > 0);
    assert!(held(&old) >= 5);
    let all = place.flags_after(&old);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let new = Daemon::spawn(&all);
    check(&mut new.connect(), b"mn\r\n", b"MN\r\n");
    for stream in [&mut half, &mut large, &mut waits, &mut subscriber] {
        expect_end(stream);
    }
    // The old one goes on to send what its client takes.
    for _ in 0..4 {
        daemon::expect(&mut slow, &hit("large", &value));
    }
    drop(slow);
    assert_eq!(old.wait().code(), Some(0));
}

#[test]
fn the_rest_of_a_request_that_comes_within_100_ms_of_the_beginning_is_served() {
    let place = Place::new();
    let old = Daemon::start(&["--control", &place.control(), "--threads", "1"]);
    let mut subscriber = old.connect_resp();
    check(&mut subscriber, b"SUBSCRIBE a\r\n", SUBSCRIBED);
    let mut half = old.connect();
    half.write_all(b"set k 0 0 5\r\nval").unwrap();
    let mut late = old.connect();
    late.write_all(b"set l 0 0 5\r\nval").unwrap();
    // Both have arrived.
    old.advance(Duration::ZERO);
    let taker = Taker::to(&place);
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| taker.reach("yours"));
        // Which shows that it has begun.
        expect_end(&mut subscriber);
        old.advance(Duration::from_millis(99));
        half.write_all(b"ue\r\n").unwrap();
        daemon::expect(&mut half, b"STORED\r\n");
        old.advance(Duration::from_millis(1));
        expect_end(&mut late);
        taking.join().unwrap();
    });
    drop(taker);
    check(&mut half, b"get k\r\n", &hit("k", b"value"));
}

#[test]
fn a_successor_that_dies_at_any_step_leaves_the_old_one_serving() {
    for step in ["", "offer", "yours"] {
        let place = Place::new();
        let (mut old, mut client) = with_an_item(&place, &[]);
        let taker = Taker::to(&place);
        if !step.is_empty() {
            taker.reach(step);
        }
        drop(taker);
        let line = old.log_until("continuing to serve").pop().unwrap();
        assert!(
            line.contains("the takeover failed: it has exited"),
            "{line}"
        );
        check_serves(&place, &mut old, &mut client);
    }
}

#[test]
fn what_is_not_understood_leaves_the_old_one_serving() {
    for (said, reason) in [
        (
            "ask 3 9\nserver 9.9.9",
            "version 9.9.9 supports takeover 3 to 9, this one 1 to 2",
        ),
        ("mine", "its message is not valid"),
        ("sing", "its message is not valid"),
    ] {
        let place = Place::new();
        let (mut old, mut client) = with_an_item(&place, &[]);
        let taker = Taker::to(&place);
        taker.say(said);
        assert_eq!(taker.hear().0, format!("refused {reason}"));
        let line = old.log_until("continuing to serve").pop().unwrap();
        assert!(line.contains(reason), "{line}");
        check_serves(&place, &mut old, &mut client);
    }
}

#[test]
fn a_newer_successor_that_knows_this_version_is_spoken_to_in_it() {
    let place = Place::new();
    let _old = place.start(&[]);
    let taker = Taker::to(&place);
    taker.say("ask 1 7\nserver 9.9.9\ncolour blue");
    let (offer, files) = taker.hear();
    assert!(offer.starts_with("offer 2\n"), "{offer}");
    assert_eq!(files.len(), 4);
}

#[test]
fn one_takes_over_at_a_time() {
    let place = Place::new();
    let (mut old, mut client) = with_an_item(&place, &[]);
    let taker = Taker::to(&place);
    taker.reach("offer");
    let line = place.refusal(&old, &[]);
    assert!(
        line.ends_with("the old server continues: another takeover is in progress"),
        "{line}"
    );
    drop(taker);
    old.log_until("continuing to serve");
    check_serves(&place, &mut old, &mut client);
}

#[test]
fn settings_that_cannot_be_used_do_not_reach_the_old_one() {
    let place = Place::new();
    let (mut old, mut client) = with_an_item(&place, &[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let both = format!("{},{taken}", old.address);
    let off = [
        "--memcached",
        "off",
        "--resp",
        "off",
        "--http",
        "127.0.0.1:0",
    ];
    let control = place.control();
    for (flags, words) in [
        (vec!["--memory", "12QB"], "--memory: \"12QB\" is not a size"),
        (
            vec!["--tls-cert", "/nonexistent"],
            "another server uses the address; stop it or choose another address",
        ),
        (off.to_vec(), "this one on none of these"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellar"));
        command.args(["--control", &control, "--takeover"]);
        let line = match words {
            "another server uses the address; stop it or choose another address" => {
                refusal(command.args(["--memcached", &both]))
            }
            _ => refusal(command.args(flags)),
        };
        assert!(line.contains(words), "{line}");
    }
    check_serves(&place, &mut old, &mut client);
}

#[test]
fn without_an_old_server_nothing_is_taken_over() {
    let place = Place::new();
    let path = place.control();
    let run = |flags: &[&str]| refusal(Command::new(env!("CARGO_BIN_EXE_cellar")).args(flags));
    assert_eq!(
        run(&["--takeover"]),
        "cellar: --takeover: needs --control PATH, the socket of the server to take over from"
    );
    let expected = format!("cellar: --takeover: no server listens on {path}");
    assert_eq!(run(&["--takeover", "--control", &path]), expected);
    let old = place.start(&[]);
    let line = run(&["--control", &path, "--memcached", "127.0.0.1:0"]);
    assert!(line.ends_with("another server uses this socket"), "{line}");
    // What a killed server leaves is replaced, and nobody is there to take over from.
    drop(old);
    assert_eq!(run(&["--takeover", "--control", &path]), expected);
    place.start(&[]);
}

#[test]
fn addresses_that_came_or_went_are_told() {
    let place = Place::new();
    let mut old = place.start(&[]);
    let (http, memcached) = (old.http.clone(), old.address.clone());
    let both = format!("{memcached},127.0.0.1:0");
    let control = place.control();
    let flags = ["--control", &control, "--takeover", "--memcached", &both];
    let new = Daemon::spawn(&[&flags[..], &["--http", "off", "--resp", &old.resp]].concat());
    assert_eq!(old.wait().code(), Some(0));
    let added = new.address.split(',').nth(1).unwrap();
    let told = |words: String| new.warnings().iter().any(|line| line.contains(&words));
    assert!(
        told(format!("no longer listening on {http}")),
        "{:?}",
        new.warnings()
    );
    assert!(told(format!("listening on additional addresses: {added}")));
    assert!(std::net::TcpStream::connect(http).is_err());
    check(
        &mut std::net::TcpStream::connect(added).unwrap(),
        b"mn\r\n",
        b"MN\r\n",
    );
}

#[test]
fn another_user_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let (mut old, mut client) = with_an_item(&place, &[]);
    let binary = place.file("cellar");
    std::fs::copy(env!("CARGO_BIN_EXE_cellar"), &binary).unwrap();
    let everybody = |path: &str| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    everybody(place.0.path().to_str().unwrap());
    let run = || {
        let mut command = Command::new(&binary);
        command
            .args(place.flags_after(&old))
            .uid(65_534)
            .gid(65_534);
        refusal(&mut command)
    };
    let path = place.control();
    assert_eq!(
        run(),
        format!("cellar: --takeover: {path} belongs to another user")
    );
    everybody(&path);
    let expected = "runs as user 0, this one as 65534";
    assert!(run().ends_with(expected), "{expected}");
    check_serves(&place, &mut old, &mut client);
}

#[test]
fn the_old_one_refuses_another_user_by_itself() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let (mut old, mut client) = with_an_item(&place, &[]);
    let everybody = |path: &str| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    everybody(place.0.path().to_str().unwrap());
    everybody(&place.control());
    // A program that asks no questions.
    let program = "import socket, sys\n\
                   s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                   s.connect(sys.argv[1])\n\
                   try: s.send(b'cellar-takeover ask 1 1\\nserver 1')\n\
                   except OSError: pass\n\
                   try: print(s.recv(1000))\n\
                   except ConnectionResetError: print(s.recv(1000))\n";
    let output = Command::new("python3")
        .args(["-c", program, &place.control()])
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "refused the new server runs as user 65534, this one as 0";
    assert!(said.contains(expected), "{said} {output:?}");
    old.log_until("not handing over: the new server runs as user 65534");
    check_serves(&place, &mut old, &mut client);
}

#[test]
fn a_server_that_is_told_to_stop_meanwhile_stops() {
    // Before it has come to rest it refuses; later it hands over, or stops if nobody takes it.
    let place = Place::new();
    let (mut old, mut client) = with_an_item(&place, &[]);
    let taker = Taker::to(&place);
    taker.reach("offer");
    old.signal(Signal::TERM);
    assert_eq!(taker.hear().0, "refused the server is shutting down");
    expect_end(&mut client);
    assert_eq!(old.wait().code(), Some(0));

    let (mut old, mut client) = with_an_item(&place, &["--lame-duck", "1ms"]);
    let taker = Taker::to(&place);
    let held = taker.reach("yours");
    old.signal(Signal::TERM);
    old.log_until("shutting down: not ready, but serving for 1ms");
    drop((taker, held));
    expect_end(&mut client);
    assert_eq!(old.wait().code(), Some(0));

    let (mut old, _client) = with_an_item(&place, &[]);
    let taker = Taker::to(&place);
    taker.reach("yours");
    old.signal(Signal::TERM);
    taker.say("mine");
    assert_eq!(taker.hear().0, "go");
    assert_eq!(old.wait().code(), Some(0));
}

#[test]
fn an_old_server_that_does_not_come_to_rest_goes_on() {
    let place = Place::new();
    let flags = ["--drain-timeout", "500ms", "--enable-debug-commands"];
    let (mut old, mut client) = with_an_item(&place, &flags);
    let mut sleeper = old.connect_resp();
    sleeper.write_all(b"DEBUG SLEEP 6\r\n").unwrap();
    wait_for_command(&old, "debug");
    let line = place.refusal(&old, &[]);
    assert!(
        line.ends_with("the old server continues: it took too long"),
        "{line}"
    );
    daemon::expect(&mut sleeper, b"+OK\r\n");
    check_serves(&place, &mut old, &mut client);
}

/// Sets how many files a server may have open; what that was.
fn limit_files(daemon: &Daemon, most: Rlimit) -> Rlimit {
    let id = Pid::from_raw(daemon.id().cast_signed());
    prlimit(id, Resource::Nofile, most).unwrap()
}

#[test]
fn without_open_files_nobody_keeps_it_busy_and_it_serves_again() {
    let none = Rlimit {
        current: Some(1),
        ..getrlimit(Resource::Nofile)
    };
    let check_is_calm = |daemon: &Daemon| {
        let before = daemon.cpu_ticks();
        // paced: the time of which the processor time is judged.
        std::thread::sleep(Duration::from_secs(1));
        let ticks = daemon.cpu_ticks() - before;
        assert!(ticks < 50, "{ticks} ticks in a second");
    };
    // One who asks, and cannot be heard.
    let place = Place::new();
    let (mut old, mut client) = with_an_item(&place, &[]);
    let before = limit_files(&old, none);
    let taker = Taker::to(&place);
    old.log_until("cannot accept connections");
    check_is_calm(&old);
    limit_files(&old, before);
    taker.reach("offer");
    drop(taker);
    old.log_until("continuing to serve");
    check_serves(&place, &mut old, &mut client);

    // One who takes and leaves, while nobody can come in.
    let (mut old, mut client) = with_an_item(&place, &[]);
    let taker = Taker::to(&place);
    taker.reach("offer");
    let before = limit_files(&old, none);
    let mut outside = old.connect();
    outside.write_all(b"mn\r\n").unwrap();
    old.log_until("cannot accept connections");
    taker.say("take\nclients 1000");
    drop(taker);
    old.log_until("continuing to serve");
    limit_files(&old, before);
    daemon::expect(&mut outside, b"MN\r\n");
    check_is_calm(&old);
    check_serves(&place, &mut old, &mut client);
}

#[test]
fn a_successor_goes_on_alone_when_the_old_one_dies() {
    let place = Place::new();
    let flags = ["--drain-timeout", "60s", "--enable-debug-commands"];
    let old = place.start(&flags);
    let mut sleeper = old.connect_resp();
    sleeper.write_all(b"DEBUG SLEEP 30\r\n").unwrap();
    wait_for_command(&old, "debug");
    let all = place.flags_after(&old);
    let killer = std::thread::spawn(move || {
        old.log_until("handing over to the new server");
        old.signal(Signal::KILL);
        old
    });
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let new = Daemon::spawn(&all);
    let _old = killer.join().unwrap();
    let told = |words: &str| new.warnings().iter().any(|line| line.contains(words));
    assert!(told("the old server exited during the takeover"));
    let stream = new.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    check(&mut &stream, b"mn\r\n", b"MN\r\n");
}
