//! Keys over RESP: their lives, deadlines, names and listings.

use crate::support::{daemon, http, resp};

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use daemon::Daemon;
use http::Http;
use resp::{Client, Value, bulk, bulks, check_alone as check, ok};

#[test]
fn keys_are_counted_and_removed() {
    check(
        "MSET a 1 b 2 c 3 => +OK
        EXISTS a a b none => :3
        TOUCH a b none => :2
        TYPE a => +string
        TYPE none => +none
        DEL a none a => :1
        UNLINK b c none => :2
        EXISTS a b c => :0
        WAIT 0 0 => :0
        WAIT 1 -1 => -ERR timeout is negative",
    );
}

#[test]
fn a_key_that_is_too_long_is_nobodys() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let long = vec![b'k'; 65_536];
    let call = |client: &mut Client, name: &[u8]| client.call(&[name, b"a", &long]);
    assert_eq!(client.run("SET a 1"), ok());
    assert_eq!(call(&mut client, b"EXISTS"), Value::Integer(1));
    assert_eq!(call(&mut client, b"DEL"), Value::Integer(1));
    let refused = Value::Error("ERR key is longer than 65535 bytes".to_owned());
    assert_eq!(call(&mut client, b"RENAME"), refused);
    assert_eq!(client.call(&[b"INCR", &long]), refused);
    assert_eq!(client.call(&[b"SET", b"", b"empty"]), ok());
    assert_eq!(client.call(&[b"GET", b""]), bulk("empty"));
}

#[test]
fn a_deadline_is_exact_to_the_millisecond() {
    check(
        "SET a 1 => +OK
        PEXPIREAT a 4000000000499 => :1
        PEXPIRETIME a => :4000000000499
        EXPIRETIME a => :4000000000
        PEXPIREAT a 4000000000500 => :1
        EXPIRETIME a => :4000000001
        EXPIREAT a 4000000000 => :1
        PEXPIRETIME a => :4000000000000
        PERSIST a => :1
        PERSIST a => :0
        EXPIRETIME a => :-1
        PEXPIRETIME none => :-2
        TTL a => :-1
        PTTL none => :-2
        EXPIRE a 100 => :1
        TTL a => :100
        EXPIRE none 100 => :0",
    );
}

#[test]
fn expire_takes_conditions() {
    check(
        "SET a 1 => +OK
        EXPIRE a 100 XX => :0
        EXPIRE a 100 GT => :0
        EXPIRE a 100 LT => :1
        EXPIRE a 200 NX => :0
        EXPIRE a 200 LT => :0
        EXPIRE a 50 GT => :0
        EXPIRE a 200 GT => :1
        EXPIRE a 50 LT XX => :1
        TTL a => :50
        EXPIRE a 50 NX XX => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a 50 GT LT => -ERR GT and LT options at the same time are not compatible
        EXPIRE a 50 FOO => -ERR Unsupported option FOO
        EXPIRE a x => -ERR value is not an integer or out of range
        EXPIRE a 9223372036854775807 => -ERR invalid expire time in 'expire' command
        PEXPIRE a 9223372036854775807 => -ERR invalid expire time in 'pexpire' command
        EXPIREAT a 9223372036854775807 => -ERR invalid expire time in 'expireat' command
        TTL a => :50
        EXPIRE a -1 => :1
        EXISTS a => :0
        SET a 1 => +OK
        PEXPIREAT a 1 => :1
        EXISTS a => :0",
    );
}

#[test]
fn a_key_whose_time_is_over_is_gone_for_every_command() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("SET a 1 PX 1"), ok());
    assert_eq!(client.run("SET b 1"), ok());
    assert_eq!(client.run("GET a"), bulk("1"));
    daemon.advance(Duration::from_millis(1));
    assert_eq!(client.run("GET a"), Value::Null);
    client.check(
        "EXISTS a => :0
        TYPE a => +none
        KEYS * => [b]
        RENAME a c => -ERR no such key
        SET a 1 XX => nil
        APPEND a x => :1
        TTL a => :-1",
    );
}

#[test]
fn a_value_gets_another_key_with_its_deadline() {
    check(
        "RENAME none a => -ERR no such key
        SET a 1 EX 100 => +OK
        SET b 2 => +OK
        RENAMENX a b => :0
        RENAME a b => +OK
        GET b => 1
        TTL b => :100
        EXISTS a => :0
        RENAME b b => +OK
        RENAMENX b b => :0
        RENAMENX b c => :1
        COPY c d => :1
        COPY c d => :0
        SET c 3 => +OK
        COPY c d REPLACE => :1
        GET d => 3
        TTL d => :-1
        COPY c c => -ERR source and destination objects are the same
        COPY c d FOO => -ERR syntax error
        COPY none d => :0",
    );
}

