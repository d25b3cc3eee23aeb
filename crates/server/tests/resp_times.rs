//! RESP, times: how long commands take, how they fail, and what took very long.

use crate::support::{daemon, resp};

use std::fmt::Write as _;

use daemon::Daemon;
use resp::{Client, Value, bulks, error, ok};

/// The figures of a line of INFO, `name=figure` each.
fn figures(client: &mut Client, section: &str, line: &str) -> Vec<(String, f64)> {
    let text = client.run(&format!("INFO {section}")).shown();
    let start = format!("{line}:");
    let found = text.lines().find_map(|line| line.strip_prefix(&start));
    let found = found.unwrap_or_else(|| panic!("no {line} in {text}"));
    let pairs = found.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, figure)| (name.to_owned(), figure.parse().unwrap()))
        .collect()
}

fn of_command(client: &mut Client, command: &str) -> [f64; 5] {
    let found = figures(client, "commandstats", &format!("cmdstat_{command}"));
    let names = [
        "calls",
        "usec",
        "usec_per_call",
        "rejected_calls",
        "failed_calls",
    ];
    assert!(found.iter().map(|(name, _)| name).eq(names.iter()));
    std::array::from_fn(|place| found[place].1)
}

/// Sends GET so often, at once, and reads the answers.
fn get_often(client: &mut Client, times: usize) {
    client.send_raw(&b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(times));
    (0..times).for_each(|_| drop(client.read()));
}

fn entries(value: Value) -> Vec<Vec<Value>> {
    let Value::Array(entries) = value else {
        panic!("a list: {value:?}");
    };
    let parts = entries.into_iter().map(|entry| match entry {
        Value::Array(parts) => parts,
        other => panic!("an entry is a list: {other:?}"),
    });
    parts.collect()
}

#[test]
fn quick_commands_are_timed_by_sample_and_told_of_all_calls() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.run("SET a b");
    get_often(&mut client, 10_000);
    let [calls, us, us_per_call, rejected, failed] = of_command(&mut client, "get");
    assert_eq!((calls, rejected, failed), (10_000.0, 0.0, 0.0));
    assert!(us > 0.0 && us_per_call > 0.0 && us_per_call < 1_000.0);
    // The mean is shown with two decimals.
    assert!((us - us_per_call * calls).abs() <= 0.01 * calls);
    let percentiles = figures(&mut client, "latencystats", "latency_percentiles_usec_get");
    let names: Vec<&str> = percentiles.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["p50", "p99", "p99.9"]);
    assert!(percentiles.is_sorted_by(|one, next| one.1 <= next.1));
    let histogram = client.run("LATENCY HISTOGRAM get nosuch GET");
    let Value::Array(parts) = histogram else {
        panic!("{histogram:?}");
    };
    assert_eq!(parts.len(), 2);
    let shown = parts[1].shown();
    assert!(
        shown.starts_with("[calls, :10000, histogram_usec, [:"),
        "{shown}"
    );
    assert!(shown.ends_with(", :10000]]"), "{shown}");
    assert_eq!(client.run("CONFIG RESETSTAT"), ok());
    assert_eq!(client.run("LATENCY HISTOGRAM get"), Value::Array(vec![]));
    get_often(&mut client, 1_000);
    assert_eq!(of_command(&mut client, "get")[0], 1_000.0);
}

#[test]
fn commands_that_are_not_quick_are_timed_each_time() {
    let daemon = Daemon::start(&["--enable-debug-commands"]);
    let mut client = Client::connect(&daemon);
    client.run("DEBUG SLEEP 0");
    client.run("DEBUG SLEEP 0.05");
    let [calls, us, ..] = of_command(&mut client, "debug");
    assert_eq!(calls, 2.0);
    assert!((50_000.0..5_000_000.0).contains(&us), "{us}");
    client.run("HELLO 3");
    let Value::Map(commands) = client.run("LATENCY HISTOGRAM debug config") else {
        panic!("LATENCY HISTOGRAM answers a map");
    };
    let [(_, Value::Map(figures))] = &commands[..] else {
        panic!("{commands:?}");
    };
    let (Value::Integer(2), Value::Map(steps)) = (&figures[0].1, &figures[1].1) else {
        panic!("{figures:?}");
    };
    assert_eq!(steps.last().unwrap().1, Value::Integer(2));
}

