//! Channels and keyspace events over sockets.

use crate::support::{daemon, resp};

use std::io::Write;

use daemon::{Daemon, check};
use resp::{Client, Value, bulk, bulks, error, ok};

/// What a subscriber is told of its subscriptions.
fn note(word: &str, channel: &str, count: i64) -> Value {
    Value::Array(vec![bulk(word), bulk(channel), Value::Integer(count)])
}

#[test]
fn messages_come_to_channels_and_patterns() {
    let daemon = Daemon::start(&[]);
    let (mut listener, mut speaker) = (Client::connect(&daemon), Client::connect(&daemon));
    listener.send(&[b"SUBSCRIBE", b"news", b"sport", b"news"]);
    assert_eq!(listener.read(), note("subscribe", "news", 1));
    assert_eq!(listener.read(), note("subscribe", "sport", 2));
    assert_eq!(listener.read(), note("subscribe", "news", 2));
    assert_eq!(
        listener.run("PSUBSCRIBE n?ws*"),
        note("psubscribe", "n?ws*", 3)
    );
    assert_eq!(speaker.run("PUBLISH news one"), Value::Integer(2));
    assert_eq!(speaker.run("PUBLISH sport two"), Value::Integer(1));
    assert_eq!(speaker.run("PUBLISH other three"), Value::Integer(0));
    assert_eq!(listener.read(), bulks(&["message", "news", "one"]));
    assert_eq!(
        listener.read(),
        bulks(&["pmessage", "n?ws*", "news", "one"])
    );
    assert_eq!(listener.read(), bulks(&["message", "sport", "two"]));
    let numbers = Value::Array(vec![
        bulk("news"),
        Value::Integer(1),
        bulk("none"),
        Value::Integer(0),
    ]);
    assert_eq!(speaker.run("PUBSUB NUMSUB news none"), numbers);
    assert_eq!(speaker.run("PUBSUB NUMPAT"), Value::Integer(1));
    assert_eq!(speaker.run("PUBSUB CHANNELS s*"), bulks(&["sport"]));
    assert_eq!(
        listener.run("UNSUBSCRIBE sport"),
        note("unsubscribe", "sport", 2)
    );
    assert_eq!(
        listener.run("PUNSUBSCRIBE"),
        note("punsubscribe", "n?ws*", 1)
    );
    assert_eq!(speaker.run("PUBLISH news last"), Value::Integer(1));
    assert_eq!(listener.read(), bulks(&["message", "news", "last"]));
    drop(listener);
    while speaker.run("PUBSUB CHANNELS") != Value::Array(Vec::new()) {}
}

#[test]
fn an_exec_that_is_refused_discards_the_transaction() {
    let daemon = Daemon::start(&["--password", "secret"]);
    let mut client = Client::connect(&daemon);
    client.check(
        "EXEC => -EXECABORT Transaction discarded because of: NOAUTH Authentication required.
        AUTH secret => +OK
        MULTI => +OK
        SET a b => +QUEUED
        EXEC now => -EXECABORT Transaction discarded because of: wrong number of arguments for \
         'exec' command
        EXEC => -ERR EXEC without MULTI
        EXISTS a => :0",
    );
}

#[test]
fn a_subscriber_that_speaks_resp2_may_ask_for_little() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let nothing = Value::Array(vec![bulk("unsubscribe"), Value::Null, Value::Integer(0)]);
    assert_eq!(client.run("UNSUBSCRIBE"), nothing);
    client.run("SUBSCRIBE a");
    let refused = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                   this context";
    assert_eq!(
        client.run("GET a"),
        error(&format!("ERR Can't execute 'get': {refused}"))
    );
    assert_eq!(
        client.run("CLIENT ID"),
        error(&format!("ERR Can't execute 'client|id': {refused}"))
    );
    let discarded = "EXECABORT Transaction discarded because of";
    assert_eq!(
        client.run("EXEC"),
        error(&format!("{discarded}: Can't execute 'exec': {refused}"))
    );
    assert_eq!(client.run("PING"), bulks(&["pong", ""]));
    assert_eq!(client.run("PING hello"), bulks(&["pong", "hello"]));
    assert_eq!(client.run("RESET"), Value::Simple("RESET".to_owned()));
    assert_eq!(client.run("GET a"), Value::Null);
    assert_eq!(client.run("PUBLISH a b"), Value::Integer(0));
    client.run("SUBSCRIBE a");
    assert_eq!(client.run("UNSUBSCRIBE a"), note("unsubscribe", "a", 0));
    assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
}

