//! Sizes: every command of the three protocols with every size in every way of sending.
//!
//! The commands come from their tables ([`rows`]). After each case a new connection and one on each
//! event loop are answered, and memory and descriptors of the server are what they were; now and
//! then it is left alone and must rest. Each command, each size and each way meet in `make test`;
//! `CELLAR_MATRIX=full`, as `make soak` sets it, tries all combinations, and
//! `CELLAR_MATRIX_ONLY=setex` those whose name has this text.

use crate::support::daemon;
use crate::support::wait::comes_true;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::attack::{Attack, Dialect, PATIENCE, Way, connect, ping};
use crate::support::daemon::{Daemon, pattern};
use crate::support::rows::{Part, Row, Size, rows};
use crate::support::vitals::{descriptors, occupied_bytes, processor_time};

const MEMORY: &str = "128MiB";
const MEMORY_BYTES: usize = 128 << 20;
/// Memory that may stay with the allocator when all is as before.
const SLACK_BYTES: usize = 40 << 20;
const SIZES: [usize; 8] = [
    0,
    1,
    16 << 10,
    64 << 10,
    1 << 20,
    2_200_000,
    3_000_000,
    40_000_000,
];
/// In the short form one command of so many gets the largest size.
const LARGEST_EVERY: usize = 16;
/// Cases after which the server has to rest for a moment.
const REST_EVERY: usize = 200;
const REST: Duration = Duration::from_millis(50);
/// Failures after which the rest is not tried.
const FAILURES_MAX: usize = 6;
const FILLERS: &[u8] = b"1a*";

/// One request in one way.
struct Case<'a> {
    row: &'a Row,
    part: Part,
    size: Size,
    way: Way,
    /// A number of its own.
    number: usize,
}

impl Case<'_> {
    fn name(&self) -> String {
        let Case {
            row,
            part,
            size,
            way,
            ..
        } = self;
        format!("{} / {part:?} / {size:?} / {way:?}", row.name)
    }

    /// Sends it; what was wrong with what came back.
    fn run(&self, address: &str) -> Result<(), String> {
        let filler = FILLERS[self.number % FILLERS.len()];
        let request = self.row.request(self.part, self.size, filler);
        let cut = match self.number % 3 {
            0 => request.len() / 2,
            1 => request.len() - 1,
            _ => (request.len() - 1).min(30),
        };
        let dialect = self.row.dialect;
        let is_endless = dialect == Dialect::Memcached && is_endless(&request);
        let attack = Attack {
            dialect,
            address,
            request: &request,
            way: self.way,
            cut,
            may_end: self.row.may_end || self.way == Way::Cut || is_endless,
            is_head: self.row.is_head,
        };
        attack.run()
    }
}

/// Whether it has a line that ends the connection without a word, as with memcached.
fn is_endless(request: &[u8]) -> bool {
    const LINE_BYTES_MAX: usize = 2_048;
    let line = request.split(|byte| *byte == b'\n').next();
    let is_read = request.starts_with(b"get") || request.starts_with(b"gat");
    !is_read && line.is_some_and(|line| line.len() > LINE_BYTES_MAX)
}

/// A server under attack, and what is known of it in peace.
struct Target {
    daemon: Daemon,
    /// One connection on each event loop.
    honest: Vec<TcpStream>,
    descriptors: usize,
    resident_bytes: usize,
}

impl Target {
    fn start() -> Target {
        let daemon = Daemon::spawn(&["--memory", MEMORY]);
        let honest: Vec<TcpStream> = (0..2)
            .map(|_| connect(&daemon.resp).expect("the server listens"))
            .collect();
        let mut target = Target {
            descriptors: 0,
            resident_bytes: 0,
            daemon,
            honest,
        };
        for stream in &target.honest {
            ping(stream, Dialect::Resp).expect("it answers");
        }
        // Before anybody else comes.
        target.descriptors = descriptors(target.daemon.id());
        target.fill();
        target.resident_bytes = occupied_bytes(target.daemon.id(), "VmRSS");
        target
    }

    /// Makes the cache full, so that what it stores later takes no memory anew.
    fn fill(&mut self) {
        let mut stream = self.daemon.connect();
        let value = pattern(1, 1 << 20);
        for number in 0..(MEMORY_BYTES >> 20) + 8 {
            let key = format!("filling{number}");
            daemon::check(&mut stream, &daemon::set(&key, &value), b"STORED\r\n");
        }
        drop(stream);
        let connections = || self.daemon.stat("curr_connections");
        assert!(comes_true(PATIENCE, || connections() == 3));
        // paced: what was freed with the connection comes back.
        std::thread::sleep(Duration::from_millis(10));
        self.seed();
    }

    /// Stores what commands are to find.
    fn seed(&self) {
        let frames = [
            daemon::frame(&[b"SET", b"string", b"1"]),
            daemon::frame(&[b"SET", b"string2", b"1"]),
            daemon::frame(&[b"DEL", b"hash", b"set", b"zset", b"list"]),
            daemon::frame(&[b"HSET", b"hash", b"1", b"1"]),
            daemon::frame(&[b"SADD", b"set", b"1"]),
            daemon::frame(&[b"ZADD", b"zset", b"1", b"1"]),
            daemon::frame(&[b"RPUSH", b"list", b"1"]),
        ];
        for frame in frames {
            let mut stream = &self.honest[0];
            std::io::Write::write_all(&mut stream, &frame).unwrap();
            let mut reader = std::io::BufReader::new(stream);
            Dialect::Resp.read(&mut reader, false).unwrap();
        }
    }

    fn address(&self, dialect: Dialect) -> &str {
        match dialect {
            Dialect::Memcached | Dialect::Binary => &self.daemon.address,
            Dialect::Resp => &self.daemon.resp,
            Dialect::Http => &self.daemon.http,
        }
    }