#[test]
fn values_go_to_other_databases() {
    check(
        "SET a 1 EX 100 => +OK
        MOVE a 0 => -ERR source and destination objects are the same
        MOVE a 99 => -ERR DB index is out of range
        MOVE a x => -ERR value is not an integer or out of range
        MOVE a 1 => :1
        EXISTS a => :0
        MOVE a 1 => :0
        SET a 2 => +OK
        MOVE a 1 => :0
        COPY a b DB 1 => :1
        COPY a a DB 1 => :0
        COPY a a DB 99 => -ERR DB index is out of range
        SELECT 1 => +OK
        MGET a b => [1, 2]
        TTL a => :100
        SWAPDB 0 1 => +OK
        MGET a b => [2, nil]
        SWAPDB 0 x => -ERR invalid second DB index
        SWAPDB 0 99 => -ERR DB index is out of range
        FLUSHALL ASYNC => +OK
        GET a => nil
        SELECT 0 => +OK
        GET a => nil
        FLUSHALL NOW => -ERR syntax error",
    );
}

#[test]
fn memcached_and_http_see_database_0_wherever_it_has_come_from() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut resp = Client::connect(&daemon);
    let mut text = daemon.connect();
    let mut http = Http::to(&daemon);
    let long = vec![b'x'; 100_000];
    for (round, swap) in [
        "SWAPDB 0 1",
        "SWAPDB 2 0",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 1 0",
    ]
    .into_iter()
    .enumerate()
    {
        resp.run("SET before 1");
        assert_eq!(resp.run(swap), ok(), "{swap}");
        assert_eq!(resp.run("GET before"), Value::Null, "{swap}");
        daemon::check(&mut text, b"get before\r\n", b"END\r\n");
        assert_eq!(http.get("/v1/cache/before").status, 404, "{swap}");
        let key = format!("key-{round}");
        let text_of = |bytes: &[u8]| bulk(std::str::from_utf8(bytes).expect("a text"));
        // Each protocol stores, small and large, and all read.
        for value in [&b"short"[..], &long] {
            for by in ["resp", "memcached", "http"] {
                let stored = [by.as_bytes(), b":", value].concat();
                match by {
                    "resp" => assert_eq!(resp.call(&[b"SET", key.as_bytes(), &stored]), ok()),
                    "memcached" => {
                        daemon::check(&mut text, &daemon::set(&key, &stored), b"STORED\r\n");
                    }
                    _ => {
                        http.put(&format!("/v1/cache/{key}"), &stored);
                    }
                }
                assert_eq!(
                    resp.call(&[b"GET", key.as_bytes()]),
                    text_of(&stored),
                    "{swap} {by}"
                );
                let head = format!("VALUE {key} 0 {}\r\n", stored.len());
                let found = [head.as_bytes(), &stored, b"\r\nEND\r\n"].concat();
                daemon::check(&mut text, format!("get {key}\r\n").as_bytes(), &found);
                assert_eq!(
                    http.get(&format!("/v1/cache/{key}")).body,
                    stored,
                    "{swap} {by}"
                );
            }
        }
        daemon::check(
            &mut text,
            b"lru_crawler mgdump all\r\n",
            format!("mg {key}\r\nEN\r\n").as_bytes(),
        );
    }
}

/// All keys that a scan with these options shows.
fn scan(client: &mut Client, options: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let Value::Array(answer) = client.run(&format!("SCAN {cursor}{options}")) else {
            panic!("no array");
        };
        let [next, Value::Array(shown)] = &answer[..] else {
            panic!("no scan: {answer:?}");
        };
        keys.extend(shown.iter().map(Value::shown));
        cursor = next.shown();
        if cursor == "0" {
            return keys;
        }
    }
}

