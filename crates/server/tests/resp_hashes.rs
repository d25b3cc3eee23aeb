//! Hashes over RESP: replies in both versions, deadlines of fields, and what other commands see.

use crate::support::{daemon, resp};
use std::time::Duration;

use daemon::Daemon;
use resp::{Client, Value, bulk, bulks, check, check_alone, error, integers, ok};

#[test]
fn fields_are_stored_read_counted_and_removed() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    check(
        &mut client,
        &[
            ("HSET h a 1 b 2", Value::Integer(2)),
            ("HSET h a 3 c 4", Value::Integer(1)),
            ("HMSET h d 5", ok()),
            ("HSETNX h d 6", Value::Integer(0)),
            ("HSETNX h e 6", Value::Integer(1)),
            ("HGET h a", bulk("3")),
            ("HGET h z", Value::Null),
            ("HGET none a", Value::Null),
            (
                "HMGET h a z d",
                Value::Array(vec![bulk("3"), Value::Null, bulk("5")]),
            ),
            (
                "HGETALL h",
                bulks(&["a", "3", "b", "2", "c", "4", "d", "5", "e", "6"]),
            ),
            ("HKEYS h", bulks(&["a", "b", "c", "d", "e"])),
            ("HVALS none", bulks(&[])),
            ("HLEN h", Value::Integer(5)),
            ("HSTRLEN h b", Value::Integer(1)),
            ("HEXISTS h b", Value::Integer(1)),
            ("HDEL h a b b z", Value::Integer(2)),
            ("HINCRBY h c 10", Value::Integer(14)),
            ("HINCRBY h new -3", Value::Integer(-3)),
            ("HINCRBYFLOAT h c 0.5", bulk("14.5")),
            ("HINCRBY h c 1", error("ERR hash value is not an integer")),
            (
                "HINCRBYFLOAT h c inf",
                error("ERR value is NaN or Infinity"),
            ),
            (
                "HSET h a",
                error("ERR wrong number of arguments for 'hset' command"),
            ),
            ("SET text 1", ok()),
            ("HSET text a 1", error(wrong)),
            ("HGET text a", error(wrong)),
            ("GET h", error(wrong)),
            ("HDEL h c d e new", Value::Integer(4)),
            ("HLEN h", Value::Integer(0)),
            ("GET h", Value::Null),
        ],
    );
}

#[test]
fn maps_and_pairs_have_forms_of_their_own_in_resp3() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    check(
        &mut client,
        &[
            ("HSET h a 1", Value::Integer(1)),
            ("HGETALL h", Value::Map(vec![(bulk("a"), bulk("1"))])),
            ("HGETALL none", Value::Map(vec![])),
            ("HRANDFIELD h", bulk("a")),
            ("HRANDFIELD none", Value::Null),
            ("HRANDFIELD h 5", bulks(&["a"])),
            ("HRANDFIELD h -2", bulks(&["a", "a"])),
            (
                "HRANDFIELD h 1 WITHVALUES",
                Value::Array(vec![bulks(&["a", "1"])]),
            ),
            ("HRANDFIELD h 1 WITHNOTHING", error("ERR syntax error")),
            (
                "HRANDFIELD h -9000000000000000",
                error("ERR value is out of range, at most 1048576 are drawn"),
            ),
        ],
    );
}

#[test]
fn a_scan_shows_each_field_of_large_hashes_and_small_ones() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for count in [3, 5_000] {
        for number in 0..count {
            client.send(&[b"HSET", b"h", format!("f{number}").as_bytes(), b"v"]);
        }
        (0..count).for_each(|_| _ = client.read());
        let mut shown = std::collections::HashSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let Value::Array(reply) = client.run(&format!("HSCAN h {cursor} COUNT 100 NOVALUES"))
            else {
                panic!("a scan answers an array");
            };
            let [Value::Bulk(next), Value::Array(fields)] = &reply[..] else {
                panic!("{reply:?}");
            };
            assert!(fields.len() < 1_000);
            shown.extend(fields.iter().map(|field| format!("{field:?}")));
            cursor = String::from_utf8(next.clone()).unwrap();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(shown.len(), count);
    }
    check(
        &mut client,
        &[
            ("HSCAN none 0", Value::Array(vec![bulk("0"), bulks(&[])])),
            ("HSCAN h x", error("ERR invalid cursor")),
            ("HSCAN h 0 COUNT 0", error("ERR syntax error")),
            ("HSET few ab 1 ac 2 b 3", Value::Integer(3)),
            (
                "HSCAN few 0 MATCH a*",
                Value::Array(vec![bulk("0"), bulks(&["ab", "1", "ac", "2"])]),
            ),
        ],
    );
}

