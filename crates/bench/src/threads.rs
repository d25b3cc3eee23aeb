//! `cellar-bench threads`: do inserts fall as threads are added?
//!
//! The measurement of S2, "memcached hash optimisation": servers with one thread and with more
//! under a YCSB-like load. 48 connections insert new records and then read them with Zipf
//! popularity. Each combination gets a fresh server, and rounds alternate over all of them. The
//! echo floor takes part in the reads.
//!
//! Server threads and load share the machine's processors, unbound. Throughput per wall second
//! therefore says what the machine gives; throughput per second of server processor time is what
//! can be compared between thread counts when there are too few processors for all.

use clap::Args;
use serde::Serialize;

use crate::measurement::Measurement;
use crate::peers::{PeerArgs, some};
use crate::spread::{Spread, short};
use cellar_load::drive::{Drive, Limit};
use cellar_load::error::Error;
use cellar_load::load;
use cellar_load::plan::{Keys, Plan};
use cellar_load::process::{Ingredients, Recipe};
use cellar_load::quantity::{ByteRange, parse_count};
use cellar_load::record::Records;
use cellar_load::report::Report;
use cellar_load::wire::Wire;

const QUICK_RECORDS: u64 = 100_000;

/// Options of `cellar-bench threads`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ThreadsArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Memory of each server in MiB
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Records to insert
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    records: u64,
    /// Reads after the inserts
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    reads: u64,
    /// Client connections
    #[arg(long, default_value_t = 48)]
    connections: usize,
    /// Requests in flight per connection
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Threads of the load generator
    #[arg(long, default_value_t = 1)]
    load_threads: usize,
    /// Numbers of server threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Length of the keys
    #[arg(long, default_value_t = 20)]
    key_bytes: usize,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// One round of few records: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct ThreadsOutcome {
    #[serde(flatten)]
    args: ThreadsArgs,
    rows: Vec<YcsbResult>,
}

/// One server with one number of threads.
#[derive(Debug, Serialize)]
struct YcsbResult {
    server: String,
    version: String,
    is_floor: bool,
    threads: usize,
    inserts_per_s: Spread,
    reads_per_s: Spread,
    server_cpu_us_per_insert: Spread,
    server_cpu_us_per_read: Spread,
    inserts_per_server_cpu_s: Spread,
    reads_per_server_cpu_s: Spread,
    misses: u64,
    errors: u64,
}

/// One server with one number of threads, before the figures are added up.
struct Case {
    recipe: Recipe,
    is_floor: bool,
    threads: usize,
    version: String,
    inserts: Vec<Report>,
    reads: Vec<Report>,
}

impl Measurement for ThreadsArgs {
    type Outcome = ThreadsOutcome;

    fn measure(&self) -> Result<ThreadsOutcome, Error> {
        let args = self.settled()?;
        let floor = Recipe::echo(Wire::Memcached, args.key_bytes, args.value_bytes)?;
        let recipes = some(args.peers.all(Wire::Memcached)?)?;
        let mut cases = Vec::new();
        for &threads in &args.threads {
            cases.push(Case::new(&floor, threads, true));
            cases.extend(recipes.iter().map(|it| Case::new(it, threads, false)));
        }
        for round in 0..args.rounds {
            for case in &mut cases {
                args.run(case, round)?;
            }
        }
        let rows = cases.iter().map(Case::row).collect();
        Ok(ThreadsOutcome { args, rows })
    }
}

impl ThreadsArgs {
    /// The options with `--quick` applied and checked.
    fn settled(&self) -> Result<ThreadsArgs, Error> {
        let mut args = self.clone();
        if args.quick {
            args.rounds = 1;
            args.records = args.records.min(QUICK_RECORDS);
            args.reads = args.reads.min(QUICK_RECORDS);
        }
        args.rounds = args.rounds.max(1);
        if args.threads.is_empty() || args.threads.contains(&0) {
            return Err(Error::Usage("--threads is at least 1".to_owned()));
        }
        Ok(args)
    }

    /// One round of one case: a fresh server, all inserts but for the floor, then the reads.
    fn run(&self, case: &mut Case, round: usize) -> Result<(), Error> {
        let with = Ingredients {
            memory_mib: self.memory_mib,
            threads: case.threads,
            cpu: None,
        };
        let server = case.recipe.start(with)?;
        let value_bytes = ByteRange::fixed(self.value_bytes);
        let records = Records::new(self.records, self.key_bytes, value_bytes)?;
        let limit = Limit::Requests(self.reads);
        let drive = Drive {
            depth: self.depth,
            server_pid: Some(server.pid()),
            ..Drive::new(Wire::Memcached, server.address(), self.connections, limit)
        };
        let reads = Plan {
            threads: self.load_threads,
            seed: round as u64 + 1,
            ..Plan::gets(drive, records)
        };
        if !case.is_floor {
            case.version = server.version()?;
            let inserts = Plan {
                keys: Keys::Each,
                get_share: 0.0,
                ..reads.until(Limit::Requests(self.records))
            };
            case.inserts.push(load::run(&inserts)?);
        }
        case.reads.push(load::run(&reads)?);
        let last = |reports: &[Report]| reports.last().map_or(0.0, |it| it.throughput_per_s);
        eprintln!(
            "round {} of {}: {:12} {} threads: {:>7} inserts/s, {:>7} reads/s",
            round + 1,
            self.rounds,
            case.recipe.name,
            case.threads,
            short(last(&case.inserts)),
            short(last(&case.reads)),
        );
        Ok(())
    }
}

impl Case {
    fn new(recipe: &Recipe, threads: usize, is_floor: bool) -> Case {
        Case {
            recipe: recipe.clone(),
            is_floor,
            threads,
            version: String::new(),
            inserts: Vec::new(),
            reads: Vec::new(),
        }
    }

    fn row(&self) -> YcsbResult {
        let (inserts, reads) = (&self.inserts, &self.reads);
        let per_cpu_s = |it: &Report| {
            it.server_cpu
                .map_or(0.0, |cpu| cpu.requests_per_server_cpu_s)
        };
        let both = || inserts.iter().chain(reads);
        YcsbResult {
            server: self.recipe.name.clone(),
            version: self.version.clone(),
            is_floor: self.is_floor,
            threads: self.threads,
            inserts_per_s: Spread::over(inserts, |it| it.throughput_per_s),
            reads_per_s: Spread::over(reads, |it| it.throughput_per_s),
            server_cpu_us_per_insert: Spread::over(inserts, Report::cpu_us),
            server_cpu_us_per_read: Spread::over(reads, Report::cpu_us),
            inserts_per_server_cpu_s: Spread::over(inserts, per_cpu_s),
            reads_per_server_cpu_s: Spread::over(reads, per_cpu_s),
            misses: both().map(|it| it.get.misses).sum(),
            errors: both().map(|it| it.errors).sum(),
        }
    }
}
