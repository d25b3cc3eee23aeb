//! Long commands: what is worked off in parts and steps is answered as if it were done at once.

use crate::support::{daemon, resp};

use std::collections::BTreeSet;

use daemon::Daemon;
use resp::{Client, Value, bulk};

/// More than two parts.
const MANY: usize = 10_000;

fn names(prefix: &str) -> Vec<String> {
    (0..MANY)
        .map(|number| format!("{prefix}{number}"))
        .collect()
}

/// Sends a command whose last arguments are these.
fn call(client: &mut Client, head: &str, list: &[String]) -> Value {
    let head = head.split(' ').map(str::as_bytes);
    let args: Vec<&[u8]> = head.chain(list.iter().map(String::as_bytes)).collect();
    client.call(&args)
}

/// The strings of an array, in order.
fn sorted(value: Value) -> BTreeSet<String> {
    match value {
        Value::Array(values) | Value::Set(values) => values.iter().map(Value::shown).collect(),
        other => panic!("no array: {}", other.shown()),
    }
}

fn integer(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap())
}

#[test]
fn many_keys_are_answered_as_few_are() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let keys = names("k");
    let pairs: Vec<String> = keys
        .iter()
        .flat_map(|key| [key.clone(), format!("v{key}")])
        .collect();
    assert_eq!(call(&mut client, "MSET", &pairs).shown(), "+OK");
    let twice = [&keys[..], &keys[..9], &["none".to_owned()]].concat();
    assert_eq!(call(&mut client, "EXISTS", &twice), integer(MANY + 9));
    assert_eq!(call(&mut client, "TOUCH", &keys), integer(MANY));
    let values = keys.iter().map(|key| bulk(&format!("v{key}")));
    assert_eq!(
        call(&mut client, "MGET", &keys),
        Value::Array(values.collect())
    );
    let all: BTreeSet<String> = keys.iter().cloned().collect();
    assert_eq!(sorted(client.run("KEYS *")), all);
    assert_eq!(sorted(client.run("KEYS k99*")).len(), 111);
    let refused = "-ERR too many arguments for one command";
    assert_eq!(call(&mut client, "MSETNX", &pairs).shown(), refused);
    assert_eq!(call(&mut client, "DEL", &keys), integer(MANY));
    assert_eq!(client.run("DBSIZE"), Value::Integer(0));
}

#[test]
fn many_members_are_answered_as_few_are() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let members = names("m");
    assert_eq!(call(&mut client, "SADD set", &members), integer(MANY));
    let asked = [&members[..], &["none".to_owned()]].concat();
    let there = (0..=MANY).map(|place| Value::Integer(i64::from(place < MANY)));
    assert_eq!(
        call(&mut client, "SMISMEMBER set", &asked),
        Value::Array(there.collect())
    );
    let all: BTreeSet<String> = members.iter().cloned().collect();
    assert_eq!(sorted(client.run("SMEMBERS set")), all);
    assert_eq!(sorted(client.run("SUNION set none set")), all);
    assert_eq!(client.run("SDIFF set set"), Value::Array(Vec::new()));
    assert_eq!(client.run("SUNIONSTORE copy set none"), integer(MANY));
    assert_eq!(
        call(&mut client, "SREM copy", &members[1..]),
        integer(MANY - 1)
    );
    assert_eq!(
        client.run("SINTER copy set"),
        Value::Array(vec![bulk("m0")])
    );
    assert_eq!(client.run("SDIFFSTORE copy set copy"), integer(MANY - 1));

    let fields = |value: &'static str| {
        let pairs = members
            .iter()
            .flat_map(move |name| [name.clone(), value.to_owned()]);
        pairs.collect::<Vec<String>>()
    };
    assert_eq!(call(&mut client, "HSET hash", &fields("x")), integer(MANY));
    assert_eq!(call(&mut client, "HSET hash", &fields("y")), integer(0));
    let values = Value::Array(vec![bulk("y"); MANY]);
    assert_eq!(call(&mut client, "HMGET hash", &members), values);
    assert_eq!(client.run("HVALS hash"), values);
    assert_eq!(sorted(client.run("HKEYS hash")), all);
    assert_eq!(
        call(&mut client, "HDEL hash", &members[..9_000]),
        integer(9_000)
    );

    let pairs = members.iter().enumerate();
    let pairs: Vec<String> = pairs
        .flat_map(|(score, member)| [score.to_string(), member.clone()])
        .collect();
    assert_eq!(call(&mut client, "ZADD sorted CH", &pairs), integer(MANY));
    let in_order = Value::Array(members.iter().map(|member| bulk(member)).collect());
    assert_eq!(client.run("ZRANGE sorted 0 -1"), in_order);
    assert_eq!(call(&mut client, "ZREM sorted", &members), integer(MANY));
    let wrong = call(&mut client, "SADD hash", &members).shown();
    assert!(wrong.starts_with("-WRONGTYPE"), "{wrong}");
}

