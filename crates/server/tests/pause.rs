//! Pause: what CLIENT PAUSE holds back on all loops and protocols, and how it goes on.

use crate::support::wait::wait_until;
use crate::support::{daemon, http, resp};

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use daemon::{Daemon, check, expect, frame};
use http::Http;
use resp::{Client, Value, bulk, error, ok};

/// A server with one event loop: what it answers tells that it has looked at all that came before.
const ONE_LOOP: [&str; 2] = ["--threads", "1"];

/// Whether nothing has come by now.
fn is_silent(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let came = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    came.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

fn held(client: &mut Client) -> usize {
    let text = client.run("INFO clients").shown();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("blocked_clients:"));
    line.unwrap().parse().unwrap()
}

fn wait_for_held(client: &mut Client, count: usize) {
    let what = || format!("{count} requests are held");
    wait_until(what, || held(client) == count);
}

/// Connections that both loops share, with this request on each.
fn ask_on_many(daemon: &Daemon, request: &[u8]) -> Vec<TcpStream> {
    let streams = (0..6).map(|_| daemon.connect_resp());
    streams
        .map(|mut stream| {
            stream.write_all(request).unwrap();
            stream
        })
        .collect()
}

#[test]
fn writes_wait_on_all_loops_and_reads_do_not() {
    let daemon = Daemon::start(&["--threads", "3"]);
    let mut client = Client::connect(&daemon);
    client.run("SET a old");
    let none = "paused_reason:none\r\npaused_actions:none\r\npaused_timeout_milliseconds:0";
    assert!(client.run("INFO clients").shown().contains(none));
    assert_eq!(client.run("CLIENT PAUSE 60000 WRITE"), ok());
    let paused = "paused_reason:client_pause\r\npaused_actions:write\r\n";
    assert!(client.run("INFO clients").shown().contains(paused));
    let requests: &[&[&[u8]]] = &[
        &[b"SET", b"a", b"new"],
        &[b"DEL", b"b"],
        &[b"EVAL", b"return redis.call('get', 'a')", b"0"],
        &[b"PUBLISH", b"channel", b"message"],
        &[b"PFCOUNT", b"sketch"],
        &[b"FLUSHALL"],
        &[b"SET", b"a", b"new", b"PX", b"9999"],
    ];
    for request in requests {
        let streams = ask_on_many(&daemon, &frame(request));
        wait_for_held(&mut client, streams.len());
        assert!(streams.iter().all(is_silent));
        drop(streams);
        // Nobody waits for an answer, so nothing is done.
        wait_for_held(&mut client, 0);
    }
    let script = b"#!lua flags=no-writes\nreturn redis.call('get', 'a')".as_slice();
    let reads: &[&[&[u8]]] = &[
        &[b"GET", b"a"],
        &[b"EVAL_RO", b"return redis.call('get', 'a')", b"0"],
        &[b"EVAL", script, b"0"],
    ];
    for request in reads {
        for mut stream in ask_on_many(&daemon, &frame(request)) {
            expect(&mut stream, b"$3\r\nold\r\n");
        }
    }
    let mut streams = ask_on_many(&daemon, &frame(&[b"INCR", b"count"]));
    wait_for_held(&mut client, streams.len());
    assert_eq!(client.run("GET count"), Value::Null);
    assert_eq!(client.run("CLIENT UNPAUSE"), ok());
    for stream in &mut streams {
        expect(stream, b":");
        stream.read_exact(&mut [0; 3]).unwrap();
    }
    assert_eq!(client.run("GET count"), bulk("6"));
    assert_eq!(held(&mut client), 0);
}

#[test]
fn all_requests_wait_until_the_time_is_over() {
    let daemon = Daemon::start(&["--threads", "2"]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("CLIENT PAUSE 300"), ok());
    // What follows in one piece waits together, in its order.
    client.send_raw(b"PING\r\nSET a b\r\nGET a\r\nINFO server\r\n");
    let streams = ask_on_many(&daemon, b"PING\r\n");
    daemon.advance(Duration::from_millis(299));
    assert_eq!(client.try_read(), None);
    daemon.advance(Duration::from_millis(1));
    for mut stream in streams {
        expect(&mut stream, b"+PONG\r\n");
    }
    assert_eq!(client.read().shown(), "+PONG");
    assert_eq!(client.read(), ok());
    assert_eq!(client.read(), bulk("b"));
    assert!(client.read().shown().starts_with("# Server"));
}

