//! redis-benchmark over all its tests, as many evaluators run it first.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use super::contestant::Contestant;
use crate::spread::Spread;
use cellar_load::Error;

/// Requests of a server by test, round by round.
type Found = BTreeMap<String, Vec<f64>>;

/// Runs `program` against the servers in turn; requests a second of each by test.
/// [`Error`] if it cannot be run or tells nothing.
pub(crate) fn measure(
    program: &str,
    servers: &mut [Contestant],
    requests: u64,
    rounds: usize,
) -> Result<Value, Error> {
    let mut all: Vec<Found> = servers.iter().map(|_| Found::new()).collect();
    for round in 1..=rounds {
        for (it, found) in servers.iter_mut().zip(&mut all) {
            it.connection.ask(&["FLUSHALL"])?;
            eprintln!("redis-benchmark, round {round} of {rounds}, {}", it.name);
            run(program, it.server.address().port(), requests, found)?;
        }
    }
    let tests: Vec<String> = all
        .first()
        .into_iter()
        .flat_map(|it| it.keys())
        .cloned()
        .collect();
    let rows = tests.iter().map(|test| {
        let medians = all
            .iter()
            .map(|found| found.get(test).cloned().unwrap_or_default());
        let medians: Vec<f64> = medians.map(|rounds| Spread::of(rounds).median).collect();
        json!({"test": test, "per_s": medians})
    });
    Ok(rows.collect())
}

fn run(program: &str, port: u16, requests: u64, found: &mut Found) -> Result<(), Error> {
    let (port, requests) = (port.to_string(), requests.to_string());
    let words = [
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-P",
        "16",
        "-r",
        "100000",
        "-n",
        &requests,
    ];
    let output = Command::new(program).args(words).arg("--csv").output();
    let output = output.map_err(|error| Error::system(format!("running {program}"), error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let before = found.len();
    for line in text.lines() {
        let mut fields = line.split("\",\"").map(|field| field.trim_matches('"'));
        let (Some(test), Some(per_s)) = (fields.next(), fields.next()) else {
            continue;
        };
        if let Ok(per_s) = per_s.parse() {
            found.entry(test.to_owned()).or_default().push(per_s);
        }
    }
    if output.status.success() && (found.len() > before || before > 0) {
        return Ok(());
    }
    Err(Error::Wrong(format!("{program} tells nothing: {text}")))
}
