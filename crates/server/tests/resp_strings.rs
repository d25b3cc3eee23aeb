//! Strings and bits over RESP: what commands answer and what they leave behind.

use crate::support::{daemon, resp};

use daemon::{Daemon, pattern};
use resp::{Client, Value, check_alone as check, ok};

#[test]
fn set_stores_when_its_conditions_hold() {
    check(
        "SET a 1 NX => +OK
        SET a 2 NX => nil
        SET a 2 NX GET => 1
        SET a 3 XX GET => 1
        SET a 4 IFEQ 3 => +OK
        SET a 5 IFEQ 3 => nil
        SET a 5 IFEQ 3 GET => 4
        SET a 5 IFNE 3 => +OK
        SET a 6 IFNE 5 => nil
        SET none 1 IFEQ 1 => nil
        SET none 1 IFNE 1 => +OK
        SET d Hello => +OK
        SET d x IFDEQ 0000000000000000 => nil
        SET d x IFDEQ 1 => -ERR must be exactly 16 hexadecimal characters
        SET d x IFDEQ +00000000000000a => nil
        SET none2 x IFDEQ 0000000000000000 => nil
        SET none2 x IFDNE 0000000000000000 => +OK
        SET a 6 NX XX => -ERR syntax error
        SET a 6 NX IFEQ 5 => -ERR syntax error
        SET a 6 CAS 1 GET => -ERR syntax error
        SET a 6 LATE => -ERR syntax error
        SET a 6 EX 0 BAD => -ERR syntax error
        SET a 6 EX 0 => -ERR invalid expire time in 'set' command
        SET a 6 PX 9223372036854775807 => -ERR invalid expire time in 'set' command
        GET a => 5",
    );
}

#[test]
fn a_store_clears_the_deadline_unless_it_is_to_be_kept() {
    check(
        "SET a 1 EX 100 => +OK
        SET a 2 KEEPTTL => +OK
        TTL a => :100
        APPEND a 3 => :2
        INCR a => :24
        INCRBYFLOAT a 0.5 => 24.5
        SETRANGE a 0 3 => :4
        SETBIT a 7 1 => :1
        TTL a => :100
        GETSET a 4 => 34.5
        TTL a => :-1
        SETEX a 100 5 => +OK
        TTL a => :100
        PSETEX a 50000 5 => +OK
        TTL a => :50
        SET a 6 => +OK
        TTL a => :-1
        SETEX a 0 5 => -ERR invalid expire time in 'setex' command
        PSETEX a -1 5 => -ERR invalid expire time in 'psetex' command",
    );
}

#[test]
fn what_is_read_can_be_removed_or_retimed_in_the_same_step() {
    check(
        "SET a 1 => +OK
        GETEX a EX 100 => 1
        TTL a => :100
        GETEX a => 1
        TTL a => :100
        GETEX a PERSIST => 1
        TTL a => :-1
        GETEX a EX 0 => -ERR invalid expire time in 'getex' command
        GETEX none EX 0 => nil
        GETEX a EX 10 PERSIST => -ERR syntax error
        GETEX a PERSIST EX 10 => -ERR syntax error
        GETEX a EX 10 PX 10 => -ERR syntax error
        GETEX a EX 10 EX => -ERR syntax error
        GETEX a EX 10 ex 200 => 1
        TTL a => :200
        GETEX a PERSIST persist => 1
        TTL a => :-1
        GETEX a PXAT 1 => 1
        EXISTS a => :0
        SET a 2 => +OK
        GETDEL a => 2
        GETDEL a => nil
        SET a 3 => +OK
        DELIFEQ a 2 => :0
        DELIFEQ a 3 => :1
        DELIFEQ a 3 => :0
        SET a 3 => +OK
        DELEX a IFEQ 4 => :0
        DELEX a IFNE 3 => :0
        DELEX a IFNE 4 => :1
        SET a 3 => +OK
        DELEX a CAS 1 => -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
        DELEX a IFDEQ 0000000000000000 => :0
        DELEX a IFDNE 0000000000000000 => :1
        SET a 3 => +OK
        DELEX a FOO 3 => -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
        DELEX a FOO => -ERR wrong number of arguments for 'delex' command
        DELEX a IFEQ 3 4 => -ERR wrong number of arguments for 'delex' command
        DELEX a IFDEQ 1 => -ERR must be exactly 16 hexadecimal characters
        DELEX a IFDEQ zzzzzzzzzzzzzzzz => :0
        DELEX none FOO 3 => :0
        RPUSH l 1 => :1
        DELEX l FOO 1 => -ERR Key should be of string type if conditions are specified
        DELEX l => :1
        DELEX a IFEQ 3 => :1
        SET a 3 => +OK
        DELEX a => :1
        DELEX a => :0",
    );
}

