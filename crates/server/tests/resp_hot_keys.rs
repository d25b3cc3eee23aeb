//! HOTKEYS: which keys cost most while it is measured.

use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::resp::{Client, Value};

/// The fields of HOTKEYS GET, in their order.
fn measured(client: &mut Client) -> Vec<(String, Value)> {
    let Value::Array(nodes) = client.run("HOTKEYS GET") else {
        panic!("nothing is measured");
    };
    let [Value::Array(fields)] = &nodes[..] else {
        panic!("no map of one node");
    };
    let pairs = fields.chunks_exact(2);
    pairs
        .map(|pair| (pair[0].shown(), pair[1].clone()))
        .collect()
}

fn field(fields: &[(String, Value)], name: &str) -> Value {
    let found = fields.iter().find(|(other, _)| other == name);
    found
        .unwrap_or_else(|| panic!("{name} is missing"))
        .1
        .clone()
}

/// The keys of a list, and what they weigh.
fn weights(fields: &[(String, Value)], name: &str) -> Vec<(String, i64)> {
    let Value::Array(values) = field(fields, name) else {
        panic!("{name} is no list");
    };
    let weight = |value: &Value| match value {
        Value::Integer(weight) => *weight,
        other => panic!("no weight: {}", other.shown()),
    };
    let pairs = values.chunks_exact(2);
    pairs
        .map(|pair| (pair[0].shown(), weight(&pair[1])))
        .collect()
}

#[test]
fn the_keys_that_cost_most_bytes_come_first() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.check("HOTKEYS GET => nil\nHOTKEYS STOP => nil\nHOTKEYS RESET => +OK");
    client.run(&format!("SET wide {}", "x".repeat(1_000)));
    client.check("SET thin x => +OK\nHOTKEYS START METRICS 2 CPU NET COUNT 2 => +OK");
    let info = client.run("INFO").shown();
    assert!(
        info.contains("# Hotkeys\r\nhotkeys-tracking-active:1"),
        "{info}"
    );
    for _ in 0..5 {
        client.run("GET wide");
    }
    client.check("GET thin => x\nPING => +PONG\nEXISTS other => :0");
    let fields = measured(&mut client);
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "tracking-active",
            "sample-ratio",
            "selected-slots",
            "all-commands-all-slots-us",
            "net-bytes-all-commands-all-slots",
            "collection-start-time-unix-ms",
            "collection-duration-ms",
            "total-cpu-time-user-ms",
            "total-cpu-time-sys-ms",
            "total-net-bytes",
            "by-cpu-time-us",
            "by-net-bytes",
        ]
    );
    assert_eq!(field(&fields, "selected-slots").shown(), "[[:0, :16383]]");
    // A GET of `wide` has 23 bytes and a reply of 1,009; one of `thin` 23 and 7.
    let found = weights(&fields, "by-net-bytes");
    assert_eq!(
        found,
        [("wide".to_owned(), 5_160), ("other".to_owned(), 31)]
    );
    assert_eq!(
        field(&fields, "total-net-bytes"),
        Value::Integer(5_160 + 30 + 31)
    );
    client.check(
        "HOTKEYS START METRICS 1 NET => -ERR hotkey tracking session already in progress
         HOTKEYS RESET => -ERR hotkey tracking session in progress, stop tracking first
         HOTKEYS STOP => +OK
         GET wide2 => nil",
    );
    let fields = measured(&mut client);
    assert_eq!(field(&fields, "tracking-active"), Value::Integer(0));
    assert_eq!(weights(&fields, "by-net-bytes").len(), 2);
    client.check("HOTKEYS RESET => +OK\nHOTKEYS GET => nil");
}

#[test]
fn a_measurement_ends_by_itself_and_counts_what_it_samples() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.check("HOTKEYS START METRICS 1 NET DURATION 5 SAMPLE 2 => +OK");
    for _ in 0..10 {
        client.run("SET a 1");
    }
    let fields = measured(&mut client);
    // A SET has 27 bytes and a reply of 5.
    assert_eq!(
        field(&fields, "net-bytes-all-commands-all-slots"),
        Value::Integer(320)
    );
    assert_eq!(weights(&fields, "by-net-bytes"), [("a".to_owned(), 160)]);
    daemon.advance(Duration::from_secs(6));
    client.run("SET a 1");
    let fields = measured(&mut client);
    assert_eq!(field(&fields, "tracking-active"), Value::Integer(0));
    assert_eq!(
        field(&fields, "collection-duration-ms"),
        Value::Integer(5_000)
    );
    assert_eq!(weights(&fields, "by-net-bytes"), [("a".to_owned(), 160)]);
    client.check("HOTKEYS START METRICS 1 CPU => +OK\nHOTKEYS STOP => +OK");
}

#[test]
fn what_is_wrong_about_a_measurement_is_told() {
    let daemon = Daemon::start(&[]);
    Client::connect(&daemon).check(
        "HOTKEYS START => -ERR METRICS parameter is required
         HOTKEYS START COUNT 1 => -ERR METRICS parameter is required
         HOTKEYS START METRICS 0 CPU => -ERR METRICS count must be > 0 and <= 2
         HOTKEYS START METRICS 3 CPU NET CPU => -ERR METRICS count must be > 0 and <= 2
         HOTKEYS START METRICS 2 CPU => \
          -ERR METRICS count does not match number of metric types provided
         HOTKEYS START METRICS 2 CPU CPU => -ERR METRICS CPU defined more than once!
         HOTKEYS START METRICS 1 DISK => -ERR METRICS no valid metrics passed. Supported: CPU|NET
         HOTKEYS START METRICS 1 CPU COUNT 65 => -ERR COUNT must be between 1 and 64
         HOTKEYS START METRICS 1 CPU DURATION 0 => -ERR DURATION must be between 1 and 1000000
         HOTKEYS START METRICS 1 CPU SAMPLE 0 => -ERR SAMPLE ratio must be positive
         HOTKEYS START METRICS 1 CPU SLOTS 1 1 => \
          -ERR SLOTS parameter cannot be used in non-cluster mode
         HOTKEYS START METRICS 1 CPU COUNT => -ERR syntax error
         HOTKEYS START METRICS 1 CPU WHAT 1 => -ERR syntax error",
    );
}
