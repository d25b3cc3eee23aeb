//! The status as JSON and the text for Prometheus, asked of a running server.

use crate::support::wait::wait_until;
use crate::support::{daemon, http};

use std::io::Write;

use cellar_execute::http::pages::status::{Latency, Status, TimelineStep};
use daemon::{Daemon, check, expect, hit, pattern, set};
use http::Http;

fn status(http: &mut Http) -> Status {
    let response = http.get("/v1/console/status");
    assert_eq!(
        (response.status, response.field("content-type")),
        (200, "application/json")
    );
    assert_eq!(response.field("cache-control"), "no-store");
    serde_json::from_slice(&response.body).unwrap()
}

/// Asks until the status is as wanted: what a turn has answered is counted when all its replies are
/// on their way. Returns how often it was asked before.
fn wait_for(http: &mut Http, wanted: impl Fn(&Status) -> bool) -> (Status, u64) {
    let (mut asked, mut last) = (0, status(http));
    wait_until("the status is as wanted", || {
        if !wanted(&last) {
            (asked, last) = (asked + 1, status(http));
        }
        wanted(&last)
    });
    (last, asked)
}

/// Checks a histogram against the number of requests that it has to tell of.
fn check_latency(latency: &Latency, requests: u64) {
    let histogram = &latency.histogram;
    assert_eq!(histogram.counts.len(), histogram.bounds.len() + 1);
    assert!(histogram.bounds.is_sorted());
    assert_eq!(latency.count, requests);
    assert_eq!(histogram.counts.iter().sum::<u64>(), requests);
    // All of a bin lie between the bound before and its own.
    let bounded = histogram.counts.iter().zip(&histogram.bounds);
    let most: u64 = bounded.map(|(count, bound)| count * bound).sum();
    assert!(
        histogram.counts.last() > Some(&0) || latency.sum <= most,
        "{latency:?}"
    );
}

#[test]
fn every_request_is_counted_once_for_its_protocol() {
    let daemon = Daemon::spawn(&["--max-value", "4MiB"]);
    let mut http = Http::to(&daemon);
    let mut memcached = daemon.connect();
    let large = pattern(1, 1 << 20);
    for (request, reply) in [
        (set("small", b"value"), b"STORED\r\n".to_vec()),
        (set("large", &large), b"STORED\r\n".to_vec()),
        (b"get small\r\n".to_vec(), hit("small", b"value")),
        (
            b"get nothing\r\nget small\r\n".to_vec(),
            [b"END\r\n".to_vec(), hit("small", b"value")].concat(),
        ),
        (b"nonsense\r\n".to_vec(), b"ERROR\r\n".to_vec()),
    ] {
        check(&mut memcached, &request, &reply);
    }
    let mut resp = daemon.connect_resp();
    let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n", large.len());
    resp.write_all(&[head.as_bytes(), &large, b"\r\n"].concat())
        .unwrap();
    expect(&mut resp, b"+OK\r\n");
    check(
        &mut resp,
        b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nx\r\n",
        b"+PONG\r\n$-1\r\n",
    );
    assert_eq!(http.put("/v1/cache/web", &large).status / 100, 2);
    assert_eq!(http.put("/v1/cache/web", b"little").status / 100, 2);

    let (status, asked) = wait_for(&mut http, |status| {
        status.requests.memcached >= 6 && status.requests.resp >= 3
    });
    // The request for this status is not answered yet.
    let web = asked + 2;
    check_latency(&status.latency_us.memcached, 6);
    check_latency(&status.latency_us.resp, 3);
    check_latency(&status.latency_us.http, web);
    let requests = &status.requests;
    assert_eq!(
        (requests.memcached, requests.resp, requests.http),
        (6, 3, web)
    );
    let threads: u64 = status.threads.iter().map(|thread| thread.requests).sum();
    assert_eq!(threads, 9 + web);
    assert!(status.threads.iter().any(|thread| thread.busy_us > 0));
    let open = &status.connections.now;
    assert_eq!((open.memcached, open.resp, open.http), (1, 1, 1));
    let served: u64 = status.threads.iter().map(|thread| thread.connections).sum();
    assert_eq!((served, status.connections.accepted), (3, 3));
    let operations = &status.operations;
    assert_eq!(
        (operations.gets, operations.hits, operations.misses),
        (4, 2, 2)
    );
    assert_eq!(status.items.now, 4);
    assert_eq!(status.expiry.never.items, 4);
    assert!(status.memory.live_bytes > 2 << 20 && status.memory.rss_bytes > 2 << 20);
}

