//! `cellar-bench tls`: what encryption costs a server, and what handshakes cost its other clients.
//!
//! Each server has three doors, TCP, TLS and a socket file, which are asked in turns, so that a
//! disturbance of the machine falls on all alike. Then some clients ask over TLS while others come
//! and go, with handshakes, without, and not at all. At last connections that have asked once are
//! left idle.

mod host;
mod storm;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::peers::{CellarArgs, CpuArgs, redis, some};
use crate::race::beside;
use cellar_load::{
    Address, Drive, Error, Limit, NS_PER_S, Plan, Recipe, Records, Wire, drive, load, now_ns,
    parse_count, usage,
};
use host::{Host, Identity};
use storm::Storm;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const CONNECTIONS: usize = 50;
const MEMORY_MIB: u64 = 1024;
const DEEP: usize = 32;
/// Requests 32 deep for each at depth 1: they take about as long.
const DEEP_REQUESTS: u64 = 10;
/// Requests each second beside a storm, where there is a rate.
const RATE_PER_S: f64 = 5_000.0;
/// The server's thread that makes handshakes.
const HANDSHAKES: &str = "cellar-tls";
/// How long a fresh server may take to come to rest.
const REST_NS: u64 = 20 * NS_PER_S;

/// Options of `cellar-bench tls`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct DoorsArgs {
    #[command(flatten)]
    #[serde(skip)]
    cellar: CellarArgs,
    /// redis-server's program, built with TLS, or off
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    #[serde(skip)]
    redis: String,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 7)]
    #[arg(default_value_if("quick", "true", "1"))]
    rounds: usize,
    /// Different keys
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "10k"))]
    keys: u64,
    /// Requests through a door at depth 1; ten times as many 32 deep
    #[arg(long, default_value = "150k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "5k"))]
    requests: u64,
    /// Milliseconds of a storm beside clients who ask as fast as they can
    #[arg(long, default_value_t = 3_000)]
    #[arg(default_value_if("quick", "true", "500"))]
    storm_ms: u64,
    /// Milliseconds of a storm beside clients who ask at a fixed rate
    #[arg(long, default_value_t = 8_000)]
    #[arg(default_value_if("quick", "true", "500"))]
    paced_ms: u64,
    /// Idle connections
    #[arg(long, default_value_t = 5_000)]
    #[arg(default_value_if("quick", "true", "200"))]
    idle: usize,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

/// A load beside one kind of storm; shares are of one processor.
#[derive(Debug, Serialize)]
struct Gust {
    storm: &'static str,
    is_paced: bool,
    connections_per_s: f64,
    client_share: f64,
    handshakes_share: f64,
    per_s: f64,
    /// What is left of the server's processor when all others are paid for, each request of the
    /// load as in the calm of the same round.
    lost_share: f64,
    latency_us_p50: f64,
    latency_us_p99_9: f64,
}

impl Measurement for DoorsArgs {
    fn measure(&self) -> Result<Value, Error> {
        let args = self;
        let identity = Identity::new()?;
        let wires = [Wire::Resp, Wire::Memcached, Wire::Http];
        let cellars = wires.map(|wire| args.cellar.recipe(wire));
        let cellars = cellars.into_iter().collect::<Result<Vec<_>, _>>()?;
        let cellars: Vec<_> = cellars.iter().flatten().map(host::cellar).collect();
        let redis = redis(&args.redis).map(|redis| host::redis(&redis));
        let recipes = some(cellars.iter().cloned().chain(redis).collect::<Vec<_>>())?;
        let hosts = recipes.iter().map(|it| args.start(&identity, it));
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let doors = args.doors(&hosts)?;
        let (mut storms, mut idle_rounds) = (Vec::new(), Vec::new());
        if let (Some(cellar), Some(host)) = (cellars.first(), hosts.first()) {
            for round in 0..2 * args.rounds {
                storms.extend(args.storms(host, round >= args.rounds)?);
            }
            for round in 0..2 * args.rounds {
                idle_rounds.push(args.idleness(&identity, cellar, round % 2)?);
            }
        }
        Ok(json!({
            "storm_per_s": storm::PER_S,
            "rate_per_s": RATE_PER_S,
            "started": recipes.iter().map(Recipe::shown).collect::<Value>(),
            "doors": doors,
            "storms": storms,
            "idle_rounds": idle_rounds,
        }))
    }
}

impl DoorsArgs {
    /// Starts a server and stores all keys.
    fn start(&self, identity: &Identity, recipe: &Recipe) -> Result<Host, Error> {
        let host = identity.start(recipe, self.cpus.serving(MEMORY_MIB))?;
        let address = host.server.address();
        let fill = self.plan(&host, address, DEEP, Limit::Requests(self.keys))?;
        load::fill(&recipe.name, &fill)?;
        Ok(host)
    }

    fn plan(
        &self,
        host: &Host,
        address: &Address,
        depth: usize,
        limit: Limit,
    ) -> Result<Plan, Error> {
        let records = Records::new(self.keys, KEY_BYTES, VALUE_BYTES)?;
        let drive = Drive {
            depth,
            cpus: vec![self.cpus.load_cpu],
            target: address.clone(),
            ..host.server.drive(CONNECTIONS, limit)
        };
        Ok(Plan::gets(drive, records))
    }