#[test]
fn deadlines_of_fields_are_set_told_and_taken_away() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("HSET h a 1 b 2 c 3", Value::Integer(3)),
            ("HEXPIRE h 100 FIELDS 2 a z", integers(&[1, -2])),
            ("HEXPIRE h 50 NX FIELDS 2 a b", integers(&[0, 1])),
            ("HEXPIRE h 200 XX FIELDS 2 a c", integers(&[1, 0])),
            ("HEXPIRE h 100 GT FIELDS 2 a c", integers(&[0, 0])),
            ("HEXPIRE h 100 LT FIELDS 2 a c", integers(&[1, 1])),
            ("HTTL h FIELDS 4 a b c z", integers(&[100, 50, 100, -2])),
            ("HPERSIST h FIELDS 3 a a z", integers(&[1, -1, -2])),
            ("HTTL h FIELDS 1 a", integers(&[-1])),
            ("HPEXPIREAT h 1 FIELDS 2 a b", integers(&[2, 2])),
            ("HGETALL h", bulks(&["c", "3"])),
            ("HEXPIRE none 1 FIELDS 1 a", integers(&[-2])),
            ("HTTL none FIELDS 1 a", integers(&[-2])),
            ("HEXPIREAT h 32503680000 FIELDS 1 c", integers(&[1])),
            ("HEXPIRETIME h FIELDS 1 c", integers(&[32_503_680_000])),
            ("HPEXPIRETIME h FIELDS 1 c", integers(&[32_503_680_000_000])),
            ("HINCRBY h c 1", Value::Integer(4)),
            ("HEXPIRETIME h FIELDS 1 c", integers(&[32_503_680_000])),
            ("HSET h c 5", Value::Integer(0)),
            ("HTTL h FIELDS 1 c", integers(&[-1])),
            ("HEXPIRE h 0 FIELDS 1 c", integers(&[2])),
            ("HLEN h", Value::Integer(0)),
        ],
    );
}

#[test]
fn wrong_arguments_of_deadlines_are_named() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let no_fields = error("ERR Mandatory argument FIELDS is missing or not at the right position");
    let too_few = error("ERR The `numfields` parameter must match the number of arguments");
    check(
        &mut client,
        &[
            ("HSET h a 1", Value::Integer(1)),
            ("HEXPIRE h 1 1 FIELDS a a", error("ERR unknown argument: 1")),
            (
                "HEXPIRE h 1 FIELDS 2 a",
                error("ERR wrong number of arguments"),
            ),
            ("HTTL h 1 FIELDS a", no_fields),
            (
                "HEXPIRE h 1 FIELDS 0 a",
                error("ERR Parameter `numFields` should be greater than 0"),
            ),
            (
                "HEXPIRE h -1 FIELDS 1 a",
                error("ERR invalid expire time, must be >= 0"),
            ),
            (
                "HEXPIRE h 9223372036854775 FIELDS 1 a",
                error("ERR invalid expire time in 'hexpire' command"),
            ),
            (
                "HEXPIRE h x FIELDS 1 a",
                error("ERR value is not an integer or out of range"),
            ),
            ("HTTL h FIELDS 3 a", too_few.clone()),
            (
                "HTTL h FIELDS -3 a",
                error("ERR Number of fields must be a positive integer"),
            ),
            ("HGETDEL h FIELDS 5 a", too_few),
            (
                "HGETDEL h FIELDS 0 a",
                error("ERR Number of fields must be a positive integer"),
            ),
            (
                "HGETEX h EX 10 PERSIST a b",
                error("ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified"),
            ),
        ],
    );
}

