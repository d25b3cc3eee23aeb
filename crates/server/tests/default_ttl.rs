//! `--default-ttl`: how long an item lives that is stored without a time to live.
//!
//! Every command that there is stands below, by what it does with lifetimes: a new one is missing
//! until it does. Those that store are run in every way in which a client can send them, with every
//! form of the setting.

use crate::support::{daemon, session};

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use cellar_config::protocol::Protocol;
use cellar_config::settings::Settings;
use cellar_config::settings::default_ttl::DefaultTtl;
use cellar_engine::{Deadline, Instant, ManualClock};
use cellar_protocol::memcached::command::COMMANDS;
use cellar_protocol::resp::command::{Flags, TABLE};
use cellar_shared::clients::client::Seat;
use cellar_shared::state::State;

use daemon::frame;
use session::{Session, UNIX_MS_AT_ZERO, state_of};

/// What becomes of the deadline when a store is sent again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Again {
    /// It stays: the command changes what is there, or leaves it.
    Keeps,
    /// The item is stored anew, and lives as long as a new one.
    Renews,
}
use Again::{Keeps, Renews};

/// Commands that store `k` without a time to live; the last of those between semicolons is meant.
const RESP_STORES: &[(&str, Again)] = &[
    ("SET k 1", Renews),
    ("SET k 1 GET", Renews),
    ("SET k 1 IFNE 2", Renews),
    ("SET k 1 NX", Keeps),
    ("SET k 1 KEEPTTL", Keeps),
    ("SET k {large}", Renews),
    ("SET k {large} KEEPTTL", Keeps),
    ("MSET x 1 k 1", Renews),
    ("MSETNX k 1 x 1", Keeps),
    ("MSETEX 1 k 1", Renews),
    ("MSETEX 2 x 1 k 1 KEEPTTL", Keeps),
    ("SETNX k 1", Keeps),
    ("GETSET k 1", Renews),
    ("LPUSH k a", Keeps),
    ("RPUSH k a", Keeps),
    ("RPUSH x a;LMOVE x k LEFT LEFT", Keeps),
    ("RPUSH x a b;LMOVEM x k LEFT LEFT COUNT 2 BULK", Keeps),
    ("RPUSH x a;RPOPLPUSH x k", Keeps),
    ("RPUSH x a;BLMOVE x k LEFT LEFT 0", Keeps),
    ("RPUSH x a;BLMOVEM x k LEFT LEFT 0", Keeps),
    ("RPUSH x a;BRPOPLPUSH x k 0", Keeps),
    ("APPEND k 1", Keeps),
    ("SETRANGE k 2 1", Keeps),
    ("SETBIT k 2 1", Keeps),
    ("INCR k", Keeps),
    ("DECR k", Keeps),
    ("INCRBY k 2", Keeps),
    ("DECRBY k 2", Keeps),
    ("INCRBYFLOAT k 2", Keeps),
    ("INCREX k", Keeps),
    ("INCREX k BYFLOAT 1.5 UBOUND 9", Keeps),
    ("HSET k f 1", Keeps),
    ("HMSET k f 1", Keeps),
    ("HSETNX k f 1", Keeps),
    ("HINCRBY k f 1", Keeps),
    ("HINCRBYFLOAT k f 1", Keeps),
    ("HSETEX k FIELDS 1 f 1", Keeps),
    ("HSETEX k EX 7 FIELDS 1 f 1;HPERSIST k FIELDS 1 f", Keeps),
    ("SADD k m", Keeps),
    ("SADDEX k MEMBERS 1 m", Keeps),
    ("SADDEX k EX 7 MEMBERS 1 m;SPERSIST k MEMBERS 1 m", Keeps),
    ("SADD x m;SMOVE x k m", Keeps),
    ("SADD x m;SUNIONSTORE k x", Renews),
    ("ZADD x 1 m;ZUNIONSTORE k 1 x", Renews),
    ("ZADD x 1 m;ZINTERSTORE k 1 x", Renews),
    ("ZADD x 1 m;ZDIFFSTORE k 1 x", Renews),
    ("ZADD x 1 m;ZRANGESTORE k x 0 -1", Renews),
    ("GEOADD k 1 1 m", Keeps),
    (
        "GEOADD x 1 1 m;GEOSEARCHSTORE k x FROMMEMBER m BYRADIUS 1 m",
        Renews,
    ),
    ("GEOADD x 1 1 m;GEORADIUS x 1 1 9 m STORE k", Renews),
    (
        "GEOADD x 1 1 m;GEORADIUSBYMEMBER x m 9 m STOREDIST k",
        Renews,
    ),
    ("PFADD k a", Keeps),
    ("PFADD x a;PFMERGE k x", Keeps),
    ("RPUSH x 1;SORT x STORE k", Renews),
    (
        "RESTORE k 0 \u{0}\u{3}ehz\u{6}\u{0}QKZVmCL9 REPLACE",
        Renews,
    ),
    ("SET x a;BITOP NOT k x", Renews),
    ("BITFIELD k SET u8 0 65", Keeps),
    ("SADD x m;SINTERSTORE k x", Renews),
    ("SADD x m;SDIFFSTORE k x y", Renews),
    ("ZADD k 1 m", Keeps),
    ("ZINCRBY k 1 m", Keeps),
    ("ZADD x 1 m;ZMOVE x k MIN", Keeps),
    ("ZADD x 1 m;ZMOVEMEMBER x k MEMBERS 1 m", Keeps),
    ("ZADD x 1 m;BZMOVE x k MIN 0", Keeps),
];

