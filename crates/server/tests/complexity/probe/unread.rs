//! Unread: requests of every command, by clients that read nothing before all is sent, or at all.
//!
//! Each row of each protocol's own table becomes a request ([`requests`]), so a new command is
//! among them without being named. Of the forms that a command on keys may take, the one with the
//! longest reply is sent.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use cellar_protocol::resp::command::{Flags, TABLE};

use super::{Asking, Bench, Size, frame_of, read_to_end};
use crate::support::attack::Dialect;
use crate::support::daemon::{Daemon, check, frame, pattern, set};
use crate::support::resp::{Client, Value};
use crate::support::rows::{Row, rows};
use crate::support::vitals::{forget_peak, occupied_bytes, processor_time};
use crate::support::wait::{PATIENCE, wait_until};

/// Clients that read nothing.
const CLIENTS: usize = 60;
/// Each sends its request so often, or until it has sent so many bytes.
const REQUESTS: usize = 8;
const SENT_BYTES: usize = 1 << 20;
/// The memory of a cache is full if it occupies so many bytes of each MiB.
const FULL_BYTES_MIN: usize = 1_000_000;
/// The keys that requests name, and the commands that add to them.
const KEYS: [(&str, &str); 11] = [
    ("hash", "HSET"),
    ("set", "SADD"),
    ("set2", "SADD"),
    ("zset", "ZADD"),
    ("zset2", "ZADD"),
    ("list", "RPUSH"),
    ("list2", "RPUSH"),
    ("sketch", "PFADD"),
    ("string", "APPEND"),
    ("string2", "APPEND"),
    ("1", "APPEND"),
];
/// What stands behind a command's name where it is to answer all of a key.
const FORMS: [&str; 20] = [
    "KEY",
    "KEY none",
    "1 KEY",
    "KEY 0 -1",
    "KEY -inf +inf",
    "KEY +inf -inf",
    "KEY - +",
    "KEY + -",
    "KEY 1000000",
    "KEY 0 COUNT 1000000",
    "1 KEY LEFT COUNT 1000000",
    "1 KEY MIN COUNT 1000000",
    "KEY BY nosort",
    "KEY ALPHA",
    "KEY 0 0 22000 km",
    "KEY FROMLONLAT 0 0 BYRADIUS 22000 km ASC",
    "KEY m1 30000 km",
    "to KEY KEY",
    "to 1 KEY",
    "to KEY 0 -1",
];
/// They end the server, or change how much memory it may have.
const NOT_SENT: [&str; 2] = ["shutdown", "cache_memlimit"];

