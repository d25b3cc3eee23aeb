//! Stops that nobody notices: servers are replaced under load, one after the other, and clients
//! that try again after a clean close see no error.
//!
//! Each server is told to stop once its successor is there; it goes on for `--lame-duck`, in which
//! clients that come find the successor, and then drains. A clean close is an end between two
//! answers; a reset, half an answer or a refused connection is an error. `CELLAR_TEST_STOPS=100`,
//! as `make soak` sets it, does more of them.

use crate::support::daemon::{Daemon, check, expect_end, set};
use crate::support::http::Http;
use crate::support::stubborn::{BySource, Way, way};
use crate::support::wait::wait_until;

use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;

/// Stops in `make test`.
const STOPS: u32 = 30;
/// Requests that a client has under way.
const DEPTH: usize = 8;

const GET: &[u8] = b"get k\r\n";
const HIT: &[u8] = b"VALUE k 0 5\r\nvalue\r\nEND\r\n";
const BULK: &[u8] = b"$5\r\nvalue\r\n";
const PAGE: &[u8] = b"GET /v1/cache/k HTTP/1.1\r\nHost: localhost\r\n\r\n";
const VALUE: &[u8] = b"HTTP/1.1 200 OK value";
const WAYS: [Way; 7] = [
    way(0, GET, HIT, DEPTH, true),
    way(0, GET, HIT, 1, false),
    way(1, b"GET k\r\n", BULK, DEPTH, true),
    way(1, b"GET k\r\n", BULK, 1, true),
    way(1, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", BULK, 1, false),
    way(2, PAGE, VALUE, 1, true),
    way(2, PAGE, VALUE, 1, false),
];

fn start() -> Daemon {
    let daemon = Daemon::spawn(&["--lame-duck", "100ms", "--drain-timeout", "60s"]);
    check(&mut daemon.connect(), &set("k", b"value"), b"STORED\r\n");
    daemon
}

#[test]
fn clients_that_try_again_after_a_clean_close_see_no_error() {
    let stops = std::env::var("CELLAR_TEST_STOPS").map_or(STOPS, |text| text.parse().unwrap());
    let mut present = start();
    let crowd = BySource::start(&WAYS, &present);
    for stop in 0..stops {
        let next = start();
        crowd.send_to(&next);
        present.signal(Signal::TERM);
        assert_eq!(present.wait().code(), Some(0), "stop {stop}");
        present = next;
        // All go on at the successor.
        crowd.wait_for_all();
    }
    crowd.end();
}

#[test]
fn a_lame_duck_lets_clients_in_while_probes_hear_that_it_stops() {
    let daemon = Daemon::start(&["--lame-duck", "10s"]);
    let mut kept = daemon.connect();
    check(&mut kept, &set("k", b"value"), b"STORED\r\n");
    let mut http = Http::to(&daemon);
    assert_eq!(http.get("/readyz").status, 200);
    daemon.stop();
    wait_until("probes hear of it", || {
        Http::to(&daemon).get("/readyz").status == 503
    });
    let answer = http.get("/readyz");
    assert_eq!((answer.status, answer.field("connection")), (503, "close"));
    assert_eq!(answer.text(), "stopping\n");
    let mut later = Http::to(&daemon);
    assert_eq!(later.get("/healthz").status, 200);
    daemon.advance(Duration::from_millis(9_900));
    check(&mut kept, GET, HIT);
    check(&mut daemon.connect(), GET, HIT);
    daemon.advance(Duration::from_millis(100));
    let is_shut = || TcpStream::connect(&daemon.address).is_err();
    wait_until("nobody is let in", is_shut);
    expect_end(&mut kept);
}
