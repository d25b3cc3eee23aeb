//! `cellar-bench threads`: do inserts fall as threads are added?
//!
//! The measurement of S2, "memcached hash optimisation": servers with one thread and with more
//! under a YCSB-like load. 48 connections insert new records and then read them with Zipf
//! popularity: once as many as in the source, for the latency of each operation; and fewer in
//! rounds, in which all combinations of servers and threads take turns. Each gets a fresh server.
//!
//! Server threads and load share the machine's processors, unbound, so throughput by the clock on
//! the wall says what the machine gives. What sharing costs shows one server with more threads
//! beside as many servers with one thread each, by their processor time. Each thread of the load
//! has connections to every server, so that its requests arrive in as small batches as with one
//! server.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::{Measurement, both};
use crate::peers::{PeerArgs, some};
use crate::spread::short;
use cellar_load::{
    Drive, Error, Ingredients, Keys, Limit, Plan, Recipe, Records, Server, Wire, load, parse_count,
};

/// Options of `cellar-bench threads`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ThreadsArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Memory of each server in MiB
    #[arg(long, default_value_t = 2048)]
    memory_mib: u64,
    /// Records to insert where it is the source's load
    #[arg(long, default_value = "5M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "20k"))]
    records: u64,
    /// Reads after these inserts
    #[arg(long, default_value = "20M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "20k"))]
    reads: u64,
    /// Records to insert in each round, and reads after them
    #[arg(long, default_value = "500k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "20k"))]
    round_records: u64,
    /// Client connections, of all servers together
    #[arg(long, default_value_t = 48)]
    connections: usize,
    /// Threads of the load generator
    #[arg(long, default_value_t = 2)]
    load_threads: usize,
    /// Numbers of server threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    #[arg(default_value_if("quick", "true", "1,2"))]
    threads: Vec<usize>,
    /// Length of the keys
    #[arg(long, default_value_t = 20)]
    key_bytes: usize,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 7)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    /// How often the source's load runs
    #[arg(long, default_value_t = 1)]
    full_rounds: usize,
}

/// Servers with so many threads each, together under one load.
struct ThreadsRow<'r> {
    recipe: &'r Recipe,
    is_floor: bool,
    servers: usize,
    threads: usize,
    version: String,
    /// Round by round.
    inserts: Vec<Value>,
    reads: Vec<Value>,
}

impl Measurement for ThreadsArgs {
    fn measure(&self) -> Result<Value, Error> {
        let args = self;
        if args.threads.is_empty() || args.threads.contains(&0) {
            return Err(Error::Usage("--threads is at least 1".to_owned()));
        }
        let floor = Recipe::echo(Wire::Memcached, args.key_bytes, args.value_bytes)?;
        let recipes = some(args.peers.all(Wire::Memcached)?)?;
        let cases = || recipes.iter().map(|recipe| (recipe, false));
        let alone = args.threads.iter().map(|&threads| (1, threads));
        let apart = args.threads.iter().filter(|&&threads| threads > 1);
        let apart = apart.map(|&servers| (servers, 1));
        let (rounds, records, reads) = (args.full_rounds, args.records, args.reads);
        let full = args.run(cases(), alone.clone(), rounds, records, reads)?;
        let all = cases().chain([(&floor, true)]);
        let few = args.round_records;
        let rows = args.run(all, alone.chain(apart), args.rounds, few, few)?;
        Ok(json!({ "full": full, "rows": rows }))
    }
}

impl ThreadsArgs {
    /// Rounds over all recipes in all shapes: how many servers, and threads of each.
    fn run<'r>(
        &self,
        recipes: impl Iterator<Item = (&'r Recipe, bool)> + Clone,
        shapes: impl Iterator<Item = (usize, usize)>,
        rounds: usize,
        records: u64,
        reads: u64,
    ) -> Result<Value, Error> {
        let rows = shapes.flat_map(|(servers, threads)| {
            recipes.clone().map(move |(recipe, is_floor)| ThreadsRow {
                recipe,
                is_floor,
                servers,
                threads,
                version: String::new(),
                inserts: Vec::new(),
                reads: Vec::new(),
            })
        });
        let mut rows: Vec<ThreadsRow<'_>> = rows.collect();
        for round in 0..rounds {
            eprintln!("round {} of {rounds}, {records} records", round + 1);
            for row in &mut rows {
                self.round(row, round, records, reads)?;
            }
        }
        rows.retain(|row| !row.reads.is_empty());
        let rows = rows.iter().map(|row| {
            json!({
                "server": row.recipe.name,
                "version": row.version,
                "is_floor": row.is_floor,
                "servers": row.servers,
                "threads": row.threads,
                "inserts": row.inserts,
                "reads": row.reads,
            })
        });
        Ok(rows.collect())
    }

    /// One round of one row: fresh servers, all inserts but for the floor, then the reads.
    fn round(
        &self,
        row: &mut ThreadsRow<'_>,
        round: usize,
        records: u64,
        reads: u64,
    ) -> Result<(), Error> {
        let with = Ingredients {
            threads: row.threads,
            ..Ingredients::of(self.memory_mib)
        };
        let servers = (0..row.servers).map(|_| row.recipe.start(with));
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let plan = self.reads_of(&servers, records, reads, round as u64)?;
        if !row.is_floor {
            row.version = servers[0].version()?;
            let inserts = Plan {
                keys: Keys::Each,
                get_share: 0.0,
                ..plan.until(Limit::Requests(plan.records.keys()))
            };
            row.inserts.push(run(&inserts)?);
        }
        row.reads.push(run(&plan)?);
        let last = |all: &[Value]| {
            short(
                all.last()
                    .and_then(|it| it["per_s"].as_f64())
                    .unwrap_or(0.0),
            )
        };
        let (inserts, reads) = (last(&row.inserts), last(&row.reads));
        eprintln!(
            "{:12} {} x {} threads: {inserts:>7} inserts/s, {reads:>7} reads/s",
            row.recipe.name, row.servers, row.threads,
        );
        Ok(())
    }

    /// The reads that all servers get together, each those of its own records.
    fn reads_of(
        &self,
        servers: &[Server],
        records: u64,
        reads: u64,
        seed: u64,
    ) -> Result<Plan, Error> {
        let records = Records::new(records, self.key_bytes, self.value_bytes)?;
        let others = servers[1..].iter();
        let drive = Drive {
            others: others.map(|it| (it.address().clone(), it.pid())).collect(),
            ..servers[0].drive(self.connections, Limit::Requests(reads))
        };
        Ok(Plan {
            threads: self.load_threads,
            seed,
            ..Plan::gets(drive, records)
        })
    }
}

/// Runs a load; what counts of its report.
fn run(plan: &Plan) -> Result<Value, Error> {
    let report = load::run(plan)?;
    let others = json!({
        "per_s": report.throughput_per_s,
        "server_cpu_us": report.cpu_us(),
        "misses": report.get.misses,
        "errors": report.errors,
    });
    Ok(both(report.latency, others))
}
