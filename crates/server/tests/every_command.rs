//! Every command: what a client sends that reads nothing before all is sent, or nothing at all.
//!
//! The requests come from the tables of the protocols ([`rows`]), so that a new command is among
//! them without being named. Of the forms that a command on keys may take, the one with the longest
//! reply is sent. One server serves all rows: after each the clients leave, and the keys are there
//! again. `CELLAR_MATRIX_ONLY=zunion` sends the rows whose name has this text.

use crate::support::attack::{Dialect, connect};
use crate::support::daemon::{Daemon, check, frame, pattern, set};
use crate::support::resp::{Client, Value};
use crate::support::rows::{Part, Row, Size, rows};
use crate::support::vitals::{forget_peak, occupied_bytes, processor_time};
use crate::support::wait::{PATIENCE, wait_until};
use crate::unread_collections::FORMS;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use cellar_protocol::resp::command::{Flags, TABLE};

const MIB: usize = 1 << 20;
/// What a full cache may occupy less than before.
const SLACK_BYTES: usize = 4 * MIB;
const DIALECTS: [Dialect; 4] = [
    Dialect::Resp,
    Dialect::Memcached,
    Dialect::Binary,
    Dialect::Http,
];
/// They end the server, or change how much memory it may have.
const NOT_SENT: [&str; 2] = ["shutdown", "cache_memlimit"];
/// The keys that requests name, and the commands that add to them.
const KEYS: [(&str, &str); 10] = [
    ("hash", "HSET"),
    ("set", "SADD"),
    ("set2", "SADD"),
    ("zset", "GEOADD"),
    ("zset2", "ZADD"),
    ("list", "RPUSH"),
    ("list2", "RPUSH"),
    ("sketch", "PFADD"),
    ("string", "SET"),
    ("string2", "SET"),
];
/// What stands behind a command's name besides [`FORMS`].
const MORE_FORMS: [&str; 11] = [
    "1 KEY LEFT COUNT 1000000",
    "1 KEY MIN COUNT 1000000",
    "0.01 1 KEY LEFT COUNT 1000000",
    "0.01 1 KEY MIN COUNT 1000000",
    "KEY ALPHA",
    "2 KEY KEY",
    "KEY KEY",
    "to KEY KEY",
    "to 1 KEY",
    "to KEY 0 -1",
    "GET 1000000",
];
/// Short values, of which requests for many keys name some.
const SHORT_VALUES: usize = 60;
const SHORT_BYTES: usize = 12_000;

/// A request of a command.
struct Sent {
    name: String,
    dialect: Dialect,
    request: Vec<u8>,
    /// Whether keys may be changed by it.
    writes: bool,
    /// Whether it may wait; a client that waits and ends its side is taken for gone.
    blocks: bool,
}

/// Adds so many members to a key, or stores a value.
fn add(client: &mut Client, (key, command): (&str, &str), members: usize) {
    if command == "SET" {
        client.call(&[b"SET", key.as_bytes(), &pattern(7, members * 60)]);
        return;
    }
    let names: Vec<String> = (0..members)
        .map(|member| format!("{member:0>60}"))
        .collect();
    for (place, names) in names.chunks(1_000).enumerate() {
        let east = format!("{}.5", place % 180);
        let words = names
            .iter()
            .map(String::as_str)
            .flat_map(|name| match command {
                "ZADD" => vec!["1", name],
                "HSET" => vec![&name[50..], name],
                "GEOADD" => vec![&east, "1", name],
                _ => vec![name],
            });
        let args: Vec<&[u8]> = [command, key]
            .into_iter()
            .chain(words)
            .map(str::as_bytes)
            .collect();
        let added = client.call(&args);
        assert!(matches!(added, Value::Integer(_)), "{key}: {added:?}");
    }
}

/// Stores what requests name, and a copy of each key.
fn fill(daemon: &Daemon, members: usize) {
    let mut client = Client::connect(daemon);
    for key in KEYS {
        client.run(&format!("DEL {}", key.0));
        add(&mut client, key, members);
        let copied = client.run(&format!("COPY {0} spare:{0} REPLACE", key.0));
        assert_eq!(copied, Value::Integer(1), "{}", key.0);
    }
    for number in 0..SHORT_VALUES {
        let name = format!("{number:016}");
        client.call(&[b"SET", name.as_bytes(), &pattern(2, SHORT_BYTES)]);
    }
}

