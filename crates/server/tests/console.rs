//! The console over HTTP: its files, what it tells of a key, and what it may change.

use crate::support::{daemon, http};

use serde_json::{Value, json};

use daemon::{Daemon, check, set};
use http::{Http, Response};

const KEY: &str = "/v1/console/key";

/// Sends one request with these further fields and reads its answer.
fn ask(daemon: &Daemon, line: &str, fields: &[&str]) -> Response {
    Http::to(daemon).ask(line, fields, b"")
}

fn json_of(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

/// What the console tells of a key.
fn look_up(daemon: &Daemon, query: &str) -> Value {
    let answer = ask(daemon, &format!("GET {KEY}?{query}"), &[]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.field("content-type"), "application/json");
    json_of(&answer)
}

#[test]
fn the_page_may_load_nothing_from_elsewhere() {
    let daemon = Daemon::start(&[]);
    let page = ask(&daemon, "GET /", &[]);
    assert_eq!(page.status, 200);
    assert_eq!(page.field("content-type"), "text/html; charset=utf-8");
    let policy = page.field("content-security-policy");
    assert!(policy.starts_with("default-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = String::from_utf8(page.body).unwrap();
    assert!(
        !text.contains("<style") && !text.contains(" style="),
        "styles are in files"
    );
    let scripts = text.split("<script").skip(1);
    assert!(scripts.clone().count() >= 3);
    assert!(
        scripts
            .clone()
            .all(|script| script.starts_with(" src=\"/assets/"))
    );
}

#[test]
fn its_files_have_their_types_and_are_not_sent_twice() {
    let daemon = Daemon::start(&[]);
    for (path, content_type) in [
        ("/assets/main.js", "text/javascript; charset=utf-8"),
        ("/assets/style/page.css", "text/css; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
    ] {
        let get = format!("GET {path}");
        let first = ask(&daemon, &get, &[]);
        assert_eq!(first.status, 200, "{path}");
        assert_eq!(first.field("content-type"), content_type);
        assert_eq!(first.field("cache-control"), "no-cache");
        assert_eq!(first.field("x-content-type-options"), "nosniff");
        let tag = first.field("etag");
        let again = ask(&daemon, &get, &[&format!("If-None-Match: {tag}")]);
        assert_eq!((again.status, again.field("etag")), (304, tag), "{path}");
        let head = ask(&daemon, &format!("HEAD {path}"), &[]);
        assert_eq!(head.status, 200, "{path}");
        assert_eq!(head.field("content-length"), first.body.len().to_string());
    }
    for (line, status) in [
        ("GET /assets/no.js", 404),
        ("GET /assets/vendor/README.md", 404),
        ("GET /assets/../main.js", 404),
        ("DELETE /assets/main.js", 405),
    ] {
        assert_eq!(ask(&daemon, line, &[]).status, status, "{line}");
    }
}

#[test]
fn a_key_is_told_of_without_a_read() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    check(
        &mut stream,
        b"set a%20b 7 100 5\r\nhello\r\n",
        b"STORED\r\n",
    );
    let seen = look_up(&daemon, "key=a%2520b");
    let ttl_ms = seen["ttl_ms"].as_u64().unwrap();
    assert!((90_000..=100_000).contains(&ttl_ms), "{ttl_ms}");
    assert_eq!(
        seen,
        json!({
            "key": "a%20b", "found": true, "kind": "string", "value_bytes": 5, "ttl_ms": ttl_ms,
            "flags": 7, "preview": "hello", "preview_encoding": "text", "preview_is_cut": false,
        })
    );
    let missing = json!({"key": "a b", "found": false});
    assert_eq!(look_up(&daemon, "key=a%20b"), missing);
    assert_eq!((daemon.stat("cmd_get"), daemon.stat("get_misses")), (0, 0));
    check(&mut stream, b"mg a%20b h\r\n", b"HD h0\r\n");
}

#[test]
fn values_of_every_kind_are_shown() {
    let daemon = Daemon::start(&[]);
    let mut memcached = daemon.connect();
    check(&mut memcached, &set("long", &[b'x'; 3000]), b"STORED\r\n");
    check(&mut memcached, &set("bytes", b"\x00\xff"), b"STORED\r\n");
    let mut resp = daemon.connect_resp();
    check(
        &mut resp,
        b"SELECT 2\r\nHSET h f v g w\r\n",
        b"+OK\r\n:2\r\n",
    );
    check(
        &mut resp,
        b"SADD s one\r\nZADD z 1.5 m 2 n\r\n",
        b":1\r\n:2\r\n",
    );
    for (query, kind, preview, encoding, is_cut) in [
        ("key=long", "string", &*"x".repeat(1024), "text", true),
        ("key=bytes", "string", "AP8=", "base64", false),
        ("key=h&database=2", "hash", "f: v\ng: w\n", "text", false),
        ("key=s&database=2", "set", "one\n", "text", false),
        ("key=z&database=2", "zset", "1.5 m\n2 n\n", "text", false),
    ] {
        let seen = look_up(&daemon, query);
        let shown = (&seen["kind"], &seen["preview"], &seen["preview_encoding"]);
        assert_eq!(
            shown,
            (&json!(kind), &json!(preview), &json!(encoding)),
            "{query}"
        );
        assert_eq!(
            (&seen["preview_is_cut"], &seen["ttl_ms"]),
            (&json!(is_cut), &Value::Null)
        );
    }
    assert_eq!(look_up(&daemon, "key=h")["found"], json!(false));
}

#[test]
fn a_key_is_deleted_only_where_the_console_may_write() {
    let delete = format!("DELETE {KEY}?key=k");
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    check(&mut stream, &set("k", b"v"), b"STORED\r\n");
    let refused = ask(&daemon, &delete, &[]);
    assert_eq!((refused.status, &*refused.error()), (403, "read_only"));
    check(&mut stream, b"get k\r\n", &daemon::hit("k", b"v"));

    let daemon = Daemon::start(&["--console-write"]);
    let mut stream = daemon.connect();
    check(&mut stream, &set("k", b"v"), b"STORED\r\n");
    let done = ask(&daemon, &delete, &[]);
    assert_eq!(
        (done.status, json_of(&done)),
        (200, json!({"deleted": true}))
    );
    check(&mut stream, b"get k\r\n", b"END\r\n");
    let again = ask(&daemon, &delete, &[]);
    assert_eq!(json_of(&again), json!({"deleted": false}));
}

#[test]
fn a_deleted_key_is_told_to_who_listens() {
    let flags = ["--console-write", "--notify-keyspace-events", "Kg"];
    let daemon = Daemon::start(&flags);
    let mut writer = daemon.connect_resp();
    check(&mut writer, b"SELECT 1\r\nSET k v\r\n", b"+OK\r\n+OK\r\n");
    let mut listener = daemon.connect_resp();
    let channel = "__keyspace@1__:k";
    let subscribed = format!("*3\r\n$9\r\nsubscribe\r\n$16\r\n{channel}\r\n:1\r\n");
    let subscribe = format!("SUBSCRIBE {channel}\r\n");
    check(&mut listener, subscribe.as_bytes(), subscribed.as_bytes());
    let done = ask(&daemon, &format!("DELETE {KEY}?key=k&database=1"), &[]);
    assert_eq!(json_of(&done), json!({"deleted": true}));
    let message = format!("*3\r\n$7\r\nmessage\r\n$16\r\n{channel}\r\n$3\r\ndel\r\n");
    daemon::expect(&mut listener, message.as_bytes());
}

#[test]
fn a_question_that_means_nothing_is_refused() {
    let daemon = Daemon::start(&[]);
    for query in ["", "key=%f", "key=a&database=16", "key=a&other=1"] {
        let answer = ask(&daemon, &format!("GET {KEY}?{query}"), &[]);
        assert_eq!(
            (answer.status, &*answer.error()),
            (400, "bad_query"),
            "{query}"
        );
    }
    let other = ask(&daemon, &format!("PUT {KEY}?key=a"), &[]);
    assert_eq!(
        (other.status, other.field("allow")),
        (405, "GET, HEAD, DELETE")
    );
}

#[test]
fn with_a_token_the_files_are_open_and_the_figures_are_not() {
    let daemon = Daemon::start(&["--http-token", "s3cret"]);
    for path in ["/", "/assets/main.js"] {
        assert_eq!(
            ask(&daemon, &format!("GET {path}"), &[]).status,
            200,
            "{path}"
        );
    }
    for path in ["/v1/console/status", "/v1/console/key?key=a"] {
        let get = format!("GET {path}");
        let refused = ask(&daemon, &get, &[]);
        assert_eq!((refused.status, &*refused.error()), (401, "unauthorized"));
        assert_eq!(refused.field("www-authenticate"), "Bearer");
        let allowed = ask(&daemon, &get, &["Authorization: Bearer s3cret"]);
        assert_eq!(allowed.status, 200, "{path}");
    }
}

#[test]
fn a_page_from_elsewhere_cannot_read_through_a_browser_on_this_machine() {
    let daemon = Daemon::start(&["--console-write"]);
    for line in [
        "GET /",
        "GET /v1/console/status",
        "DELETE /v1/console/key?key=k",
    ] {
        let mut http = Http::to(&daemon);
        http.send(format!("{line} HTTP/1.1\r\nHost: rebound.example\r\n\r\n").as_bytes());
        let refused = http.response(false);
        assert_eq!(
            (refused.status, &*refused.error()),
            (421, "wrong_host"),
            "{line}"
        );
    }
    // A name that was given is no way to the console: a proxy may pass on what others ask.
    let daemon = Daemon::start(&["--http-hosts", "*"]);
    let mut http = Http::to(&daemon);
    http.send(b"GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    let refused = http.response(false);
    assert_eq!((refused.status, &*refused.error()), (403, "forbidden"));
}

#[test]
fn what_a_rebound_page_asked_for_is_not_done() {
    let daemon = Daemon::start(&["--console-write"]);
    let mut stream = daemon.connect();
    check(&mut stream, &set("k", b"v"), b"STORED\r\n");
    let mut http = Http::to(&daemon);
    let line = format!("DELETE {KEY}?key=k");
    http.send(format!("{line} HTTP/1.1\r\nHost: rebound.example\r\n\r\n").as_bytes());
    assert_eq!(http.response(false).status, 421);
    check(&mut stream, b"get k\r\n", &daemon::hit("k", b"v"));
}
