//! Attacks over HTTP: what a web page from elsewhere, or somebody without the token, can do.
//!
//! Each attack is tried with each method on each path of the tables that the server itself is
//! built on, so that a new path is attacked without a word here.

use crate::support::{daemon, http};

use cellar_execute::http::pages;
use cellar_execute::http::route;
use cellar_shared::auth::login_limiter::{BURST, PER_CONNECTION_MAX};

use daemon::{Daemon, check, hit, set};
use http::{Http, Response};

/// Every method and path that there is, as `GET /path`; and whether it changes something.
fn routes() -> Vec<(String, bool)> {
    let mut all = Vec::new();
    let mut add = |methods: Vec<&str>, path: &str, writes: bool| {
        let path = path.replace("{key}", "k");
        for method in methods {
            all.push((format!("{method} {path}"), writes));
        }
    };
    for row in route::TABLE {
        add(
            row.reads.iter().map(|m| m.name()).collect(),
            row.path,
            false,
        );
        add(
            row.writes.iter().map(|m| m.name()).collect(),
            row.path,
            true,
        );
    }
    for row in pages::TABLE {
        add(row.reads.split(", ").collect(), row.path, false);
        add(row.writes.into_iter().collect(), row.path, true);
    }
    for path in ["/", "/assets/main.js", "/nothing", "/v1/cache/a/b"] {
        add(vec!["GET", "HEAD", "POST", "DELETE"], path, false);
    }
    assert!(all.len() > 25, "{all:?}");
    all
}

/// Sends a request with exactly these fields, on a connection of its own.
fn send(daemon: &Daemon, line: &str, fields: &[&str]) -> Response {
    let mut http = Http::to(daemon);
    let (method, path) = line.split_once(' ').unwrap();
    // What each path takes: a document is one to all of them, and a key's value.
    let body = match path {
        "/v1/cache/batch/get" => "{\"ids\":[\"k\"]}",
        "/v1/cache/batch/put" => "{\"items\":[{\"id\":\"k\",\"content\":\"bad\"}]}",
        _ => "{\"id\":\"k\",\"content\":\"bad\"}",
    };
    let body = if matches!(method, "PUT" | "POST") {
        body
    } else {
        ""
    };
    let line = match path {
        "/v1/console/key" => format!("{line}?key=k"),
        "/v1/cache" if method != "POST" => format!("{line}?id=k"),
        _ => line.to_owned(),
    };
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let length = match body.len() {
        0 => String::new(),
        n => format!("Content-Length: {n}\r\n"),
    };
    http.send(format!("{line} HTTP/1.1\r\n{fields}{length}\r\n{body}").as_bytes());
    http.response(method == "HEAD")
}

const JSON: &str = "Content-Type: application/json";

/// The code of an error; of a response to HEAD, which has none, what is expected.
fn code(line: &str, response: &Response, expected: &str) -> String {
    if line.starts_with("HEAD ") {
        return expected.to_owned();
    }
    response.error()
}

#[test]
fn a_name_that_is_not_this_servers_reaches_nothing() {
    let daemon = Daemon::start(&["--console-write"]);
    let mut stream = daemon.connect();
    check(&mut stream, &set("k", b"5"), b"STORED\r\n");
    for (line, _) in routes() {
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
        ] {
            let answer = send(&daemon, &line, &[&format!("Host: {host}"), JSON]);
            let found = (answer.status, code(&line, &answer, "wrong_host"));
            assert_eq!(found, (421, "wrong_host".to_owned()), "{line} {host}");
        }
        // The name in a whole address counts too, whatever the field says.
        let (method, path) = line.split_once(' ').unwrap();
        let whole = format!("{method} http://evil.example:8080{path}");
        let answer = send(&daemon, &whole, &["Host: 127.0.0.1", JSON]);
        assert_eq!(answer.status, 421, "{whole}");
    }
    check(&mut stream, b"get k\r\n", &hit("k", b"5"));
    let refused = send(&daemon, "GET /metrics", &["Host: evil.example"]);
    let text = refused.text();
    assert!(
        text.contains("evil.example") && text.contains("--http-hosts"),
        "{text}"
    );
}

