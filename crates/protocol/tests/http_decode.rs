//! HTTP decoding: what is a request, what is refused, and that cutting changes neither.

use cellar_protocol::http::decode::{FIELDS_BYTES_MAX, FIELDS_MAX, REQUEST_LINE_BYTES_MAX};
use cellar_protocol::http::{Body, Decoded, Kept, Limits, Mark, Method, Request, Scan, decode};

const LIMITS: Limits = Limits {
    body_bytes_max: 100,
};

/// What the bytes are, in words: the same whatever way they came.
fn outcome(input: &[u8], scan: Scan) -> (String, Scan) {
    match decode(input, scan, &LIMITS) {
        Decoded::Incomplete(scan) => ("incomplete".to_owned(), scan),
        Decoded::Nothing { used } => (format!("nothing {used}"), scan),
        Decoded::Request { request, used } => {
            let body = String::from_utf8_lossy(request.body).into_owned();
            let method = request.method;
            (
                format!("{method:?} {} {used} {body:?}", request.target.path()),
                scan,
            )
        }
        Decoded::Head {
            request,
            used,
            body,
        } => {
            let method = request.method;
            (
                format!("{method:?} {} {used} then {body:?}", request.target.path()),
                scan,
            )
        }
        Decoded::Refused(refused) => (format!("{} {}", refused.status.code(), refused.code), scan),
    }
}

/// Decodes bytes that come in two pieces, cut everywhere; gives what they are.
fn decoded(input: &[u8]) -> String {
    let (whole, _) = outcome(input, Scan::default());
    for cut in 0..input.len() {
        let (first, scan) = outcome(&input[..cut], Scan::default());
        if first == "incomplete" {
            assert_eq!(outcome(input, scan).0, whole, "cut at {cut}");
        } else if !whole.contains("then") {
            assert_eq!(first, whole, "decided at {cut}");
        }
    }
    whole
}

/// The request at the beginning of the bytes, without a body that is still to come.
fn request(input: &[u8]) -> Request<'_> {
    match decode(input, Scan::default(), &LIMITS) {
        Decoded::Request { request, .. } | Decoded::Head { request, .. } => request,
        other => panic!("it is a request: {other:?}"),
    }
}

fn head(fields: &str) -> String {
    decoded(format!("PUT /k HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes())
}

#[test]
fn requests_are_found_with_their_bodies() {
    let get = "GET /v1/cache/k HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(
        decoded(get.as_bytes()),
        format!("Get /v1/cache/k {} \"\"", get.len())
    );
    let put = "PUT /k HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\n\r\nhello";
    let two = format!("{put}{get}");
    assert_eq!(
        decoded(two.as_bytes()),
        format!("Put /k {} \"hello\"", put.len())
    );
    assert_eq!(decoded(b"\r\nGET"), "nothing 2");
    assert_eq!(decoded(b"GET / HTTP/1.0\r\n\r\n"), "Get / 18 \"\"");
    assert_eq!(
        decoded(b"GET http://h/k?x HTTP/1.1\r\nHost: a\r\n\r\n"),
        "Get /k 38 \"\""
    );
    assert_eq!(
        decoded(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        "Other * 31 \"\""
    );
}

#[test]
fn long_and_chunked_bodies_are_left_to_the_caller() {
    assert_eq!(head("Content-Length: 101\r\n"), "Put /k 49 then Bytes(101)");
    assert_eq!(
        head("Transfer-Encoding: Chunked\r\n"),
        "Put /k 56 then Chunks"
    );
    let expects = "Expect: 100-Continue\r\nContent-Length: 5\r\n";
    assert_eq!(head(expects), "Put /k 69 then Bytes(5)");
    assert_eq!(head("Content-Length: 0\r\n"), "Put /k 47 \"\"");
}

#[test]
fn what_two_readers_could_read_differently_is_refused() {
    for fields in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length:\r\n",
        "Content-Length : 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "X: y\r\n folded\r\n",
        "X: y\rZ: w\r\n",
        "X: y\nContent-Length: 5\r\n",
        "X: y \n",
        "X:\n",
        "X: \n",
        "X: y\x00\r\n",
        "X\r\n",
        ": y\r\n",
        "X y: z\r\n",
        "Host: b\r\n",
        "Content-Type: a/b\r\nContent-Type: c/d\r\n",
    ] {
        assert_eq!(head(fields), "400 bad_request", "{fields:?}");
    }
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET /\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n",
        "GET /#f HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET k HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\x16\x03\x01",
        "\n",
    ] {
        let (outcome, _) = outcome(request.as_bytes(), Scan::default());
        // A request line without a version is only seen with the end of the head.
        if request == "GET /\r\n" {
            assert_eq!(outcome, "incomplete");
            assert_eq!(decoded(b"GET /\r\n\r\n"), "400 bad_request");
        } else {
            assert_eq!(outcome, "400 bad_request", "{request:?}");
        }
    }
}

