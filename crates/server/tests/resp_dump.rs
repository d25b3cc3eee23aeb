//! DUMP and RESTORE over RESP: values as bytes, from here and from Redis, whole and broken.

use cellar_values::dump::{DumpWriter, FOOTER_BYTES, Holds, checksum, footer};

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, ok};

const BAD: &str = "-ERR Bad data format";
const BAD_SUM: &str = "-ERR DUMP payload version or checksum are wrong";

fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    match client.call(&[b"DUMP", key.as_bytes()]) {
        Value::Bulk(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

fn restore(client: &mut Client, key: &str, ttl: &str, dump: &[u8]) -> Value {
    client.call(&[b"RESTORE", key.as_bytes(), ttl.as_bytes(), dump, b"REPLACE"])
}

/// A value in some form, with a footer that is right.
fn dumped(version: u16, value: &[u8]) -> Vec<u8> {
    let mut sum = checksum();
    sum.update(value);
    [value, &footer(sum, version)].concat()
}

/// Fills keys with values of all kinds, small and large; their names.
fn fill(client: &mut Client) -> Vec<String> {
    client.check(
        "SET empty_not x => +OK
        SET number -12345 => +OK
        RPUSH list a  1 b => :4
        SADD ints 1 -2 70000 => :3
        ZADD sorted 1.5 a -inf b inf c 0 d => :4
        HSET hash f v g  => :2
        HSET timed f v g w => :2
        HPEXPIREAT timed 7000000000000 FIELDS 1 g => [:1]",
    );
    client.call(&[b"SET", b"long", &vec![b'x'; 300_000]]);
    client.call(&[b"SET", b"big", &vec![b'y'; 5 << 20]]);
    for first in (0..12_000).step_by(3_000) {
        let numbers = first..first + 3_000;
        let add = |client: &mut Client, name: &str, args: Vec<String>| {
            let words = name.split(' ').map(str::as_bytes);
            let args: Vec<&[u8]> = words.chain(args.iter().map(String::as_bytes)).collect();
            assert!(matches!(client.call(&args), Value::Integer(_)), "{name}");
        };
        let each = |word: &dyn Fn(usize) -> Vec<String>| numbers.clone().flat_map(word).collect();
        add(
            client,
            "RPUSH manylist",
            each(&|n| vec![format!("element:{n}")]),
        );
        add(
            client,
            "SADD manyset",
            each(&|n| vec![format!("member:{n}")]),
        );
        let scored = |n: usize| vec![(n * 7_919 % 501).to_string(), format!("member:{n}")];
        add(client, "ZADD manysorted", each(&scored));
        add(
            client,
            "HSET manyhash",
            each(&|n| vec![format!("field:{n}"), "v".repeat(n % 99)]),
        );
    }
    "empty_not number list ints sorted hash timed long big manylist manyset manysorted manyhash"
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// What a key holds, in an order of its own.
fn shown(client: &mut Client, key: &str) -> String {
    let kind = client.run(&format!("TYPE {key}")).shown();
    let value = match kind.as_str() {
        "+string" => client.run(&format!("GET {key}")),
        "+list" => client.run(&format!("LRANGE {key} 0 -1")),
        "+set" => client.run(&format!("SORT {key} ALPHA")),
        "+zset" => client.run(&format!("ZRANGE {key} 0 -1 WITHSCORES")),
        _ => match client.run(&format!("HGETALL {key}")) {
            Value::Array(values) => {
                let pairs = values.chunks(2).map(<[Value]>::to_vec);
                let mut pairs: Vec<Value> = pairs.map(Value::Array).collect();
                pairs.sort_by_key(Value::shown);
                Value::Array(pairs)
            }
            other => other,
        },
    };
    format!("{kind} {}", value.shown())
}

#[test]
fn what_was_dumped_is_restored() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for key in fill(&mut client) {
        let expected = shown(&mut client, &key);
        let bytes = dump(&mut client, &key);
        assert_eq!(restore(&mut client, "copy", "0", &bytes), ok(), "{key}");
        assert_eq!(shown(&mut client, "copy"), expected, "{key}");
        for (place, cut) in [
            (0, bytes.len() / 2),
            (bytes.len() / 2, 0),
            (bytes.len() - 1, 0),
        ] {
            let mut broken = bytes.clone();
            broken[place] ^= 0x10;
            broken.truncate(bytes.len() - cut);
            let answer = restore(&mut client, "copy", "0", &broken);
            assert_eq!(answer.shown(), BAD_SUM, "{key}");
        }
        assert_eq!(shown(&mut client, "copy"), expected, "{key}");
    }
    let bytes = dump(&mut client, "timed");
    assert_eq!(restore(&mut client, "copy", "0", &bytes), ok());
    client.check("HPEXPIRETIME copy FIELDS 2 f g => [:-1, :7000000000000]");
}

#[test]
fn options_say_until_when_and_over_what() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.check("SET k v => +OK");
    let bytes = dump(&mut client, "k");
    let mut run = |words: &str| {
        let words = words.split(' ').map(str::as_bytes);
        let args: Vec<&[u8]> = words
            .map(|word| if word == b"DUMP" { &bytes } else { word })
            .collect();
        client.call(&args).shown()
    };
    for (words, expected) in [
        (
            "RESTORE k 0 DUMP",
            "-BUSYKEY Target key name already exists.",
        ),
        ("RESTORE j 5000 DUMP", "+OK"),
        ("RESTORE j 7000000000000 DUMP ABSTTL REPLACE", "+OK"),
        ("PEXPIRETIME j", ":7000000000000"),
        ("RESTORE j 0 DUMP REPLACE IDLETIME 5", "+OK"),
        ("TTL j", ":-1"),
        ("RESTORE j 0 DUMP REPLACE FREQ 255", "+OK"),
        ("RESTORE j 1000 DUMP REPLACE ABSTTL", "+OK"),
        ("EXISTS j", ":0"),
        ("RESTORE j -1 DUMP", "-ERR Invalid TTL value, must be >= 0"),
        (
            "RESTORE j x DUMP",
            "-ERR value is not an integer or out of range",
        ),
        (
            "RESTORE j 0 DUMP FREQ 256",
            "-ERR Invalid FREQ value, must be >= 0 and <= 255",
        ),
        (
            "RESTORE j 0 DUMP IDLETIME -1",
            "-ERR Invalid IDLETIME value, must be >= 0",
        ),
        ("RESTORE j 0 DUMP FREQ 1 IDLETIME 1", "-ERR syntax error"),
        ("RESTORE j 0 DUMP NX", "-ERR syntax error"),
        ("RESTORE j 0 short", BAD_SUM),
        ("EXISTS j", ":0"),
    ] {
        assert_eq!(run(words), expected, "{words}");
    }
    assert_eq!(client.run("DUMP nothing"), Value::Null);
}

#[test]
fn forms_of_other_versions_are_read() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let listpack = b"\x15\0\0\0\x04\0\x83abc\x04\x05\x01\xdf\xff\x02\xf1\x00\x80\x03\xff";
    let ziplist = b"\x14\0\0\0\x0a\0\0\0\x02\0\0\x03abc\x05\x02\x31\x35\xff";
    let with = |head: &[u8], pack: &[u8]| [head, &[pack.len() as u8], pack].concat();
    for (version, value, expected) in [
        (6, b"\x00\xc0\x85".to_vec(), "+string -123"),
        (
            11,
            b"\x00\xc3\x06\x16\x01ab\xe0\x0b\x01".to_vec(),
            "+string ababababababababababab",
        ),
        (
            1,
            b"\x03\x02\x01a\x031.5\x01b\xfe".to_vec(),
            "+zset [a, 1.5, b, inf]",
        ),
        (
            10,
            with(b"\x10", listpack),
            "+hash [[-1, -32768], [abc, 5]]",
        ),
        (10, with(b"\x14", listpack), "+set [-1, -32768, 5, abc]"),
        (
            10,
            with(b"\x12\x02\x01\x02hi\x02", listpack),
            "+list [hi, abc, 5, -1, -32768]",
        ),
        (6, with(b"\x0a", ziplist), "+list [abc, 15]"),
        (6, with(b"\x0c", ziplist), "+zset [abc, 15]"),
        (6, with(b"\x0d", ziplist), "+hash [[abc, 15]]"),
        (7, with(b"\x0e\x01", ziplist), "+list [abc, 15]"),
        (
            6,
            with(b"\x0b", b"\x02\0\0\0\x02\0\0\0\xff\xff\x03\x00"),
            "+set [-1, 3]",
        ),
        (
            2,
            with(b"\x09", b"\x01\x01a\x02\x01bc?\xff"),
            "+hash [[a, bc]]",
        ),
        (80, b"\x01\x01\x01a".to_vec(), "+list [a]"),
    ] {
        let answer = restore(&mut client, "k", "0", &dumped(version, &value));
        assert_eq!(answer, ok(), "{}", value.escape_ascii());
        assert_eq!(shown(&mut client, "k"), expected);
    }
}

