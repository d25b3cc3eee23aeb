//! Client memory: what clients have the server hold is bounded, ends in time, and never stops it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/resp.rs"]
mod resp;

use std::io::Write;

use daemon::{Daemon, check, expect, expect_end, pattern};
use resp::{Client, Value, ok};

#[test]
fn long_commands_of_any_kind_are_answered_and_nobody_stands_still() {
    let daemon = Daemon::start(&["--threads", "1", "--memory", "128MiB"]);
    let mut other = daemon.connect();
    let mut client = Client::connect(&daemon);
    for bytes in [100_000, 1 << 20, 2_200_000, 3_000_000] {
        let value = pattern(5, bytes);
        let commands: [&[&[u8]]; 5] = [
            &[b"SETEX", b"k", b"100", &value],
            &[b"APPEND", b"k", b"", &value],
            &[b"MSET", b"k", &value, b"l", b"m"],
            &[b"EVAL", b"return #ARGV[1]", b"0", &value],
            &[b"SADD", b"s", &value],
        ];
        let length = i64::try_from(bytes).unwrap();
        for (command, expected) in commands.iter().zip([
            ok(),
            resp::error("ERR wrong number of arguments for 'append' command"),
            ok(),
            Value::Integer(length),
            Value::Integer(1),
        ]) {
            client.send(command);
            client.send(&[b"PING"]);
            check(&mut other, b"mn\r\n", b"MN\r\n");
            assert_eq!(client.read(), expected, "{bytes} bytes");
            assert_eq!(client.run("STRLEN l"), Value::Simple("PONG".to_owned()));
            _ = client.read();
        }
        assert_eq!(client.run("DEL k l s"), Value::Integer(3));
    }
}

#[test]
fn a_value_whose_options_never_come_is_let_go() {
    let daemon = Daemon::start(&["--write-timeout", "1s"]);
    let value = vec![b'v'; 12 << 20];
    let mut halves = Vec::new();
    for number in 0..12 {
        let mut client = daemon.connect_resp();
        let head = format!("*5\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len());
        client.write_all(head.as_bytes()).unwrap();
        if client.write_all(&value).is_ok() {
            client.write_all(b"\r\n").unwrap();
        }
        halves.push(client);
        let mut other = Client::connect(&daemon);
        let key = format!("SET other{number} x");
        assert_eq!(other.run(&key), ok(), "beside {number}");
    }
    for half in &mut halves {
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(half, &mut answer);
    }
}

#[test]
fn a_request_that_is_never_whole_ends_its_connection() {
    let daemon = Daemon::start(&["--write-timeout", "1s"]);
    let lines = [
        b"get k".to_vec(),
        b"set k 0 0 9\r\nv".to_vec(),
        b"get ".repeat(50_000),
    ];
    let commands = [
        "PING",
        "*2\r\n$3\r\nGET\r\n$900000\r\nx",
        "*3\r\n$3\r\nSET\r\n$1\r\nk",
    ];
    let mut clients = Vec::new();
    for line in lines {
        clients.push(daemon.connect());
        clients.last_mut().unwrap().write_all(&line).unwrap();
    }
    for command in commands {
        clients.push(daemon.connect_resp());
        let bytes = command.as_bytes();
        clients.last_mut().unwrap().write_all(bytes).unwrap();
    }
    // Blank lines, and what was answered, are not waited for.
    let mut calm = daemon.connect_resp();
    check(&mut calm, b"PING\r\n\r\n", b"+PONG\r\n");
    for client in &mut clients {
        expect_end(client);
    }
    std::thread::sleep(std::time::Duration::from_millis(1_000));
    check(&mut calm, b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn a_line_that_trickles_costs_no_more_than_its_bytes() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let keys = 100_000;
    let line = [b"get".as_slice(), &b" k".repeat(keys), b"\r\n"].concat();
    let (most, rest) = line.split_at(line.len() - 2_000);
    let mut client = daemon.connect();
    client.write_all(most).unwrap();
    let before = daemon.cpu_ticks();
    for byte in rest.chunks(1) {
        client.write_all(byte).unwrap();
        check(&mut daemon.connect(), b"mn\r\n", b"MN\r\n");
    }
    expect(&mut client, b"END\r\n");
    let ticks = daemon.cpu_ticks() - before;
    assert!(
        ticks < 200,
        "{ticks} hundredths of a second for 2,000 bytes"
    );
}