/// Commands that name the time to live of `k`, and what it has then; `None` is for ever.
const RESP_NAMES: &[(&str, Option<u64>)] = &[
    ("SET k 1 EX 7", Some(7_000)),
    ("SET k {large} PX 7000", Some(7_000)),
    ("SET k 1 EX 7;SET k 2 KEEPTTL", Some(7_000)),
    ("SETEX k 7 1", Some(7_000)),
    ("PSETEX k 7 1", Some(7)),
    ("MSETEX 1 k 1 EX 7", Some(7_000)),
    ("INCREX k EX 7", Some(7_000)),
    ("INCREX k EX 7 ENX", Some(7_000)),
    ("INCREX k PERSIST", None),
    ("HSETEX k EX 7 FIELDS 1 f 1", Some(7_000)),
    ("SADDEX k EX 7 MEMBERS 1 m", Some(7_000)),
    ("GETLEASE k LEASE 7000", Some(7_000)),
    ("SET k 1;EXPIRE k 7", Some(7_000)),
    ("SET k 1;PEXPIRE k 7", Some(7)),
    ("SET k 1;EXPIREAT k 1700000007", Some(7_000)),
    ("SET k 1;PEXPIREAT k 1700000000007", Some(7)),
    ("SET k 1;PERSIST k", None),
    ("SET k 1;GETEX k PERSIST", None),
    ("SET k 1;PERSIST k;APPEND k 1", None),
    ("SADD k m;PERSIST k;SADD k n", None),
    ("HSET k f 1;PERSIST k;HSET k g 1", None),
    (
        "HSETEX k EX 7 FIELDS 1 f 1;PERSIST k;HPERSIST k FIELDS 1 f",
        None,
    ),
    ("SET x 1 EX 7;COPY x k", Some(7_000)),
    ("SET x 1 EX 7;RENAME x k", Some(7_000)),
    ("SET x 1 EX 7;RENAMENX x k", Some(7_000)),
    ("SET x 1;PERSIST x;COPY x k", None),
    ("SET x 1;PERSIST x;RENAME x k", None),
    ("SET k 1;INVALIDATE k STALE 7000", Some(7_000)),
];

