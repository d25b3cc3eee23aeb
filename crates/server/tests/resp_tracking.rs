//! CLIENT TRACKING: what near caches are told, by what, and in which order.

use crate::support::{daemon, resp};

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use daemon::{Daemon, check};
use resp::{Client, Value, bulk, bulks, ok};

fn pong() -> Value {
    Value::Simple("PONG".to_owned())
}

/// An invalidation of these keys, as RESP3 has it.
fn invalidation(keys: &[&str]) -> Value {
    Value::Push(vec![bulk("invalidate"), bulks(keys)])
}

/// An invalidation of everything.
fn invalidation_of_all() -> Value {
    Value::Push(vec![bulk("invalidate"), Value::Null])
}

/// A client that speaks RESP3 and is tracked with these options.
fn tracked(daemon: &Daemon, options: &str) -> Client {
    let mut client = Client::connect(daemon);
    client.run("HELLO 3");
    assert_eq!(client.run(&format!("CLIENT TRACKING ON{options}")), ok());
    client
}

/// Checks that nothing waits for a client.
fn expect_nothing(client: &mut Client) {
    assert_eq!(client.run("PING"), pong());
}

#[test]
fn a_change_over_any_protocol_tells_a_reader_once() {
    let daemon = Daemon::start(&[]);
    let mut reader = tracked(&daemon, "");
    let mut writer = Client::connect(&daemon);
    let mut memcached = daemon.connect();
    let mut memcached = |request: &[u8], reply: &[u8]| check(&mut memcached, request, reply);
    let read = |reader: &mut Client| drop(reader.run("GET key"));
    let told = |reader: &mut Client| assert_eq!(reader.read(), invalidation(&["key"]));
    read(&mut reader);
    writer.run("SET key 1");
    told(&mut reader);
    writer.run("SET key 2");
    expect_nothing(&mut reader);
    for change in [
        "INCR key",
        "EXPIRE key 100",
        "PERSIST key",
        "DEL key",
        "SET key 1",
    ] {
        read(&mut reader);
        writer.run(change);
        told(&mut reader);
    }
    for (request, reply) in [
        (&b"set key 0 0 1\r\n1\r\n"[..], &b"STORED\r\n"[..]),
        (b"incr key 1\r\n", b"2\r\n"),
        (b"append key 0 0 1\r\n0\r\n", b"STORED\r\n"),
        (b"touch key 1000\r\n", b"TOUCHED\r\n"),
        (b"md key I T30\r\n", b"HD\r\n"),
        (b"ma key\r\n", b"HD\r\n"),
        (b"delete key\r\n", b"DELETED\r\n"),
    ] {
        read(&mut reader);
        memcached(request, reply);
        told(&mut reader);
    }
    read(&mut reader);
    memcached(b"flush_all\r\n", b"OK\r\n");
    assert_eq!(reader.read(), invalidation_of_all());
    read(&mut reader);
    writer.run("FLUSHALL");
    assert_eq!(reader.read(), invalidation_of_all());
    reader.run("SELECT 2");
    writer.run("SELECT 2");
    read(&mut reader);
    writer.run("FLUSHDB");
    assert_eq!(reader.read(), invalidation_of_all());
    expect_nothing(&mut reader);
}

#[test]
fn expiry_delayed_flush_and_eviction_are_told() {
    let daemon = Daemon::start(&["--memory", "16MiB", "--threads", "1"]);
    let mut reader = tracked(&daemon, "");
    let mut writer = Client::connect(&daemon);
    writer.run("SET short 1 PX 3000");
    assert_eq!(reader.run("GET short"), bulk("1"));
    daemon.expire(Duration::from_secs(3));
    assert_eq!(reader.read(), invalidation(&["short"]));
    let mut memcached = daemon.connect();
    reader.run("GET later");
    check(&mut memcached, b"flush_all 1\r\n", b"OK\r\n");
    daemon.advance(Duration::from_secs(1));
    // The time of a delayed flush is noticed by whoever comes next.
    loop {
        memcached.write_all(b"mn\r\n").unwrap();
        check(&mut memcached, b"mg x\r\n", b"MN\r\nEN\r\n");
        reader.send(&[b"ECHO", b"mark"]);
        let mut is_told = false;
        loop {
            match reader.read() {
                Value::Bulk(_) => break,
                push => is_told |= push == invalidation_of_all(),
            }
        }
        if is_told {
            break;
        }
        writer.run("SET filler 1");
        daemon.advance(Duration::from_millis(20));
    }
    // More is read than the memory holds, and nothing else changes it.
    let value = vec![b'x'; 8_000];
    let mut told = 0;
    for number in 0..4_000 {
        let key = format!("victim{number}");
        writer.call(&[b"SET", key.as_bytes(), &value]);
        reader.send(&[b"GET", key.as_bytes()]);
        while let Value::Push(parts) = reader.read() {
            // Each shard has told of the flush for itself.
            told += usize::from(parts[1] != Value::Null);
        }
    }
    assert!(told > 1_000, "{told} evictions were told");
}

