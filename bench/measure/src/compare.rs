//! `cellar-bench compare`: Cellar over memcached's protocol, RESP and HTTP, memcached, redis-server
//! and other peers, and the echo floor under the same load.
//!
//! All servers run at once on one processor, the load on another; in each round every row visits
//! every server, so that a disturbance of the machine falls on all alike. The figure that counts is
//! the server's processor time per request as a ratio to the floor of the same round:
//! absolute times move from machine to machine. A set is compared with the floor
//! of a get of the same depth, and HTTP with a floor whose replies are HTTP's.
//!
//! Before anything is timed, each cache is filled and read back with verification.

mod memory;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::peers::{CpuArgs, PeerArgs, some};
use crate::spread::Spread;
use cellar_load::{
    Drive, Error, Keys, Limit, Plan, Popularity, Recipe, Records, Report, Server, Wire, load,
    nanoseconds, parse_count,
};

/// Key length of all rows but the memory one.
const KEY_BYTES: usize = 16;
/// Each cell runs so long before it is measured.
const WARM_UP_NS: u64 = 200_000_000;
/// Values read back before anything is timed.
const VERIFY_REQUESTS: u64 = 100_000;

/// Options of `cellar-bench compare`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Memory of each server in MiB
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    #[arg(default_value_if("quick", "true", "2"))]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2.0)]
    #[arg(default_value_if("quick", "true", "0.5"))]
    #[serde(rename = "seconds_per_measurement")]
    seconds: f64,
    /// Different keys
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    keys: u64,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Connections
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Items of the memory row
    #[arg(long, default_value = "4M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "1M"))]
    memory_items: u64,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestKind {
    is_get: bool,
    depth: usize,
}

const DEEP_GET: RequestKind = RequestKind::new(true, 32);
const ROWS: [RequestKind; 4] = [
    RequestKind::new(true, 1),
    RequestKind::new(false, 1),
    DEEP_GET,
    RequestKind::new(false, 32),
];

impl RequestKind {
    const fn new(is_get: bool, depth: usize) -> RequestKind {
        RequestKind { is_get, depth }
    }

    fn name(self) -> String {
        let what = if self.is_get { "get" } else { "set" };
        format!("{what}, depth {}", self.depth)
    }
}

/// A server that takes part.
struct Contestant {
    recipe: Recipe,
    version: String,
    is_floor: bool,
    server: Server,
    /// What was found, by row and round; nothing for a set of the floor.
    reports: [Vec<Report>; ROWS.len()],
}

impl Contestant {
    /// Whether this is the floor of requests over `wire`: its replies are like theirs.
    fn is_floor_of(&self, wire: Wire) -> bool {
        self.is_floor && (self.recipe.wire == Wire::Http) == (wire == Wire::Http)
    }
}

impl Measurement for CompareArgs {
    fn measure(&self) -> Result<Value, Error> {
        let mut recipes = Vec::new();
        for wire in [Wire::Memcached, Wire::Resp, Wire::Http] {
            recipes.extend(self.peers.all(wire)?);
        }
        let recipes = some(recipes)?;
        let mut contestants = self.start(&recipes)?;
        for contestant in contestants.iter().filter(|it| !it.is_floor) {
            self.fill(contestant)?;
        }
        self.ask(&mut contestants)?;
        let rows = summarize(&contestants);
        // Ended before the memory row starts its own, which need the memory.
        drop(contestants);
        Ok(json!({
            "key_bytes": KEY_BYTES,
            "distribution": Popularity::Zipf(0.99).to_string(),
            "rows": rows,
            "memory": memory::measure(self, &recipes)?,
        }))
    }
}

impl CompareArgs {
    fn start(&self, recipes: &[Recipe]) -> Result<Vec<Contestant>, Error> {
        let with = self.cpus.serving(self.memory_mib);
        let contestant = |recipe: Recipe, is_floor| {
            let server = recipe.start(with)?;
            let version = match is_floor {
                true => env!("CARGO_PKG_VERSION").to_owned(),
                false => server.version()?,
            };
            eprintln!("{} {version} listens on {}", recipe.name, server.address());
            Ok(Contestant {
                recipe,
                version,
                is_floor,
                server,
                reports: Default::default(),
            })
        };
        let floors = [Wire::Memcached, Wire::Http];
        let floors = floors.map(|wire| {
            let floor = Recipe::echo(wire, KEY_BYTES, self.value_bytes)?;
            contestant(floor, true)
        });
        let others = recipes
            .iter()
            .map(|recipe| contestant(recipe.clone(), false));
        floors.into_iter().chain(others).collect()
    }