/// Commands that write and make no key.
const RESP_OTHERS: &[&str] = &[
    "getdel",
    "delifeq",
    "delex",
    "del",
    "unlink",
    "move",
    "hdel",
    "hexpire",
    "hpexpire",
    "hexpireat",
    "hpexpireat",
    "hgetex",
    "hgetdel",
    "srem",
    "spop",
    "sexpire",
    "spexpire",
    "sexpireat",
    "spexpireat",
    "zrem",
    "zremrangebyscore",
    "zremrangebyrank",
    "zremrangebylex",
    "zpopmin",
    "lpushx",
    "rpushx",
    "lpop",
    "rpop",
    "ltrim",
    "lset",
    "zmpop",
    "linsert",
    "lrem",
    "lmpop",
    "blpop",
    "brpop",
    "blmpop",
    "bzpopmin",
    "bzpopmax",
    "bzmpop",
    "zpopmax",
    // BLESS.
    "clear",
    "flush",
    // Libraries of functions.
    "load",
    "delete",
    "flushall",
    "flushdb",
    "swapdb",
];

/// Lines of memcached's protocol that store `k`; `|` is the end of one.
const MEMCACHED_STORES: &[(&str, Again)] = &[
    ("set k 0 0 1|1|", Renews),
    ("set k 0 0 20000|{large}|", Renews),
    ("add k 0 0 1|1|", Keeps),
    ("add k 0 0 1|1|replace k 0 0 1|1|", Renews),
    ("add k 0 0 1|1|append k 0 0 1|1|", Keeps),
    ("add k 0 0 1|1|prepend k 0 0 1|1|", Keeps),
    ("add k 0 0 1|1|incr k 1|", Keeps),
    ("add k 0 0 1|1|decr k 1|", Keeps),
    ("ms k 1 E7|1|cas k 0 0 1 7|1|", Renews),
    ("ms k 1|1|", Renews),
    ("ms k 1 T0|1|", Renews),
    ("ms k 20000|{large}|", Renews),
    ("ms k 1 MA N0|1|", Keeps),
    ("mg k v N0|", Keeps),
    ("ma k N0|", Keeps),
    ("set k 0 0 1|1|md k x|", Renews),
];

/// Lines that name the time to live of `k`.
const MEMCACHED_NAMES: &[(&str, Option<u64>)] = &[
    ("set k 0 7 1|1|", Some(7_000)),
    ("set k 0 1700000007 1|1|", Some(7_000)),
    ("ms k 1 T7|1|", Some(7_000)),
    ("ms k 1 MA N7|1|", Some(7_000)),
    ("mg k N7|", Some(7_000)),
    ("ma k N7|", Some(7_000)),
    ("set k 0 0 1|1|touch k 7|", Some(7_000)),
    ("set k 0 0 1|1|touch k 0|", None),
    ("set k 0 0 1|1|gat 0 k|", None),
    ("set k 0 0 1|1|gats 0 k|", None),
    ("set k 0 0 1|1|mg k T0|", None),
    ("set k 0 0 1|1|touch k 0|append k 0 0 1|1|", None),
    ("set k 0 0 1|1|ma k T0|", None),
    ("set k 0 0 1|1|md k x T7|", Some(7_000)),
];

/// Commands that make no item.
const MEMCACHED_OTHERS: &[&str] = &[
    "get",
    "gets",
    "delete",
    "mn",
    "me",
    "flush_all",
    "cache_memlimit",
    "stats",
    "verbosity",
    "version",
    "quit",
    "stats mrc",
    "stats misses",
    "stats hotkeys",
    "stats compression",
    "config get cluster",
    "stats cachedump",
    "lru_crawler metadump",
    "lru_crawler mgdump",
];

