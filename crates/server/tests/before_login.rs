//! Before a login: whatever a peer sends costs a fixed small amount of memory.

use crate::support::{daemon, http, resident, resp, users};

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use daemon::{Daemon, check, expect, expect_end, set};
use http::Http;
use resident::occupied_bytes;
use resp::{Client, Value, bulk, ok};
use users::UsersFile;

/// Peers that do the same at one time.
const PEERS: usize = 16;
/// What each of them sends at most; without a bound the server would hold it.
const SENT_BYTES: usize = 2 << 20;
/// What the server may hold for each of them: buffers of both directions, a request that is long
/// for one that is none.
const HELD_BYTES: usize = 128 << 10;
/// What may come and go in the process for other reasons.
const NOISE_BYTES: usize = 4 << 20;

/// What begins a request that never ends, or is sent again and again, and where.
fn attacks(daemon: &Daemon) -> Vec<(&str, Vec<u8>, Vec<u8>)> {
    let (text, resp, http) = (&daemon.address, &daemon.resp, &daemon.http);
    let bytes = |text: &str| text.as_bytes().to_vec();
    let head = "HTTP/1.1\r\nHost: localhost\r\n";
    let mut packet = vec![0x80, 0x21, 0, 5, 0, 0, 0, 0, 0x7f];
    packet.resize(24, 0);
    packet.extend_from_slice(b"PLAIN");
    vec![
        (
            resp,
            bytes("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\n"),
            bytes("x"),
        ),
        (
            resp,
            bytes("*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1000000\r\n"),
            bytes("x"),
        ),
        (resp, bytes("*1000000\r\n"), bytes("$1\r\nx\r\n")),
        (resp, bytes("PING "), bytes("x")),
        (resp, bytes(""), bytes("PING\r\n")),
        (resp, bytes(""), bytes("*1\r\n$4\r\nPING\r\n")),
        (text, bytes("get "), bytes("key ")),
        (text, bytes("set login 0 0 1000000\r\n"), bytes("x")),
        (text, bytes("set login 0 0 1000\r\n"), bytes("x")),
        (text, bytes(""), bytes("x")),
        (text, bytes(""), bytes("get key\r\n")),
        (text, bytes(""), bytes("mn\r\n")),
        (text, packet, bytes("x")),
        (http, bytes(&format!("GET / {head}X: ")), bytes("x")),
        (http, bytes(&format!("GET / {head}")), bytes("X: y\r\n")),
        (
            http,
            bytes(&format!("GET / {head}Authorization: Basic ")),
            bytes("x"),
        ),
        (
            http,
            bytes(""),
            bytes(&format!("GET /v1/cache/k {head}\r\n")),
        ),
        (
            http,
            bytes(&format!(
                "PUT /v1/cache/k {head}Content-Length: 100000000\r\n\r\n"
            )),
            bytes("x"),
        ),
        (
            http,
            bytes(&format!(
                "PUT /v1/cache/k {head}Transfer-Encoding: chunked\r\n\r\n"
            )),
            bytes("1\r\nx\r\n"),
        ),
        (
            http,
            bytes(&format!(
                "POST /v1/cache/batch/get {head}Content-Type: application/json\r\n\
                 Content-Length: 1000000\r\n\r\n"
            )),
            bytes("[\""),
        ),
    ]
}

/// Sends until all is sent, or nobody takes more.
fn send(address: &str, begin: &[u8], again: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_millis(50));
    stream.set_write_timeout(patience).unwrap();
    let all = again.repeat(SENT_BYTES / again.len());
    // It may have been turned away by now.
    let _ = stream
        .write_all(begin)
        .and_then(|()| stream.write_all(&all));
    stream
}

