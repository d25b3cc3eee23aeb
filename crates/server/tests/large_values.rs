//! Large values: room for them is made beside other clients' requests, whatever brings them.

use crate::support::wait::wait_until;
use crate::support::{daemon, resp};

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use daemon::{Daemon, check, expect, frame, pattern};
use resp::Client;

const MIB: usize = 1 << 20;
const LONG: usize = 12 * MIB;
/// Looks that show nothing new, behind which there is nothing more to come.
const QUIET: usize = 300;

fn start() -> Daemon {
    let memory = ["--threads", "1", "--memory", "32MiB"];
    Daemon::start(&[&memory[..], &["--max-value", "16MiB"]].concat())
}

/// Fills the cache with small items until nothing is left but the memory of live ones: a long item
/// that is evicted, or was deleted, has room for many of them.
fn fill(daemon: &Daemon, client: &mut Client) {
    let (before, mut last, mut full) = (evicted(client), 0, 0);
    let mut stream = daemon.connect_resp();
    for first in (0..).step_by(2_000) {
        let names: Vec<String> = (first..first + 2_000)
            .map(|n| format!("small {n}"))
            .collect();
        let pairs = names.iter().flat_map(|name| [name.as_bytes(), &[b'v'; 40]]);
        let args: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
        check(&mut stream, &frame(&args), b"+OK\r\n");
        let now = evicted(client);
        full = if now > last + 1_000 { full + 1 } else { 0 };
        last = now;
        if full >= 3 && now > before + 20_000 {
            return;
        }
    }
}

fn evicted(client: &mut Client) -> u64 {
    let text = client.run("INFO stats").shown();
    let count = text.split("evicted_keys:").nth(1);
    let count = count.and_then(|rest| rest.split('\r').next());
    count.unwrap().parse().unwrap()
}

/// How many numbers of evicted items another client sees while room is made for what `ask` asks
/// for, before the last of them.
fn seen_meanwhile(client: &mut Client, ask: impl FnOnce()) -> usize {
    let mut seen = BTreeSet::from([evicted(client)]);
    ask();
    let mut quiet = 0;
    while quiet < QUIET {
        quiet = if seen.insert(evicted(client)) {
            0
        } else {
            quiet + 1
        };
    }
    seen.len().saturating_sub(2)
}

/// A connection that has sent a request up to its value, what has to follow, and the answer.
struct Upload {
    stream: TcpStream,
    head: Vec<u8>,
    rest: Vec<u8>,
    answer: &'static [u8],
}

fn uploads(daemon: &Daemon, value: &[u8]) -> Vec<(&'static str, Upload)> {
    let line_end = |value: &[u8]| [value, b"\r\n"].concat();
    let mut packet = [&[0x80, 0x01, 0, 4, 8, 0, 0, 0][..], &[0; 16]].concat();
    packet[8..12].copy_from_slice(&(value.len() as u32 + 12).to_be_bytes());
    packet.extend_from_slice(&[0; 8]);
    packet.extend_from_slice(b"long");
    let http = format!(
        "PUT /v1/cache/long HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        value.len()
    );
    let of = |stream, head: Vec<u8>, rest: Vec<u8>, answer| Upload {
        stream,
        head,
        rest,
        answer,
    };
    let resp = format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${}\r\n", value.len());
    let text = format!("set long 0 0 {}\r\n", value.len());
    let rest = line_end(value);
    vec![
        (
            "RESP",
            of(daemon.connect_resp(), resp.into(), rest.clone(), b"+OK\r\n"),
        ),
        (
            "text",
            of(daemon.connect(), text.into(), rest, b"STORED\r\n"),
        ),
        (
            "binary",
            of(daemon.connect(), packet, value.to_vec(), b"\x81\x01"),
        ),
        (
            "HTTP",
            of(
                daemon.connect_http(),
                http.into(),
                value.to_vec(),
                b"HTTP/1.1 204 ",
            ),
        ),
    ]
}

#[test]
fn others_have_their_turns_while_room_is_made_for_a_value_that_comes() {
    let daemon = start();
    let mut client = Client::connect(&daemon);
    let value = pattern(7, LONG);
    for name in ["RESP", "text", "binary", "HTTP"] {
        // On a busy machine the other client may not run meanwhile; not each time.
        let seen = (0..8).map(|_| {
            fill(&daemon, &mut client);
            let all = uploads(&daemon, &value);
            let (_, mut upload) = all.into_iter().find(|one| one.0 == name).unwrap();
            let seen = seen_meanwhile(&mut client, || {
                upload.stream.write_all(&upload.head).unwrap();
            });
            upload.stream.write_all(&upload.rest).unwrap();
            expect(&mut upload.stream, upload.answer);
            assert!(
                client.run("GET long") == resp::Value::Bulk(value.clone()),
                "{name}"
            );
            client.run("DEL long");
            seen
        });
        assert!(
            seen.into_iter().any(|seen| seen >= 3),
            "{name}: all at once"
        );
    }
}