#[test]
fn options_stand_before_and_behind_the_fields() {
    check_alone(
        "HSETEX h FIELDS 1 a 1 EX 100 => :1
         HTTL h FIELDS 1 a => [:100]
         HSETEX h FNX FIELDS 1 b 2 PX 50000 => :1
         HSETEX h FIELDS 1 b 3 KEEPTTL FXX => :1
         HTTL h FIELDS 1 b => [:50]
         HSETEX h FIELDS 2 EX 60 FIELDS x => :1
         HMGET h EX FIELDS => [60, x]
         HGETEX h FIELDS 2 EX FIELDS PERSIST => [60, x]
         HGETEX h FIELDS 1 a EX 40 => [1]
         HTTL h FIELDS 1 a => [:40]
         HGETEX h FIELDS 1 a PERSIST => [1]
         HTTL h FIELDS 1 a => [:-1]
         HEXPIRE h 30 FIELDS 1 a NX => [:1]
         HEXPIRE h 20 FIELDS 2 a b GT => [:0, :0]
         HPEXPIRE h 20000 LT FIELDS 1 a => [:1]
         HEXPIREAT h 32503680000 FIELDS 1 b XX => [:1]
         HPEXPIREAT h 32503680000000 FIELDS 1 a GT => [:1]
         HEXPIRETIME h FIELDS 2 a b => [:32503680000, :32503680000]
         HEXPIRE h 1 FIELDS 1 a FIELDS 1 b => -ERR FIELDS keyword specified multiple times
         HEXPIRE h 1 NX XX FIELDS 1 a => -ERR Multiple condition flags specified
         HEXPIRE h 1 NX NX XX FIELDS 1 a => -ERR Multiple condition flags specified
         HEXPIRE h 1 FIELDS 1 a b => -ERR unknown argument: b
         HEXPIRE h 1 NX NX => -ERR wrong number of arguments for 'hexpire' command
         HEXPIRE h 1 GT FIELDS 2 a => -ERR wrong number of arguments
         HSETEX h FIELDS 1 a 1 FIELDS 1 b 2 => -ERR FIELDS keyword specified multiple times
         HSETEX h FIELDS 2 a 1 => -ERR wrong number of arguments
         HSETEX h FIELDS 0 a 1 => -ERR invalid number of fields
         HSETEX h FIELDS 1 a 1 EX => -ERR missing expire time
         HSETEX h FIELDS 1 a 1 PERSIST => -ERR unknown argument: PERSIST
         HSETEX h FNX KEEPTTL XX NX => -ERR Only one of XX or NX arguments can be specified
         HSETEX h KEEPTTL XX EX 5 => \
          -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
         HSETEX h FNX EX 9 FIELDS => -ERR FIELDS requires at least numfields and one field argument
         HSETEX h FNX XX EX 9 => -ERR missing FIELDS argument
         HGETEX h FIELDS 1 a b => -ERR unknown argument: b
         HGETEX h EX FIELDS 1 a => -ERR value is not an integer or out of range
         HGETEX h FIELDS 1 a EX -1 => -ERR invalid expire time, must be >= 0",
    );
}

#[test]
fn a_condition_may_ask_for_a_deadline_that_is_there_and_for_an_order() {
    check_alone(
        "HSET h a 1 => :1
         HEXPIRE h 100 XX GT FIELDS 1 a => [:0]
         HEXPIRE h 100 LT XX FIELDS 1 a => [:0]
         HEXPIRE h 100 NX FIELDS 1 a => [:1]
         HEXPIRE h 90 GT XX FIELDS 1 a => [:0]
         HEXPIRE h 200 XX GT FIELDS 1 a => [:1]
         HEXPIRE h 300 XX LT FIELDS 1 a => [:0]
         HEXPIRE h 150 XX LT XX FIELDS 1 a => [:1]
         HTTL h FIELDS 1 a => [:150]
         HEXPIRE h 1 XX GT LT FIELDS 1 a => -ERR Multiple condition flags specified
         HEXPIRE h 1 GT LT FIELDS 1 a => -ERR Multiple condition flags specified
         HEXPIRE h 1 NX LT FIELDS 1 a => -ERR Multiple condition flags specified",
    );
}

#[test]
fn a_deadline_may_be_any_time_in_64_bits_of_milliseconds() {
    check_alone(
        "HSET h a 1 => :1
         HEXPIREAT h 99999999999 FIELDS 1 a => [:1]
         HEXPIRETIME h FIELDS 1 a => [:99999999999]
         HPEXPIREAT h 281474976710656 FIELDS 1 a => [:1]
         HPEXPIRETIME h FIELDS 1 a => [:281474976710656]
         HSETEX h EXAT 99999999999 FIELDS 1 b 2 => :1
         HGETEX h EXAT 99999999998 FIELDS 1 b => [2]
         HEXPIRETIME h FIELDS 1 b => [:99999999998]
         HEXPIREAT h 9223372036854776 FIELDS 1 a => \
          -ERR invalid expire time in 'hexpireat' command
         HPEXPIREAT h 9223372036854775807 FIELDS 1 a => [:1]
         HLEN h => :2",
    );
}