#[test]
fn a_field_that_goes_by_its_deadline_is_told() {
    let daemon = Daemon::start(&[]);
    let mut writer = Client::connect(&daemon);
    for (options, read) in [
        ("", "HGETALL key"),
        (" BCAST PREFIX k", "HGETALL key"),
        ("", "HSCAN key 0"),
    ] {
        writer.run("HSET key stays 1 goes 2");
        let mut reader = tracked(&daemon, options);
        writer.run("HPEXPIRE key 3000 FIELDS 1 goes");
        let before = reader.run(read);
        let change = invalidation(&["key"]);
        let before = if before == change {
            reader.read()
        } else {
            before
        };
        daemon.expire(Duration::from_secs(3));
        assert_eq!(reader.read(), change, "{options} {read}");
        let after = reader.run(read);
        assert_ne!(before, after);
        assert_eq!(writer.run("HGETALL key"), bulks(&["stays", "1"]));
        expect_nothing(&mut reader);
    }
}

#[test]
fn an_expiry_is_told_when_it_happens_whatever_the_key_replaced() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "Ex"]);
    let (mut writer, mut listener) = (Client::connect(&daemon), Client::connect(&daemon));
    // So many keys that a look at all of them takes seconds.
    for number in 0..40_000 {
        writer.send(&[b"SET", format!("other{number}").as_bytes(), b"1"]);
    }
    (0..40_000).for_each(|_| assert_eq!(writer.read(), ok()));
    let (mut reader, mut other) = (tracked(&daemon, ""), tracked(&daemon, " BCAST PREFIX k"));
    listener.run("SUBSCRIBE __keyevent@0__:expired");
    for number in 0..8 {
        let key = format!("k{number}");
        let told = |client: &mut Client| assert_eq!(client.read(), invalidation(&[&key]));
        writer.run(&format!("SET {key} 0"));
        told(&mut other);
        reader.run(&format!("GET {key}"));
        writer.run(&format!("SET {key} 1 PX 80"));
        told(&mut reader);
        told(&mut other);
        assert_eq!(reader.run(&format!("GET {key}")), bulk("1"));
        daemon.advance(Duration::from_millis(79));
        expect_nothing(&mut reader);
        expect_nothing(&mut other);
        daemon.advance(Duration::from_millis(1));
        told(&mut reader);
        told(&mut other);
        let event = bulks(&["message", "__keyevent@0__:expired", &key]);
        assert_eq!(listener.read(), event);
    }
}

#[test]
fn who_broadcasts_is_told_of_a_field_that_it_has_not_read() {
    let daemon = Daemon::start(&[]);
    let mut writer = Client::connect(&daemon);
    for options in [" BCAST", " BCAST PREFIX u:"] {
        let mut reader = tracked(&daemon, options);
        for change in ["HSETEX u:1 PX 400 FIELDS 1 a 1", "HSET u:1 b 2"] {
            writer.run(change);
            assert_eq!(reader.read(), invalidation(&["u:1"]));
        }
        daemon.advance(Duration::from_millis(400));
        assert_eq!(reader.read(), invalidation(&["u:1"]));
        expect_nothing(&mut reader);
    }
}

#[test]
fn pushes_come_behind_the_reply_of_the_command_that_caused_them() {
    let daemon = Daemon::start(&[]);
    let mut client = tracked(&daemon, "");
    client.run("MGET a b c");
    for words in [&["MSET", "a", "1", "b", "2"][..], &["PING"], &["GET", "a"]] {
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        client.send(&args);
    }
    assert_eq!(client.read(), ok());
    assert_eq!(client.read(), invalidation(&["a"]));
    assert_eq!(client.read(), invalidation(&["b"]));
    assert_eq!((client.read(), client.read()), (pong(), bulk("1")));
    client.run("MULTI");
    client.run("SET a 2");
    client.run("GET b");
    client.run("SET c 3");
    let replies = Value::Array(vec![ok(), bulk("2"), ok()]);
    assert_eq!(client.run("EXEC"), replies);
    assert_eq!(client.read(), invalidation(&["a"]));
    assert_eq!(client.read(), invalidation(&["c"]));
    let value = vec![b'x'; 200_000];
    client.run("GET c");
    assert_eq!(client.call(&[b"SET", b"c", &value]), ok());
    assert_eq!(client.read(), invalidation(&["c"]));
    expect_nothing(&mut client);
}

