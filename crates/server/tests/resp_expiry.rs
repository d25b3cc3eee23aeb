//! What operators see and do about items whose time is over: counts, commands that meet them, and
//! the settings that say how hard the cache looks for them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/resp.rs"]
mod resp;

use std::time::{Duration, Instant};

use daemon::Daemon;
use resp::{Client, Value, ok};

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
#[expect(
    clippy::disallowed_methods,
    reason = "the server goes by the machine's time"
)]
fn what_has_expired_is_not_counted_a_second_later() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let begun = Instant::now();
    let mut last_ms = 0;
    for number in 0..3_000_u64 {
        client.run(if number % 2 == 0 {
            "SELECT 0"
        } else {
            "SELECT 5"
        });
        let how = match number % 6 {
            0 | 1 => String::new(),
            2 | 3 => " EX 1000".to_owned(),
            _ => {
                let ttl_ms = 1 + number * 7 % 1_500;
                last_ms = last_ms.max(begun.elapsed().as_millis() as u64 + 1 + ttl_ms);
                format!(" PX {ttl_ms}")
            }
        };
        assert_eq!(client.run(&format!("SET key{number} value{how}")), ok());
    }
    let at = begun + Duration::from_millis(last_ms + COUNTED_MS);
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
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