#[test]
fn an_option_may_be_said_again_and_its_last_operand_counts() {
    check_alone(
        "HSETEX h EX 5 EX 100 FNX FNX FIELDS 1 a 1 => :1
         HTTL h FIELDS 1 a => [:100]
         HSETEX h NX NX FIELDS 1 a 2 => :0
         HSETEX h KEEPTTL KEEPTTL FXX FXX XX XX FIELDS 1 a 3 => :1
         HGETEX h EX 5 EX 60 FIELDS 1 a => [3]
         HTTL h FIELDS 1 a => [:60]
         HEXPIRE h 50 FIELDS 1 a NX NX => [:0]
         HEXPIRE h 70 GT GT FIELDS 1 a => [:1]
         HGETEX h PERSIST PERSIST FIELDS 1 a => [3]
         HTTL h FIELDS 1 a => [:-1]",
    );
}

#[test]
fn fields_are_stored_and_read_together_with_their_deadlines() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("HSETEX h EX 100 FIELDS 2 a 1 b 2", Value::Integer(1)),
            ("HTTL h FIELDS 2 a b", integers(&[100, 100])),
            ("HSETEX h FNX FIELDS 2 b 3 c 4", Value::Integer(0)),
            ("HSETEX h FXX FIELDS 2 b 3 c 4", Value::Integer(0)),
            ("HSETEX h FXX KEEPTTL FIELDS 1 b 3", Value::Integer(1)),
            ("HSETEX h FNX PX 100000 FIELDS 1 c 4", Value::Integer(1)),
            ("HSETEX h NX FIELDS 1 d 4", Value::Integer(0)),
            ("HSETEX no XX FIELDS 1 d 4", Value::Integer(0)),
            ("HSETEX h XX FNX EX 9 FIELDS 1 b 4", Value::Integer(0)),
            ("HSETEX h XX FXX KEEPTTL FIELDS 1 b 3", Value::Integer(1)),
            ("HSETEX no EX 9 NX FXX FIELDS 1 d 4", Value::Integer(0)),
            ("EXISTS no", Value::Integer(0)),
            ("HSETEX new EX 9 NX FNX FIELDS 1 d 4", Value::Integer(1)),
            (
                "HSETEX new NX XX FIELDS 1 d 4",
                error("ERR Only one of XX or NX arguments can be specified"),
            ),
            ("HTTL h FIELDS 3 a b c", integers(&[100, 100, 100])),
            (
                "HGETEX h EX 50 FIELDS 2 a z",
                Value::Array(vec![bulk("1"), Value::Null]),
            ),
            ("HGETEX h PERSIST FIELDS 1 b", bulks(&["3"])),
            ("HGETEX h FIELDS 1 c", bulks(&["4"])),
            ("HTTL h FIELDS 3 a b c", integers(&[50, -1, 100])),
            ("HGETEX h PXAT 1 FIELDS 1 c", bulks(&["4"])),
            (
                "HGETDEL h FIELDS 3 a c b",
                Value::Array(vec![bulk("1"), Value::Null, bulk("3")]),
            ),
            ("HLEN h", Value::Integer(0)),
            ("HGETDEL h FIELDS 1 a", Value::Array(vec![Value::Null])),
        ],
    );
}

