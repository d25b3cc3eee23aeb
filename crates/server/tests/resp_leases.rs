//! Leases over RESP, and that memcached's meta commands see the same ones.

use crate::support::{daemon, resp};

use std::io::{BufRead, BufReader, Write};
use std::sync::Barrier;

use daemon::Daemon;
use resp::{Client, Value, bulk, ok};

/// What GETLEASE answered: the value, the milliseconds left, the state, the version.
fn lease(client: &mut Client, words: &str) -> (Value, i64, String, i64) {
    let Value::Array(answer) = client.run(words) else {
        panic!("no array");
    };
    let [
        value,
        Value::Integer(left_ms),
        state,
        Value::Integer(version),
    ] = &answer[..]
    else {
        panic!("no lease: {answer:?}");
    };
    (value.clone(), *left_ms, state.shown(), *version)
}

/// How many of a hundred clients that ask at the same time get each value and state.
fn herd(daemon: &Daemon, words: &str) -> Vec<(String, String, usize)> {
    const CALLERS: usize = 100;
    let barrier = Barrier::new(CALLERS);
    let mut answers: Vec<(String, String)> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| Client::connect(daemon))
            .map(|mut client| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let (value, _, state, _) = lease(&mut client, words);
                    (state, value.shown())
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect()
    });
    answers.sort();
    let mut counted: Vec<(String, String, usize)> = Vec::new();
    for (state, value) in answers {
        match counted.last_mut() {
            Some(last) if last.0 == state && last.1 == value => last.2 += 1,
            _ => counted.push((state, value, 1)),
        }
    }
    counted
}

fn counted(expected: &[(&str, &str, usize)]) -> Vec<(String, String, usize)> {
    let owned =
        |&(state, value, count): &(&str, &str, usize)| (state.to_owned(), value.to_owned(), count);
    expected.iter().map(owned).collect()
}

#[test]
fn one_of_a_hundred_callers_wins_and_the_others_wait() {
    let daemon = Daemon::start(&["--threads", "2"]);
    let answers = herd(&daemon, "GETLEASE key LEASE 60000");
    assert_eq!(answers, counted(&[("wait", "nil", 99), ("won", "nil", 1)]));

    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("SET key value PX 60000"), ok());
    let answers = herd(&daemon, "GETLEASE key LEASE 60000");
    assert_eq!(answers, counted(&[("fresh", "value", 100)]));
    // Less than that is left: one of them is to renew it early.
    let answers = herd(&daemon, "GETLEASE key LEASE 60000 EARLY 90000");
    assert_eq!(
        answers,
        counted(&[("wait", "value", 99), ("won", "value", 1)])
    );

    assert_eq!(client.run("INVALIDATE key STALE 60000"), Value::Integer(1));
    let answers = herd(&daemon, "GETLEASE key LEASE 60000");
    let expected = [("stale-wait", "value", 99), ("stale-won", "value", 1)];
    assert_eq!(answers, counted(&expected));
    assert_eq!(client.run("SET key newer"), ok());
    let answers = herd(&daemon, "GETLEASE key LEASE 60000");
    assert_eq!(answers, counted(&[("fresh", "newer", 100)]));
}

#[test]
fn a_winner_stores_unless_the_key_was_invalidated_meanwhile() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let (value, left_ms, state, version) = lease(&mut client, "GETLEASE key LEASE 60000");
    assert_eq!((value, state.as_str()), (Value::Null, "won"));
    assert!((1..=60_000).contains(&left_ms), "{left_ms}");
    assert_eq!(client.run("INVALIDATE key"), Value::Integer(1));
    assert_eq!(
        client.run(&format!("SET key old CAS {version}")),
        Value::Null
    );
    // Better than nothing, yet still stale.
    assert_eq!(client.run(&format!("SET key old CAS {version} LATE")), ok());
    let (value, _, state, version) = lease(&mut client, "GETLEASE key LEASE 60000");
    assert_eq!((value, state.as_str()), (bulk("old"), "stale-won"));
    assert_eq!(client.run(&format!("SET key new CAS {version}")), ok());
    let (value, left_ms, state, newer) = lease(&mut client, "GETLEASE key LEASE 60000");
    assert_eq!((value, left_ms, state.as_str()), (bulk("new"), -1, "fresh"));
    assert_ne!(version, newer);
    assert_eq!(
        client.run(&format!("SET none new CAS {version}")),
        Value::Null
    );
}

#[test]
fn a_lease_ends_when_its_time_is_over() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("SET key value"), ok());
    assert_eq!(client.run("INVALIDATE key"), Value::Integer(1));
    for words in ["GETLEASE none LEASE 1", "GETLEASE key LEASE 1"] {
        let mut won = 0;
        while won < 3 {
            won += usize::from(lease(&mut client, words).2.ends_with("won"));
            daemon.advance(std::time::Duration::from_millis(1));
        }
    }
}

#[test]
fn without_the_option_a_miss_is_a_miss() {
    Client::connect(&Daemon::start(&[])).check(
        "GETLEASE key => [nil, :-2, miss, :0]
        GETLEASE key EARLY 1000 => [nil, :-2, miss, :0]
        EXISTS key => :0
        INVALIDATE key => :0
        GETLEASE key LEASE 0 => -ERR invalid expire time in 'getlease' command
        GETLEASE key LEASE => -ERR syntax error
        GETLEASE key LEASE 1 LEASE 1 => -ERR syntax error
        GETLEASE key FOO 1 => -ERR syntax error
        GETLEASE key LEASE x => -ERR value is not an integer or out of range
        INVALIDATE key STALE => -ERR syntax error
        INVALIDATE key STALE 0 => -ERR invalid expire time in 'invalidate' command
        INVALIDATE key STALE 1 1 => -ERR syntax error
        SET key value CAS x => -ERR value is not an integer or out of range",
    );
}

#[test]
fn both_protocols_share_one_lease() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut memcached = BufReader::new(daemon.connect());
    let mut ask = |line: &str, lines: usize| {
        memcached.get_mut().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        for _ in 0..lines {
            memcached.read_line(&mut answer).unwrap();
        }
        answer
    };
    assert_eq!(ask("mg one N30 v\r\n", 2), "VA 0 W\r\n\r\n");
    assert_eq!(lease(&mut client, "GETLEASE one LEASE 1000").2, "wait");
    assert_eq!(lease(&mut client, "GETLEASE two LEASE 60000").2, "won");
    assert_eq!(ask("mg two N30 v\r\n", 2), "VA 0 Z\r\n\r\n");
    assert_eq!(client.run("SET two value"), ok());
    assert_eq!(ask("md two I\r\n", 1), "HD\r\n");
    assert_eq!(lease(&mut client, "GETLEASE two").2, "stale-won");
    assert_eq!(ask("mg two v\r\n", 2), "VA 5 Z X\r\nvalue\r\n");
    assert_eq!(client.run("SET two value"), ok());
    assert_eq!(client.run("INVALIDATE two"), Value::Integer(1));
    assert_eq!(ask("mg two v\r\n", 2), "VA 5 X W\r\nvalue\r\n");
}
