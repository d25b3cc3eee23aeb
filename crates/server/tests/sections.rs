//! Sections: what several keys go through as one step is seen whole or not at all, while other
//! event loops go on at other keys.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::daemon::Daemon;
use crate::support::http::Http;
use crate::support::resp::{Client, Value, wait_for_command};

const LOOPS: [&str; 3] = ["2", "4", "8"];
const KEYS: [&str; 4] = ["k:0", "k:1", "k:2", "k:3"];
const ROUNDS: u64 = 300;
const SET_ALL: &str = "for i = 1, #KEYS do redis.call('set', KEYS[i], ARGV[1]) end";
const GET_ALL: &str = "local r = {} for i = 1, #KEYS do r[i] = redis.call('get', KEYS[i]) end \
                       return r";

/// How often a loop stopped the others, by reasons.
fn exclusive(daemon: &Daemon) -> Vec<(String, u64)> {
    let page = Http::to(daemon).get("/metrics");
    let lines = page.text().lines();
    let sections = lines.filter_map(|line| {
        let line = line.strip_prefix("cellar_exclusive_sections_total{reason=\"")?;
        let (reason, count) = line.split_once("\"} ")?;
        Some((reason.to_owned(), count.parse().unwrap()))
    });
    let sections: Vec<_> = sections.collect();
    assert_eq!(sections.len(), 4, "each reason has a sample");
    sections
}

fn exclusive_for(daemon: &Daemon, reason: &str) -> u64 {
    let mut sections = exclusive(daemon).into_iter();
    sections.find(|(name, _)| name == reason).unwrap().1
}

fn nobody_was_stopped(daemon: &Daemon) {
    let sections = exclusive(daemon);
    assert!(
        sections.iter().all(|(_, count)| *count == 0),
        "{sections:?}"
    );
}

/// Stores a value under all keys as one step, in one of several ways.
fn set_all(client: &mut Client, way: usize, value: &str) {
    let value = value.as_bytes();
    match way {
        0 => {
            let mut args: Vec<&[u8]> = vec![b"MSET"];
            KEYS.iter()
                .for_each(|key| args.extend([key.as_bytes(), value]));
            client.call(&args);
        }
        1 => {
            client.run("MULTI");
            for key in KEYS {
                client.call(&[b"SET", key.as_bytes(), value]);
            }
            client.run("EXEC");
        }
        _ => {
            let mut args: Vec<&[u8]> = vec![b"EVAL", SET_ALL.as_bytes(), b"4"];
            args.extend(KEYS.iter().map(|key| key.as_bytes()));
            args.push(value);
            client.call(&args);
        }
    }
}

/// Reads all keys as one step, in one of several ways.
fn get_all(client: &mut Client, way: usize) -> Value {
    let keys = KEYS.iter().map(|key| key.as_bytes());
    match way {
        0 => client.call(
            &std::iter::once(&b"MGET"[..])
                .chain(keys)
                .collect::<Vec<_>>(),
        ),
        1 => {
            client.run("MULTI");
            for key in keys {
                client.call(&[b"GET", key]);
            }
            client.run("EXEC")
        }
        _ => {
            let mut args: Vec<&[u8]> = vec![b"EVAL_RO", GET_ALL.as_bytes(), b"4"];
            args.extend(keys);
            client.call(&args)
        }
    }
}

/// Reads a key over memcached's protocol.
fn memcached_get(stream: &mut std::net::TcpStream, key: &str) -> u64 {
    stream
        .write_all(format!("get {key}\r\n").as_bytes())
        .unwrap();
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"END\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    let answer = String::from_utf8(answer).unwrap();
    answer.lines().nth(1).unwrap().parse().unwrap()
}

#[test]
fn nobody_sees_a_part_of_what_was_stored_as_one_step() {
    for loops in LOOPS {
        let daemon = Daemon::start(&["--threads", loops]);
        set_all(&mut Client::connect(&daemon), 0, "0");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let mut client = Client::connect(&daemon);
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            set_all(
                                &mut client,
                                writer,
                                &format!("{}", round * 3 + writer as u64),
                            );
                        }
                    })
                })
                .collect();
            for way in 0..3 {
                let (mut client, is_over) = (Client::connect(&daemon), &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let Value::Array(seen) = get_all(&mut client, way) else {
                            panic!("not an array");
                        };
                        assert_eq!(seen.len(), 4);
                        assert!(seen.iter().all(|one| *one == seen[0]), "{way}: {seen:?}");
                    }
                });
            }
            writers
                .into_iter()
                .for_each(|writer| writer.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
        });
        nobody_was_stopped(&daemon);
    }
}