#[test]
fn messages_of_resp3_are_pushes_between_replies() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    let pushed = |parts: &[&str]| Value::Push(parts.iter().map(|part| bulk(part)).collect());
    let subscribed = Value::Push(vec![bulk("subscribe"), bulk("a"), Value::Integer(1)]);
    assert_eq!(client.run("SUBSCRIBE a"), subscribed);
    assert_eq!(client.run("SET key value"), ok());
    client.send(&[b"PUBLISH", b"a", b"1"]);
    client.send(&[b"PING"]);
    assert_eq!(client.read(), Value::Integer(1));
    assert_eq!(client.read(), pushed(&["message", "a", "1"]));
    assert_eq!(client.read(), Value::Simple("PONG".to_owned()));
    client.run("MULTI");
    client.run("PUBLISH a 2");
    client.run("GET key");
    let replies = Value::Array(vec![Value::Integer(1), bulk("value")]);
    assert_eq!(client.run("EXEC"), replies);
    assert_eq!(client.read(), pushed(&["message", "a", "2"]));
    // Confirmations and messages come even if no replies are wanted.
    client.send(&[b"CLIENT", b"REPLY", b"OFF"]);
    client.send(&[b"PUBLISH", b"a", b"3"]);
    assert_eq!(client.read(), pushed(&["message", "a", "3"]));
    let left = Value::Push(vec![bulk("unsubscribe"), bulk("a"), Value::Integer(0)]);
    assert_eq!(client.run("UNSUBSCRIBE a"), left);
    assert_eq!(client.run("CLIENT REPLY ON"), ok());
}

#[test]
fn a_message_never_follows_the_reply_that_says_its_channel_is_left() {
    let daemon = Daemon::start(&["--threads", "3"]);
    let mut listener = Client::connect(&daemon);
    std::thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        for _ in 0..2 {
            let mut speaker = Client::connect(&daemon);
            let done = done.clone();
            scope.spawn(move || {
                for _ in 0..2_000 {
                    speaker.run("PUBLISH a message");
                }
                drop(done);
            });
        }
        drop(done);
        while is_done.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            assert_eq!(listener.run("SUBSCRIBE a"), note("subscribe", "a", 1));
            listener.send(&[b"UNSUBSCRIBE", b"a"]);
            while listener.read() != note("unsubscribe", "a", 0) {}
            // In RESP2 a message here would be taken for this reply.
            assert_eq!(listener.run("ECHO here"), bulk("here"));
        }
    });
}

#[test]
fn a_subscriber_that_does_not_read_is_dropped_and_others_are_served() {
    let daemon = Daemon::start(&[]);
    let mut lazy = Client::connect(&daemon);
    let mut keen = Client::connect(&daemon);
    let mut speaker = Client::connect(&daemon);
    lazy.run("SUBSCRIBE a");
    keen.run("SUBSCRIBE a");
    let message = vec![b'x'; 512 << 10];
    let mut count = 2;
    let mut sent = 0;
    while count == 2 {
        let Value::Integer(listeners) = speaker.call(&[b"PUBLISH", b"a", &message]) else {
            panic!("PUBLISH answers a number");
        };
        assert_eq!(keen.read().clone(), {
            let parts = vec![bulk("message"), bulk("a"), Value::Bulk(message.clone())];
            Value::Array(parts)
        });
        count = listeners;
        sent += 1;
        assert!(sent < 1_000, "it is never dropped");
    }
    assert_eq!(count, 1);
    assert_eq!(daemon.stat("slow_kicks"), 1);
    assert_eq!(speaker.run("SET key value"), ok());
}