#[test]
fn a_field_is_gone_from_its_deadline_on_and_the_key_with_the_last() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("HSET h a 1 b 2 stays 3", Value::Integer(3)),
            ("HPEXPIRE h 40 FIELDS 2 a b", integers(&[1, 1])),
            ("HSETEX all PX 40 FIELDS 1 a 1", Value::Integer(1)),
        ],
    );
    daemon.advance(Duration::from_millis(39));
    assert_eq!(client.run("HGET h a"), bulk("1"));
    daemon.advance(Duration::from_millis(1));
    assert_eq!(client.run("HGET h a"), Value::Null);
    check(
        &mut client,
        &[
            ("HGETALL h", bulks(&["stays", "3"])),
            ("HLEN h", Value::Integer(1)),
            ("HKEYS h", bulks(&["stays"])),
            ("HEXISTS h b", Value::Integer(0)),
            ("HRANDFIELD h", bulk("stays")),
            (
                "HSCAN h 0",
                Value::Array(vec![bulk("0"), bulks(&["stays", "3"])]),
            ),
            ("HTTL h FIELDS 1 b", integers(&[-2])),
            ("HINCRBY h b 1", Value::Integer(1)),
        ],
    );
    assert_eq!(client.run("HGET all a"), Value::Null);
    // A string may take the name of a key that is gone.
    assert_eq!(client.run("HLEN all"), Value::Integer(0));
    assert_eq!(client.run("SET all x NX"), ok());
}

#[test]
fn a_hash_may_be_longer_than_the_longest_value_and_a_field_may_not() {
    let daemon = Daemon::start(&["--max-value", "16KiB"]);
    let mut client = Client::connect(&daemon);
    let refused = error("ERR collection exceeds maximum allowed size (max-value)");
    let value = "x".repeat(10_000);
    for field in 0..100 {
        let stored = client.run(&format!("HSET h {field} {value}"));
        assert_eq!(stored, Value::Integer(1));
    }
    let long = "x".repeat(17_000);
    assert_eq!(client.run(&format!("HSET h long {long}")), refused);
    assert_eq!(client.run("HLEN h"), Value::Integer(100));
    assert_eq!(client.run("HSTRLEN h 77"), Value::Integer(10_000));
}

#[test]
fn the_deadline_of_the_key_is_its_own_whatever_its_fields_have() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("HSETEX h EX 50 FIELDS 2 a 1 b 2", Value::Integer(1)),
            ("TTL h", Value::Integer(-1)),
            ("PERSIST h", Value::Integer(0)),
            ("EXPIRE h 1000", Value::Integer(1)),
            ("TTL h", Value::Integer(1000)),
            ("EXPIRE h 500 NX", Value::Integer(0)),
            ("EXPIRE h 20 LT", Value::Integer(1)),
            ("HTTL h FIELDS 2 a b", integers(&[50, 50])),
            ("HPERSIST h FIELDS 1 a", integers(&[1])),
            ("TTL h", Value::Integer(20)),
            ("RENAME h other", ok()),
            ("COPY other copy", Value::Integer(1)),
            ("TTL copy", Value::Integer(20)),
            ("HTTL copy FIELDS 2 a b", integers(&[-1, 50])),
            ("PERSIST copy", Value::Integer(1)),
            ("TTL copy", Value::Integer(-1)),
            ("HTTL copy FIELDS 2 a b", integers(&[-1, 50])),
            ("MOVE copy 1", Value::Integer(1)),
            ("HLEN copy", Value::Integer(0)),
            ("HSET other c 3", Value::Integer(1)),
            ("TTL other", Value::Integer(20)),
            ("EXPIRE other 0", Value::Integer(1)),
            ("EXISTS other", Value::Integer(0)),
        ],
    );
}

#[test]
fn a_key_goes_with_its_last_field_even_if_its_own_deadline_is_later() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check(
        &mut client,
        &[
            ("HSETEX h PX 30 FIELDS 1 a 1", Value::Integer(1)),
            ("EXPIRE h 1000", Value::Integer(1)),
            ("HSETEX kept PX 30 FIELDS 1 a 1", Value::Integer(1)),
            ("HPERSIST kept FIELDS 1 a", integers(&[1])),
        ],
    );
    daemon.advance(Duration::from_millis(30));
    assert_eq!(client.run("EXISTS h"), Value::Integer(0));
    check(
        &mut client,
        &[
            ("TYPE h", Value::Simple("none".to_owned())),
            ("TTL h", Value::Integer(-2)),
            ("HGET kept a", bulk("1")),
        ],
    );
}

