//! HTTP: what clients of `/v1/cache` see, beside clients of the other protocols.

use crate::support::{daemon, http};

use std::io::{Read, Write};

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
            "PUT /v1/cache/k{number} HTTP/1.1\r\nHost: localhost\r\n\
             Content-Length: 4\r\n\r\n{number:4}"
        );
        let get = format!("GET /v1/cache/k{number} HTTP/1.1\r\nHost: localhost\r\n\r\n");
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
    let daemon = Daemon::start(&["--max-value", "1MiB"]);
    let mut http = Http::to(&daemon);
    for bytes in [1, 16_383, 16_384, 16_385, 70_000, 1 << 20] {
        let value = pattern(bytes as u64, bytes);
        let stored = http.put("/v1/cache/k", &value);
        assert_eq!(stored.status, 204, "{bytes}");
        let response = http.get("/v1/cache/k");
        assert!(response.body == value, "{bytes}");
        assert_eq!(response.field("etag"), stored.field("etag"), "{bytes}");

        let mut request =
            b"PUT /v1/cache/c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_vec();
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
fn a_token_is_asked_for_wherever_there_is_data() {
    let daemon = Daemon::start(&["--http-token", "s3cret"]);
    let mut http = Http::to(&daemon);
    for line in [
        "GET /v1/cache/k",
        "DELETE /v1/cache/k",
        "GET /metrics",
        "GET /v1/console/history",
        "GET /v1/console/status",
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

#[test]
fn any_bytes_can_be_a_key() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let every_byte: String = (0..=255).map(|byte| format!("%{byte:02x}")).collect();
    let longest = "%00".repeat(65_535);
    for key in [
        "k",
        "%6b%6b",
        "a+b",
        "%2F",
        "%25",
        "batch",
        "caf%C3%A9",
        &every_byte,
        &longest,
    ] {
        let path = format!("/v1/cache/{key}");
        assert_eq!(http.put(&path, key.as_bytes()).status, 204, "{key}");
        assert_eq!(http.get(&path).text(), key, "{key}");
    }
    assert_eq!(http.get("/v1/cache/%6bk").text(), "%6b%6b");
    let mut redis = daemon.connect_resp();
    check(
        &mut redis,
        b"*2\r\n$3\r\nGET\r\n$5\r\ncaf\xc3\xa9\r\n",
        b"$9\r\ncaf%C3%A9\r\n",
    );
    for (path, status, error) in [
        ("/v1/cache/", 404, "no_such_path"),
        ("/v1/cache/a/b", 404, "no_such_path"),
        ("/v1/cache/%", 400, "bad_percent_code"),
        ("/v1/cache/%0", 400, "bad_percent_code"),
        ("/v1/cache/%zz", 400, "bad_percent_code"),
        (&format!("/v1/cache/{longest}x"), 414, "key_too_long"),
    ] {
        let response = http.get(path);
        assert_eq!(
            (response.status, response.error().as_str()),
            (status, error)
        );
    }
}

#[test]
fn a_value_lives_as_long_as_its_parameter_or_its_header_says() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let mut redis = daemon.connect_resp();
    for (query, field, ttl) in [
        ("", "X: y", "-1"),
        ("?ttl=60", "X: y", "60"),
        ("?ttl=10m", "X: y", "600"),
        ("?ttl=10m", "Cache-Control: max-age=5", "600"),
        ("", "Cache-Control: public, max-age=90", "90"),
        ("", "Cache-Control: MAX-AGE=\"90\"\r\nAge: 30", "60"),
        ("", "Cache-Control: no-cache", "-1"),
    ] {
        let stored = http.ask(&format!("PUT /v1/cache/k{query}"), &[field], b"v");
        assert_eq!(stored.status, 204, "{query} {field}");
        check(&mut redis, b"TTL k\r\n", format!(":{ttl}\r\n").as_bytes());
    }
    for (query, field) in [
        ("?ttl=0", "X: y"),
        ("?ttl=", "X: y"),
        ("?ttl=-5", "X: y"),
        ("?ttl=soon", "X: y"),
        ("", "Cache-Control: max-age=0"),
        ("", "Cache-Control: max-age=5\r\nAge: 5"),
        ("", "Cache-Control: max-age=x"),
        ("", "Cache-Control: no-store"),
    ] {
        let refused = http.ask(&format!("PUT /v1/cache/k{query}"), &[field], b"w");
        assert_eq!(
            (refused.status, refused.error().as_str()),
            (400, "bad_ttl"),
            "{query} {field}"
        );
    }
    assert_eq!(http.get("/v1/cache/k").text(), "v");
    let refused = http.put("/v1/cache/k?tll=5", b"w");
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (400, "unknown_parameter")
    );
    http.put("/v1/cache/k?ttl=30", b"w");
    let response = http.get("/v1/cache/k");
    assert_eq!(response.field("age"), "0");
    assert!(["max-age=30", "max-age=29"].contains(&response.field("cache-control")));
}

