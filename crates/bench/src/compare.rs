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

use crate::measurement::Measurement;
use crate::peers::{CpuArgs, PeerArgs, some};
use crate::spread::Spread;
use cellar_load::address::Address;
use cellar_load::clock::nanoseconds;
use cellar_load::drive::{Drive, Limit};
use cellar_load::error::Error;
use cellar_load::load;
use cellar_load::plan::{Keys, Plan};
use cellar_load::popularity::Popularity;
use cellar_load::process::{Ingredients, Recipe, Server};
use cellar_load::quantity::{ByteRange, parse_count};
use cellar_load::record::Records;
use cellar_load::report::Report;
use cellar_load::wire::Wire;

/// Key length of all rows but the memory one.
const KEY_BYTES: usize = 16;
/// Each cell runs so long before it is measured.
const WARM_UP_NS: u64 = 200_000_000;
/// Values read back before anything is timed.
const VERIFY_REQUESTS: u64 = 100_000;
const QUICK_ROUNDS: usize = 2;
const QUICK_SECONDS: f64 = 0.5;
const QUICK_MEMORY_ITEMS: u64 = 1_000_000;

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
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2.0)]
    #[serde(rename = "seconds_per_measurement")]
    seconds: f64,
    /// Two rounds of half a second and a smaller memory row: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
    /// Different keys
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    keys: u64,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Connections
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Items of the memory row; 0 leaves it out
    #[arg(long, default_value = "4M", value_parser = parse_count)]
    memory_items: u64,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestKind {
    name: &'static str,
    is_get: bool,
    depth: usize,
}

const ROWS: [RequestKind; 4] = [
    RequestKind {
        name: "get, depth 1",
        is_get: true,
        depth: 1,
    },
    RequestKind {
        name: "set, depth 1",
        is_get: false,
        depth: 1,
    },
    RequestKind {
        name: "get, depth 32",
        is_get: true,
        depth: 32,
    },
    RequestKind {
        name: "set, depth 32",
        is_get: false,
        depth: 32,
    },
];

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    #[serde(flatten)]
    args: CompareArgs,
    key_bytes: usize,
    distribution: String,
    rows: Vec<RowResult>,
    memory: Vec<memory::ServerFootprint>,
}

/// One row of the table for one server.
#[derive(Debug, Serialize)]
struct RowResult {
    request: String,
    depth: usize,
    server: String,
    version: String,
    protocol: &'static str,
    throughput_per_s: Spread,
    latency_us_p50: Spread,
    latency_us_p99: Spread,
    latency_us_p99_9: Spread,
    server_cpu_us_per_request: Spread,
    /// The same, divided by the echo floor's of the same round and depth.
    server_cpu_ratio_to_floor: Spread,
    misses: u64,
    errors: u64,
}

/// A server that takes part.
struct Contestant {
    name: String,
    version: String,
    is_floor: bool,
    wire: Wire,
    server: Server,
}

impl Contestant {
    /// Whether this floor's replies are like those over `wire`.
    fn is_of(&self, wire: Wire) -> bool {
        (self.wire == Wire::Http) == (wire == Wire::Http)
    }
}

impl Measurement for CompareArgs {
    type Outcome = Comparison;

    fn measure(&self) -> Result<Comparison, Error> {
        let args = self.settled();
        let mut recipes = Vec::new();
        for wire in [Wire::Memcached, Wire::Resp, Wire::Http] {
            recipes.extend(args.peers.cellar.recipe(wire)?);
            recipes.extend(args.peers.of(wire));
        }
        let recipes = some(recipes)?;
        let contestants = args.start(&recipes)?;
        for contestant in contestants.iter().filter(|contestant| !contestant.is_floor) {
            args.fill(contestant)?;
        }
        let reports = args.measure(&contestants)?;
        let rows = summarize(&contestants, &reports);
        // Ended before the memory row starts its own, which need the memory.
        drop(contestants);
        let memory = memory::measure(&args, &recipes)?;
        Ok(Comparison {
            key_bytes: KEY_BYTES,
            distribution: Popularity::Zipf(0.99).to_string(),
            args,
            rows,
            memory,
        })
    }
}

impl CompareArgs {
    /// The options with `--quick` applied and the processors checked.
    fn settled(&self) -> CompareArgs {
        let mut args = self.clone();
        if args.quick {
            args.rounds = QUICK_ROUNDS;
            args.seconds = QUICK_SECONDS;
            args.memory_items = args.memory_items.min(QUICK_MEMORY_ITEMS);
        }
        args.rounds = args.rounds.max(1);
        args.cpus = args.cpus.settled();
        args
    }

    fn start(&self, recipes: &[Recipe]) -> Result<Vec<Contestant>, Error> {
        let with = Ingredients {
            memory_mib: self.memory_mib,
            threads: 1,
            cpu: Some(self.cpus.server_cpu),
        };
        let mut contestants = Vec::new();
        for wire in [Wire::Memcached, Wire::Http] {
            let floor = Recipe::echo(wire, KEY_BYTES, self.value_bytes)?;
            contestants.push(Contestant {
                name: floor.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                is_floor: true,
                wire,
                server: floor.start(with)?,
            });
        }
        for recipe in recipes {
            let server = recipe.start(with)?;
            let (name, version) = (recipe.name.clone(), server.version()?);
            eprintln!("{name} {version} listens on {}", server.address());
            contestants.push(Contestant {
                name,
                version,
                is_floor: false,
                wire: recipe.wire,
                server,
            });
        }
        Ok(contestants)
    }