/// A server whose cache is full, so that what is stored takes no memory anew.
struct Full {
    daemon: Daemon,
    /// What it occupies.
    bytes: usize,
}

impl Full {
    const MEMBERS: usize = 10_000;
    const MEMORY_MIB: usize = 64;
    const CLIENT_MEMORY_MIB: usize = 8;

    fn start() -> Full {
        let memory = format!("{}MiB", Full::MEMORY_MIB);
        let client_memory = format!("{}MiB", Full::CLIENT_MEMORY_MIB);
        let flags = ["--memory", &memory, "--client-memory", &client_memory];
        let mut full = Full {
            daemon: Daemon::spawn(&[&flags[..], &["--threads", "1"]].concat()),
            bytes: 0,
        };
        full.fill();
        full.bytes = occupied_bytes(full.daemon.id(), "VmRSS");
        full
    }

    fn fill(&self) {
        let mut stream = self.daemon.connect();
        for number in 0..Full::MEMORY_MIB + 16 {
            let filler = set(&format!("filler:{number}"), &pattern(1, 1_000_000));
            check(&mut stream, &filler, b"STORED\r\n");
        }
        fill(&self.daemon, Full::MEMBERS);
    }

    /// Stores what requests name as it was.
    fn restore(&self) {
        let mut client = Client::connect(&self.daemon);
        let mut is_there = |key: &str| {
            let copy = format!("COPY spare:{key} {key} REPLACE");
            client.run(&copy) == Value::Integer(1)
        };
        let are_there = KEYS.iter().all(|(key, _)| is_there(key));
        let last = format!("EXISTS {:016}", SHORT_VALUES - 1);
        let occupied = occupied_bytes(self.daemon.id(), "VmRSS");
        if !are_there
            || client.run(&last) != Value::Integer(1)
            || occupied + SLACK_BYTES < self.bytes
        {
            self.fill();
        }
    }
}

/// Requests of all commands.
fn all_requests() -> Vec<Sent> {
    const FEW: usize = 40;
    let only = std::env::var("CELLAR_MATRIX_ONLY").unwrap_or_default();
    let daemon = Daemon::start(&["--threads", "1"]);
    fill(&daemon, FEW);
    let mut client = Client::connect(&daemon);
    let mut all = Vec::new();
    for dialect in DIALECTS {
        let rows = rows(dialect);
        let rows = rows
            .iter()
            .filter(|row| !NOT_SENT.contains(&row.name.as_str()) && row.name.contains(&only));
        for row in rows {
            let request = match dialect {
                Dialect::Resp => longest(&mut client, row),
                Dialect::Memcached
                    if row.name.starts_with("get") || row.name.starts_with("gat") =>
                {
                    row.request(Part::Many, Size::Bytes(16 * SHORT_VALUES), b'1')
                }
                _ => row.plain(),
            };
            all.push(Sent {
                name: format!("{dialect:?} {}", row.name),
                dialect,
                request,
                writes: command_of(row).is_none_or(|row| !row.flags.has(Flags::READONLY)),
                blocks: command_of(row).is_some_and(|row| row.flags.has(Flags::BLOCKING)),
            });
        }
    }
    all
}

/// The row in the table of commands of a command without a container.
fn command_of(row: &Row) -> Option<&'static cellar_protocol::resp::Command> {
    let is_resp = row.dialect == Dialect::Resp;
    TABLE.iter().find(|one| is_resp && one.name == row.name)
}

/// The request of a command of Redis in the form that is answered by most.
fn longest(client: &mut Client, row: &Row) -> Vec<u8> {
    let plain = row.plain();
    let is_tried = command_of(row).is_some_and(|row| {
        let is_on_keys = row.flags.has(Flags::WRITE) || row.flags.has(Flags::READONLY);
        is_on_keys && !row.name.starts_with("flush")
    });
    if !is_tried {
        return plain;
    }
    let blocks = command_of(row).is_some_and(|row| row.flags.has(Flags::BLOCKING));
    // Commands before may have emptied what this one would wait for.
    for (key, _) in KEYS {
        client.run(&format!("COPY spare:{key} {key} REPLACE"));
    }
    let mut best = (0, plain.clone());
    let mut try_one = |key: &str, request: Vec<u8>| {
        client.run(&format!("COPY spare:{key} {key} REPLACE"));
        client.send_raw(&request);
        let bytes = match client.read() {
            Value::Error(_) => 0,
            reply => reply.shown().len(),
        };
        if bytes > best.0 {
            best = (bytes, request);
        }
    };
    try_one("string", plain);
    // Many arguments could be a long wait.
    if !blocks {
        let many = row.request(Part::Many, Size::Bytes(16 * SHORT_VALUES), b'1');
        try_one("string", many);
    }
    let forms = FORMS.iter().chain(&MORE_FORMS);
    let forms = forms.filter(|form| !blocks || form.starts_with("0.01"));
    for form in forms {
        for (key, _) in KEYS {
            let words = format!("{} {}", row.name, form.replace("KEY", key));
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            try_one(key, frame(&words));
        }
    }
    best.1
}