#[test]
fn a_name_that_was_right_before_on_the_same_connection_lets_no_other_in() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    for (host, is_right) in [
        ("localhost", true),
        ("evil.example", false),
        ("localhost.evil.example", false),
        ("127.0.0.1:80", true),
        ("localhos", false),
        ("localhost", true),
        ("", false),
        ("LOCALHOST", true),
    ] {
        http.send(format!("GET /v1/cache/k HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        let status = http.response(false).status;
        assert_eq!(status, if is_right { 404 } else { 421 }, "{host}");
    }
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let daemon = Daemon::start(&["--console-write"]);
    let mut stream = daemon.connect();
    check(&mut stream, &set("k", b"5"), b"STORED\r\n");
    let host = "Host: 127.0.0.1:8080";
    for (line, writes) in routes() {
        for fields in [
            ["Origin: http://evil.example", "X: y"],
            ["Origin: null", "X: y"],
            // The same machine, another port; an address that only begins like ours.
            ["Origin: http://127.0.0.1:3000", "X: y"],
            ["Origin: http://127.0.0.1:8080.evil.example", "X: y"],
            ["Origin: http://evil.example", "Sec-Fetch-Site: same-origin"],
        ] {
            for content_type in [JSON, "Content-Type: text/plain"] {
                let answer = send(&daemon, &line, &[host, fields[0], fields[1], content_type]);
                let found = (answer.status, code(&line, &answer, "cross_site"));
                assert_eq!(found, (403, "cross_site".to_owned()), "{line} {fields:?}");
            }
        }
        // A picture or a link says no origin; a browser may say more.
        for site in ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"] {
            let answer = send(&daemon, &line, &[host, site, JSON]);
            let is_refused = answer.status == 403;
            assert!(is_refused || !writes, "{line} {site} {}", answer.status);
            assert!(!is_refused || !line.starts_with("GET "), "{line} {site}");
        }
    }
    check(&mut stream, b"get k\r\n", &hit("k", b"5"));
}

#[test]
fn what_a_picture_can_ask_for_takes_no_lease() {
    let daemon = Daemon::start(&[]);
    for query in ["lease=10", "lease=10&early=10", "early=10"] {
        let answer = send(
            &daemon,
            &format!("GET /v1/cache/p?{query}"),
            &["Host: localhost"],
        );
        let found = (answer.status, &*answer.error());
        assert_eq!(found, (403, "lease_not_asked"), "{query}");
    }
    let ask = ["Host: localhost", "Cache-Lease: ask"];
    let long = send(&daemon, "GET /v1/cache/p?lease=9999h", &ask);
    assert_eq!((long.status, &*long.error()), (400, "bad_lease"));
    // Nobody has it yet.
    let won = send(&daemon, "GET /v1/cache/p?lease=1h", &ask);
    assert_eq!((won.status, won.field("cache-lease")), (404, "won"));
}

#[test]
fn names_that_were_given_and_pages_of_this_server_pass() {
    let flags = [
        "--http-hosts",
        "cache.example,*.svc.example",
        "--console-write",
    ];
    let daemon = Daemon::start(&flags);
    for (line, _) in routes() {
        for fields in [
            ["Host: cache.example", "X: y"],
            ["Host: a.b.svc.example:80", "X: y"],
            ["Host: 127.0.0.1:8080", "Origin: http://127.0.0.1:8080"],
            ["Host: localhost:8080", "Origin: http://localhost:8080"],
            // A proxy for a name that was given, which asks for the address.
            ["Host: 127.0.0.1:8080", "Origin: https://cache.example"],
            ["Host: 10.1.2.3", "Sec-Fetch-Site: same-origin"],
            ["Host: 10.1.2.3", "Sec-Fetch-Site: none"],
        ] {
            let status = send(&daemon, &line, &[fields[0], fields[1], JSON]).status;
            let is_console = line.contains("/v1/console/") || line.ends_with(".js");
            let is_console = is_console || line.ends_with(" /");
            let is_named = fields[0].contains("example");
            // The console is for this machine, by its address or as localhost.
            assert!(status != 421, "{line} {fields:?}");
            assert!(status != 403 || is_console && is_named, "{line} {fields:?}");
        }
    }
    let any = Daemon::start(&["--http-hosts", "*"]);
    assert_eq!(
        send(&any, "GET /metrics", &["Host: evil.example"]).status,
        200
    );
    let origin = ["Host: evil.example", "Origin: http://other.example"];
    assert_eq!(send(&any, "DELETE /v1/cache/k", &origin).status, 403);
}

#[test]
fn the_token_stands_for_a_name_but_not_for_an_origin() {
    let daemon = Daemon::start(&["--http-token", "s3cret", "--console-write"]);
    let bearer = "Authorization: Bearer s3cret";
    for (line, writes) in routes() {
        let foreign = "Host: cache.example";
        let status = send(&daemon, &line, &[foreign, bearer, JSON]).status;
        assert!(!matches!(status, 401 | 403 | 421), "{line} {status}");
        assert_eq!(send(&daemon, &line, &[foreign, JSON]).status, 421, "{line}");
        // A proxy may add the token to whatever comes, so it does not stand for an origin.
        let origin = "Origin: http://evil.example";
        let status = send(&daemon, &line, &[foreign, bearer, origin, JSON]).status;
        assert_eq!(status, 403, "{line}");
        let status = send(&daemon, &line, &["Host: localhost", JSON]).status;
        assert!(!writes || status == 401, "{line} {status}");
    }
}

