//! What the server remembers, asked of a running one.

use crate::support::{daemon, http, users};

use std::io::Read;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cellar_shared::observe::history::columns::COLUMNS;
use daemon::{Daemon, check, set};
use http::Http;
use serde_json::Value;
use users::UsersFile;

const PATH: &str = "/v1/console/history";

fn history(http: &mut Http, query: &str) -> Value {
    let response = http.get(&format!("{PATH}{query}"));
    assert_eq!(response.status, 200);
    assert_eq!(response.field("content-type"), "application/json");
    serde_json::from_slice(&response.body).unwrap()
}

/// Asks until what is remembered is as wanted.
fn wait_for(daemon: &Daemon, http: &mut Http, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = history(http, "");
    daemon.advance_until("the history is as wanted", Duration::from_secs(1), || {
        found = history(http, "");
        wanted(&found)
    });
    found
}

fn events(found: &Value) -> Vec<String> {
    let events = found["events"].as_array().unwrap().iter();
    events
        // The loop of a busy machine may stand still.
        .filter(|event| event["kind"] != "stalled")
        .map(|event| {
            format!(
                "{} {} {}",
                event["kind"].as_str().unwrap(),
                event["count"],
                event["detail"].as_str().unwrap()
            )
        })
        .collect()
}

/// What a column of rates amounts to: each times the seconds of its row, which are one unless the
/// machine is busy.
fn sum(found: &Value, name: &str) -> f64 {
    let column = |name: &str| found["columns"][name].as_array().unwrap().iter();
    let ends_ms: Vec<f64> = column("time_unix_ms").filter_map(Value::as_f64).collect();
    let seconds = |row: usize| match row {
        0 => 1.0,
        _ => (ends_ms[row] - ends_ms[row - 1]) / 1_000.0,
    };
    let rates = column(name).enumerate();
    rates
        .filter_map(|(row, rate)| Some(rate.as_f64()? * seconds(row)))
        .sum()
}

#[test]
fn what_happened_is_in_rows_of_a_second() {
    let daemon = Daemon::start(&[]);
    let mut http = Http::to(&daemon);
    wait_for(&daemon, &mut http, |found| {
        !found["columns"]["items"].as_array().unwrap().is_empty()
    });
    let mut client = daemon.connect();
    for key in ["a", "b", "c"] {
        check(&mut client, &set(key, b"value"), b"STORED\r\n");
    }
    check(&mut client, b"get nothing\r\n", b"END\r\n");
    let found = wait_for(&daemon, &mut http, |found| sum(found, "gets") > 0.5);
    // Rates are over the time of their rows, which is a second or somewhat more.
    assert!(
        sum(&found, "sets") > 1.5 && sum(&found, "sets") < 3.5,
        "{found}"
    );
    assert!(sum(&found, "hits") < 0.01 && sum(&found, "misses") > 0.5);
    let times = found["columns"]["time_unix_ms"].as_array().unwrap();
    for column in COLUMNS {
        let values = found["columns"][column.name].as_array().unwrap();
        assert_eq!(values.len(), times.len(), "{}", column.name);
    }
    let items = found["columns"]["items"].as_array().unwrap();
    assert_eq!(items.last().unwrap(), 3);
    assert_eq!(
        events(&found),
        [format!("started 1 {}", env!("CARGO_PKG_VERSION"))]
    );
    let earlier = found["earlier"].as_array().unwrap();
    assert!(!earlier.is_empty(), "{found}");
    assert!(earlier[0]["server"]["uptime_ms"].as_u64() < found["uptime_ms"].as_u64());
    // The console subtracts these from a status: of each kind there have to be as many.
    let status: Value = serde_json::from_slice(&http.get("/v1/console/status").body).unwrap();
    for one in earlier {
        for part in ["curve", "threads"] {
            let length = |of: &Value| of[part].as_array().unwrap().len();
            assert_eq!(length(one), length(&status), "{part}");
        }
    }
    let minutes = history(&mut http, "?step=1m");
    assert_eq!(
        (&minutes["step_ms"], &found["step_ms"]),
        (&60_000.into(), &1_000.into())
    );
    assert_eq!(http.get(&format!("{PATH}?step=5m")).status, 400);
}

#[test]
fn flushes_changed_settings_and_refused_clients_are_events() {
    let daemon = Daemon::start(&["--max-connections", "3"]);
    let mut http = Http::to(&daemon);
    wait_for(&daemon, &mut http, |found| sum(found, "connections") > 0.0);
    let (mut client, mut resp) = (daemon.connect(), daemon.connect_resp());
    check(&mut client, b"flush_all\r\n", b"OK\r\n");
    check(&mut client, b"flush_all\r\n", b"OK\r\n");
    // What changes nothing is no event.
    for seconds in [0, 77, 77] {
        let request = format!("CONFIG SET timeout {seconds}\r\n");
        check(&mut resp, request.as_bytes(), b"+OK\r\n");
    }
    let mut refused = Vec::new();
    daemon.connect().read_to_end(&mut refused).unwrap();
    let found = wait_for(&daemon, &mut http, |found| events(found).len() == 4);
    let mut events = events(&found);
    events.sort();
    assert_eq!(events[0], "config 1 timeout=77");
    assert_eq!(events[1], "flush 2 ");
    assert!(events[2].starts_with("refused 1"), "{events:?}");
    let status = http.get("/v1/console/status");
    let status: Value = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(status["events"], found["events"]);
}

#[test]
fn who_may_not_see_settings_does_not_see_that_they_changed() {
    let file = UsersFile::of_roles();
    let flags = file.flags();
    let daemon = Daemon::start(&[&flags[0], &flags[1]]);
    let mut resp = daemon.connect_resp();
    check(&mut resp, b"AUTH root root-pw\r\n", b"+OK\r\n");
    check(&mut resp, b"CONFIG SET timeout 77\r\n", b"+OK\r\n");
    let shown = |user: &str, path: &str| {
        let both = STANDARD.encode(format!("{user}:{user}-pw"));
        let field = format!("Authorization: Basic {both}");
        let response = Http::to(&daemon).ask(&format!("GET {path}"), &[&field], b"");
        assert_eq!(response.status, 200, "{user} {path}");
        response.text().contains("timeout=77")
    };
    for path in [PATH, "/v1/console/status"] {
        assert!(shown("root", path), "{path}");
        assert!(!shown("reader", path) && !shown("writer", path), "{path}");
    }
    assert_eq!(Http::to(&daemon).get(PATH).status, 401);
}

#[test]
fn the_document_names_all_columns() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let columns = &document["components"]["schemas"]["History"]["properties"]["columns"];
    let columns = columns["properties"].as_object().unwrap();
    assert_eq!(columns.len(), COLUMNS.len() + 1);
    for column in COLUMNS {
        let words = format!("{} Unit: {}.", column.help, column.unit);
        assert_eq!(
            columns[column.name]["description"],
            words.trim_start(),
            "{}",
            column.name
        );
    }
}
