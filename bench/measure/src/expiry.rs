//! `cellar-bench expiry`: who holds memory for items whose time is over, and what it costs others.
//!
//! Two scenes, each with a fresh server on one processor and the load on another; the servers take
//! turns. In the *steady state* items of mixed times to live are stored at a fixed rate: how much
//! of what is held is dead all day? In a *mass expiration* many items expire in one and the same
//! second, while gets for items that stay go on: how long do the dead stay, who notices?

pub(crate) mod figures;
mod steady;
mod mass_expiration;

use clap::{Args, value_parser};
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::peers::{CpuArgs, PeerArgs, some};
use cellar_load::{
    Drive, Error, Limit, NS_PER_S, Plan, Recipe, Records, Server, TtlMix, Wire, load, parse_count,
};
use figures::Informant;
use mass_expiration::MassExpiration;

/// Keys of different lengths, so that the kinds of items never meet.
const LASTING_KEY_BYTES: usize = 16;
const DYING_KEY_BYTES: usize = 17;
/// Requests that may wait on one connection before a load falls behind its schedule.
const DEPTH: usize = 64;
const LASTING_TTL_S: u32 = 86_400;

/// Options of `cellar-bench expiry`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ExpiryArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Settings of active-expire-effort, each a server of its own
    #[arg(long, value_delimiter = ',', default_value = "1,10")]
    redis_efforts: Vec<u32>,
    /// Numbers of databases over which the items are spread, each with servers of its own; with
    /// more than one all are asked over the Redis protocol
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    databases: Vec<usize>,
    /// Items that stay, and are asked for
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "50k"))]
    lasting: u64,
    /// Items whose time is over in the same second
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "50k"))]
    dying: u64,
    /// Items stored each second in the steady state
    #[arg(long, default_value = "10k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "1k"))]
    stores: u64,
    /// Times to live in the steady state
    #[arg(long, default_value = "10..50@4,1d")]
    #[arg(default_value_if("quick", "true", "1..3@4,1d"))]
    ttl: String,
    /// Seconds of the steady state before it is looked at, and then
    #[arg(long, default_value_t = 60)]
    #[arg(default_value_if("quick", "true", "2"))]
    warm_s: u64,
    #[arg(long, default_value_t = 50)]
    #[arg(default_value_if("quick", "true", "2"))]
    watched_s: u64,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Memory of each server in MiB; nothing may be evicted
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Connections of the gets
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Gets per second
    #[arg(long, default_value = "20k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "3k"))]
    gets: u64,
    /// Seconds of gets before a mass expiration
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u64).range(1..))]
    #[arg(default_value_if("quick", "true", "3"))]
    before_s: u64,
    /// Seconds of gets after it
    #[arg(long, default_value_t = 6)]
    #[arg(default_value_if("quick", "true", "2"))]
    during_s: u64,
    /// Rounds of the mass expirations
    #[arg(long, default_value_t = 4)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

/// A server that takes part.
struct ExpiryContender {
    recipe: Recipe,
    databases: usize,
}

impl Measurement for ExpiryArgs {
    fn measure(&self) -> Result<Value, Error> {
        self.check()?;
        let contenders = self.contenders()?;
        let steady = contenders.iter().map(|it| steady::measure(self, it));
        Ok(json!({
            "steady": steady.collect::<Result<Value, _>>()?,
            "waves": mass_expiration::measure(self, &MassExpiration::all(&contenders))?,
        }))
    }
}

impl ExpiryArgs {
    fn check(&self) -> Result<(), Error> {
        let fits = |&databases: &usize| {
            databases > 0
                && databases <= self.connections
                && self.lasting.is_multiple_of(databases as u64)
                && self.dying.is_multiple_of(databases as u64)
        };
        if !self.databases.iter().all(fits) {
            let what = "--lasting and --dying are multiples of each of --databases, of which there \
                        are no more than --connections";
            return Err(Error::Usage(what.to_owned()));
        }
        Ok(())
    }

