//! HTTP: requests that are wrong, slow, or made to be read in two ways.

use crate::support::{daemon, http};

use std::time::Duration;

use daemon::{Daemon, pattern};
use http::Http;

/// Sends bytes on a new connection and checks that they are refused with this status, with a JSON
/// error, and that nothing behind them is read.
fn check_refused(daemon: &Daemon, request: &str, status: u16) {
    let mut http = Http::to(daemon);
    let smuggled = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    http.send(format!("{request}{smuggled}").as_bytes());
    let response = http.response(false);
    assert_eq!(response.status, status, "{request:.200?}");
    assert_eq!(response.field("connection"), "close", "{request:.200?}");
    assert!(!response.error().is_empty());
    assert!(http.is_closed(), "{request:.200?}");
}

fn put(fields: &str) -> String {
    format!("PUT /v1/cache/k HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

#[test]
fn a_request_that_could_hide_another_ends_the_connection() {
    let daemon = Daemon::start(&[]);
    for fields in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length : 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        "X: y\rContent-Length: 5\r\n",
        "X: y\nContent-Length: 5\r\n",
        "X: y\r\n Content-Length: 5\r\n",
        "Host: b\r\n",
    ] {
        check_refused(&daemon, &put(fields), 400);
    }
    for (fields, status) in [
        ("Transfer-Encoding: xchunked\r\n", 501),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Content-Length: 18446744073709551616\r\n", 413),
        ("Content-Length: 9999999999\r\n", 413),
        ("Expect: tea\r\n", 417),
    ] {
        check_refused(&daemon, &put(fields), status);
    }
    for body in [
        "5 \r\n",
        "5\nhello",
        "-5\r\n",
        "5\r\nhelloX\r\n",
        "ffffffffffffffff\r\n",
        "5;\n\r\n",
    ] {
        check_refused(
            &daemon,
            &(put("Transfer-Encoding: chunked\r\n") + body),
            400,
        );
    }
    let large_chunk = put("Transfer-Encoding: chunked\r\n") + "fffffff\r\n";
    check_refused(&daemon, &large_chunk, 413);
}

#[test]
fn what_is_no_http_is_refused_at_once() {
    let daemon = Daemon::start(&[]);
    for (request, status) in [
        ("GET / HTTP/2.0\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET /\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: localhost\n\n", 400),
        ("BREW /v1/cache/k HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        ("\x16\x03\x01\x02\x00", 400),
        ("*1\r\n$4\r\nPING\r\n", 400),
        ("{\"id\":1}", 400),
    ] {
        check_refused(&daemon, request, status);
    }
    // Bytes that may become a request are not refused before they are none.
    let mut http = Http::to(&daemon);
    http.send(b"get k\r\n\r\n");
    assert_eq!(http.response(false).status, 400);
    assert!(http.is_closed());
}

#[test]
fn heads_and_bodies_have_limits() {
    let daemon = Daemon::start(&["--max-value", "100KB"]);
    let long_line = format!("GET /v1/cache/{} HTTP/1.1\r\n", "k".repeat(210_000));
    check_refused(&daemon, &long_line, 414);
    let long_field = put(&format!("X: {}\r\n", "y".repeat(17_000)));
    check_refused(&daemon, &long_field, 431);
    let many_fields = put(&"X: y\r\n".repeat(64));
    check_refused(&daemon, &many_fields, 431);
    check_refused(&daemon, &put("Content-Length: 2000000\r\n"), 413);
    let document = "POST /v1/cache HTTP/1.1\r\nHost: localhost\r\n\
        Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n";
    check_refused(&daemon, document, 413);

    // A body that is not much too long is read over, and the connection stays.
    let mut http = Http::to(&daemon);
    let refused = http.put("/v1/cache/k", &vec![b'x'; 100_001]);
    assert_eq!((refused.status, refused.field("connection")), (413, ""));
    assert_eq!(http.put("/v1/cache/k", &vec![b'x'; 100_000]).status, 204);
    // One that nobody needs too.
    let get = http.ask("GET /v1/cache/k", &[], &vec![b'x'; 20_000]);
    assert_eq!((get.status, get.body.len()), (200, 100_000));
    let refused = http.ask("PUT /v1/cache/k?ttl=0", &[], &vec![b'x'; 50_000]);
    assert_eq!((refused.status, refused.error().as_str()), (400, "bad_ttl"));
    let refused = http.ask("PUT /v1/cache/%zz", &[], &vec![b'x'; 50_000]);
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (400, "bad_percent_code")
    );
    assert_eq!(http.get("/healthz").status, 200);
}

#[test]
fn a_client_that_waits_for_leave_to_send_is_told() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for bytes in [5, 20_000] {
        let value = pattern(3, bytes);
        for (length, body) in [
            (format!("Content-Length: {bytes}\r\n"), value.clone()),
            (
                "Transfer-Encoding: chunked\r\n".to_owned(),
                [
                    format!("{bytes:x}\r\n").as_bytes(),
                    &value,
                    b"\r\n0\r\n\r\n",
                ]
                .concat(),
            ),
        ] {
            http.send(put(&format!("Expect: 100-continue\r\n{length}")).as_bytes());
            assert_eq!(http.response(false).status, 100);
            http.send(&body);
            let stored = http.response(false);
            assert_eq!(stored.status, 204);
            let read = http.get("/v1/cache/k");
            assert!(read.body == value);
            assert_eq!(read.field("etag"), stored.field("etag"));
        }
    }
    // Whether a body comes that was not asked for cannot be known.
    http.send(put("Expect: 100-continue\r\nContent-Length: 500000000\r\n").as_bytes());
    let refused = http.response(false);
    assert_eq!(
        (refused.status, refused.field("connection")),
        (413, "close")
    );
    assert!(http.is_closed());
}

