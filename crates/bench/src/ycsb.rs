//! `cellar-bench ycsb`: do inserts fall as threads are added?
//!
//! The measurement of S2, "memcached hash optimisation": a YCSB-like load of 48 client connections
//! that inserts new records and then reads them with Zipf popularity, against the same server with
//! one thread and with more. Each combination gets a fresh server, and rounds alternate over all.
//!
//! Server threads and load share the machine's processors, unbound. Throughput per wall second
//! therefore says what the machine gives; throughput per second of server processor time is what
//! can be compared between thread counts when there are too few processors for all.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::load::{self, Keys, Limit, Plan, Report};
use crate::machine::Setting;
use crate::output::write_json;
use crate::peers::PeerArgs;
use crate::popularity::Popularity;
use crate::process::{Ingredients, Recipe};
use crate::quantity::{ByteRange, TtlMix, parse_count};
use crate::record::Records;
use crate::spread::{Spread, short};
use crate::wire::Wire;

const ZIPF_EXPONENT: f64 = 0.99;
const QUICK_ROUNDS: usize = 1;
const QUICK_RECORDS: u64 = 200_000;

/// What the source found on a 4-core PC with 48 client threads.
const SOURCE: &str = "The source (4-core PC, 48 client threads): original memcached 109 k inserts\
    /s on 1 thread, 65 k on 8;\nits own version 94 k on 8; reads 119 k/s per client.";

