//! Hostile clients: whatever state they are in, the others are served, and memory stays below its
//! documented sum and is given back when they leave.
//!
//! A thousand of them in `make test`; `CELLAR_MATRIX=full`, as `make soak` sets it, lets ten
//! thousand come and compares an honest client's latencies with those beside idle ones and beside
//! a server that does nothing for those that never read.

use crate::support::attack;
use crate::support::wait::comes_true;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::attack::{Dialect, PATIENCE, ping};
use crate::support::crowd::{
    Member, STATES, State, UNREAD_REQUESTS, VALUE_BYTES, connect_from, discard,
};
use crate::support::daemon::{Daemon, check, frame, pattern, set};
use crate::support::floor::Floor;
use crate::support::resp::{Client, Value, ok};
use crate::support::vitals::{
    descriptors, forget_peak, occupied_bytes, processor_time, raise_descriptors,
};
use cellar_config::limits::{ARENA_BYTES, CONNECTION_BYTES, SPARE_BYTES};

const MIB: usize = 1 << 20;
/// `--memory` of the servers here; values on their way may hold half of it.
const MEMORY_BYTES: usize = 64 * MIB;
/// `--client-memory`, when nobody sets it, beside so little memory.
const CLIENTS_BYTES: usize = 96 * MIB;
/// Event loops of a server here.
const LOOPS: usize = 2;
/// What its loops keep for themselves.
const OWN_BYTES: usize = LOOPS * (ARENA_BYTES + SPARE_BYTES);
/// What may stay with the allocator when all of them have left.
const KEPT_BYTES: usize = 24 * MIB;

/// What so many clients may make a server occupy on top, by docs/limits.md.
fn documented_bytes(clients: usize) -> usize {
    OWN_BYTES + MEMORY_BYTES / 2 + CLIENTS_BYTES + clients * CONNECTION_BYTES
}

fn is_full() -> bool {
    std::env::var("CELLAR_MATRIX").is_ok_and(|form| form == "full")
}

/// Memory before an attack, and whether it stays within bounds.
struct Ledger {
    process: u32,
    before_bytes: usize,
}

impl Ledger {
    /// Begins with what the server occupies now.
    fn open(daemon: &Daemon) -> Ledger {
        forget_peak(daemon.id());
        Ledger {
            process: daemon.id(),
            before_bytes: occupied_bytes(daemon.id(), "VmRSS"),
        }
    }

    /// Checks that no more than so much came on top at any time.
    fn check_peak(&self, more_max: usize) {
        let more = occupied_bytes(self.process, "VmHWM").saturating_sub(self.before_bytes);
        let (mib, most) = (more / MIB, more_max / MIB);
        eprintln!("{mib} MiB at the peak, {most} allowed");
        assert!(more <= more_max, "{mib} MiB, {most} allowed");
    }

    /// Checks that, sooner or later, what came on top has been given back.
    fn check_given_back(&self) {
        let more = || occupied_bytes(self.process, "VmRSS").saturating_sub(self.before_bytes);
        let is_given_back = comes_true(PATIENCE, || more() <= KEPT_BYTES);
        assert!(is_given_back, "{} MiB are kept", more() / MIB);
    }
}

/// Checks that the server is at rest: nothing of it turns round for nothing.
fn check_rest(daemon: &Daemon) {
    const REST: Duration = Duration::from_millis(100);
    let rests = comes_true(PATIENCE, || {
        let before = processor_time(daemon.id());
        // paced: the time of which the processor time is judged.
        std::thread::sleep(REST);
        processor_time(daemon.id()) - before < REST / 2
    });
    assert!(rests, "it does not rest");
}

/// One honest client of each protocol.
struct Honest {
    streams: Vec<(Dialect, TcpStream)>,
}

impl Honest {
    fn come(daemon: &Daemon) -> Honest {
        let streams = vec![
            (Dialect::Memcached, daemon.connect()),
            (Dialect::Resp, daemon.connect_resp()),
            (Dialect::Http, daemon.connect_http()),
        ];
        let honest = Honest { streams };
        honest.check();
        honest
    }

