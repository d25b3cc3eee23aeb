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

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use self::footprint::EntryFootprint;
pub(crate) use self::footprint::growth_bytes_of;
use self::ratio::Ratio;
use self::speed::Speed;
pub(crate) use self::subject::CacheName;
use crate::measurement::Measurement;
use cellar_load::error::Error;
use cellar_load::quantity::parse_count;

const QUICK_ENTRIES: u64 = 50_000;
const QUICK_OPERATIONS: usize = 200_000;

/// Options of `cellar-bench near`.
#[derive(Args, Clone, Debug)]
pub(crate) struct NearArgs {
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
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct NearOutcome {
    entries: u64,
    zipf: f64,
    operations_per_thread: usize,
    rounds: usize,
    speeds: Vec<Speed>,
    footprints: Vec<EntryFootprint>,
    ratios: Vec<Ratio>,
}

impl Measurement for NearArgs {
    type Outcome = NearOutcome;

    fn measure(&self) -> Result<NearOutcome, Error> {
        let mut args = self.clone();
        if args.quick {
            args.rounds = 1;
            args.entries = args.entries.min(QUICK_ENTRIES);
            args.operations = args.operations.min(QUICK_OPERATIONS);
        }
        let most = *args.threads.iter().max().unwrap_or(&0);
        if args.entries == 0 || args.rounds == 0 || most == 0 {
            let what = "--entries, --rounds and --threads are at least 1";
            return Err(Error::Usage(what.to_owned()));
        }
        Ok(NearOutcome {
            entries: args.entries,
            zipf: args.zipf,
            operations_per_thread: args.operations,
            rounds: args.rounds,
            footprints: footprint::all(args.entries)?,
            speeds: speed::all(&args)?,
            ratios: ratio::all(&args.traces, &args.percents)?,
        })
    }
}
