//! What operators see and do about items whose time is over: counts, commands that meet them, and
//! the settings that say how hard the cache looks for them.

use crate::support::{daemon, resp};

use std::time::Duration;

use daemon::Daemon;
use resp::{Client, Value, bulks, ok};

/// How long an item may be counted behind its deadline.
const COUNTED_MS: u64 = 1_000;

fn text(value: Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        Value::Verbatim(text) | Value::Simple(text) => text,
        other => panic!("no text: {other:?}"),
    }
}

/// A field of INFO's keyspace: `keys`, `expires` or `avg_ttl`.
fn keyspace(client: &mut Client, database: &str, field: &str) -> Option<u64> {
    let info = text(client.run("INFO keyspace"));
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(database)?.strip_prefix(':'))?
        .to_owned();
    let mut fields = line.split(',').filter_map(|pair| pair.split_once('='));
    fields.find(|(name, _)| *name == field)?.1.parse().ok()
}

#[test]
fn what_has_expired_is_not_counted_a_second_later() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for number in 0..3_000_u64 {
        client.run(if number % 2 == 0 {
            "SELECT 0"
        } else {
            "SELECT 5"
        });
        let how = match number % 6 {
            0 | 1 => String::new(),
            2 | 3 => " EX 1000".to_owned(),
            _ => format!(" PX {}", 1 + number * 7 % 1_500),
        };
        assert_eq!(client.run(&format!("SET key{number} value{how}")), ok());
    }
    daemon.advance(Duration::from_millis(1_500 + COUNTED_MS));
    for (select, database) in [("SELECT 0", "db0"), ("SELECT 5", "db5")] {
        client.run(select);
        assert_eq!(client.run("DBSIZE"), Value::Integer(1_000), "{database}");
        assert_eq!(keyspace(&mut client, database, "keys"), Some(1_000));
        assert_eq!(keyspace(&mut client, database, "expires"), Some(500));
        let ttl_ms = keyspace(&mut client, database, "avg_ttl").unwrap();
        let most_ms = 1_000_000 - COUNTED_MS;
        assert!((900_000..=most_ms).contains(&ttl_ms), "{ttl_ms}");
    }
    assert_eq!(daemon.stat("curr_items"), 2_000);
    assert_eq!(client.run("FLUSHALL"), ok());
    assert_eq!(keyspace(&mut client, "db5", "keys"), None);
}

/// Sends requests in one go; their replies.
fn run_all(client: &mut Client, requests: &[String]) -> Vec<Value> {
    client.send_raw((requests.join("\r\n") + "\r\n").as_bytes());
    requests.iter().map(|_| client.read()).collect()
}

/// Stores items of 250 bytes that are over soon, beside one in six that lives.
fn store_for_a_moment(client: &mut Client, items: usize) {
    let value = "v".repeat(250);
    let set = |number: usize| match number % 6 {
        0 => format!("SET key{number} {value}"),
        _ => format!("SET key{number} {value} PX 3000"),
    };
    for first in (0..items).step_by(1_000) {
        let batch: Vec<String> = (first..first + 1_000).map(set).collect();
        assert!(run_all(client, &batch).iter().all(|reply| *reply == ok()));
    }
}

/// Bytes behind items, dead or alive, and behind nothing.
fn held_bytes(daemon: &Daemon) -> u64 {
    ["bytes", "dead_bytes", "free_bytes"]
        .map(|name| daemon.stat(name))
        .iter()
        .sum()
}

#[test]
fn memory_goes_back_when_it_is_asked_for_while_the_server_runs() {
    for asked in ["MEMORY PURGE", "CONFIG SET release-memory yes"] {
        let daemon = Daemon::start(&["--memory", "64MiB"]);
        let mut client = Client::connect(&daemon);
        store_for_a_moment(&mut client, 60_000);
        let before = held_bytes(&daemon);
        daemon.advance_until("expired items are gone", Duration::from_secs(1), || {
            daemon.stat("curr_items") == 10_000
        });
        // Asked again each time: a purge lasts ten seconds of the clock that is moved here, and the
        // server's maintenance may have had little time of the processor in these.
        daemon.advance_until("memory goes back", Duration::from_millis(100), || {
            assert_eq!(client.run(asked), ok());
            held_bytes(&daemon) < before / 2
        });
        assert_eq!(client.run("DBSIZE"), Value::Integer(10_000), "{asked}");
    }
}

#[test]
fn effort_is_a_number_that_is_kept() {
    let daemon = Daemon::start(&["--expire-effort", "7"]);
    let mut client = Client::connect(&daemon);
    let name = "active-expire-effort";
    let effort = |client: &mut Client| client.run(&format!("CONFIG GET {name}"));
    assert_eq!(effort(&mut client), bulks(&[name, "7"]));
    assert_eq!(client.run(&format!("CONFIG SET {name} 10")), ok());
    assert_eq!(effort(&mut client), bulks(&[name, "10"]));
}

#[test]
fn commands_that_meet_the_dead_remove_them() {
    let names: Vec<String> = (0..500).map(|number| format!("key{number}")).collect();
    let all = format!("MGET {}", names.join(" "));
    for meeting in ["SCAN 0 COUNT 100000", "KEYS *", &all] {
        let daemon = Daemon::start(&["--memory", "64MiB"]);
        let mut client = Client::connect(&daemon);
        // So many live that nobody looks for the dead among them.
        for first in (0..50_000).step_by(1_000) {
            let set = |number: usize| format!("SET alive{number} value");
            run_all(
                &mut client,
                &(first..first + 1_000).map(set).collect::<Vec<_>>(),
            );
        }
        let stores: Vec<String> = names
            .iter()
            .map(|name| format!("SET {name} v PX 1"))
            .collect();
        run_all(&mut client, &stores);
        daemon.advance(Duration::from_millis(1));
        client.run(meeting);
        if meeting.starts_with("SCAN") {
            scan_to_the_end(&mut client);
        }
        assert_eq!(daemon.stat("reclaimed"), 500, "{meeting}");
    }
}

fn scan_to_the_end(client: &mut Client) {
    let mut cursor = "0".to_owned();
    loop {
        let Value::Array(reply) = client.run(&format!("SCAN {cursor} COUNT 1000")) else {
            panic!("SCAN answers an array");
        };
        let Value::Bulk(next) = &reply[0] else {
            panic!("a cursor is a bulk string");
        };
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            return;
        }
    }
}