    /// Stores all keys and reads some back, checked.
    fn fill(&self, contestant: &Contestant) -> Result<(), Error> {
        let mut plan = self.plan(contestant.wire, contestant.server.address(), ROWS[2])?;
        let wrong = |what: String| Err(Error::Wrong(format!("{}: {what}", contestant.name)));
        let fill = load::run(&plan.fill())?;
        if fill.set.stored != self.keys {
            let first = fill.first_error.unwrap_or_default();
            return wrong(format!(
                "{} of {} stored; {first}",
                fill.set.stored, self.keys
            ));
        }
        plan.drive.limit = Limit::Requests(VERIFY_REQUESTS);
        plan.keys = Keys::Drawn(Popularity::Uniform);
        plan.verify = true;
        let check = load::run(&plan)?;
        if check.mismatches + check.get.misses + check.errors > 0 {
            return wrong(format!(
                "of {VERIFY_REQUESTS} values read back {} are wrong and {} are missing",
                check.mismatches, check.get.misses
            ));
        }
        Ok(())
    }

    fn plan(&self, wire: Wire, target: &Address, row: RequestKind) -> Result<Plan, Error> {
        let value_bytes = ByteRange::fixed(self.value_bytes);
        let records = Records::new(self.keys, KEY_BYTES, value_bytes)?;
        let limit = Limit::Nanoseconds(nanoseconds(self.seconds)?);
        let drive = Drive {
            depth: row.depth,
            cpus: vec![self.cpus.load_cpu],
            ..Drive::new(wire, target, self.connections, limit)
        };
        let mut plan = Plan::gets(drive, records);
        plan.get_share = if row.is_get { 1.0 } else { 0.0 };
        Ok(plan)
    }

    /// All reports, by row, server and round; none for a set of the floor.
    fn measure(&self, contestants: &[Contestant]) -> Result<Vec<Vec<Vec<Report>>>, Error> {
        let mut reports = vec![vec![Vec::new(); contestants.len()]; ROWS.len()];
        for round in 0..self.rounds {
            for (row, row_reports) in ROWS.iter().zip(&mut reports) {
                for (contestant, cell) in contestants.iter().zip(row_reports) {
                    if contestant.is_floor && !row.is_get {
                        continue;
                    }
                    let mut plan = self.plan(contestant.wire, contestant.server.address(), *row)?;
                    plan.seed = round as u64 + 1;
                    load::run(&plan.until(Limit::Nanoseconds(WARM_UP_NS)))?;
                    plan.drive.server_pid = Some(contestant.server.pid());
                    let report = load::run(&plan)?;
                    eprintln!(
                        "round {} of {}: {:14} {:12} {:8.3} us/request",
                        round + 1,
                        self.rounds,
                        row.name,
                        contestant.name,
                        report.cpu_us(),
                    );
                    cell.push(report);
                }
            }
        }
        Ok(reports)
    }
}

/// The figures of every row and server over the rounds.
fn summarize(contestants: &[Contestant], reports: &[Vec<Vec<Report>>]) -> Vec<RowResult> {
    let mut results = Vec::new();
    for (row, row_reports) in ROWS.iter().zip(reports) {
        let floor_row = ROWS
            .iter()
            .position(|other| other.is_get && other.depth == row.depth);
        for (contestant, cell) in contestants.iter().zip(row_reports) {
            let floor_at = contestants
                .iter()
                .position(|floor| floor.is_floor && floor.is_of(contestant.wire));
            let floor: &[Report] = match (floor_row, floor_at) {
                (Some(row), Some(at)) => &reports[row][at],
                _ => &[],
            };
            if !cell.is_empty() {
                results.push(summarize_cell(*row, contestant, cell, floor));
            }
        }
    }
    results
}

fn summarize_cell(
    row: RequestKind,
    contestant: &Contestant,
    cell: &[Report],
    floor: &[Report],
) -> RowResult {
    let spread = |figure: fn(&Report) -> f64| Spread::over(cell, figure);
    let ratios = cell
        .iter()
        .zip(floor)
        .map(|(own, floor)| own.cpu_us() / floor.cpu_us());
    RowResult {
        request: row.name.to_owned(),
        depth: row.depth,
        server: contestant.name.clone(),
        version: contestant.version.clone(),
        protocol: contestant.wire.name(),
        throughput_per_s: spread(|report| report.throughput_per_s),
        latency_us_p50: spread(|report| report.latency.latency_us_p50),
        latency_us_p99: spread(|report| report.latency.latency_us_p99),
        latency_us_p99_9: spread(|report| report.latency.latency_us_p99_9),
        server_cpu_us_per_request: spread(Report::cpu_us),
        server_cpu_ratio_to_floor: Spread::of(ratios.collect()),
        misses: cell.iter().map(|report| report.get.misses).sum(),
        errors: cell.iter().map(|report| report.errors).sum(),
    }
}
