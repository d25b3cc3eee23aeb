//! The `cellar-bench` program: a subcommand for each measurement, and some tools.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use cellar_bench::fresh::{self, FootprintArgs};
use cellar_bench::load::{self, LoadArgs};
use cellar_bench::machine::{self, SettingArgs};
use cellar_bench::pages::{self, PagesArgs};
use cellar_bench::parts::{self, KeepArgs, PARTS, Part, PartsArgs, REPLAY};
use cellar_load::{EchoArgs, Error, echo};
use clap::CommandFactory;
use clap::{FromArgMatches, Parser, Subcommand};

/// Load generator and measurements for cache servers
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Puts a server under load and reports throughput, latency and server CPU per request
    Load(Box<LoadArgs>),
    /// A server that does no work: the floor under every other server's CPU per request
    Echo(EchoArgs),
    /// By how many bytes this process grows when it fills one cache
    #[command(subcommand, hide = true)]
    Footprint(FootprintArgs),
    /// The parts of `make bench`, and which of them this commit still lacks
    Parts(PartsArgs),
    /// Makes a new raw result the one of its part, with the two runs before it
    Keep(KeepArgs),
    /// Writes docs/benchmarks from the raw results, or checks that it agrees with them
    Pages(PagesArgs),
    /// This machine, date and commit as JSON, for a measurement in another program
    Setting(SettingArgs),
}

/// Exit code for options that make no sense, the same as for those that cannot be read.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let parts = || PARTS.iter().chain([REPLAY]);
    let commands = parts().filter_map(Part::command);
    let matches = CommandLine::command().subcommands(commands).get_matches();
    let chosen = matches.subcommand();
    let chosen =
        chosen.and_then(|(name, options)| Some((parts().find(|it| it.name == name)?, options)));
    let result = match chosen {
        Some((part, options)) => part.run(options),
        None => match CommandLine::from_arg_matches(&matches)
            .unwrap_or_else(|error| error.exit())
            .tool
        {
            Tool::Load(args) => load::command(&args),
            Tool::Echo(args) => echo::serve(&args),
            Tool::Footprint(args) => fresh::command(&args),
            Tool::Parts(args) => parts::command(&args),
            Tool::Keep(args) => parts::keep(&args),
            Tool::Pages(args) => pages::command(&args),
            Tool::Setting(args) => machine::command(&args),
        },
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
