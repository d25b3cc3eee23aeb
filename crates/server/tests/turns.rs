//! Turns: what one connection asks for does not keep the others waiting.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/resp.rs"]
mod resp;

use std::io::Read;
use std::time::Duration;

use daemon::Daemon;
use resp::Client;

/// Requests that are sent at once, each of which copies a long string.
const HEAVY: usize = 1_000;

#[test]
fn many_long_requests_sent_at_once_let_others_come_in_between() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut honest = Client::connect(&daemon);
    honest.run("SETRANGE long 4194000 x");
    let mut greedy = daemon.connect_resp();
    let burst = b"SETBIT long 7 1\r\n".repeat(HEAVY);
    std::io::Write::write_all(&mut greedy, &burst).unwrap();
    // The first answers show that the loop is at it.
    let mut answers = [0; 4 * HEAVY];
    let mut received = greedy.read(&mut answers).unwrap();
    assert_eq!(honest.run("PING").shown(), "+PONG");
    greedy
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    received += greedy.read(&mut answers[received..]).unwrap_or(0);
    assert!(received < answers.len() / 2, "{received} bytes came before");
    greedy.set_read_timeout(Some(daemon::PATIENCE)).unwrap();
    greedy.read_exact(&mut answers[received..]).unwrap();
    assert!(answers.chunks(4).skip(1).all(|answer| answer == b":1\r\n"));
}

#[test]
fn a_client_comes_in_while_another_loop_is_held() {
    let daemon = Daemon::start(&["--enable-debug-commands"]);
    // The first connection is served by the first loop, the next one by the other.
    let mut held = Client::connect(&daemon);
    held.send(&[b"DEBUG", b"SLEEP", b"20"]);
    std::thread::sleep(Duration::from_millis(50));
    let begun = cellar::clock::Stopwatch::start();
    assert_eq!(Client::connect(&daemon).run("PING").shown(), "+PONG");
    assert!(begun.us() < 10_000_000, "it waited for the other loop");
}
