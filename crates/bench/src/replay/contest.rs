//! `cellar-bench contest`: who misses least in the same resident memory, over the network?
//!
//! Each server is given the setting that makes the most of the memory: the trace is replayed, the
//! most memory the process ever had is read, and the setting is moved until that peak just fits. So
//! a server pays for its base, its index and its fragmentation, and no server is judged by what it
//! calls memory.
//!
//! All servers replay beside each other at a slow pace, because some tell recent from old by clocks
//! that tick once a second, and give freed memory back after seconds: in a fast replay they evict
//! as if blind and take more memory than they need.

mod tune;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use self::tune::Tuner;
use super::read::{self, Reading};
use super::remote::{self, Served};
use super::trace::Trace;
use crate::measurement::Measurement;
use crate::peers::{PeerArgs, some};
use cellar_load::error::Error;
use cellar_load::process::{Ingredients, Recipe};
use cellar_load::quantity::{binary, parse_bytes, share};
use cellar_load::wire::Wire;

/// How finely memory is set, unless a server such as memcached takes whole MiB only.
const STEP_BYTES: u64 = 64 << 10;
const QUICK_ROWS: usize = 100_000;
const QUICK_TRIALS: usize = 2;

/// Options of `cellar-bench contest`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ContestArgs {
    /// Traces, as for replay; their TTLs are left out
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Most resident memory of a server's process, such as 32MiB,64MiB
    #[arg(long, value_name = "SIZES", value_delimiter = ',', required = true,
          value_parser = parse_bytes)]
    rss: Vec<u64>,
    #[command(flatten)]
    peers: PeerArgs,
    /// Most replays to find a server's setting
    #[arg(long, default_value_t = 4)]
    trials: usize,
    /// Gives all values this length
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    value_bytes: Option<u32>,
    /// Makes values longer or shorter by one factor for each trace, so that its different keys with
    /// their values have this size
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with = "value_bytes")]
    footprint: Option<u64>,
    /// At most so many requests of each trace, from its beginning
    #[arg(long, value_name = "NUMBER")]
    requests: Option<usize>,
    /// Each replay lasts at least so long, for servers whose clocks tick in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    lasting_s: u64,
    /// The first 100,000 requests, two trials, no pace: shows that it works, not who wins
    #[arg(long)]
    quick: bool,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Contest {
    /// How long each replay lasted at least.
    lasting_s: u64,
    /// What the traces were stretched to.
    footprint_bytes: Option<u64>,
    requests_max: Option<usize>,
    results: Vec<ContestResult>,
}

/// One server, trace and limit.
#[derive(Clone, Debug, Serialize)]
struct ContestResult {
    trace: String,
    rss_limit_bytes: u64,
    server: String,
    version: String,
    /// False if the peak stayed above the limit at every setting that was tried; then this is the
    /// setting with the smallest peak.
    fits: bool,
    trials: usize,
    /// What the server was told.
    memory_bytes: u64,
    rss_end_bytes: u64,
    rss_peak_bytes: u64,
    /// Different keys of the trace.
    keys: usize,
    /// These with their values, and 17 bytes for each.
    footprint_bytes: u64,
    requests: u64,
    hits: u64,
    misses: u64,
    miss_ratio: f64,
    refused: u64,
    seconds: f64,
    ttl_left_out: bool,
}

/// A server that takes part.
struct ReplayContestant {
    recipe: Recipe,
    /// How finely its memory can be set.
    step_bytes: u64,
}

/// The search for the setting of a server at a limit.
struct Search<'c> {
    contestant: &'c ReplayContestant,
    limit_bytes: u64,
    tuner: Tuner,
    trials: usize,
    /// The best setting so far, and the replay with it.
    best: Option<(u64, Trial)>,
}

/// One replay at one setting.
#[derive(Clone, Debug)]
struct Trial {
    version: String,
    served: Served,
    rss_end_bytes: u64,
    rss_peak_bytes: u64,
}

/// The setting that was found last, by server and limit: where the next search begins.
type Known = HashMap<(String, u64), u64>;

impl Measurement for ContestArgs {
    type Outcome = Contest;

    fn measure(&self) -> Result<Contest, Error> {
        let contestants = self.contestants()?;
        let mut known = Known::new();
        let mut results = Vec::new();
        for path in &self.traces {
            let trace = self.trace(path)?;
            for search in self.searched(&contestants, &trace, &known)? {
                let place = search.place();
                if let Some(outcome) = search.outcome(&trace) {
                    known.insert(place, outcome.memory_bytes);
                    results.push(outcome);
                }
            }
        }
        Ok(Contest {
            lasting_s: self.lasting().as_secs(),
            footprint_bytes: self.footprint,
            requests_max: self.requests,
            results,
        })
    }
}

/// What redis-server may evict by.
const REDIS_POLICIES: [&str; 2] = ["allkeys-lru", "allkeys-lfu"];

impl ContestArgs {
    fn contestants(&self) -> Result<Vec<ReplayContestant>, Error> {
        let mut recipes: Vec<Recipe> = Vec::new();
        recipes.extend(self.peers.cellar.recipe(Wire::Memcached)?);
        recipes.extend(self.peers.of(Wire::Memcached));
        for peer in self.peers.of(Wire::Resp) {
            if peer.is_like_redis() {
                let by = |policy| peer.with(&format!(" {policy}"), &["--maxmemory-policy", policy]);
                recipes.extend(REDIS_POLICIES.map(by));
            } else {
                recipes.push(peer);
            }
        }
        let contestants = recipes.into_iter().map(|recipe| {
            let is_coarse = recipe.words.iter().any(|word| word == "{memory_mib}");
            let step_bytes = if is_coarse { 1 << 20 } else { STEP_BYTES };
            ReplayContestant { recipe, step_bytes }
        });
        some(contestants.collect())
    }