    /// Checks that all are served as ever.
    fn check(&self) {
        for (dialect, stream) in &self.streams {
            ping(stream, *dialect).unwrap_or_else(|error| panic!("{dialect:?}: {error}"));
        }
    }
}

fn address(daemon: &Daemon, dialect: Dialect) -> &str {
    match dialect {
        Dialect::Memcached | Dialect::Binary => &daemon.address,
        Dialect::Resp => &daemon.resp,
        Dialect::Http => &daemon.http,
    }
}

/// Lets so many clients come, one state after the other.
fn crowd(daemon: &Daemon, clients: usize, states: &[State]) -> Vec<Member> {
    let state = |number: usize| states[number % states.len()];
    (0..clients)
        .map(|number| {
            let state = state(number);
            Member::come(number, state, address(daemon, state.dialect))
        })
        .collect()
}

#[test]
fn a_crowd_of_clients_in_every_state_stays_within_its_sum_and_disturbs_nobody() {
    let clients = if is_full() { 10_000 } else { 1_000 };
    assert!(raise_descriptors() > clients + 100);
    let most = (clients + 100).to_string();
    let daemon = Daemon::spawn(&[
        "--memory",
        "64MiB",
        "--threads",
        "2",
        "--max-connections",
        &most,
    ]);
    let honest = Honest::come(&daemon);
    let mut publisher = Client::connect(&daemon);
    let value = pattern(1, VALUE_BYTES);
    assert_eq!(publisher.call(&[b"SET", b"large", &value]), ok());
    let open = descriptors(daemon.id());
    let ledger = Ledger::open(&daemon);
    let mut members = crowd(&daemon, clients, STATES);
    for round in 0..20 {
        members.iter_mut().for_each(Member::trickle);
        let news = format!("PUBLISH news {round}");
        assert!(matches!(publisher.run(&news), Value::Integer(_)), "{news}");
        assert_eq!(publisher.run(&format!("SET k {round}")), ok());
        honest.check();
    }
    check_rest(&daemon);
    ledger.check_peak(documented_bytes(clients));
    members.clear();
    assert!(comes_true(PATIENCE, || descriptors(daemon.id()) == open));
    honest.check();
    ledger.check_given_back();
    check_rest(&daemon);
}

#[test]
fn a_set_whose_options_never_come_does_not_keep_others_from_storing() {
    let daemon = Daemon::spawn(&["--memory", "64MiB", "--threads", "2"]);
    let mut client = Client::connect(&daemon);
    let value = vec![b'v'; 31 * MIB];
    let head = format!("*5\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len());
    let streams: Vec<TcpStream> = (0..12)
        .map(|_| {
            let mut stream = daemon.connect_resp();
            // One that finds no room is told so, and takes no more.
            stream
                .set_write_timeout(Some(Duration::from_secs(1)))
                .unwrap();
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&value))
                .and_then(|()| stream.write_all(b"\r\n"));
            stream
        })
        .collect();
    let mut stores = || client.call(&[b"SET", b"honest", &[b'h'; 2_000_000]]) == ok();
    assert!(comes_true(PATIENCE, &mut stores), "nobody else can store");
    for _ in 0..50 {
        assert!(stores(), "stored once and then no more");
    }
    drop(streams);
}