/// Adds so many members to a key.
fn add(client: &mut Client, (key, command): (&str, &str), members: usize) {
    if command == "APPEND" {
        let bytes = (members * 30).min(1_000_000);
        client.call(&[b"SET", key.as_bytes(), &pattern(7, bytes)]);
        return;
    }
    let names: Vec<String> = (0..members).map(|member| format!("m{member}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for names in names.chunks(2_000) {
        let words = names.iter().flat_map(|&name| match command {
            "ZADD" => vec!["1", name],
            "HSET" => vec![name, "a field's value"],
            _ => vec![name],
        });
        let args = [command, key].into_iter().chain(words);
        let args: Vec<&[u8]> = args.map(str::as_bytes).collect();
        let added = client.call(&args);
        assert!(matches!(added, Value::Integer(_)), "{added:?}");
    }
}

/// For each command of a protocol its name and a request.
pub(crate) fn requests(dialect: Dialect) -> Vec<(String, Vec<u8>)> {
    let is_sent = |row: &Row| !NOT_SENT.contains(&row.name.as_str());
    let rows: Vec<Row> = rows(dialect).into_iter().filter(is_sent).collect();
    if dialect != Dialect::Resp {
        let plain = |row: Row| (row.name.clone(), row.plain());
        return rows.into_iter().map(plain).collect();
    }
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    for key in KEYS {
        add(&mut client, key, 50);
        client.run(&format!("COPY {0} spare:{0}", key.0));
    }
    let longest = |row: &Row| (row.name.clone(), longest(&mut client, row));
    rows.iter().map(longest).collect()
}

/// The request of a command of Redis, in the form that is answered by most.
fn longest(client: &mut Client, row: &Row) -> Vec<u8> {
    let plain = row.plain();
    let command = TABLE.iter().find(|command| command.name == row.name);
    let is_tried = command.is_some_and(|command| {
        let is_on_keys = command.flags.has(Flags::WRITE) || command.flags.has(Flags::READONLY);
        is_on_keys && !command.flags.has(Flags::BLOCKING) && !row.name.starts_with("flush")
    });
    if !is_tried {
        return plain;
    }
    let is_write = command.is_some_and(|command| command.flags.has(Flags::WRITE));
    let mut best = (0, plain.clone());
    let mut try_one = |key: &str, request: Vec<u8>| {
        if is_write {
            client.run(&format!("COPY spare:{key} {key} REPLACE"));
        }
        client.send_raw(&request);
        let reply = client.read();
        let bytes = match &reply {
            Value::Error(_) => 0,
            _ => reply.shown().len(),
        };
        if bytes > best.0 {
            best = (bytes, request);
        }
    };
    try_one("string", plain);
    for (key, _) in KEYS {
        for form in FORMS {
            let words = format!("{} {}", row.name, form.replace("KEY", key));
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            try_one(key, frame(&words));
        }
    }
    best.1
}

impl Bench {
    /// Starts one of which clients may hold little, whose cache is full, and which has what
    /// commands with a long reply need.
    pub(crate) fn start_full_small(memory: &str, client_memory: &str) -> Bench {
        let mut bench = Bench::start_empty(memory, client_memory);
        bench.full_mib = memory.trim_end_matches("MiB").parse().unwrap();
        bench.fill_up();
        bench.fill();
        bench.fill_keys();
        // Libraries, channels and slow commands, of which some commands answer all.
        let mut client = bench.daemon.connect_resp();
        for library in 0..10 {
            let source = super::library().replace("name=library", &format!("name=l{library}"));
            let source = source.replace("'f", &format!("'l{library}f"));
            let load = frame(&[b"FUNCTION", b"LOAD", source.as_bytes()]);
            client.write_all(&load).unwrap();
        }
        let settings = "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 10000";
        let settings = bench.expanded(settings);
        client.write_all(&frame_of(&settings)).unwrap();
        let names = bench.expanded("SUBSCRIBE {names}");
        client.write_all(&frame_of(&names)).unwrap();
        let last = format!(":{}\r\n", names.len() - 1);
        read_to_end(&mut client, last.as_bytes());
        bench.kept = Some(client);
        bench
    }

    /// Stores values until all memory of the cache is in use, as after a flush it is not.
    fn fill_up(&self) {
        let occupied = occupied_bytes(self.daemon.id(), "VmRSS");
        if occupied >= self.full_mib * FULL_BYTES_MIN {
            return;
        }
        let mut stream = self.daemon.connect();
        for number in 0..self.full_mib {
            let filler = set(&format!("filler:{number}"), &pattern(1, 1_000_000));
            check(&mut stream, &filler, b"STORED\r\n");
        }
    }

    /// Stores what requests name, and a copy of each.
    pub(super) fn fill_keys(&self) {
        let mut client = Client::connect(&self.daemon);
        for key in KEYS {
            client.run(&format!("DEL {}", key.0));
            add(&mut client, key, Size::SHORT.members);
            let copied = client.run(&format!("COPY {0} spare:{0} REPLACE", key.0));
            assert_eq!(copied, Value::Integer(1), "{}", key.0);
        }
    }

    /// Stores what requests name as it was, as some of them take members away.
    pub(crate) fn restore(&self) {
        self.fill_up();
        let mut client = Asking(self.daemon.connect_resp());
        let mut is_there = |key: &str| {
            let spare = format!("spare:{key}");
            client
                .ask(&[b"COPY", spare.as_bytes(), key.as_bytes(), b"REPLACE"])
                .starts_with(b":1")
        };
        if !KEYS.iter().all(|(key, _)| is_there(key)) {
            client.ask(&[b"FLUSHALL"]);
            self.fill_up();
            self.fill();
            self.fill_keys();
        }
    }

    /// Has many clients send a request again and again and read nothing; most bytes of memory that
    /// the server has occupied meanwhile. Every second client of RESP speaks its third version.
    pub(crate) fn unread(&self, dialect: Dialect, request: &[u8]) -> usize {
        let server = self.daemon.id();
        forget_peak(server);
        let times = (SENT_BYTES / request.len()).clamp(2, REQUESTS);
        let connect = |number: usize| {
            let mut stream = self.connect(dialect);
            if dialect == Dialect::Resp && number % 2 == 1 {
                stream.write_all(&frame(&[b"HELLO", b"3"])).unwrap();
            }
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let clients: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
        let mut sent = vec![0; CLIENTS];
        let all = request.len() * times;
        let mut before = Duration::ZERO;
        wait_until("nothing more is taken", || {
            let mut moved = 0;
            for (mut stream, sent) in clients.iter().zip(&mut sent) {
                let rest = &request[*sent % request.len()..];
                if *sent < all
                    && let Ok(bytes) = stream.write(rest)
                {
                    *sent += bytes;
                    moved += bytes;
                }
            }
            // paced: a server that has more to do uses a processor meanwhile.
            std::thread::sleep(Duration::from_millis(20));
            let after = processor_time(server);
            // A thread that has ended has no time any more.
            let spent = after.saturating_sub(std::mem::replace(&mut before, after));
            let is_busy = spent > Duration::from_millis(5);
            moved == 0 && !is_busy
        });
        occupied_bytes(server, "VmHWM")
    }

    /// Sends a request in the middle of a pipeline of so many bytes, all before anything is read,
    /// and then ends; whether all was taken and the connection came to its end.
    pub(crate) fn amid_pipeline(&self, dialect: Dialect, request: &[u8], bytes: usize) -> bool {
        let filler = match dialect {
            Dialect::Resp => frame(&[b"ECHO", &[b'e'; 1_000]]),
            Dialect::Memcached => format!("mg {} k\r\n", "k".repeat(200)).into_bytes(),
            Dialect::Binary | Dialect::Http => dialect.ping(),
        };
        let half = filler.repeat(bytes / 2 / filler.len());
        let mut stream = self.connect(dialect);
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for part in [&half, request, &half] {
            match stream.write_all(part) {
                // A command that ends the connection.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                _ => {}
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }
}