#[test]
fn many_strings_are_stored_together_or_not_at_all() {
    check(
        "MSET a 1 b 2 => +OK
        MGET a none b a => [1, nil, 2, 1]
        MSET a => -ERR wrong number of arguments for 'mset' command
        MSET a 1 b => -ERR wrong number of arguments for 'mset' command
        MSETNX b 3 c 3 => :0
        EXISTS c => :0
        MSETNX c 3 d 4 => :1
        MSETEX 2 a 5 e 5 NX => :0
        MSETEX 2 a 5 e 5 XX => :0
        MSETEX 2 a 5 b 5 XX EX 100 => :1
        TTL b => :100
        MSETEX 2 a 6 b 6 KEEPTTL => :1
        TTL a => :100
        MSETEX 1 a 6 => :1
        TTL a => :-1
        MGET a b c d e => [6, 6, 3, 4, nil]
        MSETEX 3 a 6 b 6 => -ERR wrong number of key-value pairs
        MSETEX 0 a 6 => -ERR invalid numkeys value
        MSETEX 1 a 6 IFEQ 6 => -ERR syntax error
        MSETEX 1 a 6 EX 0 => -ERR invalid expire time in 'msetex' command",
    );
}

#[test]
fn a_long_mget_is_answered_whole_and_in_order() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut expected = Vec::new();
    let mut words = b"MGET".to_vec();
    for index in 0..300_usize {
        let key = format!("key{index}");
        let value = pattern(index as u64, index * 97 % 40_000);
        let set: [&[u8]; 3] = [b"SET", key.as_bytes(), &value];
        assert_eq!(client.call(&set), ok());
        expected.push(Value::Bulk(value));
        expected.push(Value::Null);
        words.extend_from_slice(format!(" {key} none{index}").as_bytes());
    }
    let words = String::from_utf8(words).unwrap();
    let expected = Value::Array(expected);
    assert_eq!(client.run(&words), expected);
    assert_eq!(client.run("MULTI"), ok());
    client.run(&words);
    client.run("PING");
    let pong = Value::Simple("PONG".to_owned());
    assert_eq!(client.run("EXEC"), Value::Array(vec![expected, pong]));
}

#[test]
fn nobody_sees_a_part_of_what_mset_stores() {
    let daemon = Daemon::start(&["--threads", "2"]);
    let keys: Vec<String> = (0..16).map(|index| format!("key{index}")).collect();
    let mset = |value: usize| {
        let pairs: Vec<String> = keys.iter().map(|key| format!("{key} {value}")).collect();
        format!("MSET {}", pairs.join(" "))
    };
    let mget = format!("MGET {}", keys.join(" "));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (mut client, mset) = (Client::connect(&daemon), &mset);
            scope.spawn(move || {
                for turn in 0..300 {
                    assert_eq!(client.run(&mset(2 * turn + writer)), ok());
                }
            });
        }
        for _ in 0..2 {
            let (mut client, mget) = (Client::connect(&daemon), &mget);
            scope.spawn(move || {
                for _ in 0..300 {
                    let Value::Array(values) = client.run(mget) else {
                        panic!("no array");
                    };
                    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
                }
            });
        }
    });
}

#[test]
fn parts_of_a_string_are_read_and_overwritten() {
    check(
        "APPEND a hello => :5
        APPEND a _world => :11
        STRLEN a => :11
        STRLEN none => :0
        GETRANGE a 1 3 => ell
        SUBSTR a -3 -1 => rld
        SETRANGE a 6 W => :11
        GET a => hello_World
        SETRANGE none 0  => :0
        EXISTS none => :0
        SETRANGE a -1 x => -ERR offset is out of range
        SETRANGE a x x => -ERR value is not an integer or out of range
        SETRANGE new 3 x => :4
        GETRANGE new 3 9 => x
        LCS a none LEN => :0
        SET b hallo_Welt => +OK
        LCS a b => hllo_Wl
        LCS a b IDX MINMATCHLEN 3 WITHMATCHLEN => [matches, [[[:2, :6], [:2, :6], :5]], len, :7]",
    );
}

#[test]
fn no_command_makes_a_value_longer_than_the_limit() {
    let daemon = Daemon::start(&["--max-value", "1000"]);
    let mut client = Client::connect(&daemon);
    let append: [&[u8]; 3] = [b"APPEND", b"a", &[b'x'; 1000]];
    assert_eq!(client.call(&append), Value::Integer(1000));
    client.check(
        "APPEND a x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETRANGE a 1000 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETRANGE b 9223372036854775807 x => -ERR string exceeds maximum allowed size \
         (proto-max-bulk-len)
        SETBIT b 8000 1 => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETBIT b 7999 1 => :0
        GETBIT b 8000 => :0
        GETBIT b 7999 => :1
        GETBIT b 4294967296 => -ERR bit offset is not an integer or out of range
        STRLEN a => :1000
        STRLEN b => :1000",
    );
    let mset: [&[u8]; 5] = [b"MSET", b"c", b"1", b"d", &[b'x'; 1001]];
    let refused = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(client.call(&mset), Value::Error(refused.to_owned()));
    assert_eq!(client.run("EXISTS c d"), Value::Integer(0));
}

