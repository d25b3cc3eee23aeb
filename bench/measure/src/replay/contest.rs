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
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use self::tune::Tuner;
use super::read;
use super::remote;
use super::trace::Trace;
use crate::families::Family;
use crate::measurement::{Measurement, both};
use crate::peers::{PeerArgs, some};
use crate::race::all_at_once;
use cellar_load::{Error, Ingredients, Recipe, Wire, binary, parse_bytes, share};

/// How finely memory is set, unless a server such as memcached takes whole MiB only.
const STEP_BYTES: u64 = 64 << 10;

/// Options of `cellar-bench contest`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ContestArgs {
    /// Traces, as for replay; their TTLs are left out
    #[arg(required = true, value_name = "TRACE")]
    #[serde(skip)]
    traces: Vec<PathBuf>,
    /// Most resident memory of a server's process, such as 32MiB,64MiB
    #[arg(long, value_name = "SIZES", value_delimiter = ',', required = true,
          value_parser = parse_bytes)]
    rss: Vec<u64>,
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Most replays to find a server's setting
    #[arg(long, default_value_t = 4)]
    #[arg(default_value_if("quick", "true", "2"))]
    trials: usize,
    /// Makes values longer or shorter by one factor for each trace, so that its different keys with
    /// their values have this size
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    #[serde(rename = "footprint_bytes")]
    footprint: Option<u64>,
    /// A file of values, as bench/families writes them: the values of the traces are pieces of it,
    /// and Cellar also takes part with --compress auto
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
    /// At most so many requests of each trace, from its beginning
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    #[arg(default_value_if("quick", "true", "100000"))]
    #[serde(rename = "requests_max")]
    requests: usize,
    /// Each replay lasts at least so long, for servers whose clocks tick in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    #[arg(default_value_if("quick", "true", "0"))]
    lasting_s: u64,
}

/// The search for the setting of a server at a limit.
struct Search<'c> {
    recipe: &'c Recipe,
    limit_bytes: u64,
    tuner: Tuner,
    /// The best setting so far, and what the replay with it found.
    best: Option<(u64, Value)>,
}

/// All values of a file, one behind the other.
fn text_of(path: &Path) -> Result<Vec<u8>, Error> {
    Ok(Family::read(path)?.values.concat())
}

/// The setting that was found last, by server and limit: where the next search begins.
type Known = HashMap<(String, u64), u64>;

impl Measurement for ContestArgs {
    fn measure(&self) -> Result<Value, Error> {
        let recipes = self.recipes()?;
        let text = self.values.as_deref().map(text_of).transpose()?;
        let mut known = Known::new();
        let mut results = Vec::new();
        for path in &self.traces {
            let trace = self.trace(path)?;
            for search in self.searched(&recipes, (&trace, text.as_deref()), &known)? {
                if let Some((memory_bytes, found)) = search.best {
                    let server = search.recipe.name.clone();
                    known.insert((server, search.limit_bytes), memory_bytes);
                    results.push(found);
                }
            }
        }
        Ok(json!({ "results": results }))
    }
}

/// What redis-server may evict by.
const REDIS_POLICIES: [&str; 2] = ["allkeys-lru", "allkeys-lfu"];

impl ContestArgs {
    fn recipes(&self) -> Result<Vec<Recipe>, Error> {
        let mut recipes = self.peers.all(Wire::Memcached)?;
        if self.values.is_some()
            && let Some(cellar) = self.peers.cellar.recipe(Wire::Memcached)?
        {
            recipes.push(cellar.with(", --compress auto", &["--compress", "auto"]));
        }
        for peer in self.peers.of(Wire::Resp) {
            let by = |policy| peer.with(&format!(" {policy}"), &["--maxmemory-policy", policy]);
            recipes.extend(REDIS_POLICIES.map(by));
        }
        some(recipes)
    }

    fn trace(&self, path: &Path) -> Result<Trace, Error> {
        let mut trace = read::read(path, 0.0)?;
        trace.truncate(self.requests);
        Ok(match self.footprint {
            Some(bytes) => trace.stretched(bytes),
            None => trace,
        })
    }

