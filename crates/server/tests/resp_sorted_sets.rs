//! Sorted sets over RESP: scores, places, ranges, and replies in both versions.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, bulk, bulks, check, error, ok};

fn words(text: &str) -> Value {
    bulks(&text.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn scores_are_set_raised_and_told() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("ZADD z 1 a 2 b 3 c", Value::Integer(3)),
            ("ZADD z 5 a 4 d", Value::Integer(1)),
            ("ZADD z CH 6 a 4 d 1 e", Value::Integer(2)),
            ("ZADD z NX 9 a 9 f", Value::Integer(1)),
            ("ZADD z XX CH 7 a 7 g", Value::Integer(1)),
            ("ZADD z GT CH 5 a 8 b", Value::Integer(1)),
            ("ZADD z LT CH 9 a 2 b", Value::Integer(1)),
            ("ZADD z INCR 1.5 b", bulk("3.5")),
            ("ZADD z NX INCR 1 b", Value::Null),
            ("ZADD z GT INCR -1 b", Value::Null),
            ("ZADD z XX INCR 1 nobody", Value::Null),
            ("ZINCRBY z -0.5 b", bulk("3")),
            ("ZSCORE z b", bulk("3")),
            ("ZSCORE z nobody", Value::Null),
            (
                "ZMSCORE z b nobody",
                Value::Array(vec![bulk("3"), Value::Null]),
            ),
            ("ZCARD z", Value::Integer(6)),
            ("ZRANGE z 0 -1 WITHSCORES", words("e 1 b 3 c 3 d 4 a 7 f 9")),
            ("ZRANK z b", Value::Integer(1)),
            ("ZREVRANK z b", Value::Integer(4)),
            ("ZRANK z nobody", Value::Null),
            (
                "ZRANK z b WITHSCORE",
                Value::Array(vec![Value::Integer(1), bulk("3")]),
            ),
            ("ZRANK z nobody WITHSCORE", Value::Null),
            ("ZREM z a b nobody", Value::Integer(2)),
            ("ZADD z inf top -inf low", Value::Integer(2)),
            (
                "ZINCRBY z -inf top",
                error("ERR resulting score is not a number (NaN)"),
            ),
            ("ZRANGE z 0 -1", words("low e c d f top")),
            ("ZADD z CH -0 c", Value::Integer(1)),
            ("ZSCORE z c", bulk("0")),
            ("ZREM z low e c d f top", Value::Integer(6)),
            ("ZCARD z", Value::Integer(0)),
            ("SET z text", ok()),
        ],
    );
}

#[test]
fn wrong_arguments_are_named() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let float = error("ERR value is not a valid float");
    let score = error("ERR min or max is not a float");
    let name = error("ERR min or max not valid string range item");
    let together = "ERR GT, LT, and/or NX options at the same time are not compatible";
    let integer = error("ERR value is not an integer or out of range");
    check(
        &mut client,
        &[
            ("ZADD z x a", float.clone()),
            ("ZADD z nan a", float.clone()),
            ("ZADD z 1 a 2", error("ERR syntax error")),
            (
                "ZADD z NX XX 1 a",
                error("ERR XX and NX options at the same time are not compatible"),
            ),
            ("ZADD z GT LT 1 a", error(together)),
            ("ZADD z GT NX 1 a", error(together)),
            (
                "ZADD z INCR 1 a 2 b",
                error("ERR INCR option supports a single increment-element pair"),
            ),
            ("ZINCRBY z x a", float),
            ("ZRANGEBYSCORE z x 1", score.clone()),
            ("ZCOUNT z 1 (x", score),
            ("ZRANGEBYLEX z a b", name.clone()),
            ("ZLEXCOUNT z [a b", name),
            ("ZRANGE z a 1", integer.clone()),
            ("ZREMRANGEBYRANK z 1 x", integer),
            (
                "ZRANGE z 0 1 LIMIT 1 2",
                error(
                    "ERR syntax error, LIMIT is only supported in combination with either \
                     BYSCORE or BYLEX",
                ),
            ),
            (
                "ZRANGE z - + BYLEX WITHSCORES",
                error("ERR syntax error, WITHSCORES not supported in combination with BYLEX"),
            ),
            ("ZRANGE z 0 1 BYSCORE BYLEX", error("ERR syntax error")),
            ("ZRANGE z 0 1 REV REV", error("ERR syntax error")),
            ("ZREVRANGE z 0 1 REV", error("ERR syntax error")),
            (
                "ZPOPMIN z -1",
                error("ERR value is out of range, must be positive"),
            ),
            ("ZCARD z", Value::Integer(0)),
        ],
    );
}