#[test]
fn many_members_that_are_taken_out_come_in_steps() {
    const TAKEN: usize = 9_000;
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let members = names("m");
    let pairs = members.iter().enumerate();
    let pairs: Vec<String> = pairs
        .flat_map(|(score, member)| [score.to_string(), member.clone()])
        .collect();
    let expected = |places: &mut dyn Iterator<Item = usize>| {
        let values = places.flat_map(|place| [bulk(&members[place]), bulk(&place.to_string())]);
        Value::Array(values.collect())
    };
    for in_transaction in [false, true] {
        let take = |client: &mut Client, command: String| {
            if !in_transaction {
                return client.run(&command);
            }
            client.run("MULTI");
            client.run(&command);
            match client.run("EXEC") {
                Value::Array(mut answers) => answers.remove(0),
                other => panic!("no array: {}", other.shown()),
            }
        };
        client.run("FLUSHALL");
        call(&mut client, "ZADD sorted", &pairs);
        let lowest = take(&mut client, format!("ZPOPMIN sorted {TAKEN}"));
        assert_eq!(lowest, expected(&mut (0..TAKEN)));
        let highest = take(&mut client, format!("ZPOPMAX sorted {MANY}"));
        assert_eq!(highest, expected(&mut (TAKEN..MANY).rev()));
        assert_eq!(client.run("EXISTS sorted"), Value::Integer(0));

        call(&mut client, "SADD set", &members);
        let drawn = sorted(take(&mut client, format!("SPOP set {TAKEN}")));
        let left = sorted(client.run("SMEMBERS set"));
        assert_eq!((drawn.len(), left.len()), (TAKEN, MANY - TAKEN));
        assert_eq!(&drawn | &left, members.iter().cloned().collect());
        let mut scanned = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let Value::Array(parts) = client.run(&format!("SSCAN set {cursor}")) else {
                panic!("no array")
            };
            scanned.extend(sorted(parts[1].clone()));
            cursor = parts[0].shown();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(scanned, left);
    }
}

#[test]
fn a_command_may_have_as_many_arguments_as_in_redis() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let keys: Vec<String> = (0..250_000).map(|key| format!("k{key}")).collect();
    assert_eq!(client.run("SET k7 v"), resp::ok());
    assert_eq!(call(&mut client, "DEL", &keys), Value::Integer(1));
    let Value::Array(values) = call(&mut client, "MGET", &keys) else {
        panic!("no array");
    };
    assert_eq!(values.len(), keys.len());
}