#[test]
fn who_wants_no_loop_is_not_told_of_its_own_changes() {
    let daemon = Daemon::start(&[]);
    let mut client = tracked(&daemon, " NOLOOP");
    let mut other = Client::connect(&daemon);
    client.run("GET key");
    client.run("SET key 1");
    expect_nothing(&mut client);
    client.run("GET key");
    assert_eq!(client.call(&[b"SET", b"key", &vec![b'x'; 200_000]]), ok());
    expect_nothing(&mut client);
    client.run("GET key");
    other.run("SET key 2");
    assert_eq!(client.read(), invalidation(&["key"]));
    let mut client = tracked(&daemon, " BCAST NOLOOP PREFIX a");
    client.run("SET a1 1");
    expect_nothing(&mut client);
    other.run("MSET a2 1 b1 1 a1 2");
    // Together, unless another loop's turn ends between the two.
    let first = client.read();
    if first == invalidation(&["a2"]) {
        assert_eq!(client.read(), invalidation(&["a1"]));
    } else {
        assert_eq!(first, invalidation(&["a1", "a2"]));
    }
    expect_nothing(&mut client);
}

#[test]
fn only_the_reads_that_were_chosen_are_tracked() {
    let daemon = Daemon::start(&[]);
    let mut other = Client::connect(&daemon);
    let mut client = tracked(&daemon, " OPTIN");
    client.run("GET a");
    assert_eq!(client.run("CLIENT CACHING YES"), ok());
    client.run("GET b");
    client.run("GET c");
    client.run("CLIENT CACHING YES");
    client.run("MULTI");
    client.run("GET d");
    client.run("GET e");
    client.run("EXEC");
    other.run("MSET a 1 b 1 c 1 d 1 e 1");
    for key in ["b", "d", "e"] {
        assert_eq!(client.read(), invalidation(&[key]));
    }
    expect_nothing(&mut client);
    let mut client = tracked(&daemon, " OPTOUT");
    assert_eq!(client.run("CLIENT CACHING NO"), ok());
    client.run("GET a");
    client.run("GET b");
    other.run("MSET a 1 b 1");
    assert_eq!(client.read(), invalidation(&["b"]));
    expect_nothing(&mut client);
    assert_eq!(client.run("CLIENT TRACKING OFF"), ok());
    client.run("GET a");
    other.run("SET a 1");
    expect_nothing(&mut client);
}

#[test]
fn invalidations_are_sent_to_another_client_in_either_version() {
    let daemon = Daemon::start(&[]);
    let mut target = Client::connect(&daemon);
    let Value::Integer(id) = target.run("CLIENT ID") else {
        panic!("CLIENT ID is a number");
    };
    target.run("SUBSCRIBE __redis__:invalidate");
    let mut client = tracked(&daemon, &format!(" REDIRECT {id}"));
    assert_eq!(client.run("CLIENT GETREDIR"), Value::Integer(id));
    client.run("GET key");
    client.run("SET key 1");
    let channel = bulk("__redis__:invalidate");
    let message = Value::Array(vec![bulk("message"), channel.clone(), bulks(&["key"])]);
    assert_eq!(target.read(), message);
    client.run("FLUSHALL");
    let message = Value::Array(vec![bulk("message"), channel, Value::Null]);
    assert_eq!(target.read(), message);
    target.run("UNSUBSCRIBE");
    target.run("HELLO 3");
    client.run("GET key");
    client.run("SET key 2");
    assert_eq!(target.read(), invalidation(&["key"]));
    client.run("GET key");
    target.run("QUIT");
    assert!(target.is_closed());
    // The server may notice the end a little later than the client.
    let broken = Value::Push(vec![bulk("tracking-redir-broken"), Value::Integer(id)]);
    loop {
        client.run("GET key");
        assert_eq!(client.run("SET key 3"), ok());
        client.send(&[b"PING"]);
        match client.read() {
            push if push == broken => break,
            reply => assert_eq!(reply, pong()),
        }
    }
    assert_eq!(client.read(), pong());
    let info = format!("{:?}", client.run("CLIENT TRACKINGINFO"));
    assert!(info.contains(&format!("{:?}", bulk("broken_redirect"))));
}

