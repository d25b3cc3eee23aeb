//! `cellar-bench expiry`: what a mass expiry costs, and who holds memory for the dead.
//!
//! A server is filled with items that stay and items whose time is over in one and the same second.
//! A load of gets for the items that stay runs across that second at a fixed rate; before it, the
//! same load ran as long without any expiry. Each run has a fresh server on one processor, the load
//! on another; the servers take turns.
//!
//! Memory is watched in a run of its own, because asking a server for its figures ten times a
//! second would show in its latencies.

mod figures;
mod scene;

use std::process::Command;

use clap::Args;
use serde::Serialize;

use crate::measurement::Measurement;
use crate::peers::{CpuArgs, PeerArgs, some};
use crate::spread::Spread;
use cellar_load::error::Error;
use cellar_load::latency::LatencySummary;
use cellar_load::process::Recipe;
use cellar_load::quantity::parse_count;
use cellar_load::wire::Wire;
use figures::Figures;

const QUICK_ITEMS: u64 = 50_000;
const QUICK_DURING_S: u64 = 2;
const QUICK_REST_S: u64 = 4;
/// Share of the slowest server's throughput in a closed loop that the load asks for.
const RATE_SHARE: f64 = 0.5;

/// Options of `cellar-bench expiry`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ExpiryArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Settings of active-expire-effort, each a server of its own, of what is like redis-server
    #[arg(long, value_delimiter = ',', default_value = "1,10")]
    redis_efforts: Vec<u32>,
    /// Numbers of databases over which the items are spread, each with servers of its own; with
    /// more than one all are asked over the Redis protocol
    #[arg(long, value_delimiter = ',', default_value = "1")]
    databases: Vec<usize>,
    /// Items that stay, and are asked for
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    live: u64,
    /// Time to live of the items that stay, in seconds; 0 = unlimited
    #[arg(long, default_value_t = 86_400)]
    live_ttl_s: u32,
    /// Items whose time is over in the same second
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    dying: u64,
    /// Stores both kinds of items at the same time, so that the dead lie among the living; leaves
    /// out the load without any expiry
    #[arg(long)]
    mixed: bool,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Memory of each server in MiB; nothing may be evicted
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Connections of the load
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Gets per second [default: half of what the slowest server answers in a closed loop]
    #[arg(long, value_name = "PER_S", value_parser = parse_count)]
    rate: Option<u64>,
    /// Seconds of load before the moment
    #[arg(long, default_value_t = 5)]
    before_s: u64,
    /// Seconds of load after it
    #[arg(long, default_value_t = 10)]
    during_s: u64,
    /// Seconds that a filled server may take to come to rest before it is measured
    #[arg(long, default_value_t = 10)]
    rest_s: u64,
    /// Rounds of the latencies; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One short round over few items: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct ExpiryOutcome {
    #[serde(flatten)]
    args: ExpiryArgs,
    rate_per_s: u64,
    servers: Vec<ServerResult>,
}

/// One server over all its runs.
#[derive(Debug, Serialize)]
struct ServerResult {
    server: String,
    /// Databases over which the items are spread.
    databases: usize,
    version: String,
    memory: Watched,
    latency_us_p99_9_before: Spread,
    latency_us_p99_9_during: Spread,
    /// The second over the first, in each round.
    ratio: Spread,
    /// The worst half second after the moment over the time before it, p99.9.
    ratio_worst_slice: Spread,
    /// The same two times without any expiry between them.
    ratio_control: Option<Spread>,
    misses: u64,
    runs: Vec<RunLatencies>,
    /// p99.9 of all rounds together in each slice of the load.
    slices: Vec<Slice>,
}

/// A server that takes part.
struct ExpiryContender {
    recipe: Recipe,
    databases: usize,
}

impl ExpiryContender {
    fn new(mut recipe: Recipe, databases: usize) -> ExpiryContender {
        if databases > 1 {
            let suffix = format!(", {databases} databases");
            recipe = recipe.with(&suffix, &["--databases", &databases.to_string()]);
        }
        ExpiryContender { recipe, databases }
    }
}

/// Latencies in one run.
#[derive(Clone, Debug, Serialize)]
struct RunLatencies {
    before: LatencySummary,
    during: LatencySummary,
    worst_slice_us_p99_9: f64,
    /// The same two times without any expiry between them.
    control: Option<[LatencySummary; 2]>,
    misses: u64,
    #[serde(skip)]
    samples: Vec<scene::Timed>,
}

/// A short stretch of the load.
#[derive(Clone, Copy, Debug, Serialize)]
struct Slice {
    /// Its middle, in seconds after the first deadline.
    at_s: f64,
    latency_us_p99_9: f64,
    latency_us_max: f64,
}

/// The run in which memory was watched.
#[derive(Clone, Debug, Serialize)]
struct Watched {
    /// What an item that is to die takes, by the server's own figures.
    item_bytes: f64,
    before: Figures,
    points: Vec<MemorySample>,
    /// Seconds after the last deadline until 99 % of the dead were reclaimed.
    reclaimed_after_s: Option<f64>,
}

/// The server's memory at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
struct MemorySample {
    /// Seconds after the first deadline.
    at_s: f64,
    /// Items that are over and not reclaimed.
    dead_items: u64,
    /// What they take.
    dead_bytes: f64,
    #[serde(flatten)]
    figures: Figures,
}

impl Measurement for ExpiryArgs {
    type Outcome = ExpiryOutcome;

