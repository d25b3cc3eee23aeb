//! Pipelines: a client that sends all its requests before it reads the first reply.

use crate::support::wait::{PATIENCE, wait_until};
use crate::support::{daemon, http, tls};

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::version::TLS13;

use daemon::{Daemon, check, expect, expect_end, frame, hit, pattern, set};
use http::Http;
use tls::Authority;

/// A read request of a protocol, and its reply.
struct Exchange {
    request: Vec<u8>,
    reply: Vec<u8>,
}

const VALUE_BYTES: usize = 1_000;
/// The longest key that memcached's protocol takes.
const KEY_BYTES: usize = 250;

/// Stores a value under a long key.
fn store(daemon: &Daemon) -> (String, Vec<u8>) {
    let (key, value) = ("k".repeat(KEY_BYTES), pattern(3, VALUE_BYTES));
    check(&mut daemon.connect(), &set(&key, &value), b"STORED\r\n");
    (key, value)
}

fn resp_exchange(key: &str, value: &[u8]) -> Exchange {
    let head = format!("${}\r\n", value.len());
    Exchange {
        request: frame(&[b"GET", key.as_bytes()]),
        reply: [head.as_bytes(), value, b"\r\n"].concat(),
    }
}

/// Sends the same request so often before it reads, then checks all replies.
fn exchange_at_once(stream: &mut (impl Read + Write), exchange: &Exchange, count: usize) {
    stream.write_all(&exchange.request.repeat(count)).unwrap();
    stream.flush().unwrap();
    for _ in 0..count {
        expect(stream, &exchange.reply);
    }
}

/// Requests whose replies no socket holds.
const MANY: usize = 60_000;

#[test]
fn a_pipeline_is_answered_to_a_client_that_sends_all_of_it_first() {
    let daemon = Daemon::start(&[]);
    let (key, value) = store(&daemon);
    exchange_at_once(
        &mut daemon.connect_resp(),
        &resp_exchange(&key, &value),
        MANY,
    );
    let get = Exchange {
        request: format!("get {key}\r\n").into_bytes(),
        reply: hit(&key, &value),
    };
    exchange_at_once(&mut daemon.connect(), &get, MANY);
    let mut packet = vec![0; 24];
    (packet[0], packet[3], packet[11]) = (0x80, KEY_BYTES as u8, KEY_BYTES as u8);
    packet.extend_from_slice(key.as_bytes());
    let mut stream = daemon.connect();
    stream.write_all(&packet.repeat(MANY)).unwrap();
    for _ in 0..MANY {
        let mut head = [0; 24 + 4];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head[..8], [0x81, 0, 0, 0, 4, 0, 0, 0]);
        expect(&mut stream, &value);
    }
    let request = format!("GET /v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut stream = daemon.connect_http();
    stream
        .write_all(request.repeat(MANY / 2).as_bytes())
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    let head = String::from_utf8_lossy(&replies[..replies.len().min(300)]);
    assert_eq!(count_values(&replies, &value), MANY / 2, "{head}");
}

/// How often a value stands in replies.
fn count_values(replies: &[u8], value: &[u8]) -> usize {
    let (mut found, mut at) = (0, 0);
    while at + value.len() <= replies.len() {
        if replies[at] == value[0] && replies[at..].starts_with(value) {
            found += 1;
            at += value.len();
        } else {
            at += 1;
        }
    }
    found
}

#[test]
fn a_pipeline_over_tls_is_answered_to_a_client_that_sends_all_of_it_first() {
    let authority = Authority::new();
    authority.issue("server", "server", &["localhost"]);
    let (certificate, key) = (authority.path("server.pem"), authority.path("server.key"));
    let daemon = Daemon::start(&[
        "--resp",
        "tls:127.0.0.1:0",
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
    ]);
    let (key, value) = store(&daemon);
    let config = Arc::new(authority.client(&[&TLS13]));
    let mut stream = tls::connect(&daemon.resp, "localhost", &config);
    exchange_at_once(&mut stream, &resp_exchange(&key, &value), MANY);
}

#[test]
fn a_pipeline_that_does_not_fit_is_told_so_behind_its_replies() {
    // Its replies are sent on and on, until the sockets are full.
    const HUGE: usize = 400_000;
    let daemon = Daemon::spawn(&["--client-memory", "8MiB"]);
    let (key, value) = store(&daemon);
    let exchange = resp_exchange(&key, &value);
    let mut stream = daemon.connect_resp();
    stream.write_all(&exchange.request.repeat(HUGE)).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    let error = b"-ERR the pipeline is too large: ";
    let found = replies.windows(error.len()).rposition(|one| one == error);
    let tail = String::from_utf8_lossy(&replies[replies.len().saturating_sub(300)..]);
    let (answered, rest) = replies.split_at(found.unwrap_or_else(|| panic!("{tail}")));
    assert!(rest.ends_with(b"--client-memory has free\r\n"), "{tail}");
    assert_eq!(answered.len() % exchange.reply.len(), 0);
    assert_eq!(daemon.stat("pipeline_kicks"), 1);
    daemon.log_until("a pipeline was refused");
    // Others are served as before.
    exchange_at_once(&mut daemon.connect_resp(), &exchange, 10);
}