    fn lasting(&self) -> Duration {
        Duration::from_secs(if self.quick { 0 } else { self.lasting_s })
    }

    fn trace(&self, path: &std::path::Path) -> Result<Trace, Error> {
        let reading = Reading {
            value_bytes: self.value_bytes,
            ..Reading::default()
        };
        let mut trace = read::read(path, &reading)?;
        let requests = if self.quick {
            QUICK_ROWS
        } else {
            self.requests.unwrap_or(usize::MAX)
        };
        trace.truncate(requests);
        Ok(match self.footprint {
            Some(bytes) => trace.stretched(bytes),
            None => trace,
        })
    }

    /// Finds the setting of each server for each limit; in a round all servers that are not there
    /// yet replay beside each other.
    fn searched<'c>(
        &self,
        contestants: &'c [ReplayContestant],
        trace: &Trace,
        known: &Known,
    ) -> Result<Vec<Search<'c>>, Error> {
        let limits = self.rss.iter();
        let pairs = limits.flat_map(|limit| contestants.iter().map(move |it| (it, *limit)));
        let mut searches: Vec<Search<'c>> = pairs
            .map(|(contestant, limit_bytes)| Search::new(contestant, limit_bytes, known))
            .collect();
        let rounds = if self.quick {
            QUICK_TRIALS
        } else {
            self.trials.max(1)
        };
        for round in 1..=rounds {
            let open = searches.iter_mut().filter(|it| it.tuner.next().is_some());
            let open: Vec<&mut Search<'c>> = open.collect();
            if open.is_empty() {
                break;
            }
            let what = format!("{}, round {round}, {} servers", trace.name, open.len());
            eprintln!("{what}, {} s or longer", self.lasting().as_secs());
            self.round(open, trace)?;
        }
        Ok(searches)
    }

    /// One trial of each search, all at once.
    fn round(&self, open: Vec<&mut Search<'_>>, trace: &Trace) -> Result<(), Error> {
        let lasting = self.lasting();
        std::thread::scope(|scope| {
            let threads = open
                .into_iter()
                .map(|search| scope.spawn(move || search.step(trace, lasting)));
            let threads: Vec<_> = threads.collect();
            let results = threads.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            results.collect()
        })
    }
}

impl<'c> Search<'c> {
    /// Begins with the setting that was right for the trace before, or with the limit.
    fn new(contestant: &'c ReplayContestant, limit_bytes: u64, known: &Known) -> Search<'c> {
        let place = (contestant.recipe.name.clone(), limit_bytes);
        let first = known.get(&place).copied().unwrap_or(limit_bytes);
        Search {
            contestant,
            limit_bytes,
            tuner: Tuner::new(limit_bytes, contestant.step_bytes, first),
            trials: 0,
            best: None,
        }
    }

    fn place(&self) -> (String, u64) {
        (self.contestant.recipe.name.clone(), self.limit_bytes)
    }

    /// Replays with the next setting and learns from it.
    fn step(&mut self, trace: &Trace, lasting: Duration) -> Result<(), Error> {
        let Some(memory_bytes) = self.tuner.next() else {
            return Ok(());
        };
        let trial = self.contestant.replay(trace, memory_bytes, lasting)?;
        self.trials += 1;
        eprintln!(
            "{} within {}: {} told {}: {} misses, peak {}",
            trace.name,
            binary(self.limit_bytes),
            self.contestant.recipe.name,
            binary(memory_bytes),
            trial.served.misses,
            binary(trial.rss_peak_bytes),
        );
        if self.tuner.learn(memory_bytes, trial.rss_peak_bytes) {
            self.best = Some((memory_bytes, trial));
        }
        Ok(())
    }

    /// What the best trial found.
    fn outcome(self, trace: &Trace) -> Option<ContestResult> {
        let (memory_bytes, trial) = self.best?;
        let served = trial.served;
        Some(ContestResult {
            trace: trace.name.clone(),
            rss_limit_bytes: self.limit_bytes,
            server: self.contestant.recipe.name.clone(),
            version: trial.version,
            fits: trial.rss_peak_bytes <= self.limit_bytes,
            trials: self.trials,
            memory_bytes,
            rss_end_bytes: trial.rss_end_bytes,
            rss_peak_bytes: trial.rss_peak_bytes,
            keys: trace.keys.len(),
            footprint_bytes: trace.footprint_bytes(),
            requests: served.requests,
            hits: served.hits,
            misses: served.misses,
            miss_ratio: share(served.misses, served.hits + served.misses),
            refused: served.refused,
            seconds: served.seconds,
            ttl_left_out: trace.has_ttl(),
        })
    }
}

impl ReplayContestant {
    /// Starts the server with this memory, replays and ends it.
    fn replay(&self, trace: &Trace, memory_bytes: u64, lasting: Duration) -> Result<Trial, Error> {
        let with = Ingredients {
            memory_mib: memory_bytes >> 20,
            threads: 1,
            cpu: None,
        };
        let server = self.recipe.with_memory(memory_bytes).start(with)?;
        let version = server.version()?;
        let served = remote::play(trace, server.wire(), server.address(), lasting)?;
        let trial = Trial {
            version,
            served,
            rss_end_bytes: server.rss_bytes()?,
            rss_peak_bytes: server.rss_peak_bytes()?,
        };
        Ok(trial)
    }
}