fn address(daemon: &Daemon, dialect: Dialect) -> &str {
    match dialect {
        Dialect::Memcached | Dialect::Binary => &daemon.address,
        Dialect::Resp => &daemon.resp,
        Dialect::Http => &daemon.http,
    }
}

/// Waits until the server has nothing more to do and takes nothing more; `send` tells how many
/// bytes it was given.
fn wait_for_rest(daemon: &Daemon, mut send: impl FnMut() -> usize) {
    const REST: Duration = Duration::from_millis(8);
    let mut before = processor_time(daemon.id());
    wait_until("the server rests", || {
        let sent = send();
        // paced: the time of which the processor time is judged.
        std::thread::sleep(REST);
        let now = processor_time(daemon.id());
        let spent = now.saturating_sub(std::mem::replace(&mut before, now));
        sent == 0 && spent < REST / 4
    });
}

/// Clients that read nothing, each of which sends a request again and again; most bytes of memory
/// that the server occupied meanwhile. Every second client of RESP speaks its third version.
fn peak_unread(daemon: &Daemon, dialect: Dialect, request: &[u8]) -> usize {
    const CLIENTS: usize = 60;
    const TIMES: usize = 3;
    forget_peak(daemon.id());
    let begin = |number: usize| {
        let mut stream = connect(address(daemon, dialect)).unwrap();
        if dialect == Dialect::Resp && number % 2 == 1 {
            stream.write_all(&frame(&[b"HELLO", b"3"])).unwrap();
        }
        stream.set_nonblocking(true).unwrap();
        (stream, 0)
    };
    let mut clients: Vec<(TcpStream, usize)> = (0..CLIENTS).map(begin).collect();
    let all = request.repeat(TIMES);
    wait_for_rest(daemon, || {
        let mut sent = 0;
        for (stream, from) in &mut clients {
            let bytes = stream.write(&all[*from..]).unwrap_or(0);
            (*from, sent) = (*from + bytes, sent + bytes);
        }
        sent
    });
    let most = occupied_bytes(daemon.id(), "VmHWM");
    drop(clients);
    wait_for_rest(daemon, || 0);
    most
}

/// A transaction and a script with long replies: of all commands these are made in one step.
fn in_one_step() -> [Sent; 2] {
    let of = |name: &str, request| Sent {
        name: name.to_owned(),
        dialect: Dialect::Resp,
        request,
        writes: false,
        blocks: false,
    };
    let hgetall = frame(&[b"HGETALL", b"hash"]);
    let transaction = [frame(&[b"MULTI"]), hgetall.repeat(20), frame(&[b"EXEC"])].concat();
    let script = frame(&[b"EVAL", b"return redis.call('HGETALL', 'hash')", b"0"]);
    [of("a transaction", transaction), of("a script", script)]
}

#[test]
fn no_command_takes_more_than_the_client_memory_when_nobody_reads_its_reply() {
    // What a running command and the allocator may have beside the client memory.
    const MORE_BYTES_MAX: usize = (Full::CLIENT_MEMORY_MIB + 12) * MIB;
    let requests = all_requests();
    let full = Full::start();
    let (mut over, mut has_changed) = (Vec::new(), false);
    for sent in requests.iter().chain(&in_one_step()) {
        if has_changed {
            full.restore();
        }
        has_changed = sent.writes;
        let most = peak_unread(&full.daemon, sent.dialect, &sent.request);
        let more = most.saturating_sub(full.bytes);
        println!("{:40} {:4} MiB more", sent.name, more / MIB);
        if more > MORE_BYTES_MAX {
            over.push(format!("{}: {} MiB", sent.name, more / MIB));
        }
    }
    assert!(over.is_empty(), "too much memory:\n{}", over.join("\n"));
}