#[test]
fn pipelines_that_fit_one_by_one_are_all_answered_when_they_come_at_once() {
    const CLIENTS: usize = 8;
    // Each takes most of what there is, beyond what the sockets hold.
    let flags = ["--client-memory", "24MiB", "--threads", "2"];
    let daemon = Daemon::spawn(&[&flags[..], &["--write-timeout", "10m"]].concat());
    let (key, value) = store(&daemon);
    let exchange = resp_exchange(&key, &value);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut stream = daemon.connect_resp();
            let exchange = &exchange;
            scope.spawn(move || exchange_at_once(&mut stream, exchange, MANY));
        }
    });
    assert_eq!(daemon.stat("pipeline_kicks"), 0);
}

#[test]
fn a_pipeline_that_waits_in_vain_for_memory_is_told_so() {
    const STEP: Duration = Duration::from_secs(1);
    let flags = ["--client-memory", "24MiB", "--write-timeout", "5s"];
    let daemon = Daemon::start(&flags);
    let (key, value) = store(&daemon);
    let exchange = resp_exchange(&key, &value);
    // It has all that one pipeline may have, and reads slowly.
    let mut slow = daemon.connect_resp();
    slow.write_all(&exchange.request.repeat(MANY)).unwrap();
    let mut other = daemon.connect_resp();
    let all = exchange.request.repeat(MANY);
    let waiting = std::thread::spawn(move || {
        other.write_all(&all).unwrap();
        let mut replies = Vec::new();
        other.read_to_end(&mut replies).unwrap();
        replies
    });
    wait_until("the replies of both wait", || output_pauses(&daemon) == 2);
    let mut some = vec![0; 2 << 20];
    daemon.advance_until("the other one is refused", STEP, || {
        slow.read_exact(&mut some).unwrap();
        daemon.stat("pipeline_kicks") == 1
    });
    let replies = waiting.join().unwrap();
    assert!(replies.ends_with(b"--client-memory has free\r\n"));
}

/// How often a connection had to wait because its client did not take its replies.
fn output_pauses(daemon: &Daemon) -> u64 {
    let page = Http::to(daemon).get("/metrics");
    let mut lines = page.text().lines();
    let found = lines.find_map(|line| line.strip_prefix("cellar_output_pauses_total "));
    found.unwrap().parse().unwrap()
}

#[test]
fn a_client_that_ends_its_side_keeps_no_memory_from_the_pipelines_of_others() {
    let daemon = Daemon::spawn(&["--client-memory", "1MiB", "--threads", "1"]);
    let (key, value) = store(&daemon);
    check(
        &mut daemon.connect(),
        &set("long", &pattern(5, 1_000_000)),
        b"STORED\r\n",
    );
    // Two clients fill the memory that pipelines share, a third one needs more and has none.
    let mut silent = Vec::new();
    for number in 1..=3 {
        let mut stream = daemon.connect();
        stream.write_all(&b"get long\r\n".repeat(100)).unwrap();
        wait_until("its replies wait", || output_pauses(&daemon) >= number);
        match number {
            3 => stream.shutdown(Shutdown::Write).unwrap(),
            _ => stream.write_all(b"get long\r\n").unwrap(),
        }
        silent.push(stream);
        daemon.stat("curr_items");
    }
    drop(silent);
    daemon.wait_for_stat("curr_connections", |count| count <= 1);
    // The next one that does not fit is told so at once.
    let mut stream = daemon.connect_resp();
    let request = resp_exchange(&key, &value).request;
    stream.write_all(&request.repeat(MANY)).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    assert!(replies.ends_with(b"--client-memory has free\r\n"));
}

#[test]
fn a_client_that_asks_to_quit_amid_a_pipeline_reads_its_replies() {
    let daemon = Daemon::start(&[]);
    let (key, value) = store(&daemon);
    let exchange = resp_exchange(&key, &value);
    let mut stream: TcpStream = daemon.connect_resp();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let before = exchange.request.repeat(10_000);
    let behind = exchange.request.repeat(MANY);
    stream
        .write_all(&[&before, &b"QUIT\r\n"[..], &behind].concat())
        .unwrap();
    for _ in 0..10_000 {
        expect(&mut stream, &exchange.reply);
    }
    expect(&mut stream, b"+OK\r\n");
    expect_end(&mut stream);
}
