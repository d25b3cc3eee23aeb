//! The memory row: how many bytes of the server's memory an item takes over its key and value.
//!
//! Counted as growth of resident memory from the freshly started server to all items stored with a
//! time to live, connections included; the absolute sizes are reported beside it, because a server
//! that touches its memory ahead shows little growth. All items must still be there afterwards.

use serde_json::{Value, json};

use super::CompareArgs;
use crate::footprint::overhead_bytes;
use cellar_load::{Error, Keys, Limit, Plan, Popularity, Recipe, Records, TtlMix, Wire, load};

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 32;
/// Times to live differ, as real ones do, and outlast the measurement.
const TTL: &str = "30m..2h";
const PROBES: u64 = 200_000;

/// Fills every server in turn and measures it.
pub(super) fn measure(args: &CompareArgs, recipes: &[Recipe]) -> Result<Vec<Value>, Error> {
    recipes
        .iter()
        // The same engine once more.
        .filter(|recipe| recipe.name != "cellar over RESP" && recipe.wire != Wire::Http)
        .map(|recipe| measure_one(args, recipe))
        .collect()
}

fn measure_one(args: &CompareArgs, recipe: &Recipe) -> Result<Value, Error> {
    let items = args.memory_items;
    let server = recipe.start(args.cpus.serving(args.memory_mib))?;
    let version = server.version()?;
    let start_bytes = server.rss_bytes()?;
    let records = Records::new(items, KEY_BYTES, VALUE_BYTES);
    let row = args.plan(&server, super::DEEP_GET)?;
    let plan = Plan {
        records: records?,
        ttl: TTL.parse::<TtlMix>().map_err(Error::Usage)?,
        keys: Keys::Drawn(Popularity::Uniform),
        verify: true,
        ..row.until(Limit::Requests(PROBES))
    };
    load::fill(&recipe.name, &plan)?;
    let filled_bytes = server.rss_bytes()?;
    let probe = load::run(&plan)?;
    if probe.mismatches > 0 {
        return Err(Error::Wrong(format!(
            "{}: {} wrong values",
            recipe.name, probe.mismatches
        )));
    }
    let growth_bytes = filled_bytes.saturating_sub(start_bytes);
    let footprint = json!({
        "server": recipe.name,
        "version": version,
        "items": items,
        "key_bytes": KEY_BYTES,
        "value_bytes": VALUE_BYTES,
        "ttl_s": TTL,
        "server_rss_start_bytes": start_bytes,
        "server_rss_filled_bytes": filled_bytes,
        "overhead_per_item_bytes": overhead_bytes(growth_bytes, items, KEY_BYTES + VALUE_BYTES),
        // The share of the items that a read still finds.
        "hit_ratio": probe.get.hit_ratio,
    });
    eprintln!("{footprint}");
    Ok(footprint)
}
