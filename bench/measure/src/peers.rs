//! Peers: the options that say which servers take part in a measurement, and where they run.
//!
//! A peer is named by its path, `--peer valkey=/path/valkey-server`, and started like memcached,
//! redis-server or Cellar, which the program's name tells.

use std::num::ParseIntError;
use std::path::Path;

use clap::Args;

use cellar_load::{Error, Ingredients, Recipe, Wire};

/// How a server is left out.
pub(crate) const OFF: &str = "off";
/// Programs that are started like redis-server, by a part of their names.
const LIKE_REDIS: [&str; 3] = ["redis", "valkey", "keydb"];

/// Cellar's program.
#[derive(Args, Clone, Debug)]
pub struct CellarArgs {
    /// Cellar's program, or off
    #[arg(long, value_name = "PATH", default_value = "target/release/cellar")]
    cellar: String,
}

impl CellarArgs {
    /// How to start Cellar as a server of this protocol, unless it is left out.
    /// [`Error::Usage`] if it is not built.
    pub(crate) fn recipe(&self, wire: Wire) -> Result<Option<Recipe>, Error> {
        let is_in = takes_part("--cellar", &self.cellar, "cargo build --release makes it")?;
        Ok(is_in.then(|| Recipe::cellar(&self.cellar, wire)))
    }
}

/// Which servers a measurement starts.
#[derive(Args, Clone, Debug)]
pub struct PeerArgs {
    #[command(flatten)]
    pub(crate) cellar: CellarArgs,
    /// memcached's program, or off
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    memcached: String,
    /// redis-server's program, or off
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    redis: String,
    /// Another server: a memcached, a redis-server or one like it, or another build of Cellar
    #[arg(long = "peer", value_name = "NAME=PATH", value_parser = parse_peer)]
    others: Vec<Recipe>,
}

impl PeerArgs {
    /// Cellar as a server of this protocol, unless it is left out, and the peers that speak it.
    /// [`Error::Usage`] if Cellar is not built.
    pub(crate) fn all(&self, wire: Wire) -> Result<Vec<Recipe>, Error> {
        let cellar = self.cellar.recipe(wire)?;
        Ok(cellar.into_iter().chain(self.of(wire)).collect())
    }

    /// The peers that speak this protocol.
    pub(crate) fn of(&self, wire: Wire) -> impl Iterator<Item = Recipe> {
        let memcached = (self.memcached != OFF).then(|| Recipe::memcached(&self.memcached));
        let known = memcached.into_iter().chain(redis(&self.redis));
        known
            .chain(self.others.clone())
            .filter(move |it| it.wire == wire)
    }
}

/// The processors of a measurement.
#[derive(Args, Clone, Copy, Debug)]
pub struct CpuArgs {
    /// Processor of the servers
    #[arg(long, default_value = "0", value_parser = parse_cpu)]
    pub(crate) server_cpu: usize,
    /// Processor of the load
    #[arg(long, default_value = "1", value_parser = parse_cpu)]
    pub(crate) load_cpu: usize,
}

/// A processor, or the first one where there are too few.
fn parse_cpu(text: &str) -> Result<usize, ParseIntError> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Some(text.parse()?).filter(|cpu| *cpu < cpus).unwrap_or(0))
}

impl CpuArgs {
    /// What servers are started with that run on one thread on their processor.
    pub(crate) fn serving(self, memory_mib: u64) -> Ingredients {
        Ingredients {
            cpu: Some(self.server_cpu),
            ..Ingredients::of(memory_mib)
        }
    }
}

/// How servers of these names are started, for the page of a measurement.
pub(crate) fn started_as(names: &[String]) -> Option<String> {
    let mut text = "Servers are started as\n\n".to_owned();
    for name in names {
        let command = known(name)?.shown();
        text += &format!("- {name}: `{command}`\n");
    }
    Some(text)
}