#[test]
fn what_is_not_spoken_here_is_told() {
    assert_eq!(
        head("Transfer-Encoding: gzip, chunked\r\n"),
        "501 not_implemented"
    );
    assert_eq!(
        head("Transfer-Encoding: identity\r\n"),
        "501 not_implemented"
    );
    assert_eq!(head("Expect: magic\r\n"), "417 expectation_failed");
    assert_eq!(
        head("Content-Length: 99999999999999999999\r\n"),
        "413 content_too_large"
    );
    assert_eq!(
        decoded(b"PRI * HTTP/2.0\r\n\r\n"),
        "505 version_not_supported"
    );
    assert_eq!(
        decoded(b"GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
        "505 version_not_supported"
    );
    assert_eq!(
        decoded(b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
        "501 not_implemented"
    );
    assert_eq!(
        decoded(b"get / HTTP/1.1\r\nHost: a\r\n\r\n"),
        "501 not_implemented"
    );
}

#[test]
fn heads_are_bounded_before_they_end() {
    let long_line = format!("GET /{}", "a".repeat(REQUEST_LINE_BYTES_MAX));
    assert_eq!(
        outcome(long_line.as_bytes(), Scan::default()).0,
        "414 uri_too_long"
    );
    let long_field = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(FIELDS_BYTES_MAX));
    assert_eq!(
        outcome(long_field.as_bytes(), Scan::default()).0,
        "431 fields_too_large"
    );
    let lines = "X: y\r\n".repeat(FIELDS_BYTES_MAX / 6 + 1);
    let many_bytes = format!("GET / HTTP/1.1\r\n{lines}");
    assert_eq!(
        outcome(many_bytes.as_bytes(), Scan::default()).0,
        "431 fields_too_large"
    );
    let fields = |count| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "X: y\r\n".repeat(count)
        )
    };
    assert_eq!(decoded(fields(FIELDS_MAX - 1).as_bytes()), "Get / 405 \"\"");
    assert_eq!(
        decoded(fields(FIELDS_MAX).as_bytes()),
        "431 fields_too_large"
    );
    let longest = format!("GET /{} HTTP/1.1\r\n", "%00".repeat(65_535));
    assert!(
        longest.len() <= REQUEST_LINE_BYTES_MAX,
        "the longest key fits"
    );
}

#[test]
fn fields_are_found_whatever_their_letters_are() {
    let text = b"GET / HTTP/1.1\r\nhOST: a\r\nIF-NONE-MATCH:  \"a\" \r\nif-none-match: \"b\"\r\n\
        Connection: foo, Close\r\nX-If-Match: x\r\n\r\n";
    let request = request(text);
    assert_eq!(request.method, Method::Get);
    let tags: Vec<_> = request.fields(Mark::IfNoneMatch).collect();
    assert_eq!(tags, [b"\"a\"", b"\"b\""]);
    assert_eq!(request.field(Mark::IfNoneMatch), Some(b"\"a\"".as_slice()));
    assert_eq!(request.field(Mark::IfMatch), None);
    assert!(request.marks.has(Mark::Close));
}

#[test]
fn the_plain_type_of_json_is_marked() {
    for (value, is_marked) in [
        ("application/json", true),
        (" Application/JSON ", true),
        ("application/json; charset=utf-8", false),
        ("application/jsonl", false),
        ("", false),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: {value}\r\n\r\n");
        let request = request(text.as_bytes());
        assert!(request.marks.has(Mark::ContentType), "{value}");
        assert_eq!(request.marks.has(Mark::Json), is_marked, "{value}");
    }
}