#[test]
fn every_answer_tells_browsers_what_not_to_do_with_it() {
    let daemon = Daemon::start(&["--console-write"]);
    let mut http = Http::to(&daemon);
    let page = b"<script>alert(1)</script>";
    let typed = ["Content-Type: text/html"];
    assert_eq!(http.ask("PUT /v1/cache/k", &typed, page).status, 204);
    let mut answers: Vec<(String, Response)> = routes()
        .into_iter()
        .map(|(line, _)| {
            (
                line.clone(),
                send(&daemon, &line, &["Host: localhost", JSON]),
            )
        })
        .collect();
    let mut of = |line: &str, fields: &[&str]| {
        let answer = send(&daemon, line, fields);
        answers.push((line.to_owned(), answer.clone()));
        answer
    };
    assert_eq!(of("GET /v1/cache/k", &["Host: evil.example"]).status, 421);
    let no_host = of("GET /v1/cache/k", &["X: y"]);
    assert_eq!(no_host.status, 400);
    http.ask("PUT /v1/cache/k", &typed, page);
    let value = of("GET /v1/cache/k", &["Host: localhost"]);
    assert_eq!(value.field("content-security-policy"), "sandbox");
    let known = format!("If-None-Match: {}", value.field("etag"));
    assert_eq!(
        of("GET /v1/cache/k", &["Host: localhost", &known]).status,
        304
    );
    let statuses: std::collections::BTreeSet<u16> = answers.iter().map(|(_, a)| a.status).collect();
    assert!(statuses.len() >= 8, "{statuses:?}");
    for (line, answer) in answers {
        assert_eq!(answer.field("x-content-type-options"), "nosniff", "{line}");
        let policy = answer.field("cross-origin-resource-policy");
        assert_eq!(policy, "same-origin", "{line}");
    }
}

#[test]
fn tokens_are_not_guessed_by_trying() {
    let daemon = Daemon::start(&["--http-token", "s3cret"]);
    let (right, wrong) = ("Authorization: Bearer s3cret", "Authorization: Bearer x");
    let mut trusted = Http::to(&daemon);
    assert_eq!(trusted.ask("GET /v1/cache/k", &[right], b"").status, 404);
    // Who bears none guesses nothing.
    for _ in 0..2 * BURST {
        assert_eq!(trusted.get("/v1/cache/k").status, 401);
    }
    for number in 0..BURST {
        let mut http = Http::to(&daemon);
        let answer = http.ask("GET /v1/cache/k", &[wrong], b"");
        let told = (answer.status, answer.field("connection"));
        assert_eq!(told, (401, "close"), "{number}");
        assert!(http.is_closed(), "each guess costs a connection");
    }
    let mut refused = 0;
    for field in [wrong, right].into_iter().cycle().take(20) {
        let answer = Http::to(&daemon).ask("PUT /v1/cache/k", &[field], b"v");
        refused += u32::from(answer.status == 429);
        if answer.status == 429 {
            assert_eq!(answer.error(), "too_many_guesses");
            assert_ne!(answer.field("retry-after"), "");
        }
    }
    assert!(
        refused > 10,
        "a right one does not tell itself apart: {refused}"
    );
    // Who has shown the token goes on.
    assert_eq!(trusted.ask("GET /v1/cache/none", &[right], b"").status, 404);
    assert_eq!(Http::to(&daemon).get("/healthz").status, 200);
}

#[test]
fn passwords_are_not_guessed_by_trying() {
    use std::io::Read;
    let daemon = Daemon::start(&["--password", "s3cret"]);
    let mut trusted = daemon.connect_resp();
    check(&mut trusted, b"AUTH s3cret\r\n", b"+OK\r\n");
    let guess = b"AUTH x\r\n".repeat(1_000);
    let guess = [&guess[..], b"HELLO 3 AUTH default x\r\n"].concat();
    let mut answered = 0;
    for _ in 0..4 {
        let mut stream = daemon.connect_resp();
        std::io::Write::write_all(&mut stream, &guess).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let wrong = text.matches("-WRONGPASS").count();
        assert!(wrong <= usize::from(PER_CONNECTION_MAX), "{wrong}");
        answered += wrong as u64;
        assert!(
            text.lines().count() <= usize::from(PER_CONNECTION_MAX),
            "{text}"
        );
    }
    assert!((BURST..2 * BURST).contains(&answered), "{answered}");
    let mut right = 0;
    for _ in 0..20 {
        let mut stream = daemon.connect_resp();
        std::io::Write::write_all(&mut stream, b"AUTH s3cret\r\nQUIT\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        if text.starts_with("+OK") {
            right += 1;
            continue;
        }
        assert!(text.starts_with("-ERR too many wrong passwords"), "{text}");
    }
    assert!(
        right < 10,
        "a right one does not tell itself apart: {right}"
    );
    check(&mut trusted, b"PING\r\n", b"+PONG\r\n");
}
