//! `cellar-bench restart`: what comes back after a restart, when, and what clients notice of it.
//!
//! Cellar with `--state`, memcached with `-e` and Redis with a snapshot or a log, each in a folder
//! in memory, are filled, ended and started again; Cellar is killed amid writes again and again;
//! what `--state` costs a request is measured in turns with a server without; and at last a server
//! is renewed while clients write at a fixed rate.

mod lineage;
mod scribes;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::{Measurement, both};
use crate::peers::{CpuArgs, PeerArgs, some};
use crate::race::beside;
use cellar_load::{
    ByteRange, Drive, Error, Ingredients, Keys, Limit, NS_PER_S, Plan, Random, Recipe, Records,
    Server, TtlMix, Wire, load, parse_count,
};
use lineage::{Founder, Lineage};
use scribes::{KEYS_EACH, Losses, Scribes, Seen};

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 50;
/// Keys of those who write beside them are longer, so that they never meet.
const WRITTEN_KEY_BYTES: usize = 17;
/// Values of those who write, while servers are killed.
const KILLED_BYTES: ByteRange = ByteRange { low: 20, high: 400 };
const TTL_S: (u32, u32) = (3_600, 7_200);
const THREADS: usize = 2;
/// Memory for each item, so that nothing is evicted, and beside.
const ITEM_BYTES: u64 = 256;
const MEMORY_MIB_MIN: u64 = 128;
/// Connections that fill and read back, and that write while a server is killed.
const CONNECTIONS: usize = 16;
const DEEP: usize = 32;
/// Items in one write of a connection.
const BATCH: u32 = 4;

/// Options of `cellar-bench restart`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    #[serde(skip)]
    peers: PeerArgs,
    /// Numbers of items with which servers go on
    #[arg(long, value_delimiter = ',', value_parser = parse_count)]
    #[arg(
        default_value = "100k,1M,10M",
        default_value_if("quick", "true", "3k,6k")
    )]
    items: Vec<u64>,
    /// Restarts of a server with so many items, and rounds of the costs and renewals
    #[arg(long, default_value_t = 5)]
    #[arg(default_value_if("quick", "true", "2"))]
    rounds: usize,
    /// How often Cellar is killed amid writes
    #[arg(long, default_value_t = 300)]
    #[arg(default_value_if("quick", "true", "3"))]
    kills: usize,
    /// Requests of which each cost is the mean
    #[arg(long, default_value = "500k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "5k"))]
    requests: u64,
    /// Items of a server that is renewed
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "6k"))]
    renewed_items: u64,
    /// Connections that write meanwhile
    #[arg(long, default_value_t = 200)]
    #[arg(default_value_if("quick", "true", "20"))]
    connections: u64,
    /// Writes each second
    #[arg(long, default_value = "50k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "2k"))]
    rate: u64,
    /// Milliseconds of them before and after a server is renewed
    #[arg(long, default_value_t = 2_000)]
    #[arg(default_value_if("quick", "true", "500"))]
    calm_ms: u64,
    /// A folder in memory, with room for all items
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    #[serde(skip)]
    folder: PathBuf,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

impl Measurement for RestartArgs {
    fn measure(&self) -> Result<Value, Error> {
        let founders = some(lineage::all(&self.peers)?)?;
        let mut attaches = Vec::new();
        for &items in &self.items {
            for founder in &founders {
                for signal in [founder.stop, Signal::KILL] {
                    attaches.push(self.attach(founder, signal, items)?);
                }
            }
        }
        let (mut killed, mut costs) = (None, Vec::new());
        if let Some(cellar) = lineage::cellar(&self.peers)? {
            killed = Some(self.kill(&cellar)?);
            costs = self.costs(&cellar)?;
        }
        let renewals = founders.iter().map(|it| self.renewals(it));
        let renewals = renewals.collect::<Result<Vec<_>, _>>()?;
        Ok(json!({
            "value_bytes": VALUE_BYTES,
            "started": founders.iter().map(|it| it.recipe.shown()).collect::<Value>(),
            "attaches": attaches,
            "killed": killed,
            "costs": costs,
            "renewals": renewals.concat(),
        }))
    }