#[test]
fn nobody_sees_only_some_of_the_keys_of_a_delete_gone() {
    const ROUNDS: usize = 2_000;
    let daemon = Daemon::start(&["--threads", "2"]);
    let mut writer = Client::connect(&daemon);
    let mut reader = Client::connect(&daemon);
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            for round in 0..ROUNDS {
                writer.run("MSET a 1 b 1 c 1 d 1 e 1 f 1 g 1 h 1");
                let name = ["DEL", "UNLINK"][round % 2];
                writer.check(&format!("{name} a b c d e f g h => :8"));
            }
        });
        while !writing.is_finished() {
            let seen = reader.run("EXISTS a b c d e f g h");
            let is_whole = [Value::Integer(0), Value::Integer(8)].contains(&seen);
            assert!(is_whole, "{seen:?}");
        }
    });
}

#[test]
fn requests_behind_a_long_one_wait_for_it_and_silence_is_kept() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let keys = names("k");
    let exists = || [&["EXISTS".to_owned()], &keys[..]].concat();
    let exists = exists();
    let exists: Vec<&[u8]> = exists.iter().map(String::as_bytes).collect();
    client.send(&[b"CLIENT", b"REPLY", b"SKIP"]);
    client.send(&exists);
    client.send(&[b"PING"]);
    assert_eq!(client.read().shown(), "+PONG");
    client.send(&[b"CLIENT", b"REPLY", b"OFF"]);
    client.send(&exists);
    client.send(&[b"KEYS", b"*"]);
    client.send(&[b"CLIENT", b"REPLY", b"ON"]);
    assert_eq!(client.read().shown(), "+OK");
    client.send(&exists);
    client.send(&[b"SET", b"k1", b"x"]);
    client.send(&exists);
    let answers = [client.read(), client.read(), client.read()];
    assert_eq!(answers.map(|answer| answer.shown()), [":0", "+OK", ":1"]);
    client.send(&[b"MULTI"]);
    client.send(&exists);
    client.send(&[b"KEYS", b"*"]);
    client.send(&[b"EXEC"]);
    let answers = [client.read(), client.read(), client.read(), client.read()];
    assert_eq!(answers[3].shown(), "[:1, [k1]]");
    let counted = client.run("EVAL return#redis.call('KEYS','*') 0");
    assert_eq!(counted, Value::Integer(1));
}

/// So many clients that are told when a key changes which they have read.
fn trackers(daemon: &Daemon, count: usize) -> Vec<Client> {
    let begin = |_| {
        let mut tracker = Client::connect(daemon);
        tracker.run("HELLO 3");
        assert_eq!(tracker.run("CLIENT TRACKING ON").shown(), "+OK");
        tracker
    };
    (0..count).map(begin).collect()
}

/// Each key with a value.
fn pairs_of(keys: &[String]) -> Vec<String> {
    let pair = |key: &String| [key.clone(), "v".to_owned()];
    keys.iter().flat_map(pair).collect()
}

#[test]
fn what_very_many_are_told_of_is_done_in_parts_and_told_whole() {
    const CLIENTS: usize = 40;
    const KEYS: usize = 600;
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut writer = Client::connect(&daemon);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
    let pairs = pairs_of(&keys);
    let mut trackers = trackers(&daemon, CLIENTS);
    for (change, list, reply) in [
        ("MSET", &pairs, "+OK".to_owned()),
        ("DEL", &keys, format!(":{KEYS}")),
    ] {
        for tracker in &mut trackers {
            call(tracker, "MGET", &keys);
        }
        let head = change.to_owned();
        assert_eq!(call(&mut writer, &head, list).shown(), reply);
        for tracker in &mut trackers {
            let told: BTreeSet<String> = (0..KEYS).map(|_| told_of(tracker.read())).collect();
            assert_eq!(told, keys.iter().cloned().collect(), "{change}");
            assert_eq!(tracker.run("PING").shown(), "+PONG");
        }
    }
}

/// How often a tracker is told of one key, and how often of all, before its PING is answered.
fn messages(tracker: &mut Client) -> (usize, usize) {
    tracker.send(&[b"PING"]);
    let mut counts = (0, 0);
    loop {
        match tracker.read() {
            Value::Push(told) if told[1] == Value::Null => counts.1 += 1,
            Value::Push(_) => counts.0 += 1,
            pong => {
                assert_eq!(pong.shown(), "+PONG");
                return counts;
            }
        }
    }
}