    /// The servers for all numbers of databases, Cellar first of each.
    fn contenders(&self) -> Result<Vec<ExpiryContender>, Error> {
        let mut contenders = Vec::new();
        for &databases in &self.databases {
            for mut recipe in self.recipes(databases)? {
                if databases > 1 {
                    let suffix = format!(", {databases} databases");
                    recipe = recipe.with(&suffix, &["--databases", &databases.to_string()]);
                }
                contenders.push(ExpiryContender { recipe, databases });
            }
        }
        some(contenders)
    }

    fn recipes(&self, databases: usize) -> Result<Vec<Recipe>, Error> {
        let mut recipes = Vec::new();
        if databases > 1 {
            let cellar = self.peers.cellar.recipe(Wire::Resp)?;
            recipes.extend(cellar.map(|cellar| cellar.named("cellar")));
        } else if let Some(cellar) = self.peers.cellar.recipe(Wire::Memcached)? {
            recipes.push(cellar.clone());
            recipes.push(cellar.with(" --release-memory", &["--release-memory"]));
        }
        for peer in self.peers.of(Wire::Resp) {
            for effort in &self.redis_efforts {
                let name = format!("{}, effort {effort}", peer.name.trim_end_matches("-server"));
                let peer = peer.with("", &["--active-expire-effort", &effort.to_string()]);
                recipes.push(peer.named(&name));
            }
        }
        Ok(recipes)
    }
}

/// A server with nothing in it yet, and whom to ask about it.
struct Scene<'a> {
    args: &'a ExpiryArgs,
    contender: &'a ExpiryContender,
    server: Server,
    informant: Informant,
}

impl<'a> Scene<'a> {
    fn set(args: &'a ExpiryArgs, contender: &'a ExpiryContender) -> Result<Scene<'a>, Error> {
        let with = args.cpus.serving(args.memory_mib);
        let server = contender.recipe.start(with)?;
        Ok(Scene {
            informant: Informant::connect(&server)?,
            args,
            contender,
            server,
        })
    }

    /// Gets for so many items, all of which last, for some seconds.
    fn gets(&self, items: u64, seconds: u64) -> Result<Plan, Error> {
        let limit = Limit::Nanoseconds(seconds * NS_PER_S);
        let (args, server) = (self.args, &self.server);
        let drive = Drive {
            depth: DEPTH,
            rate_per_s: Some(args.gets as f64),
            databases: 0..self.contender.databases,
            cpus: vec![args.cpus.load_cpu],
            ..server.drive(args.connections, limit)
        };
        let ttl = TtlMix::between(LASTING_TTL_S, LASTING_TTL_S);
        let records = self.records(items, LASTING_KEY_BYTES)?;
        Ok(Plan {
            ttl,
            ..Plan::gets(drive, records)
        })
    }

    /// The items of one database, of so many in all.
    fn records(&self, items: u64, key_bytes: usize) -> Result<Records, Error> {
        let items = items / self.contender.databases as u64;
        Records::new(items, key_bytes, self.args.value_bytes)
    }

    /// Stores each item of a plan in each database.
    fn fill(&self, plan: &Plan) -> Result<(), Error> {
        for database in 0..self.contender.databases {
            let mut plan = plan.clone();
            plan.drive.databases = database..database + 1;
            load::fill(&self.contender.recipe.name, &plan)?;
        }
        Ok(())
    }

    /// Checks that nothing was lost that should have stayed.
    fn end(mut self) -> Result<(), Error> {
        match self.informant.ask()?.evicted {
            0 => Ok(()),
            evicted => Err(self.wrong(format!(
                "{evicted} items were evicted; give it more with --memory-mib"
            ))),
        }
    }

    fn wrong(&self, what: String) -> Error {
        Error::Wrong(format!("{}: {what}", self.contender.recipe.name))
    }
}
