//! `cellar-bench compression`: how many more items fit into the same memory, and what that costs.
//!
//! The values of a family come from a file that `bench/families` has made. *Held*: a fresh server
//! gets several times as many values as fit, and every key is read back. *Load*: gets of keys by
//! Zipf's law over several times the memory; a key that is missed is stored. Values repeat under
//! other keys where a family has too few; each is compressed by itself, so that saves nothing.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::families::Family;
use crate::measurement::Measurement;
use crate::memory::REDIS_POLICY;
use crate::peers::{CpuArgs, PeerArgs, some};
use crate::spread::Spread;
use cellar_load::{
    Client, Error, Event, Latencies, NS_PER_S, Picker, Popularity, Random, Recipe, Scatter, Server,
    Wire, now_ns, parse_count,
};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Requests whose replies are waited for together, and the bytes that they may have.
const DEPTH: usize = 32;
const BATCH_BYTES: usize = 64 << 10;
/// A server is filled, and warmed, in so many parts. It comes to rest after each: then one that
/// trains dictionaries has the time for it that it has in use.
const PARTS: u64 = 8;
/// So many times the measured requests warm a server.
const WARMING: u64 = 10;
/// At a greater depth at most so many times the requests are measured.
const DEEPER_MAX: u64 = 8;
/// So many times the measured requests are sent at fixed times: a p99.9 needs 100 batches beyond
/// it, and so 3.2 million requests.
const PACED: u64 = 16;
/// Time in which a server comes to rest.
const REST_S_MAX: u64 = 60;
const EXPONENT: f64 = 0.99;
/// Depths at which the load is measured.
const DEPTHS: [usize; 2] = [1, 32];

/// Options of `cellar-bench compression`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct CompressionArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
    /// Files of values, as bench/families writes them
    #[serde(skip)]
    files: Vec<PathBuf>,
    /// Memory of each server in MiB
    #[arg(long, default_value_t = 64)]
    #[arg(default_value_if("quick", "true", "16"))]
    memory_mib: u64,
    /// Bytes of values that are stored, as a multiple of the memory
    #[arg(long, default_value_t = 16)]
    #[arg(default_value_if("quick", "true", "2"))]
    stored: u64,
    /// Bytes of all values of the load, as a multiple of the memory
    #[arg(long, default_value_t = 5)]
    loaded: u64,
    /// Rounds of the load, in which the servers take turns
    #[arg(long, default_value_t = 5)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: u64,
    /// Requests of the load at depth 1 in all rounds, after ten times as many
    #[arg(long, default_value = "300k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "5k"))]
    requests: u64,
}

impl Measurement for CompressionArgs {
    fn measure(&self) -> Result<Value, Error> {
        let cellar = self.peers.cellar.recipe(Wire::Memcached)?;
        let cellar = cellar.into_iter().flat_map(|it| {
            let packed = it.with(", --compress auto", &["--compress", "auto"]);
            [it, packed]
        });
        let memcached = self.peers.of(Wire::Memcached);
        let resp = self.peers.of(Wire::Resp);
        let resp = resp.map(|it| it.with("", &REDIS_POLICY));
        let recipes: Vec<Recipe> = some(cellar.chain(memcached).chain(resp).collect())?;
        let mut rows = Vec::new();
        for file in &self.files {
            let family = Family::read(file)?;
            rows.extend(self.family(&family, &recipes)?);
        }
        Ok(json!({ "rows": rows }))
    }
}