#[test]
fn what_comes_behind_a_login_may_be_as_long_as_ever() {
    let file = UsersFile::of_roles();
    let [users, path] = file.flags();
    let daemon = Daemon::start(&["--threads", "1", &users, &path]);
    let line = format!("get{}\r\n", " key".repeat(10_000));
    // The first login is waited for, the second is known.
    for _ in 0..2 {
        let mut stream = daemon.connect();
        let login = set("login", b"writer writer-pw");
        let all = [&login, line.as_bytes()].concat();
        check(&mut stream, &all, b"STORED\r\nEND\r\n");
        check(&mut stream, line.as_bytes(), b"END\r\n");
    }
    // A stranger is hung up on, as is everybody with a long line of another kind.
    let mut stream = daemon.connect();
    stream.write_all(line.as_bytes()).unwrap();
    let refused = b"SERVER_ERROR out of memory reading request\r\n";
    expect(&mut stream, refused);
    expect_end(&mut stream);
}

#[test]
fn every_request_of_a_packet_is_answered_before_a_login_too() {
    let file = UsersFile::of_roles();
    let [users, path] = file.flags();
    let daemon = Daemon::start(&[&users, &path]);
    let login = set("login", b"writer writer-pw");
    let long = format!("get {}\r\n", "k".repeat(251));
    for bad in ["bogus\r\n", "\r\n", &long, "set l 0 0\r\n"] {
        let mut stream = daemon.connect();
        let packet = [bad.as_bytes(), bad.as_bytes(), &login, b"mn\r\n"].concat();
        stream.write_all(&packet).unwrap();
        let mut answers = String::new();
        let mut buffer = [0; 1_000];
        while !answers.ends_with("MN\r\n") {
            let bytes = stream.read(&mut buffer).unwrap();
            assert!(bytes > 0, "{bad:?}: {answers}");
            answers.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
        }
        assert_eq!(answers.matches("ERROR").count(), 2, "{bad:?}: {answers}");
        assert!(answers.ends_with("STORED\r\nMN\r\n"), "{bad:?}: {answers}");
        assert_eq!(answers.matches('\n').count(), 4, "{bad:?}: {answers}");
    }
}

#[test]
fn whatever_is_sent_before_a_login_costs_a_fixed_small_amount_of_memory() {
    let file = UsersFile::of_roles();
    let [users, path] = file.flags();
    let daemon = Daemon::spawn(&["--threads", "1", &users, &path]);
    let attacks = attacks(&daemon);
    // What is set up once, arena and spare buffers, is there after the first.
    for (address, begin, again) in &attacks {
        send(address, begin, again);
    }
    let before = occupied_bytes(&daemon, "VmHWM");
    for (address, begin, again) in &attacks {
        // At one time, as each may end with a time-out of its own.
        let peers: Vec<TcpStream> = std::thread::scope(|scope| {
            let send = || send(address, begin, again);
            let threads: Vec<_> = (0..PEERS).map(|_| scope.spawn(send)).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.collect()
        });
        // What was freed since is used again, so it is the peak that tells.
        // Pages of the program are left out; of these more may be there than before.
        let held = occupied_bytes(&daemon, "VmHWM").saturating_sub(before);
        let most = PEERS * HELD_BYTES + NOISE_BYTES;
        let begin = String::from_utf8_lossy(begin);
        assert!(held <= most, "{begin:?} holds {held} bytes");
        drop(peers);
        // The others are served all the while.
        let login = set("login", b"writer writer-pw");
        let mut other = daemon.connect();
        check(&mut other, &login, b"STORED\r\n");
        check(&mut other, b"get k\r\n", b"END\r\n");
    }
}

#[test]
fn who_has_logged_in_is_not_closed_for_what_strangers_hold() {
    let file = UsersFile::of_roles();
    let [users, path] = file.flags();
    let flags = ["--threads", "2", "--client-memory", "32MiB", &users, &path];
    let daemon = Daemon::start(&[&flags[..], &["--login-timeout", "0"]].concat());
    let mut listeners = Vec::new();
    for channels in [30, 130, 450, 800] {
        let mut client = Client::connect(&daemon);
        assert_eq!(client.run("AUTH reader reader-pw"), ok());
        let names: Vec<String> = (0..channels).map(|n| format!("channel:{n}")).collect();
        let mut words: Vec<&[u8]> = vec![b"SUBSCRIBE"];
        words.extend(names.iter().map(|name| name.as_bytes()));
        client.send(&words);
        (0..channels).for_each(|_| drop(client.read()));
        listeners.push(client);
    }
    // They stand still, as listeners do.
    daemon.advance(Duration::from_millis(1_100));
    let part = [b"GET /v1/cache/".as_slice(), &[b'a'; 195_000]].concat();
    let strangers: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = daemon.connect_http();
            // One that is closed for those behind it may be so while it sends.
            let _ = stream.write_all(&part);
            stream
        })
        .collect();
    // Most of them have to go: together they may hold 4 MiB.
    let name = "cellar_connections_memory_closed_total";
    let closed = || figure(&metrics_of(&daemon), name);
    let step = Duration::from_millis(100);
    daemon.advance_until("strangers are closed", step, || closed() >= 100);
    // All of those who have logged in stay.
    for client in &mut listeners {
        client.send(&[b"PING"]);
        assert_eq!(client.read(), Value::Array(vec![bulk("pong"), bulk("")]));
    }
    drop(strangers);
}