#[test]
fn a_scan_shows_each_key_of_its_database() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for database in 0..3 {
        client.run(&format!("SELECT {database}"));
        for first in (0..5_000).step_by(100) {
            let pairs: Vec<String> = (first..first + 100)
                .map(|index| format!("db{database}:{index} 1"))
                .collect();
            assert_eq!(client.run(&format!("MSET {}", pairs.join(" "))), ok());
        }
    }
    client.run("SELECT 1");
    let all: HashSet<String> = (0..5_000).map(|index| format!("db1:{index}")).collect();
    for options in [
        "",
        " COUNT 3",
        " COUNT 100000",
        " MATCH db1:*",
        " TYPE string",
    ] {
        let shown: HashSet<String> = scan(&mut client, options).into_iter().collect();
        assert_eq!(shown, all, "{options}");
    }
    let shown: HashSet<String> = scan(&mut client, " MATCH *:499?").into_iter().collect();
    assert_eq!(shown.len(), 10);
    assert!(scan(&mut client, " TYPE hash").is_empty());
    assert!(scan(&mut client, " MATCH db2:*").is_empty());
    assert_eq!(client.run("KEYS db1:123"), bulks(&["db1:123"]));
    client.check(
        "SCAN x => -ERR invalid cursor
        SCAN  COUNT 0 => -ERR syntax error
        SCAN 0 COUNT 0 => -ERR syntax error
        SCAN 0 COUNT x => -ERR value is not an integer or out of range
        SCAN 0 MATCH => -ERR syntax error
        SCAN 0 FOO x => -ERR syntax error",
    );
}

#[test]
fn a_scan_shows_as_many_keys_as_it_is_asked_for_by_cursors_that_doubles_hold() {
    const CURSORS: u64 = 1 << 53;
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for first in (0..20_000).step_by(100) {
        let pairs: Vec<String> = (first..first + 100)
            .map(|index| format!("key:{index} 1"))
            .collect();
        assert_eq!(client.run(&format!("MSET {}", pairs.join(" "))), ok());
    }
    for count in [10, 100, 1_000] {
        let (mut cursor, mut shown) = (0_u64, Vec::new());
        loop {
            let Value::Array(answer) = client.run(&format!("SCAN {cursor} COUNT {count}")) else {
                panic!("no array");
            };
            let [next, Value::Array(keys)] = &answer[..] else {
                panic!("no scan: {answer:?}");
            };
            cursor = next.shown().parse().unwrap();
            assert!(cursor < CURSORS, "{cursor}");
            shown.extend(keys.iter().map(Value::shown));
            if cursor == 0 {
                break;
            }
            let is_near = (count..2 * count).contains(&keys.len());
            assert!(is_near, "{} of {count}", keys.len());
        }
        assert_eq!(shown.len(), 20_000, "COUNT {count}");
        assert_eq!(shown.iter().collect::<HashSet<_>>().len(), 20_000);
    }
}

#[test]
fn keys_that_stay_are_scanned_while_others_come_and_go() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut other = Client::connect(&daemon);
    for index in 0..500 {
        assert_eq!(client.run(&format!("SET stays{index} 1")), ok());
    }
    let mut shown = HashSet::new();
    let mut cursor = "0".to_owned();
    let mut turn = 0;
    while turn == 0 || cursor != "0" {
        for index in 0..100 {
            other.run(&format!("DEL turn{}:{index}", (turn + 1) % 4));
            other.run(&format!("SET turn{}:{index} 1", turn % 4));
        }
        let Value::Array(answer) = client.run(&format!("SCAN {cursor} COUNT 10")) else {
            panic!("no array");
        };
        let Value::Array(keys) = &answer[1] else {
            panic!("no keys");
        };
        shown.extend(keys.iter().map(Value::shown));
        cursor = answer[0].shown();
        turn += 1;
        assert!(turn < 500, "the scan does not end");
    }
    let missed = (0..500).filter(|index| !shown.contains(&format!("stays{index}")));
    assert_eq!(missed.count(), 0);
}

