//! `--state`: a server goes on with the cache of the one before it, whether that was stopped or
//! killed, and whatever protocol its items came by.
//!
//! The engine's own tests kill a process some hundred times (killed.rs); here are
//! the protocols, what stands beside the cache, and what is refused. `CELLAR_TEST_KILLS` says how
//! often.

use crate::support::daemon::{Daemon, check, expect, frame, hit, set};
use crate::support::http::Http;
use crate::support::wait::PATIENCE;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::Signal;

/// A directory in memory for a cache.
struct Ground(PathBuf);

impl Ground {
    fn new(name: &str) -> Ground {
        let name = format!("cellar-state-{}-{name}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        let _ = std::fs::remove_dir_all(&path);
        Ground(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn start(&self) -> Daemon {
        self.start_with(&[])
    }

    fn start_with(&self, flags: &[&str]) -> Daemon {
        Daemon::spawn(&[&["--state", self.path()], flags].concat())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ends a server: by a signal that it hears, or not.
fn end(mut daemon: Daemon, signal: Signal) {
    daemon.signal(signal);
    daemon.wait();
}

/// The line in which a server says what became of the cache.
fn told(daemon: &Daemon) -> &str {
    let lines = daemon.warnings().iter();
    let mut told = lines.filter(|line| line.contains("--state"));
    told.next_back().expect("the log tells")
}

fn ask(stream: &mut (impl Read + Write), args: &[&str], reply: &str) {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    stream.write_all(&frame(&args)).unwrap();
    expect(stream, reply.as_bytes());
}

/// Stores something of every kind.
fn store_all(daemon: &Daemon) -> String {
    let mut memcached = daemon.connect();
    check(
        &mut memcached,
        b"set flags 77 0 5\r\nvalue\r\n",
        b"STORED\r\n",
    );
    check(
        &mut memcached,
        b"set brief 0 1000 2\r\nab\r\n",
        b"STORED\r\n",
    );
    check(&mut memcached, b"set gone 0 0 1\r\nx\r\n", b"STORED\r\n");
    check(&mut memcached, b"delete gone\r\n", b"DELETED\r\n");
    let mut resp = daemon.connect_resp();
    ask(&mut resp, &["HSET", "hash", "f", "1", "g", "2"], ":2\r\n");
    ask(&mut resp, &["RPUSH", "list", "a", "b", "c"], ":3\r\n");
    ask(&mut resp, &["SELECT", "3"], "+OK\r\n");
    ask(&mut resp, &["SET", "flushed", "x"], "+OK\r\n");
    ask(&mut resp, &["FLUSHDB"], "+OK\r\n");
    ask(&mut resp, &["SET", "three", "3"], "+OK\r\n");
    ask(&mut resp, &["SWAPDB", "3", "5"], "+OK\r\n");
    let mut http = Http::to(daemon);
    let odd = ["Content-Type: image/x-odd"];
    let response = http.ask("PUT /v1/cache/page?ttl=1h", &odd, b"<bytes>");
    assert!(response.status < 300, "{response:?}");
    version(daemon, "flags")
}

/// The version that memcached's `gets` tells.
fn version(daemon: &Daemon, key: &str) -> String {
    let mut stream = daemon.connect();
    stream
        .write_all(format!("gets {key}\r\n").as_bytes())
        .unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim().rsplit(' ').next().unwrap().to_owned()
}

fn check_all(daemon: &Daemon) {
    let mut memcached = daemon.connect();
    check(
        &mut memcached,
        b"get flags gone\r\n",
        b"VALUE flags 77 5\r\nvalue\r\nEND\r\n",
    );
    let mut resp = daemon.connect_resp();
    ask(&mut resp, &["HGET", "hash", "g"], "$1\r\n2\r\n");
    ask(
        &mut resp,
        &["LRANGE", "list", "1", "2"],
        "*2\r\n$1\r\nb\r\n$1\r\nc\r\n",
    );
    resp.write_all(&frame(&[b"TTL", b"brief"])).unwrap();
    let mut line = String::new();
    BufReader::new(resp.try_clone().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ttl_s: u64 = line.trim_start_matches(':').trim().parse().unwrap();
    assert!((900..=1_000).contains(&ttl_s), "{ttl_s}");
    ask(&mut resp, &["SELECT", "5"], "+OK\r\n");
    ask(&mut resp, &["GET", "three"], "$1\r\n3\r\n");
    ask(&mut resp, &["SELECT", "3"], "+OK\r\n");
    ask(&mut resp, &["EXISTS", "three", "flushed"], ":0\r\n");
    let page = Http::to(daemon).ask("GET /v1/cache/page", &[], b"");
    assert_eq!((page.status, page.text()), (200, "<bytes>"));
    assert_eq!(page.field("content-type"), "image/x-odd");
}

#[test]
fn what_every_protocol_stored_comes_back_after_a_stop_and_after_a_kill() {
    let ground = Ground::new("fields");
    let daemon = ground.start();
    assert!(told(&daemon).contains("starts empty: no state was found"));
    let before = store_all(&daemon);
    let mut versions = vec![before.clone()];
    let mut running = daemon;
    for (signal, how) in [
        (Signal::TERM, "a clean stop"),
        (Signal::KILL, "a kill"),
        (Signal::TERM, "a clean stop"),
    ] {
        end(running, signal);
        running = ground.start();
        assert!(told(&running).contains(how), "{}", told(&running));
        check_all(&running);
        assert_eq!(version(&running, "flags"), before);
        check(
            &mut running.connect(),
            b"set new 0 0 1\r\nx\r\n",
            b"STORED\r\n",
        );
        let next = version(&running, "new");
        assert!(!versions.contains(&next), "{next} of {versions:?}");
        versions.push(next);
        assert_eq!(running.stat("restored"), 1);
        assert!(running.stat("restored_items") >= 6);
        assert!(running.stat("uptime") < 60);
    }
    let mut resp = running.connect_resp();
    resp.write_all(&frame(&[b"INFO", b"persistence"])).unwrap();
    let mut text = vec![0; 4096];
    let length = resp.read(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    assert!(text.contains("cellar_restored:1\r\n"), "{text}");
    let metrics = Http::to(&running).ask("GET /metrics", &[], b"");
    assert!(metrics.text().contains("\ncellar_restored 1\n"));
    let status = Http::to(&running).ask("GET /v1/console/status", &[], b"");
    let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(status["server"]["restored"]["was_killed"], false);
}

/// What only counts what has happened: in memcached's `stats`, and in `INFO`.
const COUNTS: [&str; 12] = [
    "cmd_get",
    "cmd_set",
    "cmd_touch",
    "get_hits",
    "get_misses",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "touch_hits",
    "touch_misses",
    "total_items",
];
const INFO_COUNTS: [&str; 3] = ["keyspace_hits", "keyspace_misses", "total_error_replies"];

/// What `INFO all` says, by its names.
fn info(daemon: &Daemon) -> HashMap<String, String> {
    let mut stream = BufReader::new(daemon.connect_resp());
    stream
        .get_mut()
        .write_all(&frame(&[b"INFO", b"all"]))
        .unwrap();
    let mut head = String::new();
    stream.read_line(&mut head).unwrap();
    let length: usize = head.trim_start_matches('$').trim().parse().unwrap();
    let mut text = vec![0; length];
    stream.read_exact(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let rows = text.lines().filter_map(|line| line.split_once(':'));
    rows.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn counters_begin_anew_and_what_is_there_is_counted_at_once() {
    let ground = Ground::new("counters");
    let mut daemon = ground.start();
    for signal in [Signal::TERM, Signal::KILL] {
        let mut memcached = daemon.connect();
        for (request, reply) in [
            ("set k 0 0 1\r\n1\r\n", "STORED\r\n"),
            ("get k none\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n"),
            ("incr k 1\r\n", "2\r\n"),
            ("incr none 1\r\n", "NOT_FOUND\r\n"),
            ("touch k 0\r\n", "TOUCHED\r\n"),
            ("touch none 0\r\n", "NOT_FOUND\r\n"),
            ("delete k\r\n", "DELETED\r\n"),
            ("delete none\r\n", "NOT_FOUND\r\n"),
            ("set stays 0 0 1\r\nx\r\n", "STORED\r\n"),
        ] {
            check(&mut memcached, request.as_bytes(), reply.as_bytes());
        }
        let mut resp = daemon.connect_resp();
        ask(&mut resp, &["SET", "stays too", "x"], "+OK\r\n");
        resp.write_all(&frame(&[b"GET"])).unwrap();
        let mut error = [0];
        resp.read_exact(&mut error).unwrap();
        assert_eq!(&error, b"-");
        for name in COUNTS {
            assert!(daemon.stat(name) > 0, "{name}");
        }
        let before = info(&daemon);
        for name in INFO_COUNTS {
            assert_ne!(before[name], "0", "{name}");
        }
        assert!(before.contains_key("cmdstat_set"));
        let (items, bytes) = (daemon.stat("curr_items"), daemon.stat("bytes"));
        drop((memcached, resp));
        end(daemon, signal);
        daemon = ground.start();
        for name in COUNTS {
            assert_eq!(daemon.stat(name), 0, "{name}");
        }
        let after = info(&daemon);
        for name in INFO_COUNTS {
            assert_eq!(after[name], "0", "{name}");
        }
        assert!(!after.contains_key("cmdstat_set"));
        assert_eq!(
            after["db0"].split(',').next(),
            before["db0"].split(',').next()
        );
        assert_eq!(items, 2);
        assert_eq!(
            (daemon.stat("curr_items"), daemon.stat("bytes")),
            (items, bytes)
        );
    }
}

#[test]
fn why_a_cache_begins_empty_is_told() {
    let ground = Ground::new("why");
    let begin = |flags: &[&str], why: &str| {
        let daemon = ground.start_with(flags);
        assert!(told(&daemon).contains(why), "{}", told(&daemon));
        check(&mut daemon.connect(), b"get k\r\n", b"END\r\n");
        check(
            &mut daemon.connect(),
            b"set k 0 0 1\r\nx\r\n",
            b"STORED\r\n",
        );
        end(daemon, Signal::TERM);
    };
    begin(&[], "no state was found");
    begin(
        &["--memory", "512MiB"],
        "the file has 67108864 bytes of memory",
    );
    begin(&[], "the file has 536870912 bytes of memory");
    begin(
        &["--noeviction-databases", "3:1MiB"],
        "databases have changed",
    );
    // paced: the time away is the machine's.
    std::thread::sleep(Duration::from_millis(10));
    begin(
        &["--noeviction-databases", "3:1MiB", "--max-downtime", "1ms"],
        "no server ran for",
    );
    begin(&[], "databases have changed");
    let names = ground.0.join("names");
    let bytes = std::fs::read(&names).unwrap();
    std::fs::write(&names, &bytes[..bytes.len() / 2]).unwrap();
    std::fs::set_permissions(&names, std::fs::Permissions::from_mode(0o600)).unwrap();
    begin(&[], "its file of names is too short");
    // The last line without its end is none, and it was acknowledged.
    let mut bytes = std::fs::read(&names).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&names, &bytes).unwrap();
    begin(&[], "its file of names is too short");
}

#[test]
fn less_memory_more_memory_and_other_databases_are_gone_on_with() {
    let ground = Ground::new("other");
    let daemon = ground.start();
    check(
        &mut daemon.connect(),
        b"set k 0 0 1\r\nx\r\n",
        b"STORED\r\n",
    );
    end(daemon, Signal::TERM);
    for flags in [
        &["--threads", "1", "--memory", "32MiB"],
        &["--databases", "20", "--memory", "128MiB"],
        &["--databases", "4", "--memory", "64MiB"],
    ] {
        let daemon = ground.start_with(flags);
        assert!(told(&daemon).contains("was restored"), "{}", told(&daemon));
        check(
            &mut daemon.connect(),
            b"get k\r\n",
            b"VALUE k 0 1\r\nx\r\nEND\r\n",
        );
        end(daemon, Signal::TERM);
    }
}

#[test]
fn a_directory_that_is_in_use_or_open_to_others_is_refused_in_one_line() {
    let refusal = |path: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_cellar"))
            .args(["--state", path, "--memcached", "127.0.0.1:0"])
            .args(["--resp", "off", "--http", "off"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), text.lines().count()),
            (Some(2), 1),
            "{text}"
        );
        text
    };
    let ground = Ground::new("refused");
    let daemon = ground.start();
    let text = refusal(ground.path());
    let expected = format!("another server uses it, process {}", daemon.id());
    assert!(text.contains(&expected), "{text}");
    end(daemon, Signal::TERM);
    let open = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(&ground.0, open).unwrap();
    let text = refusal(ground.path());
    assert!(
        text.contains("other users can access it (mode 750)"),
        "{text}"
    );
    let text = refusal("/dev/null");
    assert!(
        text.starts_with("cellar: --state: /dev/null: it is not a directory"),
        "{text}"
    );
    let text = refusal("/dev/shm/none/such");
    assert!(text.contains("cannot be created"), "{text}");
}

/// A server, not started yet, below a file system of this kind that nobody else sees; `None` if
/// this user may not mount one.
fn server_on(kind: &str, options: &str, ground: &Ground) -> Option<Command> {
    std::fs::create_dir(&ground.0).unwrap();
    let mount = format!("mount -t {kind} -o mode=700,{options} none \"$1\"");
    let sh = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", script, "sh", ground.path()])
            .arg(env!("CARGO_BIN_EXE_cellar"))
            .stdin(Stdio::null());
        command
    };
    if sh(&mount)
        .output()
        .is_ok_and(|tried| tried.status.success())
    {
        let flags = "--memory 64MiB --threads 1 --memcached 127.0.0.1:0 --resp off \
                     --http 127.0.0.1:0";
        let server = format!("exec \"$2\" --state \"$1/state\" {flags}");
        return Some(sh(&format!("{mount} && {server}")));
    }
    println!("skipped: this user cannot mount a {kind} with {options}");
    None
}

/// Starts such a server and connects to it, by memcached's protocol and by HTTP.
fn spawn(server: &mut Command) -> (Child, [TcpStream; 2], Receiver<String>) {
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    let ready = log.find_map(|line| {
        let line = line.unwrap();
        let address = |word: &str| line.split(word).nth(1)?.split(' ').next();
        Some([address(" memcached=")?, address(" http=")?].map(str::to_owned))
    });
    let (told, later) = channel();
    // What nobody asks for is read as well, so that it is not written to a closed pipe.
    std::thread::spawn(move || {
        for line in log {
            let _ = told.send(line.unwrap_or_default());
        }
    });
    let streams = ready.expect("it is ready").map(|address| {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    });
    (server, streams, later)
}

const FULL: &str = "SERVER_ERROR out of memory: the file system of --state is full\r\n";

/// Stores over HTTP until the answer is that the file system is full.
fn check_full_over_http(http: &mut TcpStream) {
    for number in 0..100 {
        let head = format!("PUT /v1/cache/h{number} HTTP/1.1\r\nHost: localhost\r\n");
        let request = format!(
            "{head}Content-Length: 300000\r\n\r\n{}",
            "x".repeat(300_000)
        );
        http.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 4_096];
        let bytes = http.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..bytes]);
        if answer.starts_with("HTTP/1.1 507 ") {
            assert!(answer.contains("state_full"), "{answer}");
            return;
        }
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    }
    panic!("a full file system is told");
}

#[test]
fn a_server_whose_file_system_others_have_filled_answers_all_that_is_stored() {
    for items in [0, 1, 20, 60, 120, 1_000] {
        let ground = Ground::new("filled");
        let Some(mut server) = server_on("tmpfs", "size=100m", &ground) else {
            return;
        };
        let (mut server, [mut stream, mut http], log) = spawn(&mut server);
        for number in 0..items {
            let request = set(&format!("k{number}"), &vec![1; 2_500]);
            check(&mut stream, &request, b"STORED\r\n");
        }
        let inside = format!("/proc/{}/root{}/ballast", server.id(), ground.path());
        let mut ballast = std::fs::File::create(inside).unwrap();
        while ballast.write_all(&[7; 1 << 16]).is_ok() {}
        let mut reply = BufReader::new(stream.try_clone().unwrap());
        let mut refused = 0;
        for number in 0..400 {
            let bytes = [20, 9_000, 300_000, 1_000][number % 4];
            let request = set(&format!("m{number}"), &vec![2; bytes]);
            stream.write_all(&request).unwrap();
            let mut line = String::new();
            reply.read_line(&mut line).unwrap();
            let is_full = line == FULL;
            refused += usize::from(is_full);
            assert!(
                line == "STORED\r\n" || is_full,
                "{items} items, {bytes} bytes: {line}"
            );
        }
        assert!(refused > 0, "{items} items");
        check_full_over_http(&mut http);
        let mut told = std::iter::from_fn(|| log.recv_timeout(PATIENCE).ok());
        assert!(told.any(|line| line.contains("the file system is full")));
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

#[test]
fn a_file_that_may_not_be_as_long_as_the_memory_is_refused_in_one_line() {
    let ground = Ground::new("limited");
    let script = "ulimit -f 1000 && exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_cellar")])
        .args(["--state", ground.path(), "--memory", "64MiB"])
        .args([
            "--memcached",
            "127.0.0.1:0",
            "--resp",
            "off",
            "--http",
            "off",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let told = text.lines().filter(|line| line.starts_with("cellar: "));
    assert_eq!(told.count(), 1, "{text}");
    assert!(text.contains("File too large"), "{text}");
}

#[test]
fn a_file_system_of_huge_pages_alone_is_refused_in_one_line() {
    let ground = Ground::new("hugetlbfs");
    let Some(mut server) = server_on("hugetlbfs", "uid=0", &ground) else {
        return;
    };
    let output = server.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), text.lines().count()),
        (Some(2), 1),
        "{text}"
    );
    assert!(text.contains("it is on a hugetlbfs"), "{text}");
}