#[test]
fn an_error_shows_the_value_that_is_wrong() {
    let daemon = Daemon::start(&["--max-value", "1KiB"]);
    let mut http = Http::to(&daemon);
    let long = "x".repeat(300);
    let batch: Vec<String> = (0..1_001).map(|id| format!("\"{id}\"")).collect();
    let batch = format!("{{\"ids\":[{}]}}", batch.join(","));
    for (request, body, shown) in [
        (
            "PUT /v1/cache/k?ttl=soon",
            "v",
            "'soon': the TTL is not valid",
        ),
        (
            "PUT /v1/cache/k?ttl=%22%5C",
            "v",
            "'\"\\': the TTL is not valid",
        ),
        (
            "PUT /v1/cache/k?tll=5",
            "v",
            "unknown parameter 'tll'; this path has: ttl",
        ),
        (
            "PUT /v1/cache/k?ttl=5&ttl=6",
            "v",
            "the parameter 'ttl' occurs twice",
        ),
        (
            "POST /v1/cache/k/incr?delta=many",
            "",
            "'many' is not a 64-bit number",
        ),
        (
            "POST /v1/cache/batch/get",
            &batch,
            "at most 1000 keys, this one has 1001",
        ),
        (
            "DELETE /v1/cache",
            "",
            "the header Allow lists the supported ones",
        ),
        (
            &format!("PUT /v1/cache/k?ttl={long}"),
            "v",
            &format!("'{}':", &long[..200]),
        ),
        (
            &format!("PUT /v1/cache/{}", long.repeat(219)),
            "v",
            "65535 bytes, this one has 65700",
        ),
    ] {
        let refused = http.ask(
            request,
            &["Content-Type: application/json"],
            body.as_bytes(),
        );
        let document: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains(shown), "{request:.60}: {message}");
    }
}

#[test]
fn a_client_that_has_the_value_is_told_so() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for bytes in [0, 5, 20_000] {
        let value = pattern(1, bytes);
        let put = http.ask(
            "PUT /v1/cache/k",
            &["Content-Length: 0"][..usize::from(bytes == 0)],
            &value,
        );
        let tag = put.field("etag");
        let response = http.get("/v1/cache/k");
        assert_eq!((response.status, response.field("etag")), (200, tag));
        let ask = |http: &mut Http, field: &str| http.ask("GET /v1/cache/k", &[field], b"").status;
        assert_eq!(ask(&mut http, &format!("If-None-Match: {tag}")), 304);
        assert_eq!(
            ask(&mut http, &format!("If-None-Match: \"x\", W/{tag}")),
            304
        );
        assert_eq!(ask(&mut http, "If-None-Match: *"), 304);
        assert_eq!(ask(&mut http, "If-None-Match: \"0000000000000000\""), 200);
        assert_eq!(ask(&mut http, &format!("If-Match: {tag}")), 200);
        assert_eq!(ask(&mut http, &format!("If-Match: W/{tag}")), 412);
        assert_eq!(ask(&mut http, "If-Match: \"v1\""), 412);
        let head = http.ask("HEAD /v1/cache/k", &[&format!("If-None-Match: {tag}")], b"");
        assert_eq!((head.status, head.field("etag")), (304, tag));
    }
}

