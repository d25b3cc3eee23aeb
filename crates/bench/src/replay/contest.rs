//! `cellar-bench contest`: who misses least in the same resident memory, over the network?
//!
//! Servers run one after the other. Each is given the setting that makes the most of the memory:
//! the trace is replayed, the most memory the process ever had is read, and the setting is moved
//! until that peak just fits. So a server pays for its base, its index and its fragmentation, and
//! no server is judged by what it calls memory.

mod tune;
mod table;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use self::tune::Tuner;
use super::read::{self, Reading};
use super::remote::{self, Served};
use super::report;
use super::size::binary;
use super::trace::Trace;
use crate::error::Error;
use crate::machine::Setting;
use crate::output::PrintArgs;
use crate::peers::{CellarArgs, some, takes_part};
use crate::process::{Ingredients, Recipe};
use crate::quantity::parse_bytes;

/// How finely memory is set; memcached knows whole MiB only.
const STEP_BYTES: u64 = 64 << 10;
const MEMCACHED_STEP_BYTES: u64 = 1 << 20;
const QUICK_ROWS: usize = 100_000;
const QUICK_TRIALS: usize = 2;

/// Options of `cellar-bench contest`.
#[derive(Args, Clone, Debug)]
pub struct ContestArgs {
    /// Traces, as for replay; their TTLs are left out
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Most resident memory of a server's process, such as 32MiB,64MiB
    #[arg(long, value_name = "SIZES", value_delimiter = ',', required = true,
          value_parser = parse_bytes)]
    rss: Vec<u64>,
    #[command(flatten)]
    cellar: CellarArgs,
    /// memcached's program, or off
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    memcached: String,
    /// redis-server's program, or off
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    redis: String,
    /// Most replays to find a server's setting
    #[arg(long, default_value_t = 5)]
    trials: usize,
    /// Gives all values this length
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    value_bytes: Option<u32>,
    /// The first 100,000 requests and two trials: shows that it works, not who wins
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: PrintArgs,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
struct Contest {
    setting: Setting,
    results: Vec<Outcome>,
}

/// One server, trace and limit.
#[derive(Clone, Debug, Serialize)]
struct Outcome {
    trace: String,
    rss_limit_bytes: u64,
    server: String,
    version: String,
    /// False if the peak stayed above the limit at every setting that was tried; then this is the
    /// trial with the smallest peak.
    fits: bool,
    trials: usize,
    /// What the server was told.
    memory_bytes: u64,
    rss_end_bytes: u64,
    rss_peak_bytes: u64,
    requests: u64,
    hits: u64,
    misses: u64,
    miss_ratio: f64,
    refused: u64,
    ttl_left_out: bool,
}

/// A server that takes part.
struct Contestant {
    recipe: Recipe,
    /// How finely its memory can be set.
    step_bytes: u64,
}

/// One replay at one setting.
#[derive(Clone, Debug)]
struct Trial {
    version: String,
    served: Served,
    rss_end_bytes: u64,
    rss_peak_bytes: u64,
}

/// Runs the contest and prints its table.
///
/// # Errors
/// [`Error`] if a server does not start, a trace cannot be replayed, or a value was wrong.
pub fn command(args: &ContestArgs) -> Result<(), Error> {
    let contestants = args.contestants()?;
    let mut results = Vec::new();
    for path in &args.traces {
        let trace = args.trace(path)?;
        for &limit_bytes in &args.rss {
            for contestant in &contestants {
                results.push(args.tuned(contestant, &trace, limit_bytes)?);
            }
        }
    }
    let contest = Contest {
        setting: Setting::here(),
        results,
    };
    args.output.write_page(|| table::page(&contest))?;
    args.output.print(&contest, || table::render(&contest))
}

impl ContestArgs {
    fn contestants(&self) -> Result<Vec<Contestant>, Error> {
        let mut contestants = Vec::new();
        let mut add = |recipe, step_bytes| contestants.push(Contestant { recipe, step_bytes });
        if let Some(recipe) = self.cellar.recipe()? {
            add(recipe, STEP_BYTES);
        }
        if takes_part(&self.memcached) {
            add(Recipe::memcached(&self.memcached), MEMCACHED_STEP_BYTES);
        }
        if takes_part(&self.redis) {
            for policy in ["allkeys-lru", "allkeys-lfu"] {
                let recipe = Recipe::redis(&self.redis, &["--maxmemory-policy", policy]);
                add(recipe.named(&format!("redis-server {policy}")), STEP_BYTES);
            }
        }
        some(contestants)
    }

    fn trace(&self, path: &std::path::Path) -> Result<Trace, Error> {
        let reading = Reading {
            value_bytes: self.value_bytes,
            ..Reading::default()
        };
        let mut trace = read::read(path, &reading)?;
        if self.quick {
            trace.rows.truncate(QUICK_ROWS);
        }
        Ok(trace)
    }

    /// The best replay of a trace that a server can do below the limit.
    fn tuned(
        &self,
        contestant: &Contestant,
        trace: &Trace,
        limit_bytes: u64,
    ) -> Result<Outcome, Error> {
        let trials = if self.quick {
            QUICK_TRIALS
        } else {
            self.trials.max(1)
        };
        let mut tuner = Tuner::new(limit_bytes, contestant.step_bytes);
        let mut kept: Option<(u64, Trial)> = None;
        let mut done = 0;
        while let Some(memory_bytes) = tuner.next().filter(|_| done < trials) {
            let trial = contestant.replay(trace, memory_bytes)?;
            done += 1;
            eprintln!(
                "{} within {}: {} told {}: {} misses, peak {}",
                trace.name,
                binary(limit_bytes),
                contestant.recipe.name,
                binary(memory_bytes),
                trial.served.misses,
                binary(trial.rss_peak_bytes),
            );
            if tuner.learn(memory_bytes, trial.rss_peak_bytes) {
                kept = Some((memory_bytes, trial));
            }
        }
        let (memory_bytes, trial) = kept.expect("the first trial is kept");
        Ok(outcome(
            contestant,
            trace,
            limit_bytes,
            done,
            memory_bytes,
            trial,
        ))
    }
}

impl Contestant {
    /// Starts the server with this memory, replays and ends it.
    fn replay(&self, trace: &Trace, memory_bytes: u64) -> Result<Trial, Error> {
        let with = Ingredients {
            memory_mib: memory_bytes >> 20,
            threads: 1,
            cpu: None,
        };
        let server = self.recipe.with_memory(memory_bytes).start(with)?;
        let version = server.version()?;
        let served = remote::play(trace, server.wire(), server.address())?;
        let trial = Trial {
            version,
            served,
            rss_end_bytes: server.rss_bytes()?,
            rss_peak_bytes: server.rss_peak_bytes()?,
        };
        server.stop();
        Ok(trial)
    }
}

fn outcome(
    contestant: &Contestant,
    trace: &Trace,
    rss_limit_bytes: u64,
    trials: usize,
    memory_bytes: u64,
    trial: Trial,
) -> Outcome {
    let served = trial.served;
    Outcome {
        trace: trace.name.clone(),
        rss_limit_bytes,
        server: contestant.recipe.name.clone(),
        version: trial.version,
        fits: trial.rss_peak_bytes <= rss_limit_bytes,
        trials,
        memory_bytes,
        rss_end_bytes: trial.rss_end_bytes,
        rss_peak_bytes: trial.rss_peak_bytes,
        requests: served.requests,
        hits: served.hits,
        misses: served.misses,
        miss_ratio: report::share(served.misses, served.hits + served.misses),
        refused: served.refused,
        ttl_left_out: trace.has_ttl(),
    }
}