/// Options of `cellar-bench ycsb`.
#[derive(Args, Clone, Debug)]
pub struct YcsbArgs {
    #[command(flatten)]
    peers: PeerArgs,
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
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One round of 200 k records: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
    /// Writes all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Deserialize, Serialize)]
struct Outcome {
    setting: Setting,
    rounds: usize,
    records: u64,
    reads: u64,
    connections: usize,
    depth: usize,
    load_threads: usize,
    key_bytes: usize,
    value_bytes: usize,
    rows: Vec<Row>,
}

/// One server with one number of threads.
#[derive(Debug, Deserialize, Serialize)]
struct Row {
    server: String,
    version: String,
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
    threads: usize,
    version: String,
    inserts: Vec<Report>,
    reads: Vec<Report>,
}

/// Runs the measurement and prints its table.
///
/// # Errors
/// [`Error`] if a server does not start, or a load cannot be run to its end.
pub fn command(args: &YcsbArgs) -> Result<(), Error> {
    let mut args = args.clone();
    if args.quick {
        args.rounds = QUICK_ROUNDS;
        args.records = args.records.min(QUICK_RECORDS);
        args.reads = args.reads.min(QUICK_RECORDS);
    }
    args.rounds = args.rounds.max(1);
    let mut cases = Vec::new();
    for recipe in args.peers.recipes()? {
        for &threads in &args.threads {
            let (recipe, version) = (recipe.clone(), String::new());
            cases.push(Case {
                recipe,
                threads,
                version,
                inserts: vec![],
                reads: vec![],
            });
        }
    }
    for round in 0..args.rounds {
        for case in &mut cases {
            args.run(case, round)?;
        }
    }
    let outcome = Outcome {
        setting: Setting::here(),
        rounds: args.rounds,
        records: args.records,
        reads: args.reads,
        connections: args.connections,
        depth: args.depth,
        load_threads: args.load_threads,
        key_bytes: args.key_bytes,
        value_bytes: args.value_bytes,
        rows: cases.iter().map(Case::row).collect(),
    };
    print!("{}", render(&outcome));
    write_json(args.json.as_deref(), &outcome)
}

impl YcsbArgs {
    /// One round of one case: a fresh server, all inserts, then the reads.
    fn run(&self, case: &mut Case, round: usize) -> Result<(), Error> {
        let with = Ingredients {
            memory_mib: self.peers.memory_mib,
            threads: case.threads,
            cpu: None,
        };
        let server = case.recipe.start(with)?;
        case.version = server.version()?;
        let value_bytes = ByteRange::fixed(self.value_bytes);
        let records = Records::new(self.records, self.key_bytes, value_bytes);
        let inserts = Plan {
            wire: Wire::Memcached,
            target: server.address().clone(),
            connections: self.connections,
            threads: self.load_threads,
            depth: self.depth,
            records: records.map_err(Error::Usage)?,
            keys: Keys::Each,
            get_share: 0.0,
            ttl: TtlMix::unlimited(),
            limit: Limit::Requests(self.records),
            rate_per_s: None,
            verify: false,
            seed: round as u64 + 1,
            cpus: Vec::new(),
            server_pid: Some(server.pid()),
            progress: false,
        };
        let reads = Plan {
            keys: Keys::Drawn(Popularity::Zipf(ZIPF_EXPONENT)),
            get_share: 1.0,
            limit: Limit::Requests(self.reads),
            ..inserts.clone()
        };
        let (inserts, reads) = (load::run(&inserts)?, load::run(&reads)?);
        eprintln!(
            "round {} of {}: {:12} {} threads: {:>7} inserts/s, {:>7} reads/s",
            round + 1,
            self.rounds,
            case.recipe.name,
            case.threads,
            short(inserts.throughput_per_s),
            short(reads.throughput_per_s),
        );
        case.inserts.push(inserts);
        case.reads.push(reads);
        server.stop();
        Ok(())
    }
}

impl Case {
    fn row(&self) -> Row {
        let spread = |reports: &[Report], figure: fn(&Report) -> f64| {
            Spread::of(reports.iter().map(figure).collect())
        };
        let per_cpu_s = |report: &Report| {
            report
                .server_cpu
                .map_or(0.0, |cpu| cpu.requests_per_server_cpu_s)
        };
        let both = || self.inserts.iter().chain(&self.reads);
        Row {
            server: self.recipe.name.clone(),
            version: self.version.clone(),
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

fn render(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = render_table(outcome, &mut text);
    let _ = render_verdicts(outcome, &mut text);
    text
}

fn render_table(outcome: &Outcome, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "{} new records of {} + {} B, then {} zipf:{ZIPF_EXPONENT} reads, {} connections, depth \
         {}; medians of {} rounds.\nServer threads and load share {} processors: compare thread \
         counts per server CPU second.\n",
        outcome.records,
        outcome.key_bytes,
        outcome.value_bytes,
        outcome.reads,
        outcome.connections,
        outcome.depth,
        outcome.rounds,
        outcome.setting.cpus,
    )?;
    writeln!(
        text,
        "| server | threads | inserts /s | reads /s | CPU us/insert | CPU us/read \
         | inserts per server CPU s | reads per server CPU s |\n|---|---|---|---|---|---|---|---|"
    )?;
    for row in &outcome.rows {
        writeln!(
            text,
            "| {} {} | {} | {} | {} | {:.2} | {:.2} | {} | {} |",
            row.server,
            row.version,
            row.threads,
            short(row.inserts_per_s.median),
            short(row.reads_per_s.median),
            row.server_cpu_us_per_insert,
            row.server_cpu_us_per_read,
            short(row.inserts_per_server_cpu_s.median),
            short(row.reads_per_server_cpu_s.median),
        )?;
        if row.misses + row.errors > 0 {
            writeln!(
                text,
                "\n{}: {} misses, {} errors\n",
                row.server, row.misses, row.errors
            )?;
        }
    }
    writeln!(text)
}

/// What became of inserts with each number of threads, against the first of the same server.
fn render_verdicts(outcome: &Outcome, text: &mut String) -> std::fmt::Result {
    let mut base: Option<&Row> = None;
    for row in &outcome.rows {
        match base.filter(|base| base.server == row.server) {
            None => base = Some(row),
            Some(base) => writeln!(
                text,
                "{}, {} threads against {}: inserts x {:.2} per wall second, x {:.2} per server \
                 CPU second",
                row.server,
                row.threads,
                base.threads,
                row.inserts_per_s.median / base.inserts_per_s.median,
                row.inserts_per_server_cpu_s.median / base.inserts_per_server_cpu_s.median,
            )?,
        }
    }
    writeln!(text, "{SOURCE}\n\nFrom {}.", outcome.setting)
}
