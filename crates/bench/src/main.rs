//! The `cellar-bench` program: one subcommand per measurement.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use cellar_bench::compare::{self, CompareArgs};
use cellar_bench::echo::{self, EchoArgs};
use cellar_bench::engine::{self, EngineArgs};
use cellar_bench::error::Error;
use cellar_bench::expiry::{self, ExpiryArgs};
use cellar_bench::growth::{self, GrowthArgs};
use cellar_bench::load::options::{self, LoadArgs};
use cellar_bench::machine::{self, SettingArgs};
use cellar_bench::memory::{self, MemoryArgs};
use cellar_bench::near::{self, NearArgs};
use cellar_bench::pages::{self, PagesArgs};
use cellar_bench::parts::{self, PartsArgs};
use cellar_bench::replay::contest::{self, ContestArgs};
use cellar_bench::replay::{self, ReplayArgs};
use cellar_bench::reproduce::{self, ReproduceArgs};
use cellar_bench::service::{self, ServiceArgs};
use clap::{Parser, Subcommand};

/// Load generator and measurements for cache servers
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Puts a server under load and reports throughput, latency and server CPU per request
    Load(Box<LoadArgs>),
    /// A server that does no work: the floor under every other server's CPU per request
    Echo(EchoArgs),
    /// Cellar, memcached and the echo floor under the same load, alternating: make compare
    Compare(Box<CompareArgs>),
    /// The engine in process: gets, batches and sets per second, bytes per item
    Engine(EngineArgs),
    /// Replays traces through the engine in process, beside other policies in the same bytes
    Replay(Box<ReplayArgs>),
    /// The same traces against Cellar, memcached and redis-server in the same resident memory
    Contest(ContestArgs),
    /// What servers occupy beside their memory, and how much of it is data
    Memory(Box<MemoryArgs>),
    /// Inserts into a cache that grows, each timed: does growth make any of them slow?
    Growth(GrowthArgs),
    /// Items that expire in the same second: who holds their memory, and who notices?
    Expiry(Box<ExpiryArgs>),
    /// JSON messages over HTTP at a fixed rate, against BigCache: mean, tail and cost of a request
    Service(Box<ServiceArgs>),
    /// The near cache's local store in process, beside other caches: speed, memory, hit ratios
    Near(Box<NearArgs>),
    /// The measurements of the sources that Cellar answers, made again
    Reproduce(ReproduceArgs),
    /// The parts of `make bench`, and which of them this commit still lacks
    Parts(PartsArgs),
    /// Writes docs/benchmarks from the raw results, or checks that it agrees with them
    Pages(PagesArgs),
    /// This machine, date and commit as JSON, for a measurement in another program
    Setting(SettingArgs),
}

/// Exit code for options that make no sense, the same as for those that cannot be read.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Load(args) => options::command(&args),
        Command::Echo(args) => echo::serve(&args),
        Command::Compare(args) => compare::command(&args),
        Command::Engine(args) => engine::command(&args),
        Command::Replay(args) => replay::command(&args),
        Command::Contest(args) => contest::command(&args),
        Command::Memory(args) => memory::command(&args),
        Command::Growth(args) => growth::command(&args),
        Command::Expiry(args) => expiry::command(&args),
        Command::Service(args) => service::command(&args),
        Command::Near(args) => near::command(&args),
        Command::Reproduce(args) => reproduce::command(&args),
        Command::Parts(args) => parts::command(&args),
        Command::Pages(args) => pages::command(&args),
        Command::Setting(args) => machine::command(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cellar-bench: {error}");
            match error {
                Error::Usage(_) => ExitCode::from(EXIT_USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
