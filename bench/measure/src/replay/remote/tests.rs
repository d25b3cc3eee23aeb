//! Tests: replays against servers in this process, honest ones and others.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use super::*;
use crate::replay::trace::Keys;
use cellar_load::ReservedPort;

/// What a server does with the values it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manners {
    Honest,
    /// Gives back what it was given first.
    KeepsFirst,
    RefusesSets,
}

/// Serves one connection of memcached's protocol; sends what it was asked, line by line.
fn serve(manners: Manners) -> (Address, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut out, _) = listener.accept().unwrap();
        let mut input = BufReader::new(out.try_clone().unwrap());
        let mut values: HashMap<String, Vec<u8>> = HashMap::new();
        let mut lines = Vec::new();
        let mut line = String::new();
        while input.read_line(&mut line).unwrap() > 0 {
            let words: Vec<&str> = line.split_whitespace().collect();
            lines.push(words[..2].join(" "));
            let key = words[1].to_owned();
            let reply = if words[0] == "get" {
                let hit = values.get(&key).map(|value| {
                    let head = format!("VALUE {key} 0 {}\r\n", value.len());
                    [head.as_bytes(), value, b"\r\n"].concat()
                });
                [hit.unwrap_or_default(), b"END\r\n".to_vec()].concat()
            } else {
                let mut value = vec![0; words[4].parse::<usize>().unwrap() + 2];
                input.read_exact(&mut value).unwrap();
                value.truncate(value.len() - 2);
                match manners {
                    Manners::Honest => _ = values.insert(key, value),
                    Manners::KeepsFirst => _ = values.entry(key).or_insert(value),
                    Manners::RefusesSets => {}
                }
                match manners {
                    Manners::RefusesSets => b"SERVER_ERROR object too large\r\n".to_vec(),
                    _ => b"STORED\r\n".to_vec(),
                }
            };
            out.write_all(&reply).unwrap();
            line.clear();
        }
        lines
    });
    (address, thread)
}

/// Replays without a pace.
fn at_once(trace: &Trace, address: &Address) -> Result<Served, Error> {
    play((trace, None), Wire::Memcached, address, Duration::ZERO)
}

/// One request for each word: a key, `=` before it for a set.
fn trace(words: &str, value_bytes: u32) -> Trace {
    let mut keys = Keys::default();
    let rows = words.split(' ').map(|word| {
        let key = word.trim_start_matches('=');
        let number = keys.number(key.as_bytes()).unwrap();
        Row::new(0, word != key, number, value_bytes, 0)
    });
    Trace {
        name: "test".to_owned(),
        rows: rows.collect(),
        keys,
    }
}

fn replay(words: &str, value_bytes: u32, manners: Manners) -> (Result<Served, Error>, Vec<String>) {
    let (address, thread) = serve(manners);
    let served = at_once(&trace(words, value_bytes), &address);
    (served, thread.join().unwrap())
}

#[test]
fn a_miss_is_stored_before_its_key_is_asked_for_again() {
    for value_bytes in [0, 5, 100, 50_000] {
        let (served, lines) = replay("a b a =c c b d a", value_bytes, Manners::Honest);
        let served = served.unwrap();
        assert_eq!((served.hits, served.misses), (4, 3), "{value_bytes}");
        assert_eq!((served.requests, served.sets, served.stores), (8, 1, 4));
        let place = |line: &str| lines.iter().position(|other| other == line).unwrap();
        let again = lines.iter().rposition(|line| line == "get a").unwrap();
        assert!(place("set a") < again, "{lines:?}");
        assert_eq!(lines.iter().filter(|line| *line == "set a").count(), 1);
        assert_eq!(lines.len(), 7 + 4);
    }
}

#[test]
fn the_last_misses_are_stored_too() {
    let (served, lines) = replay("a", 10, Manners::Honest);
    assert_eq!(served.unwrap().stores, 1);
    assert_eq!(lines, ["get a", "set a"]);
}

#[test]
fn a_value_that_was_replaced_fails_the_run() {
    let (served, _) = replay("a a =a a", 100, Manners::KeepsFirst);
    let error = served.unwrap_err().to_string();
    assert!(error.contains("not what was stored last"), "{error}");
}

#[test]
fn refused_stores_are_counted() {
    let (served, _) = replay("a a =b b", 100, Manners::RefusesSets);
    let served = served.unwrap();
    assert_eq!((served.misses, served.stores, served.refused), (3, 4, 4));
}

#[test]
fn a_key_that_memcached_cannot_take_is_refused_before_anything_is_sent() {
    let mut keys = Keys::default();
    let key = keys.number(b"two words").unwrap();
    let trace = Trace {
        name: "test".to_owned(),
        keys,
        rows: vec![Row::new(0, false, key, 1, 0)],
    };
    let nowhere = ReservedPort::take().unwrap();
    let error = at_once(&trace, nowhere.address()).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
}

#[test]
fn a_replay_with_a_pace_lasts_at_least_so_long() {
    let (address, thread) = serve(Manners::Honest);
    let trace = trace("a b a c", 100);
    let served = play(
        (&trace, None),
        Wire::Memcached,
        &address,
        Duration::from_millis(50),
    )
    .unwrap();
    assert!(served.seconds >= 0.05, "{}", served.seconds);
    assert_eq!((served.hits, served.misses), (1, 3));
    thread.join().unwrap();
}
