//! Sets over RESP: replies in both versions, several sets at once, and members drawn by lot.

use crate::support::{daemon, resp};

use std::collections::HashSet;

use daemon::Daemon;
use resp::{Client, Value, bulk, bulks, check, check_alone, error, integers, ok};

/// The bulk strings of an array or a set, sorted.
fn sorted(value: Value) -> Vec<String> {
    let (Value::Array(values) | Value::Set(values)) = value else {
        panic!("{value:?} is no list");
    };
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut texts: Vec<String> = values.iter().map(text).collect();
    texts.sort();
    texts
}

#[test]
fn members_are_added_asked_for_and_removed() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    check(
        &mut client,
        &[
            ("SADD s a b c a", Value::Integer(3)),
            ("SADD s c d", Value::Integer(1)),
            ("SCARD s", Value::Integer(4)),
            ("SMEMBERS s", bulks(&["a", "b", "c", "d"])),
            ("SISMEMBER s a", Value::Integer(1)),
            ("SISMEMBER s z", Value::Integer(0)),
            ("SMISMEMBER s a z b", integers(&[1, 0, 1])),
            ("SMISMEMBER none a z", integers(&[0, 0])),
            ("SREM s a z b", Value::Integer(2)),
            ("SMEMBERS none", bulks(&[])),
            ("SMOVE s t c", Value::Integer(1)),
            ("SMOVE s t c", Value::Integer(0)),
            ("SMOVE s s d", Value::Integer(1)),
            ("SMOVE none t a", Value::Integer(0)),
            ("SMEMBERS t", bulks(&["c"])),
            ("SSCAN s 0", Value::Array(vec![bulk("0"), bulks(&["d"])])),
            ("SREM s d", Value::Integer(1)),
            ("SCARD s", Value::Integer(0)),
            ("SET s text", ok()),
            ("SADD s a", error(wrong)),
            ("SMOVE t s c", error(wrong)),
            ("SUNION t s", error(wrong)),
        ],
    );
    client.run("HELLO 3");
    assert_eq!(client.run("SMEMBERS t"), Value::Set(vec![bulk("c")]));
    assert_eq!(client.run("SMEMBERS none"), Value::Set(vec![]));
}

#[test]
fn several_sets_are_united_cut_and_subtracted() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("SADD one a b c d");
    client.run("SADD two c d e");
    client.run("SADD three d x");
    for (command, expected) in [
        ("SUNION one two none", "a b c d e"),
        ("SINTER one two", "c d"),
        ("SINTER one two three", "d"),
        ("SINTER one none", ""),
        ("SDIFF one two three", "a b"),
        ("SDIFF none one", ""),
        ("SINTER one", "a b c d"),
    ] {
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(sorted(client.run(command)), expected, "{command}");
    }
    check(
        &mut client,
        &[
            ("SUNIONSTORE all one two three", Value::Integer(6)),
            ("SCARD all", Value::Integer(6)),
            ("SINTERSTORE one one two", Value::Integer(2)),
            ("SMEMBERS one", bulks(&["c", "d"])),
            ("SDIFFSTORE one one two", Value::Integer(0)),
            ("GET one", Value::Null),
            ("SET text 1", ok()),
            ("SUNIONSTORE text two", Value::Integer(3)),
            ("SCARD text", Value::Integer(3)),
            ("SINTERCARD 2 all two", Value::Integer(3)),
            ("SINTERCARD 2 all two LIMIT 2", Value::Integer(2)),
            ("SINTERCARD 2 all two LIMIT 0", Value::Integer(3)),
            ("SINTERCARD 1 none", Value::Integer(0)),
            (
                "SINTERCARD 0 all",
                error("ERR numkeys should be greater than 0"),
            ),
            (
                "SINTERCARD 3 all two",
                error("ERR Number of keys can't be greater than number of args"),
            ),
            (
                "SINTERCARD 1 all LIMIT -1",
                error("ERR LIMIT can't be negative"),
            ),
            ("SINTERCARD 1 all two", error("ERR syntax error")),
        ],
    );
}

