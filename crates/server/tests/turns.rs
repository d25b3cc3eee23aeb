//! Turns: what one connection asks for does not keep the others waiting.

use crate::support::wait::wait_until;
use crate::support::{daemon, resp};

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use daemon::Daemon;
use resp::Client;

/// Requests that are sent at once, each of which reads a long string.
const HEAVY: usize = 1_000;

#[test]
fn many_long_requests_sent_at_once_let_others_come_in_between() {
    let daemon = Daemon::spawn(&["--threads", "1"]);
    let mut honest = Client::connect(&daemon);
    honest.run("SETRANGE long 4194000 x");
    let mut greedy = daemon.connect_resp();
    let burst = b"BITCOUNT long\r\n".repeat(HEAVY);
    greedy.write_all(&burst).unwrap();
    // The first answers show that the loop is at it.
    let mut answers = [0; 4 * HEAVY];
    let mut received = greedy.read(&mut answers).unwrap();
    assert_eq!(honest.run("PING").shown(), "+PONG");
    greedy
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    received += greedy.read(&mut answers[received..]).unwrap_or(0);
    assert!(received < answers.len() / 2, "{received} bytes came before");
    greedy
        .set_read_timeout(Some(crate::support::wait::PATIENCE))
        .unwrap();
    greedy.read_exact(&mut answers[received..]).unwrap();
    assert!(answers.chunks(4).all(|answer| answer == b":4\r\n"));
}

#[test]
fn a_client_comes_in_while_another_loop_is_held() {
    let daemon = Daemon::spawn(&["--threads", "3", "--enable-debug-commands"]);
    // Each connection is served by the loop that has the fewest: three loops have one each.
    let mut held = Client::connect(&daemon);
    held.send(&[b"DEBUG", b"SLEEP", b"20"]);
    resp::wait_for_command(&daemon, "debug");
    assert_eq!(Client::connect(&daemon).run("PING").shown(), "+PONG");
    assert_eq!(held.try_read(), None, "it waited for the other loop");
}

/// How often BITCOUNT was called.
fn calls(client: &mut Client) -> u64 {
    let text = client.run("INFO commandstats").shown();
    let calls = text.split("cmdstat_bitcount:calls=").nth(1);
    let calls = calls.and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[test]
fn who_comes_anew_does_not_wait_for_all_who_have_asked_for_much() {
    const GREEDY: usize = 300;
    let daemon = Daemon::spawn(&["--threads", "1"]);
    let mut honest = Client::connect(&daemon);
    honest.run("SETRANGE long 2000000 x");
    let greedy: Vec<TcpStream> = (0..GREEDY).map(|_| daemon.connect_resp()).collect();
    for mut stream in &greedy {
        stream.write_all(&b"BITCOUNT long\r\n".repeat(40)).unwrap();
    }
    // A client that is kept from its processor lets many turns pass; not each time.
    let seen: Vec<u64> = (0..30).map(|_| calls(&mut honest)).collect();
    let fewest = seen.windows(2).map(|two| two[1] - two[0]).min();
    assert!(seen[29] < 40 * GREEDY as u64, "they had no time: {seen:?}");
    assert!(fewest.is_some_and(|few| few < 100), "{seen:?}");
}

/// How many of the clients, each of which waits for an answer, have one before the honest client
/// has its own, when all ask while the only loop is held for so many seconds.
fn answered_before(
    honest: &mut Client,
    greedy: &[TcpStream],
    request: &[u8],
    held_s: f64,
) -> usize {
    honest.send(&[b"DEBUG", b"SLEEP", held_s.to_string().as_bytes()]);
    for mut stream in greedy {
        stream.write_all(request).unwrap();
    }
    // Behind all of them.
    honest.send(&[b"GET", b"nothing"]);
    honest.read();
    assert_eq!(honest.read().shown(), "nil");
    let has_answer = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let found = stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).unwrap();
        found
    };
    let before = greedy.iter().filter(has_answer).count();
    for stream in greedy {
        BufReader::new(stream)
            .read_line(&mut String::new())
            .unwrap();
    }
    before
}

#[test]
fn one_long_request_of_each_of_many_is_not_waited_for_by_who_asks_for_little() {
    const GREEDY: usize = 300;
    let daemon = Daemon::spawn(&["--threads", "1", "--enable-debug-commands"]);
    let mut honest = Client::connect(&daemon);
    honest.run("SETRANGE long 16000000 x");
    let greedy: Vec<TcpStream> = (0..GREEDY).map(|_| daemon.connect_resp()).collect();
    for request in ["BITCOUNT long\r\n", "COPY long other REPLACE\r\n"] {
        // On a busy machine the requests may come after the loop was let go, so it is held for
        // longer each time; and a client that is kept from its processor looks late.
        let mut seen = Vec::new();
        for held_s in [0.2, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2] {
            let before = answered_before(&mut honest, &greedy, request.as_bytes(), held_s);
            seen.push(before);
            if before < GREEDY / 2 {
                break;
            }
        }
        let is_early = |before: &usize| *before < GREEDY / 2;
        assert!(seen.last().is_some_and(is_early), "{request} {seen:?}");
    }
}

/// How many connections an answer to `INFO clients` tells of.
fn connections(answer: &str) -> u64 {
    let count = answer
        .lines()
        .find_map(|line| line.strip_prefix("connected_clients:"));
    count.unwrap().trim().parse().unwrap()
}

/// What an honest client is told of how many connections there are while idle ones are closed:
/// each number between all and none. Its questions have come before the time of the others is over,
/// so it does not matter when it runs itself.
fn seen_closing(honest: &mut Client, daemon: &Daemon, held_s: f64) -> BTreeSet<u64> {
    const IDLE: u64 = 800;
    const QUESTIONS: usize = 5_000;
    let _idle: Vec<TcpStream> = (0..IDLE).map(|_| daemon.connect()).collect();
    let mut count = || connections(&honest.run("INFO clients").shown());
    wait_until("they have come", || count() == IDLE + 1);
    // The honest client is never idle for as long as the others.
    daemon.advance(Duration::from_millis(1_500));
    count();
    honest.send(&[b"DEBUG", b"SLEEP", held_s.to_string().as_bytes()]);
    honest.send_raw(&b"INFO clients\r\n".repeat(QUESTIONS));
    daemon.advance(Duration::from_secs(1));
    honest.read();
    let mut seen: BTreeSet<u64> = (0..QUESTIONS)
        .map(|_| connections(&honest.read().shown()))
        .collect();
    // A connection that its loop has taken over only after the clock was moved is closed later.
    daemon.advance_until("all of them are closed", Duration::from_secs(1), || {
        let count = connections(&honest.run("INFO clients").shown());
        seen.insert(count);
        count == 1
    });
    seen.range(2..=IDLE).copied().collect()
}

#[test]
fn connections_whose_time_is_over_are_closed_some_at_a_time() {
    let flags = ["--idle-timeout", "2s", "--enable-debug-commands"];
    let daemon = Daemon::start(&[&flags[..], &["--threads", "1"]].concat());
    let mut honest = Client::connect(&daemon);
    // On a busy machine the time may be over after the loop was let go.
    let mut seen = BTreeSet::new();
    for held_s in [0.2, 0.2, 0.4, 0.8, 1.6, 3.2] {
        seen = seen_closing(&mut honest, &daemon, held_s);
        if seen.len() >= 3 {
            return;
        }
    }
    panic!("all at once: {seen:?}");
}
