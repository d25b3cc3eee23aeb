//! Peers: the options that say which servers take part in a measurement, and where they run.

use clap::Args;

use crate::error::Error;
use crate::process::{Recipe, parse_peer};

/// How a server is left out.
const OFF: &str = "off";

/// Cellar's program.
#[derive(Args, Clone, Debug)]
pub struct CellarArgs {
    /// Cellar's program, or off
    #[arg(long, value_name = "PATH", default_value = "target/release/cellar")]
    cellar: String,
    /// Further arguments for Cellar, separated by spaces
    #[arg(
        long,
        value_name = "ARGS",
        default_value = "",
        allow_hyphen_values = true
    )]
    cellar_args: String,
}

impl CellarArgs {
    /// How to start Cellar, unless it is left out.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is not built.
    pub(crate) fn recipe(&self) -> Result<Option<Recipe>, Error> {
        self.recipe_by(Recipe::cellar)
    }

    /// How to start Cellar as a server of HTTP, unless it is left out.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is not built.
    pub(crate) fn recipe_http(&self) -> Result<Option<Recipe>, Error> {
        self.recipe_by(Recipe::cellar_http)
    }

    /// How to start it as `make` says, from its path and further arguments.
    fn recipe_by(&self, make: fn(&str, &[String]) -> Recipe) -> Result<Option<Recipe>, Error> {
        if !takes_part(&self.cellar) {
            return Ok(None);
        }
        if !std::path::Path::new(&self.cellar).is_file() {
            return Err(Error::Usage(format!(
                "--cellar {}: there is no such program; cargo build --release makes it",
                self.cellar
            )));
        }
        let extra = self.cellar_args.split_whitespace().map(str::to_owned);
        let extra: Vec<String> = extra.collect();
        Ok(Some(make(&self.cellar, &extra)))
    }
}

impl CellarArgs {
    /// How to start Cellar as a server of the Redis protocol, unless it is left out.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is not built.
    pub(crate) fn resp_recipe(&self) -> Result<Option<Recipe>, Error> {
        self.recipe_by(Recipe::cellar_resp)
    }
}

/// Which servers a measurement starts.
#[derive(Args, Clone, Debug)]
pub struct PeerArgs {
    #[command(flatten)]
    cellar: CellarArgs,
    /// memcached's program, or off
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    memcached: String,
    /// Another server that speaks memcached's protocol, with {port}, {memory_mib} and {threads}
    #[arg(long = "peer", value_name = "NAME=COMMAND", value_parser = parse_peer)]
    others: Vec<Recipe>,
    /// Memory of each server in MiB
    #[arg(long, default_value_t = 1024)]
    pub(crate) memory_mib: u64,
}

impl PeerArgs {
    /// The caches to measure, Cellar first.
    ///
    /// # Errors
    /// [`Error::Usage`] if none is left, or Cellar is not built.
    pub(crate) fn recipes(&self) -> Result<Vec<Recipe>, Error> {
        let mut recipes: Vec<Recipe> = self.cellar.recipe()?.into_iter().collect();
        if takes_part(&self.memcached) {
            recipes.push(Recipe::memcached(&self.memcached));
        }
        recipes.extend(self.others.iter().cloned());
        some(recipes)
    }
}

/// Servers of the Redis protocol.
#[derive(Args, Clone, Debug)]
pub struct RedisArgs {
    /// redis-server's program, or off; without it Cellar's RESP takes no part either
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    redis: String,
}

impl RedisArgs {
    /// How to start redis-server, for a measurement that cannot do without.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is left out.
    pub(crate) fn recipe(&self) -> Result<Recipe, Error> {
        if !takes_part(&self.redis) {
            return Err(Error::Usage("this needs redis-server".to_owned()));
        }
        Ok(Recipe::redis(&self.redis, &[]))
    }

    /// Cellar over RESP and redis-server, unless they are left out.
    ///
    /// # Errors
    /// [`Error::Usage`] if Cellar is not built.
    pub(crate) fn recipes(&self, peers: &PeerArgs) -> Result<Vec<Recipe>, Error> {
        if !takes_part(&self.redis) {
            return Ok(Vec::new());
        }
        let cellar = peers.cellar.recipe_by(Recipe::cellar_resp)?;
        let redis = Recipe::redis(&self.redis, &[]);
        Ok(cellar.into_iter().chain([redis]).collect())
    }
}

/// Whether HTTP takes part.
#[derive(Args, Clone, Debug)]
pub struct HttpArgs {
    /// on or off: whether Cellar takes part over HTTP, with an echo floor of its own
    #[arg(long, value_name = "on|off", default_value = "on")]
    http: String,
}

impl HttpArgs {
    /// Whether it does.
    pub(crate) fn takes_part(&self) -> bool {
        takes_part(&self.http)
    }

    /// Cellar over HTTP, unless it is left out.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is not built.
    pub(crate) fn recipe(&self, peers: &PeerArgs) -> Result<Option<Recipe>, Error> {
        if !self.takes_part() {
            return Ok(None);
        }
        peers.cellar.recipe_http()
    }
}

/// The processors of a measurement.
#[derive(Args, Clone, Copy, Debug)]
pub struct CpuArgs {
    /// Processor of the servers
    #[arg(long, default_value_t = 0)]
    pub(crate) server_cpu: usize,
    /// Processor of the load
    #[arg(long, default_value_t = 1)]
    pub(crate) load_cpu: usize,
}

impl CpuArgs {
    /// The same, or the first processor for both where there are too few.
    #[must_use]
    pub(crate) fn settled(self) -> CpuArgs {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if self.server_cpu < cpus && self.load_cpu < cpus {
            return self;
        }
        eprintln!("only {cpus} processors: servers and load share the first one");
        CpuArgs {
            server_cpu: 0,
            load_cpu: 0,
        }
    }
}

/// How servers are started, for the page of a measurement.
pub(crate) fn started_as(recipes: &[Recipe]) -> String {
    let lines = recipes
        .iter()
        .map(|recipe| format!("\n- {}: `{}`", recipe.name, recipe.shown()));
    format!("\n\nServers are started as\n{}", lines.collect::<String>())
}

/// Whether a program is not left out.
pub(crate) fn takes_part(program: &str) -> bool {
    program != OFF
}

/// The servers, of which there must be one.
///
/// # Errors
/// [`Error::Usage`] if there is none.
pub(crate) fn some<T>(servers: Vec<T>) -> Result<Vec<T>, Error> {
    if servers.is_empty() {
        return Err(Error::Usage("no server is left to measure".to_owned()));
    }
    Ok(servers)
}
