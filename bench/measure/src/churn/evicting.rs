//! Evicting: stores at a fixed rate into a full cache, and into one with memory to spare.

use serde_json::{Value, json};

use super::ChurnArgs;
use cellar_load::{Drive, Error, Keys, Limit, Plan, Recipe, Records, load};

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
/// Bytes that fill a full cache, over its memory.
const FILL: u64 = 2;
/// Memory of a cache that does not fill, over that of one that does.
const ROOMY: u64 = 16;

/// All rounds of all servers, which take turns.
pub(super) fn measure(args: &ChurnArgs, recipes: &[Recipe]) -> Result<Value, Error> {
    let mut rows = Vec::new();
    for round in 0..args.rounds {
        for recipe in recipes {
            for is_full in [true, false] {
                rows.push(stores(args, recipe, round, is_full)?);
            }
        }
    }
    Ok(json!(rows))
}

fn stores(args: &ChurnArgs, recipe: &Recipe, round: usize, is_full: bool) -> Result<Value, Error> {
    let memory_mib = args.memory_mib * if is_full { 1 } else { ROOMY };
    let server = recipe.start(args.cpus.serving(memory_mib))?;
    let item_bytes = (KEY_BYTES + VALUE_BYTES) as u64;
    // As many in both, so that both have as much behind them.
    let filled = FILL * (args.memory_mib << 20) / item_bytes;
    let stored = args.stores * args.stores_s;
    let plan = Plan {
        keys: Keys::Each,
        get_share: 0.0,
        ..Plan::gets(
            Drive {
                rate_per_s: Some(args.stores as f64),
                cpus: vec![args.cpus.load_cpu],
                server_pid: Some(server.pid()),
                ..server.drive(args.connections, Limit::Requests(stored))
            },
            Records::new(stored, KEY_BYTES, VALUE_BYTES)?,
        )
    };
    let fill = Plan {
        // Keys of another length are other keys.
        records: Records::new(filled, KEY_BYTES + 1, VALUE_BYTES)?,
        ..plan.clone()
    };
    load::run(&fill.fill())?;
    let report = load::run(&plan)?;
    let name = &recipe.name;
    if report.errors > 0 {
        let refused = report.first_error.unwrap_or_default();
        return Err(Error::Wrong(format!(
            "{name}: a store was refused: {refused}"
        )));
    }
    let unsent = report.unsent_requests;
    if unsent > 0 {
        let held_up = format!("{name}: {unsent} stores were never sent; is the machine busy?");
        return Err(Error::Wrong(held_up));
    }
    let tail_us = report.set.latency.latency_us_p99_9;
    eprintln!("evicting, {name}, round {round}, full {is_full}: p99.9 {tail_us:.0} us");
    Ok(json!({
        "server": name,
        "version": server.version()?,
        "is_full": is_full,
        "latency": report.set.latency,
        "cpu_us": report.cpu_us(),
    }))
}