/// Requests over HTTP that store `k`: method, path, body.
const HTTP_STORES: &[(&str, &str, Again)] = &[
    ("PUT /v1/cache/k", "1", Renews),
    ("PUT /v1/cache/k", "{large}", Renews),
    ("POST /v1/cache/k/incr", "", Keeps),
    ("POST /v1/cache", r#"{"id":"k","content":"1"}"#, Renews),
    (
        "POST /v1/cache",
        r#"{"id":"k","content":"1","ttl":null}"#,
        Renews,
    ),
    (
        "POST /v1/cache/batch/put",
        r#"{"items":[{"id":"k","content":1}]}"#,
        Renews,
    ),
];

/// Requests that name the time to live of `k`.
const HTTP_NAMES: &[(&str, &str, Option<u64>)] = &[
    ("PUT /v1/cache/k?ttl=7", "1", Some(7_000)),
    ("PUT /v1/cache/k?ttl=never", "1", None),
    ("PUT /v1/cache/k?ttl=never", "{large}", None),
    ("POST /v1/cache/k/incr?ttl=7ms", "", Some(7)),
    ("POST /v1/cache/k/incr?ttl=never", "", None),
    (
        "POST /v1/cache",
        r#"{"id":"k","content":1,"ttl":"7s"}"#,
        Some(7_000),
    ),
    (
        "POST /v1/cache",
        r#"{"id":"k","content":1,"ttl":"never"}"#,
        None,
    ),
    ("GET /v1/cache/k?lease=7s", "", Some(7_000)),
];

/// Paths that store nothing.
const HTTP_OTHERS: &[&str] = &[
    "DELETE /v1/cache/k",
    "HEAD /v1/cache/k",
    "POST /v1/cache/k/invalidate",
    "GET /v1/cache",
    "HEAD /v1/cache",
    "POST /v1/cache/batch/get",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /v1/console/history",
    "GET /v1/console/status",
    "GET /v1/cluster",
];

const LARGE_BYTES: usize = 20_000;

/// A server with a connection to it.
struct Server {
    state: State,
    clock: Arc<ManualClock>,
    client: Session,
    database: u32,
}

impl Server {
    fn new(default_ttl: &str, protocol: Protocol) -> Server {
        let clock = Arc::new(ManualClock::starting_at(Instant(0)));
        let settings = Settings {
            memory_bytes: 16 << 20,
            threads: 1,
            default_ttl: DefaultTtl::parse(default_ttl).unwrap(),
            ..Settings::default()
        };
        let state = state_of(settings, clock.clone(), UNIX_MS_AT_ZERO);
        let client = match protocol {
            Protocol::Memcached => Session::memcached(),
            Protocol::Http => Session::http(),
            Protocol::Resp => {
                let seat = Seat {
                    peer: "test".to_owned(),
                    local: String::new(),
                    ..Seat::default()
                };
                Session::resp(seat, &state)
            }
        };
        Server {
            state,
            clock,
            client,
            database: 0,
        }
    }

    fn send(&mut self, request: &[u8]) -> String {
        let answer = self.client.feed(request, &self.state);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn select(&mut self, database: u32) {
        self.send(&words(&format!("SELECT {database}")));
        self.database = database;
    }

    /// Milliseconds that `k` has left; none for ever.
    fn left_ms(&self) -> Option<u64> {
        let cache = &self.state.cache;
        let space = self.state.databases.space(self.database);
        let key = cache.key_in(space, b"k").unwrap();
        let deadline = cache.facts(key, |facts| facts.deadline);
        let deadline: Deadline = deadline.expect("the item is stored");
        deadline.remaining_ms(cache.now())
    }
}

fn words(command: &str) -> Vec<u8> {
    let command = with_large(command);
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    frame(&words)
}

fn with_large(text: &str) -> String {
    text.replace("{large}", &"v".repeat(LARGE_BYTES))
}

/// Commands of RESP in a way in which they can be sent.
fn resp(commands: &str, way: &str) -> Vec<u8> {
    let in_script = |command: &str| {
        let script = "return redis.call(unpack(ARGV))";
        let command = with_large(command);
        let mut args: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"0"];
        args.extend(command.split(' ').map(str::as_bytes));
        frame(&args)
    };
    let each = commands.split(';');
    match way {
        "script" => each.flat_map(in_script).collect(),
        "transaction" => {
            let queued = each.flat_map(words);
            let all = words("MULTI").into_iter().chain(queued);
            all.chain(words("EXEC")).collect()
        }
        _ => each.flat_map(words).collect(),
    }
}

const WAYS: [&str; 3] = ["alone", "transaction", "script"];

fn memcached(lines: &str) -> Vec<u8> {
    with_large(&lines.replace('|', "\r\n")).into_bytes()
}

fn http(line: &str, body: &str) -> Vec<u8> {
    let (body, length) = (with_large(body), with_large(body).len());
    format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Cache-Lease: ask\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Stores, lets a second pass and stores again.
fn check_store(server: &mut Server, name: &str, request: &[u8], again: Again, ttl_ms: u64) {
    let ttl = (ttl_ms > 0).then_some(ttl_ms);
    let answer = server.send(request);
    assert_eq!(server.left_ms(), ttl, "{name}: {answer}");
    server.clock.advance_ms(1_000);
    let answer = server.send(request);
    let left = match again {
        Renews => ttl,
        Keeps => ttl.map(|ttl_ms| ttl_ms - 1_000),
    };
    assert_eq!(server.left_ms(), left, "{name} again: {answer}");
}

/// The setting, a database of RESP, and what is stored there lives in milliseconds, by protocol.
const SETTINGS: &[(&str, u32, [u64; 3])] = &[
    ("0", 0, [0, 0, 0]),
    ("10m", 0, [600_000, 600_000, 600_000]),
    ("memcached=10m", 0, [600_000, 0, 0]),
    ("resp=10m", 3, [0, 600_000, 0]),
    ("http=10m,1h", 0, [3_600_000, 3_600_000, 600_000]),
    ("resp:3=10m", 3, [0, 600_000, 0]),
    ("resp:3=10m,1h", 0, [3_600_000, 3_600_000, 3_600_000]),
    ("resp:0=0,10m", 0, [600_000, 0, 600_000]),
];

#[test]
fn what_is_stored_without_a_time_to_live_gets_the_default() {
    for &(setting, database, [memcached_ms, resp_ms, http_ms]) in SETTINGS {
        for &(commands, again) in RESP_STORES {
            for way in WAYS {
                let mut server = Server::new(setting, Protocol::Resp);
                server.select(database);
                let name = format!("{setting}: {commands} {way}");
                let request = resp(commands, way);
                check_store(&mut server, &name, &request, again, resp_ms);
            }
        }
        for &(lines, again) in MEMCACHED_STORES {
            let mut server = Server::new(setting, Protocol::Memcached);
            let name = format!("{setting}: {lines}");
            check_store(&mut server, &name, &memcached(lines), again, memcached_ms);
        }
        for &(line, body, again) in HTTP_STORES {
            let mut server = Server::new(setting, Protocol::Http);
            let name = format!("{setting}: {line} {body}");
            check_store(&mut server, &name, &http(line, body), again, http_ms);
        }
    }
}

#[test]
fn a_time_to_live_that_is_named_counts() {
    let check = |protocol, name: &str, request: &[u8], ttl| {
        for setting in ["0", "10m"] {
            let mut server = Server::new(setting, protocol);
            let answer = server.send(request);
            assert_eq!(server.left_ms(), ttl, "{setting}: {name}: {answer}");
        }
    };
    for &(commands, ttl) in RESP_NAMES {
        for way in WAYS {
            check(Protocol::Resp, commands, &resp(commands, way), ttl);
        }
    }
    for &(lines, ttl) in MEMCACHED_NAMES {
        check(Protocol::Memcached, lines, &memcached(lines), ttl);
    }
    for &(line, body, ttl) in HTTP_NAMES {
        check(Protocol::Http, line, &http(line, body), ttl);
    }
}

#[test]
fn every_command_stands_in_one_of_the_lists() {
    let last = |commands: &str| commands.rsplit(';').next().unwrap().to_owned();
    let first_word = |command: String| command.split(' ').next().unwrap().to_lowercase();
    let stores = RESP_STORES.iter().map(|row| row.0);
    let all = stores.chain(RESP_NAMES.iter().map(|row| row.0));
    let mut known: HashSet<String> = all.map(|row| first_word(last(row))).collect();
    known.extend(RESP_OTHERS.iter().map(|&name| name.to_owned()));
    let rows = TABLE
        .iter()
        .flat_map(|row| [row].into_iter().chain(row.subcommands));
    for row in rows.filter(|row| row.flags.has(Flags::WRITE)) {
        assert!(known.contains(row.name), "{}", row.name);
    }

    let stores = MEMCACHED_STORES.iter().map(|row| row.0);
    let all = stores.chain(MEMCACHED_NAMES.iter().map(|row| row.0));
    let lines = all.flat_map(|lines| lines.split('|'));
    let mut known: HashSet<String> = lines.map(|line| first_word(line.to_owned())).collect();
    known.extend(MEMCACHED_OTHERS.iter().map(|&name| name.to_owned()));
    for row in COMMANDS {
        assert!(known.contains(row.name), "{}", row.name);
    }

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = std::fs::read_to_string(path).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let stores = HTTP_STORES.iter().map(|row| row.0);
    let all = stores.chain(HTTP_NAMES.iter().map(|row| row.0));
    let mut known: HashSet<&str> = all.map(|line| line.split('?').next().unwrap()).collect();
    known.extend(HTTP_OTHERS);
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys();
        for method in methods.filter(|word| *word != "parameters") {
            let line = format!("{} {}", method.to_uppercase(), path.replace("{key}", "k"));
            assert!(known.contains(line.as_str()), "{line}");
        }
    }
}

#[test]
fn it_is_changed_while_the_server_runs_and_shown_wherever_settings_are() {
    let mut server = Server::new("10m", Protocol::Resp);
    server.send(&words("SET k 1"));
    assert_eq!(server.left_ms(), Some(600_000));
    for bad in ["10", "resp:16=10m", "never"] {
        let answer = server.send(&words(&format!("CONFIG SET default-ttl {bad}")));
        assert!(answer.starts_with("-ERR CONFIG SET failed"), "{answer}");
    }
    server.send(&words("CONFIG SET default-ttl http=60m,resp=5s,resp:3=0"));
    let shown = "memcached=0,resp=5s,http=1h,resp:3=0";
    // What is stored already keeps what it has.
    assert_eq!(server.left_ms(), Some(600_000));
    server.send(&words("SET k 1"));
    assert_eq!(server.left_ms(), Some(5_000));

    let answer = server.send(&words("CONFIG GET default-ttl"));
    assert!(answer.contains(&format!("\r\n{shown}\r\n")), "{answer}");
    let answer = server.send(&words("INFO memory"));
    assert!(
        answer.contains(&format!("default_ttl:{shown}\r\n")),
        "{answer}"
    );
    let answer = Session::memcached().feed(b"stats settings\r\n", &server.state);
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.contains(&format!("STAT default_ttl {shown}\r\n")),
        "{answer}"
    );
    let page = |path: &str| {
        let answer = Session::http().feed(&http(&format!("GET {path}"), ""), &server.state);
        String::from_utf8(answer).unwrap()
    };
    let answer = page("/metrics");
    for sample in ["\"resp\"} 5\n", "\"http\"} 3600\n", "\"resp:3\"} 0\n"] {
        let sample = format!("cellar_default_ttl_seconds{{scope={sample}");
        assert!(answer.contains(&sample), "{sample}");
    }
    // The console shows these.
    let setting = format!(r#"{{"name":"default-ttl","value":"{shown}"}}"#);
    assert!(page("/v1/console/status").contains(&setting));
}

#[test]
fn a_default_is_no_event_of_its_own() {
    let mut server = Server::new("10m", Protocol::Resp);
    server.send(&words("CONFIG SET notify-keyspace-events AKE"));
    server.send(&words("PSUBSCRIBE __keyevent@0__:*"));
    let mut others = [Session::memcached(), Session::http()];
    let stores = [
        memcached(MEMCACHED_STORES[0].0),
        http("PUT /v1/cache/k", "1"),
    ];
    let named = [
        memcached(MEMCACHED_NAMES[0].0),
        http("PUT /v1/cache/k?ttl=7", "1"),
    ];
    for (requests, events) in [(stores, "set"), (named, "expire")] {
        for (client, request) in others.iter_mut().zip(&requests) {
            client.feed(request, &server.state);
        }
        let told = server.send(&words("PING"));
        let count = told.matches(&format!("__:{events}\r\n")).count();
        assert_eq!(count, 2, "{told}");
        let expires = told.matches("__:expire\r\n").count();
        assert_eq!(expires, if events == "expire" { 2 } else { 0 }, "{told}");
    }
}