#[test]
fn numbers_count_within_64_bits() {
    check(
        "INCR a => :1
        INCRBY a 41 => :42
        DECR a => :41
        DECRBY a 50 => :-9
        DECRBY a -9223372036854775808 => -ERR decrement would overflow
        INCRBY a 9223372036854775807 => :9223372036854775798
        INCRBY a 10 => -ERR increment or decrement would overflow
        INCRBY a x => -ERR value is not an integer or out of range
        SET a 01 => +OK
        INCR a => -ERR value is not an integer or out of range
        SET a 10.50 => +OK
        INCRBYFLOAT a 0.1 => 10.6
        INCRBYFLOAT a -5 => 5.6
        INCRBYFLOAT a x => -ERR value is not a valid float
        INCRBYFLOAT a inf => -ERR increment would produce NaN or Infinity
        GET a => 5.6",
    );
}

#[test]
fn increx_counts_within_bounds_and_sets_a_deadline_in_the_same_step() {
    check(
        "INCREX a => [:1, :1]
        INCREX a BYINT 5 UBOUND 10 => [:6, :5]
        INCREX a BYINT 5 UBOUND 10 EX 100 => [:6, :0]
        TTL a => :-1
        INCREX a BYINT 5 UBOUND 10 SATURATE EX 100 => [:10, :4]
        TTL a => :100
        INCREX a BYINT -50 LBOUND 2 SATURATE => [:2, :-8]
        TTL a => :100
        INCREX a EX 50 ENX => [:3, :1]
        TTL a => :100
        INCREX a PERSIST => [:4, :1]
        TTL a => :-1
        INCREX a EX 50 ENX => [:5, :1]
        TTL a => :50
        INCREX a BYINT 9223372036854775807 => [:5, :0]
        INCREX a BYINT 9223372036854775807 SATURATE => [:9223372036854775807, :9223372036854775802]
        INCREX none BYINT 5 UBOUND 4 => [:0, :0]
        EXISTS none => :0
        INCREX none XX => [nil, :0]
        INCREX a NX => [:9223372036854775807, :0]
        INCREX f BYFLOAT 2.5 => [2.5, 2.5]
        INCREX f BYFLOAT 1 UBOUND 3 => [2.5, 0]
        INCREX f BYFLOAT 1 UBOUND 3 SATURATE => [3, 0.5]
        INCREX a LBOUND 2 UBOUND 1 => -ERR LBOUND can't be greater than UBOUND
        INCREX a ENX => -ERR ENX flag requires an expiration
        INCREX a PERSIST EX 5 => -ERR syntax error
        INCREX a BYINT => -ERR syntax error
        INCREX a BYINT 1 BYINT 1 => -ERR syntax error
        INCREX a BYINT 1.5 => -ERR value is not an integer or out of range
        INCREX a BYFLOAT inf => -ERR value is not a valid float
        INCREX a EX 0 => -ERR invalid expire time in 'increx' command",
    );
}

#[test]
fn bits_count_from_the_highest_of_the_first_byte() {
    check(
        "SETBIT a 1 1 => :0
        SETBIT a 7 1 => :0
        GET a => A
        SETBIT a 7 0 => :1
        GET a => @
        GETBIT a 1 => :1
        GETBIT a 9 => :0
        GETBIT none 9 => :0
        SETBIT a 1 2 => -ERR bit is not an integer or out of range
        SETBIT a -1 1 => -ERR bit offset is not an integer or out of range",
    );
}

#[test]
fn set_with_get_takes_a_large_value_too() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let (one, other) = (pattern(1, 300_000), pattern(2, 400_000));
    let set = |client: &mut Client, value: &[u8], options: &[&[u8]]| {
        let mut args: Vec<&[u8]> = vec![b"SET", b"a", value];
        args.extend(options);
        client.call(&args)
    };
    assert_eq!(set(&mut client, &one, &[b"XX", b"GET"]), Value::Null);
    assert_eq!(client.run("EXISTS a"), Value::Integer(0));
    assert_eq!(
        set(&mut client, &one, &[b"GET", b"EX", b"100"]),
        Value::Null
    );
    let first = Value::Bulk(one.clone());
    assert_eq!(set(&mut client, &other, &[b"NX", b"GET"]), first);
    assert_eq!(set(&mut client, &other, &[b"GET", b"KEEPTTL"]), first);
    assert_eq!(client.run("TTL a"), Value::Integer(100));
    assert_eq!(client.run("GET a"), Value::Bulk(other.clone()));
    assert_eq!(set(&mut client, &one, &[b"IFEQ", &other]), ok());
    assert_eq!(client.run("TTL a"), Value::Integer(-1));
    let refused = Value::Error("ERR syntax error".to_owned());
    assert_eq!(set(&mut client, &one, &[b"CAS", b"1", b"GET"]), refused);
    assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
}

