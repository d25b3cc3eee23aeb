//! `--noeviction-databases`: databases with a share of memory of their own, in which queues and
//! locks are safe.
//!
//! Every command that may store stands below: a new one is missing until it does.

use crate::support::{daemon, session};

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;

use cellar_config::settings::Settings;
use cellar_config::settings::keep::Keep;
use cellar_engine::{Instant, ManualClock};
use cellar_protocol::resp::command::{Flags, TABLE};
use cellar_shared::clients::client::Seat;
use cellar_shared::state::State;

use daemon::{Daemon, check, expect, frame};
use session::{Session, UNIX_MS_AT_ZERO, state_of};

const FULL: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

/// What is there before a share is full.
const BEFORE: &[&str] = &[
    "SET str v",
    "SET number 5",
    "RPUSH list a b c d e f g h i j",
    "SADD set a b c d e f g h",
    "HSET hash f 1 g 2 h 3",
    "ZADD zset 1 a 2 b 3 c 4 d 5 e",
    "GEOADD geo 1 1 a 2 2 b",
    "PFADD sketch a b c",
    "SADD members {long}",
    "RPUSH long {long}",
];

/// Commands that store `k`, or make another value longer; `{long}` is a long argument.
const STORES: &[&str] = &[
    "SET k 1",
    "SET k {huge}",
    "SET str {long}",
    "SET k 1 NX PX 30000",
    "MSET k 1",
    "MSETNX k 1",
    "MSETEX 1 k 1",
    "SETEX k 7 1",
    "PSETEX k 7000 1",
    "SETNX k 1",
    "GETSET k 1",
    "GETLEASE k LEASE 7000",
    "APPEND k 1",
    "APPEND str {long}",
    "SETRANGE k 2 1",
    "SETRANGE str 900 1",
    "SETBIT k 2 1",
    "BITFIELD k SET u8 0 65",
    "BITOP NOT k str",
    "INCR k",
    "DECR k",
    "INCRBY k 2",
    "DECRBY k 2",
    "INCRBYFLOAT k 2",
    "INCREX k",
    "PFADD k a",
    "PFMERGE k sketch",
    "COPY str k",
    "RENAME str k",
    "RENAMENX str k",
    "SORT list ALPHA STORE k",
    "RESTORE k 0 \u{0}\u{3}ehz\u{6}\u{0}QKZVmCL9",
    "HSET k f 1",
    "HSET hash i {long}",
    "HMSET k f 1",
    "HSETNX k f 1",
    "HINCRBY k f 1",
    "HINCRBYFLOAT k f 1",
    "HSETEX k FIELDS 1 f 1",
    "HEXPIRE hash 100 FIELDS 1 f",
    "HPEXPIRE hash 100000 FIELDS 1 f",
    "HEXPIREAT hash 1700000100 FIELDS 1 f",
    "HPEXPIREAT hash 1700000100000 FIELDS 1 f",
    "SADD k m",
    "SADD set {long}",
    "SADDEX k MEMBERS 1 m",
    "SADDEX k EX 100 MEMBERS 1 m",
    "SEXPIRE set 100 MEMBERS 1 a",
    "SPEXPIRE set 100000 MEMBERS 1 a",
    "SEXPIREAT set 1700000100 MEMBERS 1 a",
    "SPEXPIREAT set 1700000100000 MEMBERS 1 a",
    "SMOVE set k a",
    "SUNIONSTORE k set",
    "SINTERSTORE k set",
    "SDIFFSTORE k set",
    "LPUSH k a",
    "RPUSH k a",
    "LPUSH list {long}",
    "LPUSHX list {long}",
    "RPUSHX list {long}",
    "LSET list 0 {long}",
    "LINSERT list BEFORE a {long}",
    "LMOVE list k LEFT LEFT",
    "LMOVEM list k LEFT LEFT COUNT 3 BULK",
    "LMOVE long list LEFT LEFT",
    "RPOPLPUSH list k",
    "BLMOVE list k LEFT LEFT 0",
    "BLMOVEM list k LEFT LEFT 0 COUNT 3 OBO",
    "BRPOPLPUSH list k 0",
    "ZADD k 1 m",
    "ZINCRBY k 1 m",
    "ZMOVE zset k MIN",
    "ZMOVEMEMBER zset k MEMBERS 1 b",
    "BZMOVE zset k MAX 0",
    "ZRANGESTORE k zset 0 -1",
    "ZUNIONSTORE k 1 zset",
    "ZINTERSTORE k 1 zset",
    "ZDIFFSTORE k 1 zset",
    "GEOADD k 1 1 m",
    "GEOSEARCHSTORE k geo FROMMEMBER a BYRADIUS 1 m",
    "GEORADIUS geo 1 1 9 m STORE k",
    "GEORADIUSBYMEMBER geo a 9 m STOREDIST k",
];