#[test]
fn ranges_go_by_place_score_and_name_in_both_directions() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("ZADD z 1 a 2 b 3 c 4 d 5 e", Value::Integer(5)),
            ("ZADD n 0 a 0 b 0 c 0 d 0 e", Value::Integer(5)),
            ("ZRANGE z 1 3", words("b c d")),
            ("ZRANGE z -2 -1", words("d e")),
            ("ZRANGE z 3 1", words("")),
            ("ZRANGE z 9 12", words("")),
            ("ZRANGE z -9 0", words("a")),
            ("ZRANGE z 0 1 REV", words("e d")),
            ("ZREVRANGE z 0 1 WITHSCORES", words("e 5 d 4")),
            ("ZRANGEBYSCORE z 2 4", words("b c d")),
            ("ZRANGEBYSCORE z (2 +inf", words("c d e")),
            ("ZRANGEBYSCORE z -inf (2", words("a")),
            ("ZRANGEBYSCORE z 4 2", words("")),
            (
                "ZRANGEBYSCORE z ( 2",
                error("ERR min or max is not a float"),
            ),
            ("ZCOUNT z -inf (", error("ERR min or max is not a float")),
            (
                "ZRANGE z  2 BYSCORE",
                error("ERR min or max is not a float"),
            ),
            ("ZRANGEBYSCORE z 1 5 LIMIT 1 2", words("b c")),
            ("ZRANGEBYSCORE z 1 5 LIMIT 3 -1", words("d e")),
            ("ZRANGEBYSCORE z 1 5 LIMIT -1 2", words("")),
            ("ZRANGEBYSCORE z 1 5 WITHSCORES LIMIT 0 1", words("a 1")),
            ("ZREVRANGEBYSCORE z 4 (2", words("d c")),
            ("ZRANGE z 4 (2 BYSCORE REV LIMIT 1 5", words("c")),
            ("ZRANGE z 0 0 LIMIT 1 -1", words("a")),
            ("ZRANGEBYLEX n - [c", words("a b c")),
            ("ZRANGEBYLEX n (b +", words("c d e")),
            ("ZREVRANGEBYLEX n + (c", words("e d")),
            ("ZRANGE n [e (b BYLEX REV LIMIT 1 1", words("d")),
            ("ZRANGEBYLEX n + -", words("")),
            ("ZCOUNT z (1 4", Value::Integer(3)),
            ("ZCOUNT none 1 4", Value::Integer(0)),
            ("ZLEXCOUNT n [b (e", Value::Integer(3)),
            ("ZREMRANGEBYSCORE z 5 +inf", Value::Integer(1)),
            ("ZREMRANGEBYRANK z 0 0", Value::Integer(1)),
            ("ZREMRANGEBYLEX n [b [d", Value::Integer(3)),
            ("ZRANGE z 0 -1", words("b c d")),
            ("ZRANGE n 0 -1", words("a e")),
            ("ZPOPMIN z", words("b 2")),
            ("ZPOPMAX z 5", words("d 4 c 3")),
            ("ZPOPMAX z", words("")),
            ("ZREMRANGEBYLEX n - +", Value::Integer(2)),
            ("ZCARD n", Value::Integer(0)),
        ],
    );
}

#[test]
fn scores_are_doubles_and_pairs_are_nested_in_resp3() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    let double = |text: &str| Value::Double(text.to_owned());
    let pair = |member: &str, score: &str| Value::Array(vec![bulk(member), double(score)]);
    check(
        &mut client,
        &[
            ("ZADD z 1 a 2.5 b", Value::Integer(2)),
            ("ZSCORE z b", double("2.5")),
            ("ZADD z INCR 1 a", double("2")),
            (
                "ZRANGE z 0 -1 WITHSCORES",
                Value::Array(vec![pair("a", "2"), pair("b", "2.5")]),
            ),
            (
                "ZRANDMEMBER z 5 WITHSCORES",
                Value::Array(vec![pair("a", "2"), pair("b", "2.5")]),
            ),
            (
                "ZSCAN z 0 NOSCORES",
                Value::Array(vec![bulk("0"), words("a b")]),
            ),
            (
                "ZSCAN z 0",
                Value::Array(vec![bulk("0"), words("a 2 b 2.5")]),
            ),
            (
                "ZRANK z b WITHSCORE",
                Value::Array(vec![Value::Integer(1), double("2.5")]),
            ),
            ("ZPOPMIN z", pair("a", "2")),
            ("ZPOPMIN z 3", Value::Array(vec![pair("b", "2.5")])),
            ("ZPOPMIN z", words("")),
            ("ZRANDMEMBER z", Value::Null),
            ("ZSCORE z b", Value::Null),
        ],
    );
}

#[test]
fn a_large_one_is_read_as_a_small_one_is() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut command = "ZADD z".to_owned();
    for number in 0..3_000 {
        command.push_str(&format!(" {number} m{number}"));
    }
    check(
        &mut client,
        &[
            (&command, Value::Integer(3_000)),
            ("ZRANK z m1234", Value::Integer(1_234)),
            ("ZRANGEBYSCORE z (1000 1003", words("m1001 m1002 m1003")),
            ("ZREMRANGEBYRANK z 0 1999", Value::Integer(2_000)),
            ("ZRANK z m2000", Value::Integer(0)),
            ("ZADD z 0 m2999", Value::Integer(0)),
            ("ZRANGE z 0 1", words("m2999 m2000")),
            ("ZCARD z", Value::Integer(1_000)),
        ],
    );
}
