//! Sizes: a cache full of short values, in which longer ones are stored again and again.

use serde_json::{Value, json};

use super::ChurnArgs;
use crate::memory::client::Counter;
use cellar_load::{Error, NS_PER_S, Recipe, now_ns};

const SHORT_BYTES: usize = 1_000;
const LONG_BYTES: usize = 9_000;
/// Bytes of short values that are stored, over the memory.
const FILL: u64 = 2;

/// How many of the longer values one server has in the end.
pub(super) fn measure(args: &ChurnArgs, recipe: &Recipe) -> Result<Value, Error> {
    let server = recipe.start(args.cpus.serving(args.memory_mib))?;
    let mut client = Counter::connect(&server)?;
    let short = FILL * (args.memory_mib << 20) / SHORT_BYTES as u64;
    for number in 0..short {
        client.set(&format!("short:{number}"), 0, SHORT_BYTES)?;
    }
    client.finish()?;
    let key_of = |number: u64| format!("long:{number}");
    let until_ns = now_ns() + args.larger_s * NS_PER_S;
    let mut stored = 0;
    while stored < args.larger || now_ns() < until_ns {
        client.set(&key_of(stored % args.larger), 0, LONG_BYTES)?;
        stored += 1;
    }
    let refused = client.finish()?.refused;
    let mut reader = Counter::connect(&server)?;
    for number in 0..args.larger {
        reader.get(&key_of(number))?;
    }
    let there = reader.finish()?.items;
    eprintln!("sizes, {}: {there} of {}", recipe.name, args.larger);
    Ok(json!({
        "server": recipe.name,
        "version": server.version()?,
        "short_stored": short,
        "short_bytes": SHORT_BYTES,
        "long_bytes": LONG_BYTES,
        "stored": stored,
        "refused": refused,
        "there": there,
        "rss_bytes": server.rss_bytes()?,
    }))
}
