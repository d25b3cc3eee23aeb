//! COMMANDLOG: which commands have large requests or replies.

use crate::support::daemon::Daemon;
use crate::support::resp::{Client, Value};

/// The bytes and the first two arguments of each entry, the oldest first.
fn entries(client: &mut Client, kind: &str) -> Vec<(i64, String)> {
    let Value::Array(entries) = client.run(&format!("COMMANDLOG GET -1 {kind}")) else {
        panic!("no list");
    };
    let entry = |entry: &Value| match entry {
        Value::Array(parts) => match &parts[..] {
            [_, _, Value::Integer(bytes), Value::Array(args), _, _] => {
                let shown = args.iter().take(2).map(Value::shown);
                (*bytes, shown.collect::<Vec<_>>().join(" "))
            }
            _ => panic!("an entry has six parts"),
        },
        _ => panic!("an entry is a list"),
    };
    entries.iter().rev().map(entry).collect()
}

/// The same as they are written in a test.
fn check(client: &mut Client, kind: &str, expected: &[(i64, &str)]) {
    let found = entries(client, kind);
    let found: Vec<(i64, &str)> = found
        .iter()
        .map(|(bytes, args)| (*bytes, &**args))
        .collect();
    assert_eq!(found, expected, "{kind}");
}

#[test]
fn large_requests_and_replies_are_logged_unless_a_threshold_is_set() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let value = "v".repeat(2_000_000);
    for _ in 0..2 {
        client.run(&format!("SET big {value}"));
        client.run("GET big");
        client.run(&format!("HSET h f {value}"));
        client.run("HGET h f");
        client.run("SET small v");
        client.run("GET small");
    }
    client.run(&format!("SET big {value} EX 100"));
    check(
        &mut client,
        "large-request",
        &[
            (2_000_034, "SET big"),
            (2_000_040, "HSET h"),
            (2_000_034, "SET big"),
            (2_000_040, "HSET h"),
            (2_000_051, "SET big"),
        ],
    );
    check(
        &mut client,
        "large-reply",
        &[
            (2_000_012, "GET big"),
            (2_000_012, "HGET h"),
            (2_000_012, "GET big"),
            (2_000_012, "HGET h"),
        ],
    );
    assert_eq!(client.run("SLOWLOG RESET").shown(), "+OK");
    assert_eq!(client.run("COMMANDLOG LEN large-reply"), Value::Integer(4));
}

#[test]
fn each_log_has_a_threshold_and_a_length_of_its_own() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let parameters = [
        "CONFIG SET commandlog-request-larger-than -2 => -ERR CONFIG SET failed (possibly related \
         to argument 'commandlog-request-larger-than') - argument must be between -1 and \
         9223372036854775807 inclusive",
        "CONFIG SET commandlog-slow-execution-max-len 5 => +OK",
        "CONFIG GET slowlog-max-len => [slowlog-max-len, 5]",
        "CONFIG SET slowlog-log-slower-than 20000 => +OK",
        "CONFIG GET commandlog-execution-slower-than => [commandlog-execution-slower-than, 20000]",
        "CONFIG SET commandlog-request-larger-than 100 => +OK",
        "CONFIG SET commandlog-reply-larger-than 100 => +OK",
        "COMMANDLOG RESET large-request => +OK",
        "COMMANDLOG RESET large-reply => +OK",
    ];
    client.check(&parameters.join("\n"));
    client.run(&format!("SET k {}", "v".repeat(100)));
    client.run("GET k");
    client.run(&format!("SET k {}", "v".repeat(60)));
    client.run("GET k");
    client.run(&format!("GET {}", "n".repeat(200)));
    client.run(&format!("AUTH {}", "u".repeat(200)));
    let shown = entries(&mut client, "large-request");
    assert_eq!(shown[0], (128, "SET k".to_owned()));
    assert_eq!((shown[1].0, shown[2].0), (221, 222));
    assert_eq!(shown[2].1, "AUTH (redacted)");
    assert_eq!(
        entries(&mut client, "large-reply")[0],
        (108, "GET k".to_owned())
    );
    client.check(
        "CONFIG SET commandlog-large-request-max-len 2 => +OK
        COMMANDLOG LEN Large-Request => :2
        CONFIG SET commandlog-request-larger-than -1 => +OK
        COMMANDLOG RESET large-request => +OK",
    );
    client.run(&format!("SET k {}", "v".repeat(3_000)));
    assert_eq!(
        client.run("COMMANDLOG LEN large-request"),
        Value::Integer(0)
    );
}

#[test]
fn a_script_is_one_request_and_its_commands_have_replies_of_their_own() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let call = "redis.call('set',KEYS[1],string.rep('y',300))";
    client.run("CONFIG SET commandlog-request-larger-than 150 commandlog-reply-larger-than 300");
    client.run("COMMANDLOG RESET large-request");
    let script = format!("{call};return(redis.call('get',KEYS[1]))");
    client.run(&format!("EVAL {script} 1 {}", "k".repeat(60)));
    check(
        &mut client,
        "large-request",
        &[(174, &format!("EVAL {script}"))],
    );
    let replies: Vec<i64> = entries(&mut client, "large-reply")
        .iter()
        .map(|(bytes, _)| *bytes)
        .collect();
    assert_eq!(replies, [308, 308]);
}