#[test]
fn kinds_and_encodings_have_the_names_that_redis_gives_them() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let long = "x".repeat(65);
    for (command, kind, encoding) in [
        ("HSET k a 1".to_owned(), "hash", "listpack"),
        (format!("HSET k a {long}"), "hash", "hashtable"),
        ("SADD k 1 2 -3".to_owned(), "set", "intset"),
        ("SADD k 1 a".to_owned(), "set", "listpack"),
        (format!("SADD k 1 {long}"), "set", "hashtable"),
        ("ZADD k 1 a".to_owned(), "zset", "listpack"),
        (format!("ZADD k 1 {long}"), "zset", "skiplist"),
        ("SET k 12".to_owned(), "string", "int"),
        ("SET k 012".to_owned(), "string", "embstr"),
        (format!("SET k {long}"), "string", "raw"),
    ] {
        client.run("DEL k");
        client.run(&command);
        assert_eq!(
            client.run("TYPE k"),
            Value::Simple(kind.to_owned()),
            "{command}"
        );
        assert_eq!(client.run("OBJECT ENCODING k"), bulk(encoding), "{command}");
    }
}

#[test]
fn encodings_follow_the_bounds_that_are_set() {
    let daemon = Daemon::start(&["--enable-debug-commands"]);
    let mut client = Client::connect(&daemon);
    client.run("HSET h a 1 b 2");
    client.run("SADD s 1 2");
    client.run("SADD words a bb");
    client.run("ZADD z 1 a 2 bb");
    client.check(
        "CONFIG SET hash-max-listpack-entries 1 set-max-intset-entries 1 => +OK
        CONFIG SET zset-max-ziplist-value 1 set-max-listpack-value 1 => +OK
        OBJECT ENCODING h => hashtable
        OBJECT ENCODING s => listpack
        OBJECT ENCODING words => hashtable
        OBJECT ENCODING z => skiplist
        CONFIG SET zset-max-listpack-value 2 => +OK
        OBJECT ENCODING z => listpack
        CONFIG GET zset-max-ziplist-value => [zset-max-ziplist-value, 2]",
    );
    let told = client.run("DEBUG OBJECT h").shown();
    assert!(told.contains(" encoding:hashtable "), "{told}");
}

#[test]
fn changes_of_collections_are_told_by_name() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "AKE"]);
    let mut listener = Client::connect(&daemon);
    listener.run("PSUBSCRIBE __keyevent@0__:*");
    let mut client = Client::connect(&daemon);
    for (command, events) in [
        ("HSET h a 1 b 2", "hset"),
        ("HEXPIRE h 100 FIELDS 1 a", "hexpire"),
        ("HPERSIST h FIELDS 1 a", "hpersist"),
        ("HDEL h a nobody", "hdel"),
        ("HGETDEL h FIELDS 1 b", "hdel del"),
        ("HSETEX h EX 100 FIELDS 1 a 1", "hset hexpire"),
        ("HSETEX h FNX FIELDS 1 a 1", ""),
        ("HSETEX h EX 0 FIELDS 1 b 1", "hset hdel"),
        ("HSETEX h PXAT 1 FIELDS 1 a 1", "hset hdel del"),
        ("HSETEX h EX 0 FIELDS 1 a 1", "hset hdel del"),
        ("SADD s a b", "sadd"),
        ("SADD s a", ""),
        ("SMOVE s t a", "srem sadd"),
        ("SPOP s", "spop del"),
        ("SUNIONSTORE u t", "sunionstore"),
        ("SDIFFSTORE u t t", "del"),
        ("ZADD z 1 a", "zadd"),
        ("ZADD z 1 a", ""),
        ("ZINCRBY z 1 a", "zincr"),
        ("ZPOPMIN z", "zpopmin del"),
    ] {
        client.run(command);
        for event in events.split_whitespace() {
            let Value::Array(message) = listener.read() else {
                panic!("a message is an array");
            };
            let channel = format!("__keyevent@0__:{event}");
            assert_eq!(message[2], bulk(&channel), "{command}");
        }
    }
}

/// Reads so many messages of events that name fields: their channels, without prefix and database,
/// and what they say.
fn subkeys(listener: &mut Client, count: usize) -> String {
    let mut told = Vec::new();
    for _ in 0..count {
        let Value::Array(parts) = listener.read() else {
            panic!("no message");
        };
        let channel = parts[2].shown();
        let channel = channel.strip_prefix("__subkey").unwrap();
        told.push(format!(
            "{} {}",
            channel.replace("@0__", ""),
            parts[3].shown()
        ));
    }
    told.join("\n")
}