#[test]
fn dumps_that_contradict_themselves_are_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.check("SET k v => +OK");
    for value in [
        &b""[..],
        b"\x00",
        b"\x00\x05abc",
        b"\x00\x01ab",
        b"\x00\xc4",
        b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\xc3\x01\x81\x00\x00\x00\xff\xff\xff\xff\xff\x00",
        b"\x01\x00",
        b"\x01\x80\xff\xff\xff\xff\x01a",
        b"\x01\x01\x01a\x01b",
        b"\x02\x02\x01a\x01a",
        b"\x04\x02\x01a\x01b\x01a\x01c",
        b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x7f",
        b"\x03\x01\x01a\xfd",
        b"\x03\x01\x01a\x01x",
        b"\x06\x01",
        b"\x0f\x01",
        b"\x15\x01",
        b"\x16\x01",
        b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05\x01a\x01b",
        b"\xff",
    ] {
        let answer = restore(&mut client, "k", "0", &dumped(10, value));
        assert_eq!(answer.shown(), BAD, "{}", value.escape_ascii());
    }
    for version in [0, 14, 79, 81, u16::MAX] {
        let answer = restore(&mut client, "k", "0", &dumped(version, b"\x00\x01a"));
        assert_eq!(answer.shown(), BAD_SUM);
    }
    client.check("GET k => v");
}