/// How the server that pages call so is started.
fn known(name: &str) -> Option<Recipe> {
    let (program, rest) = name.split_once([' ', ',']).unwrap_or((name, ""));
    let redis = || Recipe::redis("redis-server");
    let recipe = match (program, rest.trim_start().split_once(' ')) {
        ("memcached", _) => Recipe::memcached("memcached"),
        ("cellar", Some(("over", "RESP"))) => Recipe::cellar("cellar", Wire::Resp),
        ("cellar", Some(("over", over))) if over.starts_with("HTTP") => {
            let options: Vec<&str> = over.split(' ').skip(1).collect();
            Recipe::cellar("cellar", Wire::Http).with("", &options)
        }
        ("cellar", _) => Recipe::cellar("cellar", Wire::Memcached).with("", &[rest]),
        ("redis", Some((_, effort))) => redis().with("", &["--active-expire-effort", effort]),
        ("redis-server", _) if rest.is_empty() => redis(),
        ("redis-server", _) => redis().with("", &["--maxmemory-policy", rest]),
        ("bigcache" | "map", _) => Recipe::go_service("bigcache-service", 500, name),
        _ => return None,
    };
    Some(recipe)
}

/// Whether a program that is built here is not left out.
/// [`Error::Usage`] if it is not built.
pub(crate) fn takes_part(option: &str, program: &str, hint: &str) -> Result<bool, Error> {
    if program != OFF && !Path::new(program).is_file() {
        let what = format!("{option} {program}: there is no such program; {hint}");
        return Err(Error::Usage(what));
    }
    Ok(program != OFF)
}

/// redis-server by this path, unless it is left out.
pub(crate) fn redis(program: &str) -> Option<Recipe> {
    (program != OFF).then(|| Recipe::redis(program))
}

/// The servers, of which there must be one.
/// [`Error::Usage`] if there is none.
pub(crate) fn some<T>(servers: Vec<T>) -> Result<Vec<T>, Error> {
    if servers.is_empty() {
        return Err(Error::Usage("no server is left to measure".to_owned()));
    }
    Ok(servers)
}

/// The recipe of `NAME=PATH`.
fn parse_peer(text: &str) -> Result<Recipe, String> {
    let named = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, server) = named.ok_or_else(|| format!("{text:?} is not NAME=PATH"))?;
    let program = server.rsplit('/').next().unwrap_or(server);
    if LIKE_REDIS.iter().any(|like| program.contains(like)) {
        return Ok(Recipe::redis(server).named(name));
    }
    if program.contains("memcached") {
        return Ok(Recipe::memcached(server).named(name));
    }
    // Another build of Cellar.
    if program.starts_with("cellar") {
        return Ok(Recipe::cellar(server, Wire::Memcached).named(name));
    }
    let what = "is started neither like memcached nor like redis-server, and is not called cellar";
    Err(format!("{server:?} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_program_of_a_known_kind() {
        for (text, wire, start) in [
            (
                "valkey=/opt/valkey-server",
                Wire::Resp,
                "valkey-server --bind",
            ),
            (
                "new=/opt/memcached-1.6.40/memcached",
                Wire::Memcached,
                "memcached -l",
            ),
            (
                "before=/opt/cellar-2551aa0",
                Wire::Memcached,
                "cellar-2551aa0 --memory",
            ),
        ] {
            let peer = parse_peer(text).unwrap();
            assert_eq!(peer.name, text.split('=').next().unwrap());
            assert_eq!(peer.wire, wire, "{text}");
            assert!(peer.shown().starts_with(start), "{}", peer.shown());
        }
        for bad in ["x", "=/bin/memcached", "name=/bin/other"] {
            assert!(parse_peer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn memory_is_given_to_the_byte_where_a_server_takes_bytes() {
        let names = ["cellar", "redis-server allkeys-lru", "memcached"];
        let [cellar, redis, memcached] = names.map(|name| {
            known(name)
                .unwrap()
                .with_memory((5 << 20) + 7)
                .words
                .join(" ")
        });
        assert!(cellar.contains("--memory 5242887 "), "{cellar}");
        assert!(redis.contains("--maxmemory 5242887 "), "{redis}");
        assert!(redis.ends_with("--maxmemory-policy allkeys-lru"), "{redis}");
        assert!(memcached.contains("-m 5 "), "{memcached}");
    }
}