#[test]
fn long_messages_and_bursts_reach_a_subscriber_that_pauses() {
    let daemon = Daemon::start(&[]);
    let mut reader = Client::connect(&daemon);
    let mut speaker = Client::connect(&daemon);
    reader.run("SUBSCRIBE a");
    let mut publish = |message: &[u8]| {
        let listeners = speaker.call(&[b"PUBLISH", b"a", message]);
        assert_eq!(listeners, Value::Integer(1));
    };
    let of = |message: &[u8]| {
        let parts = vec![bulk("message"), bulk("a"), Value::Bulk(message.to_vec())];
        Value::Array(parts)
    };
    let long = vec![b'x'; 30 << 20];
    publish(&long);
    assert!(reader.read() == of(&long));
    let short = vec![b'y'; 1_500];
    (0..10_000).for_each(|_| publish(&short));
    (0..10_000).for_each(|_| assert_eq!(reader.read(), of(&short)));
}

#[test]
fn a_subscriber_that_is_dropped_is_not_counted() {
    let daemon = Daemon::start(&["--client-memory", "8MiB"]);
    let mut reader = Client::connect(&daemon);
    let mut speaker = Client::connect(&daemon);
    reader.run("SUBSCRIBE a");
    let message = vec![b'x'; 5 << 20];
    let listeners = speaker.call(&[b"PUBLISH", b"a", &message]);
    assert_eq!(listeners, Value::Integer(0));
    assert_eq!(daemon.stat("slow_kicks"), 1);
}

#[test]
fn subscriptions_of_one_client_are_bounded() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    let mut name = vec![b'x'; 1 << 16];
    let mut refused = 0;
    for number in 0..80_u8 {
        name[0] = b'!' + number;
        if matches!(client.call(&[b"SUBSCRIBE", &name]), Value::Error(_)) {
            refused += 1;
        }
    }
    assert_eq!(refused, 49);
    assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
}

#[test]
fn keyspace_events_tell_of_every_protocol_of_expiry_and_of_what_is_chosen() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "KEA"]);
    let (mut listener, mut writer) = (Client::connect(&daemon), Client::connect(&daemon));
    listener.run("PSUBSCRIBE __key*");
    let mut expect = |event: &str, key: &str| {
        for (channel, message) in [
            (format!("__keyspace@0__:{key}"), event),
            (format!("__keyevent@0__:{event}"), key),
        ] {
            let expected = bulks(&["pmessage", "__key*", &channel, message]);
            assert_eq!(listener.read(), expected);
        }
    };
    let mut memcached = daemon.connect();
    check(&mut memcached, b"set m 0 0 1\r\n1\r\n", b"STORED\r\n");
    expect("set", "m");
    check(&mut memcached, b"incr m 1\r\n", b"2\r\n");
    expect("incrby", "m");
    check(&mut memcached, b"touch m 100\r\n", b"TOUCHED\r\n");
    expect("expire", "m");
    check(&mut memcached, b"delete m\r\n", b"DELETED\r\n");
    expect("del", "m");
    check(&mut memcached, b"ms n 1 T1\r\nx\r\n", b"HD\r\n");
    expect("set", "n");
    expect("expire", "n");
    // Nobody meets it: its time is over by itself.
    daemon.expire(std::time::Duration::from_secs(1));
    expect("expired", "n");
    writer.run("PUBLISH __key-end end");
    memcached.write_all(b"quit\r\n").unwrap();
}

#[test]
fn channels_of_shards_have_names_of_their_own() {
    let daemon = Daemon::start(&[]);
    let (mut listener, mut speaker) = (Client::connect(&daemon), Client::connect(&daemon));
    let nothing = Value::Array(vec![bulk("sunsubscribe"), Value::Null, Value::Integer(0)]);
    assert_eq!(listener.run("SUNSUBSCRIBE"), nothing);
    assert_eq!(listener.run("SUBSCRIBE news"), note("subscribe", "news", 1));
    listener.send(&[b"SSUBSCRIBE", b"news", b"orders"]);
    assert_eq!(listener.read(), note("ssubscribe", "news", 1));
    assert_eq!(listener.read(), note("ssubscribe", "orders", 2));
    assert_eq!(listener.run("PSUBSCRIBE o*"), note("psubscribe", "o*", 2));
    assert_eq!(speaker.run("SPUBLISH orders one"), Value::Integer(1));
    assert_eq!(listener.read(), bulks(&["smessage", "orders", "one"]));
    assert_eq!(speaker.run("PUBLISH news two"), Value::Integer(1));
    assert_eq!(listener.read(), bulks(&["message", "news", "two"]));
    speaker.check(
        "SPUBLISH sport three => :0
        PUBSUB SHARDCHANNELS n* => [news]
        PUBSUB SHARDNUMSUB orders sport => [orders, :1, sport, :0]
        PUBSUB CHANNELS => [news]
        PUBSUB NUMSUB orders => [orders, :0]",
    );
    assert_eq!(
        listener.run("SUNSUBSCRIBE orders"),
        note("sunsubscribe", "orders", 1)
    );
    assert_eq!(
        listener.run("UNSUBSCRIBE news"),
        note("unsubscribe", "news", 1)
    );
    listener.run("PUNSUBSCRIBE o*");
    let Value::Error(refused) = listener.run("GET a") else {
        panic!("a subscriber of a shard is one, too")
    };
    assert!(refused.starts_with("ERR Can't execute 'get'"), "{refused}");
    assert_eq!(
        listener.run("SUNSUBSCRIBE"),
        note("sunsubscribe", "news", 0)
    );
    assert_eq!(listener.run("GET a"), Value::Null);
    assert_eq!(
        speaker.run("PUBSUB SHARDCHANNELS"),
        Value::Array(Vec::new())
    );
}

