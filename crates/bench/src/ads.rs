//! `cellar-bench ads`: an ad service in front of Redis, with better and better caches in
//! its own process.
//!
//! A request reads many ads by their ids and looks into each. Requests are due at fixed times, and
//! their latency counts from then. The stages are those of the source: Redis alone; a map with a
//! list under one lock that copies what it hands out; the same with a lifetime; cut into 16;
//! handing out references; and last a near cache, to which the server tells what has changed.
//! Meanwhile ads change in Redis, and every ad that is read is compared with what was written last.

mod ad;
mod stage;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use self::ad::{Ad, LastWrites, fill};
use self::stage::{LruStage, NearStage, Stage};
use self::sweep::{Load, Point};
use crate::measurement::Measurement;
use crate::peers::CellarArgs;
use cellar_load::error::Error;
use cellar_load::process::{Ingredients, Recipe, Server};
use cellar_load::wire::Wire;

/// Shards of the sharded stages, as in the source.
const SHARDS: usize = 16;
/// Memory of a server; far more than the ads need.
const MEMORY_MIB: u64 = 512;
const QUICK_SECONDS: f64 = 0.5;

/// Options of `cellar-bench ads`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct AdsArgs {
    /// Requests per second, one run for each
    #[arg(long, value_delimiter = ',', default_values_t = [125, 250, 500, 1000, 2000, 4000])]
    qps: Vec<u64>,
    /// Seconds of each run
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Ads in Redis
    #[arg(long, default_value_t = 20_000)]
    ads: u64,
    /// Ads that the process may hold
    #[arg(long, default_value_t = 19_800)]
    held: u64,
    /// Ads that one request reads
    #[arg(long, default_value_t = 200)]
    ads_per_request: usize,
    /// Threads that serve requests
    #[arg(long, default_value_t = 16)]
    threads: usize,
    /// Seconds after which an ad is read anew, in the stages that have a lifetime
    #[arg(long, default_value_t = 60)]
    ttl_s: u64,
    /// Ads that change each second
    #[arg(long, default_value_t = 50)]
    #[serde(rename = "changes_per_s")]
    changes: u64,
    /// Two short runs for each stage: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
    /// redis-server's program
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    #[serde(skip)]
    redis: String,
    #[command(flatten)]
    #[serde(skip)]
    cellar: CellarArgs,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct AdsOutcome {
    #[serde(flatten)]
    args: AdsArgs,
    redis_version: String,
    ad_bytes: usize,
    stages: Vec<StageResult>,
}

/// One stage at all rates.
#[derive(Debug, Serialize)]
struct StageResult {
    name: String,
    points: Vec<Point>,
}

impl Measurement for AdsArgs {
    type Outcome = AdsOutcome;

    fn measure(&self) -> Result<AdsOutcome, Error> {
        let mut args = self.clone();
        if args.quick {
            args.seconds = QUICK_SECONDS;
            args.qps.truncate(2);
        }
        if args.held > args.ads || args.ads_per_request == 0 || args.threads == 0 {
            let text = "--held may not exceed --ads; a request reads ads, and threads serve it";
            return Err(Error::Usage(text.to_owned()));
        }
        run(&args)
    }
}

fn run(args: &AdsArgs) -> Result<AdsOutcome, Error> {
    let with = Ingredients {
        memory_mib: MEMORY_MIB,
        threads: 1,
        cpu: None,
    };
    let redis = Recipe::redis(&args.redis).start(with)?;
    let cellar = args.cellar.recipe(Wire::Resp)?;
    let cellar = cellar.map(|recipe| recipe.start(with)).transpose()?;
    let mut stages = Vec::new();
    for number in 0..=LAST_WITH_REDIS {
        stages.push(measure(args, number, &redis)?);
    }
    if let Some(cellar) = &cellar {
        stages.push(measure(args, LAST_WITH_REDIS + 1, cellar)?);
    }
    Ok(AdsOutcome {
        redis_version: redis.version()?,
        args: args.clone(),
        ad_bytes: Ad::new(0, 0).encode().len(),
        stages,
    })
}

/// Where a server is, for redis-rs.
fn url(server: &Server) -> String {
    format!("redis://{}", server.address())
}

/// The number of the last stage whose server is Redis.
const LAST_WITH_REDIS: usize = 5;

/// The stages, the first one being number 0.
fn stage(args: &AdsArgs, number: usize, server: &Server) -> Result<Box<dyn Stage>, Error> {
    let url = url(server);
    let held = usize::try_from(args.held).unwrap_or(usize::MAX);
    let ttl = Some(Duration::from_secs(args.ttl_s));
    let copying = |name, shards, ttl| LruStage::<Ad>::new(name, &url, held, shards, ttl);
    Ok(match number {
        0 => Box::new(copying("Redis alone", 0, None)?),
        1 => Box::new(copying("+ LRU under one lock", 1, None)?),
        2 => Box::new(copying("+ lifetime", 1, ttl)?),
        3 => Box::new(copying("+ 16 shards", SHARDS, ttl)?),
        4 => Box::new(LruStage::<Arc<Ad>>::new(
            "+ zero copy",
            &url,
            held,
            SHARDS,
            ttl,
        )?),
        LAST_WITH_REDIS => Box::new(NearStage::new("near cache", &url, args.held)?),
        _ => Box::new(NearStage::new("near cache, Cellar", &url, args.held)?),
    })
}

fn measure(args: &AdsArgs, number: usize, server: &Server) -> Result<StageResult, Error> {
    let stage = stage(args, number, server)?;
    eprintln!("{}", stage.name());
    let load = Load {
        args,
        writes: LastWrites::new(args.ads),
        url: url(server),
    };
    // All ads are set back to their first version, as `writes` has them.
    fill(&load.url, args.ads)?;
    load.warm_up(&*stage)?;
    let mut points = Vec::new();
    for &qps in &args.qps {
        let point = load.run(&*stage, qps)?;
        let is_overloaded = point.is_overloaded;
        eprintln!(
            "  {qps} requests/s: mean {:.3} ms, {:.2} % hits, {} stale of {}",
            point.latency.latency_us_mean / 1000.0,
            100.0 * point.hit_ratio,
            point.stale_ads,
            point.ads,
        );
        points.push(point);
        if is_overloaded {
            break;
        }
    }
    let name = stage.name().to_owned();
    Ok(StageResult { name, points })
}
