//! Several sorted sets at once over RESP: unions, intersections, differences, ZMPOP and ZMOVE.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, check_alone};

#[test]
fn scores_are_joined_as_is_asked_for() {
    check_alone(
        "ZADD one 1 a 2 b 3 c => :3
        ZADD two 10 b 20 c 30 d => :3
        SADD set b d e => :3
        ZUNION 2 one two => [a, b, c, d]
        ZUNION 2 one two WITHSCORES => [a, 1, b, 12, c, 23, d, 30]
        ZUNION 2 one two WEIGHTS 2 -1 WITHSCORES => [d, -30, c, -14, b, -6, a, 2]
        ZUNION 2 one two AGGREGATE MAX WITHSCORES => [a, 1, b, 10, c, 20, d, 30]
        ZUNION 2 one two AGGREGATE COUNT WITHSCORES => [a, 1, d, 1, b, 2, c, 2]
        ZINTER 2 one two WEIGHTS 2 3 AGGREGATE count WITHSCORES => [b, 5, c, 5]
        ZUNION 3 one two set AGGREGATE MIN WITHSCORES => [a, 1, b, 1, d, 1, e, 1, c, 3]
        ZINTER 2 one two WITHSCORES => [b, 12, c, 23]
        ZINTER 3 one two set WEIGHTS 1 1 100 WITHSCORES => [b, 112]
        ZINTER 2 one nothing => []
        ZINTERCARD 2 one two => :2
        ZINTERCARD 2 one two LIMIT 1 => :1
        ZINTERCARD 2 one two LIMIT 0 => :2
        ZDIFF 2 one two WITHSCORES => [a, 1]
        ZDIFF 2 nothing one => []
        ZDIFF 1 set => [b, d, e]
        ZUNIONSTORE to 2 one two WEIGHTS 1 2 => :4
        ZRANGE to 0 -1 WITHSCORES => [a, 1, b, 22, c, 43, d, 60]
        ZINTERSTORE to 2 to one AGGREGATE MIN => :3
        ZRANGE to 0 -1 WITHSCORES => [a, 1, b, 2, c, 3]
        ZDIFFSTORE to 2 to one => :0
        EXISTS to => :0
        ZADD inf inf a -inf b => :2
        ZADD fin -inf a inf b => :2
        ZUNION 2 inf fin WITHSCORES => [a, 0, b, 0]
        ZUNION 1 inf WEIGHTS 0 WITHSCORES => [a, 0, b, 0]",
    );
}

#[test]
fn wrong_arguments_of_several_sets_are_named() {
    check_alone(
        "ZUNION 0 a => -ERR at least 1 input key is needed for 'zunion' command
        ZINTERSTORE to -1 a => -ERR at least 1 input key is needed for 'zinterstore' command
        ZUNION x a => -ERR value is not an integer or out of range
        ZUNION 2 a => -ERR syntax error
        ZUNION 1 a WEIGHTS => -ERR syntax error
        ZUNION 1 a WEIGHTS x => -ERR weight value is not a float
        ZUNION 1 a AGGREGATE mean => -ERR syntax error
        ZDIFF 1 a WEIGHTS 1 => -ERR syntax error
        ZUNIONSTORE to 1 a WITHSCORES => -ERR syntax error
        ZINTERCARD 1 a LIMIT -1 => -ERR LIMIT can't be negative
        ZINTERCARD 1 a WITHSCORES => -ERR syntax error
        SET s text => +OK
        ZUNION 2 a s => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZMPOP 1 s MIN => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZMPOP 0 a MIN => -ERR numkeys should be greater than 0
        ZMPOP 2 a MIN => -ERR syntax error
        ZMPOP 1 a MID => -ERR syntax error
        ZMPOP 1 a MIN COUNT 0 => -ERR count should be greater than 0
        ZMPOP 9223372036854775807 a MIN => -ERR syntax error
        ZMPOP 1 a MIN => nil",
    );
}