    /// Finds the setting of each server for each limit; in a round all servers that are not there
    /// yet replay beside each other.
    fn searched<'c>(
        &self,
        recipes: &'c [Recipe],
        (trace, text): (&Trace, Option<&[u8]>),
        known: &Known,
    ) -> Result<Vec<Search<'c>>, Error> {
        let limits = self.rss.iter();
        let pairs = limits.flat_map(|limit| recipes.iter().map(move |it| (it, *limit)));
        let mut searches: Vec<Search<'c>> = pairs
            .map(|(recipe, limit_bytes)| Search::new(recipe, limit_bytes, known))
            .collect();
        for round in 1..=self.trials.max(1) {
            let open = searches.iter_mut().filter(|it| it.tuner.next().is_some());
            let open: Vec<&mut Search<'c>> = open.collect();
            if open.is_empty() {
                break;
            }
            let what = format!("{}, round {round}, {} servers", trace.name, open.len());
            eprintln!("{what}, {} s or longer", self.lasting_s);
            self.round(open, (trace, text))?;
        }
        Ok(searches)
    }

    /// One trial of each search, all at once.
    fn round(
        &self,
        open: Vec<&mut Search<'_>>,
        replayed: (&Trace, Option<&[u8]>),
    ) -> Result<(), Error> {
        let lasting = Duration::from_secs(self.lasting_s);
        let steps = all_at_once(open, |search| search.step(replayed, lasting));
        steps.into_iter().collect()
    }
}

impl<'c> Search<'c> {
    /// Begins with the setting that was right for the trace before, or with the limit.
    fn new(recipe: &'c Recipe, limit_bytes: u64, known: &Known) -> Search<'c> {
        let is_coarse = recipe.words.iter().any(|word| word == "{memory_mib}");
        let step_bytes = if is_coarse { 1 << 20 } else { STEP_BYTES };
        let first = known.get(&(recipe.name.clone(), limit_bytes));
        let first = first.copied().unwrap_or(limit_bytes);
        Search {
            recipe,
            limit_bytes,
            tuner: Tuner::new(limit_bytes, step_bytes, first),
            best: None,
        }
    }

    /// Starts the server with the next setting, replays, ends it and learns from that.
    fn step(&mut self, replayed: (&Trace, Option<&[u8]>), lasting: Duration) -> Result<(), Error> {
        let trace = replayed.0;
        let Some(memory_bytes) = self.tuner.next() else {
            return Ok(());
        };
        let with = Ingredients::of(memory_bytes >> 20);
        let server = self.recipe.with_memory(memory_bytes).start(with)?;
        let version = server.version()?;
        let served = remote::play(replayed, server.wire(), server.address(), lasting)?;
        let (peak_bytes, end_bytes) = (server.rss_peak_bytes()?, server.rss_bytes()?);
        let (name, misses) = (&self.recipe.name, served.misses);
        let [told, peak] = [memory_bytes, peak_bytes].map(binary);
        let trace_name = &trace.name;
        eprintln!("{trace_name}: {name} told {told}: {misses} misses, peak {peak}");
        if !self.tuner.learn(memory_bytes, peak_bytes) {
            return Ok(());
        }
        let others = json!({
            "trace": trace_name,
            "rss_limit_bytes": self.limit_bytes,
            "server": name,
            "version": version,
            // If no setting kept the peak below the limit, this is the one with the smallest.
            "fits": peak_bytes <= self.limit_bytes,
            "memory_bytes": memory_bytes,
            "rss_end_bytes": end_bytes,
            "rss_peak_bytes": peak_bytes,
            "keys": trace.keys.len(),
            "footprint_bytes": trace.footprint_bytes(),
            "miss_ratio": share(misses, served.hits + misses),
            "ttl_left_out": trace.has_ttl(),
        });
        self.best = Some((memory_bytes, both(served, others)));
        Ok(())
    }
}
