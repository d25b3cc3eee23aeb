//! Clients that speak another protocol than their port: they get an answer, the log one line.

use crate::support::daemon;
use crate::support::wait::PATIENCE;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use cellar_protocol::memcached::command::COMMANDS;
use cellar_protocol::resp::command::TABLE;
use daemon::{Daemon, expect};

/// What says that a client was turned away.
const TURNED_AWAY: &str = "this port does not speak ";

/// Sends bytes to a port and returns all that is answered until it hangs up, which it has to.
fn answer(port: &str, first: &[u8]) -> String {
    let mut stream = TcpStream::connect(port).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(first).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).into_owned()
}

/// The lines of the log that tell of strangers, once there are `count`.
fn told(daemon: &Daemon, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count
        && let Ok(line) = daemon.log.recv_timeout(PATIENCE)
    {
        if line.contains("uses the wrong protocol") {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn who_speaks_what_no_port_understands_is_told_so_at_once() {
    let daemon = Daemon::start(&[]);
    let ports = [&daemon.address, &daemon.resp, &daemon.http];
    for (first, name) in [
        (b"\x16\x03\x01\x02\x00\x01\x00".as_slice(), "TLS"),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", "PostgreSQL's protocol"),
        (b"\0\0\0\x29\0\x03\0\0user\0me\0", "PostgreSQL's protocol"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
    ] {
        for port in ports {
            let reply = answer(port, first);
            assert!(reply.contains(&format!("{TURNED_AWAY}{name}")), "{reply}");
        }
    }
}

#[test]
fn the_log_says_once_a_minute_what_it_was_and_what_to_set() {
    let daemon = Daemon::spawn(&[]);
    for _ in 0..20 {
        answer(&daemon.resp, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        answer(&daemon.resp, b"\x16\x03\x01\x02\x00\x01\x00");
        answer(&daemon.http, b"*1\r\n$4\r\nPING\r\n");
    }
    // The last of all: whatever was to be told before it was.
    let mut stream = TcpStream::connect(&daemon.resp).unwrap();
    stream.write_all(b"set k 0 0 3\r\nabc\r\n").unwrap();
    let lines = told(&daemon, 4);
    let of = |words: &[&str]| {
        let has_all = |line: &&String| words.iter().all(|word| line.contains(word));
        lines.iter().filter(has_all).count()
    };
    assert_eq!(of(&["port=\"resp\"", "HTTP", "--http"]), 1, "{lines:?}");
    assert_eq!(of(&["port=\"resp\"", "TLS", "--tls-cert"]), 1, "{lines:?}");
    assert_eq!(of(&["port=\"http\"", "RESP", "--resp"]), 1, "{lines:?}");
    let memcached = ["port=\"resp\"", "memcached's text protocol", "127.0.0.1"];
    assert_eq!(of(&memcached), 1, "{lines:?}");
    assert_eq!(lines.len(), 4, "{lines:?}");
}

#[test]
fn who_speaks_the_right_protocol_is_no_news() {
    let daemon = Daemon::spawn(&[]);
    for (port, request) in [
        (&daemon.address, "GET k\r\nquit\r\n"),
        (&daemon.address, "mg k v\r\nquit\r\n"),
        (&daemon.resp, "PING\r\nQUIT\r\n"),
        (&daemon.resp, "set k v\r\nQUIT\r\n"),
        (&daemon.resp, "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n"),
        (&daemon.http, "GET /healthz HTTP/1.0\r\n\r\n"),
    ] {
        let reply = answer(port, request.as_bytes());
        assert!(!reply.contains(TURNED_AWAY), "{request:?}: {reply}");
    }
    let mut stream = TcpStream::connect(&daemon.resp).unwrap();
    stream.write_all(b"\x01\x02\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let lines = told(&daemon, 1);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("an unknown protocol"), "{lines:?}");
}

/// All that is answered to these parts, until the server hangs up.
fn answer_to_parts(address: &str, parts: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for part in parts {
        // It may have hung up already.
        let _ = stream.write_all(part);
        // paced: the parts come one at a time.
        std::thread::sleep(Duration::from_micros(300));
    }
    let mut told = Vec::new();
    let end = stream.read_to_end(&mut told);
    let is_reset = |error: std::io::Error| error.kind() == ErrorKind::ConnectionReset;
    assert!(end.is_ok() || end.is_err_and(is_reset), "it goes on");
    String::from_utf8_lossy(&told).into_owned()
}

#[test]
fn a_page_may_not_call_a_command_its_method() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    stream.write_all(b"set /k 0 0 6\r\nvictim\r\n").unwrap();
    expect(&mut stream, b"STORED\r\n");
    let memcached = COMMANDS.iter().map(|row| (row.name, &daemon.address));
    let resp = TABLE.iter().map(|row| (row.name, &daemon.resp));
    let body = "\r\nset smuggled 0 0 1\r\nx\r\ndelete /k\r\nSET smuggled x\r\nDEL /k\r\n";
    for (method, address) in memcached.chain(resp) {
        // A name of two words is no method.
        let method = method.split(' ').next().unwrap_or_default();
        for path in ["/k".to_owned(), format!("/{}", "k".repeat(100_000))] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: rebound\r\n{body}");
            // What is cut within its first line is looked at when that has ended.
            let parts = request.as_bytes().split_at(method.len() + 2);
            let told = answer_to_parts(address, &[parts.0, parts.1]);
            let is_known = told.contains("HTTP") || told.contains("too");
            assert!(is_known || told.is_empty(), "{method}: {told}");
        }
    }
    stream.write_all(b"get /k smuggled\r\n").unwrap();
    expect(&mut stream, b"VALUE /k 0 6\r\nvictim\r\nEND\r\n");
}