#[test]
fn the_first_set_that_has_members_gives_some() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.check(
        "ZADD z 1 a 2 b 3 c 4 d => :4
        ZMPOP 2 nothing z MIN => [z, [[a, 1]]]
        ZMPOP 2 nothing z MAX COUNT 2 => [z, [[d, 4], [c, 3]]]
        ZMPOP 2 nothing z MAX COUNT 9 => [z, [[b, 2]]]
        EXISTS z => :0",
    );
    client.run("HELLO 3");
    client.run("ZADD z 1.5 a");
    let pair = Value::Array(vec![resp::bulk("a"), Value::Double("1.5".to_owned())]);
    assert_eq!(
        client.run("ZUNION 1 z WITHSCORES"),
        Value::Array(vec![pair.clone()])
    );
    let popped = Value::Array(vec![resp::bulk("z"), Value::Array(vec![pair])]);
    assert_eq!(client.run("ZMPOP 1 z MIN"), popped);
    assert_eq!(client.run("ZMPOP 1 z MIN"), Value::Null);
}

#[test]
fn members_move_to_another_sorted_set_with_their_scores() {
    check_alone(
        "ZADD z 1 a 2 b 3 c 4 d 5 e => :5
        ZADD to 9 a 7 x => :2
        EXPIRE to 100 => :1
        ZMOVE z to MIN => [[a, 1]]
        ZMOVE z to MAX COUNT 2 => [[e, 5], [d, 4]]
        ZRANGE to 0 -1 WITHSCORES => [a, 1, d, 4, e, 5, x, 7]
        TTL to => :100
        ZMOVE to z BYSCORE 4 (7 => [[d, 4], [e, 5]]
        ZMOVE to z BYSCORE -inf +inf COUNT 1 => [[a, 1]]
        ZMOVE to z BYSCORE 8 9 => nil
        ZMOVE to z byscore -inf +inf => [[x, 7]]
        EXISTS to => :0
        ZRANGE z 0 -1 => [a, b, c, d, e, x]
        ZMOVE z z MIN => nil
        ZMOVE none z MIN => nil
        BZMOVE z to MAX 0 COUNT 9 => [[x, 7], [e, 5], [d, 4], [c, 3], [b, 2], [a, 1]]
        BZMOVE to to MIN 0 => nil
        BZMOVE none none MIN 0 => nil
        EXISTS z => :0
        TTL to => :-1
        MULTI => +OK
        BZMOVE z to MIN 0 => +QUEUED
        EXEC => [nil]",
    );
    check_alone(
        "ZADD z 1 a 2 b 3 c 4 d => :4
        ZADD to 9 a 7 x => :2
        ZMOVEMEMBER z to NX MEMBERS 4 b nobody a b => [[b, 2]]
        ZMOVEMEMBER z to xx members 3 d a x => [[a, 1]]
        ZRANGE to 0 -1 WITHSCORES => [a, 1, b, 2, x, 7]
        ZMOVEMEMBER z to XX MEMBERS 1 c => nil
        ZMOVEMEMBER z z MEMBERS 1 c => nil
        ZMOVEMEMBER none to MEMBERS 1 c => nil
        ZMOVEMEMBER z new MEMBERS 3 d c d => [[d, 4], [c, 3]]
        EXISTS z => :0
        ZRANGE new 0 -1 => [c, d]",
    );
}

#[test]
fn a_move_that_is_asked_wrongly_or_too_large_changes_nothing() {
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.check(&format!(
        "ZADD z 1 a => :1
        SET s text => +OK
        ZMOVE z s MIN => {wrong}
        ZMOVE s z MIN => {wrong}
        ZMOVE s s MIN => {wrong}
        ZMOVE none s MIN => nil
        ZMOVEMEMBER z s MEMBERS 1 a => {wrong}
        ZMOVEMEMBER s z MEMBERS 1 a => {wrong}
        ZMOVE z to MID => -ERR syntax error
        ZMOVE z to MIN COUNT => -ERR syntax error
        ZMOVE z to MIN COUNT 1 COUNT 1 => -ERR syntax error
        ZMOVE z to MIN COUNT 0 => -ERR count should be greater than 0
        ZMOVE z to MIN COUNT -1 => -ERR count should be greater than 0
        ZMOVE z to BYSCORE 1 => -ERR syntax error
        ZMOVE z to BYSCORE x 1 => -ERR min or max is not a float
        ZMOVE z to => -ERR wrong number of arguments for 'zmove' command
        ZMOVEMEMBER z to MEMBERS 2 a => \
         -ERR The `nummembers` parameter must match the number of arguments
        ZMOVEMEMBER z to MEMBERS 0 a => -ERR Number of members must be a positive integer
        ZMOVEMEMBER z to GT MEMBERS 1 a => \
         -ERR Mandatory argument MEMBERS is missing or not at the right position
        ZRANGE z 0 -1 => [a]"
    ));
    for member in 0..1_024 {
        client.run(&format!("ZADD many {member} m{member}"));
    }
    let moved = client.run("ZMOVE many more MIN COUNT 1024");
    assert!(matches!(moved, Value::Array(all) if all.len() == 1_024));
    client.check(
        "ZADD more 9 one => :1
        ZMOVE more many BYSCORE -inf +inf => -ERR more than 1024 members cannot be moved at once
        ZMOVE more many MAX COUNT 5000 => -ERR more than 1024 members cannot be moved at once
        EXISTS many => :0
        ZCARD more => :1025",
    );
}

#[test]
fn moves_are_published_and_answered_with_doubles_in_resp3() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "AKE"]);
    let mut listener = Client::connect(&daemon);
    listener.run("PSUBSCRIBE __keyevent@0__:*");
    let mut client = Client::connect(&daemon);
    for (command, events) in [
        ("ZADD z 1 a 2 b 3 c 4 d 5 e", "zadd z"),
        ("ZMOVE z to MIN", "zpopmin z, zadd to"),
        ("ZMOVE z to MAX", "zpopmax z, zadd to"),
        ("ZMOVE z to BYSCORE 2 2", "zrem z, zadd to"),
        ("ZADD to 4 d", "zadd to"),
        // The destination has it with this score.
        ("ZMOVEMEMBER z to MEMBERS 1 d", "zrem z"),
        ("ZMOVE z to BYSCORE 8 9", ""),
        ("BZMOVE z to MIN 0", "zpopmin z, zadd to, del z"),
    ] {
        client.run(command);
        for event in events.split(", ").filter(|event| !event.is_empty()) {
            let Value::Array(message) = listener.read() else {
                panic!("a message is an array");
            };
            let (channel, key) = (message[2].shown(), message[3].shown());
            let channel = channel.strip_prefix("__keyevent@0__:").unwrap();
            assert_eq!(format!("{channel} {key}"), event, "{command}");
        }
    }
    client.run("HELLO 3");
    let pair = Value::Array(vec![resp::bulk("a"), Value::Double("1".to_owned())]);
    assert_eq!(client.run("ZMOVE to z MIN"), Value::Array(vec![pair]));
    assert_eq!(client.run("ZMOVE none z MIN"), Value::Null);
}

