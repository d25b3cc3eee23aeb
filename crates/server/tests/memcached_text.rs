//! memcached's text protocol beside the others: listings, numbers and limits that they share.

use crate::support::{daemon, http, resp};

use std::io::{BufRead, BufReader, Write};

use daemon::{Daemon, check, set};
use resp::{Client, Value};

/// The lines of an answer up to `END`.
fn lines(daemon: &Daemon, request: &str) -> Vec<String> {
    let mut stream = BufReader::new(daemon.connect());
    let request = format!("{request}\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let lines = stream.lines().map(Result::unwrap);
    lines.take_while(|line| line != "END").collect()
}

#[test]
fn cachedump_lists_all_that_get_finds_and_nothing_else() {
    const KEYS: usize = 5_000;
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    for number in 0..KEYS {
        // Each line has some 60 bytes, so that all have several times 64 KiB.
        check(
            &mut stream,
            &set(&format!("job:{number:040}"), b"value"),
            b"STORED\r\n",
        );
    }
    let mut client = Client::connect(&daemon);
    client.check(
        "HSET hash a 1 => :1
        RPUSH list a => :1
        SELECT 1 => +OK
        SET elsewhere a => +OK",
    );
    let mut listed = lines(&daemon, "stats cachedump 1 0");
    listed.sort_unstable();
    let expected = (0..KEYS).map(|number| format!("ITEM job:{number:040} [5 b; 0 s]"));
    assert!(listed.iter().eq(expected.collect::<Vec<_>>().iter()));
    assert_eq!(lines(&daemon, "stats cachedump 1 3000").len(), 3_000);
    assert_eq!(lines(&daemon, "stats cachedump 2 0"), [""; 0]);
    // What is sent behind it is answered behind it.
    stream
        .write_all(b"stats cachedump 1 1\r\nget none\r\n")
        .unwrap();
    let answer = BufReader::new(stream).lines().map(Result::unwrap);
    let answer: Vec<String> = answer.take(3).collect();
    assert!(answer[0].starts_with("ITEM job:"), "{answer:?}");
    assert_eq!(answer[1..], ["END", "END"]);
}

#[test]
fn a_number_that_decr_has_padded_is_a_number_to_all_protocols() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let mut client = Client::connect(&daemon);
    let mut pad = |key: &str| {
        check(&mut stream, &set(key, b"10"), b"STORED\r\n");
        check(
            &mut stream,
            format!("decr {key} 1\r\n").as_bytes(),
            b"9\r\n",
        );
    };
    for (key, request, answer) in [
        ("a", "INCR a", ":10"),
        ("b", "DECRBY b 2", ":7"),
        ("c", "INCRBYFLOAT c 0.5", "9.5"),
        ("d", "INCREX d", "[:10, :1]"),
    ] {
        pad(key);
        assert_eq!(client.run(&format!("GET {key}")), resp::bulk("9 "));
        assert_eq!(client.run(request).shown(), answer, "{request}");
    }
    pad("e");
    let answer = http::Http::to(&daemon).ask("POST /v1/cache/e/incr", &[], b"");
    assert_eq!(answer.text(), "{\"value\":10}\n");
    // Blanks that decr cannot have left are as wrong as ever.
    for text in [&b" 9"[..], b"- ", b" ", b"-9 "] {
        client.call(&[b"SET", b"f", text]);
        let refused = client.run("INCR f");
        assert!(matches!(refused, Value::Error(_)), "{text:?}: {refused:?}");
    }
}

#[test]
fn cache_memlimit_changes_the_memory_as_far_as_it_may() {
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let mut stream = daemon.connect();
    let mut client = Client::connect(&daemon);
    check(&mut stream, b"cache_memlimit 32\r\n", b"OK\r\n");
    client.check("CONFIG GET maxmemory => [maxmemory, 33554432]");
    for mib in ["128", "8"] {
        check(
            &mut stream,
            format!("cache_memlimit {mib}\r\n").as_bytes(),
            b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
        );
    }
    check(
        &mut stream,
        b"cache_memlimit 64 noreply\r\nmn\r\n",
        b"MN\r\n",
    );
    client.check("CONFIG GET maxmemory => [maxmemory, 67108864]");
}