#[test]
fn prefixes_are_short_and_not_too_many() {
    let daemon = Daemon::start(&[]);
    let mut client = tracked(&daemon, "");
    assert_eq!(client.run("CLIENT TRACKING off"), ok());
    let mut begin = |prefixes: &[String]| {
        let mut words: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"on", b"BCAST"];
        for prefix in prefixes {
            words.extend([b"PREFIX", prefix.as_bytes()]);
        }
        client.call(&words).shown()
    };
    let too_long = "-ERR a prefix is longer than 128 bytes";
    assert_eq!(begin(&["x".repeat(129)]), too_long);
    let many = |count: usize| {
        (0..count)
            .map(|at| format!("p:{at:06}:"))
            .collect::<Vec<_>>()
    };
    assert_eq!(begin(&many(8_000)), "-ERR too many prefixes");
    let overlapping = "-ERR Prefix 'ab' overlaps with another provided prefix 'a'. Prefixes for a \
                       single client must not overlap.";
    assert_eq!(begin(&["ab", "b", "a"].map(str::to_owned)), overlapping);
    assert_eq!(begin(&["x".repeat(128)]), "+OK");
    assert_eq!(begin(&many(1_500)), "+OK");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut refused = |words: &str, text: &str| {
        assert_eq!(
            client.run(words),
            Value::Error(format!("ERR {text}")),
            "{words}"
        );
    };
    let prefix = |which: &str| {
        format!(
            "Prefix 'a' overlaps with {which} prefix 'ab'. Prefixes for a single client must not \
             overlap."
        )
    };
    refused("CLIENT TRACKING maybe", "syntax error");
    refused("CLIENT TRACKING on nonsense", "syntax error");
    refused(
        "CLIENT TRACKING on REDIRECT 99",
        "The client ID you want redirect to does not exist",
    );
    refused(
        "CLIENT TRACKING on PREFIX a",
        "PREFIX option requires BCAST mode to be enabled",
    );
    refused(
        "CLIENT TRACKING on BCAST OPTIN",
        "OPTIN and OPTOUT are not compatible with BCAST",
    );
    refused(
        "CLIENT TRACKING on BCAST PREFIX a PREFIX ab",
        &prefix("another provided"),
    );
    refused(
        "CLIENT CACHING yes",
        "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
         OPTOUT mode enabled",
    );
    assert_eq!(client.run("CLIENT GETREDIR"), Value::Integer(-1));
    assert_eq!(client.run("CLIENT TRACKING on BCAST PREFIX ab"), ok());
    let mut refused = |words: &str, text: &str| {
        assert_eq!(
            client.run(words),
            Value::Error(format!("ERR {text}")),
            "{words}"
        );
    };
    refused("CLIENT TRACKING on BCAST PREFIX a", &prefix("an existing"));
    refused(
        "CLIENT TRACKING on",
        "You can't switch BCAST mode on/off before disabling tracking for this client, and then \
         re-enabling it with a different mode.",
    );
    let shown = Value::Array(vec![
        bulk("flags"),
        bulks(&["on", "bcast"]),
        bulk("redirect"),
        Value::Integer(0),
        bulk("prefixes"),
        bulks(&["ab"]),
    ]);
    assert_eq!(client.run("CLIENT TRACKINGINFO"), shown);
}

#[test]
fn a_full_table_forgets_and_says_so() {
    let daemon = Daemon::start(&["--tracking-table-max-keys", "10"]);
    let mut client = tracked(&daemon, "");
    let mut told = 0;
    for number in 0..100 {
        client.send(&[b"GET", format!("key{number}").as_bytes()]);
        while client.read() != Value::Null {
            told += 1;
        }
    }
    client.send(&[b"PING"]);
    while client.read() != pong() {
        told += 1;
    }
    assert_eq!(told, 90);
}