#[test]
fn a_pause_of_all_can_be_ended_by_a_new_connection() {
    let daemon = Daemon::start(&[&ONE_LOOP[..], &["--password", "secret"]].concat());
    let mut first = Client::connect(&daemon);
    assert_eq!(first.run("AUTH secret"), ok());
    assert_eq!(first.run("CLIENT PAUSE 600000 ALL"), ok());
    // The stricter of two holds, until the later ends.
    assert_eq!(first.run("CLIENT PAUSE 1 WRITE"), ok());
    first.send_raw(b"GET a\r\n");
    let mut second = Client::connect(&daemon);
    assert_eq!(second.run("AUTH secret"), ok());
    assert_eq!(first.try_read(), None);
    assert_eq!(second.run("CLIENT UNPAUSE"), ok());
    assert_eq!(first.read(), Value::Null);
}

#[test]
fn a_transaction_waits_if_it_writes() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let (mut reader, mut writer) = (Client::connect(&daemon), Client::connect(&daemon));
    for (other, request) in [(&mut reader, "GET a"), (&mut writer, "SET a b")] {
        other.run("MULTI");
        other.run(request);
    }
    client.run("CLIENT PAUSE 600000 WRITE");
    assert_eq!(reader.run("EXEC"), Value::Array(vec![Value::Null]));
    writer.send_raw(b"EXEC\r\n");
    wait_for_held(&mut client, 1);
    client.run("CLIENT UNPAUSE");
    assert_eq!(writer.read(), Value::Array(vec![ok()]));
}

