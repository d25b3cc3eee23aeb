//! RESP over a socket: sessions, framing, large values, limits.

use crate::support::{daemon, resp};

use std::io::{Read, Write};

use daemon::{Daemon, check, hit, pattern, set};
use resp::{Client, Value, bulk, error, ok};

#[test]
fn what_one_protocol_stores_the_other_reads() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("SET greeting hello"), ok());
    assert_eq!(client.run("GET greeting"), bulk("hello"));
    assert_eq!(client.run("GET nothing"), Value::Null);
    let mut memcached = daemon.connect();
    memcached
        .write_all(b"get greeting\r\nset answer 0 0 2\r\n42\r\n")
        .unwrap();
    let mut reply = [0; 40];
    memcached.read_exact(&mut reply).unwrap();
    assert_eq!(
        &reply[..],
        b"VALUE greeting 0 5\r\nhello\r\nEND\r\nSTORED\r\n"
    );
    assert_eq!(client.run("GET answer"), bulk("42"));
}

#[test]
fn databases_are_apart() {
    let daemon = Daemon::start(&["--databases", "10000"]);
    let mut client = Client::connect(&daemon);
    for database in [0, 1, 9999] {
        assert_eq!(client.run(&format!("SELECT {database}")), ok());
        assert_eq!(client.run(&format!("SET key in{database}")), ok());
    }
    for database in [1, 9999, 0] {
        assert_eq!(client.run(&format!("SELECT {database}")), ok());
        assert_eq!(client.run("GET key"), bulk(&format!("in{database}")));
    }
    let refused = Value::Error("ERR DB index is out of range".to_owned());
    assert_eq!(client.run("SELECT 10000"), refused);
}

#[test]
fn a_large_value_is_received_with_the_options_behind_it() {
    let daemon = Daemon::start(&["--memory", "256MiB", "--max-value", "64MiB"]);
    let mut client = Client::connect(&daemon);
    for bytes in [16 << 10, (16 << 10) + 1, 100_000, 3 << 20, 40 << 20] {
        let value = pattern(7, bytes);
        let set = |client: &mut Client, options: &[&[u8]]| {
            let mut args: Vec<&[u8]> = vec![b"SET", b"large", &value];
            args.extend(options);
            client.call(&args)
        };
        assert_eq!(set(&mut client, &[]), ok());
        assert_eq!(client.run("GET large"), Value::Bulk(value.clone()));
        assert_eq!(set(&mut client, &[b"NX"]), Value::Null);
        assert_eq!(set(&mut client, &[b"XX", b"PX", b"100000"]), ok());
        assert_eq!(client.run("GET large"), Value::Bulk(value.clone()));
        let refused = Value::Error("ERR syntax error".to_owned());
        assert_eq!(set(&mut client, &[b"NONSENSE"]), refused);
        assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
    }
}

#[test]
fn a_value_over_the_limit_is_refused_and_the_connection_goes_on() {
    let daemon = Daemon::start(&["--max-value", "1MiB"]);
    let mut client = Client::connect(&daemon);
    let value = pattern(1, (1 << 20) + 1);
    let refused = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    let refused = Value::Error(refused.to_owned());
    assert_eq!(client.call(&[b"SET", b"key", &value]), refused);
    let with_options: [&[u8]; 5] = [b"SET", b"key", &value, b"EX", b"10"];
    assert_eq!(client.call(&with_options), refused);
    assert_eq!(client.run("GET key"), Value::Null);
}

#[test]
fn without_a_limit_of_its_own_each_protocol_has_one_that_suits_it() {
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let mut client = Client::connect(&daemon);
    let refused = error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    let value = pattern(1, 20 << 20);
    assert_eq!(client.call(&[b"SET", b"key", &value]), ok());
    assert_eq!(client.run("STRLEN key"), Value::Integer(20 << 20));
    assert_eq!(client.run("RENAME key other"), ok());
    assert_eq!(client.run("GET other"), Value::Bulk(value.clone()));
    assert_eq!(client.run("APPEND other x"), Value::Integer((20 << 20) + 1));
    assert_eq!(client.run("SETRANGE other 33554432 x"), refused);
    assert_eq!(client.run("STRLEN other"), Value::Integer((20 << 20) + 1));
    let too_long = pattern(1, 33 << 20);
    assert_eq!(client.call(&[b"SET", b"key", &too_long]), refused);
    assert_eq!(client.call(&[b"SET", b"short", &value[..4 << 20]]), ok());
    let appended = Value::Integer((4 << 20) + 1);
    assert_eq!(client.run("APPEND short x"), appended);
    let mut memcached = daemon.connect();
    let most = pattern(2, 1 << 20);
    check(&mut memcached, &set("item", &most), b"STORED\r\n");
    check(
        &mut memcached,
        b"append item 0 0 1\r\nx\r\n",
        b"NOT_STORED\r\n",
    );
    let too_large = b"SERVER_ERROR object too large for cache\r\n";
    check(
        &mut memcached,
        &set("item", &value[..(1 << 20) + 1]),
        too_large,
    );
    check(
        &mut memcached,
        b"get short\r\n",
        &hit("short", &[&value[..4 << 20], b"x"].concat()),
    );
}