#[test]
fn plain_reads_of_other_protocols_see_the_keys_of_a_step_change_together() {
    let daemon = Daemon::start(&["--threads", "4"]);
    set_all(&mut Client::connect(&daemon), 0, "0");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut client = Client::connect(&daemon);
        let writer = scope.spawn(move || {
            for round in 1..ROUNDS {
                set_all(&mut client, round as usize % 3, &round.to_string());
            }
        });
        let (mut stream, mut http, is_over) = (daemon.connect(), Http::to(&daemon), &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for (first, second) in [(0, 3), (3, 0)] {
                    let first = memcached_get(&mut stream, KEYS[first]);
                    let second = memcached_get(&mut stream, KEYS[second]);
                    assert!(second >= first, "{second} after {first}");
                }
            }
        });
        scope.spawn(move || {
            let mut read = |key: &str| -> u64 {
                http.get(&format!("/v1/cache/{key}"))
                    .text()
                    .parse()
                    .unwrap()
            };
            while !is_over.load(Ordering::Relaxed) {
                for (first, second) in [(1, 2), (2, 1)] {
                    let (first, second) = (read(KEYS[first]), read(KEYS[second]));
                    assert!(second >= first, "{second} after {first}");
                }
            }
        });
        writer.join().unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
    nobody_was_stopped(&daemon);
}

#[test]
fn a_key_that_moves_is_always_at_one_place() {
    for loops in LOOPS {
        let daemon = Daemon::start(&["--threads", loops]);
        let mut client = Client::connect(&daemon);
        client.run("SET place:0 token");
        client.run("RPUSH list:0 token");
        client.run("SADD set:0 token");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut client = Client::connect(&daemon);
            let mover = scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (from, to) = (round % 2, (round + 1) % 2);
                    client.run(&format!("RENAME place:{from} place:{to}"));
                    client.run(&format!("LMOVE list:{from} list:{to} LEFT RIGHT"));
                    client.run(&format!("SMOVE set:{from} set:{to} token"));
                }
            });
            for places in ["place:0 place:1", "list:0 list:1", "set:0 set:1"] {
                let (mut client, is_over) = (Client::connect(&daemon), &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let seen = client.run(&format!("EXISTS {places}")).shown();
                        assert_eq!(seen, ":1", "{places}");
                    }
                });
            }
            mover.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        nobody_was_stopped(&daemon);
    }
}

#[test]
fn a_script_that_touches_keys_it_does_not_declare_is_one_step_too() {
    const BOTH: &str = "local n = redis.call('incr', 'k:' .. ARGV[1]) \
                        return {n, redis.call('incr', 'k:' .. ARGV[2])}";
    for loops in LOOPS {
        let daemon = Daemon::start(&["--threads", loops]);
        let done = std::thread::scope(|scope| {
            let clients = [("0", "3"), ("3", "0"), ("1", "2"), ("2", "3")].map(|(one, other)| {
                let mut client = Client::connect(&daemon);
                scope.spawn(move || {
                    let mut done = 0;
                    for _ in 0..ROUNDS {
                        let args = [BOTH.as_bytes(), b"0", one.as_bytes(), other.as_bytes()];
                        let args: Vec<&[u8]> = std::iter::once(&b"EVAL"[..]).chain(args).collect();
                        match client.call(&args) {
                            Value::Array(_) => done += 2,
                            refused => {
                                // The first of its commands had been executed.
                                let refused = refused.shown();
                                assert!(refused.contains("not declared"), "{refused}");
                                done += 1;
                            }
                        }
                    }
                    done
                })
            });
            clients
                .map(|client| client.join().unwrap())
                .iter()
                .sum::<i64>()
        });
        let mut client = Client::connect(&daemon);
        let sums = KEYS.map(|key| client.run(&format!("GET {key}")).shown());
        let sums = sums
            .iter()
            .map(|sum| sum.trim_start_matches('$').parse::<i64>().unwrap());
        assert_eq!(sums.sum::<i64>(), done, "no addition was lost");
    }
}

#[test]
fn a_script_whose_keys_nobody_uses_stops_nobody_whether_it_declares_them() {
    let daemon = Daemon::start(&["--threads", "4"]);
    let mut client = Client::connect(&daemon);
    for number in 0..20 {
        let script =
            format!("redis.call('set','a:{number}',1) return redis.call('incr','b:{number}')");
        let args: [&[u8]; 3] = [b"EVAL", script.as_bytes(), b"0"];
        assert_eq!(client.call(&args).shown(), ":1");
    }
    nobody_was_stopped(&daemon);
}