#[test]
fn events_name_the_fields_that_they_are_about() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "STIVh"]);
    let (mut listener, mut client) = (Client::connect(&daemon), Client::connect(&daemon));
    listener.run("PSUBSCRIBE __*");
    client.run("HSET h a 1 bc 2");
    assert_eq!(
        subkeys(&mut listener, 5),
        "space:h hset|1:a,2:bc\nevent:hset 1:h|1:a,2:bc\nspaceitem:h\na hset\n\
         spaceitem:h\nbc hset\nspaceevent:hset|h 1:a,2:bc"
    );
    client.run("CONFIG SET notify-keyspace-events hS");
    let mut told = |request: &str, expected: &str| {
        client.run(request);
        let lines: Vec<&str> = expected.split(' ').collect();
        let expected: Vec<String> = lines.iter().map(|line| format!("space:h {line}")).collect();
        assert_eq!(
            subkeys(&mut listener, lines.len()),
            expected.join("\n"),
            "{request}"
        );
    };
    told("HSETNX h c 3", "hset|1:c");
    told("HINCRBY h c 3", "hincrby|1:c");
    told("HINCRBYFLOAT h c 0.5", "hincrbyfloat|1:c");
    told("HDEL h no c c", "hdel|1:c");
    told("HEXPIRE h 100 FIELDS 3 a no bc", "hexpire|1:a,2:bc");
    told("HPERSIST h FIELDS 3 a no a", "hpersist|1:a");
    told(
        "HSETEX h EX 100 FIELDS 2 d 1 e 2",
        "hset|1:d,1:e hexpire|1:d,1:e",
    );
    told("HGETEX h EX 50 FIELDS 2 d no", "hexpire|1:d");
    told("HGETEX h PERSIST FIELDS 2 a d", "hpersist|1:d");
    told("HEXPIREAT h 1 FIELDS 2 d no", "hdel|1:d");
    told("HGETEX h EXAT 1 FIELDS 1 e", "hdel|1:e");
    told("HGETDEL h FIELDS 3 a no a", "hdel|1:a");
    told("HSET h x 1 y 2 z 3", "hset|1:x,1:y,1:z");
    told("HPEXPIRE h 100 FIELDS 3 x y z", "hexpire|1:x,1:y,1:z");
    daemon.advance(Duration::from_millis(100));
    let expired = subkeys(&mut listener, 1);
    let mut names: Vec<&str> = expired
        .strip_prefix("space:h hexpired|")
        .unwrap()
        .split(',')
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["1:x", "1:y", "1:z"]);
    client.run("HPEXPIRE h 100 FIELDS 1 bc");
    assert_eq!(subkeys(&mut listener, 1), "space:h hexpire|2:bc");
    daemon.advance(Duration::from_millis(100));
    assert_eq!(subkeys(&mut listener, 1), "space:h hexpired|2:bc");
}

#[test]
fn fields_that_expire_are_counted_and_told_by_name() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "AKE"]);
    let (mut listener, mut client) = (Client::connect(&daemon), Client::connect(&daemon));
    listener.run("PSUBSCRIBE __keyevent@0__:*");
    let mut told = |events: &str| {
        for event in events.split_whitespace() {
            let channel = format!("__keyevent@0__:{event}");
            let expected = bulks(&["pmessage", "__keyevent@0__:*", &channel, "h"]);
            assert_eq!(listener.read(), expected);
        }
    };
    let expired = |client: &mut Client| {
        let info = client.run("INFO stats").shown();
        let (_, rest) = info.split_once("expired_fields:").unwrap();
        rest.lines().next().unwrap().trim().parse::<u64>().unwrap()
    };
    client.run("HSET h a 1 b 2 c 3");
    told("hset");
    client.run("HPEXPIRE h 100 FIELDS 2 a b");
    told("hexpire");
    daemon.advance(Duration::from_millis(100));
    told("hexpired");
    assert_eq!(expired(&mut client), 2);
    client.run("HPEXPIRE h 100 FIELDS 1 c");
    told("hexpire");
    daemon.advance(Duration::from_millis(100));
    told("hexpired del");
    assert_eq!(expired(&mut client), 3);
    // The key's own deadline comes first.
    client.run("HSETEX h PX 200 FIELDS 1 a 1");
    told("hset hexpire");
    client.run("PEXPIRE h 100");
    told("expire");
    daemon.advance(Duration::from_millis(100));
    told("expired");
    assert_eq!(expired(&mut client), 3);
}
