//! WATCH: what lets a transaction fail, and what does not.

use crate::support::{daemon, resp};

use daemon::{Daemon, check};
use resp::{Client, Value, bulk, ok};

/// Watches `key` and runs a transaction after `change`; whether it ran.
fn runs_after(client: &mut Client, key: &str, change: impl FnOnce(&mut Client)) -> bool {
    assert_eq!(client.run(&format!("WATCH {key}")), ok());
    change(client);
    assert_eq!(client.run("MULTI"), ok());
    assert_eq!(client.run("PING"), Value::Simple("QUEUED".to_owned()));
    match client.run("EXEC") {
        Value::Null => false,
        Value::Array(replies) if replies.len() == 1 => true,
        other => panic!("EXEC answers {other:?}"),
    }
}

#[test]
fn any_change_over_any_protocol_lets_the_transaction_fail() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut other = Client::connect(&daemon);
    let mut memcached = daemon.connect();
    let mut memcached = |request: &[u8], reply: &[u8]| check(&mut memcached, request, reply);
    client.run("SET key 1");
    assert!(runs_after(&mut client, "key", |_| {}));
    assert!(runs_after(&mut client, "key", |_| {
        other.run("GET key");
        other.run("SET another 1");
        other.run("SELECT 1");
        other.run("SET key 1");
        other.run("SELECT 0");
    }));
    for change in [
        "SET key 2",
        "EXPIRE key 100",
        "INCR key",
        "DEL key",
        "SET key 3",
    ] {
        let is_run = runs_after(&mut client, "key", |_| drop(other.run(change)));
        assert!(!is_run, "{change}");
    }
    assert!(!runs_after(&mut client, "key", |client| drop(
        client.run("SET key 4")
    )));
    assert!(!runs_after(&mut client, "key", |_| memcached(
        b"incr key 1\r\n",
        b"5\r\n"
    )));
    assert!(!runs_after(&mut client, "key", |_| memcached(
        b"touch key 99\r\n",
        b"TOUCHED\r\n"
    )));
    assert!(!runs_after(&mut client, "key", |_| memcached(
        b"md key\r\n",
        b"HD\r\n"
    )));
    assert!(!runs_after(&mut client, "key", |_| memcached(
        b"ms key 1\r\n7\r\n",
        b"HD\r\n"
    )));
    assert!(!runs_after(&mut client, "key", |_| memcached(
        b"flush_all\r\n",
        b"OK\r\n"
    )));
    assert!(runs_after(&mut client, "key", |_| memcached(
        b"flush_all\r\n",
        b"OK\r\n"
    )));
}

#[test]
fn a_deadline_that_passes_counts_even_if_nobody_meets_the_key() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let wait = |ms| daemon.advance(std::time::Duration::from_millis(ms));
    client.run("SET key 1 PX 3000");
    assert!(!runs_after(&mut client, "key", |_| wait(3_000)));
    client.run("SET key 1 PX 20");
    wait(20);
    // It was over before it was watched.
    assert!(runs_after(&mut client, "key", |_| {}));
}

#[test]
fn a_field_that_expires_counts_even_if_nobody_meets_it() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let wait = |ms| daemon.advance(std::time::Duration::from_millis(ms));
    client.run("HSET key a 1 b 1");
    client.run("HPEXPIRE key 100 FIELDS 1 a");
    assert!(runs_after(&mut client, "key", |_| wait(99)));
    assert!(!runs_after(&mut client, "key", |_| wait(1)));
    client.run("HPEXPIRE key 100 FIELDS 1 b");
    client.run("HSET key c 1");
    wait(100);
    // It was over before the key was watched.
    assert!(runs_after(&mut client, "key", |_| {}));
}