#[test]
fn the_answer_of_a_transaction_is_bounded() {
    let daemon = Daemon::spawn(&["--memory", "64MiB", "--threads", "2"]);
    let honest = Honest::come(&daemon);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.call(&[b"SET", b"v", &[b'v'; 16_000]]), ok());
    let ledger = Ledger::open(&daemon);
    let stream = daemon.connect_resp();
    let queued = frame(&[b"GET", b"v"]).repeat(60_000);
    let request = [frame(&[b"MULTI"]), queued, frame(&[b"EXEC"])].concat();
    std::thread::scope(|scope| {
        let mut sender = &stream;
        scope.spawn(move || drop(sender.write_all(&request)));
        // What was queued is answered; of EXEC's answer only the beginning is taken.
        let mut reader = BufReader::with_capacity(1, &stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let is_last = line.starts_with('*') || line.starts_with("-EXEC");
            if is_last {
                break;
            }
            line.clear();
        }
        for _ in 0..20 {
            honest.check();
            // paced: honest clients ask for a while.
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    ledger.check_peak(OWN_BYTES + CLIENTS_BYTES);
    drop(stream);
    honest.check();
    ledger.check_given_back();
}

#[test]
fn what_a_transaction_queues_is_bounded_by_what_it_takes() {
    let daemon = Daemon::spawn(&["--memory", "64MiB", "--threads", "2"]);
    let honest = Honest::come(&daemon);
    let ledger = Ledger::open(&daemon);
    let mut stream = daemon.connect_resp();
    stream.write_all(&frame(&[b"MULTI"])).unwrap();
    let pings = frame(&[b"PING"]).repeat(10_000);
    for _ in 0..100 {
        if stream.write_all(&pings).is_err() {
            break;
        }
        discard(&mut stream);
    }
    honest.check();
    ledger.check_peak(OWN_BYTES + CLIENTS_BYTES);
    drop(stream);
    honest.check();
    ledger.check_given_back();
}

#[test]
fn partial_lines_of_clients_that_left_are_given_back() {
    let clients = if is_full() { 5_000 } else { 1_500 };
    assert!(raise_descriptors() > clients + 100);
    let daemon = Daemon::spawn(&["--memory", "64MiB", "--threads", "2"]);
    let honest = Honest::come(&daemon);
    let open = descriptors(daemon.id());
    for (dialect, line) in [
        (
            Dialect::Memcached,
            [b"get ".as_slice(), &b"k ".repeat(30_000)].concat(),
        ),
        (
            Dialect::Resp,
            [b"MGET ".as_slice(), &b"k ".repeat(30_000)].concat(),
        ),
    ] {
        let ledger = Ledger::open(&daemon);
        let members: Vec<TcpStream> = (0..clients)
            .map(|number| {
                let host = [127, 0, 0, 2 + (number / 1_000) as u8].into();
                let mut stream = connect_from(host, address(&daemon, dialect));
                let _ = stream.write_all(&line);
                stream
            })
            .collect();
        honest.check();
        check_rest(&daemon);
        ledger.check_peak(documented_bytes(clients));
        drop(members);
        assert!(comes_true(PATIENCE, || descriptors(daemon.id()) == open));
        honest.check();
        ledger.check_given_back();
    }
}

#[test]
fn subscribers_that_never_read_stay_within_what_clients_may_take() {
    let daemon = Daemon::spawn(&["--memory", "64MiB", "--threads", "2"]);
    let honest = Honest::come(&daemon);
    let open = descriptors(daemon.id());
    let ledger = Ledger::open(&daemon);
    let silent: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = daemon.connect_resp();
            stream.write_all(&frame(&[b"SUBSCRIBE", b"news"])).unwrap();
            stream
        })
        .collect();
    let mut publisher = Client::connect(&daemon);
    let message = vec![b'm'; 100_000];
    for _ in 0..300 {
        let reached = publisher.call(&[b"PUBLISH", b"news", &message]);
        assert!(matches!(reached, Value::Integer(_)), "{reached:?}");
    }
    honest.check();
    // Messages that come in while connections are closed may take half as much again.
    ledger.check_peak(OWN_BYTES + CLIENTS_BYTES + CLIENTS_BYTES / 2);
    drop((silent, publisher));
    assert!(comes_true(PATIENCE, || descriptors(daemon.id()) == open));
    ledger.check_given_back();
}

