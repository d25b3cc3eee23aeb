//! `cellar-bench ads`: an ad service in front of Redis, with better and better caches in
//! its own process.
//!
//! A request reads many ads by their ids and looks into each. Requests come at random moments, and
//! their latency counts from when each was due. The stages are those of the source: Redis alone; a
//! map with a list under one lock that copies what it hands out; the same with a lifetime; cut into
//! 8, 16 and 24; handing out counted values; and last a near cache, to which the server tells what
//! has changed. Meanwhile ads change in Redis, and every ad that is read is compared with what was
//! written. Why requests are as they are: docs/decisions/0040-the-ladder-again.md.

mod ad;
mod stage;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use self::ad::{Ad, Writes, fill};
use self::stage::{LruStage, NearStage, Stage};
use self::sweep::Load;
use crate::measurement::Measurement;
use crate::peers::CellarArgs;
use cellar_load::{Error, Ingredients, Recipe, Server, Wire, now_ns};

/// How a stage gets its ads.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// From maps under so many locks, as copies, with or without a lifetime.
    Copied(usize, bool),
    /// Counted, with a lifetime, under as many locks as the source found best.
    Counted,
    /// Through a near cache over Redis, and over Cellar.
    Near,
    NearCellar,
}

/// The stages.
const STAGES: [(&str, Way); 9] = [
    ("Redis alone", Way::Copied(0, false)),
    ("LRU under one lock", Way::Copied(1, false)),
    ("+ lifetime", Way::Copied(1, true)),
    ("+ 8 shards", Way::Copied(8, true)),
    ("+ 16 shards", Way::Copied(16, true)),
    ("+ 24 shards", Way::Copied(24, true)),
    ("+ counted values", Way::Counted),
    ("near cache", Way::Near),
    ("near cache, Cellar", Way::NearCellar),
];
const SHARDS: usize = 16;
/// Memory of a server; far more than the ads need.
const MEMORY_MIB: u64 = 1024;

/// Options of `cellar-bench ads`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct AdsArgs {
    /// Requests per second, one run for each
    #[arg(long, value_delimiter = ',', default_value = "250,500,750,1000,1500")]
    #[arg(default_value_if("quick", "true", "250,500"))]
    qps: Vec<u64>,
    /// Seconds of each run
    #[arg(long, value_delimiter = ',', default_value = "40,20,14,34,12")]
    #[arg(default_value_if("quick", "true", "0.5,0.5"))]
    seconds: Vec<f64>,
    /// Rounds over all stages and rates
    #[arg(long, default_value_t = 3)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    /// Ads in Redis
    #[arg(long, default_value_t = 20_000)]
    ads: u64,
    /// Ads that the process may hold
    #[arg(long, default_value_t = 16_000)]
    held: u64,
    /// Ads that one request reads
    #[arg(long, default_value_t = 85)]
    ads_per_request: usize,
    /// Threads that serve requests
    #[arg(long, default_value_t = 16)]
    threads: usize,
    /// Seconds after which an ad is read anew, in the stages that have a lifetime
    #[arg(long, default_value_t = 20)]
    ttl_s: u64,
    /// Ads that change each second
    #[arg(long, default_value_t = 50)]
    #[serde(rename = "changes_per_s")]
    changes: u64,
    /// redis-server's program
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    #[serde(skip)]
    redis: String,
    #[command(flatten)]
    #[serde(skip)]
    cellar: CellarArgs,
}

impl Measurement for AdsArgs {
    fn measure(&self) -> Result<Value, Error> {
        if self.held > self.ads || self.ads_per_request == 0 || self.threads == 0 {
            let text = "--held may not exceed --ads; a request reads ads, and threads serve it";
            return Err(Error::Usage(text.to_owned()));
        }
        let with = Ingredients::of(MEMORY_MIB);
        let redis = Recipe::redis(&self.redis).start(with)?;
        let cellar = self.cellar.recipe(Wire::Resp)?;
        let cellar = cellar.map(|recipe| recipe.start(with)).transpose()?;
        let seed = now_ns();
        let mut stages = STAGES.map(|_| Vec::new());
        for round in 0..self.rounds {
            for ((name, way), found) in STAGES.into_iter().zip(&mut stages) {
                let server = match way {
                    Way::NearCellar => cellar.as_ref(),
                    _ => Some(&redis),
                };
                let Some(server) = server else { continue };
                eprintln!("round {} of {}: {name}", round + 1, self.rounds);
                found.extend(measure(self, way, server, seed + round as u64)?);
            }
        }
        let stages = STAGES.iter().zip(&stages);
        let stages = stages.map(|((name, _), runs)| json!({"name": name, "runs": runs}));
        Ok(json!({
            "redis_version": redis.version()?,
            "ad_bytes": Ad::new(0, 0).encode().len(),
            "stages": stages.collect::<Value>(),
        }))
    }
}

fn stage(args: &AdsArgs, way: Way, url: &str) -> Result<Box<dyn Stage>, Error> {
    let held = usize::try_from(args.held).unwrap_or(usize::MAX);
    let ttl = Some(Duration::from_secs(args.ttl_s));
    Ok(match way {
        Way::Copied(shards, is_mortal) => {
            let ttl = ttl.filter(|_| is_mortal);
            Box::new(LruStage::<Ad>::new(held, shards, ttl))
        }
        Way::Counted => Box::new(LruStage::<Arc<Ad>>::new(held, SHARDS, ttl)),
        Way::Near | Way::NearCellar => Box::new(NearStage::new(url, args.held)?),
    })
}

/// All rates of one round, up to the first that is too much.
fn measure(args: &AdsArgs, way: Way, server: &Server, seed: u64) -> Result<Vec<Value>, Error> {
    let url = format!("redis://{}", server.address());
    let stage = stage(args, way, &url)?;
    // All ads are set back to their first version, as `writes` has them.
    fill(&url, args.ads)?;
    let load = Load {
        args,
        writes: Writes::new(args.ads),
        url,
        seed,
    };
    load.warm_up(&*stage)?;
    let mut runs: Vec<Value> = Vec::new();
    for (&qps, &seconds) in args.qps.iter().zip(&args.seconds) {
        if runs.last().is_none_or(|run| run["is_overloaded"] == false) {
            let run = load.run(&*stage, qps, seconds)?;
            eprintln!("  {run}");
            runs.push(run);
        }
    }
    Ok(runs)
}