#[test]
fn what_leaves_a_value_as_it_was_is_no_change_but_a_move_within_a_list_is() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("SETBIT key 7 1");
    client.run("RPUSH one a");
    client.run("RPUSH list a b");
    for (key, command, is_run) in [
        ("key", "SETBIT key 7 1", true),
        ("key", "SETBIT key 6 0", true),
        ("key", "BITFIELD key SET u8 0 1", true),
        ("key", "BITFIELD key OVERFLOW FAIL INCRBY u8 0 255", true),
        ("key", "BITFIELD key INCRBY u8 0 0", true),
        ("key", "SETBIT key 15 0", false),
        ("key", "SETBIT key 7 0", false),
        ("key", "BITFIELD key SET u8 16 0", false),
        ("key", "BITFIELD key SET u8 0 9", false),
        ("one", "LMOVE one one LEFT RIGHT", false),
        ("one", "LMOVE one one LEFT LEFT", false),
        ("list", "LMOVE list list RIGHT RIGHT", false),
        ("list", "RPOPLPUSH list list", false),
    ] {
        let was_run = runs_after(&mut client, key, |client| drop(client.run(command)));
        assert_eq!(was_run, is_run, "{command}");
    }
    assert_eq!(client.run("LRANGE one 0 -1"), resp::bulks(&["a"]));
    assert_eq!(client.run("LRANGE list 0 -1"), resp::bulks(&["b", "a"]));
}

#[test]
fn flushes_and_swaps_touch_what_was_there() {
    let daemon = Daemon::start(&[]);
    let (mut client, mut other) = (Client::connect(&daemon), Client::connect(&daemon));
    for database in ["0", "3"] {
        client.run(&format!("SELECT {database}"));
        other.run(&format!("SELECT {database}"));
        for flush in ["FLUSHDB", "FLUSHALL"] {
            client.run("SET key 1");
            assert!(!runs_after(&mut client, "key", |_| drop(other.run(flush))));
            assert!(runs_after(&mut client, "key", |_| drop(other.run(flush))));
            let is_run = runs_after(&mut client, "key", |_| {
                other.run(flush);
                other.run("SET key 2");
            });
            assert!(!is_run, "created after the flush of {database}");
        }
    }
    other.run("FLUSHALL");
    assert!(runs_after(&mut client, "key", |_| drop(
        other.run("SWAPDB 3 5")
    )));
    let is_run = runs_after(&mut client, "key", |_| {
        other.run("SWAPDB 3 5");
        other.run("SET key 1");
    });
    assert!(!is_run, "created after the swap");
    assert!(!runs_after(&mut client, "key", |_| drop(
        other.run("SWAPDB 3 5")
    )));
    assert!(!runs_after(&mut client, "key", |_| drop(
        other.run("SWAPDB 3 5")
    )));
}

#[test]
fn unwatch_and_discard_forget_and_the_rest_is_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let change = |client: &mut Client, then: &[&str]| {
        client.run("SET key 1");
        then.iter().for_each(|words| drop(client.run(words)));
    };
    assert!(runs_after(&mut client, "key", |client| change(
        client,
        &["UNWATCH"]
    )));
    assert!(runs_after(&mut client, "key", |client| {
        change(client, &["MULTI", "DISCARD"]);
    }));
    assert!(runs_after(&mut client, "key", |client| change(
        client,
        &["RESET"]
    )));
    client.run("MULTI");
    let refused = Value::Error("ERR WATCH inside MULTI is not allowed".to_owned());
    assert_eq!(client.run("WATCH key"), refused);
    client.run("DISCARD");
    let mut refusals = 0;
    let mut key = vec![b'k'; 60_000];
    for number in 0..100_u8 {
        key[0] = number;
        if matches!(client.call(&[b"WATCH", &key]), Value::Error(_)) {
            refusals += 1;
        }
    }
    assert!(refusals > 0, "a session's watched keys are bounded");
}

#[test]
fn counters_that_many_clients_guard_lose_no_step() {
    const CLIENTS: usize = 4;
    const STEPS: i64 = 150;
    let daemon = Daemon::start(&["--threads", "3"]);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = Client::connect(&daemon);
            scope.spawn(move || {
                let mut done = 0;
                while done < STEPS {
                    client.run("WATCH count");
                    let count = match client.run("GET count") {
                        Value::Bulk(text) => String::from_utf8(text).unwrap().parse().unwrap(),
                        _ => 0_i64,
                    };
                    client.run("MULTI");
                    client.run(&format!("SET count {}", count + 1));
                    if client.run("EXEC") != Value::Null {
                        done += 1;
                    }
                }
            });
        }
    });
    let expected = (STEPS * i64::try_from(CLIENTS).unwrap()).to_string();
    assert_eq!(Client::connect(&daemon).run("GET count"), bulk(&expected));
}