/// What a request for `/healthz` answers on a connection that stays.
fn healthz(stream: &mut Http) -> u16 {
    stream.ask("GET /healthz", &[], b"").status
}

#[test]
fn silent_strangers_give_way_and_who_has_logged_in_does_not() {
    let file = UsersFile::of_roles();
    let [users, path] = file.flags();
    let flags = [
        "--max-connections",
        "20",
        "--login-timeout",
        "0",
        &users,
        &path,
    ];
    let daemon = Daemon::start(&flags);
    let mut silent: Vec<TcpStream> = (0..20).map(|_| daemon.connect_resp()).collect();
    for stream in &mut silent {
        // So that they are inside.
        check(stream, b"PING\r\n", b"-NOAUTH Authentication required.\r\n");
    }
    let mut inside = Vec::new();
    for number in 0..20 {
        let mut client = Client::connect(&daemon);
        assert_eq!(client.run("AUTH reader reader-pw"), ok(), "{number}");
        inside.push(client);
        if number == 0 {
            assert_eq!(healthz(&mut Http::to(&daemon)), 200);
        }
    }
    for stream in &mut silent {
        expect_end(stream);
    }
    for client in &mut inside {
        assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
    }
    // Now there is nobody who could give way.
    let mut outside = daemon.connect_resp();
    expect(&mut outside, b"-ERR max number of clients reached\r\n");
    for client in &mut inside {
        assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
    }
}

#[test]
fn a_connection_without_a_login_ends_in_time_where_one_is_needed() {
    let file = UsersFile::of_roles();
    let [users, path] = file.flags();
    let daemon = Daemon::start(&["--login-timeout", "8s", &users, &path]);
    let mut silent = [
        daemon.connect(),
        daemon.connect_resp(),
        daemon.connect_http(),
    ];
    let mut member = daemon.connect();
    check(
        &mut member,
        &set("login", b"reader reader-pw"),
        b"STORED\r\n",
    );
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("AUTH reader reader-pw"), ok());
    // Over HTTP some requests are for everybody; between them the time begins anew.
    let mut prober = Http::to(&daemon);
    for _ in 0..40 {
        assert_eq!(healthz(&mut prober), 200);
        daemon.advance(Duration::from_millis(250));
    }
    for stream in &mut silent {
        expect_end(stream);
    }
    check(&mut member, b"mn\r\n", b"MN\r\n");
    assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
    assert!(
        figure(
            &metrics_of(&daemon),
            "cellar_connections_login_closed_total"
        ) >= 3
    );

    let daemon = Daemon::start(&["--login-timeout", "1s", "--password", "s3cret"]);
    let mut silent = daemon.connect_resp();
    let mut free = daemon.connect();
    daemon.advance(Duration::from_secs(2));
    expect_end(&mut silent);
    check(&mut free, b"mn\r\n", b"MN\r\n");
}

/// The text for Prometheus, as a user sees it.
fn metrics_of(daemon: &Daemon) -> String {
    let secrets = BASE64_STANDARD.encode("reader:reader-pw");
    let field = format!("Authorization: Basic {secrets}");
    let page = Http::to(daemon).ask("GET /metrics", &[&field], b"");
    page.text().to_owned()
}

/// A figure of it.
fn figure(metrics: &str, name: &str) -> u64 {
    let mut lines = metrics.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{name}")).parse().unwrap()
}
