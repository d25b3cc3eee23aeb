//! `cellar-bench service`: a cache service over HTTP at a fixed rate, as BigCache was made for.
//!
//! JSON messages are posted and read by id, half and half, so many per second whatever the server
//! does; each is kept for ten minutes, and millions are there. Every content that is read is
//! compared with what was written; a good part of the reads asks for the message that was
//! acknowledged last. Servers are measured one after the other: Cellar, BigCache behind net/http
//! and behind fasthttp, and a floor that answers without looking at the request.
//!
//! A second table says what a request costs the server in a closed loop, against the floor.

mod message;
mod board;
mod found;
mod asking;
mod servers;
mod paced;
mod cost;

use clap::Args;
use serde::Serialize;

use crate::measurement::Measurement;
use crate::peers::{CellarArgs, CpuArgs};
use cellar_load::drive::{Drive, Limit};
use cellar_load::error::Error;
use cellar_load::process::Server;
use cellar_load::quantity::{ByteRange, parse_count};
use cellar_load::wire::Wire;
use found::RunFigures;
use message::{Messages, Method};

/// What an entry may take beside its message, in memory that a server is given.
const ENTRY_EXTRA_BYTES: u64 = 140;
/// Memory that a server is given at least, in MiB.
const MEMORY_MIB_MIN: u64 = 128;

const QUICK_RATE: u64 = 2000;
const QUICK_SECONDS: u64 = 2;
const QUICK_PREFILL: u64 = 20_000;
const QUICK_ROUNDS: usize = 2;
const QUICK_ROUND_SECONDS: f64 = 0.3;

/// Options of `cellar-bench service`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ServiceArgs {
    #[command(flatten)]
    #[serde(skip)]
    cellar: CellarArgs,
    /// The program made of bench/peers/bigcache, or off
    #[arg(
        long,
        value_name = "PATH",
        default_value = "target/release/bigcache-service"
    )]
    #[serde(skip)]
    bigcache: String,
    /// Requests per second, half of them writes
    #[arg(long, value_name = "PER_S", default_value = "10k", value_parser = parse_count)]
    #[serde(rename = "rate_per_s")]
    rate: u64,
    /// Seconds of load for each server; the source took 2100
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Messages that are there before the load
    #[arg(long, default_value = "2M", value_parser = parse_count)]
    prefill: u64,
    /// How long messages are kept, in seconds
    #[arg(long, default_value_t = 600)]
    ttl_s: u32,
    /// Length of the messages as JSON: N or LOW..HIGH
    #[arg(long, default_value = "350..500")]
    #[serde(skip)]
    message_bytes: ByteRange,
    /// Connections, which stay open
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Share of the reads that ask for the message acknowledged last
    #[arg(long, default_value_t = 0.5)]
    read_back_share: f64,
    /// Memory of each server in MiB [default: enough for all messages that live at once]
    #[arg(long)]
    memory_mib: Option<u64>,
    /// Rounds of the table of costs; the median counts, 0 leaves the table out
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Seconds of each measurement of the table of costs
    #[arg(long, default_value_t = 1.0)]
    round_seconds: f64,
    /// A slow load of two seconds and two short rounds: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct ServiceOutcome {
    #[serde(flatten)]
    args: ServiceArgs,
    message_bytes_min: usize,
    message_bytes_max: usize,
    servers: Vec<PacedResult>,
    costs: Vec<cost::CostResult>,
}

/// One server under the load at a fixed rate.
#[derive(Debug, Serialize)]
struct PacedResult {
    server: String,
    version: String,
    is_floor: bool,
    /// What it was given; zero for the floor.
    memory_mib: u64,
    /// Messages that it had taken at the end.
    messages: u64,
    rss_bytes: u64,
    rss_peak_bytes: u64,
    #[serde(flatten)]
    figures: RunFigures,
    /// The longest request of each second, in microseconds.
    worst_us: Vec<f64>,
}

impl Measurement for ServiceArgs {
    type Outcome = ServiceOutcome;

    fn measure(&self) -> Result<ServiceOutcome, Error> {
        let args = self.settled()?;
        let messages = Messages::new(args.message_bytes)?;
        let contenders = servers::contenders(&args, messages)?;
        let mut results = Vec::new();
        for contender in contenders.iter().filter(|it| it.answers(Method::Get)) {
            results.push(paced::run(&args, messages, contender)?);
        }
        Ok(ServiceOutcome {
            message_bytes_min: args.message_bytes.low,
            message_bytes_max: args.message_bytes.high,
            servers: results,
            costs: cost::measure(&args, messages, &contenders)?,
            args,
        })
    }

    fn check(outcome: &ServiceOutcome) -> Result<(), Error> {
        let figures = outcome
            .servers
            .iter()
            .map(|it| (&it.server, it.figures.counts.lost, it.figures.counts.wrong));
        let costs = outcome
            .costs
            .iter()
            .map(|it| (&it.server, it.lost, it.wrong));
        for (server, lost, wrong) in figures.chain(costs) {
            if lost + wrong > 0 {
                return Err(Error::Wrong(format!(
                    "{server}: {lost} messages were lost, {wrong} are not what was written"
                )));
            }
        }
        Ok(())
    }
}

impl ServiceArgs {
    /// The options with `--quick` applied, checked.
    fn settled(&self) -> Result<ServiceArgs, Error> {
        let mut args = self.clone();
        if args.quick {
            args.rate = args.rate.min(QUICK_RATE);
            args.seconds = args.seconds.min(QUICK_SECONDS);
            args.prefill = args.prefill.min(QUICK_PREFILL);
            args.rounds = args.rounds.min(QUICK_ROUNDS);
            args.round_seconds = args.round_seconds.min(QUICK_ROUND_SECONDS);
        }
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        if args.rate == 0 || args.seconds == 0 || args.ttl_s == 0 {
            return usage("--rate, --seconds and --ttl-s are at least 1");
        }
        if !(1..=CONNECTIONS_MAX).contains(&args.connections) {
            return usage("--connections is 1 to 10000");
        }
        if !(0.0..=1.0).contains(&args.read_back_share) {
            return usage("--read-back-share is 0 to 1");
        }
        args.cpus = args.cpus.settled();
        Ok(args)
    }

    /// How its servers are asked: one request at a time on each connection.
    fn drive(&self, server: &Server, limit: Limit) -> Drive {
        Drive {
            cpus: vec![self.cpus.load_cpu],
            server_pid: Some(server.pid()),
            is_sleepless: true,
            ..Drive::new(Wire::Http, server.address(), self.connections, limit)
        }
    }

    /// Messages that live at once at the end of the load, if nothing is evicted.
    fn live_messages(&self) -> u64 {
        self.prefill + self.rate.div_ceil(2) * self.seconds.min(u64::from(self.ttl_s))
    }

    /// The memory for so many messages.
    fn memory_mib(&self, messages: u64) -> u64 {
        let entry_bytes = self.message_bytes.high as u64 + ENTRY_EXTRA_BYTES;
        let enough = ((messages * entry_bytes) >> 20).max(MEMORY_MIB_MIN);
        self.memory_mib.unwrap_or(enough)
    }
}

const CONNECTIONS_MAX: usize = 10_000;