#[test]
fn a_part_of_a_sorted_set_is_stored() {
    check_alone(
        "ZADD z 1 a 2 b 3 c 4 d => :4
        ZRANGESTORE to z 1 2 => :2
        ZRANGE to 0 -1 WITHSCORES => [b, 2, c, 3]
        ZRANGESTORE to z 0 0 REV => :1
        ZRANGE to 0 -1 => [d]
        ZRANGESTORE to z (1 +inf BYSCORE LIMIT 1 5 => :2
        ZRANGE to 0 -1 => [c, d]
        ZRANGESTORE to z +inf 2 BYSCORE REV LIMIT 0 1 => :1
        ZRANGE to 0 -1 => [d]
        ZRANGESTORE z z [b + BYLEX => :3
        ZRANGE z 0 -1 => [b, c, d]
        ZRANGESTORE to z 5 9 => :0
        EXISTS to => :0
        ZRANGESTORE to nothing 0 -1 => :0
        ZRANGESTORE to z 0 -1 WITHSCORES => -ERR syntax error
        ZRANGESTORE to z x 1 => -ERR value is not an integer or out of range",
    );
}

#[test]
fn many_members_are_joined_in_steps_as_if_at_once() {
    const MANY: usize = 20_000;
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for (key, from) in [("one", 0), ("two", MANY / 2)] {
        let mut words = vec!["ZADD".to_owned(), key.to_owned()];
        for number in from..from + MANY {
            // Their order is another than that in which they come.
            words.extend([format!("{}", number * 7_919 % 30_011), format!("m{number}")]);
        }
        let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        assert_eq!(client.call(&args), Value::Integer(MANY as i64));
    }
    let all = 3 * MANY / 2;
    assert_eq!(
        client.run("ZUNIONSTORE to 2 one two"),
        Value::Integer(all as i64)
    );
    let answered = client.run("ZUNION 2 one two WITHSCORES");
    assert_eq!(client.run("ZRANGE to 0 -1 WITHSCORES"), answered);
    let Value::Array(values) = answered else {
        panic!("no array")
    };
    let score = |pair: &[Value]| pair[1].shown().parse::<f64>().unwrap();
    let scores: Vec<f64> = values.chunks(2).map(score).collect();
    assert_eq!(scores.len(), all);
    assert!(scores.is_sorted());
    client.check(
        "ZRANGESTORE part to 5 -6 => :29990
        ZINTERCARD 2 one two => :10000
        ZDIFFSTORE to 2 one two => :10000
        ZINTERSTORE to 2 one two => :10000
        ZSCORE to m10000 => 41964
        ZRANK to m19999 => :1343
        MULTI => +OK
        ZUNIONSTORE to 1 one => +QUEUED
        ZCARD to => +QUEUED
        EXEC => [:20000, :20000]",
    );
}

/// The result may begin as a copy of the large sorted set.
#[test]
fn a_large_sorted_set_and_small_ones_are_stored_as_they_are_answered() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for members in [250, 300, 20_000] {
        client.run("FLUSHALL");
        let scored = |numbers: std::ops::Range<usize>, step: usize| {
            let scored = numbers.map(|number| format!("{}.25 m{number}", number * step % 991));
            scored.collect::<Vec<String>>().join(" ")
        };
        client.run(&format!("ZADD large {}", scored(0..members, 7)));
        client.run(&format!(
            "ZADD some {}",
            scored(members - 20..members + 20, 3)
        ));
        // With many bytes in the others no copy is made.
        let long = "long".repeat(if members > 1_000 { 2_000 } else { 50 });
        client.run(&format!("ZADD few -inf m0 0.1 m1 -0.0 new 5 {long}"));
        client.run(&format!("ZADD longer 3 {}", "longer".repeat(100_000)));
        client.run("ZADD large inf m0");
        client.run("SADD set m2 m3 other");
        let unions = [
            "",
            " WEIGHTS 1 2 3",
            " WEIGHTS 2 1 1",
            " AGGREGATE MIN",
            " AGGREGATE MAX",
        ];
        let mut asked: Vec<(String, String)> = Vec::new();
        for keys in [
            "3 large some few",
            "3 set large few",
            "3 few some large",
            "3 large large few",
            "3 large longer few",
        ] {
            asked.extend(unions.map(|options| ("UNION".into(), format!("{keys}{options}"))));
            asked.push(("UNION".into(), format!("{keys} AGGREGATE COUNT")));
            asked.push(("DIFF".into(), keys.into()));
        }
        for (name, request) in asked {
            let wanted = client.run(&format!("Z{name} {request} WITHSCORES"));
            client.run(&format!("Z{name}STORE to {request}"));
            let found = client.run("ZRANGE to 0 -1 WITHSCORES");
            assert!(found == wanted, "{name} {request} of {members}");
        }
        client.run("ZDIFFSTORE to 2 large few");
        client.run("ZADD to 1 m5");
        assert_ne!(client.run("ZSCORE large m5").shown(), "1");
        assert_eq!(client.run("ZCARD large"), Value::Integer(members as i64));
    }
}