    /// Stores all keys and reads some back, checked.
    fn fill(&self, contestant: &Contestant) -> Result<(), Error> {
        let mut plan = self.plan(&contestant.server, DEEP_GET)?;
        load::fill(&contestant.recipe.name, &plan)?;
        plan.drive.limit = Limit::Requests(VERIFY_REQUESTS);
        plan.keys = Keys::Drawn(Popularity::Uniform);
        plan.verify = true;
        let check = load::run(&plan)?;
        if check.mismatches + check.get.misses + check.errors > 0 {
            return Err(Error::Wrong(format!(
                "{}: of {VERIFY_REQUESTS} values read back {} are wrong and {} are missing",
                contestant.recipe.name, check.mismatches, check.get.misses
            )));
        }
        Ok(())
    }

    fn plan(&self, server: &Server, row: RequestKind) -> Result<Plan, Error> {
        let records = Records::new(self.keys, KEY_BYTES, self.value_bytes)?;
        let limit = Limit::Nanoseconds(nanoseconds(self.seconds)?);
        let drive = Drive {
            depth: row.depth,
            cpus: vec![self.cpus.load_cpu],
            ..server.drive(self.connections, limit)
        };
        let mut plan = Plan::gets(drive, records);
        plan.get_share = if row.is_get { 1.0 } else { 0.0 };
        Ok(plan)
    }

    /// In each round each row visits every server.
    fn ask(&self, contestants: &mut [Contestant]) -> Result<(), Error> {
        for round in 1..=self.rounds {
            for (at, row) in ROWS.into_iter().enumerate() {
                for it in contestants
                    .iter_mut()
                    .filter(|it| row.is_get || !it.is_floor)
                {
                    let mut plan = self.plan(&it.server, row)?;
                    plan.seed = round as u64;
                    load::run(&plan.until(Limit::Nanoseconds(WARM_UP_NS)))?;
                    let report = load::run(&plan)?;
                    let (rounds, name, us) = (self.rounds, &it.recipe.name, report.cpu_us());
                    let row = row.name();
                    eprintln!("round {round} of {rounds}: {row:14} {name:12} {us:8.3} us/request");
                    it.reports[at].push(report);
                }
            }
        }
        Ok(())
    }
}

/// The figures of every row and server over the rounds; a floor is that of a get as deep.
fn summarize(contestants: &[Contestant]) -> Vec<Value> {
    let mut results = Vec::new();
    for (at, row) in ROWS.into_iter().enumerate() {
        let get = ROWS
            .iter()
            .position(|it| it.is_get && it.depth == row.depth);
        for contestant in contestants.iter().filter(|it| !it.reports[at].is_empty()) {
            let wire = contestant.recipe.wire;
            let floor = contestants.iter().find(|it| it.is_floor_of(wire));
            let floor = floor
                .zip(get)
                .map_or(&[][..], |(floor, get)| &floor.reports[get]);
            let cell = &contestant.reports[at];
            let ratios = cell.iter().zip(floor);
            let ratios = ratios.map(|(own, floor)| own.cpu_us() / floor.cpu_us());
            results.push(json!({
                "request": row.name(),
                "depth": row.depth,
                "server": contestant.recipe.name,
                "version": contestant.version,
                "protocol": wire.name(),
                "throughput_per_s": Spread::over(cell, |it| it.throughput_per_s),
                "latency_us_p50": Spread::over(cell, |it| it.latency.latency_us_p50),
                "latency_us_p99": Spread::over(cell, |it| it.latency.latency_us_p99),
                "latency_us_p99_9": Spread::over(cell, |it| it.latency.latency_us_p99_9),
                "server_cpu_us_per_request": Spread::over(cell, Report::cpu_us),
                // By that of the same round and depth.
                "server_cpu_ratio_to_floor": Spread::of(ratios.collect()),
                "misses": cell.iter().map(|it| it.get.misses).sum::<u64>(),
                "errors": cell.iter().map(|it| it.errors).sum::<u64>(),
            }));
        }
    }
    results
}