#[test]
fn object_tells_inner_facts() {
    check(
        "MSET a 1 b text => +OK
        OBJECT ENCODING a => int
        OBJECT ENCODING b => embstr
        SETRANGE b 100 x => :101
        OBJECT ENCODING b => raw
        APPEND a 2 => :2
        OBJECT ENCODING a => raw
        APPEND new 2 => :1
        OBJECT ENCODING new => int
        SETRANGE new 0 5 => :1
        EXPIRE new 100 => :1
        OBJECT ENCODING new => raw
        SETBIT new 6 0 => :0
        OBJECT ENCODING new => raw
        INCR new => :6
        OBJECT ENCODING new => int
        SETBIT bits 7 1 => :0
        OBJECT ENCODING bits => raw
        SET bits 12 => +OK
        OBJECT ENCODING bits => int
        SET a 1 => +OK
        OBJECT ENCODING none => nil
        OBJECT IDLETIME a => :0
        OBJECT REFCOUNT a => :1
        OBJECT REFCOUNT none => nil
        OBJECT FREQ none => nil
        SET seldom x => +OK
        OBJECT FREQ seldom => :0
        GET seldom => x
        GET seldom => x
        OBJECT FREQ seldom => :2
        WAITAOF 0 0 10 => [:0, :0]
        WAITAOF 2 0 10 => -ERR value is out of range, value must between 0 and 1
        WAITAOF 0 -1 10 => -ERR value is out of range, must be positive
        WAITAOF 0 0 -1 => -ERR timeout is negative
        FUNCTION KILL => -NOTBUSY No scripts in execution right now.",
    );
}

#[test]
fn each_database_is_counted_and_flushed_by_itself() {
    check(
        "MSET a 1 b 2 => +OK
        SELECT 1 => +OK
        RANDOMKEY => nil
        DBSIZE => :0
        SET c 3 EX 100 => +OK
        DBSIZE => :1
        RANDOMKEY => c
        FLUSHDB NOW => -ERR syntax error
        FLUSHDB ASYNC => +OK
        DBSIZE => :0
        GET c => nil
        KEYS * => []
        SCAN 0 COUNT 100000 => [0, []]
        SET c 4 => +OK
        SELECT 0 => +OK
        DBSIZE => :2
        FLUSHDB => +OK
        DBSIZE => :0
        RANDOMKEY => nil
        SET a 5 => +OK
        SELECT 1 => +OK
        GET c => 4
        FLUSHALL => +OK
        DBSIZE => :0",
    );
}

#[test]
fn every_key_is_some_time_the_random_one() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("MSET a 1 b 1 c 1"), ok());
    let mut seen = HashSet::new();
    for _ in 0..10_000 {
        seen.insert(client.run("RANDOMKEY").shown());
        if seen.len() == 3 {
            return;
        }
    }
    panic!("only {seen:?}");
}

#[test]
fn a_hash_keeps_its_kind_and_deadlines_wherever_it_goes() {
    check(
        "HSET h a 1 b 2 => :2
        EXPIRE h 100 => :1
        HEXPIRE h 10 FIELDS 2 a b => [:1, :1]
        TTL h => :100
        EXPIRE h 50 LT => :1
        EXPIRE h 200 GT => :1
        TTL h => :200
        COPY h g => :1
        RENAME h f => +OK
        TTL f => :200
        HTTL f FIELDS 1 a => [:10]
        PERSIST f => :1
        TTL f => :-1
        HTTL f FIELDS 1 a => [:10]
        TYPE g => +hash
        TTL g => :200
        MOVE g 1 => :1
        SELECT 1 => +OK
        HGET g b => 2
        OBJECT ENCODING g => listpack
        SCAN 0 COUNT 1000 TYPE hash => [0, [g]]
        SCAN 0 COUNT 1000 TYPE stream => [0, []]
        SCAN 0 TYPE string1 => -ERR unknown type name 'string1'
        SCAN 0 COUNT 1000 TYPE string => [0, []]",
    );
}