#[test]
fn partial_lines_of_others_do_not_cost_an_honest_client_its_connection() {
    let daemon = Daemon::spawn(&["--memory", "64MiB", "--threads", "2"]);
    let mut holders = Vec::new();
    // The shorter ones fill what the long ones leave.
    for bytes in [1_044_000; 100].into_iter().chain([70_000; 10]) {
        let mut stream = daemon.connect();
        let line = [b"get ".as_slice(), &b"k ".repeat(bytes / 2)].concat();
        let _ = stream.write_all(&line);
        holders.push(stream);
    }
    check_rest(&daemon);
    let keys: Vec<Vec<u8>> = (0..20_000)
        .map(|number| format!("key{number}").into_bytes())
        .collect();
    let mut args: Vec<&[u8]> = vec![b"MGET"];
    args.extend(keys.iter().map(Vec::as_slice));
    let request = frame(&args);
    for round in 0..10 {
        let mut stream = daemon.connect_resp();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        // In two parts, so that it is incomplete for a moment, as over a network.
        let (one, other) = request.split_at(request.len() / 2);
        let _ = stream.write_all(one);
        // paced: the parts come one at a time.
        std::thread::sleep(Duration::from_millis(5));
        let _ = stream.write_all(other);
        let answer = Dialect::Resp.read(&mut reader, false);
        let answer = answer.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(answer, Some(attack::Answer::Other), "round {round}");
    }
    drop(holders);
}

/// Processor time for bytes that come one at a time behind `before`.
fn trickled(daemon: &Daemon, address: &str, before: &[u8], bytes: usize) -> Duration {
    let mut stream = attack::connect(address).unwrap();
    stream.write_all(before).unwrap();
    // paced: the server has begun to read, before it is seen to rest.
    std::thread::sleep(Duration::from_millis(50));
    check_rest(daemon);
    let begin = processor_time(daemon.id());
    for _ in 0..bytes {
        stream.write_all(b"1").unwrap();
        // paced: the bytes come one at a time.
        std::thread::sleep(Duration::from_micros(50));
    }
    check_rest(daemon);
    processor_time(daemon.id()) - begin
}

#[test]
fn a_byte_behind_a_long_beginning_costs_what_it_costs_behind_a_short_one() {
    const BYTES: usize = 2_500;
    let daemon = Daemon::spawn(&["--memory", "64MiB", "--threads", "2"]);
    let many = |word: &str, bytes: usize| word.repeat(bytes / word.len()).into_bytes();
    let append = b"*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$3000000\r\n".to_vec();
    let mget = b"*100000\r\n$4\r\nMGET\r\n".to_vec();
    let head = b"GET /v1/cache/k HTTP/1.1\r\nHost: a\r\n".to_vec();
    let cases = [
        (
            &daemon.address,
            b"get ".to_vec(),
            many("key1 ", 900_000),
            "a line of keys",
        ),
        (&daemon.resp, append, many("x", 900_000), "an argument"),
        (
            &daemon.resp,
            mget,
            many("$4\r\nkey1\r\n", 900_000),
            "an array",
        ),
        (
            &daemon.resp,
            b"MGET ".to_vec(),
            many("key1 ", 60_000),
            "a line of words",
        ),
        (&daemon.http, head, many("X: y\r\n", 300), "a head"),
        (
            &daemon.http,
            b"GET /v1/cache?id=".to_vec(),
            many("k", 190_000),
            "a path",
        ),
    ];
    for (address, begin, more, name) in cases {
        let begin = if name == "an array" {
            [&*begin, b"$9999\r\n"].concat()
        } else {
            begin
        };
        let short = trickled(&daemon, address, &begin, BYTES);
        // An array's last argument is one that is long enough for all the bytes.
        let long = match name {
            "an array" => [b"*100000\r\n$4\r\nMGET\r\n", &*more, b"$9999\r\n"].concat(),
            _ => [&*begin, &*more].concat(),
        };
        let long = trickled(&daemon, address, &long, BYTES);
        eprintln!("{name}: {short:?} behind a short one, {long:?} behind a long one");
        let most = short * 2 + Duration::from_millis(70);
        assert!(
            long <= most,
            "{name}: {long:?}, {short:?} behind a short one"
        );
    }
}