    fn measure(&self) -> Result<ExpiryOutcome, Error> {
        let args = self.settled()?;
        let contenders = args.contenders()?;
        let rate = match args.rate {
            Some(rate) => rate,
            None => scene::rate(&args, &contenders)?,
        };
        eprintln!("{rate} gets/s from each server");
        let mut watched = Vec::new();
        for contender in &contenders {
            watched.push(scene::watch(&args, contender, rate)?);
        }
        let mut runs: Vec<Vec<RunLatencies>> = vec![Vec::new(); contenders.len()];
        for round in 0..args.rounds {
            for (contender, runs) in contenders.iter().zip(&mut runs) {
                let run = scene::run(&args, contender, rate, round)?;
                eprintln!(
                    "round {} of {}: {:28} p99.9 {:8.1} us before, {:8.1} us during",
                    round + 1,
                    args.rounds,
                    contender.recipe.name,
                    run.before.latency_us_p99_9,
                    run.during.latency_us_p99_9,
                );
                runs.push(run);
            }
        }
        let servers = contenders.iter().zip(watched).zip(runs);
        let servers = servers.map(|((contender, (version, memory)), runs)| {
            summarize(contender, version, memory, runs)
        });
        Ok(ExpiryOutcome {
            servers: servers.collect(),
            args,
            rate_per_s: rate,
        })
    }
}

impl ExpiryArgs {
    /// The options with `--quick` applied and the processors checked.
    fn settled(&self) -> Result<ExpiryArgs, Error> {
        let mut args = self.clone();
        if args.quick {
            args.live = args.live.min(QUICK_ITEMS);
            args.dying = args.dying.min(QUICK_ITEMS);
            (args.before_s, args.during_s) = (1, QUICK_DURING_S);
            args.rest_s = args.rest_s.min(QUICK_REST_S);
            args.rounds = 1;
        }
        args.before_s = args.before_s.max(1);
        args.rounds = args.rounds.max(1);
        args.cpus = args.cpus.settled();
        let fits = |&databases: &usize| {
            let databases = databases as u64;
            databases > 0
                && args.live.is_multiple_of(databases)
                && args.dying.is_multiple_of(databases)
        };
        if !args.databases.iter().all(fits) {
            let what = "--live and --dying are multiples of each of --databases";
            return Err(Error::Usage(what.to_owned()));
        }
        Ok(args)
    }

    /// The servers for all numbers of databases, Cellar first of each.
    fn contenders(&self) -> Result<Vec<ExpiryContender>, Error> {
        let mut contenders = Vec::new();
        for &databases in &self.databases {
            let recipes = self.recipes(databases)?.into_iter();
            contenders.extend(recipes.map(|recipe| ExpiryContender::new(recipe, databases)));
        }
        some(contenders)
    }

    fn recipes(&self, databases: usize) -> Result<Vec<Recipe>, Error> {
        let mut recipes = Vec::new();
        if databases > 1 {
            let cellar = self.peers.cellar.recipe(Wire::Resp)?;
            recipes.extend(cellar.map(|cellar| cellar.named("cellar")));
        } else {
            if let Some(cellar) = self.peers.cellar.recipe(Wire::Memcached)? {
                let releasing = releasing(&cellar)?;
                recipes.push(cellar);
                recipes.extend(releasing);
            }
            recipes.extend(self.peers.of(Wire::Memcached));
        }
        for peer in self.peers.of(Wire::Resp) {
            if !peer.is_like_redis() {
                recipes.push(peer);
                continue;
            }
            for effort in &self.redis_efforts {
                let name = format!("{}, effort {effort}", peer.name.trim_end_matches("-server"));
                let peer = peer.with("", &["--active-expire-effort", &effort.to_string()]);
                recipes.push(peer.named(&name));
            }
        }
        Ok(recipes)
    }
}

const RELEASE_MEMORY: &str = "--release-memory";

/// The same Cellar giving the memory of the dead back to the system, if it can and does not yet.
fn releasing(cellar: &Recipe) -> Result<Option<Recipe>, Error> {
    let program = &cellar.words[0];
    let help = Command::new(program).arg("--help").output();
    let help = help.map_err(|error| Error::system(format!("starting {program}"), error))?;
    let is_known = String::from_utf8_lossy(&help.stdout).contains(RELEASE_MEMORY);
    let release = RELEASE_MEMORY.to_owned();
    if !is_known || cellar.words.contains(&release) {
        return Ok(None);
    }
    Ok(Some(cellar.with(" --release-memory", &[RELEASE_MEMORY])))
}

fn summarize(
    contender: &ExpiryContender,
    version: String,
    memory: Watched,
    runs: Vec<RunLatencies>,
) -> ServerResult {
    let spread = |figure: fn(&RunLatencies) -> f64| Spread::of(runs.iter().map(figure).collect());
    let controls = runs.iter().filter_map(|run| run.control.as_ref());
    let controls: Vec<f64> = controls
        .map(|[first, second]| second.latency_us_p99_9 / first.latency_us_p99_9)
        .collect();
    ServerResult {
        server: contender.recipe.name.clone(),
        databases: contender.databases,
        version,
        memory,
        latency_us_p99_9_before: spread(|run| run.before.latency_us_p99_9),
        latency_us_p99_9_during: spread(|run| run.during.latency_us_p99_9),
        ratio: spread(|run| run.during.latency_us_p99_9 / run.before.latency_us_p99_9),
        ratio_worst_slice: spread(|run| run.worst_slice_us_p99_9 / run.before.latency_us_p99_9),
        ratio_control: (!controls.is_empty()).then(|| Spread::of(controls)),
        misses: runs.iter().map(|run| run.misses).sum(),
        slices: scene::slices(runs.iter().flat_map(|run| &run.samples)),
        runs,
    }
}
