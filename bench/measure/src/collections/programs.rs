//! Programs: what applications do with large collections, one request after the other, each timed.

use serde_json::{Value, json};

use super::contestant::Contestant;
use super::request::{Request, Shape};
use cellar_load::{Error, Latencies};

/// Members of the largest of the sets of tags, and how many sets there are.
const TAGGED: u64 = 200_000;
const TAGS: u64 = 1_000;
/// Tags that are asked for, from the most frequent to the rarest.
const ASKED: [u64; 4] = [0, 9, 99, 999];
const VALUE_BYTES: usize = 10;

/// One application.
struct Program {
    name: &'static str,
    shape: Shape,
    fill: Vec<(Request, Shape)>,
    /// What it asks in turn; the first of each group so many times for one of the second.
    often: Vec<Request>,
    seldom: Option<(u64, Request)>,
}

/// Measures all programs with so many requests of each kind; `divisor` makes the data smaller.
/// [`Error`] if a server refuses something.
pub(crate) fn measure(
    servers: &mut [Contestant],
    requests: u64,
    rounds: usize,
    divisor: u64,
) -> Result<Value, Error> {
    let mut rows = Vec::new();
    for program in programs(divisor) {
        for it in &mut *servers {
            it.connection.ask(&["FLUSHALL"])?;
            for (request, shape) in &program.fill {
                request.fill(shape, &mut it.connection)?;
            }
        }
        let found = servers.iter().map(|_| (Latencies::new(), 0));
        let mut found: Vec<(Latencies, u64)> = found.collect();
        for round in 0..rounds as u64 {
            for (it, found) in servers.iter_mut().zip(&mut found) {
                program.round(it, round * requests..(round + 1) * requests, found)?;
            }
        }
        for (it, (latencies, cpu_ns)) in servers.iter().zip(&found) {
            let cpu_us = *cpu_ns as f64 / latencies.count() as f64 / 1_000.0;
            let latency = latencies.summary();
            let (name, p99_9) = (program.name, latency.latency_us_p99_9);
            eprintln!(
                "{name:22} {:18} {cpu_us:6.2} us, p99.9 {p99_9:8.1} us",
                it.name
            );
            rows.push(json!({
                "program": name, "server": it.name, "cpu_us": cpu_us, "latency": latency,
            }));
        }
    }
    Ok(json!(rows))
}

impl Program {
    fn round(
        &self,
        it: &mut Contestant,
        numbers: std::ops::Range<u64>,
        (latencies, cpu_ns): &mut (Latencies, u64),
    ) -> Result<(), Error> {
        let begun_ns = it.cpu_ns()?;
        for at in numbers {
            for request in &self.often {
                latencies.record(
                    it.connection
                        .time(|out| request.push(out, at, &self.shape))?,
                );
            }
            if let Some((often, request)) = &self.seldom
                && at % often == 0
            {
                latencies.record(
                    it.connection
                        .time(|out| request.push(out, at, &self.shape))?,
                );
            }
        }
        *cpu_ns += it.cpu_ns()? - begun_ns;
        Ok(())
    }
}

fn programs(divisor: u64) -> Vec<Program> {
    let shape = |elements: u64, copies| Shape {
        elements: (elements / divisor).max(10),
        value_bytes: VALUE_BYTES,
        copies,
    };
    let parsed = |lines: &[&str]| lines.iter().map(|line| Request::parse(line)).collect();
    let players = shape(1_000_000, 1);
    let clients = shape(100, 10_000 / divisor);
    let users = shape(12_500_000, 1);
    let tags = (0..TAGS / divisor.min(TAGS)).map(|tag| {
        let request = Request::parse(&format!("SADD tag:{tag} {{m}}"));
        (request, shape(TAGGED / (tag + 1), 1))
    });
    let asked = ASKED.iter().flat_map(|tag| {
        [
            format!("SADD tag:{tag} {{x}}"),
            format!("SISMEMBER tag:{tag} {{m}}"),
            format!("SINTERCARD 2 tag:{tag} tag:999 LIMIT 100"),
            format!("SRANDMEMBER tag:{tag} 10"),
            format!("SREM tag:{tag} {{x}}"),
        ]
    });
    let limiter = [
        "ZREMRANGEBYSCORE window:{c} 0 {past}",
        "ZADD window:{c} {now} {now}",
        "ZCARD window:{c}",
        "EXPIRE window:{c} 60",
    ];
    let board = [
        "ZINCRBY board 5 {m}",
        "ZREVRANK board {m}",
        "ZREVRANGE board 0 99 WITHSCORES",
    ];
    let last = Request::parse("SETRANGE day 12499999 x");
    vec![
        Program {
            name: "leaderboard",
            shape: players,
            fill: vec![(Request::parse("ZADD board {s} {m}"), players)],
            often: parsed(&board),
            seldom: None,
        },
        Program {
            name: "tag index",
            shape: shape(TAGGED, 1),
            fill: tags.collect(),
            often: asked.map(|line| Request::parse(&line)).collect(),
            seldom: None,
        },
        Program {
            name: "rate limiter",
            shape: clients,
            fill: Vec::new(),
            often: parsed(&limiter),
            seldom: None,
        },
        Program {
            name: "daily bitmap",
            shape: users,
            fill: vec![(last, shape(1, 1))],
            often: parsed(&["SETBIT day {bit} 1", "GETBIT day {bit}"]),
            seldom: Some((1_000, Request::parse("BITCOUNT day"))),
        },
    ]
}