#[test]
fn writes_are_done_only_if_their_condition_holds() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let put =
        |http: &mut Http, field: &str, body: &[u8]| http.ask("PUT /v1/cache/k", &[field], body);
    assert_eq!(put(&mut http, "If-Match: *", b"0").status, 412);
    assert_eq!(put(&mut http, "If-Match: \"v1\"", b"0").status, 412);
    assert_eq!(put(&mut http, "If-None-Match: *", b"1").status, 204);
    let refused = put(&mut http, "If-None-Match: *", b"2");
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (412, "precondition_failed")
    );
    assert_eq!(put(&mut http, "If-Match: *", b"3").status, 204);
    let tag = http.get("/v1/cache/k").field("etag").to_owned();
    let large = pattern(2, 30_000);
    let stored = put(&mut http, &format!("If-Match: \"x\", {tag}"), &large);
    assert_eq!(stored.status, 204);
    assert_eq!(
        put(&mut http, &format!("If-Match: {tag}"), b"5").status,
        412
    );
    let tag = stored.field("etag").to_owned();
    assert_eq!(
        put(&mut http, &format!("If-None-Match: {tag}"), b"6").status,
        412
    );
    assert!(http.get("/v1/cache/k").body == large);
    assert_eq!(
        put(&mut http, &format!("If-Match: {tag}"), b"7").status,
        204
    );
    let delete =
        |http: &mut Http, field: &str| http.ask("DELETE /v1/cache/k", &[field], b"").status;
    assert_eq!(delete(&mut http, &format!("If-Match: {tag}")), 412);
    let tag = http.get("/v1/cache/k").field("etag").to_owned();
    assert_eq!(delete(&mut http, &format!("If-Match: {tag}")), 204);
    assert_eq!(delete(&mut http, "If-Match: *"), 412);
    let both = ["If-Match: *", "If-None-Match: *"];
    assert_eq!(http.ask("PUT /v1/cache/k", &both, b"8").status, 412);
    for field in [
        "If-Match:",
        "If-Match: v1",
        "If-None-Match: \"a\", *",
        "If-Match: \"a",
    ] {
        for line in ["PUT /v1/cache/k", "GET /v1/cache/k", "DELETE /v1/cache/k"] {
            let refused = http.ask(line, &[field], b"");
            assert_eq!(
                (refused.status, refused.error().as_str()),
                (400, "bad_condition")
            );
        }
    }
}

#[test]
fn content_types_are_kept_and_memcached_reads_the_plain_value() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for content_type in [
        "application/json",
        "text/plain; charset=utf-8",
        "image/png",
        "application/vnd.example+json; v=1",
    ] {
        let field = format!("Content-Type: {content_type}");
        assert_eq!(http.ask("PUT /v1/cache/k", &[&field], b"{}").status, 204);
        let response = http.get("/v1/cache/k");
        assert_eq!(response.field("content-type"), content_type);
        let mut memcached = daemon.connect();
        check(
            &mut memcached,
            b"append k 0 0 1\r\n!\r\nmg k v\r\n",
            b"STORED\r\nVA 3\r\n{}!\r\n",
        );
        assert_eq!(http.get("/v1/cache/k").field("content-type"), content_type);
    }
    let mut memcached = daemon.connect();
    check(&mut memcached, b"set k 1 0 1\r\nx\r\n", b"STORED\r\n");
    assert_eq!(
        http.get("/v1/cache/k").field("content-type"),
        "application/octet-stream"
    );
    for field in ["Content-Type: nonsense", "Content-Encoding: gzip"] {
        let refused = http.ask("PUT /v1/cache/k", &[field], b"x");
        assert_eq!(refused.status, 415, "{field}");
    }
    http.ask(
        "PUT /v1/cache/k",
        &["Content-Type: text/html; charset=utf-8"],
        b"<script>",
    );
    let page = http.get("/v1/cache/k");
    assert_eq!(page.field("content-security-policy"), "sandbox");
    assert_eq!(page.field("x-content-type-options"), "nosniff");
}