impl CompressionArgs {
    /// A row for each server: what it holds, and what the load found.
    fn family(&self, family: &Family, recipes: &[Recipe]) -> Result<Vec<Value>, Error> {
        let mut rows = Vec::new();
        let mut sides = Vec::new();
        for recipe in recipes {
            let (name, row) = (&recipe.name, self.held(family, recipe)?);
            eprintln!("{:16} {name:26} {}", family.name, row["items_held"]);
            rows.push(row);
            sides.push(self.warmed(family, recipe)?);
        }
        // In turns, so that the machine is the same for all.
        for _ in 0..self.rounds {
            // At half of the rate that the first server reaches.
            let mut every_ns = None;
            for side in &mut sides {
                let batch_ns = side.round(self.requests / self.rounds)?;
                let every_ns = *every_ns.get_or_insert(2 * batch_ns);
                side.paced_round(self.requests / self.rounds * PACED, every_ns)?;
            }
        }
        for (row, side) in rows.iter_mut().zip(sides) {
            let loads: Vec<Value> = side.found.iter().map(Findings::summary).collect();
            row["loads"] = loads.into();
            row["paced_p999_us"] = json!(side.paced.quantile_ms(0.999).map(|ms| ms * 1e3));
            row["load_rss_bytes"] = side.server.rss_bytes()?.into();
        }
        Ok(rows)
    }

    /// A server that the load has warmed.
    fn warmed<'f>(&self, family: &'f Family, recipe: &Recipe) -> Result<Side<'f>, Error> {
        let server = recipe.start(self.cpus.serving(self.memory_mib))?;
        let mut load = Load::on(&server, family, self.keys(family, self.loaded))?;
        for _ in 0..PARTS {
            load.run(WARMING * self.requests / PARTS, DEPTH, None)?;
            server.rest(now_ns() + REST_S_MAX * NS_PER_S)?;
        }
        Ok(Side {
            server,
            load,
            found: DEPTHS.map(Findings::at),
            paced: Latencies::new(),
        })
    }

    /// Values of so many times the memory.
    fn keys(&self, family: &Family, times: u64) -> u64 {
        (times * (self.memory_mib << 20)).div_ceil(family.mean_bytes())
    }

    /// Items and bytes of values that a server has in the end of those that it got.
    fn held(&self, family: &Family, recipe: &Recipe) -> Result<Value, Error> {
        let server = recipe.start(self.cpus.serving(self.memory_mib))?;
        let keys = self.keys(family, self.stored);
        let mut client = connect(&server)?;
        for part in 0..PARTS {
            for number in part * keys / PARTS..(part + 1) * keys / PARTS {
                client.set(&family.key(number), 0, family.value(number));
                if client.unsent().0 >= BATCH_BYTES {
                    client.exchange(|_, _| Ok(()))?;
                }
            }
            client.exchange(|_, _| Ok(()))?;
            server.rest(now_ns() + REST_S_MAX * NS_PER_S)?;
        }
        let rss_bytes = server.rss_bytes()?;
        let (mut items, mut bytes, mut wrong) = (0, 0, 0);
        for first in (0..keys).step_by(DEPTH) {
            let numbers = first..keys.min(first + DEPTH as u64);
            numbers
                .clone()
                .for_each(|number| client.get(&family.key(number)));
            let mut asked = numbers;
            client.exchange(|event, value| {
                let number = asked.next().unwrap_or(0);
                if let (Event::GetDone, Some(value)) = (event, value) {
                    items += 1;
                    bytes += value.len() as u64;
                    wrong += u64::from(value != family.value(number));
                }
                Ok(())
            })?;
        }
        if wrong > 0 {
            return Err(Error::Wrong(format!(
                "{}: {wrong} wrong values",
                recipe.name
            )));
        }
        Ok(json!({
            "family": family.name,
            "mean_bytes": family.mean_bytes(),
            "values": family.values.len(),
            "server": recipe.name,
            "version": server.version()?,
            "items_held": items,
            "value_bytes_held": bytes,
            "rss_bytes": rss_bytes,
        }))
    }
}

fn connect(server: &Server) -> Result<Client, Error> {
    Client::connect(server.address(), server.wire(), TIMEOUT)
}

/// A server under load, and what was found.
struct Side<'f> {
    server: Server,
    load: Load<'f>,
    found: [Findings; DEPTHS.len()],
    /// Latencies of batches that begin at fixed times.
    paced: Latencies,
}

