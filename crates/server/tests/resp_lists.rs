//! Lists over RESP: both ends, places, moves between keys, and what long ones cost.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, bulk, bulks, check, check_alone, error, integers, ok};

const WRONG: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn elements_come_and_go_at_both_ends() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("LPUSHX l a", Value::Integer(0)),
            ("RPUSH l a b c", Value::Integer(3)),
            ("LPUSH l x y", Value::Integer(5)),
            ("LRANGE l 0 -1", bulks(&["y", "x", "a", "b", "c"])),
            ("LRANGE l -2 100", bulks(&["b", "c"])),
            ("LRANGE l 3 1", bulks(&[])),
            ("LLEN l", Value::Integer(5)),
            ("TYPE l", Value::Simple("list".to_owned())),
            ("OBJECT ENCODING l", bulk("quicklist")),
            ("LPOP l", bulk("y")),
            ("RPOP l 2", bulks(&["c", "b"])),
            ("RPOP l 0", bulks(&[])),
            ("LPOP none", Value::Null),
            ("LPOP none 2", Value::Null),
            (
                "LPOP l -1",
                error("ERR value is out of range, must be positive"),
            ),
            ("RPUSHX l z", Value::Integer(3)),
            ("EXPIRE l 1000", Value::Integer(1)),
            ("RENAME l m", ok()),
            ("COPY m n", Value::Integer(1)),
            ("LPOP n 10", bulks(&["x", "a", "z"])),
            ("EXISTS n", Value::Integer(0)),
            ("TTL m", Value::Integer(1000)),
            ("SET s text", ok()),
            ("LPUSH s a", error(WRONG)),
            ("LRANGE s 0 1", error(WRONG)),
            (
                "LPOP l 1 2",
                error("ERR wrong number of arguments for 'lpop' command"),
            ),
            ("GET m", error(WRONG)),
        ],
    );
}

#[test]
fn elements_are_found_changed_and_removed_by_place_and_value() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("RPUSH l a b c a b c a", Value::Integer(7)),
            ("LINDEX l 0", bulk("a")),
            ("LINDEX l -2", bulk("c")),
            ("LINDEX l 7", Value::Null),
            ("LINDEX none x", Value::Null),
            ("LPOS l c", Value::Integer(2)),
            ("LPOS l c RANK -1", Value::Integer(5)),
            ("LPOS l a COUNT 0", integers(&[0, 3, 6])),
            ("LPOS l a RANK 2 COUNT 0 MAXLEN 5", integers(&[3])),
            ("LPOS l z", Value::Null),
            ("LPOS l z COUNT 0", integers(&[])),
            ("LSET l 1 longer", ok()),
            ("LSET l -1 A", ok()),
            ("LSET l 9 x", error("ERR index out of range")),
            ("LSET none 0 x", error("ERR no such key")),
            ("LINSERT l BEFORE c i", Value::Integer(8)),
            ("LINSERT l AFTER A j", Value::Integer(9)),
            ("LINSERT l AFTER z j", Value::Integer(-1)),
            ("LINSERT l BESIDE z j", error("ERR syntax error")),
            (
                "LRANGE l 0 -1",
                bulks(&["a", "longer", "i", "c", "a", "b", "c", "A", "j"]),
            ),
            ("LREM l -1 c", Value::Integer(1)),
            ("LREM l 0 a", Value::Integer(2)),
            ("LRANGE l 0 -1", bulks(&["longer", "i", "c", "b", "A", "j"])),
            ("LTRIM l 1 -2", ok()),
            ("LRANGE l 0 -1", bulks(&["i", "c", "b", "A"])),
            ("LTRIM l 5 9", ok()),
            ("EXISTS l", Value::Integer(0)),
        ],
    );
}