#[test]
fn a_message_is_read_as_soon_as_it_was_posted() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for (id, content, stored, content_type) in [
        ("a", r#""te\u0078t""#, "text", "text/plain; charset=utf-8"),
        (
            "b/c",
            r#"{"x": [1, null]}"#,
            r#"{"x": [1, null]}"#,
            "application/json",
        ),
        ("\u{e9}", "null", "null", "application/json"),
        ("d", "\"plain\"", "plain", "text/plain; charset=utf-8"),
        ("e", "1.50", "1.50", "application/json"),
    ] {
        let response = http.post(
            "/v1/cache",
            &format!(r#"{{"id":"{id}","content":{content},"ttl":60}}"#),
        );
        assert_eq!(response.status, 201, "{content}");
        let value = http.get(response.field("location"));
        assert_eq!(
            (value.text(), value.field("content-type")),
            (stored, content_type)
        );
        let query = id.replace('/', "%2F").replace('\u{e9}', "%C3%A9");
        let message = http.get(&format!("/v1/cache?id={query}"));
        let message: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        let expected: serde_json::Value = serde_json::from_str(content).unwrap();
        assert_eq!(
            (&message["id"], &message["content"]),
            (&id.into(), &expected)
        );
        assert_eq!(message["ttl"], 60);
    }
    let bytes = r#"{"id":"f","content":"AP8=","encoding":"base64"}"#;
    assert_eq!(http.post("/v1/cache", bytes).status, 201);
    assert_eq!(http.get("/v1/cache/f").body, [0, 255]);
    assert_eq!(http.get("/v1/cache?id=f").text(), bytes.to_owned() + "\n");
    assert_eq!(http.get("/v1/cache?id=none").status, 404);
    assert_eq!(http.get("/v1/cache").status, 400);
}

#[test]
fn the_error_of_a_body_that_is_no_message_names_the_field_and_the_rule() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for (path, body, reason) in [
        (
            "/v1/cache",
            r#"{"id":"a","value":1}"#,
            "line 1, column 17: unknown field `value`, expected one of `id`, `content`, `ttl`, \
             `encoding`",
        ),
        (
            "/v1/cache",
            r#"{"id":17,"content":1}"#,
            "line 1, column 8: invalid type: integer `17`, expected an id to be a string",
        ),
        (
            "/v1/cache",
            r#"{"content":1}"#,
            "line 1, column 13: missing field `id`",
        ),
        (
            "/v1/cache",
            r#"{"id":"a","content":1,"ttl":true}"#,
            "line 1, column 32: invalid type: boolean `true`, expected ttl to be seconds, \
             a duration such as 10m, or never",
        ),
        (
            "/v1/cache",
            r#"{"id":"a","content":1,"a\"\n\\":1}"#,
            "line 1, column 31: unknown field `a\"\n\\`, expected one of `id`, `content`, `ttl`, \
             `encoding`",
        ),
        (
            "/v1/cache/batch/get",
            r#"{"ids":["a",2]}"#,
            "line 1, column 13: invalid type: integer `2`, expected an id to be a string",
        ),
    ] {
        let refused: serde_json::Value =
            serde_json::from_slice(&http.post(path, body).body).unwrap();
        let expected = format!("the body is not the JSON that this path takes: {reason}");
        assert_eq!(refused["error"]["message"], expected, "{body}");
    }
    let field = "\u{e9}".repeat(100_000);
    let long = http.post("/v1/cache", &format!(r#"{{"id":"a","{field}":1}}"#));
    assert!(long.body.len() < 500, "{}", long.text());
    assert_eq!(long.error(), "bad_json");
}

#[test]
fn a_body_that_is_no_message_is_refused() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for (body, error) in [
        ("{", "bad_json"),
        ("[]", "bad_json"),
        ("{}", "bad_json"),
        (r#"{"id":"a"}"#, "bad_json"),
        (r#"{"id":1,"content":1}"#, "bad_json"),
        (r#"{"id":"a","content":1,"more":1}"#, "bad_json"),
        (r#"{"id":"a","id":"b","content":1}"#, "bad_json"),
        (r#"{"id":"a","content":1} x"#, "bad_json"),
        (r#"{"id":"a","content":"\ud800"}"#, "bad_json"),
        (r#"{"id":"a","content":1,"ttl":-1}"#, "bad_ttl"),
        (r#"{"id":"a","content":1,"ttl":0.0001}"#, "bad_ttl"),
        (r#"{"id":"a","content":1,"ttl":true}"#, "bad_json"),
        (r#"{"id":"a","content":1,"ttl":0}"#, "bad_ttl"),
        (r#"{"id":"a","content":1,"ttl":"soon"}"#, "bad_ttl"),
        (r#"{"id":"","content":1}"#, "bad_key"),
        (
            r#"{"id":"a","content":"?","encoding":"base64"}"#,
            "bad_base64",
        ),
        (
            r#"{"id":"a","content":1,"encoding":"base64"}"#,
            "bad_base64",
        ),
        (&"[".repeat(100_000), "bad_json"),
    ] {
        let refused = http.post("/v1/cache", body);
        assert_eq!(
            (refused.status, refused.error().as_str()),
            (400, error),
            "{body:.80}"
        );
    }
    let message = br#"{"id":"a","content":1}"#;
    let form = ["Content-Type: application/x-www-form-urlencoded"];
    assert_eq!(http.ask("POST /v1/cache", &form, message).status, 415);
    assert_eq!(http.ask("POST /v1/cache", &[], message).status, 415);
    assert_eq!(
        http.ask("POST /v1/cache", &["Content-Type: application/json"], b"")
            .status,
        411
    );
    let other_site = [
        "Content-Type: application/json",
        "Sec-Fetch-Site: cross-site",
    ];
    assert_eq!(http.ask("POST /v1/cache", &other_site, message).status, 403);
    assert_eq!(http.get("/v1/cache/a").status, 404);
    let long_key = format!(r#"{{"id":"{}","content":1}}"#, "k".repeat(65_536));
    let refused = http.post("/v1/cache", &long_key);
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (400, "key_too_long")
    );
}

#[test]
fn batches_are_stored_and_read() {
    let daemon = Daemon::start(&["--max-value", "1MiB"]);
    let mut http = Http::to(&daemon);
    let put = r#"{"items":[{"id":"a","content":1},{"id":"","content":2},
        {"id":"b","content":"two","ttl":"1m"}]}"#;
    let response = http.post("/v1/cache/batch/put", put);
    assert_eq!(
        (response.status, response.error().as_str()),
        (400, "bad_key")
    );
    assert_eq!(http.get("/v1/cache/a").status, 404, "nothing was stored");
    let long = "x".repeat(1 << 20) + "x";
    let put = put.replace(
        r#""id":"","content":2"#,
        &format!(r#""id":"c","content":"{long}""#),
    );
    let response = http.post("/v1/cache/batch/put", &put);
    assert_eq!(response.status, 200);
    let expected = r#"{"stored":2,"failed":[{"id":"c","error":"content_too_large"}]}"#;
    assert_eq!(response.text().trim_end(), expected);
    let mut redis = daemon.connect_resp();
    check(&mut redis, b"SADD s x\r\n", b":1\r\n");
    let response = http.post("/v1/cache/batch/get", r#"{"ids":["a","none","b","s"]}"#);
    let items = [
        r#"{"id":"a","content":1}"#,
        r#"{"id":"none","error":"not_found"}"#,
        r#"{"id":"b","content":"two","ttl":60}"#,
        r#"{"id":"s","error":"wrong_kind"}"#,
    ];
    let expected = format!("{{\"items\":[{}]}}\n", items.join(","));
    assert_eq!(response.text(), expected);
    assert_eq!(
        http.post("/v1/cache/batch/get", r#"{"ids":[]}"#).text(),
        "{\"items\":[]}\n"
    );
    let many = vec!["\"k\""; 1_001].join(",");
    assert_eq!(
        http.post("/v1/cache/batch/get", &format!("{{\"ids\":[{many}]}}"))
            .status,
        413
    );
}

#[test]
fn a_long_batch_comes_in_chunks_and_requests_go_on_behind_it() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let value = "v".repeat(10_000);
    let mut ids = Vec::new();
    for number in 0..500 {
        let id = format!("key-{number}");
        http.put(&format!("/v1/cache/{id}"), value.as_bytes());
        ids.push(format!("\"{id}\""));
    }
    let body = format!("{{\"ids\":[{}]}}", ids.join(","));
    let request = format!(
        "POST /v1/cache/batch/get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        body.len(),
    );
    http.send(request.as_bytes());
    let response = http.response(false);
    assert_eq!(response.field("transfer-encoding"), "chunked");
    let document: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    let items = document["items"].as_array().unwrap();
    assert_eq!(items.len(), 500);
    assert!(items.iter().all(|item| item["content"] == value.as_str()));
    assert_eq!(http.response(false).text(), "ok\n");
}

#[test]
fn counts_go_up_and_down_and_keep_their_deadline() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let mut redis = daemon.connect_resp();
    let count = |http: &mut Http, query: &str| {
        let response = http.ask(&format!("POST /v1/cache/n/incr{query}"), &[], b"");
        (response.status, response.text().trim_end().to_owned())
    };
    let value = |number: i64| (200, format!("{{\"value\":{number}}}"));
    assert_eq!(count(&mut http, "?initial=10&ttl=100"), value(11));
    assert_eq!(count(&mut http, "?delta=-20&ttl=5"), value(-9));
    check(&mut redis, b"TTL n\r\nINCR n\r\n", b":100\r\n:-8\r\n");
    assert_eq!(count(&mut http, ""), value(-7));
    for (query, status) in [
        ("?delta=x", 400),
        ("?delta=+1", 400),
        ("?delta=9223372036854775808", 400),
        ("?delta=-9223372036854775808", 409),
        ("?by=1", 400),
    ] {
        assert_eq!(count(&mut http, query).0, status, "{query}");
    }
    assert_eq!(count(&mut http, ""), value(-6));
    check(&mut redis, b"SET n words\r\n", b"+OK\r\n");
    assert_eq!(
        http.ask("POST /v1/cache/n/incr", &[], b"").error(),
        "not_a_number"
    );
    check(&mut redis, b"SADD s x\r\n", b":1\r\n");
    let refused = http.ask("POST /v1/cache/s/incr", &[], b"");
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (409, "wrong_kind")
    );
    let absent = http.ask("POST /v1/cache/none/incr", &["If-Match: *"], b"");
    assert_eq!(absent.status, 404);
    let mut memcached = daemon.connect();
    check(
        &mut memcached,
        b"set m 0 0 2\r\n10\r\ndecr m 1\r\n",
        b"STORED\r\n9\r\n",
    );
    let response = http.ask("POST /v1/cache/m/incr", &[], b"");
    assert_eq!(response.text(), "{\"value\":10}\n");
}

/// GET by a client that knows leases.
fn lease(http: &mut Http, path: &str) -> http::Response {
    http.ask(&format!("GET {path}"), &["Cache-Lease: ask"], b"")
}

#[test]
fn one_client_computes_a_value_and_the_others_wait() {
    let daemon = Daemon::start(&[]);
    let (mut one, mut other) = (Http::to(&daemon), Http::to(&daemon));
    let won = lease(&mut one, "/v1/cache/k?lease=10s");
    assert_eq!((won.status, won.field("cache-lease")), (404, "won"));
    let wait = lease(&mut other, "/v1/cache/k?lease=10s");
    assert_eq!((wait.status, wait.field("cache-lease")), (404, "wait"));
    assert_eq!(wait.field("retry-after"), "1");
    assert_eq!(
        other.get("/v1/cache/k").status,
        404,
        "nobody sees the empty value"
    );
    assert_eq!(other.get("/v1/cache?id=k").status, 404);
    let condition = format!("If-Match: {}", won.field("etag"));
    let stored = one.ask("PUT /v1/cache/k?ttl=60", &[&condition], b"fresh");
    assert_eq!(stored.status, 204);
    let late = other.ask("PUT /v1/cache/k", &[&condition], b"late");
    assert_eq!(late.status, 412);
    let fresh = lease(&mut other, "/v1/cache/k?lease=10s");
    assert_eq!(
        (fresh.text(), fresh.field("cache-lease")),
        ("fresh", "fresh")
    );
}

#[test]
fn a_value_is_computed_anew_while_the_old_one_is_served() {
    let daemon = Daemon::start(&[]);
    let (mut one, mut other) = (Http::to(&daemon), Http::to(&daemon));
    one.put("/v1/cache/k?ttl=60", b"old");
    let early = lease(&mut one, "/v1/cache/k?lease=10&early=90");
    assert_eq!((early.text(), early.field("cache-lease")), ("old", "won"));
    assert_eq!(
        early.field("cache-control"),
        "max-age=0, stale-while-revalidate=90"
    );
    let wait = lease(&mut other, "/v1/cache/k?lease=10&early=90");
    assert_eq!((wait.text(), wait.field("cache-lease")), ("old", "wait"));

    assert_eq!(
        one.ask("POST /v1/cache/none/invalidate", &[], b"").status,
        404
    );
    assert_eq!(
        one.ask("POST /v1/cache/k/invalidate?stale=30", &[], b"")
            .status,
        204
    );
    let stale = lease(&mut other, "/v1/cache/k?lease=10");
    assert_eq!(
        (stale.text(), stale.field("cache-lease")),
        ("old", "stale-won")
    );
    assert_eq!(stale.field("cache-control"), "no-cache");
    let wait = lease(&mut one, "/v1/cache/k?lease=10");
    assert_eq!(
        (wait.text(), wait.field("cache-lease")),
        ("old", "stale-wait")
    );
    let condition = format!("If-Match: {}", stale.field("etag"));
    assert_eq!(
        other.ask("PUT /v1/cache/k", &[&condition], b"new").status,
        204
    );
    assert_eq!(one.get("/v1/cache/k").text(), "new");
}

#[test]
fn near_caches_and_keyspace_events_hear_of_writes() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "KEA"]);
    let mut http = Http::to(&daemon);
    let mut near = daemon.connect_resp();
    check(&mut near, b"SET k 1\r\n", b"+OK\r\n");
    near.write_all(b"HELLO 3\r\n").unwrap();
    let mut greeting = vec![0; 4096];
    let _ = near.read(&mut greeting).unwrap();
    let invalidation = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    check(&mut near, b"CLIENT TRACKING ON\r\n", b"+OK\r\n");
    let writes: [(&str, &str, &[u8]); 5] = [
        ("PUT /v1/cache/k", "X: y", b"5"),
        (
            "POST /v1/cache",
            "Content-Type: application/json",
            br#"{"id":"k","content":6}"#,
        ),
        ("POST /v1/cache/k/incr", "X: y", b""),
        ("POST /v1/cache/k/invalidate", "X: y", b""),
        ("DELETE /v1/cache/k", "X: y", b""),
    ];
    let mut listener = daemon.connect_resp();
    let channel = "__keyspace@0__:k";
    let subscribed = format!(
        "*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n",
        channel.len()
    );
    check(
        &mut listener,
        format!("SUBSCRIBE {channel}\r\n").as_bytes(),
        subscribed.as_bytes(),
    );
    for ((line, field, body), (value, event)) in writes.into_iter().zip([
        ("1", "set"),
        ("5", "set"),
        ("6", "incrby"),
        ("7", "invalidate"),
        ("7", "del"),
    ]) {
        check(
            &mut near,
            b"GET k\r\n",
            format!("$1\r\n{value}\r\n").as_bytes(),
        );
        assert!(http.ask(line, &[field], body).status < 300, "{line}");
        daemon::expect(&mut near, invalidation);
        let message = format!(
            "*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{event}\r\n",
            channel.len(),
            event.len(),
        );
        daemon::expect(&mut listener, message.as_bytes());
    }
}

#[test]
fn a_transaction_notices_what_http_has_changed() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    let mut redis = daemon.connect_resp();
    check(
        &mut redis,
        b"WATCH k\r\nMULTI\r\nGET k\r\n",
        b"+OK\r\n+OK\r\n+QUEUED\r\n",
    );
    http.put("/v1/cache/k", b"v");
    check(&mut redis, b"EXEC\r\n", b"*-1\r\n");
}

#[test]
fn paths_tell_which_methods_they_have() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for (line, allow) in [
        ("POST /v1/cache/k", "GET, HEAD, PUT, DELETE"),
        ("PATCH /v1/cache/k", "GET, HEAD, PUT, DELETE"),
        ("OPTIONS /v1/cache/k", "GET, HEAD, PUT, DELETE"),
        ("PUT /v1/cache", "GET, HEAD, POST"),
        ("GET /v1/cache/k/incr", "POST"),
        ("GET /v1/cache/batch/get", "POST"),
    ] {
        let response = http.ask(line, &[], b"");
        assert_eq!(
            (response.status, response.field("allow")),
            (405, allow),
            "{line}"
        );
    }
    assert_eq!(http.ask("PUT /v1/cache/k", &[], b"").status, 411);
}