#[test]
fn the_other_protocols_wait_too_and_pages_do_not() {
    let daemon = Daemon::start(&ONE_LOOP);
    let mut client = Client::connect(&daemon);
    client.run("SET a old");
    client.run("CLIENT PAUSE 600000 WRITE");
    let mut text = daemon.connect();
    check(&mut text, b"get a\r\n", b"VALUE a 0 3\r\nold\r\nEND\r\n");
    text.write_all(b"set a 0 0 3\r\nnew\r\nget a\r\n").unwrap();
    let mut packets = daemon.connect();
    // A quiet delete of `a`, and a no-op that shows that it was done.
    let delete = [b"\x80\x14\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0b".as_slice()];
    packets.write_all(&delete.concat()).unwrap();
    packets
        .write_all(&[&[0x80, 0x0a][..], &[0; 22]].concat())
        .unwrap();
    let mut web = Http::to(&daemon);
    assert_eq!(web.get("/v1/cache/a").text(), "old");
    web.send(b"PUT /v1/cache/c HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
    wait_for_held(&mut client, 3);
    assert!(is_silent(&text) && is_silent(&packets));
    let mut pages = Http::to(&daemon);
    assert_eq!(pages.get("/metrics").status, 200);
    client.run("CLIENT UNPAUSE");
    expect(&mut text, b"STORED\r\nVALUE a 0 3\r\nnew\r\nEND\r\n");
    packets.read_exact(&mut [0; 24]).unwrap();
    assert!(web.response(false).status < 300);
    assert_eq!(client.run("GET c"), bulk("x"));
    client.run("CLIENT PAUSE 600000");
    text.write_all(b"get a\r\n").unwrap();
    check(&mut daemon.connect(), b"version\r\n", b"VERSION ");
    assert!(is_silent(&text));
    assert_eq!(pages.get("/metrics").status, 200);
    client.run("CLIENT UNPAUSE");
    expect(&mut text, b"VALUE a 0 3\r\nnew\r\nEND\r\n");
}

#[test]
fn a_long_value_waits_wherever_it_is() {
    let daemon = Daemon::start(&[&ONE_LOOP[..], &["--write-timeout", "4s"]].concat());
    let mut client = Client::connect(&daemon);
    let value = vec![b'v'; 1 << 20];
    let request = frame(&[b"SET", b"long", &value]);
    let mut begun = daemon.connect_resp();
    begun.write_all(&request[..300_000]).unwrap();
    // Its beginning came before this.
    client.run("PING");
    client.run("CLIENT PAUSE 600000 WRITE");
    begun.set_nonblocking(true).unwrap();
    let mut sent = 300_000;
    // Longer than the write timeout, which does not count while a pause lasts.
    for _ in 0..60 {
        while sent < request.len()
            && let Ok(bytes) = begun.write(&request[sent..])
        {
            sent += bytes;
        }
        daemon.advance(Duration::from_millis(100));
    }
    begun.set_nonblocking(false).unwrap();
    let mut fresh = daemon.connect_resp();
    fresh
        .write_all(&frame(&[b"SET", b"other", &value[..70_000]]))
        .unwrap();
    // A long command of another kind, and behind it a short one.
    let mut framed = daemon.connect_resp();
    framed
        .write_all(&frame(&[b"APPEND", b"third", &value[..200_000]]))
        .unwrap();
    framed.write_all(b"STRLEN third\r\n").unwrap();
    wait_for_held(&mut client, 3);
    assert_eq!(client.run("EXISTS long other third"), Value::Integer(0));
    client.run("CLIENT UNPAUSE");
    begun.write_all(&request[sent..]).unwrap();
    expect(&mut begun, b"+OK\r\n");
    expect(&mut fresh, b"+OK\r\n");
    expect(&mut framed, b":200000\r\n:200000\r\n");
    assert_eq!(client.run("STRLEN long"), Value::Integer(1 << 20));
}

#[test]
fn who_waits_and_sends_on_takes_no_more_memory() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.run("CLIENT PAUSE 600000 WRITE");
    let mut sender = daemon.connect_resp();
    sender.set_nonblocking(true).unwrap();
    let request = b"SET a b\r\n".repeat(1 << 12);
    let (mut sent, mut refused) = (0, 0);
    while refused < 20 {
        match sender.write(&request[sent % request.len()..]) {
            Ok(bytes) => (sent, refused) = (sent + bytes, 0),
            Err(_) => {
                refused += 1;
                // The only loop has looked for more before it answers this.
                client.run("PING");
            }
        }
        assert!(sent < 64 << 20, "the server goes on reading");
    }
    wait_for_held(&mut client, 1);
    let list = client.run("CLIENT LIST").shown();
    let memory = list
        .lines()
        .filter_map(|line| line.split("tot-mem=").nth(1))
        .map(|rest| {
            let number = rest.split(' ').next().unwrap();
            number.parse::<usize>().unwrap()
        });
    assert!(memory.max().unwrap() < 1 << 20, "{list}");
    client.run("CLIENT UNPAUSE");
    sender.set_nonblocking(false).unwrap();
    for _ in 0..sent / 9 {
        expect(&mut sender, b"+OK\r\n");
    }
}

#[test]
fn a_server_that_is_told_to_stop_answers_what_waits() {
    let daemon = Daemon::start(&ONE_LOOP);
    let mut client = Client::connect(&daemon);
    client.run("CLIENT PAUSE 600000");
    client.send_raw(b"SET a b\r\n");
    check(&mut daemon.connect(), b"version\r\n", b"VERSION ");
    assert_eq!(client.try_read(), None);
    daemon.stop();
    assert_eq!(client.read(), ok());
}

#[test]
fn what_is_expired_goes_while_requests_wait() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("SET a b PX 50");
    client.run("CLIENT PAUSE 600000 WRITE");
    daemon.advance(Duration::from_millis(50));
    assert_eq!(client.run("GET a"), Value::Null);
    assert_eq!(client.run("DBSIZE"), Value::Integer(0));
}

#[test]
fn wrong_pauses_are_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for (request, text) in [
        (
            "CLIENT PAUSE x",
            "ERR timeout is not an integer or out of range",
        ),
        ("CLIENT PAUSE -1", "ERR timeout is negative"),
        (
            "CLIENT PAUSE 1 READ",
            "ERR CLIENT PAUSE mode must be WRITE or ALL",
        ),
        ("CLIENT PAUSE 1 ALL 2", "ERR syntax error"),
    ] {
        assert_eq!(client.run(request), error(text), "{request}");
    }
    assert_eq!(client.run("CLIENT PAUSE 0"), ok());
    assert_eq!(client.run("PING").shown(), "+PONG");
}