#[test]
fn members_of_unions_and_differences_are_counted_without_being_sent() {
    check_alone(
        "SADD a 1 2 3 4 => :4
         SADD b 3 4 5 => :3
         SADD c 4 6 => :2
         SUNIONCARD 3 a b c => :6
         SUNIONCARD 3 a b c LIMIT 5 => :5
         SUNIONCARD 2 a none LIMIT 0 => :4
         SUNIONCARD 1 a => :4
         SUNIONCARD 2 a a => :4
         SUNIONCARD 1 none => :0
         SUNIONCARD 2 a b APPROX => :5
         SUNIONCARD 2 a b APPROX LIMIT 2 => :2
         SDIFFCARD 2 a b => :2
         SDIFFCARD 3 a b c LIMIT 1 => :1
         SDIFFCARD 2 none a => :0
         SDIFFCARD 1 a => :4
         SDIFFCARD 2 a a => :0
         SDIFFCARD 2 a b APPROX => -ERR syntax error
         SUNIONCARD 0 a => -ERR numkeys should be greater than 0
         SUNIONCARD 3 a b => -ERR Number of keys can't be greater than number of args
         SDIFFCARD 1 a LIMIT -1 => -ERR LIMIT can't be negative
         COMMAND GETKEYS SUNIONCARD 2 a b LIMIT 1 => [a, b]
         SET text 1 => +OK
         SUNIONCARD 2 a text => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn members_are_drawn_and_taken_by_lot() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let all: HashSet<String> = (0..400).map(|number| format!("m{number}")).collect();
    for member in &all {
        client.run(&format!("SADD s {member}"));
    }
    for (count, expected) in [
        (5, 5),
        (300, 300),
        (400, 400),
        (900, 400),
        (-900, 900),
        (0, 0),
    ] {
        let drawn = sorted(client.run(&format!("SRANDMEMBER s {count}")));
        assert_eq!(drawn.len(), expected, "{count}");
        assert!(drawn.iter().all(|member| all.contains(member)));
        let different = drawn.iter().collect::<HashSet<_>>().len();
        if count >= 0 {
            assert_eq!(different, expected);
        } else {
            assert!((300..400).contains(&different), "{different}");
        }
    }
    let mut left = all.clone();
    for count in [1, 50, 200] {
        let popped = sorted(client.run(&format!("SPOP s {count}")));
        assert_eq!(popped.len(), count);
        assert!(popped.iter().all(|member| left.remove(member)));
        assert_eq!(client.run("SCARD s"), Value::Integer(left.len() as i64));
    }
    assert!(matches!(client.run("SPOP s"), Value::Bulk(_)));
    assert_eq!(sorted(client.run("SPOP s 1000")).len(), left.len() - 1);
    let count = "ERR value is out of range, must be positive";
    check(
        &mut client,
        &[
            ("SPOP s", Value::Null),
            ("SPOP s 3", bulks(&[])),
            ("SPOP s -3", error(count)),
            ("SRANDMEMBER s", Value::Null),
            ("SRANDMEMBER s 3", bulks(&[])),
            (
                "SRANDMEMBER s x",
                error("ERR value is not an integer or out of range"),
            ),
            ("SRANDMEMBER s 1 2", error("ERR syntax error")),
        ],
    );
}

#[test]
fn moves_and_unions_are_one_step_for_all_clients() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("SADD left ball");
    let mut other = Client::connect(&daemon);
    std::thread::scope(|scope| {
        let mover = scope.spawn(move || {
            for _ in 0..300 {
                assert_eq!(other.run("SMOVE left right ball"), Value::Integer(1));
                assert_eq!(other.run("SMOVE right left ball"), Value::Integer(1));
            }
        });
        while !mover.is_finished() {
            assert_eq!(client.run("SUNION left right"), bulks(&["ball"]));
        }
    });
}

