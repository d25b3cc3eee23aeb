//! Drain: a server that is told to stop answers what it has received, and exits with 0.

use crate::support::daemon;
use crate::support::wait::wait_until;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::resp::{Client, ok};
use daemon::{Daemon, check, expect, expect_end, hit, pattern, set};
use rustix::process::Signal;

/// Waits until the peer's system has acknowledged all that was written.
fn wait_until_received(stream: &TcpStream) {
    let own = format!(":{:04X}", stream.local_addr().unwrap().port());
    wait_until("the server's system has the requests", || {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let line = table.lines().find(|line| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|address| address.ends_with(&own))
        });
        let queue = line
            .and_then(|line| line.split_whitespace().nth(4))
            .unwrap();
        queue.starts_with("00000000:")
    });
}

/// Waits until nobody is let in, as the drain begins then.
fn wait_until_shut(daemon: &Daemon) {
    wait_until("nobody is let in", || {
        TcpStream::connect(&daemon.address).is_err()
    });
}

#[test]
fn every_received_request_is_answered_before_the_end() {
    let mut daemon = Daemon::spawn(&[]);
    let mut stream = daemon.connect();
    check(&mut stream, &set("k", b"value"), b"STORED\r\n");
    let mut clients: Vec<TcpStream> = (0..4).map(|_| daemon.connect()).collect();
    let requests = b"get k\r\n".repeat(20_000);
    for client in &mut clients {
        client.write_all(&requests).unwrap();
        wait_until_received(client);
    }
    daemon.signal(Signal::TERM);
    for client in &mut clients {
        expect(client, &hit("k", b"value").repeat(20_000));
        expect_end(client);
    }
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn a_client_in_full_flow_gets_whole_answers_in_order() {
    let mut daemon = Daemon::spawn(&[]);
    let mut stream = daemon.connect();
    check(&mut stream, b"set n 0 0 1\r\n0\r\n", b"STORED\r\n");
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let requests = b"incr n 1\r\n".repeat(1_000);
        while writer.write_all(&requests).is_ok() {}
    });
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    let mut answers = 0_u64;
    let mut told = false;
    loop {
        line.clear();
        match reader.read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => answers += 1,
            Err(error) => panic!("{error} after {answers} answers"),
        }
        assert!(line.ends_with("\r\n"), "a cut answer: {line:?}");
        assert_eq!(line.trim().parse::<u64>().unwrap(), answers);
        if answers >= 50_000 && !told {
            told = true;
            daemon.signal(Signal::TERM);
        }
    }
    assert!(told);
    drop(stream);
    sender.join().unwrap();
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn a_client_that_reads_slowly_gets_all_its_answers_whole() {
    // Large values, and small ones of which more are asked for than wait to be sent at once.
    for (bytes, times) in [(900_000, 20), (10_000, 2_000)] {
        let daemon = Daemon::start(&["--drain-timeout", "30s"]);
        let mut stream = daemon.connect();
        let value = pattern(1, bytes);
        check(&mut stream, &set("k", &value), b"STORED\r\n");
        stream.write_all(&b"get k\r\n".repeat(times)).unwrap();
        wait_until_received(&stream);
        daemon.stop();
        wait_until_shut(&daemon);
        for number in 0..times {
            // For longer than requests are read that were sent before.
            if number % (times / 20) == 0 {
                daemon.advance(Duration::from_millis(100));
            }
            expect(&mut stream, &hit("k", &value));
        }
        expect_end(&mut stream);
    }
}

#[test]
fn an_answer_that_takes_many_turns_is_given_whole() {
    const TIMES: usize = 200;
    let daemon = Daemon::start(&["--drain-timeout", "30s"]);
    let mut client = Client::connect(&daemon);
    let value = pattern(2, 100_000);
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    let mut stream = client.into_stream();
    let command = format!("MGET{}\r\n", " k".repeat(TIMES));
    stream.write_all(command.as_bytes()).unwrap();
    wait_until_received(&stream);
    daemon.stop();
    wait_until_shut(&daemon);
    expect(&mut stream, format!("*{TIMES}\r\n").as_bytes());
    let bulk = [b"$100000\r\n", &*value, b"\r\n"].concat();
    for number in 0..TIMES {
        if number % 10 == 0 {
            daemon.advance(Duration::from_millis(100));
        }
        expect(&mut stream, &bulk);
    }
    expect_end(&mut stream);
}

#[test]
fn idle_and_half_finished_clients_hold_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drain.sock");
    let mut daemon = Daemon::spawn(&["--unix", path.to_str().unwrap(), "--drain-timeout", "50s"]);
    let mut idle = daemon.connect();
    let mut half = daemon.connect();
    half.write_all(b"set k 0 0 100\r\nhalf").unwrap();
    let mut large = daemon.connect();
    large.write_all(b"set k 0 0 100000\r\nhalf").unwrap();
    for stream in [&half, &large] {
        wait_until_received(stream);
    }
    daemon.signal(Signal::INT);
    for stream in [&mut idle, &mut half, &mut large] {
        expect_end(stream);
    }
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(!path.exists(), "the socket file is removed");
    assert!(TcpStream::connect(&daemon.address).is_err());
}

#[test]
fn a_client_that_never_reads_is_left_behind_at_the_time_out() {
    let daemon = Daemon::start(&["--drain-timeout", "1s"]);
    let mut stream = daemon.connect();
    let value = pattern(1, 1 << 20);
    check(&mut stream, &set("large", &value), b"STORED\r\n");
    stream.write_all(&b"get large\r\n".repeat(100)).unwrap();
    wait_until_received(&stream);
    daemon.stop();
    wait_until_shut(&daemon);
    let step = Duration::from_millis(500);
    daemon.advance_until("the server leaves it behind", step, || daemon.has_drained());
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 100 << 20);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut daemon = Daemon::spawn(&["--drain-timeout", "1d", "--write-timeout", "1d"]);
    let mut stream = daemon.connect();
    let value = pattern(1, 1 << 20);
    check(&mut stream, &set("large", &value), b"STORED\r\n");
    stream.write_all(&b"get large\r\n".repeat(100)).unwrap();
    wait_until_received(&stream);
    daemon.signal(Signal::TERM);
    // The drain has begun when nobody is let in any more.
    wait_until_shut(&daemon);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(1));
}