#[test]
fn commands_in_steps_count_with_all_their_steps() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.run("CONFIG SET slowlog-log-slower-than 0");
    let mut request = String::from("RPUSH list");
    (0..20_000).for_each(|number| write!(request, " {number}").unwrap());
    assert_eq!(client.run(&request), Value::Integer(20_000));
    let slow = entries(client.run("SLOWLOG GET 3"));
    let pushed = slow
        .iter()
        .find(|entry| entry[3].shown().starts_with("[RPUSH, list"));
    let Value::Integer(us) = pushed.unwrap()[2] else {
        panic!("{slow:?}");
    };
    let shown = pushed.unwrap()[3].shown();
    assert!(shown.ends_with("... (19971 more arguments)]"), "{shown}");
    let [calls, total_us, ..] = of_command(&mut client, "rpush");
    assert_eq!(calls, 1.0);
    assert!((total_us - us as f64).abs() <= 1.0, "{total_us} {us}");
}

#[test]
fn a_threshold_of_zero_logs_every_command_without_secrets() {
    let daemon = Daemon::start(&["--threads", "1", "--password", "secret"]);
    let mut client = Client::connect(&daemon);
    client.run("AUTH secret");
    client.run("CONFIG SET slowlog-log-slower-than 0");
    get_often(&mut client, 3);
    client.run("SET a b");
    client.run("AUTH wrong");
    client.run("HELLO 2 AUTH default secret");
    client.run("CONFIG SET requirepass other");
    let slow = entries(client.run("SLOWLOG GET 8"));
    let args: Vec<String> = slow.iter().map(|entry| entry[3].shown()).collect();
    let expected = [
        "[CONFIG, SET, requirepass, (redacted)]",
        "[HELLO, 2, AUTH, (redacted), (redacted)]",
        "[AUTH, (redacted)]",
        "[SET, a, b]",
        "[GET, a]",
        "[GET, a]",
        "[GET, a]",
        "[CONFIG, SET, slowlog-log-slower-than, 0]",
    ];
    assert_eq!(args, expected);
    client.run("CONFIG SET slowlog-log-slower-than -1");
    client.run("SLOWLOG RESET");
    get_often(&mut client, 1_000);
    assert_eq!(client.run("SLOWLOG LEN"), Value::Integer(0));
}

#[test]
fn refused_and_failed_calls_are_told_apart() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.run("SET a b");
    client.run("SET a");
    client.run("GET");
    client.run("LPUSH a b");
    client.run("INCR a");
    client.run("SET a b EX x");
    client.run("CONFIG GET");
    client.run("MULTI");
    client.run("INCR");
    client.run("EXEC");
    for (command, calls, rejected, failed) in [
        ("set", 2.0, 1.0, 1.0),
        ("get", 0.0, 1.0, 0.0),
        ("lpush", 1.0, 0.0, 1.0),
        ("incr", 1.0, 1.0, 1.0),
        ("config|get", 0.0, 1.0, 0.0),
    ] {
        let found = of_command(&mut client, command);
        assert_eq!(
            [found[0], found[3], found[4]],
            [calls, rejected, failed],
            "{command}"
        );
    }
}