/// Members of few sets are looked up in the others, those of many gathered.
#[test]
fn large_unions_are_counted_as_they_are_answered() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for (name, first, step) in [("a", 0, 1), ("b", 5_000, 1), ("c", 0, 3), ("d", 1, 7)] {
        let numbers = (first..20_000).step_by(step);
        let members: Vec<String> = numbers.map(|number| format!("m{number}")).collect();
        client.run(&format!("SADD {name} {}", members.join(" ")));
    }
    client.run("SADD few new m1 m19999");
    let many: String = (0..20).map(|number| format!(" x{number}")).collect();
    for keys in ["c d", "few c b d", "b b", "d c few none", "d none d"] {
        for keys in [keys.to_owned(), format!("{keys}{many}")] {
            let count = keys.split(' ').count();
            let wanted = sorted(client.run(&format!("SUNION {keys}"))).len() as i64;
            let counted = client.run(&format!("SUNIONCARD {count} {keys}"));
            assert_eq!(counted, Value::Integer(wanted), "{keys}");
            let limited = client.run(&format!("SUNIONCARD {count} {keys} LIMIT 3000"));
            assert_eq!(limited, Value::Integer(wanted.min(3_000)), "{keys}");
        }
    }
}

/// More sets than a step has look-ups: each step has to get further all the same.
#[test]
fn very_many_sets_are_combined() {
    const SETS: usize = 6_000;
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let names: Vec<String> = (0..SETS).map(|number| format!("s{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        client.run(&format!("SADD {name} all m{}", number % 3));
    }
    let all = names.join(" ");
    assert_eq!(
        sorted(client.run(&format!("SUNION {all}"))),
        ["all", "m0", "m1", "m2"]
    );
    assert_eq!(sorted(client.run(&format!("SINTER {all}"))), ["all"]);
    assert_eq!(client.run(&format!("SDIFF {all}")), bulks(&[]));
    for (command, members) in [("SUNIONSTORE", 4), ("SINTERSTORE", 1), ("SDIFFSTORE", 0)] {
        let stored = client.run(&format!("{command} stored {all}"));
        assert_eq!(stored, Value::Integer(members), "{command}");
    }
}

/// The result may begin as a copy of the large set; a set whose members may have deadlines is no
/// source of one.
#[test]
fn a_large_set_and_small_ones_are_stored_as_they_are_answered() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for (members, is_timed) in [(250, false), (300, false), (20_000, false), (300, true)] {
        client.run("FLUSHALL");
        let names = |numbers: std::ops::Range<usize>| {
            let names: Vec<String> = numbers.map(|number| format!("m{number}")).collect();
            names.join(" ")
        };
        client.run(&format!("SADD large {}", names(0..members)));
        if is_timed {
            client.run("SEXPIRE large 10000 MEMBERS 1 m7");
        }
        client.run(&format!("SADD some {}", names(members - 20..members + 20)));
        // With many bytes in the others no copy is made.
        let long = "long".repeat(if members > 1_000 { 2_000 } else { 50 });
        client.run(&format!("SADD few new m1 {long}"));
        client.run(&format!("SADD longer {}", "longer".repeat(100_000)));
        for keys in [
            "large some few",
            "some large few",
            "large few",
            "large",
            "few large",
            "large longer",
        ] {
            for (answer, store) in [("SUNION", "SUNIONSTORE"), ("SDIFF", "SDIFFSTORE")] {
                let wanted = sorted(client.run(&format!("{answer} {keys}")));
                let stored = client.run(&format!("{store} to {keys}"));
                assert_eq!(
                    stored,
                    Value::Integer(wanted.len() as i64),
                    "{store} {keys}"
                );
                let found = sorted(client.run("SMEMBERS to"));
                assert!(found == wanted, "{store} {keys} of {members}");
            }
        }
        // A copy is a set of its own.
        client.run("SUNIONSTORE to large few");
        client.run(&format!("SREM to {}", names(0..members)));
        client.run("SADD large other");
        assert_eq!(
            client.run("SCARD large"),
            Value::Integer(members as i64 + 1)
        );
        assert_eq!(client.run("SCARD to"), Value::Integer(2));
    }
}
