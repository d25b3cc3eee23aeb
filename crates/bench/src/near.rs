//! `cellar-bench near`: the near cache's local store beside other caches in the same process.
//!
//! Hits on one thread and on more, keys by Zipf drawn beforehand, all keys there: the caches take
//! turns in each round and hold the same values, so that a difference is the caches' own. Bytes for
//! each entry, each cache alone in a fresh process. Hits and misses on traces, bounded by entries:
//! a get that misses is followed by an insert.

mod subject;
mod speed;
mod footprint;
mod ratio;
mod report;

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use self::footprint::Footprint;
use self::ratio::Ratio;
use self::speed::Speed;
use self::subject::Name;
use crate::error::Error;
use crate::machine::Setting;
use crate::output::FileArgs;
use crate::page::Page;
use crate::quantity::parse_count;

const QUICK_ENTRIES: u64 = 50_000;
const QUICK_OPERATIONS: usize = 200_000;

/// Options of `cellar-bench near`.
#[derive(Args, Clone, Debug)]
pub struct NearArgs {
    /// Traces for the hit ratios: CSV as for replay
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Entries of the speed and memory rows
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    entries: u64,
    /// Popularity of the keys: the exponent of Zipf's law
    #[arg(long, default_value_t = 0.99)]
    zipf: f64,
    /// Reads of each thread in each round
    #[arg(long, default_value_t = 4_000_000)]
    operations: usize,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Sizes for the traces, in percent of their different keys
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,25")]
    percents: Vec<f64>,
    /// One round over 50 k entries: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
    /// Only fills this cache and prints how the memory of the process grew, in bytes
    #[arg(long, value_name = "NAME", hide = true)]
    footprint: Option<Name>,
    #[command(flatten)]
    output: FileArgs,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Deserialize, Serialize)]
struct Outcome {
    setting: Setting,
    entries: u64,
    zipf: f64,
    operations_per_thread: usize,
    rounds: usize,
    speeds: Vec<Speed>,
    footprints: Vec<Footprint>,
    ratios: Vec<Ratio>,
}

/// Runs the measurement and prints its tables.
///
/// # Errors
/// [`Error`] if a cache loses entries, a trace cannot be read or the process cannot start itself.
pub fn command(args: &NearArgs) -> Result<(), Error> {
    let mut args = args.clone();
    if args.quick {
        args.rounds = 1;
        args.entries = args.entries.min(QUICK_ENTRIES);
        args.operations = args.operations.min(QUICK_OPERATIONS);
    }
    if let Some(name) = args.footprint {
        return footprint::print(name, args.entries);
    }
    let most = *args.threads.iter().max().unwrap_or(&0);
    if args.entries == 0 || args.rounds == 0 || most == 0 {
        let what = "--entries, --rounds and --threads are at least 1";
        return Err(Error::Usage(what.to_owned()));
    }
    let outcome = Outcome {
        setting: Setting::here(),
        entries: args.entries,
        zipf: args.zipf,
        operations_per_thread: args.operations,
        rounds: args.rounds,
        footprints: footprint::all(args.entries)?,
        speeds: speed::all(&args)?,
        ratios: ratio::all(&args.traces, &args.percents)?,
    };
    print!("{}", report::render(&outcome));
    args.output.write(&outcome, || report::page(&outcome))
}

/// The page of an outcome that was stored as JSON.
///
/// # Errors
/// [`Error::Wrong`] if it is none.
pub fn stored_page(json: &str) -> Result<Page, Error> {
    Page::stored(json, report::page)
}