#[test]
fn a_command_behind_one_that_came_in_two_pieces_is_read_from_its_beginning() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let (mut client, mut other) = (Client::connect(&daemon), Client::connect(&daemon));
    let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";
    for cut in 1..22 {
        let (first, second) = bytes.split_at(cut);
        client.send_raw(first);
        // The only loop has read the first piece when it answers this.
        other.run("PING");
        client.send_raw(second);
        assert_eq!(client.read(), Value::Null);
        assert!(matches!(client.read(), Value::Integer(_)), "cut at {cut}");
    }
}

#[test]
fn large_values_in_a_transaction_and_in_pieces_are_stored() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let (mut client, mut other) = (Client::connect(&daemon), Client::connect(&daemon));
    let value = pattern(3, 500_000);
    let mut bytes = b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$500000\r\n".to_vec();
    bytes.extend_from_slice(&value);
    bytes.extend_from_slice(b"\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nEXEC\r\n");
    for piece in bytes.chunks(70_001) {
        client.send_raw(piece);
        // The only loop has read a part of it when it answers this.
        other.run("PING");
    }
    assert_eq!(client.read(), ok());
    let queued = Value::Simple("QUEUED".to_owned());
    assert_eq!((client.read(), client.read()), (queued.clone(), queued));
    assert_eq!(client.read(), Value::Array(vec![ok(), Value::Bulk(value)]));
}

#[test]
fn who_has_not_said_the_password_can_do_nothing_else() {
    let daemon = Daemon::start(&["--password", "secret"]);
    let mut client = Client::connect(&daemon);
    let refused = Value::Error("NOAUTH Authentication required.".to_owned());
    assert_eq!(client.run("GET a"), refused);
    assert!(matches!(client.run("HELLO 3"), Value::Error(text) if text.starts_with("NOAUTH")));
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    assert_eq!(client.run("AUTH wrong"), Value::Error(wrong.to_owned()));
    assert_eq!(client.run("AUTH default secret"), ok());
    assert_eq!(client.run("GET a"), Value::Null);
    let mut client = Client::connect(&daemon);
    assert!(matches!(
        client.run("HELLO 3 AUTH default secret"),
        Value::Map(_)
    ));
    assert_eq!(client.run("GET a"), Value::Null);
}

#[test]
fn frames_that_are_none_are_answered_and_end_the_connection() {
    let daemon = Daemon::start(&[]);
    for (bytes, message) in [
        (
            &b"*3\r\n$3\r\nSET\r\n:1\r\n"[..],
            "ERR Protocol error: expected '$', got ':'",
        ),
        (b"*-x\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
        (
            b"*1\r\n$999999999999\r\n",
            "ERR Protocol error: invalid bulk length",
        ),
        (
            b"SET \"a\r\n",
            "ERR Protocol error: unbalanced quotes in request",
        ),
    ] {
        let mut client = Client::connect(&daemon);
        client.send_raw(bytes);
        assert_eq!(client.read(), Value::Error(message.to_owned()));
        assert!(client.is_closed());
    }
}

#[test]
fn lines_without_a_command_are_dropped_however_many_there_are() {
    let daemon = Daemon::start(&["--threads", "1"]);
    for nothing in [&b"\r\n"[..], b"*0\r\n", b"*-1\r\n"] {
        let mut client = Client::connect(&daemon);
        // More than an event loop has room for, and a command that comes in two parts.
        client.send_raw(&nothing.repeat(1 << 20));
        client.send_raw(b"*1\r\n$4\r\nPI");
        assert_eq!(
            Client::connect(&daemon).run("GET a"),
            Value::Null,
            "another client is served"
        );
        client.send_raw(b"NG\r\n");
        assert_eq!(client.read(), Value::Simple("PONG".to_owned()));
    }
}