#[test]
fn several_elements_move_between_lists_in_order_or_one_by_one() {
    let sides =
        |from: &str, to: &str, order: &str| format!("LMOVEM l m {from} {to} COUNT 3 {order}");
    for (from, to, order, moved, target) in [
        ("LEFT", "RIGHT", "OBO", "a, b, c", "x, y, a, b, c"),
        ("LEFT", "RIGHT", "BULK", "a, b, c", "x, y, a, b, c"),
        ("LEFT", "LEFT", "OBO", "c, b, a", "c, b, a, x, y"),
        ("LEFT", "LEFT", "BULK", "a, b, c", "a, b, c, x, y"),
        ("RIGHT", "LEFT", "OBO", "c, d, e", "c, d, e, x, y"),
        ("RIGHT", "LEFT", "BULK", "c, d, e", "c, d, e, x, y"),
        ("RIGHT", "RIGHT", "OBO", "e, d, c", "x, y, e, d, c"),
        ("RIGHT", "RIGHT", "BULK", "c, d, e", "x, y, c, d, e"),
    ] {
        let left = if from == "LEFT" { "d, e" } else { "a, b" };
        check_alone(&format!(
            "RPUSH l a b c d e => :5
             RPUSH m x y => :2
             {} => [{moved}]
             LRANGE m 0 -1 => [{target}]
             LRANGE l 0 -1 => [{left}]",
            sides(from, to, order)
        ));
    }
    check_alone(
        "RPUSH l a b c => :3
         LMOVEM l m LEFT RIGHT => [a]
         LMOVEM l m LEFT RIGHT EXACTLY 3 BULK => nil
         LMOVEM l m LEFT RIGHT EXACTLY 2 BULK => [b, c]
         EXISTS l => :0
         LMOVEM l m LEFT RIGHT COUNT 9 OBO => nil
         LMOVEM m l LEFT LEFT COUNT 9 OBO => [c, b, a]
         EXPIRE l 100 => :1
         LMOVEM l l LEFT RIGHT COUNT 2 BULK => [c, b]
         LRANGE l 0 -1 => [a, c, b]
         LMOVEM l l RIGHT RIGHT COUNT 2 BULK => [c, b]
         LMOVEM l l LEFT RIGHT COUNT 9 OBO => [a, c, b]
         LRANGE l 0 -1 => [a, c, b]
         TTL l => :100
         LMOVEM l m UP LEFT => -ERR syntax error
         LMOVEM l m LEFT LEFT COUNT 1 => -ERR syntax error
         LMOVEM l m LEFT LEFT COUNT 1 ALL => -ERR syntax error
         LMOVEM l m LEFT LEFT COUNT 0 OBO => -ERR value is out of range, must be positive
         SET s text => +OK
         LMOVEM l s LEFT LEFT => \
          -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn elements_move_between_lists() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("RPUSH l a b c", Value::Integer(3)),
            ("LMOVE l m LEFT RIGHT", bulk("a")),
            ("RPOPLPUSH l m", bulk("c")),
            ("LRANGE m 0 -1", bulks(&["c", "a"])),
            ("LMOVE m m RIGHT LEFT", bulk("a")),
            ("LMOVE m m LEFT LEFT", bulk("a")),
            ("LRANGE m 0 -1", bulks(&["a", "c"])),
            ("RPOPLPUSH l l", bulk("b")),
            ("LMOVE none m LEFT LEFT", Value::Null),
            ("SET s text", ok()),
            ("LMOVE none s LEFT LEFT", Value::Null),
            ("LMOVE l s LEFT LEFT", error(WRONG)),
            ("LMOVE l m UP LEFT", error("ERR syntax error")),
            ("LLEN l", Value::Integer(1)),
            (
                "LMPOP 2 none m RIGHT COUNT 5",
                Value::Array(vec![bulk("m"), bulks(&["c", "a"])]),
            ),
            ("LMPOP 1 m LEFT", Value::Null),
            (
                "LMPOP 0 m LEFT",
                error("ERR numkeys should be greater than 0"),
            ),
            (
                "LMPOP 1 l LEFT COUNT 0",
                error("ERR count should be greater than 0"),
            ),
        ],
    );
}

#[test]
fn a_long_list_is_read_and_emptied_in_order() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for first in (0..100_000).step_by(5_000) {
        let words: Vec<String> = (first..first + 5_000).map(|n| n.to_string()).collect();
        let len = client.run(&format!("RPUSH l {}", words.join(" ")));
        assert_eq!(len, Value::Integer(first + 5_000));
    }
    let all: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(client.run("LRANGE l 0 -1"), bulks(&all));
    assert_eq!(client.run("LINDEX l 50001"), bulk("50001"));
    assert_eq!(client.run("LPOP l 60000"), bulks(&all[..60_000]));
    for number in 60_000..60_100 {
        assert_eq!(client.run("LPOP l"), bulk(&number.to_string()));
    }
    assert_eq!(client.run("LTRIM l -1 -1"), ok());
    assert_eq!(client.run("RPOP l"), bulk("99999"));
    assert_eq!(client.run("EXISTS l"), Value::Integer(0));
}