#[test]
fn a_tmpfs_that_has_huge_pages_gives_the_cache_some() {
    let ground = Ground::new("thp");
    let Some(mut server) = server_on("tmpfs", "huge=within_size", &ground) else {
        return;
    };
    let (mut server, [mut stream, _], _) = spawn(&mut server);
    for number in 0..30 {
        let request = set(&format!("k{number}"), &vec![7; 1_000_000]);
        check(&mut stream, &request, b"STORED\r\n");
    }
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", server.id())).unwrap();
    let mapped = rollup
        .lines()
        .find(|line| line.starts_with("ShmemPmdMapped:"));
    server.kill().unwrap();
    server.wait().unwrap();
    let kib: u64 = mapped
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!(kib >= 20 << 10, "{kib} of huge pages");
}

/// What a client knows of its key: what was acknowledged, and what was under way at the end.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: Option<String>,
    in_flight: Option<Option<String>>,
}

/// One client of one protocol, with keys of its own.
struct Client {
    protocol: usize,
    stream: BufReader<TcpStream>,
    known: HashMap<String, Known>,
    random: u64,
}

const PROTOCOLS: usize = 3;

impl Client {
    fn to(daemon: &Daemon, protocol: usize, known: HashMap<String, Known>, random: u64) -> Client {
        let stream = match protocol {
            0 => daemon.connect(),
            1 => daemon.connect_resp(),
            _ => daemon.connect_http(),
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            protocol,
            stream: BufReader::new(stream),
            known,
            random: random * 2 + 1,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound
    }

    /// Stores, overwrites, counts and deletes until the server is gone.
    fn run(mut self) -> HashMap<String, Known> {
        while self.step().is_ok() {}
        self.known
    }

    fn step(&mut self) -> std::io::Result<()> {
        let number = self.below(40);
        let key = format!("{}-{number}", self.protocol);
        let before = self
            .known
            .get(&key)
            .and_then(|known| known.acknowledged.clone());
        let is_counter = key.ends_with('7') && self.protocol == 1;
        let value = match self.below(5) {
            0 if !is_counter => None,
            _ if is_counter => {
                let count = before.map_or(0, |count| count.parse::<u64>().unwrap());
                Some((count + 1).to_string())
            }
            _ => {
                let (id, length) = (self.below(1 << 40), 20 + self.below(2_000));
                Some(format!("{id:-<length$}", length = length as usize))
            }
        };
        self.known.entry(key.clone()).or_default().in_flight = Some(value.clone());
        self.ask(&key, value.as_deref(), is_counter)?;
        let known = self.known.entry(key).or_default();
        known.acknowledged = value;
        known.in_flight = None;
        Ok(())
    }

    fn ask(&mut self, key: &str, value: Option<&str>, is_counter: bool) -> std::io::Result<()> {
        let length = value.map_or(0, str::len);
        let request = match (self.protocol, value) {
            (0, Some(value)) => format!("set {key} 0 0 {length}\r\n{value}\r\n"),
            (0, None) => format!("delete {key}\r\n"),
            (1, Some(_)) if is_counter => format!("INCR {key}\r\n"),
            (1, Some(value)) => format!("SET {key} {value}\r\n"),
            (1, None) => format!("DEL {key}\r\n"),
            (_, Some(value)) => format!(
                "PUT /v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\n\
                 Content-Length: {length}\r\n\r\n{value}"
            ),
            (_, None) => format!("DELETE /v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        };
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.answer().map(drop)
    }

    /// The first line of an answer; over HTTP all of it, which has no body.
    fn answer(&mut self) -> std::io::Result<String> {
        let mut first = String::new();
        let mut line = String::new();
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 || !line.ends_with('\n') {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if self.protocol < 2 || line == "\r\n" {
                return Ok(first);
            }
        }
    }
}

/// What a server says of a key.
fn read(stream: &mut BufReader<TcpStream>, key: &str) -> Option<String> {
    stream
        .get_mut()
        .write_all(&frame(&[b"GET", key.as_bytes()]))
        .unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let length: i64 = line.trim_start_matches('$').trim().parse().unwrap();
    let length = usize::try_from(length).ok()?;
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes).unwrap();
    bytes.truncate(length);
    Some(String::from_utf8(bytes).unwrap())
}

#[test]
fn a_server_that_is_killed_under_load_loses_no_write_and_brings_none_back() {
    let told = std::env::var("CELLAR_TEST_KILLS").ok();
    let kills: u64 = told.map_or(15, |kills| kills.parse().unwrap());
    let ground = Ground::new("load");
    let mut known: [HashMap<String, Known>; PROTOCOLS] = Default::default();
    let (mut acknowledged, mut lost) = (0, 0);
    for round in 1..=kills {
        let daemon = ground.start();
        if round > 1 {
            assert!(told_restored(&daemon), "{}", self::told(&daemon));
        }
        let mut reader = BufReader::new(daemon.connect_resp());
        for (key, known) in known.iter_mut().flatten() {
            let found = read(&mut reader, key);
            let is_known = found == known.acknowledged
                || known
                    .in_flight
                    .as_ref()
                    .is_some_and(|in_flight| found == *in_flight);
            // What was in doubt may be gone, and nothing else.
            let is_gone = found.is_none() && known.in_flight.is_some();
            acknowledged += u64::from(known.acknowledged.is_some());
            lost += u64::from(!is_known && found.is_none() && !is_gone);
            assert!(
                is_known || found.is_none(),
                "round {round}: {key} is {found:?} of {known:?}"
            );
            *known = Known {
                acknowledged: found,
                in_flight: None,
            };
        }
        let clients = std::mem::take(&mut known).into_iter().enumerate();
        let clients = clients.map(|(protocol, known)| {
            let random = round * PROTOCOLS as u64 + protocol as u64;
            let client = Client::to(&daemon, protocol, known, random);
            std::thread::spawn(move || client.run())
        });
        let clients: Vec<_> = clients.collect();
        // paced: the moment of the kill.
        std::thread::sleep(Duration::from_millis(5 + round * 37 % 60));
        end(daemon, Signal::KILL);
        let mut ended = clients.into_iter().map(|client| client.join().unwrap());
        known = std::array::from_fn(|_| ended.next().unwrap());
    }
    assert!(acknowledged > 20 * kills, "{acknowledged}");
    assert_eq!(lost, 0, "of {acknowledged}");
}

#[test]
fn a_killed_server_with_many_items_serves_while_it_checks_them() {
    const ITEMS: u64 = 20_000;
    const FLAGS: [&str; 2] = ["--memory", "128MiB"];
    let value = |number: u64, round: u64| format!("{number:06}-{round:06}-").repeat(128);
    let store = |client: &mut TcpStream, number: u64, round: u64| {
        let value = value(number, round);
        let line = format!("set k{number} 0 0 {} noreply\r\n{value}\r\n", value.len());
        client.write_all(line.as_bytes()).unwrap();
    };
    let ground = Ground::new("many");
    let mut daemon = ground.start_with(&FLAGS);
    let mut client = daemon.connect();
    (0..ITEMS).for_each(|number| store(&mut client, number, 0));
    check(&mut client, b"get none\r\n", b"END\r\n");
    // Killed at rest, twice amid the check, and then stopped amid it.
    let mut rounds = vec![Some(0); ITEMS as usize];
    let signals = [Signal::KILL, Signal::KILL, Signal::KILL, Signal::TERM];
    for (round, signal) in (1..).zip(signals) {
        end(daemon, signal);
        daemon = ground.start_with(&FLAGS);
        let how = match signal {
            Signal::KILL => "its items are checked while it serves",
            _ => "was restored after a clean stop",
        };
        // Of items that were checked before the second kill none is checked already.
        assert!(told(&daemon).contains(how), "{}", told(&daemon));
        let mut client = daemon.connect();
        for number in (0..ITEMS).step_by(97) {
            match number % 3 {
                0 => {
                    store(&mut client, number, round);
                    rounds[number as usize] = Some(round);
                }
                1 => {
                    let line = format!("delete k{number} noreply\r\n");
                    client.write_all(line.as_bytes()).unwrap();
                    rounds[number as usize] = None;
                }
                _ => {}
            }
            let known = rounds[number as usize].map(|round| value(number, round));
            let name = format!("k{number}");
            let expected = match &known {
                Some(value) => hit(&name, value.as_bytes()),
                None => b"END\r\n".to_vec(),
            };
            check(&mut client, format!("get {name}\r\n").as_bytes(), &expected);
        }
    }
    let mut client = daemon.connect();
    for (number, round) in (0..).zip(&rounds) {
        let name = format!("k{number}");
        let expected = match round {
            Some(round) => hit(&name, value(number, *round).as_bytes()),
            None => b"END\r\n".to_vec(),
        };
        check(&mut client, format!("get {name}\r\n").as_bytes(), &expected);
    }
    assert_eq!(daemon.stat("restored_unchecked_bytes"), 0);
    let there = rounds.iter().flatten().count() as u64;
    assert_eq!(daemon.stat("curr_items"), there);
}

fn told_restored(daemon: &Daemon) -> bool {
    told(daemon).contains("was restored after a kill")
}