/// The latency that one in a thousand requests of an honest client reaches, with this crowd there.
#[expect(
    clippy::disallowed_methods,
    reason = "latencies are those of this machine"
)]
fn slowest_latency(daemon: &Daemon, members: &mut [Member]) -> Duration {
    const REQUESTS: usize = 60_000;
    let mut client = daemon.connect();
    check(&mut client, &set("honest", b"value"), b"STORED\r\n");
    let is_over = AtomicBool::new(false);
    let mut took: Vec<Duration> = Vec::with_capacity(REQUESTS);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for member in members.iter_mut() {
                    member.trickle();
                    // paced: the load of a crowd that trickles.
                    std::thread::sleep(Duration::from_millis(1));
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
        });
        for _ in 0..REQUESTS {
            let begin = Instant::now();
            check(
                &mut client,
                b"get honest\r\n",
                b"VALUE honest 0 5\r\nvalue\r\nEND\r\n",
            );
            took.push(begin.elapsed());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    took.sort_unstable();
    took[REQUESTS * 999 / 1_000]
}

/// Lets those of a crowd that never read come to the floor; the others are idle.
fn crowd_beside(daemon: &Daemon, floor: &Floor, clients: usize, idle: &[State]) -> Vec<Member> {
    let come = |number: usize| {
        let state = STATES[number % STATES.len()];
        if state.never_reads() {
            return Member::come(number, state, &floor.address);
        }
        let state = idle[number % idle.len()];
        Member::come(number, state, address(daemon, state.dialect))
    };
    let members: Vec<Member> = (0..clients).map(come).collect();
    let never_reading = STATES.iter().filter(|state| state.never_reads()).count();
    let most = clients * never_reading / STATES.len();
    assert!(comes_true(PATIENCE, || floor.clients() >= most));
    members
}

/// The system goes on asking a peer that does not read whether it has room now: of thousands, some
/// hundreds at one tick of its clock, which takes it half a millisecond in which nobody runs on
/// that processor. That is so beside any server, so the honest client's latencies are compared with
/// those beside a server that has answered as many such clients with as many bytes and does nothing
/// more.
#[test]
fn an_honest_client_is_not_much_slower_beside_ten_thousand_hostile_ones() {
    if !is_full() {
        return;
    }
    let clients = 10_000;
    assert!(raise_descriptors() > clients + clients / 4 + 100);
    let daemon = Daemon::spawn(&["--memory", "256MiB", "--max-connections", "10100"]);
    let mut client = Client::connect(&daemon);
    let value = pattern(1, VALUE_BYTES);
    assert_eq!(client.call(&[b"SET", b"large", &value]), ok());
    let open = descriptors(daemon.id());
    // As the server answers them: until 32 KiB wait, then in one write.
    let answers = 3;
    let floor = Floor::start(UNREAD_REQUESTS / answers, answers * VALUE_BYTES);
    let idle: Vec<State> = STATES
        .iter()
        .copied()
        .filter(|state| state.name == "idle")
        .collect();
    let mut slowest = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..15 {
        let mut members = match round % 3 {
            0 => crowd(&daemon, clients, &idle),
            1 => crowd_beside(&daemon, &floor, clients, &idle),
            _ => crowd(&daemon, clients, STATES),
        };
        check_rest(&daemon);
        slowest[round % 3].push(slowest_latency(&daemon, &mut members));
        drop(members);
        floor.close();
        assert!(comes_true(PATIENCE, || descriptors(daemon.id()) == open));
    }
    slowest.iter_mut().for_each(|rounds| rounds.sort_unstable());
    let [idle, floor, hostile] = slowest.map(|rounds| rounds[rounds.len() / 2]);
    eprintln!(
        "p99.9 beside idle clients {idle:?}, with those that never read at a server that does \
         nothing {floor:?}, beside hostile ones {hostile:?}"
    );
    let most = idle.max(floor) * 2;
    assert!(hostile <= most, "{hostile:?}, {most:?} allowed");
}