    /// In each round every door of every server is visited at each depth.
    fn doors(&self, hosts: &[Host]) -> Result<Vec<Value>, Error> {
        let mut visits = Vec::new();
        for _ in 0..self.rounds {
            for host in hosts {
                for (depth, requests) in [(1, self.requests), (DEEP, self.requests * DEEP_REQUESTS)]
                {
                    for (door, address) in &host.doors {
                        let limit = Limit::Requests(requests);
                        let report = load::run(&self.plan(host, address, depth, limit)?)?;
                        let probe = address.connect();
                        let probe = probe.map_err(|error| Error::system("coming again", error))?;
                        let (name, us) = (&host.name, report.cpu_us());
                        eprintln!("{name:16} {depth:2} deep, {door:11} {us:7.3} us/get");
                        visits.push(json!({
                            "server": name,
                            "depth": depth,
                            "door": door,
                            "cipher": probe.cipher(),
                            "server_cpu_us": us,
                            "per_s": report.throughput_per_s,
                            "misses": report.get.misses + report.errors,
                        }));
                    }
                }
            }
        }
        Ok(visits)
    }

    /// A storm of handshakes, one without, and a calm. Each connection takes as much of its own
    /// processor in all three as in the first.
    fn storms(&self, host: &Host, is_paced: bool) -> Result<[Gust; 3], Error> {
        let [(_, tcp), (_, tls), _] = &host.doors;
        let (sealed, least_ns) = self.gust(host, ("TLS", Some(tls)), 0, is_paced)?;
        let (plain, _) = self.gust(host, ("TCP", Some(tcp)), least_ns, is_paced)?;
        let (calm, _) = self.gust(host, ("none", None), least_ns, is_paced)?;
        let price_s = (1.0 - calm.client_share - calm.handshakes_share) / calm.per_s;
        let mut gusts = [sealed, plain, calm];
        for it in &mut gusts {
            it.lost_share = 1.0 - it.client_share - it.handshakes_share - it.per_s * price_s;
            let (storm, per_s, us) = (it.storm, it.per_s, it.latency_us_p99_9);
            eprintln!("storm {storm:4} {per_s:8.0} gets/s, p99.9 {us:7.1} us");
        }
        Ok(gusts)
    }

    /// A load beside a storm; also what a connection took of the storm's own processor.
    fn gust(
        &self,
        host: &Host,
        (name, address): (&'static str, Option<&Address>),
        least_ns: u64,
        is_paced: bool,
    ) -> Result<(Gust, u64), Error> {
        let (ms, cpu) = match is_paced {
            true => (self.paced_ms, self.cpus.load_cpu),
            false => (self.storm_ms, self.cpus.server_cpu),
        };
        let mut plan = self.plan(
            host,
            &host.doors[1].1,
            1,
            Limit::Nanoseconds(ms * 1_000_000),
        )?;
        plan.drive.rate_per_s = is_paced.then_some(RATE_PER_S);
        let storm = Storm {
            address,
            least_ns,
            cpu,
            is_polite: is_paced,
        };
        let handshakes_ns = || {
            let read = usage::threads_cpu_ns(host.server.pid(), HANDSHAKES);
            read.map_err(|error| Error::system("reading the time of handshakes", error))
        };
        let before_ns = handshakes_ns()?;
        let (blown, report) = beside(|is_over| storm.blow(is_over), || load::run(&plan));
        let (report, wall_ns) = (report?, blown.wall_ns as f64);
        let connections = blown.results.into_iter().sum::<Result<u64, Error>>()?;
        let gust = Gust {
            storm: name,
            is_paced,
            connections_per_s: connections as f64 * 1e9 / wall_ns,
            client_share: blown.cpu_ns as f64 / wall_ns,
            handshakes_share: (handshakes_ns()? - before_ns) as f64 / wall_ns,
            per_s: report.throughput_per_s,
            lost_share: 0.0,
            latency_us_p50: report.latency.latency_us_p50,
            latency_us_p99_9: report.latency.latency_us_p99_9,
        };
        Ok((gust, blown.cpu_ns / connections.max(1)))
    }

    /// How much a fresh server grows for each connection that has asked once at this door.
    fn idleness(&self, to: &Identity, recipe: &Recipe, door: usize) -> Result<Value, Error> {
        let host = to.start(recipe, self.cpus.serving(MEMORY_MIB))?;
        let (door, address) = &host.doors[door];
        host.server.rest(now_ns() + REST_NS)?;
        let before_bytes = host.server.rss_bytes()?;
        let wire = host.server.wire();
        let drive = Drive::new(wire, address, self.idle, Limit::Requests(0));
        let _open = drive::connect(&drive, b"idle")?;
        host.server.rest(now_ns() + REST_NS)?;
        let grown_bytes = host.server.rss_bytes()?.saturating_sub(before_bytes);
        Ok(json!({"door": door, "bytes": grown_bytes as f64 / self.idle as f64}))
    }
}
