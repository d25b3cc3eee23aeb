//! Beside: how long an unrelated GET takes while another client writes at full speed to one
//! collection, and how long beside plain SETs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use serde_json::{Value, json};

use super::connection::Connection;
use super::contestant::Contestant;
use super::request::{Request, Shape};
use cellar_load::{Error, Latencies};

/// What is written: its name, what fills the collection, and the write. The first is the measure.
const WRITES: [(&str, &str, &str); 6] = [
    ("SET", "SET key:{i} {v}", "SET key:{i} {v}"),
    ("HSET", "HSET hash f:{i} {v}", "HSET hash f:{i} {v}"),
    ("SADD", "SADD set {m}", "SADD set {x}"),
    ("ZADD", "ZADD sorted {s} {m}", "ZADD sorted {r} {m}"),
    ("LSET", "RPUSH list {m}", "LSET list {i} {v}"),
    ("SETBIT", "SETBIT bits {bit} 1", "SETBIT bits {bit} 0"),
];
const VALUE_BYTES: usize = 10;

/// Measures all writes at so many elements, with so many GETs in each round.
/// [`Error`] if a server refuses something.
pub(crate) fn measure(
    servers: &mut [Contestant],
    elements: u64,
    gets: u64,
    rounds: usize,
) -> Result<Value, Error> {
    let shape = Shape {
        elements,
        value_bytes: VALUE_BYTES,
        copies: 1,
    };
    let mut rows = Vec::new();
    for it in servers {
        it.connection.ask(&["FLUSHALL"])?;
        it.connection.ask(&["SET", "unrelated", "value"])?;
        for (_, fill, _) in WRITES {
            Request::parse(fill).fill(&shape, &mut it.connection)?;
        }
        let mut latencies = WRITES.map(|_| Latencies::new());
        for _ in 0..rounds {
            for ((_, _, write), latencies) in WRITES.iter().zip(&mut latencies) {
                latencies.merge(&round(it, &Request::parse(write), &shape, gets)?);
            }
        }
        for ((name, _, _), latencies) in WRITES.iter().zip(&latencies) {
            let summary = latencies.summary();
            eprintln!(
                "GET beside {name:7} {:18} {:8.1} us",
                it.name, summary.latency_us_p99_9
            );
            rows.push(json!({"write": name, "server": it.name, "latency": summary}));
        }
    }
    Ok(json!(rows))
}

/// GETs beside one kind of write.
fn round(
    it: &mut Contestant,
    write: &Request,
    shape: &Shape,
    gets: u64,
) -> Result<Latencies, Error> {
    let is_over = AtomicBool::new(false);
    let mut writer = Connection::connect(it.server.address())?;
    scope(|threads| {
        let writing = threads.spawn(|| {
            let mut at = 0;
            // Relaxed: nothing but the flag is passed on.
            while !is_over.load(Ordering::Relaxed) {
                writer.add(|out| write.push(out, at % shape.all(), shape))?;
                at += 1;
            }
            writer.flush()?;
            let refused = writer.refused();
            refused.map_or(Ok(()), |error| Err(Error::Wrong(error)))
        });
        let get = Request::parse("GET unrelated");
        let mut latencies = Latencies::new();
        let timed = (0..gets).try_for_each(|at| {
            latencies.record(it.connection.time(|out| get.push(out, at, shape))?);
            Ok(())
        });
        // Relaxed: nothing but the flag is passed on.
        is_over.store(true, Ordering::Relaxed);
        let written = writing.join();
        timed.and(written.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))?;
        Ok(latencies)
    })
}