#[test]
fn slow_requests_end_with_their_time() {
    let daemon = Daemon::start(&["--write-timeout", "1s"]);
    for begin in [
        "GET /v1/cache/k HT".to_owned(),
        put("Content-Length: 5\r\n") + "hel",
        put("Content-Length: 50000\r\n") + "hel",
        put("Transfer-Encoding: chunked\r\n") + "5\r\nhel",
    ] {
        let mut http = Http::to(&daemon);
        http.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(http.response(false).status, 200);
        http.send(begin.as_bytes());
        let step = Duration::from_secs(1);
        daemon.advance_until("it is answered", step, || http.has_more());
        let response = http.response(false);
        assert_eq!(
            (response.status, response.error().as_str()),
            (408, "request_timeout")
        );
        assert!(http.is_closed());
    }
    // Who has nothing under way may be quiet for longer than that.
    let mut http = Http::to(&daemon);
    assert_eq!(http.get("/healthz").status, 200);
    daemon.advance(Duration::from_millis(2_500));
    assert_eq!(http.get("/healthz").status, 200);
}

#[test]
fn a_connection_ends_when_its_client_wants_it() {
    let daemon = Daemon::start(&[]);
    for (request, told) in [
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "close",
        ),
        ("GET /healthz HTTP/1.0\r\n\r\n", "close"),
        ("GET /v1/cache/k HTTP/1.0\r\n\r\n", "close"),
    ] {
        let mut http = Http::to(&daemon);
        http.send(request.as_bytes());
        assert_eq!(http.response(false).field("connection"), told);
        assert!(http.is_closed());
    }
    let mut http = Http::to(&daemon);
    for _ in 0..3 {
        http.send(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(http.response(false).field("connection"), "keep-alive");
    }
}

#[test]
fn a_connection_too_many_is_told_so() {
    let daemon = Daemon::start(&["--max-connections", "1"]);
    let mut first = Http::to(&daemon);
    assert_eq!(first.get("/healthz").status, 200);
    let mut stream = daemon.connect_http();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 503 ")
            && head.contains("Connection: close")
            && head.contains("X-Content-Type-Options: nosniff"),
        "{head}"
    );
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{text}"
    );
    assert!(
        serde_json::from_str::<serde_json::Value>(body).is_ok(),
        "{body}"
    );
}