/// What became of requests that were sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The last one, which any connection may send, was answered.
    Answered,
    /// The connection ended without that.
    Ended,
    /// Not all was taken, or no end came.
    Stuck,
}

/// Sends all of it and one request more, then ends, and only then reads.
fn send_at_once(daemon: &Daemon, dialect: Dialect, requests: &[&[u8]]) -> End {
    let mut stream = connect(address(daemon, dialect)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Answered by itself only in the state in which a connection begins.
    let ping = match dialect {
        Dialect::Resp => frame(&[b"ECHO", b"still-there?"]),
        _ => dialect.ping(),
    };
    for part in requests.iter().chain([&&ping[..]]) {
        let result = stream.write_all(part);
        // A connection that was closed takes nothing more.
        if result.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            return End::Stuck;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let pong: &[u8] = match dialect {
        Dialect::Resp => b"$12\r\nstill-there?\r\n",
        Dialect::Memcached => b"MN\r\n",
        Dialect::Binary => &[0x81, 0x0a],
        Dialect::Http => b"\r\n\r\nok\n",
    };
    let (mut last, mut buffer) = (Vec::new(), vec![0; MIB]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                last.extend_from_slice(&buffer[..bytes]);
                last.drain(..last.len().saturating_sub(24));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return End::Stuck,
            Err(_) => return End::Ended,
        }
    }
    let is_answered = match dialect {
        Dialect::Binary => last.starts_with(pong),
        _ => last.ends_with(pong),
    };
    if is_answered {
        End::Answered
    } else {
        End::Ended
    }
}

/// A request that any connection may send among others, and that is answered by many bytes.
fn filler(daemon: &Daemon, dialect: Dialect) -> Vec<u8> {
    let key = "k".repeat(200);
    check(
        &mut daemon.connect(),
        &set(&key, &[b'v'; 1_000]),
        b"STORED\r\n",
    );
    let padding = "p".repeat(500);
    match dialect {
        Dialect::Resp => frame(&[b"ECHO", &[b'e'; 1_000]]),
        Dialect::Memcached => format!("get {key}\r\n").into_bytes(),
        Dialect::Binary => dialect.ping().repeat(10),
        Dialect::Http => format!(
            "GET /v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\nX-Padding: {padding}\r\n\r\n"
        )
        .into_bytes(),
    }
}

#[test]
fn every_command_may_stand_in_a_pipeline_that_is_sent_before_anything_is_read() {
    const MEMBERS: usize = 1_000;
    let requests = all_requests();
    let flags = ["--memory", "128MiB", "--client-memory", "512MiB"];
    let daemon = Daemon::spawn(&[&flags[..], &["--write-timeout", "1h"]].concat());
    fill(&daemon, MEMBERS);
    let mut wrong = Vec::new();
    for dialect in DIALECTS {
        let filler = filler(&daemon, dialect);
        let half = filler.repeat(5_000_000 / 2 / filler.len());
        let mut answered: Vec<&[u8]> = Vec::new();
        for sent in requests.iter().filter(|sent| sent.dialect == dialect) {
            let alone = send_at_once(&daemon, dialect, &[&sent.request]);
            let amid = send_at_once(&daemon, dialect, &[&half, &sent.request, &half]);
            let is_lost = alone == End::Answered && amid != End::Answered;
            if is_lost || amid == End::Stuck {
                wrong.push(format!(
                    "{}: {alone:?} alone, {amid:?} amid 5 MB",
                    sent.name
                ));
            } else if amid == End::Answered && !sent.blocks {
                answered.push(&sent.request);
            }
        }
        // All that leave the connection as it was stand in each longer pipeline.
        for megabytes in [50, 200] {
            let between = filler.repeat(megabytes * 1_000_000 / answered.len() / filler.len());
            let parts = answered.iter().flat_map(|request| [*request, &between]);
            let end = send_at_once(&daemon, dialect, &parts.collect::<Vec<_>>());
            println!(
                "{dialect:?}: {} commands amid {megabytes} MB: {end:?}",
                answered.len()
            );
            if end != End::Answered {
                wrong.push(format!("{dialect:?}: {end:?} amid {megabytes} MB"));
            }
        }
    }
    assert!(wrong.is_empty(), "not answered:\n{}", wrong.join("\n"));
}