impl Side<'_> {
    /// So many requests at depth 1, and more at others, which take less time. The mean nanoseconds
    /// of a batch at the greatest depth.
    fn round(&mut self, requests: u64) -> Result<u64, Error> {
        let mut batch_ns = 0;
        for findings in &mut self.found {
            let requests = requests * (findings.depth as u64).min(DEEPER_MAX);
            let (cpu_ns, started_ns) = (self.server.cpu_ns()?, now_ns());
            let found = self.load.run(requests, findings.depth, None)?;
            batch_ns = (now_ns() - started_ns) / requests.div_ceil(findings.depth as u64);
            let cpu_ns = self.server.cpu_ns()? - cpu_ns;
            let asked = requests + found.misses;
            findings.cpu_us.push(cpu_ns as f64 / 1e3 / asked as f64);
            findings.requests += requests;
            findings.misses += found.misses;
            findings.latencies.merge(&found.latencies);
        }
        Ok(batch_ns)
    }

    /// So many requests in batches of the greatest depth, one in so many nanoseconds.
    fn paced_round(&mut self, requests: u64, every_ns: u64) -> Result<(), Error> {
        let found = self.load.run(requests, DEPTH, Some(every_ns))?;
        self.paced.merge(&found.latencies);
        Ok(())
    }
}

/// What all rounds at one depth have found.
struct Findings {
    depth: usize,
    requests: u64,
    misses: u64,
    /// Of a request, stores of misses included, by round.
    cpu_us: Vec<f64>,
    latencies: Latencies,
}

impl Findings {
    fn at(depth: usize) -> Findings {
        Findings {
            depth,
            requests: 0,
            misses: 0,
            cpu_us: Vec::new(),
            latencies: Latencies::new(),
        }
    }

    fn summary(&self) -> Value {
        let p999_ms = self.latencies.quantile_ms(0.999);
        json!({
            "depth": self.depth,
            "miss_ratio": self.misses as f64 / self.requests as f64,
            "cpu_us": Spread::of(self.cpu_us.clone()),
            "p999_us": p999_ms.map(|ms| ms * 1e3),
        })
    }
}

/// Gets by Zipf's law; what is missed is stored.
struct Load<'f> {
    family: &'f Family,
    client: Client,
    picker: Picker,
    scatter: Scatter,
    random: Random,
}

/// What a load has found.
struct Found {
    misses: u64,
    latencies: Latencies,
}

impl<'f> Load<'f> {
    fn on(server: &Server, family: &'f Family, keys: u64) -> Result<Load<'f>, Error> {
        Ok(Load {
            family,
            client: connect(server)?,
            picker: Picker::new(Popularity::Zipf(EXPONENT), keys),
            scatter: Scatter::new(keys),
            random: Random::seeded(1),
        })
    }

    /// So many gets, `depth` at a time: one batch after the other, or one in so many nanoseconds.
    /// Then its latency counts from the time at which it was to begin.
    fn run(&mut self, requests: u64, depth: usize, every_ns: Option<u64>) -> Result<Found, Error> {
        let mut found = Found {
            misses: 0,
            latencies: Latencies::new(),
        };
        let (mut numbers, mut missed) = (Vec::new(), Vec::new());
        let mut due_ns = now_ns();
        for _ in 0..requests.div_ceil(depth as u64) {
            if let Some(every_ns) = every_ns {
                due_ns += every_ns;
                while now_ns() < due_ns {
                    std::hint::spin_loop();
                }
            }
            numbers.clear();
            for _ in 0..depth {
                let number = self.scatter.place(self.picker.pick(&mut self.random));
                numbers.push(number);
                self.client.get(&self.family.key(number));
            }
            if every_ns.is_none() {
                due_ns = now_ns();
            }
            let mut asked = numbers.iter();
            self.client.exchange(|_, value| {
                if let (Some(&number), None) = (asked.next(), value) {
                    missed.push(number);
                }
                Ok(())
            })?;
            found.latencies.record(now_ns() - due_ns);
            found.misses += missed.len() as u64;
            for number in missed.drain(..) {
                let value = self.family.value(number);
                self.client.set(&self.family.key(number), 0, value);
            }
            self.client.exchange(|_, _| Ok(()))?;
        }
        Ok(found)
    }
}