/// Commands that read, take away or change a time to live, which no full share refuses.
const OTHERS: &[&str] = &[
    "GET str",
    "STRLEN str",
    "LRANGE list 0 -1",
    "SMEMBERS set",
    "HGETALL hash",
    "ZRANGE zset 0 -1",
    "PFCOUNT sketch",
    "SCAN 0",
    "RANDOMKEY",
    "TYPE str",
    "DUMP str",
    "EXPIRE str 100",
    "PEXPIRE list 100000",
    "GETEX str EX 200",
    "PERSIST str",
    "INCR number",
    "SET number 7",
    "LPOP list",
    "RPOP list 2",
    "BLPOP list 0",
    "LMPOP 1 list LEFT",
    "LREM list 1 d",
    "LTRIM list 1 -1",
    "SPOP set",
    "SREM set a b",
    "HDEL hash f",
    "HGETDEL hash FIELDS 1 g",
    "ZPOPMIN zset",
    "BZPOPMAX zset 0",
    "ZREM zset c",
    "ZREMRANGEBYRANK zset 0 0",
    "SPOP members",
    "LPOP long",
    "GETDEL number",
    "UNLINK sketch",
    "DEL str",
];

/// A server with a connection to it, of whose databases some are kept.
struct Server {
    state: State,
    clock: Arc<ManualClock>,
    client: Session,
}

impl Server {
    fn new(keep: &str) -> Server {
        let clock = Arc::new(ManualClock::starting_at(Instant(0)));
        let settings = Settings {
            memory_bytes: 16 << 20,
            threads: 1,
            keep: Keep::parse(keep).unwrap(),
            ..Settings::default()
        };
        let state = state_of(settings, clock.clone(), UNIX_MS_AT_ZERO);
        let client = Server::connect(&state);
        Server {
            state,
            clock,
            client,
        }
    }

    fn connect(state: &State) -> Session {
        let seat = Seat {
            peer: "test".to_owned(),
            local: String::new(),
            ..Seat::default()
        };
        Session::resp(seat, state)
    }