    /// What is not as it was before.
    fn check(&self, dialect: Dialect) -> Result<(), String> {
        for stream in &self.honest {
            ping(stream, Dialect::Resp).map_err(|error| format!("another client: {error}"))?;
        }
        let fresh = connect(self.address(dialect)).map_err(|error| error.to_string())?;
        ping(&fresh, dialect).map_err(|error| format!("a new client: {error}"))?;
        drop(fresh);
        let process = self.daemon.id();
        if !comes_true(PATIENCE, || descriptors(process) == self.descriptors) {
            let (now, before) = (descriptors(process), self.descriptors);
            return Err(format!("{now} open files, {before} before"));
        }
        let bytes_max = self.resident_bytes + SLACK_BYTES;
        if !comes_true(PATIENCE, || occupied_bytes(process, "VmRSS") <= bytes_max) {
            let (now, before) = (occupied_bytes(process, "VmRSS"), self.resident_bytes);
            return Err(format!("{now} bytes resident, {before} before"));
        }
        Ok(())
    }

    /// Whether it does nothing when nobody asks for anything.
    fn check_rest(&self) -> Result<(), String> {
        let process = self.daemon.id();
        let rests = comes_true(PATIENCE, || {
            let before = processor_time(process);
            // paced: the time of which the processor time is judged.
            std::thread::sleep(REST);
            processor_time(process) - before < REST / 2
        });
        rests.then_some(()).ok_or("it does not rest".to_owned())
    }
}

/// All combinations of one row.
fn all_of<'a>(row: &'a Row, cases: &mut Vec<Case<'a>>) {
    let sizes = SIZES.map(Size::Bytes).into_iter().chain([Size::Beyond]);
    for size in sizes {
        for &part in &row.parts {
            let pieces = 64;
            for way in ways(pieces) {
                let number = cases.len();
                cases.push(Case {
                    row,
                    part,
                    size,
                    way,
                    number,
                });
            }
        }
    }
}

/// Each size of one row, each in another way and part than with its neighbours.
fn some_of<'a>(row: &'a Row, index: usize, cases: &mut Vec<Case<'a>>) {
    let sizes = SIZES.map(Size::Bytes).into_iter().chain([Size::Beyond]);
    let stores = matches!(
        row.name.as_str(),
        "set" | "setex" | "eval" | "ms" | "POST /v1/cache"
    );
    let puts = row.name.starts_with("PUT");
    let has_largest = index.is_multiple_of(LARGEST_EVERY) || stores || puts;
    for (place, size) in sizes.enumerate() {
        if size == Size::Bytes(SIZES[7]) && !has_largest {
            continue;
        }
        let turn = if size == Size::Bytes(SIZES[7]) {
            index / LARGEST_EVERY
        } else {
            index + place
        };
        let part = row.parts[(index / 7 + place) % row.parts.len()];
        let mut way = ways(8)[turn % 6];
        if row.is_awaited(part, size) && !matches!(way, Way::Cut | Way::Gone) {
            way = Way::Cut;
        }
        cases.push(Case {
            row,
            part,
            size,
            way,
            number: cases.len(),
        });
    }
}

fn ways(pieces: usize) -> [Way; 6] {
    [
        Way::Whole,
        Way::Slow(pieces),
        Way::Cut,
        Way::Behind,
        Way::Before,
        Way::Gone,
    ]
}

/// Tries all cases of a protocol.
fn check_all(dialect: Dialect) {
    let rows = rows(dialect);
    let is_full = std::env::var("CELLAR_MATRIX").is_ok_and(|form| form == "full");
    let only = std::env::var("CELLAR_MATRIX_ONLY").unwrap_or_default();
    let mut cases = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if is_full {
            all_of(row, &mut cases);
        } else {
            some_of(row, index, &mut cases);
        }
    }
    // The server waits for a value whose length it was told; the ping behind would be a part of it.
    let has_answer = |case: &Case<'_>| {
        !case.row.is_awaited(case.part, case.size) || matches!(case.way, Way::Cut | Way::Gone)
    };
    cases.retain(|case| has_answer(case) && case.name().contains(&only));
    let failures = attack_with(&cases);
    eprintln!("{dialect:?}: {} rows, {} cases", rows.len(), cases.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn attack_with(cases: &[Case<'_>]) -> Vec<String> {
    let mut target = Target::start();
    let mut failures = Vec::new();
    for (done, case) in cases.iter().enumerate() {
        if done > 0 && case.row.name != cases[done - 1].row.name {
            target.seed();
        }
        let dialect = case.row.dialect;
        let outcome = case.run(target.address(dialect));
        let mut state = target.check(dialect);
        if done % REST_EVERY == REST_EVERY - 1 || done + 1 == cases.len() {
            state = state.and_then(|()| target.check_rest());
        }
        for wrong in [outcome, state.clone()] {
            failures.extend(wrong.err().map(|wrong| format!("{}: {wrong}", case.name())));
        }
        if failures.len() >= FAILURES_MAX {
            break;
        }
        if state.is_err() {
            target = Target::start();
        }
    }
    failures
}

#[test]
fn every_command_of_redis_bears_every_size_in_every_way() {
    check_all(Dialect::Resp);
}

#[test]
fn every_command_of_memcached_bears_every_size_in_every_way() {
    check_all(Dialect::Memcached);
}

#[test]
fn every_request_of_the_binary_protocol_bears_every_size_in_every_way() {
    check_all(Dialect::Binary);
}

#[test]
fn every_path_over_http_bears_every_size_in_every_way() {
    check_all(Dialect::Http);
}