#[test]
fn a_script_that_comes_upon_a_key_of_another_before_it_writes_runs_anew() {
    const LONG: &[u8] = b"redis.call('set', KEYS[1], 'a') for i = 1, ARGV[1] do end \
                          return redis.call('set', KEYS[1], 'b')";
    const READS: &[u8] = b"local before = redis.call('get', 'other') \
                           return {before or 'none', redis.call('get', 'shared') or 'none'}";
    let daemon = Daemon::spawn(&["--threads", "4"]);
    let (mut long, mut reads) = (Client::connect(&daemon), Client::connect(&daemon));
    // On a busy machine the long one may begin and end between two of the others.
    for rounds in [
        30_000_000,
        30_000_000,
        100_000_000,
        200_000_000,
        300_000_000_u32,
    ] {
        let rounds = rounds.to_string();
        long.send(&[b"EVAL", LONG, b"1", b"shared", rounds.as_bytes()]);
        // Again and again, for the long one need not have begun.
        loop {
            let seen = reads.call(&[b"EVAL", READS, b"0"]).shown();
            if seen == "[none, b]" {
                break;
            }
            assert_eq!(seen, "[none, none]", "half of it");
        }
        assert_eq!(long.read().shown(), "+OK");
        if exclusive_for(&daemon, "undeclared_key") == 1 {
            return;
        }
        reads.run("DEL shared");
    }
    panic!("the scripts never met");
}

#[test]
fn what_may_touch_anything_stops_the_others_and_is_counted() {
    let daemon = Daemon::start(&["--threads", "4"]);
    let mut client = Client::connect(&daemon);
    client.run("SET a 1");
    client.run("FLUSHALL");
    assert_eq!(exclusive_for(&daemon, "command"), 1);
    let script =
        b"redis.call('set', KEYS[1], 'x') redis.call('flushall') return redis.call('dbsize')";
    let args: [&[u8]; 4] = [b"EVAL", script, b"1", b"a"];
    assert_eq!(client.call(&args).shown(), ":0");
    assert_eq!(exclusive_for(&daemon, "script"), 1);
    client.run("MULTI");
    client.run("SET a 1");
    client.run("SELECT 1");
    client.run("SET a 2");
    client.run("EXEC");
    assert_eq!(exclusive_for(&daemon, "transaction"), 1);
    assert_eq!(exclusive_for(&daemon, "undeclared_key"), 0);
}

#[test]
fn a_client_that_waits_gets_what_a_transaction_or_script_stores() {
    let daemon = Daemon::start(&["--threads", "4"]);
    for (round, how) in ["MULTI", "EVAL", "MSET"].into_iter().enumerate() {
        let mut waits = Client::connect(&daemon);
        let list = format!("list:{round}");
        waits.send(&[b"BLPOP", b"other", list.as_bytes(), b"0"]);
        wait_for_command(&daemon, "blpop");
        let mut client = Client::connect(&daemon);
        match how {
            "MULTI" => {
                client.run("MULTI");
                client.run(&format!("RPUSH {list} one"));
                client.run("SET beside 1");
                client.run("EXEC");
            }
            "EVAL" => {
                let script = b"return redis.call('rpush', KEYS[1], 'one')";
                client.call(&[b"EVAL", script, b"1", list.as_bytes()]);
            }
            _ => {
                client.run("MSET beside 1 beside2 2");
                client.run(&format!("RPUSH {list} one"));
            }
        }
        assert!(waits.read().shown().contains("one"));
    }
}

#[test]
fn a_transaction_whose_watched_key_others_change_is_not_executed() {
    let daemon = Daemon::start(&["--threads", "4"]);
    let increments: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let mut client = Client::connect(&daemon);
                scope.spawn(move || {
                    let mut done = 0;
                    for _ in 0..ROUNDS / 3 {
                        client.run("WATCH watched");
                        let seen = client.run("GET watched").shown();
                        let seen: u64 = seen.trim_start_matches('$').parse().unwrap_or(0);
                        client.run("MULTI");
                        client.run(&format!("MSET watched {} beside {}", seen + 1, seen + 1));
                        done += u64::from(matches!(client.run("EXEC"), Value::Array(_)));
                    }
                    done
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    });
    let mut client = Client::connect(&daemon);
    let sum = client.run("GET watched").shown();
    assert_eq!(
        sum.trim_start_matches('$').parse::<u64>().unwrap(),
        increments
    );
    nobody_was_stopped(&daemon);
}
