//! Memory: the resident bytes of an element over what was sent for it, in a fresh server, a while
//! after the last write.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::contestant::Contestant;
use super::request::{Request, Shape};
use crate::peers::CpuArgs;
use cellar_load::{Error, NS_PER_S, Recipe, now_ns};

/// Time that a server has to come to rest after it was filled.
const REST_NS: u64 = 30 * NS_PER_S;
/// Time after which memory is looked at: allocators and Cellar give memory back that was free for
/// ten seconds.
const SETTLE: Duration = Duration::from_secs(30);
/// Keys of the small shapes, elements of the large ones.
const KEYS: u64 = 100_000;
const ELEMENTS: u64 = 1_000_000;

/// What is stored: its name, how, elements of a key, bytes of a value, keys.
const SHAPES: [(&str, &str, u64, usize, u64); 8] = [
    (
        "sorted set of 30 members",
        "ZADD z:{c} {s} {m}",
        30,
        10,
        KEYS,
    ),
    ("list of 30 elements", "RPUSH l:{c} {m}", 30, 10, KEYS),
    ("set of 20 integers", "SADD s:{c} {s}", 20, 10, KEYS),
    ("hash of 8 fields", "HSET h:{c} f:{i} {v}", 8, 10, KEYS),
    ("string of 200 B", "SET k:{c} {v}", 1, 200, KEYS),
    (
        "hash of 1 M fields",
        "HSET h:{c} f:{i} {v}",
        ELEMENTS,
        10,
        1,
    ),
    ("set of 1 M members", "SADD s:{c} {m}", ELEMENTS, 10, 1),
    (
        "sorted set of 1 M members",
        "ZADD z:{c} {s} {m}",
        ELEMENTS,
        10,
        1,
    ),
];

/// Resident memory by shape and server.
#[derive(Debug, Serialize)]
struct Row {
    shape: &'static str,
    server: String,
    keys: u64,
    elements: u64,
    /// Resident bytes of an element, and bytes of the arguments that were sent for it.
    resident_bytes: f64,
    own_bytes: f64,
}

/// Measures all shapes; `divisor` makes them smaller.
/// [`Error`] if a server does not come up or to rest, or refuses something.
pub(crate) fn measure(
    recipes: &[Recipe],
    cpus: CpuArgs,
    memory_mib: u64,
    divisor: u64,
) -> Result<Value, Error> {
    let mut rows = Vec::new();
    for (name, line, elements, value_bytes, copies) in SHAPES {
        let large = if copies == 1 { divisor } else { 1 };
        let shape = Shape {
            elements: elements / large,
            value_bytes,
            copies: (copies / divisor).max(1),
        };
        let request = Request::parse(line);
        for recipe in recipes {
            let mut it = Contestant::start(recipe, cpus, memory_mib)?;
            it.server.rest(now_ns() + REST_NS)?;
            let before = it.server.rss_bytes()?;
            request.fill(&shape, &mut it.connection)?;
            if divisor == 1 {
                std::thread::sleep(SETTLE);
            }
            it.server.rest(now_ns() + REST_NS)?;
            let grown = it.server.rss_bytes()?.saturating_sub(before);
            let resident_bytes = grown as f64 / shape.all() as f64;
            eprintln!("{name:26} {:18} {resident_bytes:6.1} B an element", it.name);
            rows.push(Row {
                shape: name,
                server: it.name,
                keys: shape.copies,
                elements: shape.elements,
                resident_bytes,
                own_bytes: request.own_bytes(&shape),
            });
        }
    }
    Ok(json!(rows))
}