#[test]
fn space_behind_a_value_and_no_value_at_all_are_well_formed() {
    for fields in [
        "X: y \t\r\n",
        "X:\r\n",
        "X: \r\n",
        "X:y\r\n",
        "X: \r\nY: z  \r\n",
    ] {
        let used = 28 + fields.len();
        assert_eq!(head(fields), format!("Put /k {used} \"\""), "{fields:?}");
    }
}

#[test]
fn connections_stay_as_their_version_has_it() {
    let marks = |text: &str| {
        let request = request(text.as_bytes());
        (
            request.marks.has(Mark::Close),
            request.marks.has(Mark::KeepAlive),
        )
    };
    assert_eq!(marks("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), (false, false));
    assert_eq!(
        marks("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
        (true, false)
    );
    assert_eq!(marks("GET / HTTP/1.0\r\n\r\n"), (true, false));
    assert_eq!(
        marks("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"),
        (false, true)
    );
    let both = "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n";
    assert_eq!(marks(both), (true, false));
}

#[test]
fn a_body_is_told_by_one_of_two_ways() {
    let text = b"POST /k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let Decoded::Head { body, used, .. } = decode(text, Scan::default(), &LIMITS) else {
        panic!("the head is whole");
    };
    assert_eq!(
        (body, &text[used..]),
        (Body::Chunks, b"0\r\n\r\n".as_slice())
    );
}

#[test]
fn a_kept_request_is_the_same_with_its_body() {
    let text = b"PUT http://evil:80/v1/cache/a%20b?ttl=9&x HTTP/1.1\r\nHost: field:1\r\n\
        Cache-Control: max-age=5\r\nTransfer-Encoding: chunked\r\n\r\n";
    let before = request(text);
    let kept = Kept::of(&before);
    assert_eq!(format!("{:?}", kept.with_body(&[])), format!("{before:?}"));
    let after = kept.with_body(b"body");
    assert_eq!(after.body, b"body");
    assert_eq!(after.authority(), Some(b"evil:80".as_slice()));
    assert_eq!(
        after.field(Mark::CacheControl),
        Some(b"max-age=5".as_slice())
    );
    let parts = "/v1/cache/a%20b".len() + "ttl=9&x".len() + "field:1".len();
    assert_eq!(kept.bytes(), text.len() + parts);
}

#[test]
fn the_host_of_a_target_is_told_apart_from_the_field() {
    let of = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: field:1\r\n\r\n");
        let request = request(head.as_bytes());
        assert_eq!(request.host, Some(b"field:1".as_slice()));
        let authority = request.authority().map(<[u8]>::to_vec);
        authority.map(|authority| String::from_utf8(authority).unwrap())
    };
    assert_eq!(of("/v1/cache/k"), None);
    assert_eq!(of("*"), None);
    for target in [
        "http://evil:80",
        "HTTP://evil:80/",
        "http://evil:80/a//b?http://c",
    ] {
        assert_eq!(of(target).as_deref(), Some("evil:80"), "{target}");
    }
    assert_eq!(of("http://a@evil/x").as_deref(), Some("a@evil"));
    let old = request(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(old.host, None);
}

#[test]
fn what_browsers_say_of_other_origins_is_noted() {
    let marks = |fields: &str| {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        request(head.as_bytes()).marks
    };
    for (site, is_foreign) in [
        ("cross-site", true),
        ("same-site", true),
        ("same-origin", false),
        ("none", false),
    ] {
        let marks = marks(&format!("Sec-Fetch-Site: {site}\r\n"));
        assert_eq!(marks.has(Mark::CrossSite), is_foreign, "{site}");
    }
    assert!(marks("Origin: null\r\n").has(Mark::Origin));
    assert!(marks("Cache-Lease: ask\r\n").has(Mark::CacheLease));
    assert!(!marks("").has(Mark::Origin) && !marks("").has(Mark::WholeAddress));
}
