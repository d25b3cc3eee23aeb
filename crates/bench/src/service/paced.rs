//! The paced load: servers asked at a fixed rate until messages expire as fast as they are written.

use serde_json::{Value, json};

use super::ServiceArgs;
use super::asking::{HEALTH_EVERY, Order};
use super::board::Board;
use super::found::{Counts, Found, tail};
use super::message::Messages;
use super::servers::Contender;
use crate::spread::Spread;
use cellar_load::{Drive, Error, Latencies, Limit, NS_PER_S, now_ns};

/// How long a server that was started may take to come to rest.
const REST_S_MAX: u64 = 60;

/// One server's runs: what was found in each, and its resident bytes at the end.
struct Runs<'a> {
    contender: &'a Contender,
    counts: Counts,
    messages: u64,
    runs: Vec<(Found, f64)>,
}

/// Runs the load against each server in turn, a fresh one each time, round by round.
pub(super) fn measure(
    args: &ServiceArgs,
    messages: Messages,
    contenders: &[Contender],
) -> Result<Vec<Value>, Error> {
    let runs = contenders.iter().map(|contender| Runs {
        contender,
        counts: Counts::default(),
        messages: 0,
        runs: Vec::new(),
    });
    let mut all: Vec<Runs<'_>> = runs.collect();
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for runs in &mut all {
            run(args, messages, runs)?;
        }
    }
    Ok(all.iter().map(summarize).collect())
}

/// Runs the load once, against a fresh server.
fn run(args: &ServiceArgs, messages: Messages, all: &mut Runs<'_>) -> Result<(), Error> {
    let contender = all.contender;
    let server = contender.start(args)?;
    server.rest(now_ns() + REST_S_MAX * NS_PER_S)?;
    let mut board = Board::new(args.life_s);
    let order = Order {
        messages,
        is_cache: contender.is_cache,
    };
    let limit = Limit::Nanoseconds(args.seconds() * NS_PER_S);
    let others = HEALTH_EVERY - 1;
    let drive = Drive {
        rate_per_s: Some((args.rate * HEALTH_EVERY) as f64 / others as f64),
        ..args.drive(&server, limit)
    };
    let found = order.run(&drive, &mut board, &mut all.counts)?;
    let (name, mean_ms) = (&contender.recipe.name, found.reads.mean_ms());
    eprintln!("{name:20} reads {mean_ms:7.3} ms");
    all.messages += board.written();
    all.runs.push((found, server.rss_bytes()? as f64));
    Ok(())
}

/// One server under the load at a fixed rate, in all rounds.
fn summarize(all: &Runs<'_>) -> Value {
    let (contender, runs) = (all.contender, &all.runs);
    let latencies = |of: fn(&Found) -> &Latencies| {
        let each: Vec<&Latencies> = runs.iter().map(|(found, _)| of(found)).collect();
        tail(&each)
    };
    // The counts, and beside them the rest.
    let mut summary = json!(all.counts);
    summary["server"] = json!(contender.recipe.name);
    summary["version"] = json!(contender.version);
    summary["is_floor"] = json!(!contender.is_cache);
    summary["messages"] = json!(all.messages);
    let unsent = runs.iter().map(|(found, _)| found.driven.unsent);
    summary["unsent"] = json!(unsent.sum::<u64>());
    summary["rss_bytes"] = json!(Spread::over(runs, |(_, rss_bytes)| *rss_bytes));
    let cpu_us = Spread::over(runs, |it| it.0.server_cpu_us_per_request());
    summary["server_cpu_us_per_request"] = json!(cpu_us);
    summary["reads_ms"] = json!(latencies(|found| &found.reads));
    summary["writes_ms"] = json!(latencies(|found| &found.writes));
    summary["health_ms"] = json!(latencies(|found| &found.health));
    summary
}