#[test]
fn only_a_string_is_read_and_changed_as_one() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(client.run("HSET h field value"), Value::Integer(1));
    for words in [
        "GET h",
        "GETSET h v",
        "GETDEL h",
        "GETEX h",
        "SET h v GET",
        "SET h v NX GET",
        "SET h v IFEQ v",
        "DELIFEQ h v",
        "SETRANGE h 0 x",
        "SETRANGE h 0 ",
        "GETRANGE h 0 1",
        "APPEND h x",
        "STRLEN h",
        "INCR h",
        "INCRBYFLOAT h 1",
        "INCREX h",
        "GETBIT h 0",
        "SETBIT h 0 1",
        "GETLEASE h",
        "GETLEASE h LEASE 1000",
        "INVALIDATE h",
    ] {
        assert_eq!(client.run(words), Value::Error(wrong.to_owned()), "{words}");
    }
    client.check(
        "LCS h h => -ERR The specified keys must contain string values
        MGET h => [nil]
        SETNX h v => :0
        MSETNX h v g v => :0
        HGET h field => value
        EXPIRE h 100 => :1
        SET h v KEEPTTL => +OK
        TTL h => :100
        GET h => v
        HSET g field value => :1
        SETEX g 100 v => +OK
        TYPE g => +string
        HSET f field value => :1
        MSET f v => +OK
        GET f => v
        HSET e field value => :1
        DELEX e => :1",
    );
}

#[test]
fn a_large_value_replaces_a_hash_too() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let value = pattern(9, 100_000);
    assert_eq!(client.run("HSET h field value"), Value::Integer(1));
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let refused = Value::Error(wrong.to_owned());
    assert_eq!(client.call(&[b"SET", b"h", &value, b"GET"]), refused);
    assert_eq!(client.run("HGET h field").shown(), "value");
    assert_eq!(client.call(&[b"SET", b"h", &value]), ok());
    assert_eq!(client.run("GET h"), Value::Bulk(value));
}

#[test]
fn a_large_value_in_a_reply_that_is_not_wanted_is_left_out() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let value = pattern(4, 100_000);
    assert_eq!(client.call(&[b"SET", b"a", &value]), ok());
    for words in ["GET a", "MGET a a a a a a a a", "GETLEASE a", "GETEX a"] {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        client.send(&[b"CLIENT", b"REPLY", b"OFF"]);
        client.send(&words);
        assert_eq!(client.run("CLIENT REPLY ON"), ok());
        client.send(&[b"CLIENT", b"REPLY", b"SKIP"]);
        client.send(&words);
        assert_eq!(client.run("GET a"), Value::Bulk(value.clone()));
    }
}

#[test]
fn a_digest_is_that_of_redis_and_stands_for_the_value() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.call(&[b"SET", b"a", b"Hello world"]), ok());
    // From the page of the command.
    client.check(
        "DIGEST a => b6acb9d84a38ff74
        DIGEST none => nil
        HSET h f v => :1
        DIGEST h => -WRONGTYPE Operation against a key holding the wrong kind of value
        DELEX h IFDEQ b6acb9d84a38ff74 => \
         -ERR Key should be of string type if conditions are specified
        SET a b IFDNE b6acb9d84a38ff74 => nil
        SET a b IFDEQ B6ACB9D84A38FF74 => +OK
        GET a => b",
    );
}

#[test]
fn a_read_of_several_keys_counts_each_of_them_once() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    // The reads of missing keys and of long values take a lock.
    let long = vec![b'x'; 10_000];
    let names: Vec<String> = (0..40).map(|number| format!("key:{number}")).collect();
    for name in &names[..20] {
        client.send(&[b"SET", name.as_bytes(), &long]);
        assert_eq!(client.read(), ok());
    }
    let head = |name| format!("VALUE {name} 0 {}\r\n", long.len()).into_bytes();
    let value = |name| [&head(name), &long[..], b"\r\n"].concat();
    let mut values: Vec<u8> = names[..20].iter().flat_map(value).collect();
    values.extend(b"END\r\n");
    for _ in 0..5 {
        client.run(&format!("MGET {}", names.join(" ")));
        let request = format!("get {}\r\n", names.join(" "));
        daemon::check(&mut daemon.connect(), request.as_bytes(), &values);
    }
    let info = client.run("INFO stats").shown();
    for count in ["keyspace_hits:200", "keyspace_misses:200"] {
        assert!(
            info.lines().any(|line| line.trim() == count),
            "{count}: {info}"
        );
    }
}