#[test]
fn what_took_very_long_is_kept_once_a_threshold_is_set() {
    let daemon = Daemon::spawn(&["--threads", "1", "--enable-debug-commands"]);
    let mut client = Client::connect(&daemon);
    client.run("DEBUG SLEEP 0.02");
    assert_eq!(client.run("LATENCY LATEST"), Value::Array(vec![]));
    assert!(
        client
            .run("LATENCY DOCTOR")
            .shown()
            .contains("monitoring is off")
    );
    // A busy machine may hold up anything for shorter than that.
    let set = client.run("CONFIG SET latency-monitor-threshold 1500");
    assert_eq!(set, ok());
    let shown = client.run("CONFIG GET latency-monitor-threshold");
    assert_eq!(shown, bulks(&["latency-monitor-threshold", "1500"]));
    client.run("DEBUG SLEEP 1.6");
    client.run("PING");
    let latest = entries(client.run("LATENCY LATEST"));
    assert_eq!(latest.len(), 2);
    assert_eq!(latest[0][0].shown(), "command");
    assert_eq!(latest[1][0].shown(), "event-loop-turn");
    let (Value::Integer(at_s), Value::Integer(ms)) = (&latest[0][1], &latest[0][2]) else {
        panic!("{latest:?}");
    };
    assert!(*at_s > 1_000_000_000 && (1_600..15_000).contains(ms));
    assert_eq!(latest[0][3], Value::Integer(*ms));
    let history = entries(client.run("LATENCY HISTORY command"));
    assert_eq!(history, [[Value::Integer(*at_s), Value::Integer(*ms)]]);
    assert_eq!(client.run("LATENCY HISTORY nosuch"), Value::Array(vec![]));
    let graph = client.run("LATENCY GRAPH command").shown();
    assert!(
        graph.starts_with(&format!("command - high {ms} ms, low {ms} ms")),
        "{graph}"
    );
    let missing = "ERR No samples available for event 'nosuch'";
    assert_eq!(client.run("LATENCY GRAPH nosuch"), error(missing));
    assert!(
        client
            .run("LATENCY DOCTOR")
            .shown()
            .starts_with("command: 1 seconds")
    );
    assert_eq!(client.run("LATENCY RESET nosuch"), Value::Integer(0));
    assert_eq!(client.run("LATENCY RESET command"), Value::Integer(1));
    assert_eq!(client.run("LATENCY HISTORY command"), Value::Array(vec![]));
    client.run("LATENCY RESET");
    assert_eq!(client.run("LATENCY LATEST"), Value::Array(vec![]));
}

#[test]
fn an_error_in_a_script_is_counted_once_where_it_happens() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.run("SET a b");
    let errors = |client: &mut Client| {
        let stats = client.run("INFO stats errorstats").shown();
        let of = |name: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(name));
            line.map_or(0, |count| count.parse::<u64>().unwrap())
        };
        [
            of("errorstat_ERR:count="),
            of("errorstat_WRONGTYPE:count="),
            of("total_error_replies:"),
        ]
    };
    for (script, expected, failed_evals) in [
        // Passed on, caught and returned, caught and dropped, thrown again.
        ("return redis.call('incr', 'a')", [1, 0, 1], 1.0),
        ("return redis.pcall('incr', 'a')", [1, 0, 1], 1.0),
        ("redis.pcall('incr', 'a') return 1", [1, 0, 1], 0.0),
        ("error(redis.pcall('lpush', 'a', 'b'))", [0, 1, 1], 1.0),
        ("return {1, redis.pcall('incr', 'a')}", [1, 0, 1], 1.0),
        // Refused before they run.
        ("return redis.call('nosuch')", [1, 0, 1], 1.0),
        ("return redis.pcall('get')", [1, 0, 1], 1.0),
        ("return redis.call('subscribe', 'a')", [1, 0, 1], 1.0),
        // The script's own.
        ("return redis.error_reply('ERR own')", [1, 0, 1], 1.0),
        ("return {err = 'WRONGTYPE own'}", [0, 1, 1], 1.0),
        ("return redis.call()", [1, 0, 1], 1.0),
        ("return nosuch", [1, 0, 1], 1.0),
        (
            "return redis.error_reply('ERR ' .. redis.pcall('incr', 'a').err)",
            [2, 0, 2],
            1.0,
        ),
    ] {
        client.run("CONFIG RESETSTAT");
        client.call(&[b"EVAL", script.as_bytes(), b"0"]);
        assert_eq!(errors(&mut client), expected, "{script}");
        assert_eq!(of_command(&mut client, "eval")[4], failed_evals, "{script}");
    }
    client.run("CONFIG RESETSTAT");
    client.call(&[
        b"EVAL",
        b"redis.pcall('incr', 'a') redis.pcall('incr')",
        b"0",
    ]);
    let [calls, _, _, rejected, failed] = of_command(&mut client, "incr");
    assert_eq!((calls, rejected, failed), (1.0, 1.0, 1.0));
}