#[test]
fn others_have_their_turns_while_room_is_made_for_a_result() {
    let daemon = start();
    let mut client = Client::connect(&daemon);
    let mut asking = Client::connect(&daemon);
    let value = pattern(3, LONG);
    asking.call(&[b"SET", b"long", &value]);
    let resp::Value::Bulk(dump) = asking.run("DUMP long") else {
        panic!("there is no dump");
    };
    let restore: Vec<&[u8]> = vec![b"RESTORE", b"made", b"0", &dump, b"REPLACE"];
    for (name, args, answer) in [
        (
            "BITOP",
            vec![&b"BITOP"[..], b"OR", b"made", b"long", b"long"],
            ":12582912",
        ),
        ("RESTORE", restore, "+OK"),
    ] {
        let seen = (0..8).map(|_| {
            client.run("DEL long");
            fill(&daemon, &mut client);
            // An item that long would leave at once.
            if name == "BITOP" {
                client.call(&[b"SET", b"long", &value]);
            }
            let seen = seen_meanwhile(&mut client, || asking.send(&args));
            assert_eq!(asking.read().shown(), answer, "{name}");
            assert!(
                client.run("GET made") == resp::Value::Bulk(value.clone()),
                "{name}"
            );
            client.run("DEL made");
            seen
        });
        assert!(
            seen.into_iter().any(|seen| seen >= 3),
            "{name}: all at once"
        );
    }
}

#[test]
fn who_leaves_while_room_is_made_leaves_nothing() {
    let daemon = start();
    let mut client = Client::connect(&daemon);
    fill(&daemon, &mut client);
    let value = pattern(5, LONG);
    for _ in 0..6 {
        for (_, mut upload) in uploads(&daemon, &value) {
            upload.stream.write_all(&upload.head).unwrap();
            upload.stream.write_all(&value[..1_000]).unwrap();
        }
    }
    // Those who have left may still hold what they were promised, until their ends are seen.
    wait_until("there is room", || {
        client.call(&[b"SET", b"long", &value]).shown() == "+OK"
    });
    assert!(client.run("GET long") == resp::Value::Bulk(value));
}

#[test]
fn whoever_finds_no_room_is_answered_and_what_follows_is_understood() {
    let daemon = start();
    let mut client = Client::connect(&daemon);
    fill(&daemon, &mut client);
    let value = pattern(9, LONG);
    // One holds what a value takes, so that another finds the drafts' share of memory taken.
    let mut first = uploads(&daemon, &value).remove(0).1;
    seen_meanwhile(&mut client, || first.stream.write_all(&first.head).unwrap());
    let next: [(&[u8], &[u8]); 4] = [
        (b"PING\r\n", b"+PONG\r\n"),
        (b"mn\r\n", b"MN\r\n"),
        (&[0x80, 0x0a, 0, 0, 0, 0, 0, 0], b"\x81\x0a"),
        (b"", b""),
    ];
    let answers: [&[u8]; 4] = [
        b"-OOM",
        b"SERVER_ERROR out of memory storing object\r\n",
        b"\x81\x01\0\0\0\0\0\x82",
        b"HTTP/1.1 507 ",
    ];
    for (((name, mut second), (request, reply)), answer) in
        uploads(&daemon, &value).into_iter().zip(next).zip(answers)
    {
        second.stream.write_all(&second.head).unwrap();
        if name == "HTTP" {
            // It answers at once, and ends such a connection.
            expect(&mut second.stream, answer);
            let _ = second.stream.write_all(&second.rest);
            continue;
        }
        let mut rest = [&second.rest[..], request].concat();
        if name == "binary" {
            rest.extend_from_slice(&[0; 16]);
        }
        second.stream.write_all(&rest).unwrap();
        expect(&mut second.stream, answer);
        let mut received = Vec::new();
        while !received.windows(reply.len()).any(|part| part == reply) {
            let mut bytes = [0; 512];
            let count = second.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "{name}: it was closed");
            received.extend_from_slice(&bytes[..count]);
        }
    }
    first.stream.write_all(&first.rest).unwrap();
    expect(&mut first.stream, first.answer);
    assert!(client.run("GET long") == resp::Value::Bulk(value));
}
