//! `cellar-bench service`: a cache service over HTTP at a fixed rate, as BigCache was made for.
//!
//! JSON messages are posted and read by id, half and half, so many per second whatever the server
//! does, over several of their lifetimes, so that in the end as many expire as are written. Every
//! content that is read is compared with what was written; a good part of the reads asks for the
//! message that was acknowledged last. Round by round servers are measured one after the other:
//! Cellar, BigCache behind net/http and behind fasthttp, a plain map, and a floor that answers
//! without looking at the request.
//!
//! What a request over HTTP costs in a closed loop is a matter of `compare`.

mod message;
mod board;
mod found;
mod asking;
mod paced;

use clap::builder::RangedU64ValueParser as Range;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::peers::{CellarArgs, CpuArgs};
use cellar_load::{ByteRange, Error, parse_count, parse_seconds};
use message::Messages;

/// What an entry may take beside its message, in memory that a server is given.
const ENTRY_EXTRA_BYTES: u64 = 140;
/// Memory that a server is given at least, in MiB.
const MEMORY_MIB_MIN: u64 = 128;

/// A server that can take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Participant {
    Cellar,
    /// BigCache behind net/http
    Net,
    /// BigCache behind fasthttp
    Fast,
    /// A Go map with a lock behind fasthttp
    Map,
    /// A server that does no work
    Floor,
}

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
    /// Servers that take part, in this order
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cellar,net,fast,map,floor"
    )]
    #[serde(skip)]
    servers: Vec<Participant>,
    /// Requests per second, half of them writes
    #[arg(long, value_name = "PER_S", default_value = "10k", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "2k"))]
    #[serde(rename = "rate_per_s")]
    rate: u64,
    /// How long messages are kept; the source kept them for 10m
    #[arg(long = "life", value_name = "TIME", default_value = "20s", value_parser = parse_seconds)]
    #[arg(default_value_if("quick", "true", "1s"))]
    life_s: u64,
    /// Lifetimes that the load of a server takes; the source's took 3.5
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    lives: f64,
    /// Rounds of the load, each on fresh servers; the median counts
    #[arg(long, default_value_t = 5)]
    #[arg(default_value_if("quick", "true", "2"))]
    rounds: usize,
    /// Length of the messages as JSON: N or LOW..HIGH
    #[arg(long, default_value = "350..500")]
    #[serde(skip)]
    message_bytes: ByteRange,
    /// Connections, which stay open
    #[arg(long, default_value_t = 64, value_parser = Range::<usize>::new().range(1..=10_000))]
    connections: usize,
    /// Memory of each server in MiB [default: enough for all messages that live at once]
    #[arg(long)]
    memory_mib: Option<u64>,
    #[command(flatten)]
    #[serde(skip)]
    cpus: CpuArgs,
}

impl Measurement for ServiceArgs {
    fn measure(&self) -> Result<Value, Error> {
        self.check()?;
        let messages = Messages::new(self.message_bytes)?;
        Ok(json!({
            "message_bytes_min": self.message_bytes.low,
            "message_bytes_max": self.message_bytes.high,
            "servers": paced::measure(self, messages)?,
        }))
    }

    fn check(figures: &Value) -> Result<(), Error> {
        for it in figures["servers"].as_array().into_iter().flatten() {
            let [lost, wrong] = ["lost", "wrong"].map(|name| it[name].as_u64().unwrap_or(0));
            if lost + wrong > 0 {
                let what = format!("{lost} messages were lost, {wrong} are not what was written");
                return Err(Error::Wrong(format!("{}: {what}", it["server"])));
            }
        }
        Ok(())
    }
}

impl ServiceArgs {
    fn check(&self) -> Result<(), Error> {
        if self.rate == 0 || self.rounds == 0 || self.seconds() == 0 {
            let what = "--rate, --rounds and --life times --lives are at least 1";
            return Err(Error::Usage(what.to_owned()));
        }
        Ok(())
    }

    /// Seconds of load for each server.
    fn seconds(&self) -> u64 {
        (self.life_s as f64 * self.lives).round() as u64
    }

    /// Messages that live at once at the end of the load, if nothing is evicted.
    fn live_messages(&self) -> u64 {
        self.rate.div_ceil(2) * self.seconds().min(self.life_s)
    }

    /// The memory for all messages that live at once.
    fn memory_mib(&self) -> u64 {
        let entry_bytes = self.message_bytes.high as u64 + ENTRY_EXTRA_BYTES;
        let enough = ((self.live_messages() * entry_bytes) >> 20).max(MEMORY_MIB_MIN);
        self.memory_mib.unwrap_or(enough)
    }
}
