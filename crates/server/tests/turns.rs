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
/// has its own, when all ask while the only loop is held.
fn answered_before(honest: &mut Client, greedy: &[TcpStream], request: &[u8]) -> usize {
    honest.send(&[b"DEBUG", b"SLEEP", b"0.2"]);
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
    honest.run("SETRANGE long 2000000 x");
    let greedy: Vec<TcpStream> = (0..GREEDY).map(|_| daemon.connect_resp()).collect();
    let value = vec![b'v'; 1_000];
    let fields: Vec<String> = (0..3_000).map(|field| format!("f{field}")).collect();
    for some in fields.chunks(500) {
        let pairs = some.iter().flat_map(|field| [field.as_bytes(), &value]);
        let args: Vec<&[u8]> = [&b"HSET"[..], b"hash"].into_iter().chain(pairs).collect();
        honest.call(&args);
    }
    for request in ["SETBIT long 7 1\r\n", "HINCRBY hash n 1\r\n"] {
        // A client that is kept from its processor looks late; not each time.
        let mut seen = Vec::new();
        while seen.len() < 10 && !seen.iter().any(|before| *before < GREEDY / 2) {
            seen.push(answered_before(&mut honest, &greedy, request.as_bytes()));
        }
        assert!(
            seen.iter().any(|before| *before < GREEDY / 2),
            "{request} {seen:?}"
        );
    }
}

/// How many connections there are.
fn connections(honest: &mut BufReader<TcpStream>) -> u64 {
    honest.get_mut().write_all(b"stats\r\n").unwrap();
    let mut found = 0;
    loop {
        let mut line = String::new();
        assert!(honest.read_line(&mut line).unwrap() > 0, "it was closed");
        if let Some(number) = line.strip_prefix("STAT curr_connections ") {
            found = number.trim().parse().unwrap();
        } else if line == "END\r\n" {
            return found;
        }
    }
}

/// What an honest client sees of how many connections there are while idle ones are closed: each
/// number between all and none.
fn seen_closing(honest: &mut BufReader<TcpStream>, daemon: &Daemon) -> BTreeSet<u64> {
    const IDLE: u64 = 800;
    let _idle: Vec<TcpStream> = (0..IDLE).map(|_| daemon.connect()).collect();
    wait_until("they have come", || connections(honest) == IDLE + 1);
    // The honest client is never idle for as long as the others.
    daemon.advance(Duration::from_millis(1_500));
    connections(honest);
    daemon.advance(Duration::from_secs(1));
    let mut seen = BTreeSet::new();
    while seen.first() != Some(&1) {
        seen.insert(connections(honest));
    }
    seen.range(2..=IDLE).copied().collect()
}

#[test]
fn connections_whose_time_is_over_are_closed_some_at_a_time() {
    let daemon = Daemon::start(&["--threads", "1", "--idle-timeout", "2s"]);
    let mut honest = BufReader::new(daemon.connect());
    // One look at all of them closes them. On a busy machine the honest client may not run
    // meanwhile; not each time.
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        seen = seen_closing(&mut honest, &daemon);
        if seen.len() >= 3 {
            return;
        }
    }
    panic!("all at once: {seen:?}");
}