    fn check(figures: &Value) -> Result<(), Error> {
        let count = |it: &Value, name: &str| it[name].as_u64().unwrap_or(0);
        let renewals = figures["renewals"].as_array().into_iter().flatten();
        let ours = renewals.filter(|it| it["server"] == "cellar");
        let ours = ours.flat_map(|it| {
            let names = ["wrong_items", "lost_items", "items_wrong"];
            names.map(|name| count(it, name))
        });
        match ours.sum::<u64>() + count(&figures["killed"], "wrong_items") {
            0 => Ok(()),
            bad => Err(Error::Wrong(format!("{bad} items of Cellar's are wrong"))),
        }
    }
}

impl RestartArgs {
    fn start(&self, founder: &Founder, items: u64) -> Result<Lineage, Error> {
        let with = Ingredients {
            threads: THREADS,
            ..Ingredients::of(memory_mib(items))
        };
        founder.start(&self.folder, with)
    }

    /// Ends and starts a server that is full, again and again.
    fn attach(&self, founder: &Founder, signal: Signal, items: u64) -> Result<Value, Error> {
        let mut lineage = self.start(founder, items)?;
        load::fill(&founder.recipe.name, &plan(&lineage.server, items)?)?;
        let (mut end_ms, mut answer_ms, mut is_hit) = (Vec::new(), Vec::new(), true);
        for _ in 0..self.rounds {
            end_ms.push(lineage.end(signal)?);
            let (ms, is_there) = lineage.begin(&first_key(items)?)?;
            let (name, signal) = (&founder.recipe.name, signal.as_raw());
            eprintln!("{items:9} items, {name:22} signal {signal:2}: {ms:9.1} ms to an answer");
            answer_ms.push(ms);
            is_hit &= is_there;
        }
        let (there, wrong) = read_back(&lineage.server, items)?;
        Ok(json!({
            "server": founder.recipe.name,
            "version": lineage.server.version()?,
            "items": items,
            "is_killed": signal == Signal::KILL,
            // From the signal to the end of the process, and from the start of the next one to its
            // first answer; round by round.
            "end_ms": end_ms,
            "answer_ms": answer_ms,
            // Whether all these answers were hits.
            "is_hit": is_hit,
            "items_there": there,
            "items_wrong": wrong,
        }))
    }

    /// Kills Cellar amid writes, and looks at each item after each time.
    fn kill(&self, cellar: &Founder) -> Result<Value, Error> {
        let keys = (CONNECTIONS * KEYS_EACH) as u64;
        let records = Records::new(keys, WRITTEN_KEY_BYTES, KILLED_BYTES)?;
        let mut scribes = Scribes::new(records, DEEP as u32, None);
        let mut lineage = self.start(cellar, keys)?;
        let (seen, mut answer_ms, mut losses) = (Seen::default(), Vec::new(), Losses::default());
        let mut random = Random::seeded(1);
        for _ in 0..self.kills {
            let at = lineage.at();
            let ((), ended) = beside(
                |is_over| scribes.write(&at, &seen, is_over),
                || {
                    std::thread::sleep(Duration::from_micros(20_000 + random.below(180_000)));
                    lineage.end(Signal::KILL)
                },
            );
            ended?;
            answer_ms.push(lineage.begin(b"none")?.0);
            scribes.check(&lineage.server, &mut losses)?;
        }
        eprintln!("{} kills: {losses:?}", self.kills);
        let writes = seen.acknowledged.into_inner();
        Ok(both(
            losses,
            json!({"writes": writes, "answer_ms": answer_ms}),
        ))
    }