#[test]
fn very_many_keys_of_one_read_are_tracked_step_by_step_or_refused() {
    let daemon = Daemon::start(&[]);
    let mut reader = tracked(&daemon, "");
    let mut writer = Client::connect(&daemon);
    let keys: Vec<String> = (0..10_000).map(|key| format!("key:{key}")).collect();
    let words = |command: &str, count: usize| {
        let keys = keys[..count].iter().map(|key| key.clone().into_bytes());
        let words: Vec<Vec<u8>> = [command.as_bytes().to_vec()]
            .into_iter()
            .chain(keys)
            .collect();
        words
    };
    let call = |client: &mut Client, words: Vec<Vec<u8>>| {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        client.call(&words)
    };
    for command in ["MGET", "EXISTS", "TOUCH"] {
        let _ = call(&mut reader, words(command, 10_000));
        for key in ["key:0", "key:1023", "key:1024", "key:9999"] {
            writer.run(&format!("SET {key} 1"));
            assert_eq!(reader.read(), invalidation(&[key]), "{command}");
        }
        writer.run("FLUSHALL");
        assert_eq!(reader.read(), invalidation_of_all());
    }
    let refused = "-ERR too many keys for a command whose client tracks them";
    for command in ["SUNION", "PFCOUNT"] {
        let _ = call(&mut reader, words(command, 2_048));
        assert_eq!(call(&mut reader, words(command, 2_049)).shown(), refused);
        // Nothing is left of what was refused, and who does not track may ask.
        assert_ne!(call(&mut writer, words(command, 2_049)).shown(), refused);
    }
    writer.run("SADD key:2048 1");
    expect_nothing(&mut reader);
    writer.run("SADD key:2047 1");
    assert_eq!(reader.read(), invalidation(&["key:2047"]));
}

#[test]
fn a_tracker_that_does_not_read_is_dropped_and_others_are_served() {
    let daemon = Daemon::start(&[]);
    let mut lazy = tracked(&daemon, " BCAST");
    let mut writer = Client::connect(&daemon);
    let prefix = "k".repeat(50_000);
    let mut number = 0;
    while daemon.stat("slow_kicks") == 0 {
        for _ in 0..20 {
            number += 1;
            assert_eq!(writer.run(&format!("SET {prefix}{number} 1")), ok());
        }
        assert!(number < 50_000, "it is never dropped");
    }
    writer.run("SET key value");
    assert_eq!(writer.run("GET key"), bulk("value"));
    while !lazy.is_closed() {
        lazy.skip();
    }
}

/// Writers over memcached's protocol and RESP count keys up; readers keep what they have read until
/// they are told. After the writers have ended and what was told has come, every copy is the value.
#[test]
fn no_copy_is_stale_after_what_was_told_has_come() {
    const KEYS: usize = 20;
    for options in ["", " NOLOOP", " BCAST", " OPTOUT"] {
        let daemon = Daemon::start(&["--threads", "3"]);
        let (counter, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let mut writers = Vec::new();
            let mut memcached = daemon.connect();
            let counter = &counter;
            writers.push(scope.spawn(move || {
                for round in 0..1_000 {
                    let key = round % KEYS;
                    let value = counter.fetch_add(1, Ordering::Relaxed).to_string();
                    let request = format!("set key{key} 0 0 {}\r\n{value}\r\n", value.len());
                    check(&mut memcached, request.as_bytes(), b"STORED\r\n");
                }
            }));
            let mut writer = Client::connect(&daemon);
            writers.push(scope.spawn(move || {
                for round in 0..1_000 {
                    let key = round * 7 % KEYS;
                    let value = counter.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(writer.run(&format!("SET key{key} {value}")), ok());
                }
            }));
            let is_over = &is_over;
            let mut readers = Vec::new();
            for _ in 0..2 {
                let mut reader = tracked(&daemon, options);
                readers.push(scope.spawn(move || {
                    let mut copies = HashMap::new();
                    let mut round = 0_usize;
                    while !is_over.load(Ordering::Relaxed) {
                        round += 1;
                        let key = format!("key{}", round * 3 % KEYS);
                        if copies.contains_key(&key) && !round.is_multiple_of(5) {
                            continue;
                        }
                        reader.send(&[b"GET", key.as_bytes()]);
                        let value = next_reply(&mut reader, &mut copies);
                        copies.insert(key, value);
                    }
                    // Whatever was told is there before this reply.
                    reader.send(&[b"PING"]);
                    assert_eq!(next_reply(&mut reader, &mut copies), pong());
                    copies
                }));
            }
            writers
                .into_iter()
                .for_each(|writer| writer.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
            let mut plain = Client::connect(&daemon);
            for reader in readers {
                for (key, copy) in reader.join().unwrap() {
                    assert_eq!(copy, plain.run(&format!("GET {key}")), "{key}{options}");
                }
            }
        });
    }
}

/// The next reply; what is told before it is dropped from the copies.
fn next_reply(reader: &mut Client, copies: &mut HashMap<String, Value>) -> Value {
    loop {
        let parts = match reader.read() {
            Value::Push(parts) => parts,
            reply => return reply,
        };
        let Value::Array(keys) = &parts[1] else {
            panic!("{parts:?} tells of no keys");
        };
        for key in keys {
            let Value::Bulk(key) = key else {
                panic!("{key:?} is no key");
            };
            copies.remove(std::str::from_utf8(key).unwrap());
        }
    }
}
