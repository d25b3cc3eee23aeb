//! Servers under a YCSB-like load: 48 connections insert new records and then read them with Zipf
//! popularity, against the same server with one thread and with more.
//!
//! Each combination gets a fresh server, and rounds alternate over all of them. The echo floor
//! takes part in the reads.
//!
//! Server threads and load share the machine's processors, unbound. Throughput per wall second
//! therefore says what the machine gives; throughput per second of server processor time is what
//! can be compared between thread counts when there are too few processors for all.

use serde::Serialize;

use super::ThreadsArgs;
use crate::peers::some;
use crate::spread::{Spread, short};
use cellar_load::drive::{Drive, Limit};
use cellar_load::error::Error;
use cellar_load::load;
use cellar_load::plan::{Keys, Plan};
use cellar_load::process::{Ingredients, Recipe};
use cellar_load::quantity::ByteRange;
use cellar_load::record::Records;
use cellar_load::report::Report;
use cellar_load::wire::Wire;

/// Measures all servers with all numbers of threads.
pub(super) fn measure(args: &ThreadsArgs) -> Result<Vec<YcsbResult>, Error> {
    let floor = Recipe::echo(Wire::Memcached, args.key_bytes, args.value_bytes)?;
    let mut cases = Vec::new();
    let cellar = args.peers.cellar.recipe(Wire::Memcached)?;
    let recipes = cellar.into_iter().chain(args.peers.of(Wire::Memcached));
    let recipes = some(recipes.collect::<Vec<Recipe>>())?;
    for &threads in &args.threads {
        cases.push(Case::new(&floor, threads, true));
        let of_all = recipes
            .iter()
            .map(|recipe| Case::new(recipe, threads, false));
        cases.extend(of_all);
    }
    for round in 0..args.rounds {
        for case in &mut cases {
            args.run(case, round)?;
        }
    }
    Ok(cases.iter().map(Case::row).collect())
}

/// One server with one number of threads.
#[derive(Debug, Serialize)]
pub(super) struct YcsbResult {
    pub(super) server: String,
    pub(super) version: String,
    pub(super) is_floor: bool,
    pub(super) threads: usize,
    pub(super) inserts_per_s: Spread,
    pub(super) reads_per_s: Spread,
    pub(super) server_cpu_us_per_insert: Spread,
    pub(super) server_cpu_us_per_read: Spread,
    pub(super) inserts_per_server_cpu_s: Spread,
    pub(super) reads_per_server_cpu_s: Spread,
    pub(super) misses: u64,
    pub(super) errors: u64,
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

impl ThreadsArgs {
    /// One round of one case: a fresh server, all inserts but for the floor, then the reads.
    fn run(&self, case: &mut Case, round: usize) -> Result<(), Error> {
        let with = Ingredients {
            memory_mib: self.memory_mib,
            threads: case.threads,
            cpu: None,
        };
        let server = case.recipe.start(with)?;
        if !case.is_floor {
            case.version = server.version()?;
        }
        let value_bytes = ByteRange::fixed(self.value_bytes);
        let records = Records::new(self.records, self.key_bytes, value_bytes);
        let records = records.map_err(Error::Usage)?;
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
        let inserts = Plan {
            keys: Keys::Each,
            get_share: 0.0,
            ..reads.until(Limit::Requests(self.records))
        };
        if !case.is_floor {
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
        server.stop();
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
        let spread = |reports: &[Report], figure: fn(&Report) -> f64| {
            Spread::of(reports.iter().map(figure).collect())
        };
        let per_cpu_s = |report: &Report| {
            report
                .server_cpu
                .map_or(0.0, |cpu| cpu.requests_per_server_cpu_s)
        };
        let both = || self.inserts.iter().chain(&self.reads);
        YcsbResult {
            server: self.recipe.name.clone(),
            version: self.version.clone(),
            is_floor: self.is_floor,
            threads: self.threads,
            inserts_per_s: spread(&self.inserts, |report| report.throughput_per_s),
            reads_per_s: spread(&self.reads, |report| report.throughput_per_s),
            server_cpu_us_per_insert: spread(&self.inserts, Report::cpu_us),
            server_cpu_us_per_read: spread(&self.reads, Report::cpu_us),
            inserts_per_server_cpu_s: spread(&self.inserts, per_cpu_s),
            reads_per_server_cpu_s: spread(&self.reads, per_cpu_s),
            misses: both().map(|report| report.get.misses).sum(),
            errors: both().map(|report| report.errors).sum(),
        }
    }
}