    fn send(&mut self, command: &str) -> String {
        let answer = self.client.feed(&words(command), &self.state);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Stores strings until not even the shortest fits; how many fitted.
    fn fill(&mut self) -> usize {
        let mut stored = 0;
        for length in [1_000, 100, 10, 1] {
            let value = "v".repeat(length);
            loop {
                let answer = self.send(&format!("SET {stored} {value}"));
                if answer != "+OK\r\n" {
                    assert_eq!(answer, FULL);
                    break;
                }
                stored += 1;
            }
        }
        stored
    }

    /// A full database 3.
    fn full() -> Server {
        let mut server = Server::new("3,4:1MiB,5:1MiB");
        server.send("SELECT 3");
        for command in BEFORE {
            let answer = server.send(command);
            assert!(!answer.starts_with('-'), "{command}: {answer}");
        }
        assert!(server.fill() > 500);
        server
    }

    fn rest(&self) {
        for _ in 0..1_000 {
            self.clock.advance_ms(2);
            if !self.state.cache.tick() {
                return;
            }
        }
    }
}

fn expanded(command: &str) -> String {
    let command = command.replace("{long}", &"l".repeat(1_500));
    command.replace("{huge}", &"h".repeat(40_000))
}

fn words(command: &str) -> Vec<u8> {
    let command = expanded(command);
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    frame(&words)
}

fn first_word(command: &str) -> String {
    command.split(' ').next().unwrap().to_lowercase()
}

#[test]
fn bless_tells_which_databases_evict_nothing() {
    let refused = "-ERR keys of this database may be evicted: store the key in a database of \
                   --noeviction-databases\r\n";
    let mut server = Server::new("3:1MiB");
    let syntax = "-ERR syntax error\r\n";
    let absent = "-ERR no such key\r\n";
    for (command, answer) in [
        ("SET k v", "+OK\r\n"),
        ("BLESS GET k", "*0\r\n"),
        ("BLESS GET none", absent),
        ("BLESS SET k NO-EVICT", refused),
        ("BLESS SET none NO-EVICT", absent),
        ("BLESS SET k NONE", syntax),
        ("BLESS CLEAR k no-evict", ":0\r\n"),
        ("BLESS CLEAR none NO-EVICT", absent),
        ("BLESS CLEAR k NONE", syntax),
        ("BLESS SCAN 0 NO-EVICT", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("SELECT 3", "+OK\r\n"),
        ("SADD s a", ":1\r\n"),
        ("BLESS SET s no-evict", ":0\r\n"),
        ("BLESS GET s", "*1\r\n$8\r\nNO-EVICT\r\n"),
        (
            "BLESS CLEAR s NO-EVICT",
            "-ERR a database of --noeviction-databases evicts no key\r\n",
        ),
        (
            "BLESS SCAN 0 NO-EVICT COUNT 9",
            "*2\r\n$1\r\n0\r\n*1\r\n$1\r\ns\r\n",
        ),
        ("BLESS SCAN 0 NO-EVICT COUNT", syntax),
        ("BLESS SCAN 0 NONE", syntax),
        ("BLESS SCAN x NO-EVICT", "-ERR invalid cursor\r\n"),
    ] {
        assert_eq!(server.send(command), answer, "{command}");
    }
    let stats = server.send("INFO stats");
    assert!(stats.contains("\r\nblessed_keys:1\r\n"), "{stats}");
}

#[test]
fn every_command_that_may_store_is_below() {
    let known: HashSet<String> = STORES.iter().map(|line| first_word(line)).collect();
    // Libraries of functions lie in no database.
    let rows = TABLE
        .iter()
        .filter(|row| row.name != "function")
        .flat_map(|row| [row].into_iter().chain(row.subcommands));
    for row in rows.filter(|row| row.flags.has(Flags::DENYOOM)) {
        assert!(known.contains(row.name), "{}", row.name);
    }
}

#[test]
fn a_full_share_refuses_whatever_stores_and_changes_nothing() {
    let mut stored = Vec::new();
    for &command in STORES {
        let mut server = Server::full();
        let before = server.send("DBSIZE");
        let answer = server.send(command);
        if answer != FULL {
            stored.push(format!("{command}: {answer}"));
            continue;
        }
        assert_eq!(server.send("EXISTS k"), ":0\r\n", "{command}");
        assert_eq!(server.send("DBSIZE"), before, "{command}");
        let list = server.send("LLEN list") + &server.send("SCARD set") + &server.send("GET str");
        assert_eq!(list, ":10\r\n:8\r\n$1\r\nv\r\n", "{command}");
        // The same in a transaction: the others of it run.
        server.send("MULTI");
        server.send("GET number");
        server.send(command);
        let answer = server.send("EXEC");
        assert_eq!(answer, format!("*2\r\n$1\r\n5\r\n{FULL}"), "{command}");
        // And in scripts, which are told and may go on.
        let args = expanded(command);
        let mut script: Vec<&[u8]> = vec![b"EVAL", b"return redis.call(unpack(ARGV))", b"0"];
        script.extend(args.split(' ').map(str::as_bytes));
        let answer = server.client.feed(&frame(&script), &server.state);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(FULL.trim_end()), "{command}: {answer}");
        script[1] =
            b"local r = redis.pcall(unpack(ARGV)) return {r.err, redis.call('GET', 'number')}";
        let answer = server.client.feed(&frame(&script), &server.state);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let told = FULL[1..].trim_end();
        let expected = format!("*2\r\n${}\r\n{told}\r\n$1\r\n5\r\n", told.len());
        assert_eq!(answer, expected, "{command}");
        assert_eq!(server.send("EXISTS k"), ":0\r\n", "{command}");
    }
    assert!(stored.is_empty(), "{stored:#?}");
}

#[test]
fn what_stores_several_keys_if_none_is_there_stores_all_or_none() {
    for command in [
        "MSETNX a 1 b {long} c {long} d {huge}",
        "MSETEX 3 a 1 b 2 c {huge} NX EX 100",
    ] {
        let mut server = Server::full();
        // So much that the first keys find room.
        for key in 0..20 {
            server.send(&format!("DEL {key}"));
        }
        server.rest();
        let before = server.send("DBSIZE");
        assert_eq!(server.send("SET a 1"), "+OK\r\n", "{command}");
        assert_eq!(server.send("DEL a"), ":1\r\n", "{command}");
        assert_eq!(server.send(command), FULL, "{command}");
        assert_eq!(server.send("EXISTS a b c d"), ":0\r\n", "{command}");
        assert_eq!(server.send("DBSIZE"), before, "{command}");
    }
}

#[test]
fn a_full_share_reads_pops_deletes_and_counts_on() {
    let mut server = Server::full();
    for &command in OTHERS {
        let answer = server.send(command);
        assert!(!answer.starts_with('-'), "{command}: {answer}");
    }
    // What has gone makes room.
    for number in 0..200 {
        server.send(&format!("DEL {number}"));
    }
    server.rest();
    for number in 0..100 {
        let answer = server.send(&format!("SET {number} {{long}}").replace("{long}", "x"));
        assert_eq!(answer, "+OK\r\n");
    }
    server.fill();
    assert_eq!(server.send("FLUSHDB"), "+OK\r\n");
    assert!(server.fill() > 500);
    assert_eq!(server.send("FLUSHALL"), "+OK\r\n");
    assert!(server.fill() > 500);
}

#[test]
fn what_comes_from_other_databases_has_to_fit_and_what_goes_is_gone() {
    let mut server = Server::full();
    server.send("SELECT 0");
    server.send("SET k 1");
    server.send("SET x {long}");
    assert_eq!(server.send("MOVE k 3"), FULL);
    assert_eq!(server.send("COPY k k DB 3"), FULL);
    assert_eq!(server.send("GET k"), "$1\r\n1\r\n");
    // Database 4 draws on the same share, 5 on another.
    assert_eq!(server.send("MOVE k 4"), FULL);
    assert_eq!(server.send("COPY x x DB 5"), ":1\r\n");
    assert_eq!(server.send("MOVE k 5"), ":1\r\n");
    server.send("SELECT 3");
    assert_eq!(server.send("MOVE list 0"), ":1\r\n");
    assert_eq!(server.send("EXISTS list"), ":0\r\n");
    server.send("SELECT 0");
    assert_eq!(server.send("LLEN list"), ":10\r\n");
    for pair in ["0 3", "3 0", "3 5", "5 4"] {
        let answer = server.send(&format!("SWAPDB {pair}"));
        assert!(
            answer.starts_with("-ERR SWAPDB needs two databases that share"),
            "{answer}"
        );
    }
    assert_eq!(server.send("SWAPDB 3 4"), "+OK\r\n");
    assert_eq!(server.send("SWAPDB 0 1"), "+OK\r\n");
    server.send("SELECT 4");
    assert_eq!(server.send("GET str"), "$1\r\nv\r\n");
}

#[test]
fn expired_items_give_their_share_back() {
    let mut server = Server::new("3:1MiB");
    server.send("SELECT 3");
    let mut stored = 0;
    while server.send(&format!("SET {stored} {{long}} PX 5000")) == "+OK\r\n" {
        stored += 1;
    }
    assert!(stored > 400, "{stored}");
    server.clock.advance_ms(6_000);
    for number in 0..stored * 9 / 10 {
        let answer = server.send(&format!("SET {number} {{long}}"));
        assert_eq!(answer, "+OK\r\n", "{number} of {stored}");
    }
}

#[test]
fn it_is_shown_wherever_settings_are_and_refusals_are_counted() {
    let mut server = Server::full();
    let answer = server.send("CONFIG GET keep");
    assert!(answer.contains("3,4:1MiB,5:1MiB"), "{answer}");
    assert!(server.send("CONFIG SET keep none").starts_with("-ERR"));
    let answer = server.send("CONFIG GET maxmemory-policy");
    assert!(answer.contains("allkeys-lfu"), "{answer}");
    let answer = server.send("INFO memory");
    assert!(answer.contains("keep:3,4:1MiB,5:1MiB\r\n"), "{answer}");
    let shown = answer.lines().find(|line| line.starts_with("kept0:"));
    let shown = shown.unwrap().to_owned();
    assert!(
        shown.starts_with("kept0:databases=3+4,memory=1048576,used="),
        "{shown}"
    );
    let field = |name: &str| -> u64 {
        let value = shown.split(',').find_map(|part| part.strip_prefix(name));
        value.unwrap().parse().unwrap()
    };
    assert!(field("used=") > 900_000 && field("keys=") > 500 && field("refused=") >= 4);
    assert!(
        answer.contains("kept1:databases=5,memory=1048576,used="),
        "{answer}"
    );
    // The least that is left to the cache counts what is kept.
    let answer = server.send("CONFIG SET maxmemory 5505023");
    assert!(
        answer.contains("from 5767168 to 16777216 bytes"),
        "{answer}"
    );
    assert_eq!(server.send("CONFIG SET maxmemory 5767168"), "+OK\r\n");
    let mut http = Session::http();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let page = http.feed(request, &server.state);
    let page = String::from_utf8_lossy(&page);
    for sample in [
        "cellar_kept_memory_bytes{databases=\"3,4\"} 1048576",
        "cellar_kept_used_bytes{databases=\"5\"} ",
        "cellar_kept_refused_stores_total{databases=\"3,4\"} ",
    ] {
        assert!(page.contains(sample), "{sample}: {page}");
    }
    let stats = Session::memcached().feed(b"stats settings\r\n", &server.state);
    let stats = String::from_utf8_lossy(&stats);
    assert!(stats.contains("STAT keep 3,4:1MiB,5:1MiB\r\n"), "{stats}");
}

#[test]
fn a_queue_and_a_lock_survive_a_flood_of_ten_times_the_memory() {
    let mut server = Server::new("3:1MiB");
    server.send("SELECT 3");
    assert_eq!(server.send("SET lock me NX PX 600000"), "+OK\r\n");
    for number in 0..2_000 {
        server.send(&format!("LPUSH queue job-{number}"));
    }
    let mut flood = Server::connect(&server.state);
    let value = "x".repeat(4_000);
    for number in 0..10 * (16 << 20) / 4_000 {
        let answer = flood.feed(&words(&format!("SET {number} {value}")), &server.state);
        assert_eq!(answer, b"+OK\r\n");
        if number % 1_000 == 0 {
            server.clock.advance_ms(2);
            server.state.cache.tick();
        }
    }
    assert!(server.state.cache.stats().evicted > 20_000);
    assert_eq!(server.send("SET lock you NX PX 600000"), "$-1\r\n");
    assert_eq!(server.send("GET lock"), "$2\r\nme\r\n");
    for number in 0..2_000 {
        let job = format!("job-{number}");
        let expected = format!("*2\r\n$5\r\nqueue\r\n${}\r\n{job}\r\n", job.len());
        assert_eq!(server.send("BRPOP queue 0"), expected);
    }
    assert_eq!(server.send("EXISTS queue"), ":0\r\n");
}

#[test]
fn who_waits_in_a_database_of_its_own_is_served() {
    let server = Daemon::start(&["--memory", "16MiB", "--noeviction-databases", "3:1MiB"]);
    let (mut waits, mut stores) = (server.connect_resp(), server.connect_resp());
    for stream in [&mut waits, &mut stores] {
        check(stream, &words("SELECT 3"), b"+OK\r\n");
    }
    waits.write_all(&words("BRPOP queue 0")).unwrap();
    check(&mut stores, &words("LPUSH queue a"), b":1\r\n");
    expect(&mut waits, b"*2\r\n$5\r\nqueue\r\n$1\r\na\r\n");
    check(&mut stores, &words("EXISTS queue"), b":0\r\n");
}