#[test]
fn new_keys_and_missed_ones_are_told_of_if_that_is_chosen() {
    let daemon = Daemon::start(&["--threads", "1", "--notify-keyspace-events", "Enm"]);
    let mut ears = Client::connect(&daemon);
    ears.run("PSUBSCRIBE __key*__:*");
    let mut client = Client::connect(&daemon);
    let told = |ears: &mut Client, event: &str, key: &str| {
        let channel = format!("__keyevent@0__:{event}");
        let message = ears.read().shown();
        assert_eq!(message, format!("[pmessage, __key*__:*, {channel}, {key}]"));
    };
    for (request, event, key) in [
        ("SET a 1", "new", "a"),
        ("GET nothing", "keymiss", "nothing"),
        ("HSET h f v", "new", "h"),
        ("HGET none f", "keymiss", "none"),
        ("EXISTS a none", "keymiss", "none"),
        ("GETDEL none", "keymiss", "none"),
        ("INCR count", "new", "count"),
        ("APPEND text x", "new", "text"),
        ("RENAME text other", "new", "other"),
        ("MGET a x", "keymiss", "x"),
    ] {
        client.run(request);
        told(&mut ears, event, key);
    }
    // Neither new nor missed.
    for request in [
        "SET a 2",
        "GET a",
        "HSET h g v",
        "OBJECT FREQ none",
        "DEL none",
        "SET none x XX",
    ] {
        client.run(request);
    }
    let mut web = daemon.connect();
    daemon::check(
        &mut web,
        b"set a 0 0 1\r\n3\r\nset m 0 0 1\r\nx\r\n",
        b"STORED\r\nSTORED\r\n",
    );
    told(&mut ears, "new", "m");
    client.run("CONFIG SET notify-keyspace-events En");
    client.run("GET nothing");
    client.run("SET last x");
    told(&mut ears, "new", "last");
}