#[test]
fn what_nobody_may_see_a_part_of_tells_all_at_once_where_it_would_tell_too_many() {
    const CLIENTS: usize = 60;
    const KEYS: usize = 1_200;
    let daemon = Daemon::start(&["--threads", "1", "--script-time-limit", "60s"]);
    let mut writer = Client::connect(&daemon);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
    let pairs = pairs_of(&keys);
    let mut trackers = trackers(&daemon, CLIENTS);
    let script = "for _, key in ipairs(KEYS) do redis.call('del', key) end return 1";
    let eval = [vec![script.to_owned(), KEYS.to_string()], keys.clone()].concat();
    let msetex = [vec![KEYS.to_string()], pairs.clone()].concat();
    for (change, list, is_queued) in [
        ("MSETNX", &pairs, false),
        ("MSETEX", &msetex, false),
        ("EVAL", &eval, false),
        ("MSET", &pairs, true),
        ("DEL", &keys, true),
    ] {
        for tracker in &mut trackers {
            call(tracker, "MGET", &keys);
        }
        if is_queued {
            writer.run("MULTI");
        }
        let mut answer = call(&mut writer, change, list);
        if is_queued {
            answer = writer.run("EXEC");
        }
        assert!(
            !answer.shown().contains("ERR"),
            "{change}: {}",
            answer.shown()
        );
        for tracker in &mut trackers {
            let (by_name, of_all) = messages(tracker);
            // The table is empty then, so nobody is told by name what comes behind.
            assert!((1_000..KEYS).contains(&by_name), "{change}: {by_name}");
            assert_eq!(of_all, 1, "{change}");
            // The next step tells names again.
            tracker.run("GET k1");
        }
        let mut next = || {
            writer.run("MULTI");
            writer.run("SET k1 w");
            writer.run("EXEC")
        };
        assert_eq!(next().shown(), "[+OK]", "{change}");
        for tracker in &mut trackers {
            assert_eq!(messages(tracker), (1, 0), "{change}");
        }
        writer.run("DEL k1");
    }
}

#[test]
fn a_part_stays_what_it_is_while_more_begin_to_track_its_keys() {
    const KEYS: usize = 600;
    let daemon = Daemon::start(&["--threads", "1", "--memory", "256MiB"]);
    let mut writer = Client::connect(&daemon);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
    let mut trackers = trackers(&daemon, 60);
    // So many that the first part ends before the last key, and has a value that takes turns.
    let (first, later) = trackers.split_at_mut(28);
    for tracker in first {
        call(tracker, "MGET", &keys);
    }
    let long = "x".repeat(7 << 20);
    let mut args = vec![b"MSET".as_slice()];
    for (number, key) in keys.iter().enumerate() {
        let value = if number == 570 { long.as_str() } else { "v" };
        args.extend([key.as_bytes(), value.as_bytes()]);
    }
    writer.send(&args);
    let all: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for tracker in later.iter_mut() {
        tracker.send(&[&[b"MGET".as_slice()], &all[..]].concat());
    }
    assert_eq!(writer.read().shown(), "+OK");
    assert_eq!(writer.run("STRLEN k570"), integer(7 << 20));
    assert_eq!(writer.run("GET k599"), bulk("v"));
}

/// The one key that a push says has changed.
fn told_of(push: Value) -> String {
    let Value::Push(parts) = push else {
        panic!("no push: {}", push.shown());
    };
    let [kind, Value::Array(keys)] = &parts[..] else {
        panic!("another push: {parts:?}");
    };
    assert_eq!(kind.shown(), "invalidate");
    assert_eq!(keys.len(), 1);
    keys[0].shown()
}
