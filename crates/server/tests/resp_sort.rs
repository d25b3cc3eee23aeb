//! SORT over RESP: orders, patterns of other keys, what is stored.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, check_alone};

#[test]
fn elements_come_in_order() {
    check_alone(
        "RPUSH l 3 1 10 2 => :4
        SORT l => [1, 2, 3, 10]
        SORT l DESC => [10, 3, 2, 1]
        SORT l ALPHA => [1, 10, 2, 3]
        SORT l LIMIT 1 2 => [2, 3]
        SORT l LIMIT 3 10 => [10]
        SORT l LIMIT 9 10 => []
        SORT l LIMIT -1 2 => [1, 2]
        SORT l LIMIT 0 -5 => [1, 2, 3, 10]
        SORT_RO l BY nosort DESC LIMIT 0 2 => [2, 10]
        SORT nothing => []
        SADD s b a c => :3
        SORT s => -ERR One or more scores can't be converted into double
        SORT s ALPHA DESC => [c, b, a]
        EVAL return(redis.call('sort',KEYS[1],'by','nosort')) 1 s => [a, b, c]
        ZADD z 3 x 1 y 2 w => :3
        SORT z ALPHA => [w, x, y]
        SORT z BY nosort => [y, w, x]
        SORT z BY nosort DESC LIMIT 0 1 => [x]
        SET t a => +OK
        SORT t => -WRONGTYPE Operation against a key holding the wrong kind of value
        SORT l LIMIT 1 => -ERR syntax error
        SORT l LIMIT 1 x => -ERR value is not an integer or out of range
        SORT_RO l STORE x => -ERR syntax error",
    );
}

#[test]
fn other_keys_say_what_is_sorted_by_and_what_is_told() {
    check_alone(
        "RPUSH l 1 2 3 => :3
        MSET w1 30 w2 20 w3 10 o1 one o3 three => +OK
        HSET h1 name z => :1
        HSET h2 name y => :1
        SORT l BY w* => [3, 2, 1]
        SORT l BY w* DESC GET o* => [one, nil, three]
        SORT l BY w* GET # GET o* GET none => [3, three, nil, 2, nil, nil, 1, one, nil]
        SORT l BY h*->name ALPHA => [3, 2, 1]
        SORT l BY h*->name ALPHA DESC GET h*->name GET h*->none => [z, nil, y, nil, nil, nil]
        SORT l GET h* => [nil, nil, nil]
        SORT l BY o* => -ERR One or more scores can't be converted into double
        SORT l BY w* GET o* STORE to => :3
        LRANGE to 0 -1 => [three, , one]
        TYPE to => +list
        SORT l LIMIT 0 0 STORE to => :0
        EXISTS to => :0
        SORT l DESC STORE l => :3
        LRANGE l 0 -1 => [3, 2, 1]
        COMMAND GETKEYS SORT l BY x* STORE to => [l, to]",
    );
}

#[test]
fn many_elements_are_sorted_in_steps() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    const MANY: usize = 20_000;
    for first in (0..MANY).step_by(4_000) {
        let numbers = first..first + 4_000;
        let words: Vec<String> = numbers
            .map(|number| (number * 7_919 % MANY).to_string())
            .collect();
        let command = [&b"RPUSH"[..], b"l"].into_iter();
        let args: Vec<&[u8]> = command.chain(words.iter().map(String::as_bytes)).collect();
        client.call(&args);
        let pairs = words
            .iter()
            .flat_map(|word| [format!("w{word}"), format!("-{word}")]);
        let pairs: Vec<String> = pairs.collect();
        let command = [&b"MSET"[..]].into_iter();
        let args: Vec<&[u8]> = command.chain(pairs.iter().map(String::as_bytes)).collect();
        client.call(&args);
    }
    let numbers = |value: Value| -> Vec<i64> {
        let Value::Array(values) = value else {
            panic!("{value:?}")
        };
        values
            .iter()
            .map(|one| one.shown().parse().unwrap())
            .collect()
    };
    let up: Vec<i64> = (0..MANY as i64).collect();
    let down: Vec<i64> = up.iter().rev().copied().collect();
    assert_eq!(numbers(client.run("SORT l")), up);
    assert_eq!(numbers(client.run("SORT l BY w*")), down);
    assert_eq!(numbers(client.run("SORT l BY w* DESC GET #")), up);
    assert_eq!(
        numbers(client.run("SORT l DESC LIMIT 5 12000")),
        down[5..12_005]
    );
    client.check(
        "SORT l BY w* GET # GET w* STORE to => :40000
        LRANGE to 0 3 => [19999, -19999, 19998, -19998]
        LINDEX to -1 => -0
        SORT l DESC STORE l => :20000
        MULTI => +OK
        SORT l STORE to => +QUEUED
        LLEN to => +QUEUED
        EXEC => [:20000, :20000]",
    );
    assert_eq!(numbers(client.run("LRANGE l 0 -1")), down);
}

#[test]
fn two_keys_that_change_in_one_step_are_never_seen_half_changed() {
    let daemon = Daemon::start(&["--threads", "2"]);
    // Two loops get one client each.
    let [mut writer, mut reader] = [(); 2].map(|()| Client::connect(&daemon));
    writer.run("RPUSH l 1 2");
    let writing = std::thread::spawn(move || {
        for round in 0..3_000 {
            let store = format!("MSET w1 {round} w2 {round}");
            writer.run(if round % 2 == 0 { &store } else { "DEL w1 w2" });
        }
    });
    while !writing.is_finished() {
        for ask in [
            "SORT l BY nosort GET w*",
            "SORT l BY w* GET w*",
            "MGET w1 w2",
        ] {
            let Value::Array(pair) = reader.run(ask) else {
                panic!("{ask} answers an array");
            };
            assert_eq!(pair[0], pair[1], "{ask}");
        }
        assert_ne!(reader.run("EXISTS w1 w2"), Value::Integer(1));
    }
    writing.join().unwrap();
}