#[test]
fn what_is_no_string_does_not_exist_for_memcached() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.check(
        "HSET h field value => :1
        EXPIRE h 100 => :1",
    );
    let mut memcached = BufReader::new(daemon.connect());
    for (request, expected) in [
        ("get h\r\n", "END\r\n"),
        ("gets h h\r\n", "END\r\n"),
        ("gat 0 h\r\n", "END\r\n"),
        ("mg h v N30 T0\r\n", "EN\r\n"),
        ("add h 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append h 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("prepend h 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        (
            "incr h 1\r\n",
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
    ] {
        memcached.get_mut().write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        memcached.read_line(&mut answer).unwrap();
        assert_eq!(answer, expected, "{request}");
    }
    client.check(
        "HGET h field => value
        TTL h => :100",
    );
    memcached
        .get_mut()
        .write_all(b"set h 0 0 1\r\nx\r\n")
        .unwrap();
    let mut answer = String::new();
    memcached.read_line(&mut answer).unwrap();
    assert_eq!(client.run("GET h"), bulk("x"));
}

#[test]
fn each_change_is_told_of_once() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "EA"]);
    let mut client = Client::connect(&daemon);
    let mut listener = Client::connect(&daemon);
    listener.run("PSUBSCRIBE __keyevent@*__:*");
    for (words, expected) in [
        ("SET a 1 EX 100", "set a, expire a"),
        ("SET a 1 NX", ""),
        ("GET a", ""),
        ("MSET a 1 b 2", "set a, set b"),
        ("MSETNX a 1 c 2", ""),
        ("APPEND a 2", "append a"),
        ("INCR a", "incrby a"),
        ("INCRBYFLOAT a 1", "incrbyfloat a"),
        ("INCREX a EX 100", "incrby a, expire a"),
        ("SETRANGE a 1 x", "setrange a"),
        ("SETRANGE a 1 ", ""),
        ("SETBIT a 1 0", ""),
        ("SETBIT a 1 1", "setbit a"),
        ("GETEX a PERSIST", "persist a"),
        ("GETEX a PERSIST", ""),
        ("EXPIRE a 100", "expire a"),
        ("EXPIRE a 200 NX", ""),
        ("PERSIST a", "persist a"),
        ("RENAME a c", "rename_from a, rename_to c"),
        ("COPY c d DB 1", "copy_to d"),
        ("MOVE b 1", "move_from b, move_to b"),
        ("INVALIDATE c", "invalidate c"),
        ("GETDEL c", "del c"),
        ("DEL c d", ""),
        ("SET a 1", "set a"),
        ("DELIFEQ a 1", "del a"),
        ("SET a 1", "set a"),
        ("PEXPIREAT a 1", "del a"),
    ] {
        client.run(words);
        client.run("PUBLISH __keyevent@0__:end x");
        let mut told = Vec::new();
        loop {
            let Value::Array(message) = listener.read() else {
                panic!("no message");
            };
            let event = message[2].shown();
            let event = event.rsplit(':').next().unwrap_or_default().to_owned();
            if event == "end" {
                break;
            }
            told.push(format!("{event} {}", message[3].shown()));
        }
        assert_eq!(told.join(", "), expected, "{words}");
    }
}

#[test]
fn the_time_since_the_last_use_is_told_where_it_is_known() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("MSET unread 1 read 2");
    client.run("RPUSH list a");
    client.run("GET read");
    daemon.advance(Duration::from_millis(2_100));
    assert_eq!(client.run("OBJECT IDLETIME unread"), Value::Integer(2));
    let Value::Error(text) = client.run("OBJECT IDLETIME read") else {
        panic!("nobody knows when it was read");
    };
    assert!(
        text.starts_with("ERR An LFU maxmemory policy is selected"),
        "{text}"
    );
    client.check(
        "GET unread => 1
        OBJECT IDLETIME unread => :0
        GET read => 2
        OBJECT IDLETIME read => :0
        LRANGE list 0 -1 => [a]
        GET read => 2",
    );
    assert!(matches!(
        client.run("OBJECT IDLETIME list"),
        Value::Error(_)
    ));
    client.run("LRANGE list 0 -1");
    assert_eq!(client.run("OBJECT IDLETIME list"), Value::Integer(0));
}

#[test]
fn a_few_keys_are_listed_in_one_call() {
    for (memory, keys) in [("64MiB", 9), ("256MiB", 9)] {
        let daemon = Daemon::start(&["--memory", memory]);
        let mut client = Client::connect(&daemon);
        for key in 0..keys {
            assert_eq!(client.run(&format!("SET {key} v")), ok());
        }
        let Value::Array(answer) = client.run("SCAN 0") else {
            panic!("SCAN answers an array");
        };
        assert_eq!(answer[0], bulk("0"), "{memory}");
        let Value::Array(listed) = &answer[1] else {
            panic!("its second value is an array");
        };
        assert_eq!(listed.len(), keys, "{memory}");
    }
}

#[test]
fn the_count_of_a_key_that_is_read_very_often_goes_beyond_that_of_eviction() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.run("SET hot v");
    client.run("SET cold v");
    for _ in 0..20_000 {
        client.run("GET hot");
    }
    let count = |client: &mut Client, key: &str| match client.run(&format!("OBJECT FREQ {key}")) {
        Value::Integer(count) => count,
        other => panic!("{other:?}"),
    };
    // About 5 + sqrt(20,000 / 5), by an estimate.
    assert!((40..=100).contains(&count(&mut client, "hot")));
    assert_eq!(count(&mut client, "cold"), 0);
}