/// A few random numbers, the same each time.
fn random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn no_change_of_a_dump_does_harm() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut state = 42;
    let listpack = b"\x14\x15\0\0\0\x04\0\x83abc\x04\x05\x01\xdf\xff\x02\xf1\x00\x80\x03\xff";
    let ziplist = b"\x0e\x01\x14\x14\0\0\0\x0a\0\0\0\x02\0\0\x03abc\x05\x02\x31\x35\xff";
    let mut seeds: Vec<Vec<u8>> = vec![
        b"\x00\xc3\x06\x16\x01ab\xe0\x0b\x01".to_vec(),
        [&[16, 21], &listpack[1..]].concat(),
        [&[17, 21], &listpack[1..]].concat(),
        ziplist.to_vec(),
        b"\x0b\x0c\x02\0\0\0\x02\0\0\0\xff\xff\x03\x00".to_vec(),
        b"\x09\x09\x01\x01a\x02\x01bc?\xff".to_vec(),
    ];
    for holds in [Holds::List, Holds::Set, Holds::SortedSet, Holds::Hash] {
        let mut writer = DumpWriter::of(holds, 3, None);
        for name in ["a", "bb", "ccc"] {
            writer.push(name.as_bytes(), b"value", 1.5, 0);
        }
        let dump = writer.finish();
        seeds.push(dump[..dump.len() - FOOTER_BYTES].to_vec());
    }
    for round in 0..6_000 {
        let mut value = seeds[round % seeds.len()].clone();
        for _ in 0..=random(&mut state) % 3 {
            let place = random(&mut state) % value.len();
            match random(&mut state) % 4 {
                0 => value[place] = random(&mut state) as u8,
                1 => value[place] ^= 1 << (random(&mut state) % 8),
                2 => value.insert(place, random(&mut state) as u8),
                _ => value.truncate(place.max(1)),
            }
        }
        let answer = restore(&mut client, "k", "0", &dumped(10, &value)).shown();
        let is_known = [
            BAD,
            "+OK",
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ];
        assert!(
            is_known.contains(&&*answer),
            "{answer} {}",
            value.escape_ascii()
        );
        if answer == "+OK" {
            let bytes = dump(&mut client, "k");
            assert_eq!(restore(&mut client, "k", "0", &bytes), ok());
        }
    }
}