    /// In each round each kind of request visits the server without `--state` and that with it.
    fn costs(&self, cellar: &Founder) -> Result<Vec<Value>, Error> {
        // Many: pages of another size cost most where the processor caches few of them.
        let items = self.items.iter().copied().max().unwrap_or(1);
        let with = self
            .cpus
            .serving(((items * ITEM_BYTES) >> 20) + MEMORY_MIB_MIN);
        let plain = Recipe::cellar(&cellar.recipe.words[0], Wire::Memcached).start(with)?;
        let lineage = cellar.start(&self.folder, with)?;
        for server in [&plain, &lineage.server] {
            load::fill("cellar", &plan(server, items)?)?;
        }
        let mut costs = Vec::new();
        for _ in 0..self.rounds {
            for (request, get_share, depth) in [
                ("get", 1.0, 1),
                ("set", 0.0, 1),
                ("get", 1.0, DEEP),
                ("set", 0.0, DEEP),
            ] {
                let cpu_us = |server: &Server| {
                    let mut plan = plan(server, items)?;
                    plan.get_share = get_share;
                    plan.drive.depth = depth;
                    plan.drive.cpus = vec![self.cpus.load_cpu];
                    let plan = plan.until(Limit::Requests(self.requests));
                    Ok::<_, Error>(load::run(&plan)?.cpu_us())
                };
                let (plain_us, state_us) = (cpu_us(&plain)?, cpu_us(&lineage.server)?);
                eprintln!("{request} {depth:2} deep: {plain_us:.3} us, {state_us:.3} with --state");
                costs.push(json!({
                    "request": request,
                    "depth": depth,
                    "plain_us": plain_us,
                    "state_us": state_us,
                }));
            }
        }
        Ok(costs)
    }

    /// Renews a server under load, again and again.
    fn renewals(&self, founder: &Founder) -> Result<Vec<Value>, Error> {
        let (items, name) = (self.renewed_items, &founder.recipe.name);
        let calm = Duration::from_millis(self.calm_ms);
        let written = self.connections * KEYS_EACH as u64;
        let mut lineage = self.start(founder, items + written)?;
        load::fill(name, &plan(&lineage.server, items)?)?;
        let records = Records::new(written, WRITTEN_KEY_BYTES, VALUE_BYTES)?;
        let round_ns = self.connections * u64::from(BATCH) * NS_PER_S;
        let mut scribes = Scribes::new(records, BATCH, Some(round_ns / self.rate.max(1)));
        let mut renewals = Vec::new();
        for _ in 0..self.rounds {
            let (at, seen) = (lineage.at(), Seen::default());
            let ((), renewed) = beside(
                |is_over| scribes.write(&at, &seen, is_over),
                || {
                    // What it takes to connect is no gap.
                    std::thread::sleep(calm / 4);
                    seen.longest_ms();
                    std::thread::sleep(calm);
                    let calm_ms = seen.longest_ms();
                    lineage.renew(&first_key(items)?)?;
                    std::thread::sleep(calm);
                    Ok::<_, Error>((calm_ms, seen.longest_ms()))
                },
            );
            let ((calm_ms, gap_ms), mut losses) = (renewed?, Losses::default());
            eprintln!("{name}: {gap_ms:.1} ms without an answer, {calm_ms:.1} before; {seen:?}");
            scribes.check(&lineage.server, &mut losses)?;
            let (items_there, items_wrong) = read_back(&lineage.server, items)?;
            let others = json!({
                "server": name,
                "version": lineage.server.version()?,
                // The longest time in which no write was acknowledged, before and from then on.
                "calm_ms": calm_ms,
                "gap_ms": gap_ms,
                "items_there": items_there,
                "items_wrong": items_wrong,
            });
            renewals.push(both(both(seen, json!(losses)), others));
        }
        Ok(renewals)
    }
}

fn memory_mib(items: u64) -> u64 {
    ((items * ITEM_BYTES) >> 20) + MEMORY_MIB_MIN
}

/// The load of all items, with lifetimes that no run reaches.
fn plan(server: &Server, items: u64) -> Result<Plan, Error> {
    let records = records(items)?;
    let limit = Limit::Requests(items);
    let drive = Drive {
        depth: DEEP,
        ..server.drive(CONNECTIONS, limit)
    };
    Ok(Plan {
        ttl: TtlMix::between(TTL_S.0, TTL_S.1),
        ..Plan::gets(drive, records)
    })
}

fn records(items: u64) -> Result<Records, Error> {
    Records::new(items, KEY_BYTES, VALUE_BYTES)
}

fn first_key(items: u64) -> Result<Vec<u8>, Error> {
    let mut key = Vec::new();
    records(items)?.push_key(&mut key, 0);
    Ok(key)
}

/// Reads every item and compares it with what was stored: how many are there, and how many wrong.
fn read_back(server: &Server, items: u64) -> Result<(u64, u64), Error> {
    let report = load::run(&Plan {
        keys: Keys::Each,
        verify: true,
        ..plan(server, items)?
    })?;
    Ok((report.get.hits, report.mismatches))
}
