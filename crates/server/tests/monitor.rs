//! Monitor: what clients that monitor are shown, in which order, and what not.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, bulk, error, ok};

/// The next line: the time cut off, the client's address too.
fn next(monitor: &mut Client) -> String {
    let Value::Simple(line) = monitor.read() else {
        panic!("a line is a status");
    };
    let (time, rest) = line.split_once(" [").unwrap();
    let (seconds, us) = time.split_once('.').unwrap();
    assert!(seconds.len() == 10 && us.len() == 6, "{line}");
    let (origin, shown) = rest.split_once("] ").unwrap();
    let (database, peer) = origin.split_once(' ').unwrap();
    assert!(peer == "lua" || peer.starts_with("127.0.0.1:"), "{line}");
    let peer = if peer == "lua" { "lua" } else { "client" };
    format!("{database} {peer} {shown}")
}

#[test]
fn commands_are_shown_as_they_run_without_secrets() {
    let daemon = Daemon::start(&["--threads", "1", "--password", "secret"]);
    let mut monitor = Client::connect(&daemon);
    monitor.run("AUTH secret");
    assert_eq!(monitor.run("MONITOR"), ok());
    let mut client = Client::connect(&daemon);
    client.run("AUTH secret");
    client.run("HELLO 2 AUTH default secret");
    client.run("CONFIG SET slowlog-max-len 10");
    client.call(&[b"SET", b"a", b"\r\n\"b\""]);
    client.run("GET a");
    client.call(&[b"get", b"a"]);
    client.call(&[b"Set", b"a", b"\r\n\"b\""]);
    client.run("Mget a none");
    client.run("GET");
    client.run("NOSUCH");
    client.run("LPUSH a b");
    client.run("SELECT 3");
    client.call(&[b"EVAL", b"return redis.call('get', KEYS[1])", b"1", b"a"]);
    for request in ["MULTI", "SET x 1", "EXEC", "RESET", "AUTH secret"] {
        client.run(request);
    }
    client.call(&[b"SET", b"long", &vec![b'v'; 1 << 20]]);
    client.run("PING");
    for expected in [
        r#"0 client "AUTH" "(redacted)""#,
        r#"0 client "HELLO" "2" "AUTH" "(redacted)" "(redacted)""#,
        r#"0 client "SET" "a" "\r\n\"b\"""#,
        r#"0 client "GET" "a""#,
        r#"0 client "get" "a""#,
        r#"0 client "Set" "a" "\r\n\"b\"""#,
        r#"0 client "Mget" "a" "none""#,
        r#"0 client "LPUSH" "a" "b""#,
        r#"3 client "SELECT" "3""#,
        r#"3 client "EVAL" "return redis.call('get', KEYS[1])" "1" "a""#,
        r#"3 lua "get" "a""#,
        r#"3 client "MULTI""#,
        r#"3 client "SET" "x" "1""#,
        r#"3 client "EXEC""#,
        r#"0 client "RESET""#,
        r#"0 client "AUTH" "(redacted)""#,
        r#"0 client "SET" "long" "...""#,
        r#"0 client "PING""#,
    ] {
        assert_eq!(next(&mut monitor), expected);
    }
    let flags = client.run("CLIENT LIST").shown();
    assert!(flags.contains(" flags=O "), "{flags}");
    // Its own commands come behind their answers.
    assert_eq!(monitor.run("GET nothing"), Value::Null);
    assert_eq!(next(&mut monitor), r#"0 client "GET" "nothing""#);
    assert_eq!(monitor.run("RESET").shown(), "+RESET");
    client.run("GET a");
    monitor.run("AUTH secret");
    assert_eq!(monitor.run("GET nothing"), Value::Null);
}

#[test]
fn all_loops_are_watched_and_nobody_misses_a_command() {
    let daemon = Daemon::start(&["--threads", "3"]);
    let mut monitors: Vec<Client> = (0..4).map(|_| Client::connect(&daemon)).collect();
    for monitor in &mut monitors {
        assert_eq!(monitor.run("MONITOR"), ok());
    }
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(&daemon)).collect();
    for client in &mut clients {
        client.send_raw(&b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(300));
    }
    for client in &mut clients {
        (0..300).for_each(|_| assert_eq!(client.read(), Value::Null));
    }
    for monitor in &mut monitors {
        for _ in 0..1_800 {
            assert_eq!(next(monitor), r#"0 client "GET" "a""#);
        }
    }
}

#[test]
fn a_monitor_that_does_not_read_loses_its_connection() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut monitor = Client::connect(&daemon);
    assert_eq!(monitor.run("MONITOR"), ok());
    let mut client = Client::connect(&daemon);
    let key = vec![b'k'; 1_000];
    let many = daemon::frame(&[b"GET", &key]).repeat(500);
    let mut rounds = 0;
    while client
        .run("INFO stats")
        .shown()
        .contains("evicted_clients:0\r")
    {
        client.send_raw(&many);
        (0..500).for_each(|_| drop(client.read()));
        rounds += 1;
        assert!(rounds < 200, "it holds {rounds} rounds of half a megabyte");
    }
    assert!(!client.run("CLIENT LIST").shown().contains(" flags=O "));
}

#[test]
fn a_transaction_does_not_begin_to_monitor() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("MULTI");
    client.run("MONITOR");
    let refused = error("ERR MONITOR isn't allowed for DENY BLOCKING client");
    assert_eq!(client.run("EXEC"), Value::Array(vec![refused]));
    client.run("SET a b");
    assert_eq!(client.run("GET a"), bulk("b"));
}