#[test]
fn values_that_are_stored_over_others_are_told_of() {
    let daemon = Daemon::start(&["--threads", "1", "--notify-keyspace-events", "Eoc"]);
    let mut ears = Client::connect(&daemon);
    ears.run("PSUBSCRIBE __key*__:*");
    let mut client = Client::connect(&daemon);
    // Of each key whether its type changes, too.
    let mut told = |keys: &[(&str, bool)]| {
        for &(key, is_of_other_type) in keys {
            let events = ["overwritten", "type_changed"];
            for event in &events[..1 + usize::from(is_of_other_type)] {
                let channel = format!("__keyevent@0__:{event}");
                let message = ears.read().shown();
                assert_eq!(message, format!("[pmessage, __key*__:*, {channel}, {key}]"));
            }
        }
    };
    let steps: [(&str, &[(&str, bool)]); 25] = [
        ("SET a 1", &[]),
        ("SET a 2", &[("a", false)]),
        ("SET a 3 EX 100", &[("a", false)]),
        ("SET a 4 GET", &[("a", false)]),
        ("SETEX a 100 5", &[("a", false)]),
        ("GETSET a 6", &[("a", false)]),
        ("SET a 7 NX", &[]),
        ("APPEND a 8", &[]),
        ("INCR a", &[]),
        ("LPUSH l x", &[]),
        ("SET l y", &[("l", true)]),
        ("SADD s 1 2", &[]),
        ("SADD s 3", &[]),
        ("SUNIONSTORE l s", &[("l", true)]),
        ("SUNIONSTORE l s", &[("l", false)]),
        ("ZADD z 1 a", &[]),
        ("ZUNIONSTORE z 1 z", &[("z", false)]),
        ("MSET a 1 new 2 z 3", &[("a", false), ("z", true)]),
        ("COPY s a REPLACE", &[("a", true)]),
        ("COPY s copy", &[]),
        ("RENAME s l", &[("l", false)]),
        ("SORT l STORE a", &[("a", true)]),
        ("BITOP NOT a new", &[("a", true)]),
        ("DEL a", &[]),
        ("SET a x", &[]),
    ];
    for (request, keys) in steps {
        client.run(request);
        told(keys);
    }
    let mut memcached = daemon.connect();
    check(&mut memcached, b"set l 0 0 1\r\nx\r\n", b"STORED\r\n");
    told(&[("l", true)]);
    check(&mut memcached, b"append l 0 0 1\r\ny\r\n", b"STORED\r\n");
    check(&mut memcached, b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    told(&[("a", false)]);
}

#[test]
fn patterns_and_channels_that_are_too_long_are_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let long = vec![b'a'; 65_537];
    let pattern = error("ERR pattern is longer than 65536 bytes");
    assert_eq!(client.run("SADD set a"), Value::Integer(1));
    let commands: [&[&[u8]]; 8] = [
        &[b"KEYS"],
        &[b"SCAN", b"0", b"MATCH"],
        &[b"SSCAN", b"set", b"0", b"MATCH"],
        &[b"PUBSUB", b"CHANNELS"],
        &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN"],
        &[b"FUNCTION", b"LIST", b"LIBRARYNAME"],
        &[b"CONFIG", b"GET", b"maxmemory"],
        &[b"PSUBSCRIBE"],
    ];
    for command in commands {
        assert_eq!(client.call(&[command, &[&long[..]]].concat()), pattern);
    }
    let channel = error("ERR channel is longer than 65536 bytes");
    for command in [&b"SUBSCRIBE"[..], b"SSUBSCRIBE"] {
        assert_eq!(client.call(&[command, &long]), channel);
    }
    for command in [&b"PUBLISH"[..], b"SPUBLISH"] {
        assert_eq!(client.call(&[command, &long, b"m"]), channel);
        assert_eq!(client.call(&[command, &long[1..], b"m"]), Value::Integer(0));
    }
    assert_eq!(client.call(&[b"KEYS", &long[1..]]), bulks(&[]));
}

#[test]
fn a_pattern_counts_with_what_it_becomes() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let pattern = |at: usize| format!("?{}{at}", "a".repeat(60_000)).into_bytes();
    let taken = (0..20).take_while(|&at| {
        let reply = client.call(&[b"PSUBSCRIBE", &pattern(at)]);
        reply != error("ERR too many subscriptions")
    });
    assert!((2..8).contains(&taken.count()));
}

#[test]
fn one_command_has_so_many_patterns() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let patterns: Vec<Vec<u8>> = (0..4_096)
        .map(|at| format!("p{at}*").into_bytes())
        .collect();
    let words: Vec<&[u8]> = patterns.iter().map(Vec::as_slice).collect();
    let refused = error("ERR too many arguments for one command");
    let all = [&[&b"PSUBSCRIBE"[..]], &words[..]].concat();
    assert_eq!(client.call(&all), refused);
    let long = [b'p'; 60_000];
    let some = [&b"PSUBSCRIBE"[..], &long, &long, &long, &long, &long];
    let refused = error("ERR the patterns of one command are longer than 256 KiB");
    assert_eq!(client.call(&some), refused);
    let again = vec![&b"SUBSCRIBE"[..]; 16_385];
    assert_eq!(
        client.call(&again),
        error("ERR too many arguments for one command")
    );
    client.send(&all[..4_096]);
    for (place, pattern) in patterns[..4_095].iter().enumerate() {
        let pattern = String::from_utf8_lossy(pattern);
        let count = i64::try_from(place).unwrap() + 1;
        assert_eq!(client.read(), note("psubscribe", &pattern, count));
    }
}
