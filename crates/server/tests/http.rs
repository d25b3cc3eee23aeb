//! HTTP: what clients of `/v1/cache` see, beside clients of the other protocols.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/http.rs"]
mod http;

use daemon::{Daemon, check, hit, pattern, set};
use http::Http;

#[test]
fn a_value_is_stored_read_and_deleted() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    assert_eq!(http.get("/v1/cache/k").status, 404);
    assert_eq!(http.put("/v1/cache/k", b"value").status, 204);
    let response = http.get("/v1/cache/k");
    assert_eq!((response.status, response.text()), (200, "value"));
    assert_eq!(response.field("content-type"), "application/octet-stream");
    assert_eq!(response.field("cache-control"), "");
    let head = http.ask("HEAD /v1/cache/k", &[], b"");
    assert_eq!((head.status, head.field("content-length")), (200, "5"));
    assert_eq!(http.ask("DELETE /v1/cache/k", &[], b"").status, 204);
    let gone = http.ask("DELETE /v1/cache/k", &[], b"");
    assert_eq!((gone.status, gone.error().as_str()), (404, "not_found"));
    assert_eq!(http.ask("HEAD /v1/cache/k", &[], b"").status, 404);
}

#[test]
fn memcached_http_and_redis_see_the_same_keys() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let mut memcached = daemon.connect();
    let mut redis = daemon.connect_resp();
    assert_eq!(http.put("/v1/cache/k?ttl=100", b"value").status, 204);
    check(&mut memcached, b"get k\r\n", &hit("k", b"value"));
    check(&mut redis, b"GET k\r\n", b"$5\r\nvalue\r\n");
    check(&mut redis, b"TTL k\r\n", b":100\r\n");
    check(&mut memcached, &set("a/b", b"x"), b"STORED\r\n");
    assert_eq!(http.get("/v1/cache/a%2Fb").text(), "x");
    check(&mut redis, b"HSET h f v\r\n", b":1\r\n");
    let response = http.get("/v1/cache/h");
    assert_eq!(
        (response.status, response.error().as_str()),
        (409, "wrong_kind")
    );
    check(&mut redis, b"SET k two EX 50\r\n", b"+OK\r\n");
    let response = http.get("/v1/cache/k");
    assert_eq!(response.text(), "two");
    assert!(["max-age=49", "max-age=50"].contains(&response.field("cache-control")));
    assert_eq!(http.put("/v1/cache/h", b"now a string").status, 204);
    check(&mut redis, b"TYPE h\r\n", b"+string\r\n");
}

#[test]
fn requests_that_are_sent_together_are_answered_in_order() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let mut requests = Vec::new();
    for number in 0..1_000 {
        let put = format!(
            "PUT /v1/cache/k{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n{number:4}"
        );
        let get = format!("GET /v1/cache/k{number} HTTP/1.1\r\nHost: a\r\n\r\n");
        requests.extend_from_slice(put.as_bytes());
        requests.extend_from_slice(get.as_bytes());
    }
    http.send(&requests);
    for number in 0..1_000 {
        assert_eq!(http.response(false).status, 204);
        assert_eq!(http.response(false).text(), format!("{number:4}"));
    }
}

#[test]
fn large_values_come_whole_by_length_and_in_chunks() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for bytes in [1, 16_383, 16_384, 16_385, 70_000, 1 << 20] {
        let value = pattern(bytes as u64, bytes);
        let stored = http.put("/v1/cache/k", &value);
        assert_eq!(stored.status, 204, "{bytes}");
        let response = http.get("/v1/cache/k");
        assert!(response.body == value, "{bytes}");
        assert_eq!(response.field("etag"), stored.field("etag"), "{bytes}");

        let mut request =
            b"PUT /v1/cache/c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in value.chunks(10_000) {
            request.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            request.extend_from_slice(chunk);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
        http.send(&request);
        assert_eq!(http.response(false).status, 204);
        assert!(http.get("/v1/cache/c").body == value, "{bytes}");
    }
    let value = vec![0; (1 << 20) + 1];
    let refused = http.put("/v1/cache/k", &value);
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (413, "content_too_large")
    );
    assert!(http.is_closed());
}

#[test]
fn pages_tell_that_the_server_lives() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let page = http.get("/healthz");
    assert_eq!((page.status, page.text()), (200, "ok\n"));
    assert_eq!(http.get("/readyz").status, 200);
    assert_eq!(http.get("/nothing").status, 404);
    let head = http.ask("HEAD /healthz", &[], b"");
    assert_eq!((head.status, head.field("content-length")), (200, "3"));
    assert_eq!(http.ask("DELETE /healthz", &[], b"").status, 405);
}

#[test]
fn a_token_is_asked_for_everywhere_but_where_the_server_shows_that_it_lives() {
    let daemon = Daemon::start(&["--http-token", "s3cret"]);
    let mut http = Http::to(&daemon);
    for line in [
        "GET /v1/cache/k",
        "DELETE /v1/cache/k",
        "GET /",
        "POST /v1/cache",
    ] {
        let response = http.ask(line, &[], b"");
        assert_eq!(
            (response.status, response.error().as_str()),
            (401, "unauthorized")
        );
        assert_eq!(response.field("www-authenticate"), "Bearer");
    }
    assert_eq!(http.get("/healthz").status, 200);
    let bearer = ["Authorization: Bearer s3cret"];
    assert_eq!(http.ask("PUT /v1/cache/k", &bearer, b"v").status, 204);
    assert_eq!(http.ask("GET /v1/cache/k", &bearer, b"").text(), "v");
}
