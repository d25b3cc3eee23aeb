//! HyperLogLog over RESP: counting different elements, and strings that are no HyperLogLogs.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, check_alone, ok};

const CORRUPTED: &str = "-INVALIDOBJ Corrupted HLL object detected";
const NO_SKETCH: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.";

/// Adds elements with numbers.
fn add(client: &mut Client, key: &str, numbers: std::ops::Range<usize>) -> Value {
    let elements: Vec<String> = numbers.map(|number| format!("element:{number}")).collect();
    let command = [&b"PFADD"[..], key.as_bytes()].into_iter();
    let args: Vec<&[u8]> = command
        .chain(elements.iter().map(String::as_bytes))
        .collect();
    client.call(&args)
}

fn count(client: &mut Client, keys: &str) -> f64 {
    let Value::Integer(count) = client.run(&format!("PFCOUNT {keys}")) else {
        panic!("no count")
    };
    count as f64
}

#[test]
fn different_elements_are_counted_once() {
    check_alone(
        "PFADD s a b c d e f g => :1
        PFCOUNT s => :7
        PFADD s a b c => :0
        PFADD t a x => :1
        PFCOUNT s t nothing => :8
        PFADD empty => :1
        PFADD empty => :0
        PFCOUNT empty nothing => :0
        PFCOUNT nothing => :0
        TYPE empty => +string
        STRLEN empty => :18
        PFMERGE all s t => +OK
        PFCOUNT all => :8
        PFMERGE new => +OK
        STRLEN new => :18
        EXPIRE s 100 => :1
        PFADD s more => :1
        TTL s => :100
        SADD set a => :1
        PFADD set a => -WRONGTYPE Operation against a key holding the wrong kind of value
        PFMERGE s set => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn very_many_elements_and_hyperloglogs_are_taken_in_parts() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(add(&mut client, "one", 0..50_000), Value::Integer(1));
    assert_eq!(add(&mut client, "one", 0..50_000), Value::Integer(0));
    assert_eq!(add(&mut client, "two", 40_000..60_000), Value::Integer(1));
    let close = |told: f64, right: f64| assert!((told / right - 1.0).abs() < 0.03, "{told}");
    close(count(&mut client, "one"), 50_000.0);
    close(count(&mut client, "one two"), 60_000.0);
    let many = "one two nothing ".repeat(900);
    let both = count(&mut client, "one two");
    assert_eq!(count(&mut client, many.trim()), both);
    assert_eq!(client.run(&format!("PFMERGE to {}", many.trim())), ok());
    assert_eq!(count(&mut client, "to"), both);
    client.check("STRLEN to => :12304");
    // One by one it is the same HyperLogLog, the told count included.
    for first in (0..50_000).step_by(100) {
        add(&mut client, "again", first..first + 100);
    }
    count(&mut client, "again");
    assert_eq!(client.run("GET again"), client.run("GET one"));
}

#[test]
fn a_long_element_that_is_hashed_in_turns_is_the_one_it_is_in_one_step() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let element: Vec<u8> = (0..20_000_003_u32).map(|n| (n / 1_000) as u8).collect();
    // Within a transaction it is one step.
    client.run("MULTI");
    client.call(&[b"PFADD", b"whole", &element]);
    assert_eq!(client.run("EXEC").shown(), "[:1]");
    assert_eq!(client.call(&[b"PFADD", b"whole", &element]).shown(), ":0");
    let others: Vec<String> = (0..9_000)
        .map(|number| format!("element:{number}"))
        .collect();
    let mut words: Vec<&[u8]> = vec![b"PFADD", b"parts"];
    words.extend(others.iter().map(String::as_bytes));
    words.insert(5_000, &element);
    assert_eq!(client.call(&words).shown(), ":1");
    let before = count(&mut client, "parts");
    assert_eq!(client.call(&[b"PFADD", b"parts", &element]).shown(), ":0");
    assert_eq!(count(&mut client, "parts whole"), before);
    assert_eq!(count(&mut client, "whole"), 1.0);
}

#[test]
fn hostile_strings_are_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let head = |encoding: u8, stale: u8| {
        let mut head = b"HYLL".to_vec();
        head.extend_from_slice(&[encoding, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, stale]);
        head
    };
    let long = [head(1, 0x80), vec![0x84; 1 << 20]].concat();
    // As Redis, PFADD reads no more than the registers before its own.
    for (bytes, expected, added) in [
        (b"HYLL".to_vec(), NO_SKETCH, NO_SKETCH),
        (b"foo".to_vec(), NO_SKETCH, NO_SKETCH),
        (head(2, 0), NO_SKETCH, NO_SKETCH),
        (head(0, 0), NO_SKETCH, NO_SKETCH),
        ([head(0, 0), vec![0; 12_289]].concat(), NO_SKETCH, NO_SKETCH),
        (head(1, 0x80), CORRUPTED, CORRUPTED),
        ([head(1, 0x80), vec![0x7f]].concat(), CORRUPTED, CORRUPTED),
        ([head(1, 0x80), vec![0x7f, 0xfe]].concat(), CORRUPTED, ":1"),
        (
            [head(1, 0x80), vec![0x7f, 0xff, 0x00]].concat(),
            CORRUPTED,
            ":1",
        ),
        (
            [head(1, 0x80), vec![0x7f, 0xfe, 0xff]].concat(),
            CORRUPTED,
            ":1",
        ),
        (long, CORRUPTED, CORRUPTED),
    ] {
        assert_eq!(client.call(&[b"SET", b"s", &bytes]), ok());
        for command in ["PFCOUNT s", "PFCOUNT s s", "PFMERGE to s", "PFMERGE s s"] {
            assert_eq!(client.run(command).shown(), expected, "{command} {bytes:?}");
        }
        assert_eq!(client.run("GET s"), Value::Bulk(bytes));
        assert_eq!(client.run("PFADD s a").shown(), added);
        assert_eq!(client.run("PFCOUNT s").shown(), expected);
    }
    client.check("EXISTS to => :0");
}