#[test]
fn a_closed_connection_is_open_no_more() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    drop((daemon.connect(), daemon.connect_resp()));
    let accepted = |status: &Status| status.connections.accepted == 3;
    let (status, _) = wait_for(&mut http, |status| {
        let open = &status.connections.now;
        accepted(status) && open.memcached + open.resp == 0
    });
    assert_eq!(status.connections.now.http, 1);
}

#[test]
fn the_status_tells_of_the_server_and_what_leaves() {
    let daemon = Daemon::spawn(&["--console-write"]);
    let mut memcached = daemon.connect();
    check(&mut memcached, b"set soon 0 30 1\r\nx\r\n", b"STORED\r\n");
    check(
        &mut memcached,
        b"set later 0 7200 1\r\nx\r\n",
        b"STORED\r\n",
    );
    let status = status(&mut Http::to(&daemon));
    let server = &status.server;
    assert_eq!(server.pid, daemon.id());
    assert_eq!(server.version, env!("CARGO_PKG_VERSION"));
    assert!(server.console_write && !server.draining);
    assert_eq!(server.memcached.as_ref(), Some(&daemon.address));
    assert_eq!(server.resp.as_ref(), Some(&daemon.resp));
    assert_eq!(server.http.as_ref(), Some(&daemon.http));
    let expiry = &status.expiry;
    let items = |steps: &[TimelineStep]| steps.iter().map(|step| step.items).sum();
    let spans: [u64; 3] = [
        items(&expiry.minute),
        items(&expiry.hour),
        items(&expiry.day),
    ];
    assert_eq!(spans, [1, 1, 2]);
    let ends = [&expiry.minute, &expiry.hour, &expiry.day].map(|steps| {
        (
            steps.len(),
            steps[0].until_s,
            steps[steps.len() - 1].until_s,
        )
    });
    assert_eq!(ends, [(60, 1, 60), (60, 60, 3_600), (24, 3_600, 86_400)]);
    let factors: Vec<f64> = status.curve.iter().map(|point| point.factor).collect();
    assert_eq!(factors, [0.25, 0.5, 1.0, 2.0, 4.0]);
    assert!(status.curve.iter().all(|point| point.miss_ratio.is_none()));
}

#[test]
fn secrets_are_not_shown_and_asked_for() {
    let daemon = Daemon::start(&["--http-token", "0p3n-sesame", "--password", "l0ve-letter"]);
    let mut http = Http::to(&daemon);
    for path in ["/v1/console/status", "/metrics"] {
        assert_eq!(http.get(path).status, 401, "{path}");
        let token = ["Authorization: Bearer 0p3n-sesame"];
        let response = http.ask(&format!("GET {path}"), &token, b"");
        assert_eq!(response.status, 200, "{path}");
        for secret in ["0p3n", "l0ve"] {
            assert!(!response.text().contains(secret), "{path}");
        }
    }
}

#[test]
fn prometheus_gets_its_text() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    http.put("/v1/cache/a", b"b");
    let response = http.get("/metrics");
    assert_eq!(response.status, 200);
    assert_eq!(
        response.field("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let text = response.text();
    for line in [
        "cellar_requests_total{protocol=\"http\"} 1",
        "cellar_open_connections{protocol=\"http\"} 1",
        "memcached_current_items 1",
        "redis_db_keys{db=\"db0\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line}");
    }
    assert_eq!(http.ask("DELETE /metrics", &[], b"").status, 405);
}
